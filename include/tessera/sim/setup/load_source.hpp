// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>
#include <tessera/sim/input/resample.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/setup/setting.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// The requests of a setting.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Requests of a built-in workload if the setting gives no number.
inline constexpr std::size_t default_requests = 8000;
/// Highest rate, and highest factor on a rate, that a setting may have.
inline constexpr double max_rate = 1e9;

/// Reads the trace of a setting, for instance `read_trace`.
using trace_reading = std::function<trace(const std::string& path, const trace_options& options)>;

/// The source of the rows to replay, for any seed and rate. A trace is read once.
class load_source {
 public:
  /// Checks the load of the setting, and reads its trace. O(size of the trace); allocates its rows.
  /// @throws usage_error @throws input_error as `read`
  explicit load_source(const setting& a, const trace_reading& read = &read_trace) {
    if (a.requests) {
      const std::string name = a.how == spelling::options ? a.says("requests") : "the number of requests";
      requests_ = static_cast<std::size_t>(require_within(*a.requests, 1, max_trace_rows, name));
    }
    if (a.hash_tokens) a.positive(*a.hash_tokens, max_trace_tokens, "hash_tokens");
    const auto run = static_cast<std::size_t>(a.run ? a.positive(*a.run, max_trace_rows, "run") : 0);
    const time_unit unit = find_time_unit(a.time_unit);
    if (a.rate && a.rate_scale) {
      throw usage_error{fmt::format("{} and {} exclude each other", a.says("rate"), a.says("rate_scale"))};
    }
    for (const auto& [value, name] : {std::pair{a.rate, "rate"}, std::pair{a.rate_scale, "rate_scale"}}) {
      if (value && !(*value > 0 && *value <= max_rate)) {
        throw usage_error{
            fmt::format("{} is a number above 0, at most {:g}, not {:g}", a.says(name), max_rate, *value)};
      }
    }
    if (a.workload.empty() == a.trace.empty()) {
      throw usage_error{fmt::format("name one of {} FILE.csv and {} NAME; workloads: {}", a.says("trace"),
                                    a.says("workload"), fmt::join(workload_names(), ", "))};
    }
    if (!a.workload.empty()) {
      workload_ = &find_workload(a.workload);
      what_ = fmt::format("{}: {}", workload_->name, workload_->summary);
      name_ = a.workload;
    } else {
      trace_ = read(a.trace, {.hash_tokens = a.hash_tokens, .unit = unit, .run = run});
      what_ = name_ = a.trace;
      if (!trace_.has_arrivals && !a.rate) {
        throw usage_error{no_arrivals(trace_, fmt::format("a {}", a.says("rate")))};
      }
    }
    if (a.hash_tokens && !trace_.has_prefixes) {
      throw usage_error{fmt::format("{} goes with a {} that has hash_ids", a.says("hash_tokens"), a.says("trace"))};
    }
    if (a.trace.empty() && (a.run || !a.time_unit.empty())) {
      throw usage_error{fmt::format("{} goes with a {}", a.says(a.run ? "run" : "time_unit"), a.says("trace"))};
    }
  }

  /// A line that describes them.
  [[nodiscard]] const std::string& what() const noexcept { return what_; }
  /// The workload's name, or the trace's.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Whether it is a trace.
  [[nodiscard]] bool is_trace() const noexcept { return workload_ == nullptr; }
  /// The trace as it was read; an empty one if it is a workload.
  [[nodiscard]] const trace& read() const noexcept { return trace_; }
  /// Sentences on what of the trace was not read unchanged; empty if there are none.
  [[nodiscard]] std::string unused() const { return describe_unused(trace_); }
  /// Whether there are later turns of sessions, which come after their earlier ones.
  [[nodiscard]] bool has_sessions() const noexcept {
    return is_trace() ? trace_.has_sessions : workload_->sessions.has_value();
  }
  /// Whether it is a trace with arrivals.
  [[nodiscard]] bool has_arrivals() const noexcept { return is_trace() && trace_.has_arrivals; }
  /// Windows from which seeds other than the first draw a trace with arrivals; 0: all seeds replay the same rows.
  [[nodiscard]] std::size_t windows(const setting& a) const {
    if (!has_arrivals()) return 0;
    return resample_windows(rows(a, static_cast<std::uint64_t>(a.seed)));
  }
  /// Whether other seeds have other arrivals.
  [[nodiscard]] bool draws(const setting& a) const { return !has_arrivals() || windows(a) != 0; }
  /// A sentence on the meaning of several seeds for a trace with arrivals; else empty.
  [[nodiscard]] std::string describe_seeds(const setting& a) const {
    if (!has_arrivals()) return {};
    const std::size_t n = windows(a);
    if (n == 0) {
      return fmt::format(
          "The trace says when its requests arrive: all seeds replay the same ones, and intervals do not tell how "
          "another day would be{}.\n",
          has_sessions() || trace_.has_prefixes ? " (sessions and prefixes cannot be drawn by windows)" : "");
    }
    return fmt::format(
        "The trace says when its requests arrive: seed {} replays it, and each other one draws every {}th of its time "
        "anew, from up to that much earlier or later.\n",
        a.seed, n);
  }
  /// A sentence if more requests were asked for than there are; else empty.
  [[nodiscard]] std::string fewer() const {
    if (!is_trace() || requests_ <= trace_.rows.size()) return {};
    return fmt::format("{} has {} requests: fewer than --requests {}.\n", name_, trace_.rows.size(), requests_);
  }
  /// The rows of a seed, at the rate of `a`. For a trace with arrivals, the seed of `a` replays it, and others replay
  /// windows of it: see `resample`. O(rows); allocates them. @throws usage_error
  [[nodiscard]] std::vector<trace_row> rows(const setting& a, std::uint64_t seed) const {
    if (workload_ != nullptr) {
      const double rate = a.rate.value_or(workload_->rate * a.rate_scale.value_or(1.0));
      return generate(*workload_, requests_ == 0 ? default_requests : requests_, rate, seed);
    }
    std::vector<trace_row> rows = schedule_arrivals(
        trace_, {.rate = a.rate, .rate_scale = a.rate_scale.value_or(1.0), .requests = requests_, .seed = seed});
    if (trace_.has_arrivals && seed != static_cast<std::uint64_t>(a.seed)) {
      if (const std::size_t n = resample_windows(rows); n != 0) return resample(rows, n, seed);
    }
    return rows;
  }

 private:
  std::size_t requests_ = 0;
  const workload* workload_ = nullptr;
  trace trace_;
  std::string what_;
  std::string name_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
