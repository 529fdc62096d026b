// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <prompt_lookup.hpp>

#include <support/catch.hpp>
#include <tessera/sim/random.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace {

using sequence = std::vector<llama_token>;

sequence guesses(const sequence& s, std::size_t most) {
  sequence found{99};
  llama_cpp::look_up(s, most, found);
  return found;
}

TEST_CASE("prompt lookup: what followed the last tokens before") {
  CHECK(guesses({}, 4).empty());
  CHECK(guesses({1}, 4).empty());
  CHECK(guesses({1, 2}, 4).empty());
  CHECK(guesses({1, 2, 3, 4, 5}, 4).empty());
  CHECK(guesses({5, 1, 5}, 4).empty());  // one token in common is chance
  CHECK(guesses({1, 2, 7, 8, 1, 2}, 4) == sequence{7, 8, 1, 2});
  CHECK(guesses({1, 2, 7, 8, 1, 2}, 1) == sequence{7});
  CHECK(guesses({1, 2, 7, 8, 1, 2}, 0).empty());
  CHECK(guesses({4, 4, 4}, 3) == sequence{4});  // up to the end of the text
  // The last time; but three that agree, rather than two.
  CHECK(guesses({1, 2, 5, 1, 2, 6, 1, 2}, 1) == sequence{6});
  CHECK(guesses({0, 1, 2, 5, 3, 1, 2, 6, 0, 1, 2}, 1) == sequence{5});
}

/// For each place, in plain words.
sequence expected(const sequence& s, std::size_t most) {
  for (const std::size_t n : {std::size_t{3}, std::size_t{2}}) {
    for (std::size_t end = s.size(); end-- > n;) {
      if (!std::equal(s.end() - static_cast<std::ptrdiff_t>(n), s.end(),
                      s.begin() + static_cast<std::ptrdiff_t>(end - n))) {
        continue;
      }
      const auto from = s.begin() + static_cast<std::ptrdiff_t>(end);
      return {from, from + static_cast<std::ptrdiff_t>(std::min(most, s.size() - end))};
    }
  }
  return {};
}

TEST_CASE("prompt lookup: random texts against the definition") {
  tessera::sim::random_engine rng{4};
  std::size_t found = 0;
  for (int i = 0; i < 3000; ++i) {
    sequence s(tessera::sim::uniform_below(rng, 20));
    for (llama_token& t : s) t = static_cast<llama_token>(tessera::sim::uniform_below(rng, 3));
    const std::size_t most = tessera::sim::uniform_below(rng, 6);
    const sequence got = guesses(s, most);
    REQUIRE(got == expected(s, most));
    found += got.empty() ? 0U : 1U;
  }
  CHECK(found > 1000);
}

}  // namespace
