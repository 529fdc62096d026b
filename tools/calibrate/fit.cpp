// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "fit.hpp"

#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/profile_file.hpp>
#include <tessera/sim/model/step_file.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <Eigen/Core>
#include <unsupported/Eigen/NonLinearOptimization>
#include <unsupported/Eigen/NumericalDiff>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace calibrate {

namespace {

/// The fitted numbers.
enum class number : std::size_t {
  launch,
  bandwidth,
  flops,
  kv_bandwidth,
  attention,
  request,
  token,
  knee,
  least_context,
  mixed_kv,
  history,
};
constexpr std::size_t numbers = 11;
using vector = Eigen::Matrix<double, Eigen::Dynamic, 1>;

/// The usual value, and the standard deviation of its logarithm. Not the result of a fit to one machine: these are
/// round numbers from the range of A100, H100 and RTX cards. The range is wide enough for other devices.
struct usual {
  double value;
  double spread;
};
constexpr std::array<usual, numbers> usual_values{{
    {1e-3, 1.0},   // launch: kernels of 32 to 80 layers, in a graph
    {0.88, 0.15},  // bandwidth: fraction of the peak
    {0.8, 0.25},   // flops: fraction of the peak
    {0.92, 0.1},   // kv_bandwidth: fraction of the peak
    {0.6, 0.4},    // attention: fraction of the peak
    {3e-6, 0.7},   // request
    {1e-6, 1.5},   // token
    {3.5, 0.25},   // knee
    {64, 0.3},     // least_context: tiles of 64 to 128
    {0.3, 1.5},    // mixed_kv: beyond 1
    {5, 1.0},      // history, if there is one
}};

/// Decodes beside a chunk that are slower by more than this use a kernel that does not split contexts.
constexpr double unsplit = 1.25;
/// Relative error of a step that counts as one standard deviation: scatter of steps, and effects outside of the model.
constexpr double step_spread = 0.015;

/// A profile with its terms within the limits of a profile file, so that it can be read back. A knee below 1 would make
/// two parts together take longer than one after the other.
sim::profile within_bounds(sim::profile p) {
  for (const sim::detail::term_key& k : sim::detail::term_keys) {
    p.terms.*k.value = std::clamp(p.terms.*k.value, k.least, k.most);
  }
  if (p.terms.knee > 0) p.terms.knee = std::max(p.terms.knee, 1.0);
  p.gpu.launch_seconds = std::min(p.gpu.launch_seconds, 10.0);
  return p;
}

/// `base` with these numbers.
sim::profile with_numbers(const sim::profile& base, const vector& logs, bool has_mixed, bool has_history) {
  const auto x = [&](number n) { return std::exp(logs[static_cast<Eigen::Index>(n)]); };
  sim::profile p = base;
  p.gpu.launch_seconds = x(number::launch);
  p.gpu.bandwidth_efficiency = x(number::bandwidth);
  p.gpu.flops_efficiency = x(number::flops);
  p.terms.kv_bandwidth_efficiency = x(number::kv_bandwidth);
  p.terms.attention_flops_efficiency = x(number::attention);
  p.terms.request_seconds = x(number::request);
  p.terms.token_seconds = x(number::token);
  p.terms.knee = x(number::knee);
  p.terms.least_context = x(number::least_context);
  p.terms.mixed_kv_factor = has_mixed ? 1 + x(number::mixed_kv) : base.terms.mixed_kv_factor;
  p.terms.longest_history_factor = has_history ? x(number::history) : 0;
  return within_bounds(std::move(p));
}

/// A profile may have no efficiency above 1, but a device can be faster than its stated peak: then the peak was wrong.
/// Changes no time.
sim::profile with_peaks(sim::profile p) {
  if (p.gpu.flops_efficiency > 1) {
    p.gpu.flops *= p.gpu.flops_efficiency;
    p.terms.attention_flops_efficiency /= p.gpu.flops_efficiency;
    p.gpu.flops_efficiency = 1;
  }
  if (p.gpu.bandwidth_efficiency > 1) {
    p.gpu.bytes_per_s *= p.gpu.bandwidth_efficiency;
    p.terms.kv_bandwidth_efficiency /= p.gpu.bandwidth_efficiency;
    p.terms.longest_history_factor *= p.gpu.bandwidth_efficiency;
    p.gpu.bandwidth_efficiency = 1;
  }
  return p;
}

/// The residuals: errors of the steps, and distances of the numbers from their usual values. If attention is left to
/// one multiprocessor at a time, also the consequence for the longest history.
class residuals {
 public:
  using Scalar = double;
  enum { InputsAtCompileTime = Eigen::Dynamic, ValuesAtCompileTime = Eigen::Dynamic };
  using InputType = vector;
  using ValueType = vector;
  using JacobianType = Eigen::MatrixXd;

