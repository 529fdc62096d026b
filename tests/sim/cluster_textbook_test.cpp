// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Random runs of a cluster: what must hold of them, and that FCFS is what a textbook simulates.

#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/report/report.hpp>

#include "sim/cluster_runs.hpp"
#include "sim/toy_profile.hpp"
#include "support/catch.hpp"
#include "support/round_robin.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using sim::cluster_of;
using sim::cluster_options;
using sim::request;
using sim::request_record;
using sim::run_result;
using sim::step_shape;
using sim::trace_row;
using tessera_test::approx;
using tessera_test::toy_cluster;
using tessera_test::cluster_runs::check_invariants;
using tessera_test::cluster_runs::random_rows;
using tessera_test::cluster_runs::simulate;

/// Runs the rows twice and compares all that is not wall time, to the last bit.
template <class Scheduler, class Placement = placement::least_load, class Migration = placement::stay>
run_result check_run(const cluster_options& o, const std::vector<trace_row>& rows,
                     const typename Scheduler::config& config = {}) {
  std::vector<std::size_t> ended;
  cluster_of<Scheduler, sim::placed<Placement, Migration>> first{o, config};
  // It is also told now and then that nothing has ended.
  const run_result result = first.run(rows, [&](std::size_t n) {
    if (n != ended.size()) ended.push_back(n);
  });
  check_invariants(result, rows);
  CHECK(ended.size() == result.numbers.completed);
  for (std::size_t i = 0; i < ended.size(); ++i) CHECK(ended[i] == i + 1);
  const run_result again = simulate<Scheduler, Placement, Migration>(o, rows, config);
  CHECK(sim::format_csv(again) == sim::format_csv(result));
  CHECK(again.numbers.fragmentation_mean == result.numbers.fragmentation_mean);
  CHECK(again.timeline.size() == result.timeline.size());
  for (std::size_t i = 0; i < std::min(again.timeline.size(), result.timeline.size()); ++i) {
    CHECK(again.timeline[i].kv_used == result.timeline[i].kv_used);
  }
  return result;
}

TEST_CASE("cluster: invariants of random runs, roomy and starved, and they repeat exactly") {
  const sim::profile& h100 = sim::profiles().front();
  std::uint64_t preempted = 0;
  std::uint64_t migrated = 0;
  std::uint64_t rejected = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const auto rows = random_rows(seed, 120, seed % 2 == 0 ? 0.05 : 0.4);
    for (const std::size_t blocks : {std::size_t{12}, std::size_t{20}, std::size_t{400}}) {
      for (const std::size_t host : {std::size_t{0}, std::size_t{9}, std::size_t{1000}}) {
        auto options = toy_cluster(1 + seed % 3, blocks, h100);
        options.instance.limits.host_blocks = host;
        options.instance.step = {.max_batch = 16, .token_budget = tokens{100}};
        CAPTURE(seed, blocks, host);
        preempted += check_run<fcfs<request>>(options, rows).numbers.preemptions;
        preempted += check_run<round_robin<request>>(options, rows, {.quantum = tokens{10}}).numbers.preemptions;
        using pascal_ = pascal<request>;
        const pascal_::config config{.quantum = tokens{10}, .demote_above = tokens{80}};
        options.kv_bytes_per_token = 262144;
        options.fabric_bytes_per_s = 50e6;  // slow, so that transfers overlap steps
        preempted += check_run<pascal_>(options, rows, config).numbers.preemptions;
        const auto always =
            check_run<pascal_, placement::pascal_arrival, placement::pascal_migrate_always>(options, rows, config);
        const auto adaptive =
            check_run<pascal_, placement::pascal_arrival, placement::pascal_migrate_adaptively>(options, rows, config);
        migrated += always.numbers.migrations + adaptive.numbers.migrations;
        rejected += always.numbers.rejected;
      }
    }
  }
  CHECK(preempted > 1000);
  CHECK(migrated > 100);
  CHECK(rejected > 10);
}

// -- a textbook simulation ------------------------------------------------------------------------------------------

/// First come, first served with swapping, on several instances, in its plainest form: vectors that are searched,
/// blocks that are counted, no scheduler.
class textbook {
 public:
  struct job {
    std::size_t id;
    std::int64_t prompt, output;
    double arrival;
    std::int64_t length = 0, computed = 0, held = 0, on_host = 0;
    bool resident = false, swapped = false, restarted = false, done = false;
    double finish = -1, executed = 0, preempted = 0, lost_at = -1;
    std::uint32_t preemptions = 0;
    std::size_t where = 0;
  };

