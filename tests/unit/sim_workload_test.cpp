// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/input/workload.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace {

namespace sim = tessera::sim;
using tessera_test::approx;

TEST_CASE("tables of quantiles never fall", "[sim]") {
  CHECK(std::is_sorted(sim::quantile_levels.begin(), sim::quantile_levels.end()));
  CHECK(sim::quantile_levels.front() == 0);
  CHECK(sim::quantile_levels.back() == 1);
  for (const sim::workload& w : sim::workloads()) {
    INFO(w.name);
    CHECK_FALSE(w.source.empty());
    CHECK_FALSE(w.summary.empty());
    CHECK(w.rate > 0);
    for (const sim::length_law& law : w.laws) {
      for (const sim::quantile_table* t : {law.prompt, law.first, law.second}) {
        if (t == nullptr) continue;
        CHECK(std::is_sorted(t->values.begin(), t->values.end()));
        CHECK(t->values.front() >= 0);
      }
      CHECK((law.second != nullptr) == (law.is != sim::length_law::form::answer));
    }
    CHECK(w.laws.empty() == w.sessions.has_value());
    if (!w.sessions) continue;
    const sim::session_law& law = *w.sessions;
    for (const sim::quantile_table* t : {law.turns, law.first, law.fresh, law.answer, law.think}) {
      CHECK(std::is_sorted(t->values.begin(), t->values.end()));
      CHECK(t->values.front() >= 0);
    }
  }
}

TEST_CASE("a table's mean is the mean of what is drawn", "[sim]") {
  constexpr sim::quantile_table line = [] {
    sim::quantile_table t{};
    for (std::size_t i = 0; i < t.values.size(); ++i) t.values[i] = 100 * sim::quantile_levels[i];
    return t;
  }();
  static_assert(line.mean() > 49.999 && line.mean() < 50.001);
  CHECK(line.at(0.123) == approx(12.3));
  for (const double u : {0.0, 0.01, 0.5, 0.999, 1.0}) CHECK(line.at(u) == approx(100 * u));
}

