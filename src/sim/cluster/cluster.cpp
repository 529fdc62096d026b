// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/kv/fragmentation.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/cluster/compare_views.hpp>
#include <tessera/sim/cluster/plan_words.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

void cluster_control::arrived(cluster& c, request& r) {
  if (c.up(r.migration.to)) c.admit(r);
}

cluster::cluster(const cluster_options& options, engine_maker engines, std::unique_ptr<cluster_control> control)
    : options_{options},
      engines_{std::move(engines)},
      control_{std::move(control)},
      fabric_{options.instances, options.fabric_bytes_per_s},
      views_(options.instances),
      incoming_(options.instances),
      stranded_(options.instances),
      health_(options.instances),
      up_{options.instances},
      recorder_{options.timeline_interval_s} {
  TESSERA_ASSERT(control_ != nullptr, "a control decides");
  TESSERA_ASSERT(options.instances > 0, "a cluster has at least one instance");
  TESSERA_ASSERT(options.timeline_interval_s > 0, "samples need time between them");
  TESSERA_ASSERT(options.each.empty() || options.each.size() == options.instances, "what each instance is");
  TESSERA_ASSERT(options.detection_s >= 0, "a death is known after it");
  instances_.reserve(options.instances);
  for (std::size_t i = 0; i != options.instances; ++i) {
    const scheduler_limits& limits = options_.of(i).limits;
    TESSERA_ASSERT(limits.block_size == options_.instance.limits.block_size, "KV moves block by block");
    instances_.emplace_back(options_.of(i), engines_);
    views_[i].id = i;
    views_[i].capacity = blocks{static_cast<std::int64_t>(limits.blocks)};
    capacity_ += views_[i].capacity;
    most_kv_ = max(most_kv_, limits.longest());
    look_at(i);
  }
  for (std::size_t k = 0; k != options_.faults.size(); ++k) {
    TESSERA_ASSERT(valid(options_.faults[k], options.instances), "a fault of an instance that there is");
    happens(options_.faults[k].at_s, {.what = fault_event::begins, .of = k});
  }
  recorder_.facts.faults.missed = options_.faults.size();
}

run_result cluster::run(std::span<const trace_row> rows, const progress_callback& progress) {
  const auto wall_start = std::chrono::steady_clock::now();
  requests_.resize(rows.size());
  recorder_.result.requests.reserve(rows.size());
  std::int32_t tenants = 0;
  for (const trace_row& row : rows) tenants = std::max(tenants, row.tenant + 1);
  TESSERA_ASSERT(tenants <= max_tenants, "no more tenants than there is room for");
  recorder_.service.assign(static_cast<std::size_t>(tenants), 0.0);
  demand_ = reference_demand(rows);
  rows_ = rows;
  turns_ = {rows, options_.instance.limits.block_size.count(), engines_.shares_prefixes && options_.prefix_cache,
            most_kv_.count() + 1};
  for (std::size_t i = 0; i != instances_.size(); ++i) look_at(i);
  std::size_t next_row = 0;
  std::size_t arrived = 0;
  std::size_t completed = 0;
  std::size_t events = 0;
  now_s_ = rows.empty() ? 0.0 : rows.front().arrival_s;
  const double begin_s = now_s_;
  double last_busy_s = now_s_;
  if (!rows.empty()) open_window(rows.back().arrival_s);
  recorder_.begin(now_s_);
  control_->starts(*this);
  while (recorder_.result.requests.size() != rows.size()) {
    while (next_row < rows.size() && turns_.follows(next_row)) ++next_row;
    double arrival_s = no_event;
    if (next_row < rows.size()) {
      if (options_.in_flight == 0) {
        arrival_s = rows[next_row].arrival_s + options_.host_request_seconds;
      } else if (arrived - recorder_.result.requests.size() < options_.in_flight) {
        arrival_s = now_s_;
      }
    }
    const bool next_turn = due_.next_s() < arrival_s;
    if (next_turn) arrival_s = due_.next_s();
    const double sent_s = sent_.next_s();
    const double moved_s = fabric_.next_end_s();
    const double alarm_s = alarms_.next_s();
    const double end_s = ends_.next_s();
    const double fault_s = fault_events_.next_s();
    if (up_ == 0 && fault_events_.empty()) {
      give_up(rows);
      break;
    }
    if (up_ != 0 && arrived != recorder_.result.requests.size()) {
      last_busy_s = now_s_;
    } else if (const double next_s = std::min({fault_s, arrival_s, sent_s, moved_s, end_s});
               alarm_s > last_busy_s + idle_s && alarm_s < next_s) {
      sleep(next_s - alarm_s);
      continue;
    }
    // What happened before the run began shows at once.
    now_s_ = std::min({std::max(fault_s, now_s_), arrival_s, sent_s, moved_s, alarm_s, end_s});
    TESSERA_ASSERT(now_s_ != no_event, "every request ends");
    pass_time_to(now_s_);
    if (fault_s <= now_s_) {
      handle(fault_events_.pop());
    } else if (arrival_s == now_s_) {
      const std::size_t row = next_turn ? due_.pop().row : next_row++;
      arrive(rows[row], row);
      if (++arrived == rows.size() && ends_with_arrivals()) recorder_.facts.window.to = now_s_;
    } else if (sent_s == now_s_) {
      const sent s = sent_.pop();
      const asking a{&requests_[s.request], s.arrived_s};
      // If its instance has died since, and that is known, its router has lost it.
      health_[a.r->where].known == s.known ? deliver(a) : place(a);
    } else if (moved_s == now_s_) {
      fabric_.advance(now_s_, [&](const fabric::completion& done) { copied(requests_[done.token]); });
    } else if (alarm_s == now_s_) {
      const set_alarm a = alarms_.pop();
      alarm_owner_ = a.owner;
      control_->alarm(*this, a.what);
    } else {
      const std::size_t i = ends_.pop().instance;
      end_step(i, completed, progress);
      begin_step(i);
    }
    order_turns(rows);
    if (++events % 4096 == 0) progress(completed);
  }
  TESSERA_ASSERT(up_ == 0 || (moving_.empty() && fabric_.active() == 0), "an ended request is not on its way");
  recorder_.facts.joules = joules_since(begin_s);
  recorder_.sum_up(all(), std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_start).count(),
                   options_.in_flight == 0);
  control_->ended(*this, recorder_.result);
  return std::move(recorder_.result);
}

