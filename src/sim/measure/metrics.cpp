// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/config.hpp>
#include <tessera/qoe/integrator.hpp>
#include <tessera/sim/measure/load_verdict.hpp>
#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/measure/request_record.hpp>
#include <tessera/sim/measure/session_waits.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/measure/tenant_shares.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::vector<tail_bin> tail_by_reasoning(std::span<const request_record> requests, const measured_window& window) {
  std::map<std::int64_t, std::vector<double>> bins;
  for (const request_record& r : requests) {
    if (!std::isnan(r.ttft()) && window.contains(r.arrival))
      bins[r.reasoning_tokens / tail_bin_tokens * tail_bin_tokens].push_back(r.ttft());
  }
  std::vector<tail_bin> tails;
  for (auto& [bin, samples] : bins) {
    const std::size_t n = samples.size();
    if (n < 5) continue;
    std::sort(samples.begin(), samples.end());
    if (n < 10) {
      tails.push_back({bin, n, "max", samples.back()});
    } else if (n < 20) {
      tails.push_back({bin, n, "p90", percentile(samples, 0.9)});
    } else if (n < 100) {
      tails.push_back({bin, n, "p95", percentile(samples, 0.95)});
    } else {
      tails.push_back({bin, n, "p99", percentile(samples, 0.99)});
    }
  }
  return tails;
}

summary summarize(std::span<const request_record> requests, const run_facts& facts, double qoe_least) {
  summary s;
  s.policy = facts.policy;
  s.requests = requests.size();
  std::vector<double> ttft, first, tpot, e2e, normalized, blocking, qoe;
  double first_arrival = std::numeric_limits<double>::infinity();
  double last_finish = -first_arrival;
  double output = 0;
  std::size_t violations = 0;
  std::vector<double> asked(facts.service.size(), 0.0);
  double prompts = 0;
  double found = 0;
  for (const request_record& r : requests) {
    first_arrival = std::min(first_arrival, r.arrival);
    s.rejected += r.rejected ? 1U : 0U;
    s.preemptions += r.preemptions;
    s.migrations += r.migrations;
    if (r.completed()) {
      ++s.completed;
      last_finish = std::max(last_finish, r.finish);
      output += static_cast<double>(r.output_tokens());
    }
    if (!facts.window.contains(r.arrival)) continue;
    ++s.measured;
    if (!r.rejected) {
      if (r.tenant >= 0 && static_cast<std::size_t>(r.tenant) < asked.size()) {
        asked[static_cast<std::size_t>(r.tenant)] += service_of(r.prompt_tokens, r.output_tokens());
      }
      prompts += static_cast<double>(r.prompt_tokens);
      found += static_cast<double>(r.cached_tokens);
    }
    ttft.push_back(r.ttft());
    first.push_back(r.first_token_s());
    s.reasoning_share += r.reasoning_tokens > 0 ? 1 : 0;
    blocking.push_back(r.blocking());
    if (!r.completed()) continue;
    tpot.push_back(r.tpot());
    e2e.push_back(r.e2e());
    normalized.push_back(r.normalized_latency());
    qoe.push_back(r.qoe);
    if (r.qoe < qoe_least) ++violations;
  }
  if (prompts > 0) s.prefix_hit_rate = found / prompts;
  s.worst_tenant = worst_share(asked, facts.service);
  s.ttft = describe(std::move(ttft));
  s.first_token = describe(std::move(first));
  if (s.measured > 0) s.reasoning_share /= static_cast<double>(s.measured);
  s.tpot = describe(std::move(tpot));
  s.e2e = describe(std::move(e2e));
  s.session = describe(session_waits(requests, facts.window));
  s.normalized_latency = describe(std::move(normalized));
  s.blocking_p99 = describe(std::move(blocking)).p99;
  const distribution q = describe(std::move(qoe));
  s.qoe_mean = q.mean;
  if (q.count > 0) s.slo_violation_rate = static_cast<double>(violations) / static_cast<double>(q.count);
  if (last_finish > first_arrival) s.throughput_tokens_per_s = output / (last_finish - first_arrival);
  if (std::isfinite(facts.window.length()) && facts.window.length() > 0) {
    s.window_s = facts.window.length();
    s.window_tokens_per_s = facts.window.output_tokens / s.window_s;
  }
  s.joules = facts.joules;
  if (output > 0) s.joules_per_output_token = s.joules / output;
  s.faults = facts.faults;
  s.kv_transfer_p99 = describe(facts.kv_transfers).p99;
  s.fragmentation_mean = facts.fragmentation.mean();
  s.fragmentation_peak = facts.fragmentation.peak();
  s.ttft_by_reasoning_bin = tail_by_reasoning(requests, facts.window);
  s.scheduler_ns_mean = facts.scheduler_ns.mean();
  s.scheduler_ns_p99 = facts.scheduler_ns.quantile(0.99);
  if (facts.wall_seconds > 0) s.simulated_tokens_per_wall_s = facts.simulated_tokens / facts.wall_seconds;
  return s;
}

distribution describe_in_fault(std::span<const fault_time> faults, std::span<const request_record> requests,
                               const measured_window& window) {
  std::vector<double> ttft;
  for (const request_record& r : requests) {
    if (!window.contains(r.arrival)) continue;
    const bool hit = std::any_of(faults.begin(), faults.end(),
                                 [&](const fault_time& f) { return f.from <= r.arrival && r.arrival < f.to; });
    if (hit) ttft.push_back(r.ttft());
  }
  return describe(std::move(ttft));
}

}  // namespace sim
TESSERA_NAMESPACE_END
