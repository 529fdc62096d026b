// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// stale_reports: what routers lose that know only their own books and old reports, in the simulator. Prints one table
// in Markdown: mean TTFT by placement. Its columns are a router that knows everything at once, one that has reports
// alone, and several with a ledger each.
#include <tessera/compose/fcfs.hpp>
#include <tessera/placement/fill_to_level.hpp>
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/phi.hpp>
#include <tessera/placement/power_of_two.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/split_list.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/report/replicates.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace tessera;
using sim::run_result;
using sim::trace_row;
using scheduler = fcfs<sim::request>;

constexpr auto quiet = [](std::size_t) {};

enum class choice { shortest_queue, power_of_two, least_kv, least_load, space, time, fill, fill_kv, fill_time };
constexpr choice choices[]{choice::shortest_queue, choice::power_of_two, choice::least_kv,
                           choice::least_load,     choice::space,        choice::time,
                           choice::fill,           choice::fill_kv,      choice::fill_time};
const char* name_of(choice c) {
  switch (c) {
    case choice::shortest_queue: return "shortest-queue";
    case choice::power_of_two: return "power-of-two";
    case choice::least_kv: return "least-kv";
    case choice::least_load: return "least-load";
    case choice::space: return "phi-space";
    case choice::time: return "phi-time";
    case choice::fill: return "fill-requests";
    case choice::fill_kv: return "fill-kv";
    case choice::fill_time: return "fill-time";
  }
  return "?";
}

/// Any of them, so that a cluster is compiled once for all. `sim::take_seat` finds the two members.
struct chosen {
  choice which = choice::least_load;
  placement::turn ties{};
  placement::random draws{};
  double expected = 0;     // In requests.
  double mean_prompt = 1;  // In tokens.
  double level = 0;

  template <placement::instance_views V>
  std::size_t operator()(const V& instances) noexcept {
    switch (which) {
      case choice::shortest_queue: return taking_turns(placement::join_shortest_queue{ties}, instances);
      case choice::least_kv: return taking_turns(placement::least_kv{ties}, instances);
      case choice::least_load: return taking_turns(placement::least_load{ties}, instances);
      case choice::power_of_two: {
        placement::power_of_two p{draws};
        const std::size_t i = p(instances);
        draws = p.draws;
        return i;
      }
      case choice::space:
      case choice::time:
        if constexpr (placement::shows_phi<placement::view_t<V>>) {
          return taking_turns(placement::highest_phi{ties}, instances);
        }
        return placement::nowhere;
      case choice::fill: return fills<placement::by_requests>(instances, 1);
      case choice::fill_kv: return fills<placement::by_blocks>(instances, mean_prompt / 16);
      case choice::fill_time:
        if constexpr (placement::shows_phi<placement::view_t<V>>) {
          return fills<placement::by_phi>(instances, mean_prompt);
        }
        return placement::nowhere;
    }
    return placement::nowhere;
  }

 private:
  template <class Load, class V>
  std::size_t fills(const V& instances, double one) noexcept {
    placement::fill_to_level<Load> p{expected * one, one, draws, level};
    const std::size_t i = p(instances);
    draws = p.draws;
    level = p.level;
    return i;
  }
  template <class P, class V>
  std::size_t taking_turns(P p, const V& instances) noexcept {
    const std::size_t i = p(instances);
    ties = p.ties;
    return i;
  }
};

/// A router that has reports alone: what was sent since counts for nothing.
struct by_reports {
  chosen placement{};
  double report_s = 1;
  std::vector<sim::instance_view> last{};

  template <class C>
  void starts(C& c) {
    last = c.views();
    for (std::size_t i = 0; i != c.size(); ++i) {
      c.call_after(report_s * static_cast<double>(i + 1) / static_cast<double>(c.size()), i);
    }
  }
  template <class C>
  void alarm(C& c, std::uint64_t i) {
    last[i] = c.views()[i];
    c.call_after(report_s, i);
  }
  template <class C>
  [[nodiscard]] std::size_t place(C& /*c*/, const sim::request& /*r*/) {
    return placement(last);
  }
};

