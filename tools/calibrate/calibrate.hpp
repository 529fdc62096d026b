// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../picture.hpp"
#include "../tool.hpp"

#include "errors.hpp"
#include "fit.hpp"
#include "points.hpp"
#include "run.hpp"

#include <tessera/sim/model/profile_file.hpp>
#include <tessera/sim/model/step_file.hpp>
#include <tessera/sim/report/plots.hpp>
#include <tessera/sim/report/report.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

/// @file
/// The command line of `calibrate`: measured steps in, a profile out, with its errors.

namespace calibrate {

struct arguments {
  std::string steps;
  std::string profile;
  std::string fit = "points";
  bool without_mixed = false;
  std::string held_out;
  std::string name;
  std::string out;
  std::string json;
  std::string plot;
  std::string check;
  bool fit_host = false;
  std::optional<std::int64_t> kv_blocks;
  std::int64_t block_size = 16;
  std::int64_t max_batch = 256;
  std::int64_t token_budget = 2048;
};

/// Host time in a step beyond which `--fit-host` says that it must have another cause.
inline constexpr double most_host_step = 5e-3;

/// The steps of a file, and their errors.
struct calibration {
  sim::profile profile;
  std::vector<sim::measured_step> steps;  ///< Repeats merged.
  std::vector<double> predicted;          ///< For steps that were not fitted: from a fit without them.
  std::vector<bool> fitted;
  std::vector<point> missing;
  std::vector<point> doubtful;
  bool left_out_in_turn = false;  ///< All were fitted; each was predicted by a fit to the others.
};

/// The steps at `places`, except those in `without`.
inline std::vector<sim::measured_step> at(const std::vector<sim::measured_step>& all,
                                          const std::vector<std::size_t>& places,
                                          const std::vector<std::size_t>& without = {}) {
  std::vector<sim::measured_step> out;
  for (const std::size_t i : places) {
    if (std::find(without.begin(), without.end(), i) == without.end()) out.push_back(all[i]);
  }
  return out;
}

inline calibration calibrate_steps(const arguments& a, const sim::profile& base) {
  const sim::step_file file = sim::read_steps(a.steps);
  calibration c;
  c.steps = merge_repeats(file.steps);
  require_seconds(a.steps, c.steps, base);
  std::vector<std::size_t> chosen;
  if (a.fit != "none") {
    const choice points = choose_points(c.steps);
    c.missing = points.missing;
    c.doubtful = points.doubtful;
    // Mixed steps are not missed with `--without-mixed`, or if the file's form cannot hold them.
    if (a.without_mixed || !file.can_mix) {
      for (auto* list : {&c.missing, &c.doubtful}) {
        std::erase_if(*list, [](const point& p) { return p.kind == sim::step_kind::mixed; });
      }
    }
    chosen = points.steps;
    if (a.fit == "all") {
      chosen.clear();
      for (std::size_t i = 0; i != c.steps.size(); ++i) chosen.push_back(i);
    }
    require_enough(a.steps, at(c.steps, chosen), file.lines, file.can_mix && !a.without_mixed, a.fit == "points");
  }
  std::sort(chosen.begin(), chosen.end());
  c.fitted.assign(c.steps.size(), false);
  for (const std::size_t i : chosen) c.fitted[i] = true;
  c.profile = chosen.empty() ? base : fit(base, at(c.steps, chosen));
  const sim::step_timer timer{c.profile};
  for (const auto& s : c.steps) c.predicted.push_back(timer(s.shape()));
  // Errors of fitted steps say nothing about others: so each part is left out once.
  c.left_out_in_turn = !chosen.empty() && chosen.size() == c.steps.size();
  if (c.left_out_in_turn) {
    const std::size_t parts = std::min<std::size_t>(chosen.size(), 20);
    for (std::size_t part = 0; part != parts; ++part) {
      std::vector<std::size_t> out;
      for (std::size_t i = part; i < chosen.size(); i += parts) out.push_back(chosen[i]);
      const sim::step_timer other{fit(base, at(c.steps, chosen, out))};
      for (const std::size_t i : out) c.predicted[i] = other(c.steps[i].shape());
    }
  }
  return c;
}

/// Errors of the profile on fitted steps, and on the others.
struct error_tables {
  error_table fitted;
  error_table held_out;
};

inline error_tables tables_of(const calibration& c, const sim::profile& base) {
  error_tables t;
  const sim::step_timer timer{c.profile};
  for (std::size_t i = 0; i != c.steps.size(); ++i) {
    if (c.fitted[i]) t.fitted.add(c.steps[i], timer(c.steps[i].shape()), base.kv_tokens());
    if (!c.fitted[i] || c.left_out_in_turn) t.held_out.add(c.steps[i], c.predicted[i], base.kv_tokens());
  }
  return t;
}

inline std::string format_errors(const error_tables& t, bool in_turn) {
  std::string out = fmt::format("{:<30}{:>18}{:>38}\n{:<30}{:>8}{:>10}{:>10}{:>10}{:>9}{:>9}\n", "", "fitted",
                                in_turn ? "left out in turn" : "not fitted", "error of steps, in %", "steps", "mean",
                                "steps", "mean", "bias", "worst");
  const auto row = [&](std::string_view name, const error_sum& f, const error_sum& h) {
    if (f.steps + h.steps == 0) return;
    out += fmt::format("{:<30}", name);
    out += f.steps == 0 ? fmt::format("{:>8}{:>10}", "-", "-") : fmt::format("{:>8}{:>10.2f}", f.steps, 100 * f.mape());
    out += h.steps == 0 ? fmt::format("{:>10}{:>10}{:>9}{:>9}\n", "-", "-", "-", "-")
                        : fmt::format("{:>10}{:>10.2f}{:>9.2f}{:>9.2f}\n", h.steps, 100 * h.mape(), 100 * h.bias(),
                                      100 * h.worst);
  };
  for (std::size_t k = 0; k != kinds; ++k) row(sim::step_kind_names[k], t.fitted.by_kind[k], t.held_out.by_kind[k]);
  // Tables of kernels hold steps that are too large for a device of that memory.
  if (t.held_out.mixed_that_fit.steps != t.held_out.by_kind.back().steps) {
    row("mixed, of what fits in KV", t.fitted.mixed_that_fit, t.held_out.mixed_that_fit);
  }
  return out;
}

inline nlohmann::ordered_json to_json(const error_table& t) {
  nlohmann::ordered_json j = nlohmann::ordered_json::object();
  const auto add = [&](std::string_view name, const error_sum& e) {
    if (e.steps == 0) return;
    j[std::string{name}] = {{"steps", e.steps}, {"mape", e.mape()}, {"bias", e.bias()}, {"worst", e.worst}};
  };
  for (std::size_t k = 0; k != kinds; ++k) add(sim::step_kind_names[k], t.by_kind[k]);
  add("mixed, of what fits in KV", t.mixed_that_fit);
  return j;
}

/// Predicted against measured, both on logarithmic axes; the diagonal, and 10 % to both sides.
inline std::string scatter_script(const calibration& c) {
  static constexpr std::array<const char*, kinds> colours{"#0072b2", "#d55e00", "#cc79a7", "#009e73"};
  const sim::step_timer timer{c.profile};
  double low = 1e9;
  double high = 0;
  std::string data;
  std::string plots;
  for (const bool fitted : {false, true}) {
    for (std::size_t k = kinds; k-- != 0;) {  // the many mixed ones below the others
      std::string rows;
      for (std::size_t i = 0; i != c.steps.size(); ++i) {
        if (static_cast<std::size_t>(c.steps[i].kind) != k || c.fitted[i] != fitted) continue;
        const double predicted = timer(c.steps[i].shape());
        low = std::min({low, c.steps[i].seconds, predicted});
        high = std::max({high, c.steps[i].seconds, predicted});
        rows += fmt::format("{:.6g} {:.6g}\n", 1e3 * c.steps[i].seconds, 1e3 * predicted);
      }
      if (rows.empty()) continue;
      const std::string block = fmt::format("${}{}", fitted ? "fitted" : "other", k);
      data += fmt::format("{} << EOD\n{}EOD\n", block, rows);
      plots += fmt::format(", \\\n     {} using 1:2 with points pt {} ps {} lc rgb '{}' title '{}{}'", block,
                           fitted ? 7 : 6, fitted ? 1.1 : 0.5, fitted ? "#000000" : colours[k], sim::step_kind_names[k],
                           fitted ? ", fitted" : "");
    }
  }
  return data + std::string{sim::detail::script_style} +
         fmt::format(
             "set title {} noenhanced\nset key bottom right\nset xlabel 'measured, ms'\nset ylabel 'predicted, ms'\n"
             "{}{}set samples 100\n",
             sim::detail::gnuplot_quoted(c.profile.name), sim::detail::log_axis('x', 0.8e3 * low, 1.25e3 * high),
             sim::detail::log_axis('y', 0.8e3 * low, 1.25e3 * high)) +
         "plot x with lines lc rgb '#000000' title 'equal', \\\n     1.1 * x with lines dt 2 lc rgb '#999999' title "
         "'10 % off', \\\n     x / 1.1 with lines dt 2 lc rgb '#999999' notitle" +
         plots + "\n";
}

/// The comparison of a profile with a run: a table, and the same as numbers.
inline std::string format_check(const run_numbers& real, const run_numbers& simulated, nlohmann::ordered_json& j) {
  std::string out = fmt::format("{:<14}{:>12}{:>12}{:>9}{:>12}{:>12}{:>9}{:>12}{:>12}{:>9}\n", "seconds", "mean",
                                "simulated", "%", "p50", "simulated", "%", "p99", "simulated", "%");
  const auto row = [&](const char* name, const spread& m, const spread& s) {
    out += fmt::format("{:<14}", name);
    const std::array<std::pair<const char*, double spread::*>, 3> parts{
        {{"mean", &spread::mean}, {"p50", &spread::p50}, {"p99", &spread::p99}}};
    for (const auto& [part, of] : parts) {
      if (std::isnan(m.*of)) continue;
      const double error = s.*of / (m.*of) - 1;
      out += fmt::format("{:>12.4f}{:>12.4f}{:>+9.2f}", m.*of, s.*of, 100 * error);
      j[name][part] = {{"measured", m.*of}, {"simulated", s.*of}, {"error", error}};
    }
    out += "\n";
  };
  row("ttft", real.ttft, simulated.ttft);
  row("tpot", real.tpot, simulated.tpot);
  row("e2e", real.e2e, simulated.e2e);
  const double error = simulated.throughput / real.throughput - 1;
  out += fmt::format("{:<14}{:>12.1f}{:>12.1f}{:>+9.2f}  tokens per second\n", "throughput", real.throughput,
                     simulated.throughput, 100 * error);
  j["throughput"] = {{"measured", real.throughput}, {"simulated", simulated.throughput}, {"error", error}};
  return out;
}

/// A number of the command line that must be in a range.
inline std::int64_t in_range(std::int64_t n, std::int64_t most, const char* option) {
  if (n < 1 || n > most) throw sim::usage_error{fmt::format("{} must be from 1 to {}, not {}", option, most, n)};
  return n;
}

/// Runs the tool on its arguments. Writes nothing before everything has succeeded.
inline void run(const arguments& a) {
  if (a.steps.empty() && a.check.empty()) {
    throw sim::usage_error{"name a file of measured steps, or --check RUN.csv, or both"};
  }
  if (a.steps.empty() && (!a.plot.empty() || !a.held_out.empty())) {
    throw sim::usage_error{"--plot and --held-out need a file of measured steps"};
  }
  if (a.fit_host && a.check.empty()) throw sim::usage_error{"--fit-host needs --check RUN.csv"};
  const engine e{
      .kv_blocks = a.kv_blocks ? static_cast<std::size_t>(in_range(*a.kv_blocks, 1 << 26, "--kv-blocks")) : 0,
      .block_size = in_range(a.block_size, 65'536, "--block-size"),
      .max_batch = static_cast<std::size_t>(in_range(a.max_batch, 65'536, "--max-batch")),
      .token_budget = in_range(a.token_budget, 1 << 24, "--token-budget")};
  const sim::profile base = sim::load_profile(a.profile);
  calibration c;
  c.profile = base;
  std::string text;
  nlohmann::ordered_json j;
  if (!a.steps.empty()) {
    c = calibrate_steps(a, base);
    const error_tables own = tables_of(c, base);
    error_tables shown = own;
    if (!a.held_out.empty()) {
      // Errors on steps of another file alone.
      const auto others = merge_repeats(sim::read_steps(a.held_out).steps);
      require_seconds(a.held_out, others, base);
      const sim::step_timer timer{c.profile};
      shown.held_out = {};
      for (const auto& s : others) shown.held_out.add(s, timer(s.shape()), base.kv_tokens());
      c.left_out_in_turn = false;
    }
    const auto fitted = static_cast<std::size_t>(std::count(c.fitted.begin(), c.fitted.end(), true));
    text += fmt::format("{}: {} different steps, {} fitted, from {}\n", a.steps, c.steps.size(), fitted, base.name);
    for (const point& p : c.missing) text += fmt::format("missing: {}\n", describe(p));
    for (const point& p : c.doubtful) {
      text += fmt::format("missing, if more fits than was measured: {}\n", describe(p));
    }
    text += "\n" + format_errors(shown, c.left_out_in_turn);
    j["steps"] = c.steps.size();
    j["fitted_steps"] = fitted;
    j["missing"] = nlohmann::ordered_json::array();
    for (const point& p : c.missing) j["missing"].push_back(describe(p));
    j["doubtful"] = nlohmann::ordered_json::array();
    for (const point& p : c.doubtful) j["doubtful"].push_back(describe(p));
    j["fitted"] = to_json(shown.fitted);
    j[c.left_out_in_turn ? "left_out_in_turn" : "held_out"] = to_json(shown.held_out);
    if (fitted > 0) {
      c.profile.name = a.name.empty() ? base.name + "-calibrated" : a.name;
      c.profile.source =
          fmt::format("calibrated to {} steps of {}", fitted, std::filesystem::path{a.steps}.filename().string());
      for (std::size_t k = 0; k != kinds; ++k) {
        const error_sum& h = shown.held_out.by_kind[k];
        if (h.steps > 0) c.profile.source += fmt::format("; {} {:.1f} %", sim::step_kind_names[k], 100 * h.mape());
      }
    }
  }
  if (!a.check.empty()) {
    const measured_run real = read_run(a.check);
    if (a.fit_host) c.profile.terms.host_step_seconds = fit_host_step(real, c.profile, e);
    text += fmt::format("\n{}: {} requests, one instance of {}{}\n", a.check, real.rows.size(), c.profile.name,
                        a.fit_host ? fmt::format(", host time {:.4f} ms a step, fitted to the mean e2e",
                                                 1e3 * c.profile.terms.host_step_seconds)
                                   : std::string{});
    text += format_check(numbers_of(real), simulate(real, c.profile, e), j["check"]);
    j["check"]["host_step_seconds"] = c.profile.terms.host_step_seconds;
    if (a.fit_host) {
      const double host = c.profile.terms.host_step_seconds;
      j["check"]["host_step_plausible"] = host <= most_host_step;
      if (host > most_host_step) {
        text += fmt::format(
            "{:.1f} ms of host time in each step is more than engines were found to take (1 to 3 ms): something else "
            "is "
            "missing in the profile, {}.\n",
            1e3 * host,
            c.profile.parallel.devices() > 1 ? "for instance its link between devices (parallel.bytes_per_s, latency_s)"
                                             : "for instance the devices of an instance and their link (parallel)");
      }
    }
  }
  // The other tools must be able to read what is written.
  const std::string whole = sim::to_json(c.profile);
  (void)sim::parse_profile(whole, "the profile");

  std::optional<tool::picture> image;
  if (!a.plot.empty()) {
    sim::require_gnuplot();
    image.emplace(a.plot, "calibration", sim::plot_format::svg);
  }
  tool::require_apart(
      {{"the steps", a.steps}, {"--profile", a.profile}, {"--check", a.check}, {"--held-out", a.held_out}},
      {{"--out", a.out},
       {"--json", a.json},
       {"--plot", image ? image->image().string() : std::string{}},
       {"--plot, for its script,", image ? image->script().string() : std::string{}}});
  std::unique_ptr<sim::output_file> out;
  std::unique_ptr<sim::output_file> json;
  if (!a.out.empty()) out = std::make_unique<sim::output_file>(a.out);
  if (!a.json.empty()) json = std::make_unique<sim::output_file>(a.json);
  if (image) image->draw(scatter_script(c), 720);
  if (json) {
    j["profile"] = c.profile.name;
    json->write(sim::json_page(j));
  }
  if (out) out->write(whole);
  if (json) json->commit();
  if (out) out->commit();
  // Output for human readers makes room for output for programs.
  std::FILE* const people = a.json == "-" || a.out == "-" ? stderr : stdout;
  fmt::print(people, "{}", text);
  if (image) fmt::print(people, "{}\n", image->image().string());
  tool::flush_output();
}

/// The whole program. Exit code 2 and one line on stderr for anything that the user can correct.
inline int main(int argc, char** argv) {
  arguments a;
  CLI::App app{"Fits a profile to measured steps, and holds profiles against measured steps and runs."};
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // scripts append to their defaults
  app.add_option("steps", a.steps,
                 "CSV of measured steps: kind,prefill_tokens,prefill_history,decodes,decode_context,"
                 "seconds, or kind,batch,length,seconds");
  app.add_option("--profile", a.profile,
                 "the model and the device that were measured: a built-in name, or a .json file")
      ->required();
  app.add_option("--fit", a.fit,
                 "points: the 14 points, the other steps measure the error; all; none: hold it against them")
      ->check(CLI::IsMember({"points", "all", "none"}))
      ->capture_default_str();
  app.add_flag("--without-mixed", a.without_mixed,
               "do without mixed steps: their numbers stay as the profile has them");
  app.add_option("--held-out", a.held_out,
                 "CSV of steps that measure the error in place of those that were not fitted");
  app.add_option("--name", a.name, "of the profile that is written");
  app.add_option("--out", a.out, "write the profile");
  app.add_option("--json", a.json, "write the errors");
  app.add_option("--plot", a.plot, "predicted against measured: FILE.svg, FILE.png or a folder (needs gnuplot)");
  CLI::Option* const check =
      app.add_option("--check", a.check, "CSV of a run: a trace with measured_ttft_s, measured_tpot_s, measured_e2e_s");
  app.add_flag("--fit-host", a.fit_host, "fit the host's time in each step to the run's mean end-to-end latency");
  app.add_option("--kv-blocks", a.kv_blocks, "of the engine that ran (default: the profile's memory)")->needs(check);
  app.add_option("--block-size", a.block_size, "of that engine: tokens per KV block")
      ->capture_default_str()
      ->needs(check);
  app.add_option("--max-batch", a.max_batch, "of that engine: requests per step")->capture_default_str()->needs(check);
  app.add_option("--token-budget", a.token_budget, "of that engine: tokens per step")
      ->capture_default_str()
      ->needs(check);
  return tool::run("calibrate", "fewer --kv-blocks", app, [&] {
    tool::require_values(argc, argv);
    app.parse(argc, argv);
    run(a);
  });
}

}  // namespace calibrate
