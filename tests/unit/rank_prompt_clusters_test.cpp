// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/owned_storage.hpp>
#include <tessera/rank/prompt_clusters.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using rank::prompt_clusters;

using pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// From the definition: groups by the place of the middle one of equal prompts. For each part of them it finds the
/// surest place to split it, with sums made anew for every one.
class oracle {
 public:
  oracle(pairs seen, std::size_t most_groups) {
    std::sort(seen.begin(), seen.end());
    const std::size_t n = seen.size();
    const std::size_t groups = std::clamp<std::size_t>(n / prompt_clusters::least, 1, most_groups);
    std::size_t open = groups;
    for (std::size_t first = 0, past = 0; first != n; first = past) {
      while (past != n && seen[past].first == seen[first].first) ++past;
      const std::size_t group = (first + past - 1) / 2 * groups / n;
      if (group != open) groups_.emplace_back();
      open = group;
      for (std::size_t i = first; i != past; ++i) groups_.back().push_back(seen[i]);
    }
    split(0, groups_.size(), 0, std::numeric_limits<double>::infinity());
  }

  [[nodiscard]] std::int64_t operator()(std::int64_t prompt) const {
    if (clusters_.empty()) return 0;
    for (const part& c : clusters_)
      if (c.longest >= prompt) return std::llround(c.mean);
    return std::llround(clusters_.back().mean);
  }
  [[nodiscard]] std::size_t clusters() const { return clusters_.size(); }

 private:
  struct part {
    double count = 0, mean = 0, variance = 0;
    std::int64_t longest = 0;
  };
  [[nodiscard]] part of(std::size_t first, std::size_t past) const {
    part p;
    for (std::size_t g = first; g != past; ++g) {
      for (const auto& [prompt, output] : groups_[g]) {
        p.count += 1;
        p.mean += static_cast<double>(output);
        p.longest = std::max(p.longest, prompt);
      }
    }
    p.mean /= p.count;
    for (std::size_t g = first; g != past; ++g) {
      for (const auto& [prompt, output] : groups_[g]) p.variance += std::pow(static_cast<double>(output) - p.mean, 2);
    }
    p.variance /= p.count - 1;
    return p;
  }
  void split(std::size_t first, std::size_t past, double above, double below) {
    if (first == past) return;
    std::size_t best = first;
    double most = prompt_clusters::surely;
    for (std::size_t i = first + 1; i < past; ++i) {
      const part low = of(first, i);
      const part high = of(i, past);
      const double enough = prompt_clusters::least;
      if (low.count < enough || high.count < enough || low.mean < above || high.mean > below) continue;
      if (high.mean <= low.mean || high.mean < prompt_clusters::longer * low.mean) continue;
      const double as_they_are = low.variance / low.count + high.variance / high.count;
      const double alike = of(first, past).variance * (1 / low.count + 1 / high.count);
      const double errors = (high.mean - low.mean) / std::sqrt(std::max(as_they_are, alike));
      if (errors <= most * (1 + 1e-12)) continue;  // sums in another order
      most = errors;
      best = i;
    }
    if (best == first) {
      clusters_.push_back(of(first, past));
      return;
    }
    split(first, best, above, of(best, past).mean);
    split(best, past, clusters_.back().mean, below);
  }

  std::vector<pairs> groups_;
  std::vector<part> clusters_;
};

struct fitted {
  owned_storage<prompt_clusters::limits> storage;
  prompt_clusters length{storage};

  fitted(const prompt_clusters::limits& l, const pairs& seen) : storage{storage_for<prompt_clusters>(l)} {
    for (const auto& [prompt, output] : seen) length.observe(tokens{prompt}, tokens{output});
    length.fit();
  }
  [[nodiscard]] std::int64_t operator()(std::int64_t prompt) const { return length(tokens{prompt}).count(); }
};

/// Requests of some kinds, each with exponential outputs.
pairs draw(std::mt19937_64& random, std::size_t n, const std::vector<std::pair<double, double>>& kinds) {
  std::exponential_distribution<double> spread{1};
  pairs out;
  for (std::size_t i = 0; i != n; ++i) {
    const auto& [prompt, output] = kinds[random() % kinds.size()];
    out.emplace_back(static_cast<std::int64_t>(prompt * (0.7 + 0.6 * static_cast<double>(random() % 1000) / 1000)),
                     static_cast<std::int64_t>(output * spread(random)));
  }
  return out;
}

