// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/model/cost_file.hpp>
#include <tessera/sim/model/cost_profile.hpp>
#include <tessera/sim/model/profiles.hpp>

#include "support/catch.hpp"

#include <string>
#include <vector>

namespace {

using namespace tessera;

// CascadeInfer, section 6.5: 8.9 % mean relative error, 64 % for a constant.
TEST_CASE("the cost model predicts simulated batches that it has not seen") {
  for (const sim::profile& p : sim::profiles()) {
    // What a mixture of experts reads of its weights grows less and less with the batch: no term of the model does.
    const double most = p.model.experts > 0 ? 0.2 : 0.089;
    const auto rows = sim::profile_costs(p);
    INFO(p.name << ", " << rows.size() << " rows");
    REQUIRE(rows.size() > 100);
    cost::fit_result r;
    REQUIRE(cost::fit(rows, {}, r) == status::ok);
    CHECK(r.held_out_rows > 20);
    CHECK(r.held_out_error <= most);
    if (p.model.experts == 0) CHECK(r.held_out_error < r.constant_error / 5);
    // Not by the luck of one split or one draw.
    const auto others = sim::profile_costs(p, {.seed = 99});
    double error = 0;
    for (const auto& row : others) error += std::fabs(r.model.per_request(row.load) - row.latency) / row.latency;
    CHECK(error / static_cast<double>(others.size()) <= most);
  }
}

TEST_CASE("a cost file comes back as it was") {
  const sim::cost_file c{.qoe = {{0.1, 1e-300, 0, 1.0 / 3, 7e11}}, .transfer = {5e-7, 0}};
  CHECK(sim::parse_cost(sim::to_json(c), "x") == c);
}

TEST_CASE("what is wrong with a cost file is said with its place") {
  const auto refused = [](const std::string& text, const std::string& expected) {
    INFO(text);
    try {
      static_cast<void>(sim::parse_cost(text, "cost.json"));
      FAIL("accepted");
    } catch (const sim::input_error& e) {
      CHECK(std::string{e.what()} == expected);
    }
  };
  const std::string qoe = R"("qoe": {"d0": 1, "d1": 1, "d2": 1, "d3": 1, "d4": 1})";
  const std::string transfer = R"("transfer": {"per_sequence": 0, "per_token": 0})";
  CHECK_NOTHROW(sim::parse_cost("{" + qoe + "," + transfer + "}", "x"));
  refused("", "cost.json:1:1: expected a JSON object, found an empty file");
  refused("[]", "cost.json:1:1: expected a cost model, an object, found '[]'");
  refused("{", "cost.json:1:2: expected valid JSON, found the end of the file: is it truncated?");
  refused("{" + qoe + "}",
          "cost.json:1:1: expected a cost model with the key transfer (an object), found an object without it");
  refused("{\n\"D\": 1}", "cost.json:2:1: expected only the keys qoe, transfer in a cost model, found 'D'");
  refused("{\n" + qoe + ",\n\"transfer\": 3}", "cost.json:3:13: expected transfer, an object, found '3'");
  refused("{" + transfer + ",\n\"qoe\": {\"d0\": -1, \"d1\": 1, \"d2\": 1, \"d3\": 1, \"d4\": 1}}",
          "cost.json:2:15: expected qoe.d0, a number of at least 0, at most 1e+12, found '-1'");
  refused("{" + transfer + ",\n\"qoe\": {\"d0\": 1}}",
          "cost.json:2:8: expected the key qoe.d1 (a number of at least 0, at most 1e+12), found an object without it");
}

}  // namespace
