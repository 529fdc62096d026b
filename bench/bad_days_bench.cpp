// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <benchmark/benchmark.h>

#include <tessera/admit/future_peak.hpp>
#include <tessera/gate/backfill.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/order/earliest_due.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/recompute.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <random>
#include <span>
#include <string>
#include <vector>

// Bad days of a scheduler, each next to its good day, which differs in one thing. The closed loops of
// scheduler_bench.cpp say what a step costs when all goes well. Here is what it costs, or what the machine gets done,
// when it does not.
//
// A day goes the same way each time that it is played. So each of its steps is timed once per iteration of the
// benchmark, and the least time counts. A step that the operating system interrupted in one run was not in another.
// Counters:
// - nanoseconds of the call that the day is about (plan or commit) over the measured steps;
// - `max_ns`, its worst step;
// - `step_max_ns`, the worst plan + commit, so that nothing is gained by moving work from one to the other.

namespace {

using namespace tessera;
using namespace tessera::literals;

// The one place that names the hook: what a request must derive from to be scheduled in this order.
template <class Order>
using hook_for = request_hook_for<Order>;

template <class Order>
struct request : hook_for<Order> {
  float score = 0;
  token_pacer pacer{};
  tokens expected_output{100};
  std::vector<std::uint64_t> hashes;
  tokens output{};     ///< Ends when it has generated as many tokens.
  tokens reasoning{};  ///< Begins to answer when it has generated as many tokens; 0: never.
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};

template <class Order, class Preempt = preempt::swap, class Admit = admit::watermark, class Store = kv::block_pool>
using scheduler = iteration_scheduler<request<Order>, Order, Preempt, Admit, Store>;

using cache = kv::prefix_cache;
constexpr std::int64_t block = 16;  // tokens

struct spent {
  double plan, commit;  // nanoseconds
};

/// The plainest engine: each sampling entry yields a token, and a request ends when it has its output.
template <class Scheduler>
class engine {
 public:
  using request_type = typename Scheduler::request_type;
  using limits_type = typename Scheduler::limits;

  explicit engine(const limits_type& l, const typename Scheduler::config& c = {})
      : storage_{storage_for<Scheduler>(l)}, scheduler_{touched(storage_), c} {}

  /// A request that is not submitted yet.
  request_type& make(std::int64_t prompt, std::int64_t output, int priority = 0) {
    request_type& r = requests_.emplace_back();
    r.prompt = tokens{prompt};
    r.output = tokens{output};
    r.max_output = r.output;
    r.priority = priority;
    return r;
  }
  /// A prompt of `blocks` full blocks, the first `common` of which it has in common with others, and 4 tokens.
  request_type& make_hashed(std::size_t blocks, std::size_t common, std::int64_t output, int priority = 0) {
    request_type& r = make(static_cast<std::int64_t>(blocks) * block + 4, output, priority);
    r.hashes.resize(blocks);
    const std::uint64_t own = 1'000 + requests_.size();
    for (std::size_t i = 0; i != blocks; ++i) {
      r.hashes[i] = ((i < common ? 1 : own) * 1'000'003 + i) * 0x9e37'79b9'7f4a'7c15ULL;
    }
    return r;
  }
  void submit(request_type& r) {
    if (!ok(scheduler_.submit(r, now))) std::abort();
  }

  spent step(const step_limits& limits) {
    using clock = std::chrono::steady_clock;
    const auto t0 = clock::now();
    const auto plan = scheduler_.plan(now, limits);
    const auto t1 = clock::now();
    outcomes_.clear();
    for (std::size_t i = 0; i != plan.size(); ++i) {
      const auto& e = plan[i];
      const tokens generated = e.request->generated() + 1_tok;
      outcomes_.push_back({.end_of_reasoning = e.samples && generated == e.request->reasoning,
                           .finished = e.samples && generated >= e.request->output});
    }
    ++steps;
    entries += plan.size();
    computed += plan.computed.count();
    preemptions += plan.preempted.size();
    now += 0.02_s;
    const auto t2 = clock::now();
    scheduler_.commit(plan, outcomes_, now);
    const auto t3 = clock::now();
    const auto ns = [](clock::duration d) { return std::chrono::duration<double, std::nano>{d}.count(); };
    return {ns(t1 - t0), ns(t3 - t2)};
  }
  void steps_of(std::size_t n, const step_limits& limits) {
    for (std::size_t i = 0; i != n; ++i) step(limits);
  }
  void run_until_idle(const step_limits& limits) {
    while (!scheduler_.idle()) step(limits);
  }

