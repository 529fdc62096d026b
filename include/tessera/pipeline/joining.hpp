// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/status.hpp>
#include <tessera/gate/concepts.hpp>
#include <tessera/pipeline/roster.hpp>

#include <cstddef>

/// @file
/// What is asked of a request before it joins an instance, and before its KV is expected from elsewhere.

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Whether a sequence of this length with `to_come` more tokens to generate can run where the `longest` has so many.
[[nodiscard]] constexpr bool fits(tokens longest, tokens length, tokens to_come) noexcept {
  // The last token generated needs no KV, hence the - 1.
  return length <= longest && max(to_come, tokens{1}) - tokens{1} <= longest - length;
}

/// Whether a request with this progress may wait here, among at most `most` others: `accepted`, or why not.
template <class Roster, class Request, class Progress>
[[nodiscard]] status may_join(const Roster& all, const Request& r, const Progress& p, tokens longest,
                              std::size_t most) noexcept {
  if (is_live(r.state().life) || static_cast<const rank_hook&>(r).is_linked()) return status::busy;
  if (r.prompt < tokens{1} || r.max_output < tokens{0} || p.length < r.prompt) return status::invalid;
  if (p.computed < tokens{0} || p.computed >= p.length) return status::invalid;
  if (p.reasoning < tokens{0} || p.reasoning > p.length - r.prompt) return status::invalid;
  if (!is_known_to(all.gate, r)) return status::invalid;
  const tokens to_come = max(r.max_output - (p.length - r.prompt), tokens{0});
  if (!fits(longest, p.length, to_come)) return status::never_fits;
  if (all.kv.names_too_much(r, p.length)) return status::invalid;
  if (all.waiting.size() + all.parked.size() >= most) return status::queue_full;
  return status::accepted;
}

/// Whether the KV of a request's first `n` tokens can be announced: it waits, and no plan decides its length.
template <class Roster, class Request>
[[nodiscard]] status may_expect(const Roster& all, const Request& r, tokens n, bool is_starting) noexcept {
  const auto& s = r.state();
  if (s.life != lifecycle::waiting || !all.contains(r)) return status::unknown_request;
  if (is_starting || s.expected != 0) return status::busy;
  if (n < tokens{} || n >= s.length || s.host_head != no_index) return status::invalid;
  return status::ok;
}

}  // namespace detail
TESSERA_NAMESPACE_END
