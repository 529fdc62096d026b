// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>
#include <tessera/sim/input/formats/formats.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

/// @file
/// Finds the format of a file by its names, and the message if there is none.

TESSERA_NAMESPACE_BEGIN

namespace sim::detail {

/// The parts of a format that a file has.
struct format_match {
  std::string_view prompt{};  ///< The name of its prompt; empty: none.
  std::string_view output{};  ///< The name of its output, or of the answer beside the reasoning.
  bool marks = true;          ///< All marks are there.
};

/// Compares the normalised names of a record with a format.
[[nodiscard]] format_match match(const trace_format& f, const std::vector<std::string>& names);

/// The names that the file lacks of a format that it half matches; otherwise the list of formats.
[[nodiscard]] std::string missing_names(const std::vector<std::string>& names);

/// The first format that fits these names and satisfies `holds`. `refuse(expected)` must throw. @param what has the
/// names.
template <class Holds, class Refuse>
[[nodiscard]] const trace_format& format_of(std::string_view what, const std::vector<std::string>& names, Holds&& holds,
                                            Refuse&& refuse) {
  for (const trace_format* f : trace_formats) {
    const format_match m = match(*f, names);
    const bool lengths = f->marked || !f->refusal.empty() || (!m.prompt.empty() && !m.output.empty());
    const bool within = !f->within.empty();  // Its records are further down.
    if (!holds(*f) || (!within && (!lengths || !m.marks))) continue;
    if (!f->refusal.empty() && !f->runs) refuse(f->refusal);
    return *f;
  }
  refuse(fmt::format("{} with {}", what, missing_names(names)));
  throw error{"unreachable"};
}

}  // namespace sim::detail
TESSERA_NAMESPACE_END
