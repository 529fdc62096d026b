// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What goes wrong: instances that die, hang or are slow.
#include <tessera/sim/cluster/cluster.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

double cluster::joules_since(double begin_s) const {
  double sum = 0;
  for (std::size_t i = 0; i != instances_.size(); ++i) {
    const instance_options& o = options_.of(i);
    if (!(o.busy_watts > 0)) return never;
    sum += o.idle_watts * (now_s_ - begin_s) + (o.busy_watts - o.idle_watts) * instances_[i].busy_s();
  }
  return sum;
}

void cluster::happens(double at_s, fault_event e) {
  e.at_s = at_s;
  e.number = faults_set_++;
  fault_events_.push(e);
}

void cluster::handle(const fault_event& e) {
  if (e.what == fault_event::is_known) {
    if (!up(e.of) && health_[e.of].deaths == e.deaths) put_out_of_service(e.of);
    return;
  }
  const fault& f = options_.faults[e.of];
  health& h = health_[f.instance];
  const bool begins = e.what == fault_event::begins;
  if (begins) --recorder_.facts.faults.missed;
  // A dead instance does not die again, and does not hang.
  switch (f.kind) {
    case fault_kind::dies:
      if (begins && h.up) die(e.of);
      if (!begins && !h.up && h.of == e.of) come_back(f.instance);
      break;
    case fault_kind::hangs:
      if (begins && h.up) hang(e.of);
      if (!begins && h.up && !instances_[f.instance].running()) begin_step(f.instance);
      break;
    case fault_kind::slows:
      if (begins) happens(f.at_s + f.for_s, {.what = fault_event::ends, .of = e.of});
      begins ? slow_.push_back(e.of) : static_cast<void>(std::erase(slow_, e.of));
      double factor = 1;
      for (const std::size_t k : slow_)
        factor *= options_.faults[k].instance == f.instance ? options_.faults[k].factor : 1;
      instances_[f.instance].slow_down(factor);
      break;
  }
}

void cluster::die(std::size_t k) {
  const fault& f = options_.faults[k];
  const std::size_t i = f.instance;
  health& h = health_[i];
  h.queued_blocks = instances_[i].queued_blocks();
  h.up = false;
  h.of = k;
  h.hangs_until_s = -no_event;
  h.returns_s = f.at_s + f.for_s;
  ++h.deaths;
  --up_;
  ++recorder_.facts.faults.deaths;
  if (h.returns_s < no_event) happens(h.returns_s, {.what = fault_event::ends, .of = k});
  happens(f.at_s + options_.detection_s, {.what = fault_event::is_known, .of = i, .deaths = h.deaths});
  if (instances_[i].running()) {
    ends_.update([i](auto& ends) { std::erase_if(ends, [i](const step_end& e) { return e.instance == i; }); });
  }
  stranded_total_ -= stranded_[i];
  stranded_[i] = blocks{};
  const std::vector<request*> moving = moving_;
  std::vector<request*> adrift;  // their KV was on its way from here, and is nowhere else
  for (request* r : moving) {
    if (fabric_.carries(r->index) && (r->where == i || r->migration.to == i)) fabric_.cancel(now_s_, r->index);
    if (r->where != i) continue;
    if (!is_live(r->state().life)) adrift.push_back(r);
    drop_migration(*r);
  }
  instances_[i].die(now_s_, [&](request& r) { lost(r, i); });
  for (request* r : adrift) lost(*r, i);
}

void cluster::lost(request& r, std::size_t of) {
  r.where = of;
  if (asks(r)) {
    notify(r, event_kind::lost, of,
           fmt::format("the instance has died: KV of {} tokens is lost", r.state().computed.count()));
  }
  r.recoveries += 1;
  recorder_.facts.faults.recovered += 1;
  recorder_.facts.faults.recomputed += static_cast<double>(r.state().computed.count());
  if (r.state().computed > tokens{} && r.preempted_since_s < 0) r.preempted_since_s = now_s_;
  health_[of].asked.push_back({&r, r.state().arrived.seconds()});
}

void cluster::put_out_of_service(std::size_t i) {
  health_[i].in_service = false;
  ++health_[i].known;
  ++out_;
  instances_[i].forget_prefixes();  // not before: policies that place by prefixes do not know of the death either
  control_->failed(*this, i);
  const std::vector<request*> moving = moving_;
  for (request* r : moving) {
    if (r->migration.stage == migration_stage::none || r->migration.to != i) continue;
    cut_migration(*r);
    control_->migration_failed(*this, *r);
  }
  const std::vector<asking> asked = std::exchange(health_[i].asked, {});
  for (const asking& a : asked) {
    control_->lost(*this, *a.r);
  }
  for (const asking& a : asked) place(a);
}

void cluster::come_back(std::size_t i) {
  if (in_service(i)) put_out_of_service(i);
  health& h = health_[i];
  h.up = h.in_service = true;
  h.returns_s = no_event;
  --out_;
  ++up_;
  look_at(i);
  control_->returned(*this, i);
  const std::vector<asking> waited = std::exchange(unplaced_, {});
  for (const asking& a : waited) place(a);
}

void cluster::hang(std::size_t k) {
  const fault& f = options_.faults[k];
  double& until_s = health_[f.instance].hangs_until_s;
  const double from_s = std::max(until_s, now_s_);
  until_s = std::max(until_s, f.at_s + f.for_s);
  happens(until_s, {.what = fault_event::ends, .of = k});
  instance& one = instances_[f.instance];
  if (!one.running() || until_s <= from_s) return;
  one.delay(until_s - from_s);
  ends_.update([&](auto& ends) {
    for (step_end& e : ends) e.at_s = e.instance == f.instance ? one.ends_s() : e.at_s;
  });
}

void cluster::sleep(double seconds) {
  alarms_.update([seconds](auto& alarms) {
    for (set_alarm& a : alarms) a.at_s += seconds;
  });
}

void cluster::give_up(std::span<const trace_row> rows) {
  pass_time_to(std::max(now_s_, rows.back().arrival_s));
  std::vector<bool> ended(rows.size(), false);
  for (const request_record& r : recorder_.result.requests) ended[r.id] = true;
  for (std::size_t i = 0; i != rows.size(); ++i) {
    if (ended[i]) continue;
    if (requests_[i].state().length == tokens{}) {
      describe(rows[i], i);
      if (asks(requests_[i])) {
        notify(requests_[i], event_kind::waits, no_instance, "all instances have died for good when it arrives");
      }
    }
    recorder_.record(requests_[i], rows[i].arrival_s, -1, false);
  }
}

void cluster::sent_to_dead(std::size_t i, const instance_view& more) noexcept {
  instance_view& v = views_[i];
  v.requests += more.requests;
  v.queued += more.queued;
  v.waiting_blocks += more.waiting_blocks;
  v.kv_held += more.kv_held;
  v.free_blocks -= min(v.free_blocks, more.kv_held);
  v.phi = space_freeness(v);
  health_[i].queued_blocks += more.waiting_blocks;
}

}  // namespace sim
TESSERA_NAMESPACE_END
