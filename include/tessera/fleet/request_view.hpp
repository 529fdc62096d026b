// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/fleet/report.hpp>
#include <tessera/request/state.hpp>

#include <cstdint>

/// @file
/// What a fleet's controller sees of a request.

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// A request as a router knows it. How long its answer will be is not here: no router knows that, only what is expected
/// and how far off that may be.
struct request_view {
  request_id id = no_request;        ///< Its name.
  tokens prompt{};                   ///< Tokens of the prompt.
  tokens generated{};                ///< Tokens generated, as far as was heard.
  tokens expected{};                 ///< Expected or promised length of the output; 0: nothing is known.
  tokens spread{};                   ///< Standard deviation of `expected`; 0: it is promised, or unknown.
  tokens limit{};                    ///< Most tokens that it may generate; 0: nothing is said.
  std::uint64_t prefix_key = 0;      ///< A hash of how the prompt begins; 0: it shares nothing.
  std::uint64_t session = 0;         ///< Requests with the same number follow each other; 0: it stands alone.
  std::uint32_t tenant = 0;          ///< The tenant that it belongs to.
  phase is = phase::answering;       ///< Whether it reasons now.
  bool calls_tools = false;          ///< It may end in a call of a tool, and its session goes on soon after.
  bool movable = true;               ///< Another replica would go on as the one that has it.
  replica_id where = no_replica;     ///< The replica that has it.
  replica_id moves_to = no_replica;  ///< The replica that it is on its way to.

  /// Tokens that it has.
  [[nodiscard]] constexpr tokens length() const noexcept { return prompt + generated; }
  /// Memberwise.
  friend constexpr bool operator==(const request_view&, const request_view&) noexcept = default;
};

}  // namespace fleet
TESSERA_NAMESPACE_END
