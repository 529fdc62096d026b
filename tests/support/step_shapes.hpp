// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/model/step_time.hpp>

#include <cstdint>

namespace tessera_test {

/// A step in which `n` requests decode with `context` tokens of KV each.
inline tessera::sim::step_shape decodes(std::int64_t n, std::int64_t context) {
  tessera::sim::step_shape s;
  for (std::int64_t i = 0; i < n; ++i) s.add_decode(tessera::tokens{context});
  return s;
}

/// A step that computes `count` tokens of a prompt after `first`.
inline tessera::sim::step_shape prefill(std::int64_t first, std::int64_t count) {
  tessera::sim::step_shape s;
  s.add_prefill(tessera::tokens{first}, tessera::tokens{count});
  return s;
}

}  // namespace tessera_test
