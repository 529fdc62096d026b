// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/fleet/controller.hpp>
#include <tessera/fleet/runtime.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// What a controller would have decided where another one did: for logs.

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// What there must be room for in `following`; fixed at construction.
struct following_limits {
  std::size_t actions = 64;  ///< Actions of one event, wanted and recorded ones alike. At least 1.
};

/// A controller that asks another one what it would do, and does what a log says was done. So the book is that of the
/// log at each decision, and every decision is compared by itself. Without that, all events after a first different
/// decision would be about another book than the controller's own.
///
/// - What was recorded is done when the other controller asks for the like, as another place for the same request. Else
///   it is done when `arrived` or `may_move` of that request returns, or at the end of the event.
/// - Length ranges are what the other controller itself says of replicas: it is shown its own ones.
/// - Alarms are its own. Notes are left out.
/// - The other controller is told `ok` for each action, except where it asks for the recorded one and that fails.
///   What it keeps besides the book (turns, homes of sessions) goes by its own decisions.
///
/// A controller that acts at alarms may differ from its own log. An action of an alarm that it does not ask for is done
/// at the end of the event. An action that was refused is now answered by `ok`. What follows in the book may then
/// differ, too: a move that is done after its source has died is none.
///
/// See `follow`. Nothing allocates after construction. O(recorded actions) per call, and the other controller's own.
class following final : public controller, private port {
 public:
  using limits = following_limits;  ///< What there must be room for; fixed at construction.

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}.add<action>(l.actions).add<action>(l.actions).bytes_unaligned();
  }
  /// Asks `other`, which must outlive it, as must what `storage_for` made.
  following(controller& other, owned_storage<limits>& storage) noexcept
      : following{other, arena{storage.memory()}, storage.limits()} {}

  /// Before an event: what followed from it when it was recorded. What there is no room for is left out.
  void expect(std::span<const action> recorded) noexcept {
    recorded_.clear();
    wanted_.clear();
    for (const action& a : recorded) {
      if (a.what != action_kind::note && !recorded_.full()) recorded_.push_back(a);
    }
  }
  /// After it: what the other controller would have done. Valid until the next call.
  [[nodiscard]] std::span<const action> wanted() const noexcept { return {wanted_.data(), wanted_.size()}; }
  /// What was recorded and is not done yet.
  [[nodiscard]] std::span<const action> left() const noexcept { return {recorded_.data(), recorded_.size()}; }

  [[nodiscard]] reading reads() const noexcept override { return other_.reads(); }
  void started(port& p) noexcept override { other_.started(through(p)); }
  void joined(replica_id id, const replica& what, port& p) noexcept override { other_.joined(id, what, through(p)); }
  void left(replica_id id, port& p) noexcept override { other_.left(id, through(p)); }
  void reported(const view& v, port& p) noexcept override { other_.reported(v, through(p)); }
  void failed(replica_id id, port& p) noexcept override { other_.failed(id, through(p)); }
  void woke(std::uint64_t alarm, port& p) noexcept override { other_.woke(alarm, through(p)); }
  void planned(std::uint64_t plan, std::span<const assignment> layout, port& p) noexcept override {
    other_.planned(plan, layout, through(p));
  }
  void arrived(const request_view& r, port& p) noexcept override {
    const request_id id = r.id;
    other_.arrived(r, through(p));
    finish(id);
  }
  void may_move(const request_view& r, move_reason why, port& p) noexcept override {
    const request_id id = r.id;
    other_.may_move(r, why, through(p));
    finish(id);
  }
  void first_token(const request_view& r, port& p) noexcept override { other_.first_token(r, through(p)); }
  void progressed(const request_view& r, port& p) noexcept override { other_.progressed(r, through(p)); }
  void reasoning_ended(const request_view& r, port& p) noexcept override { other_.reasoning_ended(r, through(p)); }
  void arrived_with_kv(const request_view& r, port& p) noexcept override { other_.arrived_with_kv(r, through(p)); }
  void move_failed(const request_view& r, port& p) noexcept override { other_.move_failed(r, through(p)); }
  void lost(const request_view& r, port& p) noexcept override { other_.lost(r, through(p)); }
  void ended(const request_view& r, port& p) noexcept override { other_.ended(r, through(p)); }

 private:
  following(controller& other, arena memory, const limits& l) noexcept
      : other_{other}, recorded_{memory, l.actions}, wanted_{memory, l.actions} {
    TESSERA_ASSERT(l.actions >= 1, "an event may have an action");
  }

  [[nodiscard]] port& through(port& p) noexcept {
    real_ = &p;
    return *this;
  }
  /// Does what was recorded of a request, and the other controller has not asked for.
  void finish(request_id id) noexcept {
    for (std::size_t i = 0; i != recorded_.size();) {
      if (recorded_[i].request == id) {
        static_cast<void>(take(i));
      } else {
        ++i;
      }
    }
  }
  /// Does the i-th of what was recorded.
  status take(std::size_t i) noexcept {
    const action a = recorded_[i];
    for (std::size_t k = i + 1; k != recorded_.size(); ++k) recorded_[k - 1] = recorded_[k];
    recorded_.truncate(recorded_.size() - 1);
    switch (a.what) {
      case action_kind::place: return real_->place(a.request, a.replica);
      case action_kind::move: return real_->move(a.request, a.replica, a.how);
      case action_kind::cancel_move: return real_->cancel_move(a.request);
      case action_kind::set_role: return real_->set_role(a.replica, a.role);
      default: return status::ok;
    }
  }
  /// The other controller asks for an action: what was recorded in its stead is done.
  status ask(const action& a) noexcept {
    if (wanted_.full()) return status::exhausted;
    wanted_.push_back(a);
    const bool of_request = a.request != no_request;
    for (std::size_t i = 0; i != recorded_.size(); ++i) {
      const action& r = recorded_[i];
      if (r.what != a.what || (of_request ? r.request != a.request : r.replica != a.replica)) continue;
      if (r.what == action_kind::set_order && r.parameter != a.parameter) continue;
      const bool same = a.what == action_kind::cancel_move || (r.replica == a.replica && r.role == a.role);
      const status s = take(i);
      return same ? s : status::ok;
    }
    return status::ok;
  }

  [[nodiscard]] double now_s() const noexcept override { return real_->now_s(); }
  [[nodiscard]] candidates<> replicas(const request_view& r) noexcept override { return real_->replicas(r); }
  [[nodiscard]] destinations where_to(const request_view& r) noexcept override { return real_->where_to(r); }
  void requests_at(replica_id id, const request_visitor& look) noexcept override { real_->requests_at(id, look); }
  [[nodiscard]] double age_s(const view& v) const noexcept override { return real_->age_s(v); }
  [[nodiscard]] double others_sent() const noexcept override { return real_->others_sent(); }
  status place(request_id request, replica_id to) noexcept override {
    return ask({.what = action_kind::place, .replica = to, .request = request});
  }
  status move(request_id request, replica_id to, transfer how) noexcept override {
    return ask({.what = action_kind::move, .how = how, .replica = to, .request = request});
  }
  status cancel_move(request_id request) noexcept override {
    return ask({.what = action_kind::cancel_move, .request = request});
  }
  status set_role(replica_id id, control::role role) noexcept override {
    return ask({.what = action_kind::set_role, .role = role, .replica = id});
  }
  status set_length_range(replica_id id, blocks from, blocks to) noexcept override {
    const status s = real_->set_length_range(id, from, to);
    const action a{.what = action_kind::set_length_range, .replica = id, .low = from.count(), .high = to.count()};
    return ok(s) ? ask(a) : s;
  }
  status set_prefill_budget(replica_id id, tokens most) noexcept override {
    const status s = real_->set_prefill_budget(id, most);
    return ok(s) ? ask({.what = action_kind::set_prefill_budget, .replica = id, .low = most.count()}) : s;
  }
  status set_order(replica_id id, order_parameter parameter, double value) noexcept override {
    const status s = real_->set_order(id, parameter, value);
    return ok(s) ? ask({.what = action_kind::set_order, .parameter = parameter, .replica = id, .value = value}) : s;
  }
  status wake_after(double seconds, std::uint64_t alarm) noexcept override { return real_->wake_after(seconds, alarm); }
  status plan_async(std::uint64_t plan) noexcept override { return ask({.what = action_kind::plan, .number = plan}); }
  void note(request_id, replica_id, const short_text&) noexcept override {}

  controller& other_;
  port* real_ = nullptr;
  fixed_vector<action> recorded_;  // Not done yet.
  fixed_vector<action> wanted_;
};

/// An event of a log, and the actions that followed from it. What was recorded is done in the book of `rt`, a runtime
/// of `by`. Returns what the controller that `by` asks would have done. Valid until the next call. Complexity: as
/// `runtime::handle`.
inline std::span<const action> follow(runtime& rt, following& by, const event& e,
                                      std::span<const action> recorded) noexcept {
  by.expect(recorded);
  rt.handle(e);
  for (const action& a : by.left()) rt.carry_out(a);
  return by.wanted();
}

}  // namespace fleet
TESSERA_NAMESPACE_END
