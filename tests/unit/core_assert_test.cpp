// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// An engine's own handler: the macro is defined before the first header of the library. Only code of this file uses
// it here, so no function that is shared with other files has two meanings.

#include <string>

namespace {

struct violation {
  std::string condition;
  std::string message;
};

}  // namespace

#define TESSERA_ASSERT(condition, message) ((condition) ? static_cast<void>(0) : throw violation{#condition, message})

#include <tessera/core/assert.hpp>

#include "support/catch.hpp"

namespace {

int checked_half(int n) {
  TESSERA_ASSERT(n % 2 == 0, "only even numbers have a half");
  return n / 2;
}

TEST_CASE("the assertion macro can be replaced", "[core]") {
  CHECK(checked_half(4) == 2);
  try {
    checked_half(3);
    FAIL("the handler was not called");
  } catch (const violation& v) {
    CHECK(v.condition == "n % 2 == 0");
    CHECK(v.message == "only even numbers have a half");
  }
}

TEST_CASE("the inline namespace says whether preconditions are checked", "[core]") {
#if TESSERA_CHECKED
  STATIC_REQUIRE(noexcept(tessera::v0_1_checked::detail::assertion_failed("", "", "", 0)));
#else
  STATIC_REQUIRE(noexcept(tessera::v0_1::detail::assertion_failed("", "", "", 0)));
#endif
}

}  // namespace
