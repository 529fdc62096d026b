// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What users of other routers have reported in public, and what must not happen here. Each test names the report:
// project and number. Reports with a right value that another test proves are not repeated here.

#include <tessera/placement/lmetric.hpp>
#include <tessera/placement/prefix_affinity.hpp>

#include "support/catch.hpp"
#include "support/ledger_of_alike.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;
using fleet::replica_id;

constexpr time_point at(double seconds) { return time_point::at_seconds(seconds); }

}  // namespace

TEMPLATE_TEST_CASE("requests that never overlap do not all go to one replica (Infera 103)", "[reports]",
                   placement::lmetric, placement::prefix_affinity) {
  // 28 sessions of 16 turns on two replicas. A turn ends before the next request of any session comes.
  tessera_test::ledger_of_alike f{2};
  TestType policy;
  std::vector<std::array<tokens, 2>> cached(28);  // of a session, on each replica
  std::array<int, 2> sent{};
  int found = 0;
  fleet::request_id request = 0;
  for (std::int64_t turn = 1; turn <= 16; ++turn) {
    for (auto& session : cached) {
      const tokens prompt = turn * 64_tok;
      const auto has = [&](replica_id id) noexcept { return session[id]; };
      const auto chosen = f.l.rank(policy, fleet::prefix<decltype(has)>{prompt, 0, has});
      REQUIRE(chosen.size() == 1);
      const replica_id to = chosen.front();
      ++sent[to];
      found += session[to] == prompt - 64_tok && turn > 1;
      REQUIRE(ok(f.l.reserve(++request, to, {.prompt = prompt, .cached = session[to]}, at(1))));
      CHECK(f.l.first_token(request, to, at(1)));
      CHECK(f.l.release(request, to));
      session[to] = prompt;
    }
  }
  CHECK(sent == std::array{224, 224});
  CHECK(found == 28 * 15);  // every later turn goes to where its session is
}
