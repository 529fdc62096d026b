// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../decoder.hpp"
#include "bf16.hpp"

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

/// @file
/// A GPU: the interface of `emulated.hpp` on the CUDA runtime and cuBLAS. Every call is checked.

/// Before a loop that nvcc shall unroll.
#define CUDA_DECODE_UNROLL _Pragma("unroll")

namespace cuda_decode::device {

inline constexpr bool emulated = false;

namespace detail {

/// @throws no_device, device_error
inline void check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  const std::string what =
      std::string{call} + ": " + cudaGetErrorString(result) + " (" + cudaGetErrorName(result) + ")";
  (void)cudaGetLastError();  // so that the next call does not report it again, unless it is one that stays
  if (result == cudaErrorNoDevice || result == cudaErrorInsufficientDriver) throw no_device{what};
  throw device_error{what};
}

/// @throws device_error
inline void check(cublasStatus_t result, const char* call) {
  if (result == CUBLAS_STATUS_SUCCESS) return;
  throw device_error{std::string{call} + ": " + cublasGetStatusString(result)};
}

inline void refuse_in_capture(cudaStream_t s, const char* what) {
  cudaStreamCaptureStatus status{};
  check(cudaStreamIsCapturing(s, &status), "cudaStreamIsCapturing");
  if (status != cudaStreamCaptureStatusNone) throw device_error{std::string{what} + " cannot be part of a graph"};
}

/// Something that a function gives back. `T{}` is nothing.
template <class T, auto Destroy>
class handle {
 public:
  handle() = default;
  ~handle() { reset(); }
  handle(handle&& other) noexcept : value_{std::exchange(other.value_, T{})} {}
  handle& operator=(handle&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  [[nodiscard]] T get() const { return value_; }
  /// For a function that makes one.
  [[nodiscard]] T* out() {
    reset();
    return &value_;
  }

 private:
  void reset() noexcept {
    if (value_ != T{}) (void)Destroy(value_);
    value_ = T{};
  }
  T value_{};
};

/// `n` times `size`.
/// @throws device_error
inline std::size_t bytes_of(std::size_t n, std::size_t size) {
  if (n > std::numeric_limits<std::size_t>::max() / size) throw device_error{"out of memory"};
  return n * size;
}

}  // namespace detail

class event;
class graph;

/// Work that is done in order.
class stream {
 public:
  stream() { detail::check(cudaStreamCreateWithFlags(stream_.out(), cudaStreamNonBlocking), "cudaStreamCreate"); }

  void synchronize() {
    detail::refuse_in_capture(native(), "waiting");
    detail::check(cudaStreamSynchronize(native()), "cudaStreamSynchronize");
  }
  /// What is enqueued from now on comes after what the event has recorded.
  void wait(const event& e);

  [[nodiscard]] cudaStream_t native() const { return stream_.get(); }

 private:
  detail::handle<cudaStream_t, &cudaStreamDestroy> stream_;
};

/// A point in a stream's work, and when it was reached.
class event {
 public:
  event() { detail::check(cudaEventCreate(event_.out()), "cudaEventCreate"); }

  void record(stream& s) {
    detail::refuse_in_capture(s.native(), "an event");
    detail::check(cudaEventRecord(event_.get(), s.native()), "cudaEventRecord");
  }
  /// Returns at once if nothing was recorded.
  void synchronize() const { detail::check(cudaEventSynchronize(event_.get()), "cudaEventSynchronize"); }

  [[nodiscard]] cudaEvent_t native() const { return event_.get(); }

