// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/traffic_memory.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using fleet::request_view;
using fleet::seen_request;
using fleet::traffic_memory;

constexpr float no_score = std::numeric_limits<float>::quiet_NaN();

/// The same with a list that is searched.
struct plain_memory {
  std::size_t window;
  std::size_t most;
  std::map<std::uint64_t, bool> here{};  // those that are not over, and whether they are followed
  std::deque<std::pair<std::uint64_t, seen_request>> seen{};

  void arrived(const request_view& r, float score, double now_s) {
    if (here.contains(r.id) || here.size() == most) return;
    here[r.id] = true;
    seen_request s{.arrival_s = now_s, .prompt = r.prompt, .generated = r.generated, .limit = r.limit, .score = score};
    s.tenant = static_cast<std::int32_t>(r.tenant);
    s.reasons = r.is == phase::reasoning;
    seen.emplace_back(r.id, s);
    if (seen.size() > window) seen.pop_front();
  }
  seen_request* find(std::uint64_t id) {
    if (!here.contains(id)) return nullptr;
    const auto at = std::find_if(seen.rbegin(), seen.rend(), [id](const auto& s) { return s.first == id; });
    return at == seen.rend() ? nullptr : &at->second;
  }
};

bool same(const seen_request& a, seen_request b) {
  if (a.score != a.score && b.score != b.score) b.score = 0;
  seen_request c = a;
  if (c.score != c.score) c.score = 0;
  return c == b;
}

TEST_CASE("fleet traffic memory: the last requests and how they went, as a plain list has them") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random{seed};
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
    const traffic_memory::limits l{.requests = 6 + seed % 5, .window = 4 + seed % 13};
    auto storage = storage_for<traffic_memory>(l);
    traffic_memory mine{storage};
    plain_memory plain{.window = l.window, .most = l.requests};
    std::uint64_t next = 0;
    double now_s = 0;
    for (int step = 0; step != 400; ++step) {
      now_s += static_cast<double>(below(10)) / 8;
      const std::uint64_t id = below(3) == 0 ? next++ : static_cast<std::uint64_t>(below(next + 1));
      request_view r{.id = id, .prompt = tokens{below(100)}, .generated = tokens{below(50)}, .limit = tokens{below(3)}};
      r.tenant = static_cast<std::uint32_t>(seed % 2 == 0 ? below(2) : 0);
      r.is = below(2) == 0 ? phase::reasoning : phase::answering;
      seen_request* const s = plain.find(id);
      const tessera_test::no_allocation guard;
      switch (below(6)) {
        case 0:
        case 1: {
          const float score = below(2) == 0 ? no_score : static_cast<float>(below(9));
          mine.arrived(r, score, now_s);
          plain.arrived(r, score, now_s);
          break;
        }
        case 2:
          mine.progressed(r);
          if (s != nullptr) s->generated = max(s->generated, r.generated);
          break;
        case 3:
          mine.answers(r);
          if (s != nullptr && s->reasons) {
            s->reasons = false;
            s->reasoning = s->generated = max(s->generated, r.generated);
          }
          break;
        case 4: {
          const bool learns = mine.ended(r);
          CHECK(learns == (s != nullptr && max(s->generated, r.generated) > tokens{}));
          if (s != nullptr) {
            s->generated = max(s->generated, r.generated);
            if (s->reasons) s->reasoning = s->generated;
            s->reasons = false;
            s->ended = s->generated > tokens{};
            s->refused = !s->ended;
          }
          plain.here.erase(id);
          break;
        }
        default:
          if (below(20) != 0) break;
          mine.forget_half();
          for (std::size_t n = plain.seen.size() / 2; n != 0; --n) plain.seen.pop_front();
      }
      const std::span<const seen_request> all = mine.sample();
      REQUIRE(all.size() == plain.seen.size());
      REQUIRE(mine.here() == plain.here.size());
      std::size_t ended = 0, newer = 0;
      bool equal = true;
      for (std::size_t i = 0; i != all.size(); ++i) {
        seen_request want = plain.seen[i].second;
        if (seed % 2 == 1) want.tenant = -1;  // there are no tenants
        ended += want.ended ? 1U : 0U;
        newer += want.ended && i >= all.size() / 2 ? 1U : 0U;
        equal = equal && (same(all[i], want) || (seed % 2 == 0 && all[i].tenant == -1));
      }
      REQUIRE(equal);
      REQUIRE(mine.ended() == ended);
      REQUIRE(mine.newer_ended() == newer);
    }
  }
}

TEST_CASE("fleet traffic memory: a queue that grows is told from one that is long, and from one that is short") {
  auto storage = storage_for<traffic_memory>({.requests = 4096, .window = 64});
  traffic_memory m{storage};
  std::uint64_t next = 0;
  const auto looks = [&](auto waiting, std::size_t come) {
    m.forget_looks();
    for (std::size_t i = 0; i != 16; ++i) {
      for (std::size_t k = 0; k != come; ++k) {
        m.arrived({.id = next, .prompt = tokens{5}}, no_score, static_cast<double>(i));
        m.ended({.id = next++, .prompt = tokens{5}, .generated = tokens{1}});
      }
      CHECK_FALSE(m.queue_grows(16, 0.05));
      m.look(waiting(i), 16);
    }
    return m.queue_grows(16, 0.05);
  };
  CHECK(looks([](std::size_t i) { return i; }, 10));
  CHECK(looks([](std::size_t i) { return 100 + 3 * i; }, 10));
  CHECK_FALSE(looks([](std::size_t) { return 1000U; }, 10));
  CHECK_FALSE(looks([](std::size_t i) { return 1000 - i; }, 10));
  CHECK_FALSE(looks([](std::size_t i) { return i % 4; }, 10));
  CHECK_FALSE(looks([](std::size_t i) { return i / 3; }, 20));  // few of those that come
  CHECK(m.rate_lately(1) == 20);
  CHECK(m.rate_lately(0.5) == 40);
}

TEST_CASE("fleet traffic memory: the number here is constant where each that ends is followed by another") {
  auto storage = storage_for<traffic_memory>({.requests = 4096, .window = 64});
  traffic_memory m{storage};
  std::uint64_t next = 0;
  std::uint64_t over = 0;
  const auto arrive = [&] { m.arrived({.id = next++, .prompt = tokens{5}}, no_score, 0); };
  for (int i = 0; i != 40; ++i) arrive();
  for (int look = 0; look != 16; ++look) {
    CHECK_FALSE(m.held(16));
    for (int i = 0; i != 10; ++i) {
      m.ended({.id = over++, .generated = tokens{3}});
      arrive();
    }
    m.look(0, 16);
  }
  CHECK(m.held(16));
  CHECK(m.here() == 40);
  for (int i = 0; i != 5; ++i) arrive();
  m.look(0, 16);
  CHECK_FALSE(m.held(16));
}

}  // namespace
