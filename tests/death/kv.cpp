// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/kv/block_pool.hpp>
#include <tessera/kv/block_table.hpp>
#include <tessera/kv/by_session.hpp>
#include <tessera/kv/copy_on_write.hpp>
#include <tessera/kv/csr_tables.hpp>
#include <tessera/kv/groups.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/kv/host_cache.hpp>
#include <tessera/kv/host_tier.hpp>
#include <tessera/kv/prefix_cache.hpp>

#include <array>

#include "support/death.hpp"

namespace {

using tessera::arena;
using tessera::tokens;
using tessera::kv::block_id;
using tessera::kv::block_pool;
using tessera::kv::block_table;
using tessera::kv::csr_tables;
using tessera::kv::host_tier;
using tessera::kv::prefix_cache;

alignas(64) std::array<std::byte, 65536> memory;

template <class T>
struct fixture {
  explicit fixture(const typename T::limits& l) : object{storage, l} {}
  arena storage{memory};
  T object;
};

using pool = fixture<block_pool>;
using cache = fixture<prefix_cache>;
using table = fixture<block_table>;

/// A table and its batch, over one buffer.
struct joined {
  explicit joined(const block_table::limits& l) : object{storage, l}, batch{storage, l} {}
  arena storage{memory};
  block_table object;
  csr_tables batch;
};

template <std::size_t n>
std::array<block_id, n> allocated(auto& store) {
  std::array<block_id, n> ids{};
  (void)store.allocate(std::span<block_id>{ids});
  return ids;
}

// A row that holds three blocks.
std::uint32_t three_blocks(block_table& t) {
  const auto r = t.acquire_row();
  for (block_id& id : t.extend(r, 3)) id = 0;
  return r;
}

}  // namespace

TESSERA_DEATH_CASE(kv_pool_storage_too_small, "storage is smaller") {
  arena small{std::span{memory}.first(block_pool::required_bytes({.blocks = 64}) - 128)};
  block_pool{small, {.blocks = 64}};
}
TESSERA_DEATH_CASE(kv_pool_references_of_a_foreign_block, "not a block of this pool") {
  pool p{{.blocks = 4}};
  (void)p.object.references(4);
}
TESSERA_DEATH_CASE(kv_pool_undo_allocate_twice, "out of order") {
  pool p{{.blocks = 4}};
  const auto ids = allocated<2>(p.object);
  p.object.undo_allocate(ids);
  p.object.undo_allocate(ids);
}
TESSERA_DEATH_CASE(kv_pool_undo_allocate_of_shared, "out of order") {
  pool p{{.blocks = 4}};
  const auto ids = allocated<2>(p.object);
  (void)p.object.share(ids);
  p.object.undo_allocate(ids);
}
TESSERA_DEATH_CASE(kv_pool_undo_share_of_unshared, "out of order") {
  pool p{{.blocks = 4}};
  p.object.undo_share(allocated<2>(p.object));
}
TESSERA_DEATH_CASE(kv_pool_undo_release_out_of_order, "out of order") {
  pool p{{.blocks = 4}};
  const auto ids = allocated<2>(p.object);
  (void)p.object.release(ids[0]);
  (void)p.object.release(ids[1]);
  p.object.undo_release(std::span{ids}.first(1));
}
TESSERA_DEATH_CASE(kv_pool_undo_release_of_a_foreign_block, "not a block of this pool") {
  pool p{{.blocks = 4}};
  p.object.undo_release(std::array{block_id{4}});
}

TESSERA_DEATH_CASE(kv_cache_storage_too_small, "storage is smaller") {
  arena small{std::span{memory}.first(prefix_cache::required_bytes({.blocks = 64}) - 128)};
  prefix_cache{small, {.blocks = 64}};
}
TESSERA_DEATH_CASE(kv_cache_references_of_a_foreign_block, "not a block of this cache") {
  cache c{{.blocks = 4}};
  (void)c.object.references(4);
}
TESSERA_DEATH_CASE(kv_cache_published_of_a_foreign_block, "not a block of this cache") {
  cache c{{.blocks = 4}};
  (void)c.object.published(4);
}
TESSERA_DEATH_CASE(kv_cache_undo_allocate_twice, "out of order") {
  cache c{{.blocks = 4}};
  const auto ids = allocated<2>(c.object);
  c.object.undo_allocate(ids);
  c.object.undo_allocate(ids);
}
TESSERA_DEATH_CASE(kv_cache_undo_allocate_of_published, "published since") {
  cache c{{.blocks = 4}};
  const auto ids = allocated<1>(c.object);
  (void)c.object.publish(ids[0], 1);
  c.object.undo_allocate(ids);
}
TESSERA_DEATH_CASE(kv_cache_undo_share_of_unused, "out of order") {
  cache c{{.blocks = 4}};
  c.object.undo_share(std::array{block_id{0}});
}
TESSERA_DEATH_CASE(kv_cache_undo_share_that_was_none, "too much undone") {
  cache c{{.blocks = 4}};
  const auto ids = allocated<1>(c.object);
  (void)c.object.publish(ids[0], 1);
  c.object.undo_share(ids);
}
TESSERA_DEATH_CASE(kv_cache_undo_reaches_too_far, "too much undone") {
  cache c{{.blocks = 4}};
  const auto ids = allocated<1>(c.object);
  (void)c.object.publish(ids[0], 1);
  (void)c.object.release(ids);
  for (int i = 0; i != 9; ++i) {
    (void)c.object.share(ids);
    (void)c.object.release(ids);
  }
  for (int i = 0; i != 9; ++i) {
    c.object.undo_release(ids);
    c.object.undo_share(ids);
  }
}
TESSERA_DEATH_CASE(kv_cache_undo_release_out_of_order, "out of order") {
  cache c{{.blocks = 4}};
  const auto ids = allocated<2>(c.object);
  (void)c.object.publish(ids[0], 1);
  (void)c.object.publish(ids[1], 2);
  (void)c.object.release(ids[0]);
  (void)c.object.release(ids[1]);
  c.object.undo_release(std::span{ids}.first(1));
}

