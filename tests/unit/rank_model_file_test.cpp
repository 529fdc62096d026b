// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/rank/model_file.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace {

using namespace tessera::rank;
using bytes = std::vector<std::byte>;

constexpr std::uint64_t print = 0x1122334455667788u;

bytes linear_file(const std::vector<float>& weights, float bias) {
  const linear_model m{weights, bias};
  bytes file(encoded_bytes(m));
  REQUIRE(encode_model(m, print, file) == model_status::ok);
  return file;
}
bytes mlp_file() {
  std::vector<float> w(mlp_model::parameters(5, 3));
  for (std::size_t i = 0; i != w.size(); ++i) w[i] = static_cast<float>(i) - 7.5f;
  const mlp_model m{w, 5, 3};
  bytes file(encoded_bytes(m));
  REQUIRE(encode_model(m, print, file) == model_status::ok);
  return file;
}
model_status inspect(const bytes& file) {
  model_info info;
  return inspect_model(file, info);
}
/// Makes the checksum right again after a change: what a file made on purpose would have.
void reseal(bytes& file) {
  tessera::rank::detail::put_little<std::uint64_t>(file, tessera::rank::detail::model_checksum_at,
                                                   tessera::rank::detail::model_checksum(file));
}
template <class T>
bytes with(bytes file, std::size_t at, T value) {
  tessera::rank::detail::put_little<T>(file, at, value);
  reseal(file);
  return file;
}

TEST_CASE("a linear model comes back bit for bit") {
  const std::vector<float> weights{1.5f, -0.0f, 1e-40f, 3e38f};
  const bytes file = linear_file(weights, -2.25f);
  model_info info;
  REQUIRE(inspect_model(file, info) == model_status::ok);
  CHECK(info.kind == model_kind::linear);
  CHECK(info.fingerprint == print);
  CHECK(info.dimension == 4);
  CHECK(info.hidden == 0);
  REQUIRE(info.parameters == 5);
  std::vector<float> storage(info.parameters);
  linear_model m;
  tessera_test::no_allocation guard;
  const model_status s = load_model(file, print, storage, m);
  const auto allocations = guard.allocations();
  CHECK(s == model_status::ok);
  CHECK(allocations == 0);
  CHECK(m.bias() == -2.25f);
  CHECK(std::memcmp(m.weights().data(), weights.data(), sizeof(float) * 4) == 0);
}

TEST_CASE("a model with a hidden layer comes back") {
  const bytes file = mlp_file();
  std::vector<float> storage(mlp_model::parameters(5, 3));
  mlp_model m;
  REQUIRE(load_model(file, print, storage, m) == model_status::ok);
  CHECK(m.dimension() == 5);
  CHECK(m.hidden() == 3);
  CHECK(m.weights()[0] == -7.5f);
  CHECK(m.weights().back() == static_cast<float>(storage.size() - 1) - 7.5f);
}

TEST_CASE("the layout is the documented one") {
  const bytes file = linear_file({1.0f}, 2.0f);
  const unsigned char expected[] = {'T',  'S',  'R',  'A',  'R',  'A',  'N',  'K',  1, 0, 0, 0, 1, 0, 0, 0,  //
                                    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 1, 0, 0, 0, 0, 0, 0, 0,  //
                                    0,    0,    0,    0,    0,    0,    0,    0,    2, 0, 0, 0, 0, 0, 0, 0,  //
                                    0,    0,    0,    0,    0,    0,    0,    0};
  REQUIRE(file.size() == 72);
  CHECK(std::memcmp(file.data(), expected, sizeof expected) == 0);
  const unsigned char floats[] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40};
  CHECK(std::memcmp(file.data() + 64, floats, sizeof floats) == 0);
}

TEST_CASE("the checksum is CRC-64/XZ") {
  bytes digits;
  for (const char c : {'1', '2', '3', '4', '5', '6', '7', '8', '9'}) digits.push_back(static_cast<std::byte>(c));
  CHECK(~tessera::rank::detail::crc64(digits, ~std::uint64_t{0}) == 0x995dc9bbdf1939fau);
}

TEST_CASE("every changed byte is noticed") {
  const bytes good = mlp_file();
  for (std::size_t i = 0; i != good.size(); ++i) {
    for (const unsigned flip : {1u, 0x80u, 0xffu}) {
      bytes bad = good;
      bad[i] ^= static_cast<std::byte>(flip);
      REQUIRE(inspect(bad) != model_status::ok);
    }
  }
  bytes payload = good;
  payload[100] ^= std::byte{1};
  CHECK(inspect(payload) == model_status::damaged);
}

TEST_CASE("every truncation is noticed, and every byte too many") {
  const bytes good = linear_file({1, 2, 3}, 4);
  for (std::size_t n = 0; n != good.size(); ++n)
    REQUIRE(inspect({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n)}) == model_status::truncated);
  bytes longer = good;
  longer.push_back(std::byte{0});
  CHECK(inspect(longer) == model_status::damaged);
  reseal(longer);
  CHECK(inspect(longer) == model_status::damaged);
}

