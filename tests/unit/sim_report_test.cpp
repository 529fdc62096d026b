// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/report/plots.hpp>
#include <tessera/sim/report/report.hpp>
#include <tessera/sim/report/report_json.hpp>

#include <tessera/sim/input/input.hpp>
#include <tessera/sim/random.hpp>
#include <tessera/sim/report/replicates.hpp>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

namespace {

namespace sim = tessera::sim;
namespace fs = std::filesystem;
using tessera_test::approx;
using folder = tessera_test::temporary_folder;

sim::run_result made_up_run(std::string name, double slow) {
  sim::run_result run;
  sim::run_facts facts;
  facts.policy = std::move(name);
  for (int i = 0; i < 200; ++i) {
    sim::request_record r;
    r.id = static_cast<std::uint64_t>(i);
    r.arrival = i;
    r.prompt_tokens = 5;
    r.reasoning_tokens = i * 10;
    r.answer_tokens = 11;
    r.first_scheduled = i + 0.125;
    r.first_token = i + 0.25;
    r.phase_change = i + slow * i / 100.0;
    r.answer_scheduled = r.phase_change + 0.5;
    r.first_answer = r.answer_scheduled + 0.25;
    r.finish = r.first_answer + 1;
    r.qoe = 1;
    run.requests.push_back(r);
    run.timeline.push_back({r.arrival, static_cast<double>(i % 7), 3, 0.5});
  }
  sim::request_record refused;
  refused.id = 200;
  refused.arrival = 200;
  refused.rejected = true;
  run.requests.push_back(refused);
  run.numbers = sim::summarize(run.requests, facts);
  return run;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TEST_CASE("the table has a row per policy, aligned, the best marked", "[sim]") {
  const std::vector<sim::summary> rows{made_up_run("slow", 9).numbers, made_up_run("the-fast-one", 1).numbers};
  const auto lines = lines_of(sim::format_table(rows));
  REQUIRE(lines.size() == 5);
  CHECK(lines[1].find("policy") == 0);
  CHECK(lines[2].find("slow ") == 0);
  CHECK(lines[3].find("the-fast-one ") == 0);
  CHECK(lines[2].find('*') == std::string::npos);
  CHECK(lines[3].find('*') != std::string::npos);
  // Numbers end where their heading does.
  CHECK(lines[1].find("refused") + 7 == lines[2].find(" 1 ") + 2);
  CHECK(lines[1].find("refused") + 7 == lines[3].find(" 1 ") + 2);
  CHECK(lines[1].find("refused") != std::string::npos);  // There are some.
  CHECK(lines[0].find("migra-") == std::string::npos);   // There are none.
  CHECK(lines[0].find("un-") == std::string::npos);      // All have ended.
  CHECK(lines[1].find("p99") != std::string::npos);

  // A table that is too wide loses the columns that say least, and says so; with room it has them all.
  for (const auto& line : lines) CHECK(line.size() <= sim::table_width);
  CHECK(lines[4].find("(no room for QoE mean") == 0);
  CHECK(lines[0].find("e2e") != std::string::npos);
  const auto wide = lines_of(sim::format_table(std::vector<sim::replicates>{{rows[0]}, {rows[1]}}, 200));
  REQUIRE(wide.size() == 4);
  CHECK(wide[0].find("e2e") != std::string::npos);
  const auto narrow = lines_of(sim::format_table(std::vector<sim::replicates>{{rows[0]}, {rows[1]}}, 30));
  CHECK(narrow[1].find("refused") != std::string::npos);
  CHECK(narrow.back().find(" and ") != std::string::npos);  // in lines as narrow
  for (const auto& line : narrow) CHECK(line.size() <= 30);

  // Nothing to win against: no marks. Nothing measured: a dash.
  CHECK(sim::format_table({rows.data(), 1}).find('*') == std::string::npos);
  const std::vector<sim::summary> same{rows[0], rows[0]};
  CHECK(sim::format_table(same).find('*') == std::string::npos);
  const std::vector<sim::summary> empty{sim::summarize({}, {})};
  CHECK(sim::format_table(empty).find(" - ") != std::string::npos);
}

TEST_CASE("a sentence says which wins in what", "[sim]") {
  sim::summary a = made_up_run("a", 1).numbers;
  sim::summary b = a;
  b.policy = "b";
  const auto verdict = [](const std::vector<sim::replicates>& rows) { return sim::format_verdict(rows); };
  CHECK(verdict({{a}}).empty());
  CHECK(verdict({{a}, {b}}).empty());  // all alike
  a.ttft.p99 = 2;
  b.ttft.p99 = 3;
  a.window_tokens_per_s = 70;
  b.window_tokens_per_s = 50;
  b.tpot.p99 = a.tpot.p99 / 2;
  sim::summary c = b;
  c.policy = "c";
  c.tpot.p99 = sim::never;
  CHECK(verdict({{a}, {b}}) ==
        "a has the lowest P99 TTFT (2.000 s) and the most tokens per second (70); b has the lowest P99 TPOT (0.0500 "
        "s).\n");
  c.tpot.p99 = b.tpot.p99;
  CHECK(verdict({{a}, {b}, {c}}).find("b and c share the lowest P99 TPOT.") != std::string::npos);
  // What the intervals do not tell apart is credited to none.
  sim::summary a2 = a;
  a2.ttft.p99 = 5;
  CHECK(verdict({{a, a2}, {b, b}}).find("TTFT") == std::string::npos);
  CHECK(sim::format_verdict({}).empty());
}

TEST_CASE("the JSON has the keys of the contract", "[sim]") {
  const std::vector<sim::summary> rows{made_up_run("a", 9).numbers, made_up_run("b", 1).numbers};
  const auto j = nlohmann::json::parse(sim::format_json(rows));
  REQUIRE(j.is_array());
  REQUIRE(j.size() == 2);
  for (const auto& run : j) {
    for (const char* key : {"requests", "completed", "rejected", "slo_violation_rate", "qoe_mean", "blocking_p99",
                            "throughput_tokens_per_s", "preemptions", "migrations", "prefix_hit_rate"}) {
      INFO(key);
      CHECK(run.at(key).is_number());
    }
    const auto has = [&](const char* key, std::vector<const char*> parts) {
      for (const char* part : parts) {
        INFO(key << "." << part);
        CHECK(run.at(key).contains(part));
      }
      CHECK(run.at(key).size() == parts.size());
    };
    for (const char* key : {"ttft", "tpot", "e2e", "normalized_latency"}) {
      has(key, {"mean", "p50", "p90", "p95", "p99", "max"});
    }
    has("window", {"seconds", "tokens_per_s"});
    has("load", {"state", "left_behind"});
    CHECK(run.at("slo").is_null());  // No SLO was asked for.
    has("fragmentation", {"mean", "peak"});
    has("scheduler_ns_per_step", {"mean", "p99"});
    CHECK(run.contains("kv_transfer_p99"));
    CHECK(run.contains("simulated_tokens_per_wall_s"));
    REQUIRE(run.at("ttft_by_reasoning_bin").size() == 8);  // 0 to 1990 reasoning tokens.
    for (const auto& bin : run.at("ttft_by_reasoning_bin")) {
      for (const char* key : {"bin", "n", "stat", "value"}) CHECK(bin.contains(key));
    }
  }
  CHECK(j[0].at("policy") == "a");
  CHECK(j[0].at("requests") == 201);
  CHECK(j[0].at("completed") == 200);
  CHECK(j[0].at("rejected") == 1);
  CHECK(j[0].at("kv_transfer_p99").is_null());  // No transfer, no number.
  CHECK(j[0].at("ttft").at("mean").get<double>() == rows[0].ttft.mean);
}

TEST_CASE("several seeds: means, intervals, and none is the best by chance", "[sim]") {
  const auto run = [](const char* name, double slow, double more) {
    sim::summary s = made_up_run(name, slow).numbers;
    s.ttft.mean += more;
    s.slo.lines = {{.bound = {.metric = sim::slo_metric::ttft, .part = 0.99, .seconds = 3}, .within = 0.5 + more}};
    s.slo.met = more > 0;
    return s;
  };
  // Two that differ by less than they vary, and one that is far off.
  const std::vector<sim::replicates> rows{{run("a", 1, 0), run("a", 1, 0.2), run("a", 1, 0.4)},
                                          {run("b", 1, 0.1), run("b", 1, 0.3), run("b", 1, 0.35)},
                                          {run("c", 90, 0), run("c", 90, 0.2), run("c", 90, 0.4)}};
  const auto lines = lines_of(sim::format_table(rows, 200));
  REQUIRE(lines.size() == 5);
  CHECK(lines[2].find("\u00b1") != std::string::npos);
  CHECK(lines[2].find('*') != std::string::npos);
  CHECK(lines[3].find('*') != std::string::npos);
  CHECK(lines[4].find('*') == std::string::npos);
  CHECK(lines[1].find("p50") == std::string::npos);  // fewer columns

  const auto j = nlohmann::json::parse(sim::format_json(rows, {{"profile", "p"}}));
  REQUIRE(j.size() == 3);
  const double base = rows[0][0].ttft.mean;
  CHECK(j[0].at("policy") == "a");
  CHECK(j[0].at("profile") == "p");
  CHECK(j[0].at("seeds") == 3);
  CHECK(j[0].at("ttft").at("mean").get<double>() == approx(base + 0.2));
  // The deviation of 0, 0.2 and 0.4 is 0.2; Student's t of two degrees of freedom is 4.303.
  CHECK(j[0].at("interval95").at("ttft").at("mean").get<double>() == approx(4.30265 * 0.2 / std::sqrt(3.0)));
  CHECK(j[0].at("interval95").at("requests").get<double>() == 0);
  CHECK(j[0].at("slo").at("met").get<double>() == approx(2 / 3.0));
  CHECK(j[0].at("slo").at("bounds").at("ttft_p99").at("within").get<double>() == approx(0.7));
  CHECK(j[0].at("kv_transfer_p99").is_null());
  CHECK(j[0].at("ttft_by_reasoning_bin").size() == 8);
  CHECK(j[0].at("ttft_by_reasoning_bin")[0].at("n") == 3 * rows[0][0].ttft_by_reasoning_bin[0].n);
}

TEST_CASE("several seeds: what only some runs have is of these", "[sim]") {
  const auto runs = [](const char* name, std::size_t without, double mean) {
    sim::replicates all;
    for (std::size_t s = 0; s != 3; ++s) {
      all.push_back(made_up_run(name, 1).numbers);
      if (s == without) continue;
      all.back().session = {.count = 2, .mean = mean, .p99 = mean};
      all.back().joules = all.back().joules_per_output_token = mean;
      all.back().worst_tenant = mean;
    }
    return all;
  };
  for (const std::size_t without : {0U, 1U, 2U}) {
    const std::vector<sim::replicates> rows{runs("a", without, 4), runs("b", without, 5)};
    const auto j = nlohmann::json::parse(sim::format_json(rows));
    CHECK(j[0].at("session").at("mean").get<double>() == 4);
    CHECK(j[0].at("energy").at("joules").get<double>() == 4);
    CHECK(j[0].at("worst_tenant").get<double>() == 4);
    CHECK(j[0].at("interval95").at("session").at("mean").get<double>() == 0);
    const std::string table = sim::format_table(rows, 300);
    CHECK(table.find("4.0\u00b10.0*") != table.npos);   // the session's waits: without the seed that has none
    CHECK(table.find("400.0\u00b10.0") != table.npos);  // the worst share
  }
  // What no run has is no column; what one policy lacks is none of its numbers.
  CHECK(sim::format_table(std::vector<sim::replicates>{{made_up_run("a", 1).numbers}}, 300).find("session") ==
        std::string::npos);
  const std::string one =
      sim::format_table(std::vector<sim::replicates>{runs("a", 9, 4), {made_up_run("b", 1).numbers}}, 300);
  CHECK(one.find("session") != one.npos);
  CHECK(one.find(" - ") != one.npos);
}

TEST_CASE("JSON says what it can of a name that is no UTF-8", "[sim]") {
  const std::vector<sim::replicates> rows{{made_up_run("a", 1).numbers}};
  CHECK(sim::format_json(rows, {{"trace", "caf\xe9.csv"}}).find("caf\xef\xbf\xbd.csv") != std::string::npos);
}

TEST_CASE("remarks say what a reader must know, and nothing else", "[sim]") {
  sim::summary fine = made_up_run("fine", 1).numbers;
  fine.load = {sim::load_state::carried, 0};
  CHECK(sim::format_remarks(std::vector<sim::replicates>{{fine}}).empty());
  sim::summary over = fine;
  over.policy = "over";
  over.load = {sim::load_state::overload, 0.07};
  sim::summary young = fine;
  young.policy = "young";
  young.load = {sim::load_state::unsettled, 0};
  const std::string text = sim::format_remarks(std::vector<sim::replicates>{{fine}, {over}, {young}, {over, fine}});
  const auto lines = lines_of(text);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].find("The load is more than the cluster carries") == 0);
  CHECK(lines[0].find("arrives: over 7 %, over 7 % (in 1 of 2 runs)") != std::string::npos);
  CHECK(lines[1].find("look different: young") != std::string::npos);
  fine.slo.lines = {
      {.bound = {.metric = sim::slo_metric::ttft, .part = 0.99, .seconds = 3}, .within = 0.995, .value = 2}};
  fine.slo.met = true;
  CHECK(sim::format_remarks(std::vector<sim::replicates>{{fine}}) ==
        "fine: meets the SLO; ttft_p99 2 s where 3 s are asked for, 99.50 % within\n");
  fine.slo = {};
  sim::summary bad = fine;
  bad.policy = "bad";
  bad.faults = {.deaths = 1, .down_s = 60, .recovered = 3, .recomputed = 1200};
  CHECK(sim::format_remarks(std::vector<sim::replicates>{{fine}, {bad}, {bad, fine}}) ==
        "Instances died; requests that began again elsewhere: bad 3 with 1200 tokens, bad 1.5 with 600 tokens\n");
  CHECK(sim::to_json(bad).at("faults").at("recomputed_tokens") == 1200);
  // The column is there where there is something in it.
  CHECK(sim::format_table(std::vector<sim::summary>{fine}).find("covered") == std::string::npos);
  CHECK(sim::format_table(std::vector<sim::summary>{fine, bad}).find("covered") != std::string::npos);
}

