// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/placement/fill_to_level.hpp>
#include <tessera/placement/hashed.hpp>
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/lmetric.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/placement/phi.hpp>
#include <tessera/placement/power_of_two.hpp>
#include <tessera/placement/prefix_affinity.hpp>
#include <tessera/placement/random.hpp>
#include <tessera/placement/round_robin.hpp>

#include <cstddef>
#include <string_view>

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace detail {

/// The name of the type without namespaces and template arguments, so that two placements of a user can be told apart.
/// It is `own` where the compiler does not say the name.
template <class Placement>
[[nodiscard]] constexpr std::string_view type_name() noexcept {
#if defined(__GNUC__)
  std::string_view name = __PRETTY_FUNCTION__;
  constexpr std::string_view mark = "Placement = ";
  const std::size_t from = name.find(mark);
  if (from == name.npos) return "own";
  name.remove_prefix(from + mark.size());
  name = name.substr(0, name.find_first_of(";],"));
  name = name.substr(0, name.find('<'));
  if (const std::size_t scope = name.rfind("::"); scope != name.npos) name.remove_prefix(scope + 2);
  return name.empty() ? std::string_view{"own"} : name;
#else
  return "own";
#endif
}

}  // namespace detail

/// What tables call a placement policy: the name of its type. Specialise it for one of yours to call it otherwise.
template <class Placement>
inline constexpr std::string_view placement_name = detail::type_name<Placement>();
template <>
inline constexpr std::string_view placement_name<placement::least_load> = "least-load";
template <>
inline constexpr std::string_view placement_name<placement::least_kv> = "least-kv";
template <>
inline constexpr std::string_view placement_name<placement::join_shortest_queue> = "shortest-queue";
template <>
inline constexpr std::string_view placement_name<placement::round_robin> = "in-turn";
template <>
inline constexpr std::string_view placement_name<placement::random> = "random";
template <>
inline constexpr std::string_view placement_name<placement::power_of_two> = "power-of-two";
template <>
inline constexpr std::string_view placement_name<placement::fill_to_level<>> = "fill-to-level";
template <>
inline constexpr std::string_view placement_name<placement::highest_phi> = "phi";
template <>
inline constexpr std::string_view placement_name<placement::pascal_arrival> = "pascal";
template <>
inline constexpr std::string_view placement_name<placement::lmetric> = "lmetric";
template <>
inline constexpr std::string_view placement_name<placement::prefix_affinity> = "prefix-affinity";
template <>
inline constexpr std::string_view placement_name<placement::bounded_hashing> = "bounded-hashing";
template <>
inline constexpr std::string_view placement_name<placement::dual_map> = "dual-map";

/// What a placement or migration policy looks for, in a few words. Specialise it for one of yours.
template <class Placement>
inline constexpr std::string_view placement_summary = "the policy's own choice";
template <>
inline constexpr std::string_view placement_summary<placement::least_load> =
    "the least KV that requests hold or wait for";
template <>
inline constexpr std::string_view placement_summary<placement::least_kv> =
    "the least KV that requests hold; waiting requests do not count";
template <>
inline constexpr std::string_view placement_summary<placement::join_shortest_queue> =
    "the fewest requests, running or waiting";
template <>
inline constexpr std::string_view placement_summary<placement::round_robin> = "one instance after the other";
template <>
inline constexpr std::string_view placement_summary<placement::random> = "any instance";
template <>
inline constexpr std::string_view placement_summary<placement::power_of_two> =
    "the one with fewer requests of two at random";
template <>
inline constexpr std::string_view placement_summary<placement::fill_to_level<>> =
    "at random among those below the level that this request and others' fill";
template <>
inline constexpr std::string_view placement_summary<placement::highest_phi> =
    "the largest part of the memory that no request holds or waits for (Phi_S)";
template <>
inline constexpr std::string_view placement_summary<placement::pascal_arrival> =
    "PASCAL's Algorithm 1: least-load among those where all answers keep pace";
template <>
inline constexpr std::string_view placement_summary<placement::lmetric> =
    "the least of uncached prompt tokens times requests (LMetric)";
template <>
inline constexpr std::string_view placement_summary<placement::prefix_affinity> =
    "most of the prompt cached, unless it has 1.25 times the mean of requests";
template <>
inline constexpr std::string_view placement_summary<placement::bounded_hashing> =
    "by a hash of the prompt's beginning, unless it has 1.25 times the mean";
template <>
inline constexpr std::string_view placement_summary<placement::dual_map> =
    "the one of two by hashes that has more cached while its queue is short (DualMap)";
template <>
inline constexpr std::string_view placement_summary<placement::pascal_migrate_always> =
    "PASCAL's Algorithm 2: the fewest reasoning requests, among those where all answers keep pace";
template <>
inline constexpr std::string_view placement_summary<placement::pascal_migrate_adaptively> =
    "PASCAL's Algorithm 2, unless there is room here and none there";
template <>
inline constexpr std::string_view placement_summary<placement::migrate_when_tight> =
    "it stays while there is room to go on, else the least KV";

}  // namespace sim
TESSERA_NAMESPACE_END
