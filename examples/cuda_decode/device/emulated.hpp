// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../decoder.hpp"
#include "bf16.hpp"
#include "emulated_functions.hpp"
#include "emulated_threads.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

/// @file
/// A device on the host, for machines without one and for tests that no device can offer. Streams do nothing until they
/// are waited for, or take their turns at random. So a missing wait, host memory that is changed too early or a result
/// that is read too soon shows, every time. One thread of the host.

namespace cuda_decode::device {

inline constexpr bool emulated = true;

namespace emulation {

/// When streams do their work.
enum schedule {
  lazy,    ///< When it is waited for, and then no more than that. The default.
  eager,   ///< At once.
  random,  ///< In any order that events permit, and blocks and warps of kernels in any order as well.
};

inline constexpr std::size_t memory_bytes = std::size_t{256} << 20;
inline constexpr int multiprocessors = 4;
/// What fresh memory is filled with. 0xff makes NaN and -1; a test may choose another.
inline unsigned char fresh_byte = 0xff;

struct queue;

struct signal {
  bool done = false;
  std::chrono::steady_clock::time_point when;
  queue* by = nullptr;
};

struct operation {
  std::function<void()> run;
  std::shared_ptr<const signal> after = nullptr;
  std::shared_ptr<signal> reaches = nullptr;
};

struct queue {
  std::deque<operation> pending;
  std::vector<std::function<void()>>* recording = nullptr;  // of a graph
};

/// All streams and all memory.
class machine {
 public:
  void choose(schedule s, std::uint64_t seed) {
    idle("emulation::order");
    for (queue* const q : queues_) finish(*q);
    schedule_ = s;
    random_.seed(seed);
  }

  void add(queue& q) { queues_.push_back(&q); }
  void remove(queue& q) noexcept {
    quietly([&] { drain(q); });
    std::erase(queues_, &q);
  }

  void enqueue(queue& q, operation op) {
    idle("work is enqueued");
    if (q.recording != nullptr) {
      if (!op.run) throw device_error{"waiting for an event cannot be part of a graph"};
      q.recording->push_back(std::move(op.run));
      return;
    }
    q.pending.push_back(std::move(op));
    // What goes wrong now is reported to the next wait, as a device does.
    if (schedule_ == eager) {
      quietly([&] { drain(q); });
    } else if (schedule_ == random) {
      quietly([&] {
        const working now{*this};
        while (random_() % 2 == 0 && step_at_random()) {
        }
      });
    }
  }

  /// Until the stream is done, or the event.
  void finish(queue& q, const signal* until = nullptr) {
    idle("waiting");
    if (q.recording != nullptr) throw device_error{"waiting cannot be part of a graph"};
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
    drain(q, until);
  }

  void* allocate(std::size_t count, std::size_t size, bool on_device) {
    if (count > std::numeric_limits<std::size_t>::max() / size) throw device_error{"out of memory"};
    const std::size_t bytes = count * size;
    if (bytes == 0) return nullptr;
    if (std::ranges::any_of(queues_, [](const queue* q) { return q->recording != nullptr; })) {
      throw device_error{"memory cannot be allocated while a graph is captured"};
    }
    if (on_device && bytes > memory_bytes - allocated_) {
      throw device_error{"out of memory: " + std::to_string(bytes) + " bytes wanted, " +
                         std::to_string(memory_bytes - allocated_) + " free"};
    }
    void* const p = ::operator new(bytes, alignment);
    std::memset(p, fresh_byte, bytes);
    if (on_device) {
      memory_[p] = bytes;
      allocated_ += bytes;
      if (!working_) forbid(p, bytes);
    }
    return p;
  }

  void free(void* p) noexcept {
    if (p == nullptr) return;
    quietly([&] {  // as a device does
      for (queue* const q : queues_) drain(*q);
    });
    if (const auto found = memory_.find(p); found != memory_.end()) {
      permit(p, found->second);
      allocated_ -= found->second;
      memory_.erase(found);
    }
    ::operator delete(p, alignment);
  }

  [[nodiscard]] std::size_t free_bytes() const noexcept { return memory_bytes - allocated_; }

