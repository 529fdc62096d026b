// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Prefixes of models with different layers, when memory is short. What a window has passed must not drive out what the
// next turn of a session needs.

#include <tessera/compose/fcfs.hpp>
#include <tessera/kv/by_session.hpp>
#include <tessera/kv/evict_by_time.hpp>
#include <tessera/kv/keep_until.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>

#include "support/catch.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

constexpr std::int64_t block = 16;
constexpr std::int64_t window = 1024;

struct grouped_request : request_hook {
  std::vector<std::uint64_t> hashes;
  std::uint32_t session = 0;
  time_point keep_until{};
  time_point next_use = time_point::never();
  [[nodiscard]] std::array<std::span<const std::uint64_t>, 2> prefix_hashes() const noexcept {
    return {hashes, hashes};
  }
};

/// Blocks of a text: `hashes[i]` for block `i`, those before `shared` as all texts have them.
std::vector<std::uint64_t> text(std::int64_t blocks, std::uint64_t own, std::int64_t shared = 0) {
  std::vector<std::uint64_t> h;
  for (std::int64_t i = 0; i != blocks; ++i) {
    h.push_back(((i < shared ? 1 : 1000 + own) * 1'000'003 + static_cast<std::uint64_t>(i)) * 0x9e37'79b9'7f4a'7c15ULL);
  }
  return h;
}

/// An engine with a model of full attention and windows, that serves one request at a time.
template <class Store>
struct one_by_one {
  using scheduler_type = fcfs<grouped_request, kv::groups<2, Store>>;
  using limits_type = typename scheduler_type::limits;

  explicit one_by_one(std::size_t blocks)
      : storage{storage_for<scheduler_type>(
            limits_type{{.blocks = blocks, .residents = 4, .max_length = 8448_tok},
                        {kv::group::full(tokens{block}), kv::group::sliding(tokens{block}, tokens{window})}})},
        scheduler{storage} {}

  /// Returns how many tokens of the prompt were found.
  tokens serve(tokens prompt, std::vector<std::uint64_t> hashes, std::uint32_t session, tokens budget,
               tokens output = 8_tok) {
    grouped_request r;
    r.prompt = prompt;
    r.max_output = output;
    r.hashes = std::move(hashes);
    r.session = session;
    REQUIRE(scheduler.submit(r, now) == status::accepted);
    tokens found{};
    for (bool first = true; !scheduler.idle(); first = false) {
      const auto p = scheduler.plan(now, {.token_budget = budget});
      REQUIRE(p.size() == 1);
      if (first) found = p[0].first;
      std::array<outcome, 1> o{};
      o[0].finished = p[0].samples && r.generated() + 1_tok == output;
      now += 20_ms;
      REQUIRE(scheduler.commit(p, o, now) == status::ok);
    }
    return found;
  }

  owned_storage<limits_type> storage;
  scheduler_type scheduler;
  time_point now{};
};

/// What two sessions in turn must find, told from sizes alone. A prefix is there or not, the one that was used last
/// goes last, and what windows have passed counts for nothing.
struct sizes_alone {
  static constexpr std::int64_t kept = 8192 / block + window / block;  // of a session that has ended

  /// Blocks at once, at most, while a prompt is computed in chunks: its windows have the chunk besides.
  static std::int64_t peak(std::int64_t budget) { return 8192 / block + window / block + budget / block + 1; }

  static std::int64_t found(std::int64_t blocks, std::int64_t budget, int turns) {
    std::list<int> cached;  // the one that was used last comes last
    std::int64_t n = 0;
    for (int turn = 0; turn != turns; ++turn) {
      const int who = turn % 2;
      bool hit = false;
      for (const int c : cached) hit = hit || c == who;
      cached.remove(who);
      const std::int64_t needs = hit ? kept + 2 : peak(budget);
      while (!cached.empty() && needs + static_cast<std::int64_t>(cached.size()) * kept > blocks) cached.pop_front();
      cached.push_back(who);
      if (turn > 1 && hit) n += 8192;
    }
    return n;
  }
};

template <class Store>
void two_sessions_in_turn() {
  constexpr std::int64_t both = 2 * (8192 / block + window / block + 2);
  for (const std::int64_t budget : {256, 1024, 2048}) {
    for (const double pool : {1.0, 1.1, 1.25, 1.4, 2.0}) {
      CAPTURE(budget, pool);
      const auto blocks = static_cast<std::int64_t>(static_cast<double>(both) * pool);
      one_by_one<Store> e{static_cast<std::size_t>(blocks)};
      tokens found{};
      for (int turn = 0; turn != 20; ++turn) {
        const auto who = static_cast<std::uint32_t>(turn % 2);
        const tokens n = e.serve(8193_tok, text(512, who), who, tokens{budget});
        if (turn > 1) found += n;
      }
      CHECK(found == tokens{sizes_alone::found(blocks, budget, 20)});
    }
  }
}

}  // namespace

