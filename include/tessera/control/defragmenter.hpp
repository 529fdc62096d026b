// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/telemetry.hpp>
#include <tessera/core/storage.hpp>

#include <limits>

/// @file
/// The meso scale of Phasor: moves KV so that scattered free blocks become usable.
/// Source: Phasor, algorithm 1, lines 6 to 11, and section 3.3. The paper says when a worker is defragmented and calls
/// it online bin packing; the choice of moves is ours.

TESSERA_NAMESPACE_BEGIN
namespace control {

/// Plans the moves of one epoch.
///
/// A *source* is a decode worker with Phi_S below the threshold and stranded blocks. It lacks demand - free blocks;
/// once moves have freed that many, all its free blocks are usable. So moves come in *batches*: all that one source
/// needs, or none.
///
/// Line 8 of algorithm 1 has two conditions, "Phi_S < theta_frag and H_frag is high". The paper has no formula for
/// H_frag; with that of `stranded` the second implies the first. If H_frag is positive, it is all free blocks, so Phi_S
/// is 0, or below where sequences wait. Any threshold above 0 selects the same sources; theta_frag acts through `floor`
/// alone.
///
/// A *target* is another decode worker that is not a source in the same plan. It is never overloaded: it keeps free
/// blocks for the growth of its sequences, and for waiting ones (`worker::queued`). It never becomes stranded. A target
/// that is not stranded also keeps its demand free and a Phi_S of at least `floor`. So it does not become a source. A
/// stranded worker may be filled: its free blocks are of no other use.
///
/// The worth of a batch is the decrease of stranded blocks of source and targets, per byte sent.
/// The pieces of a batch are the largest that fit, closed by the smallest that suffices. Among all such batches, the
/// one of the greatest worth counts. Each piece goes to the tightest target, a stranded one first (best fit). The
/// batches of all sources are valued against the present cluster. They are applied in that order, and each is valued
/// again against what the earlier ones have left. Every batch lowers the stranded blocks of the cluster by at least
/// one. So on an otherwise idle cluster the moves end, and no sequence goes to and fro.
///
/// Bounded: it considers the `sources` that lack least for what they have, the `targets` with the most room (of each
/// kind), and `sequences` per source. O(workers (1 + sources + targets)) in the worst case, in practice O(workers),
/// plus O(sources pieces (sequences + targets)). Nothing allocates.
class defragmenter {
 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t moves = 16;       ///< Most moves in an epoch.
    std::size_t sources = 8;      ///< Most workers considered as sources in an epoch.
    std::size_t targets = 32;     ///< Most workers considered as targets in an epoch, stranded and others, each.
    std::size_t pieces = 8;       ///< Most moves from one source in an epoch.
    std::size_t sequences = 512;  ///< Most sequences considered of one source: the first ones.
  };
  /// Parameters. The defaults are the paper's where it gives one.
  struct settings {
    double threshold = 0.168;  ///< theta_frag: workers with more freeness are left alone. All values above 0 have the
                               ///< same effect.
    double floor = 0.168;      ///< Phi_S that a target keeps. At least `threshold`, so that targets do not become
                               ///< sources.
    blocks growth{1};          ///< Free blocks that a target keeps for each of its sequences.
    bool fill = true;          ///< Whether stranded workers may be targets.
    bytes most_bytes{std::numeric_limits<std::int64_t>::max()};  ///< Most bytes that an epoch may send.
    double least_return = 0;  ///< Blocks freed per block moved; batches below it are not made.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add<source>(l.sources)
        .add<target>(l.targets)
        .add<target>(l.targets)
        .add<piece>(l.pieces)
        .add<piece>(l.pieces)
        .add<move>(l.moves)
        .add<bool>(l.sequences)
        .bytes_unaligned();
  }

