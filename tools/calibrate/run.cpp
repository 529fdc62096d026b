// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run.hpp"

#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/input/csv.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace calibrate {

namespace {

spread spread_of(std::vector<double> v) {
  v.erase(std::remove_if(v.begin(), v.end(), [](double x) { return std::isnan(x); }), v.end());
  if (v.empty()) return {std::nan(""), std::nan(""), std::nan("")};
  std::sort(v.begin(), v.end());
  double sum = 0;
  for (const double x : v) sum += x;
  const auto at = [&](double part) {
    return v[static_cast<std::size_t>(part * static_cast<double>(v.size() - 1) + 0.5)];
  };
  return {sum / static_cast<double>(v.size()), at(0.5), at(0.99)};
}

}  // namespace

measured_run read_run(const std::string& path) {
  const std::string text = sim::read_file(path);
  sim::trace t = sim::parse_trace(text, path);
  if (t.left_out.count() != 0 || t.out_of_order != 0) {
    throw sim::input_error{path,
                           {1, 1},
                           "rows in order of arrival, each of a request that generated something",
                           fmt::format("{} others", t.left_out.count() + t.out_of_order)};
  }
  measured_run out{.name = path, .rows = std::move(t.rows), .measured = {}};
  sim::csv_reader in{text, path};
  constexpr std::string_view known =
      "arrival_s, prompt_tokens, output_tokens, measured_ttft_s, measured_e2e_s, and measured_tpot_s if known";
  (void)in.column("arrival_s", known);
  if (!t.has_arrivals) throw sim::input_error{path, {2, 1}, "arrival_s in every row", "none"};
  const std::size_t ttft = in.column("measured_ttft_s", known);
  const std::size_t e2e = in.column("measured_e2e_s", known);
  const bool has_tpot = in.has("measured_tpot_s");
  const std::size_t tpot = has_tpot ? in.column("measured_tpot_s", known) : 0;
  constexpr double most = 1e6;
  while (in.next()) {
    measured_request m;
    m.ttft = in.real(ttft, 0, most, true);
    m.e2e = in.real(e2e, 0, most, true);
    if (has_tpot && !in.text(tpot).empty()) m.tpot = in.real(tpot, 0, most);
    if (m.e2e < m.ttft) {
      in.fail(e2e, fmt::format("measured_e2e_s of at least measured_ttft_s = {}", in.text(ttft)),
              sim::shown(in.text(e2e)));
    }
    out.measured.push_back(m);
  }
  return out;
}

run_numbers numbers_of(const measured_run& run) {
  std::vector<double> ttft, tpot, e2e;
  double output = 0;
  double end = 0;
  for (std::size_t i = 0; i != run.rows.size(); ++i) {
    ttft.push_back(run.measured[i].ttft);
    tpot.push_back(run.measured[i].tpot);
    e2e.push_back(run.measured[i].e2e);
    output += static_cast<double>(run.rows[i].output_tokens);
    end = std::max(end, run.rows[i].arrival_s + run.measured[i].e2e);
  }
  return {spread_of(ttft), spread_of(tpot), spread_of(e2e), output / (end - run.rows.front().arrival_s)};
}

run_numbers simulate(const measured_run& run, const sim::profile& p, const engine& e) {
  std::int64_t longest = 1;
  for (const auto& r : run.rows) longest = std::max(longest, r.prompt_tokens + r.output_tokens);
  const tessera::tokens block{e.block_size};
  const std::size_t blocks = e.kv_blocks != 0 ? e.kv_blocks : static_cast<std::size_t>(p.kv_blocks(block).count());
  if (tessera::blocks_for(tessera::tokens{longest}, block).count() > static_cast<std::int64_t>(blocks)) {
    throw sim::usage_error{
        fmt::format("{}: a request of {} tokens does not fit in {} KV blocks of {}; name --kv-blocks", run.name,
                    longest, blocks, e.block_size)};
  }
  const sim::cluster_options o{
      .instances = 1,
      .instance = {.limits = {.requests = run.rows.size(),
                              .blocks = blocks,
                              .block_size = block,
                              .residents = e.max_batch,
                              .host_blocks = 0,
                              .max_length = tessera::tokens{longest}},
                   .step = {.max_batch = e.max_batch, .token_budget = tessera::tokens{e.token_budget}},
                   .timer = sim::step_timer{p}},
      .kv_bytes_per_token = p.kv_bytes_per_token(),
      .host_request_seconds = p.terms.host_request_seconds};
  using scheduler = tessera::fcfs<sim::request>;
  const auto result = sim::cluster_of<scheduler, sim::placed<>>{o}.run(run.rows, [](std::size_t) {});
  std::vector<double> ttft, tpot, e2e;
  double output = 0;
  double end = 0;
  for (const auto& r : result.requests) {
    if (!r.completed()) throw sim::usage_error{fmt::format("{}: request {} was refused", run.name, r.id)};
    // In a trace with reasoning as well, engines count the first token of any kind.
    const double first = r.first_token - r.arrival;
    const auto tokens = static_cast<double>(r.output_tokens());
    ttft.push_back(first);
    e2e.push_back(r.e2e());
    tpot.push_back(tokens > 1 ? (r.e2e() - first) / (tokens - 1) : std::nan(""));
    output += tokens;
    end = std::max(end, r.finish);
  }
  return {spread_of(ttft), spread_of(tpot), spread_of(e2e), output / (end - run.rows.front().arrival_s)};
}

double fit_host_step(const measured_run& run, sim::profile p, const engine& e) {
  const double wanted = numbers_of(run).e2e.mean;
  const auto too_slow = [&](double host) {
    p.terms.host_step_seconds = host;
    return simulate(run, p, e).e2e.mean > wanted;
  };
  if (too_slow(0)) {
    const double without = simulate(run, p, e).e2e.mean;
    if (without <= 1.01 * wanted) return 0;
    throw sim::usage_error{fmt::format(
        "{}: no host time explains it: without any, the mean e2e of the profile is {:.4g} s, that of the run {:.4g} s",
        run.name, without, wanted)};
  }
  double low = 0;
  double high = 1e-3;
  while (!too_slow(high)) {
    low = high;
    high *= 2;
    if (high > 10) {
      throw sim::usage_error{
          fmt::format("{}: no host time up to {} s a step explains a mean e2e of {:.4g} s; are its times in seconds?",
                      run.name, low, wanted)};
    }
  }
  for (int i = 0; i != 20; ++i) {
    const double middle = (low + high) / 2;
    (too_slow(middle) ? high : low) = middle;
  }
  return low;
}

}  // namespace calibrate
