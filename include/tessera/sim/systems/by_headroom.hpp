// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/headroom/prefill_load.hpp>
#include <tessera/headroom/space.hpp>
#include <tessera/placement/least_prefill_backlog.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/cluster/compare_views.hpp>
#include <tessera/sim/cluster/placed.hpp>
#include <tessera/sim/systems/disaggregated.hpp>
#include <tessera/sim/traffic/learned_lengths.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A new request goes to the instance with the most headroom: the smaller of Phi_T and Phi_S, which may be negative.
/// Phi_T is the time left after the prompts of the requests that have no token yet. Phi_S is the memory left when all
/// requests of the instance have their expected length.
///
/// While at least half of it is left, headroom counts as equal within the error of the expected lengths. From three
/// quarters on, all headroom counts as equal. Among equals, a request goes where it adds the least to the latencies of
/// all, its own included; ties go round-robin (`placement::least_prefill_backlog`). If instances differ in speed, only
/// the headroom decides.
///
/// A request adds, in seconds:
/// - to its own latency: the prompts in the queue, and a decode step for each token that is expected of it. A step
///   counts all requests of the instance, and the prompts of the requests that follow those. If there are more requests
///   than a step may have, the steps count again for each time that it waits for a place;
/// - to each other request in a step: its prompt, and what its KV adds to these steps.
///
/// If only its own latency counted, all requests would avoid long contexts, until the other instances were as slow.
///
/// If some of its prompt is cached on an instance, a request goes to the least
/// `queue + uncached * (requests + 1)`. `queue` is the time of the prompts in the queue, for which the request waits.
/// `uncached` is the time of the part of its prompt that is to be computed there, for which the others wait. The
/// product is LMetric's, in time. It counts the request itself; else an idle instance would be worth any prefix. If the
/// queue were multiplied as well, prefixes would scatter. If it did not count, a prefix that many requests share would
/// draw all of them to one instance.
///
/// Requests that begin to answer stay, unless memory is tight. O(instances) a request, and O(instances log blocks)
/// where prefixes are shared.
class by_headroom : public cluster_control {
 public:
  /// @param model what prompts cost, and the time to first token that is aimed at.
  explicit by_headroom(const prefill_model& model) : model_{model} {}

