// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/units.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

/// @file
/// The features that determine the cost of a batch (CascadeInfer, section 4.1), kept up to date as requests come, grow
/// and go.

TESSERA_NAMESPACE_BEGIN
namespace cost {

/// Two lengths of a request, in tokens.
struct request_lengths {
  tokens input{};   ///< I: the prompt. 0 to `length`.
  tokens length{};  ///< L: prompt and output, so far (a running batch) or in the end (a sample to plan with).

  /// Memberwise.
  friend constexpr bool operator==(const request_lengths&, const request_lengths&) noexcept = default;
};

/// Longest request that the cost model takes.
inline constexpr tokens max_length{std::int64_t{1} << 31};

/// F0..F4 of one batch: 1, n, sum of I, sum of I^2, sum of L.
using feature_vector = std::array<double, 5>;

/// The sums behind the features of a batch. Exact integers, so any order of calls that ends in the same batch ends in
/// the same sums. Every call is O(1) and allocates nothing.
class batch_features {
 public:
  /// A request joins. Requires 0 <= input <= length <= `max_length`, and a batch with a sum of I^2 below 2^63
  /// (asserted): 8 million prompts of a million tokens.
  void join(const request_lengths& r) noexcept {
    const std::int64_t i = r.input.count();
    TESSERA_ASSERT(i >= 0 && r.input <= r.length && r.length <= max_length,
                   "a request's input is at most its length, its length at most max_length");
    TESSERA_ASSERT(input_squared_ <= std::numeric_limits<std::int64_t>::max() - i * i, "the sum of I^2 leaves 64 bits");
    ++n_;
    input_ += i;
    input_squared_ += i * i;
    length_ += r.length.count();
  }
  /// A request of the batch has `by` tokens more. Requires a request in the batch and `by >= 0` (asserted).
  void grow(tokens by = tokens{1}) noexcept {
    TESSERA_ASSERT(n_ > 0 && by.count() >= 0, "only a request of the batch grows, and never backwards");
    length_ += by.count();
  }
  /// A request leaves, with the lengths it has now. Requires that it is in the batch (asserted as far as sums tell).
  void leave(const request_lengths& r) noexcept {
    const std::int64_t i = r.input.count();
    TESSERA_ASSERT(n_ > 0 && i >= 0 && r.input <= r.length && i <= input_ && r.length <= max_length &&
                       i * i <= input_squared_ && r.length.count() <= length_,
                   "the request that leaves is not in this batch");
    --n_;
    input_ -= i;
    input_squared_ -= i * i;
    length_ -= r.length.count();
    TESSERA_ASSERT(n_ != 0 || (input_ == 0 && input_squared_ == 0 && length_ == 0),
                   "the request that leaves is not in this batch");
  }

  /// n. O(1).
  [[nodiscard]] std::int64_t requests() const noexcept { return n_; }
  [[nodiscard]] tokens input() const noexcept { return tokens{input_}; }                ///< Sum of I.
  [[nodiscard]] std::int64_t input_squared() const noexcept { return input_squared_; }  ///< Sum of I^2.
  [[nodiscard]] tokens length() const noexcept { return tokens{length_}; }              ///< Sum of L.

  /// F0..F4. Each is exact up to 2^53, and correctly rounded beyond.
  [[nodiscard]] feature_vector features() const noexcept {
    return {1.0, static_cast<double>(n_), static_cast<double>(input_), static_cast<double>(input_squared_),
            static_cast<double>(length_)};
  }

  /// Memberwise.
  friend bool operator==(const batch_features&, const batch_features&) noexcept = default;

 private:
  std::int64_t n_ = 0;
  std::int64_t input_ = 0;
  std::int64_t input_squared_ = 0;
  std::int64_t length_ = 0;
};

}  // namespace cost
TESSERA_NAMESPACE_END
