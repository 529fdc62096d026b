// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/input/trace_row.hpp>
#include <tessera/sim/measure/request_record.hpp>
#include <tessera/sim/measure/slo.hpp>
#include <tessera/sim/model/step_time.hpp>
#include <tessera/sim/report/alone.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

request_record alone(const trace_row& row, const idle_instance& on, bool cached) {
  request_record r{
      .prompt_tokens = row.prompt_tokens, .reasoning_tokens = row.reasoning_tokens, .answer_tokens = row.answer_tokens};
  r.first_scheduled = on.host_request_seconds;
  double now = r.first_scheduled;
  for (std::int64_t done = cached ? row.prompt_tokens - 1 : 0; done < row.prompt_tokens;) {
    const std::int64_t chunk = std::min(on.token_budget, row.prompt_tokens - done);
    step_shape step;
    step.add_prefill(tokens{done}, tokens{chunk});
    now += on.timer(step);
    done += chunk;
  }
  r.first_token = now;
  // Seconds from the first token on to the n-th.
  constexpr std::int64_t parts = 4;
  const std::int64_t decodes = row.output_tokens - 1;
  const auto step_at = [&](std::int64_t n) {
    step_shape step;
    step.add_decode(tokens{row.prompt_tokens + n});
    return on.timer(step);
  };
  const auto until = [&](std::int64_t n) {
    double seconds = 0;
    for (std::int64_t k = 0; k != parts; ++k) {
      const std::int64_t from = n * k / parts;
      const std::int64_t to = n * (k + 1) / parts;
      if (to > from) seconds += static_cast<double>(to - from) * (step_at(from + 1) + step_at(to)) / 2;
    }
    return seconds;
  };
  if (row.answer_tokens > 0) r.first_answer = now + until(row.reasoning_tokens);
  r.finish = now + until(decodes);
  return r;
}

std::string describe_idle_misses(std::span<const slo_bound> slo, std::span<const trace_row> rows,
                                 const idle_instance& on) {
  if (slo.empty() || rows.empty()) return {};
  std::vector<request_record> records;
  records.reserve(rows.size());
  std::unordered_set<std::int64_t> begun;
  std::size_t reason = 0;
  for (const trace_row& row : rows) {
    const bool later = row.session >= 0 && !begun.insert(row.session).second;
    records.push_back(alone(row, on, later || !row.runs.empty()));
    reason += row.reasoning_tokens > 0 ? 1U : 0U;
  }
  const slo_report report = evaluate_slo(slo, records, {});
  std::string out;
  for (const slo_report::line& l : report.lines) {
    if (l.met) continue;
    out +=
        fmt::format("An idle instance already misses {}: it takes {} s, {:g} s are asked for, so no rate or size helps",
                    to_string(l.bound), show_beside(l.value, l.bound.seconds), l.bound.seconds);
    if (l.bound.metric == slo_metric::ttft && reason != 0) {
      slo_bound first = l.bound;
      first.metric = slo_metric::first_token;
      const slo_report of_any = evaluate_slo({&first, 1}, records, {});
      out += fmt::format(
          ". {:.3g} % of the requests reason, and ttft ends with the first answering token. {}, to the first token of "
          "any kind, is {:.3g} s",
          100 * static_cast<double>(reason) / static_cast<double>(rows.size()), to_string(first),
          of_any.lines.front().value);
    }
    out += ".\n";
  }
  return out;
}

}  // namespace sim
TESSERA_NAMESPACE_END