TEST_CASE("two sessions in turn find their prefixes wherever both fit beside one chunk", "[kv]") {
  SECTION("least recently used") { two_sessions_in_turn<kv::prefix_cache>(); }
  SECTION("by session") { two_sessions_in_turn<kv::basic_prefix_cache<kv::by_session<4>>>(); }
  SECTION("keep until") { two_sessions_in_turn<kv::basic_prefix_cache<kv::keep_until<>>>(); }
  SECTION("next use") { two_sessions_in_turn<kv::basic_prefix_cache<kv::next_use<>>>(); }
}

TEST_CASE("two sessions in turn find all in a pool of 1.25 times what both keep", "[kv]") {
  one_by_one<kv::prefix_cache> e{1445};
  for (std::uint32_t turn = 0; turn != 20; ++turn) {
    CHECK(e.serve(8193_tok, text(512, turn % 2), 0, 2048_tok) == (turn < 2 ? 0_tok : 8192_tok));
  }
}

TEST_CASE("a beginning that several prompts share is found again once it has been met twice", "[kv]") {
  // The pool has room for little more than a prompt. Windows pass the end of what is shared long before a prompt ends.
  one_by_one<kv::prefix_cache> e{1400};
  std::vector<std::int64_t> found;
  for (std::uint64_t i = 0; i != 8; ++i) {
    found.push_back(e.serve(6401_tok, text(400, i, 150), 0, 2048_tok).count());
  }
  CHECK(found[0] == 0);
  for (std::size_t i = 2; i != found.size(); ++i) CHECK(found[i] == 150 * block);
}

TEST_CASE("a prompt is found again after an answer that is longer than the window", "[kv]") {
  // Only prompts have hashes: their ends are passed, and are the only place up to which anything is found.
  one_by_one<kv::prefix_cache> e{800};
  CHECK(e.serve(4097_tok, text(256, 1), 0, 1024_tok, 2000_tok) == 0_tok);
  CHECK(e.serve(2049_tok, text(128, 2), 0, 1024_tok, 8_tok) == 0_tok);
  CHECK(e.serve(4097_tok, text(256, 1), 0, 1024_tok, 2000_tok) == 4096_tok);
}

TEST_CASE("blocks that a window has passed are evicted before all others, by every policy", "[kv]") {
  const auto check = [](auto cache) {
    using store = typename decltype(cache)::type;
    std::vector<std::byte> memory(store::required_bytes({.blocks = 6}));
    arena a{memory};
    store s{a, {.blocks = 6}};
    std::array<kv::block_id, 6> id{};
    REQUIRE(s.allocate(id) == status::ok);
    for (std::size_t i = 0; i != 6; ++i) REQUIRE(s.publish(id[i], 100 + i, i) == status::ok);
    REQUIRE(s.release(id[0]) == status::ok);
    REQUIRE(s.release(id[1]) == status::ok);
    REQUIRE(s.release_first(id[2]) == status::ok);
    REQUIRE(s.release_first(id[3]) == status::ok);
    REQUIRE(s.release(id[4]) == status::ok);
    // Used again, it is as any other.
    REQUIRE(s.share(id[3]) == status::ok);
    s.undo_share({&id[3], 1});
    REQUIRE(s.share(id[2]) == status::ok);
    REQUIRE(s.release(id[2]) == status::ok);
    CHECK(s.allocate() == id[3]);
    const kv::block_id second = s.allocate();
    CHECK((second == id[0] || second == id[4]));
    // Undone to the letter.
    s.undo_allocate({&second, 1});
    s.undo_allocate({&id[3], 1});
    CHECK(s.allocate() == id[3]);
    REQUIRE(s.release(id[5]) == status::ok);
  };
  check(std::type_identity<kv::prefix_cache>{});
  check(std::type_identity<kv::basic_prefix_cache<kv::by_session<4>>>{});
  check(std::type_identity<kv::basic_prefix_cache<kv::keep_until<>>>{});
}
