// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/ledger.hpp>

#include "support/catch.hpp"

#include <cstddef>

namespace tessera_test {

/// A fleet's ledger with replicas of 100 blocks, all of which have joined in their first life at 0 s.
struct ledger_of_alike {
  using ledger = tessera::fleet::ledger<>;

  tessera::owned_storage<ledger::limits> storage;
  ledger l;

  explicit ledger_of_alike(std::size_t replicas, const ledger::settings& s = {}, std::size_t reservations = 64)
      : storage{tessera::storage_for<ledger>({.replicas = replicas, .reservations = reservations})}, l{storage, s} {
    for (tessera::fleet::replica_id id = 0; id != replicas; ++id) {
      REQUIRE(ok(l.join(id, 1, {.capacity = tessera::blocks{100}}, tessera::time_point{})));
    }
  }
};

}  // namespace tessera_test
