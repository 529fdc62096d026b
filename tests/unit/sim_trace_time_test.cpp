// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/input/trace.hpp>

#include "support/catch.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace {

namespace sim = tessera::sim;

std::string refusal(std::string_view text, const sim::trace_options& options = {}) {
  try {
    (void)sim::parse_trace(text, "t", options);
  } catch (const sim::error& e) {
    return e.what();
  }
  return "";
}

/// Arrivals of rows that have nothing else, from the first on.
std::vector<double> arrivals(std::string_view name, const std::vector<std::string>& times,
                             const sim::trace_options& options = {}) {
  std::string text = std::string{name} + ",prompt_tokens,output_tokens\n";
  for (const std::string& t : times) text += t + ",1,1\n";
  std::vector<double> out;
  for (const auto& row : sim::parse_trace(text, "t", options).rows) out.push_back(row.arrival_s);
  const double first = out.front();
  for (double& s : out) s -= first;
  return out;
}

using times = std::vector<double>;

TEST_CASE("dates are moments, whatever their zones", "[sim]") {
  // One second over the end of summer time, and two zones for the same moment.
  CHECK(arrivals("timestamp", {"2024-10-27 02:59:59.5+02:00", "2024-10-27 02:00:00.5+01:00"}) == times{0, 1});
  CHECK(arrivals("arrival_s", {"2024-01-01T05:30:00+05:30", "2024-01-01T00:00:00Z"}) == times{0, 0});
  CHECK(arrivals("start_time", {"2023-12-31T23:59:59.750-0030", "2024-01-01 00:30:00 UTC"}) == times{0, 0.25});
  CHECK(arrivals("created_at", {"2024-02-29 23:59:59", "2024-03-01 00:00:01.5"}) == times{0, 2.5});
  CHECK(arrivals("timestamp", {"2024-01-01T00:00:00+02", "2024-01-01T00:00:00+01"}) == times{0, 3600});
  // Azure's names as well.
  const auto azure = sim::parse_trace(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-10-27 02:59:59.5+02:00,100,10\n2024-10-27 "
      "02:00:00.5+01:00,100,10\n",
      "t");
  CHECK(azure.rows[1].arrival_s - azure.rows[0].arrival_s == 1);
  CHECK(azure.out_of_order == 0);
  const std::string head = "arrival_s,prompt_tokens,output_tokens\n";
  CHECK(refusal(head + "2024-01-01 00:00:00Z,1,1\n2024-01-01 00:00:01,1,1\n") ==
        "t:3:1: expected arrival_s, a date and a time with a zone, as in the rows above, found '2024-01-01 00:00:01'");
  CHECK(refusal(head + "2024-01-01 00:00:00,1,1\n2024-01-01 00:00:01Z,1,1\n").find("without a zone") !=
        std::string::npos);
  CHECK(refusal(head + "2024-01-01 00:00:00,1,1\n5,1,1\n") ==
        "t:3:1: expected arrival_s, a date and a time, as in the rows above, found '5'");
  CHECK(refusal(head + "5,1,1\n2024-01-01 00:00:00,1,1\n").find("t:3:1: expected arrival_s, a number, as in") == 0);
  for (const char* zone : {"+", "+1", "+16:00", "+01:60", "+1x:00", " CEST", "+01:0", "+01-00"}) {
    INFO(zone);
    CHECK(refusal(head + "2024-01-01 00:00:00" + zone + ",1,1\n").find("t:2:1: expected arrival_s, a number from") ==
          0);
  }
}

TEST_CASE("Unix time is told by its size", "[sim]") {
  for (const char* name : {"arrival_s", "timestamp", "created", "start_time"}) {
    INFO(name);
    CHECK(arrivals(name, {"1795161600", "1795161602"}) == times{0, 2});
    CHECK(arrivals(name, {"1795161600238", "1795161602238"}) == times{0, 2});
    CHECK(arrivals(name, {"1795161600000000", "1795161602000000"}) == times{0, 2});
    CHECK(arrivals(name, {"1795161600000000000", "1795161602000000000"}) == times{0, 2});
  }
}

TEST_CASE("a column's name says its unit", "[sim]") {
  CHECK(arrivals("arrival_ms", {"500", "2000"}) == times{0, 1.5});
  CHECK(arrivals("timestamp_us", {"500000", "2000000"}) == times{0, 1.5});
  CHECK(arrivals("arrival_ns", {"0", "1500000000"}) == times{0, 1.5});
  CHECK(arrivals("arrival_s", {"5", "7"}) == times{0, 2});
  CHECK(arrivals("timestamp_s", {"5", "7"}) == times{0, 2});
}

