// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Every number of every published policy on every built-in workload, with two seeds, as it was before:
// tests/sim/golden.csv. Where a change means to alter what a policy does, the environment variable TESSERA_GOLDEN names
// a file to which the new lines are written.
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/policies/policies.hpp>
#include <tessera/sim/report/report.hpp>

#include "sim/profile_cluster.hpp"
#include "support/catch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace {

using namespace tessera;

/// FNV-1a, of all rows of a run.
std::uint64_t digest(const std::string& text) {
  std::uint64_t h = 14695981039346656037U;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return h;
}

/// A line for each policy on one workload.
std::vector<std::string> lines_of(const sim::workload& w, std::uint64_t seed) {
  constexpr std::size_t requests = 60;
  // Three times the usual load of so many instances, with memory for two of the longest requests each: everything
  // happens.
  std::vector<sim::trace_row> rows = sim::generate(w, requests, 1.5 * w.rate, seed);
  sim::random_engine noise{seed, 7};
  for (sim::trace_row& r : rows) {
    if (r.score != r.score) {
      r.score = static_cast<float>(static_cast<double>(r.output_tokens) * (0.5 + sim::uniform(noise)));
    }
  }
  std::int64_t longest = 0;
  for (const sim::trace_row& r : rows) longest = std::max(longest, r.prompt_tokens + r.output_tokens);
  const auto blocks = static_cast<std::size_t>(2 * longest / 16 + 8);
  sim::cluster_options o = tessera_test::profile_cluster("h100-96gb-qwen-32b", 4, blocks, 12);
  o.prefix_cache = true;
  o.instance.times_scheduler = false;
  std::vector<std::string> out;
  for (const sim::policy& p : sim::published_policies()) {
    const sim::run_result r = p.run(o, rows, [](std::size_t) {});
    out.push_back(fmt::format("{},{},{},{:016x},{:.6f},{:.6f},{},{}", w.name, seed, p.name, digest(sim::format_csv(r)),
                              r.numbers.ttft.mean, r.numbers.e2e.mean, r.numbers.preemptions, r.numbers.migrations));
  }
  return out;
}

TEST_CASE("golden: every policy on every workload does what it did") {
  std::vector<std::string> lines{"workload,seed,policy,digest,ttft_mean_s,e2e_mean_s,preemptions,migrations"};
  for (const sim::workload& w : sim::workloads()) {
    for (const std::uint64_t seed : {1U, 2U}) {
      for (std::string& line : lines_of(w, seed)) lines.push_back(std::move(line));
    }
  }
  if (const char* to = std::getenv("TESSERA_GOLDEN"); to != nullptr) {
    std::ofstream file{to};
    for (const std::string& line : lines) file << line << '\n';
    return;
  }
  std::ifstream file{TESSERA_TEST_SOURCES "/sim/golden.csv"};
  REQUIRE(file.good());
  std::vector<std::string> before;
  for (std::string line; std::getline(file, line);) before.push_back(line);
  REQUIRE(lines.size() == before.size());
  for (std::size_t i = 0; i != lines.size(); ++i) CHECK(lines[i] == before[i]);
}

}  // namespace
