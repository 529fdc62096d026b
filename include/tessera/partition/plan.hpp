// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/partition/length_table.hpp>

#include <concepts>

TESSERA_NAMESPACE_BEGIN
namespace partition {

/// The end of the last stage: no length reaches it.
inline constexpr tokens unbounded{std::numeric_limits<std::int64_t>::max()};

/// Some instances, and the lengths that they serve.
struct stage {
  tokens from{};              ///< First length. 0 in the first stage.
  tokens to{};                ///< One past the last length: the next stage's `from`; `unbounded` in the last.
  std::size_t instances = 0;  ///< At least 1; they share the stage's requests evenly.
  std::size_t requests = 0;   ///< Requests of the sample that end in this stage. At least 1.
  double quality = 0;         ///< k Q, predicted: the sum of the instances' Q.
  double transfer = 0;        ///< Cost of moving every sequence that grows across `from`; 0 in the first.

  /// Memberwise.
  friend bool operator==(const stage&, const stage&) noexcept = default;
};

/// A layout: stages by ascending length. Smaller quality is better.
struct stage_plan {
  std::span<const stage> stages{};  ///< In order of length; valid while the span given to the planner is.
  double quality = 0;               ///< Sum over the stages of quality and transfer.
};

/// Divides instances and lengths into stages. Models: `exact`, `bucketed`, `merge`, `chain` and `flat`.
///
/// 1. `p(table, instances, out)` writes the stages to the front of `out` and returns a `stage_plan` over them,
///    `noexcept`.
///
/// Not checked: the stages' ranges join from 0 to `unbounded`. Each stage has a request and an instance, and all
/// instances are used. Requires a table that is not empty, and at least one instance. Requires room in `out` for
/// min(instances, distinct lengths) stages (asserted).
template <class P>
concept stage_partitioner = requires(P& p, const length_table& table, std::size_t instances, std::span<stage> out) {
  { p(table, instances, out) } noexcept -> std::same_as<stage_plan>;
};

namespace detail {

inline void check_call(const length_table& table, std::size_t instances, std::span<stage> out) noexcept {
  TESSERA_REQUIRE(table.size() != 0, "there is no sample to plan for");
  TESSERA_REQUIRE(instances != 0, "there is no instance to plan for");
  TESSERA_REQUIRE(out.size() >= std::min(instances, table.size()), "no room for the stages");
}

/// Completes a stage from its range and instances.
inline void price(const length_table& table, stage& s) noexcept {
  const std::size_t i = table.position(s.from);
  const std::size_t j = s.to == unbounded ? table.size() : table.position(s.to);
  s.requests = table.ended_below(j) - table.ended_below(i);
  s.quality = table.stage_cost(i, j, s.instances);
  s.transfer = s.from.count() == 0 ? 0 : table.cut_cost(s.from);
}

/// Prices the stages and adds them up.
inline stage_plan finish(const length_table& table, std::span<stage> stages) noexcept {
  stage_plan plan{stages, 0};
  for (stage& s : stages) {
    price(table, s);
    plan.quality += s.quality + s.transfer;
  }
  return plan;
}

}  // namespace detail
}  // namespace partition
TESSERA_NAMESPACE_END
