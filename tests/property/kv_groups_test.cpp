// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A model with different layers, and an engine that trusts the tables of its groups with nothing. It writes to each
// slot what the KV of its token would be, or what the state after it would be. It reads all that a token looks at
// before it computes the next. So each of these shows as a wrong value:
// - a block that a window gave up too early,
// - two rows that have one block,
// - a prefix that a group cannot serve,
// - a snapshot of another sequence.
//
// The test also has the simplest ways to say which prefix is the longest, what a row needs, and which row has which
// block. Random plans are undone, too.

#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/groups.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <random>
#include <set>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/is_slow.hpp"

namespace {

using namespace tessera;
using namespace tessera::literals;
using kv::block_id;
using kv::group;

std::size_t count(tokens n) { return static_cast<std::size_t>(n.count()); }
tokens of(std::size_t n) { return tokens{static_cast<std::int64_t>(n)}; }

// `Most` of them could be there.
template <std::size_t Groups, class Store, std::size_t Most = Groups>
struct world {
  using groups = kv::groups<Most, Store>;
  using hash = typename groups::hash_type;

  struct sequence {
    std::vector<std::int32_t> text;
    std::array<std::vector<hash>, Groups> hashes;
    std::vector<std::uint64_t> content;  ///< Contents of the KV of each token, and of the state after it.
    std::uint32_t row = no_index;
    std::size_t computed = 0;

    [[nodiscard]] typename groups::hash_spans spans() const {
      typename groups::hash_spans s;
      for (std::size_t g = 0; g != Groups; ++g) s[g] = hashes[g];
      return s;
    }
  };

  explicit world(const typename groups::limits& l)
      : limits{l}, storage{storage_for<groups>(l)}, kv{memory, storage.limits()} {
    for (std::size_t g = 0; g != Groups; ++g) widest = std::max(widest, count(l.layers[g].block_size));
    device.assign(l.blocks * widest, 0);
  }

  typename groups::limits limits;
  owned_storage<typename groups::limits> storage;
  arena memory{storage.memory()};
  groups kv;
  std::size_t widest = 0;
  std::vector<std::uint64_t> device;

  void write(sequence& s, std::vector<std::int32_t> text) {
    s.text = std::move(text);
    s.content.clear();
    std::uint64_t chain = 1;
    for (const std::int32_t t : s.text) s.content.push_back(chain = kv::hash_block(chain, {&t, 1}));
    for (std::size_t g = 0; g != Groups; ++g) {
      const std::size_t b = count(limits.layers[g].block_size);
      s.hashes[g].resize(s.text.size() / b);
      if constexpr (std::is_same_v<hash, kv::hash128>) {
        kv::hash_chain(s.text, b, s.hashes[g], kv::hash128{});
      } else {
        kv::hash_chain(s.text, b, s.hashes[g]);
      }
    }
  }

  [[nodiscard]] std::uint64_t& slot(std::size_t g, std::uint32_t row, std::size_t position) {
    const std::size_t b = count(limits.layers[g].block_size);
    REQUIRE(position / b >= kv.first_block(g, row));
    const block_id id = kv.table(g).row(row)[position / b];
    REQUIRE(id < limits.blocks);
    return device[id * widest + (is_state(g) ? 0 : position % b)];
  }
  [[nodiscard]] bool is_state(std::size_t g) const { return limits.layers[g].is_recurrent(); }

  /// What the token at `position` looks at is there, in every group.
  void read(const sequence& s, std::size_t position) {
    for (std::size_t g = 0; g != Groups; ++g) {
      if (is_state(g)) {
        if (position != 0) REQUIRE(slot(g, s.row, position - 1) == s.content[position - 1]);
        continue;
      }
      const std::size_t w = count(limits.layers[g].window);
      std::size_t first = w == 0 || position + 1 < w ? 0 : position + 1 - w;
      if (limits.layers[g].in_chunks) first = position - position % w;
      for (std::size_t p = first; p < position; ++p) REQUIRE(slot(g, s.row, p) == s.content[p]);
    }
  }
  /// A step: tokens [s.computed, end), of which all but the first see each other within it.
  void compute(sequence& s, std::size_t end) {
    read(s, s.computed);
    for (std::size_t p = s.computed; p != end; ++p) {
      for (std::size_t g = 0; g != Groups; ++g) slot(g, s.row, p) = s.content[p];
    }
    s.computed = end;
  }

