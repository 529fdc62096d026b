// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Requests on their way from one instance to another.
#include <tessera/sim/cluster/cluster.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

bool cluster::move(request& r, std::size_t to) {
  if (!takes(to, r)) return false;
  begin_migration(r, to, held(r));
  const tokens all = r.state().computed;
  stop(r);
  start_copy(r, static_cast<double>(all.count()));
  return true;
}

bool cluster::migrate(request& r, std::size_t to) {
  if (!may_migrate(r) || !takes(to, r)) return false;
  begin_migration(r, to, migration_room(held(r)));
  r.migration.stage = migration_stage::copies;
  r.migration.copy =
      migration::live_migration{{.block_size = options_.instance.limits.block_size, .stop_below = blocks{2}}};
  r.migration.copied = r.state().computed;
  wire w{*this, r};
  const migration::next step = r.migration.copy.begin(r.state().computed, r.migration.takes, w);
  TESSERA_ASSERT(step == migration::next::copying, "there is room for what it has");
  static_cast<void>(step);
  return true;
}

void cluster::admit(request& r) {
  TESSERA_ASSERT(r.migration.stage == migration_stage::arrived, "its KV is there, and it runs nowhere");
  arrive_with_kv(r);
}

void cluster::cut_migration(request& r) {
  TESSERA_ASSERT(r.migration.stage != migration_stage::none, "it is being migrated");
  const bool stopped = r.migration.stage == migration_stage::stopped || r.migration.stage == migration_stage::arrived;
  if (asks(r)) notify(r, event_kind::stays, r.where, "its move is called off");
  drop_migration(r);
  if (!stopped) return;
  if (r.state().life == lifecycle::suspended) {
    instances_[r.where].resume(r);
  } else {
    adopt(r);
  }
  wake(r.where);
}

void cluster::recover(request& r) {
  TESSERA_ASSERT(r.migration.stage != migration_stage::none, "it is being migrated");
  const std::size_t of = r.migration.to;
  drop_migration(r);
  if (is_live(r.state().life)) instances_[r.where].evacuate(r);
  look_at(r.where);
  lost(r, of);
}

void cluster::begin_migration(request& r, std::size_t to, blocks takes) {
  TESSERA_ASSERT(to < instances_.size() && to != r.where, "another instance");
  TESSERA_ASSERT(r.migration.stage == migration_stage::none, "not on its way already");
  r.migration = {};
  r.migration.to = to;
  r.migration.takes = takes;
  r.migration.began_s = now_s_;
  moving_.push_back(&r);
  incoming_[to].requests += 1;
  incoming_[to].held += r.migration.takes;
  look_at(to);
  if (!up(to)) sent_to_dead(to, {.requests = 1, .kv_held = takes});
  if (asks(r)) {
    notify(r, event_kind::moves, to,
           fmt::format("from instance {} to {}, {} tokens of KV{}{}", r.where, to, r.state().computed.count(),
                       why_.empty() ? "" : ": ", why_),
           std::move(seen_));
    because({});
  }
}

void cluster::end_migration(request& r) {
  const std::size_t to = r.migration.to;
  incoming_[to].requests -= 1;
  incoming_[to].held -= r.migration.takes;
  r.migration = {};
  std::erase(moving_, &r);
  look_at(to);
}

void cluster::start_copy(const request& r, double length) {
  if (!up(r.migration.to)) return;  // nothing arrives there
  const double size = options_.kv_bytes_per_token * length;
  fabric_.start(now_s_, r.where, r.migration.to, bytes{static_cast<std::int64_t>(size)}, r.index);
}

void cluster::stop(request& r) {
  if (r.state().life == lifecycle::resident) {
    instances_[r.where].suspend(r);
  } else {
    instances_[r.where].evacuate(r);
  }
  look_at(r.where);
  r.migration.stage = migration_stage::stopped;
  r.migration.stopped_s = now_s_;
  if (asks(r)) notify(r, event_kind::stops, r.where, "until the rest of its KV has crossed");
}

void cluster::copied(request& r) {
  if (r.migration.stage == migration_stage::stopped) return arrive(r);
  TESSERA_ASSERT(r.migration.stage == migration_stage::copies, "nothing is being copied");
  if (!still_there(r)) return fail_migration(r);
  wire w{*this, r};
  const migration::next step = r.migration.copy.copied(r.state().computed, w);
  r.migration.copied = r.state().computed;
  if (step == migration::next::copying) return;
  r.migration.stage = migration_stage::stops;
  stopping_.push_back(&r);
  if (!instances_[r.where].running()) stop_those_on(r.where);
}

void cluster::stop_those_on(std::size_t i) {
  for (std::size_t k = 0; k != stopping_.size();) {
    request& r = *stopping_[k];
    if (r.where != i) {
      ++k;
      continue;
    }
    stopping_.erase(stopping_.begin() + static_cast<std::ptrdiff_t>(k));
    if (!still_there(r)) {
      fail_migration(r);
      continue;
    }
    wire w{*this, r};
    const migration::next step = r.migration.copy.stopped(r.state().computed, w);
    if (step == migration::next::over) {
      fail_migration(r);
      continue;
    }
    stop(r);
    if (step == migration::next::hand_over) arrive(r);
  }
}

void cluster::arrive(request& r) {
  r.migration.stage = migration_stage::arrived;
  control_->arrived(*this, r);
}

void cluster::fail_migration(request& r) {
  if (asks(r)) notify(r, event_kind::stays, r.where, "it has ended, or lost its blocks, before its KV was copied");
  drop_migration(r);
  control_->migration_failed(*this, r);
}

void cluster::drop_migration(request& r) {
  if (fabric_.carries(r.index)) fabric_.cancel(now_s_, r.index);
  std::erase(stopping_, &r);
  end_migration(r);
}

void cluster::arrive_with_kv(request& r) {
  recorder_.facts.kv_transfers.push_back(now_s_ - r.migration.began_s);
  recorder_.result.downtimes.push_back(now_s_ - r.migration.stopped_s);
  const std::size_t from = r.where;
  if (asks(r)) {
    notify(r, event_kind::moved, r.migration.to,
           fmt::format("its KV took {:.4g} s, of which it stood still {:.4g} s", now_s_ - r.migration.began_s,
                       now_s_ - r.migration.stopped_s));
  }
  if (r.state().life == lifecycle::suspended) instances_[from].evacuate(r);
  r.where = r.migration.to;
  ++r.migrations;
  end_migration(r);
  adopt(r);
  control_->moved(*this, r);
  wake(r.where);
  wake(from);
}

void cluster::adopt(request& r) {
  fit(r, r.where);
  const status adopted = instances_[r.where].adopt(r);
  TESSERA_ASSERT(ok(adopted), "nothing is moved to where it does not fit");
  static_cast<void>(adopted);
}

void cluster::wake(std::size_t i) {
  if (!instances_[i].running() && i != ending_) begin_step(i);
  look_at(i);
}

}  // namespace sim
TESSERA_NAMESPACE_END
