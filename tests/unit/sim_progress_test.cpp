// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/report/progress.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace {

namespace sim = tessera::sim;
using tessera_test::approx;

std::string content(std::FILE* f) {
  std::string text(static_cast<std::size_t>(std::ftell(f)), '\0');
  std::rewind(f);
  REQUIRE(std::fread(text.data(), 1, text.size(), f) == text.size());
  return text;
}

TEST_CASE("the progress bar draws on change and wipes itself", "[sim]") {
  std::FILE* f = std::tmpfile();
  REQUIRE(f != nullptr);
  {
    sim::progress_bar bar{"fcfs", 1000, f, true};
    const long first = std::ftell(f);
    CHECK(first > 0);
    bar.update(1);
    bar.update(9.99);
    CHECK(std::ftell(f) == first);  // Still 0 %.
    bar.update(500);
    CHECK(std::ftell(f) > first);
    bar.update(5000);
    bar.update(-1);
  }
  const std::string text = content(f);
  CHECK(text.find("\rfcfs [........................................]   0 %") == 0);
  CHECK(text.find("[####################....................]  50 %") != text.npos);
  CHECK(text.find("[########################################] 100 %") != text.npos);
  CHECK(std::string_view{text}.ends_with("\r\x1b[K"));
  CHECK(std::fclose(f) == 0);
}

TEST_CASE("what is no terminal gets a line every ten seconds, and none of a short run", "[sim]") {
  std::FILE* f = std::tmpfile();
  REQUIRE(f != nullptr);
  CHECK_FALSE(sim::is_terminal(f));
  CHECK_FALSE(sim::is_terminal(nullptr));
  {
    sim::progress_bar bar{"fcfs", 10, f};
    bar.update(1, 0.5);
    bar.update(5, 9.9);
    bar.clear();
    CHECK(std::ftell(f) == 0);
    bar.update(5, 10);
    bar.update(6, 19);  // too soon
    bar.update(8, 20,
               [] { return sim::progress_bar::words{.left_s = 130, .note = "due-first 12 %, 2 min 10 s left"}; });
    bar.clear();
  }
  CHECK(content(f) == "fcfs: 50 %, 10 s left\nfcfs: 80 %, 2 min 10 s left; due-first 12 %, 2 min 10 s left\n");
  CHECK(std::fclose(f) == 0);
}

TEST_CASE("what runs have left is told by the pace of each, and of its kind", "[sim]") {
  sim::run_pace pace;
  for (const std::size_t kind : {0U, 1U, 0U, 1U}) pace.add(kind, 100);
  CHECK(std::isnan(pace.left(0, 1)));
  CHECK_FALSE(pace.slowest(0));
  pace.begin(0, 0);
  pace.end(0, 2);                       // 50 a second
  CHECK(pace.left(2, 1) == approx(6));  // three more at the mean pace
  pace.begin(1, 2);
  CHECK(std::isnan(pace.slowest(2)->left_s));
  pace.update(1, 10);  // one a second
  REQUIRE(pace.slowest(12));
  CHECK(pace.slowest(12)->run == 1);
  CHECK(pace.slowest(12)->kind == 1);
  CHECK(pace.slowest(12)->part == approx(0.1));
  CHECK(pace.slowest(12)->left_s == approx(90));
  // 90 s of the one under way, 2 s of the third, 100 s of the fourth.
  CHECK(pace.left(12, 1) == approx(192));
  CHECK(pace.left(12, 2) == approx(100));  // no less than the longest
  pace.end(1, 102);
  CHECK_FALSE(pace.slowest(102));
}

TEST_CASE("work of unknown size leaves the bar empty", "[sim]") {
  std::FILE* f = std::tmpfile();
  REQUIRE(f != nullptr);
  {
    sim::progress_bar bar{"x", 0, f, true};
    bar.update(100);
    bar.clear();
    bar.clear();
  }
  const std::string text = content(f);
  CHECK(text.find("  0 %") != text.npos);
  CHECK(text.find('#') == text.npos);
  CHECK(text.find("\r\x1b[K") == text.rfind("\r\x1b[K"));  // Wiped once.
  CHECK(std::fclose(f) == 0);
}

TEST_CASE("the progress bar says how much time is left, once there is something to say", "[sim]") {
  std::FILE* f = std::tmpfile();
  REQUIRE(f != nullptr);
  {
    sim::progress_bar bar{"x", 100, f, true};
    bar.update(10, 0.5);     // too early
    bar.update(20, 10);      // 40 s for the other 80
    bar.update(20.5, 10.5);  // the same percentage, less than a second later
    bar.update(20.6, 12);    // the same percentage: it still lives
    bar.update(100, 60);
  }
  const std::string text = content(f);
  CHECK(text.find(" 10 %\x1b[K") != text.npos);
  CHECK(text.find(" 20 %, 40 s left\x1b[K") != text.npos);
  CHECK(text.find(" 20 %, 47 s left\x1b[K") != text.npos);
  CHECK(text.find("41 s") == text.npos);
  CHECK(text.find("100 %\x1b[K") != text.npos);
  CHECK(std::fclose(f) == 0);
  CHECK(sim::describe_seconds(0) == "0 s");
  CHECK(sim::describe_seconds(59.2) == "1 min 0 s");
  CHECK(sim::describe_seconds(200) == "3 min 20 s");
  CHECK(sim::describe_seconds(7500) == "2 h 5 min");
  CHECK(sim::describe_seconds(1e300) == "277777777 h 46 min");
}

TEST_CASE("a live text takes the place of the one before, on a terminal alone", "[sim]") {
  CHECK(sim::terminal_width(nullptr) == 0);
  std::FILE* f = std::tmpfile();
  REQUIRE(f != nullptr);
  {
    sim::live_text nowhere{f, std::size_t{10}};
    CHECK_FALSE(nowhere.draws());
    nowhere.show("a\n");
  }
  CHECK(std::ftell(f) == 0);
  {
    sim::live_text text{f, true};
    text.clear();
    text.show("a\nb\n");
    text.show("c\n");
  }
  CHECK(content(f) == "a\nb\n\x1b[2A\x1b[Jc\n\x1b[1A\x1b[J");
  CHECK(std::fclose(f) == 0);
}

}  // namespace
