// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/compose/pascal.hpp>
#include <tessera/placement/pascal.hpp>

#include <string>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace published {
namespace {

engine_maker engines() { return engines_of<tessera::pascal<request, kv_store>>(); }

}  // namespace

policy pascal() {
  return make_placed_policy<placement::pascal_arrival, placement::pascal_migrate_adaptively>(
      "pascal", "PASCAL: reasoning first, answers share the rest and move to where it is quiet", engines(), {},
      {.headroom = quantum_blocks});
}

policy two_phase(std::string name, std::string summary) {
  return make_placed_policy(std::move(name), std::move(summary), engines());
}

}  // namespace published

}  // namespace sim
TESSERA_NAMESPACE_END
