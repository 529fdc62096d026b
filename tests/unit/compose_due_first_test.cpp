// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/due_first.hpp>
#include <tessera/compose/pars.hpp>
#include <tessera/compose/pascal.hpp>

#include "support/catch.hpp"
#include "support/read_engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

using request = tessera_test::read_request;
using tessera_test::job;
using tessera_test::run;

}  // namespace

TEST_CASE("due_first: short requests overtake, as far as they are shorter") {
  // One place. While the first one runs, a long one, a short one and, much later, another short one come.
  const std::vector<job> jobs{{0, 0, 400, 400}, {1, 0, 50, 50}, {2, 0, 20, 20}, {9.5, 0, 20, 20}};
  const auto all = run<due_first<request>>(jobs, 1, {.margin = duration{0.0}, .watermark = 0});
  CHECK(all[2].first_answer < all[1].first_answer);
  // With a queue the clock all but stands: the long one is overtaken by requests that come much later, too.
  CHECK(all[3].first_answer < all[1].first_answer);
}

TEST_CASE("due_first: what is predicted does not take a place away, what is read does") {
  // Memory for one; reasoning for 10 s has it. A request that expects to be due first waits; a reader does not.
  const std::vector<job> jobs{{0, 400, 1, 400}, {0.1, 0, 5, 5}};
  const auto all = run<due_first<request>>(jobs, 1, {.watermark = 0});
  CHECK(all[0].state().preemptions == 0);
  CHECK(all[1].first_answer > 10);
}

TEST_CASE("due_first: reasoning borrows the memory of an answer that can wait; a prompt without reasoning does not") {
  // Memory for one. An answer of 300 tokens is made in 7.5 s, and read in 30.
  const auto borrowed = run<due_first<request>>({{0, 0, 300, 300}, {5, 200, 1, 201}}, 1, {.watermark = 0});
  CHECK(borrowed[0].state().preemptions >= 1);
  CHECK(borrowed[0].qoe.value() == 1.0);
  CHECK(borrowed[1].first_answer < 12);  // 12.5 behind it
  const auto waited = run<due_first<request>>({{0, 0, 300, 300}, {5, 0, 200, 200}}, 1, {.watermark = 0});
  CHECK(waited[0].state().preemptions == 0);
  CHECK(waited[1].first_answer > 7.5);
}

TEST_CASE("due_first: readers are served at their pace while others reason, and past saturation") {
  std::vector<job> jobs{{0, 0, 600, 600}};
  for (int i = 0; i != 60; ++i) jobs.push_back({1.0 + i, 100, 1, 101});
  const auto ours = run<due_first<request>>(jobs, 2, {.watermark = 0});
  CHECK(ours[0].qoe.value() == 1.0);
  CHECK(run<pascal<request>>(jobs, 2, {.watermark = 0})[0].qoe.value() < 0.95);
}

TEST_CASE("due_first: past saturation short requests go on, where PARS is in arrival order") {
  // One place, one short request among three long ones, twice as much as can be served: after 4 s all are boosted.
  std::vector<job> jobs;
  for (int i = 0; i != 200; ++i) jobs.push_back({0.5 * i, i % 4 == 0 ? 5 : 50, 1, i % 4 == 0 ? 6 : 51});
  const auto wait_of_short = [&](const std::deque<request>& all) {
    double sum = 0;
    for (std::size_t i = 0; i < all.size(); i += 4) sum += all[i].first_answer - jobs[i].arrives;
    return sum / 50;
  };
  const double ours = wait_of_short(run<due_first<request>>(jobs, 1, {.watermark = 0}));
  const double theirs = wait_of_short(run<pars<request>>(jobs, 1, {.threshold = duration{4.0}, .watermark = 0}));
  CHECK(ours < 0.9 * theirs);
  // And the long ones do not starve for it. Each has its turn when all that is due before it is done, and the one that
  // had begun.
  const auto all = run<due_first<request>>(jobs, 1, {.watermark = 0});
  const auto due = [&](std::size_t i) { return jobs[i].arrives + 0.1 * static_cast<double>(jobs[i].expected); };
  for (std::size_t i = 0; i != all.size(); ++i) {
    double before = jobs[i].arrives + 0.025 * 51;
    for (std::size_t j = 0; j != all.size(); ++j) {
      if (due(j) <= due(i)) before += 0.025 * static_cast<double>(all[j].output);
    }
    CHECK(all[i].ended < before + 1);
  }
}

TEST_CASE("due_first: as the parts say, with another prediction and another reader") {
  struct ten {
    tokens operator()(const request&) const noexcept { return 10_tok; }
  };
  struct never {
    time_point operator()(const request&) const noexcept { return time_point::never(); }
  };
  // No request has a reader, all expect the same: first come, first served.
  std::vector<job> jobs;
  for (int i = 0; i != 20; ++i) jobs.push_back({0.1 * i, 0, 10 + 7 * (i % 3)});
  const auto all = run<due_first<request, ten, never>>(jobs, 1, {.watermark = 0});
  for (std::size_t i = 1; i != all.size(); ++i) CHECK(all[i - 1].ended < all[i].first_answer);
}
