// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <benchmark/benchmark.h>

#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/block_pool.hpp>
#include <tessera/kv/block_table.hpp>
#include <tessera/kv/copy_on_write.hpp>
#include <tessera/kv/csr_tables.hpp>
#include <tessera/kv/groups.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/kv/host_tier.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/kv/row_tables.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

// Items are blocks, so that `items_per_second` is blocks per second. The stores are used for a while before they are
// measured, so that free ids are not in ascending order, as after hours of serving.

namespace {

using tessera::tokens;
using tessera::kv::block_id;
using tessera::kv::block_pool;
using tessera::kv::block_table;
using tessera::kv::prefix_cache;

template <class T>
struct on_heap {
  explicit on_heap(const typename T::limits& l) : storage{tessera::storage_for<T>(l)} {}
  tessera::owned_storage<typename T::limits> storage;
  tessera::arena memory{storage.memory()};
  T object{memory, storage.limits()};
};

/// Takes all blocks and gives them back in random order.
template <class Store>
void shuffle_free(Store& store) {
  std::vector<block_id> ids(store.capacity());
  if (store.allocate(std::span{ids}) != tessera::status::ok) std::abort();
  std::mt19937 random{1};
  std::shuffle(ids.begin(), ids.end(), random);
  if (store.release(std::span<const block_id>{ids}) != tessera::status::ok) std::abort();
}

void count_blocks(benchmark::State& state, std::size_t blocks_per_iteration) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(blocks_per_iteration));
}

// --- allocate and free; arguments: blocks of the store, blocks per call

