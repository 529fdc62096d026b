// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support.hpp"

#include <load.hpp>
#include <profile.hpp>

#include <support/catch.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <cstdint>
#include <cstdio>
#include <list>
#include <map>
#include <string>
#include <vector>

namespace {

using namespace llama_cpp;

std::function<time_point()> counting_clock() {
  return [ms = 0]() mutable { return time_point::at_seconds(1e-3 * ++ms); };
}

void run_dry(server& s) {
  for (int i = 0; i < 100000 && !s.idle(); ++i) {
    s.step();
    s.deliver();
  }
  CHECK(s.idle());
  CHECK(s.in_use() == server::usage{});
}

TEST_CASE("malformed prompts are refused, with a reason") {
  const model& m = test::random_model();
  const auto refused = [&](std::string_view text) {
    served r;
    return prepare(r, text, m, tokens{10}, tokens{100}).value_or("accepted");
  };
  CHECK(refused("") == "the prompt is empty");
  CHECK(refused(" \t\r\n") == "the prompt is empty");
  CHECK(refused("\xff") == "the prompt is not UTF-8");
  CHECK(refused("caf\xc3") == "the prompt is not UTF-8");
  CHECK(refused("caf\xc3\xa9") == "accepted");
  CHECK(refused("a \xe2\x82\xac and \xf0\x9f\x98\x80") == "accepted");
  // With the token at the beginning, 90 letters and 10 tokens of output need KV for 100: the last needs none.
  CHECK(refused(std::string(90, 'x')) == "accepted");
  CHECK(refused(std::string(91, 'x')) ==
        "the prompt is too long: with 10 tokens of output it exceeds the context of 100");
  CHECK(refused(std::string(std::size_t{1} << 22, 'x')).substr(0, 22) == "the prompt is too long");
}

TEST_CASE("UTF-8 is what the standard says") {
  CHECK(is_utf8(""));
  CHECK(is_utf8(std::string_view{"\0", 1}));
  CHECK(is_utf8("\x7f \xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"));
  for (const char* bad : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2 ", "\xe0\x9f\xbf", "\xe0\xa0",
                          "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf0\x90\x80", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "\xff", "a\xfe", "\xe2\x28\xa1"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_utf8(bad));
  }
}

TEST_CASE("a text survives its tokens") {
  const model& m = test::random_model();
  const std::string text = "Add a7 k3. <think> caf\xc3\xa9\n";
  std::string back;
  for (const llama_token t : m.tokenize(text, false, false)) back += m.piece(t);
  CHECK(back == text);
  // What users write is not taken for a control token, unless the caller says so.
  CHECK(m.tokenize("</s>", false, false).size() == 4);
  CHECK(m.tokenize("</s>", true, false).size() == 1);
  CHECK(m.token_of("</think>") != std::nullopt);
  CHECK(m.token_of("</thin") == std::nullopt);
}

TEST_CASE("a reader gets the whole answer, in order, no faster than asked for") {
  const model& m = test::random_model();
  double now_s = 0;
  server_options o;
  o.clock = [&] { return time_point::at_seconds(now_s); };
  o.pace.tpot = tessera::duration{0.5};
  std::map<std::size_t, std::vector<std::pair<double, llama_token>>> read;
  o.read = [&](const served& r, std::span<const llama_token> released) {
    for (const llama_token t : released) read[r.id].emplace_back(now_s, t);
  };
  std::size_t closed = 0;
  o.closed = [&](served&) { ++closed; };
  const auto s = find_composition("pascal").make(m, o);
  std::list<served> requests;
  for (std::size_t i = 0; i < 5; ++i) {
    served& r = requests.emplace_back();
    r.id = i;
    r.fixed_length = true;
    r.reasoning_budget = tokens{static_cast<std::int64_t>(3 * i)};
    r.sequence = m.tokenize("some prompt");
    r.max_output = tokens{20};
    REQUIRE(ok(s->submit(r)));
  }
  for (int step = 0; step < 1000 && !s->idle(); ++step) {
    now_s += 0.125;
    s->step();
    s->deliver();
  }
  CHECK(s->idle());
  CHECK(closed == 5);
  for (const served& r : requests) {
    CAPTURE(r.id);
    const auto& got = read[r.id];
    const std::size_t reasoning = 3 * r.id;
    REQUIRE(got.size() == 20 - reasoning);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::size_t prompt = static_cast<std::size_t>(r.prompt.count());
      CHECK(got[i].second == r.sequence[prompt + reasoning + i]);
      if (i > 0) CHECK(got[i].first - got[i - 1].first >= 0.5 - 1e-9);
    }
    // The engine was eight times as fast as the reader, which never waited.
    CHECK(r.record.qoe == 1.0);
    CHECK(r.record.reasoning_tokens == static_cast<std::int64_t>(reasoning));
    CHECK(r.record.answer_tokens == static_cast<std::int64_t>(20 - reasoning));
    CHECK(r.record.ttft() > 0);
    CHECK(r.record.tpot() == 0.125);
  }
}

