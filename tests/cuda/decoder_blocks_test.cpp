// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Blocks that are copied, swapped, scattered or dropped.

#include <decoder.cuh>

#include "decoder_case.hpp"
#include "reference.hpp"

#include <support/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

using namespace cuda_decode;
namespace emulation = device::emulation;
using cuda_decode_test::decoder_case::alone;
using cuda_decode_test::decoder_case::batch;
using cuda_decode_test::decoder_case::block_list;
using cuda_decode_test::decoder_case::block_size;
using cuda_decode_test::decoder_case::generate;
using cuda_decode_test::decoder_case::sequence;
using cuda_decode_test::decoder_case::small;
using cuda_decode_test::decoder_case::some_prompts;
using cuda_decode_test::decoder_case::some_tokens;
using cuda_decode_test::decoder_case::stream_order;

}  // namespace

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

TEST_CASE("decoder: a sequence is computed again after its blocks were dropped") {
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
