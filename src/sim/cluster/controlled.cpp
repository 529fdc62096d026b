// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/cluster/compare_views.hpp>
#include <tessera/sim/cluster/controlled.hpp>
#include <tessera/sim/cluster/decided_moves.hpp>
#include <tessera/sim/cluster/routers.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

fleet::request_view request_view_of(const request& r) {
  const bool is_new = r.state().length == tokens{};
  fleet::request_view v{.id = r.index,
                        .prompt = r.prompt,
                        .generated = r.generated(),
                        .limit = r.max_output,
                        .session = static_cast<std::uint64_t>(r.session + 1),
                        .tenant = r.tenant,
                        .is = is_new ? r.starts_in : r.state().phase,
                        .calls_tools = r.kept_s > 0};
  if (r.score >= 0 && r.score < 1e9F) v.expected = tokens{std::llround(r.score)};
  if (is_live(r.state().life)) v.where = static_cast<fleet::replica_id>(r.where);
  if (r.migration.stage != migration_stage::none) v.moves_to = static_cast<fleet::replica_id>(r.migration.to);
  return v;
}

namespace {

/// Orders the alarms about plans.
constexpr std::uint64_t planning = std::numeric_limits<std::uint64_t>::max();

}  // namespace

/// The port of a controller that sees every instance as it is. Its actions are carried out at once.
class controlled::all_seeing final : public fleet::port {
 public:
  all_seeing(cluster& c, seated_controller by)
      : by_{std::move(by)},
        reads_{by_.decides->reads()},
        c_{&c},
        has_first_(c.requests().size()),
        asked_at_(c.requests().size()) {
    by_.decides->started(*this);
    for (std::size_t i = 0; i != c.size(); ++i) {
      if (c.options().pools) c.show_role(i, c.options().pools->role_of(i));
      joined(c, i);
    }
  }

  void joined(cluster& c, std::size_t i) {
    decides(c).joined(id(i), {.capacity = c.capacity(i), .role = c.views()[i].role}, *this);
  }
  void failed(cluster& c, std::size_t i) {
    moves_.forget(i);
    decides(c).failed(id(i), *this);
  }
  void reported(cluster& c, std::size_t i) {
    fleet::controller& by = decides(c);
    moves_.begin(
        c, i, [](std::size_t) { return true; },
        [&](const decided_moves::decided& m) { by.move_failed(request_view_of(c.requests()[m.request]), *this); });
    by.reported(c.views()[i], *this);
    ask_outgrown(c, i);
  }
  [[nodiscard]] std::size_t place(cluster& c, const request& r) {
    placed_.reset();
    has_first_[r.index] = false;
    decides(c).arrived(request_view_of(r), *this);
    TESSERA_ASSERT(placed_.has_value(), "a request is placed at once");
    if (c.asks(r)) c.because(by_.places_by, compare_views(c.candidates(r), reads_));
    return *placed_;
  }
  void first_token(cluster& c, const request& r) {
    if (!has_first_[r.index]) decides(c).first_token(request_view_of(r), *this);
    has_first_[r.index] = true;
  }
  void answers(cluster& c, request& r) {
    first_token(c, r);
    decides(c).reasoning_ended(request_view_of(r), *this);
    if (r.migration.stage != migration_stage::none) return;
    looked_.reset();
    asked_about_ = r.index;
    by_.decides->may_move(request_view_of(r), fleet::move_reason::answers, *this);
    asked_about_ = fleet::no_request;
    if (looked_ && c.asks(r) && r.migration.stage == migration_stage::none) {
      c.notify(r, event_kind::stays, r.where, why(), seen_by_mover(r));
    }
  }
  /// Tells the controller about a request by one of its members.
  void notify(cluster& c, const request& r, void (fleet::controller::*what)(const fleet::request_view&, fleet::port&)) {
    (decides(c).*what)(request_view_of(r), *this);
  }
  void woke(cluster& c, std::uint64_t alarm) {
    if (c.alarm_is_of() == planning) return plan(c, alarm);
    looked_.reset();
    decides(c).woke(alarm, *this);
  }

 private:
  struct asked_plan {
    std::uint64_t number = 0;
    bool is_made = false;
    std::vector<fleet::assignment> layout{};
  };

