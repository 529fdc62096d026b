// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/units.hpp>

#include <concepts>
#include <cstdint>

/// @file
/// Live migration: the KV of a sequence is copied to another instance while it continues to decode, in rounds of fewer
/// and fewer blocks. Then it stops for the last few blocks (Phasor, appendix D; CascadeInfer, section 4.4, after
/// Llumnix).
///
/// With `iteration_scheduler` at both ends:
///
///     source.commit(plan, outcomes, now);      // the step after which `next` answered `stop`
///     source.suspend(r);                       // it keeps its blocks and takes part in no plan; the others go on
///     m.stopped(computed, transport) ...       // the last blocks are copied
///     trader.hand_over(id, now, port);         // when `next` answers `hand_over`: see migration/handover.hpp
///     target.adopt(r);                         // when the target is told that it owns it: `activate`
///     source.evacuate(r);                      // when the source is told that it is gone: `released`
///     source.resume(r);                        // or that it is not: `kept`
///
/// A source that is short of blocks may preempt a request while it is copied: its blocks are another's from the next
/// step on. If a plan's `preempted` lists it, call `abort()` before you run that plan's copies, and call the transfer
/// off. Do the same when it ends.
///
/// `evacuate` comes last because it frees the blocks. Before that, a target that refuses leaves the request where it
/// was, with its KV. So an abort costs nothing up to then. `suspend` and `resume` are called between two steps; a
/// caller that learns of them during a step calls them after it. In another process the target adopts a request of its
/// own with the source's `progress()`.
/// The plan of the target that starts the request lists it in `fetch`. Its KV is then moved from where it landed, on
/// the same device, to the blocks of the plan. examples/live_migration.cpp does all of this.

TESSERA_NAMESPACE_BEGIN
namespace migration {

/// Blocks [first, last) of one sequence, in sequence order.
struct block_range {
  blocks first{};  ///< The first.
  blocks last{};   ///< One past the last.

  /// Number of blocks.
  [[nodiscard]] constexpr blocks size() const noexcept { return last - first; }
  /// Memberwise.
  friend constexpr bool operator==(const block_range&, const block_range&) noexcept = default;
};

/// Carries KV from one instance to another. `t.copy(range)` starts to copy blocks to their places at the target and
/// returns; when all of them have arrived, the engine calls `copied`. It must not call back.
template <class T>
concept transport = requires(T& t, const block_range& range) {
  { t.copy(range) } noexcept;
};

/// The next action of the source.
enum class next : std::uint8_t {
  copying,    ///< A copy is in progress: continue to decode (unless stopped) until `copied` can be called.
  stop,       ///< Stop decoding this sequence, at the next step's end at the latest, and call `stopped`.
  hand_over,  ///< The target has everything: give the request away, or call `abort`.
  over,       ///< The migration has ended or has not begun.
};

/// The source's side of the copy: the blocks to send, and the moment to stop. Independent of ownership.
///
/// KV is append-only: a full block does not change any more. So a round has to send the blocks from the one that was
/// partly filled when the last round began.
///
///     begin -> [snapshot] -> [dirty blocks]* -> stop -> [last dirty blocks] -> hand_over
///
/// Decoding stops in one of four cases. At most `stop_below` blocks are dirty. A round had no fewer blocks to send than
/// the one before (decoding is as fast as the link). `most_rounds` are done. The target's room is nearly used up. In
/// the first case the downtime is that of sending `stop_below` + 1 blocks, whatever the sequence's length. (A step may
/// end between the decision and the stop.) The other cases bound the time of a migration.
///
/// Each call O(1). A value of a few words; no storage, no clock, no I/O.
class live_migration {
 public:
  /// When to stop the request, and how many rounds to make.
  struct config {
    tokens block_size{16};          ///< Tokens per block. Positive.
    blocks stop_below{2};           ///< Stop when no more blocks than this are dirty. Not negative.
    std::uint32_t most_rounds = 8;  ///< Rounds while decoding, the snapshot included. At least 1.
  };

  constexpr live_migration() noexcept = default;
  /// Not begun. Requires a positive block size, `stop_below >= 0` and at least one round (asserted).
  explicit constexpr live_migration(const config& c) noexcept : config_{c} {
    TESSERA_ASSERT(c.block_size > tokens{} && c.stop_below >= blocks{} && c.most_rounds >= 1, "impossible limits");
  }

