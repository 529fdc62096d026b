// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PASCAL's evaluation: sections III (figures 4 and 5) and V (figures 9 to 13, 15, 16 and the cost of migration), what
// each of the paper's rules contributes, and where they do not hold.
#include "pascal_page.hpp"

#include <tessera/compose/pascal.hpp>
#include <tessera/compose/pascal_paced.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profiles.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace reproduce::pascal_page {

namespace {

/// What of the paper's evaluation these runs repeat, and what not.
void conclude(page& p, const std::vector<evaluated>& chats, const std::vector<evaluated>& others,
              const evaluated& rules) {
  const auto slo = [](const sample& s) { return s.numbers.slo_violation_rate; };
  const auto missed = [&](const evaluated& e, const char* who, double l) {
    return fmt::format("{:.2f}", 100 * over(e.of(who, l), slo).mean);
  };
  const auto best = [](const evaluated& e, const char* who, const char* base, double l) {
    const compared c = compare(e.of(who, l), e.of(base, l));
    return fmt::format("{:.0f} ± {:.0f}", 100 * c.best, 100 * c.best_half);
  };
  const auto worst = [](const evaluated& e, const char* who, const char* base, double l) {
    return fmt::format("{:+.0f}", 100 * compare(e.of(who, l), e.of(base, l)).worst);
  };
  // "alpaca-chat x, arena-chat y"
  const auto each = [&](auto&& f) {
    std::string text;
    for (const evaluated& e : chats) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", e.workload, f(e));
    return text;
  };
  double widest = 0;
  for (const evaluated& e : chats) {
    for (const double l : e.levels) {
      const auto speed = [&](const char* who) {
        return over(e.of(who, l), [](const sample& s) { return s.numbers.window_tokens_per_s; }).mean;
      };
      for (const char* base : {"fcfs", "rr", "rr-quanta"})
        widest = std::max(widest, std::abs(speed("pascal") / speed(base) - 1));
    }
  }
  const auto at = [&](const char* who, auto f) { return over(rules.of(who, high), f).mean; };
  const auto ttft = [](const sample& s) { return s.numbers.ttft.mean; };
  const auto p99 = [](const sample& s) { return s.numbers.ttft.p99; };
  const auto blocking = [](const sample& s) { return s.numbers.blocking_p99; };
  const auto against = [](const evaluated& e, auto f) {
    return fmt::format("{:.2f} s against {:.2f} s", over(e.of("pascal", 1.05), f).mean,
                       over(e.of("fcfs", 1.05), f).mean);
  };
  const auto chance = [&](const char* who) {
    const compared c = compare(rules.of(who, high), rules.of("fcfs", high));
    return fmt::format("{:.0f} ± {:.0f} at best and {:+.0f} at worst", 100 * c.best, 100 * c.best_half, 100 * c.worst);
  };
  p.lead(fmt::format(
      "**How much of a best bin is luck.** FCFS that places by the fewest requests, or by the KV that is held, "
      "instead "
      "of "
      "by the least load, is no other discipline. Its bins at 99 % on {}, in per cent of FCFS's: {}; {}. `pascal`'s: "
      "{}. "
      "So much of a best or a worst bin, chosen afterwards, is what any change has.",
      rules.workload, chance("fcfs, shortest-queue"), chance("fcfs, least-kv"), chance("pascal")));
  p.lead(
      "**What holds, on the chat workloads.** Changes are in per cent; the best bin is the best of many, chosen "
      "after "
      "the fact, and so is the paper's.");
  p.lead(fmt::format(
      "- *Tail TTFT up to 61 and 72 % below FCFS*: repeated close to saturation. Best bin at 99 %: {}; at 93 %: {}. "
      "At "
      "80 "
      "% there is nothing to gain: {}. **Above saturation it gives way**: at 105 % {} at best, {} at worst; at 110 % "
      "{} "
      "at best, {} at worst.\n"
      "- *Up to 33 and 29 % below round-robin*: best bin at 99 %, of the circle {}; of quanta {}.\n"
      "- *Throughput within 3 %*: repeated at every load; in the window in which requests arrive `pascal` differs "
      "from "
      "FCFS and both round-robins by {:.1f} % at most.\n"
      "- *SLO missed no more often than by FCFS and RR*: repeated up to 93 %. **At 99 % it falls**: `pascal` misses "
      "{} "
      "%, "
      "FCFS {} %, RR {} % in a circle and {} % by quanta; at 105 % `pascal` {} %, FCFS {} %.\n"
      "- *Past capacity PASCAL keeps TTFT low and lets the SLO suffer*: half of it. Its mean TTFT at 105 % stays "
      "below "
      "FCFS's ({}), its P99 does not everywhere ({}), the tail of short reasoning grows (the worst bins above), and "
      "more "
      "is left behind than under FCFS. `pascal-paced` and `due-first`, which serve readers who are about to run dry, "
      "miss "
      "at 105 % {} % and {} % of the SLO, with mean TTFTs of {} and {}.\n"
      "- *Without migration answers block, with it they hardly do*: up to 93 % neither does. At 99 % P99 of blocking "
      "is "
      "{}: less, not near zero.\n"
      "- *Always migrating costs*: repeated up to 99 % in kind; SLO missed there: {}; in the paper 10.8 times "
      "`pascal`'s. Above saturation both miss about as much.",
      each([&](auto& e) { return best(e, "pascal", "fcfs", 0.99); }),
      each([&](auto& e) { return best(e, "pascal", "fcfs", 0.93); }),
      each([&](auto& e) { return best(e, "pascal", "fcfs", 0.80); }),
      each([&](auto& e) { return best(e, "pascal", "fcfs", 1.05); }),
      each([&](auto& e) { return worst(e, "pascal", "fcfs", 1.05); }),
      each([&](auto& e) { return best(e, "pascal", "fcfs", 1.10); }),
      each([&](auto& e) { return worst(e, "pascal", "fcfs", 1.10); }),
      each([&](auto& e) { return best(e, "pascal", "rr", 0.99); }),
      each([&](auto& e) { return best(e, "pascal", "rr-quanta", 0.99); }), 100 * widest,
      each([&](auto& e) { return missed(e, "pascal", 0.99); }), each([&](auto& e) { return missed(e, "fcfs", 0.99); }),
      each([&](auto& e) { return missed(e, "rr", 0.99); }), each([&](auto& e) { return missed(e, "rr-quanta", 0.99); }),
      each([&](auto& e) { return missed(e, "pascal", 1.05); }), each([&](auto& e) { return missed(e, "fcfs", 1.05); }),
      each([&](auto& e) { return against(e, ttft); }), each([&](auto& e) { return against(e, p99); }),
      each([&](auto& e) { return missed(e, "pascal-paced", 1.05); }),
      each([&](auto& e) { return missed(e, "due-first", 1.05); }),
      each([&](auto& e) { return fmt::format("{:.2f} s", over(e.of("pascal-paced", 1.05), ttft).mean); }),
      each([&](auto& e) { return fmt::format("{:.2f} s", over(e.of("due-first", 1.05), ttft).mean); }),
      each([&](auto& e) {
        return fmt::format("{:.1f} s without, {:.1f} s with it", over(e.of("pascal-nomigration", 0.99), blocking).mean,
                           over(e.of("pascal", 0.99), blocking).mean);
      }),
      each([&](auto& e) {
        const double always = over(e.of("pascal-nonadaptive", 0.99), slo).mean;
        return fmt::format("{:.2f} %{}", 100 * always, times(always, over(e.of("pascal", 0.99), slo).mean, 1));
      })));
  for (const evaluated& e : others) {
    p.lead(fmt::format(
        "**On {}** at 99 and 105 %: best bin {} and {}, worst {} and {}, of FCFS's; SLO missed {} and {} "
        "%, by FCFS {} "
        "and "
        "{} %. Load at 99 %: {}; under FCFS {}.{}",
        e.workload, best(e, "pascal", "fcfs", 0.99), best(e, "pascal", "fcfs", 1.05), worst(e, "pascal", "fcfs", 0.99),
        worst(e, "pascal", "fcfs", 1.05), missed(e, "pascal", 0.99), missed(e, "pascal", 1.05), missed(e, "fcfs", 0.99),
        missed(e, "fcfs", 1.05), verdict(e.of("pascal", 0.99)), verdict(e.of("fcfs", 0.99)),
        e.workload == "reasoning-heavy" ? " The paper's figure 16, -70 at best, is repeated; its +6.8 at worst is not."
                                        : ""));
  }
  p.lead(fmt::format(
      "**Which load is meant.** The paper names no rate. Its numbers are nearest to those at 99 % here, where most "
      "runs "
      "of FCFS still carry what arrives ({}), but not all of `pascal`'s ({}). At 105 and 110 % FCFS does not: {}; "
      "{}. "
      "Where the load is not carried, latencies say how long the run was. Close to saturation the draw decides much: "
      "see "
      "the intervals, which are of {} seeds. At 105 % the best bin of `pascal-paced` is {}, of `due-first` {}.",
      each([&](auto& e) { return verdict(e.of("fcfs", 0.99)); }),
      each([&](auto& e) { return verdict(e.of("pascal", 0.99)); }),
      each([&](auto& e) { return verdict(e.of("fcfs", 1.05)); }),
      each([&](auto& e) { return verdict(e.of("fcfs", 1.10)); }), chats.front().of("fcfs", high).size(),
      each([&](auto& e) { return best(e, "pascal-paced", "fcfs", 1.05); }),
      each([&](auto& e) { return best(e, "due-first", "fcfs", 1.05); })));
  p.lead(fmt::format(
      "**Baselines and placement.** FCFS and both round-robins send new requests where the least KV is held or "
      "waited "
      "for (`least-load`). By KV held alone, or by the fewest requests, FCFS's mean TTFT on {} at 99 % is {:.2f} and "
      "{:.2f} s instead of {:.2f}; with stall-free steps (`sarathi`) it is FCFS, prompts being short. PASCAL's "
      "Algorithm 1 counts what waits, too, which the paper leaves open; counting only what is held changes its mean "
      "TTFT from {:.2f} to {:.2f} s and its SLO misses from {:.2f} to {:.2f} %.",
      rules.workload, at("fcfs, least-kv", ttft), at("fcfs, shortest-queue", ttft), at("fcfs", ttft),
      at("pascal", ttft), at("arrivals count only what is held", ttft), 100 * at("pascal", slo),
      100 * at("arrivals count only what is held", slo)));
}

void run(const options& o) {
  page p{o, "PASCAL: phase-aware scheduling of reasoning requests"};
  p.text(fmt::format(
      "Simulated: 8 instances of `{}` ({} KV blocks of 16 tokens each), batches of at most 256, 8,192 tokens a step, "
      "100 Gbit/s between instances, Poisson arrivals (r1-servegen: as bursty as its data). Every number is a mean "
      "over "
      "{} seeds, half as many at 80 %, ± half of its 95 % interval. Tail TTFT per 256-token bin of reasoning length "
      "as "
      "in the paper's figure 10, averaged over the seeds; "
      "bins that some seed lacks are left out. Saturation is the highest rate at which FCFS completes, during the "
      "last "
      "two thirds of the arrivals, at least {:.0f} % of the tokens that arrive. An eighth of the time in which "
      "requests "
      "arrive is left out at either end; tokens/s are those generated in between. \"Load\" says of how many runs the "
      "number that waits has a trend or not (see [replay](../../replay.md)), and by what part of the arrivals it "
      "grows.",
      profile_name, sim::find_profile(profile_name).kv_blocks(block_size).count(), o.seeds, 100 * follows_at_least));
  p.heading("How the paper is read");
  p.text(
      "**Whose turn it is.** `rr` takes turns in a circle: whoever has used a quantum goes behind everyone, and so "
      "does "
      "whoever arrives. `rr-quanta` and `pascal` put first who has used the fewest quanta. The paper's text speaks "
      "for "
      "the second (requests \"receive progressively lower priority\", an answer in its first quantum is \"more "
      "likely "
      "to "
      "be scheduled next\"), and so does its figure 5: answers that begin promptly while memory is full are possible "
      "only "
      "if arrivals go ahead. Figure 2 (c) is the same either way, and figure 4 speaks against it: "
      "the 1.75 times on the longest is nearer to the circle. Neither reading gives both figures. Both are shown "
      "wherever "
      "RR is compared with.");
  p.text(
      "**Enough memory to stay.** The adaptive rule keeps an answer where there is memory for it. `pascal` asks for "
      "one "
      "quantum of it, 32 blocks. Asked only for the block of the next token, an instance that is all but full counts "
      "as "
      "roomy, and answers that stay lose their blocks to the next arrival: \"adaptive, no headroom\" below.");
  p.text(
      "**`pascal-paced`** is not in the paper. Reasoning goes first as in PASCAL, except before an answer whose "
      "reader "
      "is "
      "about to run dry; answers go by their readers' deadlines; an answer moves only if memory is short where it "
      "is, "
      "to "
      "where the least KV is held. What each half of it does alone is in the table of the rules. "
      "Its parameters, PASCAL's headroom and the reading by quanta were chosen on alpaca-chat, arena-chat and "
      "reasoning-chat at 80 to 99 % of saturation with other seeds than those here; r1-servegen and reasoning-heavy "
      "were "
      "not tuned on. `due-first` is [our composition](../due_first/README.md); what it knows of lengths it knows "
      "from "
      "a "
      "workload drawn under another seed.");
  p.text(
      "**Where the paper's rules end.** At low load memory does not bind, and all policies are the oracle's equals. "
      "Below saturation the rules hold. Close to it and above, reasoning takes memory from answers and nothing "
      "limits "
      "that: an answer which has used its first quantum waits for every reasoning request and every fresh answer, "
      "those "
      "of its instance miss their SLO one after the other, and those that stay or arrive there wait at their phase "
      "change, which shows in the tail TTFT of short reasoning. \"Successive answers on one instance\" measures "
      "herding: "
      "the mean run of phase changes, in order of time, that go on at the same of 8 instances (1.14 if they were "
      "independent and even). Always following Algorithm 2 herds most.");
  show_section_three(p, o);
  const effort chat{o.quick ? 300U : 10'000U, o.quick ? 300U : 24'000U, all_levels};
  const effort other{4'000, 24'000, about_saturation};
  const sim::workload& alpaca = sim::find_workload("alpaca-chat");
  std::vector<evaluated> chats;
  chats.push_back(evaluate(p, o, alpaca, chat, true));
  chats.push_back(evaluate(p, o, sim::find_workload("arena-chat"), chat, true));
  std::vector<evaluated> others;
  if (!o.quick) {
    for (const char* name : {"r1-servegen", "reasoning-heavy"})
      others.push_back(evaluate(p, o, sim::find_workload(name), other, false));
  }
  conclude(p, chats, others, show_ablation(p, o, alpaca, chat, chats.front().saturation));
  p.finish();
}

const bool added = reproduce::add({"pascal", "PASCAL: figures 4, 5, 9 to 13, 15, 16 and section V-C", run});

}  // namespace

}  // namespace reproduce::pascal_page
