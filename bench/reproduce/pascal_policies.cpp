// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The policies that PASCAL is compared with, and PASCAL without one of its rules.
#include "pascal_runs.hpp"

#include <tessera/compose/pascal.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/sim/policies/due_first.hpp>
#include <tessera/sim/policies/placements.hpp>
#include <tessera/sim/policies/policies.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reproduce::pascal_runs {

namespace {

// -- policies -------------------------------------------------------------------------------------------------------

/// Shows a policy views in which every answer meets its SLO: the policy without t_i.
template <class V>
struct all_meet_slo {
  const V& views;
  [[nodiscard]] auto operator[](std::size_t i) const noexcept {
    auto v = views[i];
    v.slo_met = true;
    return v;
  }
  [[nodiscard]] std::size_t size() const noexcept { return views.size(); }
};

struct migrate_without_slo : placement::pascal_migrate_adaptively {
  template <class V>
  [[nodiscard]] std::size_t operator()(const V& v, std::size_t current, blocks grows, blocks moves) noexcept {
    return placement::pascal_migrate_adaptively::operator()(all_meet_slo<V>{v}, current, grows, moves);
  }
};

/// Shows a policy no fresh answers: Algorithm 2 without its fallback r + a.
template <class V>
struct no_fresh_answers {
  const V& views;
  [[nodiscard]] auto operator[](std::size_t i) const noexcept {
    auto v = views[i];
    v.fresh_answers = 0;
    return v;
  }
  [[nodiscard]] std::size_t size() const noexcept { return views.size(); }
};

struct migrate_without_fallback : placement::pascal_migrate_adaptively {
  template <class V>
  [[nodiscard]] std::size_t operator()(const V& v, std::size_t current, blocks grows, blocks moves) noexcept {
    return placement::pascal_migrate_adaptively::operator()(no_fresh_answers<V>{v}, current, grows, moves);
  }
};

using pascal_scheduler = tessera::pascal<request>;
using adaptively = placement::pascal_migrate_adaptively;
constexpr adaptively by_the_paper{.headroom = sim::quantum_blocks};

/// The policies of these names.
std::vector<sim::policy> all_of(std::string_view names) { return sim::select_policies(compared_with(), names); }

/// `p`, with something changed in the cluster that it is given.
template <class Change>
sim::policy on(sim::policy p, std::string name, Change change) {
  p.run = [run = p.run, change](sim::cluster_options o, std::span<const trace_row> rows,
                                const sim::progress_callback& progress) {
    change(o);
    return run(o, rows, progress);
  };
  p.name = std::move(name);
  return p;
}

sim::policy placed_by(std::string_view placement, sim::policy p) {
  return on(std::move(p), fmt::format("{}, {}", p.name, placement),
            [placement](sim::cluster_options& o) { o.placement = sim::find_placement(placement); });
}

}  // namespace

std::vector<sim::policy> compared_policies(const rows_type& history) {
  std::vector<sim::policy> all =
      all_of("fcfs,sarathi,rr,pascal,pascal-nonadaptive,pascal-nomigration,pascal-paced,oracle");
  all.insert(all.begin() + 3, make_policy<tessera::round_robin<request>>("rr-quanta", "round-robin by quanta used",
                                                                         {.fewest_quanta_first = true}));
  sim::policy ours = published("due-first");
  ours.run = [history](const sim::cluster_options& o, std::span<const trace_row> rows,
                       const sim::progress_callback& progress) {
    return sim::run_due_first(o, rows, history, {}, progress);
  };
  all.insert(all.end() - 1, std::move(ours));
  return all;
}

std::vector<sim::policy> ablations() {
  using placement::pascal_arrival;
  const auto whole = all_of("fcfs,pascal,pascal-nomigration,pascal-nonadaptive,pascal-paced");
  const sim::policy& pascal = whole[1];
  std::vector<sim::policy> all{whole[0], placed_by("least-kv", whole[0]), placed_by("shortest-queue", whole[0]),
                               pascal};
  all.push_back(make_policy<pascal_scheduler, pascal_arrival, adaptively>("arrivals count only what is held", "", {},
                                                                          {.counts_waiting = false}, by_the_paper));
  all.push_back(make_policy<pascal_scheduler, placement::least_load, adaptively>("arrivals ignore t (least-load)", "",
                                                                                 {}, {}, by_the_paper));
  all.push_back(make_policy<pascal_scheduler, placement::least_kv, adaptively>(
      "arrivals count only what is held, ignore t (least-kv)", "", {}, {}, by_the_paper));
  all.push_back(make_policy<pascal_scheduler, placement::least_kv, migrate_without_slo>(
      "t is not looked at", "", {}, {}, migrate_without_slo{by_the_paper}));
  all.push_back(sim::with_bounded_steps(pascal));
  all.back().name = "steps bounded";
  all.push_back(make_policy<tessera::round_robin<request>, pascal_arrival, adaptively>(
      "no reasoning first", "", {.fewest_quanta_first = true}, {}, by_the_paper));
  all.push_back(make_policy<pascal_scheduler, pascal_arrival, adaptively>(
      "turns in a circle", "", {.fewest_quanta_first = false}, {}, by_the_paper));
  all.push_back(make_policy<pascal_scheduler, pascal_arrival, adaptively>(
      "no quantum", "", {.quantum = tokens{1'000'000}}, {}, by_the_paper));
  all.push_back(make_policy<pascal_scheduler, pascal_arrival, adaptively>(
      "no demotion", "", {.demote_above = tokens{1'000'000}}, {}, by_the_paper));
  all.push_back(make_policy<pascal_scheduler, pascal_arrival, migrate_without_fallback>(
      "no fallback r + a", "", {}, {}, migrate_without_fallback{by_the_paper}));
  all.push_back(whole[2]);
  all.push_back(whole[3]);
  all.push_back(make_policy<pascal_scheduler, pascal_arrival, adaptively>("adaptive, no headroom", ""));
  all.push_back(make_policy<pascal_scheduler, placement::least_load, placement::migrate_when_tight>(
      "moves by memory, when tight", "", {}, {}, {.headroom = sim::quantum_blocks}));
  all.push_back(make_policy<tessera::pascal_paced<request>, pascal_arrival, adaptively>("answers just in time", "", {},
                                                                                        {}, by_the_paper));
  sim::policy both = whole[4];
  both.name = "both: pascal-paced";
  all.push_back(std::move(both));
  return all;
}

}  // namespace reproduce::pascal_runs
