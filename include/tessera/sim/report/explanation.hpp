// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/run_watcher.hpp>
#include <tessera/sim/error.hpp>
#include <tessera/sim/measure/metrics.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// A run explained: the events of one request, or of one second, with the deciding component and the reason.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The subject of an explanation: a request, or one second.
struct question {
  std::optional<std::size_t> request{};  ///< Row of the workload.
  double from_s = 0;                     ///< Without a request: the second that begins here.

  /// Duration of the explained period without a request.
  static constexpr double seconds = 1;
};

/// Reads `17` or `request:17`, a request; `12.5` or `time:12`, a time. @throws usage_error
[[nodiscard]] question parse_question(std::string_view text);

/// Rejects an unknown request. @throws usage_error
void require_request(const question& q, std::size_t requests);

/// Builds a timeline from the reports of a run: consecutive steps with the same effect on a request become one entry.
///
///     explanation told{parse_question("17")};
///     options.watcher = &told;
///     const run_result r = policy.run(options, rows, progress);
///     told.finish(r);
///     fmt::print("{}", told.text());
class explanation : public run_watcher {
 public:
  /// An event, or the effect of the steps from `at_s` to `until_s`.
  struct entry : request_event {
    double until_s = 0;     ///< The same as `at_s` for an event.
    std::size_t steps = 0;  ///< Their number; 0 for an event.
    tokens count{};         ///< Computed or generated in them.
  };

  /// A statement of the policy that is not about a single request.
  struct note_at {
    double at_s = 0;     ///< NaN before the run.
    std::string words;   ///< A plain sentence.
    bool holds = false;  ///< Valid until the next one that holds: a rule, not an event.
  };

  /// Asks only about `q`.
  explicit explanation(const question& q) : question_{q} {}

  [[nodiscard]] bool asks(std::size_t request, double now_s) const override {
    return question_.request ? request == *question_.request : is_inside(now_s);
  }
  [[nodiscard]] bool asks_of_steps(double now_s) const override { return !question_.request && is_inside(now_s); }

  void notify(request_event e) override {
    open& o = of(e.request);
    if (e.what == event_kind::first_token && std::exchange(o.has_token, true)) return;
    // A request continues to run while it is negotiated, and while its KV is copied.
    const bool is_talk = e.what >= event_kind::offered && e.what <= event_kind::reserved;
    if (!is_talk && e.what != event_kind::moves) close(o, e.at_s);
    if (is_talk && is_repeated(e)) return;
    if (e.what == event_kind::asked && !entries_.empty()) {
      entry& last = entries_.back();
      if (last.what == event_kind::asked && last.request == e.request && last.at_s == e.at_s) {
        asked_ += fmt::format(", {}", e.instance);
        last.why = fmt::format("instances {}, whether they take it", asked_);
        return;
      }
    }
    if (e.what == event_kind::asked) {
      asked_ = std::to_string(e.instance);
      e.why = fmt::format("instance {}, whether it takes it", asked_);
    }
    entry made;
    static_cast<request_event&>(made) = std::move(e);
    made.until_s = made.at_s;
    auto before = entries_.end();
    if (made.what == event_kind::offered) {  // reported when the first has been asked
      while (before != entries_.begin() && std::prev(before)->what == event_kind::asked &&
             std::prev(before)->request == made.request && std::prev(before)->at_s == made.at_s) {
        --before;
      }
    }
    entries_.insert(before, std::move(made));
  }

  void notify(request_step s) override {
    open& o = of(s.request);
    const bool same = o.is_open && o.made.what == s.what && o.reason == s.reason && o.made.instance == s.instance;
    if (!same) {
      close(o, s.from_s);
      o.is_open = true;
      o.made = {};
      o.made.what = s.what;
      o.made.at_s = s.from_s;
      o.made.request = s.request;
      o.made.instance = s.instance;
      o.made.why = std::move(s.why);
      o.reason = s.reason;
      o.first_ahead = s.ahead;
      o.chunks.clear();
    }
    o.made.until_s = s.until_s;
    o.made.steps += 1;
    o.made.count += s.count;
    o.last_ahead = s.ahead;
    if (s.what == event_kind::computes) o.chunks.push_back(s.count.count());
  }

