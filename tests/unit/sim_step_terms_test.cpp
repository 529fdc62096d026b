// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/model/profiles.hpp>
#include <tessera/sim/model/step_time.hpp>

#include "support/catch.hpp"
#include "support/step_shapes.hpp"

#include <cmath>
#include <cstdint>

namespace {

namespace sim = tessera::sim;
using namespace tessera::literals;
using tessera::tokens;
using tessera_test::approx;
using tessera_test::decodes;
using tessera_test::prefill;

sim::step_shape mixed(std::int64_t n, std::int64_t context, std::int64_t first, std::int64_t count) {
  sim::step_shape s = decodes(n, context);
  s.add_prefill(tokens{first}, tokens{count});
  return s;
}

/// 1 s for the weights, 1 ms a token of arithmetic, 1 us a KV token, 4 ns a pair.
sim::profile plain() {
  sim::profile p = sim::profiles()[0];
  p.model.layers = 1;
  p.model.query_heads = 1;
  p.model.kv_heads = 1;
  p.model.head_dim = 1;
  p.model.bytes_per_kv_value = 0.5;
  p.model.parameters = 0.5e6;
  p.model.bytes_per_weight = 2;
  p.gpu.bytes_per_s = 2e6;
  p.gpu.bandwidth_efficiency = 0.5;
  p.gpu.flops = 2e9;
  p.gpu.flops_efficiency = 0.5;
  p.gpu.launch_seconds = 0.5;
  return p;
}

TEST_CASE("each term of a step by hand", "[sim]") {
  const sim::profile base = plain();
  const sim::step_timer before{base};
  sim::profile p = base;

  SECTION("attention's own rates") {
    p.terms.kv_bandwidth_efficiency = 0.25;
    p.terms.attention_flops_efficiency = 0.1;
    const sim::step_timer t{p};
    CHECK(t(decodes(10, 1000)) - before(decodes(10, 1000)) == approx(0.01));
    CHECK(t(prefill(0, 4000)) - before(prefill(0, 4000)) == approx(16e-9 * 4000 * 4001 / 2));
  }
  SECTION("a soft knee") {
    p.terms.knee = 2;
    const sim::step_timer t{p};
    CHECK(t(decodes(1000, 0)) == approx(0.5 + std::sqrt(2.0)));
    CHECK(t(decodes(2000, 0)) == approx(0.5 + std::sqrt(5.0)));
    p.terms.knee = 200;  // as good as sharp
    CHECK(sim::step_timer{p}(decodes(2000, 0)) == approx(before(decodes(2000, 0))));
    CHECK(sim::step_timer{p}(decodes(1, 0)) == approx(before(decodes(1, 0))));
  }
  SECTION("requests, tokens, the host") {
    p.terms.request_seconds = 0.001;
    p.terms.token_seconds = 0.0001;
    p.terms.host_step_seconds = 0.25;
    const sim::step_timer t{p};
    const sim::step_shape s = mixed(7, 100, 0, 20);
    CHECK(t(s) - before(s) == approx(0.008 + 0.0027 + 0.25));
    CHECK(t({}) == 0);
  }
  SECTION("a least context") {
    p.terms.least_context = 64;
    const sim::step_timer t{p};
    CHECK(t(decodes(10, 1)) == t(decodes(10, 64)));
    CHECK(t(decodes(10, 100)) == before(decodes(10, 100)));
  }
  SECTION("slower decodes beside a chunk, and the longest history") {
    p.terms.mixed_kv_factor = 3;
    CHECK(sim::step_timer{p}(decodes(10, 1000)) == before(decodes(10, 1000)));
    CHECK(sim::step_timer{p}(mixed(10, 1000, 0, 5)) - before(mixed(10, 1000, 0, 5)) == approx(0.02));
    p.terms.longest_history_factor = 20;  // at the peak a token takes 0.5 us, so 10 us
    const sim::step_timer t{p};
    CHECK(t(decodes(10, 1000)) == before(decodes(10, 1000)));
    CHECK(t(prefill(50'000, 5)) == approx(0.5 + 1 + 0.50005));
    CHECK(t(mixed(1, 100'000, 0, 5)) == approx(0.5 + 1 + 1.0));
    // Where the sums are longer they stay.
    CHECK(t(mixed(100, 1000, 0, 5)) == approx(0.5 + 1 + 0.3 + 5e-6));
  }
}

TEST_CASE("a mixture of experts reads what its tokens are sent to", "[sim]") {
  sim::profile p = plain();
  p.model.experts = 8;
  p.model.experts_per_token = 2;
  p.model.active_parameters = 0.5e6 - 6 * 0.05e6;  // 8 experts of 0.05e6 and 0.1e6 that all share
  CHECK(p.model.expert_parameters() == approx(0.4e6));
  const sim::step_timer t{p};
  CHECK(t(decodes(1, 0)) == approx(0.5 + 0.2 + 0.8 * 0.25));
  CHECK(t(decodes(2, 0)) == approx(0.5 + 0.2 + 0.8 * (1 - 0.75 * 0.75)));
  CHECK(t(decodes(100, 0)) == approx(0.5 + 1));
  CHECK(t(decodes(10'000, 0)) == approx(0.5 + 2 * 0.2e6 * 1e4 / 1e9));
}

TEST_CASE("devices that share layers, and devices that share the model", "[sim]") {
  sim::profile p = plain();
  p.model.kv_heads = p.model.query_heads = 4;
  p.model.bytes_per_kv_value = 0.125;
  const sim::step_timer one{p};
  p.parallel = {.tensor = 4, .pipeline = 1, .bytes_per_s = 1e6, .latency_s = 0.01};
  // Two all-reduces of a layer: 10 ms each, and 2 * 3/4 of 8 bytes a token.
  const auto said = [](double n) { return 2 * (0.01 + 1.5 * 8e-6 * n); };
  CHECK(sim::step_timer{p}(decodes(10, 1000)) == approx(0.5 + 1.01 / 4 + said(10)));
  p.model.hidden_size = 2;  // and not as wide as the heads together
  CHECK(sim::step_timer{p}(decodes(10, 1000)) == approx(0.5 + 1.01 / 4 + said(5)));
  p.model.hidden_size = 0;
  p.parallel.tensor = 8;  // of 4 heads: KV is not split further
  CHECK(sim::step_timer{p}(decodes(10, 1000)) ==
        approx(0.5 + 1.0 / 8 + 0.01 / 4 + 2 * (0.01 + 2 * 7.0 / 8 * 8e-6 * 10)));
  // Two micro-batches of five, through all layers; a single request gains nothing.
  p.parallel = {.tensor = 1, .pipeline = 2, .bytes_per_s = 1e6, .latency_s = 0.01};
  const sim::step_timer two{p};
  CHECK(two(decodes(4000, 0)) == approx(0.5 + 2 + 0.02 + 8e-6 * 2000));
  CHECK(two(prefill(0, 4000)) == approx(one(prefill(0, 4000)) + 0.02 + 8e-6 * 4000));
}

TEST_CASE("a ragged table: each batch with the contexts that fit", "[sim]") {
  sim::profile p = plain();
  p.measured.decode = {{1, 100, 0.010},  {1, 1000, 0.012},  {1, 10'000, 0.030},
                       {10, 100, 0.020}, {10, 1000, 0.040}, {100, 100, 0.050}};
  const sim::step_timer t{p};
  for (const auto& d : p.measured.decode) CHECK(t(decodes(d.batch, d.context)) == approx(d.seconds));
  CHECK(t(decodes(1, 5500)) == approx(0.021));
  CHECK(t(decodes(10, 1900)) == approx(0.060));                     // on along its own last segment
  CHECK(t(decodes(100, 200)) == approx(0.050 + 100 * 100 * 1e-6));  // one context: the roofline's cost of KV
  CHECK(t(decodes(55, 100)) == approx(0.035));
  // In mixed steps the tables take the mixed factor.
  p.measured.prefill = {{10, 0.02}, {1000, 0.5}};
  const double plain_mixed = sim::step_timer{p}(mixed(10, 1000, 0, 90));
  p.terms.mixed_kv_factor = 2;
  CHECK(sim::step_timer{p}(mixed(10, 1000, 0, 90)) - plain_mixed == approx(0.030));
}

TEST_CASE("a table of prefill is extended by its pairs, not linearly", "[sim]") {
  // Seconds that are linear in the tokens and quadratic by the pairs: met wherever two points are known.
  sim::profile p = plain();
  const auto truth = [](double n) { return 0.01 + 0.0001 * n + 4e-9 * n * (n + 1) / 2; };
  for (const std::int64_t n : {256, 1024, 2048}) p.measured.prefill.push_back({n, truth(static_cast<double>(n))});
  const sim::step_timer t{p};
  for (const std::int64_t n : {300, 1500, 2048, 4096, 8192, 32'768}) {
    CHECK(t(prefill(0, n)) == approx(truth(static_cast<double>(n))));
  }
  // In chunks the pairs are those of the whole.
  CHECK(t(prefill(0, 4096)) + t(prefill(4096, 4096)) == approx(truth(8192) + 0.01).epsilon(1e-9));
}

}  // namespace
