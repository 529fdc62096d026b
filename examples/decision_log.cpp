// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A bug report that is a file. A scheduler writes down what it was told and what it decided. The file is read back, and
// the same calls are made again. With another parameter, the first decision that differs is found.
#include <tessera/compose/pascal.hpp>
#include <tessera/pipeline/decision_log.hpp>
#include <tessera/pipeline/replay_decisions.hpp>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

using namespace tessera::literals;

struct my_request : tessera::pascal_request {
  tessera::tokens output{};  // known to this engine alone: nothing that the scheduler looks at
};
using scheduler_type = tessera::pascal<my_request>;

void serve(tessera::decision_log& log, const scheduler_type::config& config) {
  std::array<my_request, 6> requests;
  auto storage = tessera::storage_for<scheduler_type>({.blocks = 16, .residents = 4, .host_blocks = 16});
  tessera::logged<scheduler_type> scheduler{log, storage, config};  // used as the scheduler itself

  double now = 0;
  for (my_request& r : requests) {
    r.prompt = 24_tok, r.max_output = 64_tok;
    r.output = 16_tok + r.prompt * (&r - requests.data()) / 4;
    if (!ok(scheduler.submit(r, tessera::time_point::at_seconds(now)))) return;
  }
  std::vector<tessera::outcome> outcomes;
  while (!scheduler.idle()) {
    now += 0.05;
    const auto plan = scheduler.plan(tessera::time_point::at_seconds(now), {.token_budget = 64_tok});
    outcomes.assign(plan.size(), {});
    for (std::size_t i = 0; i != plan.size(); ++i) {
      const my_request& r = *plan[i].request;
      outcomes[i].finished = plan[i].samples && r.generated() + 1_tok == r.output;
    }
    scheduler.commit(plan, outcomes, tessera::time_point::at_seconds(now));
  }
}

void replay(std::span<const std::byte> log, const scheduler_type::config& config) {
  const auto result = tessera::replay_decisions<scheduler_type>(log, config);
  if (result.outcome == tessera::replay_outcome::same) {
    std::printf("%zu calls, the same decisions\n", result.calls);
  } else {
    std::printf("%s at call %zu, a %s\n", to_string(result.outcome), result.calls, to_string(result.call));
  }
}

int main() {
  const scheduler_type::config config{.quantum = 8_tok};
  std::vector<std::byte> buffer(std::size_t{1} << 16);  // yours; a mapped file survives a crash
  tessera::decision_log log{buffer};
  serve(log, config);
  std::printf("%s\n", log.full() ? "the log is full" : "all is in the log");

  const auto path = std::filesystem::temp_directory_path() / "tessera_example_decision.log";
  std::ofstream{path, std::ios::binary}.write(reinterpret_cast<const char*>(log.written().data()),
                                              static_cast<std::streamsize>(log.written().size()));
  std::vector<char> file;
  {
    std::ifstream in{path, std::ios::binary};
    file.assign(std::istreambuf_iterator<char>{in}, {});
  }
  std::filesystem::remove(path);

  replay(std::as_bytes(std::span{file}), config);
  replay(std::as_bytes(std::span{file}), {.quantum = 9_tok});
  replay(std::as_bytes(std::span{file}).first(file.size() / 2), config);
}

/* output:
all is in the log
126 calls, the same decisions
differs at call 22, a plan
truncated at call 62, a plan
*/
