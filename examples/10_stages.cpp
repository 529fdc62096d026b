// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// 10. Stages. Eight instances for a sample of requests: where to cut the lengths, and how many instances each stage
// gets. The plan of least predicted latency is found exactly.

#include <tessera/core/owned_storage.hpp>
#include <tessera/partition/exact.hpp>
#include <tessera/partition/flat.hpp>

#include <array>
#include <cstdio>
#include <vector>

int main() {
  using namespace tessera::literals;
  namespace partition = tessera::partition;
  using tessera::tokens;

  // Many chats, some long ones, a few documents.
  std::vector<tessera::cost::request_lengths> sample;
  for (int i = 0; i != 400; ++i) sample.push_back({tokens{100 + i}, tokens{400 + 2 * i}});
  for (int i = 0; i != 80; ++i) sample.push_back({tokens{800 + 10 * i}, tokens{2000 + 20 * i}});
  for (int i = 0; i != 20; ++i) sample.push_back({tokens{20000 + 500 * i}, tokens{21000 + 500 * i}});

  auto table_memory = tessera::storage_for<partition::length_table>({.requests = sample.size()});
  tessera::arena table_arena{table_memory.memory()};
  partition::length_table table{table_arena, table_memory.limits()};
  if (!ok(table.assign(sample, {.qoe = {{8e-3, 2e-5, 1e-8, 0, 5e-8}}, .transfer = {.per_token = 2e-6}}))) return 1;

  auto memory = tessera::storage_for<partition::exact>({.lengths = table.size(), .instances = 8});
  tessera::arena arena{memory.memory()};
  partition::exact plan{arena, memory.limits()};
  std::array<partition::stage, 8> out{};
  const partition::stage_plan best = plan(table, 8, out);
  for (const partition::stage& s : best.stages) {
    std::printf("from %5lld tokens: %3zu requests on %zu instances\n", static_cast<long long>(s.from.count()),
                s.requests, s.instances);
  }
  std::printf("quality %.3f", best.quality);
  std::printf(", without stages %.3f\n", partition::flat{}(table, 8, out).quality);
}

/* output:
from     0 tokens: 400 requests on 5 instances
from  1199 tokens:  80 requests on 2 instances
from  3581 tokens:  20 requests on 1 instances
quality 7.281, without stages 8.375
*/