TEST_CASE("files of others are foreign") {
  bytes zeros(200, std::byte{0});
  CHECK(inspect(zeros) == model_status::foreign);
  CHECK(inspect({std::byte{'G'}}) == model_status::foreign);
  CHECK(inspect(with<std::uint8_t>(mlp_file(), 7, 'X')) == model_status::foreign);
}

TEST_CASE("no field is trusted, even under a right checksum") {
  const bytes good = linear_file({1, 2, 3}, 4);
  CHECK(inspect(with<std::uint32_t>(good, 8, 2)) == model_status::unsupported_version);
  CHECK(inspect(with<std::uint32_t>(good, 12, 0)) == model_status::inconsistent);
  CHECK(inspect(with<std::uint32_t>(good, 12, 3)) == model_status::inconsistent);
  CHECK(inspect(with<std::uint32_t>(good, 12, 2)) == model_status::inconsistent);
  CHECK(inspect(with<std::uint64_t>(good, 24, 0)) == model_status::inconsistent);
  CHECK(inspect(with<std::uint64_t>(good, 24, 4)) == model_status::inconsistent);
  CHECK(inspect(with<std::uint64_t>(good, 24, ~std::uint64_t{0})) == model_status::inconsistent);
  CHECK(inspect(with<std::uint32_t>(good, 32, 1)) == model_status::inconsistent);
  CHECK(inspect(with<std::uint32_t>(good, 36, 1)) == model_status::inconsistent);
  CHECK(inspect(with<std::uint64_t>(good, 40, 3)) == model_status::inconsistent);
  CHECK(inspect(with<std::uint64_t>(good, 40, std::uint64_t{1} << 62)) == model_status::inconsistent);
  CHECK(inspect(with<std::uint64_t>(good, 48, 1)) == model_status::inconsistent);
  CHECK(inspect(with<std::uint32_t>(mlp_file(), 32, 0)) == model_status::inconsistent);
  CHECK(inspect(with<std::uint32_t>(mlp_file(), 32, 65)) == model_status::inconsistent);
  // Sizes that fit each other but not the file.
  bytes large = good;
  tessera::rank::detail::put_little<std::uint64_t>(large, 24, std::uint64_t{1} << 28);
  tessera::rank::detail::put_little<std::uint64_t>(large, 40, (std::uint64_t{1} << 28) + 1);
  reseal(large);
  CHECK(inspect(large) == model_status::truncated);
  // A product that would overflow 32 bits.
  bytes wide = mlp_file();
  const std::uint64_t d = (std::uint64_t{1} << 28);
  tessera::rank::detail::put_little<std::uint64_t>(wide, 24, d);
  tessera::rank::detail::put_little<std::uint32_t>(wide, 32, 64);
  tessera::rank::detail::put_little<std::uint64_t>(wide, 40, d * 64 + 129);
  reseal(wide);
  CHECK(inspect(wide) == model_status::truncated);
}

TEST_CASE("parameters must be finite") {
  CHECK(inspect(linear_file({1, std::numeric_limits<float>::infinity()}, 0)) == model_status::not_finite);
  CHECK(inspect(linear_file({1, 2}, std::numeric_limits<float>::quiet_NaN())) == model_status::not_finite);
}

TEST_CASE("a refused model changes nothing") {
  const bytes good = linear_file({1, 2, 3}, 4);
  std::vector<float> storage(4, -1.0f);
  const std::vector<float> before = storage;
  linear_model m;
  mlp_model other;
  CHECK(load_model(good, print + 1, storage, m) == model_status::wrong_features);
  CHECK(load_model(good, print, storage, other) == model_status::wrong_kind);
  CHECK(load_model(mlp_file(), print, storage, m) == model_status::wrong_kind);
  CHECK(load_model(good, print, std::span{storage}.first(3), m) == model_status::no_room);
  CHECK(storage == before);
  CHECK(m.dimension() == 0);
  CHECK(load_model(good, print, storage, m) == model_status::ok);
}

TEST_CASE("encoding checks its room and the model") {
  const std::vector<float> w{1, 2};
  const linear_model m{w};
  bytes small(encoded_bytes(m) - 1);
  bytes large(encoded_bytes(m) + 1);
  CHECK(encode_model(m, print, small) == model_status::no_room);
  CHECK(encode_model(m, print, large) == model_status::no_room);
  CHECK(encode_model(linear_model{}, print, small) == model_status::inconsistent);
  CHECK(encode_model(mlp_model{}, print, small) == model_status::inconsistent);
  for (int s = 0; s <= static_cast<int>(model_status::no_room); ++s) {
    CHECK(std::strlen(to_string(static_cast<model_status>(s))) > 1);
  }
}

}  // namespace
