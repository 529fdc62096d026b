// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/fleet/action.hpp>
#include <tessera/fleet/event.hpp>
#include <tessera/fleet/report.hpp>
#include <tessera/fleet/view.hpp>
#include <tessera/headroom/prefill_cost.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

/// @file
/// Events and actions as lines of text, so that a log can be read, compared and run again.
///
///     12.5 arrived request=7 prompt=320 expected=200
///     > place replica=2 request=7
///
/// An event begins with its moment in seconds, an action with `>`. Then come the kind and the members that are not as
/// they are by default, always in the same order. Numbers are written so that the same number is read back. A line that
/// begins with `#` is a remark: `tessera.fleet.Router` writes its settings there.

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// Room for any line.
using log_line = std::array<char, 2560>;

/// No moment of a log is later, in seconds: so large that seconds since 1970 are fine.
inline constexpr double latest_moment_s = 1e10;

/// What was wrong with a line.
struct log_error {
  std::size_t column = 0;          ///< Where, from 1; 0: nothing was wrong.
  const char* expected = nullptr;  ///< What belongs there.

  /// Whether something was wrong.
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return column != 0; }
};

namespace detail {

template <class E>
inline constexpr std::array<std::string_view, 0> enum_names{};
template <>
inline constexpr std::array<std::string_view, 23> enum_names<event_kind>{
    "none",         "joined",     "drained",         "unreachable", "failed",      "asks_report", "reported",
    "role_changed", "serves",     "offers",          "arrived",     "refused",     "lost",        "cache_hit",
    "first_token",  "progressed", "reasoning_ended", "moved",       "move_failed", "ended",       "lays_out",
    "planned",      "clock"};
template <>
inline constexpr std::array<std::string_view, 10> enum_names<action_kind>{
    "none",      "place", "move", "cancel_move", "set_role", "set_length_range", "set_prefill_budget",
    "set_order", "plan",  "note"};
template <>
inline constexpr std::array<std::string_view, 2> enum_names<transfer>{"stopped", "live"};
template <>
inline constexpr std::array<std::string_view, 2> enum_names<phase>{"reasoning", "answering"};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<control::role>{
    to_string(control::role::prefill), to_string(control::role::decode), to_string(control::role::mixed)};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<order_parameter>{"threshold_s", "quantum", "pace"};

/// Calls `f(name, member)` for each number of a load.
template <class Load, class F>
constexpr void each_member_of_load(Load& l, F f) noexcept {
  f("requests", l.requests);
  f("kv", l.kv_held);
  f("waiting", l.waiting_blocks);
  f("reasoning", l.reasoning);
  f("fresh", l.fresh_answers);
  f("flops", l.prefill_flops);
}

/// Calls `f(name, member, value by default)` for each member of an event but its moment and kind. `Event` may be const.
template <class Event, class F>
constexpr void each_member(Event& e, const event& by_default, F f) noexcept
  requires std::same_as<std::remove_const_t<Event>, event>
{
  const event& d = by_default;
  f("replica", e.replica, d.replica);
  f("request", e.request, d.request);
  f("number", e.number, d.number);
  f("count", e.count, d.count);
  f("excluded", e.excluded, d.excluded);
  f("role", e.role, d.role);
  f("low", e.low, d.low);
  f("high", e.high, d.high);
  f("capacity", e.joins.capacity, d.joins.capacity);
  f("has_role", e.joins.role, d.joins.role);
  f("elastic", e.joins.elastic, d.joins.elastic);
  f("alpha", e.joins.prefill.cost.alpha, d.joins.prefill.cost.alpha);
  f("beta", e.joins.prefill.cost.beta, d.joins.prefill.cost.beta);
  f("scale", e.joins.prefill.cost.model_scale, d.joins.prefill.cost.model_scale);
  f("peak_flops", e.joins.prefill.budget.peak_flops, d.joins.prefill.budget.peak_flops);
  f("ttft_s", e.joins.prefill.budget.ttft, d.joins.prefill.budget.ttft);
  f("moves", e.joins.can.moves, d.joins.can.moves);
  f("live_moves", e.joins.can.live_moves, d.joins.can.live_moves);
  f("roles", e.joins.can.roles, d.joins.can.roles);
  f("ranges", e.joins.can.ranges, d.joins.can.ranges);
  f("budgets", e.joins.can.budgets, d.joins.can.budgets);
  f("orders", e.joins.can.orders, d.joins.can.orders);
  f("incarnation", e.said.incarnation, d.said.incarnation);
  f("epoch", e.said.epoch, d.said.epoch);
  f("all", e.said.all, d.said.all);
  f("own", e.said.own, d.said.own);
  f("free", e.said.free, d.said.free);
  f("slo_met", e.said.slo_met, d.said.slo_met);
  f("prompt", e.asks.prompt, d.asks.prompt);
  f("generated", e.asks.generated, d.asks.generated);
  f("expected", e.asks.expected, d.asks.expected);
  f("spread", e.asks.spread, d.asks.spread);
  f("limit", e.asks.limit, d.asks.limit);
  f("prefix", e.asks.prefix_key, d.asks.prefix_key);
  f("session", e.asks.session, d.asks.session);
  f("tenant", e.asks.tenant, d.asks.tenant);
  f("phase", e.asks.is, d.asks.is);
  f("calls_tools", e.asks.calls_tools, d.asks.calls_tools);
  f("movable", e.asks.movable, d.asks.movable);
}
/// The same of an action.
template <class Action, class F>
constexpr void each_member(Action& a, const action& by_default, F f) noexcept
  requires std::same_as<std::remove_const_t<Action>, action>
{
  const action& d = by_default;
  f("replica", a.replica, d.replica);
  f("from", a.from, d.from);
  f("request", a.request, d.request);
  f("how", a.how, d.how);
  f("role", a.role, d.role);
  f("parameter", a.parameter, d.parameter);
  f("low", a.low, d.low);
  f("high", a.high, d.high);
  f("number", a.number, d.number);
  f("value", a.value, d.value);
  f("why", a.why, d.why);  // the last: it has spaces
}

/// What is missing in an event or an action, or out of range.
struct flaw {
  std::string_view member{};       ///< Its name.
  const char* expected = nullptr;  ///< What belongs there; null: nothing is wrong.
};

/// What a router's front end cannot have said.
[[nodiscard]] constexpr flaw flaw_of(const event& e) noexcept {
  using enum event_kind;
  const auto is = [&](auto... kinds) noexcept { return ((e.what == kinds) || ...); };
  const auto few = [](tokens n) noexcept { return tokens{} <= n && n <= headroom::longest_prompt; };
  const request_view& r = e.asks;
  if (e.replica == no_replica && !is(arrived, lost, ended, planned, clock)) return {"replica", "replica=NUMBER"};
  if (e.request == no_request &&
      is(arrived, refused, lost, cache_hit, first_token, progressed, reasoning_ended, moved, move_failed, ended)) {
    return {"request", "request=NUMBER"};
  }
  if (e.number == 0 && is(joined, unreachable, failed, planned)) return {"number", "number=NUMBER, from 1"};
  if (!(tokens{} <= e.count && e.count <= tokens{greatest_count})) return {"count", "a count from 0 to 2^40"};
  if (is(joined) && !(blocks{e.joins.role == control::role::prefill ? 0 : 1} <= e.joins.capacity &&
                      e.joins.capacity <= blocks{greatest_count})) {
    return {"capacity", "capacity=BLOCKS, from 1 to 2^40"};
  }
  if (is(serves, lays_out) && !(blocks{} <= e.low && e.low < e.high)) {
    return {"low", "a range of lengths that is not empty"};
  }
  const std::pair<std::string_view, tokens> lengths[] = {{"generated", r.generated},
                                                         {"prompt", r.prompt},
                                                         {"expected", r.expected},
                                                         {"spread", r.spread},
                                                         {"limit", r.limit}};
  for (const auto& [name, n] : lengths) {
    if (!few(n) || (name == "prompt" && !few(r.length()))) return {name, "lengths that a request can have"};
  }
  if (is(arrived) && r.length() == tokens{}) return {"prompt", "prompt=TOKENS, from 1"};
  return {};
}
/// What a controller cannot have wanted.
[[nodiscard]] constexpr flaw flaw_of(const action& a) noexcept {
  using enum action_kind;
  const bool of_request = a.what == place || a.what == move || a.what == cancel_move;
  if (a.replica == no_replica && a.what != plan && a.what != note) return {"replica", "replica=NUMBER"};
  if (a.from == no_replica && a.what == move) return {"from", "from=NUMBER"};
  if (a.request == no_request && of_request) return {"request", "request=NUMBER"};
  if (a.number == 0 && a.what == plan) return {"number", "number=NUMBER, from 1"};
  if (a.what == set_length_range && !(0 <= a.low && a.low < a.high)) {
    return {"low", "a range of lengths that is not empty"};
  }
  return {};
}

/// Appends to a line. What does not fit is an error of this file.
class line_writer {
 public:
  explicit line_writer(log_line& to) noexcept : first_{to.data()}, next_{first_}, end_{first_ + to.size()} {}
  void text(std::string_view s) noexcept {
    TESSERA_ASSERT(s.size() <= static_cast<std::size_t>(end_ - next_), "a line has room for every member");
    next_ = std::copy(s.begin(), s.end(), next_);
  }
  template <class Number>
  void number(Number n) noexcept {
    const std::to_chars_result r = std::to_chars(next_, end_, n);
    TESSERA_ASSERT(r.ec == std::errc{}, "a line has room for every member");
    next_ = r.ptr;
  }
  template <class T>
  void operator()(std::string_view name, const T& value, const T& by_default) noexcept {
    if (value == by_default) return;
    member(name, value);
  }
  [[nodiscard]] std::string_view view() const noexcept { return {first_, static_cast<std::size_t>(next_ - first_)}; }

