// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/control/phasor.hpp>
#include <tessera/core/owned_storage.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::control;
using tessera_test::approx;

constexpr std::int64_t block_bytes = 4096;

/// A cluster that owns its sequences, and does what it is told.
struct cluster {
  std::vector<worker> workers{};
  std::vector<std::vector<sequence>> held{};

  void add(std::int64_t total, std::int64_t demand, const std::vector<std::int64_t>& lengths, role r = role::decode,
           std::int64_t immovable = 0) {
    worker w;
    w.role = r;
    w.total = blocks{total};
    w.demand = blocks{demand};
    w.free = w.total - blocks{immovable};
    held.emplace_back();
    for (const std::int64_t l : lengths) {
      held.back().push_back({next_id++, blocks{l}, bytes{l * block_bytes}});
      w.free -= blocks{l};
    }
    w.sequences_held = lengths.size();
    workers.push_back(w);
    link();
  }
  /// Spans into vectors that may have moved.
  void link() {
    for (std::size_t i = 0; i != workers.size(); ++i) workers[i].sequences = held[i];
  }
  void apply(const move& m) {
    auto& from = held[m.from];
    const auto it = std::find_if(from.begin(), from.end(), [&](const sequence& s) { return s.id == m.sequence; });
    REQUIRE(it != from.end());
    REQUIRE(it->held == m.held);
    REQUIRE(it->size == m.size);
    held[m.to].push_back(*it);
    from.erase(it);
    workers[m.from].free += m.held;
    workers[m.to].free -= m.held;
    --workers[m.from].sequences_held;
    ++workers[m.to].sequences_held;
    link();
  }
  [[nodiscard]] blocks all_stranded() const {
    blocks sum{};
    for (const worker& w : workers) {
      if (w.role == role::decode && w.available) sum += stranded(w);
    }
    return sum;
  }

  std::uint64_t next_id = 100;
};

struct fixture {
  explicit fixture(const defragmenter::limits& l = {}, const defragmenter::settings& s = {})
      : storage{storage_for<defragmenter>(l)}, memory{storage.memory()}, meso{memory, storage.limits(), s} {}
  owned_storage<defragmenter::limits> storage;
  arena memory;
  defragmenter meso;
};

std::vector<move> plan(const cluster& c, const defragmenter::settings& s = {}, const defragmenter::limits& l = {}) {
  fixture f{l, s};
  const auto moves = f.meso.plan(c.workers);
  return {moves.begin(), moves.end()};
}

cluster random_cluster(std::mt19937_64& random, std::size_t workers, std::size_t sequences, std::int64_t total,
                       bool odd = true) {
  cluster c;
  const auto demand = static_cast<std::int64_t>(1 + random() % static_cast<std::uint64_t>(total / 2));
  const std::uint64_t longest = 1 + random() % static_cast<std::uint64_t>(total);
  for (std::size_t i = 0; i != workers; ++i) {
    std::vector<std::int64_t> lengths;
    // From nearly empty to nearly full.
    auto left = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(total + 1));
    if (random() % 2 == 0) left = total - static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(demand + 1));
    while (left > 0 && lengths.size() < sequences) {
      const std::int64_t l = std::min(left, static_cast<std::int64_t>(1 + random() % longest));
      lengths.push_back(l);
      left -= l;
    }
    c.add(total, odd && random() % 8 == 0 ? demand / 2 : demand, lengths,
          odd && random() % 8 == 0 ? static_cast<role>(random() % 3) : role::decode, std::max<std::int64_t>(left, 0));
    c.workers.back().available = !odd || random() % 10 != 0;
    if (odd && random() % 6 == 0) c.workers.back().queued = blocks{static_cast<std::int64_t>(random() % 60)};
    c.workers.back().changing = odd && random() % 20 == 0;
  }
  return c;
}

// --- worked examples
// --------------------------------------------------------------------------------------------------

