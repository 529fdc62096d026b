// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "checks.hpp"

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/following.hpp>
#include <tessera/fleet/log.hpp>
#include <tessera/fleet/runtime.hpp>
#include <tessera/sim/cluster/named_controllers.hpp>

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

/// @file
/// `fleet::runtime` as Python has it: events in, actions out, and what is in the book.

namespace tessera_python {

namespace control = tessera::control;
using ts::sim::controller_settings;

inline nb::object number_or_none(std::uint64_t n, std::uint64_t none) {
  return n == none ? nb::object{nb::none()} : nb::object{nb::int_(n)};
}
template <class E>
[[nodiscard]] const char* name_of(E e) noexcept {
  return fleet::detail::enum_names<E>[static_cast<std::size_t>(e)].data();
}
template <class Value>
[[nodiscard]] std::string text_of(const Value& v) {
  fleet::log_line line;
  return std::string{fleet::write(v, line)};
}

/// An event.
class event_value {
 public:
  explicit event_value(const fleet::event& e) : e_{e} {}
  /// The members are named as in a log.
  event_value(const std::string& kind, double at, const nb::kwargs& members) {
    fleet::log_line line;
    e_.at_s = real(at, "at", 0, endless_seconds);
    if (!fleet::detail::line_reader::read(std::string_view{kind}, e_.what)) refuse("there is no event " + kind);
    // As a line, each member by itself: then what is wrong has a name.
    for (const auto& [name, value] : members) {
      if (value.is_none()) continue;
      const std::string n = nb::str(name).c_str();
      const std::string v =
          nb::isinstance<nb::bool_>(value) ? (nb::cast<bool>(value) ? "1" : "0") : std::string{nb::str(value).c_str()};
      if (v.find(' ') != v.npos) refuse(n + " is not a value of an event: it has a blank");
      text_ += " " + n + "=" + v;
    }
    fleet::event bare{.at_s = e_.at_s, .what = e_.what};
    const std::string all = std::string{fleet::write(bare, line)} + text_;
    if (const fleet::log_error wrong = fleet::read(all, e_)) {
      const std::size_t end = std::min(all.find(' ', wrong.column - 1), all.size());
      const std::string word = all.substr(wrong.column - 1, end - wrong.column + 1);
      refuse((word.empty() ? kind : word) + ": expected " + wrong.expected);
    }
  }
  [[nodiscard]] const fleet::event& value() const noexcept { return e_; }
  [[nodiscard]] const char* kind() const { return name_of(e_.what); }
  [[nodiscard]] double at() const { return e_.at_s; }
  /// A member by its name in a log; None for no replica, no request, and a range without an end.
  [[nodiscard]] nb::object member(const std::string& name) const {
    const bool may_be_none = name == "replica" || name == "request" || name == "high";
    nb::object found;
    fleet::detail::each_member(e_, fleet::event{}, [&](std::string_view n, const auto& value, const auto& by_default) {
      if (n == name) found = may_be_none && value == by_default ? nb::object{nb::none()} : value_of(value);
    });
    if (!found.is_valid()) throw nb::attribute_error(("an event has no " + name).c_str());
    return found;
  }
  [[nodiscard]] std::string text() const { return text_of(e_); }

 private:
  template <class T>
  [[nodiscard]] static nb::object value_of(const T& value) {
    if constexpr (requires { value.has_value(); }) {
      return value ? value_of(*value) : nb::object{nb::none()};
    } else if constexpr (std::is_same_v<T, fleet::load>) {
      return tuple_of(value);
    } else if constexpr (std::is_enum_v<T>) {
      return nb::str(name_of(value));
    } else if constexpr (requires { value.count(); }) {
      return nb::int_(value.count());
    } else if constexpr (requires { value.seconds(); }) {
      return nb::float_(value.seconds());
    } else {
      return nb::cast(value);
    }
  }

