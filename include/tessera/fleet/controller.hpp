// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/telemetry.hpp>
#include <tessera/core/status.hpp>
#include <tessera/core/units.hpp>
#include <tessera/fleet/action.hpp>
#include <tessera/fleet/event.hpp>
#include <tessera/fleet/ledger_types.hpp>
#include <tessera/fleet/request_view.hpp>
#include <tessera/fleet/view.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

/// @file
/// What decides about a whole fleet, and what it decides through.

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// What `port::requests_at` calls for each request: a reference to a callable, which must outlive it.
class request_visitor {
 public:
  /// Calls `f(request, may_move)`, which must not throw.
  template <class F>
    requires std::is_invocable_v<const F&, const request_view&, bool>
  constexpr request_visitor(const F& f) noexcept  // NOLINT: a reference to it
      : object_{&f}, call_{[](const void* object, const request_view& r, bool may_move) noexcept {
          (*static_cast<const F*>(object))(r, may_move);
        }} {}
  /// Calls it.
  void operator()(const request_view& r, bool may_move) const noexcept { call_(object_, r, may_move); }

 private:
  const void* object_;
  void (*call_)(const void*, const request_view&, bool) noexcept;
};

/// Through this a controller reads the fleet and acts. It comes with each event, and a controller does not keep it.
/// `fleet::runtime` implements it in front of engines, `sim::controlled` in front of simulated instances. So the same
/// controller runs in both.
///
/// A call that returns `ok` has begun its action. Any other status says why not, and nothing has changed. `refused`:
/// the engine cannot do it (`replica::can`), or the destination does not take the request. `exhausted`: there is no
/// room for another action. No call here calls the controller. Views are valid until the next call of the port.
class port {
 public:
  // What is known.

  /// The time, in seconds.
  [[nodiscard]] virtual double now_s() const noexcept = 0;
  /// The replicas that may get a request which is on none, in the order of their numbers. For a request without an
  /// `id`, the replicas that take new requests at all. O(replicas).
  [[nodiscard]] virtual candidates<> replicas(const request_view& r) noexcept = 0;
  /// The replica of a running request, and those to which it could move. None if it cannot move now. O(replicas).
  [[nodiscard]] virtual destinations where_to(const request_view& r) noexcept = 0;
  /// Calls `look(request, may_move)` for each of this router's requests that is on a replica, in no particular order.
  /// `may_move`: its replica would let it move now. It has a token there, is not on its way and does not rest after a
  /// move. `look` must not call the port. O(requests there).
  virtual void requests_at(replica_id id, const request_visitor& look) noexcept = 0;
  /// The age of a view in seconds, which is that of its replica's report. This router's own requests are up to date.
  [[nodiscard]] virtual double age_s(const view& v) const noexcept = 0;
  /// The mean number of requests that other routers have sent since the last reports; see `placement::fill_to_level`.
  [[nodiscard]] virtual double others_sent() const noexcept = 0;

  // What can be done.

  /// Sends a request that is on no replica to one of `replicas`.
  virtual status place(request_id request, replica_id to) noexcept = 0;
  /// Moves a running request to one of `where_to`.
  virtual status move(request_id request, replica_id to, transfer how = transfer::stopped) noexcept = 0;
  /// Cancels the move of a request, which stays at its source.
  virtual status cancel_move(request_id request) noexcept = 0;
  /// Gives a replica a role. It gets nothing new until it has the role.
  virtual status set_role(replica_id id, control::role role) noexcept = 0;
  /// Has a replica serve requests of at least `from` and fewer than `to` blocks. Requires a range that is not empty.
  virtual status set_length_range(replica_id id, blocks from, blocks to) noexcept = 0;
  /// Has a replica compute at most `most` tokens of prompts in a step; 0: its own budget.
  virtual status set_prefill_budget(replica_id id, tokens most) noexcept = 0;
  /// Sets a parameter of a replica's order.
  virtual status set_order(replica_id id, order_parameter parameter, double value) noexcept = 0;
  /// Calls `controller::woke(alarm)` in `seconds` seconds.
  virtual status wake_after(double seconds, std::uint64_t alarm) noexcept = 0;
  /// Asks for a plan, which is made beside the service. `controller::planned` brings it.
  virtual status plan_async(std::uint64_t plan) noexcept = 0;
  /// Writes a reason into the log. `request` or `replica` may be none.
  virtual void note(request_id request, replica_id replica, const short_text& why) noexcept = 0;

