// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gpu/batch_sorter.hpp>

#include <algorithm>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace gpu {

/// Computes on the calling thread, in plain C++. A radix sort from the least significant byte on, which skips bytes in
/// which all keys agree.
class host_backend {
 public:
  /// For a second array of keys, and one of indices.
  [[nodiscard]] static constexpr std::size_t scratch_bytes(std::size_t n) noexcept {
    return workspace_bytes<std::uint64_t>(n) + workspace_bytes<std::uint32_t>(n);
  }

  /// Calls `f(0)` to `f(n - 1)`.
  template <class F>
  [[nodiscard]] bool for_each(std::size_t n, F f) const noexcept {
    for (std::uint32_t i = 0; i != n; ++i) f(i);
    return true;
  }

  /// O(n) for each byte that differs.
  [[nodiscard]] bool sort_pairs(const std::uint64_t* keys, std::uint64_t* sorted, std::uint32_t* order, std::size_t n,
                                unsigned bits, std::byte* scratch) const noexcept {
    workspace space{{scratch, scratch_bytes(n)}};
    auto* other_keys = space.take<std::uint64_t>(n);
    auto* other_order = space.take<std::uint32_t>(n);
    auto* const result = order;
    for (std::size_t i = 0; i != n; ++i) sorted[i] = keys[i], order[i] = static_cast<std::uint32_t>(i);
    auto* const sorted_result = sorted;
    for (unsigned shift = 0; shift < bits; shift += 8) {
      const std::uint64_t mask = bits - shift >= 8 ? 0xFF : (std::uint64_t{1} << (bits - shift)) - 1;
      std::uint32_t start[256] = {};
      for (std::size_t i = 0; i != n; ++i) ++start[sorted[i] >> shift & mask];
      if (start[sorted[0] >> shift & mask] == n) continue;
      std::uint32_t sum = 0;
      for (auto& count : start) sum += std::exchange(count, sum);
      for (std::size_t i = 0; i != n; ++i) {
        const std::uint32_t to = start[sorted[i] >> shift & mask]++;
        other_keys[to] = sorted[i], other_order[to] = order[i];
      }
      std::swap(sorted, other_keys);
      std::swap(order, other_order);
    }
    if (order != result) {
      std::copy_n(order, n, result);
      std::copy_n(sorted, n, sorted_result);
    }
    return true;
  }

  /// O(n).
  [[nodiscard]] bool inclusive_sum(std::uint64_t* data, std::size_t n, std::byte* /*scratch*/) const noexcept {
    for (std::size_t i = 1; i < n; ++i) data[i] += data[i - 1];
    return true;
  }
};

/// The `batch_sorter` of a machine without a GPU, and of batches too small for one. Results are there when a call
/// returns.
using host_sorter = basic_batch_sorter<host_backend>;

}  // namespace gpu
TESSERA_NAMESPACE_END
