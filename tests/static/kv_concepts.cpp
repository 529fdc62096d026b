// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/kv/block_pool.hpp>
#include <tessera/kv/changed_tables.hpp>
#include <tessera/kv/concepts.hpp>
#include <tessera/kv/csr_tables.hpp>
#include <tessera/kv/fragmentation.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/kv/row_tables.hpp>

// Truth tables: an archetype that passes with nothing to spare, and a near-miss per requirement.

namespace {

using tessera::arena;
using tessera::status;
using tessera::kv::block_id;
using tessera::kv::block_store;
using tessera::kv::block_table;
using tessera::kv::prefix_store;
using tessera::kv::stranded_policy;
using tessera::kv::table_policy;

using ids = std::span<const block_id>;

// Requirement `missing` of the archetype is left out; 0: none is.
template <int missing>
struct archetype {
  struct good_limits {
    std::size_t blocks;
  };
  struct bad_limits {
    std::size_t count;
  };
  using limits = std::conditional_t<missing == 1, bad_limits, good_limits>;

  static constexpr std::size_t required_bytes(const limits&) noexcept
    requires(missing != 2)
  {
    return 0;
  }
  archetype(arena&, const limits&)
    requires(missing != 3)
  {}
  std::size_t capacity() const noexcept
    requires(missing != 4)
  {
    return 0;
  }
  std::size_t free() const noexcept
    requires(missing != 5)
  {
    return 0;
  }
  std::uint32_t references(block_id) const noexcept
    requires(missing != 6)
  {
    return 0;
  }
  status allocate(std::span<block_id>) noexcept
    requires(missing != 7)
  {
    return status::ok;
  }
  status share(ids) noexcept
    requires(missing != 8)
  {
    return status::ok;
  }
  status release(ids) noexcept
    requires(missing != 9)
  {
    return status::ok;
  }
  void undo_allocate(ids) noexcept
    requires(missing != 10)
  {}
  void undo_share(ids) noexcept
    requires(missing != 11)
  {}
  void undo_release(ids) noexcept
    requires(missing != 12)
  {}

  std::size_t match(std::span<const std::uint64_t>, std::span<block_id>) const noexcept
    requires(missing != 13)
  {
    return 0;
  }
  status publish(std::span<const block_id>, std::span<const std::uint64_t>, std::size_t) noexcept
    requires(missing != 14)
  {
    return status::ok;
  }
  bool knows(std::uint64_t) const noexcept
    requires(missing != 15)
  {
    return false;
  }
};

static_assert(block_store<archetype<0>>);
static_assert(!block_store<archetype<1>>, "limits without blocks");
static_assert(!block_store<archetype<2>>, "no required_bytes");
static_assert(!block_store<archetype<3>>, "no constructor from an arena");
static_assert(!block_store<archetype<4>>, "no capacity");
static_assert(!block_store<archetype<5>>, "no free");
static_assert(!block_store<archetype<6>>, "no references");
static_assert(!block_store<archetype<7>>, "no allocate");
static_assert(!block_store<archetype<8>>, "no share");
static_assert(!block_store<archetype<9>>, "no release");
static_assert(!block_store<archetype<10>>, "no undo_allocate");
static_assert(!block_store<archetype<11>>, "no undo_share");
static_assert(!block_store<archetype<12>>, "no undo_release");

struct no_limits : archetype<0> {
  using archetype::archetype;

 private:
  using limits = int;
};
struct may_throw : archetype<0> {
  using archetype::archetype;
  status allocate(std::span<block_id>) { return status::ok; }
};
struct answers_bool : archetype<0> {
  using archetype::archetype;
  bool release(ids) noexcept { return true; }
};
struct free_is_not_const : archetype<0> {
  using archetype::archetype;
  std::size_t free() noexcept { return 0; }
};
struct wants_mutable_ids : archetype<0> {
  using archetype::archetype;
  status share(std::span<block_id>) noexcept { return status::ok; }
};
static_assert(!block_store<no_limits>);
static_assert(!block_store<may_throw>);
static_assert(!block_store<answers_bool>);
static_assert(!block_store<free_is_not_const>);
static_assert(!block_store<wants_mutable_ids>);
static_assert(!block_store<int>);

static_assert(prefix_store<archetype<0>>);
static_assert(!prefix_store<archetype<12>>, "no block_store");
static_assert(!prefix_store<archetype<13>>, "no match");
static_assert(!prefix_store<archetype<14>>, "no publish");
static_assert(!prefix_store<archetype<15>>, "no knows");
static_assert(block_store<archetype<13>> && block_store<archetype<14>> && block_store<archetype<15>>);

struct match_changes : archetype<0> {
  using archetype::archetype;
  std::size_t match(std::span<const std::uint64_t>, std::span<block_id>) noexcept { return 0; }
};
struct publish_is_silent : archetype<0> {
  using archetype::archetype;
  void publish(std::span<const block_id>, std::span<const std::uint64_t>, std::size_t) noexcept {}
};
static_assert(!prefix_store<match_changes>);
static_assert(!prefix_store<publish_is_silent>);

static_assert(block_store<tessera::kv::block_pool>);
static_assert(!prefix_store<tessera::kv::block_pool>);
static_assert(block_store<tessera::kv::prefix_cache>);
static_assert(prefix_store<tessera::kv::prefix_cache>);

// Hashes of a store.
using wide_cache = tessera::kv::basic_prefix_cache<tessera::kv::lru, tessera::kv::null_sink, tessera::kv::hash128>;
static_assert(prefix_store<wide_cache>);
static_assert(std::same_as<tessera::kv::hash_of<wide_cache>, tessera::kv::hash128>);
static_assert(std::same_as<tessera::kv::hash_of<tessera::kv::prefix_cache>, std::uint64_t>);
static_assert(std::same_as<tessera::kv::hash_of<archetype<0>>, std::uint64_t>);

// eviction_policy
using tessera::kv::eviction_policy;
struct any_order {
  using place_type = int;
  static std::size_t required_bytes(std::size_t) noexcept { return 0; }
  any_order(tessera::arena&, std::size_t) noexcept {}
  [[nodiscard]] std::size_t size() const noexcept { return 0; }
  [[nodiscard]] block_id next() const noexcept { return 0; }
  void insert(block_id) noexcept {}
  void insert_first(block_id) noexcept {}
  int remove(block_id) noexcept { return 0; }
  template <class F>
  void take(std::span<block_id>, F) noexcept {}
  void undo_insert(block_id) noexcept {}
  void undo_remove(block_id, int) noexcept {}
  void undo_take(block_id) noexcept {}
  void clear() noexcept {}
};
struct insert_may_throw : any_order {
  using any_order::any_order;
  void insert(block_id) {}
};
struct remove_says_nothing : any_order {
  using any_order::any_order;
  void remove(block_id) noexcept {}
};
struct next_changes : any_order {
  using any_order::any_order;
  block_id next() noexcept { return 0; }
};
struct nothing_goes_first : any_order {
  using any_order::any_order;
  void insert_first(block_id) noexcept = delete;
};
static_assert(!eviction_policy<nothing_goes_first>);
static_assert(eviction_policy<any_order> && eviction_policy<tessera::kv::lru>);
static_assert(!eviction_policy<insert_may_throw> && !eviction_policy<remove_says_nothing> &&
              !eviction_policy<next_changes> && !eviction_policy<int>);

// cache_event_sink
using tessera::kv::cache_event_sink;
struct deaf : tessera::kv::null_sink {
  using null_sink::null_sink;

