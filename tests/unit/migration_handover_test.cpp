// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The hand-over protocol, every reachable state of it. Any message that was ever sent may arrive at any time, any
// number of times, or never. Either side may give up, restart or die at any moment.

#include <tessera/migration/handover.hpp>

#include "support/catch.hpp"

#include <map>
#include <tuple>
#include <vector>

namespace {

using tessera::migration::handover_source;
using tessera::migration::handover_target;

enum message : unsigned { start = 1, grant = 2, closed = 4, ack = 8, refuse = 16 };

/// What a protocol may get wrong.
enum class wrong {
  nothing,
  resumes_on_timeout,      ///< granted -> kept without a refusal
  forgets_without_closed,  ///< owned -> closed when the acknowledgement is sent
  takes_what_it_refused,   ///< refusing -> owned
  closes_before_answered,  ///< the source says closed while it is granted
};

struct system_state {
  handover_source source;
  handover_target target;
  bool took = false;  // the target has owned the request under this ticket
  bool took_twice = false;
  bool source_dead = false;
  bool target_dead = false;
  unsigned sent = 0;

  [[nodiscard]] auto key() const {
    return std::tuple{source.state(), target.state(), took, took_twice, source_dead, target_dead, sent};
  }
  [[nodiscard]] bool both_may_run() const { return !source_dead && !target_dead && source.may_run() && took; }
};

void target_says(system_state& s, wrong w) {
  if (s.target.repeats() == handover_target::answer::ack) {
    s.sent |= ack;
    if (w == wrong::forgets_without_closed) s.target.on_closed();
  } else if (s.target.repeats() == handover_target::answer::refuse) {
    s.sent |= refuse;
  }
}

/// Every state that can follow.
std::vector<system_state> successors(const system_state& now, wrong w) {
  std::vector<system_state> all;
  const auto can = [&](auto&& change) {
    system_state s = now;
    change(s);
    all.push_back(s);
  };
  using source_phase = handover_source::phase;
  using target_phase = handover_target::phase;
  if (!now.source_dead) {
    if (now.source.state() == source_phase::copying) {
      can([](auto& s) { s.sent |= start; });
      can([](auto& s) {
        REQUIRE(s.source.grant());
        s.sent |= grant;
      });
      can([](auto& s) {
        REQUIRE(s.source.cancel());
        s.sent |= closed;
      });
    }
    if (w == wrong::resumes_on_timeout && now.source.state() == source_phase::granted) {
      can([](auto& s) { s.source.on_refuse(); });
    }
    if (w == wrong::closes_before_answered) can([](auto& s) { s.sent |= closed; });
    if ((now.sent & ack) != 0) {
      can([](auto& s) {
        s.source.on_ack();
        if (s.source.over()) s.sent |= closed;
      });
    }
    if ((now.sent & refuse) != 0) {
      can([](auto& s) {
        s.source.on_refuse();
        s.sent |= closed;  // in all states but granted and copying, which it has just left
      });
    }
    if (now.source.over()) can([](auto& s) { s.sent |= closed; });  // the answer to a late pull
    if (now.target_dead) can([](auto& s) { s.source.on_peer_failed(); });
    can([](auto& s) { s.source_dead = true; });
  }
  if (!now.target_dead) {
    for (const message m : {start, grant}) {
      if ((now.sent & m) == 0) continue;
      can([&](auto& s) {
        if (s.target.over()) {
          s.sent |= refuse;  // a ticket that it does not know
          return;
        }
        if (m == grant) {
          if (w == wrong::takes_what_it_refused && s.target.state() == target_phase::refusing) s.target = {};
          if (s.target.on_grant()) {
            s.took_twice = s.took;
            s.took = true;
          }
        }
        target_says(s, w);
      });
    }
    if ((now.sent & closed) != 0) can([](auto& s) { s.target.on_closed(); });
    if (now.target.state() == target_phase::receiving) {
      can([&](auto& s) {
        REQUIRE(s.target.refuse());
        target_says(s, w);
      });
    }
    if (now.source_dead) can([](auto& s) { s.target.on_closed(); });
    can([](auto& s) { s.target_dead = true; });
  }
  return all;
}

struct exploration {
  std::size_t states = 0;
  bool two_run = false;
  bool took_twice = false;
  bool nobody_in_the_end = false;
  bool stuck = false;
};

exploration explore(wrong w) {
  exploration result;
  std::map<decltype(system_state{}.key()), std::size_t> number;
  std::vector<system_state> states{system_state{}};
  std::vector<std::vector<std::size_t>> next;
  number[states[0].key()] = 0;
  for (std::size_t i = 0; i != states.size(); ++i) {
    const system_state now = states[i];
    result.two_run |= now.both_may_run();
    result.took_twice |= now.took_twice;
    next.emplace_back();
    for (const system_state& s : successors(now, w)) {
      const auto [at, is_new] = number.emplace(s.key(), states.size());
      if (is_new) states.push_back(s);
      next[i].push_back(at->second);
    }
  }
  result.states = states.size();

  // From every state in which both live, both can still come to an end without a crash; and at the end one runs it.
  std::vector<bool> ends(states.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i != states.size(); ++i) {
      const system_state& s = states[i];
      if (ends[i] || s.source_dead || s.target_dead) continue;
      bool can = s.source.over() && s.target.over();
      for (const std::size_t n : next[i]) can = can || ends[n];
      if (can) ends[i] = changed = true;
    }
  }
  for (std::size_t i = 0; i != states.size(); ++i) {
    const system_state& s = states[i];
    if (s.source_dead || s.target_dead) continue;
    result.stuck |= !ends[i];
    if (s.source.over() && s.target.over()) result.nobody_in_the_end |= !s.source.may_run() && !s.took;
  }
  return result;
}