  /// All hashes that are known.
  [[nodiscard]] std::set<std::pair<std::uint64_t, std::uint64_t>> known() const {
    std::set<std::pair<std::uint64_t, std::uint64_t>> all;
    for (std::size_t i = 0; i != limits.blocks; ++i) {
      const auto id = static_cast<block_id>(i);
      if (kv.store().published(id)) all.insert(both(kv.store().last_hash(id)));
    }
    return all;
  }
  static std::pair<std::uint64_t, std::uint64_t> both(std::uint64_t h) { return {h, 0}; }
  static std::pair<std::uint64_t, std::uint64_t> both(const kv::hash128& h) { return {h.low, h.high}; }
  static hash named(std::size_t g, const hash& h) {
    if (g == 0) return h;
    if constexpr (std::is_same_v<hash, kv::hash128>) {
      return {h.low ^ kv::detail::scramble(g), h.high + kv::detail::scramble(g)};
    } else {
      return h ^ kv::detail::scramble(g);
    }
  }
  /// The longest prefix, by trying all of them.
  [[nodiscard]] std::size_t longest(const sequence& s, std::size_t most) const {
    const auto all = known();
    for (std::size_t n = most; n != 0; --n) {
      bool fits = true;
      for (std::size_t g = 0; g != Groups && fits; ++g) {
        const std::size_t b = count(limits.layers[g].block_size);
        const std::size_t w = count(limits.layers[g].window);
        fits = n % b == 0 && n / b <= s.hashes[g].size();
        std::size_t first = w == 0 || n + 1 < w ? 0 : n + 1 - w;
        if (limits.layers[g].in_chunks) first = n - n % w;
        for (std::size_t p = first; p < n && fits; ++p) {
          fits = all.count(both(named(g, s.hashes[g][p / b]))) == 1;
        }
      }
      if (fits) return n;
    }
    return 0;
  }

