// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/headroom/space.hpp>
#include <tessera/sim/cluster/cluster_control.hpp>
#include <tessera/sim/cluster/cluster_options.hpp>
#include <tessera/sim/cluster/engine.hpp>
#include <tessera/sim/cluster/event_heap.hpp>
#include <tessera/sim/cluster/fabric.hpp>
#include <tessera/sim/cluster/fault.hpp>
#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/cluster/instance_view.hpp>
#include <tessera/sim/cluster/prefix_keys.hpp>
#include <tessera/sim/cluster/run_recorder.hpp>
#include <tessera/sim/cluster/run_watcher.hpp>
#include <tessera/sim/cluster/turns.hpp>
#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/measure/metrics.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

/// @file
/// A deterministic discrete-event simulation of a cluster of engine instances.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Told how many requests have ended, from time to time during a run.
using progress_callback = std::function<void(std::size_t completed)>;

/// Blocks that a live migration announces at the destination for a request that has `held`: it grows meanwhile.
[[nodiscard]] constexpr blocks migration_room(blocks held) noexcept { return held + held / 4 + blocks{4}; }

/// Runs a workload through `instances` copies of one scheduler.
///
/// A later turn of a session arrives `think_s` after the last token of the turn before it, see `turns`.
///
/// Events are faults, arrivals, deliveries that were delayed (`routing::action_s`), ends of transfers, alarms and ends
/// of steps. Events at equal times are handled in this order. Faults and alarms at equal times keep the order in which
/// they were set, and steps are ordered by the number of the instance. So a run is a function of its inputs: it repeats
/// exactly. The scheduler is driven through its public calls alone.
///
/// **When an instance dies**, the KV on it is lost, its step never ends, and its transfers break off. For `detection_s`
/// its death is unknown: requests are still sent to it, and its view stays as it was. Then, or when it is back, if that
/// is sooner, it is *out of service*: no policy is shown it (`candidates`, `takes`). Requests that were on it, or were
/// sent there, are placed anew, with their arrival and the tokens that the user has. The KV of these tokens is computed
/// again (`recovered`). That is what architecture.md demands: the dead incarnation is known to be dead, and no live
/// instance owns its requests. A request that was being moved away from the dead instance is lost with it until it goes
/// on elsewhere. A request that was being moved to the dead instance goes on where it was, with its KV, when the death
/// is known. When the instance is back, it is empty. Requests for which there is no instance wait for one that comes
/// back; if none ever does, they end unserved.
///
/// **When the cluster has no requests** for `idle_s`, controls sleep until the next arrival or fault: their alarms are
/// put off by as long. So a trace with a night in it costs no more than its days.
///
/// A request changes its instance in one of two ways. `move`: it computes nothing until its KV has crossed the fabric.
/// `migrate`: it goes on decoding while its KV is copied, round by round, and stops for the last few blocks
/// (`migration::live_migration`). Either way it counts as being at its destination from the beginning. Its device
/// blocks at the source stay taken until it goes on at its destination. KV that has crossed lies next to the
/// destination's blocks, outside their number, until the request gets some there. So no transfer waits for memory, and
/// two full instances that send to each other both get on. A control with a member `arrived` may hold the request back
/// instead: then it keeps its blocks at the source.
///
class cluster {
 public:
  /// Creates the instances. Allocates. `control` is not null.
  cluster(const cluster_options& options, engine_maker engines, std::unique_ptr<cluster_control> control);
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;

  /// Runs to the end of the last request. `rows` in order of arrival. `progress(completed)` is called after each
  /// request that ends, and now and then between. Call once. O(log instances) per event, and what the control takes.
  [[nodiscard]] run_result run(std::span<const trace_row> rows, const progress_callback& progress);

  // What a control may ask and do.

