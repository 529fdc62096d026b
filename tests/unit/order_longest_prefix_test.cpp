// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/gate/tenant_deficits.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/longest_prefix.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <random>
#include <set>
#include <span>
#include <tuple>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook {
  tokens cached{};
  std::uint32_t tenant = 0;
  std::size_t id = 0;
  std::vector<std::uint64_t> hashes;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};

constexpr std::int64_t block_size = 4;

/// A prompt of `length` tokens, of which the first ones are those of its family.
void write(request& r, std::size_t id, std::int64_t length, std::int64_t common, std::uint64_t family) {
  r.id = id;
  r.prompt = tokens{length};
  r.max_output = 1_tok;
  std::vector<std::int32_t> text;
  for (std::int64_t i = 0; i != length; ++i) {
    text.push_back(static_cast<std::int32_t>((i < common ? family : 1000 + id) * 4096 + static_cast<std::uint64_t>(i)));
  }
  r.hashes.resize(text.size() / static_cast<std::size_t>(block_size));
  kv::hash_chain(text, static_cast<std::size_t>(block_size), r.hashes);
}

/// What a set of blocks has of a prompt, block by block, less than all of it.
tokens found_in(const std::set<std::uint64_t>& known, const request& r) {
  std::int64_t n = 0;
  for (const std::uint64_t h : r.hashes) {
    if (known.count(h) == 0 || (n + 1) * block_size >= r.prompt.count()) break;
    ++n;
  }
  return tokens{n * block_size};
}

template <class Gate>
using scheduler_of = iteration_scheduler<request, order::longest_prefix<>, preempt::swap, admit::always,
                                         kv::prefix_cache, kv::csr_tables, Gate>;

/// Runs the plan: all requests in it end.
template <class Scheduler>
std::vector<request*> step(Scheduler& s) {
  const auto plan = s.plan(time_point{}, {});
  std::vector<request*> who;
  std::vector<outcome> outcomes;
  for (std::size_t i = 0; i != plan.size(); ++i) {
    who.push_back(plan[i].request);
    outcomes.push_back({.finished = plan[i].samples});
  }
  REQUIRE(s.commit(plan, outcomes, time_point{}) == status::ok);
  return who;
}

}  // namespace

TEST_CASE("longest_prefix: the one with most of its prompt cached is next, as a sort by all that is known", "[order]") {
  std::mt19937 random{5};
  const auto upto = [&](std::int64_t n) { return static_cast<std::int64_t>(random()) % (n + 1); };
  std::size_t moved = 0;
  std::size_t forgotten = 0;
  for (int round = 0; round != 60; ++round) {
    using scheduler_type = scheduler_of<gate::in_line>;
    // Some caches forget.
    const std::size_t blocks = round % 2 == 0 ? 400 : 24;
    auto storage = storage_for<scheduler_type>({.blocks = blocks, .block_size = tokens{block_size}, .residents = 1});
    scheduler_type s{storage};
    std::deque<request> requests;
    while (requests.size() != 40 || !s.idle()) {
      while (requests.size() != 40 && random() % 2 == 0) {
        request& r = requests.emplace_back();
        const std::int64_t length = 1 + upto(60);
        const std::int64_t common = upto(length);
        const auto family = static_cast<std::uint64_t>(upto(3));
        write(r, requests.size() - 1, length, common, family);
        r.priority = random() % 8 == 0 ? 1 : 0;
        r.cached = order::cached_prefix(s.store(), r, tokens{block_size});
        REQUIRE(s.submit(r, time_point{}) == status::accepted);
      }
      std::set<std::uint64_t> known;
      for (const request& r : requests) {
        std::copy_if(r.hashes.begin(), r.hashes.end(), std::inserter(known, known.end()),
                     [&](std::uint64_t hash) { return s.store().knows(hash); });
      }
      std::vector<std::tuple<int, std::int64_t, std::size_t>> expected;
      for (request& r : requests) {
        const tokens before = r.cached;
        const tessera_test::no_allocation guard;
        const bool changed = order::look_again(s, r);
        const std::size_t allocated = guard.allocations();
        REQUIRE(allocated == 0);
        if (r.state().life != lifecycle::waiting) {
          REQUIRE(!changed);
          continue;
        }
        REQUIRE(r.cached == found_in(known, r));
        REQUIRE(changed == (r.cached != before));
        moved += changed ? 1U : 0U;
        forgotten += r.cached < before ? 1U : 0U;
        expected.emplace_back(-r.priority, -r.cached.count(), r.id);
      }
      std::sort(expected.begin(), expected.end());
      std::vector<std::size_t> line;
      s.waiting().for_each([&](const request& r) { line.push_back(r.id); });
      REQUIRE(line.size() == expected.size());
      for (std::size_t i = 0; i != line.size(); ++i) REQUIRE(line[i] == std::get<2>(expected[i]));
      step(s);
    }
  }
  CHECK(moved > 300);
  CHECK(forgotten > 20);
}