  /// A plan is to be made, or has been made.
  void plan(cluster& c, std::uint64_t number) {
    const auto at = find_plan(number);
    if (!at->is_made) {
      at->layout = by_.plans(number);
      at->is_made = true;
      if (c.options().plan_s > 0) return c.call_after(c.options().plan_s, number, planning);
    }
    const asked_plan made = std::move(*at);
    plans_.erase(at);
    decides(c).planned(number, made.layout, *this);
  }
  [[nodiscard]] std::vector<asked_plan>::iterator find_plan(std::uint64_t number) {
    return std::find_if(plans_.begin(), plans_.end(), [number](const asked_plan& p) { return p.number == number; });
  }
  [[nodiscard]] static fleet::replica_id id(std::size_t i) noexcept { return static_cast<fleet::replica_id>(i); }
  [[nodiscard]] fleet::controller& decides(cluster& c) noexcept {
    c_ = &c;
    return *by_.decides;
  }
  /// Asks about the requests of instance `i` that have outgrown its range, again at each block by which they grow.
  void ask_outgrown(cluster& c, std::size_t i) {
    const blocks end = c.views()[i].to;
    if (end == fleet::endless) return;
    outgrown_.clear();
    for (const request* r : c.at(i).requests()) {
      const blocks size = blocks_for(r->state().length, c.options().instance.limits.block_size);
      if (size < end || size == asked_at_[r->index] || !may_migrate(*r)) continue;
      asked_at_[r->index] = size;
      outgrown_.push_back(r->index);
    }
    std::sort(outgrown_.begin(), outgrown_.end());
    for (const std::size_t k : outgrown_) {
      looked_.reset();
      asked_about_ = k;
      by_.decides->may_move(request_view_of(c.requests()[k]), fleet::move_reason::outgrown, *this);
      asked_about_ = fleet::no_request;
    }
  }
  [[nodiscard]] fleet::candidates<> as_candidates(const std::vector<instance_view>& all) {
    while (ids_.size() < all.size()) ids_.push_back(id(ids_.size()));
    return {all.data(), ids_.data(), all.size()};
  }
  [[nodiscard]] std::string why() const {
    return fmt::format("{}; it needs {} more blocks here, {} elsewhere", by_.moves_by, looked_->first.count(),
                       looked_->second.count());
  }

  /// What is compared of the instances for a move: no prefixes.
  [[nodiscard]] comparison seen_by_mover(const request& r) {
    return compare_views(c_->candidates(r), {.phases = reads_.phases, .queues = reads_.queues});
  }
  void look() {
    if (reads_.phases) c_->look_at_phases();
    if (reads_.queues) c_->look_at_queues();
  }

  [[nodiscard]] double now_s() const noexcept override { return c_->now_s(); }
  [[nodiscard]] fleet::candidates<> replicas(const fleet::request_view& v) noexcept override {
    look();
    if (v.id == fleet::no_request) return as_candidates(c_->in_service());
    const request& r = c_->requests()[v.id];
    if (reads_.prefixes) c_->look_at_prefixes(r);
    return as_candidates(c_->candidates(r));
  }
  [[nodiscard]] fleet::destinations where_to(const fleet::request_view& v) noexcept override {
    const request& r = c_->requests()[v.id];
    look();
    const std::vector<instance_view>& all = c_->candidates(r);
    const auto here = std::find_if(all.begin(), all.end(), [&](const instance_view& i) { return i.id == r.where; });
    if (here == all.end() || !is_live(r.state().life) || r.migration.stage != migration_stage::none) {
      return {fleet::candidates<>{nullptr, nullptr, 0}, 0, {}, {}};
    }
    const blocks moves = blocks_for(r.state().length, c_->options().instance.limits.block_size);
    const blocks grows = max(moves - c_->at(r.where).blocks_held(r), blocks{});
    looked_ = {grows, moves};
    return {as_candidates(all), static_cast<std::size_t>(here - all.begin()), grows, moves};
  }
  void requests_at(fleet::replica_id i, const fleet::request_visitor& look) noexcept override {
    if (i >= c_->size()) return;
    for (const request* r : c_->at(i).requests()) look(request_view_of(*r), may_migrate(*r));
  }
  [[nodiscard]] double age_s(const fleet::view& /*v*/) const noexcept override { return 0; }
  [[nodiscard]] double others_sent() const noexcept override { return 0; }

