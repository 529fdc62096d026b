// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "gpu/sorter_suite.hpp"
#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <tessera/gpu/host_sorter.hpp>

#include <array>
#include <vector>

namespace {

using tessera_test::host_memory;
using suite = tessera_test::sorter_suite<tessera::gpu::host_sorter, host_memory>;

TEST_CASE("a host_sorter does what a batch_sorter must", "[gpu]") {
  suite s{{}, {}};
  CHECK(s.orders_keys() == 0);
  CHECK(s.orders_fields() == 0);
  CHECK(s.sorts_segments() == 0);
  CHECK(s.makes_buckets() == 0);
  CHECK(s.admits() == 0);
  CHECK(s.refuses() == 0);
}

TEST_CASE("a host_sorter does not allocate", "[gpu]") {
  using tessera::gpu::host_sorter;
  constexpr std::size_t n = 3000;
  const std::vector<std::uint64_t> keys(n, 77);
  const std::vector<std::uint32_t> in(n, 1);
  const std::array<std::uint32_t, 3> offsets{0, 1000, n};
  std::vector<std::uint32_t> order(n);
  std::array<std::uint32_t, 4> out{};
  std::vector<std::byte> memory(host_sorter::required_bytes(n) + tessera::gpu::workspace_alignment);
  const tessera::gpu::workspace w{memory};
  const host_sorter s;
  const tessera_test::no_allocation guard;
  const bool all = ok(s.sort(keys, 64, order, w)) && ok(s.sort_segments(keys, 60, offsets, order, w)) &&
                   ok(s.bucket(in, std::span{offsets}.first(2), order, out, w)) &&
                   ok(s.admit(in, order, offsets, std::span{offsets}.last(2), std::span{out}.first(2), w));
  const auto allocations = guard.allocations();
  CHECK(all);
  CHECK(allocations == 0);
}

}  // namespace
