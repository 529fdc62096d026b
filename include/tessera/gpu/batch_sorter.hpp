// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/status.hpp>
#include <tessera/gpu/host_device.hpp>
#include <tessera/gpu/workspace.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// Orders a batch on the host or on a device: the concept `batch_sorter`, and the operations, written once over three
/// primitives of a back end.

TESSERA_NAMESPACE_BEGIN
namespace gpu {

/// Puts batches in order, on the host or on a device. All arrays are where the sorter computes: device memory for a
/// sorter on a device. A call on a device enqueues work and returns: results may be read when the stream is done.
///
/// Requires, with `n` a count, `w` a `workspace`, all calls `noexcept`:
/// 1. `S` is copyable.
/// 2. `S::required_bytes(n) -> std::size_t`: the workspace of any call below for a batch of at most `n`.
/// 3. `s.sort(keys, bits, order, w) -> status`
/// 4. `s.sort_segments(keys, bits, offsets, order, w) -> status`
/// 5. `s.bucket(lengths, bounds, order, offsets, w) -> status`
/// 6. `s.admit(needs, order, offsets, free, admitted, w) -> status`
///
/// Their meaning is not checked: see `basic_batch_sorter`, and the conformance suite over all models.
///
/// Complexity: O(n) for keys of constant width. Allocates: never (except `device_sorter` on Thrust's host back ends).
/// Models: `gpu::host_sorter` (`host_sorter.hpp`), `gpu::device_sorter` (`batch_sort.cuh`).
template <class S>
concept batch_sorter =
    std::copyable<S> && requires(const S& s, std::size_t n, std::span<const std::uint64_t> keys, unsigned bits,
                                 std::span<const std::uint32_t> in, std::span<std::uint32_t> out, workspace w) {
      { S::required_bytes(n) } noexcept -> std::same_as<std::size_t>;
      { s.sort(keys, bits, out, w) } noexcept -> std::same_as<status>;
      { s.sort_segments(keys, bits, in, out, w) } noexcept -> std::same_as<status>;
      { s.bucket(in, in, out, out, w) } noexcept -> std::same_as<status>;
      { s.admit(in, in, in, in, out, w) } noexcept -> std::same_as<status>;
    };

namespace detail {

/// The first index in [first, last) for which `reached` holds, or `last`. `reached` must be monotone.
template <class Predicate>
[[nodiscard]] TESSERA_HOST_DEVICE constexpr std::uint32_t first_index(std::uint32_t first, std::uint32_t last,
                                                                      Predicate reached) noexcept {
  while (first != last) {
    const std::uint32_t middle = first + (last - first) / 2;
    if (reached(middle)) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

// The functions that back ends run for each index. They are structs, because a lambda in a kernel needs a compiler's
// extension.

struct above {  // values[i] > limit
  const std::uint32_t* values;
  std::uint32_t limit;
  TESSERA_HOST_DEVICE constexpr bool operator()(std::uint32_t i) const noexcept { return values[i] > limit; }
};

struct at_least {  // keys[i] >= limit
  const std::uint64_t* keys;
  std::uint64_t limit;
  TESSERA_HOST_DEVICE constexpr bool operator()(std::uint32_t i) const noexcept { return keys[i] >= limit; }
};

struct beyond {  // sums[i] > limit
  const std::uint64_t* sums;
  std::uint64_t limit;
  TESSERA_HOST_DEVICE constexpr bool operator()(std::uint32_t i) const noexcept { return sums[i] > limit; }
};

struct prefix_with_segment {
  const std::uint64_t* keys;
  const std::uint32_t* offsets;
  std::uint32_t segments;
  unsigned bits;  // below 64
  std::uint64_t* out;
  TESSERA_HOST_DEVICE constexpr void operator()(std::uint32_t i) const noexcept {
    const std::uint64_t segment = first_index(0, segments, above{offsets, i}) - 1;
    out[i] = segment << bits | (keys[i] & ((std::uint64_t{1} << bits) - 1));
  }
};

struct find_bucket {
  const std::uint32_t* lengths;
  const std::uint32_t* bounds;
  std::uint32_t count;
  std::uint64_t* out;
  TESSERA_HOST_DEVICE constexpr void operator()(std::uint32_t i) const noexcept {
    out[i] = first_index(0, count, above{bounds, lengths[i]});
  }
};

struct find_bucket_start {
  const std::uint64_t* sorted;
  std::uint32_t count;
  std::uint32_t* out;
  TESSERA_HOST_DEVICE constexpr void operator()(std::uint32_t i) const noexcept {
    out[i] = first_index(0, count, at_least{sorted, i});
  }
};

struct gather {
  const std::uint32_t* values;
  const std::uint32_t* order;
  std::uint64_t* out;
  TESSERA_HOST_DEVICE constexpr void operator()(std::uint32_t i) const noexcept { out[i] = values[order[i]]; }
};

struct count_fitting {
  const std::uint64_t* sums;
  const std::uint32_t* offsets;
  const std::uint32_t* free;
  std::uint32_t* out;
  TESSERA_HOST_DEVICE constexpr void operator()(std::uint32_t s) const noexcept {
    const std::uint64_t before = offsets[s] == 0 ? 0 : sums[offsets[s] - 1];
    out[s] = first_index(offsets[s], offsets[s + 1], beyond{sums, before + free[s]}) - offsets[s];
  }
};

}  // namespace detail

/// The operations on a batch, over a back end. See `host_sorter` and `device_sorter`.
///
/// Every call returns `invalid` for sizes that do not match, more than `max_batch` elements or a bad width of key. It
/// returns `exhausted` if the workspace has less than `required_bytes(n)`. Both are checked before anything is
/// enqueued. It also returns `invalid` if the device refuses the work (`cudaPeekAtLastError` says why); then outputs
/// are unspecified.
/// Offsets are in CSR form, as in the page tables: segment `s` is [offsets[s], offsets[s + 1]). They begin with 0,
/// never fall and end with the size of the batch. Contents are not checked: they may be on a device.
///
/// @tparam Backend copyable, with members that enqueue work and return whether that succeeded.
/// - `for_each(n, f)`.
/// - `sort_pairs(keys, sorted, order, n, bits, scratch)`: stable, by the lowest `bits` bits; `order` holds the indices.
/// - `inclusive_sum(data, n, scratch)`: in place.
/// - `scratch_bytes(n)`: the scratch memory of the latter two.
template <class Backend>
class basic_batch_sorter {
 public:
  static constexpr std::size_t max_batch = 0x7FFF'FFFF;  ///< Largest number of elements.

  constexpr basic_batch_sorter() noexcept = default;
  /// Works on a back end constructed from `argument`: for `device_sorter` a stream.
  template <class T>
    requires std::constructible_from<Backend, T>
  constexpr explicit basic_batch_sorter(T argument) noexcept : backend_{argument} {}

  /// Bytes of workspace, aligned to `workspace_alignment`, that any call needs for a batch of at most `n`. An upper
  /// bound, known without a device. It grows with `n`.
  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t n) noexcept {
    return 2 * workspace_bytes<std::uint64_t>(n) + workspace_bytes<std::byte>(Backend::scratch_bytes(n));
  }

  /// Stable order by the lowest `bits` bits of the keys: `order[0]` is the index of the first.
  /// @param keys one for each element; left unchanged
  /// @param bits 1 to 64; higher bits are ignored
  /// @param order out: as many
  /// @param space lent for the call
  [[nodiscard]] status sort(std::span<const std::uint64_t> keys, unsigned bits, std::span<std::uint32_t> order,
                            workspace space) const noexcept {
    if (bits == 0 || bits > 64) return status::invalid;
    const status s = check(keys.size(), order.size(), space);
    if (!ok(s) || keys.empty()) return s;
    auto* const sorted = space.take<std::uint64_t>(keys.size());
    return done(sort_pairs(keys.data(), sorted, order, bits, space));
  }

  /// Sorts the segments of a batch separately, in one call: for instance the queues of many instances.
  /// `order[offsets[s] .. offsets[s + 1])` are the indices, in the whole batch, of segment `s` in its order.
  /// @param keys,bits,order,space as for `sort`; `bits` plus the bits of the highest segment number must be at most 64
  /// @param offsets segments + 1
  [[nodiscard]] status sort_segments(std::span<const std::uint64_t> keys, unsigned bits,
                                     std::span<const std::uint32_t> offsets, std::span<std::uint32_t> order,
                                     workspace space) const noexcept {
    if (offsets.empty() || offsets.size() > max_batch) return status::invalid;
    const auto segments = static_cast<std::uint32_t>(offsets.size() - 1);
    if (segments <= 1) return segments == 0 && !keys.empty() ? status::invalid : sort(keys, bits, order, space);
    const auto segment_bits = static_cast<unsigned>(std::bit_width(segments - 1));
    if (bits == 0 || bits + segment_bits > 64) return status::invalid;
    const status s = check(keys.size(), order.size(), space);
    if (!ok(s) || keys.empty()) return s;
    auto* const composed = space.take<std::uint64_t>(keys.size());
    auto* const sorted = space.take<std::uint64_t>(keys.size());
    return done(backend_.for_each(keys.size(),
                                  detail::prefix_with_segment{keys.data(), offsets.data(), segments, bits, composed}) &&
                sort_pairs(composed, sorted, order, bits + segment_bits, space));
  }

  /// Groups a batch by length, in order of arrival within a bucket. Bucket `b` holds the lengths in
  /// [bounds[b - 1], bounds[b]), the first those below `bounds[0]`, the last those from the last bound on.
  /// @param lengths one for each element
  /// @param bounds buckets - 1, ascending
  /// @param order out: the indices, bucket after bucket
  /// @param offsets out: buckets + 1, where each begins in `order`
  /// @param space lent for the call
  [[nodiscard]] status bucket(std::span<const std::uint32_t> lengths, std::span<const std::uint32_t> bounds,
                              std::span<std::uint32_t> order, std::span<std::uint32_t> offsets,
                              workspace space) const noexcept {
    if (bounds.size() >= max_batch || offsets.size() != bounds.size() + 2) return status::invalid;
    const status s = check(lengths.size(), order.size(), space);
    if (!ok(s)) return s;
    const std::size_t n = lengths.size();
    const auto count = static_cast<std::uint32_t>(bounds.size());
    const unsigned bits = count == 0 ? 1 : static_cast<unsigned>(std::bit_width(count));
    auto* const found = space.take<std::uint64_t>(n);
    auto* const sorted = space.take<std::uint64_t>(n);
    return done(backend_.for_each(n, detail::find_bucket{lengths.data(), bounds.data(), count, found}) &&
                (n == 0 || sort_pairs(found, sorted, order, bits, space)) &&
                backend_.for_each(offsets.size(),
                                  detail::find_bucket_start{sorted, static_cast<std::uint32_t>(n), offsets.data()}));
  }

  /// The number of elements at the front of each segment that can have what they need at once. They are the longest
  /// prefix with a sum of at most `free[s]`. One that does not fit holds back all behind it. Sums have 64 bits.
  /// @param needs one for each element, for instance blocks
  /// @param order the order to serve them in, as `sort` or `sort_segments` made it
  /// @param offsets segments + 1, into `order`; 0 and the size for a batch of one segment
  /// @param free one for each segment
  /// @param admitted out: one for each segment
  /// @param space lent for the call
  [[nodiscard]] status admit(std::span<const std::uint32_t> needs, std::span<const std::uint32_t> order,
                             std::span<const std::uint32_t> offsets, std::span<const std::uint32_t> free,
                             std::span<std::uint32_t> admitted, workspace space) const noexcept {
    if (free.size() > max_batch || offsets.size() != free.size() + 1 || admitted.size() != free.size()) {
      return status::invalid;
    }
    const status s = check(needs.size(), order.size(), space);
    if (!ok(s)) return s;
    const std::size_t n = needs.size();
    auto* const sums = space.take<std::uint64_t>(n);
    auto* const scratch = space.take<std::byte>(Backend::scratch_bytes(n));
    return done(
        backend_.for_each(n, detail::gather{needs.data(), order.data(), sums}) &&
        (n == 0 || backend_.inclusive_sum(sums, n, scratch)) &&
        backend_.for_each(free.size(), detail::count_fitting{sums, offsets.data(), free.data(), admitted.data()}));
  }

 private:
  [[nodiscard]] static status check(std::size_t n, std::size_t order, const workspace& space) noexcept {
    if (n > max_batch || order != n) return status::invalid;
    return n != 0 && space.available() < required_bytes(n) ? status::exhausted : status::ok;
  }
  [[nodiscard]] static status done(bool enqueued) noexcept { return enqueued ? status::ok : status::invalid; }

  [[nodiscard]] bool sort_pairs(const std::uint64_t* keys, std::uint64_t* sorted, std::span<std::uint32_t> order,
                                unsigned bits, workspace space) const noexcept {
    auto* const scratch = space.take<std::byte>(Backend::scratch_bytes(order.size()));
    return backend_.sort_pairs(keys, sorted, order.data(), order.size(), bits, scratch);
  }

  [[no_unique_address]] Backend backend_{};
};

}  // namespace gpu
TESSERA_NAMESPACE_END
