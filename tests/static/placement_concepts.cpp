// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Truth tables of what placement policies ask of instance views. Compiled, never run.

#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/lmetric.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/prefix_affinity.hpp>
#include <tessera/placement/random.hpp>
#include <tessera/placement/round_robin.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace placement_truth {

using namespace tessera;
using namespace tessera::placement;

/// The least that is a range of views: not even iterators.
struct archetype {
  int operator[](std::size_t) const;
  std::size_t size() const;
};
static_assert(instance_views<archetype>);
static_assert(instance_views<std::vector<int>>);
static_assert(instance_views<std::span<const int>>);
static_assert(std::is_same_v<view_t<archetype>, int>);
static_assert(std::is_same_v<view_t<std::span<const long>>, long>);

struct without_index {
  std::size_t size() const;
};
static_assert(!instance_views<without_index>);

struct index_not_const {
  int operator[](std::size_t);
  std::size_t size() const;
};
static_assert(!instance_views<index_not_const>);

struct without_size {
  int operator[](std::size_t) const;
};
static_assert(!instance_views<without_size>);

struct size_of_nothing {
  int operator[](std::size_t) const;
  void size() const;
};
static_assert(!instance_views<size_of_nothing>);
static_assert(!instance_views<int>);

// Members of a view. `blocks` do not come from bare numbers, and a view may hold more than is asked for.
struct nothing {};
static_assert(!shows_kv_held<nothing> && !shows_requests<nothing> && !shows_slo<nothing> && !shows_phases<nothing> &&
              !shows_free_blocks<nothing>);

struct kv {
  blocks kv_held;
};
struct kv_in_tokens {
  tokens kv_held;
};
struct kv_in_numbers {
  int kv_held;
};
static_assert(shows_kv_held<kv> && !shows_kv_held<kv_in_tokens> && !shows_kv_held<kv_in_numbers>);

struct count {
  std::size_t requests;
};
struct count_as_text {
  const char* requests;
};
static_assert(shows_requests<count> && !shows_requests<count_as_text>);

struct slo {
  bool slo_met;
};
struct slo_as_nothing {
  nothing slo_met;
};
static_assert(shows_slo<slo> && !shows_slo<slo_as_nothing>);

struct phases {
  std::size_t reasoning;
  std::size_t fresh_answers;
};
struct only_reasoning {
  std::size_t reasoning;
};
struct only_answers {
  std::size_t fresh_answers;
};
static_assert(shows_phases<phases> && !shows_phases<only_reasoning> && !shows_phases<only_answers>);

struct room {
  blocks free_blocks;
};
struct room_in_bytes {
  bytes free_blocks;
};
static_assert(shows_free_blocks<room> && !shows_free_blocks<room_in_bytes>);

// least_kv names two of them.
struct enough {
  blocks kv_held;
  std::size_t requests;
};
template <class P, class V>
concept places = requires(P& p, const V& v) {
  { p(v) } noexcept -> std::same_as<std::size_t>;
};
// A value that is const takes no turns.
template <class P, class V>
concept places_as_const = requires(const P& p, const V& v) { p(v); };
static_assert(places<least_kv, std::vector<enough>>);
static_assert(places<least_kv, std::span<const enough>>);
static_assert(!places<least_kv, std::vector<kv>>);
static_assert(!places<least_kv, std::vector<count>>);
static_assert(!places<least_kv, enough>);
static_assert(!places_as_const<least_kv, std::vector<enough>>);

// least_load names three.
struct loaded : enough {
  blocks waiting_blocks;
};
struct waiting_in_tokens : enough {
  tokens waiting_blocks;
};
static_assert(shows_waiting_blocks<loaded> && !shows_waiting_blocks<enough> &&
              !shows_waiting_blocks<waiting_in_tokens>);
static_assert(places<least_load, std::vector<loaded>> && !places<least_load, std::vector<enough>>);

// The baselines: some name nothing. All change as they are called.
static_assert(places<join_shortest_queue, std::vector<count>>);
static_assert(!places<join_shortest_queue, std::vector<kv>>);
static_assert(places<round_robin, std::vector<nothing>> && !places_as_const<round_robin, std::vector<nothing>>);
static_assert(places<placement::random, archetype> && !places_as_const<placement::random, archetype>);
static_assert(!places<round_robin, int> && !places<placement::random, int>);

// Two read what is cached of the request at hand; each names the half that it reads.
struct cached : count {
  tokens cached_tokens;
};
struct cached_in_blocks : count {
  blocks cached_tokens;
};
struct fresh : count {
  tokens new_prefill_tokens;
};
struct fresh_in_numbers : count {
  int new_prefill_tokens;
};
static_assert(shows_cached<cached> && !shows_cached<fresh> && !shows_cached<cached_in_blocks>);
static_assert(shows_new_prefill<fresh> && !shows_new_prefill<cached> && !shows_new_prefill<fresh_in_numbers>);
static_assert(places<prefix_affinity, std::vector<cached>> && places<lmetric, std::span<const fresh>>);
static_assert(!places<prefix_affinity, std::vector<fresh>> && !places<lmetric, std::vector<cached>>);
static_assert(!places<prefix_affinity, std::vector<count>> && !places<lmetric, std::vector<count>>);
static_assert(!places_as_const<lmetric, std::vector<fresh>> && !places_as_const<prefix_affinity, std::vector<cached>>);

// migrate_when_tight names two.
struct memory {
  blocks kv_held;
  blocks free_blocks;
};
template <class P, class V>
concept migrates = requires(P& p, const V& v) {
  { p(v, std::size_t{}, blocks{}, blocks{}) } noexcept -> std::same_as<std::size_t>;
};
static_assert(migrates<migrate_when_tight, std::vector<memory>>);
static_assert(!migrates<migrate_when_tight, std::vector<kv>>);
static_assert(!migrates<migrate_when_tight, std::vector<room>>);

}  // namespace placement_truth
