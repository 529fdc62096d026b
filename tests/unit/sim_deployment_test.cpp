// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/report/deployment.hpp>

#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/setup/cluster_setup.hpp>
#include <tessera/sim/setup/setting.hpp>

#include "support/catch.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

namespace sim = tessera::sim;

sim::simulated_cluster cluster_of(const sim::setting& asked) {
  const std::vector<sim::trace_row> rows{{.prompt_tokens = 100, .output_tokens = 100}};
  const std::vector<sim::machines> kinds = sim::machines_of(asked);
  return {.options = sim::size_cluster(asked, kinds, rows, 1),
          .size = asked.size,
          .profile = kinds.front().named,
          .pools = {}};
}

/// A run with a P99 TTFT.
sim::summary run_of(std::string policy, double ttft_s, std::string placement = "least-load") {
  sim::summary s;
  s.policy = std::move(policy);
  s.placement = std::move(placement);
  s.requests = s.completed = 100;
  s.ttft.p99 = ttft_s;
  return s;
}
sim::summary with_goodput(sim::summary s, double per_s) {
  s.slo.lines = {{.bound = sim::parse_slo("ttft_p99=1").front()}};
  s.slo.goodput_requests_per_s = per_s;
  s.slo.met = true;
  return s;
}
sim::summary reasoning(sim::summary s) {
  s.reasoning_share = 0.5;
  return s;
}

