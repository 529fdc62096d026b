// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/split_list.hpp>
#include <tessera/sim/report/plots.hpp>
#include <tessera/sim/report/report.hpp>
#include <tessera/sim/report/sweep.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

sweep parse_sweep(std::string_view text, std::span<const std::string_view> parameters) {
  const auto wrong = [&](std::string_view why) {
    return usage_error{
        fmt::format("--sweep expects NAME=FROM:TO:STEP or NAME=A,B,C with rising numbers above 0, as in "
                    "rate-scale=0.5:2:0.25; names are {}; {} {}",
                    fmt::join(parameters, ", "), shown(text), why)};
  };
  const std::size_t equals = text.find('=');
  if (equals == text.npos) throw wrong("has no =");
  sweep s{std::string{text.substr(0, equals)}, {}};
  if (std::find(parameters.begin(), parameters.end(), s.parameter) == parameters.end()) {
    throw wrong("names none of them");
  }
  const auto number = [&](std::string_view digits) {
    double x = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), x);
    if (failure != std::errc{} || end != digits.data() + digits.size() || !std::isfinite(x) || !(x > 0)) {
      throw wrong(fmt::format("has {}", shown(digits)));
    }
    return x;
  };
  const std::string_view list = text.substr(equals + 1);
  const std::vector<std::string_view> range = split_list(list, ':');
  if (range.size() == 1) {
    for (const std::string_view item : split_list(list)) s.values.push_back(number(item));
  } else {
    if (range.size() > 3) throw wrong("has more than a step");
    const double from = number(range[0]);
    const double to = number(range[1]);
    const double step = range.size() == 3 ? number(range[2]) : 1;
    // `to` is included up to the rounding of a step such as 0.1.
    const double steps = std::floor((to - from) / step * (1 + 1e-12) + 1e-9);
    if (!(steps >= 0)) throw wrong("ends before it begins");
    if (!(steps < static_cast<double>(max_sweep_values))) {
      throw wrong(fmt::format("has more than {} values", max_sweep_values));
    }
    for (std::size_t i = 0; i <= static_cast<std::size_t>(steps); ++i) {
      // Without the noise of the addition: 0.1 * 3 is 0.3 here.
      s.values.push_back(std::strtod(fmt::format("{:.12g}", from + static_cast<double>(i) * step).c_str(), nullptr));
    }
  }
  for (std::size_t i = 1; i < s.values.size(); ++i) {
    if (!(s.values[i - 1] < s.values[i])) throw wrong("does not rise");
  }
  if (s.values.size() > max_sweep_values) throw wrong(fmt::format("has more than {} values", max_sweep_values));
  return s;
}

}  // namespace sim

namespace sim {
namespace detail {

/// The main measure of a sweep: goodput if there are objectives, else the tail of TTFT.
measure sweep_measure(std::span<const sweep_curve> curves) {
  const bool has_slo = std::any_of(curves.begin(), curves.end(), [](const sweep_curve& c) {
    return std::any_of(c.runs.begin(), c.runs.end(),
                       [](const replicates& r) { return !r.empty() && !r.front().slo.lines.empty(); });
  });
  const std::vector<measure> all = common_measures();
  return *std::find_if(all.begin(), all.end(), [&](const measure& m) {
    return m.said == (has_slo ? "the highest goodput" : "the lowest P99 TTFT");
  });
}

}  // namespace detail
}  // namespace sim

