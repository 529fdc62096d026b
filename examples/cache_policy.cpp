// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// An agent calls a tool and comes back with a longer prompt. Meanwhile others pass through the prefix cache, each once.
// With `lru` they drive the agent's blocks out; with `keep_until` these stay for as long as the tool is expected to
// take. A router hears what is cached where, by the hashes alone.
#include <tessera/compose/fcfs.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/kv/keep_until.hpp>
#include <tessera/kv/prefix_cache.hpp>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <set>
#include <span>
#include <vector>

using namespace tessera::literals;

namespace {

constexpr std::size_t block_size = 16;

struct my_request : tessera::request_hook {
  std::vector<std::int32_t> text;
  std::vector<std::uint64_t> hashes;
  tessera::time_point keep_until{};  // what the policy reads
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }

  void add(std::int32_t token) {
    text.push_back(token);
    if (text.size() % block_size != 0) return;
    // A tenant has a seed of its own, so that no other tenant finds its blocks.
    const std::uint64_t before = hashes.empty() ? tessera::kv::hash_seed("tenant 7").low : hashes.back();
    hashes.push_back(tessera::kv::hash_block(before, std::span{text}.last(block_size)));
  }
};

template <class Eviction>
void serve(const char* name) {
  using events = tessera::kv::event_ring<1024>;
  using scheduler_type = tessera::fcfs<my_request, tessera::kv::basic_prefix_cache<Eviction, events>>;
  auto storage = tessera::storage_for<scheduler_type>({.blocks = 24, .block_size = 16_tok, .residents = 4});
  scheduler_type scheduler{storage};
  std::set<std::uint64_t> router;  // what it believes to be cached here
  std::deque<my_request> requests;
  double seconds = 0;

  // Prompt and answer of one turn; returns what was found of the prompt.
  const auto run = [&](std::int32_t who, std::size_t prompt, std::size_t answer, double tool_takes) {
    my_request& r = requests.emplace_back();
    for (std::size_t i = 0; i != prompt; ++i) r.add(who * 1000 + static_cast<std::int32_t>(i));
    r.prompt = tessera::tokens{static_cast<std::int64_t>(prompt)};
    if (!ok(scheduler.submit(r, tessera::time_point::at_seconds(seconds)))) return std::int64_t{-1};
    while (!scheduler.idle()) {
      const auto plan = scheduler.plan(tessera::time_point::at_seconds(seconds), {});
      seconds += 0.05;
      r.add(who * 1000 + static_cast<std::int32_t>(r.text.size()));  // the token that was sampled
      const tessera::outcome o{.finished = r.text.size() == prompt + answer};
      if (o.finished && tool_takes > 0) r.keep_until = tessera::time_point::at_seconds(seconds + tool_takes);
      scheduler.commit(plan, {&o, plan.size()}, tessera::time_point::at_seconds(seconds));
    }
    for (const auto& e : scheduler.cache_events().waiting()) {
      if (!e.block.only) continue;  // another block has the same hash
      if (e.what == events::event::kind::stored) router.insert(e.block.hash);
      if (e.what == events::event::kind::removed) router.erase(e.block.hash);
    }
    scheduler.cache_events().forget();
    return static_cast<std::int64_t>(r.state().shared_blocks * block_size);
  };

  run(1, 100, 30, 5.0);  // the agent's first turn
  const std::vector<std::uint64_t> session = requests.front().hashes;
  for (std::int32_t other = 2; other != 8; ++other) run(other, 100, 4, 0);
  std::size_t believed = 0;
  for (const std::uint64_t h : session) believed += router.count(h);
  const std::int64_t found = run(1, 160, 10, 0);  // it comes back with what the tool said
  std::printf("%-10s after %.1f s the router believes in %zu blocks of the session; found %lld of 160 tokens\n", name,
              seconds, believed, static_cast<long long>(found));
}

}  // namespace

int main() {
  serve<tessera::kv::lru>("lru");
  serve<tessera::kv::keep_until<>>("keep_until");
}

/* output:
lru        after 3.2 s the router believes in 0 blocks of the session; found 0 of 160 tokens
keep_until after 3.2 s the router believes in 8 blocks of the session; found 128 of 160 tokens
*/
