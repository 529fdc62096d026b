// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "composed_server.hpp"

#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/draft/per_request.hpp>
#include <tessera/gate/groups.hpp>

#include <vector>

namespace llama_cpp {

namespace {

/// A composition of the library, with as many drafts as were found for each request, and room for all of its samples.
template <template <class, class, class, class, class> class Composition>
using over_llama = Composition<served, tessera::kv::block_pool, tessera::kv::csr_tables, tessera::gate::groups,
                               tessera::draft::per_request>;

}  // namespace

/// One of your own is one line more.
const std::vector<composition>& compositions() {
  static const std::vector<composition> all{
      compose<over_llama<tessera::fcfs>>("fcfs", "first come, first served"),
      compose<over_llama<tessera::round_robin>>("round_robin", "round-robin with a token quantum"),
      compose<over_llama<tessera::pascal>, tessera::placement::pascal_arrival,
              tessera::placement::pascal_migrate_adaptively>(
          "pascal", "PASCAL: reasoning first; answers move to where it is quiet"),
  };
  return all;
}

}  // namespace llama_cpp
