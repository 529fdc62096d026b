// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/telemetry.hpp>
#include <tessera/fleet/report.hpp>
#include <tessera/placement/concepts.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

/// @file
/// What placement policies are shown of replicas.

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// Longer than any KV, in blocks.
inline constexpr blocks endless{std::numeric_limits<std::int64_t>::max()};

/// A replica as a router sees it: other routers' requests by its last report, its own by its book, as they are now. A
/// request that moves counts only at its destination.
struct view {
  std::uint64_t id = 0;           ///< Which replica.
  std::size_t requests = 0;       ///< Live requests.
  blocks kv_held{};               ///< Blocks that the requests hold, on device and host; a shared block counts once.
  blocks waiting_blocks{};        ///< What they need besides; the router's own need their prompt until the first token.
  blocks free_blocks{};           ///< As reported, less what the router's own requests need more since.
  blocks free_after_queue{};      ///< Free blocks less those that its queue waits for; negative: it waits for more.
  blocks capacity{};              ///< KV blocks of the replica.
  double phi = 1;                 ///< Phi_T of a prefill replica, Phi_S of any other; what waits counts as used.
  double time_phi = 1;            ///< Phi_T of any replica that joined with a budget, also of one that decodes as well.
  blocks from{};                  ///< The replica serves requests with KV of at least this many blocks,
  blocks to = endless;            ///< and fewer than this.
  std::size_t reasoning = 0;      ///< PASCAL's r_i; a router does not know which were demoted, and counts them.
  std::size_t fresh_answers = 0;  ///< PASCAL's a_i.
  bool slo_met = true;            ///< PASCAL's t_i, as reported.
  control::role role = control::role::mixed;  ///< What it does.
  /// Live requests without blocks on the device, as far as is known: the router's own without a first token.
  std::size_t queued = 0;
  double prefill_backlog =
      0;             ///< FLOPs of prompts that are left to compute, if the replica joined with what a prompt costs.
  double error = 0;  ///< By how much `phi` may be wrong, see `placement::least_prefill_backlog`.
  double reported_s = -std::numeric_limits<double>::infinity();  ///< When it last reported; minus infinity: never.
  // What the replica has of the request at hand, for policies with a member `reads_prefixes`:
  tokens cached_tokens{};        ///< Tokens of the prompt that it would not compute.
  tokens new_prefill_tokens{};   ///< Those that it would.
  std::uint64_t prefix_key = 0;  ///< A hash of how the prompt begins.
};

/// The replicas that may be chosen: all that take requests.
struct everyone {
  /// Yes.
  [[nodiscard]] constexpr bool operator()(const view&) const noexcept { return true; }
};

/// What a request has in the prefix caches of replicas, which a placement policy that reads prefixes sees in the views.
/// @tparam Cached from a `replica_id` to the tokens that it has of the prompt: from KV events, say.
template <class Cached>
struct prefix {
  tokens prompt{};               ///< Length of the prompt.
  std::uint64_t prefix_key = 0;  ///< A hash of how it begins.
  Cached cached;                 ///< How many leading tokens a replica has the KV of.
};

/// Some of the replicas, as a placement policy takes them. @tparam Prefix `void`, or a `prefix`.
template <class Prefix = void>
class candidates {
 public:
  /// The replicas `ids[0]` to `ids[size - 1]`.
  constexpr candidates(const view* views, const replica_id* ids, std::size_t size, const Prefix& p) noexcept
      : views_{views}, ids_{ids}, size_{size}, prefix_{&p} {}
  /// The i-th. Calls `cached`; it counts up to the length of the prompt.
  [[nodiscard]] constexpr view operator[](std::size_t i) const noexcept {
    const tokens cached = min(max(tokens{prefix_->cached(ids_[i])}, tokens{}), prefix_->prompt);
    view v = views_[ids_[i]];
    v.cached_tokens = cached;
    v.new_prefill_tokens = prefix_->prompt - cached;
    v.prefix_key = prefix_->prefix_key;
    return v;
  }
  /// How many there are.
  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }

 private:
  const view* views_;
  const replica_id* ids_;
  std::size_t size_;
  const Prefix* prefix_;
};
/// For a request of which only its load matters.
template <>
class candidates<void> {
 public:
  /// The replicas `ids[0]` to `ids[size - 1]`.
  constexpr candidates(const view* views, const replica_id* ids, std::size_t size) noexcept
      : views_{views}, ids_{ids}, size_{size} {}
  /// The i-th.
  [[nodiscard]] constexpr const view& operator[](std::size_t i) const noexcept { return views_[ids_[i]]; }
  /// How many there are.
  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }

 private:
  const view* views_;
  const replica_id* ids_;
  std::size_t size_;
};

/// A placement policy over a fleet's views: from candidates to an index, or `placement::nowhere`.
/// Requires: (1) `p(candidates) noexcept -> std::size_t`; (2) it is copied: further choices are a copy's, so that a
/// request takes one turn however many choices it is given. Optional: (3) `p.rank(candidates, std::span<replica_id>
/// best) noexcept -> std::size_t`: writes the indices of the best in order and returns how many there are. Then further
/// choices cost no further pass. (4) a true constant `reads_prefixes`: then it is not asked without a `prefix`.
template <class P, class Prefix = void>
concept placement_policy = std::copyable<P> && !(std::same_as<Prefix, void> && placement::prefix_reader<P>)&&requires(
                                                   P& p, const candidates<Prefix>& c) {
  { p(c) } noexcept -> std::same_as<std::size_t>;
};

/// Where a request that runs could go on: what a migration policy is shown.
struct destinations {
  candidates<> replicas;  ///< The one where it is, and those that can take it.
  std::size_t here;       ///< The place of the former among them.
  blocks grows;           ///< Blocks that it takes next where it is.
  blocks moves;           ///< Blocks that it needs elsewhere.
};

/// A migration policy over a fleet's views, as those in placement/. It is given the candidates, and the index of the
/// replica where the request is. It is also given the blocks that the request takes next there, and those that it needs
/// elsewhere. It returns the index of the replica where the request goes on.
template <class P>
concept migration_policy = requires(P& p, const candidates<>& c, std::size_t current, blocks grows, blocks moves) {
  { p(c, current, grows, moves) } noexcept -> std::same_as<std::size_t>;
};

}  // namespace fleet
TESSERA_NAMESPACE_END
