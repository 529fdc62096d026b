// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The whole decoder with the tiny shape on the emulated device, against the model in plain loops.

#include <decoder.cuh>

#include "decoder_case.hpp"
#include "reference.hpp"

#include <support/catch.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace cuda_decode;
namespace emulation = device::emulation;
using cuda_decode_test::decoder_case::alone;
using cuda_decode_test::decoder_case::batch;
using cuda_decode_test::decoder_case::block_list;
using cuda_decode_test::decoder_case::block_size;
using cuda_decode_test::decoder_case::difference;
using cuda_decode_test::decoder_case::generate;
using cuda_decode_test::decoder_case::message_of;
using cuda_decode_test::decoder_case::model;
using cuda_decode_test::decoder_case::sequence;
using cuda_decode_test::decoder_case::small;
using cuda_decode_test::decoder_case::some_prompts;
using cuda_decode_test::decoder_case::some_tokens;
using cuda_decode_test::decoder_case::tiny;
using cuda_decode_test::decoder_case::tolerance;
using test::reference;

}  // namespace

TEST_CASE("decoder: logits and greedy tokens are the reference's") {
  for (const split_policy split : {split_policy::balanced, split_policy::uniform}) {
    decoder_options options = small();
    options.split = split;
    device_decoder d{options};
    block_list blocks{64};
    sequence s{some_tokens(70, 6)};
    reference::sequence plain;
    reference::row expected;
    for (const std::int32_t t : s.tokens) expected = model().append(plain, t);
    double worst = 0;
    int ties = 0;
    for (int i = 0; i != 40; ++i) {
      batch b;
      b.add(s, s.length() - s.computed, blocks);
      const auto sampled = d.step(b.view()).sampled;
      REQUIRE(sampled.size() == 1);
      const std::int32_t token = sampled[0];
      const std::vector<float> logits = d.logits(0);
      worst = std::max(worst, difference(logits, expected));
      REQUIRE(difference(logits, expected) < tolerance);
      // The greatest of its own logits, and of the reference's up to what rounding may change.
      CHECK(std::ranges::max_element(logits) - logits.begin() == token);
      const auto best = std::ranges::max_element(expected) - expected.begin();
      if (best != token) ++ties;
      CHECK(expected[static_cast<std::size_t>(token)] >= expected[static_cast<std::size_t>(best)] - 10 * tolerance);
      s.tokens.push_back(token);
      expected = model().append(plain, token);
    }
    CAPTURE(worst);
    CHECK(ties <= 2);
    // The sequence is no loop of a few tokens, which a broken model could also produce.
    std::vector<std::int32_t> made{s.tokens.begin() + 70, s.tokens.end()};
    std::ranges::sort(made);
    CHECK(std::unique(made.begin(), made.end()) - made.begin() > 15);
  }
}

TEST_CASE("decoder: another shape, with heads of 128, stretched positions and a head of its own") {
  decoder_options options = small();
  options.shape = {.name = "other",
                   .layers = 3,
                   .hidden = 64,
                   .query_heads = 4,
                   .kv_heads = 1,
                   .head_dim = 128,
                   .feed_forward = 96,
                   .vocabulary = 520,
                   .norm_epsilon = 1e-2F,
                   .rope_theta = 500,
                   .rope_factor = 4,
                   .rope_original_context = 40};
  const reference other{options.shape, test::random_weights(options.shape, options.seed)};
  device_decoder d{options};
  block_list blocks{64};
  sequence s{some_tokens(90, 6)};
  reference::sequence plain;
  reference::row expected;
  for (const std::int32_t t : s.tokens) expected = other.append(plain, t);
  for (int i = 0; i != 4; ++i) {
    batch b;
    b.add(s, s.length() - s.computed, blocks);
    s.tokens.push_back(d.step(b.view()).sampled[0]);
    CHECK(difference(d.logits(0), expected) < tolerance);
    expected = other.append(plain, s.tokens.back());
  }
}

TEST_CASE("decoder: long sequences in parts, among short ones") {
  // 800 tokens are two chunks; beside them a prompt and a short one.
  const std::vector<std::int32_t> prompt = some_tokens(800, 9);
  reference::sequence plain;
  reference::row expected;
  for (const std::int32_t t : prompt) expected = model().append(plain, t);
  device_decoder d{small()};
  block_list blocks{64};
  sequence s{prompt};
  while (s.length() - s.computed > 1) {
    batch b;
    b.add(s, std::min(128, s.length() - s.computed - 1), blocks);
    (void)d.step(b.view());
  }
  SECTION("balanced") {}
  SECTION("uniform") { d.split(split_policy::uniform); }
  sequence other{some_prompts()[0]};
  sequence third{some_prompts()[1]};
  batch b;
  b.add(s, 1, blocks);
  b.add(other, 1, blocks);
  b.add(third, third.length(), blocks);
  const auto sampled = d.step(b.view()).sampled;
  REQUIRE(sampled.size() == 3);
  CHECK(difference(d.logits(0), expected) < tolerance);
  CHECK(sampled[1] == alone()[0][0]);
  CHECK(sampled[2] == alone()[1][0]);
  // And on, as rows that decode only: the graph was made for a short one, which has no parts.
  third.tokens.push_back(sampled[2]);
  batch alone_first;
  alone_first.add(third, 1, blocks);
  CHECK(d.step(alone_first.view()).sampled[0] == alone()[1][1]);
  REQUIRE(d.captures() == 1);
  for (int i = 0; i != 3; ++i) {
    s.tokens.push_back(7 + i);
    expected = model().append(plain, s.tokens.back());
    batch next;
    next.add(s, 1, blocks);
    (void)d.step(next.view());
    CHECK(difference(d.logits(0), expected) < tolerance);
  }
  CHECK(d.captures() == 1);
}

