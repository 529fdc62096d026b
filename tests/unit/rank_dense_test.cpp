// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/rank/dense.hpp>
#include <tessera/rank/features.hpp>

#include "support/catch.hpp"

#include <array>
#include <cstring>
#include <limits>
#include <vector>

namespace {

using namespace tessera::rank;

TEST_CASE("an embedding's coordinates are features") {
  const dense_features f{3};
  const std::array<float, 3> e{0.5f, -1.0f, 2.0f};
  std::array<feature, 4> out{};
  REQUIRE(extract(f, e, out) == 3);
  for (std::size_t i = 0; i != 3; ++i) {
    CHECK(out[i].index == i);
    CHECK(out[i].value == e[i]);
  }
  CHECK(f.dimension() == 3);
  CHECK(f.lexical_dimension() == 0);
  CHECK(f.fingerprint() != dense_features{4}.fingerprint());
  CHECK(f.fingerprint() != dense_features(3, 2).fingerprint());
  // Whatever numbers encoders have.
  CHECK(dense_features(2, 1).fingerprint() != dense_features(1, 0x301).fingerprint());
  CHECK(dense_features(768, 1).fingerprint() != dense_features(384, 163841).fingerprint());
}

TEST_CASE("values that are not finite count as nothing") {
  const dense_features f{3};
  const std::array<float, 3> e{std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 1.0f};
  std::array<feature, 3> out{};
  REQUIRE(extract(f, e, out) == 3);
  CHECK(out[0].value == 0);
  CHECK(out[1].value == 0);
  CHECK(out[2].value == 1);
}

TEST_CASE("rows are read from any address") {
  const std::array<float, 6> values{1, 2, 3, 4, 5, -6.5f};
  std::array<std::byte, 6 * 4 + 1> file{};
  for (std::size_t i = 0; i != 6; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &values[i], 4);
    for (unsigned k = 0; k != 4; ++k) file[1 + 4 * i + k] = static_cast<std::byte>(bits >> (8 * k) & 0xff);
  }
  const auto rows = dense_rows::over(std::span{file}.subspan(1), 2);
  REQUIRE(rows.valid());
  REQUIRE(rows.size() == 3);
  std::array<float, 2> row{};
  for (std::size_t i = 0; i != 3; ++i) {
    rows.read(i, row);
    CHECK(row[0] == values[2 * i]);
    CHECK(row[1] == values[2 * i + 1]);
  }
}

TEST_CASE("a file that is no whole number of rows is refused") {
  const std::array<std::byte, 24> file{};
  CHECK(dense_rows::over(file, 3).size() == 2);
  CHECK_FALSE(dense_rows::over(file, 0).valid());
  CHECK_FALSE(dense_rows::over(file, 4).valid());
  CHECK_FALSE(dense_rows::over(file, 7).valid());
  CHECK_FALSE(dense_rows::over(std::span{file}.first(23), 1).valid());
  CHECK_FALSE(dense_rows::over(file, ~std::size_t{0}).valid());
  CHECK_FALSE(dense_rows::over({}, 1).valid());
  CHECK(dense_rows{}.size() == 0);
}

TEST_CASE("joined features stand side by side") {
  const joined_features f{hashed_features{8}, dense_features{2}};
  const hashed_features text{8};
  CHECK(f.dimension() == text.dimension() + 2);
  CHECK(f.lexical_dimension() == text.lexical_dimension());
  CHECK(f.max_features() == text.max_features() + 2);
  CHECK(f.fingerprint() != text.fingerprint());
  const std::array<float, 2> e{3, 4};
  std::vector<feature> both(f.max_features());
  std::vector<feature> alone(text.max_features());
  const std::size_t n = extract(f, {"hello there", e}, both);
  const std::size_t m = extract(text, "hello there", alone);
  REQUIRE(n == m + 2);
  for (std::size_t i = 0; i != m; ++i) REQUIRE(both[i] == alone[i]);
  CHECK(both[m] == feature{static_cast<std::uint32_t>(text.dimension()), 3.0f});
  CHECK(both[m + 1] == feature{static_cast<std::uint32_t>(text.dimension() + 1), 4.0f});
}

}  // namespace
