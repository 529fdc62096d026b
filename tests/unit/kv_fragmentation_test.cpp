// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/kv/fragmentation.hpp>

#include <array>

#include "support/catch.hpp"

namespace {

using tessera::blocks;
using tessera::tokens;
using tessera_test::approx;
using namespace tessera::kv;

TEST_CASE("fragmentation: internal, the slots that hold nothing", "[kv]") {
  const memory_use empty{blocks{10}, blocks{10}, tokens{0}};
  CHECK(internal_fragmentation(empty, tokens{16}) == 0.0);
  CHECK(internal_fragmentation(memory_use{}, tokens{16}) == 0.0);
  const memory_use full{blocks{10}, blocks{6}, tokens{64}};
  CHECK(internal_fragmentation(full, tokens{16}) == 0.0);
  const memory_use one_token_each{blocks{10}, blocks{6}, tokens{4}};
  CHECK(internal_fragmentation(one_token_each, tokens{16}) == approx(15.0 / 16.0));
  const memory_use half{blocks{10}, blocks{0}, tokens{80}};
  CHECK(internal_fragmentation(half, tokens{16}) == approx(0.5));
}

TEST_CASE("fragmentation: stranded below a reference demand", "[kv]") {
  const stranded_below stranded{blocks{8}};
  CHECK(stranded({blocks{100}, blocks{7}, {}}) == blocks{7});
  CHECK(stranded({blocks{100}, blocks{8}, {}}) == blocks{0});
  CHECK(stranded({blocks{100}, blocks{9}, {}}) == blocks{0});
  CHECK(stranded({blocks{100}, blocks{0}, {}}) == blocks{0});
  CHECK(stranded_below{}({blocks{100}, blocks{5}, {}}) == blocks{0});
}

TEST_CASE("fragmentation: of a cluster, stranded over all", "[kv]") {
  const std::array<memory_use, 4> cluster{memory_use{blocks{100}, blocks{7}, {}},
                                          memory_use{blocks{100}, blocks{8}, {}}, memory_use{blocks{50}, blocks{3}, {}},
                                          memory_use{blocks{50}, blocks{0}, {}}};
  CHECK(cluster_fragmentation(cluster, stranded_below{blocks{8}}) == approx(10.0 / 300.0));
  CHECK(cluster_fragmentation(cluster, stranded_below{blocks{1}}) == 0.0);
  CHECK(cluster_fragmentation(cluster, stranded_below{blocks{1000}}) == approx(18.0 / 300.0));
  CHECK(cluster_fragmentation({}, stranded_below{blocks{8}}) == 0.0);
}

TEST_CASE("fragmentation: blocked demand that the free blocks of the cluster would satisfy", "[kv]") {
  const std::array<memory_use, 3> cluster{memory_use{blocks{100}, blocks{10}, {}},
                                          memory_use{blocks{100}, blocks{10}, {}},
                                          memory_use{blocks{100}, blocks{10}, {}}};
  const auto measure = [&](std::int64_t a, std::int64_t b, std::int64_t c) {
    const std::array demand{blocks{a}, blocks{b}, blocks{c}};
    return blocked_demand_fragmentation(cluster, demand);
  };
  CHECK(measure(0, 0, 0) == 0.0);
  CHECK(measure(10, 10, 10) == 0.0);  // fits where it is: not blocked
  CHECK(measure(11, 0, 0) == approx(11.0 / 300));
  CHECK(measure(30, 0, 0) == approx(30.0 / 300));
  CHECK(measure(31, 0, 0) == 0.0);  // would not fit anyhow: not a matter of fragmentation
  CHECK(measure(11, 12, 13) == approx(23.0 / 300));
  CHECK(measure(25, 12, 0) == approx(25.0 / 300));
  CHECK(blocked_demand_fragmentation({}, {}) == 0.0);
}

}  // namespace
