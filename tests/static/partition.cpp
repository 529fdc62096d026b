// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/partition/bucketed.hpp>
#include <tessera/partition/chain.hpp>
#include <tessera/partition/exact.hpp>
#include <tessera/partition/flat.hpp>
#include <tessera/partition/merge.hpp>
#include <tessera/partition/range_refiner.hpp>

#include <type_traits>

namespace {

using namespace tessera;
using namespace tessera::partition;

// stage_partitioner: the models, the archetype, and one near-miss per requirement.
static_assert(stage_partitioner<exact> && stage_partitioner<bucketed> && stage_partitioner<merge>);
static_assert(stage_partitioner<chain> && stage_partitioner<flat>);
struct partitioner {
  stage_plan operator()(const length_table&, std::size_t, std::span<stage>) noexcept;
};
struct partitioner_may_throw {
  stage_plan operator()(const length_table&, std::size_t, std::span<stage>);
};
struct partitioner_of_another_answer {
  double operator()(const length_table&, std::size_t, std::span<stage>) noexcept;
};
struct partitioner_changes_the_table {
  stage_plan operator()(length_table&, std::size_t, std::span<stage>) noexcept;
};
static_assert(stage_partitioner<partitioner>);
static_assert(!stage_partitioner<int>);
static_assert(!stage_partitioner<partitioner_may_throw>);
static_assert(!stage_partitioner<partitioner_of_another_answer>);
static_assert(!stage_partitioner<partitioner_changes_the_table>);

// split_rule.
static_assert(split_rule<by_quality> && split_rule<by_count> && split_rule<by_memory>);
struct rule {
  std::size_t operator()(std::span<const cost::request_lengths>) const noexcept;
};
struct rule_may_throw {
  std::size_t operator()(std::span<const cost::request_lengths>) const;
};
struct rule_changes_itself {
  std::size_t operator()(std::span<const cost::request_lengths>) noexcept;
};
struct rule_answers_a_length {
  tokens operator()(std::span<const cost::request_lengths>) const noexcept;
};
static_assert(split_rule<rule>);
static_assert(!split_rule<int>);
static_assert(!split_rule<rule_may_throw>);
static_assert(!split_rule<rule_changes_itself>);
static_assert(!split_rule<rule_answers_a_length>);

static_assert(std::is_trivially_copyable_v<range_refiner<>>);
static_assert(!std::is_copy_constructible_v<exact> && !std::is_copy_constructible_v<length_table>);
static_assert(exact::required_bytes({.lengths = 5000, .instances = 16}) < 1'100'000);

}  // namespace
