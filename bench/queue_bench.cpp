// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Queue operations with N requests waiting. Each iteration times a batch of 512 operations on a queue that holds N
// requests before or after. The counter ns_per_op is the time of one. Requests are 320 bytes apart and touched in
// random order, as in an engine, so that the caches are as cold as there.

#include <tessera/queue/fcfs.hpp>
#include <tessera/queue/heap.hpp>
#include <tessera/queue/ranked.hpp>
#include <tessera/queue/round_robin.hpp>
#include <tessera/queue/two_phase.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace {

using namespace tessera;

using bench_hook = request_hook_for<order::round_robin, order::two_phase, order::ranked<>>;
struct alignas(64) bench_request : bench_hook {
  float score = 0;
  std::byte payload[320 - sizeof(bench_hook) - sizeof(float)];
};
static_assert(sizeof(bench_request) == 320);

constexpr std::size_t batch = 512;

/// N + batch requests with random scores, in a random order, N of them queued.
template <class Queue>
class filled {
 public:
  explicit filled(std::size_t n) : requests_(n + batch), order_(n + batch) {
    for (auto& r : requests_) {
      r.prompt = tokens{100};
      r.score = static_cast<float>(random_() % 100'000);
      r.starts_in = random_() % 2 == 0 ? phase::reasoning : phase::answering;
    }
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::shuffle(order_.begin(), order_.end(), random_);
    for (std::size_t i = 0; i != n; ++i) queue.push(requests_[order_[i]], tick());
  }

  /// `batch` of the requests that are queued, at random; or that are not.
  std::vector<bench_request*> pick(bool queued) {
    std::vector<bench_request*> out;
    if (queued) {
      while (out.size() != batch) {
        bench_request& r = requests_[random_() % requests_.size()];
        if (linked(r) && std::find(out.begin(), out.end(), &r) == out.end()) out.push_back(&r);
      }
    } else {
      for (const std::size_t i : order_) {
        if (!linked(requests_[i])) out.push_back(&requests_[i]);
      }
    }
    return out;
  }

  time_point tick() { return now_ += 1_ms; }

 private:
  static bool linked(const bench_request& r) { return static_cast<const detail::rank_hook&>(r).is_linked(); }

  std::vector<bench_request> requests_;
  std::vector<std::size_t> order_;
  std::mt19937_64 random_{42};
  time_point now_{};

 public:
  Queue queue;  // after the requests, which must outlive it
};

/// Times batches. The counter ns_per_op is the median over them. So a batch during which another process had the core
/// does not count. The time column holds the mean.
class batch_timer {
 public:
  explicit batch_timer(benchmark::State& state) : state_{state} {}
  batch_timer(const batch_timer&) = delete;
  batch_timer& operator=(const batch_timer&) = delete;

  template <class F>
  void operator()(F f) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    state_.SetIterationTime(seconds);
    batches_.push_back(seconds);
  }

  ~batch_timer() {
    std::nth_element(batches_.begin(), batches_.begin() + static_cast<std::ptrdiff_t>(batches_.size() / 2),
                     batches_.end());
    state_.counters["ns_per_op"] = batches_[batches_.size() / 2] * 1e9 / static_cast<double>(batch);
  }

 private:
  benchmark::State& state_;
  std::vector<double> batches_;
};

template <class Queue>
void push(benchmark::State& state) {
  filled<Queue> f{static_cast<std::size_t>(state.range(0))};
  batch_timer timed{state};
  for (auto _ : state) {
    const auto out = f.pick(false);
    timed([&] {
      for (bench_request* r : out) f.queue.push(*r, f.tick());
    });
    for (bench_request* r : f.pick(true)) f.queue.erase(*r);
  }
}

template <class Queue>
void erase(benchmark::State& state) {
  filled<Queue> f{static_cast<std::size_t>(state.range(0))};
  batch_timer timed{state};
  for (auto _ : state) {
    for (bench_request* r : f.pick(false)) f.queue.push(*r, f.tick());
    const auto out = f.pick(true);
    timed([&] {
      for (bench_request* r : out) f.queue.erase(*r);
    });
  }
}

template <class Queue>
void pop_front(benchmark::State& state) {
  filled<Queue> f{static_cast<std::size_t>(state.range(0))};
  batch_timer timed{state};
  for (auto _ : state) {
    for (bench_request* r : f.pick(false)) f.queue.push(*r, f.tick());
    timed([&] {
      for (std::size_t i = 0; i != batch; ++i) benchmark::DoNotOptimize(f.queue.pop_front());
    });
  }
}

