// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/formats/format.hpp>

#include <array>
#include <string_view>

/// @file
/// Three formats of one shape. Mooncake's traces: blocks of 512 tokens, milliseconds. Aiperf's: sessions and delays.
/// Bailian's: chats, blocks of 16 tokens, seconds. Without hashes and sessions the unit is unknown.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

inline constexpr std::array mooncake_names{
    column_name{column::arrival, "timestamp"},     column_name{column::prompt, "input_length"},
    column_name{column::output, "output_length"},  column_name{column::reasoning, "reasoning_tokens"},
    column_name{column::answer, "answer_tokens"},  column_name{column::score, "score"},
    column_name{column::session, "session"},       column_name{column::session, "session_id"},
    column_name{column::think, "think_s", 1},      column_name{column::think, "delay", 1e3},
    column_name{column::hashes, "hash_ids"},       column_name{column::tenant, "tenant"},
    column_name{column::tool, "calls_tool"},       column_name{column::id, "chat_id"},
    column_name{column::parent, "parent_chat_id"}, column_name{column::status, "status"},
    column_name{column::error, "error"},
};
inline constexpr std::array<std::string_view, 2> bailian_marks{"chat_id", "parent_chat_id"};
inline constexpr trace_format bailian_format{
    .whose = "Bailian's traces", .names = mooncake_names, .marks = bailian_marks, .whole_unit = 1, .hash_tokens = 16};
inline constexpr std::array<std::string_view, 1> mooncake_marks{"hash_ids"};
inline constexpr trace_format mooncake_format{
    .whose = "Mooncake's traces", .names = mooncake_names, .marks = mooncake_marks, .whole_unit = 1000};
inline constexpr std::array<std::string_view, 1> mooncake_session_marks{"session_id"};
inline constexpr trace_format mooncake_session_format{.whose = "aiperf's Mooncake traces with sessions",
                                                      .names = mooncake_names,
                                                      .marks = mooncake_session_marks,
                                                      .whole_unit = 1000};
inline constexpr trace_format mooncake_lengths_format{.whose = "the lengths of a Mooncake trace",
                                                      .names = mooncake_names};

}  // namespace sim::detail
TESSERA_NAMESPACE_END
