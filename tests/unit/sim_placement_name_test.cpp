// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/cluster/placement_name.hpp>

#include "support/catch.hpp"

#include <string_view>

namespace mine {

struct most_free {};
template <class Score>
struct best_of {};
struct called {};

}  // namespace mine

TESSERA_NAMESPACE_BEGIN
template <>
inline constexpr std::string_view sim::placement_name<mine::called> = "as-i-like";
TESSERA_NAMESPACE_END

namespace {

namespace sim = tessera::sim;

struct hidden {};

TEST_CASE("placements of one's own are told apart by the names of their types", "[sim]") {
  CHECK(sim::placement_name<mine::most_free> == "most_free");
  CHECK(sim::placement_name<mine::best_of<mine::most_free>> == "best_of");
  CHECK(sim::placement_name<hidden> == "hidden");
  CHECK(sim::placement_name<mine::called> == "as-i-like");
  CHECK(sim::placement_name<tessera::placement::least_load> == "least-load");
}

}  // namespace
