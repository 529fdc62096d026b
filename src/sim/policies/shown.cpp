// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

std::vector<policy> shown_policies() {
  using namespace published;
  return {fcfs(), pascal(), sarathi(), due_first_policy("due-first")};
}

}  // namespace sim
TESSERA_NAMESPACE_END
