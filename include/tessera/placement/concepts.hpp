// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

/// @file
/// What a placement policy sees of each instance: any range of any type with the members that the policy reads.
/// A view may be a struct of numbers that arrived by message. A policy needs no more members than it names.

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// "No instance": the answer for an empty range.
inline constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

/// A placement or migration policy that looks at the phases: it has a true constant `reads_phases`.
template <class P>
concept phase_reader = requires { requires P::reads_phases; };

/// A placement policy that looks at what is cached: it has a true constant `reads_prefixes`.
template <class P>
concept prefix_reader = requires { requires P::reads_prefixes; };

/// Instance views in a forward range that is indexable.
/// Requires: (1) `v[i]` and `v.size()`.
template <class V>
concept instance_views = requires(const V& v, std::size_t i) {
  v[i];
  { v.size() } -> std::convertible_to<std::size_t>;
};

/// The type of one view.
template <instance_views V>
using view_t = std::remove_cvref_t<decltype(std::declval<const V&>()[0])>;

/// `kv_held`: KV blocks that the instance's requests hold on device and host together (PASCAL's m_i). Requests on their
/// way to the instance count.
template <class View>
concept shows_kv_held = requires(const View& v) {
  { v.kv_held } -> std::convertible_to<blocks>;
};

/// `waiting_blocks`: KV blocks that requests on the instance need for their tokens and do not hold, on device or host.
/// They belong to waiting requests and to partly computed prompts.
template <class View>
concept shows_waiting_blocks = requires(const View& v) {
  { v.waiting_blocks } -> std::convertible_to<blocks>;
};

/// `requests`: live requests, those on their way included.
template <class View>
concept shows_requests = requires(const View& v) {
  { v.requests } -> std::convertible_to<std::size_t>;
};

/// `slo_met`: whether all answering requests meet their SLO by the token pacers (PASCAL's t_i).
template <class View>
concept shows_slo = requires(const View& v) {
  { v.slo_met } -> std::convertible_to<bool>;
};

/// `reasoning`: requests in the high-priority queue (PASCAL's r_i; a demoted one does not count). `fresh_answers`:
/// answering requests that have not used up their first quantum (a_i).
template <class View>
concept shows_phases = requires(const View& v) {
  { v.reasoning } -> std::convertible_to<std::size_t>;
  { v.fresh_answers } -> std::convertible_to<std::size_t>;
};

/// `free_blocks`: device blocks that could be allocated now.
template <class View>
concept shows_free_blocks = requires(const View& v) {
  { v.free_blocks } -> std::convertible_to<blocks>;
};

/// `cached_tokens`: leading tokens of the request to be placed that the instance has cached, and would not compute.
template <class View>
concept shows_cached = requires(const View& v) {
  { v.cached_tokens } -> std::convertible_to<tokens>;
};

/// `new_prefill_tokens`: tokens that the instance would compute for the request to be placed.
template <class View>
concept shows_new_prefill = requires(const View& v) {
  { v.new_prefill_tokens } -> std::convertible_to<tokens>;
};

/// `id`: identifies the instance, independent of its place in the range. `prefix_key`: a hash of the beginning of the
/// prompt to be placed, the same in all views.
template <class View>
concept shows_prefix_key = requires(const View& v) {
  { v.id } -> std::convertible_to<std::uint64_t>;
  { v.prefix_key } -> std::convertible_to<std::uint64_t>;
};

}  // namespace placement
TESSERA_NAMESPACE_END
