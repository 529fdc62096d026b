// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/input/trace.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace sim = tessera::sim;

TEST_CASE("a trace is read by the names of its columns", "[sim]") {
  const auto t = sim::parse_trace(
      "arrival_s,prompt_tokens,output_tokens,reasoning_tokens,answer_tokens\n"
      "0,374,44,,\n"
      "4.315,396,109,100,9\n"
      "4.315,1,1,0,1\n"
      "1e2,5,7,7,0\n",
      "t.csv");
  CHECK(t.name == "t.csv");
  CHECK(t.has_arrivals);
  CHECK(t.has_reasoning);
  CHECK_FALSE(t.has_scores);
  REQUIRE(t.rows.size() == 4);
  CHECK(t.rows[0].arrival_s == 0);
  CHECK(t.rows[0].prompt_tokens == 374);
  CHECK(t.rows[0].output_tokens == 44);
  CHECK(t.rows[0].reasoning_tokens == 0);
  CHECK(t.rows[0].answer_tokens == 44);
  CHECK(std::isnan(t.rows[0].score));
  CHECK(t.rows[1].arrival_s == 4.315);
  CHECK(t.rows[1].reasoning_tokens == 100);
  CHECK(t.rows[1].answer_tokens == 9);
  CHECK(t.rows[2].arrival_s == t.rows[1].arrival_s);
  CHECK(t.rows[3].arrival_s == 100);
  CHECK(t.rows[3].answer_tokens == 0);
}

TEST_CASE("columns come in any order, with others between them, quoted or not", "[sim]") {
  const auto t = sim::parse_trace(
      "\"model\",score,output_tokens,note,prompt_tokens\n"
      "m,1.5,\"10\",\"a, b \"\"c\"\"\",20\n"
      ",,11,,21\n"
      "\"\",-2,12,\"\",22\n",
      "t");
  REQUIRE(t.rows.size() == 3);
  CHECK_FALSE(t.has_arrivals);
  CHECK(t.has_scores);
  CHECK_FALSE(t.has_reasoning);
  CHECK(std::isnan(t.rows[0].arrival_s));
  CHECK(t.rows[0].output_tokens == 10);
  CHECK(t.rows[0].prompt_tokens == 20);
  CHECK(t.rows[0].score == 1.5F);
  CHECK(std::isnan(t.rows[1].score));
  CHECK(t.rows[2].score == -2.0F);
}

TEST_CASE("of output, reasoning and answer two give the third", "[sim]") {
  const auto t = sim::parse_trace(
      "prompt_tokens,output_tokens,reasoning_tokens,answer_tokens\n"
      "1,10,4,\n"
      "1,10,,4\n"
      "1,,4,6\n"
      "1,10,10,\n"
      "1,10,,\n",
      "t");
  REQUIRE(t.rows.size() == 5);
  const std::int64_t expected[][3] = {{10, 4, 6}, {10, 6, 4}, {10, 4, 6}, {10, 10, 0}, {10, 0, 10}};
  for (std::size_t i = 0; i < t.rows.size(); ++i) {
    INFO("row " << i);
    CHECK(t.rows[i].output_tokens == expected[i][0]);
    CHECK(t.rows[i].reasoning_tokens == expected[i][1]);
    CHECK(t.rows[i].answer_tokens == expected[i][2]);
  }
}

std::string refusal(std::string_view text) {
  try {
    (void)sim::parse_trace(text, "t");
  } catch (const sim::input_error& e) {
    return e.what();
  }
  return "";
}

/// A trace with this one row under a full header.
std::string row(std::string_view text) {
  return "arrival_s,prompt_tokens,output_tokens,reasoning_tokens,answer_tokens,score\n" + std::string{text} + "\n";
}

