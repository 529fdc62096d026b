// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/pipeline/decision_log.hpp>
#include <tessera/pipeline/replay_decisions.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/is_slow.hpp"
#include "support/logged_engine.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using namespace tessera_test;

template <class Scheduler>
replay_result replay(std::span<const std::byte> log, const typename Scheduler::config& config) {
  return replay_decisions<Scheduler>(log, config, give_hashes, std::size_t{1} << 24);
}

template <class Scheduler>
std::vector<std::byte> written(const typename Scheduler::config& config, std::size_t calls, std::uint64_t seed,
                               std::size_t plans_in_flight = 1) {
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  decision_log log{buffer};
  make_calls<Scheduler>(log, config, calls, seed, plans_in_flight);
  REQUIRE(!log.full());
  buffer.resize(log.written().size());
  return buffer;
}

template <class Scheduler>
typename Scheduler::config small_config() {
  typename Scheduler::config c;
  if constexpr (requires { c.order.quantum; }) c.order.quantum = 5_tok;
  if constexpr (requires { c.order.threshold; }) c.order.threshold = duration{4.0};
  return c;
}

struct plain_request : request_hook {};
using plain = fcfs<plain_request>;

struct exact_request : basic_request_hook<nanoseconds_clock> {};
using exact = fcfs<exact_request>;

struct read_request : request_hook_for<order::paced<>> {
  token_pacer pacer{};
};
struct noted_request : read_request {};
template <class R>
  requires std::same_as<std::remove_const_t<R>, noted_request>
[[nodiscard]] constexpr auto noted_members(R& r) noexcept {
  return std::tie(r.pacer);
}

/// Answers to readers, more than there is room for.
template <class Request>
replay_result read_and_replay() {
  using scheduler_type = pascal_paced<Request>;
  const typename scheduler_type::config config{.quantum = 8_tok, .slice = 4_tok, .margin = duration{0.2}};
  std::vector<std::byte> buffer(std::size_t{1} << 18);
  decision_log log{buffer};
  std::array<Request, 12> requests;
  auto storage = storage_for<scheduler_type>({.blocks = 16, .residents = 8, .host_blocks = 32});
  logged<scheduler_type> scheduler{log, storage, config};
  std::vector<outcome> outcomes;
  time_point now{};
  for (Request& r : requests) {
    r.prompt = 20_tok;
    r.starts_in = phase::answering;
    r.pacer = token_pacer{{.tpot = duration{0.05 + 0.05 * static_cast<double>(&r - requests.data())}}};
    REQUIRE(ok(scheduler.submit(r, now)));
  }
  while (!scheduler.idle()) {
    now += duration{0.04};
    const auto p = scheduler.plan(now, {.max_batch = 4, .token_budget = 64_tok});
    outcomes.assign(p.size(), {});
    for (std::size_t i = 0; i != p.size(); ++i) {
      Request& r = *p[i].request;
      if (!p[i].samples) continue;
      r.pacer.on_token(now);
      scheduler.note(r);
      outcomes[i].finished = r.generated() == 40_tok;
    }
    scheduler.commit(p, outcomes, now);
  }
  REQUIRE(!log.full());
  return replay_decisions<scheduler_type>(log.written(), config);
}

TEMPLATE_TEST_CASE("any calls are made again with the same answers", "[pipeline]", logged_phases, logged_ranks) {
  const auto config = small_config<TestType>();
  for (std::uint64_t seed = 0; seed < 120; seed += tessera_test::is_slow ? 3 : 1) {
    const std::size_t plans_in_flight = seed < 60 ? 1 : 1 + static_cast<std::size_t>(seed % 4);
    const std::vector<std::byte> log = written<TestType>(config, 400, seed, plans_in_flight);
    const replay_result r = replay<TestType>(log, config);
    INFO("seed " << seed << ", call " << r.calls << " " << to_string(r.call) << " " << to_string(r.outcome) << " "
                 << r.expected << " " << r.came);
    REQUIRE(r.outcome == replay_outcome::same);
    REQUIRE(r.calls > 350);
    REQUIRE(r.offset == log.size());

    // What follows as zeros is nothing: a mapped file.
    std::vector<std::byte> mapped = log;
    mapped.resize(log.size() + 100);
    REQUIRE(replay<TestType>(mapped, config).outcome == replay_outcome::same);
  }
}

