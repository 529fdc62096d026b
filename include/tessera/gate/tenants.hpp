// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/units.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

/// @file
/// The common part of gates that share an instance among tenants.

TESSERA_NAMESPACE_BEGIN
namespace gate::detail {

/// A weight of 1 for each.
template <std::size_t Tenants>
[[nodiscard]] constexpr std::array<std::int64_t, Tenants> equal_weights() noexcept {
  std::array<std::int64_t, Tenants> all{};
  for (std::int64_t& w : all) w = 1;
  return all;
}

/// So that products of two weights, and of a weight and a quantum, stay below 2^63.
inline constexpr std::int64_t most_weight = (std::int64_t{1} << 31) - 1;
/// So that the cost of a prompt stays far below 2^63.
inline constexpr std::int64_t most_cost = std::int64_t{1} << 20;

/// At least 1 each (asserted; else 1). If one exceeds `most_weight`, all are scaled down alike.
template <std::size_t Tenants>
constexpr void check_weights(std::array<std::int64_t, Tenants>& weights) noexcept {
  std::int64_t largest = 1;
  for (std::int64_t& w : weights) {
    TESSERA_ASSERT(w > 0, "a tenant's weight is at least 1");
    w = std::max<std::int64_t>(w, 1);
    largest = std::max(largest, w);
  }
  int shift = 0;
  while (largest >> shift > most_weight) ++shift;
  for (std::int64_t& w : weights) w = std::max<std::int64_t>(w >> shift, 1);
}
/// A parameter from `least` to `most` (asserted; else the nearest valid value is taken).
constexpr void check_between(std::int64_t& value, std::int64_t least, std::int64_t most) noexcept {
  TESSERA_ASSERT(least <= value && value <= most, "a parameter of a gate is out of range");
  value = std::clamp(value, least, most);
}

/// The request's tenant; `Tenants` if there is no such tenant.
template <std::size_t Tenants, class R>
[[nodiscard]] constexpr std::size_t tenant_of(const R& r) noexcept {
  const auto tenant = static_cast<std::size_t>(r.tenant);
  return tenant < Tenants ? tenant : Tenants;
}

/// Whether its prompt is still to be charged: a preempted request has paid for it, and a fork's parent has.
template <class R>
[[nodiscard]] constexpr bool owes_its_prompt(const R& r) noexcept {
  return r.state().preemptions == 0 && !r.state().forked && r.generated() == tokens{};
}

}  // namespace gate::detail
TESSERA_NAMESPACE_END