TEST_CASE("defragmenter: the smallest sequence that suffices goes to the tightest worker with room") {
  cluster c;
  c.add(100, 20, {30, 9, 12, 41});    // 8 free: stranded, lacks 12
  c.add(100, 20, {40});               // 60 free
  c.add(100, 20, {50});               // 50 free
  c.add(100, 20, {10}, role::mixed);  // no decode worker
  const auto moves = plan(c);
  REQUIRE(moves.size() == 1);
  CHECK(moves[0] == move{102, 0, 2, blocks{12}, bytes{12 * block_bytes}});
}

TEST_CASE("defragmenter: several small ones where that sends less") {
  cluster c;
  c.add(100, 20, {7, 5, 60, 20});  // 8 free, lacks 12: 7 + 5 rather than 20
  c.add(100, 20, {20});
  const auto moves = plan(c);
  REQUIRE(moves.size() == 2);
  CHECK(moves[0].held + moves[1].held == blocks{12});
  // With one piece at most, the 20.
  const auto one = plan(c, {}, {.pieces = 1});
  REQUIRE(one.size() == 1);
  CHECK(one[0].held == blocks{20});
}

TEST_CASE("defragmenter: left alone are workers with freeness, without demand, or with all their blocks in use") {
  const auto moves_with = [](std::int64_t total, std::int64_t demand, const std::vector<std::int64_t>& lengths) {
    cluster c;
    c.add(total, demand, lengths);
    c.add(1000, demand, {});
    return plan(c).size();
  };
  CHECK(moves_with(100, 20, {50, 40}) == 1);  // 10 free
  CHECK(moves_with(100, 10, {50, 40}) == 0);  // 10 free, of use
  CHECK(moves_with(100, 0, {50, 50}) == 0);
  CHECK(moves_with(100, 20, {50, 50}) == 0);  // nothing is free: nothing is stranded
  CHECK(moves_with(100, 20, {}) == 0);
  // Threshold: with half of it free and stranded, Phi_S is 0; a threshold of 0 leaves even that alone.
  cluster c;
  c.add(100, 60, {50});
  c.add(1000, 60, {});
  CHECK(plan(c).size() == 1);
  CHECK(plan(c, {.threshold = 0}).empty());
}

TEST_CASE("defragmenter: a target is neither stranded nor overloaded, nor made a source") {
  const auto moves_to = [](std::int64_t total, const std::vector<std::int64_t>& lengths,
                           const defragmenter::settings& s = {}) {
    cluster c;
    c.add(100, 20, {40, 50});  // 10 free; 40 would do
    c.add(total, 20, lengths);
    return plan(c, s).size();
  };
  // 60 free: 20 left, the demand. 59: stranded. (17 % of 100 are less than that.)
  CHECK(moves_to(100, {40}) == 1);
  CHECK(moves_to(100, {41}) == 0);
  // 168 of 1,000 blocks must stay free.
  CHECK(moves_to(1000, {792}) == 1);
  CHECK(moves_to(1000, {793}) == 0);
  CHECK(moves_to(1000, {793}, {.threshold = 0.1, .floor = 0.1}) == 1);
  // Room to grow: thirty sequences and the new one keep 31 blocks.
  std::vector<std::int64_t> thirty(30, 1);
  thirty[0] = 0;
  thirty.push_back(1);
  cluster c;
  c.add(100, 20, {40, 50});
  c.add(100, 20, std::vector<std::int64_t>(30, 1));  // 70 free, 30 after
  CHECK(plan(c).empty());
  CHECK(plan(c, {.growth = blocks{0}}).size() == 1);
}

TEST_CASE("defragmenter: what waits at a target has its blocks first") {
  const auto moves_to = [](std::int64_t free, std::int64_t queued, std::int64_t total = 100) {
    cluster c;
    c.add(100, 10, {5, 30, 60});  // 5 free, lacks 5
    c.add(total, 10, {total - free});
    c.workers[1].queued = blocks{queued};
    return plan(c).size();
  };
  CHECK(moves_to(50, 0) == 1);
  CHECK(moves_to(50, 60) == 0);  // Phi_S is -0.1 already
  // 17 of 100 blocks keep Phi_S at 0.168: 28 are left when 22 of 50 have their owners.
  CHECK(moves_to(50, 28) == 1);
  CHECK(moves_to(50, 29) == 0);
  // Filling a stranded worker: 9 free, 5 and one to grow for each of two sequences, and what waits.
  CHECK(moves_to(9, 0) == 1);
  CHECK(moves_to(9, 2) == 1);
  CHECK(moves_to(9, 3) == 0);
  // A queue alone makes no source: nothing is stranded.
  cluster c;
  c.add(100, 10, {50, 30});
  c.workers[0].queued = blocks{90};
  c.add(1000, 10, {});
  CHECK(plan(c).empty());
}

