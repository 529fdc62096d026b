// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/rank/length_drift.hpp>
#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/golden_section.hpp>
#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/traffic/learned_lengths.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <span>
#include <utility>
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

  /// Arrivals per second, over the last 1,024; 0 if they came all at once. A pause does not count if it is longer than
  /// a minute and longer than all the rest of the time. Otherwise a server would take the traffic after a night for
  /// that of the night. O(1,024).
  [[nodiscard]] double rate() const noexcept {
    constexpr std::size_t lately = 1024;
    constexpr double minute_s = 60;
    if (seen_.size() < 2) return 0;
    const std::size_t n = std::min(seen_.size(), lately);
    const auto first = seen_.end() - static_cast<std::ptrdiff_t>(n);
    const double span = seen_.back().arrival_s - first->arrival_s;
    double longest = 0;
    for (auto e = first + 1; e != seen_.end(); ++e) longest = std::max(longest, e->arrival_s - std::prev(e)->arrival_s);
    const double rest = span - longest;
    if (longest > minute_s && longest > rest && rest > 0) return static_cast<double>(n - 2) / rest;
    return span > 0 ? static_cast<double>(n - 1) / span : 0;
  }

  /// The known outputs. `all`: the workload's requests, by row. O(n).
  [[nodiscard]] std::vector<seen_output> outputs(std::span<const request> all) const {
    std::vector<seen_output> out;
    out.reserve(seen_.size());
    for (const entry& e : seen_) {
      if (!e.refused) out.push_back({e.score, length_of(e, all), e.ended, e.prompt});
    }
    return out;
  }

  /// How much longer the outputs, or prompts, of the newer half are than those of the older half: see
  /// `rank::length_drift_z`. Outputs are compared among requests with similar scores, or without scores in the same
  /// cluster of prompts, because these are served alike.
  struct drift {
    double outputs = 0;  ///< The drift of the outputs.
    double prompts = 0;  ///< The drift of the prompts.
    double scores = 0;   ///< The drift of the scores, if they are used.
  };
  /// Finds the drift. O(n log n).
  [[nodiscard]] drift find_drift(std::span<const request> all, const learned_lengths& lengths,
                                 bool predicts = true) const {
    std::vector<rank::known_length> outputs;
    std::vector<rank::known_length> prompts;
    std::vector<rank::known_length> scores;
    const std::vector<std::size_t> kinds = kinds_of(lengths, predicts);
    for (std::size_t i = 0; i != seen_.size(); ++i) {
      const entry& e = seen_[i];
      if (e.refused) continue;
      const bool newer = i >= seen_.size() / 2;
      const bool has_score = kinds[i] > scored;
      const std::size_t group = has_score ? scored + (kinds[i] - scored) / alike : kinds[i];
      outputs.push_back({length_of(e, all), e.ended, newer, static_cast<std::uint32_t>(group)});
      prompts.push_back({e.prompt, true, newer});
      if (has_score) scores.push_back({tokens{static_cast<std::int64_t>(kinds[i])}, true, newer});
    }
    return {rank::length_drift_z(outputs), rank::length_drift_z(prompts), rank::length_drift_z(scores)};
  }

  /// The requests as rows of a trace, in order of arrival, from 0 on, with expected lengths as scores. A running
  /// request gets a length that it may reach. These lengths are spread as those of similar requests that have come as
  /// far (Kaplan and Meier). Similar requests have similar scores, or without scores the same cluster of prompts.
  /// Beyond the longest length seen, they are spread as exponential lengths through that point (Brown, Hollander and
  /// Korwar 1974). Otherwise a server that has just started would know of no long ones. They do not exceed the longest
  /// possible length. A request that still reasons gets the same fraction of reasoning as all that have ended. O(n log
  /// n).
  [[nodiscard]] std::vector<trace_row> rows(std::span<const request> all, const learned_lengths& lengths,
                                            bool predicts) const {
    const std::vector<std::size_t> kinds = kinds_of(lengths, predicts);
    const std::vector<curve> curves = survival(all, kinds);
    const double part = reasoning_part();
    std::vector<trace_row> out;
    out.reserve(seen_.size());
    golden_section places;
    for (std::size_t i = 0; i != seen_.size(); ++i) {
      const entry& e = seen_[i];
      if (e.refused) continue;
      trace_row row;
      row.arrival_s = e.arrival_s - seen_.front().arrival_s;
      row.prompt_tokens = e.prompt.count();
      row.score = lengths.expected_of(e.score, e.prompt);
      row.tenant = e.tenant;
      tokens output = length_of(e, all);
      tokens reasoning = e.reasoning;
      if (!e.ended) {
        const request& r = all[e.request];
        const tokens generated = output;
        const double place = places.next();
        const auto own =
            std::partition_point(curves.begin(), curves.end() - 1, [&](const curve& c) { return c.last < kinds[i]; });
        output = longer_than(own->parts, generated, place);
        if (r.max_output > tokens{}) output = max(min(output, r.max_output), generated);
        const bool reasons = (is_live(r.state().life) ? r.state().phase : r.starts_in) == phase::reasoning;
        reasoning = reasons ? max(generated, tokens{std::llround(part * static_cast<double>(output.count()))})
                            : r.state().reasoning;
      }
      // The last token belongs to the answer.
      row.output_tokens = std::max<std::int64_t>(1, output.count());
      row.reasoning_tokens = std::min(reasoning.count(), row.output_tokens - 1);
      row.answer_tokens = row.output_tokens - row.reasoning_tokens;
      out.push_back(row);
    }
    return out;
  }

 private:
  static constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t alike = 32;                      ///< The number of neighbours by score that count as
                                                                ///< similar.
  static constexpr std::size_t scored = std::size_t{1} << 31U;  // beyond all clusters of prompts

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

  /// The fraction of all that is longer than `length`.
  struct part_left {
    tokens length{};
    double part = 1;
  };
  /// The curve of neighbouring kinds, see `kinds_of`.
  struct curve {
    std::size_t last = 0;          // The last of the kinds.
    std::vector<part_left> parts;  // Its values at each length, ended or not; by length.
  };
  struct known {
    std::size_t kind = 0;
    tokens length{};
    bool ended = false;
  };
  /// By kind: at least `alike` requests have ended in each, if there are that many.
  [[nodiscard]] std::vector<curve> survival(std::span<const request> all, const std::vector<std::size_t>& kinds) const {
    std::vector<known> seen;
    for (std::size_t i = 0; i != seen_.size(); ++i) {
      if (!seen_[i].refused) seen.push_back({kinds[i], length_of(seen_[i], all), seen_[i].ended});
    }
    std::sort(seen.begin(), seen.end(), [](const known& a, const known& b) { return a.kind < b.kind; });
    std::vector<std::size_t> ends;
    std::size_t ended = 0;
    for (std::size_t i = 0; i != seen.size(); ++i) {
      ended += seen[i].ended ? 1 : 0;
      if (ended < alike || (i + 1 != seen.size() && seen[i + 1].kind == seen[i].kind)) continue;
      ends.push_back(i + 1);
      ended = 0;
    }
    if (ends.empty()) ends.push_back(0);
    ends.back() = seen.size();  // a group that is too small joins the one before it
    std::vector<curve> curves;
    std::size_t from = 0;
    for (const std::size_t to : ends) {
      const std::size_t last = to == 0 ? 0 : seen[to - 1].kind;
      curves.push_back({last, survival(std::span{seen}.subspan(from, to - from))});
      from = to;
    }
    return curves;
  }
  [[nodiscard]] static std::vector<part_left> survival(std::span<known> of) {
    std::sort(of.begin(), of.end(), [](const known& a, const known& b) { return a.length < b.length; });
    std::vector<part_left> parts;
    double part = 1;
    for (std::size_t first = 0, past = 0; first != of.size(); first = past) {
      std::size_t ended = 0;
      for (; past != of.size() && of[past].length == of[first].length; ++past) ended += of[past].ended ? 1 : 0;
      part *= 1 - static_cast<double>(ended) / static_cast<double>(of.size() - first);
      parts.push_back({of[first].length, part});
    }
    return parts;
  }
  /// The length at the quantile `place` among those longer than `than`.
  [[nodiscard]] static tokens longer_than(const std::vector<part_left>& curve, tokens than, double place) {
    const auto above =
        std::upper_bound(curve.begin(), curve.end(), than, [](tokens t, const part_left& p) { return t < p.length; });
    const double left = (above == curve.begin() ? 1.0 : std::prev(above)->part) * (1 - place);
    const auto found = std::partition_point(above, curve.end(), [left](const part_left& p) { return p.part > left; });
    if (found != curve.end()) return found->length;
    const part_left& last = curve.back();
    if (last.part >= 1 || left <= 0) return max(than, last.length) + tokens{1};
    const double length = static_cast<double>(last.length.count()) * std::log(left) / std::log(last.part);
    return tokens{std::max(than.count() + 1, static_cast<std::int64_t>(std::min(length, 1e7)))};
  }

  /// The fraction of reasoning in the outputs of ended requests that reasoned; half if there are none.
  [[nodiscard]] double reasoning_part() const {
    double reasoning = 0, all = 0;
    for (const entry& e : seen_) {
      if (!e.ended || e.reasoning == tokens{}) continue;
      reasoning += static_cast<double>(e.reasoning.count());
      all += static_cast<double>(e.output.count());
    }
    return all > 0 ? reasoning / all : 0.5;
  }
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
  /// By request, a number that is close for requests with similar expectations. With a score, its place among all, from
  /// `scored` + 1 on, equal scores at the first place. Without a score, the expectation of its cluster of prompts.
  [[nodiscard]] std::vector<std::size_t> kinds_of(const learned_lengths& lengths, bool predicts) const {
    const auto has_score = [predicts](const entry& e) { return predicts && e.score == e.score; };
    std::vector<float> sorted;
    for (const entry& e : seen_) {
      if (has_score(e)) sorted.push_back(e.score);
    }
    std::sort(sorted.begin(), sorted.end());
    std::vector<std::size_t> kinds;
    kinds.reserve(seen_.size());
    for (const entry& e : seen_) {
      if (has_score(e)) {
        const auto at = std::lower_bound(sorted.begin(), sorted.end(), e.score);
        kinds.push_back(scored + static_cast<std::size_t>(at - sorted.begin()) + 1);
      } else {
        const float expected = lengths.expected_of(std::numeric_limits<float>::quiet_NaN(), e.prompt);
        kinds.push_back(static_cast<std::size_t>(std::min(expected, 1e9F)));
      }
    }
    return kinds;
  }
  [[nodiscard]] static tokens length_of(const entry& e, std::span<const request> all) noexcept {
    return e.ended ? e.output : all[e.request].generated();
  }

  std::size_t most_;
  std::size_t begun_ = 0;  // The number forgotten.
  std::size_t ended_ = 0;  // The number of remembered ones that have ended.
  std::deque<entry> seen_;
  std::vector<std::size_t> at_;  // By request: the number that came before it.
};

}  // namespace sim
TESSERA_NAMESPACE_END
