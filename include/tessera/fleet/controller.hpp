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

/// What a controller is handed with each event, and does not keep. It says what is believed of the fleet now, and takes
/// what the controller wants done. `fleet::runtime` is one in front of engines, `sim::controlled` one in front of
/// simulated instances: the same controller runs behind both.
///
/// An action is begun when its call returns `ok`. Any other answer says why not, and nothing was changed. `refused`:
/// the engine said at joining that it cannot, or the destination does not take the request. `exhausted`: there is no
/// room for another action. Nothing here calls the controller. What is shown is valid until the next call of the port.
class port {
 public:
  // What is known.

  /// The time, in seconds.
  [[nodiscard]] virtual double now_s() const noexcept = 0;
  /// The replicas that may be given a request which is on none, by number. For a request without an `id`: those that
  /// may be given requests at all. O(replicas).
  [[nodiscard]] virtual candidates<> replicas(const request_view& r) noexcept = 0;
  /// Where a request that runs could go on, and where it is; none if it cannot move now. O(replicas).
  [[nodiscard]] virtual destinations where_to(const request_view& r) noexcept = 0;
  /// Calls `look(request, may_move)` for each of this router's requests that is on a replica, in no particular order.
  /// `may_move`: as far as its replica is concerned, it can move now. It has a token there, is not on its way and does
  /// not rest after a move. `look` must not call the port. O(requests there).
  virtual void requests_at(replica_id id, const request_visitor& look) noexcept = 0;
  /// How old what is shown of a replica is, in seconds, apart from this router's own requests.
  [[nodiscard]] virtual double age_s(const view& v) const noexcept = 0;
  /// Requests that other routers have sent since the replicas reported, on average; see `placement::fill_to_level`.
  [[nodiscard]] virtual double others_sent() const noexcept = 0;

  // What can be done.

  /// A request that is on no replica goes to one of `replicas`.
  virtual status place(request_id request, replica_id to) noexcept = 0;
  /// A request that runs goes on at one of `where_to`.
  virtual status move(request_id request, replica_id to, transfer how = transfer::stopped) noexcept = 0;
  /// A request that is on its way stays where it was.
  virtual status cancel_move(request_id request) noexcept = 0;
  /// A replica takes a role; nothing new goes there until it has it.
  virtual status set_role(replica_id id, control::role role) noexcept = 0;
  /// A replica serves requests of at least `from` and fewer than `to` blocks. Requires a range that is not empty.
  virtual status set_length_range(replica_id id, blocks from, blocks to) noexcept = 0;
  /// A replica computes at most `most` tokens of prompts in a step; 0: as its own budget says.
  virtual status set_prefill_budget(replica_id id, tokens most) noexcept = 0;
  /// A parameter of a replica's order.
  virtual status set_order(replica_id id, order_parameter parameter, double value) noexcept = 0;
  /// Calls `controller::woke(alarm)` in `seconds` seconds.
  virtual status wake_after(double seconds, std::uint64_t alarm) noexcept = 0;
  /// Has a plan made, beside the service; `controller::planned` says what came of it.
  virtual status plan_async(std::uint64_t plan) noexcept = 0;
  /// Says why, in a log. `request` or `replica` may be none.
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

/// What a controller reads of views besides the load, which costs the caller something to tell.
struct reading {
  bool phases = false;    ///< `slo_met`, `reasoning` and `fresh_answers`.
  bool prefixes = false;  ///< `cached_tokens`, `new_prefill_tokens` and `prefix_key`.
  bool queues = false;    ///< `free_after_queue`.
};

/// Decides about a whole fleet: where requests go and go on, and what replicas do. Called per request and per report,
/// never per token, so its calls may be virtual. All calls except `arrived` have a default: nothing happens.
///
/// The order of calls is that in which things become known. A request is `arrived` first; when its replica has died, it
/// is `lost`, and `arrived` again if it goes on. Controllers do not allocate, throw, lock or read a clock.
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

  /// A request is to be placed, new or again. One that is not placed before this returns stays with the front end, and
  /// `arrived` again when that tries again.
  virtual void arrived(const request_view& r, port& p) noexcept = 0;
  /// It has its first token since it was placed.
  virtual void first_token(const request_view& /*r*/, port& /*p*/) noexcept {}
  /// It has grown by another block of KV.
  virtual void progressed(const request_view& /*r*/, port& /*p*/) noexcept {}
  /// It has ended its reasoning.
  virtual void reasoning_ended(const request_view& /*r*/, port& /*p*/) noexcept {}
  /// It runs, and might go on elsewhere: it has ended its reasoning, has outgrown its replica, or memory is tight
  /// there. Said when it can move, once for each reason. From here no other request may be moved and no role be
  /// changed.
  virtual void may_move(const request_view& /*r*/, move_reason /*why*/, port& /*p*/) noexcept {}
  /// It has arrived with its KV where it was moved to.
  virtual void arrived_with_kv(const request_view& /*r*/, port& /*p*/) noexcept {}
  /// Its move came to nothing: it is where it was.
  virtual void move_failed(const request_view& /*r*/, port& /*p*/) noexcept {}
  /// Its replica is dead, or has refused it: it is on none.
  virtual void lost(const request_view& /*r*/, port& /*p*/) noexcept {}
  /// It is over.
  virtual void ended(const request_view& /*r*/, port& /*p*/) noexcept {}

  /// An alarm is due.
  virtual void woke(std::uint64_t /*alarm*/, port& /*p*/) noexcept {}
  /// A plan is made: what it has for each replica.
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
