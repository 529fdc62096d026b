// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/concepts.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Whether `T` is a part that comes after a composition's own parameters: a block store or block tables. If one of the
/// own parameters is such a part, a parameter before it was left out.
template <class T>
inline constexpr bool is_memory_part = kv::block_store<T> || is_kv_groups<T> || kv::table_policy<T>;

}  // namespace detail
TESSERA_NAMESPACE_END
