// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "composed_loop.hpp"

#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/round_robin.hpp>

#include <vector>

namespace cuda_decode {

/// One of your own is one line more.
const std::vector<composition>& compositions() {
  static const std::vector<composition> all{
      compose<tessera::fcfs<served>, tessera::fcfs<sim::request>>("fcfs", "first come, first served"),
      compose<tessera::round_robin<served>, tessera::round_robin<sim::request>>("round_robin",
                                                                                "round-robin with a token quantum"),
      compose<tessera::pascal<served>, tessera::pascal<sim::request>>(
          "pascal", "PASCAL: reasoning first, answers share the rest"),
  };
  return all;
}

}  // namespace cuda_decode
