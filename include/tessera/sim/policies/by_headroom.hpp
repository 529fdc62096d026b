// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/headroom/space.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/phi.hpp>
#include <tessera/placement/turn.hpp>
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
/// token yet, and Phi_S, of its memory when all its requests have their expected length. Both may be negative. Lengths
/// are expected, not known: by as much as they may err, and while more than half is free, headroom is alike, and a
/// request goes to whom the least of prompts is in line for, in turn. Nobody then waits behind a prompt because the
/// instance had just become the emptiest by a request that ended. One whose prompt is cached somewhere, in part, goes
/// where the sum is least of the prompts in line and of what would be
/// computed of it times how many requests there would be: it waits for the first and keeps the others waiting for the
/// second. The product is LMetric's, in time, and counts the request itself, lest an idle instance be worth any prefix.
/// Multiplied as well, the line would scatter prefixes; not counted, a prefix that many share would draw all to one
/// instance. Requests that begin to answer stay, unless memory is tight. O(instances) a request, and O(instances log
/// blocks) where prefixes are shared.
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
    for (std::size_t i = 0; i != c.size(); ++i) {
      for (const request* r : c.at(i).requests()) {
        take(c, *r, i, r->first_token_s < 0 ? model_.cost.flops(r->prompt) : 0);
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
    const auto own = [&](const instance_view& v) {
      const double saved = cached ? model_.cost.flops(v.cached_tokens) : 0;
      return model_.cost.flops(r.prompt) - saved;
    };
    views_.clear();
    for (const instance_view& v : instances) {
      if (cached) {
        views_.push_back({v.requests, -(totals_[v.id].flops + own(v) * static_cast<double>(v.requests + 1))});
        continue;
      }
      // Where more was generated than expected, all in all, it is what is held.
      const blocks used = max(totals_[v.id].memory, v.kv_held);
      views_.push_back({v.requests, std::min(1 - totals_[v.id].flops / model_.budget.flops(),
                                             headroom::space_freeness(used, {}, v.capacity))});
    }
    const std::size_t at = cached ? most_free_(views_) : least_in_line(instances, expected_memory(c, r));
    const instance_view& chosen = instances[at];
    const std::size_t to = chosen.id;
    if (c.asks(r) && cached) {
      c.because("the least to compute of it times how many would be there, and in line; some of its prompt is cached",
                sim::compare_views(instances, false, true));
    } else if (c.asks(r)) {
      comparison seen{.columns = {"requests", "Phi_T", "Phi_S"}};
      for (const instance_view& v : instances) {
        seen.rows.push_back({v.id,
                             {},
                             {static_cast<double>(v.requests), 1 - totals_[v.id].flops / model_.budget.flops(),
                              headroom::space_freeness(max(totals_[v.id].memory, v.kv_held), {}, v.capacity)}});
      }
      const bool most = std::none_of(views_.begin(), views_.end(), [&](auto& v) { return v.phi > views_[at].phi; });
      c.because(fmt::format("{}; {} tokens are expected of it",
                            most ? "the most headroom, the smaller of Phi_T and Phi_S"
                                 : "the least in line, in turn; who has more headroom, the smaller of Phi_T and Phi_S, "
                                   "has no more than lengths may err by",
                            scored_length{}(r).count()),
                std::move(seen));
    }
    take(c, r, to, own(chosen));
    return to;
  }
  /// `r` has its first token.
  template <class C>
  void prefilled(C&, const request& r) {
    taken& t = taken_[r.index];
    totals_[t.at].flops -= t.what.flops;
    t.what.flops = 0;
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
    taken& t = taken_[r.index];
    totals_[t.at] -= t.what;
    t.at = r.where;
    totals_[t.at] += t.what;
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
    totals_[taken_[r.index].at] -= taken_[r.index].what;
  }

 private:
  /// What requests take of an instance.
  struct demand {
    blocks memory{};   // when they have their expected length
    double flops = 0;  // until they have their first token
    void operator+=(const demand& d) noexcept { memory += d.memory, flops += d.flops; }
    void operator-=(const demand& d) noexcept { memory -= d.memory, flops -= d.flops; }
  };
  struct taken {
    std::size_t at = 0;
    demand what{};
  };
  struct view {
    std::size_t requests = 0;
    double phi = 0;
  };

  /// When it has its expected length.
  template <class C>
  [[nodiscard]] static blocks expected_memory(const C& c, const request& r) {
    return blocks_for(r.prompt + scored_length{}(r), c.options().instance.limits.block_size);
  }

  /// Of `views_`, those of `instances`: whoever has the most headroom; where it is plenty, of all that have as much but
  /// for what the lengths of their requests, each a request's `own` memory, may err by, whom the least is in line for.
  template <class Views>
  [[nodiscard]] std::size_t least_in_line(const Views& instances, blocks own) {
    constexpr double plenty = 0.5;
    double most = -std::numeric_limits<double>::infinity();
    for (const view& v : views_) most = std::max(most, v.phi);
    if (most < plenty) return most_free_(views_);
    return turn_.least(
        0, views_.size(), [&](std::size_t k) { return totals_[instances[k].id].flops; },
        [&](std::size_t k) {
          const double one = static_cast<double>(own.count()) / static_cast<double>(instances[k].capacity.count());
          const double error = one * std::sqrt(static_cast<double>(views_[k].requests + 1));
          return views_[k].phi == most || (views_[k].phi >= plenty && views_[k].phi >= most - error);
        });
  }

  /// `flops`: what is to compute of its prompt.
  template <class C>
  void take(C& c, const request& r, std::size_t at, double flops) {
    taken_[r.index] = {at, {expected_memory(c, r), flops}};
    totals_[at] += taken_[r.index].what;
  }

  prefill_model model_;
  placement::highest_phi most_free_{};
  placement::turn turn_{};
  placed<placement::least_load, placement::migrate_when_tight> migration_{{}, {.headroom = quantum_blocks}};
  std::vector<taken> taken_;    // by request
  std::vector<demand> totals_;  // by instance
  std::vector<view> views_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