TEST_CASE("defragmenter: any threshold above 0 is the same, because what is stranded counts as used") {
  std::mt19937_64 random{4};
  std::size_t planned = 0;
  for (int round = 0; round != 500; ++round) {
    const cluster c = random_cluster(random, 2 + random() % 6, 1 + random() % 10, 100);
    const auto moves = plan(c, {.threshold = 0.168, .floor = 0.9});
    CHECK(moves == plan(c, {.threshold = 5e-324, .floor = 0.9}));
    CHECK(moves == plan(c, {.threshold = 0.9, .floor = 0.9}));
    planned += moves.size();
  }
  CHECK(planned > 100);
}

TEST_CASE("defragmenter: a worker that is changing its role is left alone") {
  for (const std::size_t changing : {std::size_t{0}, std::size_t{1}}) {
    cluster c;
    c.add(100, 20, {12, 30, 50});
    c.add(100, 20, {});
    CHECK(plan(c).size() == 1);
    c.workers[changing].changing = true;
    CHECK(plan(c).empty());
  }
}

TEST_CASE("defragmenter: stranded blocks elsewhere are filled, if that is wanted") {
  cluster c;
  c.add(100, 20, {14, 71});  // 15 free, lacks 5
  c.add(100, 20, {84});      // 16 free, all stranded: takes 14 and keeps 2 to grow
  c.add(100, 20, {20});      // 80 free
  const auto filled = plan(c);
  REQUIRE(filled.size() == 1);
  CHECK(filled[0].to == 1);
  fixture f;
  CHECK(f.meso.plan(c.workers).size() == 1);
  CHECK(f.meso.freed() == blocks{15 + 14});
  const auto open = plan(c, {.fill = false});
  REQUIRE(open.size() == 1);
  CHECK(open[0].to == 2);
}

TEST_CASE("defragmenter: blocks that are leaving already count, so that an epoch does not repeat the last") {
  cluster c;
  c.add(100, 20, {12, 30, 50});
  c.add(100, 20, {});
  const auto first = plan(c);
  REQUIRE(first.size() == 1);
  // On its way: it may not be moved again, its room is promised at the target, its blocks are still in use.
  c.held[0].erase(c.held[0].begin());
  c.workers[0].leaving = blocks{12};
  c.workers[1].free -= blocks{12};
  c.link();
  CHECK(plan(c).empty());
}

TEST_CASE("defragmenter: the most freed per byte first; the bounds of an epoch") {
  cluster c;
  c.add(100, 20, {15, 83});  // 2 free, 18 lacking: only the 83 suffices
  c.add(100, 20, {15, 67});  // 18 free for 15
  c.add(100, 20, {15, 75});  // 10 free for 15
  for (int i = 0; i != 3; ++i) c.add(1000, 20, {});
  const defragmenter::settings open{.fill = false};
  const auto all = plan(c, open);
  REQUIRE(all.size() == 3);
  CHECK(all[0].from == 1);
  CHECK(all[1].from == 2);
  CHECK(all[2].from == 0);
  CHECK(plan(c, open, {.moves = 2}).size() == 2);
  CHECK(plan(c, open, {.moves = 0}).empty());
  CHECK(plan(c, open, {.sources = 1}).size() == 1);
  CHECK(plan(c, open, {.targets = 0}).empty());
  CHECK(plan(c, {.fill = false, .most_bytes = bytes{30 * block_bytes}}).size() == 2);
  CHECK(plan(c, {.fill = false, .most_bytes = bytes{29 * block_bytes}}).size() == 1);
  CHECK(plan(c, {.fill = false, .least_return = 0.5}).size() == 2);
  // Only the first sequence of each source is looked at.
  CHECK(plan(c, open, {.sequences = 1}).size() == 2);
  fixture f{{}, open};
  CHECK(f.meso.plan(c.workers, 1).size() == 2);
}

