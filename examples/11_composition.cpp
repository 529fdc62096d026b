// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// 11. A scheduler that is in no paper. It has PASCAL's two phases, answers first, and PARS's ranking in each. Phasor's
// headroom, with predicted lengths, chooses the instance. It is ahead of its parts in the mean, and behind them in the
// tail; `compose/due_first.hpp` is what became of it.
#include <tessera/headroom/space.hpp>
#include <tessera/placement/phi.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/policies/policies.hpp>

#include <cstdio>
#include <tuple>
#include <vector>

using namespace tessera::literals;
namespace sim = tessera::sim;

/// Answers displace reasoning, because they need its memory for a short time only. Among equals the smallest score is
/// first.
struct answers_then_shortest : tessera::order::fcfs {
  static constexpr auto level = [](const auto& r) noexcept {
    return std::tuple{-r.priority, r.state().phase != tessera::phase::answering};
  };
  template <tessera::schedulable R>
  static bool before(const R& a, const R& b) noexcept {
    return std::tuple{level(a), a.score, a.state().sequence} < std::tuple{level(b), b.score, b.state().sequence};
  }
  template <tessera::schedulable R>
  static bool displaces(const R& waiting, const R& resident) noexcept {
    return level(waiting) < level(resident);
  }
};
using composed = tessera::iteration_scheduler<sim::request, answers_then_shortest>;

/// Phi_S of an instance as if all that it has were as long as predicted. Negative: it will not all fit at once.
struct by_headroom {
  struct view : sim::instance_view {
    double phi = 0;
  };
  tessera::placement::highest_phi most_free{};
  template <class C>
  std::size_t place(C& cluster, const sim::request& /*r*/) {
    std::vector<view> views;
    for (std::size_t i = 0; i != cluster.size(); ++i) {
      tessera::blocks used{};
      for (const sim::request* r : cluster.at(i).requests())
        used += tessera::blocks_for(r->prompt + tessera::tokens{std::int64_t(r->score)}, 16_tok);
      views.push_back({cluster.views()[i], tessera::headroom::space_freeness(used, {}, 2500_blk)});
    }
    return most_free(views);
  }
};

int main() {
  auto rows = sim::generate(sim::find_workload("reasoning-chat"), 1500, 10.0, 1);
  sim::random_engine random{7};  // lengths are predicted within a factor of 0.5 to 2
  for (auto& row : rows) row.score = float(row.output_tokens) * float(16 + random() % 49) / 32;
  const sim::profile profile = sim::find_profile("h100-96gb-qwen-32b");
  const sim::cluster_options options{.instances = 4,
                                     .instance = {.limits = {.blocks = 2500, .residents = 256, .host_blocks = 100'000},
                                                  .step = {.max_batch = 256, .token_budget = 8192_tok},
                                                  .timer = sim::step_timer{profile},
                                                  .swap_seconds_per_block = sim::swap_seconds(profile, 16_tok)},
                                     .kv_bytes_per_token = profile.model.kv_bytes_per_token()};
  auto policies = sim::select_policies(sim::published_policies(), "pascal,pars");
  policies.push_back(sim::make_policy<composed>("composed", "on the least load"));
  policies.push_back(sim::make_control_policy<composed>("+ headroom", "", [](auto&&...) { return by_headroom{}; }));
  std::printf("seconds     TTFT mean     p99  end to end  per token  SLO missed\n");
  for (const auto& p : policies) {
    const sim::summary s = p.run(options, rows, [](std::size_t) {}).numbers;
    std::printf("%-10s %10.1f %7.0f %11.1f %10.3f %9.1f %%\n", p.name.c_str(), s.ttft.mean, s.ttft.p99, s.e2e.mean,
                s.normalized_latency.mean, 100 * s.slo_violation_rate);
  }
}

/* output:
seconds     TTFT mean     p99  end to end  per token  SLO missed
pascal           33.9     152        93.9      0.125      38.5 %
pars             24.5     183        37.6      0.032       1.3 %
composed         24.4     213        36.7      0.032       0.0 %
+ headroom       23.9     206        36.2      0.031       0.0 %
*/
