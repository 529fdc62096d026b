// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What the endpoint picker reads: requests, answers as they pass by, metrics, HTTP, the file of endpoints.

#include "answer_scan.hpp"
#include "completion.hpp"
#include "endpoints.hpp"
#include "engine_metrics.hpp"
#include "http_answer.hpp"

#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace endpoint_picker;

std::optional<completion> completion_of(std::string_view body) {
  std::size_t offset = 0;
  return read_completion(body, offset);
}

answer_scan scanned(std::string_view all) {
  answer_scan s;
  s.read(all);
  return s;
}

constexpr std::string_view chat_events =
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm \\\"completion_tokens\\\": 7\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\"yes\"}}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":31,\"total_tokens\":33,\"completion_tokens\":2}}\n\n"
    "data: [DONE]\n\n";

}  // namespace

TEST_CASE("a completion's body says how long its prompt is, and what it may generate") {
  const auto text = completion_of(R"({"model":"m","prompt":"12345678","max_tokens":7,"stream":true})");
  REQUIRE(text);
  CHECK(text->model == "m");
  CHECK(text->text_bytes == 8);
  CHECK(text->token_ids == 0);
  CHECK(text->max_tokens == 7U);
  CHECK(text->streams);
  CHECK_FALSE(text->reasons);
  CHECK(completion_of(R"({"prompt":[1,2,3]})")->token_ids == 3);
  CHECK(completion_of(R"({"prompt":[[1,2],[3]]})")->token_ids == 3);
  CHECK(completion_of(R"({"prompt":["ab","c"]})")->text_bytes == 3);
  CHECK(completion_of(R"({"logprobs":[1,2,3]})")->token_ids == 0);
}

TEST_CASE("a chat's body is the texts of its messages and tools; pictures count nothing") {
  const auto chat = completion_of(R"({"messages":[{"role":"user","content":"abcd"},{"role":"user","content":[
      {"type":"text","text":"ef"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAAAAAAAAAAAAAA"}}]}],
      "max_completion_tokens":9,"user":"someone"})");
  REQUIRE(chat);
  CHECK(chat->text_bytes == 4 + 4 + 4 + 2 + 4 + 9);  // user, abcd, user, ef, text, image_url
  CHECK(chat->max_tokens == 9U);
  CHECK_FALSE(chat->streams);
}

TEST_CASE("whether a request reasons is what it says") {
  CHECK(completion_of(R"({"reasoning_effort":"high"})")->reasons == true);
  CHECK(completion_of(R"({"reasoning_effort":"none"})")->reasons == false);
  CHECK(completion_of(R"({"chat_template_kwargs":{"enable_thinking":false}})")->reasons == false);
  CHECK(completion_of(R"({"chat_template_kwargs":{"thinking":true}})")->reasons == true);
  CHECK_FALSE(completion_of(R"({"metadata":{"thinking":true}})")->reasons);
}

TEST_CASE("what is no JSON object is none, and says where") {
  for (const std::string_view bad : {"", "{", "[]", "3", "\"text\"", "null", "{\"prompt\":}", "{} {}", "{\"a\":1,}"}) {
    INFO(bad);
    std::size_t offset = 1000;
    CHECK_FALSE(read_completion(bad, offset));
    CHECK(offset <= bad.size());
  }
  std::string deep(200'000, '[');  // whatever its depth, no stack is used up
  std::size_t offset = 0;
  CHECK_FALSE(read_completion("{\"prompt\":" + deep, offset));
}

TEST_CASE("an answer's events and usage are read as they pass by") {
  const answer_scan s = scanned(chat_events);
  CHECK(s.events() == 4);
  CHECK(s.generated() == 2U);
  CHECK(s.prompt() == 31U);
  CHECK(s.reasoned());
  CHECK(s.answered());
  const answer_scan whole = scanned(
      R"({"id":"x","choices":[{"text":"a \"completion_tokens\": 99 b"}], "usage": {"prompt_tokens" : 5, "completion_tokens": 12}})");
  CHECK(whole.events() == 0);
  CHECK(whole.generated() == 12U);
  CHECK(whole.prompt() == 5U);
  CHECK_FALSE(whole.reasoned());
  CHECK_FALSE(scanned("data: {\"choices\":[{\"delta\":{\"reasoning\":\"\"}}]}\n").reasoned());
  CHECK_FALSE(scanned("data: {\"choices\":[{\"delta\":{\"content\":null}}]}\n").answered());
  CHECK_FALSE(scanned("{\"completion_tokens\":99999999999999999999999999}").generated());
}

TEST_CASE("however an answer is cut into pieces, it says the same") {
  std::mt19937_64 draw{7};
  for (int round = 0; round != 200; ++round) {
    answer_scan s;
    std::string_view left = chat_events;
    while (!left.empty()) {
      const std::size_t n = std::min<std::size_t>(draw() % 9, left.size());
      s.read(left.substr(0, n));
      left.remove_prefix(n);
    }
    REQUIRE(s.events() == 4);
    REQUIRE(s.generated() == 2U);
    REQUIRE(s.prompt() == 31U);
    REQUIRE(s.reasoned());
    REQUIRE(s.answered());
  }
}

