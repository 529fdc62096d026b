// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Where a request goes by headroom, against a version that adds up all requests anew for each replica.
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/headroom_book.hpp>
#include <tessera/fleet/view.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <vector>

namespace {

using namespace tessera;
using fleet::view;
using book = fleet::headroom_book<>;

constexpr fleet::headroom_book_settings settings{
    .cost = {.alpha = 0.5, .beta = 2}, .budget = {.peak_flops = 1e5, .ttft = duration{2}}, .block_size = tokens{16}};
constexpr fleet::linear_speed speed{.fixed_s = 0.02, .request_s = 1e-4, .token_s = 1e-6, .most = 5};

struct one {
  std::size_t at = 0;
  tokens prompt{}, expected{}, computed{};
  bool in_line = true;
};

double flops(tokens prompt, tokens computed) {
  const auto l = static_cast<double>(prompt.count()), c = static_cast<double>(computed.count());
  return 0.5 * (l * l - c * c) + 2 * (l - c);
}
std::int64_t size_of(const one& o) { return blocks_for(o.prompt + o.expected, tokens{16}).count(); }

/// Headroom, its error, and the seconds that a request adds, by the definitions in the comment of `headroom_book`.
struct weighed {
  double phi = 0, error = 0, adds = 0;
};
weighed weigh(const std::map<std::uint64_t, one>& all, const view& v, tokens prompt, tokens expected) {
  double line = 0, squares = 0, follow_s = 0;
  std::int64_t memory = 0;
  for (const auto& [id, o] : all) {
    if (o.at != v.id) continue;
    const double cost = flops(o.prompt, o.computed);
    if (o.in_line) line += cost;
    memory += size_of(o);
    squares += static_cast<double>(size_of(o) * size_of(o));
    if (o.expected > tokens{}) follow_s += cost / 1e5 / static_cast<double>(o.expected.count());
  }
  const auto capacity = static_cast<double>(v.capacity.count());
  const double time = 1 - line / 2e5;
  const double space = 1 - static_cast<double>(std::max(memory, v.kv_held.count())) / capacity;
  const auto n = static_cast<double>(v.requests), grows_to = static_cast<double>(16 * memory);
  const auto now = static_cast<double>(16 * (v.kv_held + v.waiting_blocks).count());
  const auto out = static_cast<double>(expected.count());
  const double held = now + std::round(std::min(std::max(grows_to - now, 0.0), n * out) / 2);
  const auto step = [&](double requests, double context) {
    const double in = std::min(requests, 5.0);
    return 0.02 + 1e-4 * in + 1e-6 * (requests > 5 ? std::floor(context / requests) * in : context);
  };
  const double after = step(n + 1, held + static_cast<double>(prompt.count() + expected.count() / 2));
  const double rounds = n < 5 ? 1 : (2 * n + 1) / 5;
  const double adds = line / 1e5 + out * (after + follow_s) * rounds +
                      std::min(n, 5.0) * (flops(prompt, {}) / 1e5 + out * (after - step(n, held)));
  return {std::min(time, space), std::sqrt(squares) / capacity, adds};
}

TEST_CASE("fleet headroom book: the choice of a version that adds up anew, over random operations") {
  std::size_t by_line = 0, by_headroom = 0, by_cache = 0;
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    std::mt19937_64 random{seed};
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
    auto storage = storage_for<book>({.replicas = 5, .requests = 12});
    book mine{storage, settings, speed};
    std::map<std::uint64_t, one> all;
    for (int step = 0; step != 150; ++step) {
      const auto id = static_cast<std::uint64_t>(below(30));
      const tokens prompt{1 + below(400)}, expected{below(300)};
      std::vector<view> views;
      for (std::uint64_t i = 0; i != 5; ++i) {
        if (below(6) == 0) continue;
        view v{.id = i, .requests = static_cast<std::size_t>(below(9)), .kv_held = blocks{below(40)}};
        v.waiting_blocks = blocks{below(30)};
        v.capacity = blocks{seed % 2 == 0 ? 2000 : 70};
        v.cached_tokens = tokens{below(8) == 0 ? below(static_cast<std::uint64_t>(prompt.count())) : 0};
        views.push_back(v);
      }
      const bool reads = below(3) == 0;
      const bool cached =
          reads && std::any_of(views.begin(), views.end(), [](const view& v) { return v.cached_tokens > tokens{}; });
      const tessera_test::no_allocation guard;
      const std::size_t k = mine.choose(views, prompt, expected, reads);
      REQUIRE(guard.allocations() == 0);
      REQUIRE((k < views.size()) == !views.empty());
      if (!views.empty()) {
        REQUIRE(mine.is_cached() == cached);
        std::vector<weighed> w;
        for (const view& v : views) w.push_back(weigh(all, v, prompt, expected));
        double most = -std::numeric_limits<double>::infinity();
        for (const weighed& x : w) most = std::max(most, x.phi);
        const auto almost = [](double a, double b) { return a <= b + 1e-9 * (1 + std::abs(b)); };
        for (std::size_t i = 0; i != views.size(); ++i) {
          if (cached) {
            const auto computes = [&](std::size_t j) {
              double line = 0;
              for (const auto& [other, o] : all)
                line += o.at == views[j].id && o.in_line ? flops(o.prompt, o.computed) : 0;
              return line + flops(prompt, views[j].cached_tokens) * static_cast<double>(views[j].requests + 1);
            };
            REQUIRE(almost(computes(k), computes(i)));
          } else if (most < 0.5) {
            REQUIRE(almost(w[i].phi, w[k].phi));
          } else {
            const auto equals = [&](std::size_t j) {
              return w[j].phi >= 0.75 || (w[j].phi >= 0.5 && w[j].phi + w[j].error >= most);
            };
            REQUIRE(equals(k));
            if (equals(i)) REQUIRE(almost(w[k].adds, w[i].adds));
          }
        }
        (cached ? by_cache : most < 0.5 ? by_headroom : by_line) += 1;
      }
      switch (below(5)) {
        case 0:
        case 1: {
          const auto at = static_cast<std::uint32_t>(below(5));
          const tokens computed{below(static_cast<std::uint64_t>(prompt.count()) + 1)};
          mine.take(id, at, prompt, expected, computed);
          all.erase(id);
          if (all.size() < 12) all[id] = {at, prompt, expected, computed, true};
          break;
        }
        case 2:
          mine.has_token(id);
          if (all.contains(id)) all[id].in_line = false;
          break;
        case 3: {
          const auto at = static_cast<std::uint32_t>(below(5));
          mine.moved(id, at);
          if (all.contains(id)) all[id].at = at;
          break;
        }
        default: mine.leave(id); all.erase(id);
      }
      REQUIRE(mine.requests() == all.size());
      for (std::uint32_t i = 0; i != 5; ++i) {
        std::size_t line = 0;
        blocks memory{};
        for (const auto& [other, o] : all) {
          line += o.at == i && o.in_line ? 1U : 0U;
          if (o.at == i) memory += blocks{size_of(o)};
        }
        REQUIRE(mine.in_line(i) == line);
        REQUIRE(mine.expected_memory(i) == memory);
      }
    }
  }
  CHECK(by_line > 500);
  CHECK(by_headroom > 500);
  CHECK(by_cache > 300);
}

struct unlike : fleet::linear_speed {
  [[nodiscard]] constexpr bool alike() const noexcept { return false; }
};

TEST_CASE("fleet headroom book: among replicas of different speed only the headroom decides") {
  auto storage = storage_for<fleet::headroom_book<unlike>>({.replicas = 2, .requests = 4});
  fleet::headroom_book<unlike> b{storage, settings, {}};
  std::vector<view> views{{.id = 0, .requests = 0, .capacity = blocks{1000}},
                          {.id = 1, .requests = 0, .capacity = blocks{1000}}};
  b.take(1, 0, tokens{50}, tokens{20});
  for (int i = 0; i != 3; ++i) CHECK(b.choose(views, tokens{10}, tokens{10}, false) == 1);
  CHECK_FALSE(b.is_among_equals());
  b.leave(1);
  CHECK(b.choose(views, tokens{10}, tokens{10}, false) != b.choose(views, tokens{10}, tokens{10}, false));
}

}  // namespace