TEST_CASE("means of several measurements, and how sure they are", "[sim]") {
  CHECK(std::isnan(sim::estimate_mean({}).mean));
  const std::vector<double> one{3};
  CHECK(sim::estimate_mean(one).mean == 3);
  CHECK(std::isnan(sim::estimate_mean(one).half_width));
  const std::vector<double> some{1, sim::never, 3};
  CHECK(sim::estimate_mean(some).count == 2);
  CHECK(sim::estimate_mean(some).half_width == approx(12.7062));  // t of one degree of freedom, deviation sqrt 2
  // 95 of 100 intervals around means of ten normal samples hold the true mean.
  sim::random_engine rng{5};
  int held = 0;
  for (int round = 0; round != 4000; ++round) {
    std::vector<double> x;
    for (int i = 0; i != 10; ++i) x.push_back(sim::normal(rng, 2, 3));
    const auto e = sim::estimate_mean(x);
    held += std::abs(e.mean - 2) <= e.half_width ? 1 : 0;
  }
  CHECK(std::abs(held - 3800) < 60);
}

TEST_CASE("jobs run once each, on any number of threads, and the first failure is told", "[sim]") {
  for (const std::size_t threads : {1U, 2U, 5U, 64U}) {
    CAPTURE(threads);
    std::vector<int> done(100);
    sim::run_parallel(done.size(), threads, [&](std::size_t i) { ++done[i]; });
    CHECK(std::count(done.begin(), done.end(), 1) == 100);
    std::atomic<int> begun{0};
    CHECK_THROWS_WITH(sim::run_parallel(100, threads,
                                        [&](std::size_t i) {
                                          ++begun;
                                          if (i == 0) throw std::runtime_error{"the first"};
                                        }),
                      "the first");
    CHECK(begun <= 100);
  }
  sim::run_parallel(0, 4, [](std::size_t) { FAIL("there is none"); });
}

