// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "planner_of.hpp"

namespace tessera_python {

std::unique_ptr<planner> make_fcfs(const settings& s) {
  return planner_for<by_arrival>(s, [](auto&, const settings&) {});
}

}  // namespace tessera_python
