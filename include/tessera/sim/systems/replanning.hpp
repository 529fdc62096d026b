// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/fleet/traffic_sample.hpp>
#include <tessera/rank/length_drift.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/measure/load_verdict.hpp>
#include <tessera/sim/systems/by_headroom.hpp>
#include <tessera/sim/systems/cascade.hpp>
#include <tessera/sim/systems/disaggregated.hpp>
#include <tessera/sim/systems/instance_layout.hpp>
#include <tessera/sim/traffic/learned_lengths.hpp>
#include <tessera/sim/traffic/sampled_traffic.hpp>
#include <tessera/sim/traffic/traffic_window.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A control that observes the traffic, learns what to expect of it, and gives the instances another layout when one is
/// expected to pay. It begins with what a history says, if there is one, else with none: placement by headroom, and no
/// expectations.
///
/// It plans when enough is known (`first_plan`, `first_window`), and again whenever twice as many requests have arrived
/// as at the last plan. It also plans when there is a reason to:
/// - the *lengths* of the newer half of the window, or its scores, have drifted against those of the older half
///   (`traffic_window::find_drift`). The older half is forgotten as soon as enough of the newer half have ended;
/// - the *rate* differs by a third from the rate that was planned for;
/// - it *falls behind*: the queue has grown for `patience` looks, and more than one in twenty that arrived meanwhile
///   waits (`find_trend`, as in `judge_load`). If the plan changes nothing, it looks twice as long the next time.
///
/// The planner, `plan`, judges what a layout is expected to gain. It is told the present layout, and asks more of
/// another. Stages or pools are given up when two plans in a row say so. Pools are also given up when one plan says so
/// that was made because it falls behind or more requests come.
///
/// A plan takes `cluster_options::plan_s`, beside the service. It is made from what was known when it was asked for,
/// and no other is asked for meanwhile.
///
/// When the layout changes, requests that are on their way stay where they were. Running requests go on where they are,
/// or move as the new layout has them move. New requests go by the new layout.
///
/// A look each second is O(instances + the latest 1,024 requests). The lengths are looked at again for every eighth of
/// the window that arrives, in O(n log n) of the window. A plan is O(n log n), and what the planner takes. Measures:
/// `plans`, `layouts` (those begun), `shifts`.
class replanning : public cluster_control {
 public:
  /// Parameters.
  struct config {
    prefill_model model{};          ///< For placement by headroom and for pools.
    bool by_headroom = true;        ///< Otherwise new requests go to the least load while they are colocated.
    bool predicts = true;           ///< Scores are looked at.
    std::vector<tokens> bounds{};   ///< By instance: bounds of the prompts in a step, together. 0: none.
    std::size_t window = 16'384;    ///< Requests that are remembered. At least 4.
    std::size_t first_plan = 4;     ///< A plan needs as many ended requests among those it is made from,
    std::size_t first_window = 64;  ///< and as many arrived requests, or `window` if that is less.
    double look_s = 1;              ///< Between two looks.
    std::size_t patience = 16;      ///< Looks that a queue grows before it is acted upon.
    double rate_changes = 4.0 / 3;  ///< By this factor, up or down.
  };
  /// Finds a layout for traffic; `now` is the present one. The answer says why.
  using planner = std::function<instance_layout(const fleet::traffic_sample& seen, const instance_layout& now)>;

  /// @param lengths what it learns; must outlive it. @param history earlier requests of the same traffic, may be empty.
  /// @param plan says what is best.
  replanning(config c, learned_lengths& lengths, std::span<const trace_row> history, planner plan)
      : config_{std::move(c)},
        lengths_{&lengths},
        window_{config_.window},
        history_{history.begin(), history.end()},
        plan_{std::move(plan)},
        running_{colocated()} {}

  /// Called once, before the first event.
  void starts(cluster& c) override {
    window_.starts(c.requests().size());
    window_.remember(history_, c.now_s());
    given_ = window_.size();
    if (history_.empty()) {
      begin(c, {});
    } else {
      plan(c, "a history is given");
    }
    c.call_after(config_.look_s, 0);
  }

