// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/input/workload.hpp>

#include "support/catch.hpp"

#include <cmath>
#include <cstdint>
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

/// What a file reads as. For each row: arrival from the first on, prompt, reasoning and answer, session. Then what is
/// left out: failed, without prompt, without output, no requests. Then what was out of order.
std::string rows(std::string_view text, const sim::trace_options& options = {}) {
  const auto t = sim::parse_trace(text, "t", options);
  std::string all = std::string{t.read_as} + ":";
  for (const auto& r : t.rows) {
    all += fmt::format(" {:.4g}/{}/{}+{}", r.arrival_s - t.rows.front().arrival_s, r.prompt_tokens, r.reasoning_tokens,
                       r.answer_tokens);
    if (r.session >= 0) all += fmt::format("/s{}", r.session);
    if (r.think_s > 0) all += fmt::format("~{:.4g}", r.think_s);
  }
  return all + fmt::format("; {} {} {} {}; {}", t.left_out.failed, t.left_out.no_prompt, t.left_out.no_output,
                           t.left_out.others, t.out_of_order);
}

TEST_CASE("a service's log is read as it is", "[sim]") {
  const std::string head = "timestamp,status,prompt_tokens,completion_tokens,reasoning_tokens,note\n";
  CHECK(rows(head + "2026-11-20T08:00:01.5+02:00,200,10,5,3,\"a, b\"\n"
                    "2026-11-20T08:00:00.0+02:00,500,10,0,,\n"
                    "2026-11-20T08:00:00.5+02:00,200,20,7,,\n"
                    "2026-11-20T08:00:02.5+02:00,200,0,7,,\n"
                    "2026-11-20T08:00:02.5+02:00,200,9,0,,\n") == "a table of requests: 0/20/0+7 1/10/3+2; 1 1 1 0; 1");
  const auto t =
      sim::parse_trace(head + "2026-11-20T08:00:00+02:00,200,1,1,,\n2026-11-20T08:00:01+02:00,429,1,1,,\n", "t");
  CHECK(sim::describe_unused(t) == "Columns of t that are not used: 'note'\nRows of t that are left out: 1 failed\n");
  for (const char* bad : {"500", "404", "failed", "Error", "timeout", "CANCELLED", "rejected", "aborted"}) {
    INFO(bad);
    CHECK(rows("status,prompt_tokens,output_tokens\n" + std::string{bad} + ",1,1\nok,1,1\n").find("; 1 0 0 0;") !=
          std::string::npos);
  }
  for (const char* good : {"200", "0", "success", "completed", "stop", ""}) {
    INFO(good);
    CHECK(rows("status,prompt_tokens,output_tokens\n" + std::string{good} + ",1,1\n").find("; 0 0 0 0;") !=
          std::string::npos);
  }
  CHECK(rows("success,error,prompt_tokens,output_tokens\ntrue,,1,1\nfalse,,1,1\ntrue,boom,1,1\n1,None,1,1\n")
            .find("; 2 0 0 0;") != std::string::npos);
  CHECK(refusal("status,prompt_tokens,output_tokens\nfailed,1,1\n") ==
        "t:3:1: expected at least one request, found only rows that are left out: 1 failed");
  CHECK(refusal(head + "2026-11-20T08:00:01.5+02:00,200,10,x,3,\n") ==
        "t:2:36: expected completion_tokens, a whole number from 1 to 1000000000, found 'x'");
  // The first known name for a column counts, and the other is not used.
  const auto both = sim::parse_trace("input_tokens,prompt_tokens,output_tokens,completion_tokens\n1,2,3,4\n", "t");
  CHECK(both.rows[0].prompt_tokens == 2);
  CHECK(both.rows[0].output_tokens == 3);
  CHECK(both.unused == std::vector<std::string>{"input_tokens", "completion_tokens"});
}