/// The request goes behind its peers.
template <class Queue>
void requeue(benchmark::State& state) {
  filled<Queue> f{static_cast<std::size_t>(state.range(0))};
  batch_timer timed{state};
  for (auto _ : state) {
    const auto in = f.pick(true);
    timed([&] {
      for (bench_request* r : in) f.queue.charge(*r, tokens{500});
    });
  }
}

/// Another priority: the request leaves its place for one in the middle of others.
template <class Queue>
void reprioritise(benchmark::State& state) {
  filled<Queue> f{static_cast<std::size_t>(state.range(0))};
  batch_timer timed{state};
  int priority = 0;
  for (auto _ : state) {
    const auto in = f.pick(true);
    timed([&] {
      for (bench_request* r : in) {
        priority = (priority + 7) % 10;
        f.queue.update(*r, [priority](bench_request& moved) { moved.priority = priority; });
      }
    });
  }
}

/// One step's call when no request is due.
void advance_idle(benchmark::State& state) {
  filled<ranked_queue<bench_request>> f{static_cast<std::size_t>(state.range(0))};
  batch_timer timed{state};
  for (auto _ : state) {
    timed([&] {
      for (std::size_t i = 0; i != batch; ++i) {
        f.queue.advance(time_point{});
        benchmark::ClobberMemory();
      }
    });
  }
}

/// fixed_heap with N entries: one in and the first out.
void heap_push_pop(benchmark::State& state) {
  using heap_type = fixed_heap<double>;
  const auto n = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> bytes(heap_type::required_bytes({n + batch}) + storage_alignment);
  arena memory{bytes};
  heap_type heap{memory, {n + batch}};
  std::mt19937_64 random{42};
  for (std::size_t i = 0; i != n; ++i) benchmark::DoNotOptimize(heap.push(static_cast<double>(random() % 100'000)));
  std::vector<double> values(batch);
  batch_timer timed{state};
  for (auto _ : state) {
    for (double& v : values) v = static_cast<double>(random() % 100'000);
    timed([&] {
      for (const double v : values) benchmark::DoNotOptimize(heap.push(v));
      for (std::size_t i = 0; i != batch; ++i) heap.pop();
    });
  }
}

void sizes(benchmark::internal::Benchmark* b) {
  b->Arg(1'000)->Arg(10'000)->Arg(100'000)->Arg(1'000'000)->UseManualTime()->Iterations(40)->ArgName("waiting");
}

BENCHMARK_TEMPLATE(push, fcfs_queue<bench_request>)->Apply(sizes)->Name("queue/fcfs/push");
BENCHMARK_TEMPLATE(pop_front, fcfs_queue<bench_request>)->Apply(sizes)->Name("queue/fcfs/pop_front");
BENCHMARK_TEMPLATE(erase, fcfs_queue<bench_request>)->Apply(sizes)->Name("queue/fcfs/erase");
BENCHMARK_TEMPLATE(reprioritise, fcfs_queue<bench_request>)->Apply(sizes)->Name("queue/fcfs/reprioritise");
BENCHMARK_TEMPLATE(push, round_robin_queue<bench_request>)->Apply(sizes)->Name("queue/round_robin/push");
BENCHMARK_TEMPLATE(pop_front, round_robin_queue<bench_request>)->Apply(sizes)->Name("queue/round_robin/pop_front");
BENCHMARK_TEMPLATE(erase, round_robin_queue<bench_request>)->Apply(sizes)->Name("queue/round_robin/erase");
BENCHMARK_TEMPLATE(requeue, round_robin_queue<bench_request>)->Apply(sizes)->Name("queue/round_robin/requeue");
BENCHMARK_TEMPLATE(push, two_phase_queue<bench_request>)->Apply(sizes)->Name("queue/two_phase/push");
BENCHMARK_TEMPLATE(pop_front, two_phase_queue<bench_request>)->Apply(sizes)->Name("queue/two_phase/pop_front");
BENCHMARK_TEMPLATE(erase, two_phase_queue<bench_request>)->Apply(sizes)->Name("queue/two_phase/erase");
BENCHMARK_TEMPLATE(requeue, two_phase_queue<bench_request>)->Apply(sizes)->Name("queue/two_phase/requeue");
BENCHMARK_TEMPLATE(push, ranked_queue<bench_request>)->Apply(sizes)->Name("queue/ranked/push");
BENCHMARK_TEMPLATE(pop_front, ranked_queue<bench_request>)->Apply(sizes)->Name("queue/ranked/pop_front");
BENCHMARK_TEMPLATE(erase, ranked_queue<bench_request>)->Apply(sizes)->Name("queue/ranked/erase");
BENCHMARK(advance_idle)->Apply(sizes)->Name("queue/ranked/advance_idle");
BENCHMARK(heap_push_pop)->Apply(sizes)->Name("queue/heap/push_pop");

}  // namespace
