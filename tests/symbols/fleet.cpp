// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A router's book with every policy that it can be asked with, and what goes with it.

#include <tessera/fleet/headroom_book.hpp>
#include <tessera/fleet/kv_transfer.hpp>
#include <tessera/fleet/learned_lengths.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/fleet/retry.hpp>
#include <tessera/fleet/stitch.hpp>
#include <tessera/fleet/traffic_memory.hpp>
#include <tessera/placement/fill_to_level.hpp>
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/migrate_to_headroom.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/placement/power_of_two.hpp>
#include <tessera/placement/prefix_affinity.hpp>
#include <tessera/placement/stay_in_range.hpp>

#include <span>

using namespace tessera;

template class tessera::fleet::ledger<>;
template class tessera::fleet::ledger<nanoseconds_clock>;
template class tessera::fleet::headroom_book<>;

// The parts of a `layout_controller`, which itself is called by virtual functions.
double use_parts(fleet::headroom_book<>& b, const fleet::candidates<>& all, fleet::traffic_memory& m,
                 fleet::learned_lengths& l, std::span<const fleet::seen_output> seen,
                 const fleet::request_view& r) noexcept {
  m.arrived(r, 1, 2);
  m.progressed(r);
  m.answers(r);
  m.look(3, 4);
  m.forget_half();
  l.learn(seen);
  l.learn_distributions(seen);
  l.ended(1, r.prompt, r.generated);
  return static_cast<double>(b.choose(all, r.prompt, l.spread_of(l.expected_of(1, r.prompt)), true, true)) +
         m.rate_lately(1) + m.rate() + l.drift() + (m.ended(r) && m.held(4) && m.queue_grows(4, 0.1) ? 1 : 0) +
         static_cast<double>(m.sample().size() + m.newer_ended());
}

struct by_table {
  const tokens* cached;
  tokens operator()(fleet::replica_id id) const noexcept { return cached[id]; }
};

std::size_t use_ranks(fleet::ledger<>& l, const tokens* cached) noexcept {
  placement::least_kv kv;
  placement::least_load load;
  placement::join_shortest_queue queue;
  placement::pascal_arrival pascal;
  placement::power_of_two two;
  placement::highest_phi phi;
  placement::fill_to_level<> level;
  placement::fill_to_level<placement::by_blocks> blocks_level;
  placement::fill_to_level<placement::by_phi> phi_level;
  placement::prefix_affinity affinity;
  return l.rank(kv).size() + l.rank(load).size() + l.rank(queue, 3).size() + l.rank(pascal).size() +
         l.rank(two).size() + l.rank(phi).size() + l.rank(level).size() + l.rank(blocks_level).size() +
         l.rank(phi_level).size() + l.rank(affinity, fleet::prefix<by_table>{tokens{100}, 1, {cached}}).size();
}

std::size_t use_moves(fleet::ledger<>& l, control::flow_controller& roles, double seconds) noexcept {
  placement::migrate_when_tight tight;
  placement::migrate_to_headroom headroom;
  placement::pascal_migrate_adaptively pascal;
  placement::stay_in_range range;
  const time_point now = time_point::at_seconds(seconds);
  return l.propose_moves(tight, now).size() + l.propose_moves(headroom, now).size() +
         l.propose_moves(pascal, now).size() + l.propose_moves(range, now).size() + (l.propose_roles(roles) ? 1 : 0);
}

std::uint64_t use_requests(fleet::ledger<>& l, const fleet::report& r, std::uint64_t request, std::uint32_t id,
                           double seconds) noexcept {
  const time_point now = time_point::at_seconds(seconds);
  std::uint64_t sum = static_cast<std::uint64_t>(l.join(id, 1, {.capacity = blocks{9}}, now)) +
                      static_cast<std::uint64_t>(l.receive(id, r, now));
  sum += static_cast<std::uint64_t>(l.reserve(request, id, {.prompt = tokens{10}}, now));
  for (const bool done : {l.first_token(request, id, now), l.progress(request, id, tokens{2}, now),
                          l.answers(request, id, now), l.cache_hit(request, id, tokens{3}, now),
                          l.moved(request, id, now), l.release(request, id), l.lost(id, 1), l.drain(id)}) {
    sum += done ? 1U : 0U;
  }
  sum += l.fence(id, 1, [&](const fleet::orphan& o) noexcept { sum += o.request; });
  l.expire(now, [&](fleet::request_id gone, fleet::replica_id) noexcept { sum += gone; });
  return sum;
}

bool use_streams(fleet::stitch& s, fleet::retries& r, tokens at) noexcept {
  return s.on(at, fleet::plan_export(at, tokens{16}).covers).hole || s.end(at) || r.after(fleet::failure::died);
}
