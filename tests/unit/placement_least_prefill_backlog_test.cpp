// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/placement/least_prefill_backlog.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

namespace {

using namespace tessera;

struct view {
  std::size_t requests = 0;
  double phi = 0;
  double error = 0;
  double prefill_backlog = 0;
};

TEST_CASE("least_prefill_backlog: the least backlog of those that may be chosen, in turn; else as highest_phi",
          "[placement]") {
  std::mt19937 random{3};
  placement::least_prefill_backlog chooses;
  placement::highest_phi plain;
  for (int round = 0; round != 20'000; ++round) {
    chooses.phi_high_watermark = random() % 2 == 0 ? 0.75 : std::numeric_limits<double>::infinity();
    std::vector<view> views(1 + random() % 6);
    const bool known = random() % 4 == 0;
    const double low = random() % 3 == 0 ? -0.5 : 0.25;
    for (view& v : views) {
      v = {.requests = random() % 3,
           .phi = low + static_cast<double>(random() % 8) / 8,
           .error = known ? 0 : static_cast<double>(random() % 4) / 16,
           .prefill_backlog = static_cast<double>(random() % 3)};
    }
    double most = views[0].phi;
    for (const view& v : views) most = std::max(most, v.phi);
    const std::size_t from = chooses.ties.begin(0, views.size());
    const std::size_t expected_plain = placement::highest_phi{plain}(views);
    const std::size_t at = chooses(views);
    REQUIRE(at < views.size());
    if (most < 0.5) {
      REQUIRE(at == expected_plain);
      plain = chooses.highest;
      continue;
    }
    const auto may = [&](const view& v) {
      return v.phi >= chooses.phi_high_watermark || (v.phi >= 0.5 && v.phi + v.error >= most);
    };
    REQUIRE(may(views[at]));
    for (std::size_t k = 0; k != views.size(); ++k) {
      if (!may(views[k]) || k == at) continue;
      // In turn: an instance that comes before it, from `from` on, has more.
      const auto place = [&](std::size_t i) { return (i + views.size() - from) % views.size(); };
      REQUIRE((place(k) < place(at) ? views[k].prefill_backlog > views[at].prefill_backlog
                                    : views[k].prefill_backlog >= views[at].prefill_backlog));
    }
  }
}

TEST_CASE("least_prefill_backlog: nowhere of none; what is no number is chosen if no other is there", "[placement]") {
  placement::least_prefill_backlog chooses;
  CHECK(chooses(std::vector<view>{}) == placement::nowhere);
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  CHECK(chooses(std::array{view{.phi = none}}) == 0);
  CHECK(chooses(std::array{view{.phi = none, .error = 9}, view{.phi = 0.9, .prefill_backlog = 5}}) == 1);
  // Without any backlog and with enough of everything, all in turn.
  std::array<std::size_t, 3> times{};
  for (int i = 0; i != 30; ++i) {
    ++times[chooses(std::array{view{.phi = 1}, view{.phi = 0.9, .error = 0.1}, view{.phi = 1}})];
  }
  CHECK(times == std::array<std::size_t, 3>{10, 10, 10});
}

TEST_CASE("least_prefill_backlog: an instance above the high watermark is second to none for having a little less",
          "[placement]") {
  placement::least_prefill_backlog chooses;
  const auto first_of = [&](double phi) {
    std::size_t times = 0;
    for (int i = 0; i != 10; ++i) times += chooses(std::array{view{.phi = phi}, view{.phi = 0.95}}) == 0 ? 1U : 0U;
    return times;
  };
  CHECK(first_of(0.75) == 5);
  CHECK(first_of(0.74) == 0);
  chooses.phi_high_watermark = std::numeric_limits<double>::infinity();
  CHECK(first_of(0.75) == 0);
}

TEST_CASE("least_prefill_backlog: the highest is as good as itself, whatever is said of its error", "[placement]") {
  placement::least_prefill_backlog chooses;
  CHECK(chooses(std::vector<view>{{.phi = 0.6, .error = -0.01}, {.phi = 0.55, .error = -0.01}}) == 0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(chooses(std::vector<view>{{.phi = 0.55, .error = nan}, {.phi = 0.6, .error = nan}}) == 1);
}

}  // namespace
