// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/by_session.hpp>
#include <tessera/kv/evict_by_time.hpp>
#include <tessera/kv/keep_until.hpp>
#include <tessera/kv/prefix_cache.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/is_slow.hpp"

// The orders of eviction and the sink, in a cache, against the slowest containers there are.

namespace {

using tessera::no_index;
using tessera::status;
using tessera::time_point;
using tessera::kv::block_id;
using tessera::kv::hash128;

/// A beginning of four blocks is worth two seconds, of two blocks five.
struct beginnings {
  tessera::duration operator()(std::size_t depth) const noexcept {
    return tessera::duration{depth < 2 ? 5.0 : depth < 4 ? 2.0 : 0.0};
  }
};

using ring = tessera::kv::event_ring<1 << 16>;
using wide_ring = tessera::kv::event_ring<1 << 16, hash128>;
template <class Policy>
using narrow = tessera::kv::basic_prefix_cache<Policy, ring>;
template <class Policy>
using wide = tessera::kv::basic_prefix_cache<Policy, wide_ring, hash128>;

template <class Cache>
struct on_heap {
  explicit on_heap(std::size_t n) : storage{tessera::storage_for<Cache>({.blocks = n})} {}
  tessera::owned_storage<typename Cache::limits> storage;
  tessera::arena memory{storage.memory()};
  Cache cache{memory, storage.limits()};
};

template <class Hash>
Hash hash_number(std::uint64_t h) {
  if constexpr (std::is_same_v<Hash, hash128>) {
    return {h % 3, h};  // most agree in 64 bits
  } else {
    return h;
  }
}

/// What a request says of a block to `keep_until`.
struct statement {
  double until = 0;
  std::uint32_t session = 0;
  bool releases = false;
};

/// What is known of one block.
template <class Hash>
struct record {
  std::uint32_t references = 0;
  bool published = false;
  Hash hash{};
  Hash parent{};
  std::size_t depth = 0;
  double hint = 0;  // of the policy: a time, or a session
  bool has_hint = false;
  std::vector<statement> said;  // of `keep_until`: all hints since it was published
  double at = 0;                // of a cached block: what the policy goes by,
  std::uint64_t turn = 0;       // and when it became cached
};

/// How a policy chooses among the cached blocks, said as slowly as it can be said. Smaller goes first.
template <class Policy>
struct rule;
template <>
struct rule<tessera::kv::lru> {
  template <class R>
  static void retain(R&, double, double) {}
  template <class R>
  static double moment(const R&, double) {
    return 0;
  }
};
template <>
struct rule<tessera::kv::keep_until<>> {
  template <class R>
  static double moment(const R& r, double now) {
    const auto is_of_first = [&](const statement& w) { return w.session == r.said[0].session; };
    const bool has_one =
        !r.said.empty() && r.said[0].session != 0 && std::all_of(r.said.begin(), r.said.end(), is_of_first);
    if (has_one && r.said.back().releases) return -1;
    for (const statement& w : r.said) now = std::max(now, w.until);
    return now;
  }
  template <class R>
  static void used(R& r) {
    // What is kept is kept for one use; its session stays known.
    for (statement& w : r.said) w.until = 0;
  }
};
template <>
struct rule<tessera::kv::next_use<>> {
  template <class R>
  static void retain(R& r, double w, double now) {
    const bool still_to_come = r.has_hint && r.hint > now;
    if (!still_to_come || w <= r.hint) r.hint = w;
    r.has_hint = true;
  }
  template <class R>
  static double moment(const R& r, double now) {
    return r.has_hint && r.hint > now ? -r.hint : -1e9;
  }
};
template <>
struct rule<tessera::kv::by_depth<beginnings>> {
  template <class R>
  static void retain(R&, double, double) {}
  template <class R>
  static double moment(const R& r, double now) {
    return now + beginnings{}(r.depth).ticks();
  }
};
template <>
struct rule<tessera::kv::by_session<5>> {
  template <class R>
  static void retain(R& r, double w, double) {
    r.hint = w;
  }
  template <class R>
  static double moment(const R&, double) {
    return 0;
  }
};

template <class Policy, class Hash>
struct model {
  explicit model(std::size_t n) : block(n) {
    for (std::size_t i = n; i-- != 0;) stack.push_back(static_cast<block_id>(i));
  }
  std::vector<record<Hash>> block;
  std::vector<block_id> stack;
  double now = 0;
  std::uint64_t turns = 0;

