// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "planner_of.hpp"

namespace tessera_python {

std::unique_ptr<planner> make_round_robin(const settings& s) {
  return planner_for(
      s, ts::order::round_robin{.quantum = ts::tokens{s.quantum}, .fewest_quanta_first = s.fewest_quanta_first});
}

}  // namespace tessera_python