  /// Called once: before the first event, or when it takes over from another control, with the requests that are there.
  void starts(cluster& c) override {
    taken_.assign(c.requests().size(), {});
    totals_.assign(c.size(), {});
    views_.reserve(c.size());
    step_shape decode, prompt;
    decode.add_decode(tokens{1000});
    prompt.add_prefill(tokens{}, tokens{1000});
    const auto speed = [&](std::size_t i) {
      const auto& timer = c.options().of(i).timer;
      return std::pair{timer(decode), timer(prompt)};
    };
    alike_ = true;
    for (std::size_t i = 0; i != c.size(); ++i) alike_ = alike_ && speed(i) == speed(0);
    if (!alike_) least_backlog_.phi_high_watermark = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i != c.size(); ++i) {
      for (const request* r : c.at(i).requests()) {
        take(c, *r, i, r->prefills, tokens{});
      }
    }
  }
  /// The instance that a request which has just arrived goes to.
  [[nodiscard]] std::size_t place(cluster& c, const request& r) override {
    if (!r.prefix_hashes().empty()) c.look_at_prefixes(r);
    const auto& instances = c.candidates(r);
    const bool cached =
        !r.prefix_hashes().empty() && std::any_of(instances.begin(), instances.end(),
                                                  [](const instance_view& v) { return v.cached_tokens > tokens{}; });
    views_.clear();
    for (const instance_view& v : instances) {
      const double prefill_backlog = totals_[v.id].prompts.flops(model_.cost);
      if (cached) {
        const double own = model_.cost.flops(r.prompt, v.cached_tokens);
        views_.push_back(
            {.requests = v.requests, .phi = -(prefill_backlog + own * static_cast<double>(v.requests + 1))});
        continue;
      }
      // If the requests have generated more than expected in total, the blocks held count.
      const blocks used = max(totals_[v.id].memory, v.kv_held);
      const double error = std::sqrt(totals_[v.id].squares) / static_cast<double>(v.capacity.count());
      views_.push_back({.requests = v.requests,
                        .phi = std::min(freeness(v.id), headroom::space_freeness(used, {}, v.capacity)),
                        .error = alike_ ? error : 0,
                        .prefill_backlog = seconds(prefill_backlog)});
    }
    // The added latency decides only among several instances of equal headroom.
    const double most = least_backlog_.most_of(views_);
    const bool several = !cached && alike_ && most >= least_backlog_.phi_low_watermark &&
                         std::count_if(views_.begin(), views_.end(),
                                       [&](const view& v) { return least_backlog_.is_equal(v, most); }) > 1;
    if (several || (c.asks(r) && alike_)) {
      for (std::size_t i = 0; i != instances.size(); ++i) views_[i].prefill_backlog += added_s(c, instances[i], r);
    }
    const std::size_t at = cached ? most_free_(views_) : least_backlog_(views_);
    const instance_view& chosen = instances[at];
    const std::size_t to = chosen.id;
    if (c.asks(r) && cached) {
      c.because("the least queue + uncached prompt * (requests + 1), in work; part of the prompt is cached",
                sim::compare_views(instances, {.prefixes = true}));
    } else if (c.asks(r)) {
      comparison seen{.columns = {"requests", "Phi_T", "Phi_S", "adds, s"}};
      for (std::size_t i = 0; i != instances.size(); ++i) {
        const instance_view& v = instances[i];
        seen.rows.push_back({v.id,
                             {},
                             {static_cast<double>(v.requests), freeness(v.id),
                              headroom::space_freeness(max(totals_[v.id].memory, v.kv_held), {}, v.capacity),
                              views_[i].prefill_backlog}});
      }
      c.because(
          fmt::format("{}; {} tokens are expected of it",
                      several
                          ? "the least added latency, its own and the others', by queued prompts and decoding: several "
                            "have equal headroom, the smaller of Phi_T and Phi_S"
                          : "the most headroom, the smaller of Phi_T and Phi_S",
                      scored_length{}(r).count()),
          std::move(seen));
    }
    take(c, r, to, true, cached ? chosen.cached_tokens : tokens{});
    return to;
  }
  /// `r` has its first token.
  void prefilled(cluster& /*c*/, request& r) override {
    taken& t = taken_[r.index];
    if (t.in_line) totals_[t.at].prompts.leave(r.prompt, t.computed);
    t.in_line = false;
  }
  /// A request begins to answer: it may move.
  void answers(cluster& c, request& r) override {
    prefilled(c, r);  // a moved request gets no such call
    migration_.answers(c, r);
  }
  /// `r` has arrived with its KV.
  void moved(cluster& /*c*/, request& r) override {
    leave(r);
    taken_[r.index].at = r.where;
    join(r);
  }
  /// `r` was refused.
  void rejected(cluster& c, request& r) override { finished(c, r); }
  /// The instance of `r` has died.
  void lost(cluster& c, request& r) override { finished(c, r); }
  /// `r` has ended.
  void finished(cluster& /*c*/, request& r) override { leave(r); }

 private:
  /// What a request takes on an instance.
  struct taken {
    std::size_t at = 0;
    blocks memory{};              // when it has its expected length
    tokens computed{};            // of its prompt: cached
    std::int64_t prompts_ns = 0;  // what it adds to a step if it is followed by others like it
    bool in_line = false;         // until it has its first token
  };
  /// What all requests of an instance take together.
  struct total {
    blocks memory{};
    double squares = 0;  // of the blocks of each request: whole numbers, so that nothing is rounded
    headroom::prefill_load prompts;
    std::int64_t prompts_ns = 0;
  };
  struct view {
    std::size_t requests = 0;
    double phi = 0;
    double error = 0;
    double prefill_backlog =
        0;  // seconds added to all latencies, without its own prompt, which takes as long everywhere
  };

  void take(cluster& c, const request& r, std::size_t at, bool in_line, tokens computed) {
    const tokens expected = scored_length{}(r);
    const blocks memory = blocks_for(r.prompt + expected, c.options().instance.limits.block_size);
    const double prompt_s = seconds(model_.cost.flops(r.prompt, computed));
    const double each_s = expected > tokens{} ? prompt_s / static_cast<double>(expected.count()) : 0;
    taken_[r.index] = {at, memory, computed, std::llround(1e9 * each_s), in_line};
    join(r);
  }
  void join(const request& r) {
    const taken& t = taken_[r.index];
    total& sum = totals_[t.at];
    sum.memory += t.memory;
    sum.squares += squared(t.memory);
    sum.prompts_ns += t.prompts_ns;
    if (t.in_line) sum.prompts.join(r.prompt, t.computed);
  }
  void leave(const request& r) {
    const taken& t = taken_[r.index];
    total& sum = totals_[t.at];
    sum.memory -= t.memory;
    sum.squares -= squared(t.memory);
    sum.prompts_ns -= t.prompts_ns;
    if (t.in_line) sum.prompts.leave(r.prompt, t.computed);
  }
  [[nodiscard]] static double squared(blocks n) {
    return static_cast<double>(n.count()) * static_cast<double>(n.count());
  }
  /// Seconds by which `r` and all requests on `v` would take longer if `r` went to `v`. The prompts in the queue and
  /// the prompt of `r` do not count for `r` itself. Every request that ends is followed by another like it.
  [[nodiscard]] double added_s(const cluster& c, const instance_view& v, const request& r) const {
    const instance_options& one = c.options().of(v.id);
    const tokens output = scored_length{}(r);
    const auto expected = static_cast<double>(output.count());
    const auto there = static_cast<double>(v.requests);
    // While `r` is there, each other request grows by at most the output of `r`. Together they grow at most to what
    // they are expected to hold in the end. On average they have grown by half of that. All contexts count as equally
    // long.
    const std::int64_t block = one.limits.block_size.count();
    const std::int64_t now = (v.kv_held + v.waiting_blocks).count() * block;
    const std::int64_t later = totals_[v.id].memory.count() * block;
    const double grows = std::min(static_cast<double>(std::max<std::int64_t>(later - now, 0)), there * expected);
    const std::int64_t held = now + std::llround(grows / 2);
    const std::size_t most = std::min(one.step.max_batch, one.limits.residents);
    // A step of at most `most` of `n` requests, with `context` tokens together.
    const auto step_of = [&](std::size_t n, std::int64_t context) {
      step_shape s;
      s.longest_context = context / static_cast<std::int64_t>(std::max<std::size_t>(n, 1));
      s.decodes = static_cast<std::int64_t>(std::min(n, most));
      s.decode_context = n > most ? s.longest_context * s.decodes : context;
      return one.timer(s);
    };
    const double before = step_of(v.requests, held);
    const double step = step_of(v.requests + 1, held + r.prompt.count() + output.count() / 2);
    const auto places = static_cast<double>(most);
    // Requests beyond the places of a step wait for a place, and so do those that follow.
    const double rounds = there < places ? 1 : (2 * there + 1) / places;
    return expected * (step + 1e-9 * static_cast<double>(totals_[v.id].prompts_ns)) * rounds +
           std::min(there, places) * (seconds(model_.cost.flops(r.prompt)) + expected * (step - before));
  }
  [[nodiscard]] double seconds(double flops) const { return flops / model_.budget.peak_flops; }
  [[nodiscard]] double freeness(std::size_t i) const {
    return headroom::time_freeness(totals_[i].prompts, model_.cost, model_.budget);
  }

  prefill_model model_;
  placement::highest_phi most_free_{};
  placement::least_prefill_backlog least_backlog_{};
  placed<placement::least_load, placement::migrate_when_tight> migration_{{}, {.headroom = quantum_blocks}};
  std::vector<taken> taken_;   // by request
  std::vector<total> totals_;  // by instance
  std::vector<view> views_;
  bool alike_ = true;  // Whether steps take as long on all instances.
};

/// New requests to the instance with the least load instead, and those that begin to answer likewise.
[[nodiscard]] inline auto by_least_load() {
  return placed<placement::least_load, placement::migrate_when_tight>{{}, {.headroom = quantum_blocks}};
}

}  // namespace sim
TESSERA_NAMESPACE_END
