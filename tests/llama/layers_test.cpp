// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "identity.hpp"
#include "support.hpp"

#include <tessera/compose/pascal.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

// Models with layers that differ: the engine keeps KV of a window, or a state, and frees or overwrites it by itself. A
// preempted sequence has the logits that it has alone, to the last bit, all the same.

namespace {

using namespace test;
using llama_cpp::layer_kind;
using tessera::kv::group;

constexpr std::size_t n = 16;
constexpr tokens window = 32_tok;
constexpr tokens block = 16_tok;

/// A composition over a store with a table for each of two groups of layers.
template <template <class, class, class, class, class> class Composition>
using grouped = Composition<recorded, tessera::kv::groups<2>, tessera::kv::csr_tables, tessera::gate::in_line,
                            tessera::draft::per_request>;

/// The most blocks that an entry has in a group.
template <class Plan>
std::int64_t most_blocks(const Plan& plan, std::size_t group) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i != plan.size(); ++i) {
    const auto& indptr = plan.tables[group].tables.indptr;
    most = std::max<std::int64_t>(most, indptr[i + 1] - indptr[i]);
  }
  return most;
}

/// One group of blocks for all layers: as many as the layers with full attention need.
/// @param tolerance of what was saved and restored, as a part of the logits' range; 0: no bit may differ.
void check_one_group(const model& m, const world& reference, double tolerance) {
  const auto check_restored = [&](const world& w) {
    CHECK(w.preemptions > 10);
    CHECK(largest_difference(w, reference) <= tolerance);
    CHECK((differences(w, reference) == 0 || tolerance > 0));
  };
  const world batched = run<tessera::fcfs<recorded>>(m, n, 1, room(128, 0), 0, 1);
  CHECK(batched.preemptions == 0);
  CHECK(differences(batched, reference) == 0);
  const world recomputed = run<tessera::round_robin<recorded>>(m, n, 1, room(20, 0), 0, 1);
  CHECK(recomputed.preemptions > 10);
  CHECK(differences(recomputed, reference) == 0);
  const world resumed = run<tessera::round_robin<recorded>>(m, n, 1, room(20, 512), 0, 1);
  CHECK(resumed.swaps == resumed.preemptions);
  check_restored(resumed);
  const world moved = run<tessera::pascal<recorded>>(m, n, 2, room(14, 64), 5, 1);
  CHECK(moved.moves > 10);
  check_restored(moved);
}

/// llama.cpp saves the window alone, and restores it to other cells than it was in: sums over the cells are in another
/// order. Measured: 1.4e-4.
constexpr double other_cells = 1e-3;

TEST_CASE("sliding windows: logits do not depend on preemption") {
  if (*no_identity() != '\0') {
    WARN(no_identity());
    return;
  }
  const model m =
      make_random_model({.kind = layer_kind::windows, .window = static_cast<std::uint32_t>(window.count())});
  const world reference = alone(m, n);
  SECTION("the window counts") {
    const model all = make_random_model({.kind = layer_kind::windows, .window = 4096});
    CHECK(differences(alone(all, n), reference) > 100);
    CHECK(largest_difference(alone(all, n), reference) > 10 * other_cells);
  }
  SECTION("one group") { check_one_group(m, reference, other_cells); }
  SECTION("drafts: what was refused goes from windows, too") {
    const world drafted = run<drafting<tessera::round_robin>>(m, n, 1, room(20, 0), 0, 1, 5);
    CHECK(drafted.preemptions > 10);
    CHECK(drafted.accepted > 10);
    CHECK(drafted.drafts > drafted.accepted + 10);
    CHECK(differences(drafted, reference) == 0);
    const world restored = run<drafting<tessera::round_robin>>(m, n, 1, room(20, 512), 0, 1, 5);
    CHECK(restored.swaps > 10);
    CHECK(largest_difference(restored, reference) <= other_cells);
  }
  SECTION("a group of windows: blocks for no more than the window and what a step computes") {
    const grouped<tessera::round_robin>::limits limits{
        {.blocks = 30, .residents = slots, .max_length = tokens{longest}},
        {group::full(block), group::sliding(block, window)}};
    std::int64_t full = 0;
    std::int64_t sliding = 0;
    std::int64_t longest_window = 0;
    const world w = run<grouped<tessera::round_robin>>(m, n, 1, limits, 0, 1, 0, [&](const auto& plan) {
      full = std::max(full, most_blocks(plan, 0));
      sliding = std::max(sliding, most_blocks(plan, 1));
      for (std::size_t i = 0; i != plan.size(); ++i) {
        const auto& indptr = plan.tables[1].tables.indptr;
        const std::int64_t most = ((window + plan[i].count).count() + 2 * block.count() - 2) / block.count();
        CHECK(indptr[i + 1] - indptr[i] <= most);
        if (plan[i].count == 1_tok) longest_window = std::max<std::int64_t>(longest_window, indptr[i + 1] - indptr[i]);
      }
    });
    CHECK(w.preemptions > 10);
    CHECK(w.swaps == 0);
    CHECK(differences(w, reference) == 0);
    CHECK(full > 8);
    CHECK(longest_window == 3);  // 32 tokens and the next, wherever a block begins
    CHECK(sliding == 7);         // and a chunk of 64
  }
}

TEST_CASE("recurrent layers: logits do not depend on preemption") {
  if (*no_identity() != '\0') {
    WARN(no_identity());
    return;
  }
  const model m = make_random_model({.kind = layer_kind::recurrent});
  const world reference = alone(m, n);
  SECTION("one group") { check_one_group(m, reference, 0); }
  SECTION("a group of states: a block for each sequence, and no drafts") {
    const grouped<tessera::round_robin>::limits limits{
        {.blocks = 28, .residents = slots, .max_length = tokens{longest}},
        {group::full(block), group::recurrent(tokens{longest})}};
    const world w = run<grouped<tessera::round_robin>>(m, n, 1, limits, 0, 1, 5, [&](const auto& plan) {
      for (std::size_t i = 0; i != plan.size(); ++i) {
        const auto& indptr = plan.tables[1].tables.indptr;
        CHECK(indptr[i + 1] - indptr[i] == 1);
        CHECK(plan[i].lookahead == tokens{});
      }
    });
    CHECK(w.preemptions > 10);
    CHECK(w.drafts == 0);
    CHECK(differences(w, reference) == 0);
  }
  SECTION("a state cannot go back: drafts are refused, not computed wrongly") {
    CHECK_THROWS_AS(run<drafting<tessera::fcfs>>(m, n, 1, room(128, 0), 0, 1, 5), llama_cpp::engine_error);
  }
}

}  // namespace
