// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/partition/exact.hpp>

TESSERA_NAMESPACE_BEGIN
namespace partition {

/// One instance per stage, with the best cuts for that: a layout for comparison (CascadeInfer, section 6.5). If there
/// are more instances than distinct lengths, each length has a stage. Each remaining instance goes where it gains most
/// at that moment, the lowest stage first.
class chain {
 public:
  using limits = exact::limits;  ///< As for the exact planner.
  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return exact::required_bytes(l);
  }
  /// Takes `required_bytes(l)` from `memory`.
  chain(arena& memory, const limits& l) noexcept
      : found_{memory.take<program_stage>(l.instances)},
        capacity_{l.instances},
        program_{memory, {.positions = l.lengths, .instances = l.instances}} {}

  /// As `exact`. O(E M log M), and O(stages) for each instance beyond the distinct lengths.
  stage_plan operator()(const length_table& table, std::size_t instances, std::span<stage> out) noexcept {
    detail::check_call(table, instances, out);
    TESSERA_ASSERT(instances <= capacity_, "more instances than the limit");
    const std::size_t stages = std::min(instances, table.size());
    const std::size_t count =
        program_.solve({table.counts(), table.loads(), table.cut_costs()}, stages, true, {found_, capacity_});
    for (std::size_t left = instances - stages; left != 0; --left) {
      std::size_t best = 0;
      double most = -1;
      for (std::size_t h = 0; h != count; ++h) {
        const program_stage& s = found_[h];
        const double gain =
            table.stage_cost(s.first, s.last, s.instances) - table.stage_cost(s.first, s.last, s.instances + 1);
        if (gain > most) {
          most = gain;
          best = h;
        }
      }
      ++found_[best].instances;
    }
    return detail::finish(table, std::span<const program_stage>{found_, count}, out);
  }

 private:
  program_stage* found_;
  std::size_t capacity_;
  stage_program program_;
};

}  // namespace partition
TESSERA_NAMESPACE_END
