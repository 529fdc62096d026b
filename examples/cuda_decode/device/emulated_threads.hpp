// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../decoder.hpp"

#include <boost/context/detail/fcontext.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#  define CUDA_DECODE_ASAN 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define CUDA_DECODE_ASAN 1
#  endif
#endif
#ifdef CUDA_DECODE_ASAN
#  include <sanitizer/asan_interface.h>
#  include <sanitizer/common_interface_defs.h>
#endif

/// @file
/// The threads of a kernel on the host, and CUDA's types and variables; its functions are in emulated_functions.hpp.
/// Blocks run one after the other, the threads of a block are fibers that take turns at barriers and warp collectives.
/// What would hang or be undefined on a device is a `device_error` here. Examples: a barrier that some threads do not
/// reach, a collective that lanes do not agree about.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
/// Before a loop that nvcc shall unroll.
#define CUDA_DECODE_UNROLL

// Shared memory is static. With clang all of it is in one section, which is filled with NaN before each block. g++ has
// no sections for templates' variables. With AddressSanitizer its guards between variables are worth more.
#if defined(__clang__) && defined(__ELF__) && !defined(CUDA_DECODE_ASAN)
#  define CUDA_DECODE_FILLS_SHARED 1
#  define __shared__ __attribute__((section("cuda_decode_shared"))) static
extern "C" {
extern char __start_cuda_decode_shared[] __attribute__((weak));
extern char __stop_cuda_decode_shared[] __attribute__((weak));
}
#else
#  define __shared__ static
#endif

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) noexcept : x{x_}, y{y_}, z{z_} {}
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
constexpr float2 make_float2(float x, float y) { return {x, y}; }
constexpr float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

inline constinit uint3 threadIdx{};
inline constinit uint3 blockIdx{};
inline constinit dim3 blockDim{};
inline constinit dim3 gridDim{};

namespace cuda_decode::device::emulation {

inline constexpr unsigned all_lanes = 0xffff'ffffU;
inline constexpr unsigned most_threads = 1024;           ///< Threads of a block.
inline constexpr std::size_t stack_bytes = 256 << 10;    ///< Stack of a fiber. Pages that are not touched cost nothing.
inline constexpr std::size_t most_exchanged_bytes = 64;  ///< Bytes of one lane, in `warp_exchange`.

/// What lanes of a warp do together. Kernels use the functions below.
class threads {
  using fcontext = boost::context::detail::fcontext_t;
  using transfer = boost::context::detail::transfer_t;

 public:
  struct warp;
  /// Done once for all lanes that take part, which have left the addresses of their data in `slots`. Answers null, or
  /// what is wrong.
  using combination = const char* (*)(warp&, unsigned lanes);

  struct warp {
    unsigned live = 0;     // lanes that have not returned
    unsigned ready = 0;    // of these, that can run
    unsigned waiting = 0;  // of these, in a collective
    std::array<void*, 32> slots;
    alignas(16) std::array<std::byte, 32 * most_exchanged_bytes> exchanged;
  };

  threads() = default;
  ~threads() {
    for (const auto& f : fibers_) allocator_.deallocate(f->stack);
  }
  threads(const threads&) = delete;
  threads& operator=(const threads&) = delete;

  /// Runs a kernel to its end. In the order of their numbers, or in any order that `random` makes up.
  /// @throws device_error if threads wait for each other in vain; what the kernel throws
  template <class Body>
  void run(dim3 grid, dim3 block, const Body& body, std::mt19937_64* random) {
    if (inside()) throw device_error{"a kernel is launched from within a kernel"};
    body_ = &body;
    call_ = [](const void* b) { (*static_cast<const Body*>(b))(); };
    random_ = random;
    gridDim = grid;
    blockDim = block;
    const std::size_t blocks = std::size_t{grid.x} * grid.y * grid.z;
    if (random == nullptr) {
      for (std::size_t b = 0; b < blocks; ++b) run_block(b);
    } else {
      std::vector<std::size_t> order(blocks);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::shuffle(order.begin(), order.end(), *random);
      for (const std::size_t b : order) run_block(b);
    }
  }

  /// A kernel is running.
  [[nodiscard]] bool inside() const noexcept { return current_ != nullptr; }

  void block_barrier(std::source_location where) {
    thread& self = here("__syncthreads", where);
    self.at = place::barrier;
    self.where = where;
    ++at_barrier_;
    if (at_barrier_ == live_) {
      release_barrier();
      take(self);
    } else {
      suspend();
    }
    self.at = place::work;
  }

