// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/fleet/log.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace {

using namespace tessera;
using namespace tessera::literals;
using fleet::action;
using fleet::action_kind;
using fleet::event;
using fleet::event_kind;

std::string text(const event& e) {
  fleet::log_line line;
  return std::string{fleet::write(e, line)};
}
std::string text(const action& a) {
  fleet::log_line line;
  return std::string{fleet::write(a, line)};
}

TEST_CASE("fleet log: a line has what is not as it is by default") {
  event e{.at_s = 12.5, .what = event_kind::arrived, .request = 7};
  e.asks = {.prompt = 320_tok, .expected = 200_tok};
  CHECK(text(e) == "12.5 arrived request=7 prompt=320 expected=200");
  CHECK(text(event{.what = event_kind::clock}) == "0 clock");
  CHECK(text(action{.what = action_kind::move, .how = fleet::transfer::live, .replica = 2, .from = 1, .request = 0}) ==
        "> move replica=2 from=1 request=0 how=live");
  CHECK(text(action{.what = action_kind::note, .replica = 3, .why = "two\nlines = one"}) ==
        "> note replica=3 why=two lines = one");
  CHECK(fleet::is_action("> note"));
  CHECK_FALSE(fleet::is_action("0 clock"));
  CHECK(fleet::is_remark("# a remark"));
  CHECK(fleet::is_remark(""));
  CHECK_FALSE(fleet::is_remark("0 clock"));
}

TEST_CASE("fleet log: every member of every kind is read back as it was written") {
  constexpr double odd[] = {0.1, 1e-300, 1.0 / 3, 12345678.125, fleet::latest_moment_s};
  const auto big = std::numeric_limits<std::int64_t>::max();
  for (int kind = 1; kind <= static_cast<int>(event_kind::clock); ++kind) {
    event e{.at_s = odd[kind % 5],
            .what = static_cast<event_kind>(kind),
            .excluded = true,
            .role = control::role::prefill,
            .replica = 4,
            .request = 0,
            .number = std::numeric_limits<std::uint64_t>::max(),
            .count = tokens{fleet::greatest_count},
            .low = 3_blk,
            .high = blocks{big - 1}};
    e.joins = {.capacity = 9_blk, .role = control::role::decode, .elastic = true};
    e.joins.prefill = {.cost = {.alpha = odd[2], .beta = odd[1], .model_scale = 7}, .budget = {}};
    e.joins.prefill.budget = {.peak_flops = odd[4], .ttft = duration{0.3}};
    e.joins.can = {false, false, false, false, false, false};
    e.said = {.incarnation = 3, .epoch = 8, .all = {1, 2_blk, 3_blk, 4, 5, odd[2]}};
    e.said.own = fleet::load{.fresh_answers = 6};
    e.said.free = 0_blk;
    e.said.slo_met = false;
    e.asks = {.prompt = 1_tok, .generated = 2_tok, .expected = 3_tok, .spread = 4_tok, .limit = 5_tok};
    e.asks.prefix_key = 6;
    e.asks.session = 7;
    e.asks.tenant = 8;
    e.asks.is = phase::reasoning;
    e.asks.calls_tools = true;
    e.asks.movable = false;
    const std::string line = text(e);
    INFO(line);
    event back;
    REQUIRE_FALSE(fleet::read(line, back));
    CHECK(text(back) == line);
    CHECK(back.at_s == e.at_s);
    CHECK(back.count == e.count);
    CHECK(back.joins.can == e.joins.can);
    CHECK(back.joins.prefill.cost.alpha == e.joins.prefill.cost.alpha);
    CHECK(back.joins.prefill.budget.ttft == e.joins.prefill.budget.ttft);
    CHECK(back.said.all == e.said.all);
    CHECK(back.said.own == e.said.own);
    CHECK(back.said.free == e.said.free);
    CHECK(back.asks == e.asks);
  }
  event own{.what = event_kind::reported, .replica = 0};
  own.said.own = fleet::load{};  // nothing of it is this router's: not the same as nothing said
  event back;
  REQUIRE_FALSE(fleet::read(text(own), back));
  CHECK(back.said.own == fleet::load{});
  for (int kind = 1; kind <= static_cast<int>(action_kind::note); ++kind) {
    const action a{.what = static_cast<action_kind>(kind),
                   .how = fleet::transfer::live,
                   .role = control::role::decode,
                   .parameter = fleet::order_parameter::pace,
                   .replica = 1,
                   .from = 2,
                   .request = 3,
                   .low = 4,
                   .high = 5,
                   .number = 6,
                   .value = odd[kind % 5],
                   .why = "a reason, with = and  spaces"};
    action same;
    REQUIRE_FALSE(fleet::read(text(a), same));
    CHECK(same == a);
  }
}

