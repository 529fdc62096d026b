// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gpu/batch_sorter.hpp>
#include <tessera/gpu/sort_key.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

/// @file
/// What every `batch_sorter` must do, against oracles made of `std::stable_sort` and plain loops. Without Catch2, so
/// that it also runs on a machine that has only a CUDA toolkit.

namespace tessera_test {

namespace gpu = tessera::gpu;
using tessera::status;

/// Sizes of the batches: none, one, around what one block of threads handles, several tiles of a sort.
inline constexpr std::size_t batch_sizes[] = {0, 1, 2, 3, 255, 256, 257, 1000, 4099, 50021};

/// @tparam Sorter the model
/// @tparam Memory where it computes, readable by the host after `finish()`: `allocate(bytes)`, aligned to
///   `workspace_alignment`, `release(pointer)`, `finish()`
template <gpu::batch_sorter Sorter, class Memory>
class sorter_suite {
 public:
  sorter_suite(Sorter sorter, Memory memory) : sorter_{sorter}, memory_{memory} {}

  /// Each returns how many checks failed so far, having said which on the standard error stream.
  int all() {
    orders_keys(), orders_fields(), sorts_segments(), makes_buckets(), admits(), refuses();
    return failures_;
  }

  int orders_keys() {
    for (const std::size_t n : batch_sizes) {
      for (const unsigned bits : {64U, 63U, 33U, 20U, 9U, 8U, 1U}) {
        for (const std::uint64_t range : {~std::uint64_t{}, std::uint64_t{7}, std::uint64_t{0}}) {
          std::vector<std::uint64_t> keys(n);
          for (auto& k : keys) k = random_() & range;
          if (range == 7) {  // duplicates that differ at both ends
            for (auto& k : keys) k |= k << 61 | k << 17;
          }
          check_order(keys, bits);
        }
        std::vector<std::uint64_t> keys(n);
        std::iota(keys.begin(), keys.end(), std::uint64_t{});
        check_order(keys, bits);
        std::reverse(keys.begin(), keys.end());
        check_order(keys, bits);
      }
    }
    return failures_;
  }

  int orders_fields() {
    using layout = gpu::key_layout<3, 32, 20, 9>;
    constexpr float inf = std::numeric_limits<float>::infinity();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    constexpr float tiny = std::numeric_limits<float>::denorm_min();
    const float special[] = {0.0F, -0.0F, inf, -inf, nan, -nan, tiny, -tiny, 1.0F, -1.0F, 3e38F, -3e38F};
    for (const std::size_t n : batch_sizes) {
      std::vector<gpu::key_fields> fields(n);
      for (auto& f : fields) {
        f.group = below(10);  // some beyond 3 bits
        f.value = below(2) == 0 ? special[below(12)] : (static_cast<float>(below(2000)) - 1000.0F) / 7.0F;
        f.length = below(2) == 0 ? below(4) : static_cast<std::uint32_t>(random_());  // some beyond 20 bits
        f.arrival = below(1000);                                                      // some beyond 9 bits
      }
      const auto before = [](const gpu::key_fields& a, const gpu::key_fields& b) {
        const auto most = [](std::uint32_t x, std::uint32_t limit) { return std::min(x, limit); };
        if (most(a.group, 7) != most(b.group, 7)) return a.group < b.group;
        if (std::isnan(a.value) != std::isnan(b.value)) return std::isnan(b.value);
        if (!std::isnan(a.value) && a.value != b.value) return a.value < b.value;
        if (most(a.length, 1048575) != most(b.length, 1048575)) return a.length < b.length;
        return most(a.arrival, 511) < most(b.arrival, 511);
      };
      std::vector<std::uint32_t> expected = indices(n);
      std::stable_sort(expected.begin(), expected.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return before(fields[a], fields[b]); });
      std::vector<std::uint64_t> keys(n);
      std::transform(fields.begin(), fields.end(), keys.begin(), layout::pack);
      const array<std::uint64_t> in{memory_, keys};
      array<std::uint32_t> order{memory_, n};
      scratch space{memory_, Sorter::required_bytes(n)};
      expect(sorter_.sort(in.view(), layout::bits, order.span(), space.lend()) == status::ok, "fields: status", n);
      expect(order.get() == expected, "fields: order", n);
      expect(space.intact(), "fields: wrote beyond the workspace", n);
    }
    return failures_;
  }

