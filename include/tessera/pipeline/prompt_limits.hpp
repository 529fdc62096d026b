// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gate/concepts.hpp>

/// @file
/// Steps of prompts, and a gate that bounds them. For other gates all of this is nothing.

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Whether the gate bounds a step of the request that begins at `first`.
template <class Gate, class Request>
[[nodiscard]] constexpr bool is_bounded(const Request& r, tokens first) noexcept {
  if constexpr (gate_limits<Gate>) return first < r.prompt;
  static_cast<void>(r), static_cast<void>(first);
  return false;
}
/// The number of the `count` tokens from `first` on that the gate lets the request compute in the present plan.
template <class Gate, class Request>
[[nodiscard]] constexpr tokens allowed(const Gate& gate, const Request& r, tokens first, tokens count) noexcept {
  if constexpr (gate_limits<Gate>) {
    if (first < r.prompt && count > tokens{}) return gate.limit(r, first, count);
  }
  static_cast<void>(gate), static_cast<void>(r), static_cast<void>(first);
  return count;
}
/// The present plan computes these tokens.
template <class Gate, class Request>
constexpr void plans_prompt(Gate& gate, const Request& r, tokens first, tokens count) noexcept {
  if constexpr (gate_limits<Gate>) {
    if (first < r.prompt) gate.computes(r, first, count);
  }
  static_cast<void>(gate), static_cast<void>(r), static_cast<void>(first), static_cast<void>(count);
}
/// They will be run.
template <class Gate, class Request>
constexpr void runs_prompt(Gate& gate, const Request& r, tokens first, tokens count) noexcept {
  if constexpr (gate_limits<Gate>) {
    if (first < r.prompt) gate.runs(r, first, count);
  }
  static_cast<void>(gate), static_cast<void>(r), static_cast<void>(first), static_cast<void>(count);
}
/// They have been run, with a result.
template <class Gate, class Request>
constexpr void has_run_prompt(Gate& gate, const Request& r, tokens first, tokens count) noexcept {
  if constexpr (gate_limits<Gate>) {
    if (first < r.prompt) gate.has_run(r, first + count);
  }
  static_cast<void>(gate), static_cast<void>(r), static_cast<void>(first), static_cast<void>(count);
}

}  // namespace detail
TESSERA_NAMESPACE_END
