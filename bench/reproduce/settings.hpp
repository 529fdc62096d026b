// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "reproduce.hpp"

#include <tessera/sim/input/archetypes.hpp>
#include <tessera/sim/policies/policies.hpp>

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// What the settings of the papers' evaluations share: each is in a header of its own beside this one.

namespace reproduce {

using sim::archetype;
using sim::cluster_options;
using sim::run_result;
using sim::trace_row;
using tessera::duration;
using tessera::tokens;
using rows_type = std::vector<trace_row>;

/// The library's policies, then variants of them.
std::vector<sim::policy> compared_with();

/// The library's policy of that name, or the variant.
inline sim::policy published(std::string_view name) { return sim::select_policies(compared_with(), name).front(); }

/// What runs a policy on a cluster, whatever else it is told: no policy of the library but ours knows more.
inline auto runs(sim::policy p) {
  return [p = std::move(p)](const cluster_options& o, const auto& /*more*/, const rows_type& rows) {
    return p.run(o, rows, [](std::size_t) {});
  };
}

}  // namespace reproduce