  residuals(const sim::profile& base, const std::vector<sim::measured_step>& steps, bool has_mixed, bool has_history)
      : base_{&base}, steps_{&steps}, has_mixed_{has_mixed}, has_history_{has_history} {
    // A thousand steps of one kind must not outvote a few of another.
    constexpr double most = 100;
    std::array<double, sim::step_kind_names.size()> count{};
    for (const auto& s : steps) ++count[static_cast<std::size_t>(s.kind)];
    for (std::size_t k = 0; k != count.size(); ++k) weight_[k] = count[k] > most ? std::sqrt(most / count[k]) : 1;
  }

  [[nodiscard]] int inputs() const { return static_cast<int>(numbers); }
  [[nodiscard]] int values() const { return static_cast<int>(steps_->size() + numbers + (has_history_ ? 2 : 0)); }

  int operator()(const InputType& logs, ValueType& out) const {
    const sim::profile p = with_numbers(*base_, logs, has_mixed_, has_history_);
    const sim::step_timer timer{p};
    Eigen::Index row = 0;
    for (const sim::measured_step& s : *steps_) {
      const double e = (timer(s.shape()) / s.seconds - 1) / step_spread;
      const double size = 2 * std::sqrt(2 * (std::sqrt(1 + e * e / 4) - 1));
      out[row++] = std::isfinite(e) ? (e < 0 ? -size : size) * weight_[static_cast<std::size_t>(s.kind)] : 1e6;
    }
    for (std::size_t i = 0; i != numbers; ++i) {
      const auto k = static_cast<Eigen::Index>(i);
      out[row++] = (logs[k] - std::log(usual_values[i].value)) / usual_values[i].spread;
    }
    if (has_history_) {
      const auto log_of = [&](number n) { return logs[static_cast<Eigen::Index>(n)]; };
      const std::int64_t said = base_->gpu.multiprocessors;
      const double m = said > 0 ? static_cast<double>(said) : usual_multiprocessors;
      const auto heads = static_cast<double>(base_->model.query_heads);
      const double read = std::log(base_->model.kv_bytes_per_token() / base_->gpu.bytes_per_s);
      const double mine = log_of(number::history) + read;
      // One of m multiprocessors works off a tile of 64 queries of one head. So a token of history takes as long as the
      // 64 m / heads pairs that all of them do meanwhile,
      const double pair =
          std::log(base_->model.attention_flops_per_pair() / base_->gpu.flops) - log_of(number::attention);
      out[row++] = (mine - std::log(64 * m / heads) - pair) / history_spread;
      // or as the m / heads tokens that all of them read for decodes; these are uneven, which costs a quarter.
      const double decode = read - log_of(number::kv_bandwidth) + std::log1p(std::exp(log_of(number::mixed_kv)));
      out[row++] = (mine - std::log(0.75 * m / heads) - decode) / history_spread;
    }
    return 0;
  }

 private:
  static constexpr double history_spread = 0.3;
  static constexpr double usual_multiprocessors = 132;  // 108 to 188 in A100 to RTX PRO 6000

  const sim::profile* base_;
  const std::vector<sim::measured_step>* steps_;
  bool has_mixed_;
  bool has_history_;
  std::array<double, sim::step_kind_names.size()> weight_{};
};

/// The best result of a few starts. Deterministic.
vector minimise(const sim::profile& base, const std::vector<sim::measured_step>& steps, bool has_mixed,
                bool has_history) {
  const residuals f{base, steps, has_mixed, has_history};
  const Eigen::NumericalDiff<residuals, Eigen::Central> differences{f};
  vector best;
  double least = std::numeric_limits<double>::infinity();
  for (int start = 0; start != 3; ++start) {
    vector x(static_cast<Eigen::Index>(numbers));
    for (std::size_t i = 0; i != numbers; ++i) {
      // Starts at the usual value, and to both sides of it in turn.
      const double aside = start == 0 ? 0 : (i % 2 == 0) == (start == 1) ? 1 : -1;
      x[static_cast<Eigen::Index>(i)] = std::log(usual_values[i].value) + aside * usual_values[i].spread;
    }
    auto functor = differences;
    Eigen::LevenbergMarquardt<Eigen::NumericalDiff<residuals, Eigen::Central>> search{functor};
    search.parameters.maxfev = 4000;
    search.minimize(x);
    vector out(f.values());
    f(x, out);
    if (const double sum = out.squaredNorm(); sum < least) {
      least = sum;
      best = x;
    }
  }
  return best;
}

}  // namespace

sim::profile fit(sim::profile base, const std::vector<sim::measured_step>& steps) {
  base.measured = {};
  const bool has_mixed =
      std::any_of(steps.begin(), steps.end(), [](const auto& s) { return s.kind == sim::step_kind::mixed; });
  vector x = minimise(base, steps, has_mixed, false);
  bool has_history = false;
  if (has_mixed && base.gpu.multiprocessors > 0 &&
      1 + std::exp(x[static_cast<Eigen::Index>(number::mixed_kv)]) > unsplit) {
    has_history = true;
    x = minimise(base, steps, true, true);
  }
  return within_bounds(with_peaks(with_numbers(base, x, has_mixed, has_history)));
}

}  // namespace calibrate