  /// As given at construction.
  [[nodiscard]] const cluster_options& options() const noexcept { return options_; }
  /// Simulated time, in seconds.
  [[nodiscard]] double now_s() const noexcept { return now_s_; }
  /// Number of instances.
  [[nodiscard]] std::size_t size() const noexcept { return instances_.size(); }
  /// The instances as placement policies see them. They are always up to date, except the phases, the prefixes and dead
  /// instances. Those are as they last were, with what was sent to them since.
  [[nodiscard]] const std::vector<instance_view>& views() const noexcept { return views_; }
  /// Those of the views that a policy may choose from for `r`: of instances that take it. By instance, at least one.
  /// O(1) while all take everything, else O(instances). Valid until the next call.
  [[nodiscard]] const std::vector<instance_view>& candidates(const request& r);
  /// The views of all instances that are in service, as `candidates`.
  [[nodiscard]] const std::vector<instance_view>& in_service();
  /// Whether requests may be sent to instance `i`: it is not known to be dead. O(1).
  [[nodiscard]] bool in_service(std::size_t i) const noexcept { return health_[i].in_service; }
  /// Whether instance `i` is alive. No policy knows it, see `in_service`. O(1).
  [[nodiscard]] bool up(std::size_t i) const noexcept { return health_[i].up; }
  /// Whether instance `i` is in service and large enough for `r`. (Where all are alike and too small, one takes it and
  /// refuses it.) O(1).
  [[nodiscard]] bool takes(std::size_t i, const request& r) const noexcept { return in_service(i) && has_room(i, r); }
  /// KV blocks of instance `i`, used and free.
  [[nodiscard]] blocks capacity(std::size_t i) const noexcept { return views_[i].capacity; }
  /// `instance::queued_blocks`, as policies see it. For a dead instance: as it was, with what was sent there since.
  [[nodiscard]] blocks queued_blocks(std::size_t i) const noexcept {
    return up(i) ? instances_[i].queued_blocks() : health_[i].queued_blocks;
  }
  /// Instance `i`, to look at.
  [[nodiscard]] const instance& at(std::size_t i) const noexcept { return instances_[i]; }
  /// The requests of the workload by row; those that have not arrived yet are empty.
  [[nodiscard]] std::span<request> requests() noexcept { return requests_; }

  /// Whether a watcher asks why things happen to `r`. Then a control says it, by `because` before it places or moves a
  /// request and by `tell`. O(1).
  [[nodiscard]] bool asks(const request& r) const {
    return options_.watcher != nullptr && options_.watcher->asks(r.index, now_s_);
  }
  /// Why the decision that follows is made, and what was compared for it.
  void because(std::string why, comparison seen = {}) {
    why_ = std::move(why);
    seen_ = std::move(seen);
  }
  /// Something happens to a request for which `asks` is true. @param where the instance.
  void notify(const request& r, event_kind what, std::size_t where, std::string why = {}, comparison seen = {});
  /// Brings the phases in the views up to date. O(answering requests).
  void look_at_phases() noexcept;
  /// Brings `free_after_queue` in the views up to date. O(requests).
  void look_at_queues() noexcept {
    for (instance_view& v : views_) v.free_after_queue = v.free_blocks - queued_blocks(v.id);
  }

  /// Brings into the views what each instance has of the prompt of `r`. O(instances log blocks of the prompt).
  void look_at_prefixes(const request& r);

  /// Moves `r` with its KV to another instance, where it goes on when the KV is there. False, and nothing is changed,
  /// if that one does not take it. Requires: `r` is not on its way already, and no step of its instance is under way.
  bool move(request& r, std::size_t to);

  /// Begins to migrate `r`, which runs on, to another instance. Returns false and changes nothing unless
  /// `may_migrate(r)` and `to` takes it. So `r` must hold blocks, have a token since it was placed, and not be on its
  /// way already. A migration comes to nothing when the request ends or loses its blocks meanwhile.
  bool migrate(request& r, std::size_t to);

  /// Lets a request go on at its destination after its KV has arrived there.
  void admit(request& r);

  /// The requests that are on their way, in the order in which they set out.
  [[nodiscard]] std::span<request* const> moving() const noexcept { return moving_; }

  /// Calls a migration off. A request that has stopped already goes on where it was, with its KV.
  void cut_migration(request& r);

  /// The instance of `r` has handed it over to an instance that died before `r` went on there. No instance owns `r`,
  /// and it is placed anew. To be called while the death becomes known (`failed`). Requires: it is on its way.
  void recover(request& r);

  /// Steps of instance `i` that begin from now on have `most` tokens for prompts (`instance_options::prefill_budget`).
  void bound_prompts(std::size_t i, tokens most) noexcept { instances_[i].bound_prompts(most); }

  /// Policies see this range of lengths of instance `i` from now on; it serves any.
  void show_range(std::size_t i, blocks from, blocks to) noexcept {
    views_[i].from = from;
    views_[i].to = to;
  }
  /// Policies see this role of instance `i` from now on; it does both phases.
  void show_role(std::size_t i, control::role role) noexcept { views_[i].role = role; }

