// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/catch.hpp"

#include <tessera/gpu/workspace.hpp>

#include <array>
#include <cstdint>

namespace {

using namespace tessera::gpu;

constexpr std::size_t a = workspace_alignment;
static_assert(workspace_bytes<std::uint64_t>(0) == 0);
static_assert(workspace_bytes<std::uint64_t>(1) == a);
static_assert(workspace_bytes<std::uint64_t>(a / 8) == a);
static_assert(workspace_bytes<std::uint64_t>(a / 8 + 1) == 2 * a);

struct alignas(a) buffer {
  std::array<std::byte, 4 * a> bytes;
};

TEST_CASE("a workspace hands out aligned arrays and then null", "[gpu]") {
  buffer b;
  workspace w{b.bytes};
  CHECK(w.available() == 4 * a);
  auto* const first = w.take<char>(1);
  CHECK(static_cast<void*>(first) == b.bytes.data());
  CHECK(w.available() == 3 * a);
  auto* const second = w.take<std::uint64_t>(a / 8 + 1);
  CHECK(reinterpret_cast<std::byte*>(second) == b.bytes.data() + a);
  CHECK(w.available() == a);
  CHECK(w.take<char>(a + 1) == nullptr);
  CHECK(w.available() == a);
  CHECK(w.take<std::uint64_t>(~std::size_t{}) == nullptr);
  CHECK(w.take<std::uint64_t>((~std::size_t{} >> 3) + 1) == nullptr);
  CHECK(w.take<char>(a) != nullptr);
  CHECK(w.available() == 0);
  CHECK(w.take<char>(1) == nullptr);
}

TEST_CASE("a copy of a workspace lends, and the original has it back", "[gpu]") {
  buffer b;
  workspace w{b.bytes};
  (void)w.take<char>(a);
  workspace lent = w;
  auto* const theirs = lent.take<char>(3 * a);
  CHECK(lent.available() == 0);
  CHECK(w.available() == 3 * a);
  CHECK(w.take<char>(1) == theirs);
}

TEST_CASE("a workspace may begin anywhere", "[gpu]") {
  buffer b;
  for (const std::size_t skip : {std::size_t{1}, a / 2, a - 1}) {
    workspace w{std::span{b.bytes}.subspan(skip)};
    CHECK(w.available() == 3 * a);
    CHECK(reinterpret_cast<std::byte*>(w.take<char>(1)) == b.bytes.data() + a);
  }
  // Less than what aligning takes, nothing, and none at all.
  CHECK(workspace{std::span{b.bytes}.subspan(1, 3)}.available() == 0);
  CHECK(workspace{std::span<std::byte>{}}.available() == 0);
  CHECK(workspace{}.take<char>(1) == nullptr);
}

}  // namespace
