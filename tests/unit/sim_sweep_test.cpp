// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/report/plots.hpp>
#include <tessera/sim/report/sweep.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace sim = tessera::sim;
using values = std::vector<double>;

constexpr std::array<std::string_view, 2> names{"rate", "instances"};

std::string refusal(std::string_view text) {
  try {
    static_cast<void>(sim::parse_sweep(text, names));
  } catch (const sim::usage_error& e) {
    return e.what();
  }
  return {};
}

TEST_CASE("a sweep is a range with a step, or a list", "[sim]") {
  CHECK(sim::parse_sweep("rate=0.5:2:0.25", names).values == values{0.5, 0.75, 1, 1.25, 1.5, 1.75, 2});
  CHECK(sim::parse_sweep("rate=0.1:0.5:0.1", names).values == values{0.1, 0.2, 0.3, 0.4, 0.5});
  CHECK(sim::parse_sweep("rate=1:2:0.4", names).values == values{1, 1.4, 1.8});
  CHECK(sim::parse_sweep("instances=1:4", names).values == values{1, 2, 3, 4});
  CHECK(sim::parse_sweep("instances=3:3", names).values == values{3});
  CHECK(sim::parse_sweep("instances=1,2,8", names).values == values{1, 2, 8});
  CHECK(sim::parse_sweep("instances=7", names).parameter == "instances");
  CHECK(sim::parse_sweep("rate=1:1000:1", names).values.size() == 1000);
}

TEST_CASE("what is no sweep is refused with an example", "[sim]") {
  for (const char* text : {"", "rate", "rate=", "speed=1:2", "rate=0:2", "rate=2:1", "rate=1:2:0", "rate=1:2:-1",
                           "rate=a:2", "rate=1:2:3:4", "rate=1,1", "rate=2,1", "rate=1,,2", "rate=nan", "rate=inf",
                           "rate=1:1e9:0.001", "rate=1:1001:1", "rate=1:1e400"}) {
    INFO(text);
    CHECK(refusal(text).find("rate-scale=0.5:2:0.25; names are rate, instances; '") != std::string::npos);
  }
}

sim::summary numbers(double goodput, bool met, sim::load_state state = sim::load_state::carried) {
  sim::summary s;
  s.ttft.p99 = 10 / goodput;
  s.slo.lines = {{.bound = {.metric = sim::slo_metric::ttft, .part = 0.99, .seconds = 3}}};
  s.slo.goodput_requests_per_s = goodput;
  s.slo.met = met;
  s.load.state = state;
  return s;
}

TEST_CASE("the table of a sweep marks the best and what is not carried, and breaks where it is too wide", "[sim]") {
  const sim::sweep what{"rate", {1, 2, 4}};
  const std::vector<sim::sweep_curve> curves{
      {"a", {{numbers(1, true)}, {numbers(2, true)}, {numbers(1.5, false, sim::load_state::overload)}}},
      {"long-name", {{}, {numbers(1, false)}, {numbers(3, false, sim::load_state::overload)}}}};
  CHECK(sim::format_sweep(what, curves) ==
        "Goodput, requests per second within the objectives, by rate (* best, ! the queue grows)\n"
        "rate            1        2        4\n"
        "a           1.000    2.000*   1.500!\n"
        "long-name       -    1.000    3.000!\n");
  CHECK(sim::format_sweep(what, curves, 30) ==
        "Goodput, requests per second within the objectives, by rate (* best, ! the queue grows)\n"
        "rate            1        2\n"
        "a           1.000    2.000*\n"
        "long-name       -    1.000\n"
        "\n"
        "rate            4\n"
        "a           1.500!\n"
        "long-name   3.000!\n");
  // Without objectives it is the tail of TTFT, and the least of it is the best.
  sim::summary fast = numbers(4, false);
  sim::summary slow = numbers(2, false);
  fast.slo = slow.slo = {};
  const std::string tail =
      sim::format_sweep({"rate", {1}}, std::vector<sim::sweep_curve>{{"a", {{fast}}}, {"b", {{slow}}}});
  CHECK(tail.find("P99 of the time to the first answering token") == 0);
  CHECK(tail.find("a        2.500*\nb        5.000\n") != tail.npos);
}

