// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/measure/metrics.hpp>
#include <tessera/sim/report/replicates.hpp>
#include <tessera/sim/report/report.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {
namespace detail {

std::size_t columns_of(std::string_view text) noexcept {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::vector<measure> common_measures() {
  return {
      {"un-", "finished", better::none, 0,
       [](const summary& s) { return static_cast<double>(s.requests - s.completed - s.rejected); }, 20, when::if_any},
      {"", "refused", better::none, 0, [](const summary& s) { return static_cast<double>(s.rejected); }, 19,
       when::if_any},
      {"TTFT", "mean", better::low, 3, [](const summary& s) { return s.ttft.mean; }, 14},
      {"TTFT", "p50", better::low, 3, [](const summary& s) { return s.ttft.p50; }, 5, when::once},
      {"TTFT", "p99", better::low, 3, [](const summary& s) { return s.ttft.p99; }, 18, when::always,
       "the lowest P99 TTFT", " s"},
      {"1st token", "p99", better::low, 3,
       [](const summary& s) { return s.reasoning_share > 0 ? s.first_token.p99 : never; }, 15, when::if_any,
       "the lowest P99 to the first token of any kind", " s"},
      {"p99 TTFT", "in faults", better::low, 3, [](const summary& s) { return s.ttft_in_fault.p99; }, 19, when::if_any,
       "the lowest P99 TTFT of what arrives in faults", " s"},
      {"TPOT", "mean", better::low, 4, [](const summary& s) { return s.tpot.mean; }, 10},
      {"TPOT", "p99", better::low, 4, [](const summary& s) { return s.tpot.p99; }, 17, when::always,
       "the lowest P99 TPOT", " s"},
      {"e2e", "mean", better::low, 2, [](const summary& s) { return s.e2e.mean; }, 13},
      {"e2e", "p99", better::low, 2, [](const summary& s) { return s.e2e.p99; }, 9, when::once},
      {"s/token", "mean", better::low, 4, [](const summary& s) { return s.normalized_latency.mean; }, 11, when::always,
       "the lowest mean latency per token", " s"},
      {"pace", "miss %", better::low, 2, [](const summary& s) { return 100 * s.slo_violation_rate; }, 12},
      {"QoE", "mean", better::high, 4, [](const summary& s) { return s.qoe_mean; }, 3, when::once},
      {"blocked", "p99", better::low, 3, [](const summary& s) { return s.blocking_p99; }, 4, when::once},
      {"goodput", "per s", better::high, 3,
       [](const summary& s) { return s.slo.lines.empty() ? never : s.slo.goodput_requests_per_s; }, 16, when::if_any,
       "the highest goodput", " per s"},
      {"tokens", "per s", better::high, 0,
       [](const summary& s) {
         return std::isnan(s.window_tokens_per_s) ? s.throughput_tokens_per_s : s.window_tokens_per_s;
       },
       15, when::always, "the most tokens per second", ""},
      {"pre-", "empted", better::none, 0, [](const summary& s) { return static_cast<double>(s.preemptions); }, 8,
       when::once},
      {"re-", "covered", better::none, 0, [](const summary& s) { return static_cast<double>(s.faults.recovered); }, 13,
       when::if_any},
      {"J per", "token", better::low, 2, [](const summary& s) { return s.joules_per_output_token; }, 13, when::if_any,
       "the least energy per token", " J"},
      {"session", "mean", better::low, 1, [](const summary& s) { return s.session.mean; }, 12, when::if_any},
      {"session", "p99", better::low, 1, [](const summary& s) { return s.session.p99; }, 13, when::if_any,
       "the lowest P99 of a session's waits", " s"},
      {"worst", "share %", better::high, 1, [](const summary& s) { return 100 * s.worst_tenant; }, 16, when::if_any,
       "the fairest shares", " % for the worst tenant"},
      {"prefix", "hits %", better::none, 1, [](const summary& s) { return 100 * s.prefix_hit_rate; }, 7, when::if_any},
      {"migra-", "tions", better::none, 0, [](const summary& s) { return static_cast<double>(s.migrations); }, 6,
       when::if_any},
  };
}

std::vector<measure> measures_of(std::span<const replicates> rows) {
  std::vector<measure> all = common_measures();
  if (rows.empty() || rows.front().empty()) return all;
  const std::vector<slo_report::line>& asked = rows.front().front().slo.lines;
  for (std::size_t i = 0; i != asked.size(); ++i) {
    const slo_bound& b = asked[i].bound;
    const std::string_view top = heading_of(b.metric);
    const std::string bottom = b.part < 1 ? fmt::format("p{:g}", 100 * b.part) : "all";
    const auto value = [i](const summary& s) { return i < s.slo.lines.size() ? s.slo.lines[i].value : never; };
    // Behind the last one of the same metric, or the last time.
    auto at = std::find_if(all.rbegin(), all.rend(), [&](const measure& m) { return m.top == top; });
    if (at == all.rend()) at = std::find_if(all.rbegin(), all.rend(), [](const measure& m) { return m.top == "TTFT"; });
    const auto same =
        std::find_if(all.begin(), all.end(), [&](const measure& m) { return m.top == top && m.bottom == bottom; });
    if (same != all.end()) {
      same->worth = std::max(same->worth, asked_worth);
      same->shown = when::always;
      if (b.metric == slo_metric::first_token) same->value = [](const summary& s) { return s.first_token.p99; };
    } else {
      all.insert(at.base(), {top, bottom, better::low, digits_of(b.metric), value, asked_worth});
    }
  }
  return all;
}

bool is_nothing(std::span<const estimate> values) {
  return std::all_of(values.begin(), values.end(), [](const estimate& e) { return std::isnan(e.mean) || e.mean == 0; });
}

std::string heading_of(const measure& m) {
  if (m.top.ends_with('-')) return fmt::format("{}{}", m.top.substr(0, m.top.size() - 1), m.bottom);
  return fmt::format("{}{}{}", m.top, m.top.empty() ? "" : " ", m.bottom);
}

/// A mean of counts, in words.
std::string show_count(double n) { return n < 1000 ? fmt::format("{:.4g}", n) : fmt::format("{:.0f}", n); }

/// The fraction of the requests that a policy has served, in all its runs.
double part_served(const replicates& r) {
  double served = 0;
  double all = 0;
  for (const summary& s : r) {
    served += static_cast<double>(s.completed);
    all += static_cast<double>(s.requests);
  }
  return all > 0 ? served / all : 0;
}

comparison compare(std::span<const replicates> rows, const measure& m) {
  comparison c;
  const estimate* best = nullptr;
  bool differ = false;
  double most_served = 0;
  for (const replicates& r : rows) {
    std::vector<double> samples;
    for (const summary& s : r) samples.push_back(m.value(s));
    c.values.push_back(estimate_mean(samples));
    most_served = std::max(most_served, part_served(r));
  }
  const auto may_win = [&](std::size_t i) {
    return m.wins != better::low || part_served(rows[i]) >= most_served - 0.001;
  };
  for (std::size_t i = 0; i != rows.size(); ++i) {
    const estimate& e = c.values[i];
    c.cells.push_back(std::isnan(e.mean) ? std::string{"-"} : fmt::format("{:.{}f}", e.mean, m.digits));
    if (c.cells.back() != c.cells.front()) differ = true;
    if (std::isnan(e.mean) || !may_win(i)) continue;
    if (best == nullptr || (m.wins == better::high ? e.mean > best->mean : e.mean < best->mean)) best = &e;
  }
  const std::string best_cell = best == nullptr ? std::string{} : fmt::format("{:.{}f}", best->mean, m.digits);
  for (std::size_t i = 0; i != rows.size(); ++i) {
    const estimate& e = c.values[i];
    // If two means differ by less than the interval of their difference, neither is better.
    c.best.push_back(
        m.wins != better::none && differ && best != nullptr && may_win(i) &&
        (c.cells[i] == best_cell || std::abs(e.mean - best->mean) <= std::hypot(e.half_width, best->half_width)));
  }
  return c;
}

std::string enumerate(const std::vector<std::string>& items) {
  std::string out;
  for (std::size_t i = 0; i != items.size(); ++i) {
    out += (i == 0 ? "" : i + 1 == items.size() ? " and " : ", ") + items[i];
  }
  return out;
}

}  // namespace detail
}  // namespace sim