namespace sim {

std::string format_sweep(const sweep& what, std::span<const sweep_curve> curves, std::size_t width) {
  const detail::measure m = detail::sweep_measure(curves);
  std::size_t name_width = std::max<std::size_t>(6, what.parameter.size());
  for (const sweep_curve& c : curves) name_width = std::max(name_width, c.policy.size());
  std::vector<std::vector<std::string>> columns;  // by value: heading, then a cell for each policy
  std::size_t cell = 8;
  for (std::size_t v = 0; v != what.values.size(); ++v) {
    std::vector<replicates> there;
    std::vector<std::size_t> whose;
    for (std::size_t p = 0; p != curves.size(); ++p) {
      if (curves[p].runs[v].empty()) continue;
      there.push_back(curves[p].runs[v]);
      whose.push_back(p);
    }
    const detail::comparison found = detail::compare(there, m);
    columns.push_back({fmt::format("{:g} ", what.values[v])});
    columns.back().resize(curves.size() + 1, "- ");
    for (std::size_t i = 0; i != whose.size(); ++i) {
      std::string& text = columns.back()[whose[i] + 1];
      text = found.cells[i];
      const double half = found.values[i].half_width;
      if (there[i].size() > 1 && !std::isnan(half)) text += fmt::format("\u00b1{:.{}f}", half, m.digits);
      text += curves[whose[i]].overloaded(v) ? "!" : found.best[i] ? "*" : " ";
      cell = std::max(cell, detail::columns_of(text));
    }
  }
  const std::size_t beside = std::max<std::size_t>(1, (std::max(width, name_width) - name_width) / (cell + 1));
  std::string out = m.said == "the highest goodput" ? "Goodput, requests per second within the objectives"
                                                    : "P99 of the time to the first answering token, seconds";
  out += fmt::format(", by {} (* best, ! the queue grows)\n", what.parameter);
  for (std::size_t from = 0; from < columns.size(); from += beside) {
    for (std::size_t row = 0; row <= curves.size(); ++row) {
      std::string line = fmt::format("{:{}}", row == 0 ? what.parameter : curves[row - 1].policy, name_width);
      for (std::size_t v = from; v != std::min(from + beside, columns.size()); ++v) {
        line += fmt::format(" {:{}}{}", "", cell - detail::columns_of(columns[v][row]), columns[v][row]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    if (from + beside < columns.size()) out += "\n";
  }
  return out;
}

std::string describe_sweep(const sweep& what, std::span<const sweep_curve> curves) {
  if (detail::sweep_measure(curves).said != "the highest goodput") return {};
  const bool more_is_easier = what.parameter == "instances";
  const std::size_t n = what.values.size();
  struct reach {
    std::vector<std::size_t> values;  ///< Values that meet the objectives.
    std::vector<std::string> who;
  };
  std::vector<reach> all;
  for (const sweep_curve& c : curves) {
    std::vector<std::size_t> good;
    for (std::size_t v = 0; v != n; ++v) {
      if (c.meets(v)) good.push_back(v);
    }
    const auto same = std::find_if(all.begin(), all.end(), [&](const reach& r) { return r.values == good; });
    if (same == all.end()) {
      all.push_back({std::move(good), {c.policy}});
    } else {
      same->who.push_back(c.policy);
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const reach& a, const reach& b) { return a.values.size() > b.values.size(); });
  std::string out;
  for (const reach& r : all) {
    const bool one = r.who.size() == 1;
    const auto at = [&](std::size_t v) { return fmt::format("{} {:g}", what.parameter, what.values[v]); };
    std::string said = one ? "meets the objectives " : "meet the objectives ";
    const std::size_t good = r.values.size();
    // The usual case: all values from the easy end on.
    const bool in_one = good != 0 && r.values.back() - r.values.front() + 1 == good &&
                        (more_is_easier ? r.values.back() == n - 1 : r.values.front() == 0);
    if (good == 0) {
      said = fmt::format("{} not meet the objectives even at {}", one ? "does" : "do", at(more_is_easier ? n - 1 : 0));
    } else if (good == n) {
      said += "at all of these, to " + at(more_is_easier ? 0 : n - 1);
    } else if (!in_one) {
      std::vector<std::string> where;
      for (const std::size_t v : r.values) where.push_back(fmt::format("{:g}", what.values[v]));
      said += fmt::format("at {} {} alone", what.parameter, detail::enumerate(where));
    } else if (more_is_easier) {
      said += fmt::format("from {} on", at(n - good));
    } else {
      said += "up to " + at(good - 1);
    }
    out += fmt::format("{}{} {}", out.empty() ? "" : "; ", detail::enumerate(r.who), said);
  }
  return out + ".\n";
}

std::string sweep_script(const sweep& what, std::span<const sweep_curve> curves, std::string_view title) {
  const bool has_slo = detail::sweep_measure(curves).said == "the highest goodput";
  std::string data;
  for (std::size_t p = 0; p != curves.size(); ++p) {
    data += fmt::format("$run{} << EOD\n", p);
    for (std::size_t v = 0; v != what.values.size(); ++v) {
      const replicates& runs = curves[p].runs[v];
      if (runs.empty()) continue;
      const auto mean = [&](auto of) {
        std::vector<double> samples;
        for (const summary& s : runs) samples.push_back(of(s));
        const double x = estimate_mean(samples).mean;
        return std::isnan(x) ? std::string{"?"} : fmt::format("{:.6g}", x);
      };
      data += fmt::format(
          "{:g} {} {} {} {}\n", what.values[v], mean([](const summary& s) { return s.slo.goodput_requests_per_s; }),
          mean([](const summary& s) { return 100 * s.slo.attainment; }),
          mean([](const summary& s) { return s.ttft.p99; }), mean([](const summary& s) { return s.tpot.p99; }));
    }
    data += "EOD\n";
  }
  // Between two sizes there is none.
  const double range = what.values.back() - what.values.front();
  const std::string whole = what.parameter == "instances" && range > 0
                                ? fmt::format("set xtics {:g}\n", std::max(1.0, detail::round_step(range, 8)))
                                : std::string{};
  const std::string across = what.values.size() == 1 ? fmt::format("set xrange [{:.6g}:{:.6g}]\n",
                                                                   0.9 * what.values.front(), 1.1 * what.values.front())
                                                     : std::string{};
  const auto panel = [&](std::string_view name, std::string_view unit, int column, std::string_view range) {
    std::string out = fmt::format("set title '{}'\nset ylabel '{}'\n{}\nplot ", name, unit, range);
    for (std::size_t p = 0; p != curves.size(); ++p) {
      out += fmt::format("{}$run{} using 1:{} with linespoints ls {} dt {} pt {} ps 0.6 title {}",
                         p == 0 ? "" : ", \\\n     ", p, column, p % 8 + 1, p / 8 + 1, p % 7 + 4,
                         detail::gnuplot_quoted(curves[p].policy));
    }
    return out + "\n";
  };
  std::string out =
      data + std::string{detail::script_style} + "set datafile missing '?'\n" +
      fmt::format("set multiplot layout {},1 title {} noenhanced\n", has_slo ? 4 : 2, detail::gnuplot_quoted(title)) +
      across + whole + "set lmargin 10\nset rmargin 24\nset key outside right top noenhanced\nset xlabel " +
      detail::gnuplot_quoted(what.parameter) + "\n";
  if (has_slo) {
    // If all values are near the top, the picture omits everything below half of it.
    const auto near_top = [&](auto of) {
      double least = std::numeric_limits<double>::infinity();
      double most = 1e-3;
      for (const sweep_curve& c : curves) {
        for (const replicates& runs : c.runs) {
          for (const summary& s : runs) {
            if (std::isnan(of(s))) continue;
            least = std::min(least, of(s));
            most = std::max(most, of(s));
          }
        }
      }
      const double room = std::max(0.05 * (most - least), 0.005 * most);
      return fmt::format("set yrange [{:.6g}:{:.6g}]", 2 * least > most ? least - room : 0, most + room);
    };
    out += panel("Goodput", "requests per second", 2,
                 near_top([](const summary& s) { return s.slo.goodput_requests_per_s; }));
    out += panel("Requests within the objectives", "%", 3,
                 near_top([](const summary& s) { return 100 * s.slo.attainment; }));
  }
  const slo_report* asked = nullptr;
  for (const sweep_curve& c : curves) {
    for (const replicates& runs : c.runs) {
      if (!runs.empty()) asked = &runs.front().slo;
    }
  }
  const auto tail = [&](slo_metric metric, auto of) {
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    std::string lines = "unset arrow\nunset label\n";
    std::size_t n = 0;
    if (asked != nullptr) {
      for (const slo_bound& b : detail::bounds_of(*asked, metric)) {
        least = std::min(least, b.seconds);
        most = std::max(most, b.seconds);
        lines += detail::bound_line('y', b, ++n);
      }
    }
    for (const sweep_curve& c : curves) {
      for (const replicates& runs : c.runs) {
        for (const summary& s : runs) {
          if (!(of(s) > 0)) continue;
          least = std::min(least, of(s));
          most = std::max(most, of(s));
        }
      }
    }
    return most > 0 ? lines + detail::log_axis('y', least / 1.1, most * 1.1)
                    : std::string{"unset logscale y\nset yrange [0:1]"};
  };
  out += panel("P99 time to the first answering token", "seconds", 4,
               tail(slo_metric::ttft, [](const summary& s) { return s.ttft.p99; }));
  out += panel("P99 time per output token", "seconds", 5,
               tail(slo_metric::tpot, [](const summary& s) { return s.tpot.p99; }));
  return out + "unset multiplot\n";
}

}  // namespace sim
TESSERA_NAMESPACE_END