TEST_CASE("the CSV has a row per request and a field per column", "[sim]") {
  const auto run = made_up_run("a", 1);
  const auto lines = lines_of(sim::format_csv(run, 7));
  REQUIRE(lines.size() == 201);
  const std::string header = sim::csv_header();
  const auto columns = std::count(header.begin(), header.end(), ',');
  for (const auto& line : lines) CHECK(std::count(line.begin(), line.end(), ',') == columns);
  CHECK(lines[0] == "a,0,completed,0,0,5,0,11,0.125,0.25,0,0.5,0.75,1.75,0.75,0.1,1.75,1,0,0,0,0,0,0,0,,,7");
  CHECK(lines[200] == "a,200,rejected,0,200,0,0,0,,,,,,,,,,,0,0,0,0,0,0,0,,,7");
  // What is the same for all stands before the seed.
  CHECK(sim::csv_header("rate,").find(",cached_tokens,tenant,session,rate,seed\n") != std::string::npos);
  CHECK(lines_of(sim::format_csv(run, 7, "2.5,"))[200].ends_with(",0,0,0,0,,,2.5,7"));
  auto whose = run;
  whose.requests[0].tenant = 3;
  CHECK(lines_of(sim::format_csv(whose, 7))[0].ends_with(",0,0,0,0,3,,7"));
  whose.requests[0].session = 1'000'000'000'000;
  CHECK(lines_of(sim::format_csv(whose, 7))[0].ends_with(",0,0,0,0,3,1000000000000,7"));
}

