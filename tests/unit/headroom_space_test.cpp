// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/headroom/space.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::headroom;
using tessera_test::approx;

static_assert(kv::stranded_policy<stranded_by_blocked_demand>);
static_assert(noexcept(space_freeness(blocks{1}, blocks{1}, blocks{2})));

TEST_CASE("space freeness: what is used and what is stranded, over all") {
  CHECK(space_freeness(blocks{0}, blocks{0}, blocks{100}) == 1.0);
  CHECK(space_freeness(blocks{60}, blocks{0}, blocks{100}) == approx(0.4));
  CHECK(space_freeness(blocks{95}, blocks{5}, blocks{100}) == 0.0);
  CHECK(space_freeness(blocks{130}, blocks{0}, blocks{100}) == approx(-0.3));
  CHECK(space_freeness(blocks{0}, blocks{0}, blocks{0}) == 0.0);
}

TEST_CASE("space freeness: of a worker, by policy") {
  const kv::memory_use use{blocks{100}, blocks{12}, {}};
  CHECK(space_freeness(use, kv::stranded_below{blocks{12}}) == approx(0.12));
  CHECK(space_freeness(use, kv::stranded_below{blocks{13}}) == 0.0);
  CHECK(space_freeness(use, stranded_by_blocked_demand{blocks{20}, blocks{19}}) == approx(0.12));
  CHECK(space_freeness(use, stranded_by_blocked_demand{blocks{20}, blocks{20}}) == 0.0);
}

TEST_CASE("space freeness: blocked demand strands what only the cluster together could serve") {
  const auto rule = [](std::int64_t free, std::int64_t head, std::int64_t cluster) {
    return stranded_by_blocked_demand{blocks{head}, blocks{cluster}}({blocks{100}, blocks{free}, {}}).count();
  };
  CHECK(rule(10, 0, 50) == 0);   // none waits
  CHECK(rule(10, 10, 50) == 0);  // fits here
  CHECK(rule(10, 11, 50) == 10);
  CHECK(rule(10, 50, 50) == 10);
  CHECK(rule(10, 51, 50) == 0);  // fits nowhere
  CHECK(rule(0, 1, 50) == 0);    // nothing to strand
}

TEST_CASE("space freeness: never rises when a block is taken, whatever the demand") {
  for (std::int64_t demand = 0; demand <= 40; ++demand) {
    double before = 2;
    for (std::int64_t used = 0; used <= 40; ++used) {
      const kv::memory_use use{blocks{40}, blocks{40 - used}, {}};
      const double phi = space_freeness(use, kv::stranded_below{blocks{demand}});
      CHECK(phi <= before);
      CHECK(phi >= 0);
      before = phi;
    }
  }
}

}  // namespace
