// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// A scheduler and an engine that trusts it with nothing: `scheduler_world` passes every call on and compares what
/// comes back with what must hold. The engine has memory. It writes what the KV of each token would be to the slots
/// that the block tables name. It copies blocks to and from host memory as it is told. It reads everything a request
/// needs before each step. So each of these shows as a wrong value:
/// - a block that two requests own,
/// - a copy too few or in the wrong order,
/// - a position that is skipped,
/// - a prefix that is not equal.
///
/// It runs plans in their order, and some time after they were made. What a request has come to on the device is known
/// here before the scheduler hears of it. A plan may refuse drafts and not be settled when the next one is made. Then
/// it goes on from where the request really is.
///
/// A broken promise is a `broken` exception, so that the same checks serve tests and fuzz targets.

#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/encoder_cache.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/earliest_due.hpp>
#include <tessera/order/paced.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "property/scheduler_text_request.hpp"
#include "support/must.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

namespace tessera_test {

template <class Order, class BlockStore, class Gate = gate::in_line>
class scheduler_world {
 public:
  using scheduler_type = any_scheduler<Order, BlockStore, Gate>;
  using plan_type = step_plan<text_request>;

  scheduler_world(const scheduler_limits& l, const typename scheduler_type::config& c)
      : limits_{l},
        config_{c},
        block_size_{static_cast<std::size_t>(l.block_size.count())},
        storage_(scheduler_type::required_bytes(l)),
        scheduler_{storage_, l, c},
        order_{c.order},
        device_(l.blocks * block_size_),
        host_(l.host_blocks * block_size_) {}

  [[nodiscard]] scheduler_type& scheduler() { return scheduler_; }
  [[nodiscard]] const std::vector<text_request*>& live() const { return live_; }
  [[nodiscard]] bool pending() const { return !flights_.empty(); }
  /// Whether the newest plan can be abandoned.
  [[nodiscard]] bool open() const { return open_; }
  [[nodiscard]] std::size_t in_flight() const { return flights_.size(); }
  /// The plan to be settled next.
  [[nodiscard]] const plan_type& oldest() const { return flights_.front().plan; }
  /// Tells runs apart: everything that the scheduler has decided so far.
  [[nodiscard]] std::uint64_t digest() const { return digest_; }
  void set_digest(std::uint64_t d) { digest_ = d; }
  /// Transfers from the second level of the cache, and blocks that went there.
  [[nodiscard]] std::size_t loads() const { return loads_; }
  [[nodiscard]] std::size_t demotions() const { return demotions_; }
  /// Deadlines that have passed.
  [[nodiscard]] std::size_t late() const { return late_; }
  /// Nothing is looked at except what becomes part of the digest: faster, and no request ages because the test looks.
  void look_away() { looks_ = false; }

  status submit(text_request& r, time_point now);

  /// `progress` null: as it was evacuated.
  status adopt(text_request& r, const request_progress<seconds_clock>* progress = nullptr);

  /// Saves the KV, as an engine does, and gives the request up.
  status evacuate(text_request& r);

  /// A suspended request keeps blocks, KV, progress and place, and leaves the others theirs.
  void suspend(text_request& r);
  void resume(text_request& r);

  /// A parked request keeps blocks, progress and place, and holds up no other.
  status park(text_request& r, time_point deadline, park_end at_deadline);
  status ready(text_request& r);

  /// KV of `n` tokens is on its way.
  status loading(text_request& r, tokens n, time_point deadline);
  /// `n` tokens came: written when the plan has run that named the blocks, and nonsense behind them.
  status arrived(text_request& r, tokens n);
  status start_by(text_request& r, time_point deadline);

  /// A request leaves, or is finished, and a copy of its blocks is not done.
  status drain(text_request& r, bool is_finished, time_point deadline);
  [[nodiscard]] std::size_t copies_out() const { return copies_out_.size(); }
  /// The copy is done: until now its blocks were not written to.
  void drained(std::size_t i);
  /// Requests with KV on its way, ended ones included.
  [[nodiscard]] std::vector<text_request*> loading_ones() const;

