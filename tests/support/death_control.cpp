// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Cases that the check of death tests must reject.

#include "support/death.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>

TESSERA_DEATH_CASE(returns) { std::fputs("tessera: no harm done\n", stderr); }
TESSERA_DEATH_CASE(exits) {
  std::fputs("tessera: leaving\n", stderr);
  std::exit(1);
}
TESSERA_DEATH_CASE(is_silent) { std::abort(); }
TESSERA_DEATH_CASE(dies_of_another_signal) {
  std::fputs("tessera: killed\n", stderr);
  std::raise(SIGKILL);
}
TESSERA_DEATH_CASE(says_something_else, "the queue is full") {
  std::fputs("tessera: the queue is empty\n", stderr);
  std::abort();
}
