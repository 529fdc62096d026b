// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A batch gives each sequence the tokens that it gets alone, however it is cut and padded.

#include <decoder.cuh>

#include "decoder_case.hpp"
#include "reference.hpp"

#include <support/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
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
using cuda_decode_test::decoder_case::model;
using cuda_decode_test::decoder_case::sequence;
using cuda_decode_test::decoder_case::small;
using cuda_decode_test::decoder_case::some_prompts;
using cuda_decode_test::decoder_case::some_tokens;
using cuda_decode_test::decoder_case::tolerance;
using test::reference;

}  // namespace

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
    batch none;  // no sequence samples
    none.add(a, 5, blocks);
    CHECK(d.step(none.view()).sampled.empty());
    CHECK_THROWS_AS(d.logits(0), device_error);
    for (sequence* s : {&a, &b, &c}) blocks.release(*s);
  }
}