  /// Waits until all lanes of `lanes` that have not returned are here, and combines what they brought.
  void collective(unsigned lanes, void* slot, combination combine, std::source_location where) {
    thread& self = here("a warp collective", where);
    warp& w = warps_[self.warp];
    if ((lanes >> self.lane & 1U) == 0) fail("a lane is not in the mask of its own warp collective", where);
    self.at = place::collective;
    self.where = where;
    self.lanes = lanes;
    self.combine = combine;
    w.slots[self.lane] = slot;
    w.waiting |= 1U << self.lane;
    if (complete(self)) {
      take(self);
    } else {
      suspend();
    }
    self.at = place::work;
  }

 private:
  enum class place : std::uint8_t { work, barrier, collective };

  struct fiber {
    fcontext context = nullptr;  // while it is suspended
    boost::context::stack_context stack;
    std::size_t offset = 0;
    // For AddressSanitizer.
    void* fake_stack = nullptr;
    const void* bottom = nullptr;
    std::size_t size = 0;
  };

  struct thread {
    uint3 index;
    unsigned warp;
    unsigned lane;
    fiber* on;  // null: has not begun
    place at;
    std::source_location where;
    unsigned lanes;
    combination combine;
  };

  void run_block(std::size_t number) {
    blockIdx.x = static_cast<unsigned>(number % gridDim.x);
    blockIdx.y = static_cast<unsigned>(number / gridDim.x % gridDim.y);
    blockIdx.z = static_cast<unsigned>(number / gridDim.x / gridDim.y);
#ifdef CUDA_DECODE_FILLS_SHARED
    std::fill(static_cast<char*>(__start_cuda_decode_shared), static_cast<char*>(__stop_cuda_decode_shared), '\xff');
#endif
    live_ = blockDim.x * blockDim.y * blockDim.z;
    at_barrier_ = 0;
    ready_warps_ = 0;
    uint3 index{0, 0, 0};
    for (unsigned i = 0; i < live_; ++i) {
      threads_[i] = {index, i / 32, i % 32, nullptr, place::work, {}, 0, nullptr};
      if (++index.x == blockDim.x) {
        index.x = 0;
        if (++index.y == blockDim.y) {
          index.y = 0;
          ++index.z;
        }
      }
    }
    for (unsigned first = 0; first < live_; first += 32) {
      warp& w = warps_[first / 32];
      w.live = w.ready = live_ - first >= 32 ? all_lanes : (1U << (live_ - first)) - 1;
      w.waiting = 0;
      ready_warps_ |= 1U << first / 32;
    }
    error_ = nullptr;
    message_.clear();
    current_ = threads_.data();
    thread* const first = pick();
    switch_to(first);  // comes back when no thread can run
    current_ = nullptr;
    running_ = nullptr;
    if (error_ == nullptr && message_.empty() && live_ != 0) message_ = why_stuck();
    if (error_ != nullptr || !message_.empty()) abandon_fibers();
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
    if (!message_.empty()) {
      throw device_error{message_ + " (block " + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
                         std::to_string(blockIdx.z) + ")"};
    }
  }

  // Choosing.

  thread* pick() {
    if (ready_warps_ == 0) return nullptr;
    unsigned w = current_->warp;
    if (random_ != nullptr) {
      w = any_bit(ready_warps_);
    } else if (warps_[w].ready == 0) {
      w = static_cast<unsigned>(std::countr_zero(ready_warps_));
    }
    unsigned& ready = warps_[w].ready;
    const unsigned lane = random_ != nullptr ? any_bit(ready) : static_cast<unsigned>(std::countr_zero(ready));
    thread& chosen = threads_[w * 32 + lane];
    take(chosen);
    return &chosen;
  }

  unsigned any_bit(unsigned set) {
    const auto by = static_cast<int>((*random_)() >> 59);
    return (static_cast<unsigned>(std::countr_zero(std::rotr(set, by))) + static_cast<unsigned>(by)) % 32;
  }

  // Runs now, so is not among the ready.
  void take(const thread& t) {
    unsigned& ready = warps_[t.warp].ready;
    ready &= ~(1U << t.lane);
    if (ready == 0) ready_warps_ &= ~(1U << t.warp);
  }

  void make_ready(unsigned warp_number, unsigned lanes) {
    warps_[warp_number].ready |= lanes;
    if (lanes != 0) ready_warps_ |= 1U << warp_number;
  }

  // Meeting.

  thread& here(const char* what, std::source_location where) {
    if (current_ == nullptr) throw device_error{std::string{what} + " outside of a kernel" + text(where)};
    return *current_;
  }

