// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/format.hpp>

#include <array>
#include <string_view>

/// @file
/// BurstGPT: times in seconds. Rows with a response of 0 tokens have failed.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

inline constexpr std::array burstgpt_names{
    column_name{column::arrival, "timestamp"},
    column_name{column::prompt, "request_tokens"},
    column_name{column::output, "response_tokens"},
};
inline constexpr trace_format burstgpt_format{.whose = "BurstGPT", .names = burstgpt_names, .whole_unit = 1};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
