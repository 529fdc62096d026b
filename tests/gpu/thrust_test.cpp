// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "gpu/sorter_suite.hpp"
#include "support/catch.hpp"

#include <tessera/gpu/batch_sort.cuh>

// Built once for each of Thrust's back ends on the host.

namespace {

TEST_CASE("a device_sorter on the host does what a batch_sorter must", "[gpu]") {
  static_assert(THRUST_DEVICE_SYSTEM != THRUST_DEVICE_SYSTEM_CUDA);
  tessera_test::sorter_suite<tessera::gpu::device_sorter, tessera_test::host_memory> s{
      tessera::gpu::device_sorter{tessera::gpu::stream_type{}}, {}};
  CHECK(s.orders_keys() == 0);
  CHECK(s.orders_fields() == 0);
  CHECK(s.sorts_segments() == 0);
  CHECK(s.makes_buckets() == 0);
  CHECK(s.admits() == 0);
  CHECK(s.refuses() == 0);
}

}  // namespace
