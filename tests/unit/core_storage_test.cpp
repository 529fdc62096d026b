// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/core/storage.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace {

constexpr std::size_t line = tessera::storage_alignment;

bool aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % line == 0; }

struct point {
  int x = 3;
  int y = 4;
};

TEST_CASE("a layout counts whole cache lines per array", "[core]") {
  STATIC_REQUIRE(tessera::storage_layout{}.bytes() == 0);
  STATIC_REQUIRE(tessera::storage_layout{}.add<char>(0).bytes() == 0);
  STATIC_REQUIRE(tessera::storage_layout{}.add<char>(1).bytes() == line);
  STATIC_REQUIRE(tessera::storage_layout{}.add<char>(line - 1).bytes() == line);
  STATIC_REQUIRE(tessera::storage_layout{}.add<char>(line).bytes() == line);
  STATIC_REQUIRE(tessera::storage_layout{}.add<char>(line + 1).bytes() == 2 * line);
  STATIC_REQUIRE(tessera::storage_layout{}.add<std::int64_t>(9).add<char>(1).bytes() == 3 * line);
  STATIC_REQUIRE(tessera::storage_layout{}.add_bytes(100).add_bytes(1).bytes() == 3 * line);
  STATIC_REQUIRE(tessera::storage_layout{}.add<char>(1).bytes_unaligned() == 2 * line);
}

TEST_CASE("an arena takes what its layout says, from a buffer of any alignment", "[core]") {
  constexpr tessera::storage_layout layout = tessera::storage_layout{}.add<std::int64_t>(9).add<char>(3).add<point>(20);
  std::vector<std::byte> buffer(layout.bytes_unaligned() + line, std::byte{0xee});
  for (std::size_t offset = 0; offset != line; ++offset) {
    std::byte* const from = buffer.data() + offset;
    std::fill(buffer.begin(), buffer.end(), std::byte{0xee});
    tessera::arena memory{{from, layout.bytes_unaligned()}};
    std::int64_t* const numbers = memory.take<std::int64_t>(9);
    char* const letters = memory.take<char>(3);
    point* const points = memory.take<point>(20);

    REQUIRE(aligned(numbers));
    REQUIRE(aligned(letters));
    REQUIRE(aligned(points));
    // Inside the buffer, in order, without overlap.
    REQUIRE(reinterpret_cast<std::byte*>(numbers) >= from);
    REQUIRE(reinterpret_cast<std::byte*>(numbers + 9) <= reinterpret_cast<std::byte*>(letters));
    REQUIRE(reinterpret_cast<std::byte*>(letters + 3) <= reinterpret_cast<std::byte*>(points));
    REQUIRE(reinterpret_cast<std::byte*>(points + 20) <= from + layout.bytes_unaligned());
    // Value-initialised.
    REQUIRE(std::all_of(numbers, numbers + 9, [](std::int64_t n) { return n == 0; }));
    REQUIRE(std::all_of(letters, letters + 3, [](char c) { return c == 0; }));
    REQUIRE(std::all_of(points, points + 20, [](point p) { return p.x == 3 && p.y == 4; }));
    // Nothing around the buffer is touched.
    REQUIRE(std::all_of(buffer.data(), from, [](std::byte b) { return b == std::byte{0xee}; }));
    REQUIRE(std::all_of(from + layout.bytes_unaligned(), buffer.data() + buffer.size(),
                        [](std::byte b) { return b == std::byte{0xee}; }));
  }
}

TEST_CASE("an aligned buffer needs no slack", "[core]") {
  constexpr std::size_t size = tessera::storage_layout{}.add<std::int32_t>(17).bytes();
  alignas(line) std::array<std::byte, size> buffer;
  tessera::arena memory{buffer};
  CHECK(static_cast<void*>(memory.take<std::int32_t>(17)) == static_cast<void*>(buffer.data()));
}

TEST_CASE("uninitialised arrays leave their memory alone", "[core]") {
  alignas(line) std::array<std::byte, line> buffer;
  buffer.fill(std::byte{0x5a});
  tessera::arena memory{buffer};
  const std::uint32_t* const n = memory.take_uninitialised<std::uint32_t>(16);
  std::array<std::byte, line> seen;
  std::memcpy(seen.data(), n, line);
  CHECK(std::all_of(seen.begin(), seen.end(), [](std::byte b) { return b == std::byte{0x5a}; }));
}

TEST_CASE("an array of nothing takes nothing", "[core]") {
  tessera::arena memory{std::span<std::byte>{}};
  CHECK(memory.take<int>(0) == nullptr);
}

TEST_CASE("a fixed vector without storage is empty and full", "[core]") {
  const tessera::fixed_vector<int> v;
  CHECK(v.empty());
  CHECK(v.full());
  CHECK(v.capacity() == 0);
  CHECK(v.begin() == v.end());
}

TEST_CASE("a fixed vector behaves as a vector up to its capacity", "[core]") {
  for (const std::size_t capacity : {std::size_t{1}, std::size_t{7}, std::size_t{64}}) {
    std::vector<std::byte> buffer(tessera::fixed_vector<int>::required_bytes(capacity) + line);
    tessera::arena memory{buffer};
    tessera::fixed_vector<int> v{memory, capacity};
    std::vector<int> model;
    std::mt19937 random{static_cast<unsigned>(capacity)};
    bool was_full = false;
    tessera_test::no_allocation guard;
    std::size_t allocations = 0;
    for (int step = 0; step != 2000; ++step) {
      const unsigned what = random() % 16;
      const std::size_t before = guard.allocations();
      if (what < 9 && !v.full()) {
        v.push_back(step);
        allocations += guard.allocations() - before;
        model.push_back(step);
      } else if (what < 15 && !v.empty()) {
        v.pop_back();
        allocations += guard.allocations() - before;
        model.pop_back();
      } else if (what == 15 && step % 10 == 0) {
        v.clear();
        model.clear();
      }
      if (!v.empty()) {
        v[v.size() / 2] += 1;
        model[model.size() / 2] += 1;
        REQUIRE(v.back() == model.back());
        REQUIRE(v[0] == model[0]);
      }
      was_full = was_full || v.full();
      REQUIRE(v.size() == model.size());
      REQUIRE(v.empty() == model.empty());
      REQUIRE(v.full() == (model.size() == capacity));
      REQUIRE(std::equal(v.begin(), v.end(), model.begin(), model.end()));
    }
    CHECK(was_full);
    CHECK(allocations == 0);
    CHECK(v.capacity() == capacity);

    const tessera::fixed_vector<int>& constant = v;
    const std::span<const int> all = constant;
    CHECK(all.data() == constant.data());
    CHECK(all.size() == model.size());
    const std::span<int> writable = v;
    CHECK(writable.data() == v.data());
  }
}

}  // namespace
