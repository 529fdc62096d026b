// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <benchmark/benchmark.h>

#include <tessera/admit/future_peak.hpp>
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/round_robin.hpp>
#include <tessera/gate/adapter_slots.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>
#include <tessera/preempt/recompute.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

// One scheduling step: plan (block tables included) and commit. Closed loop: a request that finishes is submitted
// again, so that as many wait as at the start. Prompts of 1024 tokens, outputs of 128 to 256. What is measured is the
// sum of the two calls; submitting and what an engine does in between is not. Counters: nanoseconds per step. With
// several plans in flight, a step is a plan and the settlement of the oldest.

namespace {

using namespace tessera;
using namespace tessera::literals;

constexpr std::size_t prompt_tokens = 1024;

/// With room for what its order keeps about it, and no more.
template <class... Order>
struct request_for : request_hook_for<Order...> {
  std::span<const std::uint64_t> hashes;
  tokens output{};
  tokens reasoning{};
  std::uint32_t adapter = 0;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};

/// For a model with groups of layers: the first two have blocks of the same size, the third may have larger ones.
template <class... Order>
struct grouped_request_for : request_for<Order...> {
  std::span<const std::uint64_t> hashes_of_third;
  [[nodiscard]] std::array<std::span<const std::uint64_t>, 3> prefix_hashes() const noexcept {
    return {this->hashes, this->hashes, hashes_of_third};
  }
};

/// Another thread, so that nothing profits from a program with only one.
class bystander {
 public:
  ~bystander() {
    {
      const std::lock_guard lock{mutex_};
      done_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_{[this] {
    std::unique_lock lock{mutex_};
    wake_.wait(lock, [this] { return done_; });
  }};
};

/// Hashes of prompts: the first half is common to one in sixteen, the second half is the prompt's own.
class prompts {
 public:
  explicit prompts(std::size_t block_size) : blocks_{prompt_tokens / block_size}, hash_(count * blocks_) {
    for (std::size_t i = 0; i != count; ++i) {
      for (std::size_t b = 0; b != blocks_; ++b) {
        const std::uint64_t owner = b < blocks_ / 2 ? i % 16 : 16 + i;
        hash_[i * blocks_ + b] = (owner * blocks_ + b + 1) * 0x9e37'79b9'7f4a'7c15ULL;
      }
    }
  }
  [[nodiscard]] std::span<const std::uint64_t> operator[](std::size_t i) const {
    return {hash_.data() + i % count * blocks_, blocks_};
  }

 private:
  static constexpr std::size_t count = 32'768;  // more than any pool here caches
  std::size_t blocks_;
  std::vector<std::uint64_t> hash_;
};

struct setting {
  std::size_t blocks = 25'600;
  std::size_t block_size = 16;
  std::size_t batch = 256;
  std::size_t waiting = 1000;
  tokens token_budget = step_limits{}.token_budget;
  std::size_t plans_in_flight = 1;
  std::size_t skipped = 0;  ///< So many stand first, and the gate never lets them start.
  /// True: three groups of full attention, a recurrent state and another, all with blocks of the same size. False: full
  /// attention, a window of 512 tokens, and a recurrent state with blocks four times as large.
  bool two_states = false;
};

template <class Scheduler>
class closed_loop {
  using request = typename Scheduler::request_type;
  using limits = typename Scheduler::limits;
  static constexpr bool has_groups = !std::is_same_v<limits, scheduler_limits>;

  static limits limits_of(const setting& s) {
    limits l{};
    l.requests = s.waiting + s.batch + s.skipped;
    l.blocks = s.blocks;
    l.block_size = tokens{static_cast<std::int64_t>(s.block_size)};
    l.residents = s.batch;
    l.host_blocks = has_groups ? 0 : s.blocks;
    l.max_length = 2048_tok;
    l.plans_in_flight = s.plans_in_flight;
    if constexpr (has_groups) {
      const tokens b = l.block_size;
      l.layers = s.two_states ? decltype(l.layers){kv::group::full(b), kv::group::recurrent(b), kv::group::recurrent(b)}
                              : decltype(l.layers){kv::group::full(b), kv::group::sliding(b, 512_tok),
                                                   kv::group::recurrent(b * 4)};
    }
    return l;
  }
  /// A skipped request is skipped in each step, however often that was.
  static typename Scheduler::config config_of() {
    typename Scheduler::config c{};
    if constexpr (requires { c.gate.most_overtaken; }) c.gate.most_overtaken = ~std::size_t{0};
    return c;
  }

 public:
  explicit closed_loop(const setting& s)
      : limits_{limits_of(s)},
        prompts_{s.block_size},
        prompts_of_third_{s.two_states ? s.block_size : 4 * s.block_size},
        requests_(s.waiting + s.batch),
        skipped_(s.skipped),
        storage_{storage_for<Scheduler>(limits_)},
        scheduler_{storage_, config_of()} {
    for (request& r : requests_) {
      r.adapter = static_cast<std::uint32_t>(1 + (&r - requests_.data()) % 8);
      submit(r);
    }
    step_.max_batch = s.batch;
    step_.token_budget = s.token_budget;
    outcomes_.reserve(s.batch);
    // Until lengths are mixed, and all blocks have been used.
    for (std::size_t i = 0; i != 3000 + s.blocks * 16 / s.batch; ++i) static_cast<void>(step());
    for (request& r : skipped_) {
      r.priority = 1;
      r.adapter = static_cast<std::uint32_t>(100 + (&r - skipped_.data()));
      submit(r);
    }
  }

  /// Nanoseconds of plan and commit.
  double step() {
    using clock = std::chrono::steady_clock;
    const auto t0 = clock::now();
    plans_.push_back(scheduler_.plan(now_, step_));
    const auto t1 = clock::now();
    running_ += plans_.back().size();
    evicted_ += plans_.back().preempted.size();
    is_quiet_ = plans_.back().prefill.empty();
    double took = std::chrono::duration<double, std::nano>{t1 - t0}.count();
    if (plans_.size() == limits_.plans_in_flight) {
      const auto plan = plans_.front();
      plans_.pop_front();
      outcomes_.clear();
      for (std::size_t i = 0; i != plan.size(); ++i) {
        const scheduled<request>& e = plan[i];
        if (e.request->state().ends_as != lifecycle::idle) {  // planned before it was known
          outcomes_.push_back({});
          continue;
        }
        const tokens generated = e.request->generated() + 1_tok;
        const bool done = e.samples && generated == e.request->output;
        if (done) finished_.push_back(e.request), is_quiet_ = false;
        outcomes_.push_back({.end_of_reasoning = e.samples && generated == e.request->reasoning, .finished = done});
      }
      const auto t2 = clock::now();
      scheduler_.commit(plan, outcomes_, now_);
      const auto t3 = clock::now();
      took += std::chrono::duration<double, std::nano>{t3 - t2}.count();
      std::erase_if(finished_, [this](request* r) {
        if (is_live(r->state().life)) return false;  // a plan in flight has it
        submit(*r);
        return true;
      });
    }
    now_ += 0.03_s;
    return took;
  }

  void measure(benchmark::State& state) {
    std::vector<float> took;
    std::vector<float> quiet;  // of steps in which no request starts or ends
    took.reserve(1 << 22);
    quiet.reserve(1 << 22);
    running_ = 0;
    evicted_ = 0;
    double free = 0;
    for (auto _ : state) {
      const double ns = step();
      took.push_back(static_cast<float>(ns));
      if (is_quiet_) quiet.push_back(static_cast<float>(ns));
      free += static_cast<double>(scheduler_.store().free());
      state.SetIterationTime(ns * 1e-9);
    }
    std::sort(took.begin(), took.end());
    std::sort(quiet.begin(), quiet.end());
    double sum = 0;
    for (const float t : took) sum += static_cast<double>(t);
    const auto quantile = [&](double q) {
      return static_cast<double>(took[static_cast<std::size_t>(q * static_cast<double>(took.size() - 1))]);
    };
    const auto steps = static_cast<double>(took.size());
    state.counters["mean_ns"] = sum / steps;
    state.counters["p50_ns"] = quantile(0.5);
    state.counters["p99_ns"] = quantile(0.99);
    state.counters["max_ns"] = quantile(1.0);
    if (!quiet.empty()) state.counters["quiet_p50_ns"] = static_cast<double>(quiet[quiet.size() / 2]);
    state.counters["running"] = static_cast<double>(running_) / steps;
    state.counters["waiting"] = static_cast<double>(scheduler_.waiting_count());
    state.counters["free_blocks"] = free / steps;
    if constexpr (requires { scheduler_.store().cached(); }) {
      state.counters["cached_blocks"] = static_cast<double>(scheduler_.store().cached());
    }
    state.counters["evicted_per_step"] = static_cast<double>(evicted_) / steps;
  }

 private:
  void submit(request& r) {
    if constexpr (has_groups) r.hashes_of_third = prompts_of_third_[submitted_];
    r.hashes = prompts_[submitted_++];
    r.prompt = tokens{static_cast<std::int64_t>(prompt_tokens)};
    r.output = tokens{128 + static_cast<std::int64_t>(random_() % 129)};
    r.reasoning = r.output / 2;
    r.max_output = 256_tok;
    if (scheduler_.submit(r, now_) != status::accepted) std::abort();
  }

  bystander other_;
  limits limits_;
  prompts prompts_;
  prompts prompts_of_third_;
  std::vector<request> requests_;
  std::vector<request> skipped_;
  owned_storage<limits> storage_;
  Scheduler scheduler_;
  step_limits step_{};
  std::vector<outcome> outcomes_;
  std::vector<request*> finished_;
  std::deque<typename Scheduler::plan_type> plans_;
  std::mt19937 random_{1};
  std::size_t submitted_ = 0;
  std::size_t running_ = 0;
  std::size_t evicted_ = 0;
  bool is_quiet_ = false;  ///< The latest step.
  time_point now_{};
};

template <class Scheduler>
void step(benchmark::State& state, const setting& s) {
  const auto loop = std::make_unique<closed_loop<Scheduler>>(s);
  loop->measure(state);
}

using pool = kv::block_pool;
using cache = kv::prefix_cache;
using plain = request_for<>;
using in_turns = request_for<order::round_robin>;
using phased = request_for<order::two_phase>;
using gated =
    iteration_scheduler<plain, order::fcfs, preempt::swap, admit::watermark, pool, kv::csr_tables, gate::adapter_slots>;
using future = iteration_scheduler<plain, order::fcfs, preempt::swap, admit::future_peak, pool>;

using one_group = iteration_scheduler<plain, order::fcfs, preempt::recompute, admit::watermark, cache>;
using three_groups =
    iteration_scheduler<grouped_request_for<>, order::fcfs, preempt::recompute, admit::watermark, kv::groups<3>>;

[[maybe_unused]] const int registered = [] {
  const auto add = [](const char* name, auto* function, const setting& s) {
    benchmark::RegisterBenchmark(name, [function, s](benchmark::State& state) { function(state, s); })->UseManualTime();
  };
  // 256 run, with blocks to spare; the prefix cache fills what is left with cached blocks, so its pool is full.
  add("step/fcfs", &step<fcfs<plain, pool>>, {});
  add("step/round_robin", &step<round_robin<in_turns, pool>>, {});
  add("step/pascal", &step<pascal<phased, pool>>, {});
  add("step/future_peak", &step<future>, {});
  add("step/fcfs/prefix_cache", &step<fcfs<plain, cache>>, {});
  add("step/round_robin/prefix_cache", &step<round_robin<in_turns, cache>>, {});
  add("step/pascal/prefix_cache", &step<pascal<phased, cache>>, {});
  // A step is planned while another runs.
  add("step/in_flight:2/fcfs", &step<fcfs<plain, pool>>, {.plans_in_flight = 2});
  add("step/in_flight:2/fcfs/prefix_cache", &step<fcfs<plain, cache>>, {.plans_in_flight = 2});
  add("step/in_flight:2/pascal/prefix_cache", &step<pascal<phased, cache>>, {.plans_in_flight = 2});
  // Three groups of layers, for 1024 tokens 64, 33 and 2 blocks, against the one of full attention.
  add("step/groups:1/fcfs/prefix_cache", &step<one_group>, {});
  add("step/groups:3/fcfs/prefix_cache", &step<three_groups>, {.blocks = 38'400});
  add("step/in_flight:2/groups:3/fcfs/prefix_cache", &step<three_groups>, {.blocks = 38'400, .plans_in_flight = 2});
  // As engines of hybrid models have them: blocks so large that a state has the size of one.
  add("step/groups:1/block_size:512/fcfs/prefix_cache", &step<one_group>, {.blocks = 1'600, .block_size = 512});
  add("step/groups:3/block_size:512/fcfs/prefix_cache", &step<three_groups>,
      {.blocks = 3'600, .block_size = 512, .two_states = true});
  // A gate that is asked about each waiting request, and that skips 8 in each step.
  add("step/gate_skips:0/fcfs", &step<gated>, {});
  add("step/gate_skips:8/fcfs", &step<gated>, {.skipped = 8});
  // The pool is what limits the batch: 72 blocks per request for 256 requests, or 25,600 blocks for all that fit.
  add("step/pool_full/fcfs", &step<fcfs<plain, pool>>, {.blocks = 18'432});
  add("step/pool_full/pascal", &step<pascal<phased, pool>>, {.blocks = 18'432});
  add("step/pool_full/pascal/prefix_cache", &step<pascal<phased, cache>>, {.blocks = 10'240});
  add("step/pool_full/fcfs/batch:512", &step<fcfs<plain, pool>>, {.batch = 512});
  add("step/pool_full/pascal/batch:512", &step<pascal<phased, pool>>, {.batch = 512});
  // More that run, with blocks and budget in proportion.
  add("step/running:1024/fcfs", &step<fcfs<plain, pool>>,
      {.blocks = 102'400, .batch = 1024, .token_budget = 32'768_tok});
  add("step/running:1024/fcfs/prefix_cache", &step<fcfs<plain, cache>>,
      {.blocks = 102'400, .batch = 1024, .token_budget = 32'768_tok});
  add("step/running:4096/fcfs", &step<fcfs<plain, pool>>,
      {.blocks = 409'600, .batch = 4096, .token_budget = 131'072_tok});
  add("step/running:4096/fcfs/prefix_cache", &step<fcfs<plain, cache>>,
      {.blocks = 409'600, .batch = 4096, .token_budget = 131'072_tok});
  // Block size.
  add("step/block_size:64/pascal", &step<pascal<phased, pool>>, {.blocks = 6'400, .block_size = 64});
  add("step/block_size:64/pascal/prefix_cache", &step<pascal<phased, cache>>, {.blocks = 6'400, .block_size = 64});
  // Against the number that wait, and the number of cached blocks.
  add("step/waiting:1000", &step<pascal<phased, pool>>, {.waiting = 1000});
  add("step/waiting:10000", &step<pascal<phased, pool>>, {.waiting = 10'000});
  add("step/waiting:100000", &step<pascal<phased, pool>>, {.waiting = 100'000});
  add("step/waiting:1000000", &step<pascal<phased, pool>>, {.waiting = 1'000'000});
  add("step/cached_blocks:25600", &step<pascal<phased, cache>>, {.blocks = 25'600});
  add("step/cached_blocks:102400", &step<pascal<phased, cache>>, {.blocks = 102'400});
  add("step/cached_blocks:409600", &step<pascal<phased, cache>>, {.blocks = 409'600});
  return 0;
}();

}  // namespace