  void notify(instance_step s) override {
    of_instance& one = instances_[s.instance];
    one.steps += 1;
    one.computed += s.computed;
    one.seconds += s.until_s - s.from_s;
    one.last = std::move(s);
  }

  void note(double at_s, std::string words) override { notes_.push_back({at_s, std::move(words), false}); }
  void rule(double at_s, std::string words) override { notes_.push_back({at_s, std::move(words), true}); }

  /// Ends the run. Call once. Requires: `r` is the run that reported here.
  void finish(const run_result& r) {
    const double forever = std::numeric_limits<double>::infinity();
    for (auto& [request, o] : open_) close(o, forever);
    // Reports of one time keep their order. But a stretch of steps comes after the events that led to it, and
    // negotiation after the steps in which it took place.
    std::stable_sort(entries_.begin(), entries_.end(), [](const entry& a, const entry& b) {
      if (a.at_s != b.at_s) return a.at_s < b.at_s;
      return a.steps == 0 && b.steps != 0;
    });
    policy_ = r.numbers.policy;
    begins_s_ = forever;
    ends_s_ = -forever;
    for (const request_record& one : r.requests) {
      begins_s_ = std::min(begins_s_, one.arrival);
      ends_s_ = std::max({ends_s_, one.arrival, one.completed() ? one.finish : one.arrival});
      if (question_.request && one.id == *question_.request) record_ = one;
    }
    // Keeps only statements within the explained period, and those that held when it began.
    const double from_s = !question_.request ? question_.from_s : record_ ? record_->arrival : -forever;
    double ruled_s = -forever;
    for (const note_at& n : notes_) {
      if (n.holds && n.at_s <= from_s) ruled_s = std::max(ruled_s, n.at_s);
    }
    std::erase_if(notes_, [&](const note_at& n) {
      if (std::isnan(n.at_s) || (n.holds && n.at_s == ruled_s)) return false;
      if (!question_.request) return !is_inside(n.at_s);
      return !record_ || n.at_s < record_->arrival || (record_->completed() && n.at_s > record_->finish);
    });
  }

  /// Whether the requested second is outside of the run. Requires: `finish`.
  [[nodiscard]] bool is_outside() const noexcept {
    return !question_.request && (question_.from_s > ends_s_ || question_.from_s + question::seconds <= begins_s_);
  }
  /// When the run began and ended. Requires: `finish`.
  [[nodiscard]] std::pair<double, double> range() const noexcept { return {begins_s_, ends_s_}; }
  /// The entries, in order of time. Requires: `finish`.
  [[nodiscard]] const std::vector<entry>& entries() const noexcept { return entries_; }
  /// The policy's statements about the whole run.
  [[nodiscard]] const std::vector<note_at>& notes() const noexcept { return notes_; }

  /// The timeline, for human readers. Requires: `finish`.
  [[nodiscard]] std::string text() const {
    std::string out;
    if (question_.request) {
      out += fmt::format("{}, request {}:\n", policy_, *question_.request);
    } else {
      out += fmt::format("{}, from {:.3f} s to {:.3f} s:\n", policy_, question_.from_s,
                         question_.from_s + question::seconds);
    }
    for (const note_at& n : notes_) {
      out += wrapped("  ", std::isnan(n.at_s) ? n.words : fmt::format("at {:.3f} s {}", n.at_s, n.words));
    }
    out += instances_text();
    for (const entry& e : entries_) {
      // A second has many events; a request that merely continues is no decision in it.
      if (!question_.request && e.what == event_kind::generates) continue;
      const std::string when =
          e.steps == 0 ? fmt::format("{:.3f}", e.at_s) : fmt::format("{:.3f}-{:.3f}", e.at_s, e.until_s);
      const std::string who = question_.request ? std::string{} : fmt::format("{:>6} ", e.request);
      const std::string where = e.instance == nowhere ? std::string{"-"} : std::to_string(e.instance);
      const std::string head = fmt::format("{:>17} {}{:>3}  {:<12} ", when, who, where, to_string(e.what));
      out += wrapped(head, e.why);
      out += table(e);
    }
    return out + summary_text();
  }