TEMPLATE_TEST_CASE("another parameter shows at the first decision that it changes", "[pipeline]", logged_phases,
                   logged_ranks) {
  const auto config = small_config<TestType>();
  const std::vector<std::byte> log = written<TestType>(config, 400, 7);
  auto other = config;
  if constexpr (requires { other.order.quantum; }) other.order.quantum = 1_tok;
  other.admit.fraction = 0.5;
  const replay_result r = replay<TestType>(log, other);
  CHECK(r.outcome == replay_outcome::differs);
  CHECK(r.call == decision::plan);
  CHECK(r.calls > 0);
  CHECK(r.expected != r.came);
  // It is the call that the offset says.
  REQUIRE(r.offset < log.size());
  CHECK(static_cast<decision>(log[r.offset]) == r.call);
}

TEST_CASE("a log for another scheduler is refused", "[pipeline]") {
  const auto phases = written<logged_phases>({}, 100, 1);
  CHECK(replay<logged_ranks>(phases, {}).outcome == replay_outcome::malformed);
  CHECK(replay_decisions<plain>(phases).outcome == replay_outcome::malformed);
  // The same header, and other members.
  const auto ranks = written<logged_ranks>({}, 100, 1);
  CHECK(replay_decisions<plain>(ranks).outcome == replay_outcome::malformed);
  CHECK(replay_decisions<logged_ranks>(ranks, {}, give_hashes, 1000).outcome == replay_outcome::too_large);
}

TEST_CASE("a log that is cut anywhere is truncated, or a shorter log", "[pipeline]") {
  const auto log = written<logged_phases>({}, tessera_test::is_slow ? 60 : 120, 3);
  std::size_t before = 0;
  std::size_t whole = 0;
  for (std::size_t n = 0; n != log.size(); ++n) {
    const replay_result r = replay<logged_phases>(std::span{log}.first(n), {});
    INFO("cut at " << n);
    REQUIRE((r.outcome == replay_outcome::same || r.outcome == replay_outcome::truncated));
    REQUIRE(r.calls >= before);
    before = r.calls;
    whole += r.outcome == replay_outcome::same ? 1U : 0U;
  }
  CHECK(whole == before + 1);  // after the header, and after each call but the last
}

TEMPLATE_TEST_CASE("a log with wrong bytes ends in a value", "[pipeline]", logged_phases, logged_ranks) {
  const auto config = small_config<TestType>();
  const auto log = written<TestType>(config, 150, 5);
  std::mt19937_64 random{1};
  std::array<int, 6> seen{};
  for (int i = 0; i != (tessera_test::is_slow ? 1000 : 4000); ++i) {
    auto wrong = log;
    for (std::uint64_t k = 1 + random() % 3; k != 0; --k) {
      wrong[random() % wrong.size()] = static_cast<std::byte>(random() % 4 == 0 ? 0xff : random());
    }
    ++seen[static_cast<std::size_t>(replay<TestType>(wrong, config).outcome)];
  }
  CHECK(seen[static_cast<std::size_t>(replay_outcome::differs)] > 0);
  CHECK(seen[static_cast<std::size_t>(replay_outcome::malformed)] > 0);
  CHECK(seen[static_cast<std::size_t>(replay_outcome::not_allowed)] > 0);
}

TEST_CASE("a full buffer holds the whole calls that fit, and nothing behind its end", "[pipeline]") {
  constexpr std::size_t calls = tessera_test::is_slow ? 30 : 60;
  const auto all = written<logged_phases>({}, calls, 9);
  for (std::size_t n = 0; n <= all.size(); ++n) {
    std::vector<std::byte> buffer(n + 16, std::byte{0x5a});
    decision_log log{std::span{buffer}.first(n)};
    make_calls<logged_phases>(log, {}, calls, 9);
    REQUIRE(log.full() == (n < all.size()));
    REQUIRE(log.written().size() <= n);
    REQUIRE(std::equal(log.written().begin(), log.written().end(), all.begin()));
    REQUIRE(std::all_of(buffer.begin() + static_cast<std::ptrdiff_t>(n), buffer.end(),
                        [](std::byte b) { return b == std::byte{0x5a}; }));
    if (log.written().empty()) continue;
    REQUIRE(replay<logged_phases>(log.written(), {}).outcome == replay_outcome::same);
  }
}

