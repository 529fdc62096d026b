// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/cluster/prefix_keys.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace {

using tessera::sim::prefix_keys;

/// `blocks` blocks: the first `shared` are common to all prompts, the others belong to `who`.
std::vector<std::uint64_t> prompt(std::size_t blocks, std::size_t shared, std::uint64_t who) {
  std::vector<std::uint64_t> all(blocks);
  for (std::size_t i = 0; i != blocks; ++i) all[i] = i < shared ? i + 1 : (who + 1) * 1'000'000 + i;
  return all;
}

TEST_CASE("prefix keys: the beginning, and more of it as long as too many have it", "[sim]") {
  prefix_keys alone{8};
  CHECK(alone({}, 77) == 77);
  CHECK(alone(prompt(10, 0, 1), 0) == prompt(10, 0, 1).back());  // shorter than a key
  CHECK(alone(prompt(100, 0, 2), 0) == prompt(100, 0, 2)[31]);

  // However many instances there are, what one other has begun with is no more than a share.
  prefix_keys many{2000};
  CHECK(many(prompt(100, 40, 1), 0) == prompt(100, 40, 1)[31]);
  CHECK(many(prompt(100, 40, 2), 0) == prompt(100, 40, 1)[31]);
  CHECK(many(prompt(100, 40, 3), 0) == prompt(100, 40, 3)[63]);

  // A system prompt of 50 blocks, and 40 sessions that come back: each has a key of its own, and keeps it.
  prefix_keys keys{8};
  std::vector<std::set<std::uint64_t>> of(40);
  for (int turn = 0; turn != 60; ++turn) {
    for (std::uint64_t who = 0; who != 40; ++who) {
      const std::uint64_t key = keys(prompt(64 + static_cast<std::size_t>(turn), 50, who), 0);
      if (turn >= 2) of[who].insert(key);
    }
  }
  std::set<std::uint64_t> all;
  for (const auto& mine : of) {
    CHECK(mine.size() == 1);
    all.insert(mine.begin(), mine.end());
  }
  CHECK(all.size() == 40);

  // When the shared beginning is not asked for any more, it is a key again.
  for (std::uint64_t who = 100; who != 700; ++who) (void)keys(prompt(64, 0, who), 0);
  CHECK(keys(prompt(64, 50, 1), 0) == prompt(64, 50, 1)[31]);
}

}  // namespace
