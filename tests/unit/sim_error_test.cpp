// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/error.hpp>

#include "support/catch.hpp"

#include <string>
#include <string_view>

namespace {

namespace sim = tessera::sim;

TEST_CASE("text from a file is shortened and escaped for a message", "[sim]") {
  CHECK(sim::shown("") == "''");
  CHECK(sim::shown("abc") == "'abc'");
  CHECK(sim::shown("a\nb\tc\rd") == "'a\\nb\\tc\\rd'");
  CHECK(sim::shown(std::string_view{"\0\x1b\xff", 3}) == "'\\x00\\x1b\\xff'");
  CHECK(sim::shown("it's \\") == "'it\\'s \\\\'");
  CHECK(sim::shown(std::string(40, 'x')) == "'" + std::string(40, 'x') + "'");
  CHECK(sim::shown(std::string(41, 'x')) == "'" + std::string(40, 'x') + "'...");
  CHECK(sim::shown("abcdef", 3) == "'abc'...");
}

TEST_CASE("an input error names file, line, column, what was expected and what was found", "[sim]") {
  const sim::input_error e{"a.csv", {3, 7}, "a number", "'x'"};
  CHECK(std::string{e.what()} == "a.csv:3:7: expected a number, found 'x'");
  CHECK(e.file() == "a.csv");
  CHECK(e.line() == 3);
  CHECK(e.column() == 7);
  CHECK(e.expected() == "a number");
  CHECK(e.found() == "'x'");

  const sim::input_error whole{"a.csv", {}, "a readable file", "No such file"};
  CHECK(std::string{whole.what()} == "a.csv: expected a readable file, found No such file");
}

TEST_CASE("one handler catches every error of the tools", "[sim]") {
  CHECK_THROWS_AS((throw sim::input_error{"f", {1, 1}, "a", "b"}), sim::error);
  CHECK_THROWS_AS(throw sim::usage_error{"u"}, sim::error);
  CHECK_THROWS_AS(throw sim::output_error{"o"}, sim::error);
}

}  // namespace