  /// The instance that a request which has just arrived goes to.
  [[nodiscard]] std::size_t place(cluster& c, const request& arrived) override {
    request& r = c.requests()[arrived.index];
    if (window_.arrived(r, r.score, c.now_s())) {
      ++arrivals_;
      if (plans_ == 0) expect_by_order(r.score);
      r.score = lengths_->expected_of(r.score, r.prompt);
    }
    return forward(c, &cluster_control::place, arrived);
  }

  // What else happens is the present layout's business. What ends is told to the window, too.

  /// `r` begins to answer.
  void answers(cluster& c, request& r) override { forward(c, &cluster_control::answers, r); }
  /// `r` has its first token.
  void prefilled(cluster& c, request& r) override { forward(c, &cluster_control::prefilled, r); }
  /// `r` has arrived with its KV.
  void moved(cluster& c, request& r) override { forward(c, &cluster_control::moved, r); }
  /// The KV of `r` is at its destination: it goes on there when the layout likes.
  void arrived(cluster& c, request& r) override { forward(c, &cluster_control::arrived, r); }
  /// `r` stays where it is.
  void migration_failed(cluster& c, request& r) override { forward(c, &cluster_control::migration_failed, r); }
  /// `r` has ended.
  void finished(cluster& c, request& r) override {
    ++gone_;
    count_for_program(r);
    window_.ended(r);
    forward(c, &cluster_control::finished, r);
  }
  /// `r` was refused.
  void rejected(cluster& c, request& r) override {
    ++gone_;
    count_for_program(r);
    window_.refused(r);
    forward(c, &cluster_control::rejected, r);
  }
  /// The instance of `r` has died.
  void lost(cluster& c, request& r) override { forward(c, &cluster_control::lost, r); }
  /// That instance `i` is dead has become known.
  void failed(cluster& c, std::size_t i) override { forward(c, &cluster_control::failed, i); }
  /// Instance `i` is back.
  void returned(cluster& c, std::size_t i) override { forward(c, &cluster_control::returned, i); }
  /// Instance `i` is between two steps.
  void step_ended(cluster& c, std::size_t i) override { forward(c, &cluster_control::step_ended, i); }
  /// A look, a plan that is made, or an alarm of the layout.
  void alarm(cluster& c, std::uint64_t what) override {
    if (c.alarm_is_of() == 0) {
      if (what == plan_is_made) return planned(c);
      rescan(c);
      return c.call_after(config_.look_s, 0);
    }
    if (c.alarm_is_of() != life_) return;  // of a layout that is no more
    forward(c, &cluster_control::alarm, what);
  }
  /// Called once, after the last event.
  void ended(cluster& c, run_result& result) override {
    forward(c, &cluster_control::ended, result);
    result.measures["plans"] = static_cast<double>(plans_);
    result.measures["layouts"] = static_cast<double>(life_);
    result.measures["shifts"] = static_cast<double>(drifts_);
    result.numbers.placement = placement_;
  }

 private:
  using pooled = disaggregated<phasor_control>;
  using least = decltype(by_least_load());

  /// While the present layout is told something: its alarms are told from those of the layouts before and after it.
  /// Looks are of number 0, which no layout has.
  class turn_of {
   public:
    turn_of(cluster& c, std::uint64_t life) noexcept : c_{&c}, before_{c.alarms_are_of(life)} {}
    turn_of(const turn_of&) = delete;
    turn_of& operator=(const turn_of&) = delete;
    ~turn_of() { c_->alarms_are_of(before_); }

   private:
    cluster* c_;
    std::uint64_t before_;
  };

  /// Calls the present layout.
  template <class Result, class Of>
  Result forward(cluster& c, Result (cluster_control::*what)(cluster&, Of), std::type_identity_t<Of> of) {
    const turn_of t{c, life_};
    return (*running_.*what)(c, of);
  }

  static constexpr double sure = 2.33;     // one in a hundred
  static constexpr double matters = 0.01;  // of those that arrive, by which the queue grows
  static constexpr double many = 0.05;     // of those that arrived while it grew

  [[nodiscard]] std::unique_ptr<cluster_control> colocated() const {
    if (config_.by_headroom) return std::make_unique<by_headroom>(config_.model);
    return std::make_unique<least>(by_least_load());
  }

