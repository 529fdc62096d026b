// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "identity.hpp"
#include "support.hpp"

#include <tessera/compose/pascal.hpp>
#include <tessera/compose/round_robin.hpp>

#include <cstddef>

namespace {

using namespace test;

TEST_CASE("logits do not depend on the batch, on preemption, or on the place") {
  if (*no_identity() != '\0') {
    WARN(no_identity());
    return;
  }
  const llama_cpp::model& m = random_model();
  constexpr std::size_t n = 32;
  const world reference = alone(m, n);
  std::size_t rows = 0;
  for (const auto& r : reference.rows) rows += r.size();

  SECTION("batched") {
    const world batched = run<tessera::fcfs<recorded>>(m, n, 1, room(128, 0), 0, 1);
    CHECK(batched.preemptions == 0);
    CHECK(differences(batched, reference) == 0);
  }
  SECTION("preempted, saved to host memory, and resumed in another slot") {
    const world resumed = run<tessera::round_robin<recorded>>(m, n, 1, room(20, 512), 0, 1);
    CHECK(resumed.preemptions > 20);
    CHECK(resumed.swaps == resumed.preemptions);
    CHECK(differences(resumed, reference) == 0);
  }
  SECTION("preempted and recomputed") {
    const world recomputed = run<tessera::round_robin<recorded>>(m, n, 1, room(20, 0), 0, 1);
    CHECK(recomputed.preemptions > 20);
    CHECK(recomputed.swaps == 0);
    CHECK(differences(recomputed, reference) == 0);
  }
  SECTION("moved between two contexts") {
    const world moved = run<tessera::round_robin<recorded>>(m, n, 2, room(128, 512), 10, 1);
    CHECK(moved.moves > 50);
    CHECK(differences(moved, reference) == 0);
  }
  SECTION("all of it") {
    const world all = run<tessera::pascal<recorded>>(m, n, 2, room(14, 64), 5, 1);
    CHECK(all.preemptions > 20);
    CHECK(all.moves > 20);
    CHECK(differences(all, reference) == 0);
  }
  // A prompt's batch computes as many tokens at once as one with drafts, so these change no bit either.
  SECTION("with drafts, saved and resumed, moved") {
    const world drafted = run<drafting<tessera::round_robin>>(m, n, 2, room(20, 512), 5, 1, 5);
    CHECK(drafted.preemptions > 20);
    CHECK(drafted.moves > 20);
    CHECK(drafted.accepted > 20);
    CHECK(drafted.drafts > drafted.accepted + 20);
    CHECK(differences(drafted, reference) == 0);
  }
  SECTION("with drafts, recomputed") {
    const world drafted = run<drafting<tessera::pascal>>(m, n, 1, room(20, 0), 0, 1, 5);
    CHECK(drafted.preemptions > 20);
    CHECK(drafted.accepted > 20);
    CHECK(drafted.drafts > drafted.accepted + 20);
    CHECK(differences(drafted, reference) == 0);
  }
  CHECK(rows > 500);
}

}  // namespace
