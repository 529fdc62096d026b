// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/gate/in_time.hpp>
#include <tessera/order/least_slack.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include <concepts>
#include <span>
#include <string>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace {

/// Least slack to the promised deadlines, or else to a TTFT of 1 s and a TPOT of 0.1 s. A prompt token takes its time
/// in a prompt of 1024.
/// @tparam Gate `gate::in_time` refuses a request that could not have its first token in time, given the queue on its
/// arrival.
template <class Gate = gate::in_line>
policy slack_policy(std::string name, std::string summary) {
  return {name, std::move(summary),
          [name](const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
            const double token_s = prompt_token_seconds(options.instance.timer, tokens{1024});
            using scheduler = iteration_scheduler<request, order::least_slack<>, preempt::swap, admit::watermark,
                                                  kv_store, kv::csr_tables, Gate>;
            typename scheduler::config config{.order = {.prefill_per_token = duration{token_s}}};
            auto& promised = config.order.promise.promised;
            promised.ttft = ttft_target(options.promised);
            if (options.promised.tpot_s > 0) promised.tpot = duration{options.promised.tpot_s};
            cluster_options o = options;
            if constexpr (std::same_as<Gate, gate::in_time>) {
              config.gate.prefill_per_s = 1 / token_s;
              o.answer_within_s = ttft_target(options.promised).seconds();
            }
            return make_policy<scheduler>(name, "", config).run(o, rows, progress);
          }};
}

}  // namespace

policy published::slack(std::string name, std::string summary) {
  return slack_policy(std::move(name), std::move(summary));
}

policy published::slack_refusing() {
  return slack_policy<gate::in_time>("slack-refusing",
                                     "as slack, but refuses a new request that could not have its first token in time");
}

}  // namespace sim
TESSERA_NAMESPACE_END