TEST_CASE("a call that the program dies in is the last in the log", "[pipeline]") {
  std::vector<std::byte> buffer(4096);
  decision_log log{buffer};
  auto storage = storage_for<plain>({.blocks = 8, .residents = 4});
  plain_request r;
  logged<plain> scheduler{log, storage};
  r.prompt = 10_tok;
  REQUIRE(ok(scheduler.submit(r, {})));
  std::vector<std::byte> within;
  REQUIRE(ok(scheduler.update(r, [&](plain_request& q) {
    q.priority = 1;
    within.assign(log.written().begin(), log.written().end());  // before the update is known
  })));
  CHECK(replay_decisions<plain>(within).calls == 1);

  const auto p = scheduler.plan({}, {});
  const std::size_t answered = log.written().size();
  const replay_result cut = replay_decisions<plain>(log.written().first(answered - 8));
  CHECK(cut.outcome == replay_outcome::truncated);
  CHECK(cut.call == decision::plan);
  CHECK(cut.calls == 2);
  // So is a file that was mapped and zeroed.
  std::vector<std::byte> mapped(buffer);
  std::memset(mapped.data() + answered - 8, 0, 8);
  CHECK(replay_decisions<plain>(mapped).outcome == replay_outcome::truncated);
  CHECK(ok(scheduler.abandon(p)));
  CHECK(replay_decisions<plain>(log.written()).outcome == replay_outcome::same);
}

TEST_CASE("a request of another scheduler has no name", "[pipeline]") {
  std::vector<std::byte> buffer(4096);
  decision_log log{buffer};
  auto here = storage_for<plain>({.blocks = 8, .residents = 4});
  auto there = storage_for<plain>({.blocks = 8, .residents = 4});
  std::array<plain_request, 2> requests;
  logged<plain> scheduler{log, here};
  plain other{there};
  for (plain_request& r : requests) r.prompt = 10_tok;
  REQUIRE(ok(scheduler.submit(requests[0], {})));
  REQUIRE(ok(other.submit(requests[1], {})));
  // The same number there as the first has here.
  CHECK(scheduler.cancel(requests[1]) == status::unknown_request);
  CHECK(scheduler.submit(requests[1], {}) == status::busy);
  CHECK(scheduler.adopt(requests[1]) == status::busy);
  CHECK(scheduler.cancel(requests[0]) == status::ok);
  CHECK(scheduler.adopt(requests[0]) == status::invalid);
  const replay_result r = replay_decisions<plain>(log.written());
  CHECK(r.outcome == replay_outcome::same);
  CHECK(r.calls == 6);
}

TEST_CASE("a pacer is as it was where it is noted", "[pipeline]") {
  CHECK(read_and_replay<noted_request>().outcome == replay_outcome::same);
  CHECK(read_and_replay<read_request>().outcome == replay_outcome::differs);
}