TEST_CASE("a bad file is an error with line and column: the whole file", "[sim]") {
  CHECK(refusal("") ==
        "t:1:1: expected a header with at least the columns prompt_tokens and output_tokens, found an empty file");
  const std::string unknown = refusal("a,b\n1,2\n");
  CHECK(unknown.find("t:1:1: expected a header with the columns prompt_tokens and output_tokens, or those of ") == 0);
  for (const char* whose : {"vLLM", "SGLang", "guidellm", "aiperf", "inference-perf", "LLMPerf", "Bailian", "Mooncake",
                            "Azure", "BurstGPT", "LiteLLM", "OpenTelemetry", "Langfuse"}) {
    CHECK(unknown.find(whose) != std::string::npos);
  }
  CHECK(unknown.size() < 800);
  CHECK(unknown.substr(unknown.size() - 11) == "found 'a,b'");
  CHECK(refusal("prompt_tokens,b\n1,2\n") ==
        "t:1:1: expected a header with the column output_tokens or completion_tokens or generated_tokens or "
        "usage.completion_tokens or usage.output_tokens (as in a table of requests; prompt_tokens is there), found "
        "'prompt_tokens,b'");
  CHECK(refusal("1,2,3\n").find("t:1:1: expected a header") == 0);
  CHECK(refusal("\n").find("found an empty line") != std::string::npos);
  CHECK(refusal("prompt_tokens,output_tokens,prompt_tokens\n1,2,3\n") ==
        "t:1:29: expected the column prompt_tokens once, found it again");
  CHECK(refusal("prompt_tokens,output_tokens\n") == "t:2:1: expected at least one request, found the end of the file");
  CHECK(refusal(std::string_view{"prompt_tokens,output_tokens\n1,\0\n", 32}) ==
        "t:2:3: expected text, found a NUL byte (a binary file?)");
  CHECK(refusal("prompt_tokens,output_tokens\n" + std::string(1'000'000, '1') + "\n").find("t:2:1000001: ") == 0);
}

TEST_CASE("a bad file is an error with line and column: cut off", "[sim]") {
  const std::string whole = row("0,1,10,4,6,0.5") + "1,2,20,10,10,\n";
  REQUIRE(refusal(whole).empty());
  // Wherever the file ends but at a row's end, or within its last number, it is refused where the field is. A row that
  // ends in nothing but its newline is whole.
  for (std::size_t size = 0; size < whole.size(); ++size) {
    INFO("cut to " << size << " bytes");
    const std::string cut = whole.substr(0, size);
    const std::size_t begin = row("").size() - 1;
    const std::string last = size > begin ? cut.substr(cut.rfind('\n', size - 2) + 1) : "";
    const bool complete = std::count(last.begin(), last.end(), ',') == 5;
    if (complete) {
      CHECK(refusal(cut).empty());
    } else {
      CHECK_FALSE(refusal(cut).empty());
    }
  }
}