  [[nodiscard]] Scheduler* operator->() noexcept { return &scheduler_; }
  [[nodiscard]] std::deque<request_type>& requests() noexcept { return requests_; }

  time_point now{};
  std::size_t steps = 0;
  std::size_t entries = 0;
  std::size_t preemptions = 0;
  std::int64_t computed = 0;

 private:
  /// All pages are there: a first touch is the kernel's time, not the scheduler's.
  static owned_storage<limits_type>& touched(owned_storage<limits_type>& s) {
    std::ranges::fill(s.memory(), std::byte{});
    return s;
  }

  std::deque<request_type> requests_;  // before the scheduler, which they must outlive
  owned_storage<limits_type> storage_;
  Scheduler scheduler_;
  std::vector<outcome> outcomes_;
};

using day = std::vector<spent>;
enum class call { plan, commit };

/// Plays a day once per iteration, and reports the least time of each of its steps.
template <class Play>
void measure(benchmark::State& state, call about, const Play& play) {
  std::vector<double> least, whole;
  for (auto _ : state) {
    const day today = play();
    least.resize(today.size(), 1e18);
    whole.resize(today.size(), 1e18);
    double sum = 0;
    for (std::size_t i = 0; i != today.size(); ++i) {
      const double ns = about == call::plan ? today[i].plan : today[i].commit;
      sum += ns;
      least[i] = std::min(least[i], ns);
      whole[i] = std::min(whole[i], today[i].plan + today[i].commit);
    }
    state.SetIterationTime(sum * 1e-9);
  }
  std::sort(least.begin(), least.end());
  double sum = 0;
  for (const double ns : least) sum += ns;
  const auto quantile = [&](double q) {
    return least[static_cast<std::size_t>(q * static_cast<double>(least.size() - 1))];
  };
  state.counters["steps"] = static_cast<double>(least.size());
  state.counters["mean_ns"] = sum / static_cast<double>(least.size());
  state.counters["p50_ns"] = quantile(0.5);
  state.counters["p99_ns"] = quantile(0.99);
  state.counters["max_ns"] = quantile(1.0);
  state.counters["step_max_ns"] = *std::max_element(whole.begin(), whole.end());
}

// --- the first waiting request has a long cached prefix
//
// 64 requests decode, and the prompt of another is computed in chunks, so that blocks are published in each step. Good:
// no request waits. Bad: one waits with `prefix` blocks of its prompt in the cache, and would not fit if all except the
// 64 were gone. What might change with each published block is how much of its prefix there is.

day cached_prefix_waits(std::size_t prefix, bool waits) {
  using tested = scheduler<order::fcfs, preempt::recompute, admit::watermark, cache>;
  engine<tested> e{{.blocks = 25'600}};
  const step_limits limits{.token_budget = 8192_tok, .max_chunk = 512_tok};
  e.submit(e.make_hashed(prefix, prefix, 1));
  e.run_until_idle(limits);
  for (int i = 0; i != 64; ++i) e.submit(e.make_hashed(64, 0, 2000));
  e.steps_of(60, limits);
  e.submit(e.make_hashed(12'000, 0, 10));
  e.steps_of(1, limits);
  if (waits) e.submit(e.make_hashed(24'192, prefix, 10));
  e.steps_of(5, limits);
  day measured;
  for (int i = 0; i != 200; ++i) measured.push_back(e.step(limits));
  if (e->waiting_count() != (waits ? 1 : 0)) std::abort();
  return measured;
}

// --- evictions that would not be enough
//
// 200 residents share a prefix of 256 blocks with one of highest priority. Its long prompt is computed and published
// block by block. Good: no request waits. Bad: one waits that outranks the 200. The blocks of all 200 would not be
// enough for it, because what they share stays with the one. Each holds 256 blocks and more, so counted singly they
// would be enough. With `one_ends`, the oldest of the 200 ends in each step and another takes its place. It is urgent
// until its first token, and then ranks with the others.

template <class Preempt>
day evictions_in_vain(bool one_ends, bool waits) {
  using tested = scheduler<order::fcfs, Preempt, admit::watermark, cache>;
  constexpr std::size_t shared = 256;
  constexpr std::size_t others = 200;
  constexpr std::size_t blocks = shared + 2'000 + others * 8 + 100;
  engine<tested> e{{.blocks = blocks, .host_blocks = 100'000, .max_length = 64'000_tok}};
  const step_limits limits{.token_budget = 8192_tok, .max_chunk = 16_tok};
  e.submit(e.make_hashed(shared, shared, 1, 5));
  e.run_until_idle({});
  e.submit(e.make_hashed(shared + 2'000, shared, 100, 5));
  e.steps_of(1, limits);
  std::deque<request<order::fcfs>*> crowd;
  for (std::size_t i = 0; i != others; ++i) {
    crowd.push_back(&e.make_hashed(shared, shared, 400));
    e.submit(*crowd.back());
  }
  e.steps_of(5, limits);
  if (waits) e.submit(e.make_hashed(blocks - shared / 2, 0, 10, 3));
  day measured;
  for (int i = 0; i != 90; ++i) {
    if (!one_ends) {
      measured.push_back(e.step(limits));
      continue;
    }
    auto& oldest = *crowd.front();
    crowd.pop_front();
    oldest.output = oldest.generated() + 1_tok;
    measured.push_back(e.step(limits));
    if (is_live(oldest.state().life)) std::abort();
    for (auto* r : crowd) {
      if (r->priority == 0) continue;
      if (!ok(e->update(*r, [](auto& started) { started.priority = 0; }))) std::abort();
    }
    crowd.push_back(&e.make_hashed(shared, shared, 400, 4));
    e.submit(*crowd.back());
  }
  if (e.preemptions != 0 || e->resident_count() + (one_ends ? 1 : 0) != others + 1) std::abort();
  return measured;
}

// --- a burst ages
//
// Shortest predicted output first, with ageing after 120 s (the order of `pars`), 256 run, and in each step one ends
// and one starts. `waiting` requests came at the same moment. Good: they wait. Bad: they become due for ageing, in the
// first of the measured steps. They may be moved over any number of steps, as long as no step is slow.

struct burst {
  std::size_t waiting;
  int priorities = 1;
  bool residents_too = false;  ///< Those that run came at the same moment; else they aged long ago.
};

day burst_ages(const burst& b, bool due) {
  using tested = scheduler<order::ranked<>>;
  constexpr std::size_t running = 256;
  engine<tested> e{{.requests = b.waiting + running, .blocks = 25'600, .residents = running, .max_length = 8192_tok},
                   {.order = {.threshold = 120.0_s}}};
  std::mt19937 random{1};
  std::deque<request<order::ranked<>>*> oldest;
  const auto come = [&](std::size_t n) {
    for (std::size_t i = 0; i != n; ++i) {
      auto& r = e.make(16, 4000, static_cast<int>(i % static_cast<std::size_t>(b.priorities)));
      r.score = static_cast<float>(random() >> 8);
      e.submit(r);
    }
  };
  come(running);
  e.steps_of(1, {});
  if (!b.residents_too) {
    e.now = time_point::at_seconds(130);
    e.steps_of(1, {});
  }
  const time_point came = b.residents_too ? time_point{} : e.now;
  come(b.waiting);
  e.steps_of(20, {});
  if (due) e.now = came + 121.0_s;
  day measured;
  for (std::size_t i = 0; i != (b.waiting == 0 ? 100U : 1000U); ++i) {
    if (b.waiting != 0) {
      auto& ends = *e->residents()[i * 97 % running];
      ends.output = ends.generated() + 1_tok;
    }
    measured.push_back(e.step({}));
  }
  return measured;
}

// --- held requests, and priorities
//
// `due_first`'s order: 64 requests run, and `waiting` ones of 300 tokens wait, which are held for their prompts. Good:
// they are held for the whole day and have one priority. Bad: all fall due in the first of the measured steps
// (`falls_due`), or each has a priority of its own (`distinct`). With `churn`, ten come and ten leave in each step.

struct held {
  std::size_t waiting;
  bool falls_due = false;
  bool distinct = false;
  bool churn = false;
};

day held_requests(const held& h, bool bad) {
  using order = order::earliest_due<>;
  using tested = scheduler<order>;
  constexpr std::size_t running = 64;
  constexpr std::size_t steps = 300;
  engine<tested> e{{.requests = h.waiting + running + 10, .blocks = 25'600, .residents = running},
                   {.order = {.prompt_pace = bad && h.falls_due ? 1.0_ms : 1000.0_s}}};
  for (std::size_t i = 0; i != running; ++i) e.submit(e.make(20, 3000, 1));
  e.steps_of(1, {});
  std::deque<request<order>*> line;
  const auto come = [&](std::size_t n) {
    for (std::size_t i = 0; i != n; ++i) {
      const std::size_t all = e.requests().size();
      auto& r = e.make(300, 1000, bad && h.distinct ? -static_cast<int>(all) : 0);
      r.expected_output = tokens{50 + static_cast<std::int64_t>(all * 7919 % 1000)};
      e.submit(r);
      line.push_back(&r);
    }
  };
  come(h.waiting);
  e.now += 1.0_s;
  day measured;
  for (std::size_t i = 0; i != steps; ++i) {
    if (h.churn) {
      for (int k = 0; k != 10; ++k) {
        e->cancel(*line.front());
        line.pop_front();
      }
      come(10);
    }
    measured.push_back(e.step({.max_batch = running}));
  }
  if (e->waiting_count() != h.waiting) std::abort();
  return measured;
}

// 4,096 residents in the order of `pars`, of which 64 fit the batch, and none of which is due. Good: one priority. Bad:
// each has its own.

day resident_priorities(bool bad) {
  using tested = scheduler<order::ranked<>>;
  constexpr std::size_t n = 4096;
  engine<tested> e{{.requests = n, .blocks = 1U << 17U, .residents = n, .max_length = 8192_tok},
                   {.order = {.threshold = 1e6_s}}};
  for (std::size_t i = 0; i != n; ++i) e.submit(e.make(1, 3000, bad ? -static_cast<int>(i) : 0));
  e.steps_of(3, {.max_batch = n, .token_budget = 100'000_tok});
  day measured;
  for (int i = 0; i != 300; ++i) measured.push_back(e.step({.max_batch = 64}));
  if (e->resident_count() != n) std::abort();
  return measured;
}

// --- all residents move at once
//
// `running` requests started together. Good: steps in which no request changes its place. Bad: the ten steps on both
// sides of the one in which the quantum of all ends, or all begin to answer.

template <class Order>
day all_move(std::size_t running, const Order& order, std::int64_t reasoning, bool bad) {
  using tested = scheduler<Order>;
  engine<tested> e{{.requests = running, .blocks = running * 40, .residents = running, .max_length = 640_tok},
                   {.order = order}};
  const step_limits limits{.max_batch = running, .token_budget = 100'000_tok};
  for (std::size_t i = 0; i != running; ++i) {
    auto& r = e.make(2, 600);
    r.reasoning = tokens{reasoning};
    e.submit(r);
  }
  e.steps_of(bad ? 90 : 10, limits);
  day measured;
  for (int i = 0; i != (bad ? 20 : 70); ++i) measured.push_back(e.step(limits));
  if (e.entries != e.steps * running) std::abort();
  return measured;
}

// --- all windows pass a block at once
//
// A model of full attention and two sliding windows; `running` requests decode, and none starts or ends. Good: they
// come to the end of a block one after the other. Bad: all in the same step. It takes a block in each of the groups for
// each of them, and in the next step the windows give as many back.

struct sliding_request : hook_for<order::fcfs> {
  tokens output{};
  tokens reasoning{};
};

day windows_pass(std::int64_t running, bool bad) {
  using tested = iteration_scheduler<sliding_request, order::fcfs, preempt::recompute, admit::watermark, kv::groups<3>>;
  const auto n = static_cast<std::size_t>(running);
  const tokens size{block};
  engine<tested> e{{{.requests = n, .blocks = n * 200, .residents = n, .max_length = 1'600_tok},
                    {kv::group::full(size), kv::group::sliding(size, 512_tok), kv::group::sliding(size, 1'024_tok)}}};
  const step_limits limits{.max_batch = n, .token_budget = 2'000'000_tok};
  for (std::int64_t i = 0; i != running; ++i) e.submit(e.make(1'100 + (bad ? 0 : i % block), 400));
  e.steps_of(100, limits);
  day measured;
  for (int i = 0; i != 64; ++i) measured.push_back(e.step(limits));
  if (e->resident_count() != n) std::abort();
  return measured;
}

// --- what gets done: no times here that matter, but steps. The time of an iteration is that of all plans and commits.

/// Runs a step, and adds its time.
template <class Engine>
void timed_step(Engine& e, const step_limits& limits, double& ns) {
  const spent t = e.step(limits);
  ns += t.plan + t.commit;
}

/// 32 requests that share a prefix of 500 of 1,000 blocks and need 6 more each. All fit at once. An admission policy
/// that counts the prefix once for each of them runs one after the other.
template <class Admit>
void shared_prefix_admission(benchmark::State& state) {
  using tested = scheduler<order::fcfs, preempt::recompute, Admit, cache>;
  for (auto _ : state) {
    engine<tested> e{{.blocks = 1'000, .residents = 64}};
    e.submit(e.make_hashed(500, 500, 64));
    e.run_until_idle({});
    e.steps = e.entries = 0;
    for (int i = 0; i != 32; ++i) e.submit(e.make_hashed(500, 500, 64));
    double ns = 0;
    while (!e->idle()) timed_step(e, {}, ns);
    state.SetIterationTime(ns * 1e-9);
    state.counters["steps"] = static_cast<double>(e.steps);
    state.counters["mean_batch"] = static_cast<double>(e.entries) / static_cast<double>(e.steps);
  }
}

/// A prompt of 907 of 1,000 blocks waits for one that holds 10 % of them for 1,500 steps. 200 small requests, 12 blocks
/// each for 20 steps, wait behind it.
template <class Scheduler>
void behind_a_giant(benchmark::State& state) {
  for (auto _ : state) {
    engine<Scheduler> e{{.blocks = 1'000, .residents = 64}};
    e.submit(e.make(1600, 1500));
    e.steps_of(1, {});
    auto& giant = e.make(14'500, 10);
    e.submit(giant);
    for (int i = 0; i != 200; ++i) e.submit(e.make(160, 20));
    double ns = 0;
    std::size_t giant_started = 0;
    double small_ended = 0;
    double used = 0;
    std::vector<bool> ended(e.requests().size());
    while (!e->idle()) {
      timed_step(e, {}, ns);
      used += static_cast<double>(e->device_blocks_held().count());
      if (giant_started == 0 && giant.state().computed > 0_tok) giant_started = e.steps;
      for (std::size_t i = 2; i != ended.size(); ++i) {
        if (ended[i] || is_live(e.requests()[i].state().life)) continue;
        ended[i] = true;
        small_ended += static_cast<double>(e.steps);
      }
    }
    state.SetIterationTime(ns * 1e-9);
    const auto steps = static_cast<double>(e.steps);
    state.counters["steps"] = steps;
    state.counters["tokens_per_step"] = static_cast<double>(e.computed) / steps;
    state.counters["blocks_used_%"] = used / steps / 10;
    state.counters["giant_starts_at"] = static_cast<double>(giant_started);
    state.counters["small_ends_at_mean"] = small_ended / 200;
  }
}

/// A prompt of 12,000 tokens, and every 20 steps one of 4,800 that is more urgent, which is 47 % of what the steps can
/// compute. Both do not fit. Counters:
/// - steps until the long one is done (4,000 are tried),
/// - how often it lost its blocks,
/// - the part of the computed tokens that had to be computed again.
template <class Preempt>
void urgent_over_long(benchmark::State& state, bool urgent, std::size_t host_blocks) {
  using tested = scheduler<order::fcfs, Preempt>;
  constexpr std::size_t most = 4'000;
  for (auto _ : state) {
    engine<tested> e{{.blocks = 1'000, .residents = 64, .host_blocks = host_blocks}};
    auto& patient = e.make(12'000, 2);
    e.submit(patient);
    double ns = 0;
    while (is_live(patient.state().life) && e.steps != most) {
      if (urgent && e.steps % 20 == 10) e.submit(e.make(4800, 2, 1));
      timed_step(e, {.token_budget = 512_tok}, ns);
    }
    std::int64_t kept = 0;
    for (const auto& r : e.requests()) kept += r.state().computed.count();
    state.SetIterationTime(ns * 1e-9);
    state.counters["steps"] = static_cast<double>(e.steps);
    state.counters["done"] = is_live(patient.state().life) ? 0 : 1;
    state.counters["preempted"] = patient.state().preemptions;
    state.counters["thrown_away_%"] = 100.0 * (1.0 - static_cast<double>(kept) / static_cast<double>(e.computed));
  }
}

// --- all of them

[[maybe_unused]] const int registered = [] {
  const auto add = [](const std::string& name, std::int64_t times, auto function) {
    benchmark::RegisterBenchmark(("bad_days/" + name).c_str(), function)
        ->UseManualTime()
        ->Iterations(times)
        ->Unit(benchmark::kMicrosecond);
  };
  const auto both = [&](const std::string& name, std::int64_t times, call about, auto play) {
    for (const bool bad : {false, true}) {
      add(name + (bad ? "/bad" : "/good"), times,
          [=](benchmark::State& state) { measure(state, about, [&] { return play(bad); }); });
    }
  };

  for (const std::size_t prefix : {2048U, 8192U}) {
    both("cached_prefix_waits/" + std::to_string(prefix), 5, call::plan,
         [=](bool bad) { return cached_prefix_waits(prefix, bad); });
  }

  for (const bool one_ends : {false, true}) {
    const std::string name = std::string{"evictions_in_vain"} + (one_ends ? "/one_ends" : "");
    both(name + "/swap", 5, call::plan, [=](bool bad) { return evictions_in_vain<preempt::swap>(one_ends, bad); });
    both(name + "/recompute", 5, call::plan,
         [=](bool bad) { return evictions_in_vain<preempt::recompute>(one_ends, bad); });
  }

  const auto ages = [&](const std::string& name, const burst& b) {
    both("burst_ages/" + name, 3, call::plan, [=](bool bad) { return burst_ages(b, bad); });
  };
  ages("waiting:10000", {.waiting = 10'000});
  ages("waiting:100000", {.waiting = 100'000});
  ages("waiting:300000", {.waiting = 300'000});
  ages("waiting:300000/priorities:3", {.waiting = 300'000, .priorities = 3});
  ages("waiting:300000/residents:256", {.waiting = 300'000, .residents_too = true});
  ages("residents:256", {.waiting = 0, .residents_too = true});

  for (const std::size_t waiting : {10'000U, 300'000U}) {
    const auto hold = [&](const std::string& name, const held& h) {
      both("held/" + name + "/waiting:" + std::to_string(waiting), 3, call::plan,
           [=](bool bad) { return held_requests(h, bad); });
    };
    hold("falls_due", {.waiting = waiting, .falls_due = true});
    hold("priorities", {.waiting = waiting, .distinct = true});
    hold("both", {.waiting = waiting, .falls_due = true, .distinct = true});
    hold("churn", {.waiting = waiting, .falls_due = true, .churn = true});
  }
  both("resident_priorities/4096", 3, call::plan, [](bool bad) { return resident_priorities(bad); });

  for (const std::size_t running : {256U, 1024U, 4096U}) {
    const std::string n = std::to_string(running);
    both("all_move/round_robin/" + n, 5, call::commit,
         [=](bool bad) { return all_move(running, order::round_robin{.quantum = 100_tok}, 0, bad); });
    both("all_move/fewest_quanta_first/" + n, 5, call::commit, [=](bool bad) {
      return all_move(running, order::round_robin{.quantum = 100_tok, .fewest_quanta_first = true}, 0, bad);
    });
    both("all_move/two_phase/" + n, 5, call::commit,
         [=](bool bad) { return all_move(running, order::two_phase{.fewest_quanta_first = true}, 100, bad); });
  }

  for (const std::int64_t running : {256, 1024}) {
    both("windows_pass/" + std::to_string(running), 5, call::plan,
         [=](bool bad) { return windows_pass(running, bad); });
  }

  add("shared_prefix_admission/watermark", 1, &shared_prefix_admission<admit::watermark>);
  add("shared_prefix_admission/future_peak", 1, &shared_prefix_admission<admit::future_peak>);

  add("behind_a_giant/fcfs", 1, &behind_a_giant<scheduler<order::fcfs, preempt::recompute>>);
  // What starts behind it must not delay it.
  add("behind_a_giant/backfill", 1,
      &behind_a_giant<iteration_scheduler<request<order::fcfs>, order::fcfs, preempt::recompute, admit::watermark,
                                          kv::block_pool, kv::csr_tables, gate::backfill>>);

  add("urgent_over_long/nobody_urgent", 1,
      [](benchmark::State& state) { urgent_over_long<preempt::recompute>(state, false, 0); });
  add("urgent_over_long/swap", 1, [](benchmark::State& state) { urgent_over_long<preempt::swap>(state, true, 2'000); });
  add("urgent_over_long/swap/no_host_blocks", 1,
      [](benchmark::State& state) { urgent_over_long<preempt::swap>(state, true, 0); });
  add("urgent_over_long/recompute", 1,
      [](benchmark::State& state) { urgent_over_long<preempt::recompute>(state, true, 0); });
  return 0;
}();

}  // namespace
