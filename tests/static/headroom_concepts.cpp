// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Truth tables of Phasor's parts: which views can be routed by Phi, which stranded rules may be used, what a window
// quantile holds. Compiled, never run.

#include <tessera/control/phasor.hpp>
#include <tessera/headroom/reference_demand.hpp>
#include <tessera/placement/phasor_router.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace headroom_truth {

using namespace tessera;
using namespace tessera::placement;

struct phi_only {
  double phi;
};
struct phi_and_requests {
  float phi;
  std::size_t requests;
};
struct phi_in_blocks {
  blocks phi;
  std::size_t requests;
};
struct requests_only {
  std::size_t requests;
};
static_assert(shows_phi<phi_only> && shows_phi<phi_and_requests>);
static_assert(!shows_phi<phi_in_blocks> && !shows_phi<requests_only> && !shows_phi<double>);

template <class P, class V>
concept places = requires(P& p, const V& v) {
  { p(v) } noexcept -> std::same_as<std::size_t>;
};
static_assert(places<highest_phi, std::vector<phi_and_requests>>);
static_assert(places<highest_phi, std::span<const phi_and_requests>>);
static_assert(!places<highest_phi, std::vector<phi_only>>);
static_assert(!places<highest_phi, std::vector<requests_only>>);
static_assert(!places<highest_phi, std::vector<phi_in_blocks>>);
static_assert(!places<highest_phi, phi_and_requests>);

static_assert(kv::stranded_policy<headroom::stranded_by_blocked_demand>);

template <class T>
concept has_quantiles = requires { typename headroom::window_quantile<T>; };
static_assert(has_quantiles<double> && has_quantiles<blocks> && has_quantiles<tokens>);
static_assert(!has_quantiles<std::string>);
struct unordered {
  int x;
};
static_assert(!has_quantiles<unordered>);

// What refers to its storage is not copied; what is a value is.
static_assert(!std::is_copy_constructible_v<phi_index> && !std::is_copy_constructible_v<phasor_router>);
static_assert(!std::is_copy_constructible_v<control::flow_controller>);
static_assert(!std::is_copy_constructible_v<control::defragmenter>);
static_assert(!std::is_copy_constructible_v<control::phasor>);
static_assert(!std::is_copy_constructible_v<headroom::window_quantile<int>>);
static_assert(std::is_trivially_copyable_v<headroom::prefill_load>);
static_assert(std::is_trivially_copyable_v<control::worker> && std::is_trivially_copyable_v<control::move>);

}  // namespace headroom_truth
