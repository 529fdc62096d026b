// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/telemetry.hpp>
#include <tessera/sim/error.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <string_view>

/// @file
/// How the instances of a cluster are divided where prompts and answers are computed apart.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// How the instances are divided at the start, in this order: prefill, decode, mixed.
struct pool_sizes {
  std::size_t prefill = 4;  ///< Workers that only prefill.
  std::size_t decode = 4;   ///< Workers that only decode.
  std::size_t mixed = 0;    ///< Workers that do either, as the policy says.

  /// The pool of instance `i`: those that prefill come first, then those that decode.
  [[nodiscard]] constexpr control::role role_of(std::size_t i) const noexcept {
    if (i < prefill) return control::role::prefill;
    return i < prefill + decode ? control::role::decode : control::role::mixed;
  }
  /// How many there are.
  [[nodiscard]] constexpr std::size_t instances() const noexcept { return prefill + decode + mixed; }
  /// Memberwise.
  friend constexpr bool operator==(const pool_sizes&, const pool_sizes&) = default;
};

/// Reads `P/D` or `P/D/M`: at least one to prefill and one to decode, `instances` in all. @throws usage_error
[[nodiscard]] inline pool_sizes parse_pools(std::string_view text, std::size_t instances) {
  pool_sizes p{.prefill = 0, .decode = 0, .mixed = 0};
  std::string_view rest = text;
  bool good = true;
  for (std::size_t* const to : {&p.prefill, &p.decode, &p.mixed}) {
    const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), *to);
    good = good && failure == std::errc{} && *to <= instances;
    if (!good) break;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (to == &p.decode && rest.empty()) break;
    if (to == &p.mixed) break;
    good = !rest.empty() && rest.front() == '/';
    if (!good) break;
    rest.remove_prefix(1);
  }
  if (!good || !rest.empty() || p.prefill == 0 || p.decode == 0 || p.instances() != instances) {
    throw usage_error{fmt::format(
        "the pools {} are not PREFILL/DECODE or PREFILL/DECODE/MIXED of {} instances, at least one each to prefill and "
        "to decode",
        shown(text), instances)};
  }
  return p;
}

}  // namespace sim
TESSERA_NAMESPACE_END
