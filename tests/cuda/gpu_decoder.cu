// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The decoder on a GPU against the model in plain loops, a sequence preempted and resumed, and a step of a model of
// real size. A plain program for nvcc, linked with safetensors.cpp. Exits with 77 where there is no GPU.

#include <decoder.cuh>

#include "gpu_program.hpp"
#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <utility>

namespace {

using namespace cuda_decode;
using test::reference;

int failures = 0;

bool expect(bool holds, const char* what, double value = 0) {
  if (holds) return true;
  std::fprintf(stderr, "gpu_decoder.cu: %s (%g)\n", what, value);
  ++failures;
  return false;
}

std::vector<std::int32_t> some_tokens(const model_shape& shape, std::size_t n, unsigned seed) {
  std::mt19937 random{seed};
  std::vector<std::int32_t> out(n);
  for (auto& t : out) t = static_cast<std::int32_t>(random() % static_cast<unsigned>(shape.vocabulary));
  return out;
}

struct sequence {
  std::vector<std::int32_t> tokens;
  std::int32_t computed = 0;
  std::vector<std::int32_t> blocks{};
};

/// A decoder, its free blocks in no order, and the batch that is being made.
class session {
 public:
  explicit session(const decoder_options& o) : decoder_{o}, block_size_{o.block_size} {
    free_.resize(decoder_.facts().kv_blocks);
    std::iota(free_.begin(), free_.end(), 0);
    std::shuffle(free_.begin(), free_.end(), std::mt19937{1});
  }
  [[nodiscard]] device_decoder& device() { return decoder_; }
  void grow(sequence& s, std::size_t tokens) {
    while (s.blocks.size() * static_cast<std::size_t>(block_size_) < tokens) {
      s.blocks.push_back(free_.back());
      free_.pop_back();
    }
  }
  /// Computes all that was not yet, and appends what is sampled.
  step_times step(const std::vector<sequence*>& all, const std::vector<block_copy>& out = {},
                  const std::vector<block_copy>& in = {}) {
    std::vector<std::int32_t> tokens, indices, indptr{0};
    std::vector<batch_row> rows;
    for (sequence* s : all) {
      grow(*s, s->tokens.size());
      tokens.insert(tokens.end(), s->tokens.begin() + s->computed, s->tokens.end());
      rows.push_back({s->computed, static_cast<std::int32_t>(s->tokens.size()) - s->computed, true});
      indices.insert(indices.end(), s->blocks.begin(), s->blocks.end());
      indptr.push_back(static_cast<std::int32_t>(indices.size()));
      s->computed = static_cast<std::int32_t>(s->tokens.size());
    }
    const step_result r = decoder_.step({tokens, rows, indptr, indices, out, {}, in});
    for (std::size_t i = 0; i != all.size(); ++i) all[i]->tokens.push_back(r.sampled[i]);
    return r.times;
  }

