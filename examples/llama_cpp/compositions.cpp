// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "composed_server.hpp"

#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/round_robin.hpp>

#include <vector>

namespace llama_cpp {

/// One of your own is one line more.
const std::vector<composition>& compositions() {
  static const std::vector<composition> all{
      compose<tessera::fcfs<served>>("fcfs", "first come, first served"),
      compose<tessera::round_robin<served>>("round_robin", "round-robin with a token quantum"),
      compose<tessera::pascal<served>, tessera::placement::pascal_arrival,
              tessera::placement::pascal_migrate_adaptively>(
          "pascal", "PASCAL: reasoning first; answers move to where it is quiet"),
  };
  return all;
}

}  // namespace llama_cpp