 private:
  template <class T>
  void member(std::string_view name, const T& value) noexcept {
    if constexpr (std::same_as<T, load>) {
      each_member_of_load(value, [&](std::string_view part, const auto& n) noexcept {
        if (n == std::remove_cvref_t<decltype(n)>{}) return;
        text(" ");
        text(name);
        text("_");
        text(part);
        value_of(n);
      });
    } else if constexpr (std::same_as<T, std::optional<load>>) {
      text(" ");
      text(name);
      value_of(true);
      member(name, *value);
    } else if constexpr (std::same_as<T, std::optional<blocks>>) {
      member(name, *value);
    } else {
      text(" ");
      text(name);
      value_of(value);
    }
  }
  template <class T>
  void value_of(const T& value) noexcept {
    text("=");
    if constexpr (std::same_as<T, short_text>) {
      text(value.view());
    } else if constexpr (std::is_enum_v<T>) {
      text(enum_names<T>[static_cast<std::size_t>(value)]);
    } else if constexpr (std::same_as<T, bool>) {
      text(value ? "1" : "0");
    } else if constexpr (requires { value.count(); }) {
      number(value.count());
    } else if constexpr (requires { value.seconds(); }) {
      number(value.seconds());
    } else {
      number(value);
    }
  }

  char* first_;
  char* next_;
  char* end_;
};

/// Reads one member after the other.
class line_reader {
 public:
  explicit line_reader(std::string_view line) noexcept : all_{line}, left_{line} {}

