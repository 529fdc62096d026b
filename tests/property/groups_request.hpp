// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// A request of groups_world.hpp with its text, and what has come about.

#include <tessera/kv/groups.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/order/round_robin.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera_test {
namespace grouped {

using namespace tessera;
using namespace tessera::literals;

inline std::size_t count(tokens n) { return static_cast<std::size_t>(n.count()); }
inline tokens of(std::size_t n) { return tokens{static_cast<std::int64_t>(n)}; }
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return kv::detail::scramble(a * 31 + b + 7); }

/// A request with a text that depends on its number, and where it is on the device.
template <std::size_t Groups>
struct text_request : request_hook_for<order::round_robin> {
  std::uint64_t id = 0;
  std::size_t output = 1;
  std::vector<std::int32_t> text;       ///< As far as the engine has come.
  std::vector<std::uint64_t> contents;  ///< Contents of the KV of each token, and of the state after it.
  std::array<std::vector<std::uint64_t>, Groups> hashes;

  // Where it is on the device.
  std::size_t computed = 0;
  std::uint64_t epoch = 0;  ///< How often prefixes had been forgotten when it started.
  bool is_fork = false;     ///< No plan with it was run yet.
  bool ended_there = false;

  // What comes from elsewhere.
  std::size_t announced = 0;     ///< Tokens with KV there.
  std::uint64_t kv_epoch = 0;    ///< How often prefixes had been forgotten when that was computed,
  std::uint64_t load_epoch = 0;  ///< and what has been on its way since it started.
  bool has_come = false;         ///< It goes on in the next plan, with what has come.
  std::size_t starts = 0;        ///< How often it has started,
  std::size_t void_starts = 0;   ///< and until when with KV that has not come: what is computed from it does not count.

  [[nodiscard]] std::array<std::span<const std::uint64_t>, Groups> prefix_hashes() const noexcept {
    std::array<std::span<const std::uint64_t>, Groups> all;
    for (std::size_t g = 0; g != Groups; ++g) all[g] = hashes[g];
    return all;
  }
  void append(std::int32_t token) {
    contents.push_back(mix(contents.empty() ? 1 : contents.back(), static_cast<std::uint64_t>(token)));
    text.push_back(token);
  }
  void hash(const std::array<kv::group, Groups>& layers) {
    for (std::size_t g = 0; g != Groups; ++g) {
      hashes[g].resize(text.size() / count(layers[g].block_size));
      kv::hash_chain(text, count(layers[g].block_size), hashes[g]);
    }
  }
  // A slot holds a token's content, and in its low bits the epoch of the request that computed it.
  static constexpr std::uint64_t epochs = 0xffff;
  [[nodiscard]] std::uint64_t written(std::size_t position) const { return written(position, epoch); }
  [[nodiscard]] std::uint64_t written(std::size_t position, std::uint64_t when) const {
    return (contents[position] & ~epochs) | when;
  }
  [[nodiscard]] bool may_read(std::uint64_t kv, std::size_t position) const {
    return ((kv ^ contents[position]) & ~epochs) == 0 && (kv & epochs) >= epoch;
  }
};

/// What has come about.
struct totals {
  std::size_t hits = 0;
  std::size_t preempted = 0;
  std::size_t forks = 0;
  std::size_t refused_drafts = 0;
  std::size_t accepted_drafts = 0;
  std::size_t finished = 0;
  std::size_t void_entries = 0;
  std::size_t late = 0;
  std::size_t loaded = 0;   ///< Requests with KV that has come, all of it,
  std::size_t partly = 0;   ///< or a part, with which they went on,
  std::size_t lost = 0;     ///< or too little.
  std::size_t fetched = 0;  ///< The same for KV that comes with a plan,
  std::size_t spoilt = 0;   ///< or does not.
};

}  // namespace grouped
}  // namespace tessera_test