  /// Takes `required_bytes(l)` from `memory`.
  defragmenter(arena& memory, const limits& l, const settings& s) noexcept
      : sources_{memory, l.sources},
        open_{memory, l.targets},
        stranded_{memory, l.targets},
        trial_{memory, l.pieces},
        best_{memory, l.pieces},
        moves_{memory, l.moves},
        in_trial_{memory.take<bool>(l.sequences)},
        limits_{l},
        settings_{s} {
    TESSERA_ASSERT(s.floor >= s.threshold, "targets would become sources");
    TESSERA_ASSERT(s.growth >= blocks{} && s.most_bytes >= bytes{} && s.least_return >= 0, "a bound is not negative");
  }
  /// The same with the default settings.
  defragmenter(arena& memory, const limits& l) noexcept : defragmenter(memory, l, settings{}) {}
  defragmenter(const defragmenter&) = delete;
  defragmenter& operator=(const defragmenter&) = delete;

  /// The moves of this epoch, valid until the next call. It leaves alone workers of other roles, `excluded` (which is
  /// about to change its role), and workers that are changing or not available. Keeps nothing from call to call.
  /// Requires: fewer than 2^32 - 1 workers, plausible counts, sequences of at least a block and a byte (asserted).
  [[nodiscard]] std::span<const move> plan(std::span<const worker> workers,
                                           std::uint32_t excluded = no_index) noexcept {
    TESSERA_ASSERT(workers.size() < no_index, "worker ids have 32 bits");
    moves_.clear();
    freed_ = blocks{};
    survey(workers, excluded);
    if (sources_.empty()) return {};
    for (source& s : sources_) s.worth = find_batch(workers, s, settings_.most_bytes) ? best_worth_ : -1.0;
    sort_by_worth();
    bytes left = settings_.most_bytes;
    for (const source& s : sources_) {
      if (s.worth < 0) break;
      if (is_target(s.worker) || !find_batch(workers, s, left)) continue;
      apply(s);
      for (const piece& p : best_) left -= p.what->size;
    }
    return {moves_.data(), moves_.size()};
  }

  /// The decrease of the cluster's stranded blocks once the moves of the last plan are done.
  [[nodiscard]] blocks freed() const noexcept { return freed_; }

 private:
  struct source {
    std::uint32_t worker = no_index;
    blocks stranded{};  ///< Blocks that become usable.
    blocks lacks{};     ///< Blocks that have to be freed for that.
    double worth = 0;   ///< First stranded blocks per lacking block, then the worth of the batch found.
  };
  struct target {
    std::uint32_t worker = no_index;
    blocks room{};         ///< Blocks that one more sequence may bring.
    blocks room_policy{};  ///< Limit by what must stay usable.
    blocks room_growth{};  ///< Limit by the growth of its sequences, including one more.
    bool chosen = false;   ///< A move of this plan goes to it.
  };
  struct piece {
    const sequence* what = nullptr;
    target* where = nullptr;
    bool fills = false;
    target before{};  ///< To undo it.
  };

  /// Keeps the greatest values by `key` in `list`, in descending order; among equals the first.
  template <class T, class Key>
  static void keep(fixed_vector<T>& list, const T& value, Key key) noexcept {
    if (list.capacity() == 0) return;
    if (list.full()) {
      if (!(key(list.back()) < key(value))) return;
      list.pop_back();
    }
    list.push_back(value);
    for (std::size_t i = list.size() - 1; i != 0 && key(list[i - 1]) < key(value); --i) {
      list[i] = list[i - 1];
      list[i - 1] = value;
    }
  }

