// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/cluster_size.hpp>
#include <tessera/sim/model/profiles.hpp>

#include <fmt/format.h>

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

  std::string workload{};  ///< A built-in one. Either this or `trace` is named.
  std::string trace{};     ///< A file, or what messages call its text.
  std::optional<double> rate{};
  std::optional<double> rate_scale{};
  std::optional<std::int64_t> requests{};
  std::int64_t seed = 1;
  std::optional<std::int64_t> hash_tokens{};
  std::string time_unit{};
  std::optional<std::int64_t> run{};

  std::string instances = "8";  ///< `8`, `4,4`, or `4xPROFILE,4xPROFILE`.
  std::string profile{default_profile};
  instance_size size{};
  bool prefix_cache = true;
  std::string placement{};
  std::optional<std::int64_t> routers{};
  double report_interval = 1;  ///< Seconds.
  bool router_shares = false;
  std::string pools{};  ///< `PREFILL/DECODE[/MIXED]`; `auto`, which the tool plans; or none.

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