 private:
  device_decoder decoder_;
  std::int32_t block_size_;
  std::vector<std::int32_t> free_;
};

decoder_options options_for(const model_shape& shape) {
  decoder_options o;
  o.shape = shape;
  o.seed = 3;
  o.kv_blocks = 128;
  o.host_blocks = 16;
  o.max_rows = 16;
  o.max_tokens = 512;
  o.max_context = 2048;
  return o;
}

// Logits have a standard deviation of about 1; rounding to bf16 makes a mean error of 0.013 on the emulated device.
constexpr double tolerance = 0.04;

void check_logits(const std::vector<float>& logits, const reference::row& expected, std::int32_t token) {
  double squares = 0;
  for (std::size_t i = 0; i != expected.size(); ++i) {
    squares += (logits[i] - expected[i]) * (logits[i] - expected[i]);
  }
  const double error = std::sqrt(squares / static_cast<double>(expected.size()));
  expect(error < tolerance, "logits differ from the reference's", error);
  const double best = *std::max_element(expected.begin(), expected.end());
  const double chosen = expected[static_cast<std::size_t>(token)];
  expect(chosen >= best - 10 * tolerance, "a token that the reference does not choose", best - chosen);
  expect(std::max_element(logits.begin(), logits.end()) - logits.begin() == token, "not the greatest logit");
}

void against_reference(const model_shape& shape, std::size_t longest) {
  std::printf("%s against the reference\n", shape.name.c_str());
  const reference model{shape, test::random_weights(shape, 3)};
  for (const split_policy split : {split_policy::balanced, split_policy::uniform}) {
    session s{options_for(shape)};
    s.device().split(split);
    std::vector<sequence> all;
    for (unsigned i = 0; i != 5; ++i) all.push_back({some_tokens(shape, i == 4 ? longest : 2 + 9 * i, i)});
    std::vector<reference::sequence> plain(all.size());
    std::vector<sequence*> who;
    for (sequence& each : all) who.push_back(&each);
    for (int step = 0; step != 6; ++step) {
      // Five, four and three rows that decode: graphs of 8 and 4. The last sequence is always there.
      if (step >= 4) who.erase(who.begin());
      s.step(who);
      for (std::size_t i = 0; i != who.size(); ++i) {
        const auto which = static_cast<std::size_t>(who[i] - all.data());
        reference::row expected;
        while (plain[which].length != who[i]->tokens.size() - 1) {
          expected = model.append(plain[which], who[i]->tokens[plain[which].length]);
        }
        check_logits(s.device().logits(i), expected, who[i]->tokens.back());
      }
    }
    expect(s.device().captures() == 2, "graphs", static_cast<double>(s.device().captures()));
    // One is computed again from nothing.
    sequence again{{all[3].tokens.begin(), all[3].tokens.end() - 1}};
    reference::sequence fresh;
    reference::row expected;
    for (const std::int32_t t : again.tokens) expected = model.append(fresh, t);
    s.step({&again});
    check_logits(s.device().logits(0), expected, again.tokens.back());
  }
}

/// Tokens of two sequences in equal batches; in between the first one goes to the host and comes back.
std::pair<std::vector<std::int32_t>, std::vector<float>> run(const decoder_options& o, bool preempts) {
  session s{o};
  sequence a{some_tokens(o.shape, 61, 7)};
  sequence b{some_tokens(o.shape, 30, 8)};
  sequence c{some_tokens(o.shape, 61, 9)};
  for (int i = 0; i != 4; ++i) s.step({&a, &b});
  if (preempts) {
    std::vector<block_copy> out;
    std::uint32_t host = 3;
    for (const std::int32_t block : a.blocks) out.push_back({static_cast<std::uint32_t>(block), host++});
    // Another one has its blocks from the same step on.
    c.blocks = std::exchange(a.blocks, {});
    s.step({&c}, out);
    for (int i = 0; i != 3; ++i) s.step({&c});
    s.grow(a, static_cast<std::size_t>(a.computed));
    std::vector<block_copy> in;
    host = 3;
    for (const std::int32_t block : a.blocks) in.push_back({static_cast<std::uint32_t>(block), host++});
    s.step({&a, &b}, {}, in);
  } else {
    s.step({&a, &b});
  }
  for (int i = 0; i != 20; ++i) s.step({&a, &b});
  std::vector<std::int32_t> made = a.tokens;
  made.insert(made.end(), b.tokens.begin(), b.tokens.end());
  return {made, s.device().logits(0)};
}

void preempted_and_resumed(const model_shape& shape) {
  std::printf("%s preempted and resumed\n", shape.name.c_str());
  decoder_options o = options_for(shape);
  const auto calm = run(o, false);
  expect(calm == run(o, false), "the same again differs");
  expect(calm == run(o, true), "a sequence that was swapped out and in goes on with other tokens");
  o.graphs = false;
  // Padding may choose other matrix products, but not here: two rows have a graph of two.
  expect(calm == run(o, true), "graphs change the tokens");
}

void real_size(const model_shape& shape) {
  decoder_options o = options_for(shape);
  o.kv_blocks = 1024;
  session s{o};
  const decoder_facts facts = s.device().facts();
  std::vector<sequence> all;
  std::vector<sequence*> who;
  for (unsigned i = 0; i != 8; ++i) all.push_back({some_tokens(shape, 60, i)});
  for (sequence& each : all) who.push_back(&each);
  step_times t = s.step(who);
  std::printf("%s on %s: 8 x 60 tokens in %.2f ms", shape.name.c_str(), facts.device.c_str(), t.kernels * 1e3);
  for (int i = 0; i != 5; ++i) t = s.step(who);
  std::printf("; a decode step of 8 rows: %.2f ms, upload %.3f ms, sort %.3f ms, host %.3f ms\n", t.kernels * 1e3,
              t.upload * 1e3, t.sort * 1e3, t.host * 1e3);
  for (std::size_t i = 0; i != who.size(); ++i) {
    const std::vector<float> logits = s.device().logits(i);
    double squares = 0;
    for (const float x : logits) squares += static_cast<double>(x) * x;
    const double deviation = std::sqrt(squares / static_cast<double>(logits.size()));
    expect(deviation > 0.5 && deviation < 2, "logits of an unlikely size", deviation);
  }
  std::printf("copy bandwidth: %.2f TB/s\n", s.device().copy_bandwidth() / 1e12);
}

}  // namespace

int main() {
  return cuda_decode_test::run_on_gpu("gpu_decoder.cu", failures, [] {
    const model_shape& tiny = model_shapes()[0];
    against_reference(tiny, 300);
    preempted_and_resumed(tiny);
    model_shape middle{.name = "a middle shape",
                       .layers = 2,
                       .hidden = 1024,
                       .query_heads = 12,
                       .kv_heads = 4,
                       .head_dim = 128,
                       .feed_forward = 2048,
                       .vocabulary = 4096,
                       .rope_factor = 8,
                       .rope_original_context = 64};
    if (!device::emulated) {
      against_reference(middle, 80);
      preempted_and_resumed(middle);
      real_size(model_shapes()[1]);
    }
  });
}
