// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/format.hpp>

#include <array>
#include <string_view>

/// @file
/// Azure's inference traces, of 2023 to 2025.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

inline constexpr std::array azure_names{
    column_name{column::arrival, "timestamp"},
    column_name{column::prompt, "contexttokens"},
    column_name{column::output, "generatedtokens"},
};
inline constexpr trace_format azure_format{.whose = "Azure's inference traces", .names = azure_names};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
