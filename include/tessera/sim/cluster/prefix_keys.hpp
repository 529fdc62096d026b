// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What a router hashes of a prompt if it hears nothing of caches: the beginning of the prompt. It has 32 blocks. That
/// is doubled as long as the latest requests that begin alike are more than one instance's share. A system prompt that
/// all requests have is no key: all would go to the same instances. So the length of a key follows the traffic, as
/// DualMap's does.
class prefix_keys {
 public:
  /// For a cluster of `instances` instances. An instance's share is at least one request.
  explicit prefix_keys(std::size_t instances) noexcept
      : share_{std::max<std::size_t>(window / std::max<std::size_t>(instances, 1), 1)} {}

  /// The key of a request with these hashes of its full blocks; `own` if there are none. O(log blocks).
  std::uint64_t operator()(std::span<const std::uint64_t> hashes, std::uint64_t own) {
    if (hashes.empty()) return own;
    std::vector<std::uint64_t> begins;
    for (std::size_t n = shortest;; n *= 2) {
      begins.push_back(hashes[std::min(n, hashes.size()) - 1]);
      if (n >= hashes.size()) break;
    }
    std::uint64_t key = begins.back();
    for (const std::uint64_t h : begins) {
      const auto seen = seen_.find(h);
      if (seen != seen_.end() && seen->second > share_) continue;
      key = h;
      break;
    }
    for (const std::uint64_t h : begins) ++seen_[h];
    latest_.push_back(std::move(begins));
    if (latest_.size() > window) {
      for (const std::uint64_t h : latest_.front()) {
        if (--seen_[h] == 0) seen_.erase(h);
      }
      latest_.pop_front();
    }
    return key;
  }

 private:
  static constexpr std::size_t window = 512;   ///< Requests that are remembered.
  static constexpr std::size_t shortest = 32;  ///< Blocks.

  std::size_t share_;
  std::deque<std::vector<std::uint64_t>> latest_;
  std::unordered_map<std::uint64_t, std::size_t> seen_;  ///< How many of the latest begin so.
};

}  // namespace sim
TESSERA_NAMESPACE_END
