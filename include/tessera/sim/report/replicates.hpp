// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/measure/distribution.hpp>

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

/// @file
/// One experiment several times, with a different seed each time: run on all cores, and summarised.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// A number measured several times.
struct estimate {
  double mean = never;        ///< Mean of the values that are numbers.
  double half_width = never;  ///< Half width of the 95 % confidence interval around it (Student's t); NaN for fewer
                              ///< than two values.
  std::size_t count = 0;      ///< The number of values that are numbers.
};

/// The mean of independent measurements, with its confidence interval. NaNs are left out. O(n).
[[nodiscard]] estimate estimate_mean(std::span<const double> samples);

/// Calls `job(i)` once for each `i` below `count`, on at most `threads` threads, including the caller's; in order of
/// `i` if there is only one. Returns when all have returned. When one throws, no more are started, and the exception of
/// the lowest `i` that threw is rethrown.
template <class Job>
void run_parallel(std::size_t count, std::size_t threads, Job&& job) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stopped{false};
  std::mutex failing;
  std::size_t failed_at = count;
  std::exception_ptr failure;
  const auto work = [&] {
    while (!stopped) {
      const std::size_t i = next++;
      if (i >= count) return;
      try {
        job(i);
      } catch (...) {
        const std::lock_guard<std::mutex> one{failing};
        stopped = true;
        if (i < failed_at) {
          failed_at = i;
          failure = std::current_exception();
        }
      }
    }
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < threads && i < count; ++i) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace sim
TESSERA_NAMESPACE_END