TEST_CASE("a hang-up at any moment leaves nothing behind") {
  const model& m = test::random_model();
  server_options o;
  o.clock = counting_clock();
  o.pace.tpot = tessera::duration{10};
  served* hangs_up = nullptr;
  std::unique_ptr<server> s;
  o.token = [&](const served& r, llama_token) {
    if (hangs_up == &r) {
      CHECK(s->cancel(*hangs_up));
      CHECK_FALSE(s->cancel(*hangs_up));
      hangs_up = nullptr;
    }
  };
  std::vector<const served*> closed;
  o.closed = [&](served& r) { closed.push_back(&r); };
  s = find_composition("fcfs").make(m, o);
  std::list<served> requests;
  const auto submit = [&](std::int64_t output) -> served& {
    served& r = requests.emplace_back();
    r.fixed_length = true;
    r.sequence = m.tokenize("some prompt");
    r.max_output = tokens{output};
    REQUIRE(ok(s->submit(r)));
    return r;
  };

  served& waiting = submit(9);
  CHECK(s->cancel(waiting));
  CHECK(waiting.state().life == tessera::lifecycle::cancelled);

  served& running = submit(9);
  s->step();
  CHECK(running.slot >= 0);
  CHECK(s->cancel(running));
  CHECK(running.slot < 0);

  served& in_step = submit(9);
  served& last_token = submit(1);
  hangs_up = &in_step;
  s->step();
  CHECK(in_step.state().life == tessera::lifecycle::cancelled);

  // Its answer is complete, but its reader is slow, and goes.
  CHECK(last_token.state().life == tessera::lifecycle::finished);
  served& slow = submit(5);
  for (int i = 0; i < 6; ++i) s->step();
  CHECK(slow.state().life == tessera::lifecycle::finished);
  CHECK_FALSE(s->idle());
  CHECK(s->cancel(slow));
  CHECK_FALSE(s->cancel(slow));

  // The first token goes out at once, and this answer had only one.
  s->deliver();
  CHECK_FALSE(s->cancel(last_token));
  CHECK(s->idle());
  CHECK(s->in_use() == server::usage{});
  CHECK(closed == std::vector<const served*>{&waiting, &running, &in_step, &slow, &last_token});
}

TEST_CASE("what part of a step scheduling is, of a tiny model: counted in every step, and told") {
  const model& m = test::random_model();
  server_options o;
  o.clock = counting_clock();
  o.pace.tpot = tessera::duration{1e-6};
  o.limits.residents = 64;
  o.limits.blocks = 64 * 16;
  o.limits.max_length = tokens{256};
  o.unified = false;  // the faster of the two kinds of cache, with so many sequences
  const auto s = find_composition("pascal").make(m, o);
  std::list<served> requests;
  sim::random_engine rng{1};
  detail::submit_alike(*s, requests, 64, tokens{32}, tokens{200}, m, rng);
  for (int i = 0; i < 20; ++i) s->step();  // all decode
  s->reset_counts();
  for (int i = 0; i < 150; ++i) s->step();
  const server_counts& n = s->counts();
  REQUIRE(n.steps == 150);
  REQUIRE(n.sampled == 150 * 64);
  const double part = n.scheduler_ns.quantile(0.5) / (1e9 * n.step_seconds / static_cast<double>(n.steps));
  std::printf("batch 64: a step takes %.3f ms, planning and committing it %.1f us (median): %.3f %%\n",
              1e3 * n.step_seconds / static_cast<double>(n.steps), n.scheduler_ns.quantile(0.5) / 1e3, 100 * part);
  CHECK(n.scheduler_ns.count() == 150);
  CHECK(part > 0);
  while (!s->live().empty()) s->cancel(*s->live().back());
  run_dry(*s);
}

TEST_CASE("step times are measured into a profile that the simulator reads") {
  const model& m = test::random_model();
  server_options o;
  o.clock = server_clock{100};
  o.limits.residents = 4;
  o.limits.blocks = 64;
  o.step_tokens = tokens{128};
  const sim::profile p = measure_profile(m, o, "tiny");
  const sim::profile back = sim::parse_profile(sim::to_json(p), "profile");
  CHECK(back.measured.decode.size() == 9);
  CHECK(back.measured.prefill.size() == 4);
  CHECK(back.kv_blocks(tokens{16}).count() == 64);
  const sim::step_timer timer{back};
  sim::step_shape one;
  one.add_decode(tokens{64});
  CHECK(timer(one) > 0);
}

TEST_CASE("an unknown composition is refused, with those that there are") {
  CHECK_THROWS_WITH(find_composition("best"), "unknown policy 'best'; there are: fcfs, round_robin, pascal");
}

}  // namespace