  textbook(const cluster_options& o, const std::vector<trace_row>& rows) : o_{o}, busy_until_(o.instances, -1) {
    entries_.resize(o.instances);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      jobs_.push_back(
          {.id = i, .prompt = rows[i].prompt_tokens, .output = rows[i].output_tokens, .arrival = rows[i].arrival_s});
    }
  }

  std::vector<job> run() {
    std::size_t next = 0;
    while (true) {
      double at = next < jobs_.size() ? jobs_[next].arrival : std::numeric_limits<double>::infinity();
      std::size_t who = o_.instances;
      for (std::size_t i = 0; i < o_.instances; ++i) {
        if (busy_until_[i] >= 0 && busy_until_[i] < at) {
          at = busy_until_[i];
          who = i;
        }
      }
      if (at == std::numeric_limits<double>::infinity()) return jobs_;
      if (who == o_.instances) {
        arrive(jobs_[next++]);
      } else {
        end(who);
        begin(who, at);
      }
    }
  }

 private:
  struct entry {
    std::size_t id;
    std::int64_t first, count;
  };

  [[nodiscard]] std::int64_t blocks_of(std::int64_t length) const {
    const std::int64_t size = o_.instance.limits.block_size.count();
    return (length + size - 1) / size;
  }
  [[nodiscard]] std::int64_t capacity() const { return static_cast<std::int64_t>(o_.instance.limits.blocks); }

  template <class F>
  void here(std::size_t i, F f) {
    for (std::size_t k = 0; k < arrived_; ++k) {
      if (jobs_[k].where == i && !jobs_[k].done) f(jobs_[k]);
    }
  }
  std::int64_t free(std::size_t i) {
    std::int64_t n = capacity();
    here(i, [&](const job& j) { n -= j.held; });
    return n;
  }

  void arrive(job& j) {
    ++arrived_;
    j.done = true;  // not here yet
    std::vector<std::size_t> best;
    std::pair<std::int64_t, int> least{std::numeric_limits<std::int64_t>::max(), 0};
    for (std::size_t i = 0; i < o_.instances; ++i) {
      std::pair<std::int64_t, int> load{0, 0};
      std::int64_t needed = 0;
      here(i, [&](const job& other) {
        // What comes back from the host in the step under way is held once.
        load.first += other.resident ? other.held : other.on_host;
        needed += blocks_of(other.length);
        ++load.second;
      });
      load.first = std::max(load.first, needed);
      if (load < least) best.clear();
      least = std::min(least, load);
      if (load == least) best.push_back(i);
    }
    j.where = tessera_test::round_robin(best, turn_);
    if (blocks_of(j.prompt + j.output - 1) > capacity()) return;
    j.done = false;
    j.length = j.prompt;
    if (busy_until_[j.where] < 0) begin(j.where, j.arrival);
  }

  void begin(std::size_t i, double now) {
    std::vector<job*> residents, waiting;
    here(i, [&](job& j) { (j.resident ? residents : waiting).push_back(&j); });
    // A request that had to begin again goes first until it has a token.
    std::stable_partition(residents.begin(), residents.end(), [](const job* j) { return j->restarted; });
    std::size_t batch = std::min(o_.instance.step.max_batch, o_.instance.limits.residents);
    std::int64_t budget = o_.instance.step.token_budget.count();
    std::vector<entry>& step = entries_[i];
    step.clear();
    step_shape shape;
    std::int64_t out = 0, in = 0;
    const auto chunk = [&](const job& j, std::size_t behind) {
      const std::int64_t left = j.length - j.computed;
      if (left == 1) return left;
      const auto others = static_cast<std::int64_t>(std::min(behind, batch - step.size() - 1));
      return std::min(left, std::max<std::int64_t>(budget - others, 1));
    };
    const auto schedule = [&](job& j, std::int64_t count) {
      if (j.length - j.computed == 1) {
        shape.add_decode(tokens{j.length});
      } else {
        shape.add_prefill(tokens{j.computed}, tokens{count});
      }
      step.push_back({j.id, j.computed, count});
      budget -= count;
      if (j.lost_at >= 0) j.preempted += now - j.lost_at;
      j.lost_at = -1;
    };
    const auto full = [&] { return step.size() >= batch || budget <= 0; };
    bool starts = true;
    std::size_t victim_id = jobs_.size();  // what it leaves over is not for requests that came after it
    // Those at the end give way to number `k`, if that is enough.
    const auto make_free = [&](std::int64_t n, std::size_t k) {
      std::int64_t most = free(i);
      for (std::size_t v = k + 1; v < residents.size(); ++v) most += residents[v]->held;
      if (most < n) return false;
      while (free(i) < n) {
        job& victim = *residents.back();
        residents.pop_back();
        const std::int64_t written = blocks_of(victim.computed);
        std::int64_t host_free = static_cast<std::int64_t>(o_.instance.limits.host_blocks);
        here(i, [&](const job& other) { host_free -= other.on_host; });
        victim.swapped = written > 0 && written <= host_free;
        if (victim.swapped) {
          victim.on_host = written;
          out += written;
        } else {
          victim.computed = 0;
          victim.restarted = true;
        }
        victim.held = 0;
        victim.resident = false;
        ++victim.preemptions;
        victim.lost_at = now;
        victim_id = victim.id;
      }
      return true;
    };
    std::int64_t promised = 0;  // to requests that compute their prompts: what they have not got yet
    const std::int64_t size = o_.instance.limits.block_size.count();
    for (std::size_t k = 0; k < residents.size() && !full(); ++k) {
      job& j = *residents[k];
      std::int64_t count = chunk(j, residents.size() - k - 1);
      std::int64_t more = blocks_of(j.computed + count) - j.held;
      if (more > 0 && !make_free(more, k)) {
        // A part of it then, if there is a block for that.
        if (free(i) == 0 && j.computed == j.held * size) make_free(1, k);
        more = std::min(more, free(i));
        count = std::min(count, (j.held + more) * size - j.computed);
        if (count <= 0) {
          starts = false;
          continue;
        }
      }
      j.held += std::max<std::int64_t>(more, 0);
      if (j.length - j.computed != 1) promised += std::max<std::int64_t>(blocks_of(j.length) - j.held, 0);
      schedule(j, count);
    }
    std::size_t present = residents.size();
    for (std::size_t k = 0; starts && k < waiting.size() && !full(); ++k) {
      job& j = *waiting[k];
      const std::int64_t left_over = free(i) - promised - blocks_of(j.length);
      const bool room =
          left_over >= 0 && (present == 0 || static_cast<double>(left_over) >= 0.01 * static_cast<double>(capacity()));
      if (!room || present >= o_.instance.limits.residents || j.id > victim_id) break;
      ++present;
      const std::int64_t count = chunk(j, 0);
      j.held = blocks_of(j.restarted ? j.length : j.computed + count);
      promised += blocks_of(j.length) - j.held;
      j.resident = true;
      if (j.swapped) in += j.on_host;  // the host's copy is given up when the step is over
      j.swapped = false;
      schedule(j, count);
    }
    busy_until_[i] = -1;
    if (step.empty()) return;
    const double copies = static_cast<double>(std::max(out, in)) * o_.instance.swap_seconds_per_block;
    started_[i] = now;
    busy_until_[i] = now + copies + o_.instance.timer(shape);
  }

  void end(std::size_t i) {
    for (const entry& e : entries_[i]) {
      job& j = jobs_[e.id];
      j.executed += busy_until_[i] - started_[i];
      j.computed = e.first + e.count;
      j.on_host = 0;
      if (j.computed < j.length) continue;
      ++j.length;
      j.restarted = false;
      if (j.length - j.prompt < j.output) continue;
      j.done = true;
      j.resident = false;
      j.held = 0;
      j.finish = busy_until_[i];
    }
  }

  cluster_options o_;
  std::vector<job> jobs_;
  std::size_t arrived_ = 0;
  std::size_t turn_ = 0;
  std::vector<double> busy_until_;
  std::map<std::size_t, double> started_;
  std::vector<std::vector<entry>> entries_;
};

