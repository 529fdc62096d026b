// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loop around the engine, on a clock that only the fake decoder moves.
#include "loop.hpp"
#include "check.hpp"
#include "cuda/virtual_device.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace cuda_decode;
using cuda_decode_test::fake_decoder;
using cuda_decode_test::virtual_device;
using cuda_decode_test::virtual_options;
using tessera_test::approx;

TEST_CASE("loop: what one request sees is the sum of its steps") {
  virtual_device v{virtual_options()};
  const auto& c = v.cost;
  const sim::trace_row row{
      .arrival_s = 2, .prompt_tokens = 1500, .output_tokens = 5, .reasoning_tokens = 2, .answer_tokens = 3};
  const loop_result r = run_trace(compositions().front(), v.fake, v.loop(virtual_options()), {&row, 1}, 50, 1);
  REQUIRE(r.run.requests.size() == 1);
  const sim::request_record& a = r.run.requests.front();
  // The budget cuts the prompt in two; the second chunk gives the first token.
  double t = 2 + 2 * c.step + c.prompt_token * 1500 + c.pair * (1500.0 * 1501 / 2);
  CHECK(a.arrival == 2);
  CHECK(a.first_scheduled == 2);
  CHECK(a.first_token == approx(t).epsilon(1e-12));
  t += c.step + c.row + c.context_token * 1501;
  CHECK(a.phase_change == approx(t).epsilon(1e-12));
  CHECK(a.answer_scheduled == a.phase_change);
  t += c.step + c.row + c.context_token * 1502;
  CHECK(a.first_answer == approx(t).epsilon(1e-12));
  t += 2 * (c.step + c.row) + c.context_token * (1503 + 1504);
  CHECK(a.finish == approx(t).epsilon(1e-12));
  CHECK(a.executed == approx(t - 2).epsilon(1e-12));
  CHECK(a.blocked == approx(0).margin(1e-12));
  CHECK(a.preempted == 0);
  CHECK(a.qoe == 1);
  CHECK(r.split.steps() == 6);
  CHECK(r.split.total(step_part::kernels) == approx(t - 2).epsilon(1e-12));
  CHECK(r.run.numbers.completed == 1);
}

TEST_CASE("loop: requests come on the clock, and what never fits is refused") {
  virtual_device v{virtual_options()};
  const std::vector<sim::trace_row> rows{
      {.arrival_s = 0.5, .prompt_tokens = 10, .output_tokens = 3, .reasoning_tokens = 0, .answer_tokens = 3},
      {.arrival_s = 0.506, .prompt_tokens = 10, .output_tokens = 1, .reasoning_tokens = 1, .answer_tokens = 0},
      {.arrival_s = 4, .prompt_tokens = 4096, .output_tokens = 2, .reasoning_tokens = 0, .answer_tokens = 2},
      {.arrival_s = 4, .prompt_tokens = 20, .output_tokens = 1, .reasoning_tokens = 0, .answer_tokens = 1}};
  for (const composition& c : compositions()) {
    const loop_result r = run_trace(c, v.fake, v.loop(virtual_options()), rows, 50, 1);
    INFO(c.name);
    REQUIRE(r.run.requests.size() == 4);
    CHECK(r.run.requests[0].first_scheduled == 0.5);
    // It came while the second step ran.
    CHECK(r.run.requests[1].first_scheduled > 0.506);
    CHECK(r.run.requests[1].arrival == 0.506);
    CHECK(r.run.requests[1].completed());
    CHECK(r.run.requests[2].rejected);
    CHECK(!r.run.requests[2].completed());
    CHECK(r.run.requests[3].first_scheduled == 4);
    CHECK(r.run.numbers.completed == 3);
    CHECK(r.run.numbers.rejected == 1);
  }
}

