// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "planner_of.hpp"

namespace tessera_python {

std::unique_ptr<planner> make_two_phase(const settings& s) {
  return planner_for<ts::order::two_phase>(s, [](auto& o, const settings& of) {
    o.quantum = ts::tokens{of.quantum};
    o.demote_above = ts::tokens{of.demote_above};
    o.fewest_quanta_first = of.fewest_quanta_first;
  });
}

}  // namespace tessera_python