TEST_CASE("prompt clusters: as by the definition, whatever the kinds, and longer prompts never expect less") {
  std::mt19937_64 random{1};
  std::size_t split = 0;
  std::size_t in_three = 0;
  for (int round = 0; round != 300; ++round) {
    std::vector<std::pair<double, double>> kinds;
    for (std::size_t k = 1 + random() % 4; k != 0; --k) {
      kinds.emplace_back(std::exp(static_cast<double>(random() % 90) / 10),
                         1 + std::exp(static_cast<double>(random() % 80) / 10));
    }
    const pairs seen = draw(random, random() % 1500, kinds);
    const std::size_t groups = 1 + random() % 70;
    const fitted length{{.window = 1500, .groups = groups}, seen};
    const oracle expected{seen, groups};
    CAPTURE(round);
    REQUIRE(length.length.clusters() == expected.clusters());
    split += expected.clusters() > 1 ? 1 : 0;
    in_three += expected.clusters() > 2 ? 1 : 0;
    std::int64_t before = 0;
    for (std::int64_t prompt = 0; prompt < 12'000; prompt += 1 + prompt / 20) {
      REQUIRE(length(prompt) == expected(prompt));
      REQUIRE(length(prompt) >= before);
      before = length(prompt);
    }
  }
  CHECK(split > 50);
  CHECK(in_three > 5);
}

TEST_CASE("prompt clusters: short questions and long documents are told apart") {
  std::mt19937_64 random{2};
  const fitted length{{}, draw(random, 2000, {{50, 40}, {5000, 1800}})};
  CHECK(length.length.clusters() == 2);
  CHECK(length(1) == length(60));
  CHECK(std::abs(length(50) - 40) < 6);
  CHECK(std::abs(length(5000) - 1800) < 250);
  CHECK(length(1'000'000) == length(5000));
  CHECK(length(1000) == length(5000));  // between two clusters: nothing says that it is short
}

TEST_CASE("prompt clusters: what says nothing, or too little, or the contrary, makes one cluster") {
  std::mt19937_64 random{3};
  using kinds = std::vector<std::pair<double, double>>;
  // The same outputs, then twice as long, then long questions with short outputs.
  for (const kinds& k :
       {kinds{{50, 300}, {500, 300}, {5000, 300}}, kinds{{50, 200}, {5000, 400}}, kinds{{50, 2000}, {5000, 20}}}) {
    const pairs seen = draw(random, 4000, k);
    double sum = 0;
    for (const auto& [prompt, output] : seen) sum += static_cast<double>(output);
    const fitted length{{}, seen};
    CHECK(length.length.clusters() == 1);
    for (const std::int64_t prompt : {0, 50, 700, 5000, 100'000}) CHECK(length(prompt) == std::llround(sum / 4000));
  }
  // Too few of one kind, however different; then as many as make a cluster.
  pairs seen = draw(random, 300, {{50, 10}});
  for (int i = 0; i != 5; ++i) seen.emplace_back(9000, 5000);
  CHECK(fitted{{}, seen}.length.clusters() == 1);
  for (std::size_t i = 0; i != prompt_clusters::least; ++i) seen.emplace_back(9000, 5000);
  CHECK(fitted{{}, seen}(9000) > 4000);
}

TEST_CASE("prompt clusters: equal outputs differ as surely as can be, and none from none not at all") {
  pairs seen;
  for (int i = 0; i != 200; ++i) seen.emplace_back(i % 2 == 0 ? 10 : 100, i % 2 == 0 ? 5 : 15);
  CHECK(fitted{{}, seen}(10) == 5);
  CHECK(fitted{{}, seen}(100) == 15);
  for (auto& [prompt, output] : seen) output = 0;
  CHECK(fitted{{}, seen}.length.clusters() == 1);
}

TEST_CASE("prompt clusters: a few long outputs among many short ones make no cluster, wherever they are") {
  std::mt19937_64 random{5};
  std::size_t split = 0;
  for (int round = 0; round != 300; ++round) {
    pairs seen;
    for (int i = 0; i != 1000; ++i) {
      seen.emplace_back(static_cast<std::int64_t>(random() % 5000), random() % 100 < 3 ? 3000 : 10);
    }
    split += fitted{{}, seen}.length.clusters() > 1 ? 1 : 0;
  }
  CHECK(split == 0);
}

TEST_CASE("prompt clusters: the window has the last, nothing is known before a fit, and nothing is allocated") {
  std::mt19937_64 random{4};
  const pairs before = draw(random, 1000, {{50, 2000}, {5000, 20}});
  const pairs after = draw(random, 500, {{50, 20}, {5000, 2000}});
  auto storage = storage_for<prompt_clusters>({.window = 500, .groups = 16});
  prompt_clusters length{storage};
  CHECK(length(tokens{50}) == tokens{});
  CHECK(length.size() == 0);
  const tessera_test::no_allocation guard;
  length.fit();
  CHECK(length(tokens{50}) == tokens{});
  for (const auto& [prompt, output] : before) length.observe(tokens{prompt}, tokens{output});
  length.fit();
  const std::size_t one = length.clusters();
  for (const auto& [prompt, output] : after) length.observe(tokens{prompt}, tokens{output});
  const std::size_t unchanged = length.clusters();
  length.fit();
  const std::size_t two = length.clusters();
  CHECK(guard.allocations() == 0);
  CHECK(one == 1);
  CHECK(unchanged == 1);
  CHECK(two == 2);
  CHECK(length.size() == 500);
}

}  // namespace
