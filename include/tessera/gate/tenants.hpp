// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/units.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

/// @file
/// What gates that share an instance among tenants have in common.

TESSERA_NAMESPACE_BEGIN
namespace gate::detail {

/// A weight of 1 for each.
template <std::size_t Tenants>
[[nodiscard]] constexpr std::array<std::int64_t, Tenants> equal_weights() noexcept {
  std::array<std::int64_t, Tenants> all{};
  for (std::int64_t& w : all) w = 1;
  return all;
}

/// Whose it is. Requires a member `tenant` below `Tenants` (asserted).
template <std::size_t Tenants, class R>
[[nodiscard]] constexpr std::size_t tenant_of(const R& r) noexcept {
  const auto tenant = static_cast<std::size_t>(r.tenant);
  TESSERA_ASSERT(tenant < Tenants, "more tenants than there is room for");
  return tenant < Tenants ? tenant : Tenants - 1;
}

/// Whether its prompt is still to be charged: one that was preempted has paid for it, and for a fork its parent has.
template <class R>
[[nodiscard]] constexpr bool owes_its_prompt(const R& r) noexcept {
  return r.state().preemptions == 0 && !r.state().forked && r.generated() == tokens{};
}

}  // namespace gate::detail
TESSERA_NAMESPACE_END