namespace sim {

std::string format_table(std::span<const replicates> rows, std::size_t width) {
  std::size_t name_width = 6;
  std::size_t placement_width = 0;
  bool once = true;
  for (const replicates& r : rows) {
    name_width = std::max(name_width, r.front().policy.size());
    placement_width = std::max(placement_width, r.front().placement.size());
    once = once && r.size() == 1;
  }
  if (placement_width != 0) placement_width = std::max(placement_width, std::string_view{"placement"}.size());
  const auto begin_line = [&](std::string_view policy, std::string_view placement) {
    if (placement_width == 0) return fmt::format("{:{}}", policy, name_width);
    return fmt::format("{:{}}  {:{}}", policy, name_width, placement, placement_width);
  };
  std::string lines[2] = {begin_line("", ""), begin_line("policy", "placement")};
  std::vector<std::string> body;
  for (const replicates& r : rows) body.push_back(begin_line(r.front().policy, r.front().placement));

  struct column {
    const detail::measure* of;
    std::vector<std::string> cells;
    std::size_t width;
  };
  std::vector<column> columns;
  std::size_t all = lines[1].size();
  const std::vector<detail::measure> measures = detail::measures_of(rows);
  for (const detail::measure& m : measures) {
    if (m.shown == detail::when::once && !once) continue;
    detail::comparison c = detail::compare(rows, m);
    if (m.shown == detail::when::if_any && detail::is_nothing(c.values)) continue;
    std::size_t widest = std::max(m.top.size(), m.bottom.size());
    for (std::size_t i = 0; i != rows.size(); ++i) {
      const estimate& e = c.values[i];
      if (!once && !std::isnan(e.half_width)) c.cells[i] += fmt::format("\u00b1{:.{}f}", e.half_width, m.digits);
      c.cells[i] += c.best[i] ? "*" : " ";
      widest = std::max(widest, detail::columns_of(c.cells[i]) - 1);
    }
    all += widest + 2;
    columns.push_back({&m, std::move(c.cells), widest});
  }
  std::vector<std::string> left_out;
  while (all > width && columns.size() > 1) {
    const auto least = std::min_element(columns.begin(), columns.end(),
                                        [](const column& a, const column& b) { return a.of->worth < b.of->worth; });
    all -= least->width + 2;
    left_out.push_back(detail::heading_of(*least->of));
    columns.erase(least);
  }
  for (const column& c : columns) {
    lines[0] += fmt::format(" {:>{}} ", c.of->top, c.width);
    lines[1] += fmt::format(" {:>{}} ", c.of->bottom, c.width);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      body[i] += fmt::format(" {:{}}{}", "", c.width + 1 - detail::columns_of(c.cells[i]), c.cells[i]);
    }
  }
  std::string out;
  const auto add = [&out](std::string_view line) {
    const std::size_t last = line.find_last_not_of(' ');
    out += line.substr(0, last == line.npos ? 0 : last + 1);
    out += '\n';
  };
  add(lines[0]);
  add(lines[1]);
  for (const std::string& line : body) add(line);
  if (left_out.empty()) return out;
  // As wide as the table may be.
  const std::string said = fmt::format("(no room for {})", detail::enumerate(left_out));
  for (std::size_t from = 0; from < said.size();) {
    std::size_t to = said.size();
    if (to - from > width) {
      const std::size_t space = said.rfind(' ', from + width);
      to = space != said.npos && space > from ? space : std::min(said.find(' ', from + width), said.size());
    }
    add(said.substr(from, to - from));
    from = to + 1;
  }
  return out;
}