TEST_CASE("fleet log: what is wrong is said with its column") {
  struct row {
    std::string_view line;
    std::size_t column;
    std::string_view expected;
  };
  constexpr std::string_view moment = "a moment in seconds, from 0 to 1e10";
  constexpr std::string_view length = "lengths that a request can have";
  constexpr std::string_view range = "a range of lengths that is not empty";
  for (const row& r :
       {row{"", 1, moment}, row{"nan clock", 1, moment}, row{"1", 2, "what happens"},
        row{"1 explodes", 3, "what happens"}, row{"1 clock now", 9, "a member as name=value"},
        row{"1 clock what=2", 9, "a known member"}, row{"1 ended request=x", 9, "a value of this member"},
        row{"1 ended request=-1", 9, "a value of this member"},
        row{"1 ended request=1 replica=4294967296", 19, "a value of this member"},
        row{"1 reported own_kv=3", 12, "a known member"}, row{"1 joined moves=yes", 10, "a value of this member"},
        row{"-1 clock", 1, moment}, row{"1e11 clock", 1, moment}, row{"inf clock", 1, moment},
        row{"1 none", 3, "what happens"},
        // What is missing belongs at the end.
        row{"1 joined", 9, "replica=NUMBER"}, row{"1 joined replica=0", 19, "number=NUMBER, from 1"},
        row{"1 joined replica=0 number=1", 28, "capacity=BLOCKS, from 1 to 2^40"},
        row{"1 joined replica=0 number=1 capacity=0", 29, "capacity=BLOCKS, from 1 to 2^40"},
        row{"1 joined replica=0 number=1 capacity=1099511627777", 29, "capacity=BLOCKS, from 1 to 2^40"},
        row{"1 failed replica=0", 19, "number=NUMBER, from 1"}, row{"1 planned", 10, "number=NUMBER, from 1"},
        row{"1 drained", 10, "replica=NUMBER"}, row{"1 arrived prompt=3", 19, "request=NUMBER"},
        row{"1 arrived request=3", 20, "prompt=TOKENS, from 1"}, row{"1 arrived request=3 prompt=-3", 21, length},
        row{"1 arrived request=3 prompt=4294967296", 21, length},
        row{"1 arrived request=3 prompt=4294967295 generated=1", 21, length},
        row{"1 arrived request=3 prompt=1 limit=-1", 30, length},
        row{"1 arrived request=3 prompt=9223372036854775807 generated=9223372036854775807", 48, length},
        row{"1 progressed replica=0", 23, "request=NUMBER"}, row{"1 progressed request=0", 23, "replica=NUMBER"},
        row{"1 progressed request=0 count=-1 replica=0", 24, "a count from 0 to 2^40"},
        row{"1 ended", 8, "request=NUMBER"}, row{"1 lost", 7, "request=NUMBER"},
        row{"1 serves replica=0 low=2 high=2", 20, range}, row{"1 lays_out replica=0 high=0", 28, range}}) {
    INFO(r.line);
    event e;
    const fleet::log_error wrong = fleet::read(r.line, e);
    CHECK(wrong.column == r.column);
    REQUIRE(wrong.expected != nullptr);
    CHECK(wrong.expected == r.expected);
  }
  action a;
  CHECK(fleet::read("1 clock", a).expected == std::string_view{"> before an action"});
  CHECK(fleet::read("> jump", a).column == 3);
  CHECK(fleet::read("> note why=" + std::string(80, 'x'), a).expected == std::string_view{"a value of this member"});
  for (const row& r :
       {row{"> none", 3, "an action"}, row{"> place request=1", 18, "replica=NUMBER"},
        row{"> place replica=1", 18, "request=NUMBER"}, row{"> cancel_move replica=1", 24, "request=NUMBER"},
        row{"> move replica=1 request=1", 27, "from=NUMBER"}, row{"> set_role role=decode", 23, "replica=NUMBER"},
        row{"> plan", 7, "number=NUMBER, from 1"}, row{"> set_length_range replica=0 low=-1", 30, range}}) {
    INFO(r.line);
    const fleet::log_error wrong = fleet::read(r.line, a);
    CHECK(wrong.column == r.column);
    REQUIRE(wrong.expected != nullptr);
    CHECK(wrong.expected == r.expected);
  }
}

TEST_CASE("fleet log: time does not go back") {
  event e;
  CHECK_FALSE(fleet::read("2 clock", e, 2));
  const fleet::log_error wrong = fleet::read("1.5 clock", e, 2);
  CHECK(wrong.column == 1);
  CHECK(wrong.expected == std::string_view{"a moment that is not before that of the event before"});
}

}  // namespace
