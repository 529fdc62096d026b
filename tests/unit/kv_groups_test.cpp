// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/cache_events.hpp>
#include <tessera/kv/csr_tables.hpp>
#include <tessera/kv/groups.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

// What groups of layers share and keep, by hand; tests/property/kv_groups_test.cpp checks contents.

namespace {

using namespace tessera;
using namespace tessera::literals;
using kv::block_id;
using kv::group;

template <std::size_t N>
struct on_heap {
  using groups = kv::groups<N>;
  explicit on_heap(const std::array<group, N>& layers, std::size_t blocks = 64, std::size_t rows = 4)
      : storage{storage_for<groups>({.blocks = blocks, .rows = rows, .max_length = 256_tok, .layers = layers})} {}
  owned_storage<typename groups::limits> storage;
  arena memory{storage.memory()};
  groups kv{memory, storage.limits()};
};

std::vector<std::uint64_t> hashes(std::size_t n, std::size_t block) {
  std::vector<std::uint64_t> h(n);
  for (std::size_t i = 0; i != n; ++i) h[i] = (block * 1000 + i + 1) * 0x9e37'79b9'7f4a'7c15ULL;
  return h;
}

TEST_CASE("group: what the next token needs", "[kv]") {
  CHECK(group::full(16_tok).first_needed(1000_tok) == 0);
  const group w = group::sliding(4_tok, 10_tok);
  CHECK(w.first_needed(0_tok) == 0);
  CHECK(w.first_needed(9_tok) == 0);   // 0 to 9
  CHECK(w.first_needed(12_tok) == 0);  // 3 to 12
  CHECK(w.first_needed(13_tok) == 1);  // 4 to 13
  CHECK(w.first_needed(40_tok) == 7);  // 31 to 40
  const group c = group::chunked(4_tok, 8_tok);
  CHECK(c.first_needed(7_tok) == 0);   // 0 to 7
  CHECK(c.first_needed(8_tok) == 2);   // itself
  CHECK(c.first_needed(15_tok) == 2);  // 8 to 15
  CHECK(c.most_blocks(100_tok) == 2);
  CHECK(c.passes_at(0) == 8_tok);
  CHECK(c.passes_at(2) == 16_tok);
  const group uneven = group::chunked(4_tok, 10_tok);
  CHECK(uneven.first_needed(19_tok) == 2);  // 10 to 19
  CHECK(uneven.first_needed(20_tok) == 5);
  CHECK(uneven.most_blocks(100_tok) == 3);                         // as 10 to 19
  CHECK(uneven.passes_at(2) == 20_tok);                            // 8 to 11: of two chunks
  CHECK(group::sliding(4_tok, 10_tok).most_blocks(100_tok) == 4);  // 19 to 28
  CHECK_FALSE(group::chunked(4_tok, 2_tok).is_recurrent());
  const group s = group::recurrent(8_tok);
  CHECK(s.first_needed(0_tok) == 0);
  CHECK(s.first_needed(7_tok) == 0);
  CHECK(s.first_needed(8_tok) == 0);  // the state after token 7
  CHECK(s.first_needed(9_tok) == 1);
}

TEST_CASE("groups: a window keeps what is looked at, a state one block, full attention all", "[kv]") {
  on_heap<3> c{{group::full(4_tok), group::sliding(4_tok, 10_tok), group::recurrent(8_tok)}};
  CHECK(c.kv.unit() == 8_tok);
  const std::uint32_t row = c.kv.open();
  CHECK(c.kv.lacks(row, 40_tok) == 10 + 10 + 5);
  REQUIRE(c.kv.grow(row, 40_tok) == status::ok);
  CHECK(c.kv.free() == 64 - 25);
  c.kv.begin();
  CHECK(c.kv.slide(row, 40_tok) == 7 + 4);
  CHECK(c.kv.held(row) == 10 + 3 + 1);
  CHECK(c.kv.first_block(1, row) == 7);
  CHECK(c.kv.table(2).row(row).size() == 5);
  // One token more: the state goes on in a block of its own, and leaves the one before. The window keeps its first,
  // which it has passed, until it begins another.
  REQUIRE(c.kv.grow(row, 41_tok) == status::ok);
  CHECK(c.kv.held(row) == 11 + 4 + 2);
  c.kv.begin();
  CHECK(c.kv.slide(row, 41_tok) == 1);
  CHECK(c.kv.held(row) == 11 + 4 + 1);
  REQUIRE(c.kv.grow(row, 44_tok) == status::ok);
  c.kv.begin();
  CHECK(c.kv.slide(row, 43_tok) == 0);
  CHECK(c.kv.slide(row, 44_tok) == 1);
  CHECK(c.kv.held(row) == 11 + 3 + 1);
  CHECK(c.kv.first_block(1, row) == 8);
  c.kv.close(row);
  CHECK(c.kv.free() == 64);
}

TEST_CASE("groups: a state that is written where a step ends is found there only", "[kv]") {
  on_heap<2> c{{group::full(4_tok), group::recurrent(4_tok, true)}};
  const auto four = hashes(10, 4);
  const typename on_heap<2>::groups::hash_spans spans{four, four};
  const std::uint32_t row = c.kv.open();
  // It ends with a block, if it reaches one, and before the last block of the sequence.
  CHECK(c.kv.step_end(row, 0_tok, 30_tok, 100_tok) == 28_tok);
  CHECK(c.kv.step_end(row, 28_tok, 31_tok, 100_tok) == 31_tok);
  CHECK(c.kv.step_end(row, 31_tok, 34_tok, 100_tok) == 32_tok);
  CHECK(c.kv.step_end(row, 31_tok, 50_tok, 100_tok) == 48_tok);
  CHECK(c.kv.step_end(row, 0_tok, 40_tok, 40_tok) == 36_tok);
  CHECK(c.kv.step_end(row, 36_tok, 40_tok, 40_tok) == 40_tok);
  CHECK(c.kv.step_end(row, 0_tok, 39_tok, 39_tok) == 36_tok);
  CHECK(c.kv.step_end(row, 0_tok, 3_tok, 3_tok) == 3_tok);

  REQUIRE(c.kv.grow(row, 41_tok) == status::ok);
  c.kv.begin();
  c.kv.publish(row, spans, 28_tok);
  CHECK(c.kv.match(spans, 100_tok) == 28_tok);  // and not what is before
  CHECK(c.kv.match(spans, 27_tok) == 0_tok);
  c.kv.publish(row, spans, 30_tok);
  CHECK(c.kv.match(spans, 100_tok) == 28_tok);
  c.kv.publish(row, spans, 39_tok);  // a step that has not ended with a block
  CHECK(c.kv.match(spans, 100_tok) == 28_tok);
  c.kv.publish(row, spans, 40_tok);
  CHECK(c.kv.match(spans, 100_tok) == 40_tok);
  CHECK(c.kv.match(spans, 39_tok) == 28_tok);
  // Where a prompt departs from known prefixes, a step ends.
  c.kv.keep_window(row, 12_tok);
  CHECK(c.kv.step_end(row, 0_tok, 30_tok, 100_tok) == 12_tok);
  CHECK(c.kv.step_end(row, 12_tok, 30_tok, 100_tok) == 28_tok);
  CHECK(group::recurrent(4_tok, true).is_recurrent());
  // A row has room for the states after drafts behind those of its tokens. Accepted drafts that pass the end of a block
  // leave the state there.
  on_heap<1> d{{group::recurrent(4_tok, true, 2)}};
  const typename on_heap<1>::groups::hash_spans one{four};
  const std::uint32_t drafting = d.kv.open();
  CHECK(d.kv.lacks(drafting, 6_tok) == 2 + 2);
  REQUIRE(d.kv.grow(drafting, 6_tok) == status::ok);
  CHECK(d.kv.room(drafting) == 8_tok);
  CHECK(d.kv.lacks(drafting, 9_tok) == 1);
  d.kv.begin();
  d.kv.publish(drafting, one, 6_tok);
  CHECK(d.kv.match(one, 40_tok) == 0_tok);
  d.kv.publish(drafting, one, 6_tok, kv::detail::no_callback{}, true);
  CHECK(d.kv.match(one, 40_tok) == 0_tok);  // it has been looked at
  REQUIRE(d.kv.grow(drafting, 10_tok) == status::ok);
  d.kv.begin();
  d.kv.publish(drafting, one, 9_tok, kv::detail::no_callback{}, true);
  CHECK(d.kv.match(one, 40_tok) == 8_tok);
  CHECK(d.kv.slide(drafting, 9_tok) == 2);
  CHECK(d.kv.held(drafting) == 1 + 2);
  // Others write the states within a step as well.
  on_heap<2> each{{group::full(4_tok), group::recurrent(4_tok)}};
  CHECK(each.kv.step_end(each.kv.open(), 0_tok, 30_tok, 100_tok) == 30_tok);
}

TEST_CASE("groups: a hit is what all groups can serve", "[kv]") {
  on_heap<3> c{{group::full(4_tok), group::sliding(4_tok, 10_tok), group::recurrent(8_tok)}};
  const auto four = hashes(10, 4);
  const auto eight = hashes(5, 8);
  const typename on_heap<3>::groups::hash_spans spans{four, four, eight};
  const std::uint32_t first = c.kv.open();
  REQUIRE(c.kv.grow(first, 40_tok) == status::ok);
  c.kv.begin();
  c.kv.publish(first, spans, 40_tok);
  c.kv.slide(first, 40_tok);
  c.kv.close(first);
  CHECK(c.kv.match(spans, 39_tok) == 32_tok);  // states are 8 apart
  CHECK(c.kv.match(spans, 40_tok) == 40_tok);
  CHECK(c.kv.match(spans, 7_tok) == 0_tok);
  CHECK(c.kv.match({four, four, std::span<const std::uint64_t>{}}, 40_tok) == 0_tok);

  SECTION("with the windows' blocks alone, not what lies before them") {
    const std::uint32_t row = c.kv.open();
    c.kv.share(row, spans, 32_tok);
    CHECK(c.kv.held(row) == 8 + 3 + 1);
    CHECK(c.kv.first_block(1, row) == 5);
    CHECK(c.kv.first_block(2, row) == 3);
    CHECK(c.kv.lacks(row, 33_tok) == 3);
    c.kv.begin();
    c.kv.close(row);
  }
  SECTION("where KV behind it comes from elsewhere, with the blocks that are needed behind that") {
    const std::uint32_t row = c.kv.open();
    c.kv.share(row, spans, 32_tok, 39_tok);
    CHECK(c.kv.held(row) == 8 + 1 + 0);
    CHECK(c.kv.first_block(1, row) == 7);
    CHECK(c.kv.first_block(2, row) == 4);
    REQUIRE(c.kv.grow(row, 39_tok) == status::ok);
    CHECK(c.kv.held(row) == 10 + 3 + 1);
    CHECK_FALSE(c.kv.can_go_back(row, 32_tok));
    c.kv.roll_back(0);
    c.kv.begin();
    // Behind all that is known, a window takes nothing of it.
    const std::uint32_t far = c.kv.open();
    c.kv.share(far, spans, 40_tok, 90_tok);
    CHECK(c.kv.held(far) == 10);
    CHECK(c.kv.first_block(1, far) == 20);
    REQUIRE(c.kv.grow(far, 91_tok) == status::ok);
    CHECK(c.kv.held(far) == 23 + 3 + 1);
    c.kv.begin();
    c.kv.close(far);
  }
  SECTION("what one has lost ends it, for all") {
    // What was behind windows is the coldest, and is not looked at if the whole is found.
    const std::uint32_t greedy = c.kv.open();
    REQUIRE(c.kv.grow(greedy, 64_tok) == status::ok);
    CHECK(c.kv.match(spans, 40_tok) == 40_tok);
    // Then the end of full attention.
    REQUIRE(c.kv.grow(greedy, 84_tok) == status::ok);
    CHECK(c.kv.match(spans, 40_tok) == 0_tok);
    c.kv.roll_back(0);
    CHECK(c.kv.match(spans, 40_tok) == 40_tok);
  }
  SECTION("clear forgets") {
    c.kv.clear();
    CHECK(c.kv.match(spans, 40_tok) == 0_tok);
  }
}

TEST_CASE("groups: blocks that no prefix of whole units needs are not findable", "[kv]") {
  on_heap<2> c{{group::full(8_tok), group::sliding(2_tok, 4_tok)}};
  const auto eight = hashes(2, 8);
  const auto two = hashes(8, 2);
  const std::uint32_t row = c.kv.open();
  REQUIRE(c.kv.grow(row, 16_tok) == status::ok);
  c.kv.begin();
  CHECK(c.kv.publish(row, {eight, two}, 16_tok) == 2 + 4);
  for (std::size_t i = 0; i != 8; ++i) CHECK(c.kv.store().published(c.kv.table(1).row(row)[i]) == (i % 4 >= 2));
  CHECK(c.kv.match({eight, two}, 15_tok) == 8_tok);
  c.kv.close(row);
  // Blocks of one size are findable all, so that events of a sequence have no gaps: also the last of a chunk.
  on_heap<1> d{{group::chunked(2_tok, 4_tok)}};
  const std::uint32_t chunked = d.kv.open();
  REQUIRE(d.kv.grow(chunked, 16_tok) == status::ok);
  d.kv.begin();
  CHECK(d.kv.publish(chunked, {two}, 16_tok) == 8);
  d.kv.close(chunked);
}

TEST_CASE("groups: all or nothing, and undone to the letter", "[kv]") {
  on_heap<2> c{{group::full(4_tok), group::sliding(2_tok, 4_tok)}, 9, 2};
  const std::uint32_t a = c.kv.open();
  REQUIRE(c.kv.grow(a, 8_tok) == status::ok);  // 2 and 4
  const std::uint32_t b = c.kv.open();
  CHECK(c.kv.open() == no_index);
  CHECK(c.kv.grow(b, 6_tok) == status::exhausted);  // 2 and 3
  CHECK(c.kv.table(0).row(b).empty());
  CHECK(c.kv.grow(b, 257_tok) == status::invalid);
  CHECK(c.kv.free() == 3);
  const std::size_t mark = c.kv.mark();
  c.kv.evict(a);
  CHECK(c.kv.free() == 9);
  CHECK(c.kv.table(1).row(a).size() == 4);  // to be copied
  REQUIRE(c.kv.grow(b, 6_tok) == status::ok);
  const std::vector<block_id> taken{c.kv.table(1).row(b).begin(), c.kv.table(1).row(b).end()};
  c.kv.roll_back(mark);
  CHECK(c.kv.free() == 3);
  CHECK(c.kv.held(a) == 6);
  c.kv.evict(a);
  REQUIRE(c.kv.grow(b, 6_tok) == status::ok);
  CHECK(std::vector<block_id>{c.kv.table(1).row(b).begin(), c.kv.table(1).row(b).end()} == taken);
  c.kv.begin();
  c.kv.close(a);
  CHECK(c.kv.free() == 4);
}

TEST_CASE("groups: a fork shares what is full, and copies what is not", "[kv]") {
  on_heap<3> c{{group::full(4_tok), group::sliding(4_tok, 10_tok), group::recurrent(8_tok)}};
  const std::uint32_t parent = c.kv.open();
  REQUIRE(c.kv.grow(parent, 42_tok) == status::ok);
  c.kv.begin();
  c.kv.slide(parent, 42_tok);
  const std::size_t free = c.kv.free();
  const auto child = c.kv.fork(parent, 42_tok);
  REQUIRE(child.row != no_index);
  CHECK(child.count == 3);
  CHECK(c.kv.free() == free - 3);
  for (std::size_t g = 0; g != 3; ++g) {
    const auto theirs = c.kv.table(g).row(parent);
    const auto ours = c.kv.table(g).row(child.row);
    REQUIRE(ours.size() == theirs.size());
    CHECK(c.kv.first_block(g, child.row) == c.kv.first_block(g, parent));
    for (std::size_t i = c.kv.first_block(g, parent); i + 1 < ours.size(); ++i) CHECK(ours[i] == theirs[i]);
    CHECK(child.copies[g].from == theirs.back());
    CHECK(child.copies[g].to == ours.back());
    CHECK(ours.back() != theirs.back());
  }
  c.kv.roll_back(0);
  CHECK(c.kv.free() == free);
  // At the end of a block there is nothing to copy: each writes to the next.
  REQUIRE(c.kv.grow(parent, 48_tok) == status::ok);
  c.kv.begin();
  const auto whole = c.kv.fork(parent, 48_tok);
  CHECK(whole.count == 0);
  REQUIRE(c.kv.grow(whole.row, 49_tok) == status::ok);
  c.kv.begin();
  c.kv.close(parent);
  c.kv.close(whole.row);
  CHECK(c.kv.free() == 64);
}

TEST_CASE("groups: tables in CSR form, one for each group", "[kv]") {
  on_heap<2> c{{group::full(16_tok), group::sliding(16_tok, 20_tok)}};
  const std::uint32_t row = c.kv.open();
  REQUIRE(c.kv.grow(row, 100_tok) == status::ok);
  c.kv.begin();
  c.kv.slide(row, 100_tok);
  for (std::size_t g = 0; g != 2; ++g) {
    const kv::block_table::limits limits{.rows = 4, .blocks_per_row = 16, .block_size = 16_tok};
    std::vector<std::byte> bytes(kv::csr_tables::required_bytes(limits) + 64);
    arena memory{bytes};
    kv::csr_tables csr{memory, limits};
    csr.begin();
    csr.add(c.kv.table(g), row, 100_tok, 0);
    const auto view = csr.view(c.kv.table(g));
    REQUIRE(view.indices.size() == 7);
    CHECK(c.kv.first_block(g, row) == (g == 1 ? 5 : 0));  // what lies before it, kernels mask
    CHECK(view.indices[6] == static_cast<std::int32_t>(c.kv.table(g).row(row)[6]));
  }
}

TEST_CASE("groups: no call allocates", "[kv]") {
  on_heap<3> c{{group::full(4_tok), group::sliding(4_tok, 10_tok), group::recurrent(8_tok)}};
  const auto four = hashes(10, 4);
  const auto eight = hashes(5, 8);
  const typename on_heap<3>::groups::hash_spans spans{four, four, eight};
  bool fine = true;
  const tessera_test::no_allocation guard;
  for (int i = 0; i != 3; ++i) {
    const tokens found = c.kv.match(spans, 39_tok);
    fine &= found == (i == 0 ? 0_tok : 32_tok);
    const std::uint32_t row = c.kv.open();
    c.kv.share(row, spans, found);
    fine &= c.kv.grow(row, 40_tok) == status::ok;
    c.kv.evict(row);
    c.kv.roll_back(c.kv.mark() - 1);
    c.kv.begin();
    c.kv.publish(row, spans, 40_tok);
    fine &= c.kv.slide(row, 40_tok) != 0;
    c.kv.close(row);
  }
  c.kv.clear();
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(fine);
}

TEST_CASE("groups: events say where in its sequence a block stands, and after which", "[kv]") {
  using cache = kv::basic_prefix_cache<kv::lru, kv::event_ring<16>>;
  using groups = kv::groups<1, cache>;
  auto storage = storage_for<groups>({.blocks = 8, .rows = 2, .max_length = 64_tok, .layers = {group::full(16_tok)}});
  arena memory{storage.memory()};
  groups kv{memory, storage.limits()};
  const std::uint32_t row = kv.open();
  REQUIRE(kv.grow(row, 48_tok) == status::ok);
  kv.begin();
  const std::vector<std::uint64_t> h = hashes(3, 1);
  kv.publish(row, {std::span<const std::uint64_t>{h}}, 48_tok);
  const auto events = kv.store().sink().waiting();
  REQUIRE(events.size() == 3);
  for (std::size_t i = 0; i != 3; ++i) {
    CHECK(events[i].block.depth == i);
    CHECK((events[i].block.parent == (i == 0 ? 0 : events[i - 1].block.hash)));
  }
  kv.close(row);
}

TEST_CASE("groups: works in unaligned memory of exactly required_bytes", "[kv]") {
  using groups = kv::groups<2>;
  for (std::size_t offset = 0; offset != 65; ++offset) {
    const groups::limits limits{
        .blocks = 17, .rows = 3, .max_length = 30_tok, .layers = {group::full(4_tok), group::recurrent(8_tok)}};
    std::vector<std::byte> buffer(groups::required_bytes(limits) + offset);
    arena memory{std::span{buffer}.subspan(offset)};
    groups kv{memory, limits};
    const std::uint32_t row = kv.open();
    CHECK(kv.grow(row, 30_tok) == status::ok);
    kv.begin();
    kv.close(row);
    CHECK(kv.free() == 17);
  }
}

}  // namespace