  fleet::event e_;
  std::string text_;
};

/// An action.
class action_value {
 public:
  explicit action_value(const fleet::action& a) : a_{a} {}
  [[nodiscard]] const fleet::action& value() const noexcept { return a_; }
  [[nodiscard]] const char* kind() const { return name_of(a_.what); }
  [[nodiscard]] nb::object replica() const { return number_or_none(a_.replica, fleet::no_replica); }
  [[nodiscard]] nb::object source() const { return number_or_none(a_.from, fleet::no_replica); }
  [[nodiscard]] nb::object request() const { return number_or_none(a_.request, fleet::no_request); }
  [[nodiscard]] const char* how() const { return name_of(a_.how); }
  [[nodiscard]] const char* role() const { return name_of(a_.role); }
  [[nodiscard]] const char* parameter() const { return name_of(a_.parameter); }
  [[nodiscard]] std::int64_t low() const { return a_.low; }
  [[nodiscard]] nb::object high() const {
    return a_.high == fleet::endless.count() ? nb::object{nb::none()} : nb::object{nb::int_(a_.high)};
  }
  [[nodiscard]] std::uint64_t number() const { return a_.number; }
  [[nodiscard]] double amount() const { return a_.value; }
  [[nodiscard]] nb::str why() const { return nb::str(a_.why.view().data(), a_.why.view().size()); }
  [[nodiscard]] std::string text() const { return text_of(a_); }
  [[nodiscard]] bool equals(nb::handle other) const {
    return nb::isinstance<action_value>(other) && nb::cast<const action_value&>(other).a_ == a_;
  }

 private:
  fleet::action a_;
};

/// An event or an action of a line of a log, or (column, what was expected there). `since`: the moment of the event
/// before.
inline nb::object parse(const std::string& line, double since) {
  fleet::log_error wrong;
  if (fleet::is_action(line)) {
    fleet::action a;
    wrong = fleet::read(line, a);
    if (!wrong) return nb::cast(action_value{a});
  } else {
    fleet::event e;
    wrong = fleet::read(line, e, since);
    if (!wrong) return nb::cast(event_value{e});
  }
  return nb::make_tuple(wrong.column, wrong.expected);
}

/// A controller by name, and its runtime.
class runtime {
 public:
  runtime(const std::string& controller, const std::optional<std::string>& moves, std::int64_t replicas,
          std::int64_t reservations, std::int64_t block_size, double lease, double silence, double rest,
          std::int64_t moving, std::int64_t tight, std::int64_t quantum, std::uint64_t seed, double bound,
          double expected, std::int64_t demand, double theta, std::int64_t cooldown, double epoch, std::int64_t router,
          std::int64_t routers, const std::tuple<double, double>& prompt_cost,
          const std::tuple<double, double, double>& decode_cost, double ttft, bool prefixes, bool shares, bool follows)
      : settings_{.replicas = static_cast<std::size_t>(whole(replicas, "replicas", 1, 1 << 20)),
                  .block_size = ts::tokens{whole(block_size, "block_size", 1, 1 << 20)},
                  .tight = ts::blocks{count(tight, "tight")},
                  .demand = ts::blocks{count(demand, "demand")},
                  .seed = seed,
                  .bound = real(bound, "bound", 1, 1e6),
                  .expected = real(expected, "expected", 0, 1e9),
                  .epoch = real(epoch, "epoch", 0, endless_seconds),
                  .theta = theta,
                  .cooldown = static_cast<std::uint64_t>(whole(cooldown, "cooldown", 0, 1 << 30)),
                  .router = static_cast<std::uint64_t>(whole(router, "router", 0, 1 << 20)),
                  .routers = static_cast<std::uint64_t>(whole(routers, "routers", 1, 1 << 20)),
                  .moves = moves,
                  .requests = static_cast<std::size_t>(whole(reservations, "reservations", 1, 1 << 24)),
                  .costs = {.prompt_square_s = real(std::get<0>(prompt_cost), "prompt_cost[0]", 0, 1),
                            .prompt_token_s = real(std::get<1>(prompt_cost), "prompt_cost[1]", 0, 1),
                            .ttft = lasting(ttft, "ttft", 1e-3),
                            .decode = {.fixed_s = real(std::get<0>(decode_cost), "decode_cost[0]", 0, 1e3),
                                       .request_s = real(std::get<1>(decode_cost), "decode_cost[1]", 0, 1),
                                       .token_s = real(std::get<2>(decode_cost), "decode_cost[2]", 0, 1)}},
                  .prefixes = prefixes} {
    if (!(theta > 0 && theta <= 1)) refuse("theta is above 0 and at most 1");
    if (router >= routers) refuse("router must be from 0 to " + std::to_string(routers - 1));
    const std::size_t held = settings_.requests;
    const auto on_their_way = static_cast<std::size_t>(whole(moving, "moving", 1, 1 << 16));
    const fleet::runtime_settings how{.book = {.block_size = settings_.block_size,
                                               .lease = lasting(lease, "lease", 1e-3),
                                               .silence = lasting(silence, "silence", 1e-3),
                                               .rest = lasting(rest, "rest", 0),
                                               .moving = on_their_way,
                                               .tight = settings_.tight,
                                               .demand = settings_.demand,
                                               .quantum = ts::tokens{count(quantum, "quantum")}},
                                      .router = {.router = settings_.router, .routers = settings_.routers},
                                      .keeps_to_share = shares};
    by_ = ts::sim::make_controller(controller, settings_);
    fleet::controller* asked = by_.get();
    if (follows) {
      follows_memory_.emplace(ts::storage_for<fleet::following>({}));
      follows_.emplace(*by_, *follows_memory_);
      asked = &*follows_;
    }
    // A request that waits for a place is known, and has no reservation.
    storage_.emplace(ts::storage_for<fleet::runtime>(
        {.book = {.replicas = settings_.replicas, .reservations = held, .moves = on_their_way}, .requests = held}));
    runs_.emplace(*asked, *storage_, how);
  }