TEST_CASE("files are read as the world writes them", "[sim]") {
  const auto rows = [](const std::string& text) {
    const auto t = sim::parse_trace(text, "t");
    std::string all;
    for (const auto& r : t.rows) {
      all += std::to_string(r.arrival_s - t.rows.front().arrival_s) + " " + std::to_string(r.prompt_tokens) + " " +
             std::to_string(r.reasoning_tokens) + "+" + std::to_string(r.answer_tokens) + "\n";
    }
    return all + std::to_string(t.left_out.count());
  };
  const std::string expected = "0.000000 10 0+5\n1.500000 20 0+7\n0";
  CHECK(rows("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1.5,20,7\n") == expected);
  CHECK(rows("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1.5,20,7") == expected);  // no last newline
  CHECK(rows("\xef\xbb\xbf"
             "arrival_s,prompt_tokens,output_tokens\r\n0,10,5\r\n1.5,20,7\r\n") == expected);
  CHECK(rows("\xef\xbb\xbf{\"arrival_s\": 0, \"prompt_tokens\": 10, \"output_tokens\": 5}\r\n"
             "{\"arrival_s\": 1.5, \"prompt_tokens\": 20, \"output_tokens\": 7}") == expected);
  CHECK(rows("arrival_s,prompt_tokens,output_tokens\r0,10,5\r1.5,20,7\r") == expected);
  CHECK(rows("Arrival S,PROMPT-TOKENS,Output_Tokens\n0,10,5\n1.5,20,7\n") == expected);
  CHECK(rows("arrival_s,prompt_tokens,output_tokens,note\n0,10,5,\"a\n\"\"b\"\"\"\n1.5,20,7,\"\r\n\"\n") == expected);

  // Ours, whatever other format has a column of such a name.
  for (const std::string head :
       {"arrival_s,prompt_tokens,output_tokens,input_tokens", "arrival_s,prompt_tokens,output_tokens,ContextTokens"}) {
    CHECK(rows(head + "\n0,10,5,1\n1.5,20,7,1\n") == expected);
  }
  CHECK(rows("input_tokens,arrival_s,prompt_tokens,output_tokens\n1,0,10,5\n1,1.5,20,7\n") == expected);
  CHECK(rows("{\"input_tokens\": 1, \"arrival_s\": 0, \"prompt_tokens\": 10, \"output_tokens\": 5}\n"
             "{\"arrival_s\": 1.5, \"prompt_tokens\": 20, \"output_tokens\": 7}\n") == expected);

  // Logs: in any order, over midnight, with rows that failed.
  CHECK(rows("TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
             "2023-11-17 00:00:00.7500000,20,7\r\n"
             "2023-11-16 23:59:59.2500000,10,5\r\n") == expected);
  CHECK(rows("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-02-29 23:59:59.25+00:00,10,5\n"
             "2024-03-01 00:00:00.75+00:00,20,7\n") == expected);
  CHECK(rows("{\"TIMESTAMP\": \"2023-11-16 23:59:59.25\", \"ContextTokens\": 10, \"GeneratedTokens\": 5}\n"
             "{\"TIMESTAMP\": \"2023-11-17T00:00:00.75\", \"ContextTokens\": 20, \"GeneratedTokens\": 7}\n") ==
        expected);
  CHECK(rows("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
             "5,ChatGPT,10,5,15,Conversation log\n6,GPT-4,3,0,3,API log\n6.5,GPT-4,20,7,27,API log\n") ==
        "0.000000 10 0+5\n1.500000 20 0+7\n1");
  CHECK(rows("request_id,timestamp,input_tokens,output_tokens,reason_ratio\n0,0.5,10,10,0.75\n1,2,20,8,0\n") ==
        "0.000000 10 8+2\n1.500000 20 0+8\n0");
  CHECK(rows("request_id,timestamp,input_tokens,output_tokens\n0,0.5,10,5\n1,2,20,7\n") == expected);
  CHECK(rows("{\"input_lens\": [20, 3, 10], \"output_lens\": [7, 0, 5], \"errors\": [], \n"
             " \"start_times\": [9.5, 9, 8]}") == "0.000000 10 0+5\n1.500000 20 0+7\n1");
  const auto slow = sim::parse_trace(
      "{\"request_throughput\": 2.5, \"input_lens\": [1, 2], \"output_lens\": [3, 4], \"itls\": [[]]}\n", "t");
  CHECK_FALSE(slow.has_arrivals);
  CHECK(slow.own_rate == 2.5);
  CHECK(slow.unused == std::vector<std::string>{"itls"});
  CHECK(sim::describe_unused(slow) == "Columns of t that are not used: 'itls'\n");
  const auto burst = sim::parse_trace("Timestamp,Model,Request tokens,Response tokens\n1,m,1,1\n1,m,1,0\n", "t");
  CHECK(sim::describe_unused(burst) ==
        "Columns of t that are not used: 'Model'\nRows of t that are left out: 1 without output\n");
}