namespace {

/// Policies, and what each is best in.
struct winners {
  std::vector<std::string> who;
  std::vector<std::string> in;
};

std::vector<winners> winners_of(std::span<const replicates> rows) {
  std::vector<winners> all;
  for (const detail::measure& m : detail::measures_of(rows)) {
    if (m.said.empty()) continue;
    const detail::comparison c = detail::compare(rows, m);
    std::vector<std::string> who;
    std::string value;
    for (std::size_t i = 0; i != rows.size(); ++i) {
      if (!c.best[i]) continue;
      who.push_back(rows[i].front().policy);
      if (value.empty()) value = c.cells[i];
    }
    if (who.empty() || who.size() == rows.size()) continue;
    std::string what = std::string{m.said};
    if (who.size() == 1) what += fmt::format(" ({}{})", value, m.unit);
    const auto same = std::find_if(all.begin(), all.end(), [&](const winners& w) { return w.who == who; });
    if (same == all.end()) {
      all.push_back({std::move(who), {std::move(what)}});
    } else {
      same->in.push_back(std::move(what));
    }
  }
  return all;
}

}  // namespace

std::string format_verdict(std::span<const replicates> rows) {
  std::string out;
  for (const winners& w : winners_of(rows)) {
    out += fmt::format("{}{} {} {}", out.empty() ? "" : "; ", detail::enumerate(w.who),
                       w.who.size() == 1 ? "has" : "share", detail::enumerate(w.in));
  }
  return out.empty() ? out : out + ".\n";
}