  /// The same for programs. Requires: `finish`.
  [[nodiscard]] nlohmann::ordered_json json() const {
    nlohmann::ordered_json out;
    if (question_.request) {
      out["request"] = *question_.request;
    } else {
      out["from_s"] = question_.from_s;
      out["to_s"] = question_.from_s + question::seconds;
    }
    out["notes"] = nlohmann::ordered_json::array();
    for (const note_at& n : notes_) {
      out["notes"].push_back({{"at_s", std::isnan(n.at_s) ? nlohmann::ordered_json{} : nlohmann::ordered_json(n.at_s)},
                              {"words", n.words}});
    }
    nlohmann::ordered_json events = nlohmann::ordered_json::array();
    for (const entry& e : entries_) {
      nlohmann::ordered_json one{
          {"what", to_string(e.what)}, {"at_s", e.at_s}, {"until_s", e.until_s}, {"request", e.request}};
      if (e.instance != nowhere) one["instance"] = e.instance;
      if (e.steps != 0) one["steps"] = e.steps;
      if (e.count != tokens{}) one["tokens"] = e.count.count();
      one["why"] = e.why;
      for (const comparison::row& row : e.seen.rows) {
        nlohmann::ordered_json seen{{"instance", row.instance}};
        if (!row.label.empty()) seen["label"] = row.label;
        for (std::size_t k = 0; k != row.values.size(); ++k) seen[e.seen.columns[k]] = row.values[k];
        one["seen"].push_back(std::move(seen));
      }
      events.push_back(std::move(one));
    }
    out["events"] = std::move(events);
    for (const auto& [i, one] : instances_) {
      out["instances"].push_back({{"instance", i},
                                  {"steps", one.steps},
                                  {"tokens", one.computed.count()},
                                  {"decodes", one.last.decodes},
                                  {"prompts", one.last.prompts},
                                  {"waiting", one.last.waiting},
                                  {"free_blocks", one.last.free.count()},
                                  {"first", one.last.first}});
    }
    return out;
  }

 private:
  static constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t width = 100;

  /// The present stretch of steps of a request.
  struct open {
    entry made{};
    bool is_open = false;
    bool has_token = false;
    wait_reason reason = wait_reason::none;
    std::size_t first_ahead = 0;
    std::size_t last_ahead = 0;
    std::vector<std::int64_t> chunks{};
  };
  struct of_instance {
    std::size_t steps = 0;
    tokens computed{};
    double seconds = 0;
    instance_step last{};
  };

  [[nodiscard]] bool is_inside(double now_s) const noexcept {
    return question_.from_s <= now_s && now_s < question_.from_s + question::seconds;
  }
  [[nodiscard]] open& of(std::size_t request) { return open_[request]; }

  /// Messages are repeated until they are answered.
  [[nodiscard]] bool is_repeated(const request_event& e) const {
    for (auto i = entries_.rbegin(); i != entries_.rend(); ++i) {
      if (i->request != e.request) continue;
      if (i->what == event_kind::offered || i->what == event_kind::moved) return false;
      if (i->what == e.what && i->instance == e.instance) return true;
    }
    return false;
  }

  void close(open& o, double at_s) {
    if (!std::exchange(o.is_open, false)) return;
    entry& e = o.made;
    e.until_s = std::min(e.until_s, std::max(at_s, e.at_s));
    const double seconds = e.until_s - e.at_s;
    switch (e.what) {
      case event_kind::computes: {
        std::string parts;
        const std::size_t shown = std::min<std::size_t>(o.chunks.size(), 8);
        for (std::size_t k = 0; k != shown; ++k) parts += fmt::format("{}{}", k == 0 ? "" : " + ", o.chunks[k]);
        if (shown != o.chunks.size()) parts += " + ...";
        if (o.chunks.size() != 1) {
          e.why = fmt::format("{} tokens in {} steps: {}", e.count.count(), e.steps, parts);
        } else {
          e.why = e.count == tokens{1} ? "a token" : fmt::format("{} tokens in one step", e.count.count());
        }
        break;
      }
      case event_kind::generates:
        e.why = e.steps == 1 ? fmt::format("a token, {:.4g} s", seconds)
                             : fmt::format("{} tokens, {:.4g} s each", e.steps, seconds / static_cast<double>(e.steps));
        break;
      case event_kind::waits:
        if (o.last_ahead != o.first_ahead) e.why += fmt::format(" (at last {} before it)", o.last_ahead);
        break;
      default: break;
    }
    entries_.push_back(e);
  }

