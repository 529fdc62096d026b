// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A model with different layers: some attend to everything, some to a window, some keep a recurrent state. With
// `kv::groups` as its block store a scheduler has a block table for each group of layers, and all take their blocks
// from one store. A window frees its blocks behind itself, when a step is settled; the state is one block, whatever the
// length. The second request finds as much of its prefix as all groups can serve.
#include <tessera/compose/fcfs.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

using namespace tessera::literals;
using tessera::kv::group;

// Hashes of full blocks, for each group those of its block size.
struct my_request : tessera::request_hook {
  std::vector<std::uint64_t> sixteen, sixty_four;
  [[nodiscard]] std::array<std::span<const std::uint64_t>, 3> prefix_hashes() const noexcept {
    return {sixteen, sixteen, sixty_four};
  }
};

using my_scheduler = tessera::fcfs<my_request, tessera::kv::groups<3>>;

int main() {
  const my_scheduler::limits limits{{.blocks = 120, .residents = 4, .max_length = 1024_tok},
                                    {group::full(16_tok), group::sliding(16_tok, 100_tok), group::recurrent(64_tok)}};
  auto storage = tessera::storage_for<my_scheduler>(limits);
  my_scheduler scheduler{storage};

  std::vector<std::int32_t> text(500);
  for (std::size_t i = 0; i != text.size(); ++i) text[i] = static_cast<std::int32_t>(i * i % 997);
  my_request requests[2];
  for (my_request& r : requests) {
    r.prompt = 500_tok;
    r.max_output = 2_tok;
    r.sixteen.resize(text.size() / 16);
    r.sixty_four.resize(text.size() / 64);
    tessera::kv::hash_chain(text, 16, r.sixteen);
    tessera::kv::hash_chain(text, 64, r.sixty_four);
  }

  std::printf("computes      full    window  state   free\n");
  tessera::tokens found{};
  for (my_request& r : requests) {
    if (!ok(scheduler.submit(r, {}))) return 1;
    while (!scheduler.idle()) {
      const auto plan = scheduler.plan({}, {.token_budget = 200_tok});
      const auto& e = plan[0];
      // ... the engine runs the step: the kernels of group g read plan.tables[g].tables. Its rows begin with block
      // plan.tables[g].first_block[i] of their sequences ...
      const auto first = e.first.count();
      if (e.origin == tessera::entry_origin::started) found = e.first;
      std::printf("%3lld..%-3lld ", static_cast<long long>(first), static_cast<long long>(first + e.count.count()));
      for (const auto& of_group : plan.tables) {
        const std::size_t begin = of_group.first_block[0];
        std::printf("  %3zu..%-2zu", begin, begin + of_group.tables.indices.size());
      }
      std::printf("  %3zu\n", scheduler.store().free());
      const bool finished = e.samples && r.generated() + 1_tok == r.max_output;
      scheduler.commit(plan, std::array{tessera::outcome{.finished = finished}}, {});
    }
  }
  std::printf("%lld of 500 tokens were there: states are %lld tokens apart\n", static_cast<long long>(found.count()),
              static_cast<long long>(limits.layers[2].block_size.count()));
}

/* output:
computes      full    window  state   free
  0..200     0..13    0..13    0..4    90
200..400     0..25    6..25    3..7    72
400..500     0..32   18..32    6..8    72
500..501     0..32   25..32    7..8    80
448..500     0..32   21..32    6..8    75
500..501     0..32   25..32    7..8    80
448 of 500 tokens were there: states are 64 tokens apart
*/
