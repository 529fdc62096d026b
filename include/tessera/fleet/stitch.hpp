// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/units.hpp>

#include <cstdint>
#include <limits>

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// One stream of tokens to a client from several engines, one after the other or two at a time. Each token names its
/// position, and the client gets each once, in order. Engines must continue what the client has seen: the same tokens
/// at the same positions, as greedy decoding or a seed per position gives.
///
/// A value; keeps positions, not tokens. O(1).
class stitch {
 public:
  /// What to do with a piece that has come.
  struct piece {
    tokens skip{};      ///< Its first tokens that the client has.
    tokens take{};      ///< How many come next for the client; the rest is after the end.
    bool hole = false;  ///< It begins after what the client has, and nothing of it is taken: something was lost.
  };

  /// Tokens that the client has.
  [[nodiscard]] constexpr tokens delivered() const noexcept { return delivered_; }
  /// Whether the client has all.
  [[nodiscard]] constexpr bool ended() const noexcept { return has_end_ && delivered_ == end_; }

  /// The tokens [at, at + count) have come from some engine. Requires: neither is negative, and
  /// their sum is a position (asserted).
  [[nodiscard]] constexpr piece on(tokens at, tokens count) noexcept {
    TESSERA_ASSERT(tokens{} <= at && tokens{} <= count, "a position is not negative");
    TESSERA_ASSERT(count <= tokens{std::numeric_limits<std::int64_t>::max()} - at, "a position has 64 bits");
    if (at > delivered_) return {.hole = count > tokens{}};
    const tokens last = has_end_ ? min(at + count, end_) : at + count;
    piece p{.skip = min(delivered_ - at, count)};
    p.take = max(last - at - p.skip, tokens{});
    delivered_ += p.take;
    return p;
  }
  /// An engine says that the stream has `length` tokens. False, and no effect, if the client has more, or another end
  /// was said: the engines do not continue the same stream. An end before the tokens that it counts have come is kept:
  /// `ended` when they have. Requires: not negative (asserted).
  [[nodiscard]] constexpr bool end(tokens length) noexcept {
    TESSERA_ASSERT(tokens{} <= length, "a length is not negative");
    if (length < delivered_ || (has_end_ && length != end_)) return false;
    end_ = length;
    has_end_ = true;
    return true;
  }

 private:
  tokens delivered_{};
  tokens end_{};
  bool has_end_ = false;
};

}  // namespace fleet
TESSERA_NAMESPACE_END
