// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "planner_of.hpp"

namespace tessera_python {

std::unique_ptr<planner> make_ranked(const settings& s) {
  return planner_for(s, ts::order::ranked<>{.threshold = ts::duration{s.threshold}});
}

}  // namespace tessera_python