namespace {

/// A folder that goes with the test.
class folder {
 public:
  folder() : path_{std::filesystem::temp_directory_path() / ("tessera-decoder-" + std::to_string(getpid()))} {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~folder() { std::filesystem::remove_all(path_); }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  [[nodiscard]] std::string path(const std::string& name = "") const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// Writes some of the tensors of a model, under the names and in the shapes that others give them.
void write_safetensors(const std::string& path, const model_shape& shape, std::span<const bf16> weights,
                       const std::function<bool(const std::string&)>& wanted) {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
  std::string data;
  const auto add = [&](const std::string& name, std::size_t offset, std::int64_t rows, std::int64_t columns) {
    if (!wanted(name)) return;
    const std::string dims = (rows == 0 ? "" : std::to_string(rows) + ",") + std::to_string(columns);
    const auto bytes = static_cast<std::size_t>(2 * std::max<std::int64_t>(rows, 1) * columns);
    header += ",\"" + name + R"(":{"dtype":"BF16","shape":[)" + dims + R"(],"data_offsets":[)" +
              std::to_string(data.size()) + "," + std::to_string(data.size() + bytes) + "]}";
    data.append(reinterpret_cast<const char*>(weights.data() + offset), bytes);
  };
  const weight_layout layout{shape};
  const std::int64_t h = shape.hidden;
  const std::int64_t q = shape.query_heads * shape.head_dim;
  const std::int64_t kv = shape.kv_heads * shape.head_dim;
  const std::int64_t f = shape.feed_forward;
  const auto matrix = [](std::int64_t rows, std::int64_t columns) { return static_cast<std::size_t>(rows * columns); };
  for (std::size_t l = 0; l != layout.layers; ++l) {
    const std::string p = "model.layers." + std::to_string(l) + ".";
    const std::size_t qkv = layout.of(l, weight_layout::qkv);
    const std::size_t gate = layout.of(l, weight_layout::gate_up);
    add(p + "mlp.down_proj.weight", layout.of(l, weight_layout::down), h, f);
    add(p + "mlp.up_proj.weight", gate + matrix(f, h), f, h);
    add(p + "mlp.gate_proj.weight", gate, f, h);
    add(p + "self_attn.k_proj.weight", qkv + matrix(q, h), kv, h);
    add(p + "self_attn.o_proj.weight", layout.of(l, weight_layout::attention_output), h, q);
    add(p + "self_attn.q_proj.weight", qkv, q, h);
    add(p + "self_attn.v_proj.weight", qkv + matrix(q + kv, h), kv, h);
    add(p + "post_attention_layernorm.weight", layout.of(l, weight_layout::feed_forward_norm), 0, h);
    add(p + "input_layernorm.weight", layout.of(l, weight_layout::attention_norm), 0, h);
  }
  if (!shape.tied_embeddings) add("lm_head.weight", layout.head(), shape.vocabulary, h);
  add("model.embed_tokens.weight", layout.embedding(), shape.vocabulary, h);
  add("model.norm.weight", layout.final_norm(), 0, h);
  header += "}";
  std::string length;
  for (std::size_t n = header.size(), i = 0; i != 8; ++i, n >>= 8) length += static_cast<char>(n & 0xFF);
  std::ofstream{path, std::ios::binary} << length << header << data;
}

}  // namespace

TEST_CASE("decoder: weights from safetensors") {
  const folder f;
  decoder_options o = small();
  o.weights = f.path();
  const auto weights = test::random_weights(tiny(), o.seed);
  const auto first = [](const std::string& name) { return name.find(".layers.0.") != std::string::npos; };
  o.seed = 99;
  SECTION("two files are the model that was written") {
    write_safetensors(f.path("model-1.safetensors"), tiny(), weights, first);
    write_safetensors(f.path("model-2.safetensors"), tiny(), weights, [&](const std::string& n) { return !first(n); });
    device_decoder d{o};
    CHECK(generate(d, {some_prompts()[2]}, 12).front() == alone()[2]);
  }
  SECTION("one file") {
    o.weights = f.path("model.safetensors");
    write_safetensors(o.weights, tiny(), weights, [](const std::string&) { return true; });
    device_decoder d{o};
    CHECK(generate(d, {some_prompts()[2]}, 12).front() == alone()[2]);
  }
  SECTION("a head of its own") {
    o.shape.tied_embeddings = false;
    const auto more = test::random_weights(o.shape, 5);
    write_safetensors(f.path("model.safetensors"), o.shape, more, [](const std::string&) { return true; });
    device_decoder d{o};
    o.weights.clear();
    o.seed = 5;
    device_decoder same{o};
    const auto prompt = some_prompts()[2];
    const auto made = generate(d, {prompt}, 12);
    CHECK(made == generate(same, {prompt}, 12));
    const reference r{o.shape, more};
    reference::sequence plain;
    reference::row expected;
    for (const std::int32_t t : prompt) expected = r.append(plain, t);
    CHECK(std::ranges::max_element(expected) - expected.begin() == made[0][0]);
  }
  SECTION("a missing tensor") {
    write_safetensors(f.path("model.safetensors"), tiny(), weights, first);
    CHECK_THROWS_WITH(device_decoder{o}, Catch::Contains("tensor model.layers.1.input_layernorm.weight is missing"));
  }
  SECTION("another shape") {
    write_safetensors(f.path("model.safetensors"), tiny(), weights, [](const std::string&) { return true; });
    o.shape.feed_forward = 128;
    CHECK_THROWS_WITH(device_decoder{o}, Catch::Contains("tensor model.layers.0.mlp.gate_proj.weight has shape [256, "
                                                         "128]; the model needs [128, 128]"));
  }
  SECTION("no folder") {
    o.weights = f.path("nothing");
    CHECK_THROWS_AS(device_decoder{o}, weights_error);
  }
}

TEST_CASE("decoder: what does not fit or cannot be is refused at construction") {
  const auto error = [](const std::function<void(decoder_options&)>& change) {
    decoder_options o = small();
    change(o);
    return message_of([&] { device_decoder{o}; });
  };
  REQUIRE(error([](decoder_options&) {}).empty());
  CHECK(error([](decoder_options& o) { o.kv_blocks = 1 << 20; }).find("of KV blocks do not fit") != std::string::npos);
  CHECK(error([](decoder_options& o) { o.kv_blocks = SIZE_MAX; }).find("of KV blocks do not fit") != std::string::npos);
  CHECK(error([](decoder_options& o) { o.host_blocks = SIZE_MAX; }).find("pinned memory") != std::string::npos);
  CHECK(error([](decoder_options& o) {
          o.kv_blocks = 0;
          o.shape.layers = 1000;
        }).find("leave no room for KV blocks") != std::string::npos);
  CHECK(!error([](decoder_options& o) { o.shape.head_dim = 96; }).empty());
  CHECK(!error([](decoder_options& o) { o.shape.query_heads = 7; }).empty());
  CHECK(!error([](decoder_options& o) { o.shape.query_heads = 18; }).empty());
  CHECK(!error([](decoder_options& o) { o.shape.hidden = 100; }).empty());
  CHECK(!error([](decoder_options& o) { o.shape.hidden = 16384; }).empty());
  CHECK(!error([](decoder_options& o) { o.shape.vocabulary = 510; }).empty());
  CHECK(!error([](decoder_options& o) { o.shape.layers = 0; }).empty());
  CHECK(!error([](decoder_options& o) { o.block_size = 8; }).empty());
  CHECK(!error([](decoder_options& o) { o.block_size = 0; }).empty());
  CHECK(!error([](decoder_options& o) { o.max_rows = 0; }).empty());
  CHECK(!error([](decoder_options& o) { o.max_rows = o.max_tokens + 1; }).empty());
  CHECK(!error([](decoder_options& o) { o.max_context = 0; }).empty());
}

TEST_CASE("decoder: as many blocks as fit") {
  decoder_options o = small();
  o.kv_blocks = 0;
  o.host_blocks = 3;
  device_decoder d{o};
  const decoder_facts f = d.facts();
  CHECK(f.emulated);
  CHECK(f.host_blocks == 3);
  const double block = static_cast<double>(tiny().kv_bytes_per_token()) * block_size;
  CHECK(static_cast<double>(f.kv_blocks) * block > 0.8 * f.memory_bytes);
  CHECK(static_cast<double>(f.kv_blocks) * block < f.memory_bytes);
  CHECK(d.copy_bandwidth() > 0);
}

TEST_CASE("decoder: attention alone") {
  device_decoder d{small()};
  block_list blocks{64};
  sequence s{some_prompts()[2]};
  batch b;
  b.add(s, s.length(), blocks);
  s.tokens.push_back(d.step(b.view()).sampled[0]);
  batch one;
  one.add(s, 1, blocks);
  CHECK(d.attention_seconds(one.view()) > 0);
  // It changes nothing.
  CHECK(d.step(one.view()).sampled[0] == alone()[2][1]);
  CHECK_THROWS_AS(d.attention_seconds({}), device_error);
}
