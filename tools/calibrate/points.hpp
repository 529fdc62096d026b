// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/model/step_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

/// @file
/// The 14 steps that separate the parts of a step's time, and the rows of a file that stand for them.

namespace calibrate {

namespace sim = tessera::sim;

/// A step that should be measured. `largest` as a number: as many as fit.
struct point {
  sim::step_kind kind;
  std::int64_t decodes;
  std::int64_t context;
  std::int64_t tokens;
  std::int64_t history;
};

inline constexpr std::int64_t largest = -1;

/// Decode: one request shows the weights, 32 is where engines run, and as many as fit show the knee. Short and long
/// contexts give the rate of KV. Prefill: around the knee and in the range of arithmetic. Mixed: more decodes, a
/// history, longer contexts. So the effects of a chunk on decodes, and of a history on the chunk, differ between them.
inline const std::vector<point>& wanted_points() {
  using enum sim::step_kind;
  static const std::vector<point> all{
      {decode, 1, 128, 0, 0},       {decode, 32, 128, 0, 0},   {decode, largest, 128, 0, 0},
      {decode, 1, 4096, 0, 0},      {decode, 32, 4096, 0, 0},  {decode, largest, 4096, 0, 0},
      {prefill, 0, 0, 64, 0},       {prefill, 0, 0, 256, 0},   {prefill, 0, 0, 1024, 0},
      {prefill, 0, 0, largest, 0},  {mixed, 32, 1024, 512, 0}, {mixed, 128, 1024, 512, 0},
      {mixed, 32, 1024, 512, 4096}, {mixed, 8, 4096, 1024, 0}};
  return all;
}

inline std::string describe(const point& p) {
  const auto n = [](std::int64_t x, const char* most) {
    return x == largest ? std::string{most} : fmt::format("{}", x);
  };
  switch (p.kind) {
    case sim::step_kind::decode:
      return fmt::format("decode, batch {}, context {}", n(p.decodes, "as large as fits"), p.context);
    case sim::step_kind::mixed:
      return fmt::format("mixed, {} decodes at {} + a chunk of {} after {}", p.decodes, p.context, p.tokens, p.history);
    default:
      return p.tokens == largest ? std::string{"prefill of the token budget and a batch"}
                                 : fmt::format("prefill of {} tokens", p.tokens);
  }
}

inline std::string describe(const sim::measured_step& s) {
  switch (s.kind) {
    case sim::step_kind::decode: return fmt::format("decode, batch {}, context {}", s.decodes, s.context);
    case sim::step_kind::mixed:
      return fmt::format("mixed, {} decodes at {} + a chunk of {} after {}", s.decodes, s.context, s.tokens, s.history);
    default: return fmt::format("prefill of {} tokens after {}", s.prompts * s.tokens, s.history);
  }
}

/// The distance of two sizes, in factors of e; sizes far below a tile of 16 tokens are equal.
inline double apart(std::int64_t a, std::int64_t b) {
  return std::fabs(std::log(static_cast<double>(a + 16) / static_cast<double>(b + 16)));
}

/// A step stands for a point if no size differs by more than this, about a factor of two.
inline constexpr double near_enough = 0.75;

/// The steps that stand for the points.
struct choice {
  std::vector<std::size_t> steps;  ///< Places in the file's steps, without repetition.
  std::vector<point> missing;      ///< Points without a step that is near enough.
  std::vector<point> doubtful;     ///< As large as fits, if no more fit than another point has.
};

/// For each point the nearest step of its kind. Ties go to the earlier one. O(points x steps).
inline choice choose_points(const std::vector<sim::measured_step>& steps) {
  choice out;
  for (const point& p : wanted_points()) {
    // As large as fits: among steps measured with this context, or among all prompts.
    std::int64_t most = 0;
    std::int64_t context = p.context;
    if (p.kind == sim::step_kind::decode) {
      double nearest = std::numeric_limits<double>::infinity();
      for (const auto& s : steps) {
        if (s.kind == p.kind && apart(s.context, p.context) < nearest) {
          nearest = apart(s.context, p.context);
          context = s.context;
        }
      }
    }
    for (const auto& s : steps) {
      if (s.kind != p.kind) continue;
      if (p.kind == sim::step_kind::decode && s.context == context) most = std::max(most, s.decodes);
      if (p.kind == sim::step_kind::prefill && s.prompts == 1) most = std::max(most, s.tokens);
    }
    std::size_t best = steps.size();
    double best_sum = std::numeric_limits<double>::infinity();
    double best_worst = 0;
    for (std::size_t i = 0; i != steps.size(); ++i) {
      const auto& s = steps[i];
      if (s.kind != p.kind || s.prompts > 1) continue;
      const double d[] = {apart(s.decodes, p.decodes == largest ? most : p.decodes), apart(s.context, p.context),
                          apart(s.tokens, p.tokens == largest ? most : p.tokens), apart(s.history, p.history)};
      const double sum = d[0] + d[1] + d[2] + d[3];
      if (sum >= best_sum) continue;
      best = i;
      best_sum = sum;
      best_worst = *std::max_element(std::begin(d), std::end(d));
    }
    const bool found = best != steps.size() && best_worst <= near_enough;
    const bool twice = found && std::find(out.steps.begin(), out.steps.end(), best) != out.steps.end();
    if (found && !twice) out.steps.push_back(best);
    // The largest batch at a long context may well be 32 or less, the budget 1,024: then these are one and the same
    // step.
    const bool is_largest = p.decodes == largest || p.tokens == largest;
    if (!found || (twice && !is_largest)) out.missing.push_back(p);
    if (found && twice && is_largest) out.doubtful.push_back(p);
    // A step further off still has more information than none.
    if (!found && best != steps.size() && std::find(out.steps.begin(), out.steps.end(), best) == out.steps.end()) {
      out.steps.push_back(best);
    }
  }
  return out;
}

}  // namespace calibrate
