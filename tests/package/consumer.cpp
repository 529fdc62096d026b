// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// One request through a scheduler, as a project that uses the library would.
#include <tessera/compose/pascal.hpp>

#include <cstdio>

using namespace tessera::literals;

struct request : tessera::pascal_request {};

int main() {
  auto storage = tessera::storage_for<tessera::pascal<request>>({.requests = 8, .blocks = 16, .residents = 4});
  tessera::pascal<request> scheduler{storage};

  request r;
  r.prompt = 20_tok;
  r.max_output = 10_tok;
  bool ok = scheduler.submit(r, {}) == tessera::status::accepted;
  const auto plan = scheduler.plan({}, {.max_batch = 4, .token_budget = 64_tok});
  ok = ok && plan.size() == 1 && plan[0].request == &r && plan[0].count == 20_tok;
  const tessera::outcome done{.finished = true};
  scheduler.commit(plan, {&done, 1}, {});
  ok = ok && scheduler.idle();

  std::printf("tessera %d.%d.%d: %s\n", TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR, TESSERA_VERSION_PATCH,
              ok ? "ok" : "wrong");
  return ok ? 0 : 1;
}