struct study {
  std::size_t instances = 8;
  std::size_t requests = 8000;
  std::size_t seeds = 5;
  std::size_t threads = 1;
  double load = 0.8;
  double report_s = 1;
  std::size_t kv_blocks = 0;
  std::size_t long_prompts = 0;  // Every so-manieth is ten times as long.
  std::string workload = "azure-conv";
  std::string profile = "h100-96gb-qwen-32b";
  std::string routers = "1,2,4,8";
  bool shares = false;
  std::string placements;  // Empty: all.
};

std::vector<trace_row> rows_for(const study& s, std::size_t n, double rate, std::uint64_t seed) {
  std::vector<trace_row> rows = sim::generate(sim::find_workload(s.workload), n, rate, seed);
  for (std::size_t i = 0; s.long_prompts != 0 && i < rows.size(); i += s.long_prompts) rows[i].prompt_tokens *= 10;
  return rows;
}

sim::cluster_options cluster_for(const study& s, std::span<const trace_row> rows, std::size_t instances) {
  const sim::profile p = sim::find_profile(s.profile);
  constexpr tokens block_size{16};
  std::int64_t longest = 0;
  for (const trace_row& r : rows) longest = std::max(longest, r.prompt_tokens + r.output_tokens);
  sim::cluster_options o{.instances = instances, .instance = {.timer = sim::step_timer{p}}};
  o.instance.limits = {.requests = rows.size(),
                       .blocks = static_cast<std::size_t>(p.kv_blocks(block_size).count()),
                       .block_size = block_size,
                       .residents = 256,
                       .host_blocks = 0,
                       .max_length = tokens{longest}};
  if (s.kv_blocks != 0) o.instance.limits.blocks = s.kv_blocks;
  o.instance.limits.host_blocks = 4 * o.instance.limits.blocks;
  o.instance.step = {.max_batch = 256, .token_budget = tokens{8192}};
  o.instance.swap_seconds_per_block = sim::swap_seconds(p, block_size);
  return o;
}

template <class Control>
double mean_ttft(const sim::cluster_options& o, const std::vector<trace_row>& rows, Control control) {
  return sim::cluster_of<scheduler, Control>{o, {}, std::move(control)}.run(rows, quiet).numbers.ttft.mean;
}

/// Requests per second of one instance that never lacks any.
double saturated_rate(const study& s) {
  const std::vector<trace_row> rows = rows_for(s, 4000, 1, 99);
  sim::cluster_options o = cluster_for(s, rows, 1);
  o.in_flight = 512;
  o.instance.limits.requests = 1024;
  const run_result r = sim::cluster_of<scheduler>{o}.run(rows, quiet);
  // Between the first and the last tenth, where it is full.
  std::vector<double> ends;
  for (const sim::request_record& q : r.requests) ends.push_back(q.finish);
  std::sort(ends.begin(), ends.end());
  const std::size_t tenth = ends.size() / 10;
  return static_cast<double>(8 * tenth) / (ends[9 * tenth] - ends[tenth]);
}

