// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/cost/qoe_model.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace partition {

/// A sample of requests, arranged for planning: prefix sums over its distinct lengths.
///
/// Position j of 0..size() is the cut behind the j shortest of the distinct lengths a_1 < ... < a_M. Sequences shorter
/// than `cut(j)` are on one side, the others on the other. Among the cuts that split the sample in one way, `cut(j)` =
/// a_j + 1 is the cheapest. A later one moves at least as many sequences, and longer ones. So these M + 1 positions
/// hold an optimum over all cuts in the range.
class length_table {
 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t requests = 0;  ///< Most requests of a sample. Fewer than 2^32.
  };
  /// The costs of a stage and of a transfer.
  struct prices {
    cost::qoe_model qoe{};           ///< For a stage.
    cost::transfer_cost transfer{};  ///< For a cut.
    /// The number of concurrent requests that the sample stands for; 0: as many as it has, as in the paper. The cost of
    /// a stage grows with the square of this number, and that of a transfer only linearly.
    double in_flight = 0;
  };

  /// About 52 bytes a request.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add<std::uint64_t>(l.requests)
        .add<std::uint64_t>(l.requests)
        .add<std::uint32_t>(l.requests)
        .add<std::int64_t>(l.requests + 1)
        .add<double>(l.requests + 1)
        .add<double>(l.requests + 1)
        .add<double>(l.requests + 1)
        .bytes_unaligned();
  }

  /// Takes `required_bytes(l)` from `memory`.
  length_table(arena& memory, const limits& l) noexcept
      : keys_{memory.take_uninitialised<std::uint64_t>(l.requests)},
        spare_{memory.take_uninitialised<std::uint64_t>(l.requests)},
        inputs_{memory.take_uninitialised<std::uint32_t>(l.requests)},
        lengths_{memory.take_uninitialised<std::int64_t>(l.requests + 1)},
        n_{memory.take_uninitialised<double>(l.requests + 1)},
        s_{memory.take_uninitialised<double>(l.requests + 1)},
        c_{memory.take_uninitialised<double>(l.requests + 1)},
        capacity_{l.requests} {}
  length_table(const length_table&) = delete;
  length_table& operator=(const length_table&) = delete;

  /// Takes a sample; its order does not matter. O(requests), by radix sort. `exhausted`: more requests than the limit.
  /// `invalid`: no request; or one with input < 0, length < 1, input > length or length > `cost::max_length`. `invalid`
  /// as well if requests x longest^2 is not below 2^63, or a price is negative or not finite. `invalid` also if the
  /// sample costs more than 1e290, or if `in_flight` is neither 0 nor between 1e-100 and 1e100. Both leave the table as
  /// it was, or empty.
  [[nodiscard]] status assign(std::span<const cost::request_lengths> sample, const prices& p) noexcept {
    if (sample.size() > capacity_) return status::exhausted;
    if (sample.empty() || !p.qoe.valid() || !p.transfer.valid() ||
        !(p.in_flight == 0 || (p.in_flight > 1e-100 && p.in_flight < 1e100))) {
      return status::invalid;
    }
    std::int64_t longest = 0;
    for (const cost::request_lengths& r : sample) {
      if (r.input.count() < 0 || r.length.count() < 1 || r.input > r.length || r.length > cost::max_length) {
        return status::invalid;
      }
      longest = std::max(longest, r.length.count());
    }
    if (static_cast<std::int64_t>(sample.size()) > std::numeric_limits<std::int64_t>::max() / (longest * longest)) {
      return status::invalid;
    }
    size_ = 0;
    total_ = sample.size();
    prices_ = p;
    weight_ = p.in_flight == 0 ? 1.0 : p.in_flight / static_cast<double>(total_);
    sort(sample, longest);
    sum_up();
    price_cuts();
    if (!(n_[size_] * s_[size_] <= 1e300 && n_[size_] * p.qoe.d[0] <= 1e300)) {
      size_ = 0;
      return status::invalid;
    }
    for (std::size_t j = 0; j <= size_; ++j) {
      if (c_[j] <= 1e290) continue;
      size_ = 0;
      return status::invalid;
    }
    return status::ok;
  }

  /// M: the distinct lengths; 0 before the first sample.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Requests of the sample.
  [[nodiscard]] std::size_t requests() const noexcept { return size_ == 0 ? 0 : total_; }
  /// The prices of the last `assign`.
  [[nodiscard]] const prices& priced() const noexcept { return prices_; }

  /// First length behind position j: a_j + 1, and 0 for j = 0. Requires j <= size() (asserted).
  [[nodiscard]] tokens cut(std::size_t j) const noexcept {
    TESSERA_ASSERT(j <= size_, "no such position");
    return tokens{j == 0 ? 0 : lengths_[j] + 1};
  }
  /// The position of any cut: the number of distinct lengths below it. O(log M).
  [[nodiscard]] std::size_t position(tokens at) const noexcept {
    return static_cast<std::size_t>(std::lower_bound(lengths_ + 1, lengths_ + 1 + size_, at.count()) - (lengths_ + 1));
  }

  // Prefix sums, one per position, size() + 1 of each, ascending, in our units for planning.
  /// Requests below position j, scaled to requests in flight.
  [[nodiscard]] std::span<const double> counts() const noexcept { return {n_, size_ + 1}; }
  /// Their loads (`cost::qoe_model::load`).
  [[nodiscard]] std::span<const double> loads() const noexcept { return {s_, size_ + 1}; }
  /// Cost of the cut at position j: every sequence that grows across it is moved once. 0 at j = 0 and at j = size().
  [[nodiscard]] std::span<const double> cut_costs() const noexcept { return {c_, size_ + 1}; }

  /// Cost of any cut. A sequence crosses it that begins below it (I < at) and ends at or above it (L >= at). O(log
  /// requests).
  [[nodiscard]] double cut_cost(tokens at) const noexcept {
    const std::int64_t a = std::clamp<std::int64_t>(at.count(), 0, cost::max_length.count() + 1);
    const auto begin = static_cast<std::size_t>(
        std::lower_bound(inputs_, inputs_ + requests(), static_cast<std::uint64_t>(a)) - inputs_);
    return static_cast<double>(begin - ended_below(position(at))) * weight_ * prices_.transfer(at);
  }
  /// Requests of the sample below position j.
  [[nodiscard]] std::size_t ended_below(std::size_t j) const noexcept {
    return j == 0 ? 0 : static_cast<std::size_t>(std::llround(n_[j] / weight_));
  }

  /// k Q of a stage with the lengths of positions (i, j] on k instances, spread evenly: N (D0 + S / k). Section 4.2.
  [[nodiscard]] double stage_cost(std::size_t i, std::size_t j, std::size_t k) const noexcept {
    const double n = n_[j] - n_[i];
    return n * prices_.qoe.d[0] + n * (s_[j] - s_[i]) / static_cast<double>(k);
  }

 private:
  /// Least significant digit first, 11 bits a digit, as many digits as `longest` has.
  template <class Key, class Digit>
  static void radix_sort(Key*& from, Key*& to, std::size_t n, int bits, Digit digit) noexcept {
    constexpr std::uint64_t mask = 2047;
    for (int shift = 0; shift < bits; shift += 11) {
      std::uint32_t start[mask + 1] = {};
      for (std::size_t i = 0; i != n; ++i) ++start[(digit(from[i]) >> shift) & mask];
      std::uint32_t sum = 0;
      for (std::uint32_t& s : start) sum += std::exchange(s, sum);
      for (std::size_t i = 0; i != n; ++i) to[start[(digit(from[i]) >> shift) & mask]++] = from[i];
      std::swap(from, to);
    }
  }

  void sort(std::span<const cost::request_lengths> sample, std::int64_t longest) noexcept {
    const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(longest)));
    for (std::size_t i = 0; i != total_; ++i) {
      keys_[i] = static_cast<std::uint64_t>(sample[i].length.count()) << 32 |
                 static_cast<std::uint64_t>(sample[i].input.count());
    }
    std::uint64_t* to = spare_;
    radix_sort(keys_, to, total_, bits, [](std::uint64_t k) { return k & 0xffffffffu; });
    spare_ = to;
    for (std::size_t i = 0; i != total_; ++i) inputs_[i] = static_cast<std::uint32_t>(keys_[i]);
    radix_sort(keys_, to, total_, bits, [](std::uint64_t k) { return k >> 32; });
    spare_ = to;
  }

  /// Prefix sums over the sorted keys. The integers are summed exactly; only their products with D are rounded.
  void sum_up() noexcept {
    lengths_[0] = 0;
    n_[0] = s_[0] = 0;
    std::int64_t input = 0;
    std::int64_t squared = 0;
    std::int64_t length = 0;
    const auto& d = prices_.qoe.d;
    for (std::size_t first = 0; first != total_;) {
      const auto l = static_cast<std::int64_t>(keys_[first] >> 32);
      std::size_t last = first;
      for (; last != total_ && static_cast<std::int64_t>(keys_[last] >> 32) == l; ++last) {
        const auto i = static_cast<std::int64_t>(keys_[last] & 0xffffffffu);
        input += i;
        squared += i * i;
      }
      length += l * static_cast<std::int64_t>(last - first);
      ++size_;
      lengths_[size_] = l;
      const auto n = static_cast<double>(last);
      n_[size_] = n * weight_;
      s_[size_] = weight_ * (d[1] * n + d[2] * static_cast<double>(input) + d[3] * static_cast<double>(squared) +
                             d[4] * static_cast<double>(length));
      first = last;
    }
  }

  void price_cuts() noexcept {
    std::size_t begun = 0;
    std::size_t ended = 0;
    c_[0] = 0;
    for (std::size_t j = 1; j <= size_; ++j) {
      while (begun != total_ && inputs_[begun] <= lengths_[j]) ++begun;
      ended = ended_below(j);
      c_[j] = static_cast<double>(begun - ended) * weight_ * prices_.transfer(tokens{lengths_[j] + 1});
    }
  }

  std::uint64_t* keys_;  // length << 32 | input, ascending
  std::uint64_t* spare_;
  std::uint32_t* inputs_;  // ascending
  std::int64_t* lengths_;  // [1, size_]: the distinct lengths, ascending
  double* n_;
  double* s_;
  double* c_;
  std::size_t capacity_;
  std::size_t size_ = 0;
  std::size_t total_ = 0;
  double weight_ = 1;
  prices prices_{};
};

}  // namespace partition
TESSERA_NAMESPACE_END
