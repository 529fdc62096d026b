// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/cache_events.hpp>
#include <tessera/kv/keep_until.hpp>
#include <tessera/kv/prefix_cache.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

/// @file
/// What a prefix cache learns and forgets, kept until Python asks.

namespace tessera_python {

/// A `cache_event_sink` that keeps all of it, however much: next to Python a vector that grows costs nothing. It is off
/// until a caller wants it.
class told_events {
 public:
  using event = tessera::kv::cache_event<std::uint64_t>;
  using block = tessera::kv::cached_block<std::uint64_t>;

  [[nodiscard]] static constexpr std::size_t required_bytes() noexcept { return 0; }
  explicit told_events(tessera::arena& /*memory*/) noexcept {}

  void published(const block& b) noexcept { note({event::kind::stored, b}); }
  void evicted(const block& b) noexcept { note({event::kind::removed, b}); }
  void eviction_undone(const block& b) noexcept {
    if (!all_.empty() && all_.back() == event{event::kind::removed, b}) {
      all_.pop_back();
    } else {
      note({event::kind::stored, b});
    }
  }
  void cleared() noexcept {
    all_.clear();
    note({event::kind::cleared, {}});
  }

  void listen() noexcept { wanted_ = true; }
  [[nodiscard]] const std::vector<event>& waiting() const noexcept { return all_; }
  void forget() noexcept { all_.clear(); }

 private:
  void note(const event& e) noexcept {
    if (wanted_) all_.push_back(e);
  }
  std::vector<event> all_;
  bool wanted_ = false;
};

/// Which cached block goes first: without hints, the least recently used one.
using caching_order = tessera::kv::keep_until<>;

/// A prefix cache, and one that tells.
using silent_cache = tessera::kv::basic_prefix_cache<caching_order>;
using telling_cache = tessera::kv::basic_prefix_cache<caching_order, told_events>;

}  // namespace tessera_python
