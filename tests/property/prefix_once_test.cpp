// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Requests come at random, with prompts that are paths of one tree. Nothing is evicted, so each token of the tree is
// computed once, however many requests begin with it. That holds whatever the steps can take and with several plans in
// flight.

#include <tessera/compose/fcfs.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/kv/row_tables.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

constexpr std::int64_t block = 16;

struct hashed_request : request_hook {
  std::vector<std::uint64_t> hashes;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};
using scheduler_type = fcfs<hashed_request, kv::prefix_cache, kv::row_tables>;

[[nodiscard]] std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = (a ^ (b + 0x9e37'79b9'7f4a'7c15ULL)) * 0xbf58'476d'1ce4'e5b9ULL;
  x ^= x >> 29U;
  return x * 0x94d0'49bb'1331'11ebULL + 1;
}

void run(std::uint64_t seed, std::size_t in_flight) {
  CAPTURE(seed, in_flight);
  std::mt19937_64 random{seed * 4 + in_flight};
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::deque<hashed_request> all(40);
  std::size_t come = 0;
  auto storage =
      storage_for<scheduler_type>({.blocks = 4000, .residents = 1 + below(40), .plans_in_flight = in_flight});
  scheduler_type scheduler{storage, {.watermark = 0}};
  std::map<std::pair<std::uint64_t, std::int64_t>, int> computed;  // by block and token of it
  std::deque<scheduler_type::plan_type> plans;
  std::size_t steps = 0;
  for (std::size_t idle = 0; come != all.size() || !scheduler.idle(); ++steps) {
    REQUIRE(steps != 20'000);
    for (std::uint64_t n = below(4) == 0 ? below(12) : 0; n != 0 && come != all.size(); --n) {
      hashed_request& r = all[come++];
      // A path: at each branch one of two ways, in pieces of some blocks.
      std::uint64_t chain = 1;
      const std::uint64_t pieces = 1 + below(6);
      for (std::uint64_t piece = 0; piece != pieces; ++piece) {
        chain = mix(chain, 2 + below(2));
        for (std::uint64_t i = 0; i != 3 + piece; ++i) r.hashes.push_back(chain = mix(chain, 1));
      }
      r.prompt = tokens{static_cast<std::int64_t>(r.hashes.size()) * block + static_cast<std::int64_t>(below(block))};
      r.max_output = tokens{static_cast<std::int64_t>(1 + below(30))};
      REQUIRE(scheduler.submit(r, {}) == status::accepted);
    }
    const step_limits l{.max_batch = 1 + below(48),
                        .token_budget = tokens{static_cast<std::int64_t>(1 + below(below(2) == 0 ? 64 : 2048))},
                        .max_chunk = tokens{static_cast<std::int64_t>(below(3) == 0 ? 1 + below(100) : 0)}};
    if (below(8) == 0 && scheduler.plans_in_flight() < in_flight) {
      REQUIRE(scheduler.abandon(scheduler.plan({}, l)) == status::ok);
    }
    plans.push_back(scheduler.plan({}, l));
    const auto& p = plans.back();
    for (std::size_t i = 0; i != p.size(); ++i) {
      const hashed_request& r = *p[i].request;
      for (std::int64_t t = p[i].first.count(); t != (p[i].first + p[i].count).count(); ++t) {
        const auto b = static_cast<std::size_t>(t / block);
        // The last token of a prompt is always computed, and so is its block if that is full.
        if (b >= r.hashes.size() || (static_cast<std::int64_t>(b) + 1) * block >= r.prompt.count()) continue;
        const int times = ++computed[{r.hashes[b], t % block}];
        CAPTURE(r.hashes[b], t, steps);
        REQUIRE(times == 1);
      }
    }
    idle = p.empty() && plans.size() == 1 && come == all.size() ? idle + 1 : 0;
    REQUIRE(idle < 3);  // some request always gets on
    if (plans.size() < in_flight && below(3) != 0) continue;
    std::vector<outcome> outcomes(plans.front().size());
    for (std::size_t i = 0; i != outcomes.size(); ++i) {
      const auto& e = plans.front()[i];
      outcomes[i].finished = e.samples && e.request->generated() + 1_tok >= e.request->max_output;
    }
    REQUIRE(scheduler.commit(plans.front(), outcomes, {}) == status::ok);
    plans.pop_front();
  }
}

}  // namespace

TEST_CASE("each token of prompts that begin alike is computed once where nothing is evicted", "[pipeline]") {
  for (const std::size_t in_flight : {1, 2, 3}) {
    for (std::uint64_t seed = 0; seed != 60; ++seed) run(seed, in_flight);
  }
}