TESSERA_DEATH_CASE(kv_cache_wish_for_a_block_not_in_use, "not in use") {
  fixture<tessera::kv::basic_prefix_cache<tessera::kv::by_session<4>>> c{{.blocks = 4}};
  c.object.retain(std::array{block_id{1}}, 2U);
}
TESSERA_DEATH_CASE(kv_cache_on_the_account_of_no_session, "not a session") {
  fixture<tessera::kv::basic_prefix_cache<tessera::kv::by_session<4>>> c{{.blocks = 4}};
  c.object.retain(allocated<1>(c.object), 4U);
}
TESSERA_DEATH_CASE(kv_by_session_undo_release_out_of_order, "out of order") {
  fixture<tessera::kv::basic_prefix_cache<tessera::kv::by_session<4>>> c{{.blocks = 4}};
  const auto ids = allocated<2>(c.object);
  (void)c.object.publish(ids[0], 1);
  (void)c.object.publish(ids[1], 2);
  (void)c.object.release(ids[0]);
  (void)c.object.release(ids[1]);
  c.object.undo_release(std::span{ids}.first(1));
}

TESSERA_DEATH_CASE(kv_table_block_size_zero, "block_size") {
  table{{.rows = 1, .blocks_per_row = 1, .block_size = tokens{0}}};
}
TESSERA_DEATH_CASE(kv_table_positions_beyond_31_bits, "31 bits") {
  table{{.rows = 1, .blocks_per_row = 2, .block_size = tokens{std::int64_t{1} << 30}}};
}
TESSERA_DEATH_CASE(kv_table_storage_too_small, "storage is smaller") {
  const block_table::limits l{.rows = 4, .blocks_per_row = 8};
  arena small{std::span{memory}.first(block_table::required_bytes(l) - 128)};
  block_table{small, l};
}
TESSERA_DEATH_CASE(kv_table_row_not_in_use, "not a row in use") {
  table t{{.rows = 2, .blocks_per_row = 4}};
  (void)t.object.row(0);
}
TESSERA_DEATH_CASE(kv_table_row_out_of_range, "not a row in use") {
  table t{{.rows = 2, .blocks_per_row = 4}};
  (void)t.object.row(2);
}
TESSERA_DEATH_CASE(kv_table_extend_released_row, "not a row in use") {
  table t{{.rows = 2, .blocks_per_row = 4}};
  const auto r = t.object.acquire_row();
  (void)t.object.release_row(r);
  (void)t.object.extend(r, 1);
}
TESSERA_DEATH_CASE(kv_table_truncate_upwards, "at least n entries") {
  table t{{.rows = 2, .blocks_per_row = 4}};
  t.object.truncate(three_blocks(t.object), 4);
}
TESSERA_DEATH_CASE(kv_table_replace_beyond_the_end, "out of range") {
  table t{{.rows = 2, .blocks_per_row = 4}};
  t.object.replace(three_blocks(t.object), 3, 0);
}
TESSERA_DEATH_CASE(kv_table_row_of_no_index, "not a row in use") {
  table t{{.rows = 1, .blocks_per_row = 4}};
  static_cast<void>(t.object.acquire_row());
  static_cast<void>(t.object.row(t.object.acquire_row()));
}
TESSERA_DEATH_CASE(kv_hash_chain_of_empty_blocks, "a block has a token at least") {
  const std::array<std::int32_t, 2> token{1, 2};
  std::array<std::uint64_t, 2> hashes{};
  static_cast<void>(tessera::kv::hash_chain(token, 0, hashes));
}
TESSERA_DEATH_CASE(kv_csr_storage_too_small, "storage is smaller") {
  const block_table::limits l{.rows = 4, .blocks_per_row = 8};
  arena small{std::span{memory}.first(csr_tables::required_bytes(l) - 64)};
  csr_tables{small, l};
}
TESSERA_DEATH_CASE(kv_csr_add_after_view, "between begin and view") {
  joined t{{.rows = 2, .blocks_per_row = 4}};
  const auto r = three_blocks(t.object);
  t.batch.begin();
  (void)t.batch.view(t.object);
  t.batch.add(t.object, r, tokens{1});
}
TESSERA_DEATH_CASE(kv_csr_add_before_begin, "between begin and view") {
  joined t{{.rows = 2, .blocks_per_row = 4}};
  t.batch.add(t.object, three_blocks(t.object), tokens{1});
}
TESSERA_DEATH_CASE(kv_csr_add_too_many, "at most `rows` times") {
  joined t{{.rows = 1, .blocks_per_row = 4}};
  const auto r = three_blocks(t.object);
  t.batch.begin();
  t.batch.add(t.object, r, tokens{1});
  t.batch.add(t.object, r, tokens{1});
}
TESSERA_DEATH_CASE(kv_csr_add_row_not_in_use, "not a row in use") {
  joined t{{.rows = 2, .blocks_per_row = 4}};
  t.batch.begin();
  t.batch.add(t.object, 1, tokens{1});
}
TESSERA_DEATH_CASE(kv_csr_add_no_tokens, "kv_length out of range") {
  joined t{{.rows = 2, .blocks_per_row = 4}};
  const auto r = three_blocks(t.object);
  t.batch.begin();
  t.batch.add(t.object, r, tokens{0});
}
TESSERA_DEATH_CASE(kv_csr_add_more_tokens_than_blocks, "too few blocks") {
  joined t{{.rows = 2, .blocks_per_row = 4, .block_size = tokens{16}}};
  const auto r = three_blocks(t.object);
  t.batch.begin();
  t.batch.add(t.object, r, tokens{49});
}

