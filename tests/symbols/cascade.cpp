// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/compose/cascade.hpp>

namespace {

struct port {
  tessera::market::message last{};
  std::uint64_t events = 0;

  void send(const tessera::market::message& m) noexcept { last = m; }
  void copy(const tessera::market::transfer& t) noexcept { events += t.ticket; }
  void kept(tessera::market::request_id r) noexcept { events += r; }
  void released(tessera::market::request_id r) noexcept { events += r; }
  void unresolved(tessera::market::request_id r, tessera::market::peer) noexcept { events += r; }
  void unsold(tessera::market::request_id r) noexcept { events += r; }
  tessera::tokens load() noexcept { return {}; }
  tessera::blocks idle_blocks() noexcept { return {}; }
  bool reserve(const tessera::market::transfer& t) noexcept { return t.ticket != 0; }
  void discard(const tessera::market::transfer& t) noexcept { events += t.ticket; }
  void activate(const tessera::market::transfer& t) noexcept { events += t.ticket; }
};

}  // namespace

template class tessera::cascade_instance<>;

using member = tessera::cascade_instance<>;

std::uint64_t cascade_step(std::span<std::byte> memory, std::span<const tessera::partition::stage> stages,
                           std::span<member::candidate> movable, std::span<const tessera::cost::request_lengths> own,
                           std::span<tessera::cost::request_lengths> scratch, double seconds) {
  member m{memory, {}, stages, {0, 1}};
  port p;
  const auto now = tessera::time_point::at_seconds(seconds);
  m.update(m.report(tessera::tokens{5}));
  m.available(0, true);
  const auto offered = [&p](const member::candidate& r) { p.events += r.request; };
  const std::size_t n = m.hand_over(movable, now, p, offered) + m.rebalance(movable, now, p, offered);
  m.trader().tick(now, p);
  return n + m.map().stage_for(tessera::tokens{7}) + (m.refine(own, own, scratch) ? 1U : 0U) + p.events;
}
