// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/compose/fcfs.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/cluster/cluster_size.hpp>
#include <tessera/sim/cluster/placed.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/report/alone.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace {

namespace sim = tessera::sim;
using tessera_test::approx;

sim::idle_instance idle(const sim::profile& p, std::int64_t budget = 8192) {
  return {.timer = sim::step_timer{p}, .token_budget = budget, .host_request_seconds = p.terms.host_request_seconds};
}

TEST_CASE("what a request takes alone is what the simulator gives it on an idle instance", "[sim]") {
  for (const char* name : {"h100-96gb-qwen-32b", "h100-80gb-llama-3.1-8b", "h100-80gb-x4-llama-3.3-70b"}) {
    sim::profile p = sim::find_profile(name);
    p.terms.host_request_seconds = 0.011;
    for (const auto& [prompt, reasoning, answer] :
         {std::tuple{1, 0, 1}, std::tuple{300, 0, 50}, std::tuple{20'000, 0, 9}, std::tuple{500, 1200, 400},
          std::tuple{9'000, 3, 2000}, std::tuple{700, 900, 0}}) {
      CAPTURE(name, prompt, reasoning, answer);
      const sim::trace_row row{.arrival_s = 0,
                               .prompt_tokens = prompt,
                               .output_tokens = reasoning + answer,
                               .reasoning_tokens = reasoning,
                               .answer_tokens = answer};
      const sim::machines kind{1, p};
      const sim::cluster_options options = sim::size_cluster({&kind, 1}, {}, {&row, 1}, sim::spelling::options);
      const auto run =
          sim::cluster_of<tessera::fcfs<sim::request>, sim::placed<>>{options}.run({&row, 1}, [](std::size_t) {});
      const sim::request_record& real = run.requests.front();
      const sim::request_record told = sim::alone(row, idle(p, options.instance.step.token_budget.count()));
      CHECK(told.first_token_s() == approx(real.first_token_s()).epsilon(1e-3));
      CHECK(told.e2e() == approx(real.e2e()).epsilon(1e-3));
      if (answer > 0) {
        CHECK(told.ttft() == approx(real.ttft()).epsilon(1e-3));
      } else {
        CHECK(std::isnan(told.ttft()));
      }
      if (answer > 1) CHECK(told.tpot() == approx(real.tpot()).epsilon(2e-3));
    }
  }
}

TEST_CASE("objectives that an idle instance misses are named, with what reasoning has to do with it", "[sim]") {
  const sim::idle_instance on = idle(sim::find_profile("h100-80gb-x4-llama-3.3-70b"));
  std::vector<sim::trace_row> rows(100, {.prompt_tokens = 500, .output_tokens = 100, .answer_tokens = 100});
  for (std::size_t i = 0; i != 15; ++i)
    rows[i] = {.prompt_tokens = 500, .output_tokens = 1500, .reasoning_tokens = 1400, .answer_tokens = 100};
  const auto said = [&](const char* slo) { return sim::describe_idle_misses(sim::parse_slo(slo), rows, on); };
  const std::string reasoning = said("ttft_p99=1.5,tpot_p99=0.06");
  CHECK(reasoning.find("An idle instance already misses ttft_p99: it takes 2") == 0);
  CHECK(reasoning.find("1.5 s are asked for, so no rate or size helps. 15 % of the requests reason") != reasoning.npos);
  CHECK(reasoning.find("first_token_p99, to the first token of any kind, is 0.0") != reasoning.npos);
  CHECK(said("ttft_p80=1.5").empty());  // more than 80 of 100 do not reason
  CHECK(said("first_token_p99=1.5").empty());
  CHECK(said("tpot_p99=0.001").find("reason") == std::string::npos);
  CHECK(said("tpot_p99=0.001").find("An idle instance already misses tpot_p99") == 0);
  CHECK(sim::describe_idle_misses({}, rows, on).empty());
  CHECK(sim::describe_idle_misses(sim::parse_slo("ttft=1"), {}, on).empty());
  // Prompts that a cache may have are taken to be there: what is said is true of any policy.
  std::vector<sim::trace_row> turns(2, {.prompt_tokens = 60'000, .output_tokens = 2, .answer_tokens = 2, .session = 1});
  CHECK(sim::describe_idle_misses(sim::parse_slo("ttft_p50=0.1"), turns, on).empty());
  CHECK_FALSE(sim::describe_idle_misses(sim::parse_slo("ttft=0.1"), turns, on).empty());
}

}  // namespace
