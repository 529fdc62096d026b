// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/input.hpp>
#include <tessera/sim/report/report.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// A comparison as one self-contained HTML page: no network, no scripts, the pictures embedded.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// Text as HTML.
[[nodiscard]] std::string html_text(std::string_view text);

/// Lines of text, each a paragraph.
[[nodiscard]] std::string html_lines(std::string_view text);

/// A table of two columns, name and value.
[[nodiscard]] std::string html_facts(std::span<const std::pair<std::string, std::string>> facts);

/// The comparison with all its columns: as `format_table`, without a limit on the width.
[[nodiscard]] std::string html_table(std::span<const replicates> rows);

/// A picture drawn by gnuplot, for embedding: without its XML prolog, and with names that do not collide with other
/// pictures.
/// @param name of the picture, in letters and underscores.
[[nodiscard]] std::string html_picture(std::string_view svg, std::string_view name);

/// A part of a page.
struct html_section {
  std::string title;  ///< Its heading; empty: none.
  std::string body;   ///< HTML; empty: the part is left out.
};

/// The whole page.
[[nodiscard]] std::string html_page(std::string_view title, std::span<const html_section> sections);

}  // namespace sim
TESSERA_NAMESPACE_END