  /// Finds the sources and targets that this plan considers.
  void survey(std::span<const worker> workers, std::uint32_t excluded) noexcept {
    sources_.clear();
    open_.clear();
    stranded_.clear();
    const auto potential = [](const source& s) { return s.worth; };
    const auto room = [](const target& t) { return t.room; };
    for (std::uint32_t i = 0; i != workers.size(); ++i) {
      const worker& w = workers[i];
      if (w.role != role::decode || !w.available || w.changing || i == excluded) continue;
      TESSERA_ASSERT(plausible(w), "the telemetry contradicts itself");
      const blocks lost = stranded(w);
      if (lost > blocks{} && !w.sequences.empty() && space_phi(w) < settings_.threshold) {
        const blocks lacks = w.demand - settled_free(w);
        keep(sources_, {i, lost, lacks, static_cast<double>(lost.count()) / static_cast<double>(lacks.count())},
             potential);
      }
      const std::size_t held = w.sequences_held > w.sequences.size() ? w.sequences_held : w.sequences.size();
      const auto grown = settings_.growth * static_cast<std::int64_t>(held + 1);
      // Waiting sequences take their blocks before anything that is sent here.
      target t{.worker = i, .room_growth = w.free - w.queued - grown};
      const bool is_stranded = settled_free(w) < w.demand;
      if (is_stranded) {
        t.room_policy = t.room_growth;
      } else {
        const double kept = settings_.floor * static_cast<double>(w.total.count());
        auto least = static_cast<std::int64_t>(kept);
        if (static_cast<double>(least) < kept) ++least;
        t.room_policy = settled_free(w) - w.queued - max(w.demand, blocks{least});
      }
      t.room = min(t.room_growth, t.room_policy);
      if (t.room <= blocks{} || (is_stranded && !settings_.fill)) continue;
      keep(is_stranded ? stranded_ : open_, t, room);
    }
  }

  [[nodiscard]] bool is_target(std::uint32_t worker) const noexcept {
    for (const target& t : stranded_) {
      if (t.worker == worker) return t.chosen;
    }
    return false;  // An open target is not stranded, so it is no source.
  }

  /// The tightest target with room for `size`; among equals the first worker.
  [[nodiscard]] static target* tightest(fixed_vector<target>& list, blocks size, std::uint32_t from) noexcept {
    target* best = nullptr;
    for (target& t : list) {
      if (t.room < size || t.worker == from) continue;
      if (best == nullptr || t.room < best->room || (t.room == best->room && t.worker < best->worker)) best = &t;
    }
    return best;
  }
  /// A piece's place, or none.
  [[nodiscard]] piece place(const sequence& what, std::uint32_t from) noexcept {
    if (target* t = tightest(stranded_, what.held, from)) return {&what, t, true, *t};
    target* const t = tightest(open_, what.held, from);
    return {&what, t, false, t != nullptr ? *t : target{}};
  }
  void take_room(const piece& p) noexcept {
    target& t = *p.where;
    t.room_growth -= p.what->held + settings_.growth;
    // A stranded target only has to leave its sequences room to grow.
    t.room_policy = p.fills ? t.room_growth : t.room_policy - p.what->held;
    t.room = min(t.room_growth, t.room_policy);
  }

  [[nodiscard]] blocks most_room(std::uint32_t from) const noexcept {
    blocks most{};
    for (const auto* list : {&open_, &stranded_}) {
      for (const target& t : *list) {
        if (t.worker != from) most = max(most, t.room);
      }
    }
    return most;
  }

