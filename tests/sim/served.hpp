// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/cluster.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <span>

namespace tessera_test {

/// All requests of the trace have ended, and no token was generated twice or not at all.
inline void check_served(const tessera::sim::run_result& r, std::span<const tessera::sim::trace_row> rows) {
  CHECK(r.numbers.completed == rows.size());
  std::uint64_t outputs = 0;
  for (const tessera::sim::instance_facts& f : r.instances) outputs += f.output_tokens;
  std::uint64_t expected = 0;
  for (const tessera::sim::trace_row& t : rows) expected += static_cast<std::uint64_t>(t.output_tokens);
  CHECK(outputs == expected);
}

}  // namespace tessera_test