  // -- events

  nb::list handle(const event_value& e) { return take(e.value()); }
  nb::list follow(const event_value& e, const std::vector<action_value>& recorded) {
    if (!follows_) refuse("this runtime decides: Runtime(..., follows=True) follows what was recorded");
    std::vector<fleet::action> all;
    for (const action_value& a : recorded) all.push_back(a.value());
    return listed(fleet::follow(*runs_, *follows_, e.value(), all));
  }
  nb::list arrived(std::uint64_t request, std::int64_t prompt, double now, std::int64_t generated,
                   const std::optional<ids>& cached, const std::optional<ids>& excluded, std::uint64_t prefix_key,
                   bool reasons, bool movable, std::int64_t expected, std::int64_t spread, std::int64_t limit,
                   std::uint64_t session, std::int64_t tenant, bool calls_tools) {
    fleet::event e{
        .at_s = real(now, "now", 0, endless_seconds), .what = fleet::event_kind::arrived, .request = request};
    e.asks = {.prompt = ts::tokens{whole(prompt, "prompt", 1, ts::headroom::longest_prompt.count())},
              .generated = prompt_of(generated, "generated"),
              .expected = prompt_of(expected, "expected"),
              .spread = prompt_of(spread, "spread"),
              .limit = prompt_of(std::min(limit, ts::headroom::longest_prompt.count()), "limit"),
              .prefix_key = prefix_key,
              .session = session,
              .tenant = static_cast<std::uint32_t>(whole(tenant, "tenant", 0, 0xffffffff)),
              .is = reasons ? ts::phase::reasoning : ts::phase::answering,
              .calls_tools = calls_tools,
              .movable = movable};
    if (request == fleet::no_request) refuse("this number is reserved for no request");
    if (e.asks.length() > ts::headroom::longest_prompt) refuse("prompt and generated are too long together");
    fleet::event offer{.at_s = e.at_s, .what = fleet::event_kind::offers};
    nb::list actions;  // Alarms ring with the first of these events.
    const auto tell = [&](const fleet::event& of) { add_to(actions, notify(of)); };
    excluded_.clear();
    if (excluded) {
      for (const std::int64_t id : *excluded) excluded_.push_back(number(id));
    }
    if (cached) {
      for (const std::int64_t n : *cached) {
        if (n < 0) refuse("cached has tokens of the prompt by replica: from 0 on");
      }
      for (std::size_t id = 0; id != std::min(cached->size(), settings_.replicas); ++id) {
        offer.replica = static_cast<fleet::replica_id>(id);
        offer.count = std::min(ts::tokens{(*cached)[id]}, e.asks.prompt);
        if (offer.count != ts::tokens{} && runs_->book().contains(offer.replica) &&
            std::ranges::find(excluded_, offer.replica) == excluded_.end()) {
          tell(offer);
        }
      }
    }
    offer.count = ts::tokens{};
    offer.excluded = true;
    for (const fleet::replica_id id : excluded_) {
      offer.replica = id;
      tell(offer);
    }
    tell(e);
    return actions;
  }
  nb::list progressed(std::uint64_t request, std::int64_t replica, std::int64_t count, double now) {
    return take({.at_s = real(now, "now", 0, endless_seconds),
                 .what = fleet::event_kind::progressed,
                 .replica = number(replica),
                 .request = request,
                 .count = prompt_of(count, "count")});
  }
  nb::tuple reported(std::int64_t id, std::uint64_t incarnation, std::uint64_t epoch, const six& all, double now,
                     const std::optional<six>& own, std::optional<std::int64_t> free, bool slo_met) {
    fleet::event e{
        .at_s = real(now, "now", 0, endless_seconds), .what = fleet::event_kind::reported, .replica = number(id)};
    e.said = {.incarnation = incarnation, .epoch = epoch, .slo_met = slo_met};
    const auto load_in = [&](const six& s) {
      const std::optional<fleet::load> l = load_of(s);
      if (!l) e.said.incarnation = 0;
      return l ? *l : fleet::load{};
    };
    e.said.all = load_in(all);
    if (own) e.said.own = load_in(*own);
    if (free) e.said.free = ts::blocks{*free};
    std::uint64_t before[fleet::receptions];
    for (std::size_t i = 0; i != fleet::receptions; ++i) before[i] = counted(i);
    nb::list actions = take(e);
    std::size_t what = 0;
    while (what + 1 != fleet::receptions && counted(what) == before[what]) ++what;
    return nb::make_tuple(fleet::to_string(static_cast<fleet::reception>(what)), actions);
  }

