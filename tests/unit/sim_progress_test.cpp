// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/report/progress.hpp>

#include "support/catch.hpp"

#include <cstdio>
#include <string>
#include <string_view>

namespace {

namespace sim = tessera::sim;

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

TEST_CASE("what is no terminal gets no progress bar", "[sim]") {
  std::FILE* f = std::tmpfile();
  REQUIRE(f != nullptr);
  CHECK_FALSE(sim::is_terminal(f));
  CHECK_FALSE(sim::is_terminal(nullptr));
  {
    sim::progress_bar bar{"fcfs", 10, f};
    bar.update(5);
    bar.clear();
  }
  CHECK(std::ftell(f) == 0);
  CHECK(std::fclose(f) == 0);
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
  CHECK(text.find("\x1b[K") == text.rfind("\x1b[K"));  // Wiped once.
  CHECK(std::fclose(f) == 0);
}

}  // namespace