  int sorts_segments() {
    for (const std::size_t n : batch_sizes) {
      for (const std::size_t segments : {1UL, 2UL, 3UL, 64UL, 1000UL}) {
        for (const std::uint64_t range : {~std::uint64_t{}, std::uint64_t{3}}) {
          const auto offsets = random_offsets(n, segments);
          std::vector<std::uint64_t> keys(n);
          for (auto& k : keys) k = random_() & range;
          unsigned widest = 64;
          while (widest != 64 - 10 && (segments - 1) >> (64 - widest) != 0) --widest;
          for (const unsigned bits : {widest, 20U, 2U}) {
            std::vector<std::uint32_t> expected = indices(n);
            for (std::size_t s = 0; s != segments; ++s) {
              std::stable_sort(
                  expected.begin() + offsets[s], expected.begin() + offsets[s + 1],
                  [&](std::uint32_t a, std::uint32_t b) { return (keys[a] & mask(bits)) < (keys[b] & mask(bits)); });
            }
            const array<std::uint64_t> in{memory_, keys};
            const array<std::uint32_t> bounds{memory_, offsets};
            array<std::uint32_t> order{memory_, n};
            scratch space{memory_, Sorter::required_bytes(n)};
            expect(sorter_.sort_segments(in.view(), bits, bounds.view(), order.span(), space.lend()) == status::ok,
                   "segments: status", n, segments);
            expect(order.get() == expected, "segments: order", n, segments);
            expect(in.get() == keys, "segments: keys changed", n, segments);
            expect(space.intact(), "segments: wrote beyond the workspace", n, segments);
            if (segments > 1) {
              expect(sorter_.sort_segments(in.view(), widest + 1, bounds.view(), order.span(), space.lend()) ==
                         status::invalid,
                     "segments: a key that is too wide", n, segments);
            }
          }
        }
      }
    }
    return failures_;
  }

  int makes_buckets() {
    for (const std::size_t n : batch_sizes) {
      for (const std::size_t count : {0UL, 1UL, 2UL, 3UL, 7UL, 300UL}) {
        std::vector<std::uint32_t> bounds(count);
        for (auto& b : bounds) b = below(5000);
        std::sort(bounds.begin(), bounds.end());
        if (count > 2) bounds[1] = bounds[0], bounds.back() = 0xFFFF'FFFFU;
        std::vector<std::uint32_t> lengths(n);
        for (auto& l : lengths) l = below(20) == 0 ? 0xFFFF'FFFFU - below(2) : below(6000);
        if (n > 10 && count != 0) lengths[3] = bounds[0];
        std::vector<std::uint32_t> expected;
        std::vector<std::uint32_t> starts{0};
        for (std::size_t b = 0; b <= count; ++b) {
          for (std::uint32_t i = 0; i != n; ++i) {
            if ((b == 0 || lengths[i] >= bounds[b - 1]) && (b == count || lengths[i] < bounds[b])) {
              expected.push_back(i);
            }
          }
          starts.push_back(static_cast<std::uint32_t>(expected.size()));
        }
        const array<std::uint32_t> in{memory_, lengths};
        const array<std::uint32_t> limits{memory_, bounds};
        array<std::uint32_t> order{memory_, n};
        array<std::uint32_t> offsets{memory_, count + 2};
        scratch space{memory_, Sorter::required_bytes(n)};
        expect(sorter_.bucket(in.view(), limits.view(), order.span(), offsets.span(), space.lend()) == status::ok,
               "buckets: status", n, count);
        expect(order.get() == expected, "buckets: order", n, count);
        expect(offsets.get() == starts, "buckets: offsets", n, count);
        expect(space.intact(), "buckets: wrote beyond the workspace", n, count);
      }
    }
    return failures_;
  }