TEST_CASE("what is wrong in a log is said like anything else", "[sim]") {
  const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (const char* when : {"", "5", "2023-13-01 00:00:00", "2023-02-29 00:00:00", "2023-01-01", "2023-01-01 24:00:00",
                           "2023-01-01 00:60:00", "2023-01-01 00:00:61", "2023-01-01 00:00:xx", "2023-01-01x00:00:00",
                           "2023-01-01 00:00:00 or so", "1969-01-01 00:00:00", "-023-01-01 00:00:00"}) {
    INFO(when);
    const std::string why = refusal(azure + "2023-01-01 00:00:00,1,1\n" + when + ",1,1\n");
    CHECK(why.find("t:3:1: expected ") == 0);
  }
  CHECK(refusal(azure + "2023-01-01 00:00:00,-1,1\n").find("t:2:21: expected ContextTokens, a whole number") == 0);
  CHECK(refusal(azure + "2023-01-01 00:00:00,0,1\n") ==
        "t:3:1: expected at least one request, found only rows that are left out: 1 without a prompt");
  CHECK(refusal("TIMESTAMP,ContextTokens\n")
            .find("the column generatedtokens (as in Azure's inference traces; contexttokens is there)") !=
        std::string::npos);
  CHECK(
      refusal("timestamp,input_tokens,output_tokens,reason_ratio\n0,1,5,1.5\n").find("t:2:7: expected reason_ratio") ==
      0);
}

TEST_CASE("a bad file is an error with line and column: fields", "[sim]") {
  CHECK(refusal(row("0,1,1,,")) == "t:2:8: expected 6 fields, as in the header, found the end of the line after 5");
  CHECK(refusal(row("0,1,1,,,,7")) == "t:2:10: expected 6 fields, as in the header, found another '7'");
  CHECK(refusal(row("")) == "t:2:1: expected 6 fields, as in the header, found an empty line");
  CHECK(refusal(row("0,\"1,1,,,")) == "t:2:3: expected a closing double quote, found '\"1,1,,,\\n'");
  CHECK(refusal(row("0,\"1\"2,1,,,")) == "t:2:6: expected a comma after the closing double quote, found '2,1,,,'");

  const std::string prompt = ": expected prompt_tokens, a whole number from 1 to 1000000000, found ";
  CHECK(refusal(row("0,,1,,,")) == "t:2:3" + prompt + "''");
  CHECK(refusal(row("0,-3,1,,,")) == "t:2:3" + prompt + "'-3'");
  CHECK(refusal(row("0,+3,1,,,")) == "t:2:3" + prompt + "'+3'");
  CHECK(refusal(row("0,1.5,1,,,")) == "t:2:3" + prompt + "'1.5'");
  CHECK(refusal(row("0,1.0,2.00,,,")).empty());   // as tables with gaps are written
  CHECK(refusal(row(" 0, 1\t, 1 ,,,")).empty());  // blanks around a field are none of it
  CHECK(refusal(row("0,  1 2,1,,,")) == "t:2:5" + prompt + "'1 2'");
  CHECK(refusal(row("0,nan,1,,,")) == "t:2:3" + prompt + "'nan'");
  CHECK(refusal(row("0,0x10,1,,,")) == "t:2:3" + prompt + "'0x10'");
  CHECK(refusal(row("0,\x01\xff,1,,,")) == "t:2:3" + prompt + "'\\x01\\xff'");
  CHECK(refusal(row("0,1000000000,1,,,")).empty());
  CHECK(refusal(row("0,1000000001,1,,,")) == "t:2:3" + prompt + "'1000000001'");
  CHECK(refusal(row("0,99999999999999999999999,1,,,")) == "t:2:3" + prompt + "'99999999999999999999999'");
  CHECK(refusal(row("0,1,,3,,")).find("t:2:5: expected output_tokens, a whole number from 1") == 0);
  CHECK(refusal(row("0,1,5,-1,6,")).find("t:2:7: expected reasoning_tokens, a whole number from 0") == 0);
  CHECK(refusal(row("0,1,5,2,2,")) ==
        "t:2:9: expected reasoning_tokens + answer_tokens = output_tokens = 5, found 2 + 2");
  CHECK(refusal(row("0,1,5,6,,")) == "t:2:7: expected reasoning_tokens of at most output_tokens = 5, found '6'");
  CHECK(refusal(row("0,1,5,,6,")) == "t:2:8: expected answer_tokens of at most output_tokens = 5, found '6'");
  CHECK(refusal(row("0,1,,1000000000,1,")).find("t:2:17: expected reasoning_tokens + answer_tokens from 1 to") == 0);
  CHECK(refusal(row("0,1,1,,,nan")) == "t:2:9: expected score, a number from -1e+30 to 1e+30, found 'nan'");
  CHECK(refusal(row("0,1,1,,,x")).find("t:2:9: expected score") == 0);
}