TEST_CASE("an answer that breaks off in a text is read on from the next line") {
  const answer_scan s = scanned("data: {\"text\":\"never ends\ndata: {\"usage\":{\"completion_tokens\":3}}\n");
  CHECK(s.events() == 2);
  CHECK(s.generated() == 3U);
}

TEST_CASE("metrics of a vLLM server are read") {
  std::string why;
  const auto m = read_metrics(
      "# HELP vllm:num_requests_running Number of requests.\n"
      "# TYPE vllm:num_requests_running gauge\n"
      "vllm:num_requests_running{engine=\"0\",model_name=\"m, with \\\"quotes\\\" and } in it\"} 3.0\r\n"
      "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 2.0 1700000000\n"
      "vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"capacity\"} 9.0\n"
      "vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\n"
      "process_start_time_seconds 1.76e+09\n"
      "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"100\",engine=\"0\"} 1.0\n",
      why);
  REQUIRE(m);
  CHECK(m->running == 3);
  CHECK(m->waiting == 2);
  CHECK(m->kv_usage == 0.25);
  CHECK(m->kv_tokens == 1600);
  CHECK(m->started == 1.76e9);
}

TEST_CASE("engines behind one address are one; what a server says of its room in tokens comes first") {
  std::string why;
  const auto m = read_metrics(
      "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} 4\n"
      "vllm:num_requests_waiting{engine=\"0\"} 0\nvllm:num_requests_waiting{engine=\"1\"} 1\n"
      "vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\nvllm:kv_cache_usage_perc{engine=\"1\"} 0\n"
      "vllm:cache_config_info{block_size=\"16\",kv_cache_size_tokens=\"1000\",num_gpu_blocks=\"100\",engine=\"0\"} 1\n"
      "vllm:cache_config_info{block_size=\"16\",kv_cache_size_tokens=\"None\",num_gpu_blocks=\"100\",engine=\"1\"} 1\n",
      why);
  REQUIRE(m);
  CHECK(m->running == 7);
  CHECK(m->waiting == 1);
  CHECK(m->kv_usage == 0.25);
  CHECK(m->kv_tokens == 2600);
  CHECK(m->started == 0);
}

TEST_CASE("metrics that say too little, or nonsense, are none") {
  std::string why;
  CHECK_FALSE(read_metrics("", why));
  CHECK(why == "vllm:num_requests_running");
  CHECK_FALSE(
      read_metrics("vllm:num_requests_running 1\nvllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 7\n", why));
  CHECK(why == "vllm:kv_cache_usage_perc");
  CHECK_FALSE(read_metrics("vllm:num_requests_running -1\n", why));
  CHECK_FALSE(read_metrics("vllm:num_requests_running NaN\nvllm:num_requests_waiting 1\n", why));
  CHECK(why == "vllm:num_requests_running");
  CHECK_FALSE(read_metrics("<html>502 Bad Gateway</html>", why));
  std::mt19937_64 draw{3};
  for (int round = 0; round != 2000; ++round) {  // nothing that comes stops the program
    std::string page = "vllm:num_requests_running{engine=\"0\"} 3\nvllm:cache_config_info{block_size=\"16\"} 1\n";
    for (int i = 0; i != 4; ++i) {
      const std::size_t where = draw() % page.size();
      page[where] = "{}\"\\ \n=,9e"[draw() % 10];
    }
    CHECK_FALSE(read_metrics(page, why));
  }
}

TEST_CASE("an HTTP answer is read whole: by its length, in chunks, or until it is closed, in any pieces") {
  const std::vector<std::string> answers{
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: x\r\n\r\n",
      "HTTP/1.0 200 OK\nServer: x\n\nhello",
  };
  std::mt19937_64 draw{5};
  for (const std::string& all : answers) {
    for (int round = 0; round != 100; ++round) {
      http_answer a{100};
      std::string_view left = all;
      while (!left.empty()) {
        const std::size_t n = std::min<std::size_t>(1 + draw() % 7, left.size());
        a.read(left.substr(0, n));
        left.remove_prefix(n);
      }
      REQUIRE(a.closed() == http_answer::state::whole);
      REQUIRE(a.status() == 200);
      REQUIRE(a.body() == "hello");
    }
  }
}

