// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prompts that several models have answered.
#include "pars_runs.hpp"

#include <tessera/rank/features.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/report/progress.hpp>

#include <fmt/ranges.h>
#include <boost/math/distributions/normal.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace reproduce::pars_runs {

namespace {

// -- other answerers ------------------------------------------------------------------------------------------------

/// Real lengths of many models on the same few prompts, several runs each.
struct answered {
  std::vector<std::string> models;
  std::vector<std::string> prompts;
  std::vector<std::int64_t> prompt_tokens;                   ///< [prompt]
  std::vector<std::vector<std::vector<std::int64_t>>> runs;  ///< [model][prompt][run]
};

answered read_answerers(const std::filesystem::path& file) {
  // The trace reader checks the counts; the two columns it ignores are read here.
  const sim::trace counts = sim::read_trace(file.string());
  if (counts.left_out.count() != 0) {
    throw sim::input_error{file.string(), {1, 1}, "rows with a prompt and an output", "some without"};
  }
  const std::string text = sim::read_file(file.string());
  std::map<std::string, std::map<std::string, std::vector<std::size_t>>> rows;  // model, prompt
  const auto fields = [&](std::string_view line) {
    std::vector<std::string> out(1);
    for (const char ch : line) {
      if (ch == ',') {
        out.emplace_back();
      } else {
        out.back() += ch;
      }
    }
    return out;
  };
  std::size_t begin = text.find('\n') + 1;
  const auto header = fields(std::string_view{text}.substr(0, begin - 1));
  const auto column = [&](std::string_view name) {
    const auto at = std::find(header.begin(), header.end(), name);
    if (at == header.end()) throw sim::input_error{file.string(), {1, 1}, fmt::format("a column {}", name), "none"};
    return static_cast<std::size_t>(at - header.begin());
  };
  const std::size_t model = column("model");
  const std::size_t id = column("prompt_id");
  for (std::size_t i = 0; i != counts.rows.size(); ++i) {
    const std::size_t end = text.find('\n', begin);
    const auto row = fields(std::string_view{text}.substr(begin, end - begin));
    if (row.size() != header.size()) throw sim::input_error{file.string(), {i + 2, 1}, "plain fields", "other commas"};
    rows[row[model]][row[id]].push_back(i);
    begin = end + 1;
  }
  answered a;
  for (const auto& [name, unused] : rows.begin()->second) {
    const auto everywhere = [&, &p = name](const auto& m) {
      return m.second.contains(p) && m.second.at(p).size() >= 2;
    };
    if (std::all_of(rows.begin(), rows.end(), everywhere)) a.prompts.push_back(name);
  }
  for (const auto& p : a.prompts)
    a.prompt_tokens.push_back(counts.rows[rows.begin()->second.at(p).front()].prompt_tokens);
  for (const auto& [name, of] : rows) {
    a.models.push_back(name);
    a.runs.emplace_back();
    for (const auto& p : a.prompts) {
      a.runs.back().emplace_back();
      for (const std::size_t i : of.at(p)) a.runs.back().back().push_back(counts.rows[i].output_tokens);
    }
  }
  return a;
}

double mean_of(const std::vector<std::int64_t>& v, std::size_t without = static_cast<std::size_t>(-1)) {
  double sum = 0;
  double n = 0;
  for (std::size_t i = 0; i != v.size(); ++i) {
    if (i == without) continue;
    sum += static_cast<double>(v[i]);
    n += 1;
  }
  return sum / n;
}

}  // namespace

