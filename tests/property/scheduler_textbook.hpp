// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// A scheduler as a textbook has it: it counts blocks and sorts everything anew.

#include <tessera/order/earliest_due.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/least_lost.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <tuple>
#include <vector>

namespace tessera_test::scheduler_textbook {

using namespace tessera;

enum class rule { first_come, turns, two_queues, shortest, readers, due };

struct task {
  std::size_t id = 0;
  std::int64_t prompt = 0, output = 0, reasoning = 0;
  int priority = 0;
  double score = 0;
  // Its state.
  std::int64_t computed = 0, length = 0, held = 0, used = 0;
  std::uint64_t turn = 0;
  int level = 0;
  double boost_at = std::numeric_limits<double>::infinity(), answers_since = 0, due = 0, came = 0, submitted = 0;
  double held_until = std::numeric_limits<double>::infinity();
  std::int64_t answered = 0;
  double look_at = std::numeric_limits<double>::infinity();  ///< When it is looked at, having no reader.
  int lane = 0;         ///< On level 0, of those with readers: it has stalled, reads, or has not begun.
  bool served = false;  ///< It has sampled since the last look, or since it took its place.
  bool begun = false;
  bool demoted = false, answering = false, resident = false, suspended = false, done = false;
  bool restarted = false;  ///< Its KV was dropped, and it has sampled nothing since.
};

/// Tokens that a reader reads in a second, and seconds for a token that is expected.
inline constexpr double reading_speed = 1;
inline constexpr double pace = 0.75;
/// Output that is expected of a request that has generated `generated` tokens. An updated expectation counts for at
/// most `revised` times the first one. That is if the output that a token belongs to is, in the mean, at most twice as
/// long as a request's.
inline constexpr std::int64_t expected_of(double score, std::int64_t generated) {
  return static_cast<std::int64_t>(score) + 2 * generated;
}

inline constexpr double revised = 3;
/// Seconds for which a request is held for a token by which its prompt is longer than the mean.
inline constexpr double prompt_pace = 0.5;
inline constexpr double bias_of(double score) {
  return 1 + static_cast<double>(static_cast<std::int64_t>(score) % 7) / 2;
}

struct share {
  std::size_t id;
  std::int64_t first, count;
  friend bool operator==(const share&, const share&) = default;
};

struct settings {
  rule how;
  std::int64_t blocks, block_size, quantum, demote_above;
  std::size_t residents;
  double watermark;
  double threshold, margin;
  double move_pace;
  double patience;
  std::int64_t slice;
  std::uint64_t young;
  bool by_chunk;           ///< Prompts take their blocks as they compute them, or all when they start.
  std::size_t window = 1;  ///< So many are looked at for a victim.
};

/// Seconds for a token of a prefill, and for the square of its length.
inline constexpr double linear = 0.25;
inline constexpr double quadratic = 0.03125;

/// The textbook: one list, sorted by which request goes first.
class textbook {
 public:
  explicit textbook(const settings& s) : s_{s} {}

  void submit(task t, double now) {
    t.length = t.prompt;
    t.answers_since = now;
    t.answering = t.reasoning == 0;
    t.level = t.answering && s_.how == rule::two_queues ? 1 : 0;
    t.demoted = false;
    t.turn = s_.how == rule::turns || s_.how == rule::two_queues ? ++turns_ : 0;
    if (s_.how == rule::shortest) {
      t.level = 1;
      t.boost_at = now + s_.threshold;
    }
    pass(now);
    count_ = std::min(count_ + 1, 1000.0);
    const double step = (static_cast<double>(t.prompt) - mean_of_all_) / count_;
    // A later one must not be through sooner.
    mean_of_all_ += step;
    const double most = mean_prompt_ + (now - came_last_) / prompt_pace;
    mean_prompt_ = count_ > 1 ? std::min(mean_of_all_, most) : mean_of_all_;
    t.submitted = came_last_ = now;
    const double longer = std::max(static_cast<double>(t.prompt) - mean_prompt_, 0.0);
    t.came = clock_;
    if (longer > 0) t.held_until = now + prompt_pace * longer;
    t.due = due_at(t, static_cast<double>(expected_of(t.score, 0)));
    if (reads()) take_place(t);
    all_.push_back(t);
  }

