// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Traders with messages that arrive when the test says.

#include <tessera/market/trader.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tessera_test::market_exchange {

using namespace tessera;
using namespace tessera::literals;
using market::message;
using market::message_kind;
using market::request_id;
using trader = market::trader<>;

/// A port that writes everything down. Its engine has what the test says.
struct book {
  std::vector<message> sent{};
  std::vector<market::transfer> copies{};
  std::vector<market::transfer> active{};
  std::vector<market::transfer> discarded{};
  std::vector<request_id> kept_back{};
  std::vector<request_id> gone{};
  std::vector<request_id> open{};
  std::vector<request_id> left_over{};
  tokens own_load{};
  blocks idle{1000};
  bool gives_back = true;  ///< Whether discarded blocks are idle again.
  std::size_t reserve_calls = 0;

  book() {
    sent.reserve(1000);
    copies.reserve(100);
    active.reserve(100);
    discarded.reserve(100);
    kept_back.reserve(100);
  }
  void send(const message& m) noexcept { sent.push_back(m); }
  void copy(const market::transfer& t) noexcept { copies.push_back(t); }
  void kept(request_id r) noexcept { kept_back.push_back(r); }
  void released(request_id r) noexcept { gone.push_back(r); }
  void unresolved(request_id r, market::peer) noexcept { open.push_back(r); }
  void unsold(request_id r) noexcept { left_over.push_back(r); }
  tokens load() noexcept { return own_load; }
  blocks idle_blocks() noexcept { return idle; }
  bool reserve(const market::transfer& t) noexcept {
    ++reserve_calls;
    if (t.room > idle) return false;
    idle -= t.room;
    return true;
  }
  void discard(const market::transfer& t) noexcept {
    if (gives_back) idle += t.room;
    discarded.push_back(t);
  }
  void activate(const market::transfer& t) noexcept { active.push_back(t); }

  [[nodiscard]] std::size_t count(message_kind k) const {
    return static_cast<std::size_t>(
        std::count_if(sent.begin(), sent.end(), [k](const message& m) { return m.kind == k; }));
  }
  [[nodiscard]] const message& last(message_kind k) const {
    const auto found = std::find_if(sent.rbegin(), sent.rend(), [k](const message& m) { return m.kind == k; });
    REQUIRE(found != sent.rend());
    return *found;
  }
};

/// Instances with messages that arrive when the test says, in the order in which they were sent.
struct exchange {
  explicit exchange(std::size_t n, const trader::config& config = {}, std::size_t purchases = 8) : books(n) {
    for (std::size_t i = 0; i != n; ++i) {
      storage.push_back(std::make_unique<owned_storage<trader::limits>>(
          storage_for<trader>({.instances = n, .offers = 16, .purchases = purchases})));
      traders.push_back(
          std::make_unique<trader>(*storage.back(), market::peer{static_cast<std::uint32_t>(i), 1}, config));
      seen.push_back(0);
    }
  }
  trader& operator[](std::size_t i) { return *traders[i]; }

  status offer(std::size_t from, request_id r, std::int64_t length, std::vector<market::instance_id> to) {
    return traders[from]->offer(r, 0, tokens{length}, blocks{(length + 15) / 16}, to, now, books[from]);
  }
  void step(double seconds) {
    now += duration::from_seconds(seconds);
    for (std::size_t i = 0; i != traders.size(); ++i) traders[i]->tick(now, books[i]);
  }
  /// Delivers all that has been sent, and what is sent in answer.
  void settle() {
    for (bool any = true; any;) {
      any = false;
      for (std::size_t i = 0; i != books.size(); ++i) {
        while (seen[i] != books[i].sent.size()) {
          const message m = books[i].sent[seen[i]++];
          any = true;
          if (cut.empty() || std::find(cut.begin(), cut.end(), m.kind) == cut.end()) {
            static_cast<void>(traders[m.to.id]->receive(m, now, books[m.to.id]));
          }
        }
      }
    }
  }

  std::vector<std::unique_ptr<owned_storage<trader::limits>>> storage;
  std::vector<std::unique_ptr<trader>> traders;
  std::vector<book> books;
  std::vector<std::size_t> seen;
  std::vector<message_kind> cut;  // kinds that are lost
  time_point now{};
};

}  // namespace tessera_test::market_exchange
