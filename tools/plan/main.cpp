// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "plan.hpp"

#include <tessera/sim/policies/policies.hpp>

int main(int argc, char** argv) { return plan::main(argc, argv); }