  /// Puts the best batch of a source into `best_` and its worth into `best_worth_`; false if there is none.
  [[nodiscard]] bool find_batch(std::span<const worker> workers, const source& s, bytes most_bytes) noexcept {
    best_.clear();
    best_worth_ = -1.0;
    trial_.clear();
    const auto all = workers[s.worker].sequences;
    const auto looked_at = all.first(all.size() < limits_.sequences ? all.size() : limits_.sequences);
    const std::size_t pieces = min_size(limits_.pieces, limits_.moves - moves_.size());
    blocks lacks = s.lacks;
    while (trial_.size() < pieces) {
      // The smallest that suffices, and the largest that does not.
      const blocks room = most_room(s.worker);
      const sequence* closes = nullptr;
      const sequence* extends = nullptr;
      for (std::size_t i = 0; i != looked_at.size(); ++i) {
        const sequence& q = looked_at[i];
        TESSERA_ASSERT(q.held > blocks{} && q.size > bytes{}, "a sequence holds something");
        if (q.held > room || in_trial_[i]) continue;
        if (q.held >= lacks) {
          if (closes == nullptr || q.held < closes->held || (q.held == closes->held && cheaper(q, *closes)))
            closes = &q;
        } else if (extends == nullptr || q.held > extends->held || (q.held == extends->held && cheaper(q, *extends))) {
          extends = &q;
        }
      }
      if (closes != nullptr) {
        trial_.push_back(place(*closes, s.worker));
        consider(s, most_bytes);
        trial_.pop_back();
      }
      if (closes != nullptr && closes->held == lacks) break;  // No batch sends fewer blocks.
      if (extends == nullptr || trial_.size() + 1 >= pieces) break;
      // If none suffices, none is larger than this: not even all remaining pieces would do.
      if (closes == nullptr && extends->held * static_cast<std::int64_t>(pieces - trial_.size()) < lacks) break;
      const piece p = place(*extends, s.worker);
      take_room(p);
      trial_.push_back(p);
      in_trial_[extends - looked_at.data()] = true;
      lacks -= extends->held;
    }
    while (!trial_.empty()) {
      in_trial_[trial_.back().what - looked_at.data()] = false;
      *trial_.back().where = trial_.back().before;
      trial_.pop_back();
    }
    return best_worth_ >= 0;
  }

  /// Values the batch in `trial_`, and keeps it if it is the best so far.
  void consider(const source& s, bytes most_bytes) noexcept {
    blocks gain = s.stranded;
    blocks moved{};
    bytes sent{};
    for (const piece& p : trial_) {
      if (p.fills) gain += p.what->held;
      moved += p.what->held;
      sent += p.what->size;
    }
    if (sent > most_bytes) return;
    if (static_cast<double>(gain.count()) < settings_.least_return * static_cast<double>(moved.count())) return;
    const double worth = static_cast<double>(gain.count()) / static_cast<double>(sent.count());
    if (!(worth > best_worth_)) return;
    best_worth_ = worth;
    best_gain_ = gain;
    best_.clear();
    for (const piece& p : trial_) best_.push_back(p);
  }

  void apply(const source& s) noexcept {
    for (const piece& p : best_) {
      take_room(p);
      p.where->chosen = true;
      moves_.push_back({p.what->id, s.worker, p.where->worker, p.what->held, p.what->size});
    }
    freed_ += best_gain_;
    // A source is not a target in the same plan.
    for (auto* list : {&open_, &stranded_}) {
      for (target& t : *list) {
        if (t.worker == s.worker) t.room = t.room_policy = t.room_growth = blocks{};
      }
    }
  }

  void sort_by_worth() noexcept {
    for (std::size_t i = 1; i < sources_.size(); ++i) {
      const source s = sources_[i];
      std::size_t at = i;
      for (; at != 0 && after(sources_[at - 1], s); --at) sources_[at] = sources_[at - 1];
      sources_[at] = s;
    }
  }
  [[nodiscard]] static bool after(const source& a, const source& b) noexcept {
    return a.worth != b.worth ? a.worth < b.worth : a.worker > b.worker;
  }
  [[nodiscard]] static bool cheaper(const sequence& a, const sequence& b) noexcept {
    return a.size != b.size ? a.size < b.size : a.id < b.id;
  }
  [[nodiscard]] static constexpr std::size_t min_size(std::size_t a, std::size_t b) noexcept { return a < b ? a : b; }

  fixed_vector<source> sources_;
  fixed_vector<target> open_;      // Not stranded, and must not become so.
  fixed_vector<target> stranded_;  // May be filled.
  fixed_vector<piece> trial_;
  fixed_vector<piece> best_;
  fixed_vector<move> moves_;
  bool* in_trial_;  // By considered sequence: whether it is in `trial_`.
  limits limits_;
  settings settings_;
  blocks freed_{};
  double best_worth_ = 0;
  blocks best_gain_{};
};

}  // namespace control
TESSERA_NAMESPACE_END
