// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/core/assert.hpp>
#include <tessera/sim/cluster/fault.hpp>
#include <tessera/sim/error.hpp>
#include <tessera/sim/random.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

bool valid(const fault& f, std::size_t instances) noexcept {
  constexpr double never_ends = std::numeric_limits<double>::infinity();
  return f.instance < instances && f.at_s > -never_ends && f.at_s < never_ends && f.for_s > 0 &&
         (f.for_s < never_ends || f.kind == fault_kind::dies) && f.factor > 0 && f.factor < never_ends;
}

std::vector<fault> random_deaths(std::size_t instances, double from_s, double to_s, double mtbf_s, double mttr_s,
                                 std::uint64_t seed) {
  TESSERA_ASSERT(mtbf_s > 0 && mttr_s > 0, "times between failures and of repairs are positive");
  constexpr std::uint64_t first_stream = 1'000'000;  // of the seed; others have small numbers
  std::vector<fault> deaths;
  for (std::size_t i = 0; i != instances; ++i) {
    random_engine draws{seed, first_stream + i};
    for (double at = from_s;;) {
      at += exponential(draws, 1 / mtbf_s);
      if (!(at < to_s)) break;
      const double down = exponential(draws, 1 / mttr_s);
      deaths.push_back({.kind = fault_kind::dies, .instance = i, .at_s = at, .for_s = down});
      at += down;
    }
  }
  std::stable_sort(deaths.begin(), deaths.end(), [](const fault& a, const fault& b) { return a.at_s < b.at_s; });
  return deaths;
}

fault parse_fault(std::string_view text) {
  const auto wrong = [&](std::string_view why) -> usage_error {
    return usage_error{
        fmt::format("the fault {} {}; expected die:INSTANCE@SECONDS[+SECONDS], "
                    "hang:INSTANCE@SECONDS+SECONDS or slow:INSTANCE@SECONDS+SECONDSxFACTOR",
                    shown(text), why)};
  };
  fault f;
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  if (kind == "hang") {
    f.kind = fault_kind::hangs;
  } else if (kind == "slow") {
    f.kind = fault_kind::slows;
  } else if (kind != "die") {
    throw wrong("is of an unknown kind");
  }
  std::string_view rest = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  const auto number = [&](auto& to, std::string_view what) {
    const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), to);
    if (failure != std::errc{}) throw wrong(fmt::format("does not say {}", what));
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  };
  const auto mark = [&](char c) {
    if (rest.empty() || rest.front() != c) return false;
    rest.remove_prefix(1);
    return true;
  };
  number(f.instance, "which instance");
  if (!mark('@')) throw wrong("does not say when");
  // More is not meant; and up to there a double holds a moment to a tenth of a microsecond.
  constexpr double longest_s = 1e9;
  constexpr double slowest = 1000;
  number(f.at_s, "when");
  if (!(f.at_s >= 0 && f.at_s <= longest_s)) throw wrong(fmt::format("begins before 0 or after {:g} s", longest_s));
  if (mark('+')) {
    number(f.for_s, "how long");
    // Every moment of a hang and of a slow time is simulated.
    const double most_s = f.kind == fault_kind::dies ? longest_s : 86'400;
    if (!(f.for_s > 0 && f.for_s <= most_s)) throw wrong(fmt::format("does not last between 0 and {:g} s", most_s));
  } else if (f.kind != fault_kind::dies) {
    throw wrong("does not say how long");
  }
  if (f.kind == fault_kind::slows) {
    if (!mark('x')) throw wrong("does not say how many times slower");
    number(f.factor, "how many times slower");
    if (!(f.factor >= 1 && f.factor <= slowest)) {
      throw wrong(fmt::format("is not from 1 to {:g} times slower", slowest));
    }
  }
  if (!rest.empty()) throw wrong(fmt::format("goes on with {}", shown(rest)));
  return f;
}

}  // namespace sim
TESSERA_NAMESPACE_END
