// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/cluster_options.hpp>
#include <tessera/sim/cluster/cluster_size.hpp>
#include <tessera/sim/cluster/fault.hpp>
#include <tessera/sim/cluster/routing.hpp>
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/split_list.hpp>
#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/model/profile_file.hpp>
#include <tessera/sim/model/step_time.hpp>
#include <tessera/sim/policies/placements.hpp>
#include <tessera/sim/policies/policy.hpp>
#include <tessera/sim/setup/setting.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// The cluster of a setting, checked: everything that can be rejected is rejected here, before the first run.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Longest step that is worth a simulation, in seconds.
inline constexpr double max_step_seconds = 1e6;

/// A profile: a built-in one by its name, a file, or its JSON text, which begins with a brace.
/// @throws usage_error @throws input_error
[[nodiscard]] profile find_profile(const std::string& text);

/// The instances of a setting: `8` of one profile, `4,4` of two profiles, or `4xPROFILE,4xPROFILE`.
/// O(kinds); reads the profiles' files. @throws usage_error @throws input_error
[[nodiscard]] std::vector<machines> machines_of(const setting& a);

/// The faults in a run of these rows: named ones, and random deaths. @throws usage_error
[[nodiscard]] std::vector<fault> faults_of(const setting& a, std::size_t instances, std::span<const trace_row> rows,
                                           std::uint64_t seed);

/// Checks that a step of the largest kind takes a time that is a finite number worth simulating. @throws usage_error
void check_step_time(const instance_options& instance, const std::string& profile);

/// Checks that something is measured: requests arrive after the warm-up and before the drain. O(rows). @throws
/// usage_error
void check_window(const setting& a, std::span<const trace_row> rows);

/// The routers in front of the cluster; none if the setting has none. @throws usage_error
[[nodiscard]] std::optional<routing> routing_of(const setting& a);

/// The cluster for the rows of a seed, completely checked. Pools that are to be planned stay open.
/// O(kinds * rows + instances). @throws usage_error
[[nodiscard]] cluster_options size_cluster(const setting& a, std::span<const machines> cluster,
                                           std::span<const trace_row> rows, std::uint64_t seed);

/// Rejects a policy that cannot run these rows on this cluster. O(rows). @param what the name of the rows in messages.
/// @throws usage_error
void require_suitable(const policy& p, const cluster_options& options, std::span<const trace_row> rows,
                      std::string_view what);

}  // namespace sim
TESSERA_NAMESPACE_END
