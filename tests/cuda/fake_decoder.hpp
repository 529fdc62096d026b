// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "decoder.hpp"
#include "support/allocation_guard.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

/// @file
/// A decoder without a model. Its KV of a token is a number made of the token and its position. The token that it
/// samples is a hash of all KV of the sequence, read back through the block table, in order. So a wrong token shows a
/// wrong block, position or order, and a copy that is missing, late or of another block. What no engine may ask for is
/// refused. `next` says the same of a sequence without any of it.

namespace cuda_decode_test {

using namespace cuda_decode;

class fake_decoder final : public decoder {
 public:
  static constexpr std::int32_t vocabulary = 997;

  explicit fake_decoder(const decoder_options& o)
      : options_{o},
        block_size_{static_cast<std::size_t>(o.block_size)},
        device_(o.kv_blocks * block_size_, nothing),
        host_(o.host_blocks * block_size_, nothing),
        owner_(o.kv_blocks, 0) {
    steps_in_flight_.resize(o.in_flight);
    for (flying& f : steps_in_flight_) f.sampled.reserve(o.max_rows);
  }

  /// The token after a sequence.
  [[nodiscard]] static std::int32_t next(std::span<const std::int32_t> sequence) {
    std::uint64_t h = seed;
    for (std::size_t p = 0; p < sequence.size(); ++p) h = mix(h, kv_of(sequence[p], p));
    return token_of(h);
  }

  [[nodiscard]] decoder_facts facts() const override {
    return {.device = "none",
            .multiprocessors = multiprocessors,
            .memory_bytes = 1e9,
            .kv_blocks = options_.kv_blocks,
            .host_blocks = options_.host_blocks,
            .emulated = true};
  }

  void launch(const step_batch& b) override {
    try {
      run(b);
    } catch (...) {
      in_flight_ = 0;
      throw;
    }
  }
  step_result wait() override {
    const tessera_test::allow_allocation ours;
    require(in_flight_ != 0, "nothing to wait for");
    oldest_ = &slot(steps_ - in_flight_--);
    return {.sampled = oldest_->sampled, .times = oldest_->times};
  }

  [[nodiscard]] std::vector<float> logits(std::size_t i) override {
    std::vector<float> all(vocabulary, 0);
    all[static_cast<std::size_t>(oldest_->sampled[i])] = 1;
    return all;
  }
  [[nodiscard]] double copy_bandwidth() override { return 1e12; }
  [[nodiscard]] double attention_seconds(const step_batch& b) override { return attention ? attention(b) : 1e-4; }
  void split(split_policy p) override { policy = p; }

  // What tests set.
  std::function<step_times(const step_batch&)> cost{};  ///< The times of a step; it may move a clock.
  std::function<double(const step_batch&)> attention{};
  std::size_t fail_at = static_cast<std::size_t>(-1);  ///< The step that throws.
  bool shared_blocks = false;  ///< Rows may share blocks, as when only time matters; nothing is read back.
  split_policy policy = split_policy::balanced;
  std::int32_t multiprocessors = 4;

 private:
  using store = std::vector<std::uint64_t>;
  static constexpr std::uint64_t nothing = 0;
  static constexpr std::uint64_t seed = 0x2545f4914f6cdd1d;

  /// A step that was launched: it has been computed, but its tokens may not be read yet.
  struct flying {
    std::vector<std::int32_t> sampled;
    step_times times;
  };