  /// Ends the present layout and begins another.
  void begin(cluster& c, instance_layout next) {
    std::vector<request*> moving{c.moving().begin(), c.moving().end()};
    std::sort(moving.begin(), moving.end(), [](const request* a, const request* b) { return a->index < b->index; });
    for (request* r : moving) c.cut_migration(*r);
    ++life_;
    layout_ = std::move(next);
    switch (layout_.kind) {
      case layout_kind::colocated: running_ = colocated(); break;
      case layout_kind::stages: running_ = std::make_unique<cascade>(layout_.stages); break;
      case layout_kind::pools: running_ = std::make_unique<pooled>(layout_.pools, planned_pools(config_.model)); break;
    }
    former_.clear();
    if (layout_.kind == layout_kind::pools) {
      for (request& r : c.requests()) {
        if (is_live(r.state().life)) former_.push_back(&r);
      }
    }
    bound(c);
    const std::string_view name = name_of(layout_);
    if (name != last_name_) {
      placement_ += placement_.empty() ? std::string{name} : placement_.size() < 40 ? fmt::format(", {}", name) : "";
      last_name_ = name;
    }
    const turn_of t{c, life_};
    running_->starts(c);
  }

  /// Bounds the prompts of steps. In stages, requests that are read for long are not where prompts are. Prompts get all
  /// that they need there, unless a trial says otherwise. So they do in pools, except on instances with requests that
  /// were there before the pools.
  void bound(cluster& c) {
    const std::vector<tokens>& usual = layout_.bounds.empty() ? config_.bounds : layout_.bounds;
    const bool bounded =
        layout_.kind == layout_kind::colocated || (layout_.kind == layout_kind::stages && !layout_.bounds.empty());
    for (std::size_t i = 0; i != c.size(); ++i) c.bound_prompts(i, bounded ? usual[i] : tokens{});
    for (const request* r : former_) c.bound_prompts(r->where, usual[r->where]);
  }

  /// As `summary::placement` and the plans call it.
  [[nodiscard]] std::string_view name_of(const instance_layout& l) const {
    if (l.kind != layout_kind::colocated) return to_string(l.kind);
    if (!l.bounds.empty()) return "long steps";
    return config_.by_headroom ? to_string(l.kind) : placement_name<placement::least_load>;
  }

  /// For `rank::program_length`: a request that ends or is given up adds its tokens to its program's service.
  static void count_for_program(const request& r) noexcept {
    if (r.program != nullptr) r.program->attained += r.generated();
  }

  [[nodiscard]] double said_at(const cluster& c) const { return arrivals_ == 0 ? never : c.now_s(); }
  void note(cluster& c, std::string words) {
    if (c.options().watcher != nullptr) c.options().watcher->note(said_at(c), std::move(words));
  }
  void rule(cluster& c, std::string words) {
    if (c.options().watcher != nullptr) c.options().watcher->rule(said_at(c), std::move(words));
  }

  /// Learns from the window, and expects anew of those that are here.
  void learn(cluster& c) {
    lengths_->learn(known_outputs(window_.sample(c.requests())), config_.predicts);
    window_.each_here([&](std::size_t i, float score, tokens prompt) {
      c.requests()[i].score = lengths_->expected_of(score, prompt);
    });
  }
  /// Before anything has ended, only the order of the scores is known. Exponential lengths in that order stand for
  /// those to come. Steps are as fine as possible, because such lengths have no noise. This is done a few times,
  /// whenever twice as many scores have come.
  void expect_by_order(float score) {
    if (!config_.predicts || score != score) return;
    scores_.push_back(score);
    if (scores_.size() < 2 * ordered_ || scores_.size() < 8) return;
    ordered_ = scores_.size();
    std::vector<float> sorted = scores_;
    std::sort(sorted.begin(), sorted.end());
    std::vector<seen_output> assumed;
    for (std::size_t i = 0; i != sorted.size(); ++i) {
      const double place = (static_cast<double>(i) + 0.5) / static_cast<double>(sorted.size());
      assumed.push_back({sorted[i], tokens{1 + static_cast<std::int64_t>(-assumed_mean * std::log1p(-place))}, true});
    }
    lengths_->learn(assumed, true, 2);
  }
  static constexpr double assumed_mean = 500;

