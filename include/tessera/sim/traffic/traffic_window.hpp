// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/fleet/traffic_sample.hpp>
#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/input/trace_row.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A server's knowledge of its traffic: the last requests that arrived, in order, and their fates.
class traffic_window {
 public:
  /// Remembers `most` requests. At least 4.
  explicit traffic_window(std::size_t most) : most_{most} {}

  /// Called once. @param requests the largest number of requests.
  void starts(std::size_t requests) { at_.assign(requests, nowhere); }
  /// Adds earlier requests, completely known, as the last before `now_s`.
  void remember(std::span<const trace_row> history, double now_s) {
    const std::size_t n = std::min(history.size(), most_);
    for (const trace_row& r : history.last(n)) {
      push({.arrival_s = r.arrival_s - history.back().arrival_s + now_s,
            .prompt = tokens{r.prompt_tokens},
            .output = tokens{r.output_tokens},
            .reasoning = tokens{r.reasoning_tokens},
            .score = r.score,
            .tenant = r.tenant,
            .ended = true,
            .request = nowhere});
    }
  }
  /// A request has arrived, or has been placed again because its instance has died. Returns whether it is new. O(1).
  /// @param score the workload's score.
  bool arrived(const request& r, float score, double now_s) {
    if (at_[r.index] != nowhere) return false;
    at_[r.index] = begun_ + seen_.size();
    push({.arrival_s = now_s,
          .prompt = r.prompt,
          .score = score,
          .tenant = r.service == nullptr ? -1 : static_cast<std::int32_t>(r.tenant),
          .request = r.index});
    return true;
  }
  /// `f(request index, the workload's score, prompt)` for each present request. O(n).
  template <class F>
  void each_here(F&& f) const {
    for (const entry& e : seen_) {
      if (!e.ended && !e.refused) f(e.request, e.score, e.prompt);
    }
  }
  /// A request has ended. O(1).
  void ended(const request& r) {
    if (entry* e = find(r)) {
      e->output = r.output;
      e->reasoning = r.reasoning;
      e->ended = true;
      ++ended_;
    }
  }
  /// A request was refused: it has arrived, but nothing is learned of it. O(1).
  void refused(const request& r) {
    if (entry* e = find(r)) e->refused = true;
  }
  /// Forgets the older half. O(n).
  void forget_half() {
    for (std::size_t n = seen_.size() / 2; n != 0; --n) forget_first();
  }

  /// Requests that are remembered.
  [[nodiscard]] std::size_t size() const noexcept { return seen_.size(); }
  /// The number of these that have ended. O(1).
  [[nodiscard]] std::size_t ended() const noexcept { return ended_; }
  /// The number of the newer half that have ended. O(n).
  [[nodiscard]] std::size_t newer_ended() const noexcept {
    const auto half = seen_.begin() + static_cast<std::ptrdiff_t>(seen_.size() / 2);
    return static_cast<std::size_t>(std::count_if(half, seen_.end(), [](const entry& e) { return e.ended; }));
  }
  /// The arrival of the oldest; NaN if there is none.
  [[nodiscard]] double from_s() const noexcept {
    return seen_.empty() ? std::numeric_limits<double>::quiet_NaN() : seen_.front().arrival_s;
  }

  /// Arrivals per second, see `fleet::arrival_rate`. O(1,024).
  [[nodiscard]] double rate() const noexcept {
    return fleet::arrival_rate(seen_.size(), [this](std::size_t i) noexcept { return seen_[i].arrival_s; });
  }

  /// The requests that are remembered, as they are now. `all`: the workload's requests, by row. O(n).
  [[nodiscard]] std::vector<fleet::seen_request> sample(std::span<const request> all) const {
    std::vector<fleet::seen_request> out;
    out.reserve(seen_.size());
    for (const entry& e : seen_) {
      fleet::seen_request& s = out.emplace_back();
      s = {.arrival_s = e.arrival_s,
           .prompt = e.prompt,
           .generated = e.output,
           .reasoning = e.reasoning,
           .score = e.score,
           .tenant = e.tenant,
           .ended = e.ended,
           .refused = e.refused};
      if (e.ended) continue;
      const request& r = all[e.request];
      s.generated = r.generated();
      s.reasoning = r.state().reasoning;
      s.limit = r.max_output;
      s.reasons = (is_live(r.state().life) ? r.state().phase : r.starts_in) == phase::reasoning;
    }
    return out;
  }

 private:
  static constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

  struct entry {
    double arrival_s = 0;
    tokens prompt{};
    tokens output{};     // The output of an ended request,
    tokens reasoning{};  // and its reasoning.
    float score = 0;
    std::int32_t tenant = -1;
    bool ended = false;
    std::size_t request = 0;
    bool refused = false;
  };

  void push(const entry& e) {
    if (seen_.size() == most_) forget_first();
    ended_ += e.ended ? 1U : 0U;
    seen_.push_back(e);
  }
  void forget_first() {
    ended_ -= seen_.front().ended ? 1U : 0U;
    seen_.pop_front();
    ++begun_;
  }
  [[nodiscard]] entry* find(const request& r) {
    const std::size_t at = at_[r.index];
    return at == nowhere || at < begun_ ? nullptr : &seen_[at - begun_];
  }

  std::size_t most_;
  std::size_t begun_ = 0;  // The number forgotten.
  std::size_t ended_ = 0;  // The number of remembered ones that have ended.
  std::deque<entry> seen_;
  std::vector<std::size_t> at_;  // By request: the number that came before it.
};

}  // namespace sim
TESSERA_NAMESPACE_END