void run(const study& s) {
  const double rate = s.load * saturated_rate(s) * static_cast<double>(s.instances);
  std::vector<std::size_t> routers;
  for (const std::string_view n : sim::split_list(s.routers)) routers.push_back(std::stoul(std::string{n}));
  std::vector<choice> compared(std::begin(choices), std::end(choices));
  if (!s.placements.empty()) {
    const std::vector<std::string_view> named = sim::split_list(s.placements);
    std::erase_if(compared, [&](choice c) { return std::find(named.begin(), named.end(), name_of(c)) == named.end(); });
    if (compared.size() != named.size()) throw sim::usage_error{"there is no such placement; see --help"};
  }
  const std::size_t columns = 2 + routers.size();
  std::vector<std::vector<double>> ttft(compared.size() * columns, std::vector<double>(s.seeds, sim::never));
  sim::run_parallel(s.seeds * compared.size(), s.threads, [&](std::size_t job) {
    const std::size_t seed = job / compared.size();
    const std::size_t row = job % compared.size();
    const std::vector<trace_row> rows = rows_for(s, s.requests, rate, seed + 1);
    chosen placement{.which = compared[row], .mean_prompt = 0};
    for (const trace_row& r : rows)
      placement.mean_prompt += static_cast<double>(r.prompt_tokens) / static_cast<double>(rows.size());
    sim::cluster_options o = cluster_for(s, rows, s.instances);
    o.warmup_s = 0.2 * (rows.back().arrival_s - rows.front().arrival_s);
    const bool by_time = placement.which == choice::time || placement.which == choice::fill_time;
    const bool by_phi = by_time || placement.which == choice::space;
    auto* const cells = &ttft[row * columns];
    if (!by_phi) cells[0][seed] = mean_ttft(o, rows, sim::placed<chosen>{placement});
    if (!by_phi) cells[1][seed] = mean_ttft(o, rows, by_reports{placement, s.report_s, {}});
    for (std::size_t k = 0; k != routers.size(); ++k) {
      sim::routing how{.routers = routers[k], .shares = s.shares, .report_s = s.report_s};
      // Only the order counts: tokens that are left.
      if (by_time) how.prefill = {.cost = {.beta = 1}, .budget = {.peak_flops = 1, .ttft = 1_s}};
      o.routed = how;
      cells[2 + k][seed] = mean_ttft(o, rows, sim::placed<chosen>{placement});
    }
  });
  fmt::print(
      "{} instances of {}{}, {}{}, {:.4g} requests a second ({:.0f} % of what saturates them), {} requests, "
      "reports of {:g} s, {} seeds{}; mean TTFT in ms\n\n",
      s.instances, s.profile, s.kv_blocks != 0 ? fmt::format(" with {} KV blocks", s.kv_blocks) : "", s.workload,
      s.long_prompts != 0 ? fmt::format(" (each {}th prompt ten times as long)", s.long_prompts) : "", rate,
      100 * s.load, s.requests, s.report_s, s.seeds, s.shares ? ", routers with shares" : "");
  fmt::print("| placement | knows all | reports alone |");
  for (const std::size_t n : routers) fmt::print(" {} router{} |", n, n == 1 ? "" : "s");
  fmt::print("\n|---|");
  for (std::size_t k = 0; k != columns; ++k) fmt::print("---|");
  fmt::print("\n");
  for (std::size_t row = 0; row != compared.size(); ++row) {
    fmt::print("| {} |", name_of(compared[row]));
    for (std::size_t k = 0; k != columns; ++k) {
      const sim::estimate e = sim::estimate_mean(ttft[row * columns + k]);
      if (e.count == 0) {
        fmt::print(" |");
      } else if (e.count == 1) {
        fmt::print(" {:.1f} |", 1e3 * e.mean);
      } else {
        fmt::print(" {:.1f} ± {:.1f} |", 1e3 * e.mean, 1e3 * e.half_width);
      }
    }
    fmt::print("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  study s;
  CLI::App app{"What routers lose that know only their own books and old reports."};
  app.add_option("--instances", s.instances)->check(CLI::Range(1, 65'536))->capture_default_str();
  app.add_option("--requests", s.requests)->check(CLI::Range(10, 100'000'000))->capture_default_str();
  app.add_option("--seeds", s.seeds)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--threads", s.threads)->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--load", s.load, "part of what saturates the instances")->check(CLI::Range(0.01, 2.0));
  app.add_option("--report-interval", s.report_s, "seconds")->check(CLI::Range(0.001, 1e6))->capture_default_str();
  app.add_option("--kv-blocks", s.kv_blocks, "of an instance; 0: as the profile says")->capture_default_str();
  app.add_option("--long-prompts", s.long_prompts, "each so-manieth is ten times as long")->capture_default_str();
  app.add_option("--workload", s.workload)->capture_default_str();
  app.add_option("--profile", s.profile)->capture_default_str();
  std::string names;
  for (const choice c : choices) names += (names.empty() ? "" : ",") + std::string{name_of(c)};
  app.add_option("--placements", s.placements, "of " + names + "; without it, all");
  app.add_flag("--shares", s.shares, "each router chooses from its share of the instances");
  app.add_option("--routers", s.routers, "how many, separated by commas")->capture_default_str();
  try {
    app.parse(argc, argv);
    run(s);
    return 0;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& wrong) {
    fmt::print(stderr, "stale_reports: {} (see --help)\n", wrong.what());
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "stale_reports: {}\n", wrong.what());
  }
  return sim::exit_bad_input;
}
