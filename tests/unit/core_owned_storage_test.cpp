// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/core/owned_storage.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <type_traits>
#include <utility>

namespace {

/// A component as the library writes them.
class counters {
 public:
  struct limits {
    std::size_t counters = 0;
  };
  static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return tessera::storage_layout{}.add<int>(l.counters).bytes_unaligned();
  }
  counters(tessera::arena& memory, const limits& l) noexcept : values_{memory.take<int>(l.counters)} {}

  int& operator[](std::size_t i) noexcept { return values_[i]; }

 private:
  int* values_;
};

using storage = tessera::owned_storage<counters::limits>;
static_assert(std::is_same_v<decltype(tessera::storage_for<counters>(counters::limits{})), storage>);
static_assert(std::is_move_constructible_v<storage> && std::is_move_assignable_v<storage>);
static_assert(!std::is_copy_constructible_v<storage> && !std::is_copy_assignable_v<storage>);

TEST_CASE("storage_for makes the one allocation, of the size the component asks for", "[core]") {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{17}}) {
    tessera_test::no_allocation guard;
    storage s = tessera::storage_for<counters>({.counters = n});
    const std::size_t made = guard.allocations();
    tessera::arena memory{s.memory()};
    counters c{memory, s.limits()};
    for (std::size_t i = 0; i != n; ++i) c[i] = static_cast<int>(i);
    const std::size_t after = guard.allocations();
    CHECK(made == 1);
    CHECK(after == 1);
    CHECK(s.limits().counters == n);
    CHECK(s.memory().size() == counters::required_bytes({.counters = n}));
    for (std::size_t i = 0; i != n; ++i) CHECK(c[i] == static_cast<int>(i));
  }
}

TEST_CASE("owned storage moves without moving the memory", "[core]") {
  storage a = tessera::storage_for<counters>({.counters = 4});
  std::byte* const where = a.memory().data();
  storage b = std::move(a);
  CHECK(b.memory().data() == where);
  CHECK(b.limits().counters == 4);
}

}  // namespace
