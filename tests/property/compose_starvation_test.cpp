// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What each composition says of starvation, at 1.05 times what its places carry. It bounds two times: the longest in
// which a request that has begun gets no token, and the wait before a request begins.

#include <tessera/compose/due_first.hpp>
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/hrrn.hpp>
#include <tessera/compose/pars.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/kv/row_tables.hpp>
#include <tessera/pacing/token_pacer.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook_for<order::round_robin, order::two_phase, order::ranked<>, order::paced<>,
                                  order::earliest_due<>, order::response_ratio<>> {
  token_pacer pacer{{.tpot = 50_ms}};
  tokens expected_output{};
  float score = 0;
  tokens reasons{};      ///< 0: it answers from the first token on.
  bool is_long = false;  ///< One of those that the stream overtakes.
  double came = 0;
  double last = -1;   ///< When it had its last token; -1: it has none.
  double first = -1;  ///< When it had its first.
  double gap = 0;     ///< The longest time between two of its tokens.
};

constexpr std::size_t places = 8;
constexpr double step_s = 0.02;

struct stream {
  tokens output{300};   ///< Output of each request that comes, for ever.
  tokens reasons{200};  ///< Tokens of it that are reasoning.
  int line = 0;         ///< Requests that are there when it begins.
};

struct result {
  double gap = 0;         ///< The longest of all.
  double unanswered = 0;  ///< The longest time that one of the long ones has waited for its first token.
  std::size_t ended = 0;  ///< Long ones that have ended.
  std::size_t there = 0;  ///< The most requests that were there at a time.
};

/// Three long requests, and the stream. One of the long ones comes first, two with the line.
template <class Scheduler>
result overload(const stream& s, tokens long_output, tokens long_reasons, double seconds,
                const typename Scheduler::config& c = {}) {
  auto memory =
      storage_for<Scheduler>({.blocks = 4096, .residents = places, .host_blocks = 1 << 16, .max_length = 8192_tok});
  std::list<request> all;
  Scheduler scheduler{memory, c};
  double now = 0;
  const auto put = [&](tokens output, tokens reasons, bool is_long) {
    request& r = all.emplace_back();
    r.prompt = 16_tok;
    r.max_output = r.expected_output = output;
    r.score = static_cast<float>(output.count());
    r.reasons = reasons;
    r.starts_in = reasons > 0_tok ? phase::reasoning : phase::answering;
    r.is_long = is_long;
    r.came = now;
    REQUIRE(scheduler.submit(r, time_point::at_seconds(now)) == status::accepted);
  };
  put(long_output, long_reasons, true);
  for (int i = 0; i != s.line; ++i) put(s.output, s.reasons, false);
  for (int i = 0; i != 2; ++i) put(long_output, long_reasons, true);
  result out;
  const auto account = [&](request& r) {
    if (r.last >= 0 && is_live(r.state().life)) r.gap = std::max(r.gap, now - r.last);
    out.gap = std::max(out.gap, r.gap);
    if (!r.is_long) return;
    if (!is_live(r.state().life)) ++out.ended;
    out.unanswered = std::max(out.unanswered, (r.first < 0 ? now : r.first) - r.came);
  };
  std::vector<outcome> outcomes;
  double due = 0;
  for (std::size_t step = 0; now < seconds; ++step) {
    for (due += 1.05 * places / static_cast<double>(s.output.count()); due >= 1; --due) put(s.output, s.reasons, false);
    const auto p = scheduler.plan(time_point::at_seconds(now), {.max_batch = places, .token_budget = 512_tok});
    outcomes.assign(p.size(), {});
    out.there = std::max(out.there, scheduler.waiting_count() + scheduler.resident_count());
    now += step_s;
    for (std::size_t i = 0; i != p.size(); ++i) {
      request& r = *p[i].request;
      if (!p[i].samples) continue;
      const tokens generated = r.generated() + 1_tok;
      outcomes[i].finished = generated >= r.max_output;
      outcomes[i].end_of_reasoning = generated == r.reasons;
      if (r.state().phase == phase::answering) r.pacer.on_token(time_point::at_seconds(now));
      if (r.last >= 0) r.gap = std::max(r.gap, now - r.last);
      if (r.first < 0) r.first = now;
      r.last = now;
    }
    REQUIRE(scheduler.commit(p, outcomes, time_point::at_seconds(now)) == status::ok);
    if (step % 512 == 0) {
      for (auto i = all.begin(); i != all.end();) {
        const bool gone = !is_live(i->state().life) && !i->is_long;
        if (gone) account(*i);
        i = gone ? all.erase(i) : std::next(i);
      }
    }
  }
  for (request& r : all) account(r);
  for (request& r : all) static_cast<void>(scheduler.cancel(r));
  return out;
}