TEST_CASE("a sentence says how far each policy meets the objectives", "[sim]") {
  const auto good = [] { return sim::replicates{numbers(1, true)}; };
  const auto bad = [] { return sim::replicates{numbers(1, false)}; };
  const std::vector<sim::sweep_curve> loads{
      {"all", {good(), good(), good()}}, {"two", {good(), good(), bad()}},
      {"odd", {good(), bad(), good()}},  {"also-two", {good(), good(), {numbers(1, true, sim::load_state::overload)}}},
      {"late", {bad(), good(), good()}}, {"none", {bad(), bad(), bad()}}};
  CHECK(
      sim::describe_sweep({"rate", {1, 2, 4}}, loads) ==
      "all meets the objectives at all of these, to rate 4; two and also-two meet the objectives up to rate 2; odd "
      "meets the objectives at rate 1 and 4 alone; late meets the objectives at rate 2 and 4 alone; none does not meet "
      "the objectives even at rate 1.\n");
  // More is not always easier.
  const std::vector<sim::sweep_curve> herd{{"a", {good(), good(), bad()}}};
  CHECK(sim::describe_sweep({"instances", {1, 2, 4}}, herd) == "a meets the objectives at instances 1 and 2 alone.\n");
  // One run of three in a busy time is no overload.
  const sim::replicates busy{numbers(1, true), numbers(2, true), numbers(3, true, sim::load_state::overload)};
  const std::vector<sim::sweep_curve> seeds{{"a", {busy}}};
  CHECK(seeds[0].meets(0));
  CHECK(sim::describe_sweep({"rate", {1}}, seeds) == "a meets the objectives at all of these, to rate 1.\n");
  CHECK(sim::format_sweep({"rate", {1}}, seeds).find(" 2.000\u00b12.484\n") != std::string::npos);
  const std::vector<sim::sweep_curve> sizes{
      {"a", {{}, bad(), good()}}, {"b", {good(), good(), good()}}, {"c", {{}, {}, bad()}}};
  CHECK(sim::describe_sweep({"instances", {1, 2, 4}}, sizes) ==
        "b meets the objectives at all of these, to instances 1; a meets the objectives from instances 4 on; c does "
        "not meet the objectives even at instances 4.\n");
}

TEST_CASE("a picture of a sweep has numbers on every axis, and a line for each objective", "[sim]") {
  sim::summary a = numbers(1, true);
  a.ttft.p99 = 1.3;
  a.tpot.p99 = 0.02;
  a.slo.attainment = 0.98;
  sim::summary b = a;
  b.ttft.p99 = 9;
  b.tpot.p99 = 0.07;
  const std::string script = sim::sweep_script({"rate", {1, 2}}, std::vector<sim::sweep_curve>{{"a", {{a}, {b}}}}, "t");
  CHECK(script.find("set ytics (2, 5)") == script.npos);  // two numbers are too few
  CHECK(script.find("set yrange [1.18182:9.9]\nset ytics (2, 4, 6, 8)\n") != script.npos);
  CHECK(script.find("set ytics (0.02, 0.05)") == script.npos);
  CHECK(script.find("set ytics (0.02, 0.03, 0.04, 0.05, 0.06, 0.07)\n") != script.npos);
  CHECK(script.find("'ttft_p99 = 3 s'") != script.npos);
  CHECK(script.find("set xtics") == script.npos);
  CHECK(sim::sweep_script({"instances", {1, 4}}, std::vector<sim::sweep_curve>{{"a", {{a}, {b}}}}, "t")
            .find("set xtics 1\n") != script.npos);                 // there is no half an instance
  CHECK(script.find("unset label") != script.npos);                 // no line of TTFT's in TPOT's panel
  CHECK(script.find("set yrange [97.51:98.49]\n") != script.npos);  // four lines at 98 % are not one at the top
}

TEST_CASE("a logarithmic axis has three numbers at least, and not too many", "[sim]") {
  for (const double least : {0.0012, 0.018, 1.24, 7.0}) {
    for (const double times : {1.05, 1.7, 3.0, 9.0, 50.0, 1e4, 1e7}) {
      CAPTURE(least, times);
      const std::string axis = sim::detail::log_axis('x', least, least * times);
      const std::size_t from = axis.find("tics (");
      REQUIRE(from != axis.npos);
      const auto commas = std::count(axis.begin() + static_cast<std::ptrdiff_t>(from), axis.end(), ',');
      CHECK(commas >= 1);
      CHECK(commas <= 9);
    }
  }
}

}  // namespace
