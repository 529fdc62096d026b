// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/kv/prefix_cache.hpp>

#include "support/catch.hpp"
#include "unit/compose_timeline.hpp"

namespace {

using tessera_test::timed_request;
using tessera_test::timeline;
using times = std::vector<int>;

}  // namespace

TEST_CASE("fcfs: PASCAL figure 2(a), no limit on memory: all start on arrival") {
  const auto r = timeline<tessera::fcfs<timed_request>>({{0, 8}, {1, 8}, {2, 6}}, 3, {.watermark = 0});
  CHECK(r[0].tokens_at == times{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(r[1].tokens_at == times{2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(r[2].tokens_at == times{3, 4, 5, 6, 7, 8});
}

TEST_CASE(
    "fcfs: PASCAL figure 2(b), memory for two: C joins when A is done and has waited 7 units for its first token") {
  const auto r = timeline<tessera::fcfs<timed_request>>({{0, 8}, {1, 8}, {2, 6}}, 2, {.watermark = 0});
  CHECK(r[0].tokens_at == times{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(r[1].tokens_at == times{2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(r[2].tokens_at == times{9, 10, 11, 12, 13, 14});
  CHECK(r[2].tokens_at.front() - 2 == 7);
}

TEST_CASE("fcfs: the watermark keeps blocks free, but never so many that none runs") {
  // A hundredth of two blocks is less than one, but more than none.
  const auto r = timeline<tessera::fcfs<timed_request>>({{0, 3}, {0, 3}}, 2, {});
  CHECK(r[0].tokens_at == times{1, 2, 3});
  CHECK(r[1].tokens_at == times{4, 5, 6});
}