TEST_CASE("longest_prefix: nothing is looked at while a plan is open, and none displaces an equal", "[order]") {
  using scheduler_type = scheduler_of<gate::in_line>;
  auto storage = storage_for<scheduler_type>({.blocks = 64, .block_size = tokens{block_size}, .residents = 4});
  scheduler_type s{storage};
  std::array<request, 2> r;
  write(r[0], 0, 16, 16, 1);
  write(r[1], 1, 17, 16, 1);
  for (request& one : r) REQUIRE(s.submit(one, time_point{}) == status::accepted);
  auto plan = s.plan(time_point{}, {.max_starts = 1});
  REQUIRE(plan.size() == 1);
  r[1].cached = 4_tok;
  CHECK(!order::look_again(s, r[1]));
  REQUIRE(s.commit(plan, std::array{outcome{}}, time_point{}) == status::ok);
  CHECK(!s.waiting().discipline().displaces(r[1], r[0]));
  CHECK(order::look_again(s, r[1]));
  CHECK(r[1].cached == 16_tok);  // all blocks of the other's prompt
  CHECK(s.cancel(r[0]) == status::ok);
  CHECK(s.cancel(r[1]) == status::ok);
}

// DLPM (Cao et al. 2025): in the order of what is cached, requests of tenants with credit. When no waiting tenant has
// any, each without credit gets a quantum, until one has. What is computed is charged, each token of an output double.
TEST_CASE("longest_prefix under tenants' deficits starts what the textbook's DLPM starts", "[order][gate]") {
  std::mt19937 random{11};
  const auto upto = [&](std::int64_t n) { return static_cast<std::int64_t>(random()) % (n + 1); };
  std::size_t by_prefix = 0;
  std::size_t by_credit = 0;
  for (int round = 0; round != 60; ++round) {
    constexpr std::size_t tenants = 4;
    using gate_type = gate::basic_tenant_deficits<tenants>;
    using scheduler_type = scheduler_of<gate_type>;
    const std::int64_t quantum = 1 + upto(80);
    auto storage = storage_for<scheduler_type>({.blocks = 2000, .block_size = tokens{block_size}, .residents = 1});
    scheduler_type s{storage, {.gate = {.quantum = quantum}}};
    std::deque<request> requests;
    std::set<std::uint64_t> known;
    std::array<std::int64_t, tenants> credit{};
    std::vector<request*> waits;
    while (requests.size() != 60 || !waits.empty()) {
      while (requests.size() != 60 && random() % 2 == 0) {
        request& r = requests.emplace_back();
        r.tenant = static_cast<std::uint32_t>(upto(tenants - 1));
        const std::int64_t length = 1 + upto(60);
        const std::int64_t common = upto(length);
        write(r, requests.size() - 1, length, common, r.tenant);
        REQUIRE(s.submit(r, time_point{}) == status::accepted);
        waits.push_back(&r);
      }
      for (request* r : waits) order::look_again(s, *r);
      // The textbook.
      request* next = nullptr;
      if (!waits.empty()) {
        const auto has_credit = [&](const request* r) { return credit[r->tenant] > 0; };
        while (std::none_of(waits.begin(), waits.end(), has_credit)) {
          for (std::int64_t& c : credit) c += c <= 0 ? quantum : 0;
        }
        std::vector<request*> line = waits;
        std::stable_sort(line.begin(), line.end(),
                         [&](const request* a, const request* b) { return found_in(known, *a) > found_in(known, *b); });
        by_prefix += line.front() != waits.front() ? 1U : 0U;
        next = *std::find_if(line.begin(), line.end(), has_credit);
        by_credit += next != line.front() ? 1U : 0U;
        credit[next->tenant] -= next->prompt.count() - found_in(known, *next).count() + 2;
        known.insert(next->hashes.begin(), next->hashes.end());
        waits.erase(std::find(waits.begin(), waits.end(), next));
        // What is used while no other tenant waits makes no debt.
        const auto is_other = [&](const request* r) { return r->tenant != next->tenant; };
        if (std::none_of(waits.begin(), waits.end(), is_other)) {
          credit[next->tenant] = std::max<std::int64_t>(credit[next->tenant], 0);
        }
      }
      const std::vector<request*> started = step(s);
      REQUIRE(started.size() == (next == nullptr ? 0U : 1U));
      if (next == nullptr) continue;
      REQUIRE(started.front()->id == next->id);
      for (std::size_t t = 0; t != tenants; ++t) REQUIRE(s.gate().credit(t) == credit[t]);
    }
  }
  CHECK(by_prefix > 300);
  CHECK(by_credit > 300);
}