TEST_CASE("times are as exact in a log as they were", "[pipeline]") {
  std::vector<std::byte> buffer(4096);
  decision_log log{buffer};
  std::array<exact_request, 2> requests;
  auto storage = storage_for<exact>({.blocks = 8, .residents = 4});
  logged<exact> scheduler{log, storage};
  const exact::time_point now{exact::time_point::duration{9'007'199'254'740'993}};  // no double is
  for (exact_request& r : requests) {
    r.prompt = 10_tok;
    REQUIRE(ok(scheduler.submit(r, now)));
  }
  scheduler.commit(scheduler.plan(now, {}), std::array<outcome, 2>{}, now);
  CHECK(replay_decisions<exact>(log.written()).calls == 4);
  CHECK(replay_decisions<plain>(log.written()).outcome == replay_outcome::malformed);
  std::int64_t ticks = 0;
  constexpr std::size_t header = 8 + 1 + 1 + 8 + 10 * 8;
  std::memcpy(&ticks, log.written().data() + header + 1, sizeof ticks);
  CHECK(ticks == now.since_origin().ticks());
}

TEST_CASE("a digest is of everything that an engine acts on", "[pipeline]") {
  auto storage = storage_for<plain>({.blocks = 16, .residents = 4});
  std::array<plain_request, 3> requests;
  plain scheduler{storage};
  for (plain_request& r : requests) {
    r.prompt = 20_tok;
    REQUIRE(ok(scheduler.submit(r, {})));
  }
  const auto p = scheduler.plan({}, {});
  const std::uint64_t right = detail::digest_of(p, scheduler.tables());
  const auto other = [&](auto&& change) {
    std::vector<scheduled<plain_request>> entries(p.prefill.begin(), p.prefill.end());
    auto changed = p;
    changed.prefill = entries;
    REQUIRE(detail::digest_of(changed, scheduler.tables()) == right);
    change(changed, entries);
    return detail::digest_of(changed, scheduler.tables()) != right;
  };
  using entries_type = std::vector<scheduled<plain_request>>;
  using plan_type = plain::plan_type;
  CHECK(other([](plan_type&, entries_type& e) { e[1].request = e[0].request; }));
  CHECK(other([](plan_type&, entries_type& e) { e[1].first += 1_tok; }));
  CHECK(other([](plan_type&, entries_type& e) { e[1].count -= 1_tok; }));
  CHECK(other([](plan_type&, entries_type& e) { e[1].lookahead += 1_tok; }));
  CHECK(other([](plan_type&, entries_type& e) { e[1].samples = !e[1].samples; }));
  CHECK(other([](plan_type&, entries_type& e) { e[1].origin = entry_origin::resumed; }));
  CHECK(other([](plan_type&, entries_type& e) { e[1].row = e[2].row; }));
  CHECK(other([](plan_type&, entries_type& e) { --e[1].new_blocks; }));
  CHECK(other([](plan_type&, entries_type& e) { std::swap(e[1], e[2]); }));
  CHECK(other([](plan_type& q, entries_type& e) { q.prefill = std::span{e}.first(2); }));
  CHECK(other([](plan_type& q, entries_type&) {
    q.decode = q.prefill.first(1);
    q.prefill = q.prefill.subspan(1);
  }));
  const std::array<kv::block_id, 2> ids{1, 2};
  const std::array transfers{kv_transfer<plain_request>{requests.data(), 0, ids, ids}};
  const std::array fetched{kv_fetch<plain_request>{requests.data(), 0, ids}};
  const std::array copies{kv::block_copy{1, 2}};
  const std::array demoted{kv_demotion{1, 2}};
  const std::array lost{preemption<plain_request>{requests.data(), preemption_mode::swap}};
  const std::array<plain_request*, 1> outgrown{requests.data()};
  CHECK(other([&](plan_type& q, entries_type&) { q.swap_out = transfers; }));
  CHECK(other([&](plan_type& q, entries_type&) { q.swap_in = transfers; }));
  CHECK(other([&](plan_type& q, entries_type&) { q.demoted = demoted; }));
  CHECK(other([&](plan_type& q, entries_type&) { q.fetch = fetched; }));
  CHECK(other([&](plan_type& q, entries_type&) { q.copies = copies; }));
  CHECK(other([&](plan_type& q, entries_type&) { q.preempted = lost; }));
  CHECK(other([&](plan_type& q, entries_type&) { q.outgrown = outgrown; }));
  CHECK(ok(scheduler.abandon(p)));
}

TEST_CASE("writing allocates nothing", "[pipeline]") {
  std::vector<std::byte> buffer(4096);
  decision_log log{buffer};
  auto storage = storage_for<plain>({.blocks = 64, .residents = 8});
  std::array<plain_request, 4> requests;
  logged<plain> scheduler{log, storage};
  std::array<outcome, 4> outcomes{};
  outcomes[3].finished = true;

  no_allocation guard;
  for (plain_request& r : requests) {
    r.prompt = 10_tok;
    static_cast<void>(scheduler.submit(r, {}));
  }
  const auto p = scheduler.plan({}, {});
  scheduler.commit(p, outcomes, {});
  static_cast<void>(scheduler.update(requests[0], [](plain_request& r) { r.priority = 1; }));
  scheduler.cancel(requests[0]);
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(replay_decisions<plain>(log.written()).calls == 8);
}

}  // namespace
