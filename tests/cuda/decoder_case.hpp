// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// A decoder with the tiny shape on the emulated device, its batches, and what they are to give.

#include <decoder.cuh>

#include "reference.hpp"

#include <support/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace cuda_decode_test::decoder_case {

using namespace cuda_decode;
namespace emulation = device::emulation;
using test::reference;

inline constexpr std::int32_t block_size = 16;

/// Lazy again when a test is over.
struct stream_order {
  explicit stream_order(emulation::schedule s, std::uint64_t seed = 1) { emulation::order(s, seed); }
  ~stream_order() { emulation::order(emulation::lazy); }
  stream_order(const stream_order&) = delete;
  stream_order& operator=(const stream_order&) = delete;
};

inline model_shape tiny() { return model_shapes().front(); }

inline decoder_options small() {
  decoder_options o;
  o.shape = tiny();
  o.seed = 3;
  o.kv_blocks = 64;
  o.host_blocks = 16;
  o.block_size = block_size;
  o.max_rows = 10;
  o.max_tokens = 128;
  o.max_context = 1024;
  return o;
}

inline const reference& model() {
  static const reference r{tiny(), test::random_weights(tiny(), small().seed)};
  return r;
}

inline std::vector<std::int32_t> some_tokens(std::size_t n, unsigned seed) {
  std::mt19937 random{seed};
  std::vector<std::int32_t> out(n);
  for (auto& t : out) t = static_cast<std::int32_t>(random() % 512);
  return out;
}

/// One request, as a scheduler would keep it.
struct sequence {
  std::vector<std::int32_t> tokens;
  std::int32_t computed = 0;
  std::vector<std::int32_t> blocks{};

  [[nodiscard]] std::int32_t length() const { return static_cast<std::int32_t>(tokens.size()); }
};

/// Blocks in no order.
class block_list {
 public:
  explicit block_list(std::size_t n, unsigned seed = 1) : free_(n) {
    std::iota(free_.begin(), free_.end(), 0);
    std::shuffle(free_.begin(), free_.end(), std::mt19937{seed});
  }
  void grow(sequence& s, std::int32_t tokens) {
    while (static_cast<std::int32_t>(s.blocks.size()) * block_size < tokens) {
      REQUIRE(!free_.empty());
      s.blocks.push_back(free_.back());
      free_.pop_back();
    }
  }
  void release(sequence& s) {
    free_.insert(free_.begin(), s.blocks.begin(), s.blocks.end());
    s.blocks.clear();
  }

 private:
  std::vector<std::int32_t> free_;
};

/// A batch that owns its arrays.
struct batch {
  std::vector<std::int32_t> tokens;
  std::vector<batch_row> rows;
  std::vector<std::int32_t> indptr{0};
  std::vector<std::int32_t> indices;
  std::vector<block_copy> out, in;
  std::vector<device_copy> copies;

  /// The next `count` tokens of a sequence; it samples if they are its last.
  void add(sequence& s, std::int32_t count, block_list& blocks) {
    blocks.grow(s, s.computed + count);
    tokens.insert(tokens.end(), s.tokens.begin() + s.computed, s.tokens.begin() + s.computed + count);
    rows.push_back({s.computed, count, s.computed + count == s.length()});
    indices.insert(indices.end(), s.blocks.begin(), s.blocks.end());
    indptr.push_back(static_cast<std::int32_t>(indices.size()));
    s.computed += count;
  }
  [[nodiscard]] step_batch view() const { return {tokens, rows, indptr, indices, out, copies, in}; }
};

/// Computes all sequences' tokens, at most `piece` of each in a step, and then `n` more of each, one by one.
inline std::vector<std::vector<std::int32_t>> generate(decoder& d, std::vector<std::vector<std::int32_t>> prompts,
                                                       std::size_t n, std::int32_t piece = 128, unsigned seed = 1) {
  block_list blocks{d.facts().kv_blocks, seed};
  std::vector<sequence> all;
  for (auto& p : prompts) all.push_back({p});
  for (;;) {
    batch b;
    std::vector<sequence*> sampling;
    // Rows with one token first.
    for (const bool single : {true, false}) {
      for (sequence& s : all) {
        const std::int32_t count = std::min(piece, s.length() - s.computed);
        if (count == 0 || (count == 1) != single) continue;
        b.add(s, count, blocks);
        if (b.rows.back().samples) sampling.push_back(&s);
      }
    }
    if (b.rows.empty()) break;
    const step_result r = d.step(b.view());
    REQUIRE(r.sampled.size() == sampling.size());
    for (std::size_t i = 0; i != sampling.size(); ++i) {
      sequence& s = *sampling[i];
      const std::size_t prompt = prompts[static_cast<std::size_t>(&s - all.data())].size();
      if (s.tokens.size() - prompt < n) s.tokens.push_back(r.sampled[i]);
    }
  }
  std::vector<std::vector<std::int32_t>> out;
  for (std::size_t i = 0; i != all.size(); ++i) {
    out.emplace_back(all[i].tokens.begin() + static_cast<std::ptrdiff_t>(prompts[i].size()), all[i].tokens.end());
  }
  return out;
}

inline std::vector<std::vector<std::int32_t>> some_prompts() {
  return {some_tokens(1, 1), some_tokens(15, 2), some_tokens(16, 3), some_tokens(33, 4), some_tokens(50, 5)};
}

/// Tokens of `some_prompts`, each alone.
inline const std::vector<std::vector<std::int32_t>>& alone() {
  static const auto out = [] {
    std::vector<std::vector<std::int32_t>> all;
    for (const auto& p : some_prompts()) {
      device_decoder d{small()};
      all.push_back(generate(d, {p}, 12).front());
    }
    return all;
  }();
  return out;
}

/// Root of the mean square, NaN if there is one.
inline double difference(const std::vector<float>& a, const reference::row& b) {
  double squares = 0;
  for (std::size_t i = 0; i != b.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares / static_cast<double>(b.size()));
}

inline std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

// What rounding to bf16 makes of sums in another order. Logits have a standard deviation of about 1.
inline constexpr double tolerance = 0.03;

}  // namespace cuda_decode_test::decoder_case
