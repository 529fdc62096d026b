// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/compose/fcfs.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

/// @file
/// The cluster for a workload, from what its user says: which machines, how many, and how large their memory, batches
/// and steps are. Sizes that would take days, or more memory than there is, are not meant and are refused here.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// How messages write the name of what was asked for: `--kv-blocks`, or `kv_blocks`.
enum class spelling {
  options,  ///< As an option of a command line.
  names,    ///< As the name of an argument.
};

/// A name such as `kv_blocks` as messages write it.
[[nodiscard]] std::string spelled(std::string_view name, spelling how);

/// `n`, if it is from `least` to `most`. @param name as messages write it. @throws usage_error
std::int64_t require_within(std::int64_t n, std::int64_t least, std::int64_t most, std::string_view name);

/// Longest replay, in seconds: up to here a double holds a moment to a tenth of a microsecond.
inline constexpr double max_replay_seconds = 1e9;

/// Seconds from the first arrival to the last, or to the last turn of a session, as if answers took no time. O(rows).
[[nodiscard]] double least_span(std::span<const trace_row> rows);

/// The arrivals of a replay fit on its time line. @throws usage_error
void check_span(std::span<const trace_row> rows);

/// `count` instances of one kind.
struct machines {
  std::size_t count = 0;  ///< At least 1.
  sim::profile profile;   ///< What each of them is.
  std::string named{};    ///< The profile as the user named it: a name, a file, or JSON.
};

/// Most instances of a cluster.
inline constexpr std::int64_t max_instances = 65'536;

/// What is asked of every instance.
struct instance_size {
  std::optional<std::int64_t> kv_blocks{};  ///< At most 2^26; none: what the profile's memory holds.
  std::int64_t block_size = 16;             ///< Tokens of a block: 1 to 65,536.
  std::int64_t max_batch = 256;             ///< Requests in a step: 1 to 65,536.
  std::int64_t token_budget = 8192;         ///< Tokens in a step: 1 to 2^24.
};

/// An instance for `rows`. It has the profile's KV memory, or what was asked for. It has no more host memory than all
/// requests together could ever fill. O(rows).
/// @throws usage_error a size out of its range, or too few blocks for the shortest request.
[[nodiscard]] instance_options size_instance(const instance_size& asked, const sim::profile& profile,
                                             std::span<const trace_row> rows, spelling how);

/// The cluster of these machines for `rows`. What its kinds must agree on, the fabric and the host, is as slow as the
/// slowest. Everything else is as `cluster_options` begin. O(kinds * rows + instances).
/// @param kinds at least one. @throws usage_error as `check_span` and `size_instance`
[[nodiscard]] cluster_options size_cluster(std::span<const machines> kinds, const instance_size& asked,
                                           std::span<const trace_row> rows, spelling how);

/// Refuses runs that would take more memory than a machine is likely to have.
/// @param rows requests of a run. @param kept runs of which every request is remembered. @param jobs runs at a time.
/// @throws usage_error
void require_memory(const cluster_options& o, std::size_t rows, std::size_t kept, std::size_t jobs, spelling how);

}  // namespace sim
TESSERA_NAMESPACE_END
