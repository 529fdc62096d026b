// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `scheduler_limits::slots_ahead`: a request in a step has room for `slots_ahead` tokens beyond it, in every group of
// layers, and never for more. Random requests over little memory, with drafts, plans in flight and shared prefixes.
#include <tessera/compose/fcfs.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

namespace {

using namespace tessera;
using namespace tessera::literals;
using kv::group;

struct plain_request : request_hook {
  std::vector<std::uint64_t> hashes;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};
struct grouped_request : request_hook {
  std::vector<std::uint64_t> hashes;
  [[nodiscard]] std::array<std::span<const std::uint64_t>, 4> prefix_hashes() const noexcept {
    return {hashes, hashes, hashes, hashes};
  }
};
using plain = fcfs<plain_request, kv::prefix_cache>;
using grouped = fcfs<grouped_request, kv::groups<4>>;

constexpr std::int64_t block = 4;

struct shape {
  tokens first_needed;  ///< Blocks from the one of this token on are there,
  std::size_t first;    ///< and this is the first that is,
  std::size_t end;      ///< and this the first that is not.
};
std::vector<shape> row_of(const plain& s, std::uint32_t row, tokens /*computed*/) {
  return {{0_tok, 0, s.tables().size(row)}};
}
std::vector<shape> row_of(const grouped& s, std::uint32_t row, tokens computed) {
  std::vector<shape> all;
  for (std::size_t g = 0; g != s.tables().count(); ++g) {
    const std::size_t needed = s.tables().of(g).first_needed(computed);
    all.push_back({tokens{block * static_cast<std::int64_t>(needed)}, s.tables().first_block(g, row),
                   s.tables().table(g).size(row)});
  }
  return all;
}

template <class Scheduler>
void play(typename Scheduler::limits l, std::uint32_t seed) {
  std::mt19937 random{seed};
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(n));
  };
  typename Scheduler::config config{};
  config.keep_draft_blocks = seed % 3 == 0;
  auto storage = storage_for<Scheduler>(l);
  Scheduler s{storage, config};
  using request = typename Scheduler::request_type;
  std::deque<request> all;
  std::deque<typename Scheduler::plan_type> flights;
  typename Scheduler::time_point now{};
  const std::int64_t most = l.max_length.count();
  std::size_t ended = 0;
  std::size_t at_the_end = 0;
  std::size_t drafted = 0;

  const auto settle = [&] {
    const auto p = flights.front();
    flights.pop_front();
    std::vector<outcome> outcomes(p.size());
    for (std::size_t i = 0; i != p.size(); ++i) {
      if (!p[i].samples) continue;
      outcomes[i].produced = static_cast<std::uint16_t>(1 + below(1 + p[i].lookahead.count()));
      drafted += p[i].lookahead > 0_tok ? 1U : 0U;
      const auto made = p[i].request->generated() + tokens{outcomes[i].produced};
      outcomes[i].finished = made >= p[i].request->max_output;
      if (outcomes[i].finished) ++ended;
    }
    REQUIRE(s.commit(p, outcomes, now) == status::ok);
  };
  for (int step = 0; step != 5000 && (all.size() != 30 || ended != all.size()); ++step) {
    if (all.size() != 30 && below(3) == 0) {
      request& r = all.emplace_back();
      r.prompt = tokens{1 + below(most - 2)};
      // Some go up to the longest that there can be.
      r.max_output = below(3) == 0 ? tokens{most + 1} - r.prompt : tokens{1 + below(most + 1 - r.prompt.count())};
      const std::int64_t common = below(8);
      for (std::int64_t i = 0; i != r.prompt.count() / block; ++i) {
        const std::uint64_t whose = i < common ? 1 : 100 + all.size();
        r.hashes.push_back((whose * 1000 + static_cast<std::uint64_t>(i)) * 0x9e37'79b9'7f4a'7c15ULL);
      }
      REQUIRE(s.submit(r, now) == status::accepted);
    }
    const auto p = s.plan(now, {.token_budget = tokens{8 + below(60)}, .lookahead = tokens{below(4)}});
    REQUIRE(p.outgrown.empty());
    for (std::size_t i = 0; i != p.size(); ++i) {
      const std::int64_t end = (p[i].first + p[i].count + p[i].lookahead).count();
      const std::int64_t want = std::min(end + l.slots_ahead.count(), most);
      // What it will have computed and drafted, if all goes on. A request that lost its KV takes that at once.
      const std::int64_t whole = std::max(end, p[i].request->state().length.count()) + 4 + l.slots_ahead.count();
      for (const shape& row : row_of(s, p[i].row, p[i].first)) {
        REQUIRE(static_cast<std::int64_t>(row.end) * block >= want);
        REQUIRE(static_cast<std::int64_t>(row.end) <= (std::min(whole, most) + block - 1) / block);
        REQUIRE(static_cast<std::int64_t>(row.first) * block <= row.first_needed.count());
      }
      at_the_end += want == most ? 1U : 0U;
    }
    flights.push_back(p);
    if (flights.size() == l.plans_in_flight || below(3) == 0) settle();
  }
  while (!flights.empty()) settle();
  REQUIRE((all.size() == 30 && ended == all.size()));
  REQUIRE(s.device_blocks_held() == 0_blk);
  REQUIRE(at_the_end != 0);
  REQUIRE(drafted != 0);
}

scheduler_limits limits(std::uint32_t seed, std::int64_t ahead) {
  scheduler_limits l{.requests = 40, .blocks = 26, .block_size = tokens{block}, .residents = 5};
  l.max_length = tokens{60 + seed % 5};
  l.plans_in_flight = 1 + seed % 3;
  l.slots_ahead = tokens{ahead};
  return l;
}

}  // namespace

TEST_CASE("slots ahead: one block table") {
  for (std::uint32_t seed = 0; seed != 60; ++seed) {
    INFO("seed " << seed);
    play<plain>(limits(seed, 1 + seed % 9), seed);
  }
}

TEST_CASE("slots ahead: groups of layers") {
  for (std::uint32_t seed = 0; seed != 60; ++seed) {
    INFO("seed " << seed);
    grouped::limits l{limits(seed, 1 + seed % 9), {}, 1 + seed % 4};
    l.blocks = 26 * l.used;
    for (std::size_t g = 0; g != l.used; ++g) {
      l.layers[g] = g % 2 == 1 ? group::sliding(tokens{block}, tokens{6 + seed % 7})
                    : g == 2   ? group::chunked(tokens{block}, 12_tok)
                               : group::full(tokens{block});
    }
    play<grouped>(l, seed);
  }
}

TEST_CASE("slots ahead: as long as memory and the model allow") {
  scheduler_limits l{.blocks = 10, .block_size = 4_tok};
  l.slots_ahead = 3_tok;
  CHECK(l.longest() == 37_tok);
  CHECK(l.blocks_per_row() == 10);
  l.max_length = 39_tok;  // slots ahead of the longest are none that a token can have
  CHECK(l.longest() == 39_tok);
  l.max_length = 41_tok;
  CHECK(l.longest() == 37_tok);
  using ledger = detail::grouped_ledger<grouped_request, 4, kv::prefix_cache>;
  grouped::limits g{l, {group::full(4_tok), group::sliding(4_tok, 8_tok)}, 2};
  // 8 tokens and 3 ahead lie in 4 blocks: 6 are left, for 21 tokens and 3.
  CHECK(ledger::longest(g) == 21_tok);
  g.max_length = 20_tok;
  CHECK(ledger::longest(g) == 20_tok);
}