constexpr double minutes = 60;
/// What the stated bounds allow besides patience: a slice of 250 tokens of each of the three long ones.
constexpr double slices = 3 * 250 * step_s;

/// Streams that reason, that answer at once, and that do nothing but reason.
const std::vector<stream> streams{{300_tok, 200_tok}, {300_tok, 0_tok}, {300_tok, 299_tok}, {40_tok, 30_tok}};

}  // namespace

TEST_CASE("starvation: under fcfs, pars and hrrn one that has begun has a token in every step") {
  for (const stream& s : streams) {
    CHECK(overload<fcfs<request>>(s, 4000_tok, 3900_tok, 5 * minutes).gap < 1.5 * step_s);
    CHECK(overload<pars<request>>(s, 4000_tok, 3900_tok, 5 * minutes, {.threshold = 30.0_s}).gap < 1.5 * step_s);
    CHECK(overload<hrrn<request>>(s, 4000_tok, 3900_tok, 5 * minutes).gap < 1.5 * step_s);
  }
}

TEST_CASE("starvation: under round_robin one waits for a quantum of each that is there") {
  for (const stream& s : streams) {
    const result r = overload<round_robin<request>>(s, 4000_tok, 3900_tok, 5 * minutes);
    CHECK(r.ended == 3);
    const auto rounds = static_cast<double>(r.there / places + 1);
    CHECK(r.gap <= rounds * 500 * step_s);
    CHECK(r.gap > 5);
  }
}

TEST_CASE(
    "starvation: pascal has no bound, as in the paper; an answer stops for ever where reasoning fills all places") {
  const stream s{300_tok, 200_tok};
  CHECK(overload<pascal<request>>(s, 4000_tok, 10_tok, 10 * minutes).gap > 9 * minutes);
  CHECK(overload<pascal_paced<request>>(s, 4000_tok, 10_tok, 10 * minutes).gap < 30);
}

TEST_CASE("starvation: under pascal_paced one that reasons has a token within two patiences") {
  for (const double patience : {10.0, 30.0}) {
    for (const stream& s : streams) {
      CAPTURE(patience, s.output.count(), s.reasons.count());
      const result r =
          overload<pascal_paced<request>>(s, 3000_tok, 2900_tok, 15 * minutes, {.patience = duration{patience}});
      CHECK(r.gap <= 2 * patience + slices);
    }
  }
  // Without patience it stops for ever.
  const result never = overload<pascal_paced<request>>({300_tok, 299_tok}, 3000_tok, 2900_tok, 15 * minutes,
                                                       {.patience = duration::forever()});
  CHECK(never.gap > 13 * minutes);
  const result by_default = overload<pascal_paced<request>>({300_tok, 299_tok}, 2000_tok, 1900_tok, 15 * minutes);
  CHECK(by_default.gap <= 2 * 60 + slices);
}

