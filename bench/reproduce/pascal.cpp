// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PASCAL's evaluation: sections III (figures 4 and 5) and V (figures 9 to 13, 15, 16 and the cost of migration). Then,
// what each of the paper's rules contributes.
#include "pascal_runs.hpp"

#include <tessera/sim/input/workload.hpp>

#include <string>

namespace reproduce::pascal_runs {

namespace {

void run(const options& o) {
  results out{o};
  show_section_three(out, o);
  const effort chat{o.quick ? 300U : 10'000U, o.quick ? 300U : 24'000U, all_levels};
  const effort other{4'000, 24'000, about_saturation};
  const sim::workload& alpaca = sim::find_workload("alpaca-chat");
  evaluation e;
  const double saturation = evaluate(e, o, alpaca, chat);
  evaluate(e, o, sim::find_workload("arena-chat"), chat);
  if (!o.quick) {
    for (const char* name : {"r1-servegen", "reasoning-heavy"}) evaluate(e, o, sim::find_workload(name), other);
  }
  out.table("loads",
            joined<std::string>({"workload", "load_pct", "rate_per_s", "seeds", "policy", "ttft_s±", "ttft_p99_s±",
                                 "slo_missed_pct±", "blocking_p99_s±", "kv_transfer_p99_s±", "tokens_per_s",
                                 "preemptions", "migrations", "answers_on_one_instance"},
                                load_columns),
            e.loads);
  out.table("bins",
            {"workload", "load_pct", "policy", "baseline", "best_pct±", "best_s", "best_bin_tokens", "worst_pct±",
             "worst_bin_tokens"},
            e.bins);
  out.table("always_migrating", {"workload", "load_pct", "e2e_p50_change_pct", "e2e_p99_change_pct"},
            e.always_migrating);
  show_rules(out, o, alpaca, chat, saturation);
  out.finish();
}

const bool added = reproduce::add({"pascal", "PASCAL: figures 4, 5, 9 to 13, 15, 16 and section V-C", run});

}  // namespace

}  // namespace reproduce::pascal_runs
