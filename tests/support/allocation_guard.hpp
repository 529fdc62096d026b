// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// Counts heap traffic, to show that a call makes none.
///
///     tessera_test::no_allocation guard;
///     scheduler.plan(now, budget);
///     CHECK(guard.allocations() == 0);
///
/// Counted on the calling thread: operator new and delete in all forms, malloc, calloc, realloc, free, aligned_alloc,
/// posix_memalign, memalign. The counting functions live in allocation_guard.cpp, which must be linked. Where malloc
/// cannot be replaced (a C library other than glibc, without AddressSanitizer) only operator new and delete count.

#include <cstddef>

namespace tessera_test {

/// Heap calls of a thread so far.
struct heap_traffic {
  std::size_t allocations = 0;
  std::size_t deallocations = 0;
};

/// What this thread has done so far, outside of `allow_allocation` scopes.
[[nodiscard]] heap_traffic traffic() noexcept;

/// Counts from its construction on. The count is live: a check between two others may itself allocate. Catch2 does when
/// a check fails or INFO is used. So read the number first if more follows.
class no_allocation {
 public:
  no_allocation() noexcept : start_{traffic()} {}

  [[nodiscard]] std::size_t allocations() const noexcept { return traffic().allocations - start_.allocations; }
  [[nodiscard]] std::size_t deallocations() const noexcept { return traffic().deallocations - start_.deallocations; }

 private:
  heap_traffic start_;
};

/// Heap calls of this thread are not counted while one exists: for the oracle that runs next to the code under test.
class allow_allocation {
 public:
  allow_allocation() noexcept;
  ~allow_allocation();
  allow_allocation(const allow_allocation&) = delete;
  allow_allocation& operator=(const allow_allocation&) = delete;
};

}  // namespace tessera_test