TEST_CASE("a bad file is an error with line and column: arrivals", "[sim]") {
  const std::string seconds =
      ": expected arrival_s, a number from 0 to 1e+12 or a date and a time as 2023-11-16T18:17:03.97+01:00, found ";
  CHECK(refusal(row("-0.5,1,1,,,")) == "t:2:1" + seconds + "'-0.5'");
  CHECK(refusal(row("nan,1,1,,,")) == "t:2:1" + seconds + "'nan'");
  CHECK(refusal(row("inf,1,1,,,")) == "t:2:1" + seconds + "'inf'");
  CHECK(refusal(row("1e999,1,1,,,")) == "t:2:1" + seconds + "'1e999'");
  CHECK(refusal(row("1e13,1,1,,,")) == "t:2:1: expected arrival_s, a number from 0 to 1e+12, found '1e13'");
  CHECK(refusal(row("x,1,1,,,")) == "t:2:1" + seconds + "'x'");
  CHECK(refusal(row("1.5.1,1,1,,,")) == "t:2:1" + seconds + "'1.5.1'");
  CHECK(refusal(row("2,1,1,,,\n,1,1,,,")) == "t:3:1" + seconds + "''");
  CHECK(refusal(row(",1,1,,,\n2,1,1,,,")) == "t:3:1: expected an empty arrival_s, as in the rows above, found '2'");
}

TEST_CASE("a trace file that is not there is an error with its name", "[sim]") {
  CHECK_THROWS_AS(sim::read_trace("/no/such/trace.csv"), sim::input_error);
}

TEST_CASE("columns that are not used are named", "[sim]") {
  const auto t = sim::parse_trace("model,prompt_tokens,output_tokens,reusable_prefix_tokens\nm,1,2,0\n", "t");
  CHECK(t.unused == std::vector<std::string>{"model", "reusable_prefix_tokens"});
  CHECK(sim::parse_trace("prompt_tokens,output_tokens\n1,2\n", "t").unused.empty());
  const auto j = sim::parse_trace(
      "{\"prompt_tokens\": 1, \"a\": {\"output_tokens\": [3]}, \"output_tokens\": 2}\n"
      "{\"b\": \"x,]\\\"}\", \"output_tokens\": 4, \"prompt_tokens\": 3, \"a\": null}\n",
      "t");
  CHECK(j.unused == std::vector<std::string>{"a", "b"});
  REQUIRE(j.rows.size() == 2);
  CHECK(j.rows[0].output_tokens == 2);
  CHECK(j.rows[1].prompt_tokens == 3);
  CHECK(j.rows[1].output_tokens == 4);
}

