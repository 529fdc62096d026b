// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// One trader among peers that say anything. Messages are made of bytes, mixed with the calls of its engine. They have
// numbers that it has used itself, so that they mean something. It must not stop the program, and must keep to its own
// books. There are at most three transfers. Reserved blocks are activated or discarded exactly once. A request is given
// back or released only when it was in transfer, and when all peers are dead nothing is left.

#include <tessera/market/trader.hpp>

#include "support/fuzz_bytes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <vector>

namespace {

using namespace tessera;
using market::message;
using market::message_kind;
using market::request_id;
using trader = market::trader<>;

void require(bool condition) {
  if (!condition) std::abort();
}

using input = tessera_test::fuzz_bytes;

struct engine {
  std::int64_t idle = 64;
  std::map<std::uint64_t, market::transfer> reserved{};  // by ticket
  std::set<request_id> copying{};
  std::set<request_id> granted{};
  std::set<request_id> on_offer{};
  std::vector<message> said{};

  void send(const message& m) noexcept {
    require(market::well_formed(m) && m.from == (market::peer{0, 2}) && m.to.id != 0 && m.to.id < 5);
    said.push_back(m);
  }
  void copy(const market::transfer& t) noexcept {
    require(on_offer.count(t.request) != 0 && granted.count(t.request) == 0 && copying.insert(t.request).second);
  }
  void kept(request_id r) noexcept { require(copying.erase(r) + granted.erase(r) == 1); }
  void released(request_id r) noexcept { require(granted.erase(r) == 1 && on_offer.erase(r) == 1); }
  void unresolved(request_id r, market::peer) noexcept { require(granted.erase(r) == 1 && on_offer.erase(r) == 1); }
  void unsold(request_id r) noexcept { require(on_offer.erase(r) == 1); }
  tokens load() noexcept { return tokens{100}; }
  blocks idle_blocks() noexcept { return blocks{idle}; }
  bool reserve(const market::transfer& t) noexcept {
    if (t.room.count() > idle) return false;
    idle -= t.room.count();
    require(reserved.emplace(t.ticket, t).second);
    return true;
  }
  void discard(const market::transfer& t) noexcept {
    require(reserved.erase(t.ticket) == 1);
    idle += t.room.count();
  }
  void activate(const market::transfer& t) noexcept {
    require(reserved.count(t.ticket) == 1 && reserved[t.ticket].request == t.request);
    require(reserved[t.ticket].other == t.other);
    reserved.erase(t.ticket);
    idle += t.room.count();  // and it ends at once
  }
};

message any_message(input& in, const engine& e) {
  message m;
  m.kind = static_cast<message_kind>(in.byte() % (market::message_kinds + 1U));
  const std::uint64_t shape = in.byte();
  if ((shape & 1U) != 0 || e.said.empty()) {
    m.from = {static_cast<std::uint32_t>(in.byte() % 6), static_cast<std::uint32_t>(in.byte() % 4)};
    m.to = {static_cast<std::uint32_t>(in.byte() % 8 == 7 ? 1 : 0), static_cast<std::uint32_t>(in.byte() % 4)};
    m.request = in.byte() % 16;
    m.offer = in.byte();
    m.ticket = in.byte();
  } else {
    // An answer to something that it has said.
    const std::size_t back = std::min<std::size_t>(in.byte(), e.said.size() - 1);
    const message& to = e.said[e.said.size() - 1 - back];
    m.from = to.to;
    if (m.from.incarnation == 0) m.from.incarnation = 1;
    m.to = to.from;
    m.request = to.request;
    m.offer = to.offer;
    m.ticket = to.ticket;
    m.candidate = to.candidate;
  }
  m.starving = (shape & 2U) != 0;
  m.length = tokens{static_cast<std::int64_t>(in.byte())};
  m.size = blocks{static_cast<std::int64_t>(in.byte() % 20)};
  m.load = tokens{static_cast<std::int64_t>(in.byte())};
  if ((shape & 4U) != 0) m.ticket += in.byte();
  if ((shape & 8U) != 0) m.offer = in.number();
  if ((shape & 16U) != 0) m.length = tokens{static_cast<std::int64_t>(in.number())};
  if ((shape & 32U) != 0) m.start = static_cast<double>(in.number()) - 9e18;
  if ((shape & 64U) != 0) m.candidate = static_cast<std::uint16_t>(in.number());
  return m;
}

void check(const trader& t, const engine& e) {
  require(t.transfers() == e.copying.size() + e.reserved.size());
  require(t.transfers() <= 3 && t.selling().outgoing() == e.copying.size() && e.copying.size() <= 1);
  require(t.selling().size() == e.on_offer.size() && t.selling().size() <= 3 && t.buying().size() <= 4);
  require(t.selling().load() >= tokens{} && t.buying().buffered() >= tokens{} && t.buying().throughput() >= 1);
  require(e.idle >= 0);
  for (const request_id r : e.granted) require(t.selling().granted(r));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  input in{data, size};
  auto memory = storage_for<trader>({.instances = 5, .offers = 3, .purchases = 4});
  trader t{memory, {0, 2}};
  engine e;
  double seconds = 0;
  while (!in.done()) {
    const time_point now = time_point::at_seconds(seconds);
    const request_id r = 1 + in.byte() % 12;
    switch (in.byte() % 16) {
      case 0: {
        std::vector<market::instance_id> to;
        for (std::uint64_t mask = in.byte(), i = 0; i != 6; ++i) {
          if ((mask >> i & 1U) != 0) to.push_back(static_cast<market::instance_id>(i));
        }
        const bool fresh = e.on_offer.insert(r).second;
        const status s = t.offer(r, 1, tokens{20}, blocks{2}, to, now, e);
        if (s != status::ok && fresh) e.on_offer.erase(r);
        require(s != status::ok || fresh);
        break;
      }
      case 1: {
        const bool fresh = e.on_offer.insert(r).second;
        const status s = t.assign(r, 1, tokens{20}, blocks{2}, static_cast<market::instance_id>(in.byte() % 6), now, e);
        if (s != status::ok && fresh) e.on_offer.erase(r);
        break;
      }
      case 2: {
        const status s = t.withdraw(r, now, e);
        require((s == status::ok) == (e.on_offer.count(r) != 0 && e.granted.count(r) == 0));
        if (s == status::ok) {
          e.on_offer.erase(r);
          e.copying.erase(r);
        }
        break;
      }
      case 3:
      case 4: {
        if (e.copying.empty()) break;
        const request_id c = *e.copying.begin();
        // What the grant sets free may be used before the call returns: the books must be right before it.
        e.copying.erase(c);
        e.granted.insert(c);
        const status s = t.hand_over(c, now, e);
        if (s != status::ok) {
          require(s == status::exhausted && e.granted.erase(c) == 1 && e.on_offer.erase(c) == 1);
        }
        break;
      }
      case 5: static_cast<void>(t.update(r, tokens{static_cast<std::int64_t>(in.byte())}, blocks{2})); break;
      case 14: static_cast<void>(t.update(r, tokens{static_cast<std::int64_t>(in.number())}, blocks{2})); break;
      case 6: static_cast<void>(t.refuse(r, now, e)); break;
      case 7:
        t.peer_failed({static_cast<std::uint32_t>(1 + in.byte() % 4), static_cast<std::uint32_t>(in.byte() % 4)}, now,
                      e);
        break;
      case 8:
      case 9:
        seconds += static_cast<double>(in.byte()) / 256;
        t.tick(time_point::at_seconds(seconds), e);
        break;
      default: static_cast<void>(t.receive(any_message(in, e), now, e));
    }
    check(t, e);
  }
  for (std::uint32_t i = 1; i != 5; ++i) t.peer_failed({i, 100}, time_point::at_seconds(seconds), e);
  check(t, e);
  require(t.transfers() == 0 && t.buying().size() == 0 && e.granted.empty() && e.idle == 64);
  while (!e.on_offer.empty()) {
    const request_id r = *e.on_offer.begin();
    e.on_offer.erase(e.on_offer.begin());
    require(t.withdraw(r, time_point::at_seconds(seconds), e) == status::ok);
  }
  require(t.selling().size() == 0 && t.selling().load() == tokens{});
  return 0;
}