  /// Those that could be suspended, or resumed.
  [[nodiscard]] std::vector<std::size_t> which(bool suspended) const {
    std::vector<std::size_t> out;
    for (const task& t : all_) {
      if (!t.done && t.resident && t.suspended == suspended) out.push_back(t.id);
    }
    return out;
  }
  void set_suspended(std::size_t id, bool to) { all_[id].suspended = to; }

  struct step {
    std::vector<share> decode, prefill;
    std::vector<std::size_t> evicted;
  };

  step plan(std::size_t max_batch, std::int64_t budget, double now) {
    pass(now);
    std::vector<task*> residents, waiting;
    std::size_t suspended = 0;
    std::int64_t capacity = s_.blocks;
    for (task& t : all_) {
      if (t.done) continue;
      if (t.suspended) {
        ++suspended;
        capacity -= t.held;
        continue;
      }
      if (t.boost_at <= now) {
        if (t.level == 2) t.lane = t.length > t.prompt ? 1 : 2;
        t.level = 0;
      }
      if (t.look_at < t.held_until) look(t, now);
      has_been_held(t, now);
      look(t, now);
      (t.resident ? residents : waiting).push_back(&t);
    }
    const auto sorted = [this](const task* a, const task* b) { return key(*a) < key(*b); };
    std::sort(residents.begin(), residents.end(), sorted);
    // A request that makes up for KV that was dropped goes first.
    std::stable_partition(residents.begin(), residents.end(), [](const task* t) { return t->restarted; });
    std::sort(waiting.begin(), waiting.end(), sorted);
    step out;
    std::size_t next = 0;
    bool open = true;
    max_batch = std::min(max_batch, s_.residents);
    std::size_t kept = residents.size();
    const auto free = [&] {
      std::int64_t n = s_.blocks;
      for (const task& t : all_) n -= t.held;
      return n;
    };
    // What it costs to compute it again, for each block that it holds.
    const auto loss = [](const task& t) {
      const auto n = static_cast<double>(t.computed);
      return t.held == 0 ? std::numeric_limits<double>::infinity()
                         : (n * linear + n * n * quadratic) / static_cast<double>(t.held);
    };
    const auto evict_last = [&] {
      const auto begin = residents.begin();
      const auto end = begin + static_cast<std::ptrdiff_t>(kept);
      // Requests that may be chosen: a run at the end, in which none would take the place of the last one.
      auto first = end - 1;
      while (first != begin + static_cast<std::ptrdiff_t>(next) &&
             end - first < static_cast<std::ptrdiff_t>(s_.window) && !(*(end - 1))->restarted &&
             !(*(first - 1))->restarted && !displaces(**(first - 1), **(end - 1))) {
        --first;
      }
      auto chosen = end - 1;
      for (auto i = first; i != end; ++i) {
        const bool closer = chosen < i && loss(**i) == loss(**chosen);
        if (loss(**i) < loss(**chosen) || closer) chosen = i;
      }
      task* const gone = *chosen;
      if (chosen != end - 1) ++chosen_;
      residents.erase(chosen);
      residents.insert(residents.begin() + static_cast<std::ptrdiff_t>(kept) - 1, gone);
      task& v = *residents[--kept];
      v.held = 0;
      v.computed = 0;
      v.resident = false;
      v.restarted = true;
      out.evicted.push_back(v.id);
    };
    std::size_t started = 0;
    // Requests with a turn still to come. Each has one token of the budget before a prompt has the rest.
    const auto owed = [&](const task& t) {
      return static_cast<std::size_t>(std::count_if(
          residents.begin() + static_cast<std::ptrdiff_t>(next), residents.begin() + static_cast<std::ptrdiff_t>(kept),
          [&t](const task* q) { return q->restarted || q->priority >= t.priority; }));
    };
    std::int64_t promised = 0;  // to requests that had their turn and compute their prompts
    while (out.decode.size() + out.prefill.size() < max_batch && budget > 0) {
      task* r = next < kept ? residents[next] : nullptr;
      task* w = open && !waiting.empty() ? waiting.front() : nullptr;
      const bool outranks = w != nullptr && r != nullptr && displaces(*w, *r);
      if (w == nullptr && r == nullptr) break;
      // What is free, and what would be if all requests that have not had their turn were evicted.
      const auto could_be_free = [&] {
        std::int64_t n = free();
        for (std::size_t i = next; i != kept; ++i) n += residents[i]->held;
        return n;
      };
      if (w != nullptr && (r == nullptr || outranks)) {
        const std::int64_t whole = blocks_of(w->length);
        const bool alone = kept == 0 && started == 0;
        bool go = could_be_free() >= whole + promised;
        if (!outranks) {
          const std::int64_t free_after = free() - promised - whole;
          go = go && free_after >= 0;
          if (!alone) go = go && static_cast<double>(free_after) >= s_.watermark * static_cast<double>(capacity);
        }
        const bool row = kept + started + suspended < s_.residents;
        if (!row && next == kept) go = false;
        // No request starts that ranks behind one that had to go.
        for (std::size_t i = kept; i != residents.size(); ++i) go = go && !(key(*residents[i]) < key(*w));
        if (!go) {
          open = false;
          continue;
        }
        // The chunk is cut before any request gives way to it.
        w->computed = 0;
        const std::int64_t chunk = chunk_of(*w, owed(*w), max_batch, budget, out);
        const std::int64_t need = s_.by_chunk && !w->restarted ? blocks_of(chunk) : whole;
        if (!row) evict_last();
        while (free() < need) evict_last();
        waiting.erase(waiting.begin());
        w->held = need;
        w->resident = true;
        ++started;
        promised += whole - need;
        compute(*w, chunk, budget, out);
      } else {
        ++next;
        std::int64_t chunk = chunk_of(*r, owed(*r), max_batch, budget, out);
        const std::int64_t room = r->held * s_.block_size - r->computed;
        const std::int64_t lacks = std::max<std::int64_t>(blocks_of(r->computed + chunk) - r->held, 0);
        if (could_be_free() >= lacks) {
          while (free() < lacks) evict_last();
          r->held += lacks;
        } else {
          if (free() == 0 && room == 0 && kept > next) evict_last();
          const std::int64_t part = std::min(lacks, free());
          chunk = std::min(chunk, room + part * s_.block_size);
          if (chunk == 0) {
            open = false;
            continue;
          }
          r->held += part;
        }
        promised += r->length - r->computed == 1 ? 0 : std::max<std::int64_t>(blocks_of(r->length) - r->held, 0);
        compute(*r, chunk, budget, out);
      }
    }
    return out;
  }

