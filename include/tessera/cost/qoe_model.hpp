// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/cost/batch_features.hpp>

TESSERA_NAMESPACE_BEGIN
namespace cost {

/// CascadeInfer's model of quality (section 4.1, equation 1); smaller is better.
///
/// Every request of a batch waits for the whole batch, so each has the same normalised latency
///
///     q = D0 + D1 n + D2 sum I + D3 sum I^2 + D4 sum L          seconds per output token
///
/// and the batch as a whole Q = n q. The coefficients are fitted to measurements (see `fit`). They must not be
/// negative: a negative cost has no physical meaning, and the planner's exactness rests on it.
struct qoe_model {
  std::array<double, 5> d{};  ///< D0 to D4, in seconds per token and unit of the feature.

  /// Whether every coefficient is finite and not negative.
  [[nodiscard]] constexpr bool valid() const noexcept {
    for (const double x : d) {
      if (!(x >= 0 && x <= std::numeric_limits<double>::max())) return false;
    }
    return true;
  }
  /// q: the latency of each request of the batch. O(1).
  [[nodiscard]] constexpr double per_request(const feature_vector& f) const noexcept {
    return d[0] * f[0] + d[1] * f[1] + d[2] * f[2] + d[3] * f[3] + d[4] * f[4];
  }
  /// Q = n q: the sum over the batch; 0 for an empty one. O(1).
  [[nodiscard]] constexpr double batch(const feature_vector& f) const noexcept { return f[1] * per_request(f); }
  /// Q, the sum over the batch, in seconds per token.
  [[nodiscard]] double batch(const batch_features& b) const noexcept { return batch(b.features()); }
  /// The part that one request adds to the q of all in its batch: D1 + D2 I + D3 I^2 + D4 L.
  [[nodiscard]] constexpr double load(const request_lengths& r) const noexcept {
    const auto i = static_cast<double>(r.input.count());
    return d[1] + d[2] * i + d[3] * (i * i) + d[4] * static_cast<double>(r.length.count());
  }

  /// Memberwise.
  friend constexpr bool operator==(const qoe_model&, const qoe_model&) noexcept = default;
};

/// The cost of moving a sequence from one instance to another, in the units of `qoe_model`.
struct transfer_cost {
  double per_sequence = 0;  ///< Fixed part. Finite, at least 0.
  double per_token = 0;     ///< Bytes of KV per token / bandwidth. Finite, at least 0.

  /// Whether both are finite and not negative.
  [[nodiscard]] constexpr bool valid() const noexcept {
    constexpr double most = std::numeric_limits<double>::max();
    return per_sequence >= 0 && per_sequence <= most && per_token >= 0 && per_token <= most;
  }
  /// The cost for one sequence of this length.
  [[nodiscard]] constexpr double operator()(tokens length) const noexcept {
    return per_sequence + per_token * static_cast<double>(length.count());
  }

  /// Memberwise.
  friend constexpr bool operator==(const transfer_cost&, const transfer_cost&) noexcept = default;
};

}  // namespace cost
TESSERA_NAMESPACE_END
