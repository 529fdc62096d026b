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

TEST_CASE("residents age: each is boosted when its time has come, once, and the set stays sorted") {
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

namespace {

/// A set and a plain vector of the same residents.
struct two_sets {
  explicit two_sets(std::size_t n) : memory(set::required_bytes(n) + 64), all(n) {
    for (std::size_t i = 0; i != n; ++i) {
      request_access::state(all[i]).sequence = i + 1;
      out.push_back(&all[i]);
    }
  }
  [[nodiscard]] static bool before(const request* x, const request* y) {
    const auto rank = [](const request& r) { return r.state().restarted ? 0 : r.state().backfilled ? 2 : 1; };
    if (rank(*x) != rank(*y)) return rank(*x) < rank(*y);
    return order::fcfs::before(*x, *y);
  }
  void check() {
    std::sort(in.begin(), in.end(), before);
    REQUIRE(std::equal(in.begin(), in.end(), residents.all().begin(), residents.all().end()));
    const auto backfilled = std::count_if(in.begin(), in.end(), [](const request* r) { return r->state().backfilled; });
    REQUIRE(residents.guests() == static_cast<std::size_t>(backfilled));
  }

  std::vector<std::byte> memory;
  arena a{memory};
  order::fcfs order{};
  std::deque<request> all;
  set residents{a, all.size(), order};
  std::vector<request*> in, out;
};

}  // namespace

TEST_CASE("residents: those that began anew first, backfilled requests last, each in order") {
  two_sets s{6};
  request_access::state(s.all[4]).restarted = true;
  request_access::state(s.all[1]).backfilled = true;
  request_access::state(s.all[0]).backfilled = true;
  s.all[3].priority = 1;
  s.all[1].priority = 7;
  for (request& r : s.all) s.residents.insert(r);
  const std::vector<request*> expected{&s.all[4], &s.all[3], &s.all[2], &s.all[5], &s.all[1], &s.all[0]};
  CHECK(std::equal(expected.begin(), expected.end(), s.residents.all().begin(), s.residents.all().end()));
  CHECK(s.residents.guests() == 2);
  for (request* r : {&s.all[1], &s.all[0]}) {  // as the scheduler does with requests that are backfilled no more
    s.residents.erase(*r);
    request_access::state(*r).backfilled = false;
    s.residents.insert(*r);
  }
  CHECK(s.residents.guests() == 0);
  const std::vector<request*> welcome{&s.all[4], &s.all[1], &s.all[3], &s.all[0], &s.all[2], &s.all[5]};
  CHECK(std::equal(welcome.begin(), welcome.end(), s.residents.all().begin(), s.residents.all().end()));
  s.residents.truncate(0);
}

TEST_CASE("residents: many come, go and change their places at once, as one by one") {
  for (const std::size_t n : {1U, 2U, 7U, 64U, 300U}) {
    two_sets s{n};
    std::mt19937 random{static_cast<unsigned>(n)};
    const auto one_in = [&](unsigned m) { return random() % m == 0; };
    for (int i = 0; i != 300; ++i) {
      // Few or many.
      const unsigned share = i % 3 == 0 ? 40 : i % 3 == 1 ? 4 : 1;
      std::vector<request*> stay, go, move;
      for (std::size_t at = 0; at != s.residents.size(); ++at) {
        request& r = *s.residents[at];
        if (!one_in(share + 1)) {
          stay.push_back(&r);
          continue;
        }
        (one_in(2) ? go : move).push_back(&r);
        s.residents.vacate(at);
      }
      const auto change = [&](request& r) {
        r.priority = static_cast<int>(random() % 5);
        auto& state = request_access::state(r);
        state.restarted = one_in(6);
        state.backfilled = !state.restarted && one_in(4);
      };
      for (request* r : move) {
        change(*r);
        s.residents.collect(*r);
      }
      s.in = stay;
      s.in.insert(s.in.end(), move.begin(), move.end());
      std::vector<request*> left;
      for (request* r : s.out) {
        if (one_in(share)) {
          change(*r);
          s.residents.collect(*r);
          s.in.push_back(r);
        } else {
          left.push_back(r);
        }
      }
      s.out = left;
      s.out.insert(s.out.end(), go.begin(), go.end());
      s.residents.settle();
      s.check();
      for (const request* r : s.in) REQUIRE(s.residents.contains(*r));
      for (const request* r : s.out) REQUIRE_FALSE(s.residents.contains(*r));
    }
    s.residents.truncate(0);
  }
}

TEST_CASE("residents: all before the bookmark stay there until they go or move, and those that come among them, too") {
  for (unsigned seed = 1; seed != 20; ++seed) {
    two_sets s{40};
    std::mt19937 random{seed};
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    for (std::size_t i = 0; i != 25; ++i) {
      request& r = *s.out.back();
      s.out.pop_back();
      r.priority = static_cast<int>(below(5));
      s.residents.insert(r);
      s.in.push_back(&r);
    }
    s.check();
    const std::size_t marked = below(26);
    s.residents.set_bookmark(marked);
    CHECK(s.residents.bookmark() == marked);
    std::vector<request*> front(s.in.begin(), s.in.begin() + static_cast<std::ptrdiff_t>(marked));
    for (int i = 0; i != 60; ++i) {
      if (below(2) == 0 && !s.out.empty()) {
        request& r = *s.out.back();
        s.out.pop_back();
        r.priority = static_cast<int>(below(5));
        if (below(2) == 0) {
          s.residents.insert(r);
        } else {
          s.residents.collect(r);
          s.residents.settle();
        }
        s.in.push_back(&r);
      } else if (!s.in.empty()) {
        const std::size_t at = below(s.in.size());
        request& r = *s.residents[at];
        if (below(2) == 0) {
          CHECK(s.residents.erase(r) == at);
        } else {
          s.residents.vacate(at);
          s.residents.settle();
        }
        s.in.erase(std::find(s.in.begin(), s.in.end(), &r));
        s.out.push_back(&r);
        std::erase(front, &r);
      }
      s.check();
      // No request in front of the mark has got behind it, and each that is before one of them is counted in.
      const std::size_t mark = s.residents.bookmark();
      REQUIRE(mark <= s.residents.size());
      for (const request* r : front) {
        const auto at = std::find(s.residents.all().begin(), s.residents.all().end(), r);
        REQUIRE(at - s.residents.all().begin() < static_cast<std::ptrdiff_t>(mark));
      }
    }
    s.residents.truncate(0);
    CHECK(s.residents.bookmark() == 0);
  }
}

TEST_CASE("residents that are chosen as victims are taken back to where they stood, or are gone") {
  std::vector<std::byte> memory(set::required_bytes(32) + 64);
  arena a{memory};
  const order::fcfs order;
  set residents{a, 32, order};
  std::deque<request> all(32);
  std::mt19937 random{6};
  std::vector<request*> in;
  for (std::size_t i = 0; i != all.size(); ++i) {
    request_access::state(all[i]).sequence = i;
    all[i].priority = static_cast<int>(random() % 3);
    residents.insert(all[i]);
    in.push_back(&all[i]);
  }
  std::sort(in.begin(), in.end(), [](const request* x, const request* y) { return order::fcfs::before(*x, *y); });
  std::size_t moved = 0;
  while (residents.size() > 4) {
    // What is kept stays in order; those behind it are the victims, the latest first.
    std::vector<request*> kept = in;
    std::vector<request*> victims;
    for (int i = 0; i != 12; ++i) {
      if (random() % 3 != 0 && !kept.empty()) {
        const std::size_t last = kept.size() - 1;
        const std::size_t chosen = last - random() % std::min<std::size_t>(kept.size(), 5);
        moved += chosen != last ? 1U : 0U;
        residents.move_back(chosen, last);
        victims.insert(victims.begin(), kept[chosen]);
        kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(chosen));
      } else if (!victims.empty()) {
        const std::size_t n = 1 + random() % victims.size();
        REQUIRE(residents.take_back(kept.size(), n) == kept.size() + n);
        kept.insert(kept.end(), victims.begin(), victims.begin() + static_cast<std::ptrdiff_t>(n));
        victims.erase(victims.begin(), victims.begin() + static_cast<std::ptrdiff_t>(n));
        std::sort(kept.begin(), kept.end(),
                  [](const request* x, const request* y) { return order::fcfs::before(*x, *y); });
      }
      REQUIRE(std::equal(kept.begin(), kept.end(), residents.all().begin()));
      REQUIRE(std::equal(victims.begin(), victims.end(),
                         residents.all().begin() + static_cast<std::ptrdiff_t>(kept.size())));
      for (const request* r : in) REQUIRE(residents.contains(*r));
      for (std::size_t k = 0; k != kept.size(); ++k) REQUIRE(residents.place_of(*kept[k]) == k);
      if (victims.empty()) REQUIRE(residents.in_order());
    }
    if (random() % 2 == 0) {
      residents.truncate(kept.size());
      in = kept;
    } else {
      REQUIRE(residents.take_back(kept.size(), victims.size()) == in.size());
    }
    REQUIRE(residents.in_order());
    REQUIRE(std::equal(in.begin(), in.end(), residents.all().begin(), residents.all().end()));
    for (request& r : all) {
      REQUIRE(residents.contains(r) == (std::find(in.begin(), in.end(), &r) != in.end()));
    }
  }
  CHECK(moved > 10);
}
