// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/report/html_report.hpp>

#include "support/catch.hpp"

#include <string>
#include <utility>
#include <vector>

namespace {

namespace sim = tessera::sim;

TEST_CASE("text in a page is text", "[sim]") {
  CHECK(sim::html_text("a < b & \"c\" > d") == "a &lt; b &amp; &quot;c&quot; &gt; d");
  CHECK(sim::html_lines("one\n\n<two>\n") == "<p>one</p>\n<p>&lt;two&gt;</p>\n");
  CHECK(sim::html_lines("").empty());
  const std::vector<std::pair<std::string, std::string>> facts{{"rate", "2"}, {"trace", "<x>"}};
  CHECK(sim::html_facts(facts) ==
        "<table class=\"facts\">\n<tr><th scope=\"row\">rate</th><td>2</td></tr>\n"
        "<tr><th scope=\"row\">trace</th><td>&lt;x&gt;</td></tr>\n</table>\n");
}

TEST_CASE("a table of a page has all columns and marks the best", "[sim]") {
  sim::summary a;
  a.policy = "a";
  a.placement = "here";
  a.ttft = {.count = 1, .mean = 2, .p50 = 1, .p99 = 3};
  sim::summary b = a;
  b.policy = "b";
  b.ttft.p99 = 4;
  const std::string once = sim::html_table(std::vector<sim::replicates>{{a}, {b}});
  CHECK(once.find("<th>TTFT p99</th>") != once.npos);
  CHECK(once.find("<th>QoE mean</th>") != once.npos);
  CHECK(once.find("<td class=\"best\">3.000</td>") != once.npos);
  CHECK(once.find("<td>4.000</td>") != once.npos);
  CHECK(once.find("migrations") == once.npos);  // there are none
  CHECK(once.find("session") == once.npos);
  CHECK(once.find("goodput") == once.npos);
  sim::summary a2 = a;
  a2.ttft.mean = 2.5;
  CHECK(sim::html_table(std::vector<sim::replicates>{{a, a2}}).find("\u00b1") != once.npos);
}

TEST_CASE("pictures of a page do not share names, and a page is whole", "[sim]") {
  const std::string svg =
      "<?xml version=\"1.0\"?>\n<svg><g id=\"gpDot\"/><use xlink:href='#gpDot'/><g id=\"plot_1\" fill='url(#gpDot)' "
      "stroke='#0072b2'/></svg>";
  CHECK(sim::html_picture(svg, "one") ==
        "<figure><svg><g id=\"one_gpDot\"/><use xlink:href='#one_gpDot'/><g id=\"one_plot_1\" fill='url(#one_gpDot)' "
        "stroke='#0072b2'/></svg></figure>\n");
  const sim::html_section sections[] = {{"First", "<p>x</p>\n"}, {"Nothing in it", ""}};
  const std::string page = sim::html_page("a & b", sections);
  CHECK(page.find("<!DOCTYPE html>") == 0);
  CHECK(page.find("<title>a &amp; b</title>") != page.npos);
  CHECK(page.find("<h2>First</h2>\n<p>x</p>") != page.npos);
  CHECK(page.find("Nothing in it") == page.npos);
  CHECK(page.ends_with("</body>\n</html>\n"));
}

}  // namespace