  /// Begins with the snapshot. `computed`: tokens of the sequence that have KV. `room`: blocks reserved at the target.
  /// Returns `copying`; `over`, and does nothing, if the room is too small. Requires: no migration is in progress,
  /// `computed` is positive.
  template <transport T>
  [[nodiscard]] constexpr next begin(tokens computed, blocks room, T& t) noexcept {
    TESSERA_ASSERT(step_ == next::over, "a migration is under way");
    TESSERA_ASSERT(computed > tokens{}, "nothing to migrate");
    stopped_ = false;
    if (covering(computed) > room) return step_;
    room_ = room;
    rounds_ = 0;
    sent_ = tokens{};
    total_ = blocks{};
    downtime_ = blocks{};
    send(computed, t);
    return step_;
  }

  /// The latest copy has arrived. `computed`: tokens that have KV by now; it does not shrink. Requires: a copy is in
  /// progress.
  template <transport T>
  [[nodiscard]] constexpr next copied(tokens computed, T& t) noexcept {
    TESSERA_ASSERT(step_ == next::copying && computed >= sent_, "a copy of what there is has arrived");
    if (stopped_) return step_ = next::hand_over;
    const blocks dirty = dirty_at(computed).size();
    // Decoding continues during the next round: the growth of a round must fit.
    const bool cramped = covering(computed) + max(dirty, blocks{1}) > room_;
    if (dirty <= config_.stop_below || dirty >= last_round_ || rounds_ >= config_.most_rounds || cramped) {
      return step_ = next::stop;
    }
    send(computed, t);
    return step_;
  }

  /// Decoding has stopped, with `computed` tokens that have KV; it does not continue before the migration is over.
  /// Returns `copying` for the last time, or `hand_over` if nothing is dirty. Returns `over`, aborted, if it has
  /// outgrown the room: it must continue here. Requires: asked to `stop`.
  template <transport T>
  [[nodiscard]] constexpr next stopped(tokens computed, T& t) noexcept {
    TESSERA_ASSERT(step_ == next::stop && computed >= sent_, "asked to stop");
    stopped_ = true;
    if (covering(computed) > room_) return step_ = next::over;
    downtime_ = dirty_at(computed).size();
    if (downtime_ == blocks{}) return step_ = next::hand_over;
    send(computed, t);
    return step_;
  }

  /// The request has been given away.  Requires: told to `hand_over`.
  constexpr void handed_over() noexcept {
    TESSERA_ASSERT(step_ == next::hand_over, "all has arrived");
    step_ = next::over;
    stopped_ = false;
  }

  /// Ends the migration at any moment before `handed_over`: the source still has everything. A copy in progress must be
  /// cut off. True if it was to stop decoding, or had stopped: it must continue, if it stands still.
  constexpr bool abort() noexcept {
    const bool resume = stopped_ || step_ == next::stop;
    step_ = next::over;
    stopped_ = false;
    return resume;
  }

  /// The latest action asked for.
  [[nodiscard]] constexpr next state() const noexcept { return step_; }
  /// Rounds while decoding, the snapshot included.
  [[nodiscard]] constexpr std::uint32_t rounds() const noexcept { return rounds_; }
  /// Blocks sent, repetitions counted.
  [[nodiscard]] constexpr blocks sent() const noexcept { return total_; }
  /// Blocks sent while the sequence did not run: they determine the downtime.
  [[nodiscard]] constexpr blocks sent_stopped() const noexcept { return downtime_; }

 private:
  [[nodiscard]] constexpr blocks covering(tokens n) const noexcept { return blocks_for(n, config_.block_size); }

  /// Blocks that have changed since the last round was sent. The block that was partly filled then is dirty only if it
  /// has grown.
  [[nodiscard]] constexpr block_range dirty_at(tokens computed) const noexcept {
    const blocks last = covering(computed);
    return {computed == sent_ ? last : blocks{sent_ / config_.block_size}, last};
  }

  template <transport T>
  constexpr void send(tokens computed, T& t) noexcept {
    const block_range range = dirty_at(computed);
    sent_ = computed;
    if (!stopped_) {
      last_round_ = range.size();
      ++rounds_;
    }
    total_ += range.size();
    step_ = next::copying;
    t.copy(range);
  }

  config config_{};
  blocks room_{};
  blocks last_round_{};
  blocks total_{};
  blocks downtime_{};
  tokens sent_{};
  std::uint32_t rounds_ = 0;
  next step_ = next::over;
  bool stopped_ = false;
};

}  // namespace migration
TESSERA_NAMESPACE_END