TEST_CASE("arrays, documents and lines of JSON are alike", "[sim]") {
  const std::string a = R"({"arrival_s": 0, "prompt_tokens": 10, "output_tokens": 5})";
  const std::string b = R"({"arrival_s": 1.5, "prompt_tokens": 20, "output_tokens": 7})";
  const std::string expected = "a table of requests: 0/10/0+5 1.5/20/0+7; 0 0 0 0; 0";
  CHECK(rows(a + "\n" + b + "\n") == expected);
  CHECK(rows("[" + a + ", " + b + "]") == expected);
  CHECK(rows("[\n  " + a + ",\n  " + b + "\n]\n") == expected);
  CHECK(rows("[" + a + "]\n[" + b + "]") == expected);
  CHECK(rows("{\"data\": [" + a + ", " + b + "], \"meta\": {\"page\": 1}}") == expected);
  CHECK(rows("{\n\"arrival_s\": 0,\n\"prompt_tokens\": 10, \"output_tokens\": 5\n}\n" + b) == expected);
  CHECK(refusal("[" + a + ",\n {\"prompt_tokens\": 1}]").find("t:2:2: expected an object with the key output_tokens") ==
        0);
  CHECK(refusal("[" + a + ",\n 5]") == "t:2:2: expected a JSON object, found '5'");
  CHECK(refusal("[" + a + ",\n {\"prompt_tokens\": 1, \"output_tokens\": \"x\"}]") ==
        "t:2:41: expected output_tokens, a whole number from 1 to 1000000000, found 'x'");
  CHECK(refusal("[" + a + ",\n " + b).find("t:2:61: expected JSON, found the end of the file: is it truncated?") == 0);
  CHECK(refusal("[" + a + "\n " + b + "]").find("t:2:2: expected JSON, found '") == 0);
  CHECK(refusal("[" + a + "] x") == "t:1:61: expected a JSON object or an array of objects, found 'x'");
  CHECK(refusal("[]") == "t:1:3: expected at least one request, found the end of the file");
  CHECK(rows("{\"data\": [1], \"prompt_tokens\": 1, \"output_tokens\": 2}").find("nan/1/0+2;") != std::string::npos);
  CHECK(refusal("{\"data\": []}") == "t:1:10: expected an array of objects, found an empty one");
  CHECK(refusal("[[" + a + "]]").find("t:1:2: expected a JSON object, found '[") == 0);
}

