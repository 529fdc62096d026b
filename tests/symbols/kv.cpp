// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Everything that block stores, tables and the host tier offer, including their construction.

#include <tessera/kv/block_pool.hpp>
#include <tessera/kv/block_table.hpp>
#include <tessera/kv/by_session.hpp>
#include <tessera/kv/changed_tables.hpp>
#include <tessera/kv/copy_on_write.hpp>
#include <tessera/kv/csr_tables.hpp>
#include <tessera/kv/evict_by_time.hpp>
#include <tessera/kv/groups.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/kv/host_cache.hpp>
#include <tessera/kv/host_tier.hpp>
#include <tessera/kv/keep_until.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/kv/row_tables.hpp>

using namespace tessera;

namespace {

template <kv::block_store Store>
std::size_t use_store(Store& store, std::span<kv::block_id> ids) noexcept {
  std::size_t done = store.free() + store.capacity();
  const kv::block_id one = store.allocate();
  for (const status s :
       {store.allocate(ids), store.share(one), store.share(ids), store.release(ids), store.release(one)}) {
    if (ok(s)) ++done;
  }
  done += store.references(one);
  store.undo_release(ids);
  store.undo_share(ids);
  store.undo_allocate(ids);
  return done;
}

template <kv::block_store Store>
std::size_t use_forks(Store& store, kv::block_table& table, std::span<kv::block_copy> copies) noexcept {
  kv::copy_on_write<Store> forks{store, table};
  const std::uint32_t child = forks.fork(0);
  return forks.ensure_writable(child, tokens{0}, tokens{100}, copies).copies +
         forks.ensure_writable(child, tokens{5}, copies[0]).copies;
}

template <kv::table_policy Tables>
void show(Tables& tables, kv::block_table& table, std::uint32_t row) noexcept {
  tables.begin();
  tables.add(table, row, tokens{30}, 1);
  static_cast<void>(tables.view(table));
}

}  // namespace

std::size_t use_block_pool(arena& memory, std::size_t n, std::span<kv::block_id> ids) noexcept {
  kv::block_pool pool{memory, {.blocks = n}};
  return use_store(pool, ids);
}

std::size_t use_prefix_cache(arena& memory, std::size_t n, std::span<kv::block_id> ids,
                             std::span<const std::int32_t> prompt, std::span<std::uint64_t> hashes) noexcept {
  kv::prefix_cache cache{memory, {.blocks = n}};
  std::size_t done = use_store(cache, ids) + kv::hash_chain(prompt, 16, hashes) + cache.match(hashes, ids);
  done += ok(cache.publish(ids[0], hashes[0])) + cache.published(ids[0]) + cache.cached();
  cache.clear();
  return done;
}

template class tessera::kv::basic_prefix_cache<kv::keep_until<>, kv::event_ring<16>>;
template class tessera::kv::basic_prefix_cache<kv::next_use<nanoseconds_clock>, kv::event_ring<16, kv::hash128>,
                                               kv::hash128>;
template class tessera::kv::basic_prefix_cache<kv::by_session<16>>;
template class tessera::kv::host_cache<>;
template class tessera::kv::groups<3>;
template class tessera::kv::two_level_cache<>;

std::size_t use_hashes(std::span<const std::int32_t> prompt, std::span<kv::hash128> hashes,
                       std::string_view salt) noexcept {
  return kv::hash_chain(prompt, 16, hashes, kv::hash_seed(salt));
}

std::size_t use_table(arena& memory, std::size_t n, kv::block_pool& pool, kv::prefix_cache& cache,
                      std::span<kv::block_copy> copies) noexcept {
  const kv::block_table::limits limits{.rows = n, .blocks_per_row = n, .block_size = tokens{16}};
  kv::block_table table{memory, limits};
  kv::csr_tables joined{memory, limits};
  kv::row_tables rows{memory, limits};
  kv::changed_tables changes{memory, limits};
  const std::uint32_t row = table.acquire_row();
  std::size_t done = table.extend(row, 3).size() + table.row(row).size();
  table.truncate(row, 2);
  table.replace(row, 1, 7);
  show(joined, table, row);
  show(rows, table, row);
  show(changes, table, row);
  table.mark_sent(row);
  table.mark_read();
  done += joined.view(table).indices.size() + rows.view(table)[row].size() + changes.view(table).size();
  done += table.free_rows() + table.sent(row) + table.unread_from(row);
  done += use_forks(pool, table, copies) + use_forks(cache, table, copies);
  return done + ok(table.release_row(row));
}

std::size_t use_host_tier(arena& memory, std::size_t n, std::span<kv::block_id> ids) noexcept {
  kv::host_tier host{memory, {.host_blocks = n}};
  kv::block_id head = 0;
  std::size_t done = ok(host.store(ids.size(), head)) + host.size(head) + host.free() + host.capacity();
  host.for_each(head, [&](kv::block_id id) noexcept { done += id; });
  return done + ok(host.release(head));
}
