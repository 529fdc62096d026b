// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "planner_of.hpp"

namespace tessera_python {

std::unique_ptr<planner> make_earliest_due(const settings& s) {
  return planner_for(s, ts::order::earliest_due<>{.pace = ts::duration{s.pace},
                                                  .slice = ts::tokens{s.slice},
                                                  .margin = ts::duration{s.margin},
                                                  .prompt_pace = ts::duration{s.prompt_pace},
                                                  .move_pace = ts::duration{s.move_pace}});
}

}  // namespace tessera_python