TEST_CASE("Bailian's chats are sessions, in seconds, with blocks of 16 tokens", "[sim]") {
  const std::string text =
      R"({"chat_id": 7, "parent_chat_id": -1, "timestamp": 0, "input_length": 17, "output_length": 4, "type": "text", "turn": 1, "hash_ids": [0, 1]}
{"chat_id": 8, "parent_chat_id": -1, "timestamp": 30, "input_length": 16, "output_length": 3, "type": "text", "turn": 1, "hash_ids": [5]}
{"chat_id": 9, "parent_chat_id": 7, "timestamp": 61, "input_length": 33, "output_length": 2, "type": "text", "turn": 2, "hash_ids": [0, 1, 2]}
{"chat_id": 10, "parent_chat_id": 9, "timestamp": 120, "input_length": 40, "output_length": 2, "type": "text", "turn": 3, "hash_ids": [0, 1, 2]}
{"chat_id": 11, "parent_chat_id": 7, "timestamp": 130, "input_length": 18, "output_length": 2, "type": "text", "turn": 2, "hash_ids": [0, 1]}
)";
  const std::string expected = "/17/0+4/s0 30/16/0+3/s1 61/33/0+2/s0 120/40/0+2/s0 130/18/0+2/s2; 0 0 0 0; 0";
  CHECK(rows(text) == "Bailian's traces: 0" + expected);
  const auto t = sim::parse_trace(text, "t");
  CHECK(t.has_sessions);
  CHECK(t.has_prefixes);
  CHECK(sim::mean_rate(t.rows) == 4 / 130.0);
  CHECK(t.rows[2].runs == std::vector<sim::text_run>{{0, 16}, {1, 16}, {2, 1}});
  CHECK(t.unused == std::vector<std::string>{"type", "turn"});
  // A child before its parent in the file.
  const std::size_t second = text.find("{\"chat_id\": 9");
  const std::size_t third = text.find("{\"chat_id\": 10");
  const std::string turned = text.substr(second, third - second) + text.substr(0, second) + text.substr(third);
  CHECK(rows(turned).find(expected.substr(0, expected.size() - 1) + "2") != std::string::npos);
  CHECK(refusal(text, {.hash_tokens = 512}).find("t:1:") == 0);
  // Mooncake's shape has no chats: milliseconds, blocks of 512.
  CHECK(rows(R"({"timestamp": 0, "input_length": 600, "output_length": 4, "hash_ids": [0, 1]}
{"timestamp": 3000, "input_length": 5, "output_length": 0, "hash_ids": [0]}
{"timestamp": 1500, "input_length": 5, "output_length": 2, "hash_ids": [0]}
)") == "Mooncake's traces: 0/600/0+4 1.5/5/0+2; 0 0 1 0; 0");
  // A Mooncake shape with fractions is of seconds.
  CHECK(rows("timestamp,input_length,output_length\n0.5,1,1\n2,1,1\n") ==
        "the lengths of a Mooncake trace: 0/1/0+1 1.5/1/0+1; 0 0 0 0; 0");
  CHECK(rows("timestamp,input_length,output_length\n1795161600,1,1\n1795161602,1,1\n") ==
        "the lengths of a Mooncake trace: 0/1/0+1 2/1/0+1; 0 0 0 0; 0");
  CHECK(rows(R"({"session_id": "a", "input_length": 9, "output_length": 2, "timestamp": 500}
{"session_id": "a", "input_length": 12, "output_length": 3, "delay": 1500}
{"session_id": "b", "input_length": 8, "output_length": 1, "timestamp": 2000}
)") == "aiperf's Mooncake traces with sessions: 0/9/0+2/s0 0/12/0+3/s0~1.5 1.5/8/0+1/s1; 0 0 0 0; 0");
}

TEST_CASE("benchmarks of vLLM and SGLang, with all their runs", "[sim]") {
  const std::string first =
      R"({"backend": "vllm", "request_throughput": 2.5, "input_lens": [20, 3, 10], "output_lens": [7, 0, 5], "errors": ["", "x", ""], "start_times": [9.5, 9, 8]})";
  const std::string second =
      R"({"backend": "sglang", "request_throughput": 3, "input_lens": [1, 2], "output_lens": [3, 4], "itls": [[0.1], []]})";
  const std::string whose = "vLLM's and SGLang's benchmarks: ";
  CHECK(rows(first) == whose + "0/10/0+5 1.5/20/0+7; 1 0 0 0; 1");
  CHECK(rows(first + "\n" + second + "\n") == whose + "nan/1/0+3 nan/2/0+4; 0 0 0 0; 0");
  CHECK(rows(first + "\n" + second + "\n", {.run = 1}) == rows(first));
  const auto t = sim::parse_trace(first + "\n" + second, "t");
  CHECK(t.runs == 2);
  CHECK(t.own_rate == 3);
  CHECK(sim::describe_unused(t) == "t holds 2 runs: run 2 is read (--run N)\nColumns of t that are not used: 'itls'\n");
  CHECK(refusal(first + "\n" + second, {.run = 3}) == "--run is from 1 to 2 of t, not 3");
  CHECK(refusal("prompt_tokens,output_tokens\n1,1\n", {.run = 2}) ==
        "--run goes with the file of a benchmark that holds several, unlike t");
  const std::string summary =
      R"({"backend": "vllm", "completed": 12, "total_input_tokens": 5, "request_throughput": 1})";
  CHECK(refusal(summary) ==
        "t:1:1: expected requests one by one (run vLLM's benchmark with --save-detailed, SGLang's with "
        "--output-details), found '{\"backend\": \"vllm\", \"completed\": 12, \"to'...");
  CHECK(rows(summary + "\n" + first) == rows(first));
  CHECK(refusal(first + "\n" + summary).find("t:2:1: expected requests one by one (run vLLM's") == 0);
  CHECK(refusal(first + "\n{\"a\": 1}").find("t:2:1: expected an object with the columns prompt_tokens and") == 0);
  CHECK(refusal(first + "\n{\"prompt_tokens\": 1, \"output_tokens\": 1}").find("t:2:1: expected a run of a bench") ==
        0);
  CHECK(refusal("{\"input_lens\": [1").find("t:1:18: expected a JSON object on each line, found the end") == 0);
  CHECK(refusal("{\"input_lens\": [1]}").find("the column output_lens (as in vLLM's and SGLang's") !=
        std::string::npos);
  CHECK(refusal("{\"input_lens\": [1], \"output_lens\": [1, 2]}") ==
        "t:1:1: expected as many output_lens as input_lens, 1, found 2");
  CHECK(refusal("{\"input_lens\": [5,\n -1], \"output_lens\": [1, 2]}") ==
        "t:2:2: expected input_lens[1], a whole number from 1 to 1000000000, found '-1'");
  CHECK(refusal("{\"input_lens\": [1], \"output_lens\": [0]}").find("at least one request") != std::string::npos);
  CHECK(refusal("{\"input_lens\": [1], \"output_lens\": [1], \"start_times\": 5}") ==
        "t:1:56: expected start_times, an array, found '5'");
  CHECK(refusal("{\"input_lens\": null, \"output_lens\": null}").find("an array input_lens") != std::string::npos);
  CHECK(refusal("{\"input_lens\": [1], \"output_lens\": [1], \"input_lens\": [1]}").find("input_lens once") !=
        std::string::npos);
}

TEST_CASE("aiperf's records: turns, reasoning, warm-up and failures", "[sim]") {
  const auto record = [](std::string_view conversation, int turn, std::int64_t start_s, std::int64_t end_s,
                         std::string_view more, std::string_view error) {
    return fmt::format(
        R"({{"metadata": {{"conversation_id": "{}", "turn_index": {}, "request_start_ns": {}000000000, "request_end_ns": {}000000000, {}}}, "metrics": {{"input_sequence_length": {{"value": 10, "unit": "tokens"}}, "output_sequence_length": {{"value": 5.0}}, "reasoning_token_count": {{"value": 2}}}}, "error": {}}})"
        "\n",
        conversation, turn, 1795161600 + start_s, 1795161600 + end_s, more, error);
  };
  const std::string fine = R"("benchmark_phase": "profiling", "was_cancelled": false)";
  const std::string text = record("a", 0, 0, 2, fine, "null") + record("a", 1, 5, 6, fine, "null") +
                           record("b", 0, 3, 4, fine, "null") + record("a", 0, 9, 10, fine, "null") +
                           record("c", 0, 9, 9, fine, R"({"code": 500})") +
                           record("d", 0, 9, 9, R"("benchmark_phase": "warmup", "was_cancelled": false)", "null") +
                           record("e", 0, 9, 9, R"("benchmark_phase": "profiling", "was_cancelled": true)", "null");
  CHECK(rows(text) == "aiperf's profile_export.jsonl: 0/10/2+3/s0 3/10/2+3/s1 5/10/2+3/s0~3 9/10/2+3/s2; 2 0 0 1; 1");
  CHECK(sim::parse_trace(text, "t").unused.empty());
  CHECK(refusal(R"({"metadata": {"request_start_ns": 1795161600000000000}, "metrics": {}, "error": null})")
            .find("t:1:1: expected an object with the key metrics.input_sequence_length.value, found") == 0);
  CHECK(refusal(R"({"metadata": {"request_start_ns": "x"}, "metrics": {"input_sequence_length": {"value": 1}, )"
                R"("output_sequence_length": {"value": 1}}})")
            .find("t:1:36: expected metadata.request_start_ns, a number from 0 to 1e+21 or a date") == 0);
  CHECK(refusal(R"({"input_sequence_length": {"avg": 5}, "output_sequence_length": {"avg": 7}})")
            .find("requests one by one (give profile_export.jsonl)") != std::string::npos);
}

TEST_CASE("guidellm's benchmarks are runs", "[sim]") {
  const std::string requests =
      R"("requests": {"successful": [{"prompt_tokens": 10, "output_tokens": 5, "start_time": 1795161602.5}, {"prompt_tokens": 20, "output_tokens": 7, "start_time": 1795161600}], "incomplete": [{}], "errored": [{}, {}]})";
  const std::string text = "{\n \"benchmarks\": [{" + requests +
                           "},\n {\"requests\": {\"successful\": [{\"input_metrics\": {\"text_tokens\": 3}, "
                           "\"output_metrics\": {\"text_tokens\": 4}, \"info\": {\"timings\": {\"request_start\": "
                           "5.5}}}]}}]}";
  CHECK(rows(text, {.run = 1}) == "guidellm's benchmarks: 0/20/0+7 2.5/10/0+5; 3 0 0 0; 1");
  CHECK(rows(text) == "guidellm's benchmarks: 0/3/0+4; 0 0 0 0; 0");
  CHECK(sim::parse_trace(text, "t").runs == 2);
  CHECK(refusal("{\"benchmarks\": []}").find("at least one request") != std::string::npos);
  CHECK(
      refusal(
          "{\"benchmarks\": [{\"requests\": {\"successful\": [\n{\"prompt_tokens\": 1, \"output_tokens\": -3}]}}]}") ==
      "t:2:39: expected output_tokens, a whole number from 1 to 1000000000, found '-3'");
}

TEST_CASE("inference-perf and LLMPerf", "[sim]") {
  CHECK(
      rows(
          R"([{"start_time": 12.5, "end_time": 14, "request": "{}", "response": "", "info": {"input_tokens": 10, "output_tokens": 5, "output_token_times": [1]}, "error": null},
 {"start_time": 11.0, "end_time": 14, "info": {"request_metrics": {"text": {"input_tokens": 20}}, "response_metrics": {"output_tokens": 7}}, "error": null},
 {"start_time": 11, "end_time": 14, "info": null, "error": {"error_type": "x", "error_msg": "y"}}])") ==
      "inference-perf's per_request_lifecycle_metrics.json: 0/20/0+7 1.5/10/0+5; 1 0 0 0; 1");
  CHECK(refusal(R"([{"start_time": 11, "end_time": 14, "info": {"input_tokens": 1}, "error": null}])")
            .find("t:1:2: expected an object with the key info.output_tokens or info.response_metrics.output_tokens") ==
        0);
  CHECK(
      refusal(R"({"load_summary": {}, "successes": {}, "failures": {}})").find("per_request_lifecycle_metrics.json") !=
      std::string::npos);
  CHECK(rows(R"([{"error_code": null, "error_msg": "", "number_input_tokens": 10, "number_output_tokens": 5},
 {"error_code": 429, "error_msg": "m", "number_input_tokens": 10, "number_output_tokens": 0}])") ==
        "LLMPerf's individual responses: nan/10/0+5; 1 0 0 0; 0");
  CHECK(refusal(R"([{"error_code": null, "number_input_tokens": 10, "number_output_tokens": "many"}])") ==
        "t:1:75: expected number_output_tokens, a whole number from 1 to 1000000000, found 'many'");
  CHECK(refusal(R"({"results_num_completed_requests": 5})").find("individual_responses.json") != std::string::npos);
}