  void rescan(cluster& c) {
    if (!former_.empty()) {
      std::erase_if(former_, [](const request* r) { return !is_live(r->state().life); });
      bound(c);
    }
    std::size_t waiting = 0;
    for (const instance_view& v : c.views()) waiting += v.queued;
    queue_.push_back(static_cast<double>(waiting));
    if (queue_.size() > patience_) queue_.pop_front();
    population_.push_back({arrivals_, arrivals_ - gone_});
    if (population_.size() > config_.patience) population_.pop_front();
    const std::size_t first_window = std::min(config_.first_window, config_.window);
    if (made_ || window_.ended() < config_.first_plan || window_.size() < first_window) return;
    bool drifted = false;
    if (arrivals_ >= looked_at_ + std::max(window_.size() / 8, first_window)) {
      looked_at_ = arrivals_;
      drifted = find_drift(c);
    }
    if (drifted) return plan(c, "the traffic has changed");
    if (arrivals_ + given_ >= 2 * planned_at_) return plan(c, "more is known");
    const double rate = window_.rate();
    if (planned_rate_ > 0 && arrivals_ + given_ >= planned_at_ + lately && rate > 0 &&
        (rate > planned_rate_ * config_.rate_changes || rate * config_.rate_changes < planned_rate_)) {
      return plan(c, fmt::format("{:.3g} requests come a second, not {:.3g}", rate, planned_rate_),
                  rate > planned_rate_ ? urgency::more_come : urgency::none);
    }
    if (falls_behind(rate)) {
      plan(c,
           fmt::format("it falls behind: {:.0f} wait, {:.0f} more than {:g} s ago", queue_.back(),
                       queue_.back() - queue_.front(), static_cast<double>(patience_) * config_.look_s),
           urgency::falls_behind);
    }
  }

  /// Whether the queue grows, and is worth something.
  [[nodiscard]] bool falls_behind(double rate) const {
    if (queue_.size() < patience_) return false;
    // As many samples as are worth comparing.
    std::vector<double> parts(std::min<std::size_t>(queue_.size(), 16), 0.0);
    const double each = static_cast<double>(queue_.size()) / static_cast<double>(parts.size());
    for (std::size_t i = 0; i != queue_.size(); ++i) {
      parts[std::min(static_cast<std::size_t>(static_cast<double>(i) / each), parts.size() - 1)] += queue_[i] / each;
    }
    const trend grows = find_trend(parts);
    const double come = rate * config_.look_s * each;
    return grows.z > sure && queue_.back() > queue_.front() && grows.slope > matters * come &&
           queue_.back() > many * come * static_cast<double>(parts.size());
  }

  /// Whether about the same number of requests is here at every look. If arrivals did not depend on the requests that
  /// end, their number would vary by the square root of how many arrived meanwhile.
  [[nodiscard]] bool held() const {
    if (population_.size() < config_.patience) return false;
    const auto [least, most] = std::minmax_element(population_.begin(), population_.end(),
                                                   [](const look_at& a, const look_at& b) { return a.here < b.here; });
    const std::size_t came = population_.back().arrived - population_.front().arrived;
    constexpr std::size_t enough = 16;  // if there are fewer, none or one may be here at any look
    return came >= enough && least->here >= enough &&
           static_cast<double>(most->here - least->here) < std::sqrt(static_cast<double>(came)) / 4;
  }

  /// Requests a second that arrived between the last looks; 0 if these were few.
  [[nodiscard]] double rate_lately() const {
    if (population_.empty()) return 0;
    constexpr std::size_t enough = 100;
    const std::size_t came = population_.back().arrived - population_.front().arrived;
    const double seconds = config_.look_s * static_cast<double>(population_.size() - 1);
    return came < enough ? 0 : static_cast<double>(came) / seconds;
  }

  bool find_drift(cluster& c) {
    const traffic_shift s = sim::find_drift(window_.sample(c.requests()), *lengths_, config_.predicts);
    const auto sure_of = [](double z) { return std::abs(z) > rank::drift_threshold_z; };
    if (!sure_of(s.outputs) && !sure_of(s.prompts) && !sure_of(s.scores)) return false;
    if (window_.newer_ended() < config_.first_plan) return false;  // nothing to plan from would be left
    const auto words = [&](double z) { return !sure_of(z) ? "as they were" : z > 0 ? "longer" : "shorter"; };
    const double from = window_.from_s();
    window_.forget_half();
    ++drifts_;
    const std::string scores =
        sure_of(s.scores) ? fmt::format(", scores {} (z {:.1f})", s.scores > 0 ? "higher" : "lower", s.scores) : "";
    note(c, fmt::format("the traffic has changed: prompts are {} (z {:.1f}), outputs {} (z {:.1f}){}; what came from "
                        "{:.1f} s to {:.1f} s is forgotten",
                        words(s.prompts), s.prompts, words(s.outputs), s.outputs, scores, from, window_.from_s()));
    return true;
  }

