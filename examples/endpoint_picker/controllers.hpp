// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/fleet/log.hpp>
#include <tessera/sim/cluster/named_controllers.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// The controllers of `replay --routers` and `tessera.fleet.controllers`, as `--controller` names them.

namespace endpoint_picker {

/// The names of `--controller`.
[[nodiscard]] inline std::vector<std::string_view> controller_names() {
  std::vector<std::string_view> all;
  for (const tessera::sim::named_controller& c : tessera::sim::controllers) all.push_back(c.name);
  return all;
}

/// The name now of a former name. `cascade` of `replay` plans its stages; here they are the `lengths` of endpoints.
[[nodiscard]] inline std::string name_now(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  if (name == "round-robin") return "in-turn";
  return name == "cascade" ? "stages" : name;
}

/// In a line, what a controller does behind a gateway, and what of it is left out.
[[nodiscard]] inline std::string describe(const tessera::sim::named_controller& c) {
  std::string line{c.name};
  line +=
      c.does.empty() ? " places requests, and does nothing else" : " places requests; its other actions are left out:";
  for (const tessera::fleet::action_kind a : c.does) {
    const auto name = tessera::fleet::detail::enum_names<tessera::fleet::action_kind>[static_cast<std::size_t>(a)];
    line.append(" ").append(name);
  }
  const bool prefixes = c.make({.replicas = 1, .requests = 1})->reads().prefixes;
  return prefixes ? line + "; no endpoint says what it has cached, so prefixes do not count" : line;
}

}  // namespace endpoint_picker
