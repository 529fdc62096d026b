// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/hash_chain.hpp>

#include <cstddef>
#include <cstdint>

namespace tessera_test {

/// A fuzzer's input, read from the front; zeros once it is used up.
class fuzz_bytes {
 public:
  fuzz_bytes(const std::uint8_t* data, std::size_t size) : data_{data}, left_{size} {}
  [[nodiscard]] bool done() const { return left_ == 0; }
  std::uint64_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  std::uint64_t number() {
    std::uint64_t n = 0;
    for (int i = 0; i != 8; ++i) n = n << 8U | byte();
    return n;
  }
  /// Mostly a small one.
  std::uint64_t count() { return byte() < 240 ? byte() : number(); }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

/// Numbers from an input; once it is used up, from its last state, so that draining does not always choose 0.
class fuzz_choice {
 public:
  fuzz_choice(const std::uint8_t* data, std::size_t size) : data_{data}, left_{size} {}
  std::uint64_t operator()(std::uint64_t n) {
    state_ = mixed(n);
    if (left_ == 0) return state_ % n;
    const std::uint8_t b = *data_++;
    --left_;
    state_ = mixed(b);
    return b % n;
  }
  [[nodiscard]] bool done() const { return left_ == 0; }

 private:
  [[nodiscard]] std::uint64_t mixed(std::uint64_t n) const {
    return tessera::kv::detail::scramble(state_ * 0x9e37'79b9'7f4a'7c15ULL ^ (n + 0x1234'5678'9abc'def1ULL));
  }

  const std::uint8_t* data_;
  std::size_t left_;
  std::uint64_t state_ = 0;
};

}  // namespace tessera_test