  /// Calls the control's `alarm(what)` after `delay_s` seconds.
  void call_after(double delay_s, std::uint64_t what) { call_after(delay_s, what, owner_); }
  /// The same for an owner of its own, see `alarms_are_of`.
  void call_after(double delay_s, std::uint64_t what, std::uint64_t owner) {
    alarms_.push({now_s_ + delay_s, alarms_set_++, what, owner});
  }
  /// Several controls may take turns under one: `owner` says which of them orders alarms from now on. It is 0 at first.
  /// Returns the owner before.
  std::uint64_t alarms_are_of(std::uint64_t owner) noexcept { return std::exchange(owner_, owner); }
  /// The owner that had ordered the alarm that is told.
  [[nodiscard]] std::uint64_t alarm_is_of() const noexcept { return alarm_owner_; }

 private:
  [[nodiscard]] std::span<const instance> all() const noexcept { return instances_; }

  static constexpr double no_event = std::numeric_limits<double>::infinity();
  static constexpr std::size_t no_instance = std::numeric_limits<std::size_t>::max();
  /// The demand below which free blocks are stranded: P95 of the prompts plus one growth block.
  [[nodiscard]] blocks reference_demand(std::span<const trace_row> rows) const;

  void arrive(const trace_row& row, std::size_t index);
  void describe(const trace_row& row, std::size_t index);

  /// A request that is on no instance, and when its user made it.
  struct asking {
    request* r;
    double arrived_s;
  };

  /// Sends a request to an instance, or lets it wait for one to come back.
  void place(const asking& a);
  /// A request comes to the instance that it was sent to.
  void deliver(const asking& a);

  enum class verdict : std::uint8_t { now, later, never };
  /// Whether there is an instance for `r`, will be one, or never. O(1) while all take everything.
  [[nodiscard]] verdict forecast(const request& r) const noexcept;
  [[nodiscard]] bool has_room(std::size_t i, const request& r) const noexcept {
    return options_.each.empty() || r.prompt + r.output - tokens{1} <= options_.each[i].limits.longest();
  }
  /// Its limit is one of the instance that it goes to. Requires: it is in no scheduler.
  void fit(request& r, std::size_t to) const noexcept {
    if (options_.each.empty() || options_.knows_lengths) return;
    r.max_output = limit_of(r, options_.each[to].limits.longest());
  }

  /// A request has ended, or was refused: the next turn of its session is on its way.
  void ended(request& r);
  void order_turns(std::span<const trace_row> rows);

  /// The most that a server would let it generate. A limit beyond what an instance has room for would make it refuse a
  /// request that ends before. So the limit is at most what fits, or the answer's length if that is more.
  [[nodiscard]] tokens limit_of(const request& r, tokens longest) const noexcept;

  // A request on its way: from the beginning `incoming_` counts it, and the blocks that it will take, at its
  // destination.

  void begin_migration(request& r, std::size_t to, blocks takes);
  [[nodiscard]] blocks held(const request& r) const noexcept {
    return blocks_for(r.state().length, options_.instance.limits.block_size);
  }
  void end_migration(request& r);
  void start_copy(const request& r, double length);
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
  void stop(request& r);
  /// Whether the copy of a request that runs on is still worth something.
  [[nodiscard]] static bool still_there(const request& r) noexcept {
    return r.state().life == lifecycle::resident && r.state().computed >= r.migration.copied;
  }

  /// A copy has crossed the fabric.
  void copied(request& r);

  /// Instance `i` is between two steps: requests there that wait for that in order to stop, stop now.
  void stop_those_on(std::size_t i);

  /// All KV of a request that has stopped is at its destination.
  void arrive(request& r);

  void fail_migration(request& r);
  void drop_migration(request& r);

  void arrive_with_kv(request& r);
  void adopt(request& r);

  /// Something has changed on instance `i`, which may have stood still. (An instance begins its next step by itself
  /// when its step has just ended.)
  void wake(std::size_t i);

  void begin_step(std::size_t i);

  void end_step(std::size_t i, std::size_t& completed, const progress_callback& progress);

  void tell_first_token(const request& r);

  // What goes wrong.

