// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: Draft lacks .tokens drafts.const Request&, const draft_view&. const noexcept.

#include <tessera/compose/fcfs.hpp>

struct request : tessera::request_hook {};

struct my_drafts {
#ifdef EXPECT_OK
  tessera::tokens drafts(const request&, const tessera::draft_view&) const noexcept { return {}; }
#else
  tessera::tokens drafts(const request&, const tessera::draft_view&) const { return {}; }
#endif
};

std::size_t bytes() {
  return tessera::fcfs<request, tessera::kv::block_pool, tessera::kv::csr_tables, tessera::gate::in_line,
                       my_drafts>::required_bytes({.blocks = 4});
}