const std::vector<instance_view>& cluster::candidates(const request& r) {
  if (out_ == 0 && options_.each.empty()) return views_;
  candidates_.clear();
  for (const instance_view& v : views_) {
    if (takes(v.id, r)) candidates_.push_back(v);
  }
  return candidates_;
}

const std::vector<instance_view>& cluster::in_service() {
  if (out_ == 0) return views_;
  candidates_.clear();
  for (const instance_view& v : views_) {
    if (in_service(v.id)) candidates_.push_back(v);
  }
  return candidates_;
}

void cluster::look_at_phases() noexcept {
  for (std::size_t i = 0; i != instances_.size(); ++i) {
    if (!up(i)) continue;
    views_[i].slo_met = instances_[i].slo_met(now_s_);
    views_[i].reasoning = instances_[i].reasoning();
    views_[i].fresh_answers = instances_[i].fresh_answers(options_.quantum) + incoming_[i].requests;
  }
}

void cluster::look_at_prefixes(const request& r) {
  const tokens block_size = options_.instance.limits.block_size;
  // As the scheduler does: whole blocks, and one token at least is computed.
  const auto most = static_cast<std::size_t>((r.prompt.count() - 1) / block_size.count());
  const std::span<const std::uint64_t> hashes = r.prefix_hashes().first(std::min(most, r.prefix_hashes().size()));
  const std::uint64_t key = prefix_keys_(hashes, r.index);
  for (std::size_t i = 0; i != instances_.size(); ++i) {
    tokens found{};
    if (engines_.shares_prefixes && instances_[i].started()) {
      found = block_size * static_cast<std::int64_t>(instances_[i].scheduler().known_blocks(hashes));
    }
    views_[i].cached_tokens = found;
    views_[i].new_prefill_tokens = r.prompt - found;
    views_[i].prefix_key = key;
  }
}

void cluster::notify(const request& r, event_kind what, std::size_t where, std::string why, comparison seen) {
  options_.watcher->notify(request_event{what, now_s_, r.index, where, std::move(why), std::move(seen)});
}

blocks cluster::reference_demand(std::span<const trace_row> rows) const {
  if (rows.empty()) return blocks{1};
  std::vector<std::int64_t> prompts;
  prompts.reserve(rows.size());
  for (const trace_row& row : rows) prompts.push_back(row.prompt_tokens);
  const auto p95 = prompts.begin() + static_cast<std::ptrdiff_t>((prompts.size() - 1) * 95 / 100);
  std::nth_element(prompts.begin(), p95, prompts.end());
  return blocks_for(tokens{*p95}, options_.instance.limits.block_size) + blocks{1};
}

