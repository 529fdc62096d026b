// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/headroom/space.hpp>
#include <tessera/kv/fragmentation.hpp>
#include <tessera/sim/cluster/cluster_control.hpp>
#include <tessera/sim/cluster/cluster_options.hpp>
#include <tessera/sim/cluster/compare_views.hpp>
#include <tessera/sim/cluster/event_heap.hpp>
#include <tessera/sim/cluster/fabric.hpp>
#include <tessera/sim/cluster/fault.hpp>
#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/cluster/instance_view.hpp>
#include <tessera/sim/cluster/placed.hpp>
#include <tessera/sim/cluster/plan_words.hpp>
#include <tessera/sim/cluster/prefix_keys.hpp>
#include <tessera/sim/cluster/run_recorder.hpp>
#include <tessera/sim/cluster/run_watcher.hpp>
#include <tessera/sim/cluster/turns.hpp>
#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/report/metrics.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

/// @file
/// A deterministic discrete-event simulation of a cluster of engine instances.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Blocks that a live migration announces at the destination for a request that has `held`: it grows meanwhile.
[[nodiscard]] constexpr blocks migration_room(blocks held) noexcept { return held + held / 4 + blocks{4}; }

/// Runs a workload through `instances` copies of one scheduler.
///
/// A later turn of a session arrives `think_s` after the last token of the turn before it, see `turns`.
///
/// Events are faults, arrivals, ends of transfers, alarms and ends of steps. At equal times they come in this order,
/// faults and alarms in the order in which they were set, steps by the instance's number, so that a run is a function
/// of its inputs: it repeats exactly. The scheduler is driven through its public calls alone.
///
/// **When an instance dies**, the KV on it is lost, its step never ends, and its transfers break off. For `detection_s`
/// nobody knows: requests are still sent to it, and its view stays as it was. Then, or when it is back, if that is
/// sooner, it is *out of service*: no policy is shown it (`candidates`, `takes`). Requests that were on it, or were
/// sent there, are placed anew, with their arrival and the tokens that the user has; the KV of these is computed again
/// (`recovered`). That is what architecture.md demands: the dead incarnation is known to be dead, and no live instance
/// owns them. One that was being moved away from it is lost with it until it goes on elsewhere; one that was being
/// moved there goes on where it was, with its KV, when the death is known. When the instance is back, it is empty.
/// Requests for which there is no instance wait for one that comes back; if none ever does, they end unserved.
///
/// **When nobody is there** for `idle_s`, controls sleep until the next arrival or fault: their alarms are put off by
/// as long. So a trace with a night in it costs no more than its days.
///
/// A request changes its instance in one of two ways. `move`: it computes nothing until its KV has crossed the fabric.
/// `migrate`: it goes on decoding while its KV is copied, round by round, and stops for the last few blocks
/// (`migration::live_migration`). Either way it counts as being at its destination from the beginning, and the
/// device blocks that it has stay taken where it was until it goes on at its destination. What has crossed lies beside
/// the destination's blocks until the request gets some there: so no transfer waits for memory, and two full instances
/// that send to each other both get on. A control with a member `arrived` may hold it back instead: then it keeps its
/// blocks where it was.
/// @tparam Scheduler any composition over `sim::request`.
/// @tparam Control a `cluster_control`.
template <class Scheduler, class Control = placed<>>
class cluster {
 public:
  /// Creates the instances. Allocates.
  explicit cluster(const cluster_options& options, const typename Scheduler::config& config = {}, Control control = {})
      : options_{options},
        control_{std::move(control)},
        fabric_{options.instances, options.fabric_bytes_per_s},
        views_(options.instances),
        incoming_(options.instances),
        stranded_(options.instances),
        health_(options.instances),
        up_{options.instances},
        recorder_{options.timeline_interval_s} {
    static_assert(cluster_control<Control, cluster>,
                  "a control has a member place(cluster, request) that returns the index of an instance");
    TESSERA_ASSERT(options.instances > 0, "a cluster has at least one instance");
    TESSERA_ASSERT(options.timeline_interval_s > 0, "samples need time between them");
    TESSERA_ASSERT(options.each.empty() || options.each.size() == options.instances, "what each instance is");
    TESSERA_ASSERT(options.detection_s >= 0, "a death is known after it");
    instances_.reserve(options.instances);
    for (std::size_t i = 0; i != options.instances; ++i) {
      const scheduler_limits& limits = options_.of(i).limits;
      TESSERA_ASSERT(limits.block_size == options_.instance.limits.block_size, "KV moves block by block");
      instances_.emplace_back(options_.of(i), config);
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
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;

  /// Runs to the end of the last request. `rows` in order of arrival. `progress(completed)` is called after each
  /// request that ends, and now and then between. Call once. O(log instances) per event, and what the control takes.
  template <class Progress>
  [[nodiscard]] run_result run(std::span<const trace_row> rows, Progress&& progress) {
    const auto wall_start = std::chrono::steady_clock::now();
    requests_.resize(rows.size());
    recorder_.result.requests.reserve(rows.size());
    std::int32_t tenants = 0;
    for (const trace_row& row : rows) tenants = std::max(tenants, row.tenant + 1);
    TESSERA_ASSERT(tenants <= max_tenants, "no more tenants than there is room for");
    recorder_.service.assign(static_cast<std::size_t>(tenants), 0.0);
    demand_ = reference_demand(rows);
    rows_ = rows;
    turns_ = {rows, options_.instance.limits.block_size.count(), shares && options_.prefix_cache, most_kv_.count() + 1};
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
    if constexpr (requires { control_.starts(*this); }) control_.starts(*this);
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
      } else if (const double next_s = std::min({fault_s, arrival_s, moved_s, end_s});
                 alarm_s > last_busy_s + idle_s && alarm_s < next_s) {
        sleep(next_s - alarm_s);
        continue;
      }
      // What happened before the run began shows at once.
      now_s_ = std::min({std::max(fault_s, now_s_), arrival_s, moved_s, alarm_s, end_s});
      TESSERA_ASSERT(now_s_ != no_event, "every request ends");
      pass_time_to(now_s_);
      if (fault_s <= now_s_) {
        handle(fault_events_.pop());
      } else if (arrival_s == now_s_) {
        const std::size_t row = next_turn ? due_.pop().row : next_row++;
        arrive(rows[row], row);
        if (++arrived == rows.size() && ends_with_arrivals()) recorder_.facts.window.to = now_s_;
      } else if (moved_s == now_s_) {
        fabric_.advance(now_s_, [&](const fabric::completion& done) { copied(requests_[done.token]); });
      } else if (alarm_s == now_s_) {
        const std::uint64_t what = alarms_.pop().what;
        if constexpr (requires { control_.alarm(*this, what); }) control_.alarm(*this, what);
      } else {
        const std::size_t i = ends_.pop().instance;
        end_step(i, completed, progress);
        begin_step(i);
      }
      order_turns(rows);
      if (++events % 4096 == 0) progress(completed);
    }
    TESSERA_ASSERT(up_ == 0 || (moving_.empty() && fabric_.active() == 0), "who has ended is not on its way");
    recorder_.facts.joules = joules_since(begin_s);
    recorder_.sum_up(all(), std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_start).count(),
                     options_.in_flight == 0);
    if constexpr (requires { control_.ended(*this, recorder_.result); }) control_.ended(*this, recorder_.result);
    return std::move(recorder_.result);
  }

  // What a control may ask and do.

  /// As given at construction.
  [[nodiscard]] const cluster_options& options() const noexcept { return options_; }
  /// Simulated time, in seconds.
  [[nodiscard]] double now_s() const noexcept { return now_s_; }
  /// Number of instances.
  [[nodiscard]] std::size_t size() const noexcept { return instances_.size(); }
  /// The instances as placement policies see them, always up to date, but for the phases, the prefixes and the dead,
  /// which are as they last were, with what was sent to them since.
  [[nodiscard]] const std::vector<instance_view>& views() const noexcept { return views_; }
  /// Those of the views that a policy may choose from for `r`: of instances that take it. By instance, at least one.
  /// O(1) while all take everything, else O(instances). Valid until the next call.
  [[nodiscard]] const std::vector<instance_view>& candidates(const request& r) {
    if (out_ == 0 && options_.each.empty()) return views_;
    candidates_.clear();
    for (const instance_view& v : views_) {
      if (takes(v.id, r)) candidates_.push_back(v);
    }
    return candidates_;
  }
  /// Whether requests may be sent to instance `i`: it is not known to be dead. O(1).
  [[nodiscard]] bool in_service(std::size_t i) const noexcept { return health_[i].in_service; }
  /// Whether instance `i` is alive, which nobody but itself knows. O(1).
  [[nodiscard]] bool up(std::size_t i) const noexcept { return health_[i].up; }
  /// Whether instance `i` is in service and large enough for `r`. (Where all are alike and too small, one takes it and
  /// refuses it.) O(1).
  [[nodiscard]] bool takes(std::size_t i, const request& r) const noexcept { return in_service(i) && has_room(i, r); }
  /// KV blocks of instance `i`, used and free.
  [[nodiscard]] blocks capacity(std::size_t i) const noexcept { return views_[i].capacity; }
  /// `instance::queued_blocks`, as policies see it: of who is dead as it was, with what was sent there since.
  [[nodiscard]] blocks queued_blocks(std::size_t i) const noexcept {
    return up(i) ? instances_[i].queued_blocks() : health_[i].queued_blocks;
  }
  /// `instance::first_blocks`, in the same way.
  [[nodiscard]] blocks first_blocks(std::size_t i) const noexcept {
    return up(i) ? instances_[i].first_blocks() : health_[i].first_blocks;
  }
  /// Instance `i`, to look at.
  [[nodiscard]] const instance<Scheduler>& at(std::size_t i) const noexcept { return instances_[i]; }
  /// The requests of the workload by row; those that have not arrived yet are empty.
  [[nodiscard]] std::span<request> requests() noexcept { return requests_; }

  /// Whether somebody asks why things happen to `r`: then a control says it, by `because` before it places or moves a
  /// request and by `tell`. O(1).
  [[nodiscard]] bool asks(const request& r) const {
    return options_.watcher != nullptr && options_.watcher->asks(r.index, now_s_);
  }
  /// Why the decision that follows is made, and what was compared for it.
  void because(std::string why, comparison seen = {}) {
    why_ = std::move(why);
    seen_ = std::move(seen);
  }
  /// Something happens to a request for which somebody `asks`. @param where the instance.
  void tell(const request& r, happening what, std::size_t where, std::string why = {}, comparison seen = {}) {
    options_.watcher->tell(request_event{what, now_s_, r.index, where, std::move(why), std::move(seen)});
  }
  /// Brings the phases in the views up to date. O(answering requests).
  void look_at_phases() noexcept {
    for (std::size_t i = 0; i != instances_.size(); ++i) {
      if (!up(i)) continue;
      views_[i].slo_met = instances_[i].slo_met(now_s_);
      views_[i].reasoning = instances_[i].reasoning();
      views_[i].fresh_answers = instances_[i].fresh_answers(options_.quantum) + incoming_[i].requests;
    }
  }

  /// Brings into the views what each instance has of the prompt of `r`. O(instances log blocks of the prompt).
  void look_at_prefixes(const request& r) {
    const tokens block_size = options_.instance.limits.block_size;
    // As the scheduler does: whole blocks, and one token at least is computed.
    const auto most = static_cast<std::size_t>((r.prompt.count() - 1) / block_size.count());
    const std::span<const std::uint64_t> hashes = r.prefix_hashes().first(std::min(most, r.prefix_hashes().size()));
    const std::uint64_t key = prefix_keys_(hashes, r.index);
    for (std::size_t i = 0; i != instances_.size(); ++i) {
      tokens found{};
      if constexpr (shares) {
        // A block is forgotten before those that lead up to it.
        if (instances_[i].started()) {
          const auto& store = instances_[i].scheduler().store();
          const auto end = std::partition_point(hashes.begin(), hashes.end(),
                                                [&](std::uint64_t hash) noexcept { return store.knows(hash); });
          found = block_size * (end - hashes.begin());
        }
      }
      views_[i].cached_tokens = found;
      views_[i].new_prefill_tokens = r.prompt - found;
      views_[i].prefix_key = key;
    }
  }

  /// Moves `r` with its KV to another instance, where it goes on when the KV is there. False, and nothing is changed,
  /// if that one does not take it. Requires: `r` is not on its way already, and no step of its instance is under way.
  bool move(request& r, std::size_t to) {
    if (!takes(to, r)) return false;
    begin_migration(r, to, held(r));
    const tokens all = r.state().computed;
    stop(r);
    start_copy(r, static_cast<double>(all.count()));
    return true;
  }

  /// Begins to migrate `r`, which runs on, to another instance. False, and nothing is changed, if it holds no blocks,
  /// has no token since it was placed or is on its way already, or if that one does not take it. A migration comes to
  /// nothing when the request ends or loses its blocks meanwhile.
  bool migrate(request& r, std::size_t to) {
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

  /// Lets a request whose KV has arrived go on at its destination.
  void admit(request& r) {
    TESSERA_ASSERT(r.migration.stage == migration_stage::arrived, "its KV is there, and it runs nowhere");
    arrive_with_kv(r);
  }

  /// The requests that are on their way, in the order in which they set out.
  [[nodiscard]] std::span<request* const> moving() const noexcept { return moving_; }

  /// Calls a migration off. A request that has stopped already goes on where it was, with its KV.
  void cut_migration(request& r) {
    TESSERA_ASSERT(r.migration.stage != migration_stage::none, "it is being migrated");
    const bool stopped = r.migration.stage == migration_stage::stopped || r.migration.stage == migration_stage::arrived;
    if (asks(r)) tell(r, happening::stays, r.where, "its move is called off");
    drop_migration(r);
    if (!stopped) return;
    if (r.state().life == lifecycle::suspended) {
      instances_[r.where].resume(r);
    } else {
      adopt(r);
    }
    wake(r.where);
  }

  /// Its instance has handed `r` over to one that has died before it went on: nobody owns it, and it is placed anew. To
  /// be called while the death becomes known (`failed`). Requires: it is on its way.
  void lose(request& r) {
    TESSERA_ASSERT(r.migration.stage != migration_stage::none, "it is being migrated");
    const std::size_t of = r.migration.to;
    drop_migration(r);
    if (is_live(r.state().life)) instances_[r.where].evacuate(r);
    look_at(r.where);
    lost(r, of);
  }

  /// Steps of instance `i` that begin from now on have so many tokens for prompts (`instance_options::prefill_budget`).
  void bound_prompts(std::size_t i, tokens most) noexcept { instances_[i].bound_prompts(most); }

  /// Calls the control's `alarm(what)` after `delay_s` seconds.
  void call_after(double delay_s, std::uint64_t what) { alarms_.push({now_s_ + delay_s, alarms_set_++, what}); }

 private:
  [[nodiscard]] std::span<const instance<Scheduler>> all() const noexcept { return instances_; }

  static constexpr double no_event = std::numeric_limits<double>::infinity();
  static constexpr std::size_t no_instance = std::numeric_limits<std::size_t>::max();
  /// Whether the scheduler's store finds blocks again.
  static constexpr bool shares =
      kv::prefix_store<std::remove_cvref_t<decltype(std::declval<const Scheduler&>().store())>>;

  /// The demand below which free blocks are stranded: P95 of the prompts plus one growth block.
  [[nodiscard]] blocks reference_demand(std::span<const trace_row> rows) const {
    if (rows.empty()) return blocks{1};
    std::vector<std::int64_t> prompts;
    prompts.reserve(rows.size());
    for (const trace_row& row : rows) prompts.push_back(row.prompt_tokens);
    const auto p95 = prompts.begin() + static_cast<std::ptrdiff_t>((prompts.size() - 1) * 95 / 100);
    std::nth_element(prompts.begin(), p95, prompts.end());
    return blocks_for(tokens{*p95}, options_.instance.limits.block_size) + blocks{1};
  }

  void arrive(const trace_row& row, std::size_t index) {
    request& r = requests_[index];
    describe(row, index);
    if (const std::size_t next = turns_.after(index); next != turns::none) {
      r.next_turn_s = rows_[next].think_s;
      if (row.calls_tool) r.kept_s = options_.kept_s;
    }
    if (asks(r)) {
      std::string why = fmt::format("a prompt of {} tokens; {} will come", r.prompt.count(), r.output.count());
      if (r.reasoning > tokens{}) why += fmt::format(", {} of them reasoning", r.reasoning.count());
      tell(r, happening::arrived, no_instance,
           why + fmt::format(", of which its scheduler knows {}",
                             options_.knows_lengths ? std::string{"all"}
                                                    : fmt::format("that it is at most {}", r.max_output.count())));
    }
    place({&r, now_s_});
  }
  void describe(const trace_row& row, std::size_t index) {
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

  /// A request that is on no instance, and when its user made it.
  struct asking {
    request* r;
    double arrived_s;
  };

  /// Sends a request to an instance, or lets it wait for one to come back.
  void place(const asking& a) {
    request& r = *a.r;
    if (const verdict v = outlook(r); v == verdict::later) {
      if (asks(r)) tell(r, happening::waits, no_instance, "no instance is there that could take it");
      return homeless_.push_back(a);
    } else if (v == verdict::never) {
      const bool too_long = r.prompt + r.output - tokens{1} > most_kv_;
      if (asks(r)) {
        tell(r, too_long ? happening::refused : happening::waits, no_instance,
             too_long ? "it is too long for every instance" : "all instances that could take it are dead for ever");
      }
      recorder_.record(r, asked_s(a.arrived_s), -1, too_long);
      return ended(r);
    }
    const std::size_t to = control_.place(*this, std::as_const(r));
    TESSERA_ASSERT(to < size() && takes(to, r), "a request is placed on an instance that takes it");
    r.where = to;
    fit(r, to);
    const bool asked = asks(r);
    if (asked) {
      if (why_.empty()) because("the policy's own choice");
      if (seen_.rows.empty()) seen_ = compare_views(candidates(r));
      tell(r, happening::placed, to, std::exchange(why_, {}), std::exchange(seen_, {}));
    }
    if (!up(to)) {
      if (asked) tell(r, happening::waits, to, "its instance is dead, which nobody knows yet");
      health_[to].asked.push_back(a);
      const blocks needs = blocks_for(max(r.state().length, r.prompt), options_.instance.limits.block_size);
      sent_to_dead(to, {.requests = 1, .queued = 1, .waiting_blocks = needs});
      return;
    }
    if (const status s = instances_[to].submit(r, a.arrived_s); s != status::accepted) {
      if (asked) tell(r, happening::refused, to, to_string(s));
      recorder_.record(r, asked_s(a.arrived_s), -1, true);
      if constexpr (requires { control_.rejected(*this, r); }) control_.rejected(*this, r);
      ended(r);
      return;
    }
    if (asked) {
      const auto& scheduler = std::as_const(instances_[to]).scheduler();
      std::string expects = detail::words_of<Scheduler>::prediction(scheduler.waiting().discipline(), r);
      if (!expects.empty()) tell(r, happening::predicted, to, std::move(expects));
    }
    if (!instances_[to].running()) begin_step(to);
    look_at(to);
  }

  enum class verdict : std::uint8_t { now, later, never };
  /// Whether there is an instance for `r`, will be one, or never. O(1) while all take everything.
  [[nodiscard]] verdict outlook(const request& r) const noexcept {
    if (out_ == 0 && options_.each.empty()) return verdict::now;
    verdict best = verdict::never;
    for (std::size_t i = 0; i != size(); ++i) {
      if (takes(i, r)) return verdict::now;
      if (health_[i].returns_s < no_event && has_room(i, r)) best = verdict::later;
    }
    return best;
  }
  [[nodiscard]] bool has_room(std::size_t i, const request& r) const noexcept {
    return options_.each.empty() || r.prompt + r.output - tokens{1} <= options_.each[i].limits.longest();
  }
  /// Its limit is one of the instance that it goes to. Requires: it is in no scheduler.
  void fit(request& r, std::size_t to) const noexcept {
    if (options_.each.empty() || options_.knows_lengths) return;
    r.max_output = limit_of(r, options_.each[to].limits.longest());
  }

  /// A request has ended, or was refused: the next turn of its session is on its way.
  void ended(request& r) {
    r.hashes = std::vector<std::uint64_t>{};  // which gives its memory back
    if (turns_.after(r.index) != turns::none) ended_.push_back(r.index);
  }
  void order_turns(std::span<const trace_row> rows) {
    for (const std::size_t row : ended_) {
      const std::size_t next = turns_.after(row);
      double asks_s = now_s_ + rows[next].think_s;
      if (options_.in_flight == 0) asks_s = std::max(asks_s, rows[next].arrival_s) + options_.host_request_seconds;
      due_.push({asks_s, next});
    }
    ended_.clear();
  }

  /// The most that a server would let it generate. What an instance has no room for is no reason to refuse a request
  /// that ends before: the limit is never more than what fits, unless the answer is.
  [[nodiscard]] tokens limit_of(const request& r, tokens longest) const noexcept {
    const tokens fits = longest - r.prompt + tokens{1};  // the last token needs no KV
    const tokens limit = options_.max_output > tokens{} ? min(options_.max_output, fits) : fits;
    return max(limit, r.output);
  }

  // A request on its way: from the beginning `incoming_` counts it, and the blocks that it will take, at its
  // destination.

  void begin_migration(request& r, std::size_t to, blocks takes) {
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
    if (!up(to)) sent_to_dead(to, {.kv_held = takes, .requests = 1});
    if (asks(r)) {
      tell(r, happening::moves, to,
           fmt::format("from instance {} to {}, {} tokens of KV{}{}", r.where, to, r.state().computed.count(),
                       why_.empty() ? "" : ": ", why_),
           std::move(seen_));
      because({});
    }
  }
  [[nodiscard]] blocks held(const request& r) const noexcept {
    return blocks_for(r.state().length, options_.instance.limits.block_size);
  }
  void end_migration(request& r) {
    const std::size_t to = r.migration.to;
    incoming_[to].requests -= 1;
    incoming_[to].held -= r.migration.takes;
    r.migration = {};
    std::erase(moving_, &r);
    look_at(to);
  }
  void start_copy(const request& r, double length) {
    if (!up(r.migration.to)) return;  // nothing arrives there
    const double size = options_.kv_bytes_per_token * length;
    fabric_.start(now_s_, r.where, r.migration.to, bytes{static_cast<std::int64_t>(size)}, r.index);
  }
  /// The fabric, as a live migration uses it.
  struct wire {
    cluster& all;
    const request& r;
    void copy(const migration::block_range& range) noexcept {
      all.start_copy(r, static_cast<double>((range.size() * all.options_.instance.limits.block_size.count()).count()));
    }
  };
  /// Stops `r` where it is. It keeps its blocks there, if it has any: they are what is copied, and where it goes on if
  /// the migration is cut off.
  void stop(request& r) {
    if (r.state().life == lifecycle::resident) {
      instances_[r.where].suspend(r);
    } else {
      instances_[r.where].evacuate(r);
    }
    look_at(r.where);
    r.migration.stage = migration_stage::stopped;
    r.migration.stopped_s = now_s_;
    if (asks(r)) tell(r, happening::stops, r.where, "until the rest of its KV has crossed");
  }
  /// Whether the copy of a request that runs on is still worth something.
  [[nodiscard]] static bool still_there(const request& r) noexcept {
    return r.state().life == lifecycle::resident && r.state().computed >= r.migration.copied;
  }

  /// A copy has crossed the fabric.
  void copied(request& r) {
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

  /// Instance `i` is between two steps: those who wait for that to stop, do.
  void stop_those_on(std::size_t i) {
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

  /// All KV of a request that has stopped is at its destination.
  void arrive(request& r) {
    r.migration.stage = migration_stage::arrived;
    if constexpr (requires { control_.arrived(*this, r); }) {
      control_.arrived(*this, r);
    } else if (up(r.migration.to)) {
      arrive_with_kv(r);
    }
  }

  void fail_migration(request& r) {
    if (asks(r)) tell(r, happening::stays, r.where, "it has ended, or lost its blocks, before its KV was copied");
    drop_migration(r);
    if constexpr (requires { control_.migration_failed(*this, r); }) control_.migration_failed(*this, r);
  }
  void drop_migration(request& r) {
    if (fabric_.carries(r.index)) fabric_.cancel(now_s_, r.index);
    std::erase(stopping_, &r);
    end_migration(r);
  }

  void arrive_with_kv(request& r) {
    recorder_.facts.kv_transfers.push_back(now_s_ - r.migration.began_s);
    recorder_.result.downtimes.push_back(now_s_ - r.migration.stopped_s);
    const std::size_t from = r.where;
    if (asks(r)) {
      tell(r, happening::moved, r.migration.to,
           fmt::format("its KV took {:.4g} s, of which it stood still {:.4g} s", now_s_ - r.migration.began_s,
                       now_s_ - r.migration.stopped_s));
    }
    if (r.state().life == lifecycle::suspended) instances_[from].evacuate(r);
    r.where = r.migration.to;
    ++r.migrations;
    end_migration(r);
    adopt(r);
    if constexpr (requires { control_.moved(*this, r); }) control_.moved(*this, r);
    wake(r.where);
    wake(from);
  }
  void adopt(request& r) {
    fit(r, r.where);
    const status adopted = instances_[r.where].adopt(r);
    TESSERA_ASSERT(ok(adopted), "nothing is moved to where it does not fit");
    static_cast<void>(adopted);
  }

  /// Something has changed on instance `i`, which may have stood still. (One whose step has just ended begins the next
  /// one by itself.)
  void wake(std::size_t i) {
    if (!instances_[i].running() && i != ending_) begin_step(i);
    look_at(i);
  }

  void begin_step(std::size_t i) {
    if (!instances_[i].idle() && now_s_ >= health_[i].hangs_until_s) {
      instances_[i].start_step(now_s_);
      if (instances_[i].running()) {
        ends_.push({instances_[i].ends_s(), i});
        if (options_.watcher != nullptr) {
          instances_[i].explain([&](const Scheduler& scheduler, const auto& plan, double ends_s) {
            detail::tell_of_plan(*options_.watcher, i, now_s_, ends_s, scheduler, plan, instances_[i].requests(),
                                 options_.instance.limits.block_size);
          });
        }
      }
    }
    look_at(i);
  }

  template <class Progress>
  void end_step(std::size_t i, std::size_t& completed, Progress& progress) {
    ending_ = i;
    instances_[i].end_step(
        [&](request& r) {
          if (r.migration.stage != migration_stage::none) fail_migration(r);
          r.qoe.finish();
          recorder_.record(r, asked_s(r.state().arrived.seconds()), now_s_);
          if (asks(r)) {
            tell_first_token(r);
            tell(r, happening::ended, r.where, "its last token");
          }
          if constexpr (requires { control_.finished(*this, r); }) control_.finished(*this, r);
          ended(r);
          progress(++completed);
        },
        [&](request& r) {
          if (asks(r)) tell_first_token(r);
          if constexpr (requires { control_.prefilled(*this, r); }) {
            look_at(i);
            control_.prefilled(*this, r);
          }
        },
        [&](request& r) {
          if (asks(r)) {
            tell_first_token(r);
            tell(r, happening::answers, r.where,
                 fmt::format("its reasoning ends after {} tokens", r.reasoning.count()));
          }
          if constexpr (requires { control_.answers(*this, r); }) {
            look_at(i);
            control_.answers(*this, r);
          }
        });
    if (instances_[i].options().times_scheduler) recorder_.facts.scheduler_ns.add(instances_[i].scheduler_ns());
    stop_those_on(i);
    if constexpr (requires { control_.step_ended(*this, i); }) {
      look_at(i);
      control_.step_ended(*this, i);
    }
    ending_ = no_instance;
  }

  void tell_first_token(const request& r) {
    if (r.first_token_s != now_s_) return;
    tell(r, happening::first_token, r.where,
         fmt::format("{:.3f} s after it arrived", now_s_ - asked_s(r.state().arrived.seconds())));
  }

  // What goes wrong.

  /// How an instance is.
  struct health {
    bool up = true;
    bool in_service = true;       ///< Not known to be dead.
    std::uint32_t deaths = 0;     ///< So far.
    std::size_t of = 0;           ///< The fault that it died of last.
    double returns_s = no_event;  ///< When it is back; of one that is dead.
    double hangs_until_s = -no_event;
    std::vector<asking> asked{};  ///< Were there when it died, or sent there since. Nobody knows yet.
    blocks queued_blocks{};       ///< What those need who wait there, and the first of them; of one that is dead.
    blocks first_blocks{};
  };
  /// Something that happens to an instance.
  struct fault_event {
    enum kind : std::uint8_t { begins, ends, is_known };
    double at_s = 0;
    std::uint64_t number = 0;
    kind what = begins;
    std::size_t of = 0;        ///< A fault; of `is_known` an instance.
    std::uint32_t deaths = 0;  ///< Of `is_known`: which of its deaths.
    friend auto operator<=>(const fault_event&, const fault_event&) = default;
  };

  /// What all instances have drawn, the dead as those that wait; NaN unless it is known of all.
  [[nodiscard]] double joules_since(double begin_s) const {
    double sum = 0;
    for (std::size_t i = 0; i != instances_.size(); ++i) {
      const instance_options& o = options_.of(i);
      if (!(o.busy_watts > 0)) return never;
      sum += o.idle_watts * (now_s_ - begin_s) + (o.busy_watts - o.idle_watts) * instances_[i].busy_s();
    }
    return sum;
  }

  void happens(double at_s, fault_event e) {
    e.at_s = at_s;
    e.number = faults_set_++;
    fault_events_.push(e);
  }
  void handle(const fault_event& e) {
    if (e.what == fault_event::is_known) {
      if (!up(e.of) && health_[e.of].deaths == e.deaths) put_out_of_service(e.of);
      return;
    }
    const fault& f = options_.faults[e.of];
    health& h = health_[f.instance];
    const bool begins = e.what == fault_event::begins;
    if (begins) --recorder_.facts.faults.missed;
    // Who is dead does not die again, and hangs on nothing.
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

  void die(std::size_t k) {
    const fault& f = options_.faults[k];
    const std::size_t i = f.instance;
    health& h = health_[i];
    h.queued_blocks = instances_[i].queued_blocks();
    h.first_blocks = instances_[i].first_blocks();
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
  /// The KV of `r` is lost, for which instance `of` is to blame.
  void lost(request& r, std::size_t of) {
    r.where = of;
    if (asks(r)) {
      tell(r, happening::lost, of,
           fmt::format("the instance has died: KV of {} tokens is lost", r.state().computed.count()));
    }
    r.recoveries += 1;
    recorder_.facts.faults.recovered += 1;
    recorder_.facts.faults.recomputed += static_cast<double>(r.state().computed.count());
    if (r.state().computed > tokens{} && r.preempted_since_s < 0) r.preempted_since_s = now_s_;
    health_[of].asked.push_back({&r, r.state().arrived.seconds()});
  }

  /// That instance `i` is dead becomes known: what is on it goes elsewhere.
  void put_out_of_service(std::size_t i) {
    health_[i].in_service = false;
    ++out_;
    instances_[i].forget_prefixes();  // not before: who places by them does not know either
    if constexpr (requires { control_.failed(*this, i); }) control_.failed(*this, i);
    const std::vector<request*> moving = moving_;
    for (request* r : moving) {
      if (r->migration.stage == migration_stage::none || r->migration.to != i) continue;
      cut_migration(*r);
      if constexpr (requires { control_.migration_failed(*this, *r); }) control_.migration_failed(*this, *r);
    }
    const std::vector<asking> asked = std::exchange(health_[i].asked, {});
    for (const asking& a : asked) {
      if constexpr (requires { control_.lost(*this, *a.r); }) control_.lost(*this, *a.r);
    }
    for (const asking& a : asked) place(a);
  }
  void come_back(std::size_t i) {
    if (in_service(i)) put_out_of_service(i);
    health& h = health_[i];
    h.up = h.in_service = true;
    h.returns_s = no_event;
    --out_;
    ++up_;
    look_at(i);
    if constexpr (requires { control_.returned(*this, i); }) control_.returned(*this, i);
    const std::vector<asking> waited = std::exchange(homeless_, {});
    for (const asking& a : waited) place(a);
  }

  void hang(std::size_t k) {
    const fault& f = options_.faults[k];
    double& until_s = health_[f.instance].hangs_until_s;
    const double from_s = std::max(until_s, now_s_);
    until_s = std::max(until_s, f.at_s + f.for_s);
    happens(until_s, {.what = fault_event::ends, .of = k});
    instance<Scheduler>& one = instances_[f.instance];
    if (!one.running() || until_s <= from_s) return;
    one.delay(until_s - from_s);
    ends_.update([&](auto& ends) {
      for (step_end& e : ends) e.at_s = e.instance == f.instance ? one.ends_s() : e.at_s;
    });
  }

  /// Nothing happens for so long: alarms come as much later.
  void sleep(double seconds) {
    alarms_.update([seconds](auto& alarms) {
      for (alarm& a : alarms) a.at_s += seconds;
    });
  }

  /// All instances are dead, and none comes back: who has not ended never will.
  void give_up(std::span<const trace_row> rows) {
    pass_time_to(std::max(now_s_, rows.back().arrival_s));
    std::vector<bool> ended(rows.size(), false);
    for (const request_record& r : recorder_.result.requests) ended[r.id] = true;
    for (std::size_t i = 0; i != rows.size(); ++i) {
      if (ended[i]) continue;
      if (requests_[i].state().length == tokens{}) {
        describe(rows[i], i);
        if (asks(requests_[i])) {
          tell(requests_[i], happening::waits, no_instance, "all instances are dead for ever when it arrives");
        }
      }
      recorder_.record(requests_[i], rows[i].arrival_s, -1, false);
    }
  }

  void pass_time_to(double now_s) {
    recorder_.pass_time_to(now_s, all(), up_, stranded_total_, capacity_, [this] {
      std::size_t n = homeless_.size();
      for (const health& h : health_) n += h.asked.size();
      return n;
    });
  }

  /// The reports of instance `i` do not come any more; what was sent there counts.
  void sent_to_dead(std::size_t i, const instance_view& more) noexcept {
    instance_view& v = views_[i];
    v.requests += more.requests;
    v.queued += more.queued;
    v.waiting_blocks += more.waiting_blocks;
    v.kv_held += more.kv_held;
    v.free_blocks -= min(v.free_blocks, more.kv_held);
    v.phi = space_freeness(v);
    health& h = health_[i];
    h.queued_blocks += more.waiting_blocks;
    if (h.first_blocks == blocks{}) h.first_blocks = more.waiting_blocks;
  }

  /// Phi_S of an instance, by what is held there or waited for.
  [[nodiscard]] static double space_freeness(const instance_view& v) noexcept {
    return headroom::space_freeness(v.kv_held + v.waiting_blocks, {}, v.capacity);
  }
  void look_at(std::size_t i) noexcept {
    if (!up(i)) return;  // it does not report
    const instance<Scheduler>& one = instances_[i];
    instance_view& v = views_[i];
    const blocks free = one.free_blocks();
    const blocks held_here = one.blocks_held();
    v.kv_held = held_here + incoming_[i].held;
    v.waiting_blocks = max(one.needed_blocks() - held_here, blocks{});
    v.queued = one.waiting();
    v.free_blocks = free - min(free, incoming_[i].held);
    v.requests = one.served() + incoming_[i].requests;
    v.phi = space_freeness(v);
    const blocks stranded = kv::stranded_below{demand_}({.total = v.capacity, .free = free});
    stranded_total_ += stranded - stranded_[i];
    stranded_[i] = stranded;
  }

  /// What is measured is known from the arrivals; of a closed loop, where it ends is not, nor of sessions without a
  /// drain, the last turn of which counts.
  [[nodiscard]] bool ends_with_arrivals() const noexcept {
    return options_.in_flight != 0 || (turns_.any() && options_.drain_s == 0);
  }
  void open_window(double last_arrival_s) {
    measured_window& w = recorder_.facts.window;
    w.from = now_s_ + options_.warmup_s;
    if (!ends_with_arrivals()) w.to = last_arrival_s - options_.drain_s;
  }
  /// When the user asked for what the scheduler has heard of at `arrived_s`.
  [[nodiscard]] double asked_s(double arrived_s) const noexcept {
    return options_.in_flight == 0 ? arrived_s - options_.host_request_seconds : arrived_s;
  }

  /// Requests that are on their way to an instance, and the blocks that they will take.
  struct on_the_way {
    std::size_t requests = 0;
    blocks held{};
  };

  /// The end of a running step.
  struct step_end {
    double at_s;
    std::size_t instance;
    friend auto operator<=>(const step_end&, const step_end&) = default;
  };
  /// The arrival of a session's next turn.
  struct turn_due {
    double at_s;
    std::size_t row;
    friend auto operator<=>(const turn_due&, const turn_due&) = default;
  };
  /// A call that the control has ordered.
  struct alarm {
    double at_s;
    std::uint64_t number;
    std::uint64_t what;
    friend auto operator<=>(const alarm&, const alarm&) = default;
  };

  static constexpr double idle_s = 60;

  cluster_options options_;
  Control control_;
  fabric fabric_;
  std::vector<instance<Scheduler>> instances_;
  event_heap<step_end> ends_;
  std::vector<instance_view> views_;
  std::span<const trace_row> rows_;  ///< While it runs.
  turns turns_;
  prefix_keys prefix_keys_{options_.instances};
  std::unordered_map<std::int64_t, order::program_service> programs_;  ///< By session.
  event_heap<turn_due> due_;
  std::vector<std::size_t> ended_;  ///< Rows that have, since the last event, and have a next turn.
  event_heap<alarm> alarms_;
  std::uint64_t alarms_set_ = 0;
  std::size_t ending_ = no_instance;  ///< The instance whose step is being ended.
  std::vector<on_the_way> incoming_;
  std::vector<request*> stopping_;  ///< Wait for the end of a step to stop.
  std::vector<request> requests_;
  std::vector<request*> moving_;  ///< All that are on their way.
  std::vector<blocks> stranded_;
  std::vector<health> health_;
  std::size_t up_;       ///< Instances that are alive.
  std::size_t out_ = 0;  ///< Instances that are out of service.
  event_heap<fault_event> fault_events_;
  std::uint64_t faults_set_ = 0;
  std::vector<std::size_t> slow_;  ///< The faults that slow somebody now.
  std::vector<asking> homeless_;   ///< There is no instance for them.
  std::vector<instance_view> candidates_;
  blocks capacity_{};  ///< Of all.
  tokens most_kv_{};   ///< That one sequence can have, on the largest.
  blocks stranded_total_{};
  blocks demand_{1};
  double now_s_ = 0;
  std::string why_;  ///< Of the decision that is being made, where somebody asks.
  comparison seen_;
  run_recorder recorder_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
