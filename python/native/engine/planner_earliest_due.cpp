// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "planner_of.hpp"

namespace tessera_python {

std::unique_ptr<planner> make_earliest_due(const settings& s) {
  return planner_for<ts::order::earliest_due<>>(s, [](auto& o, const settings& of) {
    o.pace = ts::duration{of.pace};
    o.slice = ts::tokens{of.slice};
    o.margin = ts::duration{of.margin};
    o.prompt_pace = ts::duration{of.prompt_pace};
    o.move_pace = ts::duration{of.move_pace};
  });
}

}  // namespace tessera_python
