// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/sim/model/profile.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

/// @file
/// The time of a step, and the time of a copy of KV.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// The features of a step that its time depends on: sums (and two maxima) over its entries. So a step of any size is
/// costed in O(1).
struct step_shape {
  std::int64_t decodes = 0;          ///< Sequences that decode one token.
  std::int64_t decode_context = 0;   ///< Sum of the KV tokens that they read.
  std::int64_t longest_context = 0;  ///< The most that one of them reads.
  std::int64_t prefills = 0;         ///< Chunks of prompts.
  std::int64_t prefill_tokens = 0;   ///< Prompt tokens computed.
  std::int64_t prefill_context = 0;  ///< Sum over the chunks of the KV tokens that they read.
  std::int64_t longest_prefill = 0;  ///< The most that one of them reads.
  std::int64_t prefill_pairs = 0;    ///< Sum over the chunks of the (query, context) pairs under the causal mask.

  /// One sequence that decodes, with `context` tokens of KV, the new one included.
  constexpr void add_decode(tokens context) noexcept {
    ++decodes;
    decode_context += context.count();
    if (context.count() > longest_context) longest_context = context.count();
  }
  /// A chunk of `count` prompt tokens after the `first` that are computed already.
  constexpr void add_prefill(tokens first, tokens count) noexcept {
    ++prefills;
    prefill_tokens += count.count();
    prefill_context += first.count() + count.count();
    if (first.count() + count.count() > longest_prefill) longest_prefill = first.count() + count.count();
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
/// For scale, on `h100-96gb-qwen-32b`: a decode step of one sequence takes 24 ms (65.5 GB of weights at 85 % of 3.35
/// TB/s). With 64 sequences of 1,000 tokens it takes 30 ms. The prefill of 1,000 tokens takes 112 ms (66 Tflop at 60 %
/// of 989 Tflop/s).
///
/// **Terms.** `step_terms` adds terms, each neutral by default. They are: separate rates for attention; a soft knee in
/// place of the first max. Time per request and per token; a least context. In steps with a prompt chunk, slower
/// decodes and a bound by the longest history. The host's part of each step.
///
/// **Mixtures of experts.** If n tokens are each sent to k of E experts, evenly, they reach E (1 - (1 - k / E)^n) of
/// them. That part of the experts' weights is read.
///
/// **Several devices** (`parallel_spec`): each reads its part of weights and KV and does its part of the arithmetic;
/// all-reduces, hand-overs and micro-batches as described there.
///
/// **Measured.** A table of the profile replaces the terms that it covers. `decode`: bilinear interpolation over batch
/// and mean context. `prefill`: a fresh prompt's time beyond the roofline's cost of its attention pairs, linear in the
/// tokens of the step, plus the step's real pairs.
/// Beyond the last point both continue along the last segment. (In the decode table, where one batch of several has a
/// single context, at the roofline's cost of reading KV.) Below the first point they stay at it; a table of one point
/// is a constant. In mixed steps the tokens of all sequences are multiplied together, so the prefill table is read for
/// all of them. The weights are read once: the decode table's first point, which is little else, is subtracted.
///
/// **Mixed lengths.** With an `attention_spec`, a batch of sequences of different lengths takes longer than one of
/// equal lengths with as many tokens. A chunk of the longest sequence has longest / splits tokens of one KV head. Work
/// handed out chunk by chunk to m multiprocessors may end later than divisible work, by (m - 1) / m of a chunk
/// (Graham's bound). A multiprocessor reads at 1 / m of the bandwidth. So there is a term beyond the time of a uniform
/// batch, which the bandwidth efficiency covers:
///
///     + KV bytes of (longest - mean context) (m - 1) / (KV heads max(splits, m / (KV heads batch))) / B
///
/// A batch too small to fill the device is split more finely, as such kernels do.
///
/// Copyable. A roofline call is a few ns (a soft knee or experts: some tens) and allocates nothing; with tables, O(log
/// of their size).
class step_timer {
 public:
  /// Copies what it needs of the profile.
  explicit step_timer(const profile& p)
      : launch_{p.gpu.launch_seconds},
        weights_{p.model.weight_bytes() / (p.gpu.bytes_per_s * p.gpu.bandwidth_efficiency)},
        kv_token_{p.model.kv_bytes_per_token() /
                  (p.gpu.bytes_per_s * own(p.terms.kv_bandwidth_efficiency, p.gpu.bandwidth_efficiency))},
        token_{2 * p.model.parameters_per_token() / (p.gpu.flops * p.gpu.flops_efficiency)},
        pair_{p.model.attention_flops_per_pair() /
              (p.gpu.flops * own(p.terms.attention_flops_efficiency, p.gpu.flops_efficiency))},
        multiprocessors_{static_cast<double>(p.attention.multiprocessors)},
        splits_{p.attention.splits},
        kv_heads_{static_cast<double>(p.model.kv_heads)},
        terms_{p.terms},
        history_{p.terms.longest_history_factor * p.model.kv_bytes_per_token() / p.gpu.bytes_per_s},
        pipeline_{static_cast<double>(p.parallel.pipeline)} {
    if (const double all = p.model.expert_parameters(); all > 0) {
      experts_ = weights_ * all / p.model.parameters;
      missed_ = 1 - static_cast<double>(p.model.experts_per_token) / static_cast<double>(p.model.experts);
    }
    if (p.parallel.devices() > 1) share(p);
    for (const auto& d : p.measured.prefill) {
      lengths_.push_back(static_cast<double>(d.length));
      prefill_.push_back(d.seconds);
    }
    // The time of a prompt beyond its pairs is nearly linear in its length, so this part can be extrapolated.
    for (std::size_t i = 0; i != lengths_.size(); ++i) products_.push_back(prefill_[i] - pair_ * pairs(lengths_[i]));
    for (const auto& d : p.measured.decode) {
      if (batches_.empty() || batches_.back() != static_cast<double>(d.batch)) {
        batches_.push_back(static_cast<double>(d.batch));
        rows_.push_back(decode_.size());
      }
      contexts_.push_back(static_cast<double>(d.context));
      decode_.push_back(d.seconds);
    }
    rows_.push_back(decode_.size());
  }

  /// Seconds that the step takes; 0 for an empty one.
  [[nodiscard]] double operator()(const step_shape& s) const noexcept {
    if (s.empty()) return 0;
    return (decode_.empty() && prefill_.empty() ? roofline(s) : measured(s)) + tail(s) + history(s) +
           terms_.host_step_seconds;
  }

  /// The part of it that a uniform decode batch with as many tokens would not take.
  [[nodiscard]] double tail(const step_shape& s) const noexcept {
    if (multiprocessors_ == 0 || s.decodes == 0) return 0;
    const double batch = static_cast<double>(s.decodes);
    const double excess = static_cast<double>(s.longest_context) - static_cast<double>(s.decode_context) / batch;
    const double splits = larger(splits_, multiprocessors_ / (kv_heads_ * batch));
    return kv_token_ * excess * (multiprocessors_ - 1) / (kv_heads_ * splits);
  }

 private:
  [[nodiscard]] static double larger(double a, double b) noexcept { return a < b ? b : a; }
  [[nodiscard]] static double own(double efficiency, double otherwise) noexcept {
    return efficiency > 0 ? efficiency : otherwise;
  }
  [[nodiscard]] static double pairs(double length) noexcept { return length * (length + 1) / 2; }

  /// Splits the work over the devices, and adds their communication.
  void share(const profile& p) noexcept {
    const auto tensor = static_cast<double>(p.parallel.tensor);
    weights_ /= tensor;
    experts_ /= tensor;
    token_ /= tensor;
    pair_ /= tensor;
    kv_token_ /= tensor < kv_heads_ ? tensor : kv_heads_;
    history_ /= tensor < kv_heads_ ? tensor : kv_heads_;
    constexpr double bytes = 2;  // of an activation
    const double hop = bytes * p.model.hidden() / p.parallel.bytes_per_s;
    if (tensor > 1) {
      const double reductions = 2 * static_cast<double>(p.model.layers);
      wait_ += reductions * p.parallel.latency_s;
      wait_token_ += reductions * 2 * (tensor - 1) / tensor * hop;
    }
    if (pipeline_ > 1) {
      wait_ += pipeline_ * p.parallel.latency_s;
      wait_token_ += (pipeline_ - 1) * hop;
    }
  }

  [[nodiscard]] static bool mixed(const step_shape& s) noexcept { return s.decodes > 0 && s.prefill_tokens > 0; }

  [[nodiscard]] double decode_attention(const step_shape& s) const noexcept {
    const double read =
        larger(static_cast<double>(s.decode_context), terms_.least_context * static_cast<double>(s.decodes));
    return kv_token_ * read * (mixed(s) ? terms_.mixed_kv_factor : 1);
  }
  [[nodiscard]] double prefill_attention(const step_shape& s) const noexcept {
    return larger(kv_token_ * static_cast<double>(s.prefill_context), pair_ * static_cast<double>(s.prefill_pairs));
  }

  /// Seconds by which attention exceeds its sums, because one multiprocessor reads the longest history alone.
  [[nodiscard]] double history(const step_shape& s) const noexcept {
    if (history_ == 0 || s.prefill_tokens == 0) return 0;
    const auto longest =
        static_cast<double>(s.longest_prefill < s.longest_context ? s.longest_context : s.longest_prefill);
    return larger(history_ * longest - (decode_attention(s) + prefill_attention(s)), 0);
  }

  [[nodiscard]] double weights(double n) const noexcept {
    return experts_ == 0 ? weights_ : weights_ - experts_ * std::pow(missed_, n);
  }

  /// Matrix products of `n` tokens.
  [[nodiscard]] double products(double n) const noexcept {
    const double read = weights(n);
    const double computed = token_ * n;
    const double most = larger(read, computed);
    if (terms_.knee == 0) return most;
    return most * std::pow(1 + std::pow((read < computed ? read : computed) / most, terms_.knee), 1 / terms_.knee);
  }

  [[nodiscard]] double roofline(const step_shape& s) const noexcept {
    const auto requests = static_cast<double>(s.decodes + s.prefills);
    // One of the micro-batches that fill a pipeline; each request is in one of them.
    const double parts = pipeline_ < requests ? pipeline_ : larger(requests, 1);
    const double n = static_cast<double>(s.decodes + s.prefill_tokens) / parts;
    return launch_ + products(n) + decode_attention(s) / parts + prefill_attention(s) / parts +
           terms_.request_seconds * requests / parts + (terms_.token_seconds + wait_token_) * n + wait_;
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
    const double shared = decode_.empty() ? launch_ + weights(static_cast<double>(s.decodes)) : decode_.front();
    return larger(prefill, shared) + terms_.mixed_kv_factor * larger(decode - shared, 0);
  }

  [[nodiscard]] double decode_time(const step_shape& s) const noexcept {
    const double batch = static_cast<double>(s.decodes);
    const double context = static_cast<double>(s.decode_context) / batch;
    const segment b = locate(batches_.data(), batches_.size(), batch);
    const double low = decode_row(b.low, context);
    const double high = decode_row(b.high, context);
    return larger(low + b.part * (high - low), decode_.front());
  }

  /// The time of the batch in row `i` at this context.
  [[nodiscard]] double decode_row(std::size_t i, double context) const noexcept {
    const std::size_t first = rows_[i];
    const std::size_t count = rows_[i + 1] - first;
    // The other batches show that contexts matter; for this one a single context is known.
    if (count == 1 && decode_.size() > batches_.size()) {
      return decode_[first] + kv_token_ * batches_[i] * (context - contexts_[first]);
    }
    const segment c = locate(contexts_.data() + first, count, context);
    return decode_[first + c.low] + c.part * (decode_[first + c.high] - decode_[first + c.low]);
  }

  /// With `beside` more tokens in the same matrix products; their attention is counted elsewhere.
  [[nodiscard]] double prefill_time(const step_shape& s, double beside) const noexcept {
    const double n = static_cast<double>(s.prefill_tokens) + beside;
    // One point cannot separate products from pairs.
    if (prefill_.size() == 1) {
      return larger(prefill_.front() + pair_ * (static_cast<double>(s.prefill_pairs) - pairs(n)), prefill_.front());
    }
    const segment l = locate(lengths_.data(), lengths_.size(), n);
    const double alone = products_[l.low] + l.part * (products_[l.high] - products_[l.low]);
    return larger(alone + pair_ * static_cast<double>(s.prefill_pairs), prefill_.front());
  }

  struct segment {
    std::size_t low;
    std::size_t high;
    double part;  ///< 0 at `low`, 1 at `high`; more beyond the last point.
  };

  [[nodiscard]] static segment locate(const double* points, std::size_t size, double x) noexcept {
    if (size == 1 || x <= points[0]) return {0, 0, 0};
    std::size_t low = 0;
    std::size_t high = size - 1;
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
  step_terms terms_;
  double history_;  ///< Seconds for each token of the longest history.
  double pipeline_;
  double experts_ = 0;     ///< The part of `weights_` of the routed experts.
  double missed_ = 0;      ///< Probability that a token is not sent to a given expert.
  double wait_ = 0;        ///< Time for other devices, in each step,
  double wait_token_ = 0;  ///< and per token of it.
  std::vector<double> lengths_;
  std::vector<double> prefill_;
  std::vector<double> products_;  ///< `prefill_` without the pairs.
  std::vector<double> batches_;
  std::vector<std::size_t> rows_;  ///< Where each batch begins in the two below, and their size.
  std::vector<double> contexts_;
  std::vector<double> decode_;
};

/// Seconds per prompt token in a prompt of `length` tokens, alone in its step. Requires `length > 0`.
[[nodiscard]] double prompt_token_seconds(const step_timer& timer, tokens length);

/// Seconds to copy the KV of `length` tokens between device and host, alone on the link; each device uses its own.
[[nodiscard]] double swap_seconds(const profile& p, tokens length) noexcept;

/// Seconds to copy the KV of `length` tokens from one instance to another, alone on the fabric.
[[nodiscard]] double transfer_seconds(const profile& p, tokens length) noexcept;

}  // namespace sim
TESSERA_NAMESPACE_END