 private:
  detail::handle<cudaEvent_t, static_cast<cudaError_t (*)(cudaEvent_t)>(&cudaEventDestroy)> event_;
};

inline void stream::wait(const event& e) {
  detail::refuse_in_capture(native(), "waiting for an event");
  detail::check(cudaStreamWaitEvent(native(), e.native(), 0), "cudaStreamWaitEvent");
}

/// Seconds between two events that were reached.
[[nodiscard]] inline double seconds_between(const event& a, const event& b) {
  float milliseconds = 0;
  detail::check(cudaEventElapsedTime(&milliseconds, a.native(), b.native()), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) / 1e3;
}

/// Memory of the device, uninitialised.
template <class T>
class buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  buffer() = default;
  explicit buffer(std::size_t n) : size_{n} {
    const std::size_t bytes = detail::bytes_of(n, sizeof(T));
    if (bytes != 0) detail::check(cudaMalloc(data_.out(), bytes), "cudaMalloc");
  }
  buffer(buffer&& other) noexcept : data_{std::move(other.data_)}, size_{std::exchange(other.size_, 0)} {}
  buffer& operator=(buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  [[nodiscard]] T* data() const { return static_cast<T*>(data_.get()); }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  detail::handle<void*, static_cast<cudaError_t (*)(void*)>(&cudaFree)> data_;
  std::size_t size_ = 0;
};

/// Memory of the host that copies read and write while the host does something else. Uninitialised.
template <class T>
class pinned {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  pinned() = default;
  explicit pinned(std::size_t n) : size_{n} {
    const std::size_t bytes = detail::bytes_of(n, sizeof(T));
    if (bytes != 0) detail::check(cudaMallocHost(data_.out(), bytes, 0), "cudaMallocHost");
  }
  pinned(pinned&& other) noexcept : data_{std::move(other.data_)}, size_{std::exchange(other.size_, 0)} {}
  pinned& operator=(pinned&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  [[nodiscard]] T* data() const { return static_cast<T*>(data_.get()); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] T& operator[](std::size_t i) const { return data()[i]; }

 private:
  detail::handle<void*, &cudaFreeHost> data_;
  std::size_t size_ = 0;
};

/// In any direction, in the stream's order.
inline void copy(stream& s, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  detail::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s.native()), "cudaMemcpyAsync");
}

/// Zeros, in the stream's order.
inline void clear(stream& s, void* p, std::size_t bytes) {
  if (bytes == 0) return;
  detail::check(cudaMemsetAsync(p, 0, bytes, s.native()), "cudaMemsetAsync");
}

/// Runs a kernel in the stream's order. Arguments are copied now.
/// @throws device_error if the device refuses
template <class... P, class... A>
void launch(stream& s, void (*kernel)(P...), dim3 grid, dim3 block, const A&... args) {
  static_assert(sizeof...(P) == sizeof...(A), "a kernel takes as many arguments as it has parameters");
  static_assert((std::is_trivially_copyable_v<P> && ...), "a kernel's parameters are copied bit by bit");
  cudaLaunchConfig_t configuration{};
  configuration.gridDim = grid;
  configuration.blockDim = block;
  configuration.stream = s.native();
  detail::check(cudaLaunchKernelEx(&configuration, kernel, static_cast<P>(args)...), "cudaLaunchKernelEx");
}

/// What was enqueued once, with the arguments of then, to be done again and again.
class graph {
 public:
  graph() = default;

