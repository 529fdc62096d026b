// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The profiler on a device with times that a formula gives: it must find the formula.
#include "profile.hpp"
#include "cuda/virtual_device.hpp"

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace cuda_decode;
using cuda_decode_test::step_cost;
using cuda_decode_test::virtual_device;
using cuda_decode_test::virtual_options;
using tessera_test::approx;

profile_result measure(virtual_device& v, const decoder_options& d, bool quick = false) {
  v.fake.shared_blocks = true;
  return profiler{v.fake, {.name = "made-up", .decoder = d, .loop = v.loop(d), .quick = quick}}.run();
}

bool held(const profile_result& r, const std::string& words) {
  for (const auto& b : r.numbers["bars"]) {
    if (b["bar"].get<std::string>().find(words) != std::string::npos) return b["holds"].get<bool>();
  }
  FAIL("no bar about " << words);
  return false;
}

TEST_CASE("profile: the tables are what steps take, and the simulator reads them") {
  const decoder_options d = virtual_options();
  virtual_device v{d};
  const profile_result r = measure(v, d);
  const auto& decode = r.profile.measured.decode;
  REQUIRE(decode.size() == 6 * 4);  // 1 to 32 rows; 256, 1024, 2048, 4096 tokens
  for (const auto& p : decode) {
    const double batch = static_cast<double>(p.batch);
    CHECK(p.seconds ==
          approx(v.cost.step + batch * (v.cost.row + v.cost.context_token * static_cast<double>(p.context))));
  }
  for (const auto& p : r.profile.measured.prefill) {
    const double n = static_cast<double>(p.length);
    CHECK(p.seconds == approx(v.cost.step + v.cost.prompt_token * n + v.cost.pair * n * (n + 1) / 2));
  }
  CHECK(r.profile.measured.prefill.back().length == 1024);
  // The same steps as rows, and mixed ones beside them.
  const sim::step_file rows = sim::parse_steps(r.steps, "steps");
  CHECK(rows.steps.size() >= decode.size() + r.profile.measured.prefill.size() + 3);
  std::size_t mixed = 0;
  for (const sim::measured_step& s : rows.steps) {
    if (s.kind != sim::step_kind::mixed) continue;
    ++mixed;
    const auto n = static_cast<double>(s.tokens);
    const auto d = static_cast<double>(s.decodes);
    CHECK(s.seconds ==
          approx(v.cost.step + d * (v.cost.row + v.cost.context_token * static_cast<double>(s.context)) +
                 v.cost.prompt_token * n + v.cost.pair * (n * (n + 1) / 2 + n * static_cast<double>(s.history))));
  }
  CHECK(mixed >= 3);
  const sim::profile again = sim::parse_profile(sim::to_json(r.profile), "again");
  CHECK(sim::to_json(again) == sim::to_json(r.profile));
  CHECK(again.name == "made-up");
  CHECK(again.kv_blocks(tokens{16}) == tessera::blocks{512});
  CHECK(again.host_blocks(tokens{16}) == tessera::blocks{512});
  CHECK(again.attention.multiprocessors == 0);
  CHECK(sim::swap_seconds(again, tokens{16}) == approx(v.cost.block));

  // Steps that are not in the tables.
  const sim::step_timer timer{again};
  sim::random_engine rng{1};
  made_up_batch make{d.shape, 16, 512};
  for (int i = 0; i < 200; ++i) {
    const auto any = [&](std::int64_t low, std::int64_t high) {
      return low + static_cast<std::int64_t>(sim::uniform_below(rng, static_cast<std::uint64_t>(high - low + 1)));
    };
    sim::step_shape shape;
    std::vector<std::int64_t> contexts;
    for (std::int64_t n = any(1, 32); n > 0; --n) {
      contexts.push_back(any(256, 4096));
      shape.add_decode(tokens{contexts.back()});
    }
    CHECK(timer(shape) == approx(v.cost(make.decode(contexts), false)).epsilon(1e-9));
    sim::step_shape chunk;
    const std::int64_t first = any(0, 2000);
    const std::int64_t count = any(16, 1024);
    chunk.add_prefill(tokens{first}, tokens{count});
    CHECK(timer(chunk) == approx(v.cost(make.prefill(first, count), false)).epsilon(0.01));
    sim::step_shape both;
    both.add_decode(tokens{1000});
    both.add_prefill(tokens{}, tokens{512});
    CHECK(timer(both) == approx(v.cost(make.mixed(1, 1000, 0, 512), false)).epsilon(0.02));
  }
}

TEST_CASE("profile: the tail of a long sequence is found where there is one") {
  decoder_options d = virtual_options();
  step_cost c;
  c.step = 1e-4;
  // As the simulator has it, with the fake's 4 multiprocessors, 2 KV heads and 3 splits.
  c.tail = c.context_token * 3 / (2 * 3);
  virtual_device balanced{d, c};
  CHECK(measure(balanced, d).profile.attention.multiprocessors == 0);
  d.split = split_policy::uniform;
  virtual_device v{d, c};
  v.fake.split(split_policy::uniform);
  const profile_result r = measure(v, d);
  CHECK(r.profile.attention.multiprocessors == 4);
  CHECK(r.profile.attention.splits == approx(3).epsilon(0.01));
  CHECK(v.fake.policy == split_policy::uniform);
}

TEST_CASE("profile: bars hold where the device is near its limits, and only there") {
  const decoder_options d = virtual_options();
  step_cost c;
  // The fake copies at 1e12 bytes per second.
  c.context_token = static_cast<double>(d.shape.kv_bytes_per_token()) / 0.9e12;
  c.step = 1e-9;
  c.row = 0;
  virtual_device near{d, c};
  const profile_result good = measure(near, d, true);
  CHECK(held(good, "attention"));
  CHECK(held(good, "decode step"));
  CHECK(good.numbers["attention"].back()["of_copy"].get<double>() == approx(0.9));
  c.context_token *= 1.5;
  virtual_device far{d, c};
  const profile_result bad = measure(far, d, true);
  CHECK(!held(bad, "attention"));
  CHECK(!held(bad, "decode step"));
  CHECK(good.profile.measured.decode.size() < 6 * 4);
  CHECK(!held(bad, "one long among short"));
}

TEST_CASE("profile: a device that fails at any moment ends it with its error") {
  decoder_options d = virtual_options();
  d.max_rows = 4;
  d.max_tokens = 8;  // so that some wait while others run
  d.max_context = 256;
  std::size_t at = 0;
  for (bool failed = true; failed; at += 3) {
    virtual_device v{d};
    v.fake.fail_at = at;
    try {
      measure(v, d, true);
      failed = false;
    } catch (const device_error&) {
    }
  }
  CHECK(at > 100);
}

TEST_CASE("profile: warming up makes no batch that is too large, whatever the sizes") {
  for (const auto& [rows, tokens] : {std::pair<std::size_t, std::size_t>{1, 1},
                                     {2, 3},
                                     {32, 32},
                                     {32, 33},
                                     {32, 45},
                                     {200, 257},
                                     {256, 400},
                                     {500, 512}}) {
    CAPTURE(rows, tokens);
    decoder_options d = virtual_options();
    d.max_rows = rows;
    d.max_tokens = tokens;
    virtual_device v{d};
    v.fake.shared_blocks = true;
    CHECK_NOTHROW(warm_up(v.fake, d));
  }
}

TEST_CASE("profile: a decoder that is too small is refused") {
  decoder_options d = virtual_options();
  d.max_context = 16;
  virtual_device v{d};
  CHECK_THROWS_AS(measure(v, d), sim::usage_error);
}

}  // namespace