  // -- the log

  [[nodiscard]] bool recording() const { return records_; }
  void set_recording(bool on) { records_ = on; }
  [[nodiscard]] std::size_t logged() const { return log_.size(); }
  nb::bytes take_log() {
    nb::bytes all{log_.data(), log_.size()};
    log_.clear();
    return all;
  }

  // -- to look at

  /// The traffic as it was when the last plan was asked for; None if the controller keeps no sample.
  [[nodiscard]] nb::object sample() const {
    const auto* plans = dynamic_cast<const fleet::layout_controller<>*>(by_.get());
    if (plans == nullptr) return nb::none();
    const fleet::traffic_sample& s = plans->sample();
    nb::list requests;
    for (const fleet::seen_request& r : s.requests) {
      requests.append(nb::make_tuple(r.arrival_s, r.prompt.count(), r.generated.count(), r.reasoning.count(),
                                     r.limit.count(), r.score, r.tenant, r.ended, r.refused, r.reasons));
    }
    nb::dict d;
    d["requests"] = requests;
    d["rate"] = s.rate;
    d["lately"] = s.lately;
    d["here"] = s.here;
    d["held"] = s.held;
    d["behind"] = s.behind;
    return d;
  }
  [[nodiscard]] bool reads_prefixes() const { return runs_->reads().prefixes; }
  [[nodiscard]] nb::object next_wake() const {
    const double at = runs_->next_wake_s();
    return std::isinf(at) ? nb::object{nb::none()} : nb::object{nb::float_(at)};
  }
  [[nodiscard]] std::size_t requests() const { return runs_->requests(); }
  [[nodiscard]] nb::object where(std::uint64_t request) const {
    const fleet::request_view* v = runs_->find(request);
    return v == nullptr ? nb::object{nb::none()} : number_or_none(v->where, fleet::no_replica);
  }
  [[nodiscard]] nb::object moves_to(std::uint64_t request) const {
    const fleet::request_view* v = runs_->find(request);
    return v == nullptr ? nb::object{nb::none()} : number_or_none(v->moves_to, fleet::no_replica);
  }
  [[nodiscard]] bool contains(std::int64_t id) const { return book().contains(number(id)); }
  [[nodiscard]] std::uint64_t incarnation(std::int64_t id) const { return book().incarnation(number(id)); }
  [[nodiscard]] bool silent(std::int64_t id) const { return book().silent(number(id)); }
  [[nodiscard]] ids shown() const {
    ids out;
    const auto all = book().shown();
    for (std::size_t i = 0; i != all.size(); ++i) out.push_back(static_cast<std::int64_t>(all[i].id));
    return out;
  }
  [[nodiscard]] nb::dict view(std::int64_t id) const {
    const fleet::view& v = book().at(there(id));
    nb::dict d;
    d["id"] = v.id;
    d["requests"] = v.requests;
    d["kv_held"] = v.kv_held.count();
    d["waiting_blocks"] = v.waiting_blocks.count();
    d["free_blocks"] = v.free_blocks.count();
    d["capacity"] = v.capacity.count();
    d["phi"] = v.phi;
    d["time_phi"] = v.time_phi;
    d["from"] = v.from.count();
    d["to"] = v.to == fleet::endless ? nb::object{nb::none()} : nb::object{nb::int_(v.to.count())};
    d["reasoning"] = v.reasoning;
    d["fresh_answers"] = v.fresh_answers;
    d["slo_met"] = v.slo_met;
    d["role"] = control::to_string(v.role);
    return d;
  }
  [[nodiscard]] nb::tuple own(std::int64_t id) const { return tuple_of(book().own(there(id))); }
  [[nodiscard]] nb::tuple others(std::int64_t id) const { return tuple_of(book().others(there(id))); }
  [[nodiscard]] bool reserved(std::uint64_t request, std::int64_t id) const {
    return book().reserved(request, number(id));
  }
  [[nodiscard]] std::size_t size() const { return book().size(); }
  [[nodiscard]] std::size_t moving() const { return book().moving(); }
  [[nodiscard]] std::uint64_t expired() const { return book().expired(); }
  [[nodiscard]] std::uint64_t dropped_notes() const { return runs_->dropped_notes(); }
  [[nodiscard]] nb::dict received() const {
    nb::dict d;
    for (std::size_t i = 0; i != fleet::receptions; ++i)
      d[fleet::to_string(static_cast<fleet::reception>(i))] = counted(i);
    return d;
  }

