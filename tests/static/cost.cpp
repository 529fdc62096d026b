// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/cost/fit.hpp>
#include <tessera/cost/learned_steps.hpp>

#include <type_traits>

namespace {

using namespace tessera::cost;

static_assert(std::is_trivially_copyable_v<batch_features> && std::is_nothrow_default_constructible_v<batch_features>);
static_assert(std::is_trivially_copyable_v<qoe_model> && std::is_trivially_copyable_v<least_squares<5>>);
static_assert(std::is_trivially_copyable_v<learned_steps> && std::is_nothrow_default_constructible_v<learned_steps>);
static_assert(sizeof(batch_features) == 32);
static_assert(qoe_model{{1, 2, 3, 4, 5}}.batch(feature_vector{1, 2, 3, 3, 10}) == 2 * 76);
static_assert(qoe_model{{0, 1, 0, 0, 0}}.valid() && !qoe_model{{0, -1, 0, 0, 0}}.valid());
static_assert(transfer_cost{1, 2}.valid() && !transfer_cost{1, -2}.valid());

}  // namespace