  void check(const std::deque<sequence>& all) const {
    std::vector<std::uint32_t> owners(limits.blocks);
    for (const sequence& s : all) {
      if (s.row == no_index) continue;
      std::size_t held = 0;
      for (std::size_t g = 0; g != Groups; ++g) {
        const auto row = kv.table(g).row(s.row);
        std::set<block_id> once;
        for (std::size_t i = 0; i != row.size(); ++i) {
          if (i < kv.first_block(g, s.row)) continue;
          REQUIRE(once.insert(row[i]).second);
          ++owners[row[i]];
          ++held;
        }
      }
      REQUIRE(kv.held(s.row) == held);
    }
    std::size_t used = 0;
    for (std::size_t i = 0; i != owners.size(); ++i) {
      REQUIRE(kv.store().references(static_cast<block_id>(i)) == owners[i]);
      used += owners[i] != 0 ? 1U : 0U;
    }
    REQUIRE(kv.free() == limits.blocks - used);
  }
};

template <std::size_t Groups, class Store = kv::prefix_cache, std::size_t Most = Groups>
std::size_t play(const std::array<group, Groups>& layers, std::uint32_t seed) {
  std::mt19937 random{seed};
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  constexpr std::size_t longest = 160;
  const std::size_t blocks = 24 + below(100);
  using world_type = world<Groups, Store, Most>;
  typename world_type::groups::limits limits{.blocks = blocks, .rows = 5, .max_length = of(longest), .used = Groups};
  std::copy(layers.begin(), layers.end(), limits.layers.begin());
  world_type w{limits};
  REQUIRE(w.kv.count() == Groups);
  std::deque<typename world_type::sequence> all;
  std::size_t hits = 0;
  std::size_t forks = 0;

  const auto new_text = [&] {
    // Families that begin alike, for a while.
    std::vector<std::int32_t> text(20 + below(longest - 20));
    const std::size_t common = below(longest);
    const auto family = static_cast<std::int32_t>(below(3));
    const auto own = static_cast<std::int32_t>(below(1 << 20));
    for (std::size_t i = 0; i != text.size(); ++i) {
      text[i] = (i < common ? family : own + 10) * 1000 + static_cast<std::int32_t>(i);
    }
    return text;
  };
  const auto slow_lacks = [&](std::uint32_t row, std::size_t length) {
    std::size_t n = 0;
    for (std::size_t g = 0; g != Groups; ++g) {
      const std::size_t b = count(layers[g].block_size);
      const std::size_t want = (length + b - 1) / b;
      const std::size_t has = w.kv.table(g).size(row);
      n += want > has ? want - has : 0;
    }
    return n;
  };

  struct entry {
    std::size_t index;
    std::size_t end;
  };
  struct plan_type {
    std::vector<entry> entries;
    std::vector<std::size_t> victims;
    std::vector<kv::block_copy> copies;
  };
  // A request starts, goes on, or gives way.
  const auto make_plan = [&] {
    plan_type plan;
    const auto is_in = [&](std::size_t index) {
      return std::any_of(plan.entries.begin(), plan.entries.end(), [&](const entry& e) { return e.index == index; }) ||
             std::count(plan.victims.begin(), plan.victims.end(), index) != 0;
    };
    for (std::size_t k = 1 + below(4); k-- != 0;) {
      const std::size_t mark = w.kv.mark();
      const std::size_t what = below(9);
      if (what == 8 && !all.empty()) {
        const std::size_t index = below(all.size());
        if (all[index].row == no_index || is_in(index) || all[index].computed == 0 || all[index].computed == longest)
          continue;
        const std::size_t computed = all[index].computed;
        std::size_t lacks = 0;
        for (const group& g : layers) lacks += computed % count(g.block_size) != 0 ? 1U : 0U;
        const std::size_t free = w.kv.free();
        const std::size_t before = w.kv.mark();
        const auto forked = w.kv.fork(all[index].row, of(computed));
        REQUIRE((forked.row == no_index) == (lacks > free || w.kv.mark() == before));
        if (forked.row == no_index) {
          REQUIRE(w.kv.free() == free);
          continue;
        }
        REQUIRE(w.kv.free() == free - lacks);
        REQUIRE(forked.count == lacks);
        auto text = all[index].text;
        const auto own = static_cast<std::int32_t>(below(1 << 20));
        for (std::size_t i = computed; i < text.size(); ++i) text[i] = own + static_cast<std::int32_t>(i);
        if (text.size() == computed) text.push_back(own);
        auto& child = all.emplace_back();
        w.write(child, text);
        child.row = forked.row;
        child.computed = computed;
        plan.copies.insert(plan.copies.end(), forked.copies.begin(),
                           forked.copies.begin() + static_cast<std::ptrdiff_t>(forked.count));
        ++forks;
        if (w.kv.grow(child.row, of(computed + 1)) == status::ok) {
          plan.entries.push_back({all.size() - 1, computed + 1});
        }
      } else if (what < 3) {
        auto& s = all.emplace_back();
        w.write(s, new_text());
        const std::size_t most = s.text.size() - 1;
        const tokens found = w.kv.match(s.spans(), of(most));
        REQUIRE(found == of(w.longest(s, most)));
        s.row = w.kv.open();
        if (s.row == no_index) {
          all.pop_back();
          continue;
        }
        w.kv.share(s.row, s.spans(), found);
        s.computed = count(found);
        const std::size_t end = s.computed + 1 + below(s.text.size() - s.computed);
        const std::size_t lacks = slow_lacks(s.row, end);
        const std::size_t free = w.kv.free();
        REQUIRE(w.kv.lacks(s.row, of(end)) == lacks);
        const status grown = w.kv.grow(s.row, of(end));
        REQUIRE(grown == (lacks <= free ? status::ok : status::exhausted));
        if (grown != status::ok) {
          w.kv.roll_back(mark);
          all.pop_back();
          continue;
        }
        hits += found != 0_tok ? 1U : 0U;
        plan.entries.push_back({all.size() - 1, end});
      } else if (!all.empty()) {
        const std::size_t index = below(all.size());
        auto& s = all[index];
        const bool may_go_on = s.row != no_index && !is_in(index);
        const std::size_t more = 1 + (what < 6 ? 0 : below(longest));
        if (!may_go_on) continue;
        if (what == 3) {
          w.kv.evict(s.row);
          plan.victims.push_back(index);
        } else if (s.computed != s.text.size()) {
          const std::size_t end = std::min(s.text.size(), s.computed + more);
          if (w.kv.grow(s.row, of(end)) == status::ok) plan.entries.push_back({index, end});
        }
      }
    }
    return plan;
  };
  // Everything that can be seen, except what an unused row had.
  const auto rows_of_all = [&] {
    std::vector<std::vector<block_id>> rows;
    for (const auto& s : all) {
      for (std::size_t g = 0; g != Groups && s.row != no_index; ++g) {
        const auto row = w.kv.table(g).row(s.row);
        rows.emplace_back(row.begin(), row.end());
      }
    }
    return rows;
  };

  for (int step = 0; step != 120; ++step) {
    w.kv.begin();
    if (below(3) == 0) {
      // Undone, and made again: the same blocks.
      const std::size_t before = all.size();
      const auto rows = rows_of_all();
      const auto known = w.known();
      const std::mt19937 same = random;
      static_cast<void>(make_plan());
      const auto planned = rows_of_all();
      w.kv.roll_back(0);
      all.resize(before);
      REQUIRE(rows_of_all() == rows);
      REQUIRE(w.known() == known);
      w.check(all);
      random = same;
      const plan_type again = make_plan();
      REQUIRE(rows_of_all() == planned);
      w.kv.roll_back(0);
      all.resize(before);
    }
    const plan_type plan = make_plan();
    w.kv.begin();
    for (const kv::block_copy& c : plan.copies) {
      for (std::size_t i = 0; i != w.widest; ++i) w.device[c.to * w.widest + i] = w.device[c.from * w.widest + i];
    }
    for (const entry& e : plan.entries) w.compute(all[e.index], e.end);
    for (const entry& e : plan.entries) {
      auto& s = all[e.index];
      if (below(5) != 0) w.kv.publish(s.row, s.spans(), of(s.computed));
      w.kv.slide(s.row, of(s.computed));
      for (std::size_t g = 0; g != Groups; ++g) {
        // No more than the window, and what it begins in.
        if (layers[g].window == 0_tok) continue;
        const std::size_t b = count(layers[g].block_size);
        REQUIRE(w.kv.table(g).size(s.row) - w.kv.first_block(g, s.row) <= (count(layers[g].window) + b - 2) / b + 1);
        if (layers[g].is_recurrent()) REQUIRE(w.kv.table(g).size(s.row) - w.kv.first_block(g, s.row) == 1);
      }
    }
    for (const std::size_t v : plan.victims) {
      w.kv.close(all[v].row);
      all[v].row = no_index;
    }
    for (auto& s : all) {
      if (s.row == no_index || s.computed != s.text.size() || below(3) != 0) continue;
      w.kv.close(s.row);
      s.row = no_index;
    }
    if (below(40) == 0) w.kv.clear();
    w.check(all);
    std::erase_if(all, [](const auto& s) { return s.row == no_index; });
  }
  REQUIRE(forks != 0);
  for (auto& s : all) w.kv.close(s.row);
  REQUIRE(w.kv.free() == blocks);
  return hits;
}

constexpr std::uint32_t seeds = tessera_test::is_slow ? 20 : 150;

template <std::size_t Groups, class Store = kv::prefix_cache, std::size_t Most = Groups>
void many(const std::array<group, Groups>& layers, std::size_t expected_hits) {
  std::size_t hits = 0;
  for (std::uint32_t seed = 0; seed != seeds; ++seed) {
    INFO("seed " << seed);
    hits += play<Groups, Store, Most>(layers, seed);
  }
  CHECK(hits > expected_hits * seeds);
}

}  // namespace

