// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/compose/round_robin.hpp>

#include <string>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace sim {

policy published::round_robin(std::string name, std::string summary) {
  return make_policy<tessera::round_robin<request, kv_store>>(std::move(name), std::move(summary));
}

}  // namespace sim
TESSERA_NAMESPACE_END