TEST_CASE("starvation: under pascal_paced one that reasons begins though others answer at once, for ever") {
  // A line of a minute of plain answers, and more of them than are served. Under fcfs it begins after that minute.
  const stream s{300_tok, 0_tok, 80};
  const auto waits = [&](duration patience) {
    return overload<pascal_paced<request>>(s, 600_tok, 500_tok, 10 * minutes, {.patience = patience}).unanswered;
  };
  const double by_arrival = overload<fcfs<request>>(s, 600_tok, 500_tok, 10 * minutes).unanswered;
  CHECK(by_arrival < 90);
  // Those that came within its patience have gone before it, at 1.05 of what is served in that time.
  CHECK(waits(30.0_s) < by_arrival + 1.05 * 30 + 10);
  CHECK(waits(duration::forever()) > 9 * minutes);
}

TEST_CASE("starvation: under due_first one that has begun has a token within two patiences") {
  for (const double patience : {10.0, 30.0}) {
    for (const stream& s : streams) {
      CAPTURE(patience, s.output.count(), s.reasons.count());
      const result r =
          overload<due_first<request>>(s, 3000_tok, 2900_tok, 15 * minutes, {.patience = duration{patience}});
      CHECK(r.gap <= 2 * patience + slices);
    }
  }
}

TEST_CASE("starvation: under due_first a long one behind a line begins as under fcfs, later by a bound of the line's") {
  const stream s{300_tok, 200_tok, 100};
  const auto waits = [&](duration patience) {
    return overload<due_first<request>>(s, 4000_tok, 3900_tok, 15 * minutes, {.patience = patience}).unanswered;
  };
  const double by_arrival = overload<fcfs<request>>(s, 4000_tok, 3900_tok, 15 * minutes).unanswered;
  CHECK(by_arrival < 2 * minutes);
  // A quarter of the patience for each batch of 8 that is there: 100 wait next to 8.
  const double batches = 13.5;
  CHECK(waits(30.0_s) < by_arrival + 1.05 * 30 / 4 * batches + 10);
  CHECK(waits(60.0_s) < by_arrival + 1.05 * 60 / 4 * batches + 10);
  CHECK(waits(duration::forever()) > 14 * minutes);  // by its clock, it is due in hours
}

TEST_CASE("starvation: a stalled request takes a place, and a request that has not begun takes none for its patience") {
  order::paced<> d{.patience = 10.0_s};
  order::earliest_due<> e{.patience = 10.0_s};
  const auto check = [](auto& d) {
    using D = std::remove_reference_t<decltype(d)>;
    request stalls;
    request waits;
    request resident;
    std::uint64_t n = 0;
    for (request* r : {&resident, &stalls, &waits}) {
      auto& state = request_access::state(*r);
      r->prompt = 16_tok;
      state.sequence = ++n;
      state.length = r->prompt + (r == &waits ? 0_tok : 5_tok);
      state.phase = phase::reasoning;
      request_access::begin_order_state<D>(*r);
      d.enter(*r, time_point{});
    }
    CHECK(d.due_at(stalls) == time_point::at_seconds(10));
    d.advance(time_point::at_seconds(10));
    d.age(stalls);
    d.age(waits);
    CHECK(d.before(stalls, waits));
    CHECK(d.before(waits, resident));
    CHECK(d.displaces(stalls, resident));
    CHECK_FALSE(d.displaces(waits, resident));
    CHECK_FALSE(d.displaces(resident, stalls));
    CHECK(d.due_at(stalls) == time_point::never());
    // One that has been served is looked at again.
    static_cast<void>(d.charge(resident, 1_tok));
    d.age(resident);
    CHECK(d.due_at(resident) == time_point::at_seconds(20));
    CHECK(order_state<D>(resident).level == 1);
    // It is first for a slice.
    CHECK_FALSE(d.charge(stalls, 249_tok));
    REQUIRE(d.charge(stalls, 1_tok));
    d.requeue(stalls);
    CHECK(order_state<D>(stalls).level == 1);
    CHECK(d.due_at(stalls) == time_point::at_seconds(20));
    // A higher priority goes before it.
    waits.priority = 1;
    CHECK(d.before(waits, stalls));
  };
  check(d);
  check(e);
}
