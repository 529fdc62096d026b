// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "planner_of.hpp"

namespace tessera_python {

std::unique_ptr<planner> make_round_robin(const settings& s) {
  return planner_for<ts::order::round_robin>(s, [](auto& o, const settings& of) {
    o.quantum = ts::tokens{of.quantum};
    o.fewest_quanta_first = of.fewest_quanta_first;
  });
}

}  // namespace tessera_python