TEST_CASE("LiteLLM's logs, as a table and as the proxy returns them", "[sim]") {
  const std::string table =
      "request_id,call_type,prompt_tokens,completion_tokens,startTime,endTime,session_id,status,metadata\n"
      "a,acompletion,10,5,2026-11-20 08:00:01.5,2026-11-20 08:00:02,s,success,\"{\"\"a\"\": \"\"b, c\"\"}\"\n"
      "b,acompletion,20,7,2026-11-20 08:00:00,2026-11-20 08:00:02,s,success,\n"
      "c,acompletion,0,0,2026-11-20 08:00:00,2026-11-20 08:00:02,s,failure,\n";
  CHECK(rows(table) == "LiteLLM's spend logs: 0/20/0+7 1.5/10/0+5; 1 0 0 0; 1");
  const auto t = sim::parse_trace(table, "t");
  CHECK(t.unused == std::vector<std::string>{"request_id", "call_type", "endTime", "session_id", "metadata"});
  CHECK(
      rows(
          R"([{"call_type": "acompletion", "prompt_tokens": 10, "completion_tokens": 5, "startTime": "2026-11-20T08:00:00Z", "metadata": {"usage_object": {"completion_tokens_details": {"reasoning_tokens": 3}, "prompt_tokens_details": {"cached_tokens": 8}}}}])") ==
      "LiteLLM's spend logs: 0/10/3+2; 0 0 0 0; 0");
  CHECK(refusal("call_type,startTime,prompt_tokens,completion_tokens\nx,noon,1,1\n")
            .find("t:2:3: expected startTime, a number from 0") == 0);
  // Cached tokens are named, as they are not used.
  const auto cached = sim::parse_trace(
      R"({"created": 1795161600, "usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 8}}})",
      "t");
  CHECK(cached.unused == std::vector<std::string>{"usage.prompt_tokens_details.cached_tokens"});
}

