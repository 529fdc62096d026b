// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A model whose layers differ: some attend to everything, some to a window, some keep a recurrent state. Each group of
// layers has a block table of its own, and all take their blocks from one store. A window frees its blocks behind
// itself; the state is one block, whatever the length. The second request finds as much of its prefix as all groups can
// serve.
#include <tessera/core/owned_storage.hpp>
#include <tessera/kv/groups.hpp>
#include <tessera/kv/hash_chain.hpp>

#include <cstdint>
#include <cstdio>
#include <vector>

using namespace tessera::literals;
using tessera::kv::group;

using groups = tessera::kv::groups<3>;

int main() {
  const groups::limits limits{
      .blocks = 120,
      .rows = 4,
      .max_length = 1024_tok,
      .layers = {group::full(16_tok), group::sliding(16_tok, 100_tok), group::recurrent(64_tok)}};
  auto storage = tessera::storage_for<groups>(limits);
  tessera::arena memory{storage.memory()};
  groups kv{memory, limits};

  // Hashes of full blocks, for each block size one chain.
  std::vector<std::int32_t> text(500);
  for (std::size_t i = 0; i != text.size(); ++i) text[i] = static_cast<std::int32_t>(i * i % 997);
  std::vector<std::uint64_t> sixteen(text.size() / 16), sixty_four(text.size() / 64);
  tessera::kv::hash_chain(text, 16, sixteen);
  tessera::kv::hash_chain(text, 64, sixty_four);
  const groups::hash_spans hashes{sixteen, sixteen, sixty_four};

  const auto show = [&](const char* when, std::uint32_t row) {
    std::printf("%-24s", when);
    for (std::size_t g = 0; g != 3; ++g) {
      std::printf("  %2zu..%-2zu", kv.first_block(g, row), kv.table(g).size(row));
    }
    std::printf("  %3zu blocks free\n", kv.free());
  };

  std::printf("%-24s  full    window  state\n", "");
  const std::uint32_t first = kv.open();
  for (std::int64_t computed = 0; computed != 500;) {
    const tessera::tokens end{computed + 100};  // a chunk of the prompt
    if (!ok(kv.grow(first, end))) return 1;
    // ... the engine runs the step: each group's kernels read kv.table(g), from first_block(g, row) on ...
    kv.begin();
    kv.publish(first, hashes, end);
    kv.slide(first, end);
    computed = end.count();
  }
  show("500 tokens computed", first);
  kv.close(first);

  const tessera::tokens found = kv.match(hashes, 499_tok);
  const std::uint32_t second = kv.open();
  kv.share(second, hashes, found);
  show("the same prompt again", second);
  std::printf("%lld of 500 tokens found: states are %lld tokens apart\n", static_cast<long long>(found.count()),
              static_cast<long long>(kv.of(2).block_size.count()));
  if (!ok(kv.grow(second, 500_tok))) return 1;
  kv.begin();
  kv.slide(second, 500_tok);
  show("and computed", second);
}

/* output:
                          full    window  state
500 tokens computed        0..32  25..32   7..8    80 blocks free
the same prompt again      0..28  21..28   6..7    84 blocks free
448 of 500 tokens found: states are 64 tokens apart
and computed               0..32  25..32   7..8    80 blocks free
*/
