// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The whole chain on a device with times that a formula gives: measured, simulated, and run.
#include "validate.hpp"
#include "cuda/virtual_device.hpp"
#include "profile.hpp"

#include "support/catch.hpp"

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace {

using namespace cuda_decode;
using cuda_decode_test::virtual_device;
using cuda_decode_test::virtual_options;
using tessera_test::approx;

TEST_CASE("validate: the simulator tells what the loop will do") {
  const decoder_options d = virtual_options();
  virtual_device v{d};
  v.fake.shared_blocks = true;
  const sim::profile p = profiler{v.fake, {.decoder = d, .loop = v.loop(d)}}.run().profile;
  v.fake.shared_blocks = false;
  loop_options o = v.loop(d);
  o.quantum = tokens{100};
  o.demote_above = tokens{600};
  o.limits.blocks = 300;  // so that memory binds
  // A third comes at once and the rest at the pace of the device.
  std::vector<sim::trace_row> rows = make_rows({.requests = 90, .rate = 12, .seed = 2});
  for (std::size_t i = 0; i < 30; ++i) rows[i].arrival_s = 0;
  std::vector<validation> all;
  for (const composition& c : compositions()) {
    all.push_back(validate(c, v.fake, p, o, rows, cuda_decode_test::fake_decoder::vocabulary, 1));
    const validation& one = all.back();
    INFO(format_validations({&one, 1}));
    CHECK(one.preemptions > 0);
    CHECK(one.simulated_preemptions > 0);
    CHECK(holds(one));
    for (const comparison& n : one.numbers) {
      CHECK(n.real > 0);
      // At saturation a few preemptions more or less move the answers' pace.
      CHECK(std::abs(n.error()) < (n.name == "tpot" ? 0.15 : 0.05));
    }
  }
  const auto json = to_json(all);
  CHECK(json.size() == 3);
  CHECK(json[2]["policy"] == "pascal");
  CHECK(json[2]["holds"] == true);

  // A profile of a device that is a tenth slower is found out.
  sim::profile slower = p;
  for (auto& x : slower.measured.decode) x.seconds *= 1.1;
  for (auto& x : slower.measured.prefill) x.seconds *= 1.1;
  const validation wrong = validate(compositions().front(), v.fake, slower, o, rows, 50, 1);
  CHECK(!holds(wrong));
}

// What script/gpu measures, on a device with the times that an H100 might have. Weights and KV are read at 85 % of its
// bandwidth, or 600 Tflop/s bind. With the uniform split, batches wait for their longest sequence.
TEST_CASE("validate: the loads of script/gpu on a device like an H100") {
  for (const split_policy split : {split_policy::balanced, split_policy::uniform}) {
    decoder_options d{.shape = model_shapes().back(),
                      .weights = {},
                      .kv_blocks = 28000,
                      .host_blocks = 2048,
                      .max_tokens = 4096,
                      .split = split};
    cuda_decode_test::step_cost c{.step = 5e-4,
                                  .weights = 5.3e-3,
                                  .product = 2.5e-5,
                                  .row = 1e-6,
                                  .context_token = 4.6e-8,
                                  .prompt_token = 0,
                                  .pair = 1.75e-9,
                                  .block = 4.2e-5};
    c.tail = c.context_token * 131 / (8 * 4);  // 132 multiprocessors, 8 KV heads, 4 splits
    virtual_device v{d, c};
    v.fake.shared_blocks = true;
    v.fake.multiprocessors = 132;
    v.fake.split(split);
    const profile_result r = profiler{v.fake, {.decoder = d, .loop = v.loop(d)}}.run();
    CHECK(std::abs(r.numbers["mixed_step"]["error"].get<double>()) < 0.01);
    if (split == split_policy::uniform) CHECK(r.profile.attention.splits == approx(4).epsilon(0.01));
    d.max_rows = 128;
    loop_options o = v.loop(d);
    o.quantum = tokens{100};
    o.demote_above = tokens{600};
    for (const bool tight : {false, true}) {
      o.limits.blocks = tight ? 640 : 8192;
      const auto rows = make_rows({.requests = tight ? 200U : 120U, .rate = tight ? 11.0 : 12.0});
      for (const composition& composed : compositions()) {
        const validation one = validate(composed, v.fake, r.profile, o, rows, d.shape.vocabulary, 1);
        INFO(format_validations({&one, 1}));
        CHECK((one.preemptions > 0) == tight);
        CHECK(holds(one));
      }
    }
  }
}

TEST_CASE("validate: errors are relative to what was measured") {
  sim::summary real;
  sim::summary simulated;
  real.e2e.mean = 10;
  simulated.e2e.mean = 10.4;
  real.ttft.mean = 2;
  simulated.ttft.mean = 1;
  CHECK(holds(compare("p", real, simulated)));
  CHECK(compare("p", real, simulated).numbers[0].error() == approx(-0.5));
  simulated.e2e.mean = 9.4;
  CHECK(!holds(compare("p", real, simulated)));
  simulated.e2e.mean = sim::never;
  CHECK(!holds(compare("p", real, simulated)));
}

}  // namespace
