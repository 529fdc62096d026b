// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/order/reader_levels.hpp>
#include <tessera/sim/cluster/request.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <string>

/// @file
/// The places of requests in an order, and what it expects of them, in words.

TESSERA_NAMESPACE_BEGIN

// A source that composes a scheduler includes its order. So a change of one order compiles what uses that one.
namespace order {
struct fcfs;
struct round_robin;
struct two_phase;
template <class Deadline>
struct paced;
template <class Expected, class Deadline>
struct earliest_due;
template <class Scorer>
struct ranked;
template <class Rest>
struct shortest_rest;
template <class Program>
struct least_attained_service;
template <class Promise>
struct least_slack;
template <class Cached>
struct longest_prefix;
template <class Expected>
struct response_ratio;
}  // namespace order

namespace sim {

/// Says in words which place a request has in an order, and what the order expects of it. Specialise it for an order of
/// yours.
template <class Order>
struct order_words {
  /// Why it stands where it does.
  [[nodiscard]] static std::string place(const Order& /*o*/, const request& /*r*/) {
    return "by an order without words";
  }
  /// What is predicted of it; empty if the order predicts nothing.
  [[nodiscard]] static std::string prediction(const Order& /*o*/, const request& /*r*/) { return {}; }
};

/// The words of `order::fcfs`.
template <>
struct order_words<order::fcfs> {
  /// Why it stands where it does.
  template <class O>
  [[nodiscard]] static std::string place(const O& /*o*/, const request& r) {
    return fmt::format("by arrival, as number {} here", r.state().sequence);
  }
  /// What is predicted of it; may be empty.
  template <class O>
  [[nodiscard]] static std::string prediction(const O& /*o*/, const request& /*r*/) {
    return {};
  }
};

/// The words of `order::round_robin`.
template <>
struct order_words<order::round_robin> {
  /// Why it stands where it does.
  template <class O>
  [[nodiscard]] static std::string place(const O& o, const request& r) {
    const auto& s = order_state<O>(r);
    return fmt::format("turn {}, {} tokens of its quantum of {} used", s.turn, s.quantum_used.count(),
                       o.quantum.count());
  }
  /// What is predicted of it; may be empty.
  template <class O>
  [[nodiscard]] static std::string prediction(const O& /*o*/, const request& /*r*/) {
    return {};
  }
};

/// The words of `order::two_phase`.
template <>
struct order_words<order::two_phase> {
  /// Why it stands where it does.
  template <class O>
  [[nodiscard]] static std::string place(const O& o, const request& r) {
    const auto& s = order_state<O>(r);
    const char* const level = s.level == 0       ? "reasoning"
                              : O::is_demoted(r) ? "reasoning that was demoted for its size"
                                                 : "answering";
    return fmt::format("{}, turn {}, {} tokens of its quantum of {} used", level, s.turn, s.quantum_used.count(),
                       o.quantum.count());
  }
  /// What is predicted of it; may be empty.
  template <class O>
  [[nodiscard]] static std::string prediction(const O& /*o*/, const request& /*r*/) {
    return {};
  }
};

namespace detail {

/// The place of a request in an order that looks at readers. Empty if the request has no reader.
template <class Order>
[[nodiscard]] std::string reader_words(const Order& o, const request& r) {
  const auto& s = order_state<Order>(r);
  const double dry_s = s.urgent_at.seconds() + o.margin.seconds();
  if (s.level == order::detail::urgent) {
    return r.pacer.starves_at() == time_point::never() ? std::string{"urgent: its reader has nothing yet"}
                                                       : fmt::format("urgent: its reader runs dry at {:.3f} s", dry_s);
  }
  if (s.level == order::detail::calm) return fmt::format("its reader has enough until {:.3f} s", dry_s);
  return {};
}

}  // namespace detail

/// The words of `order::paced`.
template <class Deadline>
struct order_words<order::paced<Deadline>> {
  /// The order.
  using order_type = order::paced<Deadline>;
  /// Why it stands where it does.
  [[nodiscard]] static std::string place(const order_type& o, const request& r) {
    const std::string read = detail::reader_words(o, r);
    if (!read.empty()) return read;
    return fmt::format("nothing is read yet, {} quanta used", order_state<order_type>(r).turn);
  }
  /// What is predicted of it; may be empty.
  [[nodiscard]] static std::string prediction(const order_type& /*o*/, const request& /*r*/) { return {}; }
};

/// The words of `order::earliest_due`.
template <class Expected, class Deadline>
struct order_words<order::earliest_due<Expected, Deadline>> {
  /// The order.
  using order_type = order::earliest_due<Expected, Deadline>;
  /// Why it stands where it does.
  [[nodiscard]] static std::string place(const order_type& o, const request& r) {
    const std::string read = detail::reader_words(o, r);
    if (!read.empty()) return read;
    // As `earliest_due` keeps it: microseconds, in an order that unsigned numbers have.
    const auto& s = order_state<order_type>(r);
    const auto us = static_cast<std::int64_t>(s.turn ^ (std::uint64_t{1} << 63U));
    return fmt::format("nothing is read yet, due at {:.3f} s on the congestion clock{}", static_cast<double>(us) * 1e-6,
                       s.urgent_at == time_point::never()
                           ? std::string{}
                           : fmt::format(", held for its prompt until {:.3f} s", s.urgent_at.seconds()));
  }
  /// What is predicted of it; may be empty.
  [[nodiscard]] static std::string prediction(const order_type& o, const request& r) {
    const tokens first = order_state<order_type>(r).first;
    if (first == tokens{}) return "its length is unknown: it counts as short";
    return fmt::format("{} tokens are expected of it, by the lengths of earlier requests: at {:g} s each",
                       first.count(), o.pace.seconds());
  }
};

/// The words of `order::ranked`.
template <class Scorer>
struct order_words<order::ranked<Scorer>> {
  /// The order.
  using order_type = order::ranked<Scorer>;
  /// Why it stands where it does.
  [[nodiscard]] static std::string place(const order_type& o, const request& r) {
    const auto& s = order_state<order_type>(r);
    if (s.boosted)
      return fmt::format("ahead of requests with scores, because it came more than {:g} s ago", o.threshold.seconds());
    return fmt::format("score {:g}", s.rank);
  }
  /// What is predicted of it; may be empty.
  [[nodiscard]] static std::string prediction(const order_type& o, const request& r) {
    return fmt::format("score {:g}: the smallest goes first{}", order_state<order_type>(r).rank,
                       o.threshold == duration::forever()
                           ? std::string{}
                           : fmt::format("; from {:.3f} s on it goes ahead of all later arrivals",
                                         order_state<order_type>(r).boost_at.seconds()));
  }
};

/// The words of `order::shortest_rest`.
template <class Rest>
struct order_words<order::shortest_rest<Rest>> {
  /// The order.
  using order_type = order::shortest_rest<Rest>;
  /// Why it stands where it does.
  [[nodiscard]] static std::string place(const order_type& /*o*/, const request& r) {
    const auto& s = order_state<order_type>(r);
    return s.keeps ? std::string{"nearly done, so it keeps its place"}
                   : fmt::format("{} tokens expected yet", s.rest.count());
  }
  /// What is predicted of it; may be empty.
  [[nodiscard]] static std::string prediction(const order_type& o, const request& r) {
    return fmt::format("{} tokens are expected of it, and again after every {}",
                       order_state<order_type>(r).rest.count(), o.slice.count());
  }
};

/// The words of `order::least_attained_service`.
template <class Program>
struct order_words<order::least_attained_service<Program>> {
  /// The order.
  using order_type = order::least_attained_service<Program>;
  /// Why it stands where it does.
  [[nodiscard]] static std::string place(const order_type& o, const request& r) {
    const auto& s = order_state<order_type>(r);
    if (s.boosted) return fmt::format("ahead, because it came more than {:g} s ago", o.threshold.seconds());
    return fmt::format("level {}", s.level);
  }
  /// What is predicted of it; may be empty.
  [[nodiscard]] static std::string prediction(const order_type& /*o*/, const request& r) {
    if (r.program == nullptr) return {};
    return fmt::format("its session has been given {} tokens", r.program->attained.count());
  }
};

/// The words of `order::least_slack`.
template <class Promise>
struct order_words<order::least_slack<Promise>> {
  /// The order.
  using order_type = order::least_slack<Promise>;
  /// Why it stands where it does.
  [[nodiscard]] static std::string place(const order_type& /*o*/, const request& r) {
    return fmt::format("to be served by {:.3f} s", order_state<order_type>(r).start_by.seconds());
  }
  /// What is predicted of it; may be empty.
  [[nodiscard]] static std::string prediction(const order_type& /*o*/, const request& /*r*/) { return {}; }
};

/// The words of `order::response_ratio`.
template <class Expected>
struct order_words<order::response_ratio<Expected>> {
  /// The order.
  using order_type = order::response_ratio<Expected>;
  /// Why it stands where it does.
  [[nodiscard]] static std::string place(const order_type& /*o*/, const request& r) {
    return fmt::format("response ratio of {:.2f} or more", order_state<order_type>(r).level);
  }
  /// What is predicted of it; may be empty.
  [[nodiscard]] static std::string prediction(const order_type& /*o*/, const request& r) {
    return fmt::format("a service of {:.3f} s is expected", order_state<order_type>(r).service);
  }
};

/// The words of `order::longest_prefix`.
template <class Cached>
struct order_words<order::longest_prefix<Cached>> {
  /// The order.
  using order_type = order::longest_prefix<Cached>;
  /// Why it stands where it does.
  [[nodiscard]] static std::string place(const order_type& o, const request& r) {
    return fmt::format("{} tokens of its prompt are cached", o.cached_of(r).count());
  }
  /// What is predicted of it; may be empty.
  [[nodiscard]] static std::string prediction(const order_type& /*o*/, const request& /*r*/) { return {}; }
};

}  // namespace sim
TESSERA_NAMESPACE_END