  int admits() {
    for (const std::size_t n : batch_sizes) {
      for (const std::size_t segments : {1UL, 2UL, 50UL}) {
        for (const std::uint32_t most : {1U, 30U, 0xFFFF'FFFFU}) {
          const auto offsets = random_offsets(n, segments);
          std::vector<std::uint32_t> needs(n);
          for (auto& b : needs) b = below(4) == 0 ? 0 : below(most) + 1;
          auto order = indices(n);
          std::shuffle(order.begin(), order.end(), random_);
          std::vector<std::uint32_t> free(segments);
          std::vector<std::uint32_t> expected(segments);
          for (std::size_t s = 0; s != segments; ++s) {
            // As much as a random number of them needs, or one less, or nothing at all.
            std::uint64_t sum = 0;
            const auto length = offsets[s + 1] - offsets[s];
            const auto part = below(length + 1);
            for (std::uint32_t i = 0; i != part; ++i) sum += needs[order[offsets[s] + i]];
            if (sum != 0 && below(2) == 0) --sum;
            if (below(5) == 0) sum = 0;
            free[s] = static_cast<std::uint32_t>(std::min<std::uint64_t>(sum, 0xFFFF'FFFFU));
            std::uint64_t used = 0;
            while (expected[s] != length && used + needs[order[offsets[s] + expected[s]]] <= free[s]) {
              used += needs[order[offsets[s] + expected[s]++]];
            }
          }
          const array<std::uint32_t> in{memory_, needs};
          const array<std::uint32_t> by{memory_, order};
          const array<std::uint32_t> bounds{memory_, offsets};
          const array<std::uint32_t> blocks{memory_, free};
          array<std::uint32_t> admitted{memory_, segments};
          scratch space{memory_, Sorter::required_bytes(n)};
          expect(sorter_.admit(in.view(), by.view(), bounds.view(), blocks.view(), admitted.span(), space.lend()) ==
                     status::ok,
                 "admit: status", n, segments);
          expect(admitted.get() == expected, "admit: counts", n, segments);
          expect(space.intact(), "admit: wrote beyond the workspace", n, segments);
        }
      }
    }
    return failures_;
  }

  /// Too little memory and wrong sizes are values, and nothing is written.
  int refuses() {
    constexpr std::size_t n = 1000;
    const std::vector<std::uint32_t> untouched(n, 0xABCD'ABCDU);
    const array<std::uint64_t> keys{memory_, std::vector<std::uint64_t>(n, 5)};
    const array<std::uint32_t> in{memory_, indices(n)};
    const array<std::uint32_t> offsets{memory_, std::vector<std::uint32_t>{0, 400, n}};
    const array<std::uint32_t> free{memory_, std::vector<std::uint32_t>{1, 1}};
    array<std::uint32_t> order{memory_, untouched};
    array<std::uint32_t> few{memory_, std::vector<std::uint32_t>{7, 7, 7, 7}};
    const std::size_t need = Sorter::required_bytes(n);
    expect(need >= 16 * n && Sorter::required_bytes(n + 4096) > need, "required_bytes", need);
    scratch space{memory_, need};
    for (const std::size_t bytes : {need - 1, need / 2, std::size_t{}}) {
      const gpu::workspace w{{space.data(), bytes}};
      expect(sorter_.sort(keys.view(), 64, order.span(), w) == status::exhausted, "refuses: sort", bytes);
      expect(sorter_.sort_segments(keys.view(), 32, offsets.view(), order.span(), w) == status::exhausted,
             "refuses: sort_segments", bytes);
      expect(sorter_.bucket(in.view(), free.view(), order.span(), few.span(), w) == status::exhausted,
             "refuses: bucket", bytes);
      expect(sorter_.admit(in.view(), in.view(), offsets.view(), free.view(), few.span(2), w) == status::exhausted,
             "refuses: admit", bytes);
    }
    const gpu::workspace w = space.lend();
    for (const unsigned bits : {0U, 65U, 1000U}) {
      expect(sorter_.sort(keys.view(), bits, order.span(), w) == status::invalid, "refuses: bits", bits);
      expect(sorter_.sort_segments(keys.view(), bits, offsets.view(), order.span(), w) == status::invalid,
             "refuses: bits of segments", bits);
    }
    const auto wrong = [&](status s, const char* what) { expect(s == status::invalid, what); };
    wrong(sorter_.sort(keys.view(), 64, order.span(n - 1), w), "refuses: sort, sizes");
    wrong(sorter_.sort_segments(keys.view(), 9, offsets.view(), order.span(1), w), "refuses: segments, sizes");
    wrong(sorter_.sort_segments(keys.view(), 9, {}, order.span(), w), "refuses: no offsets");
    wrong(sorter_.sort_segments(keys.view(), 9, offsets.view().first(1), order.span(), w), "refuses: no segment");
    wrong(sorter_.bucket(in.view(), free.view(), order.span(1), few.span(), w), "refuses: bucket, order");
    wrong(sorter_.bucket(in.view(), free.view(), order.span(), few.span(3), w), "refuses: bucket, offsets");
    wrong(sorter_.admit(in.view(), in.view().first(1), offsets.view(), free.view(), few.span(2), w),
          "refuses: admit, order");
    wrong(sorter_.admit(in.view(), in.view(), offsets.view().first(2), free.view(), few.span(2), w),
          "refuses: admit, offsets");
    wrong(sorter_.admit(in.view(), in.view(), offsets.view(), free.view(), few.span(1), w), "refuses: admit, counts");
    // More than 32-bit indices reach; nothing is looked at.
    wrong(sorter_.sort({keys.view().data(), std::size_t{1} << 31}, 64, {order.span().data(), std::size_t{1} << 31}, w),
          "refuses: too many");
    expect(order.get() == untouched, "refuses: wrote the order");
    expect(few.get() == std::vector<std::uint32_t>(4, 7), "refuses: wrote other results");
    // Nothing to do needs no memory.
    expect(sorter_.sort({}, 64, {}, {}) == status::ok, "refuses: an empty batch");
    return failures_;
  }

 private:
  /// An array in the sorter's memory.
  template <class T>
  class array {
   public:
    array(Memory& memory, std::size_t n)
        : memory_{memory}, size_{n}, data_{reinterpret_cast<T*>(memory.allocate(n * sizeof(T) + 1))} {}
    array(Memory& memory, const std::vector<T>& values) : array{memory, values.size()} {
      std::copy(values.begin(), values.end(), data_);
    }
    array(const array&) = delete;
    array& operator=(const array&) = delete;
    ~array() {
      memory_.finish();
      memory_.release(reinterpret_cast<std::byte*>(data_));
    }
    std::span<const T> view() const { return {data_, size_}; }
    std::span<T> span() { return {data_, size_}; }
    std::span<T> span(std::size_t first) { return {data_, first}; }
    std::vector<T> get() const {
      memory_.finish();
      return {data_, data_ + size_};
    }

   private:
    Memory& memory_;
    std::size_t size_;
    T* data_;
  };

  /// A workspace of exactly `bytes` bytes, and whether anything was written behind it.
  class scratch {
   public:
    scratch(Memory& memory, std::size_t bytes) : memory_{memory}, size_{bytes}, data_{memory.allocate(bytes + canary)} {
      std::memset(data_ + size_, 0x5A, canary);
    }
    scratch(const scratch&) = delete;
    scratch& operator=(const scratch&) = delete;
    ~scratch() {
      memory_.finish();
      memory_.release(data_);
    }
    std::byte* data() { return data_; }
    gpu::workspace lend() { return gpu::workspace{{data_, size_}}; }
    bool intact() const {
      memory_.finish();
      return std::all_of(data_ + size_, data_ + size_ + canary, [](std::byte b) { return b == std::byte{0x5A}; });
    }

   private:
    static constexpr std::size_t canary = 4096;
    Memory& memory_;
    std::size_t size_;
    std::byte* data_;
  };

  static std::uint64_t mask(unsigned bits) { return ~std::uint64_t{} >> (64 - bits); }
  static std::vector<std::uint32_t> indices(std::size_t n) {
    std::vector<std::uint32_t> all(n);
    std::iota(all.begin(), all.end(), 0U);
    return all;
  }
  /// A random number in [0, limit).
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }

  std::vector<std::uint32_t> random_offsets(std::size_t n, std::size_t segments) {
    std::vector<std::uint32_t> offsets(segments + 1);
    for (auto& o : offsets) o = below(static_cast<std::uint32_t>(n) + 1);
    // Segments of nothing at the front, at the end and between others.
    if (segments > 20)
      offsets[4] = offsets[5] = offsets[6], offsets[9] = 0, offsets[12] = static_cast<std::uint32_t>(n);
    offsets.front() = 0;
    offsets.back() = static_cast<std::uint32_t>(n);
    std::sort(offsets.begin(), offsets.end());
    return offsets;
  }

  void check_order(const std::vector<std::uint64_t>& keys, unsigned bits) {
    const std::size_t n = keys.size();
    auto expected = indices(n);
    std::stable_sort(expected.begin(), expected.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return (keys[a] & mask(bits)) < (keys[b] & mask(bits)); });
    const array<std::uint64_t> in{memory_, keys};
    array<std::uint32_t> order{memory_, n};
    scratch space{memory_, Sorter::required_bytes(n)};
    expect(sorter_.sort(in.view(), bits, order.span(), space.lend()) == status::ok, "sort: status", n, bits);
    expect(order.get() == expected, "sort: order", n, bits);
    expect(in.get() == keys, "sort: keys changed", n, bits);
    expect(space.intact(), "sort: wrote beyond the workspace", n, bits);
  }

  void expect(bool held, const char* what, std::size_t a = 0, std::size_t b = 0) {
    if (held) return;
    ++failures_;
    std::fprintf(stderr, "failed: %s (%zu, %zu)\n", what, a, b);
  }

  Sorter sorter_;
  Memory memory_;
  std::mt19937_64 random_{20261121};
  int failures_ = 0;
};

/// The heap, for sorters that compute on the host.
struct host_memory {
  std::byte* allocate(std::size_t bytes) {
    return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{gpu::workspace_alignment}));
  }
  void release(std::byte* p) { ::operator delete(p, std::align_val_t{gpu::workspace_alignment}); }
  void finish() {}
};

}  // namespace tessera_test
