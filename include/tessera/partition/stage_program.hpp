// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/storage.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

/// @file
/// The dynamic program behind `exact`, `bucketed`, `merge` and `chain`.

TESSERA_NAMESPACE_BEGIN
namespace partition {

/// One stage over positions (first, last] with `instances`.
struct program_stage {
  std::size_t first = 0;      ///< First position of the stage.
  std::size_t last = 0;       ///< One past its last position.
  std::size_t instances = 0;  ///< Instances it gets.
};

/// Finds the stages of least cost over the positions 0..M of three prefix sums (see `length_table`). A stage (i, j] on
/// k instances costs (N_j - N_i)(S_j - S_i) / k, and c_i for its cut if i > 0. (The term N D0 is the same for all.)
///
/// f(e, j) is the least cost of the first j lengths on exactly e instances. It is the minimum, over k and i, of
///
///     f(e - k, i) + c_i + (N_j - N_i)(S_j - S_i) / k
///
/// This is CascadeInfer's recursion (section 4.2) without its number of stages, which need not be a state. Three
/// properties make it quick, and keep it exact:
///
/// 1. N and S never fall, so the product satisfies the quadrangle inequality: for i < i' < j < j',
///    w(i, j) + w(i', j') <= w(i, j') + w(i', j). For given e and k, the first best i therefore never moves left as j
///    moves right, for any f and c. Divide and conquer finds it for all j in O(M log M).
/// 2. f(e, j) does not fall in j and does not rise in e, and no i gives less at a larger j. Take a range of j. If k's
///    value at its left end exceeds an attainable value at its right end, k is of no use in between.
/// 3. Let P_j be the sum over the first j lengths of sqrt(n s) (n, s: what the length adds to N and S). Cauchy and
///    Schwarz give (sum of A_h / k_h) >= (sum of sqrt(A_h))^2 / (sum of k_h). The root of A of a stage is at least the
///    sum of its sqrt(n s). So a plan that spends e of E instances on the first j lengths costs at least P_j^2 / e +
///    (P_M - P_j)^2 / (E - e). States where this exceeds the cost of a known plan are never looked at. (That plan has
///    equal steps of P, for the best number of stages.) A band of states remains.
///
/// O(E^2 M log M) at worst, mostly far less. "Exact" is up to the rounding of sums of doubles: the bounds have a
/// relative margin of 1e-9, so that rounding prunes nothing. Ties: the fewest instances in the last stage, except that
/// one stage for all comes first; then the lowest cut.
class stage_program {
 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t positions = 0;  ///< M: most distinct lengths.
    std::size_t instances = 0;  ///< E. Fewer than 65,536.
  };
  /// The problem: prefix sums over the distinct lengths, each of M + 1 numbers.
  struct sums {
    std::span<const double> n;  ///< N_0..N_M, ascending from 0.
    std::span<const double> s;  ///< S_0..S_M, ascending from 0.
    std::span<const double> c;  ///< c_0..c_M, at least 0.
  };

