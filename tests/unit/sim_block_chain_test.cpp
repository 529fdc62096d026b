// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/input/block_chain.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace {

namespace sim = tessera::sim;
using sim::block_chain;
using sim::text_run;

/// Every token by its run and place: two runs of one number hold the same.
using tokens_of = std::vector<std::pair<std::uint64_t, std::int64_t>>;

tokens_of spelt_out(const std::vector<text_run>& runs) {
  tokens_of all;
  for (const text_run& r : runs) {
    for (std::int64_t i = 0; i != r.tokens; ++i) all.emplace_back(r.id, i);
  }
  return all;
}

TEST_CASE("block_chain: equal hashes where, and only where, all tokens so far are equal") {
  std::mt19937 random{3};
  for (const std::int64_t block : {1, 3, 16}) {
    std::map<tokens_of, std::uint64_t> seen;   // by the tokens from the start
    std::map<std::uint64_t, tokens_of> means;  // and back
    std::size_t again = 0;
    for (int round = 0; round != 300; ++round) {
      std::vector<text_run> runs(1 + random() % 6);
      for (text_run& r : runs) {
        r.id = random() % 2;
        // Where runs end decides what comes after them, so that few lengths make many equal sequences.
        r.tokens = static_cast<std::int64_t>(4 * (random() % 4));
      }
      block_chain chain{block};
      for (const text_run& r : runs) chain.append(r);
      const tokens_of all = spelt_out(runs);
      REQUIRE(chain.length() == static_cast<std::int64_t>(all.size()));
      REQUIRE(chain.hashes().size() == all.size() / static_cast<std::size_t>(block));
      for (std::size_t k = 0; k != chain.hashes().size(); ++k) {
        const tokens_of from_start(
            all.begin(), all.begin() + static_cast<std::ptrdiff_t>((k + 1) * static_cast<std::size_t>(block)));
        const auto [at, fresh] = seen.try_emplace(from_start, chain.hashes()[k]);
        again += fresh ? 0U : 1U;
        CHECK(at->second == chain.hashes()[k]);
        CHECK(means.try_emplace(chain.hashes()[k], from_start).first->second == from_start);
      }
    }
    CHECK(again > 100);
    CHECK(seen.size() > 50);
  }
}

TEST_CASE("block_chain: of a sequence of any length the first blocks have hashes, as without a bound") {
  const std::vector<text_run> runs{{1, 37}, {2, 30}, {3, 50}};
  block_chain all{16};
  for (const text_run& r : runs) all.append(r);
  for (const std::size_t most : {std::size_t{0}, std::size_t{2}, std::size_t{4}, std::size_t{99}}) {
    INFO(most);
    block_chain some{16, most};
    block_chain::mark second;
    for (const text_run& r : runs) {
      if (r.id == 3) second = some.here();
      some.append(r);
    }
    const auto common = static_cast<std::ptrdiff_t>(std::min(most, all.hashes().size()));
    CHECK(some.hashes() == std::vector<std::uint64_t>(all.hashes().begin(), all.hashes().begin() + common));
    CHECK(some.length() == all.length());
    // Back to before the bound, and on.
    some.cut(second);
    CHECK(some.length() == 67);
    some.append({3, 50});
    CHECK(some.hashes() == std::vector<std::uint64_t>(all.hashes().begin(), all.hashes().begin() + common));
  }
  block_chain endless{16, 4};
  endless.append({1, std::int64_t{1} << 62});
  CHECK(endless.hashes().size() == 4);
  CHECK(endless.length() == std::int64_t{1} << 62);
}

TEST_CASE("block_chain: what was appended can be forgotten, and something else said") {
  std::mt19937 random{4};
  for (int round = 0; round != 200; ++round) {
    const auto block = static_cast<std::int64_t>(1 + random() % 20);
    const auto length = [&] { return static_cast<std::int64_t>(random() % 50); };
    const std::int64_t before = length();
    const std::int64_t forgotten = length();
    const std::int64_t after = length();
    block_chain chain{block};
    chain.append({7, before});
    const block_chain::mark here = chain.here();
    chain.append({8, forgotten});
    chain.cut(here);
    chain.append({9, after});
    block_chain straight{block};
    straight.append({7, before});
    straight.append({9, after});
    CHECK(chain.length() == straight.length());
    CHECK(chain.hashes() == straight.hashes());
  }
}

}  // namespace
