// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/format.hpp>

#include <array>
#include <string_view>

/// @file
/// Observations of Langfuse, as its API returns them, as its blob storage has them, or as its tables are exported.
/// Observations that are not generations are left out.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

inline constexpr std::array langfuse_names{
    column_name{column::arrival, "starttime"},
    column_name{column::arrival, "start_time"},
    column_name{column::prompt, "prompttokens"},
    column_name{column::prompt, "inputusage"},
    column_name{column::prompt, "inputtokens"},
    column_name{column::prompt, "usage.input"},
    column_name{column::output, "completiontokens"},
    column_name{column::output, "outputusage"},
    column_name{column::output, "outputtokens"},
    column_name{column::output, "usage.output"},
    column_name{column::usage, "usagedetails"},
    column_name{column::usage, "usage_details"},
    column_name{column::status, "level"},
    column_name{column::kind, "type"},
};
inline constexpr std::array<std::string_view, 1> langfuse_kinds{"generation"};
inline constexpr trace_format langfuse_format{
    .whose = "Langfuse's observations", .names = langfuse_names, .kinds = langfuse_kinds, .sparse = true};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