TEST_CASE("Langfuse's observations", "[sim]") {
  CHECK(rows(R"({"data": [
 {"id": "1", "type": "SPAN", "startTime": "2026-11-20T08:00:00.000Z", "usageDetails": {}, "promptTokens": 0, "completionTokens": 0, "level": "DEFAULT"},
 {"id": "2", "type": "GENERATION", "startTime": "2026-11-20T08:00:01.000Z", "usageDetails": {"input": 10}, "promptTokens": 10, "completionTokens": 5, "level": "DEFAULT"},
 {"id": "3", "type": "GENERATION", "startTime": "2026-11-20T08:00:02.500Z", "promptTokens": 1, "completionTokens": 1, "level": "ERROR"}]})") ==
        "Langfuse's observations: 0/10/0+5; 1 0 0 1; 0");
  CHECK(
      rows(
          R"({"type": "GENERATION", "start_time": "2026-11-20 08:00:01.000000", "usage_details": {"input": 10, "input_cached_tokens": 6, "output": 5, "output_reasoning_tokens": 3, "total": 24}, "level": "DEFAULT"}
)") == "Langfuse's observations: 0/16/3+5; 0 0 0 0; 0");
  CHECK(rows("id,type,startTime,usageDetails\n"
             "1,GENERATION,2026-11-20T08:00:01Z,\"{\"\"input\"\": 10, \"\"output\"\": 5}\"\n"
             "2,SPAN,2026-11-20T08:00:01Z,{}\n") == "Langfuse's observations: 0/10/0+5; 0 0 0 1; 0");
  CHECK(refusal("id,type,startTime,usageDetails\n1,GENERATION,2026-11-20T08:00:01Z,many\n") ==
        "t:2:35: expected usageDetails, an object of counts, found 'many'");
  CHECK(refusal(R"({"type": "GENERATION", "usageDetails": {"input": -4, "output": 1}})") ==
        "t:1:40: expected usageDetails, a whole number from 1 to 1000000000, found '-4'");
}

