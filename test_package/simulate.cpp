// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The simulator's headers compile and link with the fmt and nlohmann_json that came with them.
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/report/report.hpp>
