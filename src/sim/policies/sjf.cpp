// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/compose/pars.hpp>

TESSERA_NAMESPACE_BEGIN
namespace sim {

policy published::sjf() {
  return make_policy<tessera::pars<request, true_length, kv_store>>(
      "sjf", "shortest job first by the true lengths (an oracle)", {.threshold = duration::forever()});
}

}  // namespace sim
TESSERA_NAMESPACE_END
