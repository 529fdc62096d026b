// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/core/status.hpp>

#include "support/catch.hpp"

#include <iterator>
#include <set>
#include <string>

namespace {

using tessera::status;

constexpr status all[] = {
    status::ok,      status::never_fits,      status::queue_full, status::exhausted, status::not_allocated,
    status::foreign, status::unknown_request, status::busy,       status::invalid,   status::refused};

TEST_CASE("only ok is ok", "[core]") {
  STATIC_REQUIRE(sizeof(status) == 1);
  STATIC_REQUIRE(status::accepted == status::ok);
  STATIC_REQUIRE(status{} == status::ok);
  for (const status s : all) CHECK(tessera::ok(s) == (s == status::ok));
}

TEST_CASE("every status has a name of its own", "[core]") {
  std::set<std::string> names;
  for (const status s : all) {
    const std::string name = tessera::to_string(s);
    CHECK_FALSE(name.empty());
    CHECK(name != "?");
    CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos);
    names.insert(name);
  }
  CHECK(names.size() == std::size(all));
  CHECK(std::string{tessera::to_string(status::queue_full)} == "queue_full");
  CHECK(std::string{tessera::to_string(static_cast<status>(250))} == "?");
}

}  // namespace