  /// Its priority is another.
  void update(text_request& r, int priority);

  void cancel(text_request& r);

  const plan_type& plan(time_point now, const step_limits& step);

  /// A resident loses its KV.
  void preempt(text_request& r);

  /// `child` goes on where `parent` is, with a text of its own from there on.
  status fork(text_request& parent, text_request& child);

  void forget_prefixes()
    requires kv::prefix_store<BlockStore>;

  void abandon();

  /// Runs the oldest plan, and those before it, and commits it; `choose(request, entry, generated)` makes up what the
  /// engine says of one that has generated so much.
  template <class Choose>
  void commit(time_point now, Choose&& choose);

  /// What holds at any moment.
  void check();

  /// Nothing may be left when all requests have gone.
  void check_empty();

 private:
  static std::size_t count(tokens n) { return static_cast<std::size_t>(n.count()); }
  static std::size_t count(blocks n) { return static_cast<std::size_t>(n.count()); }
  [[nodiscard]] blocks blocks_for_length(tokens n) const { return blocks_for(n, limits_.block_size); }
  /// What the order keeps about a request.
  static auto place(const text_request& r) {
    const auto& s = order_state<Order>(r);
    std::tuple<std::uint64_t, std::uint64_t, double, double, std::uint8_t, std::uint64_t> p{};
    std::get<0>(p) = r.state().sequence;
    if constexpr (requires { s.turn; }) std::get<1>(p) = s.turn;
    if constexpr (requires { s.boost_at; }) std::get<2>(p) = s.boost_at.seconds();
    if constexpr (requires { s.urgent_at; }) std::get<2>(p) = s.urgent_at.seconds();
    if constexpr (requires { s.rank; }) std::get<3>(p) = static_cast<double>(s.rank);
    if constexpr (requires { s.quantum_used; }) std::get<3>(p) = static_cast<double>(s.quantum_used.count());
    if constexpr (requires { s.service; }) {
      std::get<3>(p) = s.level;
    } else if constexpr (requires { s.level; }) {
      std::get<4>(p) = s.level;
    }
    if constexpr (requires { s.boosted; }) std::get<4>(p) = s.boosted;
    std::get<5>(p) = r.state().carried;
    return p;
  }
  static auto place(const text_request& r)
    requires std::same_as<Order, order::fcfs>
  {
    return r.state().sequence;
  }
  /// The order among residents: requests that had to start anew, all others, backfilled requests.
  [[nodiscard]] bool before(const text_request& a, const text_request& b) const {
    const auto rank = [](const text_request& r) { return r.state().restarted ? 0 : r.state().backfilled ? 2 : 1; };
    return rank(a) != rank(b) ? rank(a) < rank(b) : order_.before(a, b);
  }
  [[nodiscard]] bool displaces(const text_request& waiting, const text_request& resident) const {
    return !resident.state().restarted && (resident.state().backfilled || order_.displaces(waiting, resident));
  }
  /// Waiting requests, in the order in which they are served. Looking makes requests age when their turn has come.
  [[nodiscard]] std::vector<text_request*> in_line() {
    using queue_type = std::remove_cvref_t<decltype(scheduler_.waiting())>;
    auto& queue = const_cast<queue_type&>(scheduler_.waiting());
    std::vector<text_request*> line;
    if constexpr (requires { typename queue_type::line; }) {
      typename queue_type::line all{queue};
      for (text_request* r = all.first(); r != nullptr; r = all.take()) line.push_back(r);
    } else {
      for (text_request* r = queue.front(); r != nullptr; r = queue.next(*r)) line.push_back(r);
    }
    return line;
  }
  /// KV that comes to the blocks that a plan has named.
  struct landing {
    text_request* request;
    std::uint64_t epoch;
    tokens announced;
    tokens came;
    std::size_t first;
    std::vector<kv::block_id> to;
  };
  /// A plan that was made and not settled.
  struct flight {
    plan_type plan;
    std::vector<std::vector<kv::block_id>> rows{};      ///< Rows of its tables, as they were when it was made.
    std::vector<std::int64_t> expected{};               ///< What its requests expected of the plans before it.
    std::vector<std::uint64_t> epochs{};                ///< Epochs of its requests, when it was made.
    std::vector<text_request*> copied{};                ///< Requests with last blocks that it copies.
    std::vector<std::vector<std::uint64_t>> fetched{};  ///< What it fetches.
    std::vector<outcome> outcomes{};
    std::size_t preempted_meanwhile = 0;
    std::vector<landing> landings{};  ///< What has arrived before it was run.
    bool has_run = false;
  };
  /// A request that has ended, and is held by plans in flight.
  struct ending {
    text_request* request;
    lifecycle how;
  };

