// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "planner_of.hpp"

namespace tessera_python {

std::unique_ptr<planner> make_paced(const settings& s) {
  return planner_for<ts::order::paced<>>(s, [](auto& o, const settings& of) {
    o.quantum = ts::tokens{of.quantum};
    o.young_quanta = static_cast<std::uint64_t>(of.young_quanta);
    o.slice = ts::tokens{of.slice};
    o.margin = ts::duration{of.margin};
  });
}

}  // namespace tessera_python