  [[nodiscard]] bool cached(std::size_t id) const { return block[id].published && block[id].references == 0; }
  [[nodiscard]] std::size_t cached() const {
    std::size_t n = 0;
    for (std::size_t i = 0; i != block.size(); ++i) n += cached(i) ? 1U : 0U;
    return n;
  }
  [[nodiscard]] block_id first() const {
    std::array<std::size_t, 5> of_session{};
    if constexpr (std::is_same_v<Policy, tessera::kv::by_session<5>>) {
      for (std::size_t i = 0; i != block.size(); ++i) {
        if (cached(i)) ++of_session[static_cast<std::size_t>(block[i].hint)];
      }
    }
    const auto most = static_cast<double>(std::max_element(of_session.begin(), of_session.end()) - of_session.begin());
    block_id best = no_index;
    for (std::size_t i = 0; i != block.size(); ++i) {
      if (!cached(i)) continue;
      if (std::is_same_v<Policy, tessera::kv::by_session<5>> && block[i].hint != most) continue;
      const auto id = static_cast<block_id>(i);
      if (best == no_index || std::tuple{block[i].at, block[i].turn} < std::tuple{block[best].at, block[best].turn}) {
        best = id;
      }
    }
    return best;
  }
  block_id allocate() {
    block_id id = no_index;
    if (!stack.empty()) {
      id = stack.back();
      stack.pop_back();
    } else {
      id = first();
      if (id == no_index) return id;
      block[id].published = false;
    }
    block[id].references = 1;
    return id;
  }
  bool share(block_id id) {
    if (block[id].references == 0 && !block[id].published) return false;
    if constexpr (std::is_same_v<Policy, tessera::kv::keep_until<>>) {
      if (block[id].references == 0) rule<Policy>::used(block[id]);
    }
    ++block[id].references;
    return true;
  }
  bool release(block_id id) {
    record<Hash>& b = block[id];
    if (b.references == 0) return false;
    if (--b.references != 0) return true;
    if (b.published) {
      b.at = rule<Policy>::moment(b, now);
      b.turn = ++turns;
    } else {
      stack.push_back(id);
    }
    return true;
  }
  void publish(block_id id, const Hash& hash, std::size_t depth, const Hash& parent) {
    record<Hash>& b = block[id];
    if (b.references == 0 || b.published) return;
    b.published = true;
    b.hash = hash, b.parent = parent, b.depth = depth;
    b.hint = 0, b.has_hint = false, b.said.clear();
  }
  [[nodiscard]] bool knows(const Hash& h) const {
    return std::any_of(block.begin(), block.end(), [&](const auto& b) { return b.published && b.hash == h; });
  }
};

/// A router that believes what it is told.
template <class Hash>
struct follower {
  std::vector<tessera::kv::cached_block<Hash>> known;