TEST_CASE("plots are drawn whole, with their data beside them", "[sim]") {
  const std::vector<sim::run_result> runs{made_up_run("fcfs", 9), made_up_run("it's", 1)};
  const folder dir;
  if (!sim::has_gnuplot()) {
    CHECK_THROWS_AS(sim::write_plots(dir.path, runs), sim::output_error);
    CHECK(dir.entries() == 0);
    return;
  }
  const auto svg = sim::write_plots(dir.path / "new", runs);
  REQUIRE(svg.size() == 4);
  for (const auto& path : svg) {
    const std::string picture = sim::read_file(path.string());
    CHECK(picture.find("<svg") != picture.npos);
    // The same file in the dark: the style stands in the outermost element, where it is of effect.
    const std::size_t style = picture.find("<style>@media (prefers-color-scheme: dark)");
    CHECK(style == picture.find('>', picture.find("<svg")) + 1);
    CHECK(picture.find("</svg>") != picture.npos);
    CHECK(picture.find("fcfs") != picture.npos);
    CHECK(picture.find("it's") != picture.npos);
  }
  const auto png = sim::write_plots(dir.path / "new", runs, sim::plot_format::png);
  REQUIRE(png.size() == 4);
  for (const auto& path : png) CHECK(sim::read_file(path.string()).substr(0, 4) == "\x89PNG");
  for (const auto& entry : fs::directory_iterator{dir.path / "new"}) {
    CHECK(entry.path().extension() != ".partial");
  }
  CHECK(std::distance(fs::directory_iterator{dir.path / "new"}, fs::directory_iterator{}) == 12);  // 4 scripts as well.
  CHECK(sim::read_file((dir.path / "new" / "timeline.gp").string()).find("$run1 << EOD") != std::string::npos);

  // Without data there is nothing to draw.
  CHECK(sim::write_plots(dir.path, std::vector<sim::run_result>(1)).empty());
}