void cluster::arrive(const trace_row& row, std::size_t index) {
  request& r = requests_[index];
  describe(row, index);
  if (const std::size_t next = turns_.after(index); next != turns::none) {
    r.next_turn_s = rows_[next].think_s;
    if (row.calls_tool) r.kept_s = options_.kept_s;
  }
  if (asks(r)) {
    std::string why = fmt::format("a prompt of {} tokens; {} will come", r.prompt.count(), r.output.count());
    if (r.reasoning > tokens{}) why += fmt::format(", {} of them reasoning", r.reasoning.count());
    notify(r, event_kind::arrived, no_instance,
           why + fmt::format(", of which its scheduler knows {}",
                             options_.knows_lengths ? std::string{"all"}
                                                    : fmt::format("that it is at most {}", r.max_output.count())));
  }
  place({&r, now_s_});
}

void cluster::describe(const trace_row& row, std::size_t index) {
  request& r = requests_[index];
  r.index = index;
  r.prompt = tokens{row.prompt_tokens};
  r.output = tokens{row.output_tokens};
  if (options_.max_output > tokens{}) r.output = min(r.output, options_.max_output);
  r.max_output = options_.knows_lengths ? r.output : limit_of(r, most_kv_);
  // An answer has at least one token: a request that was cut off while it reasoned answers with its last one.
  r.reasoning = min(tokens{row.reasoning_tokens}, r.output - tokens{1});
  r.starts_in = r.reasoning > tokens{} ? phase::reasoning : phase::answering;
  r.score = row.score;
  if (options_.answer_within_s > 0) r.answer_by = time_point::at_seconds(now_s_ + options_.answer_within_s);
  r.session = row.session;
  if (row.session >= 0) r.program = &programs_[row.session];
  if (row.tenant >= 0) {
    r.tenant = static_cast<std::uint32_t>(row.tenant);
    r.service = &recorder_.service[r.tenant];
  }
  r.hash_block = options_.instance.limits.block_size;
  if (turns_.shares()) r.hashes = turns_.hashes(row, index, r.output.count());
}

void cluster::place(const asking& a) {
  request& r = *a.r;
  if (const verdict v = forecast(r); v == verdict::later) {
    if (asks(r)) notify(r, event_kind::waits, no_instance, "no instance is there that could take it");
    return unplaced_.push_back(a);
  } else if (v == verdict::never) {
    const bool too_long = r.prompt + r.output - tokens{1} > most_kv_;
    if (asks(r)) {
      notify(r, too_long ? event_kind::refused : event_kind::waits, no_instance,
             too_long ? "it is too long for every instance" : "all instances that could take it have died for good");
    }
    recorder_.record(r, asked_s(a.arrived_s), -1, too_long);
    return ended(r);
  }
  const std::size_t to = control_->place(*this, std::as_const(r));
  TESSERA_ASSERT(to < size() && takes(to, r), "a request is placed on an instance that takes it");
  r.where = to;
  fit(r, to);
  const bool asked = asks(r);
  if (asked) {
    if (why_.empty()) because("the policy's own choice");
    if (seen_.rows.empty()) seen_ = compare_views(candidates(r));
    notify(r, event_kind::placed, to, std::exchange(why_, {}), std::exchange(seen_, {}));
  }
  if (options_.routed && options_.routed->action_s > 0) {
    sent_.push({now_s_ + options_.routed->action_s, sent_so_far_++, r.index, a.arrived_s, health_[to].known});
    return;
  }
  deliver(a);
}

void cluster::deliver(const asking& a) {
  request& r = *a.r;
  const std::size_t to = r.where;
  const bool asked = asks(r);
  if (!up(to)) {
    if (asked) notify(r, event_kind::waits, to, "its instance is dead, which is not known yet");
    health_[to].asked.push_back(a);
    const blocks needs = blocks_for(max(r.state().length, r.prompt), options_.instance.limits.block_size);
    sent_to_dead(to, {.requests = 1, .waiting_blocks = needs, .queued = 1});
    return;
  }
  if (const status s = instances_[to].submit(r, a.arrived_s); s != status::accepted) {
    if (asked) notify(r, event_kind::refused, to, to_string(s));
    recorder_.record(r, asked_s(a.arrived_s), -1, true);
    control_->rejected(*this, r);
    ended(r);
    return;
  }
  if (asked) {
    std::string expects = instances_[to].scheduler().prediction(r);
    if (!expects.empty()) notify(r, event_kind::predicted, to, std::move(expects));
  }
  if (!instances_[to].running()) begin_step(to);
  look_at(to);
}