// --- properties -----------------------------------------------------------------------------------------------------

TEST_CASE("defragmenter: no target is stranded or overloaded, no bound exceeded, every batch frees blocks") {
  std::mt19937_64 random{1};
  std::size_t planned = 0;
  std::size_t filled = 0;
  for (int round = 0; round != 4000; ++round) {
    cluster c =
        random_cluster(random, 2 + random() % 12, 1 + random() % 20, 20 + static_cast<std::int64_t>(random() % 300));
    const defragmenter::limits l{.moves = random() % 12,
                                 .sources = 1 + random() % 6,
                                 .targets = 1 + random() % 6,
                                 .pieces = 1 + random() % 5,
                                 .sequences = 1 + random() % 25};
    defragmenter::settings s{.threshold = static_cast<double>(random() % 40) / 100};
    s.floor = s.threshold + static_cast<double>(random() % 20) / 100;
    s.growth = blocks{static_cast<std::int64_t>(random() % 3)};
    s.fill = random() % 3 != 0;
    if (random() % 2 == 0) s.most_bytes = bytes{static_cast<std::int64_t>(random() % 200) * block_bytes};
    const auto excluded = static_cast<std::uint32_t>(random() % 16);
    const cluster before = c;

    fixture f{l, s};
    const tessera_test::no_allocation guard;
    const auto moves = f.meso.plan(c.workers, excluded);
    REQUIRE(guard.allocations() == 0);
    // A pure function: again the same.
    const std::vector<move> copy(moves.begin(), moves.end());
    const auto again = f.meso.plan(c.workers, excluded);
    REQUIRE(std::equal(copy.begin(), copy.end(), again.begin(), again.end()));

    REQUIRE(copy.size() <= l.moves);
    std::map<std::uint32_t, std::size_t> from;
    std::set<std::uint32_t> to;
    bytes sent{};
    for (const move& m : copy) {
      REQUIRE(m.from != m.to);
      ++from[m.from];
      to.insert(m.to);
      sent += m.size;
      c.apply(m);
    }
    REQUIRE(sent <= s.most_bytes);
    REQUIRE(from.size() <= l.sources);
    for (const auto& [i, pieces] : from) {
      const worker& was = before.workers[i];
      REQUIRE(pieces <= l.pieces);
      REQUIRE(to.count(i) == 0);
      REQUIRE(i != excluded);
      REQUIRE((was.role == role::decode && was.available && !was.changing));
      REQUIRE(space_phi(was) < s.threshold);
      REQUIRE(stranded(was) > blocks{});
      REQUIRE(stranded(c.workers[i]) == blocks{});
    }
    for (const std::uint32_t i : to) {
      const worker& was = before.workers[i];
      const worker& is = c.workers[i];
      REQUIRE(i != excluded);
      REQUIRE((was.role == role::decode && was.available && !was.changing));
      REQUIRE(is.free - is.queued >= s.growth * static_cast<std::int64_t>(is.sequences_held));
      if (was.free < was.demand) {
        REQUIRE(s.fill);
        REQUIRE(is.free >= blocks{});
        ++filled;
      } else {
        REQUIRE(stranded(is) == blocks{});
        REQUIRE(space_phi(is) >= s.floor - 1e-12);
      }
    }
    REQUIRE(before.all_stranded() - c.all_stranded() == f.meso.freed());
    if (!copy.empty()) REQUIRE(f.meso.freed() >= blocks{static_cast<std::int64_t>(from.size())});
    planned += copy.size();
  }
  CHECK(planned > 1000);
  CHECK(filled > 100);
}

