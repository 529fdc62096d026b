// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/input/did_you_mean.hpp>
#include <tessera/sim/model/profiles.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace sim = tessera::sim;

TEST_CASE("a misspelt name is told what it may have meant", "[sim]") {
  const std::vector<std::string_view> names{"fcfs", "rr", "pascal", "pascal-paced", "due-first", "sarathi"};
  CHECK(sim::did_you_mean("due_first", names) == " (did you mean due-first?)");
  CHECK(sim::did_you_mean("Pascal", names) == " (did you mean pascal?)");
  CHECK(sim::did_you_mean("pascalpaced", names) == " (did you mean pascal-paced?)");
  CHECK(sim::did_you_mean("fcsf", names).empty());  // two letters of four
  CHECK(sim::did_you_mean("fcf", names) == " (did you mean fcfs?)");
  CHECK(sim::did_you_mean("due", names) == " (did you mean due-first?)");
  CHECK(sim::did_you_mean("nonsense", names).empty());
  CHECK(sim::did_you_mean("", names).empty());
  CHECK(sim::did_you_mean("x", names).empty());
  CHECK(sim::did_you_mean(std::string(100'000, 'x'), names).empty());
  try {
    static_cast<void>(sim::find_profile("h200"));
    CHECK(false);
  } catch (const sim::usage_error& e) {
    CHECK(std::string_view{e.what()}.find("'h200' (did you mean h200-llama-3.1-8b, h200-141gb-llama-3.1-8b, ") !=
          std::string_view::npos);
  }
}

TEST_CASE("the distance of two texts is that of the plain recursion", "[sim]") {
  const auto plain = [](auto&& self, std::string_view a, std::string_view b) -> std::size_t {
    if (a.empty() || b.empty()) return a.size() + b.size();
    const std::size_t replaced = self(self, a.substr(1), b.substr(1)) + (a[0] == b[0] ? 0U : 1U);
    return std::min({replaced, self(self, a.substr(1), b) + 1, self(self, a, b.substr(1)) + 1});
  };
  for (const std::string_view a : {"", "a", "abc", "cab", "bbac", "acbca"}) {
    for (const std::string_view b : {"", "b", "acb", "abca", "ccba"}) {
      CAPTURE(a, b);
      CHECK(sim::detail::edit_distance(a, b) == plain(plain, a, b));
    }
  }
}

}  // namespace
