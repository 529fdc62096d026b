// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "planner_of.hpp"

namespace tessera_python {

std::unique_ptr<planner> make_vtc(const settings& s) {
  return planner_for<by_arrival>(
      s, [](auto&, const settings&) {},
      ts::gate::basic_fair_tenants<tenants>{
          .prompt_cost = s.prompt_cost, .output_cost = s.output_cost, .weights = s.weights});
}

}  // namespace tessera_python
