// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What unchecked builds do with parameters of gates that checked ones assert: the nearest that is possible.

#undef TESSERA_CHECKED
#define TESSERA_CHECKED 0

#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/encoder_cache.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/gate/tenant_deficits.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/catch.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook {
  std::uint32_t tenant = 0;
  std::uint32_t adapter = 0;
  mutable gate::encoder_input image{};
  [[nodiscard]] std::span<gate::encoder_input> encoder_inputs() const noexcept { return {&image, 1}; }
};

/// All of some requests are served.
template <class Gate>
void serves(const Gate& gate) {
  using scheduler_type =
      iteration_scheduler<request, order::fcfs, preempt::swap, admit::always, kv::block_pool, kv::csr_tables, Gate>;
  auto storage = storage_for<scheduler_type>({.blocks = 100, .residents = 4});
  scheduler_type s{storage, {.gate = gate}};
  std::deque<request> r(12);
  for (std::uint32_t i = 0; i != 12; ++i) {
    r[i].prompt = 4_tok;
    r[i].max_output = 2_tok;
    r[i].tenant = i % 4;
    r[i].adapter = i % 3;
    r[i].image = {i, 4_tok};
    static_cast<void>(s.submit(r[i], time_point{}));
  }
  for (int i = 0; i != 60; ++i) {
    const auto p = s.plan(time_point{}, {});
    std::vector<outcome> outcomes(p.size());
    for (std::size_t k = 0; k != p.size(); ++k) outcomes[k].finished = p[k].request->generated() == 1_tok;
    REQUIRE(s.commit(p, outcomes, time_point{}) == status::ok);
  }
  CHECK(s.idle());
  for (request& one : r) s.cancel(one);
}

}  // namespace

TEST_CASE("gates, unchecked: weights and costs out of range") {
  for (const std::int64_t weight : {std::int64_t{0}, std::int64_t{-5}, std::numeric_limits<std::int64_t>::max()}) {
    gate::fair_tenants fair{};
    fair.weights[3] = weight;
    serves(fair);
    gate::tenant_deficits deficits{};
    deficits.weights[3] = weight;
    serves(deficits);
  }
  serves(gate::fair_tenants{.prompt_cost = -1, .output_cost = std::numeric_limits<std::int64_t>::max()});
  for (const std::int64_t quantum : {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
    serves(gate::tenant_deficits{.quantum = quantum, .prompt_cost = quantum, .output_cost = -1});
  }
}

TEST_CASE("gates, unchecked: a priority that changes outside update leaves no trace of its request") {
  using scheduler_type = iteration_scheduler<request, order::fcfs, preempt::swap, admit::always, kv::block_pool,
                                             kv::csr_tables, gate::fair_tenants>;
  auto storage = storage_for<scheduler_type>({.blocks = 100, .residents = 4});
  scheduler_type s{storage};
  std::deque<request> r(6);
  for (std::uint32_t i = 0; i != 6; ++i) {
    r[i].prompt = 4_tok;
    r[i].tenant = i;
    REQUIRE(s.submit(r[i], time_point{}) == status::accepted);
  }
  r[1].priority = -1;
  r[4].priority = 1;
  CHECK(s.cancel(r[1]) == status::ok);
  CHECK(s.cancel(r[4]) == status::ok);
  CHECK(s.waiting().classes() == 4);
  std::size_t n = 0;
  s.waiting().for_each([&](const request& one) noexcept { n += &one != &r[1] && &one != &r[4]; });
  CHECK(n == 4);
  for (request& one : r) s.cancel(one);
}

TEST_CASE("gates, unchecked: no slots, too many, and no encoder") {
  serves(gate::adapter_slots{.slots = 0});
  serves(gate::adapter_slots{.slots = 1000});
  serves(gate::all<gate::adapter_slots, gate::fair_tenants>{.gates = {{.slots = 0}, {}}});
  serves(gate::encoder_cache{.per_step = 0_tok});
}