  /// The next word, without the space before it; empty at the end.
  [[nodiscard]] std::string_view word() noexcept {
    left_.remove_prefix(std::min(left_.find_first_not_of(' '), left_.size()));
    const std::string_view w = left_.substr(0, std::min(left_.find(' '), left_.size()));
    at_ = all_.size() - left_.size();
    left_.remove_prefix(w.size());
    return w;
  }
  [[nodiscard]] log_error wrong(const char* expected) const noexcept { return {at_ + 1, expected}; }

  /// What is wrong with what was read from this line: at the member, or at the end if the line does not have it.
  template <class Value>
  [[nodiscard]] static log_error look_at(std::string_view line, const Value& of) noexcept {
    const flaw f = flaw_of(of);
    if (f.expected == nullptr) return {};
    line_reader r{line};
    std::string_view w = r.word();
    while (!w.empty() && !(w.starts_with(f.member) && w.substr(f.member.size()).starts_with('='))) w = r.word();
    return r.wrong(f.expected);
  }

  template <class Value>
  [[nodiscard]] log_error members(Value& of) noexcept {
    const Value by_default{};
    for (std::string_view w = word(); !w.empty(); w = word()) {
      const std::size_t equals = w.find('=');
      if (equals == w.npos) return wrong("a member as name=value");
      const std::string_view name = w.substr(0, equals);
      std::string_view value = w.substr(equals + 1);
      bool known = false;
      bool right = false;
      each_member(of, by_default, [&](std::string_view n, auto& member, const auto& /*unused*/) noexcept {
        if (known) return;
        using type = std::remove_cvref_t<decltype(member)>;
        if constexpr (std::same_as<type, load>) {
          known = part(name, n, value, member, right);
        } else if constexpr (std::same_as<type, std::optional<load>>) {
          known = name == n;
          if (known) {
            member.emplace();
            right = value == "1";
          } else if (member) {
            known = part(name, n, value, *member, right);
          }
        } else if (n == name) {
          known = true;
          if constexpr (std::same_as<type, short_text>) {
            value = {value.data(), static_cast<std::size_t>(left_.data() + left_.size() - value.data())};
            left_ = {};
            right = value.size() <= short_text::most;
            member = short_text{value};
          } else if constexpr (std::same_as<type, std::optional<blocks>>) {
            member.emplace();
            right = read(value, *member);
          } else {
            right = read(value, member);
          }
        }
      });
      if (!known) return wrong("a known member");
      if (!right) return wrong("a value of this member");
    }
    return {};
  }