  /// Victims that were not the last.
  [[nodiscard]] std::size_t chosen() const { return chosen_; }
  /// How often one got nothing for too long, having begun, and not.
  [[nodiscard]] std::size_t stalled() const { return stalled_; }
  [[nodiscard]] std::size_t patient() const { return patient_; }
  /// How often an answer kept its place because its reader would not have been patient for long enough.
  [[nodiscard]] std::size_t spared() const { return spared_; }

  /// The engine: each task ends when it has all its tokens.
  void commit(const step& s, double now) {
    for (const auto* list : {&s.decode, &s.prefill}) {
      for (const share& e : *list) settle(all_[e.id], e, now);
    }
  }

  [[nodiscard]] bool ends_reasoning(const share& e) const {
    const task& t = all_[e.id];
    return samples(e) && t.length - t.prompt + 1 == t.reasoning;
  }
  [[nodiscard]] bool finishes(const share& e) const {
    const task& t = all_[e.id];
    return samples(e) && t.length - t.prompt + 1 == t.output;
  }

 private:
  /// Requests come by a clock with `rate = (running / (running + waiting))^8`, at least 0.01. A request counts as
  /// running once it has begun.
  [[nodiscard]] double rate() const {
    double begun = 1;
    double waits = 0;
    for (const task& t : all_) {
      if (!t.done) (t.begun ? begun : waits) += 1;
    }
    double rate = begun / (begun + waits);
    for (int i = 0; i != 3; ++i) rate *= rate;  // the eighth power
    return std::max(0.01, rate);
  }
  [[nodiscard]] double batches() const {
    double begun = 1;
    double waits = 0;
    for (const task& t : all_) {
      if (!t.done) (t.begun ? begun : waits) += 1;
    }
    return (begun + waits) / begun;
  }
  void pass(double now) {
    if (all_.empty() && heard_ < 0) clock_ = now;
    if (heard_ >= 0) clock_ += (now - heard_) * rate();
    heard_ = now;
  }
  /// It arrives, if its time is over, by the clock: until then that was a guess.
  void has_been_held(task& t, double now) {
    if (s_.how != rule::due || t.level != 1 || now < t.held_until) return;
    t.came = std::min(clock_, t.came + t.held_until - t.submitted);
    t.held_until = std::numeric_limits<double>::infinity();
    t.due = due_at(t, t.length == t.prompt ? static_cast<double>(expected_of(t.score, 0)) : expected_now(t));
  }
  /// Looks at a request without a reader: whether it has been given nothing for too long.
  void look(task& t, double now) {
    if (!reads() || t.level != 1 || now < t.look_at) return;
    const bool has_begun = t.length > t.prompt;
    if (has_begun && t.served) {
      t.served = false;
      t.look_at = now + s_.patience;
      return;
    }
    double since = t.look_at;
    if (!has_begun && s_.how == rule::due) {
      // A quarter of the patience for each batch that is there, looked at anew after as much.
      since = t.submitted + s_.patience / 4 * batches();
      if (now < since) {
        t.look_at = std::min(since, now + s_.patience / 4);
        return;
      }
    }
    ++(has_begun ? stalled_ : patient_);
    t.level = 0;
    t.lane = has_begun ? 0 : 2;
    t.boost_at = since;
    t.held_until = std::numeric_limits<double>::infinity();
    t.used = 0;
  }
  [[nodiscard]] static double expected_now(const task& t) {
    const auto output = static_cast<double>(expected_of(t.score, t.length - t.prompt));
    const double times = bias_of(t.score) > 2 ? 1 + (revised - 1) * (bias_of(t.score) - 1) : revised;
    return std::min(output, times * static_cast<double>(expected_of(t.score, 0)));
  }
  /// In whole microseconds. One that is held arrives as if the line stayed as it is.
  [[nodiscard]] double due_at(const task& t, double output) const {
    const bool held = t.held_until < std::numeric_limits<double>::infinity();
    const double came = t.came + (held ? (t.held_until - t.submitted) * rate() : 0);
    return static_cast<double>(static_cast<std::int64_t>(1e6 * (came + pace * output)));
  }
  using key_type = std::tuple<int, int, int, double, std::uint64_t, std::size_t>;
  [[nodiscard]] key_type key(const task& t) const {
    double place = 0;
    if (s_.how == rule::shortest) place = t.level == 0 ? t.boost_at : t.score;
    if (reads() && t.level != 1) place = t.boost_at;
    if (s_.how == rule::due && t.level == 1) place = t.due;
    const bool urgent = reads() && t.level == 0;
    return {-t.priority, t.level, urgent ? t.lane : 0, place, urgent ? 0 : t.turn, t.id};
  }
  [[nodiscard]] bool displaces(const task& w, const task& r) const {
    if (r.restarted) return false;
    if (s_.how == rule::first_come || s_.how == rule::shortest || w.priority != r.priority) {
      return w.priority > r.priority;
    }
    if (!reads()) return key(w) < key(r);
    // One that has waited without having begun takes what it could before.
    const bool patient = w.level == 0 && w.lane == 2 && (s_.how == rule::due || !w.answering);
    const int level = patient ? 1 : w.level;
    if (s_.how == rule::readers) {
      if (level != r.level) return level < r.level;
      return level == 1 && std::tie(w.turn, w.id) < std::tie(r.turn, r.id);
    }
    if (level >= r.level || (level == 1 && w.answering)) return false;
    if (level == 1 && r.level == 2) {
      // All live requests wait for the copies.
      const auto here = std::count_if(all_.begin(), all_.end(), [](const task& t) { return !t.done; });
      const double cost = s_.move_pace * static_cast<double>(w.length) * static_cast<double>(here);
      if (r.boost_at - heard_ < cost) {
        ++spared_;
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] bool reads() const { return s_.how == rule::readers || s_.how == rule::due; }
  /// Reasoning, or an answer that is calm until its reader is about to run dry. By due times, an answer that has no
  /// reader yet is where reasoning is.
  void take_place(task& t) const {
    t.used = 0;
    const bool early = !t.answering || (s_.how == rule::due && t.length == t.prompt);
    t.level = early ? 1 : 2;
    t.boost_at = early             ? std::numeric_limits<double>::infinity()
                 : t.answered == 0 ? t.answers_since
                                   : t.answers_since + static_cast<double>(t.answered) / reading_speed - s_.margin;
    if (t.answering) t.turn = 0;
    t.served = false;
    const double infinite = std::numeric_limits<double>::infinity();
    const double patience = s_.how == rule::due && t.length == t.prompt ? s_.patience / 4 : s_.patience;
    t.look_at = !early ? infinite : (t.length > t.prompt ? heard_ : t.submitted) + patience;
  }
  [[nodiscard]] std::int64_t blocks_of(std::int64_t length) const {
    return (length + s_.block_size - 1) / s_.block_size;
  }
  [[nodiscard]] bool samples(const share& e) const { return e.first + e.count == all_[e.id].length; }

  /// `behind`: residents with a turn still to come. Each of them with a place in the batch keeps a token of the budget.
  static std::int64_t chunk_of(const task& t, std::size_t behind, std::size_t max_batch, std::int64_t budget,
                               const step& out) {
    const std::size_t places = max_batch - out.decode.size() - out.prefill.size() - 1;
    const auto reserved = static_cast<std::int64_t>(std::min(behind, places));
    return std::min(t.length - t.computed, std::max<std::int64_t>(budget - reserved, 1));
  }

  static void compute(const task& t, std::int64_t n, std::int64_t& budget, step& out) {
    (t.length - t.computed == 1 ? out.decode : out.prefill).push_back({t.id, t.computed, n});
    budget -= n;
  }

  void settle(task& t, const share& e, double now) {
    const bool one_more = samples(e);
    const bool turns = ends_reasoning(e), ends = finishes(e);
    t.computed = e.first + e.count;
    if (one_more) {
      ++t.length;
      t.restarted = false;
    }
    if (!ends) t.begun = true;
    if (ends) {
      t.done = true;
      t.held = 0;
      return;
    }
    if (s_.how == rule::first_come || s_.how == rule::shortest) {
      t.answering = t.answering || turns;
      return;
    }
    t.used += one_more ? 1 : 0;
    t.served = t.served || one_more;
    if (reads()) {
      if (t.answering && one_more) ++t.answered;
      const bool by_quanta = s_.how == rule::readers && !t.answering;
      const bool unread = t.level == 1 || (t.level == 0 && t.lane == 2);
      const bool first_read = s_.how == rule::due && unread && t.answered > 0;
      if (s_.how == rule::due && !t.answering && t.used >= s_.slice) {
        const double due = due_at(t, expected_now(t));
        t.used = 0;
        if (t.level == 0 || due != t.due) take_place(t);
        t.due = due;
      }
      if (by_quanta ? t.used >= (t.level == 0 ? s_.slice : s_.quantum)
                    : t.answering && (t.used >= s_.slice || first_read)) {
        if (by_quanta && t.turn < s_.young) ++t.turn;
        take_place(t);
      }
      if (turns) {
        t.answering = true;
        t.answers_since = now;
        take_place(t);
        t.level = 0;
        t.lane = 1;
      }
      return;
    }
    const bool outgrown = s_.how == rule::two_queues && !t.answering && !t.demoted && t.computed > s_.demote_above;
    if (outgrown) {
      t.demoted = true;
      t.level = 1;
    }
    if (outgrown || t.used >= s_.quantum) {
      t.used = 0;
      t.turn = ++turns_;
    }
    if (turns) {
      t.answering = true;
      t.demoted = false;
      if (s_.how == rule::two_queues && t.level == 0) {
        t.level = 1;
        t.used = 0;
        t.turn = ++turns_;
      }
    }
  }

  settings s_;
  std::deque<task> all_;
  std::uint64_t turns_ = 0;
  std::size_t chosen_ = 0;
  std::size_t stalled_ = 0, patient_ = 0;
  mutable std::size_t spared_ = 0;
  double clock_ = 0, heard_ = -1;
  double mean_prompt_ = 0, mean_of_all_ = 0, count_ = 0, came_last_ = 0;  ///< Over the last thousand.
};

}  // namespace tessera_test::scheduler_textbook