TEST_CASE("ticks are at round numbers", "[sim]") {
  CHECK(sim::detail::round_step(950, 4) == approx(500));
  CHECK(sim::detail::round_step(105, 4) == approx(50));
  CHECK(sim::detail::round_step(1.05, 4) == approx(0.5));
  CHECK(sim::detail::round_step(4, 4) == approx(1));
  for (double range = 0.013; range < 1e6; range *= 1.7) {
    const double step = sim::detail::round_step(range, 4);
    CHECK(range / step <= 4.0001);
    CHECK(range / step >= 1.5);
  }
}

TEST_CASE("plots without gnuplot are an error that says how to get it", "[sim]") {
  const folder dir;
  const char* const path = std::getenv("PATH");
  const std::string kept = path == nullptr ? "" : path;
  REQUIRE(::setenv("PATH", dir.path.c_str(), 1) == 0);
  std::string what;
  try {
    sim::require_gnuplot();
  } catch (const sim::output_error& e) {
    what = e.what();
  }
  REQUIRE(::setenv("PATH", kept.c_str(), 1) == 0);
  CHECK(what == "the plots need gnuplot, which is not on the PATH (Debian: apt install gnuplot-nox)");
}

TEST_CASE("a failing gnuplot leaves no picture", "[sim]") {
  const folder dir;
  std::ofstream{dir.path / "gnuplot"} << "#!/bin/sh\nexit 3\n";
  fs::permissions(dir.path / "gnuplot", fs::perms::owner_all);
  const std::string kept = std::getenv("PATH");
  REQUIRE(::setenv("PATH", (dir.path.string() + ":" + kept).c_str(), 1) == 0);
  const std::vector<sim::run_result> runs{made_up_run("fcfs", 9)};
  std::string what;
  try {
    (void)sim::write_plots(dir.path / "plots", runs);
  } catch (const sim::output_error& e) {
    what = e.what();
  }
  REQUIRE(::setenv("PATH", kept.c_str(), 1) == 0);
  CHECK(what.find("gnuplot failed on ") == 0);
  for (const auto& entry : fs::directory_iterator{dir.path / "plots"}) CHECK(entry.path().extension() == ".gp");
}

