// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Sessions of several turns, on a model of full attention and a window. The pool holds what all sessions keep, and a
// chunk besides. It finds in each turn all of the earlier one, as full attention alone does in a pool of its own size.

#include <tessera/compose/fcfs.hpp>
#include <tessera/kv/by_session.hpp>
#include <tessera/kv/keep_until.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

constexpr std::int64_t block = 16;

template <std::size_t Groups>
struct turn : request_hook {
  std::vector<std::uint64_t> hashes;
  std::uint32_t session = 0;
  time_point keep_until{};
  [[nodiscard]] std::array<std::span<const std::uint64_t>, Groups> prefix_hashes() const noexcept {
    std::array<std::span<const std::uint64_t>, Groups> all;
    all.fill(hashes);
    return all;
  }
};

/// A turn of a session: how long its prompt has become.
struct visit {
  std::uint32_t session;
  std::int64_t prompt;
  std::int64_t output;
};

struct world {
  std::vector<visit> visits;
  std::int64_t window = 0;
  std::int64_t budget = 0;
  std::int64_t full_blocks = 0;    ///< Blocks of all sessions in the end.
  std::int64_t window_blocks = 0;  ///< Blocks of all their windows.
};

world random_world(std::uint64_t seed) {
  std::mt19937_64 random{seed};
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  world w{.visits = {}, .window = block * (1 + below(40)), .budget = 64 + below(1000)};
  std::vector<std::int64_t> length(static_cast<std::size_t>(2 + below(6)));
  for (int i = 0; i != 40; ++i) {
    const auto who = static_cast<std::size_t>(below(static_cast<std::int64_t>(length.size())));
    length[who] = std::min<std::int64_t>(length[who] + 1 + below(900), 6000);
    w.visits.push_back({static_cast<std::uint32_t>(who), length[who], 1 + below(60)});
  }
  for (const std::int64_t n : length) {
    w.full_blocks += n / block + 1;
    w.window_blocks += w.window / block + 2;
  }
  return w;
}

/// Runs the visits one by one. Returns how many tokens of prompts were found.
template <std::size_t Groups, class Store>
std::int64_t found(const world& w, std::int64_t blocks) {
  using scheduler_type = fcfs<turn<Groups>, kv::groups<Groups, Store>>;
  using limits_type = typename scheduler_type::limits;
  limits_type l{{.blocks = static_cast<std::size_t>(blocks), .residents = 2, .max_length = 6144_tok}, {}};
  l.layers[0] = kv::group::full(tokens{block});
  if constexpr (Groups == 2) l.layers[1] = kv::group::sliding(tokens{block}, tokens{w.window});
  auto storage = storage_for<scheduler_type>(l);
  scheduler_type s{storage};
  std::int64_t sum = 0;
  time_point now{};
  for (const visit& v : w.visits) {
    turn<Groups> r;
    r.prompt = tokens{v.prompt};
    r.max_output = tokens{v.output};
    r.session = v.session;
    for (std::int64_t i = 0; i != v.prompt / block; ++i) {
      r.hashes.push_back((std::uint64_t{v.session} * 1'000'003 + static_cast<std::uint64_t>(i) + 1) *
                         0x9e37'79b9'7f4a'7c15ULL);
    }
    REQUIRE(s.submit(r, now) == status::accepted);
    for (bool first = true; !s.idle(); first = false) {
      const auto p = s.plan(now, {.token_budget = tokens{w.budget}});
      REQUIRE(p.size() == 1);
      if (first) sum += p[0].first.count();
      std::array<outcome, 1> o{};
      o[0].finished = p[0].samples && r.generated() + 1_tok >= r.max_output;
      now += 10_ms;
      REQUIRE(s.commit(p, o, now) == status::ok);
    }
  }
  return sum;
}

/// What each turn finds if nothing is ever evicted.
std::int64_t all_that_was_computed(const world& w) {
  std::vector<std::int64_t> known(8);
  std::int64_t sum = 0;
  for (const visit& v : w.visits) {
    sum += std::min(known[v.session], block * ((v.prompt - 1) / block));
    known[v.session] = block * (v.prompt / block);
  }
  return sum;
}

template <class Store>
void compare() {
  for (std::uint64_t seed = 0; seed != 150; ++seed) {
    const world w = random_world(seed);
    const std::int64_t chunk = w.budget / block + 2;
    const std::int64_t answer = 2 * (60 / block + 2);
    // A prompt of whole blocks that comes again computes its last block again, and leaves a second copy of it.
    const auto duplicates = static_cast<std::int64_t>(w.visits.size());
    CAPTURE(seed, w.window, w.budget, w.full_blocks, w.window_blocks);
    CHECK(found<1, Store>(w, w.full_blocks + answer + duplicates) == all_that_was_computed(w));
    CHECK(found<2, Store>(w, w.full_blocks + w.window_blocks + chunk + answer + duplicates) ==
          all_that_was_computed(w));
  }
}

}  // namespace

TEST_CASE("sessions on a model with windows find as much as with full attention", "[kv]") {
  SECTION("least recently used") { compare<kv::prefix_cache>(); }
  SECTION("by session") { compare<kv::basic_prefix_cache<kv::by_session<8>>>(); }
  SECTION("keep until") { compare<kv::basic_prefix_cache<kv::keep_until<>>>(); }
}