template <class Store>
void allocate_and_release_bulk(benchmark::State& state) {
  on_heap<Store> s{{.blocks = static_cast<std::size_t>(state.range(0))}};
  shuffle_free(s.object);
  std::vector<block_id> ids(static_cast<std::size_t>(state.range(1)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(s.object.allocate(std::span{ids}));
    benchmark::DoNotOptimize(s.object.release(std::span<const block_id>{ids}));
  }
  count_blocks(state, 2 * ids.size());  // one operation = one block allocated or one released
}
BENCHMARK_TEMPLATE(allocate_and_release_bulk, block_pool)
    ->Args({25'600, 64})
    ->Args({25'600, 4096})
    ->Args({1 << 20, 64});
BENCHMARK_TEMPLATE(allocate_and_release_bulk, prefix_cache)
    ->Args({25'600, 64})
    ->Args({25'600, 4096})
    ->Args({1 << 20, 64});

template <class Store>
void allocate_and_release_singly(benchmark::State& state) {
  on_heap<Store> s{{.blocks = static_cast<std::size_t>(state.range(0))}};
  shuffle_free(s.object);
  std::vector<block_id> ids(static_cast<std::size_t>(state.range(0)) / 2);
  for (auto _ : state) {
    for (block_id& id : ids) id = s.object.allocate();
    for (const block_id id : ids) benchmark::DoNotOptimize(s.object.release(id));
  }
  count_blocks(state, 2 * ids.size());
}
BENCHMARK_TEMPLATE(allocate_and_release_singly, block_pool)->Arg(25'600)->Arg(1 << 20);
BENCHMARK_TEMPLATE(allocate_and_release_singly, prefix_cache)->Arg(25'600)->Arg(1 << 20);

template <class Store>
void share_and_release(benchmark::State& state) {
  on_heap<Store> s{{.blocks = 25'600}};
  shuffle_free(s.object);
  std::vector<block_id> ids(64);
  if (s.object.allocate(std::span{ids}) != tessera::status::ok) std::abort();
  for (auto _ : state) {
    benchmark::DoNotOptimize(s.object.share(std::span<const block_id>{ids}));
    benchmark::DoNotOptimize(s.object.release(std::span<const block_id>{ids}));
  }
  count_blocks(state, 2 * ids.size());
}
BENCHMARK_TEMPLATE(share_and_release, block_pool);
BENCHMARK_TEMPLATE(share_and_release, prefix_cache);

// --- prefix cache: sequences of 64 blocks (1024 tokens in blocks of 16); argument: blocks of the cache, nearly all
// cached. Each iteration takes another sequence, so that its blocks come from memory, not from the first-level cache.

struct filled_cache : on_heap<prefix_cache> {
  static constexpr std::size_t length = 64;

  explicit filled_cache(std::size_t blocks) : on_heap<prefix_cache>{{.blocks = blocks}} {
    shuffle_free(object);
    std::mt19937_64 random{2};
    hashes.resize(blocks / length * length);
    for (auto& h : hashes) h = random();
    std::vector<block_id> ids(length);
    for (std::size_t i = 0; i != sequences(); ++i) {
      if (object.allocate(std::span{ids}) != tessera::status::ok) std::abort();
      for (std::size_t k = 0; k != length; ++k) {
        if (object.publish(ids[k], sequence(i)[k]) != tessera::status::ok) std::abort();
      }
      if (object.release(std::span<const block_id>{ids}) != tessera::status::ok) std::abort();
    }
    order.resize(sequences());
    for (std::size_t i = 0; i != order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
  }
  [[nodiscard]] std::size_t sequences() const { return hashes.size() / length; }
  [[nodiscard]] std::span<const std::uint64_t> sequence(std::size_t i) const {
    return std::span{hashes}.subspan(i * length, length);
  }
  /// A sequence that has not been touched for as long as possible.
  [[nodiscard]] std::span<const std::uint64_t> other() {
    next = next + 1 != order.size() ? next + 1 : 0;
    return sequence(order[next]);
  }
  std::vector<std::uint64_t> hashes;
  std::vector<std::size_t> order;
  std::size_t next = 0;
};

void prefix_match(benchmark::State& state) {
  filled_cache c{static_cast<std::size_t>(state.range(0))};
  std::array<block_id, filled_cache::length> out{};
  std::size_t found = 0;
  for (auto _ : state) {
    found += c.object.match(c.other(), out);
    benchmark::DoNotOptimize(out);
  }
  if (found != static_cast<std::size_t>(state.iterations()) * out.size()) std::abort();
  count_blocks(state, out.size());
}
BENCHMARK(prefix_match)->Arg(2'048)->Arg(25'600)->Arg(131'072)->Arg(1 << 20);

void prefix_match_share_release(benchmark::State& state) {
  filled_cache c{static_cast<std::size_t>(state.range(0))};
  std::array<block_id, filled_cache::length> out{};
  for (auto _ : state) {
    if (c.object.match(c.other(), out) != out.size()) std::abort();
    benchmark::DoNotOptimize(c.object.share(std::span<const block_id>{out}));
    benchmark::DoNotOptimize(c.object.release(std::span<const block_id>{out}));
  }
  count_blocks(state, out.size());
}
BENCHMARK(prefix_match_share_release)->Arg(2'048)->Arg(25'600)->Arg(131'072)->Arg(1 << 20);

/// A sequence that is not known: 64 evictions and allocations, 64 insertions, 64 releases to the list.
void prefix_evict_insert_release(benchmark::State& state) {
  filled_cache c{static_cast<std::size_t>(state.range(0))};
  std::mt19937_64 random{3};
  std::array<block_id, filled_cache::length> ids{};
  std::array<std::uint64_t, filled_cache::length> hashes{};
  for (auto& h : hashes) h = random();
  for (auto _ : state) {
    benchmark::DoNotOptimize(c.object.allocate(std::span<block_id>{ids}));
    for (std::size_t k = 0; k != ids.size(); ++k) {
      hashes[k] = hashes[k] * 6364136223846793005ULL + 1442695040888963407ULL;
      benchmark::DoNotOptimize(c.object.publish(ids[k], hashes[k]));
    }
    benchmark::DoNotOptimize(c.object.release(std::span<const block_id>{ids}));
  }
  count_blocks(state, ids.size());
}
BENCHMARK(prefix_evict_insert_release)->Arg(2'048)->Arg(25'600)->Arg(131'072)->Arg(1 << 20);

/// Eviction alone, taken back at once (which is an insertion).
void prefix_evict_and_undo(benchmark::State& state) {
  filled_cache c{static_cast<std::size_t>(state.range(0))};
  std::array<block_id, 1024> ids{};
  for (auto _ : state) {
    benchmark::DoNotOptimize(c.object.allocate(std::span<block_id>{ids}));
    c.object.undo_allocate(ids);
  }
  count_blocks(state, ids.size());
}
BENCHMARK(prefix_evict_and_undo)->Arg(2'048)->Arg(25'600)->Arg(131'072)->Arg(1 << 20);

void hash_blocks(benchmark::State& state) {
  std::mt19937 random{4};
  std::vector<std::int32_t> token(1024);
  for (auto& t : token) t = static_cast<std::int32_t>(random() % 128'000);
  std::array<std::uint64_t, 64> out{};
  for (auto _ : state) {
    tessera::kv::hash_chain(token, 16, out, 1);
    benchmark::DoNotOptimize(out);
  }
  count_blocks(state, out.size());
}
BENCHMARK(hash_blocks);

// --- block tables: 256 rows of about 75 blocks. One iteration is one step's batch.

struct filled_table : on_heap<block_table> {
  static constexpr std::size_t rows = 256;

  filled_table()
      : on_heap<block_table>{{.rows = rows, .blocks_per_row = 8192, .block_size = tokens{16}}},
        batch_bytes(tessera::kv::csr_tables::required_bytes(storage.limits()) + tessera::storage_alignment) {
    std::mt19937 random{5};
    block_id id = 0;
    for (std::size_t i = 0; i != rows; ++i) {
      const auto r = object.acquire_row();
      for (block_id& b : object.extend(r, 67 + random() % 17)) b = id++;
    }
  }
  [[nodiscard]] tokens full(std::uint32_t r) const {
    return tokens{static_cast<std::int64_t>(object.row(r).size()) * 16};
  }
  std::vector<std::byte> batch_bytes;
  tessera::arena batch_memory{batch_bytes};
  tessera::kv::csr_tables batch{batch_memory, storage.limits()};
};

/// 16 rows, spread evenly, get a block more in each step; a row that has become long is cut back.
void tables_of_a_step_16_rows_grow(benchmark::State& state) {
  filled_table t;
  std::uint32_t step = 0;
  for (auto _ : state) {
    for (std::uint32_t r = step % 16; r < filled_table::rows; r += 16) {
      if (t.object.row(r).size() > 82) t.object.truncate(r, 67);
      t.object.extend(r, 1)[0] = step;
    }
    t.batch.begin();
    for (std::uint32_t r = 0; r != filled_table::rows; ++r) t.batch.add(t.object, r, t.full(r));
    benchmark::DoNotOptimize(t.batch.view(t.object));
    ++step;
  }
}
BENCHMARK(tables_of_a_step_16_rows_grow);

void tables_of_a_step_nothing_changes(benchmark::State& state) {
  filled_table t;
  for (auto _ : state) {
    t.batch.begin();
    for (std::uint32_t r = 0; r != filled_table::rows; ++r) t.batch.add(t.object, r, t.full(r));
    benchmark::DoNotOptimize(t.batch.view(t.object));
  }
}
BENCHMARK(tables_of_a_step_nothing_changes);

/// A closed loop in arrival order: 16 rows grow, one request leaves, a new one joins at the end.
void tables_of_a_step_one_leaves_one_joins(benchmark::State& state) {
  filled_table t;
  std::vector<std::uint32_t> order(filled_table::rows);
  for (std::uint32_t r = 0; r != filled_table::rows; ++r) order[r] = r;
  std::mt19937 random{6};
  std::uint32_t step = 0;
  for (auto _ : state) {
    const std::size_t leaves = random() % order.size();
    const std::uint32_t r = order[leaves];
    benchmark::DoNotOptimize(t.object.release_row(r));
    std::copy(order.begin() + static_cast<std::ptrdiff_t>(leaves) + 1, order.end(),
              order.begin() + static_cast<std::ptrdiff_t>(leaves));
    order.back() = t.object.acquire_row();
    for (block_id& b : t.object.extend(order.back(), 75)) b = step;
    for (std::size_t i = step % 16; i < order.size(); i += 16) t.object.extend(order[i], 1)[0] = step;
    t.batch.begin();
    for (const std::uint32_t row : order) t.batch.add(t.object, row, t.full(row));
    benchmark::DoNotOptimize(t.batch.view(t.object));
    ++step;
  }
}
BENCHMARK(tables_of_a_step_one_leaves_one_joins);

/// The worst case: nothing is where it was.
void tables_of_a_step_all_reordered(benchmark::State& state) {
  filled_table t;
  bool forward = true;
  for (auto _ : state) {
    t.batch.begin();
    for (std::uint32_t i = 0; i != filled_table::rows; ++i) {
      const std::uint32_t r = forward ? i : static_cast<std::uint32_t>(filled_table::rows) - 1 - i;
      t.batch.add(t.object, r, t.full(r));
    }
    benchmark::DoNotOptimize(t.batch.view(t.object));
    forward = !forward;
  }
}
BENCHMARK(tables_of_a_step_all_reordered);

// --- groups of layers: 256 rows decode, each a token in a step, and the tables of all groups are made. One iteration
// is one step. Argument: groups, of 16 tokens a block: full attention, a window of 1024, another of 512.

template <std::size_t Groups, class Tables>
void groups_of_a_step(benchmark::State& state) {
  using groups = tessera::kv::groups<Groups>;
  using tessera::kv::group;
  constexpr std::size_t rows = 256;
  const std::array<group, 3> all{group::full(tokens{16}), group::sliding(tokens{16}, tokens{1024}),
                                 group::sliding(tokens{16}, tokens{512})};
  typename groups::limits limits{.blocks = rows * 160 * Groups, .rows = rows, .max_length = tokens{4096}, .layers = {}};
  std::copy_n(all.begin(), Groups, limits.layers.begin());
  on_heap<groups> s{limits};
  const block_table::limits of_table{.rows = rows, .blocks_per_row = 256, .block_size = tokens{16}};
  std::vector<std::byte> bytes((Tables::required_bytes(of_table) + 64) * Groups);
  tessera::arena memory{bytes};
  std::vector<std::unique_ptr<Tables>> tables;
  for (std::size_t g = 0; g != Groups; ++g) {
    tables.push_back(std::make_unique<Tables>(memory, of_table));
  }
  std::vector<std::int64_t> length(rows);
  std::mt19937 random{7};
  for (std::size_t i = 0; i != rows; ++i) {
    const std::uint32_t row = s.object.open();
    length[row] = 1200 + static_cast<std::int64_t>(random() % 256);
    if (s.object.grow(row, tokens{length[row]}) != tessera::status::ok) std::abort();
    s.object.begin();
    s.object.slide(row, tokens{length[row]});
  }
  for (auto _ : state) {
    s.object.begin();
    for (std::uint32_t row = 0; row != rows; ++row) {
      if (length[row] == 2400) {  // begins anew
        s.object.close(row);
        if (s.object.open() != row) std::abort();
        length[row] = 1200;
      }
      if (s.object.grow(row, tokens{++length[row]}) != tessera::status::ok) std::abort();
      s.object.begin();
    }
    for (std::size_t g = 0; g != Groups; ++g) {
      tables[g]->begin();
      for (std::uint32_t row = 0; row != rows; ++row) tables[g]->add(s.object.table(g), row, tokens{length[row]}, 0);
      benchmark::DoNotOptimize(tables[g]->view(s.object.table(g)));
    }
    for (std::uint32_t row = 0; row != rows; ++row) s.object.slide(row, tokens{length[row]});
  }
}
BENCHMARK_TEMPLATE(groups_of_a_step, 1, tessera::kv::csr_tables);
BENCHMARK_TEMPLATE(groups_of_a_step, 3, tessera::kv::csr_tables);
BENCHMARK_TEMPLATE(groups_of_a_step, 1, tessera::kv::row_tables);
BENCHMARK_TEMPLATE(groups_of_a_step, 3, tessera::kv::row_tables);

// --- the rest

void host_tier_store_copy_release(benchmark::State& state) {
  on_heap<tessera::kv::host_tier> t{{.host_blocks = 25'600}};
  std::array<block_id, 75> ids{};
  for (auto _ : state) {
    block_id head = 0;
    benchmark::DoNotOptimize(t.object.store(ids.size(), head));
    t.object.copy(head, ids);
    benchmark::DoNotOptimize(ids);
    benchmark::DoNotOptimize(t.object.release(head));
  }
  count_blocks(state, ids.size());
}
BENCHMARK(host_tier_store_copy_release);

void fork_and_write(benchmark::State& state) {
  on_heap<block_pool> pool{{.blocks = 25'600}};
  on_heap<block_table> table{{.rows = 4, .blocks_per_row = 128, .block_size = tokens{16}}};
  tessera::kv::copy_on_write cow{pool.object, table.object};
  shuffle_free(pool.object);
  const auto parent = table.object.acquire_row();
  if (pool.object.allocate(table.object.extend(parent, 75)) != tessera::status::ok) std::abort();
  for (auto _ : state) {
    const auto child = cow.fork(parent);
    tessera::kv::block_copy copy{};
    benchmark::DoNotOptimize(cow.ensure_writable(child, tokens{75 * 16 - 1}, copy));
    benchmark::DoNotOptimize(pool.object.release(table.object.row(child)));
    benchmark::DoNotOptimize(table.object.release_row(child));
  }
  count_blocks(state, 75);
}
BENCHMARK(fork_and_write);

}  // namespace
