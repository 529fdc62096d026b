// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

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

}  // namespace tessera_test