TEST_CASE("groups: full attention alone") { many<1>({group::full(4_tok)}, 5); }
TEST_CASE("groups: full attention and a window") {
  many<2>({group::full(4_tok), group::sliding(4_tok, 10_tok)}, 2);
  many<2>({group::full(4_tok), group::sliding(4_tok, 1_tok)}, 2);
}
TEST_CASE("groups: block sizes that differ") {
  many<2>({group::full(8_tok), group::sliding(4_tok, 9_tok)}, 1);
  many<2>({group::full(6_tok), group::sliding(4_tok, 30_tok)}, 1);
}
TEST_CASE("groups: full attention and chunks") {
  many<2>({group::full(4_tok), group::chunked(4_tok, 12_tok)}, 2);
  many<2>({group::full(4_tok), group::chunked(4_tok, 2_tok)}, 2);
  many<2>({group::full(6_tok), group::chunked(4_tok, 10_tok)}, 1);
  many<2>({group::sliding(4_tok, 9_tok), group::chunked(8_tok, 20_tok)}, 1);
}
TEST_CASE("groups: a recurrent state") {
  many<1>({group::recurrent(8_tok)}, 1);
  many<2>({group::recurrent(16_tok), group::full(8_tok)}, 1);
}
TEST_CASE("groups: three of them") {
  using wide = kv::basic_prefix_cache<kv::lru, kv::null_sink, kv::hash128>;
  many<3>({group::full(4_tok), group::sliding(8_tok, 12_tok), group::recurrent(16_tok)}, 1);
  many<3, wide>({group::full(8_tok), group::sliding(4_tok, 7_tok), group::sliding(8_tok, 20_tok)}, 1);
}
TEST_CASE("groups: fewer than there could be") {
  many<1, kv::prefix_cache, 3>({group::full(4_tok)}, 5);
  many<2, kv::prefix_cache, 5>({group::sliding(4_tok, 10_tok), group::full(4_tok)}, 2);
  many<2, kv::prefix_cache, 16>({group::sliding(4_tok, 9_tok), group::chunked(8_tok, 20_tok)}, 1);
}
TEST_CASE("groups: seven of them") {
  const group window = group::sliding(4_tok, 10_tok);
  many<7, kv::prefix_cache, 8>({window, window, window, window, window, window, group::full(4_tok)}, 1);
}
