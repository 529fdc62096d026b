// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/market/trader.hpp>
#include <tessera/market/triggers.hpp>

namespace {

/// A port for an engine that is elsewhere: a ring of messages and a few numbers.
struct ring {
  tessera::market::message sent[64];
  std::size_t next = 0;
  tessera::blocks idle{};
  std::uint64_t events = 0;

  void send(const tessera::market::message& m) noexcept { sent[next++ % 64] = m; }
  void copy(const tessera::market::transfer& t) noexcept { events += t.ticket; }
  void kept(tessera::market::request_id r) noexcept { events += r; }
  void released(tessera::market::request_id r) noexcept { events += r; }
  void unresolved(tessera::market::request_id r, tessera::market::peer) noexcept { events += r; }
  void unsold(tessera::market::request_id r) noexcept { events += r; }
  tessera::tokens load() noexcept { return {}; }
  tessera::blocks idle_blocks() noexcept { return idle; }
  bool reserve(const tessera::market::transfer& t) noexcept { return t.room <= idle; }
  void discard(const tessera::market::transfer& t) noexcept { events += t.ticket; }
  void activate(const tessera::market::transfer& t) noexcept { events += t.ticket; }
};

}  // namespace

template class tessera::market::trader<>;

std::uint64_t trade(std::span<std::byte> memory, std::span<const tessera::market::instance_id> others,
                    std::span<const tessera::market::message> messages, std::span<tessera::market::bid> bids,
                    std::span<const tessera::tokens> demands, double seconds) {
  tessera::market::trader<> t{memory, {}, {0, 1}};
  ring p;
  const auto now = tessera::time_point::at_seconds(seconds);
  static_cast<void>(t.offer(1, 0, tessera::tokens{10}, tessera::blocks{1}, others, now, p));
  static_cast<void>(t.assign(2, 0, tessera::tokens{10}, tessera::blocks{1}, 3, now, p));
  for (const auto& m : messages) static_cast<void>(t.receive(m, now, p));
  t.tick(now, p);
  static_cast<void>(t.hand_over(1, now, p));
  static_cast<void>(t.withdraw(2, now, p));
  static_cast<void>(t.update(1, tessera::tokens{11}, tessera::blocks{1}));
  static_cast<void>(t.refuse(3, now, p));
  t.peer_failed({1, 1}, now, p);
  t.pause();
  t.resume();
  return p.events + t.transfers() + tessera::market::select_bids(bids) +
         static_cast<std::uint64_t>(tessera::market::rebalance{}.excess(demands, 0).count());
}
