// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What no order can change, under every composition: docs/design/no_order.md.
#include <tessera/compose/due_first.hpp>
#include <tessera/compose/fcfs.hpp>
#include <tessera/compose/pars.hpp>
#include <tessera/compose/pascal.hpp>
#include <tessera/compose/pascal_paced.hpp>

#include "support/catch.hpp"
#include "support/is_slow.hpp"
#include "support/read_engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using request = tessera_test::read_request;
using tessera_test::job;

constexpr double step_s = 0.025;  // of the engine, and a token each

std::vector<job> random_jobs(std::mt19937& random) {
  std::vector<job> jobs;
  int step = 0;
  for (int i = 0; i != 60; ++i) {
    step += static_cast<int>(random() % 32);
    const auto reasons = static_cast<std::int64_t>(random() % 2 * (random() % 20));
    const auto answers = static_cast<std::int64_t>(1 + random() % 20);
    jobs.push_back({step * step_s, reasons, answers, reasons + answers});
  }
  return jobs;
}

/// By order of arrival, one after the other.
struct one_after_the_other {
  std::vector<double> first_answer, ended;
  std::vector<std::size_t> busy_from;  // of each, the first job since when the server was never idle
};
one_after_the_other lindley(const std::vector<job>& jobs) {
  one_after_the_other out;
  double free = 0;
  std::size_t from = 0;
  for (std::size_t i = 0; i != jobs.size(); ++i) {
    if (jobs[i].arrives >= free - 1e-9) {
      free = jobs[i].arrives;
      from = i;
    }
    out.busy_from.push_back(from);
    out.first_answer.push_back(free + step_s * static_cast<double>(jobs[i].reasons + 1));
    free += step_s * static_cast<double>(jobs[i].reasons + jobs[i].answers);
    out.ended.push_back(free);
  }
  return out;
}

/// The bounds that hold for every order, whatever it knows, on one server.
template <class Scheduler>
void check(const std::vector<job>& jobs, const typename Scheduler::config& config) {
  const std::deque<request> all = tessera_test::run<Scheduler>(jobs, 1, config);
  const one_after_the_other line = lindley(jobs);
  for (std::size_t i = 0; i != jobs.size(); ++i) {
    // All that came from the beginning of the busy time to job i is done no sooner than first come, first served. So
    // one of these, which came no later than i, ends no sooner than i does there.
    double last = 0, last_first = 0, reasoned = jobs[line.busy_from[i]].arrives;
    for (std::size_t j = line.busy_from[i]; j <= i; ++j) {
      last = std::max(last, all[j].ended);
      last_first = std::max(last_first, all[j].first_answer);
      reasoned += step_s * static_cast<double>(jobs[j].reasons + 1);
    }
    CHECK(last >= line.ended[i] - 1e-9);
    // First answers can be sooner by what of the answers is put off, and by no more.
    CHECK(last_first >= reasoned - 1e-9);
  }
  // The server is never idle while there is work: it is free when a line is.
  double last = 0;
  for (const request& r : all) last = std::max(last, r.ended);
  CHECK(last == Catch::Detail::Approx(line.ended.back()));
}

TEST_CASE("no order: the longest time in the system is never below that of arrival order") {
  std::mt19937 random{11};
  for (int k = 0; k != (tessera_test::is_slow ? 15 : 40); ++k) {
    const std::vector<job> jobs = random_jobs(random);
    check<fcfs<request>>(jobs, {.watermark = 0});
    check<pars<request>>(jobs, {.watermark = 0});
    check<pascal<request>>(jobs, {.watermark = 0});
    check<pascal_paced<request>>(jobs, {.watermark = 0});
    check<due_first<request>>(jobs, {.watermark = 0});
  }
}

/// Seconds until each token, over all tokens, if every job runs to its end once it has begun.
double token_seconds(const std::vector<job>& jobs, const std::deque<request>& all) {
  double sum = 0;
  for (std::size_t i = 0; i != jobs.size(); ++i) {
    const auto n = static_cast<double>(jobs[i].reasons + jobs[i].answers);
    sum += n * (all[i].ended - jobs[i].arrives) - step_s * n * (n - 1) / 2;
  }
  return sum;
}

TEST_CASE("no order: where none is interrupted, waiting weighted by length is conserved") {
  std::mt19937 random{12};
  bool other_order = false;
  for (int k = 0; k != (tessera_test::is_slow ? 15 : 40); ++k) {
    std::vector<job> jobs = random_jobs(random);
    // Answers alone, and readers that never run dry: neither composition interrupts.
    for (job& j : jobs) j.reasons = 0;
    const auto line = tessera_test::run<fcfs<request>>(jobs, 1, {.watermark = 0});
    const auto by_score = tessera_test::run<pars<request>>(jobs, 1, {.watermark = 0});
    const auto ours = tessera_test::run<due_first<request>>(jobs, 1, {.watermark = 0});
    const double expected = token_seconds(jobs, line);
    CHECK(token_seconds(jobs, by_score) == Catch::Detail::Approx(expected));
    CHECK(token_seconds(jobs, ours) == Catch::Detail::Approx(expected));
    for (std::size_t i = 0; i != jobs.size(); ++i) {
      CHECK(ours[i].state().preemptions == 0);
      other_order = other_order || ours[i].ended != line[i].ended;
    }
  }
  CHECK(other_order);
}

}  // namespace
