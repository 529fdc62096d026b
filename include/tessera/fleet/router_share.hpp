// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/fleet/view.hpp>

#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// For `ledger::rank`: one of several routers chooses from its share of the replicas: `id % routers == router`. If no
/// other router sends there, its book is all that there is to know, and no report is too old.
///
/// When to use: dozens of replicas for each router, and routers with about the same load. A share is its router's
/// fleet, and does not help the others. If no replica of the share is left, rank without it. O(1).
struct router_share {
  std::uint64_t router = 0;   ///< This one, from 0.
  std::uint64_t routers = 1;  ///< How many there are.

  /// Whether a replica is in it. Requires that this router is one of them (asserted).
  [[nodiscard]] constexpr bool operator()(const view& v) const noexcept {
    TESSERA_ASSERT(router < routers, "it is one of the routers");
    return v.id % routers == router;
  }
};

}  // namespace fleet
TESSERA_NAMESPACE_END
