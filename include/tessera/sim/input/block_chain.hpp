// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/kv/hash_chain.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

/// @file
/// Shared prefixes of requests without text: sequences of numbered runs of tokens, and the hashes of their blocks.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// A numbered run of tokens. Two runs with one number hold the same tokens, as far as both go, if everything before
/// them is equal.
struct text_run {
  std::uint64_t id = 0;     ///< Any number below 2^63; the simulator uses the others.
  std::int64_t tokens = 0;  ///< Its length.

  /// The same number and length.
  friend bool operator==(const text_run&, const text_run&) = default;
};

/// The chained hashes of a sequence's full blocks, as `kv::prefix_cache` takes them, while the sequence grows run by
/// run. Two chains have the same hash at block k if all tokens up to the end of that block are equal. The blocks of an
/// instance and the runs need not have one size, nor coincide in their ends.
class block_chain {
 public:
  /// An empty chain. @param block_size tokens per block, at least 1. @param most number of blocks that get a hash. If
  /// no more can be stored, a sequence of any length costs no more.
  explicit block_chain(std::int64_t block_size, std::size_t most = std::numeric_limits<std::size_t>::max())
      : block_size_{block_size}, most_{most} {
    TESSERA_ASSERT(block_size > 0, "a block has tokens");
  }

  /// Appends a run to the sequence. O(blocks of it).
  void append(const text_run& run) {
    for (std::int64_t at = 0; at < run.tokens;) {
      if (hashes_.size() == most_) {
        length_ += run.tokens - at;
        return;
      }
      const std::int64_t room = block_size_ - length_ % block_size_;
      const std::int64_t piece = run.tokens - at < room ? run.tokens - at : room;
      const auto word = [](std::uint64_t x) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(x)); };
      const auto offset = static_cast<std::uint64_t>(at);
      const std::array<std::int32_t, 5> name{word(run.id), word(run.id >> 32U), word(offset), word(offset >> 32U),
                                             word(static_cast<std::uint64_t>(piece))};
      state_ = kv::hash_block(state_, name);
      at += piece;
      length_ += piece;
      if (length_ % block_size_ == 0) hashes_.push_back(state_);
    }
  }

  /// Length in tokens.
  [[nodiscard]] std::int64_t length() const noexcept { return length_; }
  /// One hash for each full block, for the first `most`.
  [[nodiscard]] const std::vector<std::uint64_t>& hashes() const noexcept { return hashes_; }

  /// A place in the sequence, to return to.
  struct mark {
    std::int64_t length = 0;  ///< Tokens before it.
    std::uint64_t state = 0;  ///< The state of their hash.
  };
  /// The present end.
  [[nodiscard]] mark here() const noexcept { return {length_, state_}; }
  /// Removes what was appended since.
  void cut(const mark& m) {
    TESSERA_ASSERT(m.length <= length_, "it has been that long");
    hashes_.resize(std::min(hashes_.size(), static_cast<std::size_t>(m.length / block_size_)));
    length_ = m.length;
    state_ = m.state;
  }

 private:
  std::int64_t block_size_;
  std::size_t most_;
  std::int64_t length_ = 0;
  std::uint64_t state_ = kv::hash_root();
  std::vector<std::uint64_t> hashes_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