  /// What `f` enqueues on the stream. Nothing of it is done now.
  template <class F>
  static graph capture(stream& s, F&& f) {
    detail::refuse_in_capture(s.native(), "a capture");
    recorded work;
    detail::check(cudaStreamBeginCapture(s.native(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    try {
      std::forward<F>(f)();
    } catch (...) {
      (void)cudaStreamEndCapture(s.native(), work.out());
      (void)cudaGetLastError();
      throw;
    }
    detail::check(cudaStreamEndCapture(s.native(), work.out()), "cudaStreamEndCapture");
    graph result;
    detail::check(cudaGraphInstantiate(result.executable_.out(), work.get(), 0), "cudaGraphInstantiate");
    return result;
  }

  void launch(stream& s) {
    if (executable_.get() == nullptr) throw device_error{"an empty graph is launched"};
    detail::check(cudaGraphLaunch(executable_.get(), s.native()), "cudaGraphLaunch");
  }

  explicit operator bool() const { return executable_.get() != nullptr; }

 private:
  using recorded = detail::handle<cudaGraph_t, &cudaGraphDestroy>;
  detail::handle<cudaGraphExec_t, &cudaGraphExecDestroy> executable_;
};

/// `f(cudaStream_t)` is called now and enqueues work of its own.
template <class F>
void enqueue(stream& s, F&& f) {
  (void)cudaGetLastError();  // what a library has left behind is none of ours
  std::forward<F>(f)(s.native());
  detail::check(cudaPeekAtLastError(), "enqueue");
}

/// Matrix products. Equal calls have equal results: one stream, one workspace, no atomics.
class blas {
 public:
  explicit blas(stream& s) : stream_{s.native()}, workspace_{workspace_bytes} {
    detail::check(cublasCreate(handle_.out()), "cublasCreate");
    detail::check(cublasSetStream(handle_.get(), stream_), "cublasSetStream");
    // After the stream, which sets it back.
    detail::check(cublasSetWorkspace(handle_.get(), workspace_.data(), workspace_bytes), "cublasSetWorkspace");
    // Sums of a split k stay in float until the end.
    constexpr auto mode = static_cast<cublasMath_t>(static_cast<int>(CUBLAS_DEFAULT_MATH) |
                                                    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    detail::check(cublasSetMathMode(handle_.get(), mode), "cublasSetMathMode");
    detail::check(cublasSetAtomicsMode(handle_.get(), CUBLAS_ATOMICS_NOT_ALLOWED), "cublasSetAtomicsMode");
  }

  /// y[m][n] = x[m][k] * w[n][k]^T, row by row, summed in float.
  void multiply(stream& s, const bf16* x, const bf16* w, bf16* y, int m, int n, int k) {
    multiply(s, x, w, y, CUDA_R_16BF, m, n, k);
  }
  void multiply(stream& s, const bf16* x, const bf16* w, float* y, int m, int n, int k) {
    multiply(s, x, w, y, CUDA_R_32F, m, n, k);
  }

 private:
  static constexpr std::size_t workspace_bytes = std::size_t{64} << 20;

  // cuBLAS counts by columns. Our row-major y is its n x m matrix of leading dimension n. Our w is its k x n matrix,
  // our x its k x m one. So y' = w'^T x' there.
  void multiply(stream& s, const bf16* x, const bf16* w, void* y, cudaDataType_t type, int m, int n, int k) {
    if (m < 0 || n < 0 || k < 0) throw device_error{"a matrix product of a negative size"};
    if (s.native() != stream_) throw device_error{"a matrix product on another stream than that of its workspace"};
    if (m == 0 || n == 0) return;
    const float one = 1;
    const float zero = 0;
    detail::check(cublasGemmEx(handle_.get(), CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, w, CUDA_R_16BF, k, x,
                               CUDA_R_16BF, k, &zero, y, type, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                  "cublasGemmEx");
  }

  cudaStream_t stream_;
  buffer<std::byte> workspace_;
  detail::handle<cublasHandle_t, &cublasDestroy> handle_;
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
  int count = 0;
  detail::check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count == 0) throw no_device{"cudaGetDeviceCount: there is none"};
  int device = 0;
  detail::check(cudaGetDevice(&device), "cudaGetDevice");
  cudaDeviceProp properties{};
  detail::check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  facts out{properties.name, properties.multiProcessorCount, 0, 0};
  detail::check(cudaMemGetInfo(&out.free_bytes, &out.memory_bytes), "cudaMemGetInfo");
  return out;
}

/// Blocks of a grid that run at the same time on all of the device.
template <class... P>
[[nodiscard]] int resident_blocks(void (*kernel)(P...), int threads) {
  int device = 0;
  int multiprocessors = 0;
  int each = 0;
  detail::check(cudaGetDevice(&device), "cudaGetDevice");
  detail::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                "cudaDeviceGetAttribute");
  detail::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, 0),
                "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  if (each == 0) throw device_error{"a kernel that fits on no multiprocessor"};
  return each * multiprocessors;
}

}  // namespace cuda_decode::device