TEST_CASE("OpenTelemetry's spans", "[sim]") {
  const std::string otlp =
      R"({"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": [
 {"spanId": "1", "startTimeUnixNano": "1795161601500000000", "attributes": [{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "10"}}, {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "5"}}]},
 {"spanId": "2", "startTimeUnixNano": "1795161600000000000", "attributes": [{"key": "http.method", "value": {"stringValue": "GET"}}]},
 {"spanId": "3", "startTimeUnixNano": "1795161600000000000", "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}}, {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "90"}}, {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "9"}}]},
 {"spanId": "4", "startTimeUnixNano": "1795161600000000000", "status": {"code": 2}, "attributes": [{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "10"}}]}]}]}]})";
  const std::string more =
      R"({"resourceSpans": [{"scopeSpans": [{"spans": [{"spanId": "5", "startTimeUnixNano": "1795161600000000000", "attributes": [{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "20"}}, {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "7"}}, {"key": "gen_ai.usage.reasoning.output_tokens", "value": {"intValue": "3"}}]}]}]}]})";
  CHECK(rows(otlp + "\n" + more) == "OpenTelemetry spans: 0/20/3+4 1.5/10/0+5; 1 0 0 2; 1");
  CHECK(rows(more + "\n" + more + "\n") == "OpenTelemetry spans: 0/20/3+4 0/20/3+4; 0 0 0 0; 0");
  CHECK(rows(R"({
  "name": "chat", "context": {"trace_id": "0x1", "span_id": "0x2"}, "start_time": "2026-11-20T08:00:00.250000Z",
  "status": {"status_code": "UNSET"}, "attributes": {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5}
}
{
  "name": "GET", "context": {"trace_id": "0x1", "span_id": "0x3"}, "start_time": "2026-11-20T08:00:00.250000Z",
  "status": {"status_code": "UNSET"}, "attributes": {}
}
)") == "OpenTelemetry spans: 0/10/0+5; 0 0 0 1; 0");
  CHECK(rows(R"({"timestamp": "2026-11-20T08:00:00Z", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5}
)") == "OpenTelemetry spans: 0/10/0+5; 0 0 0 0; 0");
  CHECK(refusal(R"({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "GET", "attributes": []}]}]}]})")
            .find("at least one request, found only rows that are left out: 1 no requests") != std::string::npos);
  CHECK(
      refusal(
          R"({"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "1.5"}}, {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "5"}}]}]}]}]})")
          .find("t:1:123: expected attributes.gen_ai.usage.input_tokens, a whole number") == 0);
}