  [[nodiscard]] static bool in_plan(const text_request& r, const flight& f) {
    for (std::size_t i = 0; i != f.plan.size(); ++i) {
      if (f.plan[i].request == &r) return true;
    }
    return std::any_of(f.plan.preempted.begin(), f.plan.preempted.end(),
                       [&](const auto& v) { return v.request == &r; }) ||
           std::any_of(f.plan.load.begin(), f.plan.load.end(), [&](const auto& t) { return t.request == &r; });
  }
  [[nodiscard]] bool in_a_plan(const text_request& r) const {
    return std::any_of(flights_.begin(), flights_.end(), [&](const flight& f) { return in_plan(r, f); });
  }
  [[nodiscard]] static bool is_loading(const text_request& r) {
    return r.state().life == lifecycle::suspended && r.state().loads;
  }
  /// Blocks with a copy that is not done.
  struct copy_out {
    std::uint64_t ticket = 0;
    std::uint32_t row = no_index;
    std::vector<kv::block_id> blocks{};
    std::vector<std::uint64_t> contents{};
  };
  copy_out copied_out(std::size_t i);
  void land(const landing& l) {
    for (std::size_t p = l.first * block_size_; p != count(l.announced); ++p) {
      slot(l.to, p - l.first * block_size_) = p < count(l.came) ? l.request->written(p, l.epoch) : 0xdead;
    }
  }
  void hear_of_deadlines();
  [[nodiscard]] bool is_here(const text_request& r) const {
    return std::find(live_.begin(), live_.end(), &r) != live_.end();
  }
  /// Blocks that requests which compute their prompts have yet to take.
  [[nodiscard]] std::int64_t promised() const {
    std::int64_t n = 0;
    for (std::size_t i = 0; i != plan_.size(); ++i) {
      const auto& s = plan_[i].request->state();
      if (s.reach() - plan_[i].first == tokens{1}) continue;
      n += std::max<std::int64_t>(
          blocks_for_length(s.reach()).count() - static_cast<std::int64_t>(scheduler_.tables().row(s.row).size()), 0);
    }
    if (step_.prefill_budget == tokens{} && !screens<Gate>) return n;
    for (const text_request* r : scheduler_.residents()) {  // prompts that go on in a later step
      const auto& s = r->state();
      const wait_reason why = scheduler_.why(*r);
      const bool is_passed =
          why == wait_reason::gated || (why == wait_reason::budget_spent && step_.prefill_budget > tokens{});
      if (!is_passed || s.reach() - s.computed == tokens{1}) continue;
      n += std::max<std::int64_t>(
          blocks_for_length(s.reach()).count() - static_cast<std::int64_t>(scheduler_.tables().row(s.row).size()), 0);
    }
    return n;
  }
  void note(std::uint64_t x) { digest_ = mix(digest_, x); }
  [[nodiscard]] std::vector<kv::block_id> row_of(const text_request& r) const {
    if (r.state().row == no_index) return {};
    const auto row = scheduler_.tables().row(r.state().row);
    return {row.begin(), row.end()};
  }

