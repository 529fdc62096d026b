// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The metrics of examples/llama_cpp, without llama.cpp.
#include "../../examples/llama_cpp/metrics.hpp"

#include <tessera/compose/fcfs.hpp>

#include "support/catch.hpp"

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

/// Prometheus' text, read by its rules: descriptions before the samples of a metric, once each; one value a line.
std::map<std::string, std::uint64_t> parse(const std::string& text) {
  std::map<std::string, std::uint64_t> samples;
  std::set<std::string> typed;
  std::string current, type;
  REQUIRE(text.back() == '\n');
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    std::istringstream words{line};
    std::string hash, keyword, name;
    if (line.front() == '#') {
      words >> hash >> keyword >> name;
      if (keyword == "TYPE") {
        words >> type;
        CHECK(name == current);
        CHECK((type == "counter" || type == "gauge"));
        CHECK((type == "counter") == name.ends_with("_total"));
      } else {
        CHECK(keyword == "HELP");
        CHECK(typed.insert(name).second);
        current = name;
      }
      continue;
    }
    const std::size_t brace = line.find('{');
    const std::size_t end = line.find("} ");
    REQUIRE((brace != line.npos && end != line.npos));
    CHECK(line.substr(0, brace) == current);
    const std::string value = line.substr(end + 2);
    CHECK(value.find_first_not_of("0123456789") == value.npos);
    CHECK(samples.emplace(line.substr(0, end + 1), std::stoull(value)).second);
  }
  return samples;
}

struct my_request : request_hook {};

TEST_CASE("prometheus text: what a scheduler has done is what the text says, for each instance") {
  using scheduler_type = fcfs<my_request>;
  auto storage = storage_for<scheduler_type>({.requests = 8, .blocks = 6, .residents = 2});
  std::vector<my_request> requests(5);
  scheduler_type scheduler{storage};
  for (my_request& r : requests) {
    r.prompt = 20_tok;
    CHECK(ok(scheduler.submit(r, {})));
  }
  my_request too_long;
  too_long.prompt = 1000_tok, too_long.max_output = 1_tok;
  CHECK(!ok(scheduler.submit(too_long, {})));
  const auto plan = scheduler.plan({}, {});
  REQUIRE(plan.size() == 2);
  std::vector<outcome> outcomes(2);
  outcomes[0].finished = true;
  scheduler.commit(plan, outcomes, {});
  CHECK(ok(scheduler.cancel(requests[4])));

  const std::vector<llama_cpp::scheduler_snapshot> two{llama_cpp::take_snapshot(scheduler), {}};
  const auto samples = parse(llama_cpp::prometheus_text(two));
  const auto at = [&](const std::string& name, const std::string& labels) {
    CAPTURE(name, labels);
    const auto found = samples.find(name + "{instance_id=\"0\"" + labels + "}");
    REQUIRE(found != samples.end());
    return found->second;
  };
  CHECK(at("tessera_requests_joined_total", "") == 5);
  CHECK(at("tessera_requests_refused_total", "") == 1);
  CHECK(at("tessera_requests_ended_total", ",how=\"finished\"") == 1);
  CHECK(at("tessera_requests_ended_total", ",how=\"cancelled\"") == 1);
  CHECK(at("tessera_plans_total", "") == 1);
  CHECK(at("tessera_starts_total", "") == 2);
  CHECK(at("tessera_requests_waiting", "") == 2);
  CHECK(at("tessera_requests_resident", "") == 1);
  CHECK(at("tessera_kv_blocks", "") == 6);
  CHECK(at("tessera_kv_blocks_free", "") == 4);
  const std::string reason = to_string(scheduler.why(requests[2]));
  CHECK(at("tessera_held_up_total", ",reason=\"" + reason + "\"") == 1);
  CHECK(samples.at("tessera_plans_total{instance_id=\"1\"}") == 0);

  CHECK(scheduler.cancel(requests[1]) == status::accepted);
  CHECK(scheduler.cancel(requests[2]) == status::accepted);
  CHECK(scheduler.cancel(requests[3]) == status::accepted);
}

TEST_CASE("prometheus text: of no instance there are descriptions alone") {
  CHECK(parse(llama_cpp::prometheus_text({})).empty());
}

}  // namespace