TEST_CASE("an HTTP answer that is too long, cut off or none is broken") {
  const auto of = [](std::string_view all) {
    http_answer a{64};
    a.read(all);
    return a.closed();
  };
  CHECK(of("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell") == http_answer::state::broken);
  CHECK(of("HTTP/1.1 200 OK\r\nContent-Length: 65\r\n\r\n") == http_answer::state::broken);
  CHECK(of("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n") == http_answer::state::broken);
  CHECK(of("HTTP/1.1 200 OK\r\n\r\n" + std::string(65, 'x')) == http_answer::state::broken);
  CHECK(of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n41\r\n" + std::string(65, 'x')) ==
        http_answer::state::broken);
  CHECK(of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n") == http_answer::state::broken);
  CHECK(of("HTTP/1.1 200 OK\r\n" + std::string(1000, 'x')) == http_answer::state::broken);
  CHECK(of("SSH-2.0-OpenSSH\r\n") == http_answer::state::broken);
  CHECK(of("HTTP/1.1 200 OK\r\n") == http_answer::state::broken);
  CHECK(of("") == http_answer::state::broken);
  CHECK(of("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n") == http_answer::state::whole);
}

TEST_CASE("addresses are IP:PORT") {
  CHECK(read_address("10.0.0.1:80")->port == 80);
  CHECK(read_address("[::1]:8000")->v6);
  for (const char* bad : {"", "host:80", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:8x",
                          "::1:80", "10.0.0.256:1", ":80", "10.0.0.1:-1", "[10.0.0.1]:80"}) {
    INFO(bad);
    CHECK_FALSE(read_address(bad));
  }
}

TEST_CASE("a file of endpoints is read") {
  const endpoint_list list = read_endpoints("f", R"({"endpoints": [{"address": "10.0.0.1:80"},
    {"address": "10.0.0.2:80", "role": "prefill", "labels": {"model": "m", "zone": "a"}, "lengths": [8, null], "kv_tokens": 99}],
    "objectives": {"batch": -1}})",
                                            8);
  REQUIRE(list.endpoints.size() == 2);
  CHECK(list.endpoints[0].takes_requests);
  CHECK(list.endpoints[1] == endpoint{"10.0.0.2:80", false, "m", 8, std::nullopt, 99});
  CHECK(list.objectives.at("batch") == -1);
}

TEST_CASE("a file of endpoints that is wrong says where, and what was expected") {
  const auto complaint = [](const std::string& text) -> std::string {
    try {
      static_cast<void>(read_endpoints("f", text, 2));
    } catch (const tessera::sim::input_error& e) {
      return e.what();
    }
    return "";
  };
  CHECK(complaint("{\"endpoints\": [\n  {\"address\": \"host:80\"}]}") ==
        "f:2:15: expected an address \"IP:PORT\" or \"[IPv6]:PORT\", found '\"host:80\"'");
  CHECK(complaint("{\"endpoints\": [}") == "f:1:16: expected JSON, found '}'");
  CHECK(complaint("") == "f:1:1: expected JSON, found the end of the file");
  CHECK(complaint("[]") == "f:1:1: expected an object, found '[]'");
  CHECK(complaint("{}") == "f:1:1: expected an object with \"endpoints\", found '{}'");
  CHECK(complaint("{\"endpoints\": [{}]}") == "f:1:16: expected an endpoint with an \"address\", found '{}'");
  CHECK(complaint("{\"endpoints\": 3}") == "f:1:15: expected an array of endpoints, found '3'");
  CHECK(complaint("{\"endpoints\": [], \"x\": 1}") ==
        "f:1:24: expected one of the names endpoints, objectives, found '1'");
  CHECK(complaint(R"({"endpoints": [{"address": "1.1.1.1:1"}, {"address": "1.1.1.1:1"}]})") ==
        "f:1:54: expected each address once, found '\"1.1.1.1:1\"'");
  CHECK(complaint(R"({"endpoints": [{"address": "1.1.1.1:1", "address": "1.1.1.2:1"}]})") ==
        "f:1:52: expected each name once in an object, found '\"1.1.1.2:1\"'");
  CHECK(complaint(R"({"endpoints": [], "objectives": {"a": 1, "b": 2, "a": 3}})") ==
        "f:1:55: expected each name once in an object, found '3'");
  CHECK(complaint(R"({"endpoints": [], "endpoints": []})") ==
        "f:1:32: expected each name once in an object, found '[]'");
  CHECK(complaint(R"({"endpoints": [{"address": "1.1.1.1:1"}, {"address": "1.1.1.2:1"}, {"address": "1.1.1.3:1"}]})")
            .find("at most 2 endpoints") != std::string::npos);
  CHECK(complaint(R"({"endpoints": [{"address": "1.1.1.1:1", "role": "x"}]})").find("\"mixed\", \"decode\"") !=
        std::string::npos);
  CHECK(complaint(R"({"endpoints": [{"address": "1.1.1.1:1", "lengths": [4, 4]}]})") ==
        "f:1:56: expected a whole number from 5 to 1000000000000, found '4'");
  CHECK(complaint(R"({"endpoints": [{"address": "1.1.1.1:1", "lengths": 4}]})").find("two lengths") !=
        std::string::npos);
  CHECK(complaint(R"({"endpoints": [{"address": "1.1.1.1:1", "kv_tokens": 0}]})").find("a whole number from 1") !=
        std::string::npos);
  CHECK(complaint(R"({"endpoints": [{"address": "1.1.1.1:1", "labels": {"model": 1}}]})").find("a text") !=
        std::string::npos);
  CHECK(complaint(R"({"endpoints": [], "objectives": {"batch": 0.5}})").find("a whole number from -1000000") !=
        std::string::npos);
  CHECK(complaint("{\r\n\"endpoints\": [\r\n3]}").substr(0, 6) == "f:3:1:");
}