TEST_CASE("cluster: FCFS as a textbook simulates it") {
  const sim::profile& h100 = sim::profiles().front();
  std::uint64_t preempted = 0;
  std::uint64_t waited = 0;
  for (std::uint64_t seed = 101; seed <= 112; ++seed) {
    std::mt19937_64 random{seed};
    const auto rows = random_rows(seed, 100, seed % 2 == 0 ? 0.05 : 0.3);
    for (const std::size_t blocks : {std::size_t{15}, std::size_t{30}, std::size_t{1000}}) {
      auto options = toy_cluster(1 + random() % 3, blocks, h100);
      options.instance.limits.host_blocks = std::vector<std::size_t>{0, 12, 500}[random() % 3];
      options.instance.limits.residents = 4 + random() % 20;
      options.instance.step = {.max_batch = 4 + random() % 20,
                               .token_budget = tokens{20 + static_cast<std::int64_t>(random() % 200)}};
      options.instance.swap_seconds_per_block = 0.003;
      CAPTURE(seed, blocks, options.instances, options.instance.limits.host_blocks);
      const run_result result = simulate<fcfs<request>>(options, rows);
      check_invariants(result, rows);
      const auto want = textbook{options, rows}.run();
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const request_record& r = result.requests[i];
        CAPTURE(i);
        REQUIRE(r.rejected == (want[i].finish < 0));
        REQUIRE(r.instance == want[i].where);
        if (r.rejected) continue;
        REQUIRE(r.finish == approx(want[i].finish).epsilon(1e-12));
        CHECK(r.executed == approx(want[i].executed).epsilon(1e-9));
        CHECK(r.preempted == approx(want[i].preempted).epsilon(1e-9).margin(1e-9));
        CHECK(r.preemptions == want[i].preemptions);
        preempted += r.preemptions;
        waited += r.blocked > 0.01 ? 1U : 0U;
      }
    }
  }
  CHECK(preempted > 100);
  CHECK(waited > 100);
}

}  // namespace
