// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/allocation_guard.hpp"

#include <cerrno>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#  define TESSERA_TEST_ASAN 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define TESSERA_TEST_ASAN 1
#  endif
#endif

namespace tessera_test {
namespace {

// Plain thread-local integers: their access must not allocate, since malloc itself counts here.
constinit thread_local heap_traffic counted{};
constinit thread_local int allowed = 0;

void count_allocation() noexcept {
  if (allowed == 0) ++counted.allocations;
}
void count_deallocation(const volatile void* p) noexcept {
  if (allowed == 0 && p != nullptr) ++counted.deallocations;
}

}  // namespace

heap_traffic traffic() noexcept { return counted; }
allow_allocation::allow_allocation() noexcept { ++allowed; }
allow_allocation::~allow_allocation() { --allowed; }

}  // namespace tessera_test

using tessera_test::count_allocation;
using tessera_test::count_deallocation;

#if defined(TESSERA_TEST_ASAN)

// AddressSanitizer owns malloc and operator new; it offers hooks.
#  include <sanitizer/allocator_interface.h>

namespace {

const bool hooked = [] {
  const int slot =
      __sanitizer_install_malloc_and_free_hooks([](const volatile void*, std::size_t) { count_allocation(); },
                                                [](const volatile void* p) { count_deallocation(p); });
  if (slot == 0) std::abort();
  return true;
}();

}  // namespace

#elif defined(__GLIBC__)

// The C library finds these instead of its own; operator new of the standard library calls malloc and so counts too.
extern "C" {

void* __libc_malloc(std::size_t) noexcept;
void* __libc_calloc(std::size_t, std::size_t) noexcept;
void* __libc_realloc(void*, std::size_t) noexcept;
void* __libc_memalign(std::size_t, std::size_t) noexcept;
void __libc_free(void*) noexcept;

void* malloc(std::size_t size) noexcept {
  count_allocation();
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  count_allocation();
  return __libc_calloc(count, size);
}
void* realloc(void* p, std::size_t size) noexcept {
  count_allocation();
  count_deallocation(p);
  return __libc_realloc(p, size);
}
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  count_allocation();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  count_allocation();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) noexcept {
  count_allocation();
  void* const p = __libc_memalign(alignment, size);
  if (p == nullptr) return ENOMEM;
  *out = p;
  return 0;
}
void free(void* p) noexcept {
  count_deallocation(p);
  __libc_free(p);
}

}  // extern "C"

#else

// NOLINTBEGIN(misc-new-delete-overloads): the array and nothrow forms call these.
void* operator new(std::size_t size) {
  count_allocation();
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc{};
}
void operator delete(void* p) noexcept {
  count_deallocation(p);
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  count_deallocation(p);
  std::free(p);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  count_allocation();
  const auto a = static_cast<std::size_t>(alignment);
  if (void* p = std::aligned_alloc(a, (size + a - 1) / a * a)) return p;
  throw std::bad_alloc{};
}
void operator delete(void* p, std::align_val_t) noexcept {
  count_deallocation(p);
  std::free(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  count_deallocation(p);
  std::free(p);
}
// NOLINTEND(misc-new-delete-overloads)

#endif