 private:
  [[nodiscard]] const fleet::ledger<>& book() const noexcept { return runs_->book(); }
  [[nodiscard]] std::uint64_t counted(std::size_t i) const noexcept {
    return book().received(static_cast<fleet::reception>(i));
  }
  [[nodiscard]] fleet::replica_id number(std::int64_t id) const {
    return static_cast<fleet::replica_id>(
        whole(id, "a replica's number", 0, static_cast<std::int64_t>(settings_.replicas) - 1));
  }
  [[nodiscard]] fleet::replica_id there(std::int64_t id) const {
    if (!book().contains(number(id))) refuse("replica " + std::to_string(id) + " is not there");
    return number(id);
  }
  std::span<const fleet::action> notify(const fleet::event& e) {
    const std::span<const fleet::action> all = runs_->handle(e);
    if (records_) {
      fleet::log_line line;
      fleet::event written = e;
      written.at_s = recorded_s_ = std::max(recorded_s_, e.at_s);  // as the runtime takes it
      log_.append(fleet::write(written, line)) += '\n';
      for (const fleet::action& a : all) log_.append(fleet::write(a, line)) += '\n';
    }
    return all;
  }
  static void add_to(nb::list& out, std::span<const fleet::action> all) {
    for (const fleet::action& a : all) out.append(action_value{a});
  }
  static nb::list listed(std::span<const fleet::action> all) {
    nb::list out;
    add_to(out, all);
    return out;
  }
  nb::list take(const fleet::event& e) { return listed(notify(e)); }

  controller_settings settings_;
  std::shared_ptr<fleet::controller> by_;
  std::optional<ts::owned_storage<fleet::following_limits>> follows_memory_;
  std::optional<fleet::following> follows_;
  std::optional<ts::owned_storage<fleet::runtime_limits>> storage_;
  std::optional<fleet::runtime> runs_;
  std::vector<fleet::replica_id> excluded_;
  std::string log_;
  double recorded_s_ = 0;
  bool records_ = false;
};

}  // namespace tessera_python