  status place(fleet::request_id r, fleet::replica_id to) noexcept override {
    if (to >= c_->size() || !c_->takes(to, c_->requests()[r])) return status::refused;
    placed_ = to;
    return status::ok;
  }
  status move(fleet::request_id which, fleet::replica_id to, fleet::transfer how) noexcept override {
    if (asked_about_ != fleet::no_request && which != asked_about_) return status::refused;
    request& r = c_->requests()[which];
    if (to >= c_->size() || to == r.where || !c_->takes(to, r) || !is_live(r.state().life) ||
        r.generated() == tokens{}) {
      return status::refused;
    }
    if (r.migration.stage != migration_stage::none) return status::busy;
    if (how == fleet::transfer::stopped && c_->at(r.where).running()) {
      moves_.remove(which);
      moves_.add({c_->now_s(), r.index, r.where, to, how});
      return status::ok;
    }
    if (c_->asks(r) && looked_) c_->because(why(), seen_by_mover(r));
    return (how == fleet::transfer::live ? c_->migrate(r, to) : c_->move(r, to)) ? status::ok : status::refused;
  }
  status cancel_move(fleet::request_id which) noexcept override {
    request& r = c_->requests()[which];
    if (moves_.remove(which)) return status::ok;
    if (r.migration.stage == migration_stage::none) return status::refused;
    c_->cut_migration(r);
    return status::ok;
  }
  status set_role(fleet::replica_id i, control::role role) noexcept override {
    if (asked_about_ != fleet::no_request) return status::busy;
    if (i >= c_->size() || c_->views()[i].role == role) return status::refused;
    c_->show_role(i, role);
    if (run_watcher* const watcher = c_->options().watcher) {
      watcher->note(c_->now_s(), fmt::format("instance {} becomes a {} worker", i, to_string(role)));
    }
    return status::ok;
  }
  status set_length_range(fleet::replica_id i, blocks from, blocks to) noexcept override {
    TESSERA_ASSERT(blocks{} <= from && from < to, "a range of lengths is not empty");
    if (i >= c_->size()) return status::refused;
    c_->show_range(i, from, to);
    return status::ok;
  }
  status set_prefill_budget(fleet::replica_id i, tokens most) noexcept override {
    if (i >= c_->size()) return status::refused;
    c_->bound_prompts(i, most);
    return status::ok;
  }
  status set_order(fleet::replica_id, fleet::order_parameter, double) noexcept override { return status::refused; }
  status wake_after(double seconds, std::uint64_t alarm) noexcept override {
    c_->call_after(seconds, alarm);
    return status::ok;
  }
  status plan_async(std::uint64_t number) noexcept override {
    if (!by_.plans) return status::refused;
    if (find_plan(number) != plans_.end()) return status::busy;
    plans_.push_back({.number = number});
    c_->call_after(0, number, planning);  // not from within a call of the controller
    return status::ok;
  }
  void note(fleet::request_id, fleet::replica_id, const fleet::short_text&) noexcept override {}

  seated_controller by_;
  fleet::reading reads_;
  cluster* c_;                    // During a call.
  std::vector<bool> has_first_;   // By request: a token since it was placed.
  std::vector<blocks> asked_at_;  // By request: its size when it was last asked about as outgrown.
  std::vector<std::size_t> outgrown_{};
  std::vector<fleet::replica_id> ids_{};
  std::optional<std::size_t> placed_{};
  std::optional<std::pair<blocks, blocks>> looked_{};  // At where the request at hand could go: grows, moves.
  fleet::request_id asked_about_ = fleet::no_request;
  decided_moves moves_{};
  std::vector<asked_plan> plans_{};
};

controlled::all_seeing& controlled::seeing(cluster& c) {
  // Another control may use it for its moves alone, and never start it.
  if (!seeing_) {
    seeing_ = std::make_shared<all_seeing>(c, make_(c.options(), {.router = 0, .routers = 1, .instances = c.size()}));
  }
  return *seeing_;
}

void controlled::starts(cluster& c) {
  seeing_.reset();
  routers_.reset();
  if (const auto& how = c.options().routed) {
    routers_ = std::make_shared<routers>(c, *how, make_);
  } else {
    static_cast<void>(seeing(c));
  }
}
std::size_t controlled::place(cluster& c, const request& r) {
  return routers_ ? routers_->place(c, r) : seeing(c).place(c, r);
}
void controlled::answers(cluster& c, request& r) { routers_ ? routers_->answers(c, r) : seeing(c).answers(c, r); }
void controlled::prefilled(cluster& c, request& r) {
  if (!routers_) seeing(c).first_token(c, r);  // routers hear of it when the step has ended
}
void controlled::moved(cluster& c, request& r) {
  routers_ ? routers_->moved(c, r) : seeing(c).notify(c, r, &fleet::controller::arrived_with_kv);
}
void controlled::migration_failed(cluster& c, request& r) {
  routers_ ? routers_->move_failed(c, r) : seeing(c).notify(c, r, &fleet::controller::move_failed);
}
void controlled::lost(cluster& c, request& r) {
  if (!routers_) seeing(c).notify(c, r, &fleet::controller::lost);  // routers know by themselves
}
void controlled::finished(cluster& c, request& r) {
  routers_ ? routers_->finished(c, r) : seeing(c).notify(c, r, &fleet::controller::ended);
}
void controlled::rejected(cluster& c, request& r) { finished(c, r); }
void controlled::failed(cluster& c, std::size_t i) { routers_ ? routers_->failed(c, i) : seeing(c).failed(c, i); }
void controlled::returned(cluster& c, std::size_t i) { routers_ ? routers_->returned(c, i) : seeing(c).joined(c, i); }
void controlled::alarm(cluster& c, std::uint64_t what) {
  routers_ ? routers_->alarm(c, what) : seeing(c).woke(c, what);
}
void controlled::step_ended(cluster& c, std::size_t i) {
  routers_ ? routers_->step_ended(c, i) : seeing(c).reported(c, i);
}
void controlled::ended(cluster& /*c*/, run_result& result) {
  if (routers_) result.measures["left_in_books"] = static_cast<double>(routers_->in_books());
}

}  // namespace sim
TESSERA_NAMESPACE_END