  void run(dim3 grid, dim3 block, const auto& body) {
    all_threads.run(grid, block, body, schedule_ == random ? &random_ : nullptr);
  }

 private:
  static constexpr std::align_val_t alignment{256};

  // While the device works, its memory may be touched.
  class working {
   public:
    explicit working(machine& m) : machine_{m} {
      machine_.working_ = true;
      for (const auto& [p, bytes] : machine_.memory_) permit(p, bytes);
    }
    ~working() {
      machine_.working_ = false;
      for (const auto& [p, bytes] : machine_.memory_) forbid(p, bytes);
    }
    working(const working&) = delete;
    working& operator=(const working&) = delete;

   private:
    machine& machine_;
  };

  static void permit([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) {
#ifdef CUDA_DECODE_ASAN
    __asan_unpoison_memory_region(p, bytes);
#endif
  }
  static void forbid([[maybe_unused]] void* p, [[maybe_unused]] std::size_t bytes) {
#ifdef CUDA_DECODE_ASAN
    __asan_poison_memory_region(p, bytes);
#endif
  }

  void idle(const char* what) const {
    if (working_) throw device_error{std::string{what} + " while a stream runs what was enqueued"};
  }

  void quietly(const auto& f) noexcept {
    if (working_) return;
    try {
      f();
    } catch (...) {
      if (failure_ == nullptr) failure_ = std::current_exception();  // for the next wait
    }
  }

  void drain(queue& q, const signal* until = nullptr) {
    const working now{*this};
    advance(q, until);
  }

  void advance(queue& q, const signal* until) {
    while (!q.pending.empty() && (until == nullptr || !until->done)) {
      if (schedule_ == random) {
        step_at_random();
        continue;
      }
      if (const auto after = q.pending.front().after; after != nullptr) advance(*after->by, after.get());
      step(q);
    }
  }

  [[nodiscard]] static bool ready(const queue* q) {
    return !q->pending.empty() && (q->pending.front().after == nullptr || q->pending.front().after->done);
  }

  bool step_at_random() {
    const auto count = static_cast<std::size_t>(std::count_if(queues_.begin(), queues_.end(), &ready));
    if (count == 0) return false;
    std::size_t skip = random_() % count;
    step(**std::find_if(queues_.begin(), queues_.end(), [&](const queue* q) { return ready(q) && skip-- == 0; }));
    return true;
  }

  void step(queue& q) {
    const operation op = std::move(q.pending.front());
    q.pending.pop_front();
    try {
      if (op.run) op.run();
    } catch (...) {
      // Nothing more is done; but no wait may last for ever.
      for (queue* const each : queues_) {
        for (const operation& dropped : each->pending) reach(dropped);
        each->pending.clear();
      }
      throw;
    }
    reach(op);
  }

  static void reach(const operation& op) {
    if (op.reaches == nullptr) return;
    op.reaches->when = std::chrono::steady_clock::now();
    op.reaches->done = true;
  }

  schedule schedule_ = lazy;
  std::mt19937_64 random_;
  std::vector<queue*> queues_;
  std::map<void*, std::size_t> memory_;
  std::size_t allocated_ = 0;
  bool working_ = false;
  std::exception_ptr failure_;
};

inline machine the_machine;

/// Waits for everything, and chooses when streams work from now on.
inline void order(schedule s, std::uint64_t seed = 1) { the_machine.choose(s, seed); }

struct native_stream {};

}  // namespace emulation

class event;
class graph;

/// Work that is done in order.
class stream {
 public:
  stream() { emulation::the_machine.add(*queue_); }
  ~stream() {
    if (queue_ != nullptr) emulation::the_machine.remove(*queue_);
  }
  stream(stream&&) noexcept = default;
  stream& operator=(stream&& other) noexcept {
    std::swap(queue_, other.queue_);
    return *this;
  }

  void synchronize() { emulation::the_machine.finish(*queue_); }
  /// What is enqueued from now on comes after what the event has recorded.
  void wait(const event& e);

  [[nodiscard]] emulation::queue& queue() const { return *queue_; }

