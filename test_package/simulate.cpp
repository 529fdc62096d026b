// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The simulator's headers compile and link with the fmt and nlohmann_json that came with them.
#include <tessera/sim/report.hpp>
#include <tessera/sim/workload.hpp>
