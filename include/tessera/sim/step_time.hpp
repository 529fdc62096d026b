// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/sim/profile.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

/// @file
/// How long a step takes, and how long a copy of KV takes.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// What of a step its time depends on: sums (and one maximum) over its entries, so that a step of any size is costed in
/// O(1).
struct step_shape {
  std::int64_t decodes = 0;          ///< Sequences that decode one token.
  std::int64_t decode_context = 0;   ///< Sum of the KV tokens that they read.
  std::int64_t longest_context = 0;  ///< The most that one of them reads.
  std::int64_t prefill_tokens = 0;   ///< Prompt tokens computed.
  std::int64_t prefill_context = 0;  ///< Sum over the chunks of the KV tokens that they read.
  std::int64_t prefill_pairs = 0;    ///< Sum over the chunks of the (query, context) pairs under the causal mask.

  /// One sequence that decodes, with `context` tokens of KV, the new one included.
  constexpr void add_decode(tokens context) noexcept {
    ++decodes;
    decode_context += context.count();
    if (context.count() > longest_context) longest_context = context.count();
  }
  /// A chunk of `count` prompt tokens after the `first` that are computed already.
  constexpr void add_prefill(tokens first, tokens count) noexcept {
    prefill_tokens += count.count();
    prefill_context += first.count() + count.count();
    prefill_pairs += count.count() * first.count() + count.count() * (count.count() + 1) / 2;
  }
  /// Whether there is nothing to compute.
  [[nodiscard]] constexpr bool empty() const noexcept { return decodes == 0 && prefill_tokens == 0; }
};

/// The time of a step on a profile.
///
/// **Roofline.** The kernels of a layer run one after the other, so their times add, and each is bound by memory or by
/// arithmetic. With B = achieved bytes per second, F = achieved operations per second (peak x efficiency):
///
///     launch
///     + max(weight bytes / B, 2 parameters (decodes + prefill tokens) / F)       matrix products
///     + KV bytes of the decode contexts / B                                      decode attention
///     + max(KV bytes of the prefill contexts / B, 4 layers heads dim pairs / F)  prefill attention
///
/// For scale: on `h100-96gb-qwen-32b` a decode step of one sequence takes 24 ms (65.5 GB of weights at 85 % of
/// 3.35 TB/s), of 64 sequences with 1,000 tokens each 30 ms; the prefill of 1,000 tokens 112 ms (66 Tflop at 60 % of
/// 989 Tflop/s).
///
/// **Measured.** A table of the profile replaces the terms that it covers: `decode` by bilinear interpolation over
/// batch and mean context, `prefill` by linear interpolation over the tokens of the step, corrected by the roofline's
/// cost of the attention pairs that differ from those of one fresh prompt. Beyond the last point both go on along the
/// last segment; below the first they stay at it. In mixed steps the tokens of all sequences are multiplied together,
/// so the prefill table is read for all of them; and the weights are read once: the decode table's first point, which
/// is nearly nothing else, is taken off.
///
/// **Mixed lengths.** With an `attention_spec`, a batch of sequences of different lengths takes longer than one of
/// equal lengths with as many tokens. A chunk of the longest sequence has longest / splits tokens of one KV head; work
/// handed out chunk by chunk to m multiprocessors ends at most (m - 1) / m of the last chunk after it would if it could
/// be divided at will (Graham's bound), and a multiprocessor reads at 1 / m of the bandwidth. So, beyond the time of a
/// uniform batch, which the bandwidth efficiency stands for:
///
///     + KV bytes of (longest - mean context) (m - 1) / (KV heads max(splits, m / (KV heads batch))) / B
///
/// A batch too small to fill the device is split more finely, as such kernels do.
///
/// Copyable. A roofline call is a few ns and allocates nothing; with tables, O(log of their size).
class step_timer {
 public:
  /// Copies what it needs of the profile.
  explicit step_timer(const profile& p)
      : launch_{p.gpu.launch_seconds},
        weights_{p.model.weight_bytes() / (p.gpu.bytes_per_s * p.gpu.bandwidth_efficiency)},
        kv_token_{p.model.kv_bytes_per_token() / (p.gpu.bytes_per_s * p.gpu.bandwidth_efficiency)},
        token_{2 * p.model.parameters / (p.gpu.flops * p.gpu.flops_efficiency)},
        pair_{p.model.attention_flops_per_pair() / (p.gpu.flops * p.gpu.flops_efficiency)},
        multiprocessors_{static_cast<double>(p.attention.multiprocessors)},
        splits_{p.attention.splits},
        kv_heads_{static_cast<double>(p.model.kv_heads)} {
    for (const auto& d : p.measured.prefill) {
      lengths_.push_back(static_cast<double>(d.length));
      prefill_.push_back(d.seconds);
    }
    for (const auto& d : p.measured.decode) {
      if (batches_.empty() || batches_.back() != static_cast<double>(d.batch)) {
        batches_.push_back(static_cast<double>(d.batch));
      }
      if (batches_.size() == 1) contexts_.push_back(static_cast<double>(d.context));
      decode_.push_back(d.seconds);
    }
  }