TEST_CASE("hand-over: in every reachable state at most one side runs the request") {
  const exploration e = explore(wrong::nothing);
  CHECK(e.states > 100);
  CHECK_FALSE(e.two_run);
  CHECK_FALSE(e.took_twice);
  CHECK_FALSE(e.nobody_in_the_end);
  CHECK_FALSE(e.stuck);
}

TEST_CASE("hand-over: what is left out of the protocol is needed") {
  CHECK(explore(wrong::resumes_on_timeout).two_run);
  CHECK(explore(wrong::forgets_without_closed).two_run);
  CHECK(explore(wrong::takes_what_it_refused).two_run);
  CHECK(explore(wrong::closes_before_answered).two_run);
}

TEST_CASE("hand-over: the source's transitions") {
  handover_source s;
  CHECK(s.may_run());
  CHECK_FALSE(s.on_ack());
  REQUIRE(s.grant());
  CHECK_FALSE(s.may_run());
  CHECK_FALSE(s.over());
  CHECK_FALSE(s.grant());
  CHECK_FALSE(s.cancel());
  REQUIRE(s.on_ack());
  CHECK(s.over());
  CHECK_FALSE(s.may_run());
  CHECK_FALSE(s.on_refuse());
  CHECK_FALSE(s.on_peer_failed());
  CHECK(s.state() == handover_source::phase::released);

  handover_source refused;
  REQUIRE(refused.grant());
  REQUIRE(refused.on_refuse());
  CHECK(refused.may_run());

  handover_source died_early;
  REQUIRE(died_early.on_peer_failed());
  CHECK(died_early.state() == handover_source::phase::kept);
  handover_source died_late;
  REQUIRE(died_late.grant());
  REQUIRE(died_late.on_peer_failed());
  CHECK(died_late.state() == handover_source::phase::unresolved);
  CHECK_FALSE(died_late.may_run());
}

TEST_CASE("hand-over: the target's transitions") {
  using answer = handover_target::answer;
  handover_target t;
  CHECK(t.repeats() == answer::nothing);
  REQUIRE(t.on_grant());
  CHECK(t.repeats() == answer::ack);
  CHECK_FALSE(t.on_grant());
  CHECK_FALSE(t.refuse());
  t.on_closed();
  CHECK(t.over());
  CHECK(t.repeats() == answer::nothing);
  handover_target r;
  REQUIRE(r.refuse());
  CHECK(r.repeats() == answer::refuse);
  CHECK_FALSE(r.on_grant());
  CHECK_FALSE(r.refuse());
}

}  // namespace
