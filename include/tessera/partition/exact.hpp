// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/partition/plan.hpp>
#include <tessera/partition/stage_program.hpp>

TESSERA_NAMESPACE_BEGIN
namespace partition {
namespace detail {

/// The stages of the program as a plan over the table.
inline stage_plan finish(const length_table& table, std::span<const program_stage> found,
                         std::span<stage> out) noexcept {
  for (std::size_t h = 0; h != found.size(); ++h) {
    out[h] = {.from = table.cut(found[h].first),
              .to = h + 1 == found.size() ? unbounded : table.cut(found[h].last),
              .instances = found[h].instances};
  }
  return finish(table, out.first(found.size()));
}

}  // namespace detail

/// The plan of the best predicted quality: over all numbers of stages, all cuts between two tokens and all ways to
/// distribute the instances. The one to use. See `stage_program` for the algorithm and its cost.
class exact {
 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t lengths = 0;    ///< Most distinct lengths of a sample; its number of requests suffices.
    std::size_t instances = 0;  ///< Fewer than 65,536.
  };
  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add<program_stage>(l.instances)
        .add_bytes(stage_program::required_bytes({.positions = l.lengths, .instances = l.instances}))
        .bytes_unaligned();
  }
  /// Takes `required_bytes(l)` from `memory`.
  exact(arena& memory, const limits& l) noexcept
      : found_{memory.take<program_stage>(l.instances)},
        capacity_{l.instances},
        program_{memory, {.positions = l.lengths, .instances = l.instances}} {}

  /// Requires the conditions of `stage_partitioner`, and a table and instances within the limits (asserted). Allocates
  /// nothing.
  stage_plan operator()(const length_table& table, std::size_t instances, std::span<stage> out) noexcept {
    detail::check_call(table, instances, out);
    const std::size_t count =
        program_.solve({table.counts(), table.loads(), table.cut_costs()}, instances, false, {found_, capacity_});
    return detail::finish(table, std::span<const program_stage>{found_, count}, out);
  }

 private:
  program_stage* found_;
  std::size_t capacity_;
  stage_program program_;
};

}  // namespace partition
TESSERA_NAMESPACE_END
