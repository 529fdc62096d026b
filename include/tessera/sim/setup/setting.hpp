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
/// What a user asks of the simulator: a workload, a cluster and what goes wrong there. The command lines of the tools
/// and the Python module fill it in. `load_source` and `size_cluster` check it and make rows and options of it.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A workload and a cluster as their user names them. Nothing of it is checked yet.
struct setting {
  spelling how = spelling::options;  ///< How messages write the names of what is set here.

  std::string workload{};                     ///< A built-in one. Either this or `trace` is named.
  std::string trace{};                        ///< A file, or what messages call its text.
  std::optional<double> rate{};               ///< Requests per second; by default the workload's own.
  std::optional<double> rate_scale{};         ///< A factor on the rate of a trace.
  std::optional<std::int64_t> requests{};     ///< How many; by default those of the workload, or all of the trace.
  std::int64_t seed = 1;                      ///< Of all that is drawn: the workload, faults, random placements.
  std::optional<std::int64_t> hash_tokens{};  ///< Tokens for which one of a trace's hashes of prompts stands.
  std::string time_unit{};                    ///< `s`, `ms`, `us` or `ns`, of a trace's times; by default as it says.
  std::optional<std::int64_t> run{};          ///< Which of several runs of a trace.

  std::string instances = "8";            ///< `8`, `4,4`, or `4xPROFILE,4xPROFILE`.
  std::string profile{default_profile};   ///< A built-in one, or a file.
  instance_size size{};                   ///< What each instance holds and does in a step.
  bool prefix_cache = true;               ///< Blocks of KV that prompts share are kept and found.
  std::string placement{};                ///< By name; by default the policy's own.
  std::optional<std::int64_t> routers{};  ///< That place requests, each with a book of its own.
  double report_interval = 1;             ///< Seconds.
  double action_delay = 0;                ///< Seconds from a decision of a router until instances do what it says.
  bool router_shares = false;             ///< Routers tell each other at once what they place.
  std::string pools{};                    ///< `PREFILL/DECODE[/MIXED]`; `auto`, which the tool plans; or none.

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