  /// `place`, and a note that says why if it is not begun.
  status place_or_note(request_id request, replica_id to) noexcept {
    const status s = place(request, to);
    if (!ok(s)) note(request, to, to_string(s));
    return s;
  }
  /// `move`, and a note that says why if it is not begun.
  status move_or_note(request_id request, replica_id to, transfer how = transfer::stopped) noexcept {
    const status s = move(request, to, how);
    if (!ok(s)) note(request, to, to_string(s));
    return s;
  }

 protected:
  port() = default;
  ~port() = default;
  port(const port&) = default;  ///< Copies.
  /// Copies.
  port& operator=(const port&) = default;
};

/// What a controller reads of views besides the load. Each part costs the caller time.
struct reading {
  bool phases = false;    ///< `slo_met`, `reasoning` and `fresh_answers`.
  bool prefixes = false;  ///< `cached_tokens`, `new_prefill_tokens` and `prefix_key`.
  bool queues = false;    ///< `free_after_queue`.
};

/// Decides about a whole fleet: where requests are placed and moved, and what replicas do. Called per request and per
/// report, never per token, so its calls may be virtual. All calls except `arrived` do nothing by default.
///
/// Calls come in the order in which things become known. A request arrives first. If its replica dies, it is `lost`,
/// and arrives again if it goes on. Controllers do not allocate, throw, lock or read a clock.
class controller {
 public:
  /// What it reads of views.
  [[nodiscard]] virtual reading reads() const noexcept { return {}; }

  /// Before the first event.
  virtual void started(port& /*p*/) noexcept {}
  /// A replica has come.
  virtual void joined(replica_id /*id*/, const replica& /*what*/, port& /*p*/) noexcept {}
  /// A replica takes no new requests.
  virtual void left(replica_id /*id*/, port& /*p*/) noexcept {}
  /// A replica has reported.
  virtual void reported(const view& /*v*/, port& /*p*/) noexcept {}
  /// A replica is dead for sure. Its requests are `lost` after this.
  virtual void failed(replica_id /*id*/, port& /*p*/) noexcept {}

  /// A request is to be placed, new or again. If it is not placed before this returns, the front end keeps it and tries
  /// again later, by another `arrived`.
  virtual void arrived(const request_view& r, port& p) noexcept = 0;
  /// A request has its first token since it was placed.
  virtual void first_token(const request_view& /*r*/, port& /*p*/) noexcept {}
  /// A request has grown by another block of KV.
  virtual void progressed(const request_view& /*r*/, port& /*p*/) noexcept {}
  /// A request has ended its reasoning.
  virtual void reasoning_ended(const request_view& /*r*/, port& /*p*/) noexcept {}
  /// A running request may move: it has ended its reasoning, has outgrown its replica, or memory is tight there. Called
  /// once for each reason, when a move is possible. In this call the controller may move no other request and change
  /// no role.
  virtual void may_move(const request_view& /*r*/, move_reason /*why*/, port& /*p*/) noexcept {}
  /// A request that moved has arrived with its KV.
  virtual void arrived_with_kv(const request_view& /*r*/, port& /*p*/) noexcept {}
  /// A move has failed: the request is still at its source.
  virtual void move_failed(const request_view& /*r*/, port& /*p*/) noexcept {}
  /// A request is on no replica any more, because its replica is dead or has refused it.
  virtual void lost(const request_view& /*r*/, port& /*p*/) noexcept {}
  /// A request is over.
  virtual void ended(const request_view& /*r*/, port& /*p*/) noexcept {}

  /// An alarm is due.
  virtual void woke(std::uint64_t /*alarm*/, port& /*p*/) noexcept {}
  /// A plan is ready, with an assignment for each replica.
  virtual void planned(std::uint64_t /*plan*/, std::span<const assignment> /*layout*/, port& /*p*/) noexcept {}

 protected:
  controller() = default;
  ~controller() = default;  // Not virtual: that would ask for the heap. The code that makes a controller has its type.
  controller(const controller&) = default;  ///< Copies.
  /// Copies.
  controller& operator=(const controller&) = default;
};

}  // namespace fleet
TESSERA_NAMESPACE_END
