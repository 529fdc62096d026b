// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/headroom/prefill_load.hpp>
#include <tessera/headroom/space.hpp>
#include <tessera/placement/least_in_line.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/cluster/compare_views.hpp>
#include <tessera/sim/policies/disaggregated.hpp>
#include <tessera/sim/policies/learned_lengths.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// New requests to the instance with the most headroom: the smaller of Phi_T, of the prompts of requests that have no
/// token yet, and Phi_S, of its memory when all its requests have their expected length. Both may be negative. What the
/// lengths of those who are there may err by decides nothing while half or more is left, and nothing does while three
/// quarters are: then a request goes where it would end soonest by the prompts in line and the decode steps that it is
/// expected to have there, in turn (`placement::least_in_line`); not among instances of unlike speed. Steps read the KV
/// of all who are there, so memory that is plenty is not for nothing.
/// One whose prompt is cached somewhere, in part, goes where the sum is least of the
/// prompts in line and of what would be computed of it times how many requests there would be: it waits for the first
/// and keeps the others waiting for the second. The product is LMetric's, in time, and counts the request itself, lest
/// an idle instance be worth any prefix. Multiplied as well, the line would scatter prefixes; not counted, a prefix
/// that many share would draw all to one instance. Requests that begin to answer stay, unless memory is tight.
/// O(instances) a request, and O(instances log blocks) where prefixes are shared.
class by_headroom {
 public:
  /// @param model what prompts cost, and the time to first token that is aimed at.
  explicit by_headroom(const prefill_model& model) : model_{model} {}

