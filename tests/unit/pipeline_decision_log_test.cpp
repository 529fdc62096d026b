// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/compose/fcfs.hpp>
#include <tessera/pipeline/decision_log.hpp>
#include <tessera/pipeline/replay_decisions.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/logged_engine.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
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
std::vector<std::byte> written(const typename Scheduler::config& config, std::size_t calls, std::uint64_t seed) {
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  decision_log log{buffer};
  make_calls<Scheduler>(log, config, calls, seed);
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

TEMPLATE_TEST_CASE("any calls are made again with the same answers", "[pipeline]", logged_phases, logged_ranks) {
  const auto config = small_config<TestType>();
  for (std::uint64_t seed = 0; seed != 60; ++seed) {
    const std::vector<std::byte> log = written<TestType>(config, 400, seed);
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
  // Of the same header, and other members.
  const auto ranks = written<logged_ranks>({}, 100, 1);
  CHECK(replay_decisions<plain>(ranks).outcome == replay_outcome::malformed);
  CHECK(replay_decisions<logged_ranks>(ranks, {}, give_hashes, 1000).outcome == replay_outcome::too_large);
}

TEST_CASE("a log that is cut anywhere is truncated, or a shorter log", "[pipeline]") {
  const auto log = written<logged_phases>({}, 120, 3);
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
  for (int i = 0; i != 4000; ++i) {
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
  const auto all = written<logged_phases>({}, 60, 9);
  for (std::size_t n = 0; n <= all.size(); ++n) {
    std::vector<std::byte> buffer(n + 16, std::byte{0x5a});
    decision_log log{std::span{buffer}.first(n)};
    make_calls<logged_phases>(log, {}, 60, 9);
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
