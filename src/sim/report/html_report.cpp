// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/input/input.hpp>
#include <tessera/sim/report/html_report.hpp>
#include <tessera/sim/report/report.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string html_lines(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view line = take_line(text, at);
    if (!line.empty()) out += fmt::format("<p>{}</p>\n", html_text(line));
  }
  return out;
}

std::string html_facts(std::span<const std::pair<std::string, std::string>> facts) {
  std::string out = "<table class=\"facts\">\n";
  for (const auto& [name, value] : facts) {
    out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", html_text(name), html_text(value));
  }
  return out + "</table>\n";
}

std::string html_table(std::span<const replicates> rows) {
  std::string head = "<tr><th>policy</th><th>placement</th>";
  std::vector<std::string> body;
  for (const replicates& r : rows) {
    body.push_back(fmt::format("<tr><th scope=\"row\">{}</th><td class=\"word\">{}</td>", html_text(r.front().policy),
                               html_text(r.front().placement)));
  }
  for (const detail::measure& m : detail::measures_of(rows)) {
    const detail::comparison c = detail::compare(rows, m);
    if (m.shown == detail::when::if_any && detail::is_nothing(c.values)) continue;
    head += fmt::format("<th>{}</th>", html_text(detail::heading_of(m)));
    for (std::size_t i = 0; i != rows.size(); ++i) {
      std::string cell = c.cells[i];
      if (const double half = c.values[i].half_width; !std::isnan(half)) {
        cell += fmt::format("\u00b1{:.{}f}", half, m.digits);
      }
      body[i] += fmt::format("<td{}>{}</td>", c.best[i] ? " class=\"best\"" : "", cell);
    }
  }
  std::string out = "<div class=\"wide\"><table>\n" + head + "</tr>\n";
  for (const std::string& row : body) out += row + "</tr>\n";
  return out + "</table></div>\n";
}

std::string html_picture(std::string_view svg, std::string_view name) {
  const std::size_t begin = svg.find("<svg");
  std::string out{begin == svg.npos ? svg : svg.substr(begin)};
  for (const std::string_view before : {" id=\"", " id='", "href=\"#", "href='#", "url(#"}) {
    for (std::size_t at = out.find(before); at != out.npos; at = out.find(before, at + 1)) {
      out.insert(at + before.size(), fmt::format("{}_", name));
    }
  }
  return fmt::format("<figure>{}</figure>\n", out);
}

std::string html_page(std::string_view title, std::span<const html_section> sections) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n<style>\n"
      ":root {{ color-scheme: light dark; }}\n"
      "body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }}\n"
      "h1 {{ font-size: 1.6rem; }} h2 {{ font-size: 1.2rem; margin-top: 2rem; }}\n"
      ".wide {{ overflow-x: auto; }} pre {{ overflow-x: auto; }}\n"
      "table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}\n"
      "th, td {{ padding: 0.2rem 0.6rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }}\n"
      ".wide th, .wide td {{ padding: 0.2rem 0.4rem; }} .wide thead th, .wide tr:first-child th {{ white-space: "
      "normal; }}\n"
      "th[scope=row], td.word, .facts td {{ text-align: left; }}\n"
      "td.best {{ font-weight: 700; background: #2a82; }}\n"
      "figure {{ margin: 1rem 0; background: #fff; border-radius: 6px; padding: 0.5rem; max-width: 900px; }}\n"
      "@media (prefers-color-scheme: dark) {{ figure {{ background: #000; }} }}\n"
      "figure svg {{ width: 100%; height: auto; }}\n</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      html_text(title));
  for (const html_section& s : sections) {
    if (s.body.empty()) continue;
    if (!s.title.empty()) out += fmt::format("<h2>{}</h2>\n", html_text(s.title));
    out += s.body;
  }
  return out + "</body>\n</html>\n";
}

}  // namespace sim
TESSERA_NAMESPACE_END
