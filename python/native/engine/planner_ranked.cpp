// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "planner_of.hpp"

namespace tessera_python {

std::unique_ptr<planner> make_ranked(const settings& s) {
  return planner_for<ts::order::ranked<>>(
      s, [](auto& o, const settings& of) { o.threshold = ts::duration{of.threshold}; });
}

}  // namespace tessera_python
