// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: .program_length. needs requests with a pointer .program.

#include <tessera/compose/due_first.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/queue/ordered_queue.hpp>
#include <tessera/rank/program_length.hpp>

struct request : tessera::due_first_request {
  tessera::token_pacer pacer{};
  tessera::tokens expected_output{};
#ifdef EXPECT_OK
  tessera::order::program_service* program = nullptr;
#else
  const tessera::order::program_service* program = nullptr;
#endif
};

int main() {
  using length = tessera::rank::program_length<tessera::order::expected_output_member>;
  request r;
  tessera::ordered_queue<request, tessera::order::earliest_due<length>> queue;
  queue.push(r, tessera::time_point{});
  queue.erase(r);
  return 0;
}
