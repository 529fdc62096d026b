// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/partition/plan.hpp>
#include <tessera/partition/stage_program.hpp>

#include <array>

TESSERA_NAMESPACE_BEGIN
namespace partition {
namespace detail {

/// The powers of two that separate the sample's lengths. Position b of 1..size is the cut at `cuts[b]`, the smallest
/// power of two that splits the sample there; the last is `unbounded`.
struct power_buckets {
  static constexpr std::size_t most = 33;  // lengths have 32 bits

  explicit power_buckets(const length_table& table) noexcept {
    n[0] = s[0] = c[0] = 0;
    std::size_t before = 0;
    for (std::int64_t power = 2; power <= cost::max_length.count(); power *= 2) {
      const std::size_t j = table.position(tokens{power});
      if (j == table.size()) break;
      if (j == before) continue;
      push(table, tokens{power}, j, table.cut_cost(tokens{power}));
      before = j;
    }
    push(table, unbounded, table.size(), 0);
  }
  [[nodiscard]] stage_program::sums sums() const noexcept {
    return {{n.data(), size + 1}, {s.data(), size + 1}, {c.data(), size + 1}};
  }
  [[nodiscard]] stage to_stage(const program_stage& p) const noexcept {
    return {.from = p.first == 0 ? tokens{} : cuts[p.first], .to = cuts[p.last], .instances = p.instances};
  }

  std::size_t size = 0;
  std::array<tokens, most + 1> cuts{};
  std::array<double, most + 1> n{};
  std::array<double, most + 1> s{};
  std::array<double, most + 1> c{};

 private:
  void push(const length_table& table, tokens cut, std::size_t j, double cost) noexcept {
    ++size;
    cuts[size] = cut;
    n[size] = table.counts()[j];
    s[size] = table.loads()[j];
    c[size] = cost;
  }
};

}  // namespace detail

/// The best plan with cuts at powers of two: CascadeInfer's first simplification (section 4.2). For comparison.
class bucketed {
 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t instances = 0;  ///< Fewer than 65,536.
  };
  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add<program_stage>(l.instances)
        .add_bytes(stage_program::required_bytes({.positions = detail::power_buckets::most, .instances = l.instances}))
        .bytes_unaligned();
  }
  /// Takes `required_bytes(l)` from `memory`.
  bucketed(arena& memory, const limits& l) noexcept
      : found_{memory.take<program_stage>(l.instances)},
        capacity_{l.instances},
        program_{memory, {.positions = detail::power_buckets::most, .instances = l.instances}} {}

  /// As `exact`, on at most 32 positions.
  stage_plan operator()(const length_table& table, std::size_t instances, std::span<stage> out) noexcept {
    detail::check_call(table, instances, out);
    const detail::power_buckets buckets{table};
    const std::size_t count = program_.solve(buckets.sums(), instances, false, {found_, capacity_});
    for (std::size_t h = 0; h != count; ++h) out[h] = buckets.to_stage(found_[h]);
    return detail::finish(table, out.first(count));
  }

 private:
  program_stage* found_;
  std::size_t capacity_;
  stage_program program_;
};

}  // namespace partition
TESSERA_NAMESPACE_END
