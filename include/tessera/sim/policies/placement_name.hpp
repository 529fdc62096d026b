// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/placement/fill_to_level.hpp>
#include <tessera/placement/hashed.hpp>
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/lmetric.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/placement/phi.hpp>
#include <tessera/placement/power_of_two.hpp>
#include <tessera/placement/prefix_affinity.hpp>
#include <tessera/placement/random.hpp>
#include <tessera/placement/round_robin.hpp>

#include <string_view>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What tables call a placement policy. Specialise it for one of yours.
template <class Placement>
inline constexpr std::string_view placement_name = "own";
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

}  // namespace sim
TESSERA_NAMESPACE_END