  std::uint64_t& slot(std::span<const kv::block_id> row, std::size_t position) {
    return device_.at(row[position / block_size_] * block_size_ + position % block_size_);
  }

  void forget(text_request& r) {
    const auto at = std::find(live_.begin(), live_.end(), &r);
    must(at != live_.end(), "who ends was live");
    live_.erase(at);
  }
  void end(text_request& r, lifecycle how) {
    must(r.state().life == how, "a request ends as it was told to");
    must(scheduler_.why(r) == wait_reason::none, "who is gone waits for nothing");
    ++r.ended;
    r.host_ids.clear();
    r.in_transit.clear();
    forget(r);
  }
  /// A request has ended: at once, or when the last plan is settled that has it.
  void leave(text_request& r, lifecycle how);
  void settle_cancelled();
  void release_ended();

  /// The newest plan will be run: what is told to the engine's books, at once.
  void launch();

  /// Does what a plan says to device and host memory, and samples.
  template <class Choose>
  void run(flight& f, Choose&& choose);

  static constexpr bool two_levels = requires { typename BlockStore::host_type; };
  /// Whether a transfer brings what was found by its hash, not what the request itself left there.
  [[nodiscard]] bool is_load(const kv_transfer<text_request>& t) const {
    if (!two_levels) return false;
    const auto& s = t.request->state();
    return s.host_head == no_index || t.first < t.request->host_first || s.shared_blocks < t.request->host_first;
  }
  [[nodiscard]] static bool waits(const text_request& r) noexcept { return r.state().life == lifecycle::waiting; }
  /// Whether it has ended if all comes of it that can.
  [[nodiscard]] bool may_end(const text_request& r) const {
    const auto& s = r.state();
    const tokens made = s.reach() - r.prompt;
    return s.expected != 0 && (s.reach() > limits_.longest() || (r.max_output != tokens{} && made >= r.max_output));
  }

  /// No more adapters than slots among requests that hold blocks or are about to.
  void check_adapters();
  /// What the plan's steps read of images is in a cache that drops and encodes as the plan says.
  void check_encoder();

  void check_plan();

  /// A request that outranks none is refused when all others have had their turn. What there is now is what there was
  /// then, except for lookahead. It was refused rightly if it would be refused with every block of its prefix that
  /// there is.
  void check_refusal(const text_request& r, std::size_t victims, std::size_t started, std::int64_t kept_for_held);

  /// Whether a prompt that begins as that of `r` is being computed for one that ranks before it.
  [[nodiscard]] bool has_leader(const text_request& r) const;

  void note_plan();

  scheduler_limits limits_;
  typename scheduler_type::config config_;
  std::size_t block_size_;
  std::vector<std::byte> storage_;
  scheduler_type scheduler_;
  Order order_;  ///< To compare with.
  bool looks_ = true;
  std::size_t loads_ = 0;
  std::size_t demotions_ = 0;
  std::vector<std::uint64_t> device_;
  std::vector<std::uint64_t> host_;
  std::vector<text_request*> live_;
  plan_type plan_{};  ///< The newest.
  step_limits step_{};
  std::deque<flight> flights_;
  bool open_ = false;  ///< Whether the newest can be abandoned.
  std::vector<copy_out> copies_out_;
  std::size_t late_ = 0;
  std::vector<ending> ending_;
  std::vector<std::uint32_t> left_rows_;     ///< Rows of requests that left while the plan could be abandoned.
  std::map<std::uint64_t, tokens> encoder_;  ///< The outputs of images that the engine has after the newest plan,
  std::map<std::uint64_t, tokens> encoder_before_;  ///< and had before it.
  std::uint64_t digest_ = 0;
  std::uint64_t epoch_ = 0;  ///< How often prefixes have been forgotten.
};

}  // namespace tessera_test

#include "property/scheduler_world_calls.hpp"
#include "property/scheduler_world_checks.hpp"
#include "property/scheduler_world_device.hpp"