  /// Called once: before the first event, or when it takes over from another control, with the requests that are there.
  template <class C>
  void starts(C& c) {
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
    if (!alike_) least_in_line_.ample = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i != c.size(); ++i) {
      for (const request* r : c.at(i).requests()) {
        take(c, *r, i, r->first_token_s < 0, tokens{});
      }
    }
  }
  /// The instance that a request which has just arrived goes to.
  template <class C>
  [[nodiscard]] std::size_t place(C& c, const request& r) {
    if (!r.prefix_hashes().empty()) c.look_at_prefixes(r);
    const auto& instances = c.candidates(r);
    const bool cached =
        !r.prefix_hashes().empty() && std::any_of(instances.begin(), instances.end(),
                                                  [](const instance_view& v) { return v.cached_tokens > tokens{}; });
    views_.clear();
    for (const instance_view& v : instances) {
      const double line = totals_[v.id].prompts.flops(model_.cost);
      if (cached) {
        const double own = model_.cost.flops(r.prompt) - model_.cost.flops(v.cached_tokens);
        views_.push_back({.requests = v.requests, .phi = -(line + own * static_cast<double>(v.requests + 1))});
        continue;
      }
      // Where more was generated than expected, all in all, it is what is held.
      const blocks used = max(totals_[v.id].memory, v.kv_held);
      const double error = std::sqrt(totals_[v.id].squares) / static_cast<double>(v.capacity.count());
      const double decodes_s = alike_ ? expected_decode_s(c, v, r) : 0;
      views_.push_back({.requests = v.requests,
                        .phi = std::min(freeness(v.id), headroom::space_freeness(used, {}, v.capacity)),
                        .error = alike_ ? error : 0,
                        .line = line / model_.budget.peak_flops + decodes_s});
    }
    const std::size_t at = cached ? most_free_(views_) : least_in_line_(views_);
    const instance_view& chosen = instances[at];
    const std::size_t to = chosen.id;
    if (c.asks(r) && cached) {
      c.because("the least to compute of it times how many would be there, and in line; some of its prompt is cached",
                sim::compare_views(instances, false, true));
    } else if (c.asks(r)) {
      comparison seen{.columns = {"requests", "Phi_T", "Phi_S", "ends in, s"}};
      for (std::size_t i = 0; i != instances.size(); ++i) {
        const instance_view& v = instances[i];
        seen.rows.push_back(
            {v.id,
             {},
             {static_cast<double>(v.requests), freeness(v.id),
              headroom::space_freeness(max(totals_[v.id].memory, v.kv_held), {}, v.capacity), views_[i].line}});
      }
      const bool most = std::none_of(views_.begin(), views_.end(), [&](auto& v) { return v.phi > views_[at].phi; });
      c.because(fmt::format("{}; {} tokens are expected of it",
                            most ? "the most headroom, the smaller of Phi_T and Phi_S"
                                 : "where it ends soonest by the prompts in line and what decoding takes there, in "
                                   "turn; who has more headroom, the smaller of Phi_T and Phi_S, has not so much more "
                                   "that it counts",
                            scored_length{}(r).count()),
                std::move(seen));
    }
    take(c, r, to, true, cached ? chosen.cached_tokens : tokens{});
    return to;
  }
  /// `r` has its first token.
  template <class C>
  void prefilled(C&, const request& r) {
    taken& t = taken_[r.index];
    if (t.in_line) totals_[t.at].prompts.leave(r.prompt, t.computed);
    t.in_line = false;
  }
  /// A request begins to answer: it may move.
  template <class C>
  void answers(C& c, request& r) {
    prefilled(c, r);  // which is not said of one that has moved
    migration_.answers(c, r);
  }
  /// `r` has arrived with its KV.
  template <class C>
  void moved(C&, const request& r) {
    leave(r);
    taken_[r.index].at = r.where;
    join(r);
  }
  /// `r` was refused.
  template <class C>
  void rejected(C& c, const request& r) {
    finished(c, r);
  }
  /// The instance of `r` has died.
  template <class C>
  void lost(C& c, const request& r) {
    finished(c, r);
  }
  /// `r` has ended.
  template <class C>
  void finished(C&, const request& r) {
    leave(r);
  }

 private:
  /// What a request takes of an instance.
  struct taken {
    std::size_t at = 0;
    blocks memory{};       // when it has its expected length
    tokens computed{};     // of its prompt: cached
    bool in_line = false;  // until it has its first token
  };
  /// What all of an instance take.
  struct total {
    blocks memory{};
    double squares = 0;  // of the blocks of each: whole numbers, so that nothing is rounded
    headroom::prefill_load prompts;
  };
  struct view {
    std::size_t requests = 0;
    double phi = 0;
    double error = 0;
    double line = 0;  // seconds until it would end, but for its own prompt, which takes as long everywhere
  };

  template <class C>
  void take(C& c, const request& r, std::size_t at, bool in_line, tokens computed) {
    const blocks memory = blocks_for(r.prompt + scored_length{}(r), c.options().instance.limits.block_size);
    taken_[r.index] = {at, memory, computed, in_line};
    join(r);
  }
  void join(const request& r) {
    const taken& t = taken_[r.index];
    total& sum = totals_[t.at];
    sum.memory += t.memory;
    sum.squares += squared(t.memory);
    if (t.in_line) sum.prompts.join(r.prompt, t.computed);
  }
  void leave(const request& r) {
    const taken& t = taken_[r.index];
    total& sum = totals_[t.at];
    sum.memory -= t.memory;
    sum.squares -= squared(t.memory);
    if (t.in_line) sum.prompts.leave(r.prompt, t.computed);
  }
  [[nodiscard]] static double squared(blocks n) {
    return static_cast<double>(n.count()) * static_cast<double>(n.count());
  }
  /// What decoding `r` would take on `v`: so many steps as tokens are expected, each with all who are there, who hold
  /// on average half of what they do now and half of what they are expected to in the end.
  template <class C>
  [[nodiscard]] double expected_decode_s(const C& c, const instance_view& v, const request& r) const {
    const instance_options& one = c.options().of(v.id);
    const blocks now = v.kv_held + v.waiting_blocks;
    const blocks twice = now + max(now, totals_[v.id].memory);
    step_shape step;
    step.decodes = static_cast<std::int64_t>(v.requests) + 1;
    step.decode_context = twice.count() * one.limits.block_size.count() / 2 + r.prompt.count();
    step.longest_context = step.decode_context / step.decodes;  // as if all were as long
    return static_cast<double>(scored_length{}(r).count()) * one.timer(step);
  }
  [[nodiscard]] double freeness(std::size_t i) const {
    return headroom::time_freeness(totals_[i].prompts, model_.cost, model_.budget);
  }

  prefill_model model_;
  placement::highest_phi most_free_{};
  placement::least_in_line least_in_line_{};
  placed<placement::least_load, placement::migrate_when_tight> migration_{{}, {.headroom = quantum_blocks}};
  std::vector<taken> taken_;   // by request
  std::vector<total> totals_;  // by instance
  std::vector<view> views_;
  bool alike_ = true;  // Whether steps take as long on all instances.
};

}  // namespace sim
TESSERA_NAMESPACE_END
