// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "planner_of.hpp"

namespace tessera_python {

std::unique_ptr<planner> make_two_phase(const settings& s) {
  return planner_for(s, ts::order::two_phase{.quantum = ts::tokens{s.quantum},
                                             .demote_above = ts::tokens{s.demote_above},
                                             .fewest_quanta_first = s.fewest_quanta_first});
}

}  // namespace tessera_python