TEST_CASE("defragmenter: on a cluster that stands still, epochs come to an end, and stranded blocks only fall") {
  std::mt19937_64 random{2};
  std::int64_t before_all = 0;
  std::int64_t after_all = 0;
  for (int round = 0; round != 300; ++round) {
    cluster c = random_cluster(random, 3 + random() % 10, 30, 200, false);
    const std::int64_t first = c.all_stranded().count();
    before_all += first;
    fixture f;
    int epochs = 0;
    for (;; ++epochs) {
      REQUIRE(epochs <= first);
      const blocks before = c.all_stranded();
      const auto moves = f.meso.plan(c.workers);
      if (moves.empty()) break;
      for (const move& m : std::vector<move>(moves.begin(), moves.end())) c.apply(m);
      REQUIRE(c.all_stranded() < before);
    }
    after_all += c.all_stranded().count();
  }
  CHECK(after_all < before_all);
}

// --- exhaustive search ----------------------------------------------------------------------------------------------

/// The least bytes with which one source can be relieved, over all sets of its sequences and all ways to place them.
/// And the most that one plan for the whole cluster frees, over all plans that keep the rules. Sequences may go from
/// any source, all that a source needs or none, to targets that are no sources in the plan.
struct optimum {
  double worth = -1;       ///< Blocks freed per byte by the best single batch.
  std::int64_t freed = 0;  ///< Blocks freed by the best plan.
};

optimum exhaustive(const cluster& start, const defragmenter::settings& s) {
  struct item {
    std::uint32_t from;
    sequence what;
  };
  std::vector<item> items;
  const auto is_source = [&](std::uint32_t i) {
    const worker& w = start.workers[i];
    return stranded(w) > blocks{} && space_phi(w) < s.threshold;
  };
  for (std::uint32_t i = 0; i != start.workers.size(); ++i) {
    if (!is_source(i)) continue;
    for (const sequence& q : start.held[i]) items.push_back({i, q});
  }
  const std::size_t n = start.workers.size();
  optimum best;
  std::vector<std::int64_t> free(n), held(n), gives(n), takes(n);
  for (std::size_t i = 0; i != n; ++i) {
    free[i] = start.workers[i].free.count();
    held[i] = static_cast<std::int64_t>(start.workers[i].sequences_held);
  }
  const auto lost = [&](std::size_t i) { return free[i] < start.workers[i].demand.count() ? free[i] : 0; };
  const auto value = [&](std::int64_t sent) {
    std::int64_t gain = 0;
    int sources = 0;
    for (std::size_t i = 0; i != n; ++i) {
      const worker& w = start.workers[i];
      if (gives[i] != 0 && takes[i] != 0) return;
      if (gives[i] != 0) {
        ++sources;
        if (lost(i) != 0) return;
      }
      if (takes[i] != 0) {
        if (free[i] < s.growth.count() * held[i]) return;
        if (w.free < w.demand) {
          if (!s.fill) return;
        } else {
          if (lost(i) != 0) return;
          if (static_cast<double>(free[i]) < s.floor * static_cast<double>(w.total.count())) return;
        }
      }
      gain += stranded(w).count() - lost(i);
    }
    if (sources == 0) return;
    best.freed = std::max(best.freed, gain);
    if (sources == 1) best.worth = std::max(best.worth, static_cast<double>(gain) / static_cast<double>(sent));
  };
  const std::function<void(std::size_t, std::int64_t)> search = [&](std::size_t k, std::int64_t sent) {
    if (k == items.size()) {
      value(sent);
      return;
    }
    search(k + 1, sent);
    const item& it = items[k];
    const std::int64_t size = it.what.held.count();
    for (std::size_t t = 0; t != n; ++t) {
      if (t == it.from) continue;
      free[it.from] += size, --held[it.from], ++gives[it.from];
      free[t] -= size, ++held[t], ++takes[t];
      if (free[t] >= 0) search(k + 1, sent + it.what.size.count());
      free[it.from] -= size, ++held[it.from], --gives[it.from];
      free[t] += size, --held[t], --takes[t];
    }
  };
  search(0, 0);
  return best;
}