  /// Why a plan cannot wait for the next one.
  enum class urgency : std::uint8_t { none, more_come, falls_behind };

  /// A plan that was asked for.
  struct made_plan {
    instance_layout next{};
    std::string reason{};
    urgency hurry = urgency::none;
  };
  static constexpr std::uint64_t plan_is_made = 1;  // What an alarm says; a look is 0.

  /// Learns, and has a plan made. What comes of it is known `cluster_options::plan_s` later. A plan of a history is
  /// made before the service begins.
  void plan(cluster& c, std::string reason, urgency hurry = urgency::none) {
    learn(c);
    planned_at_ = arrivals_ + given_;
    planned_rate_ = window_.rate();
    ++plans_;
    const std::vector<fleet::seen_request> seen = window_.sample(c.requests());
    const fleet::traffic_sample sample{.requests = seen,
                                       .rate = planned_rate_,
                                       .lately = rate_lately(),
                                       .here = arrivals_ - gone_,
                                       .held = held(),
                                       .behind = hurry == urgency::falls_behind};
    made_ = made_plan{plan_(sample, layout_), std::move(reason), hurry};
    if (c.options().plan_s == 0 || life_ == 0) return planned(c);
    c.call_after(c.options().plan_s, plan_is_made);
  }

  /// A plan is made: begins another layout if that is what it says.
  void planned(cluster& c) {
    auto [next, reason, hurry] = std::move(*made_);
    made_.reset();
    const bool changes = life_ == 0 || !alike(next, layout_);
    const bool waits = life_ != 0 && stays_once(layout_, next, doubted_, hurry != urgency::none);
    doubted_ = waits;
    const std::string_view present = name_of(layout_);
    rule(c, fmt::format("a plan, as {}: {}{}{}", reason, next.why, next.why.empty() ? "" : "; ",
                        waits     ? fmt::format("{} stay unless the next plan says so, too", present)
                        : changes ? fmt::format("{} from now on", name_of(next))
                                  : fmt::format("nothing changes: {}", present)));
    if (changes && !waits) {
      patience_ = config_.patience;
      queue_.clear();
      return begin(c, std::move(next));
    }
    if (hurry != urgency::falls_behind) return;
    patience_ *= 2;
    queue_.clear();
  }

  static constexpr std::size_t lately = 256;

  config config_;
  learned_lengths* lengths_;
  traffic_window window_;
  std::vector<trace_row> history_;
  planner plan_;
  instance_layout layout_{};
  std::unique_ptr<cluster_control> running_;
  std::optional<made_plan> made_{};  ///< The plan that is on its way.
  std::uint64_t life_ = 0;           ///< Which layout runs: the first is 1.
  std::vector<request*> former_;     ///< Those that were there before pools were, and have not ended.
  std::size_t arrivals_ = 0;
  std::size_t gone_ = 0;        ///< Arrivals that have ended or were refused.
  std::size_t looked_at_ = 0;   ///< Arrivals when a drift was looked for last.
  std::size_t planned_at_ = 0;  ///< Arrivals at the last plan, with what was given.
  std::size_t given_ = 0;       ///< Requests of the history.
  double planned_rate_ = 0;
  std::deque<double> queue_;  ///< How many waited at the last looks.
  struct look_at {
    std::size_t arrived = 0;  ///< Until then.
    std::size_t here = 0;     ///< Then.
  };
  std::deque<look_at> population_;  ///< At the last looks.
  std::size_t patience_ = config_.patience;
  std::vector<float> scores_;  ///< Scores of requests that came before anything was learned.
  std::size_t ordered_ = 0;
  bool doubted_ = false;  ///< The last plan would have given up what there is.
  std::size_t plans_ = 0;
  std::size_t drifts_ = 0;
  std::string placement_;
  std::string_view last_name_{};
};

}  // namespace sim
TESSERA_NAMESPACE_END