TESSERA_DEATH_CASE(kv_host_storage_too_small, "storage is smaller") {
  arena small{std::span{memory}.first(host_tier::required_bytes({.host_blocks = 64}) - 128)};
  host_tier{small, {.host_blocks = 64}};
}
TESSERA_DEATH_CASE(kv_host_shorten_to_nothing, "keeps one block at least") {
  arena a{memory};
  host_tier t{a, {.host_blocks = 4}};
  tessera::kv::block_id head = 0;
  static_cast<void>(t.store(2, head));
  t.shorten(head, 0);
}

TESSERA_DEATH_CASE(kv_host_cache_shorten_to_nothing, "keeps one block at least") {
  arena a{memory};
  tessera::kv::host_cache<> t{a, {.host_blocks = 4}};
  tessera::kv::block_id head = 0;
  static_cast<void>(t.store(2, head));
  t.shorten(head, 0);
}
TESSERA_DEATH_CASE(kv_cache_was_evicted_of_a_published_block, "just allocated") {
  cache c{{.blocks = 4}};
  const auto ids = allocated<1>(c.object);
  (void)c.object.publish(ids[0], 1);
  (void)c.object.was_evicted(ids[0]);
}

namespace {
using two_groups = tessera::kv::groups<2>;
constexpr two_groups::limits layers{
    .blocks = 16,
    .rows = 2,
    .max_length = tokens{64},
    .layers = {tessera::kv::group::full(tokens{4}), tessera::kv::group::recurrent(tokens{8})}};
}  // namespace
TESSERA_DEATH_CASE(kv_groups_storage_too_small, "storage is smaller") {
  arena small{std::span{memory}.first(two_groups::required_bytes(layers) - 320)};
  two_groups{small, layers};
}
TESSERA_DEATH_CASE(kv_groups_negative_window, "out of range") {
  auto wrong = layers;
  wrong.layers[0].window = tokens{-1};
  arena a{memory};
  two_groups{a, wrong};
}
TESSERA_DEATH_CASE(kv_groups_slide_within_a_plan, "within a plan") {
  fixture<two_groups> f{layers};
  f.object.slide(f.object.open(), tokens{4});
}
TESSERA_DEATH_CASE(kv_groups_close_within_a_plan, "within a plan") {
  fixture<two_groups> f{layers};
  f.object.close(f.object.open());
}
TESSERA_DEATH_CASE(kv_groups_fork_of_what_is_not_computed, "a parent with KV") {
  fixture<two_groups> f{layers};
  (void)f.object.fork(f.object.open(), tokens{8});
}
TESSERA_DEATH_CASE(kv_groups_evict_twice, "evicted twice") {
  fixture<two_groups> f{layers};
  const auto row = f.object.open();
  f.object.evict(row);
  f.object.evict(row);
}
TESSERA_DEATH_CASE(kv_groups_share_of_what_was_not_matched, "not matched") {
  fixture<two_groups> f{layers};
  const std::array<std::uint64_t, 2> hashes{1, 2};
  f.object.share(f.object.open(), {std::span<const std::uint64_t>{hashes}, {hashes}}, tokens{8});
}

TESSERA_DEATH_CASE(kv_fork_of_a_row_whose_blocks_are_free, "not in use") {
  arena storage{memory};
  block_pool p{storage, {.blocks = 8}};
  block_table t{storage, {.rows = 2, .blocks_per_row = 4}};
  tessera::kv::copy_on_write cow{p, t};
  (void)cow.fork(three_blocks(t));
}