  void release_barrier() {
    at_barrier_ = 0;
    const thread* first = nullptr;
    for (unsigned w = 0; w < warps_.size() && w * 32 < blockDim.x * blockDim.y * blockDim.z; ++w) {
      for (unsigned left = warps_[w].live; left != 0; left &= left - 1) {
        const thread& t = threads_[w * 32 + static_cast<unsigned>(std::countr_zero(left))];
        if (first == nullptr) first = &t;
        if (t.where.line() != first->where.line()) {
          fail("threads of a block wait at different barriers, one of them", t.where);
        }
      }
      make_ready(w, warps_[w].live);
    }
  }

  // Ends the collective in which `t` waits if all are there.
  bool complete(const thread& t) {
    warp& w = warps_[t.warp];
    const unsigned lanes = t.lanes & w.live;
    if ((w.waiting & lanes) != lanes) return false;
    for (unsigned left = lanes; left != 0; left &= left - 1) {
      const thread& other = threads_[t.warp * 32 + static_cast<unsigned>(std::countr_zero(left))];
      if (other.lanes != t.lanes || other.combine != t.combine || other.where.line() != t.where.line()) return false;
    }
    if (const char* const wrong = t.combine(w, lanes); wrong != nullptr) fail(wrong, t.where);
    w.waiting &= ~lanes;
    make_ready(t.warp, lanes);
    return true;
  }

  void finish(const thread& self) {
    warp& w = warps_[self.warp];
    w.live &= ~(1U << self.lane);
    --live_;
    for (unsigned left = w.waiting; left != 0;) {
      const auto lane = static_cast<unsigned>(std::countr_zero(left));
      complete(threads_[self.warp * 32 + lane]);
      left &= w.waiting & ~(1U << lane);
    }
    if (live_ != 0 && at_barrier_ == live_) release_barrier();
  }

  static std::string text(std::source_location where) {
    return std::string{" ("} + where.file_name() + ":" + std::to_string(where.line()) + ")";
  }

  [[nodiscard]] std::string why_stuck() const {
    std::array<unsigned, 2> count{};
    std::array<const thread*, 2> example{};
    for (unsigned i = 0; i < blockDim.x * blockDim.y * blockDim.z; ++i) {
      const thread& t = threads_[i];
      if ((warps_[t.warp].live >> t.lane & 1U) == 0) continue;
      const std::size_t which = t.at == place::barrier ? 0 : 1;
      ++count[which];
      example[which] = &t;
    }
    std::string out = "divergent flow: of " + std::to_string(live_) + " live threads of a block";
    if (count[0] != 0) {
      out += ", " + std::to_string(count[0]) + " wait at __syncthreads" + text(example[0]->where);
    }
    if (count[1] != 0) {
      out += ", " + std::to_string(count[1]) + " wait in warp collectives" + text(example[1]->where);
    }
    return out + ", and the rest never comes";
  }

  // Switching.

  void suspend() {
    current_->on = running_;
    switch_to(pick());
  }

  // To a thread, or, for null, back to `run_block`. What was running stays where it is until it is switched to.
  void switch_to(thread* next) {
    fiber* const from = running_ == nullptr ? &main_ : running_;
    fiber* to = &main_;
    if (next != nullptr) {
      if (next->on == nullptr) {
        if (free_.empty()) add_fiber();
        to = free_.back();
        free_.pop_back();
      } else {
        to = next->on;
      }
      enter(*next);
    }
    running_ = to == &main_ ? nullptr : to;
#ifdef CUDA_DECODE_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->bottom, to->size);
#endif
    arrive(*from, boost::context::detail::jump_fcontext(to->context, from));
  }

  // `self` runs again; `t` says which fiber it follows.
  static void arrive([[maybe_unused]] fiber& self, transfer t) {
    fiber& before = *static_cast<fiber*>(t.data);
    before.context = t.fctx;
#ifdef CUDA_DECODE_ASAN
    __sanitizer_finish_switch_fiber(self.fake_stack, &before.bottom, &before.size);
#endif
  }

  void enter(thread& t) {
    current_ = &t;
    threadIdx = t.index;
  }

  static void begin(transfer t);

  // A fiber runs one thread after the other: a kernel without barriers needs only one.
  void work(fiber& self, transfer t) {
    arrive(self, t);
    for (;;) {
      try {
        call_(body_);
      } catch (...) {
        error_ = std::current_exception();
      }
      thread* next = nullptr;
      if (error_ == nullptr) {
        finish(*current_);
        next = pick();
      }
      if (next != nullptr && next->on == nullptr) {
        enter(*next);
        continue;
      }
      free_.push_back(&self);
      switch_to(next);
    }
  }

  [[noreturn]] void fail(const char* what, std::source_location where) {
    message_ = what;
    message_ += text(where);
    switch_to(nullptr);
    std::terminate();  // a finished fiber is not switched to again
  }