  /// 10 bytes per instance and position: 0.8 MB for 16 x 5,000, 13 MB for 256 x 5,000. Only used memory is touched.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    storage_layout layout;
    layout.add<double>(l.instances * (l.positions + 1)).add<std::uint16_t>(l.instances * (l.positions + 1));
    for (int i = 0; i != 4; ++i) layout.add<double>(l.positions + 1);
    return layout.add<window>(l.instances).bytes_unaligned();
  }

  /// Takes `required_bytes(l)` from `memory`.
  stage_program(arena& memory, const limits& l) noexcept
      : limits_{l},
        costs_{memory.take_uninitialised<double>(l.instances * (l.positions + 1))},
        choices_{memory.take_uninitialised<std::uint16_t>(l.instances * (l.positions + 1))},
        p_{memory.take_uninitialised<double>(l.positions + 1)},
        f_{memory.take_uninitialised<double>(l.positions + 1)},
        previous_{memory.take_uninitialised<double>(l.positions + 1)},
        useful_{memory.take_uninitialised<double>(l.positions + 1)},
        windows_{memory.take<window>(l.instances)} {
    TESSERA_ASSERT(l.instances < 65536, "the number of instances has 16 bits");
  }
  stage_program(const stage_program&) = delete;
  stage_program& operator=(const stage_program&) = delete;

  /// Writes the best stages in ascending order to the front of `out`; returns their number.
  /// @param one_each as many stages as instances, of one instance each; else any number, of any size.
  /// Requires M and `instances` from 1 to the limits, `instances` <= M if `one_each`, and room for min(instances, M)
  /// stages (asserted).
  std::size_t solve(const sums& in, std::size_t instances, bool one_each, std::span<program_stage> out) noexcept {
    TESSERA_REQUIRE(in.n.size() >= 2 && in.n.size() - 1 <= limits_.positions,
                    "more lengths than the program has room for");
    TESSERA_REQUIRE(instances >= 1 && instances <= limits_.instances, "more instances than the program has room for");
    n_ = in.n.data();
    s_ = in.s.data();
    c_ = in.c.data();
    m_ = in.n.size() - 1;
    instances_ = instances;
    TESSERA_ASSERT(!one_each || instances <= m_, "more stages than lengths");
    add_up_roots();
    known_ = one_each ? none : attainable() * (1 + 1e-9);
    for (std::size_t e = 1; e <= instances; ++e) layer(e, one_each);
    return trace(out);
  }

 private:
  struct window {  // positions first..last; empty if last < first
    std::size_t first = 1;
    std::size_t last = 0;
  };
  static constexpr double none = std::numeric_limits<double>::infinity();

  [[nodiscard]] std::size_t at(std::size_t e, std::size_t j) const noexcept { return (e - 1) * (m_ + 1) + j; }
  [[nodiscard]] double area(std::size_t i, std::size_t j) const noexcept { return (n_[j] - n_[i]) * (s_[j] - s_[i]); }

  void add_up_roots() noexcept {
    p_[0] = 0;
    // Slightly less than the sum, so that it stays a lower bound under any rounding.
    for (std::size_t j = 1; j <= m_; ++j) p_[j] = p_[j - 1] + std::sqrt(area(j - 1, j)) * (1 - 1e-10);
  }
  /// A lower bound of the cost of serving the lengths behind j with the instances left after e.
  [[nodiscard]] double rest(std::size_t e, std::size_t j) const noexcept {
    const double x = p_[m_] - p_[j];
    return e == instances_ ? 0 : x * x / static_cast<double>(instances_ - e);
  }

  /// The cost of one plan: for the best number of stages, cuts at equal steps of P.
  [[nodiscard]] double attainable() const noexcept {
    double best = area(0, m_) / static_cast<double>(instances_);
    for (std::size_t stages = 2; stages <= instances_; ++stages) {
      double cost = 0;
      std::size_t used = 0;
      std::size_t i = 0;
      for (std::size_t h = 1; h <= stages && cost < best; ++h) {
        const std::size_t e = instances_ * h / stages;
        const double until = p_[m_] * static_cast<double>(e) / static_cast<double>(instances_);
        const std::size_t j =
            h == stages ? m_ : std::min(static_cast<std::size_t>(std::lower_bound(p_ + i, p_ + m_, until) - p_), m_);
        if (j > i) cost += c_[i] + area(i, j) / static_cast<double>(e - used);
        used = e;
        i = j;
      }
      best = std::min(best, cost);
    }
    return best;
  }

  /// All values f(e, j) that can matter.
  void layer(std::size_t e, bool one_each) noexcept {
    window w{e == instances_ ? m_ : 1, m_};
    const auto hopeless = [&](std::size_t j) { return p_[j] * p_[j] / static_cast<double>(e) + rest(e, j) > known_; };
    while (w.first <= w.last && hopeless(w.first)) ++w.first;
    while (w.first <= w.last && hopeless(w.last)) --w.last;
    for (std::size_t j = w.first; j <= w.last; ++j) {
      const bool whole = !one_each || e == 1;
      f_[j] = whole ? area(0, j) / static_cast<double>(e) : none;
      choices_[at(e, j)] = static_cast<std::uint16_t>(e);
      const bool before = !one_each && computed_.first <= j && j <= computed_.last && e != 1;
      useful_[j] = std::min(known_ - rest(e, j), before ? previous_[j] : none);
    }
    for (std::size_t k = 1; k < e && (k == 1 || !one_each); ++k) {
      const window& from = windows_[e - k - 1];
      source_ = costs_ + at(e - k, 0);
      share_ = 1 / static_cast<double>(k);
      e_ = e;
      k_ = k;
      from_last_ = from.last;
      if (from.first <= from.last) improve(std::max(w.first, from.first + 1), w.last, from.first, from.last, 0);
    }
    computed_ = w;
    for (std::size_t j = w.first; j <= w.last; ++j) {
      costs_[at(e, j)] = f_[j] + c_[j];
      previous_[j] = f_[j];
    }
    const auto useless = [&](std::size_t j) { return !(costs_[at(e, j)] + rest(e, j) <= known_) || f_[j] == none; };
    while (w.first <= w.last && useless(w.first)) ++w.first;
    while (w.first <= w.last && useless(w.last)) --w.last;
    windows_[e - 1] = w;
  }

  /// Improves f(e, j) for j in [first, last] by a last stage of k instances that begins in [low, high]. No j in the
  /// range gets less than `bound` from it.
  void improve(std::size_t first, std::size_t last, std::size_t low, std::size_t high, double bound) noexcept {
    while (first <= last) {
      if (bound > std::min(f_[last], useful_[last])) return;
      const std::size_t j = first + (last - first) / 2;
      const candidate best = cheapest(low, std::min(high, j - 1), j);
      if (best.cost < f_[j]) {
        f_[j] = best.cost;
        choices_[at(e_, j)] = static_cast<std::uint16_t>(k_);
      }
      improve(first, j - 1, low, best.begin, bound);
      // To the right of j, each begin that j had costs at least as much. A begin from j on costs at least all before
      // it.
      const double later = j > from_last_ ? none : p_[j] * p_[j] / static_cast<double>(e_ - k_);
      bound = std::max(bound, std::min(best.cost, later));
      first = j + 1;
      low = best.begin;
    }
  }

  struct candidate {
    double cost;
    std::size_t begin;
  };

  /// The first of the cheapest begins in [low, high] of a stage that ends at j.
  [[nodiscard]] candidate cheapest(std::size_t low, std::size_t high, std::size_t j) const noexcept {
    const double nj = n_[j];
    const double sj = s_[j];
    const auto cost = [&](std::size_t i) { return source_[i] + (nj - n_[i]) * (sj - s_[i]) * share_; };
    const auto smaller = [](double a, double b) { return a < b ? a : b; };
    // In blocks, each by independent minima that need not wait for each other; then the place within the best block.
    constexpr std::size_t block = 64;
    candidate best{none, low};
    std::size_t i = low;
    for (; high + 1 - i >= block; i += block) {
      double a = cost(i);
      double b = cost(i + 1);
      double c = cost(i + 2);
      double d = cost(i + 3);
      for (std::size_t k = i + 4; k != i + block; k += 4) {
        a = smaller(cost(k), a);
        b = smaller(cost(k + 1), b);
        c = smaller(cost(k + 2), c);
        d = smaller(cost(k + 3), d);
      }
      const double least = smaller(smaller(a, b), smaller(c, d));
      if (least < best.cost) best = {least, i};
    }
    if (best.cost < none) {
      while (cost(best.begin) != best.cost) ++best.begin;
    }
    for (; i <= high; ++i) {
      const double x = cost(i);
      if (x < best.cost) best = {x, i};
    }
    return best;
  }

  /// Walks back from f(E, M). A stage's begin was not kept: it is found again, by the same sums in the same order.
  std::size_t trace(std::span<program_stage> out) noexcept {
    std::size_t count = 0;
    std::size_t j = m_;
    for (std::size_t e = instances_; e != 0;) {
      const std::size_t k = choices_[at(e, j)];
      std::size_t i = 0;
      if (k != e) {
        source_ = costs_ + at(e - k, 0);
        share_ = 1 / static_cast<double>(k);
        const window& from = windows_[e - k - 1];
        i = cheapest(from.first, std::min(from.last, j - 1), j).begin;
      }
      TESSERA_REQUIRE(count < out.size(), "no room for the stages");
      out[count++] = {i, j, k};
      e -= k;
      j = i;
    }
    std::reverse(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }

  limits limits_;
  double* costs_;           // f(e, j) + c_j by e and j
  std::uint16_t* choices_;  // instances of the last stage
  double* p_;
  double* f_;         // of this layer
  double* previous_;  // of the layer before, in `computed_`
  double* useful_;    // what f(e, j) must not exceed
  window* windows_;   // where a stage may begin, by e
  window computed_{};

  // The present problem.
  const double* n_ = nullptr;
  const double* s_ = nullptr;
  const double* c_ = nullptr;
  std::size_t m_ = 0;
  std::size_t instances_ = 0;
  double known_ = none;
  // The present part of a layer.
  const double* source_ = nullptr;
  double share_ = 1;
  std::size_t e_ = 0;
  std::size_t k_ = 0;
  std::size_t from_last_ = 0;
};

}  // namespace partition
TESSERA_NAMESPACE_END
