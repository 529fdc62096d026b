// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// An engine with a gate that is asked about each waiting request.

#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"
#include "support/gate_engine.hpp"

#include <cstdint>

namespace tessera_test::start_or_skip {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook {
  std::uint32_t adapter = 0;
  std::uint32_t tenant = 0;
  std::uint32_t forks_due = 0;
  std::int64_t output = 1;
};

template <class Gate>
struct fixture : tessera_test::gate_engine<request, Gate> {
  using tessera_test::gate_engine<request, Gate>::gate_engine;
  using tessera_test::gate_engine<request, Gate>::requests;
  using tessera_test::gate_engine<request, Gate>::scheduler;

  request& submit(std::int64_t prompt, std::int64_t output, std::uint32_t adapter = 0, std::uint32_t tenant = 0) {
    request& r = requests.emplace_back();
    r.prompt = tokens{prompt};
    r.max_output = tokens{output};
    r.output = output;
    r.adapter = adapter;
    r.tenant = tenant;
    REQUIRE(scheduler.submit(r, time_point{}) == status::accepted);
    return r;
  }
};

inline constexpr scheduler_limits roomy{.blocks = 1000, .block_size = 16_tok, .residents = 16};

}  // namespace tessera_test::start_or_skip