 private:
  using null_sink::evicted;
};
struct told_may_throw : tessera::kv::null_sink {
  using null_sink::null_sink;
  void cleared() {}
};
static_assert(cache_event_sink<tessera::kv::null_sink, std::uint64_t>);
static_assert(cache_event_sink<tessera::kv::event_ring<8>, std::uint64_t>);
static_assert(!cache_event_sink<tessera::kv::event_ring<8>, tessera::kv::hash128>);
static_assert(!cache_event_sink<deaf, std::uint64_t> && !cache_event_sink<told_may_throw, std::uint64_t>);

struct strands_nothing {
  tessera::blocks operator()(const tessera::kv::memory_use&) const noexcept { return {}; }
};
struct strands_a_number {
  long operator()(const tessera::kv::memory_use&) const noexcept { return 0; }
};
struct strands_and_throws {
  tessera::blocks operator()(const tessera::kv::memory_use&) const { return {}; }
};
struct strands_and_counts {
  tessera::blocks operator()(const tessera::kv::memory_use&) noexcept { return {}; }
};
struct strands_uncopied : strands_nothing {
  strands_uncopied(const strands_uncopied&) = delete;
};
static_assert(stranded_policy<strands_nothing>);
static_assert(!stranded_policy<strands_a_number>);
static_assert(!stranded_policy<strands_and_throws>);
static_assert(!stranded_policy<strands_and_counts>);
static_assert(!stranded_policy<strands_uncopied>);
static_assert(stranded_policy<tessera::kv::stranded_below>);

// Views of block tables. Requirement `missing` is left out; 0: none is.
template <int missing>
struct tables {
  using view_type = int;
  static constexpr std::size_t required_bytes(const block_table::limits&) noexcept
    requires(missing != 1)
  {
    return 0;
  }
  tables(arena&, const block_table::limits&) noexcept
    requires(missing != 2)
  {}
  void begin() noexcept
    requires(missing != 3)
  {}
  void add(block_table&, std::uint32_t, tessera::tokens, std::size_t) noexcept
    requires(missing != 4)
  {}
  int view(block_table&) noexcept
    requires(missing != 5)
  {
    return 0;
  }
};
static_assert(table_policy<tables<0>>);
static_assert(!table_policy<tables<1>>, "no required_bytes");
static_assert(!table_policy<tables<2>>, "no constructor from an arena");
static_assert(!table_policy<tables<3>>, "no begin");
static_assert(!table_policy<tables<4>>, "no add");
static_assert(!table_policy<tables<5>>, "no view");

struct view_of_another_type : tables<0> {
  using tables::tables;
  using view_type = long;
};
struct view_may_throw : tables<0> {
  using tables::tables;
  int view(block_table&) { return 0; }
};
struct add_without_new_blocks : tables<0> {
  using tables::tables;
  void add(block_table&, std::uint32_t, tessera::tokens) noexcept {}
};
static_assert(!table_policy<view_of_another_type>);
static_assert(!table_policy<view_may_throw>);
static_assert(!table_policy<add_without_new_blocks>);
static_assert(table_policy<tessera::kv::csr_tables> && table_policy<tessera::kv::row_tables> &&
              table_policy<tessera::kv::changed_tables>);
static_assert(tessera::kv::row_tables::required_bytes({.rows = 100, .blocks_per_row = 100}) == 0);

// What a component asks for is known at compile time, and grows with what it is for.
static_assert(tessera::kv::block_pool::required_bytes({.blocks = 100}) <
              tessera::kv::block_pool::required_bytes({.blocks = 1000}));
static_assert(tessera::kv::prefix_cache::required_bytes({.blocks = 1024}) <= 101 * 1024 + 1024);

}  // namespace
