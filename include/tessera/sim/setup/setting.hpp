// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/cluster_size.hpp>
#include <tessera/sim/model/profiles.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// A user's request to the simulator: a workload, a cluster and its faults. The command lines of the tools and the
/// Python module fill it in. `load_source` and `size_cluster` check it and turn it into rows and options.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A workload and a cluster in the user's words. Nothing of it is checked yet.
struct setting {
  spelling how = spelling::options;  ///< How messages write the names of members.

  std::string workload{};                     ///< A built-in one. Either this or `trace` is set.
  std::string trace{};                        ///< A file, or the name of its text in messages.
  std::optional<double> rate{};               ///< Requests per second; by default the workload's own.
  std::optional<double> rate_scale{};         ///< A factor on the rate of a trace.
  std::optional<std::int64_t> requests{};     ///< Number of requests; by default those of the workload, or all of the
                                              ///< trace.
  std::int64_t seed = 1;                      ///< The seed of everything random: the workload, faults, random
                                              ///< placements.
  std::optional<std::int64_t> hash_tokens{};  ///< Tokens per prompt hash of a trace.
  std::string time_unit{};                    ///< `s`, `ms`, `us` or `ns`: the unit of a trace's times; by default as
                                              ///< the trace says.
  std::optional<std::int64_t> run{};          ///< The run to read of a trace with several.

  std::string instances = "8";            ///< `8`, `4,4`, or `4xPROFILE,4xPROFILE`.
  std::string profile{default_profile};   ///< A built-in one, or a file.
  instance_size size{};                   ///< The capacity of each instance, and its limits per step.
  bool prefix_cache = true;               ///< KV blocks that prompts share are kept and found.
  std::string placement{};                ///< By name; by default the policy's own.
  std::optional<std::int64_t> routers{};  ///< Number of routers that place requests, each with its own state.
  double report_interval = 1;             ///< Seconds.
  double action_delay = 0;                ///< Seconds from a router's decision until instances act on it.
  double plan_delay = 0;                  ///< Seconds that a plan of the layout takes, beside the service.
  bool router_shares = false;             ///< Routers tell each other at once where they place requests.
  std::string pools{};                    ///< `PREFILL/DECODE[/MIXED]`, or `auto`, which the tool plans, or none.

  std::vector<std::string> faults{};  ///< Each as `parse_fault` reads it.
  std::optional<double> mtbf{};       ///< Seconds.
  std::optional<double> mttr{};       ///< Seconds.
  double detection = 1;               ///< Seconds.

  std::string slo{};  ///< As `parse_slo` reads it.
  double warmup = 0;  ///< Seconds.
  double drain = 0;   ///< Seconds.

  /// The name of a member as messages write it: `--rate-scale`, or `rate_scale`.
  [[nodiscard]] std::string says(std::string_view member) const { return spelled(member, how); }
  /// `n`, if it is from 1 to `most`. @throws usage_error
  std::int64_t positive(std::int64_t n, std::int64_t most, std::string_view member) const {
    return require_within(n, 1, most, says(member));
  }
};

}  // namespace sim
TESSERA_NAMESPACE_END