TEST_CASE("where nothing tells the unit it is asked for", "[sim]") {
  const std::string whole = "timestamp,input_tokens,output_tokens\n238,2,5\n2238,2,5\n";
  CHECK(refusal(whole) ==
        "t:2:1: expected timestamp in a unit that can be told: say --time-unit s (0.0005 requests per second) or "
        "--time-unit ms (0.5), found '238'");
  CHECK(arrivals("timestamp", {"238", "2238"}, {.unit = sim::time_unit::seconds}) == times{0, 2000});
  CHECK(arrivals("timestamp", {"238", "2238"}, {.unit = sim::time_unit::milliseconds}) == times{0, 2});
  CHECK(arrivals("arrival_s", {"0", "2000"}, {.unit = sim::time_unit::microseconds}) == times{0, 0.002});
  CHECK(arrivals("timestamp", {"7", "7"}) == times{0, 0});  // any unit is right
  // Fractions are of seconds, and that is said.
  const auto t = sim::parse_trace("timestamp,input_tokens,output_tokens\n0.5,2,5\n2,2,5\n", "t");
  CHECK(t.rows[1].arrival_s == 2);
  CHECK(sim::describe_unused(t) ==
        "t: timestamp has fractions, so it is read as seconds (--time-unit says otherwise)\n");
  CHECK(refusal("timestamp,input_length,output_length\n0,1,1\n3000,1,1\n").find("--time-unit") != std::string::npos);
  CHECK(refusal("arrival_s,prompt_tokens,output_tokens\n2024-01-01 00:00:00,1,1\n",
                {.unit = sim::time_unit::seconds}) == "--time-unit goes with numbers, and the arrivals of t are dates");
  CHECK(refusal("prompt_tokens,output_tokens\n1,1\n", {.unit = sim::time_unit::seconds}) ==
        "--time-unit goes with arrivals, and t has none");
  CHECK(sim::find_time_unit("ms") == sim::time_unit::milliseconds);
  CHECK(sim::find_time_unit("") == sim::time_unit::told);
  CHECK_THROWS_WITH(sim::find_time_unit("h"), "--time-unit is one of s, ms, us and ns, not 'h'");
}

TEST_CASE("rows out of order are sorted, and counted", "[sim]") {
  const auto t = sim::parse_trace("arrival_s,prompt_tokens,output_tokens\n3,1,1\n1,2,1\n2,3,1\n3,4,1\n", "t");
  REQUIRE(t.rows.size() == 4);
  const std::vector<std::int64_t> order{t.rows[0].prompt_tokens, t.rows[1].prompt_tokens, t.rows[2].prompt_tokens,
                                        t.rows[3].prompt_tokens};
  CHECK(order == std::vector<std::int64_t>{2, 3, 1, 4});
  CHECK(t.out_of_order == 2);
  CHECK(sim::describe_unused(t) == "Rows of t that are out of order, and are sorted by arrival: 2\n");
  // Turns stay behind those before them, and sessions are numbered as they begin.
  const auto s = sim::parse_trace(
      "session,arrival_s,think_s,prompt_tokens,output_tokens\nb,5,,10,1\nb,,1,11,1\na,2,,20,1\na,,1,21,1\n", "t");
  REQUIRE(s.rows.size() == 4);
  CHECK(s.rows[0].prompt_tokens == 20);
  CHECK(s.rows[1].prompt_tokens == 21);
  CHECK(s.rows[2].prompt_tokens == 10);
  CHECK(s.rows[3].prompt_tokens == 11);
  CHECK(s.rows[0].session == 0);
  CHECK(s.rows[3].session == 1);
  CHECK(s.rows[1].arrival_s == 2);
  CHECK(s.rows[3].arrival_s == 5);
}

TEST_CASE("columns that look like arrivals are named where there are none", "[sim]") {
  const auto t = sim::parse_trace("arrival_min,prompt_tokens,output_tokens,model,end_time\n1,1,1,m,2\n", "t");
  CHECK(sim::no_arrivals(t, "a --rate") ==
        "t has no arrivals: name a --rate (requests per second), or call the column of the arrivals arrival_s or "
        "arrival_ms: is it 'arrival_min' or 'end_time'?");
  const auto u = sim::parse_trace("prompt_tokens,output_tokens,model\n1,1,m\n", "u");
  CHECK(sim::no_arrivals(u, "a rate") == "u has no arrivals: name a rate (requests per second)");
}

}  // namespace