  /// How an instance is.
  struct health {
    bool up = true;
    bool in_service = true;       ///< Not known to be dead.
    std::uint32_t deaths = 0;     ///< So far.
    std::uint32_t known = 0;      ///< How many of `deaths` have become known.
    std::size_t of = 0;           ///< The fault that it died of last.
    double returns_s = no_event;  ///< When it is back, if it is dead.
    double hangs_until_s = -no_event;
    std::vector<asking> asked{};  ///< Were there when it died, or were sent there since. Its death is not known yet.
    blocks queued_blocks{};       ///< If it is dead: what the requests that wait there need.
  };
  /// Something that happens to an instance.
  struct fault_event {
    enum kind : std::uint8_t { begins, ends, is_known };
    double at_s = 0;
    std::uint64_t number = 0;
    kind what = begins;
    std::size_t of = 0;        ///< A fault; for `is_known` an instance.
    std::uint32_t deaths = 0;  ///< For `is_known`: which of its deaths.
    friend auto operator<=>(const fault_event&, const fault_event&) = default;
  };

  /// What all instances have drawn, the dead as those that wait; NaN unless it is known of all.
  [[nodiscard]] double joules_since(double begin_s) const;

  void happens(double at_s, fault_event e);
  void handle(const fault_event& e);

  void die(std::size_t k);
  /// The KV of `r` is lost, for which instance `of` is to blame.
  void lost(request& r, std::size_t of);

  /// That instance `i` is dead becomes known: what is on it goes elsewhere.
  void put_out_of_service(std::size_t i);
  void come_back(std::size_t i);

  void hang(std::size_t k);

  /// Nothing happens for so long: alarms come as much later.
  void sleep(double seconds);

  /// All instances are dead, and none comes back: requests that have not ended never will.
  void give_up(std::span<const trace_row> rows);

  void pass_time_to(double now_s);

  /// The reports of instance `i` do not come any more; what was sent there counts.
  void sent_to_dead(std::size_t i, const instance_view& more) noexcept;

  /// Phi_S of an instance, by what is held there or waited for.
  [[nodiscard]] static double space_freeness(const instance_view& v) noexcept {
    return headroom::space_freeness(v.kv_held + v.waiting_blocks, {}, v.capacity);
  }
  void look_at(std::size_t i) noexcept;

  /// The measured window is usually known from the arrivals. Two cases end it with the last arrival in the run instead:
  /// a closed loop, and sessions without a drain, because their last turn counts.
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
  /// A request on its way from its router to an instance.
  struct sent {
    double at_s;
    std::uint64_t number;
    std::size_t request;
    double arrived_s;
    std::uint32_t known;  // Deaths of the instance that were known when it was sent.
    friend auto operator<=>(const sent&, const sent&) = default;
  };
  /// A call that the control has ordered.
  struct set_alarm {
    double at_s;
    std::uint64_t number;
    std::uint64_t what;
    std::uint64_t owner;
    friend auto operator<=>(const set_alarm&, const set_alarm&) = default;
  };

  static constexpr double idle_s = 60;

  cluster_options options_;
  engine_maker engines_;
  std::unique_ptr<cluster_control> control_;
  fabric fabric_;
  std::vector<instance> instances_;
  event_heap<step_end> ends_;
  std::vector<instance_view> views_;
  std::span<const trace_row> rows_;  ///< While it runs.
  turns turns_;
  prefix_keys prefix_keys_{options_.instances};
  std::unordered_map<std::int64_t, order::program_service> programs_;  ///< By session.
  event_heap<turn_due> due_;
  std::vector<std::size_t> ended_;  ///< Rows that have, since the last event, and have a next turn.
  event_heap<set_alarm> alarms_;
  std::uint64_t alarms_set_ = 0;
  std::uint64_t owner_ = 0;           ///< Orders the alarms that are set now,
  std::uint64_t alarm_owner_ = 0;     ///< and had ordered the one that is told.
  std::size_t ending_ = no_instance;  ///< The instance that ends its step now.
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
  std::vector<std::size_t> slow_;  ///< The faults that slow an instance now.
  std::vector<asking> unplaced_;   ///< There is no instance for them.
  event_heap<sent> sent_;
  std::uint64_t sent_so_far_ = 0;
  std::vector<instance_view> candidates_;
  blocks capacity_{};  ///< The sum over all instances.
  tokens most_kv_{};   ///< The most that one sequence can have, on the largest instance.
  blocks stranded_total_{};
  blocks demand_{1};
  double now_s_ = 0;
  std::string why_;  ///< Why the current decision is made, where a watcher asks.
  comparison seen_;
  run_recorder recorder_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