TEST_CASE("sums of many requests are no requests", "[sim]") {
  CHECK(refusal("start_time,end_time,num_model_requests,model,input_tokens,output_tokens\n1795161600,1795248000,5123,m,"
                "21000,5200\n") ==
        "t:1:1: expected requests one by one (these are sums of many requests, of an hour or a day: "
        "num_model_requests), found 'start_time,end_time,num_model_requests,m'...");
  CHECK(refusal(R"({"object": "page", "data": [{"object": "bucket", "start_time": 1, "end_time": 2, "results": []}]})")
            .find("these are buckets") != std::string::npos);
  CHECK(refusal("[{\"n_requests\": 4, \"n_context_tokens_total\": 5}]").find("sums of many") != std::string::npos);
  CHECK(refusal(R"({"service_kind": "openai", "experiments": []})").find("t:1:1: expected token counts (genai-perf") ==
        0);
}

TEST_CASE("gzip is unpacked by what the caller brings", "[sim]") {
  CHECK(refusal("\x1f\x8b\x08") == "t:1:1: expected text, found a gzip file: unpack it first, with gunzip");
  const sim::trace_options options{.gunzip = [](std::string_view packed, std::string_view name) {
    CHECK(packed == "\x1f\x8b\x08");
    CHECK(name == "t");
    return std::string{"prompt_tokens,output_tokens\n3,4\n"};
  }};
  CHECK(sim::parse_trace("\x1f\x8b\x08", "t", options).rows[0].prompt_tokens == 3);
  CHECK(sim::parse_trace("prompt_tokens,output_tokens\n5,4\n", "t", options).rows[0].prompt_tokens == 5);
}

}  // namespace