  void add_fiber() {
    auto f = std::make_unique<fiber>();
    f->stack = allocator_.allocate();
    // Tops of stacks at the same place of each page would compete for the same lines of the cache.
    f->offset = fibers_.size() % 16 * 256;
    prepare(*f);
    free_.reserve(fibers_.size() + 1);
    fibers_.push_back(std::move(f));
    free_.push_back(fibers_.back().get());
  }

  static void prepare(fiber& f) {
    char* const top = static_cast<char*>(f.stack.sp);
    f.bottom = top - f.stack.size;
    f.size = f.stack.size;
    f.fake_stack = nullptr;
#ifdef CUDA_DECODE_ASAN
    __asan_unpoison_memory_region(f.bottom, f.size);
#endif
    f.context = boost::context::detail::make_fcontext(top - f.offset, f.stack.size - f.offset, &threads::begin);
  }

  // After a failure: what was on their stacks is forgotten, not unwound.
  void abandon_fibers() {
    free_.clear();
    for (const auto& f : fibers_) {
      prepare(*f);
      free_.push_back(f.get());
    }
  }

  boost::context::protected_fixedsize_stack allocator_{stack_bytes};
  std::vector<std::unique_ptr<fiber>> fibers_;
  std::vector<fiber*> free_;
  fiber main_;
  fiber* running_ = nullptr;   // null: main_
  thread* current_ = nullptr;  // null: no kernel runs
  void (*call_)(const void*) = nullptr;
  const void* body_ = nullptr;
  std::mt19937_64* random_ = nullptr;
  unsigned live_ = 0;
  unsigned at_barrier_ = 0;
  unsigned ready_warps_ = 0;
  std::exception_ptr error_;
  std::string message_;
  std::array<thread, most_threads> threads_;
  std::array<warp, most_threads / 32> warps_;
};

inline threads all_threads;

inline void threads::begin(transfer t) { all_threads.work(*all_threads.running_, t); }

template <class T>
T shuffle(unsigned lanes, T value, unsigned source, std::source_location where) {
  static_assert(std::is_arithmetic_v<T>);
  struct request {
    T value;
    unsigned source;
  } mine{value, source};
  all_threads.collective(
      lanes, &mine,
      [](threads::warp& w, unsigned taking_part) -> const char* {
        std::array<T, 32> values{};
        for (unsigned lane = 0; lane < 32; ++lane) {
          if ((taking_part >> lane & 1U) != 0) values[lane] = static_cast<request*>(w.slots[lane])->value;
        }
        for (unsigned lane = 0; lane < 32; ++lane) {
          if ((taking_part >> lane & 1U) == 0) continue;
          auto& r = *static_cast<request*>(w.slots[lane]);
          if ((taking_part >> r.source & 1U) == 0) return "a shuffle reads from a lane that takes no part";
          r.value = values[r.source];
        }
        return nullptr;
      },
      where);
  return mine.value;
}

inline unsigned lane() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32; }

inline unsigned ballot(unsigned lanes, bool predicate, std::source_location where) {
  struct vote {
    bool yes;
    unsigned all;
  } mine{predicate, 0};
  all_threads.collective(
      lanes, &mine,
      [](threads::warp& w, unsigned taking_part) -> const char* {
        unsigned all = 0;
        for (unsigned l = 0; l < 32; ++l) {
          if ((taking_part >> l & 1U) != 0 && static_cast<vote*>(w.slots[l])->yes) all |= 1U << l;
        }
        for (unsigned l = 0; l < 32; ++l) {
          if ((taking_part >> l & 1U) != 0) static_cast<vote*>(w.slots[l])->all = all;
        }
        return nullptr;
      },
      where);
  return mine.all;
}

/// Each lane of a full warp shows something to all others. What it returns, 32 of them, is valid until the lane's next
/// collective.
template <class T>
const T* warp_exchange(const T& mine, std::source_location where = std::source_location::current()) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= most_exchanged_bytes && alignof(T) <= 16);
  struct offer {
    const T* mine;
    const T* all;
  } slot{&mine, nullptr};
  all_threads.collective(
      all_lanes, &slot,
      [](threads::warp& w, unsigned taking_part) -> const char* {
        if (taking_part != all_lanes) return "an exchange needs all 32 lanes of a warp";
        T* const all = reinterpret_cast<T*>(w.exchanged.data());
        for (unsigned l = 0; l < 32; ++l) {
          auto& o = *static_cast<offer*>(w.slots[l]);
          new (all + l) T(*o.mine);
          o.all = all;
        }
        return nullptr;
      },
      where);
  return slot.all;
}

}  // namespace cuda_decode::device::emulation