  void run(const step_batch& b) {
    const tessera_test::allow_allocation ours;
    require(in_flight_ < steps_in_flight_.size(), "more steps in flight than there is room for");
    flying& f = slot(steps_);
    if (steps_++ == fail_at) throw device_error{"it was told to fail"};
    for (const device_copy& c : b.copies) {
      store read = device_;  // what is copied from stays
      move(device_, c.to, read, c.from);
    }
    for (const block_copy& c : b.swap_out) move(host_, c.host, device_, c.device);
    for (const block_copy& c : b.swap_in) move(device_, c.device, host_, c.host);
    require(b.rows.size() <= options_.max_rows, "more rows than there is room for");
    require(b.tokens.size() <= options_.max_tokens, "more tokens than there is room for");
    require(b.indptr.size() == b.rows.size() + 1 || b.rows.empty(), "the block table is of another batch");
    f.sampled.clear();
    std::size_t token = 0;
    bool prompts = false;
    for (std::size_t r = 0; r < b.rows.size(); ++r) {
      const batch_row& row = b.rows[r];
      const auto first = static_cast<std::size_t>(row.first);
      const auto end = first + static_cast<std::size_t>(row.count);
      require(row.count > 0 && end <= options_.max_context, "a row of no length, or too long");
      require(!(prompts && row.count == 1 && row.samples && row.first > 0), "a decode row after a prompt");
      prompts = prompts || row.count > 1;
      const auto table = b.indices.subspan(static_cast<std::size_t>(b.indptr[r]),
                                           static_cast<std::size_t>(b.indptr[r + 1] - b.indptr[r]));
      require(table.size() * block_size_ >= end, "a row with too few blocks");
      if (!shared_blocks) claim(table, end);
      for (std::size_t p = first; p < end; ++p) at(table, p) = kv_of(known(b.tokens[token++]), p);
      std::uint64_t h = seed;
      for (std::size_t p = 0; p < end && !shared_blocks; ++p) {
        require(at(table, p) != nothing, "row " + std::to_string(r) + " reads KV that nobody wrote");
        h = mix(h, at(table, p));
      }
      if (row.samples) f.sampled.push_back(token_of(h));
    }
    require(token == b.tokens.size(), "tokens of nobody");
    f.times = cost ? cost(b) : step_times{};
    newest_ = &f;
    ++in_flight_;
  }

  [[nodiscard]] flying& slot(std::size_t step) { return steps_in_flight_[step % steps_in_flight_.size()]; }

  /// A token, or what the step before has sampled, if it cannot be known yet.
  [[nodiscard]] std::int32_t known(std::int32_t t) const {
    if (t >= 0) return t;
    const auto place = static_cast<std::size_t>(-1 - std::int64_t{t});
    require(in_flight_ != 0 && place < newest_->sampled.size(), "a token that the step before does not sample");
    return newest_->sampled[place];
  }

  static void require(bool holds, const std::string& what) {
    if (!holds) throw device_error{"fake decoder: " + what};
  }
  static std::uint64_t mix(std::uint64_t h, std::uint64_t x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15;
    return h ^ (h >> 29);
  }
  static std::uint64_t kv_of(std::int32_t token, std::size_t position) {
    return mix(mix(seed, static_cast<std::uint64_t>(token) + 1), position + 1) | 1;
  }
  static std::int32_t token_of(std::uint64_t h) { return static_cast<std::int32_t>((h >> 8) % vocabulary); }

  std::uint64_t& at(std::span<const std::int32_t> table, std::size_t p) {
    return device_[static_cast<std::size_t>(table[p / block_size_]) * block_size_ + p % block_size_];
  }

  /// What has left a block is no longer there.
  void move(store& to, std::size_t to_block, store& from, std::size_t from_block) {
    require((to_block + 1) * block_size_ <= to.size() && (from_block + 1) * block_size_ <= from.size(),
            "a copy of a block that is not there");
    for (std::size_t i = 0; i < block_size_; ++i) {
      to[to_block * block_size_ + i] = from[from_block * block_size_ + i];
      from[from_block * block_size_ + i] = nothing;
    }
  }

  /// No other row of this step may have the row's blocks.
  void claim(std::span<const std::int32_t> table, std::size_t end) {
    for (std::size_t k = 0; k * block_size_ < end; ++k) {
      const auto block = static_cast<std::size_t>(table[k]);
      require(table[k] >= 0 && block < owner_.size(), "a block that is not there");
      require(owner_[block] != steps_, "one block in two places");
      owner_[block] = steps_;
    }
  }

  decoder_options options_;
  std::size_t block_size_;
  store device_;
  store host_;
  std::vector<std::size_t> owner_;       ///< The last step in which each block was used.
  std::vector<flying> steps_in_flight_;  ///< A ring.
  const flying* oldest_ = nullptr;       ///< The last step that was waited for.
  const flying* newest_ = nullptr;       ///< The last step that was launched.
  std::size_t in_flight_ = 0;
  std::size_t steps_ = 0;
};

}  // namespace cuda_decode_test