std::string format_table(std::span<const summary> rows) {
  std::vector<replicates> once;
  for (const summary& s : rows) once.push_back({s});
  return format_table(once);
}

std::string format_remarks(std::span<const replicates> rows) {
  std::string overloaded;
  std::string unsettled;
  std::string unknown;
  std::string recovered;
  std::string unserved;
  std::string missed;
  std::string objectives;
  for (const replicates& r : rows) {
    std::size_t over = 0;
    std::size_t young = 0;
    std::size_t untold = 0;
    std::size_t never_served = 0;
    std::size_t met = 0;
    double left_behind = 0;
    fault_report lost;
    std::uint64_t most_missed = 0;
    for (const summary& s : r) {
      lost.deaths += s.faults.deaths;
      lost.recovered += s.faults.recovered;
      lost.recomputed += s.faults.recomputed;
      most_missed = std::max(most_missed, s.faults.missed);
      over += s.load.state == load_state::overload ? 1U : 0U;
      young += s.load.state == load_state::unsettled ? 1U : 0U;
      untold += s.load.state == load_state::unknown ? 1U : 0U;
      never_served += s.requests - s.completed - s.rejected;
      if (s.load.state == load_state::overload) left_behind += s.load.left_behind;
      met += s.slo.met ? 1U : 0U;
    }
    const std::string& name = r.front().policy;
    const auto runs = [&](std::size_t n) {
      return r.size() == 1 ? std::string{} : fmt::format(" (in {} of {} runs)", n, r.size());
    };
    if (over != 0) {
      overloaded += fmt::format("{} {} {}{}", overloaded.empty() ? ":" : ",", name,
                                show_growth(left_behind / static_cast<double>(over)), runs(over));
    } else if (young != 0) {
      unsettled += fmt::format("{} {}{}", unsettled.empty() ? ":" : ",", name, runs(young));
    } else if (untold != 0) {
      unknown += fmt::format("{} {}{}", unknown.empty() ? ":" : ",", name, runs(untold));
    }
    if (never_served != 0) {
      unserved += fmt::format("{} {} {}", unserved.empty() ? ":" : ",", name,
                              detail::show_count(static_cast<double>(never_served) / static_cast<double>(r.size())));
    }
    if (lost.deaths != 0) {
      const auto n = static_cast<double>(r.size());
      recovered += fmt::format("{} {} {} with {:.0f} tokens", recovered.empty() ? ":" : ",", name,
                               detail::show_count(static_cast<double>(lost.recovered) / n), lost.recomputed / n);
    }
    if (most_missed != 0) missed += fmt::format("{} {} {}", missed.empty() ? ":" : ",", name, most_missed);
    if (r.front().slo.lines.empty()) continue;
    objectives += fmt::format("{}: {}", name,
                              r.size() == 1 ? std::string{met == 1 ? "meets the SLO" : "does not meet the SLO"}
                                            : fmt::format("meets the SLO in {} of {} runs", met, r.size()));
    for (std::size_t i = 0; i != r.front().slo.lines.size(); ++i) {
      std::vector<double> within;
      std::vector<double> value;
      for (const summary& s : r) {
        within.push_back(s.slo.lines[i].within);
        value.push_back(s.slo.lines[i].value);
      }
      const slo_bound& bound = r.front().slo.lines[i].bound;
      const double mean = estimate_mean(value).mean;
      const bool lacking = std::isnan(mean) && r.front().slo.lines[i].met;
      objectives +=
          fmt::format("; {} where {:g} s are asked for, {:.2f} % within",
                      lacking            ? fmt::format("{} - (no request has one)", to_string(bound))
                      : std::isnan(mean) ? fmt::format("too few have ended for a {}", to_string(bound))
                                         : fmt::format("{} {} s", to_string(bound), show_beside(mean, bound.seconds)),
                      bound.seconds, 100 * estimate_mean(within).mean);
    }
    objectives += '\n';
  }
  std::string out;
  if (!overloaded.empty()) {
    out +=
        "The load is more than the cluster carries, so latencies say how long the run was. Growth of the queue, of "
        "what "
        "arrives" +
        overloaded + "\n";
  }
  if (!unsettled.empty()) {
    out += "More and more run until the last request arrives, so a longer run may look different" + unsettled + "\n";
  }
  if (!unknown.empty()) {
    out += "Too few arrivals, or too short a time, to tell whether the load is carried" + unknown + "\n";
  }
  if (!unserved.empty()) out += "No instance is left, so requests were never served" + unserved + "\n";
  if (!recovered.empty()) out += "Instances died; requests that began again elsewhere" + recovered + "\n";
  if (!missed.empty()) out += "Faults that were set for after the end of the run, and did not happen" + missed + "\n";
  return out + objectives;
}