  /// `head` and then `words`, wrapped.
  [[nodiscard]] static std::string wrapped(const std::string& head, std::string_view words) {
    std::string out;
    std::string line = head;
    const std::string indent(std::min<std::size_t>(head.size(), 40), ' ');
    bool fresh = true;
    while (!words.empty()) {
      const std::size_t space = std::min(words.find(' '), words.size());
      const std::string_view word = words.substr(0, space);
      words.remove_prefix(std::min(space + 1, words.size()));
      if (!fresh && line.size() + 1 + word.size() > width) {
        out += line + "\n";
        line = indent;
        fresh = true;
      }
      line += fmt::format("{}{}", fresh ? "" : " ", word);
      fresh = false;
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    return out + line + "\n";
  }

  /// The compared values: a limited number of rows, including the chosen one.
  [[nodiscard]] static std::string table(const entry& e) {
    constexpr std::size_t most = 16;
    if (e.seen.rows.empty()) return {};
    constexpr std::string_view indent = "                        ";
    std::string out = fmt::format("{}  instance", indent);
    bool labelled = false;
    for (const comparison::row& row : e.seen.rows) labelled = labelled || !row.label.empty();
    if (labelled) out += "          ";
    for (const std::string& column : e.seen.columns) out += "  " + column;
    out += "\n";
    std::size_t left_out = 0;
    std::size_t listed = 0;
    for (const comparison::row& row : e.seen.rows) {
      if (listed >= most && row.instance != e.instance) {
        ++left_out;
        continue;
      }
      ++listed;
      out += fmt::format("{}{} {:>8}", indent, row.instance == e.instance ? '>' : ' ', row.instance);
      if (labelled) out += fmt::format("  {:<8}", row.label);
      for (std::size_t k = 0; k != row.values.size(); ++k) {
        out += fmt::format("  {:>{}}", fmt::format("{:.6g}", row.values[k]), e.seen.columns[k].size());
      }
      out += "\n";
    }
    if (left_out != 0) out += fmt::format("{}  and {} others\n", indent, left_out);
    return out;
  }

  [[nodiscard]] std::string instances_text() const {
    std::string out;
    for (const auto& [i, one] : instances_) {
      const instance_step& s = one.last;
      out +=
          wrapped(fmt::format("  instance {:>3}: ", i),
                  fmt::format("{} steps of {:.4g} s, {} tokens; at last {} decode, {} prompts, {} blocks are free, {} "
                              "wait{}{}",
                              one.steps, one.seconds / static_cast<double>(one.steps), one.computed.count(), s.decodes,
                              s.prompts, s.free.count(), s.waiting, s.first.empty() ? "" : ": ", s.first));
    }
    return out;
  }

  [[nodiscard]] std::string summary_text() const {
    if (!question_.request || !record_) return {};
    const request_record& r = *record_;
    if (!r.completed()) return wrapped("  ", r.rejected ? "It was refused." : "It never ended.");
    return wrapped(
        "  ", fmt::format(
                  "The first answering token came after {:.3f} s, the last after {:.3f} s: {:.3f} s in steps, {:.3f} s "
                  "without its blocks, {:.3f} s otherwise in none. Preempted {} times, moved {} times.",
                  r.ttft(), r.e2e(), r.executed, r.preempted, r.blocked, r.preemptions, r.migrations));
  }

  question question_;
  std::string policy_{};
  std::vector<entry> entries_{};
  std::vector<note_at> notes_{};
  std::map<std::size_t, open> open_{};
  std::map<std::size_t, of_instance> instances_{};
  std::optional<request_record> record_{};
  std::string asked_{};
  double begins_s_ = 0;
  double ends_s_ = 0;
};

}  // namespace sim
TESSERA_NAMESPACE_END
