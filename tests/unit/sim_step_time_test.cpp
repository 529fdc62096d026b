// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/model/step_time.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/step_shapes.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <queue>
#include <random>
#include <vector>

namespace {

namespace sim = tessera::sim;
using namespace tessera::literals;
using tessera::tokens;
using tessera_test::approx;
using tessera_test::decodes;
using tessera_test::prefill;

TEST_CASE("the shape of a step is a sum over its entries", "[sim]") {
  sim::step_shape s = decodes(3, 100);
  CHECK(s.decodes == 3);
  CHECK(s.decode_context == 300);
  s.add_prefill(5_tok, 4_tok);
  CHECK(s.prefill_tokens == 4);
  CHECK(s.prefill_context == 9);
  CHECK(s.prefill_pairs == 6 + 7 + 8 + 9);
  // In chunks or at once, the same pairs.
  sim::step_shape chunks;
  for (std::int64_t first = 0; first < 100; first += 20) chunks.add_prefill(tokens{first}, 20_tok);
  CHECK(chunks.prefill_pairs == prefill(0, 100).prefill_pairs);
  CHECK(chunks.prefill_pairs == 100 * 101 / 2);
  CHECK(sim::step_shape{}.empty());
  CHECK_FALSE(s.empty());
}

TEST_CASE("the roofline by hand", "[sim]") {
  sim::profile p = sim::profiles()[0];
  // Numbers that are easy to follow: 1 s for the weights, 1 ms per token of arithmetic, 1 us per KV token.
  p.model.layers = 1;
  p.model.query_heads = 1;
  p.model.kv_heads = 1;
  p.model.head_dim = 1;
  p.model.bytes_per_kv_value = 0.5;  // 1 byte a token.
  p.model.parameters = 0.5e6;
  p.model.bytes_per_weight = 2;  // 1e6 bytes.
  p.gpu.bytes_per_s = 2e6;
  p.gpu.bandwidth_efficiency = 0.5;
  p.gpu.flops = 2e9;
  p.gpu.flops_efficiency = 0.5;  // 2 * 0.5e6 / 1e9 = 1 ms a token; 4 / 1e9 = 4 ns a pair.
  p.gpu.launch_seconds = 0.5;
  const sim::step_timer t{p};
  CHECK(t({}) == 0);
  CHECK(t(decodes(1, 0)) == approx(0.5 + 1));
  CHECK(t(decodes(1000, 0)) == approx(0.5 + 1));
  CHECK(t(decodes(2000, 0)) == approx(0.5 + 2));
  CHECK(t(decodes(10, 1000)) == approx(0.5 + 1 + 0.01));
  CHECK(t(prefill(0, 4000)) == approx(0.5 + 4 + 4e-9 * 4000 * 4001 / 2));
  CHECK(t(prefill(1'000'000, 1)) == approx(0.5 + 1 + 1.000001));  // One token reads all the KV: bound by memory.
  sim::step_shape mixed = decodes(10, 1000);
  mixed.add_prefill(0_tok, 4000_tok);
  CHECK(t(mixed) == approx(0.5 + 4.01 + 0.01 + 4e-9 * 4000 * 4001 / 2));
}

TEST_CASE("the built-in profiles cost what such hardware does", "[sim]") {
  const sim::step_timer h100{sim::profiles()[0]};
  CHECK(h100(decodes(1, 1000)) > 0.020);  // 65.5 GB at no more than 3.35 TB/s.
  CHECK(h100(decodes(1, 1000)) < 0.030);
  CHECK(h100(decodes(64, 1000)) == approx(0.030).epsilon(0.05));
  CHECK(h100(prefill(0, 1000)) > 0.066);  // 66 Tflop at no more than 989 Tflop/s.
  CHECK(h100(prefill(0, 1000)) < 0.130);
  // A step never gets shorter by more work.
  for (const sim::profile& p : sim::profiles()) {
    const sim::step_timer t{p};
    double before = 0;
    for (std::int64_t n = 1; n < 3000; n += 100) {
      CHECK(t(decodes(n, 500)) > before);
      before = t(decodes(n, 500));
    }
    before = 0;
    for (std::int64_t n = 1; n < 30'000; n += 1000) {
      CHECK(t(prefill(0, n)) > before * 0.999999);
      before = t(prefill(0, n));
    }
  }
  CHECK(sim::transfer_seconds(sim::profiles()[0], 2048_tok) == approx(0.043).epsilon(0.01));
  CHECK(sim::swap_seconds(sim::profiles()[0], 1000_tok) == approx(1000 * 262144 / 50e9));
}

sim::profile measured_profile() {
  sim::profile p = sim::profiles()[0];
  p.measured.decode = {{1, 0, 0.010}, {1, 1000, 0.012}, {11, 0, 0.020}, {11, 1000, 0.042}};
  p.measured.prefill = {{100, 0.05}, {300, 0.15}};
  return p;
}

const sim::profile& h20() {
  for (const sim::profile& p : sim::profiles()) {
    if (p.name == "h20-llama-3.2-3b") return p;
  }
  FAIL("no such profile");
  return sim::profiles().front();
}

sim::step_shape batch(const std::vector<std::int64_t>& contexts) {
  sim::step_shape s;
  for (const std::int64_t c : contexts) s.add_decode(tokens{c});
  return s;
}

/// Seconds until the last of the chunks is done, each handed to the multiprocessor that is free first, in this order.
double list_scheduled(const std::vector<double>& chunks, std::size_t multiprocessors) {
  std::priority_queue<double, std::vector<double>, std::greater<>> free;
  for (std::size_t i = 0; i != multiprocessors; ++i) free.push(0);
  double last = 0;
  for (const double c : chunks) {
    const double end = free.top() + c;
    free.pop();
    free.push(end);
    last = std::max(last, end);
  }
  return last;
}

TEST_CASE("a batch of mixed lengths takes 1.1 to 2.1 times as long as a uniform one with as many tokens", "[sim]") {
  // CascadeInfer's figure 2: Llama-3.2-3B on an H100, 512 sequences, of 1,000 and 50,000 tokens or of 200 and 10,000.
  sim::profile h100 = h20();
  h100.gpu.bytes_per_s = 3.35e12;
  h100.gpu.flops = 989e12;
  h100.attention.multiprocessors = 132;
  const sim::step_timer timer{h100};
  for (const auto& [few, many] : {std::pair{1000, 50'000}, std::pair{200, 10'000}}) {
    double before = 1e9;
    double most = 0;
    for (std::size_t n = 1; n <= 51; n += 5) {
      std::vector<std::int64_t> lengths(512, few);
      std::fill_n(lengths.begin(), n, many);
      const std::int64_t all = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
      const double ratio = timer(batch(lengths)) / timer(decodes(512, all / 512));
      CAPTURE(few, n, ratio);
      CHECK(ratio > 1.1);
      CHECK(ratio < 2.3);
      CHECK(ratio < before);  // the more tokens in all, the less the one that is last matters
      before = ratio;
      most = std::max(most, ratio);
    }
    CHECK(most > 1.6);
  }
  // Nothing is lost on a uniform batch, nor on a device that spreads perfectly.
  CHECK(timer.tail(decodes(512, 1000)) == 0);
  CHECK(sim::step_timer{sim::profiles().front()}.tail(batch({1, 100'000})) == 0);
}

TEST_CASE("the tail of a mixed batch bounds what list scheduling of its chunks takes", "[sim]") {
  sim::profile p = h20();
  std::mt19937_64 random{7};
  for (int round = 0; round < 300; ++round) {
    p.attention.multiprocessors = 1 + static_cast<std::int64_t>(random() % 132);
    p.attention.splits = 1 + static_cast<double>(random() % 4);
    const sim::step_timer timer{p};
    const auto heads = static_cast<std::size_t>(p.model.kv_heads);
    const auto m = static_cast<std::size_t>(p.attention.multiprocessors);
    // Enough sequences for the device to be full, so that the chunks are whole.
    std::vector<std::int64_t> lengths(m + random() % 400);
    for (auto& l : lengths) l = random() % 10 == 0 ? 1 + static_cast<std::int64_t>(random() % 60'000) : 500;
    const double token_s = p.model.kv_bytes_per_token() / (p.gpu.bytes_per_s * p.gpu.bandwidth_efficiency);
    std::vector<double> chunks;
    for (const std::int64_t l : lengths) {
      const double chunk = static_cast<double>(l) / p.attention.splits / static_cast<double>(heads) * token_s;
      for (double i = 0; i < p.attention.splits * static_cast<double>(heads); ++i) {
        chunks.push_back(chunk * static_cast<double>(m));
      }
    }
    std::shuffle(chunks.begin(), chunks.end(), random);
    const double longest = *std::max_element(chunks.begin(), chunks.end());
    const double mean = std::accumulate(chunks.begin(), chunks.end(), 0.0) / static_cast<double>(chunks.size());
    const double even = std::accumulate(chunks.begin(), chunks.end(), 0.0) / static_cast<double>(m);
    const double parts = static_cast<double>(m - 1) / static_cast<double>(m);
    const double tail = timer.tail(batch(lengths));
    CHECK(tail == approx((longest - mean) * parts).epsilon(1e-6));
    // With what a uniform batch loses it is a bound for any order, and never twice what the best order takes.
    CHECK(list_scheduled(chunks, m) <= (even + tail + mean * parts) * (1 + 1e-9));
    std::sort(chunks.begin(), chunks.end(), std::greater<>{});
    CHECK(even + tail <= 2 * list_scheduled(chunks, m));
  }
}

TEST_CASE("measured tables are met at their points and linear in between", "[sim]") {
  const sim::profile p = measured_profile();
  const sim::step_timer t{p};
  for (const auto& d : p.measured.decode) CHECK(t(decodes(d.batch, d.context)) == approx(d.seconds));
  CHECK(t(decodes(1, 500)) == approx(0.011));
  CHECK(t(decodes(6, 0)) == approx(0.015));
  CHECK(t(decodes(6, 500)) == approx((0.010 + 0.012 + 0.020 + 0.042) / 4));
  CHECK(t(decodes(21, 0)) == approx(0.030));  // On along the last segment.
  CHECK(t(decodes(1, 2000)) == approx(0.014));
  for (const auto& d : p.measured.prefill) CHECK(t(prefill(0, d.length)) == approx(d.seconds));
  // Linear, except the pairs of attention, which are nearly nothing here.
  CHECK(t(prefill(0, 200)) == approx(0.10).epsilon(1e-3));
  CHECK(t(prefill(0, 400)) == approx(0.20).epsilon(1e-3));
  CHECK(t(prefill(0, 10)) == approx(0.05));  // Never less than the first point.
  CHECK(t(prefill(5000, 200)) > t(prefill(0, 200)));
  sim::step_shape mixed = decodes(11, 1000);
  mixed.add_prefill(0_tok, 200_tok);
  // 211 tokens at 0.0005 s, less the attention pairs that a prompt of 211 has more than one of 200: nearly nothing.
  CHECK(t(mixed) == approx(0.1055 + 0.042 - 0.010).epsilon(1e-3));
  mixed = decodes(1, 0);
  mixed.add_prefill(0_tok, 200_tok);
  CHECK(t(mixed) == approx(0.1005).epsilon(1e-3));  // the weights are read once
  CHECK(t({}) == 0);
}

TEST_CASE("a table that is missing is the roofline", "[sim]") {
  sim::profile p = measured_profile();
  const sim::step_timer roofline{sim::profiles()[0]};
  p.measured.decode.clear();
  CHECK(sim::step_timer{p}(decodes(5, 700)) == roofline(decodes(5, 700)));
  p = measured_profile();
  p.measured.prefill.clear();
  CHECK(sim::step_timer{p}(prefill(10, 700)) == roofline(prefill(10, 700)));
  // One point is a constant.
  p.measured.decode = {{4, 100, 0.02}};
  CHECK(sim::step_timer{p}(decodes(1, 7)) == approx(0.02));
  CHECK(sim::step_timer{p}(decodes(100, 7000)) == approx(0.02));
}

TEST_CASE("costing a step allocates nothing", "[sim]") {
  const sim::step_timer roofline{sim::profiles()[0]};
  const sim::step_timer measured{measured_profile()};
  sim::step_shape mixed = decodes(11, 1000);
  mixed.add_prefill(0_tok, 200_tok);
  tessera_test::no_allocation guard;
  const double sum = roofline(mixed) + measured(mixed);
  const auto allocated = guard.allocations();
  CHECK(allocated == 0);
  CHECK(sum > 0);
}

}  // namespace
