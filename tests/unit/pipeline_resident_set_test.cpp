// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/order/fcfs.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/pipeline/resident_set.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

namespace {

using namespace tessera;

struct request : request_hook_for<order::ranked<>> {
  float score = 0;
};
using set = detail::resident_set<request, order::fcfs>;

}  // namespace

TEST_CASE("residents stay sorted, whatever comes and goes") {
  std::vector<std::byte> memory(set::required_bytes(64) + 64);
  arena a{memory};
  const order::fcfs order;
  set residents{a, 64, order};
  std::deque<request> all(64);
  std::vector<request*> in, out;
  for (std::size_t i = 0; i != all.size(); ++i) {
    request_access::state(all[i]).sequence = i;
    all[i].priority = static_cast<int>(i % 3);
    out.push_back(&all[i]);
  }
  std::mt19937 random{3};
  for (int i = 0; i != 5000; ++i) {
    auto& from = random() % 2 == 0 ? in : out;
    if (from.empty()) continue;
    const auto at = from.begin() + static_cast<std::ptrdiff_t>(random() % from.size());
    request& r = **at;
    from.erase(at);
    CHECK(residents.contains(r) == (&from == &in));
    if (&from == &in) {
      residents.erase(r);
      out.push_back(&r);
    } else {
      residents.insert(r);
      in.push_back(&r);
    }
    std::sort(in.begin(), in.end(), [](const request* x, const request* y) { return order::fcfs::before(*x, *y); });
    REQUIRE(std::equal(in.begin(), in.end(), residents.all().begin(), residents.all().end()));
    if (!in.empty()) REQUIRE(residents[in.size() - 1] == in.back());
  }
  residents.truncate(0);
  CHECK(residents.size() == 0);
  CHECK_FALSE(residents.contains(all[0]));
}

TEST_CASE("residents age: whose time has come is boosted, once, and the set stays sorted") {
  using aged_set = detail::resident_set<request, order::ranked<>>;
  std::vector<std::byte> memory(aged_set::required_bytes(32) + 64);
  arena a{memory};
  std::deque<request> all(32);
  order::ranked<> order{.threshold = duration{10}};
  aged_set residents{a, 32, order};
  std::vector<request*> in, out;
  for (std::size_t i = 0; i != all.size(); ++i) {
    request_access::state(all[i]).sequence = i;
    request_access::begin_order_state<order::ranked<>>(all[i]);
    out.push_back(&all[i]);
  }
  std::mt19937 random{5};
  std::size_t boosted = 0;
  double now = 0;
  for (int i = 0; i != 5000; ++i) {
    now += 0.25 * static_cast<double>(random() % 4);
    if (random() % 3 == 0 && !in.empty()) {
      if (random() % 4 == 0) {
        const std::size_t keep = random() % in.size();  // the set is sorted, and so is `in`
        for (std::size_t k = keep; k != in.size(); ++k) out.push_back(in[k]);
        in.resize(keep);
        residents.truncate(keep);
      } else {
        const auto at = in.begin() + static_cast<std::ptrdiff_t>(random() % in.size());
        residents.erase(**at);
        out.push_back(*at);
        in.erase(at);
      }
    } else if (!out.empty()) {
      request& r = *out.back();
      out.pop_back();
      r.score = static_cast<float>(random() % 8);
      // Some come back with the age they had, or boosted already; some are new.
      if (random() % 2 == 0) {
        request_access::begin_order_state<order::ranked<>>(r);
        order.enter(r, time_point::at_seconds(now - static_cast<double>(random() % 12)));
      }
      residents.insert(r);
      in.push_back(&r);
    }
    const time_point at = time_point::at_seconds(now);
    std::size_t due = 0;
    for (const request* r : in) due += order.due_at(*r) <= at ? 1U : 0U;
    std::size_t told = 0;
    residents.advance(at, [&](request& r) {
      order.age(r);
      ++told;
    });
    REQUIRE(told == due);
    boosted += due;
    for (const request* r : in) REQUIRE(at < order.due_at(*r));
    std::sort(in.begin(), in.end(), [](const request* x, const request* y) { return order::ranked<>::before(*x, *y); });
    REQUIRE(std::equal(in.begin(), in.end(), residents.all().begin(), residents.all().end()));
  }
  CHECK(boosted > 300);
  residents.truncate(0);
}