cluster::verdict cluster::forecast(const request& r) const noexcept {
  if (out_ == 0 && options_.each.empty()) return verdict::now;
  verdict best = verdict::never;
  for (std::size_t i = 0; i != size(); ++i) {
    if (takes(i, r)) return verdict::now;
    if (health_[i].returns_s < no_event && has_room(i, r)) best = verdict::later;
  }
  return best;
}

void cluster::ended(request& r) {
  r.hashes = std::vector<std::uint64_t>{};  // which gives its memory back
  if (turns_.after(r.index) != turns::none) ended_.push_back(r.index);
}

void cluster::order_turns(std::span<const trace_row> rows) {
  for (const std::size_t row : ended_) {
    const std::size_t next = turns_.after(row);
    double asks_s = now_s_ + rows[next].think_s;
    if (options_.in_flight == 0) asks_s = std::max(asks_s, rows[next].arrival_s) + options_.host_request_seconds;
    due_.push({asks_s, next});
  }
  ended_.clear();
}

tokens cluster::limit_of(const request& r, tokens longest) const noexcept {
  const tokens fits = longest - r.prompt + tokens{1};  // the last token needs no KV
  const tokens limit = options_.max_output > tokens{} ? min(options_.max_output, fits) : fits;
  return max(limit, r.output);
}

void cluster::begin_step(std::size_t i) {
  if (!instances_[i].idle() && now_s_ >= health_[i].hangs_until_s) {
    instances_[i].start_step(now_s_);
    if (instances_[i].running()) {
      ends_.push({instances_[i].ends_s(), i});
      if (options_.watcher != nullptr) {
        detail::tell_of_plan(*options_.watcher, i, now_s_, instances_[i]);
      }
    }
  }
  look_at(i);
}

void cluster::end_step(std::size_t i, std::size_t& completed, const progress_callback& progress) {
  ending_ = i;
  instances_[i].end_step(
      [&](request& r) {
        if (r.migration.stage != migration_stage::none) fail_migration(r);
        r.qoe.finish();
        recorder_.record(r, asked_s(r.state().arrived.seconds()), now_s_);
        if (asks(r)) {
          tell_first_token(r);
          notify(r, event_kind::ended, r.where, "its last token");
        }
        control_->finished(*this, r);
        ended(r);
        progress(++completed);
      },
      [&](request& r) {
        if (asks(r)) tell_first_token(r);
        look_at(i);
        control_->prefilled(*this, r);
      },
      [&](request& r) {
        if (asks(r)) {
          tell_first_token(r);
          notify(r, event_kind::answers, r.where,
                 fmt::format("its reasoning ends after {} tokens", r.reasoning.count()));
        }
        look_at(i);
        control_->answers(*this, r);
      });
  if (instances_[i].options().times_scheduler) recorder_.facts.scheduler_ns.add(instances_[i].scheduler_ns());
  stop_those_on(i);
  look_at(i);
  control_->step_ended(*this, i);
  ending_ = no_instance;
}

void cluster::tell_first_token(const request& r) {
  if (r.first_token_s != now_s_) return;
  notify(r, event_kind::first_token, r.where,
         fmt::format("{:.3f} s after it arrived", now_s_ - asked_s(r.state().arrived.seconds())));
}

void cluster::pass_time_to(double now_s) {
  recorder_.pass_time_to(now_s, all(), up_, stranded_total_, capacity_, [this] {
    std::size_t n = unplaced_.size() + sent_.size();
    for (const health& h : health_) n += h.asked.size();
    return n;
  });
}

void cluster::look_at(std::size_t i) noexcept {
  if (!up(i)) return;  // it does not report
  const instance& one = instances_[i];
  instance_view& v = views_[i];
  const instance::report now = one.now();
  v.kv_held = now.held + incoming_[i].held;
  v.waiting_blocks = max(one.needed_blocks() - now.held, blocks{});
  v.queued = now.waiting;
  v.free_blocks = now.free - min(now.free, incoming_[i].held);
  v.requests = now.served + incoming_[i].requests;
  v.phi = space_freeness(v);
  const blocks stranded = kv::stranded_below{demand_}({.total = v.capacity, .free = now.free});
  stranded_total_ += stranded - stranded_[i];
  stranded_[i] = stranded;
}

}  // namespace sim
TESSERA_NAMESPACE_END