TEST_CASE("defragmenter: how far from the best plan, by exhaustive search") {
  std::mt19937_64 random{3};
  const defragmenter::limits l{.moves = 64, .sources = 8, .targets = 8, .pieces = 8};
  for (const bool fill : {false, true}) {
    const defragmenter::settings s{.growth = blocks{0}, .fill = fill};
    double worth_sum = 0, worth_worst = 1, freed_sum = 0, freed_best = 0, freed_worst = 1;
    int cases = 0, missed = 0, exact_worth = 0, exact_freed = 0;
    for (int round = 0; round != 3000 || cases < 300; ++round) {
      cluster c = random_cluster(random, 2 + random() % 3, 1 + random() % 5, 40, false);
      std::size_t items = 0;
      for (std::size_t i = 0; i != c.workers.size(); ++i) {
        if (stranded(c.workers[i]) > blocks{}) items += c.held[i].size();
      }
      if (items > 8) continue;
      const optimum best = exhaustive(c, s);
      fixture f{l, s};
      const auto moves = f.meso.plan(c.workers);
      const std::int64_t freed = f.meso.freed().count();
      REQUIRE(freed <= best.freed);
      if (best.freed == 0) continue;
      ++cases;
      freed_sum += static_cast<double>(freed);
      freed_best += static_cast<double>(best.freed);
      freed_worst = std::min(freed_worst, static_cast<double>(freed) / static_cast<double>(best.freed));
      exact_freed += freed == best.freed;
      if (moves.empty()) {
        ++missed;
        continue;
      }
      // The first batch is the one of the greatest worth.
      std::int64_t sent = 0;
      for (const move& m : moves) {
        if (m.from != moves[0].from) break;
        sent += m.size.count();
        c.apply(m);
      }
      const std::int64_t gain = [&] {
        // Recomputed from the cluster, not taken from the controller.
        cluster undone = c;
        std::int64_t now = c.all_stranded().count();
        for (const move& m : moves) {
          if (m.from != moves[0].from) break;
          undone.apply({m.sequence, m.to, m.from, m.held, m.size});
        }
        return undone.all_stranded().count() - now;
      }();
      const double worth = static_cast<double>(gain) / static_cast<double>(sent);
      REQUIRE(worth <= best.worth * (1 + 1e-12));
      worth_sum += worth / best.worth;
      worth_worst = std::min(worth_worst, worth / best.worth);
      exact_worth += worth >= best.worth * (1 - 1e-12);
    }
    const int found = cases - missed;
    INFO((fill ? "filling" : "not filling")
         << ": " << cases << " clusters; first batch: mean " << worth_sum / found << " of the best worth, worst "
         << worth_worst << ", exact in " << exact_worth << "; plan: " << freed_sum / freed_best
         << " of the best blocks freed, worst " << freed_worst << ", exact in " << exact_freed << "; nothing found in "
         << missed);
    CHECK(worth_sum / found > 0.98);
    CHECK(freed_sum / freed_best > (fill ? 0.85 : 0.98));
  }
}

// --- one epoch of both
// ------------------------------------------------------------------------------------------------

TEST_CASE("phasor: an epoch has the role change and the moves, and moves nothing of a worker that changes") {
  cluster c;
  c.add(100, 20, {30, 9, 12, 41});
  c.add(100, 20, {}, role::decode);
  c.add(100, 20, {}, role::prefill);
  c.workers[1].elastic = true;
  c.workers[2].time_phi = -1;
  auto storage = storage_for<control::phasor>({.workers = 3});
  arena memory{storage.memory()};
  control::phasor both{memory, storage.limits()};
  // Freeness of the decode workers is 0 and 1. Without worker 1 it would be 0, still above the -1 of prefill.
  const auto a = both.epoch(c.workers);
  CHECK(a.means.prefill == -1);
  CHECK(a.means.decode == approx(0.5));
  CHECK(both.flow().epochs() == 1);
  CHECK(a.change == role_change{1, role::decode, role::prefill});
  CHECK(a.moves.empty());
  // In the cool-down: now the moves come.
  const auto b = both.epoch(c.workers);
  CHECK_FALSE(b.change);
  REQUIRE(b.moves.size() == 1);
  CHECK(b.moves[0].to == 1);
  CHECK(both.defragment().freed() == blocks{8});
}

}  // namespace