TEST_CASE("Mooncake's lines are read as they are published", "[sim]") {
  const std::string text =
      "{\"timestamp\": 0, \"input_length\": 1025, \"output_length\": 6, \"hash_ids\": [0, 1, 2]}\n"
      "{\"timestamp\": 40, \"input_length\": 512, \"output_length\": 3, \"hash_ids\": [0]}\n";
  const auto t = sim::parse_trace(text, "t");
  CHECK(t.has_arrivals);
  CHECK(t.has_prefixes);
  CHECK_FALSE(t.has_sessions);
  CHECK(t.unused.empty());
  REQUIRE(t.rows.size() == 2);
  CHECK(t.rows[0].prompt_tokens == 1025);
  CHECK(t.rows[0].output_tokens == 6);
  CHECK(t.rows[0].runs == std::vector<sim::text_run>{{0, 512}, {1, 512}, {2, 1}});
  CHECK(t.rows[1].arrival_s == 0.04);
  CHECK(t.rows[1].runs == std::vector<sim::text_run>{{0, 512}});
  // The same as CSV, by either's names, in brackets or without.
  for (const std::string_view names :
       {"timestamp,input_length,output_length", "arrival_s,prompt_tokens,output_tokens"}) {
    const bool seconds = names.starts_with("arrival");
    const auto c = sim::parse_trace(
        std::string{names} + ",hash_ids\n0,1025,6,\"[0, 1, 2]\"\n" + (seconds ? "0.04" : "40") + ",512,3,0\n", "t");
    REQUIRE(c.rows.size() == 2);
    for (std::size_t i = 0; i != 2; ++i) {
      CHECK(c.rows[i].arrival_s == t.rows[i].arrival_s);
      CHECK(c.rows[i].runs == t.rows[i].runs);
    }
  }
  // In other traces an id stands for fewer tokens.
  const auto small = sim::parse_trace("{\"prompt_tokens\": 33, \"output_tokens\": 1, \"hash_ids\": [7, 8, 9]}\n", "t",
                                      {.hash_tokens = 16});
  CHECK(small.rows[0].runs == std::vector<sim::text_run>{{7, 16}, {8, 16}, {9, 1}});
  CHECK_THROWS_AS(sim::parse_trace(text, "t", {.hash_tokens = 0}), sim::usage_error);
}

TEST_CASE("rows of one session are its turns", "[sim]") {
  const auto t = sim::parse_trace(
      "session,arrival_s,think_s,prompt_tokens,output_tokens\n"
      "a,0,,10,1\n"
      "b,1,2,10,1\n"
      "a,,3.5,20,1\n"
      ",2,,10,1\n"
      "a,2,,30,1\n",
      "t");
  CHECK(t.has_sessions);
  REQUIRE(t.rows.size() == 5);
  CHECK(t.rows[0].session == 0);
  CHECK(t.rows[1].session == 1);
  CHECK(t.rows[2].session == 0);
  CHECK(t.rows[3].session == -1);
  CHECK(t.rows[4].session == 0);
  CHECK(t.rows[2].think_s == 3.5);
  CHECK(t.rows[2].arrival_s == 1);
  CHECK(t.rows[4].think_s == 0);
  CHECK(t.rows[4].arrival_s == 2);
  const auto j = sim::parse_trace(
      "{\"session\": \"a\", \"prompt_tokens\": 1, \"output_tokens\": 1}\n"
      "{\"session\": 7, \"prompt_tokens\": 1, \"output_tokens\": 1}\n"
      "{\"session\": \"7\", \"prompt_tokens\": 1, \"output_tokens\": 1, \"think_s\": 1}\n",
      "t");
  CHECK(j.rows[1].session == 1);
  CHECK(j.rows[2].session == 1);
  CHECK_FALSE(sim::parse_trace("session,prompt_tokens,output_tokens\na,1,1\nb,1,1\n", "t").has_sessions);
}

