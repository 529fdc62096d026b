// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/input/split_list.hpp>

#include "support/catch.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace {

namespace sim = tessera::sim;
using list = std::vector<std::string_view>;

TEST_CASE("a list is split at its separators, and nothing is lost", "[sim]") {
  CHECK(sim::split_list("a,b,c") == list{"a", "b", "c"});
  CHECK(sim::split_list("a") == list{"a"});
  CHECK(sim::split_list("") == list{""});
  CHECK(sim::split_list(",") == list{"", ""});
  CHECK(sim::split_list(" a,,b ") == list{" a", "", "b "});
  CHECK(sim::split_list("1:2:3,4", ':') == list{"1", "2", "3,4"});
  for (const std::string_view text : {"", ",", ",,a,b", "abc,", "x"}) {
    std::string joined;
    for (const std::string_view item : sim::split_list(text)) joined += std::string{item} + ",";
    joined.pop_back();
    CHECK(joined == text);
  }
}

}  // namespace
