// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "planner_of.hpp"

namespace tessera_python {

std::unique_ptr<planner> make_paced(const settings& s) {
  return planner_for(s, ts::order::paced<>{.quantum = ts::tokens{s.quantum},
                                           .young_quanta = static_cast<std::uint64_t>(s.young_quanta),
                                           .slice = ts::tokens{s.slice},
                                           .margin = ts::duration{s.margin}});
}

}  // namespace tessera_python
