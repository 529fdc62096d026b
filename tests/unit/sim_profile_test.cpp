// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/model/profile_file.hpp>
#include <tessera/sim/model/profiles.hpp>

#include "support/catch.hpp"

#include <string>
#include <string_view>

namespace {

namespace sim = tessera::sim;
using namespace tessera::literals;
using tessera_test::approx;

const sim::profile& builtin(std::string_view name) {
  for (const sim::profile& p : sim::profiles()) {
    if (p.name == name) return p;
  }
  FAIL("no profile " << name);
  return sim::profiles().front();
}

TEST_CASE("PASCAL's setting has the KV per token and the room that the paper's does", "[sim]") {
  const auto& p = builtin("h100-96gb-qwen-32b");
  CHECK(p.model.kv_bytes_per_token() == 256 * 1024);
  CHECK(p.model.weight_bytes() == approx(65e9).epsilon(0.01));
  CHECK(p.kv_tokens() == approx(80'000).epsilon(0.01));
  CHECK(p.kv_blocks(16_tok) == tessera::blocks{static_cast<std::int64_t>(p.kv_tokens()) / 16});
  CHECK(p.links.fabric_bytes_per_s == 100e9 / 8);
}

TEST_CASE("every built-in profile has room, and is read back as it is written", "[sim]") {
  CHECK(sim::profile_names().size() == 17);
  CHECK_NOTHROW(sim::find_profile(sim::default_profile));
  for (const sim::profile& p : sim::profiles()) {
    INFO(p.name);
    CHECK(p.kv_blocks(16_tok) > 1000_blk);
    CHECK(!p.source.empty());
    CHECK(p.host_blocks(16_tok) > p.kv_blocks(16_tok));
    CHECK(p.model.query_heads % p.model.kv_heads == 0);
    const std::string text = sim::to_json(p);
    CHECK(sim::to_json(sim::parse_profile(text, "p.json")) == text);
    CHECK(sim::to_json(sim::load_profile(p.name)) == text);
  }
}

TEST_CASE("weights that do not fit leave no blocks", "[sim]") {
  sim::profile p = sim::profiles()[0];
  p.gpu.memory_bytes = 1e9;
  CHECK(p.kv_tokens() < 0);
  CHECK(p.kv_blocks(16_tok) == 0_blk);
}

std::string refusal(std::string_view text) {
  try {
    (void)sim::parse_profile(text, "p.json");
  } catch (const sim::input_error& e) {
    return e.what();
  }
  return "";
}

/// The first built-in profile as JSON, with one piece of it replaced.
std::string with(std::string_view piece, std::string_view other) {
  std::string text = sim::to_json(sim::profiles()[0]);
  const std::size_t at = text.find(piece);
  REQUIRE(at != text.npos);
  return text.replace(at, piece.size(), other);
}

TEST_CASE("a bad profile is an error with line and column: no JSON", "[sim]") {
  REQUIRE(refusal(sim::to_json(sim::profiles()[0])).empty());
  CHECK(refusal("") == "p.json:1:1: expected a JSON object, found an empty file");
  CHECK(refusal("[1]") == "p.json:1:1: expected a profile, an object, found '[1]'");
  CHECK(refusal("{\"name\": \"x\",\n  \"model\"") ==
        "p.json:2:10: expected valid JSON, found the end of the file: is it truncated?");
  CHECK(refusal("{\"name\": \"x\",\n  \"model\": NaN}").find("p.json:2:12: expected valid JSON, found ") == 0);
  CHECK(refusal("{\"name\": 1e999}").find("p.json:1:14: expected a number that a double can hold, found '1e999'") == 0);
  CHECK(refusal(std::string_view{"{\"\0\"}", 5}) == "p.json:1:3: expected text, found a NUL byte (a binary file?)");
  CHECK(refusal("{" + std::string(1'000'000, ' ') + "}").find("p.json:1:65537: expected lines of at most") == 0);
  CHECK(refusal("{\"name\": \"\xff\"}").find("p.json:1:11: expected valid JSON") == 0);
  // As another system writes it.
  std::string whole = sim::to_json(sim::profiles()[0]);
  std::string other = "\xef\xbb\xbf";
  for (const char c : whole) other += c == '\n' ? std::string{"\r\n"} : std::string{c};
  CHECK(refusal(other).empty());
  // Mistakes are where they are in any other file.
  for (const std::string_view wrong :
       {"{\n\"name\": \"x\",\n\"model\": 5\n}\n", "{\n\"name\": 1\n}\n", "{\n\"name\": \"x\",\n\"mode\": {\n}\n}\n",
        "{\n\"name\":\n\"x\"\n,\n\"model\": {\n\"name\": true\n}\n}\n"}) {
    std::string with_returns;
    for (const char c : wrong) with_returns += c == '\n' ? std::string{"\r\n"} : std::string{c};
    CHECK_FALSE(refusal(wrong).empty());
    CHECK(refusal(with_returns) == refusal(wrong));
  }
  CHECK(refusal("{\n\"name\":\n" + std::string(60'000, '[')) ==
        "p.json:1:1: expected arrays and objects at most 512 deep, found '['");
  // Wherever it ends, it is refused.
  for (std::size_t size = 0; size + 2 < whole.size(); size += 7) CHECK_FALSE(refusal(whole.substr(0, size)).empty());
}

TEST_CASE("a bad profile is an error with line and column: keys and values", "[sim]") {
  // The keys of a built-in profile are one to a line, so that lines can be counted from its text.
  CHECK(refusal(with("  \"name\": \"h100-96gb-qwen-32b\",\n", "")) ==
        "p.json:1:1: expected the key name (a text), found an object without it");
  CHECK(refusal(with("\"layers\": 64,", "\"layer\": 64,")) ==
        "p.json:6:5: expected only the keys name, parameters, layers, query_heads, kv_heads, head_dim, hidden_size, "
        "max_context, "
        "bytes_per_weight, bytes_per_kv_value, active_parameters, experts, experts_per_token in model, found 'layer'");
  CHECK(refusal(with("    \"layers\": 64,\n", "")) ==
        "p.json:3:12: expected the key model.layers (a whole number from 1 to 10000), found an object without it");
  const std::string layers = "p.json:6:15: expected model.layers, a whole number from 1 to 10000, found ";
  CHECK(refusal(with("\"layers\": 64", "\"layers\": 0")) == layers + "'0'");
  CHECK(refusal(with("\"layers\": 64", "\"layers\": -64")) == layers + "'-64'");
  CHECK(refusal(with("\"layers\": 64", "\"layers\": 6.5")) == layers + "'6.5'");
  CHECK(refusal(with("\"layers\": 64", "\"layers\": 1e300")) == layers + "'1e300'");
  CHECK(refusal(with("\"layers\": 64", "\"layers\": 18446744073709551616")) == layers + "'18446744073709551616'");
  CHECK(refusal(with("\"layers\": 64", "\"layers\": \"64\"")) == layers + "'\"64\"'");
  CHECK(refusal(with("\"layers\": 64", "\"layers\": null")) == layers + "'null'");
  CHECK(refusal(with("\"layers\": 64", "\"layers\": [1, {\"}\": \"]\"}]")) == layers + "'[1, {\"}\": \"]\"}]'");
  CHECK(refusal(with("\"layers\": 64", "\"layers\": 64.0")).empty());
  CHECK(refusal(with("\"name\": \"H100 96 GB\"", "\"name\": 5")) ==
        "p.json:15:13: expected gpu.name, a text, found '5'");
  CHECK(refusal(with("\"flops_efficiency\": 0.6", "\"flops_efficiency\": 1.1")) ==
        "p.json:17:25: expected gpu.flops_efficiency, a number above 0, at most 1, found '1.1'");
  CHECK(refusal(with("\"flops_efficiency\": 0.6", "\"flops_efficiency\": 0")).find("p.json:17:25: ") == 0);
  CHECK(refusal(with("\"launch_seconds\": 0.00128", "\"launch_seconds\": -1")) ==
        "p.json:22:23: expected gpu.launch_seconds, a number of at least 0, at most 10, found '-1'");
  CHECK(refusal(with("\"memory_bytes\": 96000000000.0", "\"memory_bytes\": 70e9")) ==
        "p.json:20:21: expected gpu.memory_bytes with room for KV beside 6.552e+10 bytes of weights, found 7e+10, of "
        "which 6.3e+10 usable");
  // The last value of a key that comes twice counts, for the value and for the place.
  CHECK(refusal(with("\"layers\": 64", "\"layers\": 64, \"layers\": 0")) ==
        "p.json:6:29: expected model.layers, a whole number from 1 to 10000, found '0'");
}

std::string measured(std::string_view content) {
  std::string text = sim::to_json(sim::profiles()[0]);
  text.erase(text.rfind("\n}"));
  return text + ",\n\"measured\": " + std::string{content} + "\n}\n";
}

TEST_CASE("measured tables are read in any order and must be whole", "[sim]") {
  const auto p = sim::parse_profile(
      measured(
          R"({"decode": [{"batch": 8, "context": 100, "seconds": 0.3}, {"batch": 1, "context": 900, "seconds": 0.2},
                  {"batch": 8, "context": 900, "seconds": 0.4}, {"batch": 1, "context": 100, "seconds": 0.1}],
                  "prefill": [{"length": 200, "seconds": 2}, {"length": 100, "seconds": 1}]})"),
      "p.json");
  REQUIRE(p.measured.decode.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(p.measured.decode[i].seconds == approx(0.1 * static_cast<double>(i + 1)));
  REQUIRE(p.measured.prefill.size() == 2);
  CHECK(p.measured.prefill[0].length == 100);
  CHECK(sim::to_json(sim::parse_profile(sim::to_json(p), "again")) == sim::to_json(p));

  CHECK(refusal(measured("{}")).empty());
  CHECK(refusal(measured("[]")) == "p.json:30:13: expected measured, an object, found '[]'");
  CHECK(refusal(measured("{\"decode\": []}")) ==
        "p.json:30:24: expected measured.decode, an array of at least one object, found '[]'");
  CHECK(refusal(measured("{\"prefill\": [{\"length\": 1, \"seconds\": 1}, {\"length\": 1, \"seconds\": 2}]}")) ==
        "p.json:30:25: expected measured.prefill, every length once, found 1 twice");
  CHECK(refusal(measured("{\"prefill\": [{\"length\": 1, \"seconds\": 1}, {\"length\": 2, \"seconds\": 0}]}"))
            .find("expected measured.prefill.1.seconds, a number above 0") != std::string::npos);
  CHECK(refusal(measured("{\"prefill\": [7]}")).find("expected measured.prefill.0, an object, found '7'") !=
        std::string::npos);
  const std::string twice =
      "p.json:30:24: expected measured.decode, every batch at most once with every context, found ";
  const auto decode = [&](std::string_view points) {
    std::string list;
    for (std::size_t i = 0; i + 1 < points.size(); i += 2) {
      list += std::string{list.empty() ? "" : ","} + "{\"batch\":" + points[i] + ",\"context\":" + points[i + 1] +
              ",\"seconds\":1}";
    }
    return refusal(measured("{\"decode\": [" + list + "]}"));
  };
  CHECK(decode("11122122").empty());
  CHECK(decode("11").empty());
  CHECK(decode("1121").empty());
  CHECK(decode("1112").empty());
  CHECK(decode("111221").empty());  // what fits, and no more
  CHECK(decode("11122123").empty());
  CHECK(decode("1111") == twice + "batch 1 with context 1 twice");
  CHECK(decode("111221122122") == twice + "batch 1 with context 2 twice");
}

TEST_CASE("what need not be in a profile is read back as it is written, and refused where it is wrong", "[sim]") {
  sim::profile p = sim::profiles()[0];
  p.source = "a \"source\"";
  p.gpu.multiprocessors = 132;
  p.model.hidden_size = 2048;
  p.model.active_parameters = 3e9;
  p.model.experts = 128;
  p.model.experts_per_token = 8;
  p.parallel = {.tensor = 4, .pipeline = 2, .bytes_per_s = 450e9, .latency_s = 1e-5};
  p.terms = {.kv_bandwidth_efficiency = 0.9,
             .attention_flops_efficiency = 0.7,
             .knee = 3.5,
             .request_seconds = 1e-6,
             .token_seconds = 2e-6,
             .least_context = 64,
             .mixed_kv_factor = 2.5,
             .longest_history_factor = 7.5,
             .host_step_seconds = 1e-3,
             .host_request_seconds = 1e-2};
  const std::string text = sim::to_json(p);
  const sim::profile again = sim::parse_profile(text, "p.json");
  CHECK(again.terms == p.terms);
  CHECK(again.parallel == p.parallel);
  CHECK(again.source == p.source);
  CHECK(again.model.experts == 128);
  CHECK(again.model.hidden_size == 2048);
  CHECK(sim::to_json(again) == text);
  // Neutral terms are not written.
  const std::string plain = sim::to_json(sim::profiles()[0]);
  for (const char* key : {"terms", "parallel", "hidden_size", "experts", "multiprocessors"})
    CHECK(plain.find(key) == plain.npos);
  // A partial object: what is missing is neutral.
  const auto added = [](std::string_view what) {
    std::string whole = sim::to_json(sim::profiles()[0]);
    whole.erase(whole.rfind("\n}"));
    return whole + ",\n" + std::string{what} + "\n}\n";
  };
  CHECK(sim::parse_profile(added(R"("terms": {"knee": 3})"), "p.json").terms == sim::step_terms{.knee = 3});
  CHECK(refusal(added(R"("terms": {"knees": 3})")).find("p.json:30:11: expected only the keys kv_bandwidth_") == 0);
  CHECK(refusal(added(R"("terms": {"mixed_kv_factor": 0.5})")) ==
        "p.json:30:30: expected terms.mixed_kv_factor, a number of at least 1, at most 100, found '0.5'");
  CHECK(refusal(added(R"("terms": {"host_step_seconds": -1})")).find("p.json:30:32: ") == 0);
  CHECK(refusal(added(R"("terms": {"knee": 0.5})")) ==
        "p.json:30:19: expected terms.knee, 0 or a number of at least 1, found 0.5");
  CHECK(refusal(added(R"("parallel": {"tensor": 2})")).find("expected the key parallel.pipeline") != std::string::npos);
  CHECK(refusal(added(R"("parallel": {"tensor": 0, "pipeline": 1, "bytes_per_s": 1, "latency_s": 0})"))
            .find("expected parallel.tensor, a whole number from 1") != std::string::npos);
}

TEST_CASE("several devices have more room, and more KV than heads copies", "[sim]") {
  sim::profile p = sim::profiles()[0];
  const double one = p.kv_tokens();
  p.parallel.tensor = 2;
  CHECK(p.kv_tokens() == approx(one + p.gpu.memory_bytes * p.gpu.usable_memory / p.model.kv_bytes_per_token()));
  CHECK(p.kv_bytes_per_token() == p.model.kv_bytes_per_token());
  p.parallel.tensor = 16;  // of 8 KV heads
  CHECK(p.kv_bytes_per_token() == 2 * p.model.kv_bytes_per_token());
}

TEST_CASE("a profile is found by name or read from a file", "[sim]") {
  try {
    (void)sim::load_profile("h100");
    FAIL("no error");
  } catch (const sim::usage_error& e) {
    const std::string what = e.what();
    CHECK(what.find("unknown profile 'h100'") == 0);
    CHECK(what.find("; there are: h100-96gb-qwen-32b, h200-llama-3.1-8b, ") != what.npos);
    CHECK(what.find("; or give a .json file") != what.npos);
  }
  CHECK_THROWS_AS(sim::load_profile("missing.json"), sim::input_error);
  CHECK_THROWS_AS(sim::load_profile("./missing"), sim::input_error);
}

}  // namespace