 private:
  std::unique_ptr<emulation::queue> queue_ = std::make_unique<emulation::queue>();
};

/// A point in a stream's work, and when it was reached.
class event {
 public:
  void record(stream& s) {
    if (s.queue().recording != nullptr) throw device_error{"an event cannot be part of a graph"};
    auto next = std::make_shared<emulation::signal>();
    next->by = &s.queue();
    last_ = next;
    emulation::the_machine.enqueue(s.queue(), {nullptr, nullptr, std::move(next)});
  }
  /// Returns at once if nothing was recorded.
  void synchronize() const {
    if (last_ != nullptr && !last_->done) emulation::the_machine.finish(*last_->by, last_.get());
  }

 private:
  friend class stream;
  friend double seconds_between(const event& a, const event& b);
  std::shared_ptr<const emulation::signal> last_;
};

inline void stream::wait(const event& e) {
  if (e.last_ != nullptr) emulation::the_machine.enqueue(*queue_, {nullptr, e.last_, nullptr});
}

/// Seconds between two events that were reached.
[[nodiscard]] inline double seconds_between(const event& a, const event& b) {
  if (a.last_ == nullptr || b.last_ == nullptr) throw device_error{"time of an event that was not recorded"};
  if (!a.last_->done || !b.last_->done) throw device_error{"time of an event that was not reached"};
  return std::chrono::duration<double>(b.last_->when - a.last_->when).count();
}

/// Memory of the device, uninitialised: NaN. The host must not touch it; with AddressSanitizer it cannot.
template <class T>
class buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  buffer() = default;
  explicit buffer(std::size_t n)
      : data_{static_cast<T*>(emulation::the_machine.allocate(n, sizeof(T), true))}, size_{n} {}
  ~buffer() { emulation::the_machine.free(data_); }
  buffer(buffer&& other) noexcept : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
  buffer& operator=(buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Memory of the host that copies read and write while the host does something else. Uninitialised.
template <class T>
class pinned {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  pinned() = default;
  explicit pinned(std::size_t n)
      : data_{static_cast<T*>(emulation::the_machine.allocate(n, sizeof(T), false))}, size_{n} {}
  ~pinned() { emulation::the_machine.free(data_); }
  pinned(pinned&& other) noexcept : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
  pinned& operator=(pinned&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] T& operator[](std::size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// In any direction, in the stream's order.
inline void copy(stream& s, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  emulation::the_machine.enqueue(s.queue(), {[=] { std::memcpy(to, from, bytes); }});
}

/// Zeros, in the stream's order.
inline void clear(stream& s, void* p, std::size_t bytes) {
  if (bytes == 0) return;
  emulation::the_machine.enqueue(s.queue(), {[=] { std::memset(p, 0, bytes); }});
}

/// Runs a kernel in the stream's order. Arguments are copied now.
/// @throws device_error for a grid or block that no device takes
template <class... P, class... A>
void launch(stream& s, void (*kernel)(P...), dim3 grid, dim3 block, const A&... args) {
  static_assert(sizeof...(P) == sizeof...(A), "a kernel takes as many arguments as it has parameters");
  static_assert((std::is_trivially_copyable_v<P> && ...), "a kernel's parameters are copied bit by bit");
  const auto refuse = [](const std::string& why) { throw device_error{"a kernel cannot be launched: " + why}; };
  const std::size_t size = std::size_t{block.x} * block.y * block.z;
  if (size == 0 || size > emulation::most_threads || block.z > 64) {
    refuse("a block of " + std::to_string(block.x) + " x " + std::to_string(block.y) + " x " + std::to_string(block.z));
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fff'ffffU || grid.y > 65535 || grid.z > 65535) {
    refuse("a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " + std::to_string(grid.z));
  }
  std::tuple<P...> values{static_cast<P>(args)...};
  emulation::the_machine.enqueue(
      s.queue(), {[=] { emulation::the_machine.run(grid, block, [&] { std::apply(kernel, values); }); }});
}

/// What was enqueued once, with the arguments of then, to be done again and again.
class graph {
 public:
  graph() = default;

  /// What `f` enqueues on the stream. Nothing of it is done now.
  template <class F>
  static graph capture(stream& s, F&& f) {
    if (s.queue().recording != nullptr) throw device_error{"a graph is captured within a capture"};
    auto work = std::make_shared<std::vector<std::function<void()>>>();
    struct guard {
      emulation::queue& q;
      ~guard() { q.recording = nullptr; }
    } const until_done{s.queue()};
    s.queue().recording = work.get();
    std::forward<F>(f)();
    graph out;
    out.work_ = std::move(work);
    return out;
  }

  void launch(stream& s) {
    if (work_ == nullptr) throw device_error{"an empty graph is launched"};
    emulation::the_machine.enqueue(s.queue(), {[work = work_] {
                                     for (const auto& each : *work) each();
                                   }});
  }

  explicit operator bool() const { return work_ != nullptr; }

 private:
  std::shared_ptr<const std::vector<std::function<void()>>> work_;
};

/// In the stream's order. On a GPU `f(stream)` enqueues work of its own; here it does the work.
template <class F>
void enqueue(stream& s, F&& f) {
  emulation::the_machine.enqueue(s.queue(), {[f = std::forward<F>(f)]() mutable { f(emulation::native_stream{}); }});
}

/// Matrix products.
class blas {
 public:
  explicit blas(stream& s) : queue_{&s.queue()} {}

  /// y[m][n] = x[m][k] * w[n][k]^T, row by row, summed in float in the order of k. So a row's result does not depend on
  /// the others.
  void multiply(stream& s, const bf16* x, const bf16* w, bf16* y, int m, int n, int k) { enqueue(s, x, w, y, m, n, k); }
  void multiply(stream& s, const bf16* x, const bf16* w, float* y, int m, int n, int k) {
    enqueue(s, x, w, y, m, n, k);
  }

 private:
  static constexpr std::size_t width = 8;  // rows at a time

  template <class T>
  void enqueue(stream& s, const bf16* x, const bf16* w, T* y, int m, int n, int k) {
    if (m < 0 || n < 0 || k < 0) throw device_error{"a matrix product of a negative size"};
    if (&s.queue() != queue_) throw device_error{"a matrix product on another stream than that of its workspace"};
    const auto work = [=] {
      compute(x, w, y, static_cast<std::size_t>(m), static_cast<std::size_t>(n), static_cast<std::size_t>(k));
    };
    emulation::the_machine.enqueue(s.queue(), {work});
  }

  template <class T>
  static void compute(const bf16* x, const bf16* w, T* y, std::size_t m, std::size_t n, std::size_t k) {
    std::vector<float> turned(k * width);  // some rows of x, transposed
    for (std::size_t first = 0; first < m; first += width) {
      const std::size_t rows = std::min(width, m - first);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t i = 0; i < k; ++i) turned[i * width + r] = to_float(x[(first + r) * k + i]);
      }
      for (std::size_t column = 0; column < n; ++column) {
        std::array<float, width> sum{};
        for (std::size_t i = 0; i < k; ++i) {
          const float v = to_float(w[column * k + i]);
          for (std::size_t r = 0; r < width; ++r) sum[r] += v * turned[i * width + r];
        }
        for (std::size_t r = 0; r < rows; ++r) put(y[(first + r) * n + column], sum[r]);
      }
    }
  }
  static void put(float& to, float v) { to = v; }
  static void put(bf16& to, float v) { to = from_float(v); }

  emulation::queue* queue_;
};

/// What the device is.
struct facts {
  std::string name;
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t free_bytes = 0;
};

/// @throws no_device
[[nodiscard]] inline facts query() {
  return {"emulated on the host", emulation::multiprocessors, emulation::memory_bytes,
          emulation::the_machine.free_bytes()};
}

/// Blocks of a grid that run at the same time on all of the device.
template <class... P>
[[nodiscard]] int resident_blocks(void (* /*kernel*/)(P...), int threads) {
  return emulation::multiprocessors * std::max(1, 256 / threads);
}

}  // namespace cuda_decode::device