// The paper trains on GPT-4's lengths and schedules Llama's and R1's requests. What that rests on: how far the order of
// one model's lengths holds for another's.
void other_answerers(context& c) {
  const std::vector<std::string> columns{"metric", "order", "median", "p10", "p90"};
  if (c.o.data.empty()) {
    c.out.table("models", columns, {});
    return;
  }
  const answered a = read_answerers(c.o.data / answerers_file);
  const std::size_t models = a.models.size();
  const std::size_t n = a.prompts.size();
  std::vector<double> own;
  std::vector<double> cross;
  const auto means = [&](std::size_t m) {
    std::vector<float> v;
    for (std::size_t p = 0; p != n; ++p) v.push_back(static_cast<float>(mean_of(a.runs[m][p])));
    return v;
  };
  for (std::size_t m = 0; m != models; ++m) {
    // One run against the mean of the others, for each run.
    for (std::size_t r = 0; r != 2; ++r) {
      std::vector<float> one;
      std::vector<float> rest;
      for (std::size_t p = 0; p != n; ++p) {
        one.push_back(static_cast<float>(a.runs[m][p][r]));
        rest.push_back(static_cast<float>(mean_of(a.runs[m][p], r)));
      }
      own.push_back(rank::kendall_tau_b(rest, one).tau);
    }
    for (std::size_t other = 0; other != models; ++other) {
      if (other == m) continue;
      std::vector<float> one;
      for (std::size_t p = 0; p != n; ++p) one.push_back(static_cast<float>(a.runs[m][p][0]));
      cross.push_back(rank::kendall_tau_b(means(other), one).tau);
    }
  }
  std::vector<row> table;
  const auto add = [&](const char* metric, std::string_view order, std::vector<double> v) {
    std::sort(v.begin(), v.end());
    table.push_back({metric, order, sim::percentile(v, 0.5), sim::percentile(v, 0.1), sim::percentile(v, 0.9)});
  };
  add("tau_b", "the same model's other runs", own);
  add("tau_b", "another model's mean lengths", cross);

  // Bursts: every request is a real run of the model that serves.
  constexpr std::size_t kinds = 4;
  std::array<std::vector<double>, kinds> mean;
  std::array<std::vector<double>, kinds> p90;
  for (auto* v : {&mean, &p90}) {
    for (auto& x : *v) x.resize(models);
  }
  const std::size_t requests = c.o.quick ? 200 : 2000;
  sim::run_parallel(models, c.o.threads, [&](std::size_t m) {
    std::array<std::vector<sim::trace_row>, kinds> rows;
    sim::random_engine rng{m + 1, 3};
    std::size_t teacher = sim::uniform_below(rng, models - 1);
    teacher += teacher >= m ? 1 : 0;
    for (std::size_t i = 0; i != requests; ++i) {
      const auto p = static_cast<std::size_t>(sim::uniform_below(rng, n));
      const auto r = static_cast<std::size_t>(sim::uniform_below(rng, a.runs[m][p].size()));
      const std::int64_t tokens = a.runs[m][p][r];
      const std::array<double, kinds> score{0, mean_of(a.runs[teacher][p]), mean_of(a.runs[m][p], r),
                                            static_cast<double>(tokens)};
      for (std::size_t k = 0; k != kinds; ++k) {
        rows[k].push_back({.arrival_s = 0,
                           .prompt_tokens = a.prompt_tokens[p],
                           .output_tokens = tokens,
                           .answer_tokens = tokens,
                           .score = static_cast<float>(score[k])});
      }
    }
    for (std::size_t k = 0; k != kinds; ++k) {
      const outcome o = run(k == 0 ? published("fcfs") : by_score(), c.profile, rows[k]);
      mean[k][m] = o.mean;
      p90[k][m] = o.p90;
    }
  });
  const std::array<std::string_view, kinds> names{"FCFS", "order of another model",
                                                  "order of the model's own other runs", "oracle SJF"};
  for (std::size_t k = 0; k != kinds; ++k) {
    std::vector<double> gain;
    std::vector<double> gain90;
    for (std::size_t m = 0; m != models; ++m) {
      gain.push_back(mean[0][m] / mean[k][m]);
      gain90.push_back(p90[0][m] / p90[k][m]);
    }
    add("gain_mean", names[k], gain);
    add("gain_p90", names[k], gain90);
  }
  c.out.table("models", columns, table);
}

}  // namespace reproduce::pars_runs