  /// Seconds that the step takes; 0 for an empty one.
  [[nodiscard]] double operator()(const step_shape& s) const noexcept {
    if (s.empty()) return 0;
    return (decode_.empty() && prefill_.empty() ? roofline(s) : measured(s)) + tail(s);
  }

  /// Of this, what a uniform decode batch of as many tokens would not take.
  [[nodiscard]] double tail(const step_shape& s) const noexcept {
    if (multiprocessors_ == 0 || s.decodes == 0) return 0;
    const double batch = static_cast<double>(s.decodes);
    const double excess = static_cast<double>(s.longest_context) - static_cast<double>(s.decode_context) / batch;
    const double splits = larger(splits_, multiprocessors_ / (kv_heads_ * batch));
    return kv_token_ * excess * (multiprocessors_ - 1) / (kv_heads_ * splits);
  }

 private:
  [[nodiscard]] static double larger(double a, double b) noexcept { return a < b ? b : a; }

  [[nodiscard]] double roofline(const step_shape& s) const noexcept {
    return launch_ + larger(weights_, token_ * static_cast<double>(s.decodes + s.prefill_tokens)) +
           kv_token_ * static_cast<double>(s.decode_context) +
           larger(kv_token_ * static_cast<double>(s.prefill_context), pair_ * static_cast<double>(s.prefill_pairs));
  }

  [[nodiscard]] double measured(const step_shape& s) const noexcept {
    // Each part alone, from its table if there is one.
    double decode = 0;
    if (s.decodes > 0) {
      step_shape part;
      part.decodes = s.decodes;
      part.decode_context = s.decode_context;
      decode = decode_.empty() ? roofline(part) : decode_time(part);
    }
    if (s.prefill_tokens == 0) return decode;
    step_shape part = s;
    part.decodes = part.decode_context = 0;
    const double prefill = prefill_.empty() ? roofline(part) : prefill_time(part, static_cast<double>(s.decodes));
    if (s.decodes == 0) return prefill;
    const double shared = decode_.empty() ? launch_ + weights_ : decode_.front();
    return larger(prefill, shared) + larger(decode - shared, 0);
  }

  [[nodiscard]] double decode_time(const step_shape& s) const noexcept {
    const double batch = static_cast<double>(s.decodes);
    const segment b = locate(batches_, batch);
    const segment c = locate(contexts_, static_cast<double>(s.decode_context) / batch);
    const auto at = [&](std::size_t i, std::size_t j) { return decode_[i * contexts_.size() + j]; };
    const double low = at(b.low, c.low) + c.part * (at(b.low, c.high) - at(b.low, c.low));
    const double high = at(b.high, c.low) + c.part * (at(b.high, c.high) - at(b.high, c.low));
    return larger(low + b.part * (high - low), decode_.front());
  }

  /// With `beside` more tokens in the same matrix products, whose attention is counted elsewhere.
  [[nodiscard]] double prefill_time(const step_shape& s, double beside) const noexcept {
    const double n = static_cast<double>(s.prefill_tokens) + beside;
    const segment l = locate(lengths_, n);
    const double fresh = prefill_[l.low] + l.part * (prefill_[l.high] - prefill_[l.low]);
    const double pairs = static_cast<double>(s.prefill_pairs) - n * (n + 1) / 2;
    return larger(fresh + pair_ * pairs, prefill_.front());
  }

  struct segment {
    std::size_t low;
    std::size_t high;
    double part;  ///< 0 at `low`, 1 at `high`; more beyond the last point.
  };

  [[nodiscard]] static segment locate(const std::vector<double>& points, double x) noexcept {
    if (points.size() == 1 || x <= points.front()) return {0, 0, 0};
    std::size_t low = 0;
    std::size_t high = points.size() - 1;
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      (points[middle] <= x ? low : high) = middle;
    }
    return {low, high, (x - points[low]) / (points[high] - points[low])};
  }

  double launch_;
  double weights_;
  double kv_token_;
  double token_;
  double pair_;
  double multiprocessors_;
  double splits_;
  double kv_heads_;
  std::vector<double> lengths_;
  std::vector<double> prefill_;
  std::vector<double> batches_;
  std::vector<double> contexts_;
  std::vector<double> decode_;
};

/// Seconds to copy the KV of `length` tokens between device and host, alone on the link.
[[nodiscard]] inline double swap_seconds(const profile& p, tokens length) noexcept {
  return static_cast<double>(length.count()) * p.model.kv_bytes_per_token() / p.links.host_bytes_per_s;
}

/// Seconds to copy the KV of `length` tokens from one instance to another, alone on the fabric.
[[nodiscard]] inline double transfer_seconds(const profile& p, tokens length) noexcept {
  return static_cast<double>(length.count()) * p.model.kv_bytes_per_token() / p.links.fabric_bytes_per_s;
}

}  // namespace sim
TESSERA_NAMESPACE_END