  template <class T>
  [[nodiscard]] static bool read(std::string_view s, T& value) noexcept {
    if constexpr (std::is_enum_v<T>) {
      const auto found = std::find(enum_names<T>.begin(), enum_names<T>.end(), s);
      if (found == enum_names<T>.end() || s.empty()) return false;
      value = static_cast<T>(found - enum_names<T>.begin());
      return true;
    } else if constexpr (std::same_as<T, bool>) {
      value = s == "1";
      return s == "1" || s == "0";
    } else if constexpr (requires { value.count(); }) {
      std::int64_t n = 0;
      if (!read(s, n)) return false;
      value = T{n};
      return true;
    } else if constexpr (requires { value.seconds(); }) {
      double seconds = 0;
      if (!read(s, seconds)) return false;
      value = T::from_seconds(seconds);
      return true;
    } else {
      const std::from_chars_result r = std::from_chars(s.data(), s.data() + s.size(), value);
      return r.ec == std::errc{} && r.ptr == s.data() + s.size();
    }
  }

 private:
  /// Whether `name` is `of_name`, an underscore, and a number of a load.
  [[nodiscard]] static bool part(std::string_view name, std::string_view of_name, std::string_view value, load& of,
                                 bool& right) noexcept {
    if (name.size() <= of_name.size() || name.substr(0, of_name.size()) != of_name || name[of_name.size()] != '_') {
      return false;
    }
    bool known = false;
    each_member_of_load(of, [&](std::string_view n, auto& member) noexcept {
      if (n != name.substr(of_name.size() + 1)) return;
      known = true;
      right = read(value, member);
    });
    return known;
  }

  std::string_view all_;
  std::string_view left_;
  std::size_t at_ = 0;
};

}  // namespace detail

/// The line of an event, in `to`, without an end of line. O(members).
[[nodiscard]] inline std::string_view write(const event& e, log_line& to) noexcept {
  detail::line_writer w{to};
  w.number(e.at_s);
  w.text(" ");
  w.text(detail::enum_names<event_kind>[static_cast<std::size_t>(e.what)]);
  detail::each_member(e, event{}, [&](std::string_view n, const auto& v, const auto& d) noexcept { w(n, v, d); });
  return w.view();
}
/// The same of an action.
[[nodiscard]] inline std::string_view write(const action& a, log_line& to) noexcept {
  detail::line_writer w{to};
  w.text("> ");
  w.text(detail::enum_names<action_kind>[static_cast<std::size_t>(a.what)]);
  detail::each_member(a, action{}, [&](std::string_view n, const auto& v, const auto& d) noexcept { w(n, v, d); });
  return w.view();
}

/// Whether a line is that of an action.
[[nodiscard]] constexpr bool is_action(std::string_view line) noexcept { return !line.empty() && line.front() == '>'; }

/// Whether a line is a remark, or empty: it is no event and no action.
[[nodiscard]] constexpr bool is_remark(std::string_view line) noexcept { return line.empty() || line.front() == '#'; }

/// Reads an event from a line. @param since_s the moment of the event before; an earlier one is an error. @param to is
/// complete only if nothing was wrong.
[[nodiscard]] inline log_error read(std::string_view line, event& to, double since_s = 0) noexcept {
  detail::line_reader r{line};
  to = {};
  if (!detail::line_reader::read(r.word(), to.at_s) || !(0 <= to.at_s && to.at_s <= latest_moment_s)) {
    return r.wrong("a moment in seconds, from 0 to 1e10");
  }
  if (to.at_s < since_s) return r.wrong("a moment that is not before that of the event before");
  if (!detail::line_reader::read(r.word(), to.what) || to.what == event_kind::none) return r.wrong("what happens");
  if (const log_error wrong = r.members(to)) return wrong;
  return detail::line_reader::look_at(line, to);
}
/// The same of an action.
[[nodiscard]] inline log_error read(std::string_view line, action& to) noexcept {
  detail::line_reader r{line};
  to = {};
  if (r.word() != ">") return r.wrong("> before an action");
  if (!detail::line_reader::read(r.word(), to.what) || to.what == action_kind::none) return r.wrong("an action");
  if (const log_error wrong = r.members(to)) return wrong;
  return detail::line_reader::look_at(line, to);
}

}  // namespace fleet
TESSERA_NAMESPACE_END
