// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/pipeline/plan.hpp>
#include <tessera/request/hook.hpp>

#include "support/catch.hpp"

#include <array>

TEST_CASE("a plan's entries are those of decode, then those of prefill") {
  using namespace tessera;
  std::array<request_hook, 3> r;
  const std::array decode{
      scheduled<request_hook>{&r[0], tokens{7}, tokens{1}, tokens{}, 0, 0, true, entry_origin::going_on}};
  const std::array prefill{
      scheduled<request_hook>{&r[1], tokens{0}, tokens{9}, tokens{}, 1, 1, true, entry_origin::started},
      scheduled<request_hook>{&r[2], tokens{4}, tokens{2}, tokens{}, 2, 0, false, entry_origin::going_on}};
  step_plan<request_hook> p;
  CHECK(p.empty());
  CHECK(p.size() == 0);
  p.decode = decode;
  p.prefill = prefill;
  REQUIRE(p.size() == 3);
  CHECK_FALSE(p.empty());
  for (std::size_t i = 0; i != 3; ++i) CHECK(p[i].request == &r[i]);
}

TEST_CASE("the default outcome is one more token") {
  const tessera::outcome o;
  CHECK(o.produced == 1);
  CHECK_FALSE((o.finished || o.failed || o.end_of_reasoning));
}
