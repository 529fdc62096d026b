// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/partition/bucketed.hpp>

TESSERA_NAMESPACE_BEGIN
namespace partition {

/// CascadeInfer's two-phase heuristic (section 4.2). For comparison: `exact` is as quick and never worse.
///
/// First the best chain of one instance per stage with cuts at powers of two. Then, as long as it gains anything, the
/// two neighbours with the most gain become one stage with the instances of both. Gains wait in a heap; ties go to the
/// lowest stages.
/// There are at most 32 powers of two, so an instance beyond the buckets begins as a stage without requests. Such a
/// stage is merged in any case. The paper leaves open beside which stage it lies: here beside the one that gains most
/// by it.
class merge {
 public:
  /// 12 KB, whatever the sample and the number of instances.
  struct limits {};
  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits&) noexcept {
    return stage_program::required_bytes({.positions = most, .instances = most});
  }
  /// Takes `required_bytes(l)` from `memory`.
  merge(arena& memory, const limits&) noexcept : program_{memory, {.positions = most, .instances = most}} {}

  /// O(32^2 log 32), and O(32) for each instance beyond the buckets.
  stage_plan operator()(const length_table& table, std::size_t instances, std::span<stage> out) noexcept {
    detail::check_call(table, instances, out);
    const detail::power_buckets buckets{table};
    std::array<program_stage, most> stages{};
    const std::size_t count = program_.solve(buckets.sums(), std::min(instances, buckets.size), true, stages);

    const auto cost = [&](const program_stage& p) {
      return (buckets.n[p.last] - buckets.n[p.first]) * (buckets.s[p.last] - buckets.s[p.first]) /
             static_cast<double>(p.instances);
    };
    for (std::size_t left = instances - count; left != 0; --left) {
      std::size_t best = 0;
      double gain = -1;
      for (std::size_t h = 0; h != count; ++h) {
        program_stage more = stages[h];
        ++more.instances;
        if (const double g = cost(stages[h]) - cost(more); g > gain) {
          gain = g;
          best = h;
        }
      }
      ++stages[best].instances;
    }

    // A stage that was merged into its left neighbour has no instances left. A pair's entry in the heap is valid while
    // neither side has changed since.
    struct entry {
      double gain;
      std::size_t left;
      std::size_t right;
      std::size_t left_last;
      std::size_t right_last;
    };
    const auto later = [](const entry& a, const entry& b) {
      return a.gain != b.gain ? a.gain < b.gain : a.left > b.left;
    };
    std::array<entry, 3 * most> heap{};
    std::size_t entries = 0;
    const auto unite = [](const program_stage& l, const program_stage& r) {
      return program_stage{l.first, r.last, l.instances + r.instances};
    };
    const auto consider = [&](std::size_t l, std::size_t r) {
      const double gain =
          cost(stages[l]) + buckets.c[stages[r].first] + cost(stages[r]) - cost(unite(stages[l], stages[r]));
      if (!(gain > 0)) return;
      heap[entries++] = {gain, l, r, stages[l].last, stages[r].last};
      std::push_heap(heap.begin(), heap.begin() + static_cast<std::ptrdiff_t>(entries), later);
    };
    for (std::size_t h = 0; h + 1 < count; ++h) consider(h, h + 1);
    while (entries != 0) {
      std::pop_heap(heap.begin(), heap.begin() + static_cast<std::ptrdiff_t>(entries), later);
      const entry e = heap[--entries];
      program_stage& left = stages[e.left];
      program_stage& right = stages[e.right];
      if (left.instances == 0 || right.instances == 0 || left.last != e.left_last || right.last != e.right_last)
        continue;
      left = unite(left, right);
      right.instances = 0;
      std::size_t before = e.left;
      while (before != 0 && stages[--before].instances == 0) {
      }
      std::size_t after = e.right + 1;
      while (after < count && stages[after].instances == 0) ++after;
      if (before != e.left && stages[before].instances != 0) consider(before, e.left);
      if (after < count) consider(e.left, after);
    }

    std::size_t kept = 0;
    for (std::size_t h = 0; h != count; ++h) {
      if (stages[h].instances != 0) out[kept++] = buckets.to_stage(stages[h]);
    }
    return detail::finish(table, out.first(kept));
  }

 private:
  static constexpr std::size_t most = detail::power_buckets::most;
  stage_program program_;
};

}  // namespace partition
TESSERA_NAMESPACE_END
