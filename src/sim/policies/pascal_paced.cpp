// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/compose/pascal_paced.hpp>
#include <tessera/placement/migrate_when_tight.hpp>

#include <string>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace published {
namespace {

engine_maker engines() { return engines_of<tessera::pascal_paced<request, order::pacer_member, kv_store>>(); }

}  // namespace

policy pascal_paced() {
  return make_placed_policy<placement::least_load, placement::migrate_when_tight>(
      "pascal-paced", "reasoning first, but answers get what their readers need, just in time", engines(), {},
      {.headroom = quantum_blocks});
}

policy paced(std::string name, std::string summary) {
  return make_placed_policy(std::move(name), std::move(summary), engines());
}

}  // namespace published

}  // namespace sim
TESSERA_NAMESPACE_END
