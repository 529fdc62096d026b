// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Two steps in flight, and batches that are refused.

#include <decoder.cuh>

#include "decoder_case.hpp"
#include "reference.hpp"

#include <support/catch.hpp>
#include <support/is_slow.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace cuda_decode;
namespace emulation = device::emulation;
using cuda_decode_test::decoder_case::alone;
using cuda_decode_test::decoder_case::batch;
using cuda_decode_test::decoder_case::block_list;
using cuda_decode_test::decoder_case::message_of;
using cuda_decode_test::decoder_case::sequence;
using cuda_decode_test::decoder_case::small;
using cuda_decode_test::decoder_case::some_prompts;
using cuda_decode_test::decoder_case::stream_order;

}  // namespace

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

// The next step is launched without a wait for the one before: that step's tokens are taken on the device.
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
