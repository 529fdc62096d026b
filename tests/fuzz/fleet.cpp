// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A router's book between replicas and requests that say anything. Reports are made of bytes, with incarnations and
// epochs near those that count, mixed with the router's own calls. Nothing that comes from outside may stop the
// program. No count of a view may be negative, no request is moved that was never placed, and a lease later the book is
// empty.

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/migrate_when_tight.hpp>

#include "support/fuzz_bytes.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>

namespace {

using namespace tessera;

void require(bool condition) {
  if (!condition) std::abort();
}

using input = tessera_test::fuzz_bytes;

fleet::load some_load(input& in) {
  fleet::load l;
  l.requests = in.count();
  l.kv_held = blocks{static_cast<std::int64_t>(in.count())};
  l.waiting_blocks = blocks{static_cast<std::int64_t>(in.count())};
  l.reasoning = in.count();
  l.fresh_answers = in.count();
  l.prefill_flops = in.byte() < 240 ? 1.0 : std::bit_cast<double>(in.number());
  return l;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ledger = fleet::ledger<>;
  auto storage = storage_for<ledger>({.replicas = 4, .reservations = 16, .moves = 4});
  ledger l{storage, {.lease = 20_s, .silence = 5_s, .rest = 1_s, .tight = 20_blk}};
  placement::least_load policy;
  placement::migrate_when_tight migration{.headroom = 20_blk};
  std::set<fleet::request_id> placed;
  double now_s = 0;
  input in{data, size};
  while (!in.done()) {
    const std::uint64_t what = in.byte();
    const auto id = static_cast<fleet::replica_id>(in.byte() % 6);
    const fleet::request_id request = in.byte() % 24;
    const time_point now = time_point::at_seconds(now_s);
    switch (what % 12) {
      case 0: {
        fleet::replica r;
        r.capacity = blocks{static_cast<std::int64_t>(in.count())};
        static_cast<void>(l.join(id, in.byte() % 4, r, now));
        break;
      }
      case 1: l.fence(id, in.byte() % 4, [&](const fleet::orphan& o) { require(placed.count(o.request) == 1); }); break;
      case 2: in.byte() % 2 == 0 ? l.drain(id) : l.lost(id, in.byte() % 4); break;
      case 3:
      case 4: {
        fleet::report r;
        r.incarnation = in.byte() % 4;
        r.epoch = in.byte();
        r.all = some_load(in);
        const std::uint64_t tells = in.byte();
        if (tells % 2 == 0) r.own = some_load(in);
        if (tells % 3 == 0) r.free = blocks{static_cast<std::int64_t>(in.count())};
        l.receive(id, r, now);
        break;
      }
      case 5: {
        const auto best = l.rank(policy, 2);
        const fleet::replica_id to = best.empty() ? id : best.front();
        const auto prompt = static_cast<std::int64_t>(in.count());
        const tokens cached{what < 128 ? 0 : prompt / 2};
        if (ok(l.reserve(request, to, {.prompt = tokens{prompt}, .cached = cached}, now))) placed.insert(request);
        break;
      }
      case 6: {
        const tokens n{static_cast<std::int64_t>(in.byte())};
        what < 128 ? l.progress(request, id, n, now) : l.cache_hit(request, id, n, now);
        break;
      }
      case 7: l.answers(request, id, now); break;
      case 8: in.byte() % 2 == 0 ? l.release(request, id) : l.moved(request, id, now); break;
      case 9:
        for (const fleet::move& m : l.propose_moves(migration, now)) {
          require(placed.count(m.request) == 1 && m.from != m.to && l.reserved(m.request, m.to));
        }
        break;
      case 10: l.asked(id); break;
      default:
        now_s += static_cast<double>(in.byte()) / 16;
        l.expire(time_point::at_seconds(now_s));
        break;
    }
    const auto shown = l.shown();
    for (std::size_t i = 0; i != shown.size(); ++i) {
      const fleet::view& v = shown[i];
      require(l.others(static_cast<fleet::replica_id>(v.id)).kv_held >= 0_blk &&
              v.kv_held <= blocks{std::int64_t{1} << 50U});
      require(v.kv_held >= 0_blk && v.waiting_blocks >= 0_blk && v.free_blocks >= 0_blk &&
              v.free_blocks <= v.capacity && v.phi == v.phi);
    }
  }
  l.expire(time_point::at_seconds(now_s + 20));
  require(l.size() == 0 && l.moving() == 0);
  for (fleet::replica_id id = 0; id != 4; ++id) require(!l.contains(id) || l.own(id) == fleet::load{});
  return 0;
}