TEST_CASE("loop: the same load gives the same requests, and lengths within their bounds") {
  const made_up_load l{.requests = 300, .rate = 5, .seed = 4};
  const auto rows = make_rows(l);
  double before = 0;
  for (const sim::trace_row& r : rows) {
    CHECK((r.prompt_tokens >= 64 && r.prompt_tokens <= 1024));
    CHECK((r.reasoning_tokens >= 32 && r.reasoning_tokens <= 512));
    CHECK((r.answer_tokens >= 8 && r.answer_tokens <= 128));
    CHECK(r.output_tokens == r.reasoning_tokens + r.answer_tokens);
    CHECK(r.arrival_s > before);
    before = r.arrival_s;
  }
  CHECK(before == approx(60).epsilon(0.2));
  const auto a = load_of(rows, 100, 1);
  const auto b = load_of(rows, 100, 1);
  const auto other = load_of(rows, 100, 2);
  CHECK(a.front().request.sequence == b.front().request.sequence);
  CHECK(a.front().request.sequence != other.front().request.sequence);
  for (const arrival& x : a) {
    for (const std::int32_t t : x.request.sequence) REQUIRE((t >= 0 && t < 100));
    CHECK(x.request.reasoning < x.request.output);
  }
}

TEST_CASE("loop: compositions by name") {
  CHECK(select_compositions("pascal,fcfs").size() == 2);
  CHECK(select_compositions("pascal,fcfs").front()->name == "pascal");
  for (const char* bad : {"", "best", "fcfs,", "fcfs,,pascal"}) {
    CHECK_THROWS_AS(select_compositions(bad), sim::usage_error);
  }
}

TEST_CASE("loop: the parts of a step") {
  step_split s;
  for (int i = 0; i < 99; ++i) {
    s.add(1e-3, {.swap = 2e-3, .upload = 1e-3, .sort = 5e-4, .kernels = 1e-2, .host = 1e-3}, 2e-2);
  }
  s.add(1e-3, {.kernels = 1}, 0.9);  // device and host clocks need not agree
  CHECK(s.steps() == 100);
  CHECK(s.total(step_part::scheduling) == approx(99 * 2e-3 + 1e-3));
  CHECK(s.total(step_part::copying) == approx(99 * 3e-3));
  CHECK(s.total(step_part::rest) == approx(99 * (2e-2 - 15.5e-3)));
  CHECK(s.mean(step_part::kernels) == approx((0.99 + 1) / 100));
  CHECK(s.p99(step_part::step) == approx(2e-2).epsilon(0.05));
  CHECK(s.share(step_part::step) == 1);
}

TEST_CASE("loop: the wall clock counts seconds as so many, and can be set back") {
  const loop_clock c = wall_clock(1000);
  c.restart();
  c.sleep_until(20);
  const double after = c.now();
  CHECK(after >= 20);
  CHECK(after < 20000);
  // It counts from the restart, however long ago that is.
  const auto before = std::chrono::steady_clock::now();
  c.restart();
  const double since = c.now();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - before;
  CHECK(since <= 1000 * passed.count());
}

/// Loses what comes back from the host.
class forgetful_decoder final : public decoder {
 public:
  explicit forgetful_decoder(decoder& d) : decoder_{&d} {}
  [[nodiscard]] decoder_facts facts() const override { return decoder_->facts(); }
  void launch(const step_batch& b) override {
    step_batch changed = b;
    std::vector<block_copy> swapped(b.swap_in.begin(), b.swap_in.end());
    if (swapped.size() > 1) std::swap(swapped[0].host, swapped[1].host);
    changed.swap_in = swapped;
    decoder_->launch(changed);
  }
  step_result wait() override { return decoder_->wait(); }
  [[nodiscard]] std::vector<float> logits(std::size_t i) override { return decoder_->logits(i); }
  [[nodiscard]] double copy_bandwidth() override { return 1; }
  [[nodiscard]] double attention_seconds(const step_batch& /*b*/) override { return 1; }
  void split(split_policy /*p*/) override {}

 private:
  decoder* decoder_;
};

TEST_CASE("check: finds what is wrong, and nothing where nothing is") {
  fake_decoder fake{preemption_check::decoder_for(virtual_options())};
  for (const check_result& r : preemption_check{fake, fake_decoder::vocabulary, 1}.run()) {
    INFO(r.name);
    CHECK(r.holds());
    CHECK(r.exact);
    CHECK(r.preemptions > 5);
    CHECK(r.tokens == 160);
    CHECK(r.different == 0);
  }
  forgetful_decoder forgetful{fake};
  const auto results = preemption_check{forgetful, fake_decoder::vocabulary, 1}.run();
  CHECK(!results[0].holds());
  CHECK(results[0].gap > 0.9);
  CHECK(results[1].holds());
  CHECK(!results[2].holds());
  CHECK(results[3].holds());
  CHECK(!results[4].holds());
  CHECK(results[5].holds());
}

}  // namespace