  template <class Ring>
  void hear(Ring& events) {
    using kind = typename Ring::event::kind;
    for (const auto& e : events.waiting()) {
      if (e.what == kind::stored) {
        known.push_back(e.block);
      } else if (e.what == kind::removed) {
        const auto at =
            std::find_if(known.begin(), known.end(), [&](const auto& b) { return b.block == e.block.block; });
        REQUIRE(at != known.end());
        REQUIRE(at->hash == e.block.hash);
        known.erase(at);
        const bool other =
            std::any_of(known.begin(), known.end(), [&](const auto& b) { return b.hash == e.block.hash; });
        REQUIRE(e.block.only == !other);
      } else {
        REQUIRE(e.what == kind::cleared);
        known.clear();
      }
    }
    events.forget();
  }
};

template <class Cache>
struct operation {
  char kind;
  std::vector<block_id> ids;
};

// Random windows of operations, wholly or partly undone.
#define EVICTIONS                                                                                            \
  narrow<tessera::kv::lru>, narrow<tessera::kv::keep_until<>>, narrow<tessera::kv::next_use<>>,              \
      narrow<tessera::kv::by_depth<beginnings>>, narrow<tessera::kv::by_session<5>>, wide<tessera::kv::lru>, \
      wide<tessera::kv::keep_until<>>

TEMPLATE_TEST_CASE("eviction: agrees with a slow model through random operations and undo", "[kv]", EVICTIONS) {
  using policy = typename TestType::eviction_type;
  using hash = typename TestType::hash_type;
  using model_type = model<policy, hash>;
  const std::uint32_t seeds = tessera_test::is_slow ? 6 : 40;
  std::size_t evictions = 0;
  for (std::uint32_t seed = 1; seed != seeds; ++seed) {
    std::mt19937 random{seed};
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const std::size_t n = 2 + below(20);
    on_heap<TestType> c{n};
    model_type m{n};
    follower<hash> router;
    std::vector<std::pair<operation<TestType>, model_type>> window;

    const auto check = [&] {
      REQUIRE(c.cache.cached() == m.cached());
      REQUIRE(c.cache.free() == m.cached() + m.stack.size());
      for (std::size_t i = 0; i != n; ++i) {
        REQUIRE(c.cache.references(static_cast<block_id>(i)) == m.block[i].references);
        REQUIRE(c.cache.published(static_cast<block_id>(i)) == m.block[i].published);
      }
      for (std::uint64_t h = 0; h != 24; ++h) {
        REQUIRE(c.cache.knows(hash_number<hash>(h)) == m.knows(hash_number<hash>(h)));
      }
    };
    for (int step = 0; step != 900; ++step) {
      const std::size_t what = below(12);
      if (what < 7) {
        operation<TestType> op{what < 3 ? 'a' : what < 5 ? 's' : 'r', std::vector<block_id>(below(4))};
        const model_type before = m;
        bool valid = true;
        if (op.kind == 'a') {
          valid = op.ids.size() <= m.cached() + m.stack.size();
          if (op.ids.size() > m.stack.size()) ++evictions;
          REQUIRE((c.cache.allocate(op.ids) == status::ok) == valid);
          if (valid) {
            for (const block_id id : op.ids) REQUIRE(id == m.allocate());
          }
        } else {
          for (block_id& id : op.ids) id = static_cast<block_id>(below(n));
          for (std::size_t k = 0; k != op.ids.size() && valid; ++k) {
            valid = op.kind == 's' ? m.share(op.ids[k]) : m.release(op.ids[op.ids.size() - 1 - k]);
          }
          REQUIRE(((op.kind == 's' ? c.cache.share(op.ids) : c.cache.release(op.ids)) == status::ok) == valid);
        }
        if (!valid) {
          const double now = m.now;
          m = before;
          m.now = now;
        } else {
          window.emplace_back(std::move(op), before);
        }
      } else if (what < 9) {
        const std::size_t undo = below(2) == 0 ? 0 : below(window.size() + 1);
        for (std::size_t k = 0; k != undo; ++k) {
          const auto& [op, before] = window.back();
          if (op.kind == 'a') c.cache.undo_allocate(op.ids);
          if (op.kind == 's') c.cache.undo_share(op.ids);
          if (op.kind == 'r') c.cache.undo_release(op.ids);
          const double now = m.now;
          m = before;
          m.now = now;
          window.pop_back();
        }
        if (below(2) == 0) {
          m.now += static_cast<double>(below(3));
          if constexpr (requires { c.cache.advance(time_point{}); }) c.cache.advance(time_point::at_seconds(m.now));
        }
      } else {  // for good: publish, retain, hear
        window.clear();
        for (std::size_t k = below(4); k-- != 0;) {
          const auto id = static_cast<block_id>(below(n));
          const hash h = hash_number<hash>(below(24));
          const hash parent = hash_number<hash>(below(24));
          const std::size_t depth = below(6);
          const status expected = m.block[id].references == 0                       ? status::not_allocated
                                  : !m.block[id].published || m.block[id].hash == h ? status::ok
                                                                                    : status::invalid;
          REQUIRE(c.cache.publish(id, h, depth, parent) == expected);
          m.publish(id, h, depth, parent);
        }
        const auto id = static_cast<block_id>(below(n));
        if (m.block[id].references != 0 && m.block[id].published) {
          const auto w = static_cast<double>(below(5));
          if constexpr (std::is_same_v<policy, tessera::kv::by_session<5>>) {
            c.cache.retain({&id, 1}, static_cast<std::uint32_t>(w));
            rule<policy>::retain(m.block[id], w, m.now);
          } else if constexpr (std::is_same_v<policy, tessera::kv::keep_until<>>) {
            const statement said{m.now + 3 * w, static_cast<std::uint32_t>(below(4)), below(3) == 0};
            using hint = typename policy::retention_type;
            c.cache.retain({&id, 1}, hint{time_point::at_seconds(said.until), said.session, said.releases});
            m.block[id].said.push_back(said);
          } else if constexpr (requires { c.cache.retain({&id, 1}, time_point{}); }) {
            c.cache.retain({&id, 1}, time_point::at_seconds(m.now + 3 * w));
            rule<policy>::retain(m.block[id], m.now + 3 * w, m.now);
          }
        }
        if (below(60) == 0) {
          c.cache.clear();
          for (std::size_t i = n; i-- != 0;) {
            if (m.cached(i)) m.stack.push_back(static_cast<block_id>(i));
            m.block[i].published = false;
          }
        }
        if (below(2) == 0) {
          router.hear(c.cache.sink());
          std::vector<block_id> told;
          for (const auto& b : router.known) told.push_back(b.block);
          std::sort(told.begin(), told.end());
          std::vector<block_id> are;
          c.cache.for_each_published([&](const auto& b) {
            are.push_back(b.block);
            const auto& r = m.block[b.block];
            REQUIRE((b.hash == r.hash && b.parent == r.parent && b.depth == r.depth));
          });
          REQUIRE(told == are);
          for (std::size_t i = 0; i != n; ++i) {
            REQUIRE(std::binary_search(are.begin(), are.end(), static_cast<block_id>(i)) == m.block[i].published);
          }
        }
      }
      if (window.size() > n / 2) window.clear();
      check();
    }
  }
  CHECK(evictions > 100);
}

TEST_CASE("eviction: kept until its time, and then as cold as if used then", "[kv]") {
  using cache = tessera::kv::basic_prefix_cache<tessera::kv::keep_until<>>;
  on_heap<cache> c{3};
  std::array<block_id, 3> ids{};
  REQUIRE(c.cache.allocate(ids) == status::ok);
  for (const block_id id : ids) REQUIRE(c.cache.publish(id, 10 + id) == status::ok);
  c.cache.retain(std::span{ids}.first(1), time_point::at_seconds(5));
  const auto give = [&](block_id id, double now) {
    c.cache.advance(time_point::at_seconds(now));
    REQUIRE(c.cache.release(id) == status::ok);
  };
  give(0, 1);
  give(1, 2);
  SECTION("it outlives what was used later, while it is kept") {
    give(2, 3);
    CHECK(c.cache.allocate() == 1);
    CHECK(c.cache.allocate() == 2);
    CHECK(c.cache.allocate() == 0);  // kept is not pinned
  }
  SECTION("and goes before what was used after its time") {
    give(2, 6);
    CHECK(c.cache.allocate() == 1);
    CHECK(c.cache.allocate() == 0);
    CHECK(c.cache.allocate() == 2);
  }
}

TEST_CASE("eviction: a block that was kept and is used again is kept no longer, unless it is asked again", "[kv]") {
  using cache = tessera::kv::basic_prefix_cache<tessera::kv::keep_until<>>;
  const bool asks_again = GENERATE(false, true);
  on_heap<cache> c{2};
  std::array<block_id, 2> ids{};
  REQUIRE(c.cache.allocate(ids) == status::ok);
  for (const block_id id : ids) REQUIRE(c.cache.publish(id, 10 + id) == status::ok);
  c.cache.retain(std::span{ids}.first(1), time_point::at_seconds(100));
  REQUIRE(c.cache.release(block_id{0}) == status::ok);
  c.cache.advance(time_point::at_seconds(1));
  // The next turn takes it.
  REQUIRE(c.cache.share(block_id{0}) == status::ok);
  if (asks_again) c.cache.retain(std::span{ids}.first(1), time_point::at_seconds(50));
  REQUIRE(c.cache.release(block_id{0}) == status::ok);
  c.cache.advance(time_point::at_seconds(2));
  REQUIRE(c.cache.release(block_id{1}) == status::ok);
  CHECK(c.cache.allocate() == (asks_again ? 1 : 0));
}

TEST_CASE("eviction: the KV of an ended session goes first, but not what others have had", "[kv]") {
  using cache = tessera::kv::basic_prefix_cache<tessera::kv::keep_until<>>;
  using hint = tessera::kv::keep_until<>::retention_type;
  on_heap<cache> c{4};
  std::array<block_id, 4> ids{};
  REQUIRE(c.cache.allocate(ids) == status::ok);
  for (const block_id id : ids) REQUIRE(c.cache.publish(id, 10 + id) == status::ok);
  const auto first = std::span{ids}.first(3);  // of session 1; its first block is a common beginning
  c.cache.retain(first, hint{time_point::at_seconds(100), 1});
  REQUIRE(c.cache.release(first) == status::ok);
  REQUIRE(c.cache.share(ids[0]) == status::ok);
  c.cache.retain(std::span{ids}.first(1), hint{{}, 2, GENERATE(false, true)});
  REQUIRE(c.cache.release(ids[0]) == status::ok);
  REQUIRE(c.cache.release(ids[3]) == status::ok);  // of no session
  REQUIRE(c.cache.share(first) == status::ok);
  const bool is_last = GENERATE(false, true);
  c.cache.retain(first, hint{time_point::at_seconds(100), 1, is_last});
  REQUIRE(c.cache.release(first) == status::ok);
  for (const block_id id : is_last ? std::array{2U, 1U, 3U, 0U} : std::array{3U, 2U, 1U, 0U}) {
    CHECK(c.cache.allocate() == id);
  }
}

TEST_CASE("eviction: a use that is undone leaves the hint", "[kv]") {
  using cache = tessera::kv::basic_prefix_cache<tessera::kv::keep_until<>>;
  on_heap<cache> c{2};
  std::array<block_id, 2> ids{};
  REQUIRE(c.cache.allocate(ids) == status::ok);
  for (const block_id id : ids) REQUIRE(c.cache.publish(id, 10 + id) == status::ok);
  const auto kept = std::span{ids}.first(1);
  c.cache.retain(kept, time_point::at_seconds(100));
  // A plan evicts its request, another takes it up, and the plan is abandoned.
  REQUIRE(c.cache.release(kept) == status::ok);
  REQUIRE(c.cache.share(kept) == status::ok);
  c.cache.undo_share(kept);
  c.cache.undo_release(kept);
  REQUIRE(c.cache.release(kept) == status::ok);
  REQUIRE(c.cache.release(block_id{1}) == status::ok);
  CHECK(c.cache.allocate() == 1);
}

TEST_CASE("eviction: what is used last goes first, what is not expected before that", "[kv]") {
  using cache = tessera::kv::basic_prefix_cache<tessera::kv::next_use<>>;
  on_heap<cache> c{4};
  std::array<block_id, 4> ids{};
  REQUIRE(c.cache.allocate(ids) == status::ok);
  for (const block_id id : ids) REQUIRE(c.cache.publish(id, 10 + id) == status::ok);
  for (const double step : {0, 1, 2}) {
    const auto id = static_cast<block_id>(step);
    c.cache.retain({&id, 1}, time_point::at_seconds(10 - step));
  }
  REQUIRE(c.cache.release(ids) == status::ok);
  for (const block_id id : {3U, 0U, 1U, 2U}) CHECK(c.cache.allocate() == id);
}

TEST_CASE("eviction: the session with most gives first", "[kv]") {
  using cache = tessera::kv::basic_prefix_cache<tessera::kv::by_session<4>>;
  on_heap<cache> c{6};
  std::array<block_id, 6> ids{};
  REQUIRE(c.cache.allocate(ids) == status::ok);
  for (const block_id id : ids) REQUIRE(c.cache.publish(id, 10 + id) == status::ok);
  c.cache.retain(std::span{ids}.first(1), 1U);  // one block of session 1, the oldest; five of session 2
  c.cache.retain(std::span{ids}.last(5), 2U);
  for (const block_id id : ids) REQUIRE(c.cache.release(id) == status::ok);
  for (const block_id id : {1U, 2U, 3U, 4U}) CHECK(c.cache.allocate() == id);
  CHECK(c.cache.allocate() == 0);  // as much, and the lower number
  CHECK(c.cache.allocate() == 5);
}

TEST_CASE("eviction: blocks that agree in 64 bits are apart with 128", "[kv]") {
  on_heap<wide<tessera::kv::lru>> c{4};
  std::array<block_id, 3> ids{};
  REQUIRE(c.cache.allocate(ids) == status::ok);
  const std::array<hash128, 3> hashes{hash128{7, 1}, hash128{7, 2}, hash128{7, 3}};
  REQUIRE(c.cache.publish(std::span{ids}.first(2), std::span{hashes}.first(2)) == status::ok);
  std::array<block_id, 3> out{};
  CHECK(c.cache.match(hashes, out) == 2);
  CHECK(out[0] == ids[0]);
  CHECK(out[1] == ids[1]);
  CHECK_FALSE(c.cache.knows({7, 3}));
  CHECK_FALSE(c.cache.knows({7, 0}));
  CHECK(c.cache.publish(ids[0], hash128{7, 2}) == status::invalid);
}

TEST_CASE("event_ring: what is too much is lost as a whole, and said so", "[kv]") {
  using small = tessera::kv::event_ring<4>;
  using kind = small::event::kind;
  on_heap<tessera::kv::basic_prefix_cache<tessera::kv::lru, small>> c{8};
  std::array<block_id, 8> ids{};
  REQUIRE(c.cache.allocate(ids) == status::ok);
  const std::array<std::uint64_t, 8> hashes{1, 2, 3, 4, 5, 6, 7, 8};
  REQUIRE(c.cache.publish(std::span{ids}.first(4), hashes) == status::ok);
  REQUIRE(c.cache.sink().size() == 4);
  CHECK(c.cache.sink().waiting()[2].block == tessera::kv::cached_block<std::uint64_t>{3, 2, ids[2], 2, true});
  REQUIRE(c.cache.publish(ids, hashes, 4) == status::ok);
  REQUIRE(c.cache.sink().size() == 1);
  CHECK(c.cache.sink().waiting()[0].what == kind::lost);
  std::size_t n = 0;
  c.cache.for_each_published([&](const auto&) { ++n; });
  CHECK(n == 8);
  c.cache.sink().forget();
  CHECK(c.cache.sink().size() == 0);
  c.cache.clear();
  REQUIRE(c.cache.sink().size() == 1);
  CHECK(c.cache.sink().waiting()[0].what == kind::cleared);
  // What was undone is not told, but if it was told already, it is told to be there again.
  REQUIRE(c.cache.publish(ids[0], 9) == status::ok);
  REQUIRE(c.cache.release(ids) == status::ok);
  c.cache.sink().forget();
  std::array<block_id, 8> all{};
  REQUIRE(c.cache.allocate(all) == status::ok);
  REQUIRE(c.cache.sink().size() == 1);
  CHECK(c.cache.sink().waiting()[0].what == kind::removed);
  c.cache.undo_allocate(all);
  CHECK(c.cache.sink().size() == 0);
  REQUIRE(c.cache.allocate(all) == status::ok);
  c.cache.sink().forget();
  c.cache.undo_allocate(all);
  REQUIRE(c.cache.sink().size() == 1);
  CHECK(c.cache.sink().waiting()[0].what == kind::stored);
}

TEMPLATE_TEST_CASE("eviction: no call allocates, and unaligned memory will do", "[kv]", EVICTIONS) {
  using hash = typename TestType::hash_type;
  for (std::size_t offset = 0; offset != 65; ++offset) {
    const typename TestType::limits limits{.blocks = 9};
    std::vector<std::byte> buffer(TestType::required_bytes(limits) + offset);
    tessera::arena memory{std::span{buffer}.subspan(offset)};
    bool fine = true;
    const tessera_test::no_allocation guard;
    TestType cache{memory, limits};
    std::array<block_id, 9> ids{};
    fine &= cache.allocate(ids) == status::ok;
    for (const block_id id : ids) fine &= cache.publish(id, hash_number<hash>(id)) == status::ok;
    if constexpr (requires { cache.retain(ids, time_point{}); }) cache.retain(ids, time_point{});
    fine &= cache.release(ids) == status::ok;
    fine &= cache.share(ids) == status::ok;
    cache.undo_share(ids);
    fine &= cache.allocate(ids) == status::ok;
    cache.undo_allocate(ids);
    fine &= cache.cached() == 9;
    cache.clear();
    const std::size_t allocations = guard.allocations();
    CHECK(allocations == 0);
    CHECK(fine);
  }
}

}  // namespace
