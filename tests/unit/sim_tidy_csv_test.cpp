// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/report/tidy_csv.hpp>

#include "support/catch.hpp"

#include <limits>
#include <vector>

namespace {

namespace sim = tessera::sim;
using json = nlohmann::ordered_json;

TEST_CASE("a field of CSV is quoted where it must be", "[sim]") {
  CHECK(sim::csv_text("plain text") == "plain text");
  CHECK(sim::csv_text("a,b") == "\"a,b\"");
  CHECK(sim::csv_text("say \"so\"") == "\"say \"\"so\"\"\"");
  CHECK(sim::csv_text("two\nlines") == "\"two\nlines\"");
  CHECK(sim::csv_value(json(0.1)) == "0.1");
  CHECK(sim::csv_value(json(3)) == "3");
  CHECK(sim::csv_value(json(true)) == "true");
  CHECK(sim::csv_value(json(nullptr)).empty());
  CHECK(sim::csv_value(json(std::numeric_limits<double>::quiet_NaN())).empty());
  CHECK(sim::csv_value(json("a,b")) == "\"a,b\"");
}

TEST_CASE("objects become rows, nested names are joined", "[sim]") {
  const std::vector<json> rows{
      json{{"policy", "a"}, {"ttft", {{"mean", 1.5}, {"p99", 2}}}, {"bins", json::array({1, 2})}, {"slo", nullptr}},
      json{{"policy", "b,c"}, {"ttft", {{"mean", 2}, {"p99", 3}}}, {"slo", {{"bounds", {{"ttft", {{"met", true}}}}}}}}};
  CHECK(sim::tidy_csv(rows) ==
        "policy,ttft_mean,ttft_p99,slo_bounds_ttft_met\n"
        "a,1.5,2,\n"
        "\"b,c\",2,3,true\n");
  CHECK(sim::tidy_csv({}) == "\n");
}

}  // namespace
