// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/partition/plan.hpp>

TESSERA_NAMESPACE_BEGIN
namespace partition {

/// All instances in one stage, without any specialisation: a layout for comparison. Needs no storage.
struct flat {
  /// One stage with all instances. Requires a place in `out`.
  stage_plan operator()(const length_table& table, std::size_t instances, std::span<stage> out) const noexcept {
    detail::check_call(table, instances, out);
    out[0] = {.from = tokens{}, .to = unbounded, .instances = instances};
    return detail::finish(table, out.first(1));
  }
};

}  // namespace partition
TESSERA_NAMESPACE_END