TEST_CASE("a table has a column for what each objective asks, and for the first token where requests reason", "[sim]") {
  sim::summary s = made_up_run("a", 1).numbers;
  s.reasoning_share = 0.15;
  s.first_token = {.count = 5, .p99 = 0.321};
  CHECK(sim::format_table(std::vector<sim::summary>{s}).find("1st token") != std::string::npos);
  CHECK(sim::to_json(s).at("first_token").at("p99") == 0.321);
  CHECK(sim::to_json(s).at("reasoning_share") == 0.15);
  s.reasoning_share = 0;
  CHECK(sim::format_table(std::vector<sim::summary>{s}).find("1st token") == std::string::npos);
  s.slo.lines = {{.bound = {.metric = sim::slo_metric::tpot, .part = 0.95, .seconds = 0.06}, .value = 0.0512},
                 {.bound = {.metric = sim::slo_metric::first_token, .part = 0.99, .seconds = 1}, .value = 0.3},
                 {.bound = {.metric = sim::slo_metric::e2e, .part = 1, .seconds = 90}, .value = 77.5}};
  const auto lines = lines_of(sim::format_table(std::vector<sim::replicates>{{s}}, 200));
  CHECK(lines[1].find("p95") != std::string::npos);
  CHECK(lines[1].find("all") != std::string::npos);
  CHECK(lines[2].find("0.0512") != std::string::npos);
  CHECK(lines[2].find("77.50") != std::string::npos);
  CHECK(lines[2].find("0.321") != std::string::npos);  // asked for, so it is shown
  // The pace of readers is not called an SLO: that is what was asked for.
  CHECK(lines[0].find("SLO") == std::string::npos);
  CHECK(lines[0].find("pace") != std::string::npos);
  s.slo.lines = {{.bound = {.metric = sim::slo_metric::tpot, .part = 0.99, .seconds = 0.1}, .within = 1, .met = true}};
  s.slo.met = true;
  CHECK(sim::format_remarks(std::vector<sim::replicates>{{s}})
            .find("tpot_p99 - (no request has one) where 0.1 s are asked for, 100.00 % within") != std::string::npos);
}

TEST_CASE("what a fault costs is told of those that arrive in it", "[sim]") {
  std::vector<sim::request_record> requests(10);
  for (std::size_t i = 0; i != requests.size(); ++i) {
    requests[i].arrival = static_cast<double>(i);
    requests[i].first_answer = requests[i].arrival + (i == 4 || i == 5 ? 7 : 1);
  }
  const sim::measured_window all{};
  const std::vector<sim::fault_time> faults{{4, 6}, {8.5, std::numeric_limits<double>::infinity()}};
  const sim::distribution d = sim::describe_in_fault(faults, requests, all);
  CHECK(d.count == 3);
  CHECK(d.max == 7);
  CHECK(sim::describe_in_fault({}, requests, all).count == 0);
  CHECK(sim::describe_in_fault(faults, requests, {.from = 0, .to = 3}).count == 0);
  sim::summary s = made_up_run("a", 1).numbers;
  CHECK_FALSE(sim::to_json(s).at("faults").contains("ttft"));
  CHECK(sim::format_table(std::vector<sim::summary>{s}).find("in faults") == std::string::npos);
  s.ttft_in_fault = d;
  CHECK(sim::to_json(s).at("faults").at("ttft").at("max") == 7);
  CHECK(sim::format_table(std::vector<sim::summary>{s}).find("in faults") != std::string::npos);
}

}  // namespace
