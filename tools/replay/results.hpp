// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "experiment.hpp"

#include <tessera/sim/report/deployment.hpp>
#include <tessera/sim/report/explanation.hpp>
#include <tessera/sim/report/html_report.hpp>
#include <tessera/sim/report/output_file.hpp>
#include <tessera/sim/report/plots.hpp>
#include <tessera/sim/report/remarks.hpp>
#include <tessera/sim/report/replicates.hpp>
#include <tessera/sim/report/report.hpp>
#include <tessera/sim/report/report_json.hpp>
#include <tessera/sim/report/sweep.hpp>
#include <tessera/sim/report/tidy_csv.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// The results of an experiment: for human readers, as JSON and CSV, as pictures and as a page.

namespace replay {

/// The policies with a placement of their own, which ignore the requested one. Empty if there are none.
inline std::string name_own_placements(const std::vector<sim::policy>& policies) {
  std::vector<std::string_view> own;
  for (const sim::policy& p : policies) {
    if (!p.placement.empty()) own.push_back(p.name);
  }
  if (own.empty()) return {};
  return fmt::format("--placement has no effect on {}: placement is part of what {}.\n", fmt::join(own, ", "),
                     own.size() == 1 ? "it is" : "they are");
}

/// The policies that do not divide the instances as requested. Empty if there are none.
inline std::string name_undivided(const std::vector<sim::policy>& policies) {
  std::vector<std::string_view> whole;
  for (const sim::policy& p : policies) {
    if (p.pools == 0) whole.push_back(p.name);
  }
  if (whole.empty()) return {};
  return fmt::format("--pools has no effect on {}: {} no pools.\n", fmt::join(whole, ", "),
                     whole.size() == 1 ? "it has" : "they have");
}

/// The curves of a sweep.
inline std::vector<sim::sweep_curve> curves_of(experiment& e) {
  std::vector<sim::sweep_curve> curves;
  for (std::size_t p = 0; p != e.policies.size(); ++p) {
    curves.push_back({e.policies[p].name, {}});
    for (std::size_t x = 0; x != e.points.size(); ++x) curves.back().runs.push_back(e.numbers(x, p));
  }
  return curves;
}

/// The table so far; for a sweep, of all its values.
inline std::string show_table(experiment& e) {
  return e.swept ? sim::format_sweep(*e.swept, curves_of(e)) : sim::format_table(e.numbers(0));
}

/// What was simulated at the first point.
inline sim::simulated_cluster simulated(const experiment& e, const arguments& a) {
  const point& at = e.points.front();
  sim::simulated_cluster out{
      .options = at.options, .size = a.setting.size, .profile = at.cluster.front().named, .pools = {}};
  for (std::size_t p = 0; p != e.policies.size(); ++p) {
    if (at.pools[p]) out.pools.emplace(e.policies[p].name, *at.pools[p]);
  }
  return out;
}

/// Remarks on the table. @param complete whether everything has run.
inline std::string show_remarks(experiment& e, const arguments& a, bool complete) {
  std::string remarks;
  if (e.swept) {
    const auto curves = curves_of(e);
    if (complete) remarks += sim::describe_sweep(*e.swept, curves);
    for (const sim::sweep_curve& c : curves) {
      if (!complete) break;
      std::vector<std::string> not_here;
      for (std::size_t x = 0; x != c.runs.size(); ++x) {
        if (c.runs[x].empty()) not_here.push_back(fmt::format("{:g}", e.swept->values[x]));
      }
      if (!not_here.empty()) {
        remarks += fmt::format("{} cannot run at {} {}.\n", c.policy, e.swept->parameter, fmt::join(not_here, ", "));
      }
    }
  } else {
    const auto numbers = e.numbers(0);
    remarks +=
        sim::format_verdict(numbers) + sim::format_remarks(numbers) + sim::format_deployment(numbers, simulated(e, a));
  }
  if (!a.setting.placement.empty()) remarks += name_own_placements(e.policies);
  if (!a.setting.pools.empty()) remarks += name_undivided(e.policies);
  for (const std::string& why : e.left_out) remarks += fmt::format("Left out: {}.\n", why);
  if (a.seeds > 1) remarks += e.source.describe_seeds(e.points.front().setting);
  remarks += sim::name_unplanned(e.policies, a.setting.pools, !e.slo.empty());
  return remarks + e.of_load + e.source.unused() + e.source.fewer();
}

/// The table and the remarks.
inline std::string show_results(experiment& e, const arguments& a, bool complete) {
  const std::string remarks = show_remarks(e, a, complete);
  return remarks.empty() ? show_table(e) : show_table(e) + "\n" + remarks;
}

/// A description of the experiment, in a few lines.
inline std::string show_heading(const experiment& e, const arguments& a) {
  const point& first = e.points.front();
  std::vector<std::size_t> kv_blocks;
  for (std::size_t k = 0, i = 0; k != first.cluster.size(); i += first.cluster[k++].count) {
    kv_blocks.push_back(first.options.of(i).limits.blocks);
  }
  const std::string seeds = a.seeds == 1 ? fmt::format("seed {}", a.setting.seed)
                                         : fmt::format("seeds {} to {}: mean\u00b195 % interval", a.setting.seed,
                                                       a.setting.seed + a.seeds - 1);
  const bool rates = e.swept && e.swept->parameter != "instances";
  const std::string rate =
      rates ? fmt::format("{:.4g} to {:.4g} per second", first.rate, e.points.back().rate) : first.rate_said;
  const std::string cluster = e.swept && !rates
                                  ? fmt::format("{:g} to {:g} x {}", e.swept->values.front(), e.swept->values.back(),
                                                first.cluster.front().profile.name)
                                  : say_cluster(first.cluster);
  const bool by_default = !a.instances_given && !(e.swept && !rates);
  return fmt::format("{}\n{} requests, {}{}, {}\n{}{}, {} KV blocks of {} tokens each{}\n\n", e.source.what(),
                     first.requests, rate, e.peak, seeds, cluster, by_default ? " (the default of --instances)" : "",
                     fmt::join(kv_blocks, " and "), a.setting.size.block_size, say_routers(a.setting));
}

/// The rows of the results as JSON objects: point by point, policy by policy.
inline std::vector<nlohmann::ordered_json> results_as_json(experiment& e) {
  std::vector<nlohmann::ordered_json> all;
  for (std::size_t x = 0; x != e.points.size(); ++x) {
    for (std::size_t p = 0; p != e.policies.size(); ++p) {
      const sim::replicates runs = e.numbers(x, p);
      if (runs.empty()) continue;
      all.push_back(sim::to_json(runs));
      all.back().update(e.points[x].what);
      double rates = 0;
      for (std::size_t s = 0; s != e.seeds; ++s) rates += e.rate_of(x, p, s);
      all.back()["rate"] = rates / static_cast<double>(e.seeds);
      if (e.asked && e.explained[p]) all.back()["explained"] = e.explained[p]->json();
      if (e.points[x].pools[p]) {
        const sim::pool_sizes& s = *e.points[x].pools[p];
        all.back()["pools"] = fmt::format("{}/{}/{}", s.prefill, s.decode, s.mixed);
      }
    }
  }
  return all;
}

/// The timelines of `--explain`, one after the other. @throws tessera::sim::usage_error nothing happens at that time.
inline std::string show_explanations(const experiment& e) {
  std::string out;
  bool any = false;
  for (const auto& told : e.explained) {
    if (!told) continue;
    any = any || !told->is_outside();
    out += "\n" + told->text();
  }
  if (!any) {
    const auto [from, to] = e.explained.front()->range();
    throw sim::usage_error{
        fmt::format("nothing happens at {:g} s: the run is from {:.3f} s to {:.3f} s", e.asked->from_s, from, to)};
  }
  return out;
}

/// A row for each request of each run; for a sweep, one for each value, policy and seed.
inline void write_csv(experiment& e, sim::output_file& file, tool::signal_guard& signals) {
  if (e.swept) {
    std::vector<nlohmann::ordered_json> rows;
    for (std::size_t x = 0; x != e.points.size(); ++x) {
      for (std::size_t p = 0; p != e.policies.size(); ++p) {
        for (std::size_t s = 0; s != e.seeds; ++s) {
          if (!e.run(x, p, s)) continue;
          nlohmann::ordered_json row = e.points[x].what;
          row["seed"] = e.points[x].setting.seed + static_cast<std::int64_t>(s);
          row["rate"] = e.rate_of(x, p, s);
          row.update(sim::to_json(e.run(x, p, s)->numbers));
          rows.push_back(std::move(row));
        }
      }
    }
    file.write(sim::tidy_csv(rows));
    return;
  }
  nlohmann::ordered_json what;
  for (const char* key : {"workload", "trace", "rate", "instances", "profile", "routers", "report_interval_s",
                          "router_shares", "version"}) {
    if (e.points.front().what.contains(key)) what[key] = e.points.front().what.at(key);
  }
  std::string columns = "placement,";
  for (const auto& [column, field] : sim::csv_cells(what)) columns += column + ",";
  file.write(sim::csv_header(columns));
  for (std::size_t p = 0; p != e.policies.size(); ++p) {
    for (std::size_t s = 0; s != e.seeds; ++s) {
      if (!e.run(0, p, s)) continue;
      const sim::run_result& r = *e.run(0, p, s);
      what["rate"] = e.rate_of(0, p, s);
      std::string fields = sim::csv_text(r.numbers.placement) + ",";
      for (const auto& [column, field] : sim::csv_cells(what)) fields += field + ",";
      signals.check();
      file.write(sim::format_csv(r, static_cast<std::uint64_t>(e.points.front().setting.seed) + s, fields));
    }
  }
}

/// The pictures: for a sweep, its curves; else of the runs of the first seed, which are consumed.
inline std::vector<sim::figure> figures_of(experiment& e) {
  if (e.swept) {
    const point& first = e.points.front();
    const std::string title =
        fmt::format("{}, {} requests, {}", e.source.name(), first.requests,
                    e.swept->parameter == "instances" ? first.cluster.front().profile.name : names_of(first.cluster));
    return {{"sweep", sim::sweep_script(*e.swept, curves_of(e), title), e.slo.empty() ? 720 : 1440}};
  }
  std::vector<sim::run_result> drawn;
  for (std::size_t p = 0; p != e.policies.size(); ++p) {
    if (auto& r = e.run(0, p, 0)) drawn.push_back(std::move(*r));
  }
  return sim::figures_of(drawn);
}

/// The page of `--report`: the experiment, the table, the remarks, the pictures. @param pictures those in the report's
/// folder. @param explained the output of `--explain`.
inline std::string make_page(experiment& e, const arguments& a, const std::string& table, const std::string& remarks,
                             const std::string& explained, const std::vector<std::filesystem::path>& pictures) {
  std::vector<std::pair<std::string, std::string>> facts;
  for (auto& [name, value] : sim::csv_cells(e.points.front().what)) {
    const bool varied =
        e.swept && (name.rfind("sweep_", 0) == 0 || name == (e.swept->parameter == "instances" ? "instances" : "rate"));
    if (!value.empty() && !varied) facts.emplace_back(name, value);
  }
  facts.emplace_back("requests", fmt::format("{}", e.points.front().requests));
  if (e.swept) facts.emplace_back("sweep", a.sweep);
  if (a.seeds > 1) facts.emplace_back("seeds", fmt::format("{}", a.seeds));
  std::string drawn;
  for (const std::filesystem::path& picture : pictures) {
    drawn += sim::html_picture(sim::read_file(picture.string()), picture.stem().string());
  }
  if (pictures.empty()) drawn = "<p>There are no pictures: gnuplot is not installed.</p>\n";
  std::vector<sim::html_section> sections{{"", sim::html_lines(show_heading(e, a) + remarks)}, {"Numbers", table}};
  if (!explained.empty()) sections.push_back({"Why", fmt::format("<pre>{}</pre>\n", sim::html_text(explained))});
  sections.push_back({"Pictures", drawn});
  sections.push_back({"What was run", sim::html_facts(facts)});
  return sim::html_page(fmt::format("replay of {}", e.source.name()), sections);
}

}  // namespace replay