TEST_CASE("a bad line of JSON is an error with line and column", "[sim]") {
  const std::string good = "{\"prompt_tokens\": 600, \"output_tokens\": 2}\n";
  REQUIRE(refusal(good).empty());
  CHECK(refusal(good + "{\"prompt_tokens\": 1, \"output_tokens\": 2\n") ==
        "t:2:40: expected a JSON object on each line, found the end of the line");
  CHECK(refusal(good + "\n") == "t:2:1: expected a JSON object on each line, found an empty line");
  CHECK(refusal(good + " [1]\n") == "t:2:2: expected a JSON object on each line, found '[1]'");
  CHECK(refusal(good + "{\"prompt_tokens\": 1, }\n").find("t:2:22: expected a JSON object on each line, found") == 0);
  CHECK(refusal(good + "{\"a\": 1e999}\n").find("t:2:") == 0);
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  CHECK(refusal(good + "{\"a\": " + deep + "}\n") == "t:2:1: expected arrays and objects at most 512 deep, found '['");
  CHECK(refusal("{\"input_lens\": [" + deep + "], \"output_lens\": [1]}") ==
        "t:1:1: expected arrays and objects at most 512 deep, found '['");
  CHECK(refusal("{\"a\": " + std::string(511, '[') + std::string(511, ']') +
                ", \"prompt_tokens\": 1, \"output_tokens\": 1}\n")
            .empty());
  CHECK(refusal(good + "{\"prompt_tokens\": -1, \"output_tokens\": 2}\n") ==
        "t:2:19: expected prompt_tokens, a whole number from 1 to 1000000000, found '-1'");
  CHECK(refusal(good + "{\"prompt_tokens\": \"x\", \"output_tokens\": 2}\n").find("t:2:20: expected prompt_tokens") ==
        0);
  CHECK(refusal(good + "{\"prompt_tokens\": \"1\", \"output_tokens\": 2}\n").empty());  // as OTLP writes numbers
  CHECK(refusal(good + "{\"prompt_tokens\": 1.5, \"output_tokens\": 2}\n").find("t:2:19: expected prompt_tokens") == 0);
  CHECK(refusal(good + "{\"prompt_tokens\": 1}\n").find("t:2:1: expected an object with the key output_tokens or ") ==
        0);
  CHECK(refusal(good + "{\"prompt_tokens\": null, \"output_tokens\": 1}\n").find("t:2:1: expected an object with") ==
        0);
  CHECK(refusal(good + "{\"prompt_tokens\": 1, \"prompt_tokens\": 1, \"output_tokens\": 1}\n") ==
        "t:2:39: expected prompt_tokens once, found it again");
  CHECK(refusal(good.substr(0, good.size() - 1)).empty());
  const auto hashes = [](std::string_view list) {
    return refusal("{\"prompt_tokens\": 600, \"output_tokens\": 2, \"hash_ids\": " + std::string{list} + "}\n");
  };
  const std::string expected =
      "expected hash_ids, 2 whole numbers: one for each 512 of 600 tokens (--hash-tokens says of how many), found ";
  CHECK(hashes("[1, 2]").empty());
  CHECK(hashes("[]") == "t:1:56: " + expected + "0");
  CHECK(hashes("[1]") == "t:1:56: " + expected + "1");
  CHECK(hashes("[1, 2, 3]") == "t:1:63: " + expected + "another");
  CHECK(hashes("[1, -2]") == "t:1:60: " + expected + "'-2'");
  CHECK(hashes("[1, [2]]") == "t:1:60: " + expected + "'[2]'");
  CHECK(hashes("[1, 9223372036854775808]") == "t:1:60: " + expected + "'9223372036854775808'");
  CHECK(hashes("{}") == "t:1:56: " + expected + "'{}'");
  CHECK(refusal("prompt_tokens,output_tokens,hash_ids\n600,2,[1 2\n") == "t:2:7: " + expected + "'[1 2'");
  CHECK(refusal("prompt_tokens,output_tokens,think_s\n600,2,1\n") ==
        "t:2:7: expected a session beside think_s, found '1'");
  CHECK(refusal("prompt_tokens,output_tokens,session,think_s\n600,2,a,-1\n") ==
        "t:2:9: expected think_s, a number from 0 to 1e+12, found '-1'");
  CHECK(refusal("prompt_tokens,output_tokens,calls_tool\n600,2,1\n") ==
        "t:2:7: expected a session beside calls_tool, found '1'");
  CHECK(refusal("prompt_tokens,output_tokens,session,calls_tool\n600,2,a,2\n") ==
        "t:2:9: expected calls_tool, 0 or 1, found '2'");
  const auto agent =
      sim::parse_trace("prompt_tokens,output_tokens,session,calls_tool\n1,1,a,1\n1,1,a,0\n1,1,b,\n", "t");
  CHECK(agent.rows[0].calls_tool);
  CHECK_FALSE(agent.rows[1].calls_tool);
  CHECK_FALSE(agent.rows[2].calls_tool);
}

}  // namespace