TEST_CASE("every workload draws what its tables say", "[sim]") {
  for (const sim::workload& w : sim::workloads()) {
    INFO(w.name);
    if (w.sessions) continue;
    const auto rows = sim::generate(w, 60'000);
    REQUIRE(rows.size() == 60'000);
    double prompt = 0;
    double reasoning = 0;
    double answer = 0;
    double previous = 0;
    bool sound = true;
    for (const sim::trace_row& r : rows) {
      sound = sound && r.prompt_tokens >= 1 && r.answer_tokens >= 1 && r.reasoning_tokens >= 0 &&
              r.output_tokens == r.reasoning_tokens + r.answer_tokens && r.arrival_s >= previous && std::isnan(r.score);
      previous = r.arrival_s;
      prompt += static_cast<double>(r.prompt_tokens);
      reasoning += static_cast<double>(r.reasoning_tokens);
      answer += static_cast<double>(r.answer_tokens);
    }
    CHECK(sound);
    const auto expected = sim::mean_lengths(w);
    CHECK(prompt / 60'000 == approx(expected.prompt).epsilon(0.05));
    CHECK(reasoning / 60'000 == approx(expected.reasoning).epsilon(0.03).margin(0.01));
    CHECK(answer / 60'000 == approx(expected.answer).epsilon(0.03));
    CHECK(sim::mean_rate(rows) == approx(w.rate).epsilon(0.02));
  }
}

TEST_CASE("the workloads have the published shape", "[sim]") {
  // Azure 2023 conversation: mean prompt 1155 and output 211 tokens, 5.5 requests per second.
  const auto azure = sim::mean_lengths(sim::find_workload("azure-conv"));
  CHECK(azure.prompt == approx(1155).epsilon(0.02));
  CHECK(azure.answer == approx(211).epsilon(0.02));
  CHECK(azure.reasoning == 0);
  CHECK(sim::find_workload("azure-conv").rate == approx(5.5).epsilon(0.01));

  // A chat: most reason for less than 1,000 tokens, and the answers are of the same order.
  const auto rows = sim::generate(sim::find_workload("reasoning-chat"), 20'000);
  const auto brief = std::count_if(rows.begin(), rows.end(), [](const auto& r) { return r.reasoning_tokens < 1000; });
  CHECK(static_cast<double>(brief) / 20'000 > 0.7);
  const auto chat = sim::mean_lengths(sim::find_workload("reasoning-chat"));
  CHECK(chat.reasoning / chat.answer < 1.5);
  CHECK(chat.reasoning / chat.answer > 1 / 1.5);
  const auto heavy = sim::mean_lengths(sim::find_workload("reasoning-heavy"));
  CHECK(heavy.reasoning / heavy.answer > 4);
}

TEST_CASE("reasoning and answer are correlated as far as the workload says", "[sim]") {
  // With probability c at the same level, else independent: the rank correlation is c.
  sim::workload w = sim::find_workload("reasoning-chat");
  for (const double c : {0.0, 0.5, 1.0}) {
    for (sim::length_law& law : w.laws) law.correlation = c;
    auto rows = sim::generate(w, 20'000);
    const auto n = static_cast<double>(rows.size());
    std::vector<double> rank(rows.size());
    std::vector<std::size_t> order(rows.size());
    const auto ranks = [&](auto key) {
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(rows[a]) < key(rows[b]); });
      std::vector<double> r(order.size());
      for (std::size_t i = 0; i < order.size(); ++i) r[order[i]] = static_cast<double>(i);
      return r;
    };
    const auto a = ranks([](const auto& r) { return r.reasoning_tokens; });
    const auto b = ranks([](const auto& r) { return r.answer_tokens; });
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    CHECK(1 - 6 * sum / (n * (n * n - 1)) == approx(c).margin(0.03));
  }
}

std::uint64_t fingerprint(const std::vector<sim::trace_row>& rows) {
  std::uint64_t h = 14695981039346656037U;
  for (const sim::trace_row& r : rows) {
    for (const std::uint64_t word :
         {std::bit_cast<std::uint64_t>(r.arrival_s), static_cast<std::uint64_t>(r.prompt_tokens),
          static_cast<std::uint64_t>(r.reasoning_tokens), static_cast<std::uint64_t>(r.answer_tokens)}) {
      h = (h ^ word) * 1099511628211U;
    }
  }
  return h;
}

TEST_CASE("the same seed gives the same workload, here and elsewhere", "[sim]") {
  const sim::workload& w = sim::find_workload("reasoning-chat");
  CHECK(fingerprint(sim::generate(w, 1000, 5, 9)) == fingerprint(sim::generate(w, 1000, 5, 9)));
  CHECK(fingerprint(sim::generate(w, 1000, 5, 9)) != fingerprint(sim::generate(w, 1000, 5, 10)));
  // Recorded: a change means that results are no longer comparable with earlier ones.
  CHECK(fingerprint(sim::generate(w, 1000, 5, 9)) == 13895532193639403396U);
  CHECK(fingerprint(sim::generate(sim::find_workload("azure-conv"), 1000, 5, 9)) == 9670971864288640431U);
  CHECK(fingerprint(sim::generate(sim::find_workload("r1-servegen"), 1000, 5, 9)) == 14707617785326802731U);
}

TEST_CASE("sessions are drawn as their tables say", "[sim]") {
  for (const sim::workload& w : sim::workloads()) {
    if (!w.sessions) continue;
    INFO(w.name);
    const sim::session_law& law = *w.sessions;
    constexpr std::size_t n = 60'000;
    const auto rows = sim::generate(w, n);
    REQUIRE(rows.size() == n);
    std::int64_t sessions = 0;
    double first = 0;
    double answers = 0;
    double think = 0;
    bool sound = true;
    for (std::size_t i = 0; i != n; ++i) {
      const sim::trace_row& r = rows[i];
      const bool later = i != 0 && r.session == rows[i - 1].session;
      sound = sound && r.reasoning_tokens == 0 && r.output_tokens == r.answer_tokens && r.answer_tokens >= 1;
      answers += static_cast<double>(r.answer_tokens);
      if (later) {
        sound = sound && r.runs.empty() && r.arrival_s == rows[i - 1].arrival_s &&
                r.prompt_tokens > rows[i - 1].prompt_tokens + rows[i - 1].output_tokens &&
                r.prompt_tokens + r.output_tokens <= law.longest;
        think += r.think_s;
      } else {
        sound = sound && r.session == sessions && (i == 0 || r.arrival_s > rows[i - 1].arrival_s);
        sound = sound && r.runs.empty() == (law.shared == 0);
        const auto whose = static_cast<std::uint64_t>(std::max(r.tenant, 0));
        sound = sound && (r.runs.empty() ||
                          r.runs == std::vector<sim::text_run>{{whose, std::min(law.shared, r.prompt_tokens)}});
        ++sessions;
        first += static_cast<double>(r.prompt_tokens);
      }
    }
    CHECK(sound);
    const auto count = static_cast<double>(sessions);
    CHECK(first / count == approx(law.first->mean()).epsilon(0.03));
    // Long answers end sessions more often, so those that are left are a little shorter.
    CHECK(answers / n < 1.01 * law.answer->mean());
    CHECK(answers / n > 0.9 * law.answer->mean());
    CHECK(think / (n - count) == approx(law.think->mean()).epsilon(0.03));
    CHECK(n / count < 1.01 * law.turns->mean());
    CHECK(n / count > 0.5 * law.turns->mean());
    CHECK(sim::mean_rate(rows) == approx(w.rate).epsilon(0.03));
    CHECK(fingerprint(sim::generate(w, 1000, 5, 9)) == fingerprint(sim::generate(w, 1000, 5, 9)));
    CHECK(fingerprint(sim::generate(w, 1000, 5, 9)) != fingerprint(sim::generate(w, 1000, 5, 10)));
  }
}

TEST_CASE("a trace with sessions and no arrivals: later turns take none", "[sim]") {
  const auto t = sim::parse_trace(
      "session,think_s,prompt_tokens,output_tokens\na,,1,1\nb,,1,1\na,2,3,1\n,,5,1\nb,1,3,1\nb,1,9,1\n", "t.csv");
  const auto rows = sim::schedule_arrivals(t, {.rate = 8, .arrivals = {.cv = 0}});
  // Three of six come by themselves: 4 a second.
  const double expected[] = {0.25, 0.5, 0.5, 0.75, 0.75, 0.75};
  for (std::size_t i = 0; i != rows.size(); ++i) CHECK(rows[i].arrival_s == expected[i]);
}

TEST_CASE("another rate or number of requests is the same work, faster or longer", "[sim]") {
  const sim::workload& w = sim::find_workload("r1-servegen");
  const auto slow = sim::generate(w, 1000, 1, 3);
  const auto fast = sim::generate(w, 2000, 4, 3);
  bool same = true;
  for (std::size_t i = 0; i < slow.size(); ++i) {
    same = same && slow[i].prompt_tokens == fast[i].prompt_tokens && slow[i].output_tokens == fast[i].output_tokens &&
           slow[i].arrival_s == 4 * fast[i].arrival_s;
  }
  CHECK(same);
}

TEST_CASE("arrivals have the variation they are asked for", "[sim]") {
  for (const double cv : {0.0, 0.5, 1.0, 3.0}) {
    INFO("cv " << cv);
    sim::arrival_generator arrivals{{cv}, 10, 1};
    double previous = 0;
    double sum = 0;
    double square = 0;
    constexpr int n = 200'000;
    for (int i = 0; i < n; ++i) {
      const double now = arrivals.next();
      const double gap = now - previous;
      REQUIRE(gap >= 0);
      previous = now;
      sum += gap;
      square += gap * gap;
    }
    const double mean = sum / n;
    CHECK(std::abs(mean - 0.1) <= 0.1 * (5 * cv / std::sqrt(n) + 1e-9));  // Five standard errors.
    CHECK(std::sqrt(std::max(0.0, square / n - mean * mean)) / mean == approx(cv).epsilon(0.03).margin(1e-3));
  }
}

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const sim::usage_error& e) {
    return e.what();
  }
  return "";
}

TEST_CASE("bad arguments are refused with what is allowed", "[sim]") {
  const sim::workload& w = sim::find_workload("sharegpt");
  CHECK(refusal([] { (void)sim::find_workload("chat"); }) ==
        "unknown workload 'chat'; there are: reasoning-chat, alpaca-chat, arena-chat, reasoning-heavy, azure-conv, "
        "noisy-neighbour, r1-servegen, sharegpt, multi-turn, agentic, noisy-agents");
  CHECK(refusal([&] { (void)sim::generate(w, 0); }) == "the number of requests must be from 1 to 20000000, not 0");
  CHECK(refusal([&] { (void)sim::generate(w, 20'000'001); }).find("must be from 1 to 20000000") != std::string::npos);
  for (const double rate : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    CHECK(refusal([&] { (void)sim::generate(w, 1, rate); }).find("the arrival rate must be a positive number") == 0);
  }
  for (const double cv : {-0.1, 101.0, std::nan("")}) {
    CHECK(refusal([&] { (void)sim::arrival_generator({cv}, 1, 1); }).find("the coefficient of variation") == 0);
  }
}

sim::trace four_rows() {
  return sim::parse_trace("arrival_s,prompt_tokens,output_tokens\n100,1,1\n101,2,1\n103,3,1\n104,4,1\n", "t.csv");
}

TEST_CASE("a trace with arrivals is replayed from 0, at its own rate or another", "[sim]") {
  const auto t = four_rows();
  const auto arrivals = [&](const sim::replay_options& o) {
    std::vector<double> a;
    for (const auto& r : sim::schedule_arrivals(t, o)) a.push_back(r.arrival_s);
    return a;
  };
  CHECK(arrivals({}) == std::vector<double>{0, 1, 3, 4});
  CHECK(arrivals({.rate_scale = 2}) == std::vector<double>{0, 0.5, 1.5, 2});
  CHECK(arrivals({.rate = 1.5}) == std::vector<double>{0, 0.5, 1.5, 2});  // Three gaps in two seconds.
  CHECK(arrivals({.rate = 1.5, .rate_scale = 2}) == std::vector<double>{0, 0.25, 0.75, 1});
  CHECK(arrivals({.requests = 2}) == std::vector<double>{0, 1});
  CHECK(arrivals({.requests = 99}).size() == 4);
  CHECK(sim::mean_rate(t.rows) == 0.75);
}

TEST_CASE("a trace without arrivals needs a rate", "[sim]") {
  const auto t = sim::parse_trace("prompt_tokens,output_tokens\n1,1\n2,1\n", "t.csv");
  CHECK(refusal([&] { (void)sim::schedule_arrivals(t); }) ==
        "t.csv has no arrivals: name a rate (requests per second)");
  const auto rows = sim::schedule_arrivals(t, {.rate = 2.0, .seed = 5});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].arrival_s > 0);
  CHECK(rows[1].arrival_s >= rows[0].arrival_s);
  CHECK(rows[1].prompt_tokens == 2);
  CHECK(sim::schedule_arrivals(t, {.rate = 2.0, .seed = 5})[1].arrival_s == rows[1].arrival_s);
  CHECK(sim::schedule_arrivals(t, {.rate = 1.0, .rate_scale = 2, .seed = 5})[1].arrival_s == rows[1].arrival_s);
}

TEST_CASE("a rate that means nothing is refused", "[sim]") {
  const auto t = four_rows();
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    CHECK(refusal([&] { (void)sim::schedule_arrivals(t, {.rate = bad}); }).find("the arrival rate must be") == 0);
    CHECK(refusal([&] { (void)sim::schedule_arrivals(t, {.rate_scale = bad}); }).find("the rate scale must be") == 0);
  }
  const auto burst = sim::parse_trace("arrival_s,prompt_tokens,output_tokens\n5,1,1\n5,2,1\n", "b.csv");
  CHECK(sim::schedule_arrivals(burst)[1].arrival_s == 0);
  CHECK(refusal([&] { (void)sim::schedule_arrivals(burst, {.rate = 1.0}); }) ==
        "b.csv: all 2 requests come at once, so there is no rate to change");
}

}  // namespace
