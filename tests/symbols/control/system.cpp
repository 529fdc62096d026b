// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// violates: pthread_mutex_lock
// violates: std::chrono::
// violates: abort

#include <chrono>
#include <cstdlib>

#include <pthread.h>

long long lock_and_tell_time(pthread_mutex_t& m) {
  if (pthread_mutex_lock(&m) != 0) std::abort();
  return std::chrono::steady_clock::now().time_since_epoch().count();
}
