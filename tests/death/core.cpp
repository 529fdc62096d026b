// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/core/storage.hpp>

#include "support/death.hpp"

#include <array>
#include <cstddef>

namespace {

constexpr std::size_t line = tessera::storage_alignment;

/// A vector of two numbers, one of them set.
struct two_numbers {
  alignas(line) std::array<std::byte, line> buffer{};
  tessera::arena memory{buffer};
  tessera::fixed_vector<int> v{memory, 2};

  two_numbers() { v.push_back(1); }
};

}  // namespace

TESSERA_DEATH_CASE(core_assert_false, "a reason") { TESSERA_ASSERT(1 + 1 == 3, "a reason"); }

TESSERA_DEATH_CASE(core_assert_names_the_condition, "violated: 1 + 1 == 3") { TESSERA_ASSERT(1 + 1 == 3, "a reason"); }

TESSERA_DEATH_CASE(core_arena_too_small, "smaller than required_bytes") {
  alignas(line) std::array<std::byte, line> buffer{};
  tessera::arena memory{buffer};
  static_cast<void>(memory.take<char>(line));
  static_cast<void>(memory.take<char>(1));
}

TESSERA_DEATH_CASE(core_arena_too_small_uninitialised, "smaller than required_bytes") {
  alignas(line) std::array<std::byte, line> buffer{};
  tessera::arena memory{buffer};
  static_cast<void>(memory.take_uninitialised<char>(line + 1));
}

// Aligning the first byte of a buffer that was sized without slack costs a cache line.
TESSERA_DEATH_CASE(core_arena_misaligned_without_slack, "smaller than required_bytes") {
  alignas(line) std::array<std::byte, 2 * line> buffer{};
  tessera::arena memory{std::span<std::byte>{buffer}.subspan(1, line)};
  static_cast<void>(memory.take<char>(line));
}

TESSERA_DEATH_CASE(core_fixed_vector_push_full, "full") {
  two_numbers t;
  t.v.push_back(2);
  t.v.push_back(3);
}

TESSERA_DEATH_CASE(core_fixed_vector_pop_empty, "empty") {
  two_numbers t;
  t.v.pop_back();
  t.v.pop_back();
}

TESSERA_DEATH_CASE(core_fixed_vector_index_at_size, "out of range") {
  two_numbers t;
  t.v[1] = 5;
}

TESSERA_DEATH_CASE(core_fixed_vector_const_index_at_size, "out of range") {
  const two_numbers t;
  static_cast<void>(t.v[1]);
}

TESSERA_DEATH_CASE(core_fixed_vector_back_empty, "out of range") {
  two_numbers t;
  t.v.clear();
  static_cast<void>(t.v.back());
}
