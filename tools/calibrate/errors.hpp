// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "fit.hpp"
#include "points.hpp"

#include <tessera/sim/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// The errors of a profile, and the checks before a fit.

namespace calibrate {

inline constexpr std::size_t kinds = sim::step_kind_names.size();

/// Errors of some steps: |predicted / measured - 1|.
struct error_sum {
  std::size_t steps = 0;
  double absolute = 0;
  double signed_sum = 0;
  double worst = 0;

  void add(double predicted, double measured) noexcept {
    const double e = predicted / measured - 1;
    ++steps;
    absolute += std::fabs(e);
    signed_sum += e;
    worst = std::max(worst, std::fabs(e));
  }
  [[nodiscard]] double mape() const noexcept { return absolute / static_cast<double>(steps); }
  [[nodiscard]] double bias() const noexcept { return signed_sum / static_cast<double>(steps); }
};

/// By kind. A separate sum has the mixed steps that a device can run: KV of all their requests fits.
struct error_table {
  std::array<error_sum, kinds> by_kind{};
  error_sum mixed_that_fit{};

  void add(const sim::measured_step& s, double predicted, double kv_tokens) {
    by_kind[static_cast<std::size_t>(s.kind)].add(predicted, s.seconds);
    const auto held = static_cast<double>(s.decodes * s.context + s.prompts * (s.tokens + s.history));
    if (s.kind == sim::step_kind::mixed && held <= kv_tokens) mixed_that_fit.add(predicted, s.seconds);
  }
  [[nodiscard]] bool empty() const noexcept {
    return std::all_of(by_kind.begin(), by_kind.end(), [](const error_sum& e) { return e.steps == 0; });
  }
};

/// If a step was measured more than once, its median; in the order of the file.
inline std::vector<sim::measured_step> merge_repeats(const std::vector<sim::measured_step>& all) {
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i != order.size(); ++i) order[i] = i;
  const auto key = [&](std::size_t i) {
    const auto& s = all[i];
    return std::array<std::int64_t, 5>{s.prompts, s.tokens, s.history, s.decodes, s.context};
  };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return key(a) != key(b)                   ? key(a) < key(b)
           : all[a].seconds != all[b].seconds ? all[a].seconds < all[b].seconds
                                              : a < b;
  });
  std::vector<std::pair<std::size_t, sim::measured_step>> merged;
  for (std::size_t begin = 0; begin != order.size();) {
    std::size_t end = begin;
    std::size_t first = order[begin];
    while (end != order.size() && key(order[end]) == key(order[begin])) first = std::min(first, order[end++]);
    sim::measured_step s = all[order[begin + (end - begin) / 2]];
    if ((end - begin) % 2 == 0) s.seconds = (s.seconds + all[order[begin + (end - begin) / 2 - 1]].seconds) / 2;
    merged.emplace_back(first, s);
    begin = end;
  }
  std::sort(merged.begin(), merged.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<sim::measured_step> out;
  for (auto& m : merged) out.push_back(m.second);
  return out;
}

/// A readable number of seconds.
inline std::string shown_seconds(double s) {
  return s < 1 ? fmt::format("{:.4g} ms", s * 1e3) : fmt::format("{:.4g} s", s);
}

/// Rejects times that no device of this kind can have: the whole file in another unit, or a row in another than the
/// rest. A roofline is within a factor of a few; units differ by a thousand.
/// @throws sim::input_error at the first such time
inline void require_seconds(const std::string& file, const std::vector<sim::measured_step>& steps,
                            const sim::profile& base) {
  sim::profile roofline = base;
  roofline.measured = {};
  const sim::step_timer timer{roofline};
  std::vector<double> ratios;
  for (const auto& s : steps) ratios.push_back(s.seconds / timer(s.shape()));
  std::vector<double> sorted = ratios;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
  const double median = sorted[sorted.size() / 2];
  const auto& first = steps.front();
  if (median > 100 || median < 0.01) {
    const char* const unit = median > 1e5   ? "microseconds? Then divide by 1,000,000"
                             : median > 100 ? "milliseconds? Then divide by 1,000"
                                            : "thousands of seconds, or of another model or device than the profile's?";
    throw sim::input_error{file, first.at,
                           fmt::format("seconds; {} takes about {} on {}", describe(first),
                                       shown_seconds(timer(first.shape())), base.name),
                           fmt::format("{:.6g}, and the other rows likewise: are these {}", first.seconds, unit)};
  }
  for (std::size_t i = 0; i != steps.size(); ++i) {
    const double r = ratios[i] / median;
    if (r <= 100 && r >= 0.01) continue;
    throw sim::input_error{
        file, steps[i].at,
        fmt::format("about {} for {}, as the other rows say", shown_seconds(steps[i].seconds / r), describe(steps[i])),
        fmt::format("{:.6g}: is it in seconds?", steps[i].seconds)};
  }
}

/// Fewest different steps of a kind for a fit.
inline constexpr std::array<std::size_t, kinds> least_steps{4, 3, 0, 2};

/// Rejects a file with too few steps to fit, or without a kind. @throws sim::input_error at the end of the file
/// @param of_points `steps` are those near the 14 points; the file may have others.
inline void require_enough(const std::string& file, const std::vector<sim::measured_step>& steps, std::uint64_t lines,
                           bool mixed_too, bool of_points) {
  std::array<std::size_t, kinds> count{};
  for (const auto& s : steps) ++count[static_cast<std::size_t>(s.kind)];
  const auto refuse = [&](std::string_view expected, std::string_view found) {
    throw sim::input_error{file, {lines, 1}, expected, found};
  };
  for (std::size_t k = 0; k != kinds; ++k) {
    const bool mixed = k == static_cast<std::size_t>(sim::step_kind::mixed);
    if ((mixed && !mixed_too) || count[k] >= least_steps[k]) continue;
    refuse(fmt::format("at least {} different steps of the kind {}{}{}", least_steps[k], sim::step_kind_names[k],
                       of_points ? " near the 14 points (--fit all takes others)" : "",
                       mixed ? ", or --without-mixed" : ""),
           count[k] == 0 ? std::string{"none"} : fmt::format("{}", count[k]));
  }
  const auto differ = [&](sim::step_kind kind, auto member) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    std::int64_t most = 0;
    for (const auto& s : steps) {
      if (s.kind != kind) continue;
      least = std::min(least, s.*member);
      most = std::max(most, s.*member);
    }
    return most >= 4 * least;
  };
  if (!differ(sim::step_kind::decode, &sim::measured_step::decodes)) {
    refuse("decodes with batches of which the largest is at least 4 times the smallest", "hardly any difference");
  }
  if (!differ(sim::step_kind::decode, &sim::measured_step::context)) {
    refuse("decodes with contexts of which the longest is at least 4 times the shortest", "hardly any difference");
  }
  if (!differ(sim::step_kind::prefill, &sim::measured_step::tokens)) {
    refuse("prefills of which the longest is at least 4 times the shortest", "hardly any difference");
  }
}

}  // namespace calibrate
