// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/pipeline/step.hpp>
#include <tessera/preempt/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The loss of evicting the resident at `at`.
template <class Planning>
[[nodiscard]] double loss_of(const Planning& p, std::size_t at) noexcept {
  const auto& kv = p.roster.kv;
  const typename Planning::request& r = *p.roster.residents[at];
  victim_view v{.frees = blocks{kv.exclusive(r)}, .block_size = kv.block_size()};
  v.shared = max(kv.held(r) - v.frees, blocks{});
  v.to_copy = max(kv.written(r) - v.shared, blocks{});
  v.host_free = blocks{static_cast<std::int64_t>(kv.host().free())};
  return p.config.preempt.loss(r, v);
}

/// If the policy chooses: moves the next victim behind the other kept residents, which close up in their order.
/// Backfilled requests are evicted first. A request that recomputes lost KV is not chosen. O(window), and a move of as
/// many pointers.
template <class Planning>
void choose_victim(Planning& p) noexcept {
  if constexpr (preemption_chooses<typename Planning::preempt>) {
    auto& residents = p.roster.residents;
    const std::size_t last = p.step.kept - 1;
    if (p.step.kept != p.ordinary() || residents[last]->state().restarted) return;
    const auto window = static_cast<std::size_t>(p.config.preempt.window);
    std::size_t chosen = last;
    double least = loss_of(p, last);
    for (std::size_t i = last; i-- > p.step.next && last - i < window;) {
      const typename Planning::request& r = *residents[i];
      // Earlier residents are not looked at: nearly always they would displace the last one as well.
      if (r.state().restarted || p.roster.discipline().displaces(r, *residents[last])) break;
      const double lost = loss_of(p, i);
      if (lost < least) least = lost, chosen = i;
    }
    residents.move_back(chosen, last);
  } else {
    static_cast<void>(p);
  }
}

/// Whether a waiting request ranks before all victims.
template <class Planning>
[[nodiscard]] bool ranks_before_victims(const Planning& p, const typename Planning::request& r) noexcept {
  const auto& residents = p.roster.residents;
  const std::size_t end = preemption_chooses<typename Planning::preempt> || p.step.kept == residents.size()
                              ? residents.size()
                              : p.step.kept + 1;  // the other victims rank behind that one
  for (std::size_t i = p.step.kept; i != end; ++i) {
    if (!p.roster.discipline().before(r, *residents[i])) return false;
  }
  return true;
}

/// Undoes all changes since `mark`: victims return to their places.
template <class Planning>
void roll_back(Planning& p, std::size_t mark) noexcept {
  p.step.kept = p.roster.residents.take_back(p.step.kept, p.roster.kv.roll_back(mark));
}

/// Evicts the lowest-ranked resident that is kept, or the one among the last that the policy chooses, for `taker`. A
/// backfilled request is not swapped: the host tier stays as it would be without backfill.
template <class Planning>
void evict_last(Planning& p, const typename Planning::request& taker) noexcept {
  choose_victim(p);
  auto& r = *p.roster.residents[--p.step.kept];
  const std::size_t kept = p.roster.kv.kept_by_others(r);
  const blocks to_copy = p.roster.kv.written(r) - blocks{static_cast<std::int64_t>(kept)};
  const preemption_mode mode = r.state().backfilled ? preemption_mode::recompute : p.config.preempt.mode(r, to_copy);
  p.roster.kv.evict(r, mode, kept, p.step.mark());
  p.step.moves.victims.back().for_whom = &taker;
}

/// Makes `now` blocks free for `taker` by evicting residents, from the lowest-ranked up, at least `at_least` of those
/// with a turn to come. `in_all` must be possible, `now <= in_all`. Either they suffice, or none is evicted. Returns a
/// lower bound of the lacking blocks: 0 if it is done.
///
/// Whether they suffice is estimated from the blocks that each holds alone and the blocks that several share,
/// O(residents behind). Blocks shared with a request that stays do not become free. If that decides, only a trial
/// tells, O(blocks held).
template <class Planning>
[[nodiscard]] blocks make_free(Planning& p, const typename Planning::request& taker, blocks now, std::size_t at_least,
                               blocks in_all) noexcept {
  auto& kv = p.roster.kv;
  auto& step = p.step;
  if (at_least == 0 && p.free() >= in_all) return blocks{};
  if (in_all > step.obtainable) return in_all - step.obtainable;
  blocks most = p.free();
  for (std::size_t i = step.kept; i > step.next && most < in_all; --i) {
    most += blocks{kv.exclusive(*p.roster.residents[i - 1])};
  }
  const bool certain = most >= in_all && kv.own().is_exact();
  if (!certain) {
    most += blocks{static_cast<std::int64_t>(kv.own().shared())};
    if (most < in_all) return in_all - most;
  }

  const std::size_t before = kv.mark();
  const std::size_t keep = step.kept - at_least;
  std::size_t enough = kv.mark();
  bool has_enough = p.free() >= now && step.kept <= keep;
  while (step.kept > step.next && !(has_enough && (certain || p.free() >= in_all))) {
    evict_last(p, taker);
    if (!has_enough) {
      enough = kv.mark();
      has_enough = p.free() >= now && step.kept <= keep;
    }
  }
  const blocks lacking = certain ? blocks{} : in_all - p.free();
  roll_back(p, has_enough && lacking <= blocks{} ? enough : before);
  return max(has_enough ? lacking : max(lacking, blocks{1}), blocks{});
}

/// For a request that is not backfilled, blocks of backfilled ones are as good as free. Evicts them until `wanted`
/// blocks are free, or until none is left with blocks of its own.
template <class Planning>
void send_guests_away(Planning& p, const typename Planning::request& r, blocks wanted) noexcept {
  if (r.state().backfilled) return;
  auto& kv = p.roster.kv;
  std::size_t useful = kv.mark();
  while (p.free() < wanted && p.step.kept > p.ordinary()) {
    const blocks before = p.free();
    evict_last(p, r);
    if (p.free() > before) useful = kv.mark();
  }
  roll_back(p, useful);
}

}  // namespace detail
TESSERA_NAMESPACE_END