std::string csv_header(std::string_view more) {
  return "policy,id,status,instance,arrival_s,prompt_tokens,reasoning_tokens,answer_tokens,first_scheduled_s,"
         "first_token_s,phase_change_s,answer_scheduled_s,first_answer_s,finish_s,ttft_s,tpot_s,e2e_s,qoe,executed_s,"
         "blocked_s,preempted_s,preemptions,migrations,recoveries,cached_tokens,tenant,session," +
         std::string{more} + "seed\n";
}

std::string format_csv(const run_result& run, std::uint64_t seed, std::string_view more) {
  fmt::memory_buffer out;
  const auto number = [&out](double x) {
    if (std::isnan(x)) {
      out.push_back(',');
    } else {
      fmt::format_to(std::back_inserter(out), ",{}", x);
    }
  };
  for (const request_record& r : run.requests) {
    fmt::format_to(std::back_inserter(out), "{},{},{},{}", run.numbers.policy, r.id,
                   r.rejected      ? "rejected"
                   : r.completed() ? "completed"
                                   : "unfinished",
                   r.instance);
    number(r.arrival);
    fmt::format_to(std::back_inserter(out), ",{},{},{}", r.prompt_tokens, r.reasoning_tokens, r.answer_tokens);
    for (const double x : {r.first_scheduled, r.first_token, r.phase_change, r.answer_scheduled, r.first_answer,
                           r.finish, r.ttft(), r.tpot(), r.e2e(), r.qoe, r.executed, r.blocked, r.preempted}) {
      number(x);
    }
    const auto id = [](std::int64_t n) { return n < 0 ? std::string{} : fmt::format("{}", n); };
    fmt::format_to(std::back_inserter(out), ",{},{},{},{},{},{},{}{}\n", r.preemptions, r.migrations, r.recoveries,
                   r.cached_tokens, id(r.tenant), id(r.session), more, seed);
  }
  return fmt::to_string(out);
}

}  // namespace sim

TESSERA_NAMESPACE_END
