// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/allocation_guard.hpp"

#include "support/catch.hpp"

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

/// The optimiser may drop a new-delete pair with a result that is not used.
template <class T>
T* seen(T* p) {
  asm volatile("" : : "r"(p) : "memory");
  return p;
}

struct alignas(128) wide {
  char bytes[128];
};

TEST_CASE("the allocation guard sees every way to the heap", "[support]") {
  SECTION("operator new, single, array, over-aligned and nothrow") {
    tessera_test::no_allocation guard;
    delete seen(new int{1});
    delete[] seen(new int[8]);
    delete seen(new wide);
    delete seen(new (std::nothrow) int{1});
    const auto allocated = guard.allocations();
    const auto freed = guard.deallocations();
    CHECK(allocated == 4);
    CHECK(freed == 4);
  }
  SECTION("standard containers") {
    tessera_test::no_allocation guard;
    {
      std::vector<int> v(100);
      seen(v.data());
    }
    {
      std::string s(100, 'x');
      seen(s.data());
    }
    const auto allocated = guard.allocations();
    CHECK(allocated == 2);
  }
#if defined(__GLIBC__)
  SECTION("the malloc family") {
    tessera_test::no_allocation guard;
    void* p = seen(std::malloc(10));
    p = seen(std::realloc(p, 1000));
    std::free(p);
    std::free(seen(std::calloc(3, 5)));
    std::free(seen(std::aligned_alloc(64, 128)));
    const auto allocated = guard.allocations();
    const auto freed = guard.deallocations();
    CHECK(allocated == 4);
    CHECK(freed == 4);
  }
#endif
}

TEST_CASE("the allocation guard is silent when nothing is allocated", "[support]") {
  std::vector<int> v;
  v.reserve(4);
  tessera_test::no_allocation guard;
  for (int i = 0; i < 4; ++i) v.push_back(i);
  const auto before = guard.allocations();
  v.push_back(4);
  const auto after = guard.allocations();
  CHECK(before == 0);
  CHECK(after == 1);
}

TEST_CASE("heap calls inside allow_allocation do not count", "[support]") {
  tessera_test::no_allocation guard;
  {
    tessera_test::allow_allocation oracle;
    delete seen(new int{1});
  }
  const auto inside = guard.allocations();
  delete seen(new int{1});
  const auto outside = guard.allocations();
  CHECK(inside == 0);
  CHECK(outside == 1);
}

TEST_CASE("each thread counts its own heap calls", "[support]") {
  std::size_t seen_by_other = 0;
  std::thread other{[&] {
    tessera_test::no_allocation guard;
    delete seen(new int{1});
    seen_by_other = guard.allocations();
  }};
  tessera_test::no_allocation guard;
  other.join();
  const auto here = guard.allocations();
  CHECK(here == 0);
  CHECK(seen_by_other == 1);
}

}  // namespace
