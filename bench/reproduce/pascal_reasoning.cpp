// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Section III: what memory and quanta do to requests that reason and to those that answer.
#include "pascal_runs.hpp"

#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reproduce::pascal_runs {

namespace {

// -- section III ----------------------------------------------------------------------------------------------------

/// Watches one instance and measures each answer's QoE against a first token due `target` after the arrival.
class answer_watch {
 public:
  explicit answer_watch(std::size_t requests) : qoe_(requests, from(0)), seen_(requests) {}

  template <class C>
  [[nodiscard]] std::size_t place(C& c, const request& r) {
    qoe_[r.index] = from(c.now_s());
    return 0;
  }
  template <class C>
  void step_ended(C& c, std::size_t) {
    for (request& r : c.requests()) {
      if (r.prompt == tokens{}) break;
      for (; seen_[r.index] < r.generated(); seen_[r.index] += tokens{1}) qoe_[r.index].on_token(now(c.now_s()));
    }
  }
  template <class C>
  void ended(C&, sim::run_result& result) {
    for (sim::request_record& r : result.requests) {
      qoe_[r.id].finish();
      r.qoe = qoe_[r.id].value();
    }
  }

 private:
  using integrator = tessera::basic_qoe_integrator<tessera::seconds_clock, tessera::qoe_from_arrival>;
  static tessera::time_point now(double s) { return tessera::time_point::at_seconds(s); }
  static integrator from(double arrival) {
    return integrator{{}, tessera::qoe_from_arrival{tessera::duration{0.25}}, now(arrival)};
  }
  std::vector<integrator> qoe_;
  std::vector<tokens> seen_;
};

constexpr std::array<std::int64_t, 5> characterised_lengths{128, 512, 1024, 1536, 2048};
constexpr std::size_t characterised_requests = 300;

/// 300 requests with prompts of 128 tokens that generate a length of the five, all in one phase.
rows_type characterisation_rows(double rate, std::uint64_t seed, bool reasoning) {
  sim::arrival_generator arrivals{{1.0}, rate, seed};
  sim::random_engine rng{seed, 3};
  rows_type rows;
  for (std::size_t i = 0; i != characterised_requests; ++i) {
    const std::int64_t n = characterised_lengths[sim::uniform_below(rng, characterised_lengths.size())];
    sim::trace_row row;
    row.prompt_tokens = 128;
    row.reasoning_tokens = reasoning ? n : 0;
    row.answer_tokens = reasoning ? 1 : n;
    row.output_tokens = row.reasoning_tokens + row.answer_tokens;
    row.arrival_s = arrivals.next();
    rows.push_back(row);
  }
  return rows;
}

/// The highest rate at which the KV of all running requests just fits on the GPU: the oracle needs all of its memory.
double rate_that_fills(std::size_t seeds) {
  const auto peak = [&](double rate) {
    double most = 0;
    for (std::size_t seed = 1; seed <= seeds; ++seed) {
      const rows_type rows = characterisation_rows(rate, seed, true);
      sim::cluster_options o = cluster_for(rows, 1, characterised_requests);
      const auto real = static_cast<double>(o.instance.limits.blocks);
      o.instance.limits.blocks = characterised_requests * 138;
      o.timeline_interval_s = 0.25;
      const auto run = sim::cluster_of<tessera::fcfs<request>>{o, {.watermark = 0}}.run(rows, [](std::size_t) {});
      double used = 0;
      for (const sim::timeline_point& t : run.timeline) used = std::max(used, t.kv_used);
      most += used * static_cast<double>(o.instance.limits.blocks) / real;
    }
    return most / static_cast<double>(seeds);
  };
  double low = 0.1;
  double high = 20;
  for (int i = 0; i != 10; ++i) {
    const double middle = (low + high) / 2;
    (peak(middle) <= 1 ? low : high) = middle;
  }
  return low;
}

/// One policy of section III: means per length.
struct characterised {
  std::string name;
  std::array<double, 5> executed{}, blocked{}, preempted{}, total{}, attained{}, count{};
};

template <class Scheduler>
void characterise(characterised& c, double rate, std::size_t seeds, bool reasoning, double memory,
                  const typename Scheduler::config& config) {
  for (std::size_t seed = 1; seed <= seeds; ++seed) {
    const rows_type rows = characterisation_rows(rate, seed, reasoning);
    sim::cluster_options o = cluster_for(rows, 1, characterised_requests);
    o.instance.limits.blocks = static_cast<std::size_t>(static_cast<double>(o.instance.limits.blocks) * memory);
    const auto run =
        sim::cluster_of<Scheduler, answer_watch>{o, config, answer_watch{rows.size()}}.run(rows, [](std::size_t) {});
    for (const sim::request_record& r : run.requests) {
      const std::int64_t n = reasoning ? r.reasoning_tokens : r.answer_tokens;
      const auto i = static_cast<std::size_t>(std::find(characterised_lengths.begin(), characterised_lengths.end(), n) -
                                              characterised_lengths.begin());
      c.count[i] += 1;
      c.executed[i] += r.executed;
      c.blocked[i] += r.blocked;
      c.preempted[i] += r.preempted;
      c.total[i] += r.e2e();
      c.attained[i] += r.qoe >= tessera::qoe_target ? 1 : 0;
    }
  }
  for (std::size_t i = 0; i != characterised_lengths.size(); ++i) {
    for (auto* sum : {&c.executed, &c.blocked, &c.preempted, &c.total, &c.attained})
      (*sum)[i] /= std::max(c.count[i], 1.0);
  }
}

std::array<characterised, 4> characterise_all(const options& o, double rate, bool reasoning) {
  std::array<characterised, 4> all{{{.name = "oracle"}, {.name = "fcfs"}, {.name = "rr"}, {.name = "rr-quanta"}}};
  sim::run_parallel(4, o.threads, [&](std::size_t i) {
    switch (i) {
      case 0: characterise<tessera::fcfs<request>>(all[0], rate, o.seeds, reasoning, 4.0, {.watermark = 0}); break;
      case 1: characterise<tessera::fcfs<request>>(all[1], rate, o.seeds, reasoning, 0.5, {}); break;
      case 2: characterise<tessera::round_robin<request>>(all[2], rate, o.seeds, reasoning, 0.5, {}); break;
      default:
        characterise<tessera::round_robin<request>>(all[3], rate, o.seeds, reasoning, 0.5,
                                                    {.fewest_quanta_first = true});
    }
  });
  return all;
}

}  // namespace

void show_section_three(results& out, const options& o) {
  // The paper names no rate.
  const double rate = o.quick ? 3.0 : rate_that_fills(std::min<std::size_t>(o.seeds, 3));
  std::vector<row> rows;
  for (const bool reasoning : {true, false}) {
    const auto all = characterise_all(o, rate, reasoning);
    for (const characterised& c : all) {
      for (std::size_t i = 0; i != characterised_lengths.size(); ++i) {
        rows.push_back({reasoning ? "reasoning" : "answering", c.name, characterised_lengths[i], c.executed[i],
                        c.blocked[i], c.preempted[i], c.total[i], c.total[i] / all[0].total[i],
                        reasoning ? cell{} : cell{100 * c.attained[i]}});
      }
    }
  }
  out.table("phases",
            {"phase", "policy", "tokens", "executed_s", "blocked_s", "preempted_s", "total_s", "to_oracle_ratio",
             "slo_met_pct"},
            rows);
}

}  // namespace reproduce::pascal_runs
