// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The whole decoder with the tiny shape on the emulated device, against the model in plain loops.

#include <decoder.cuh>

#include "reference.hpp"

#include <support/catch.hpp>
#include <support/is_slow.hpp>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace cuda_decode;
namespace emulation = device::emulation;
using test::reference;

constexpr std::int32_t block_size = 16;

/// Lazy again when a test is over.
struct stream_order {
  explicit stream_order(emulation::schedule s, std::uint64_t seed = 1) { emulation::order(s, seed); }
  ~stream_order() { emulation::order(emulation::lazy); }
  stream_order(const stream_order&) = delete;
  stream_order& operator=(const stream_order&) = delete;
};

model_shape tiny() { return model_shapes().front(); }

decoder_options small() {
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

const reference& model() {
  static const reference r{tiny(), test::random_weights(tiny(), small().seed)};
  return r;
}

std::vector<std::int32_t> some_tokens(std::size_t n, unsigned seed) {
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
std::vector<std::vector<std::int32_t>> generate(decoder& d, std::vector<std::vector<std::int32_t>> prompts,
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

std::vector<std::vector<std::int32_t>> some_prompts() {
  return {some_tokens(1, 1), some_tokens(15, 2), some_tokens(16, 3), some_tokens(33, 4), some_tokens(50, 5)};
}

/// Tokens of `some_prompts`, each alone.
const std::vector<std::vector<std::int32_t>>& alone() {
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
double difference(const std::vector<float>& a, const reference::row& b) {
  double squares = 0;
  for (std::size_t i = 0; i != b.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares / static_cast<double>(b.size()));
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

// What rounding to bf16 makes of sums in another order. Logits have a standard deviation of about 1.
constexpr double tolerance = 0.03;

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

TEST_CASE("decoder: a batch gives each sequence the tokens that it gets alone") {
  device_decoder d{small()};
  CHECK(generate(d, some_prompts(), 12) == alone());
}

TEST_CASE("decoder: what memory held before does not matter") {
  struct fresh {
    explicit fresh(unsigned char byte) { emulation::fresh_byte = byte; }
    ~fresh() { emulation::fresh_byte = 0xff; }
    fresh(const fresh&) = delete;
    fresh& operator=(const fresh&) = delete;
  };
  (void)alone();
  for (const int byte : {0x00, 0x01, 0x7f}) {
    CAPTURE(byte);
    const fresh now{static_cast<unsigned char>(byte)};
    device_decoder d{small()};
    // Padding rows first of all: later there is something sensible in what they share with others.
    block_list blocks{64};
    std::vector<sequence> three(3, {some_prompts()[0]});
    batch b;
    for (sequence& s : three) b.add(s, 1, blocks);
    for (const std::int32_t token : d.step(b.view()).sampled) CHECK(token == alone()[0][0]);
    CHECK(generate(d, some_prompts(), 12) == alone());
  }
}

TEST_CASE("decoder: prompts in pieces, any blocks") {
  for (const std::int32_t piece : {7, 16, 25}) {
    CAPTURE(piece);
    device_decoder d{small()};
    CHECK(generate(d, some_prompts(), 12, piece, static_cast<unsigned>(piece)) == alone());
  }
}

TEST_CASE("decoder: other block sizes, other splits, without graphs") {
  SECTION("blocks of 64 tokens") {
    decoder_options o = small();
    o.kv_blocks = 16;
    o.block_size = 64;
    device_decoder d{o};
    // One sequence, by hand: all its tokens in one block.
    sequence s{some_prompts()[3]};
    std::vector<std::int32_t> made;
    for (int i = 0; i != 12; ++i) {
      const std::vector<batch_row> rows{{s.computed, s.length() - s.computed, true}};
      const std::vector<std::int32_t> indptr{0, 1};
      const std::vector<std::int32_t> indices{11};
      const std::span tokens{s.tokens.data() + s.computed, s.tokens.size() - static_cast<std::size_t>(s.computed)};
      const std::int32_t token = d.step({tokens, rows, indptr, indices}).sampled[0];
      s.computed = s.length();
      s.tokens.push_back(token);
      made.push_back(token);
    }
    CHECK(made == alone()[3]);
  }
  SECTION("without graphs") {
    decoder_options o = small();
    o.graphs = false;
    device_decoder d{o};
    CHECK(generate(d, some_prompts(), 12) == alone());
    CHECK(d.captures() == 0);
  }
  SECTION("uniform") {
    device_decoder d{small()};
    d.split(split_policy::uniform);
    CHECK(generate(d, some_prompts(), 12) == alone());  // other sums, but no tie among these
  }
}

TEST_CASE("decoder: one graph for each padded size, with padding that changes nothing") {
  device_decoder d{small()};
  block_list blocks{64};
  std::vector<sequence> all;
  std::vector<reference::sequence> plain(10);
  std::vector<std::int32_t> last(10);
  {
    batch b;
    for (unsigned i = 0; i != 10; ++i) {
      all.push_back({some_tokens(5 + i, 20 + i)});
      b.add(all.back(), all.back().length(), blocks);
    }
    const auto sampled = d.step(b.view()).sampled;
    for (std::size_t i = 0; i != 10; ++i) {
      for (const std::int32_t t : all[i].tokens) (void)model().append(plain[i], t);
      all[i].tokens.push_back(sampled[i]);
    }
  }
  CHECK(d.captures() == 0);  // a prompt's step has no graph
  std::size_t captures = 0;
  // Sizes 1, 2, 4, 8, 10; each twice, the second time from its graph, and with other sequences.
  std::vector<std::size_t> sizes{1, 1, 2, 2, 3, 4, 3, 5, 8, 6, 7, 9, 10, 9, 1, 2, 4, 8, 10};
  std::vector<bool> seen(11);
  std::size_t first = 0;
  for (const std::size_t n : sizes) {
    const std::size_t padded = n <= 2 ? n : n <= 4 ? 4 : n <= 8 ? 8 : 10;
    if (!seen[padded]) ++captures;
    seen[padded] = true;
    batch b;
    std::vector<std::size_t> who;
    for (std::size_t i = 0; i != n; ++i) {
      who.push_back((first + 3 * i) % 10);
      b.add(all[who.back()], 1, blocks);
    }
    first += n;
    const std::vector<std::int32_t> sampled = [&] {
      const auto r = d.step(b.view()).sampled;
      return std::vector<std::int32_t>{r.begin(), r.end()};
    }();
    REQUIRE(sampled.size() == n);
    CHECK(d.captures() == captures);
    for (std::size_t i = 0; i != n; ++i) {
      const auto expected = model().append(plain[who[i]], all[who[i]].tokens.back());
      CHECK(difference(d.logits(i), expected) < tolerance);
      all[who[i]].tokens.push_back(sampled[i]);
    }
  }
}

TEST_CASE("decoder: rows that do not sample") {
  device_decoder d{small()};
  block_list blocks{64};
  const auto prompts = some_prompts();
  // One token of each of three, of which the second alone samples; twice, for the graph.
  for (int again = 0; again != 2; ++again) {
    sequence a{{prompts[1]}}, b{prompts[0]}, c{prompts[2]};
    batch step;
    step.add(a, 1, blocks);
    step.add(b, 1, blocks);
    step.add(c, 1, blocks);
    const auto r = d.step(step.view());
    REQUIRE(r.sampled.size() == 1);
    CHECK(r.sampled[0] == alone()[0][0]);
    CHECK_THROWS_AS(d.logits(1), device_error);
    batch rest;
    rest.add(a, 5, blocks);
    rest.add(c, c.length() - 1, blocks);
    const auto next = d.step(rest.view());
    REQUIRE(next.sampled.size() == 1);
    CHECK(next.sampled[0] == alone()[2][0]);
    batch none;  // nobody samples
    none.add(a, 5, blocks);
    CHECK(d.step(none.view()).sampled.empty());
    CHECK_THROWS_AS(d.logits(0), device_error);
    for (sequence* s : {&a, &b, &c}) blocks.release(*s);
  }
}

TEST_CASE("decoder: a fork's last block is copied, and both go on with the same tokens") {
  device_decoder d{small()};
  block_list blocks{64, 3};
  sequence a{some_prompts()[4]};
  batch first;
  first.add(a, a.length(), blocks);
  a.tokens.push_back(d.step(first.view()).sampled[0]);
  const auto last = static_cast<std::size_t>(a.computed / block_size);
  REQUIRE(a.computed % block_size != 0);

  // The full blocks are shared. The copy comes before what is written in the same step.
  sequence b = a;
  sequence own;
  blocks.grow(own, 1);
  b.blocks[last] = own.blocks[0];
  for (int i = 0; i != 20; ++i) {
    batch s;
    if (i == 0) {
      s.copies.push_back({static_cast<std::uint32_t>(a.blocks[last]), static_cast<std::uint32_t>(b.blocks[last])});
    }
    if (i % 2 == 0) {
      s.add(a, 1, blocks);
      s.add(b, 1, blocks);
    } else {
      s.add(b, 1, blocks);
      s.add(a, 1, blocks);
    }
    const auto r = d.step(s.view());
    REQUIRE(r.sampled.size() == 2);
    CHECK(r.sampled[0] == r.sampled[1]);
    CHECK((r.times.swap > 0) == (i == 0));
    a.tokens.push_back(r.sampled[0]);
    b.tokens.push_back(r.sampled[0]);
  }
  const auto alone = generate(d, {some_prompts()[4]}, 21);
  CHECK(std::vector<std::int32_t>(a.tokens.end() - 21, a.tokens.end()) == alone[0]);
}

TEST_CASE("decoder: a sequence that was swapped out and in again goes on with the same tokens") {
  const auto run = [](std::uint64_t seed) {
    device_decoder d{small()};
    block_list blocks{64, static_cast<unsigned>(seed)};
    const auto prompts = some_prompts();
    sequence a{prompts[4]};
    sequence b{prompts[3]};
    sequence c{prompts[2]};
    std::vector<std::int32_t> made_a, made_b, made_c;
    const auto step = [&](batch& s, std::vector<std::pair<sequence*, std::vector<std::int32_t>*>> who) {
      const auto r = d.step(s.view());
      REQUIRE(r.sampled.size() == who.size());
      for (std::size_t i = 0; i != who.size(); ++i) {
        who[i].first->tokens.push_back(r.sampled[i]);
        who[i].second->push_back(r.sampled[i]);
      }
      CHECK(r.times.host > 0);
      CHECK(r.times.kernels > 0);
      CHECK((r.times.swap > 0) == (!s.out.empty() || !s.in.empty()));
    };
    {
      batch s;
      s.add(a, a.length(), blocks);
      s.add(b, b.length(), blocks);
      step(s, {{&a, &made_a}, {&b, &made_b}});
    }
    for (int i = 0; i != 3; ++i) {
      batch s;
      s.add(a, 1, blocks);
      s.add(b, 1, blocks);
      step(s, {{&a, &made_a}, {&b, &made_b}});
    }
    // `a` goes to the host, its blocks to `c` in the same step. Some are neighbours on both sides.
    batch out;
    const std::size_t held = a.blocks.size();
    REQUIRE(held == 4);
    std::vector<std::uint32_t> host{9, 10, 3, 11};
    for (std::size_t i = 0; i != held; ++i) out.out.push_back({static_cast<std::uint32_t>(a.blocks[i]), host[i]});
    c.blocks = a.blocks;
    a.blocks.clear();
    out.add(b, 1, blocks);
    out.add(c, c.length(), blocks);
    step(out, {{&b, &made_b}, {&c, &made_c}});
    for (int i = 0; i != 2; ++i) {
      batch s;
      s.add(b, 1, blocks);
      s.add(c, 1, blocks);
      step(s, {{&b, &made_b}, {&c, &made_c}});
    }
    // `c` goes, and its blocks are where `a` comes back to in the same step: in another order.
    batch in;
    std::vector<std::uint32_t> host_c{0, 1, 2, 4};
    for (std::size_t i = 0; i != held; ++i) in.out.push_back({static_cast<std::uint32_t>(c.blocks[i]), host_c[i]});
    a.blocks = {c.blocks[1], c.blocks[0], c.blocks[3], c.blocks[2]};
    c.blocks.clear();
    for (std::size_t i = 0; i != held; ++i) in.in.push_back({static_cast<std::uint32_t>(a.blocks[i]), host[i]});
    in.add(b, 1, blocks);
    in.add(a, 1, blocks);
    step(in, {{&b, &made_b}, {&a, &made_a}});
    // `c` comes back by a step that has no rows.
    batch only;
    block_list others{64, 77};
    std::vector<std::int32_t> used = a.blocks;
    used.insert(used.end(), b.blocks.begin(), b.blocks.end());
    for (std::int32_t i = 0; c.blocks.size() != held; ++i) {
      if (std::ranges::find(used, i) == used.end()) c.blocks.push_back(i);
    }
    for (std::size_t i = 0; i != held; ++i) only.in.push_back({static_cast<std::uint32_t>(c.blocks[i]), host_c[i]});
    const auto r = d.step(only.view());
    CHECK(r.sampled.empty());
    CHECK(r.times.swap > 0);
    for (int i = 0; i != 6; ++i) {
      batch s;
      if (i < 2) s.add(b, 1, blocks);
      s.add(a, 1, blocks);
      s.add(c, 1, blocks);
      if (i < 2) {
        step(s, {{&b, &made_b}, {&a, &made_a}, {&c, &made_c}});
      } else {
        step(s, {{&a, &made_a}, {&c, &made_c}});
      }
    }
    const auto check = [](const std::vector<std::int32_t>& made, const std::vector<std::int32_t>& expected) {
      REQUIRE(made.size() >= 9);
      const std::size_t n = std::min(made.size(), expected.size());
      CHECK(std::equal(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(n), expected.begin()));
    };
    check(made_a, alone()[4]);
    check(made_b, alone()[3]);
    check(made_c, alone()[2]);
  };
  (void)alone();
  SECTION("lazy") { run(1); }
  SECTION("eager") {
    const stream_order order{emulation::eager};
    run(2);
  }
  SECTION("random") {
    for (std::uint64_t seed = 1; seed != 7; ++seed) {
      const stream_order order{emulation::random, seed};
      run(seed);
    }
  }
}

TEST_CASE("decoder: neighbouring blocks that have no neighbouring places") {
  device_decoder d{small()};
  block_list blocks{64};
  sequence s{some_prompts()[4]};
  s.blocks = {5, 6, 7, 8};
  batch first;
  first.add(s, s.length(), blocks);
  s.tokens.push_back(d.step(first.view()).sampled[0]);
  batch out;
  out.out = {{5, 9}, {6, 10}, {7, 3}, {8, 4}};  // two pieces: here neighbours throughout
  (void)d.step(out.view());
  batch in;  // three pieces: 3 and 4 are neighbours there only
  in.in = {{20, 9}, {21, 10}, {22, 3}, {24, 4}};
  s.blocks = {20, 21, 22, 24};
  // What the host's blocks did not bring is not there.
  sequence other{some_tokens(80, 11)};
  other.blocks = {20, 21, 22, 23, 24};
  batch overwrite;
  overwrite.add(other, other.length(), blocks);
  (void)d.step(overwrite.view());
  (void)d.step(in.view());
  std::vector<std::int32_t> made{s.tokens.back()};
  while (made.size() != 12) {
    batch b;
    b.add(s, 1, blocks);
    s.tokens.push_back(d.step(b.view()).sampled[0]);
    made.push_back(s.tokens.back());
  }
  CHECK(made == alone()[4]);
}

TEST_CASE("decoder: a sequence whose blocks were dropped is computed again") {
  device_decoder d{small()};
  block_list blocks{64};
  sequence s{some_prompts()[4]};
  std::vector<std::int32_t> made;
  for (int i = 0; i != 12; ++i) {
    if (i == 5) {
      blocks.release(s);
      s.computed = 0;
    }
    batch b;
    b.add(s, s.length() - s.computed, blocks);
    const std::int32_t token = d.step(b.view()).sampled[0];
    s.tokens.push_back(token);
    made.push_back(token);
  }
  CHECK(made == alone()[4]);
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

TEST_CASE("decoder: batches that would corrupt memory are refused, and change nothing") {
  device_decoder d{small()};
  block_list blocks{64};
  sequence s{some_prompts()[2]};
  batch good;
  good.add(s, s.length(), blocks);
  const auto error = [&](const std::function<void(batch&)>& change) {
    batch b = good;
    change(b);
    std::string what;
    try {
      (void)d.step(b.view());
    } catch (const device_error& e) {
      what = e.what();
    }
    return what;
  };
  REQUIRE(error([](batch&) {}).empty());
  CHECK(error([](batch& b) { b.tokens.pop_back(); }).find("counts must add up") != std::string::npos);
  CHECK(error([](batch& b) { b.tokens[3] = 512; }).find("vocabulary") != std::string::npos);
  CHECK(error([](batch& b) { b.tokens[3] = -1; }).find("vocabulary") != std::string::npos);
  CHECK(error([](batch& b) { b.indices[0] = 64; }).find("does not exist") != std::string::npos);
  CHECK(error([](batch& b) { b.indices[0] = -1; }).find("does not exist") != std::string::npos);
  CHECK(error([](batch& b) { b.indices.pop_back(); }).find("number of indices") != std::string::npos);
  CHECK(error([](batch& b) { b.indptr = {0}; }).find("indptr") != std::string::npos);
  CHECK(error([](batch& b) { b.indptr[0] = 1; }).find("indptr") != std::string::npos);
  CHECK(error([](batch& b) { b.rows[0].first = 1; }).find("longer than its blocks") != std::string::npos);
  CHECK(error([](batch& b) { b.rows[0].first = -1; }).find("before its first") != std::string::npos);
  CHECK(error([](batch& b) { b.rows[0].count = 0; }).find("must compute a token") != std::string::npos);
  CHECK(error([](batch& b) { b.rows[0].first = INT32_MAX; }).find("max_context") != std::string::npos);
  CHECK(error([](batch& b) {
          b.rows = {{0, 8, true}, {0, 8, true}};
          b.indptr = {0, 2, 1};
        }).find("indptr") != std::string::npos);
  CHECK(error([](batch& b) { b.rows.clear(); }).find("tokens without rows") != std::string::npos);
  CHECK(error([](batch& b) { b.rows.resize(11); }).find("max_rows") != std::string::npos);
  CHECK(error([](batch& b) { b.tokens.resize(129); }).find("max_tokens") != std::string::npos);
  CHECK(error([](batch& b) { b.indices.resize(100000); }).find("number of indices") != std::string::npos);
  CHECK(error([](batch& b) {
          b.indices.resize(10 * 66);
          b.indptr[1] = 10 * 66;
        }).find("more blocks than") != std::string::npos);
  CHECK(error([](batch& b) { b.out.push_back({64, 0}); }).find("block to copy") != std::string::npos);
  CHECK(error([](batch& b) { b.in.push_back({0, 16}); }).find("block to copy") != std::string::npos);
  CHECK(error([](batch& b) { b.copies.push_back({64, 0}); }).find("block to copy") != std::string::npos);
  CHECK(error([](batch& b) { b.copies.push_back({0, 64}); }).find("block to copy") != std::string::npos);
  CHECK_THROWS_AS(d.logits(1), device_error);
  batch next;
  s.tokens.push_back(d.step(good.view()).sampled[0]);
  next.add(s, 1, blocks);
  CHECK(d.step(next.view()).sampled[0] == alone()[2][1]);
  CHECK(d.step({}).sampled.empty());
}

// Nobody waits for a step before the next is launched: its tokens are taken on the device.
TEST_CASE("decoder: two steps in flight give the tokens of one") {
  decoder_options options = small();
  options.in_flight = 2;
  const auto prompts = some_prompts();
  const auto run = [&] {
    device_decoder d{options};
    block_list blocks{64, 5};
    std::vector<sequence> all;
    for (const auto& p : prompts) all.push_back({p});
    // In another order in each step, and so with other rows to take tokens from. The last one goes to the host and
    // comes back in between, as the step before still runs.
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<std::size_t> place(all.size());
    std::vector<std::vector<std::size_t>> launched;
    std::vector<std::vector<std::int32_t>> made(all.size());
    const auto settle = [&] {
      const auto sampled = d.wait().sampled;
      REQUIRE(sampled.size() == launched.front().size());
      for (std::size_t i = 0; i != sampled.size(); ++i) made[launched.front()[i]].push_back(sampled[i]);
      launched.erase(launched.begin());
    };
    for (int step = 0; step != 12; ++step) {
      batch b;
      std::vector<std::size_t> who;
      std::rotate(order.begin(), order.begin() + 2, order.end());
      const bool away = step >= 5 && step < 8;
      if (step == 5 || step == 8) {
        auto& moved = step == 5 ? b.out : b.in;
        std::uint32_t host = 7;
        for (const std::int32_t block : all[4].blocks) moved.push_back({static_cast<std::uint32_t>(block), host++});
      }
      for (const std::size_t i : order) {
        if (away && i == 4) continue;
        sequence& s = all[i];
        blocks.grow(s, s.length());
        b.tokens.insert(b.tokens.end(), s.tokens.begin() + s.computed, s.tokens.end());
        // Before it left, it was waited for; what comes back is known.
        if (step != 0)
          b.tokens.back() = i == 4 && step == 8 ? made[4].back() : -1 - static_cast<std::int32_t>(place[i]);
        b.rows.push_back({s.computed, s.length() - s.computed, true});
        b.indices.insert(b.indices.end(), s.blocks.begin(), s.blocks.end());
        b.indptr.push_back(static_cast<std::int32_t>(b.indices.size()));
        s.computed = s.length();
        s.tokens.push_back(0);  // whatever it is
        place[i] = who.size();
        who.push_back(i);
      }
      d.launch(b.view());
      launched.push_back(who);
      b.tokens.assign(b.tokens.size(), 511);  // nothing is read later
      std::ranges::fill(b.indices, 0);
      if (launched.size() == 2) settle();
    }
    CHECK_THROWS_AS(d.logits(0), device_error);
    CHECK_THROWS_AS(d.copy_bandwidth(), device_error);
    settle();
    CHECK_THROWS_AS(d.wait(), device_error);
    return made;
  };
  auto expected = alone();
  expected[4].resize(9);  // it was away for three steps
  CHECK(run() == expected);
  {
    const stream_order now{emulation::eager};
    CHECK(run() == expected);
  }
  for (std::uint64_t seed = 1; seed <= (tessera_test::is_slow ? 1 : 3); ++seed) {
    const stream_order now{emulation::random, seed};
    CHECK(run() == expected);
  }
}

TEST_CASE("decoder: what cannot be in flight is refused, and nothing is in flight then") {
  decoder_options options = small();
  options.in_flight = 2;
  device_decoder d{options};
  block_list blocks{64};
  sequence s{some_prompts()[2]};
  batch first;
  first.add(s, s.length(), blocks);
  batch next;
  blocks.grow(s, s.length() + 1);
  next.tokens = {-1};
  next.rows = {{s.length(), 1, true}};
  next.indices = s.blocks;
  next.indptr = {0, static_cast<std::int32_t>(s.blocks.size())};
  const auto refused = [&](const batch& b) { return message_of([&] { d.launch(b.view()); }); };
  CHECK(refused(next).find("vocabulary") != std::string::npos);  // no step is before it
  d.launch(first.view());
  next.tokens = {-2};
  CHECK(refused(next).find("vocabulary") != std::string::npos);  // a row samples in that, not two
  CHECK_THROWS_AS(d.wait(), device_error);
  next.tokens = {-1};
  d.launch(first.view());
  d.launch(next.view());
  CHECK(refused(next).find("more steps in flight") != std::string::npos);
  d.launch(first.view());
  d.launch(next.view());
  CHECK(d.wait().sampled[0] == alone()[2][0]);
  CHECK(d.wait().sampled[0] == alone()[2][1]);
  next.tokens = {alone()[2][0]};
  CHECK(d.step(next.view()).sampled[0] == alone()[2][1]);
  options.in_flight = 0;
  CHECK(message_of([&] { device_decoder{options}; }).find("in_flight must be") != std::string::npos);
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
