// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/model/profile.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// @file
/// A real run of an engine, compared with the same requests in the simulator.

namespace calibrate {

namespace sim = tessera::sim;

/// The measured times of one request. NaN: not measured.
struct measured_request {
  double ttft = std::nan("");
  double tpot = std::nan("");
  double e2e = std::nan("");
};

/// A run: a trace with arrivals, and its measured times.
struct measured_run {
  std::string name;
  std::vector<sim::trace_row> rows;
  std::vector<measured_request> measured;
};

/// The configuration of the engine.
struct engine {
  std::size_t kv_blocks = 0;  ///< 0: as many as the profile has room for.
  std::int64_t block_size = 16;
  std::size_t max_batch = 256;
  std::int64_t token_budget = 2048;
};

/// Mean, median and 99th percentile.
struct spread {
  double mean = 0;
  double p50 = 0;
  double p99 = 0;
};

/// The numbers of a run, measured or simulated.
struct run_numbers {
  spread ttft;
  spread tpot;
  spread e2e;
  double throughput = 0;  ///< Output tokens per second, first arrival to last finish.
};

/// Columns of a trace, and measured_ttft_s, measured_tpot_s (may be missing), measured_e2e_s.
/// @throws sim::input_error
measured_run read_run(const std::string& path);

/// What was measured.
run_numbers numbers_of(const measured_run& run);

/// Runs the requests on one instance under FCFS with chunked prefill, as vLLM, SGLang and TensorRT-LLM serve by
/// default.
/// @throws sim::usage_error an engine that is too small for a request
run_numbers simulate(const measured_run& run, const sim::profile& p, const engine& e);

/// The host's seconds in each step that give the measured mean end-to-end latency; 0 if none are needed.
/// @throws sim::usage_error no host time explains the run: it is faster than its steps, or far slower.
double fit_host_step(const measured_run& run, sim::profile p, const engine& e);

}  // namespace calibrate