std::string said(const std::vector<sim::summary>& runs, const sim::setting& asked = {.instances = "4"}) {
  std::vector<sim::replicates> rows;
  for (const sim::summary& s : runs) rows.push_back({s});
  return sim::format_deployment(rows, cluster_of(asked));
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

TEST_CASE("the best policy that runs in vLLM is taken, by the measure of the verdict", "[sim]") {
  CHECK(said({}).empty());
  CHECK(said({run_of("fcfs", 2)}).empty());                       // nothing to choose from
  CHECK(said({run_of("fcfs", 2), run_of("pascal", 2)}).empty());  // all alike
  CHECK(said({run_of("sjf", 2), run_of("trail", 1)}).empty());    // none runs there
  CHECK(first_line(said({run_of("fcfs", 2), run_of("rr", 1)})) ==
        "To deploy: rr. It has the lowest P99 TTFT (1.000 s) of the policies here that run in vLLM.");
  CHECK(first_line(said({run_of("fcfs", 2), run_of("rr", 2), run_of("pars", 3)})) ==
        "To deploy: fcfs. It shares the lowest P99 TTFT (2.000 s) of the policies here that run in vLLM, with rr.");
  CHECK(first_line(said({run_of("fcfs", 2), run_of("sjf", 1), run_of("trail", 1.5), run_of("autellix", 3)})) ==
        "To deploy: fcfs. It has the lowest P99 TTFT (2.000 s) of the policies here that run in vLLM. "
        "Better in that: sjf (1.000 s), an oracle; trail (1.500 s), which runs in C++ only.");
  // What serves fewer requests is not better for it.
  sim::summary refuses = run_of("slack-refusing", 1);
  refuses.completed = 50;
  CHECK_FALSE(has(said({run_of("fcfs", 2), run_of("rr", 3), refuses}), "Better"));
}

TEST_CASE("with objectives, the policy that meets most of them is taken", "[sim]") {
  const auto fcfs = with_goodput(run_of("fcfs", 1), 3);
  const auto rr = with_goodput(run_of("rr", 2), 4);
  CHECK(first_line(said({fcfs, rr, with_goodput(run_of("sjf", 3), 5)})) ==
        "To deploy: rr. It has the highest goodput (4.000 per s) of the policies here that run in vLLM. "
        "Better in that: sjf (5.000 per s), an oracle.");
  // If all meet them alike, they tell none apart.
  CHECK(has(said({fcfs, with_goodput(run_of("rr", 2), 3)}), "To deploy: fcfs. It has the lowest P99 TTFT"));
  auto late = fcfs;
  auto later = rr;
  late.slo.met = later.slo.met = false;
  CHECK(has(said({late, later}), "To deploy: rr, though no policy here meets the objectives. It has"));
}

TEST_CASE("the commands have what a policy needs", "[sim]") {
  const sim::summary other = run_of("slack", 9);
  const std::string vllm = "vllm serve MODEL --scheduler-cls tessera.vllm.Scheduler --additional-config ";
  CHECK(said({run_of("fcfs", 1), other}, {.instances = "1"}) ==
        "To deploy: fcfs. It has the lowest P99 TTFT (1.000 s) of the policies here that run in vLLM.\n"
        "  The instance: " +
            vllm + "'{\"tessera\": {\"policy\": \"fcfs\"}}'\n");
  CHECK(has(said({run_of("rr", 1, "lmetric"), other}),
            "  Each instance: " + vllm +
                "'{\"tessera\": {\"policy\": \"round_robin\", \"fewest_quanta_first\": false}}'\n"
                "  In front of them: tessera.fleet.Router(controller=\"lmetric\")\n"
                "  Or both, on Ray Serve: python examples/ray/app.py --model MODEL --replicas 4 --gpus 1 "
                "--engine-options '{\"additional_config\": {\"tessera\": {\"policy\": \"round_robin\", "
                "\"fewest_quanta_first\": false}}}' --controller lmetric\n"));
  // A placement of a user's own is no router's.
  CHECK_FALSE(has(said({run_of("fcfs", 1, "own"), other}), "Router"));
  // Prompts are bounded as they were.
  CHECK(has(said({run_of("sarathi", 1), other}), "{\"policy\": \"fcfs\", \"step_s\": 0.05}"));

  SECTION("the end of reasoning, to phases") {
    const std::string pascal = said({reasoning(run_of("pascal", 1, "pascal")), other});
    CHECK(has(pascal, "{\"policy\": \"pascal\", \"end_of_reasoning\": ID}"));
    CHECK(has(pascal, "Router(controller=\"pascal\", tight=32)\n  Its stream() is told end_of_reasoning=ID.\n"));
    CHECK(has(pascal, "--gpus 1 --scheduler pascal --end-of-reasoning ID --controller pascal --moves\n"));
    CHECK(has(pascal, "  ID is the token that ends reasoning"));
    CHECK_FALSE(has(said({run_of("pascal", 1, "pascal"), other}), "ID"));
    CHECK(has(said({run_of("pascal", 1, "lmetric"), other}),
              "Router(controller=\"lmetric\", tight=32, moves=\"pascal\")"));
    CHECK(has(said({run_of("pascal-paced", 1), other}), "Router(controller=\"least-load\", tight=32)"));
  }
  SECTION("predicted lengths and parameters") {
    const std::string pars = said({run_of("pars:threshold=inf", 1), other});
    CHECK(has(pars, "To deploy: pars:threshold=inf."));
    CHECK(has(pars, "{\"policy\": \"pars\", \"threshold\": Infinity, \"model\": \"FILE\"}"));
    CHECK(has(pars, "  FILE predicts lengths"));
    // As JSON, and within what tessera.vllm takes.
    const std::string due_first = said({run_of("due-first:pace=.5:revised=1", 1), other});
    CHECK(has(due_first, "\"pace\": 0.5, "));
    CHECK(has(due_first, "  tessera.vllm has no option for revised=1.\n"));
    CHECK(has(said({run_of("due-first:pace=0", 1), other}), "  tessera.vllm has no option for pace=0.\n"));
    CHECK(has(said({run_of("vtc", 1), other}), "  Each request names its tenant"));
    CHECK_FALSE(has(said({run_of("vtc", 1), other}), "Ray"));
  }
  SECTION("a planner, to due-first") {
    sim::setting asked{.instances = "4", .size = {.max_batch = 64}, .slo = "ttft_p99=2,tpot=0.05"};
    const std::string text = said({run_of("due-first:pace=0.5:prompts=0", 1, "headroom"), other}, asked);
    CHECK(has(text, "{\"policy\": \"due_first\", \"pace\": 0.5, \"prefill_budget\": "));
    CHECK(has(text,
              "Router(controller=\"due-first\", tight=32, planner=tessera.fleet.planner.LayoutPlanner("
              "\"h100-96gb-qwen-32b\", ttft=2, tpot=0.05, max_batch=64), "
              "**tessera.sim.router_costs(\"h100-96gb-qwen-32b\", ttft=2))\n"));
    CHECK(has(text,
              "--controller due-first --moves --planner '{\"profile\": \"h100-96gb-qwen-32b\", \"ttft\": 2, \"tpot\": "
              "0.05, \"max_batch\": 64}'\n"));
    CHECK(has(text, "  With --routers 1, replay simulates this very controller.\n"));
    // Prompts that a cache has cost nothing, and go where they are cached.
    sim::summary shared = run_of("due-first", 1, "headroom");
    CHECK(has(said({shared, other}), "\"prompt_pace\": 0.0"));
    shared.prefix_hit_rate = 0.5;
    CHECK(has(said({shared, other}), ", prefixes=True, **"));
    CHECK_FALSE(has(said({shared, other}), "prompt_pace"));
    asked.routers = 1;
    CHECK_FALSE(has(said({shared, other}, asked), "With --routers"));
  }
  SECTION("roles, to pools") {
    const std::string distserve = said({run_of("distserve", 1, "shortest queue"), other});
    CHECK(has(distserve, "Router(controller=\"distserve\")\n  Its add() is told prefill_budget="));
    CHECK(has(distserve, "and role=\"prefill\" of 2, role=\"decode\" of 2.\n"));
    CHECK(has(distserve, "--scheduler fcfs --controller distserve --moves --prefill 2 --prefill-budget "));
    const std::string phasor = said({run_of("phasor", 1, "Phi"), other}, {.instances = "8"});
    CHECK(has(phasor, "role=\"prefill\" of 3, role=\"decode\" of 3, elastic=True of 2.\n"));
    CHECK_FALSE(has(phasor, "Ray"));
    CHECK(has(said({run_of("splitwise", 1, "shortest queue"), other}, {.instances = "8", .pools = "2/6/0"}),
              "--controller splitwise --moves --prefill 2 --prefill-budget "));
    sim::simulated_cluster planned = cluster_of({.instances = "8"});
    planned.pools["distserve"] = {.prefill = 1, .decode = 7, .mixed = 0};
    const std::vector<sim::replicates> rows{{run_of("distserve", 1)}, {other}};
    CHECK(has(sim::format_deployment(rows, planned), "role=\"prefill\" of 1, role=\"decode\" of 7.\n"));
  }
  SECTION("llumnix moves by itself; blocks have their size everywhere") {
    const std::string text =
        said({run_of("llumnix", 1, "freeness"), other}, {.instances = "4", .size = {.block_size = 32}});
    CHECK(has(text, "vllm serve MODEL --block-size 32 --scheduler-cls"));
    CHECK(has(text, "Router(controller=\"llumnix\", block_size=32)\n"));
    CHECK(has(text, "--controller llumnix --moves --block-size 32\n"));
  }
  SECTION("of unlike instances, numbers are of the first kind") {
    const sim::setting unlike{.instances = "2xh100-96gb-qwen-32b,2xh100-96gb-qwen-32b"};
    CHECK(has(said({run_of("due-first", 1), other}, unlike), "are those of the first kind of instance.\n"));
    CHECK_FALSE(has(said({run_of("fcfs", 1), other}, unlike), "first kind"));
  }
}

}  // namespace
