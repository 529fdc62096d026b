// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Live migration between two schedulers. A request decodes on the source while its KV is copied, stops for the last
// block, and goes on at the target. The target knows of it only what messages say. Another request of the source
// decodes all the time. The "engine" writes a number for each token into the blocks that its plan names. So what
// arrives can be compared with what was computed.
#include <tessera/compose/fcfs.hpp>
#include <tessera/migration/handover.hpp>
#include <tessera/migration/live_migration.hpp>

#include <cstdio>
#include <vector>

using namespace tessera::literals;
using tessera::blocks;
using tessera::tokens;
using tessera::migration::block_range;
using tessera::migration::next;

constexpr std::size_t block_size = 16;

struct my_request : tessera::request_hook {};
using my_scheduler = tessera::fcfs<my_request>;

/// An instance: a scheduler, the memory of its KV blocks, and memory where KV from elsewhere lands.
struct instance {
  explicit instance(tessera::owned_storage<my_scheduler::limits>& storage)
      : scheduler{storage}, kv(storage.limits().blocks * block_size) {}

  my_scheduler scheduler;
  std::vector<int> kv;
  std::vector<int> landing;

  /// The memory of token `i` of a resident request.
  int& at(const my_request& r, std::size_t i) {
    return kv[scheduler.tables().row(r.state().row)[i / block_size] * block_size + i % block_size];
  }

  void step(tessera::time_point& now) {
    const auto plan = scheduler.plan(now, {.max_batch = 8, .token_budget = 512_tok});
    // What was adopted has landed here: one copy on the device, to the blocks that the plan gives it. (With a prefix
    // cache, its first blocks may be there already.)
    for (const auto& f : plan.fetch) {
      for (std::size_t i = 0; i != f.device.size() * block_size; ++i) {
        kv[f.device[i / block_size] * block_size + i % block_size] = landing[f.first * block_size + i];
      }
    }
    for (std::size_t i = 0; i != plan.size(); ++i) {
      const auto& e = plan[i];
      const auto row = scheduler.tables().row(e.row);
      for (auto k = static_cast<std::size_t>(e.first.count()), n = k + static_cast<std::size_t>(e.count.count());
           k != n; ++k) {
        kv[row[k / block_size] * block_size + k % block_size] = static_cast<int>(1000 + k);
      }
    }
    const std::vector<tessera::outcome> outcomes(plan.size());
    now += 30_ms;
    scheduler.commit(plan, outcomes, now);
  }
};

/// A slow transport: a block takes as long as a step of the source.
struct transport {
  block_range under_way{};
  void copy(const block_range& range) noexcept {
    under_way = range;
    std::printf("  copy blocks [%d, %d)\n", static_cast<int>(range.first.count()),
                static_cast<int>(range.last.count()));
  }
  /// The bytes arrive.
  void arrive(instance& source, instance& target, const my_request& r) const {
    for (auto i = static_cast<std::size_t>(under_way.first.count()) * block_size;
         i != static_cast<std::size_t>(under_way.last.count()) * block_size && i < target.landing.size(); ++i) {
      target.landing[i] = source.at(r, i);
    }
  }
  [[nodiscard]] int steps() const { return static_cast<int>(under_way.size().count()); }
};

int main() {
  auto here = tessera::storage_for<my_scheduler>({.blocks = 64, .residents = 4});
  auto there = tessera::storage_for<my_scheduler>({.blocks = 64, .residents = 4});
  instance source{here};
  instance target{there};

  my_request r, other;
  r.prompt = 500_tok, r.max_output = 100_tok;
  other.prompt = 10_tok, other.max_output = 100_tok;
  tessera::time_point now{};
  if (!ok(source.scheduler.submit(r, now)) || !ok(source.scheduler.submit(other, now))) return 1;
  source.step(now);
  const auto computed = [&r] { return r.state().computed; };

  // The target has 40 blocks to spare. (With a market, it reserves them and pulls: see bid_ask.cpp.)
  target.landing.resize(40 * block_size);
  tessera::migration::handover_source giving;
  tessera::migration::handover_target taking;
  tessera::migration::live_migration migration{{.block_size = tokens{block_size}, .stop_below = 1_blk}};
  transport t;

  std::printf("snapshot at %d tokens\n", static_cast<int>(computed().count()));
  next what = migration.begin(computed(), 40_blk, t);
  while (what == next::copying) {
    for (int i = 0; i != t.steps(); ++i) source.step(now);  // decoding goes on
    t.arrive(source, target, r);
    std::printf("arrived; %d tokens by now\n", static_cast<int>(computed().count()));
    what = migration.copied(computed(), t);
  }
  if (what != next::stop) return 1;

  // It keeps its blocks, and no plan has it; the other one goes on.
  std::printf("stop\n");
  if (!ok(source.scheduler.suspend(r))) return 1;
  what = migration.stopped(computed(), t);
  if (what == next::copying) {
    for (int i = 0; i != t.steps(); ++i) source.step(now);
    t.arrive(source, target, r);
    what = migration.copied(computed(), t);
  }
  if (what != next::hand_over || !giving.grant()) return 1;

  // The hand-over. The grant, with how far the request has come, and its answer are messages; the target has a request
  // of its own. Until the target has taken it, nothing is lost: it goes on at the source if the target refuses.
  const auto progress = r.progress();
  my_request moved;
  moved.prompt = r.prompt, moved.max_output = r.max_output;
  if (ok(target.scheduler.adopt(moved, progress)) && taking.on_grant()) {
    if (!giving.on_ack() || !ok(source.scheduler.evacuate(r))) return 1;
    taking.on_closed();
    migration.handed_over();
  } else {
    if (!taking.refuse() || !giving.on_refuse() || !ok(source.scheduler.resume(r))) return 1;
    std::printf("refused: it goes on at the source\n");
    return 0;
  }
  std::printf("handed over: %d blocks sent in %u rounds, %d of them while it stood still\n",
              static_cast<int>(migration.sent().count()), migration.rounds(),
              static_cast<int>(migration.sent_stopped().count()));

  for (int i = 0; i != 5; ++i) target.step(now);
  const auto n = static_cast<std::size_t>(moved.state().computed.count());
  int wrong = 0;
  for (std::size_t i = 0; i != n; ++i) wrong += target.at(moved, i) != static_cast<int>(1000 + i);
  std::printf("at the target: %zu tokens, %d of them wrong\n", n, wrong);
  std::printf("the other at the source: %d tokens, in %d blocks\n", static_cast<int>(other.state().computed.count()),
              static_cast<int>(source.scheduler.device_blocks_held().count()));
}

/* output:
snapshot at 500 tokens
  copy blocks [0, 32)
arrived; 532 tokens by now
  copy blocks [31, 34)
arrived; 535 tokens by now
stop
  copy blocks [33, 34)
handed over: 36 blocks sent in 2 rounds, 1 of them while it stood still
at the target: 540 tokens, 0 of them wrong
the other at the source: 46 tokens, in 3 blocks
*/
