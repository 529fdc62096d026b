// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/own.hpp>

#include <array>
#include <string_view>

/// @file
/// LiteLLM's spend logs, as a table or as the proxy returns them: this project's names, with its start of the request.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

inline constexpr std::array<std::string_view, 3> litellm_marks{"call_type", "starttime", "completion_tokens"};
inline constexpr trace_format litellm_format{
    .whose = "LiteLLM's spend logs", .names = own_names, .marks = litellm_marks};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
