// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/input/input.hpp>
#include <tessera/sim/input/json_text.hpp>
#include <tessera/sim/model/profile_file.hpp>
#include <tessera/sim/model/profiles.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::string to_json(const profile& p) {
  nlohmann::ordered_json j{{"name", p.name},
                           {"model",
                            {{"name", p.model.name},
                             {"parameters", p.model.parameters},
                             {"layers", p.model.layers},
                             {"query_heads", p.model.query_heads},
                             {"kv_heads", p.model.kv_heads},
                             {"head_dim", p.model.head_dim},
                             {"bytes_per_weight", p.model.bytes_per_weight},
                             {"bytes_per_kv_value", p.model.bytes_per_kv_value}}},
                           {"gpu",
                            {{"name", p.gpu.name},
                             {"flops", p.gpu.flops},
                             {"flops_efficiency", p.gpu.flops_efficiency},
                             {"bytes_per_s", p.gpu.bytes_per_s},
                             {"bandwidth_efficiency", p.gpu.bandwidth_efficiency},
                             {"memory_bytes", p.gpu.memory_bytes},
                             {"usable_memory", p.gpu.usable_memory},
                             {"launch_seconds", p.gpu.launch_seconds}}},
                           {"links",
                            {{"host_bytes_per_s", p.links.host_bytes_per_s},
                             {"host_memory_bytes", p.links.host_memory_bytes},
                             {"fabric_bytes_per_s", p.links.fabric_bytes_per_s}}}};
  nlohmann::ordered_json measured = nlohmann::ordered_json::object();
  for (const auto& d : p.measured.decode) {
    measured["decode"].push_back({{"batch", d.batch}, {"context", d.context}, {"seconds", d.seconds}});
  }
  for (const auto& d : p.measured.prefill)
    measured["prefill"].push_back({{"length", d.length}, {"seconds", d.seconds}});
  if (!measured.empty()) j["measured"] = measured;
  if (p.model.hidden_size > 0) j["model"]["hidden_size"] = p.model.hidden_size;
  if (p.model.max_context > 0) j["model"]["max_context"] = p.model.max_context;
  if (p.model.active_parameters > 0) j["model"]["active_parameters"] = p.model.active_parameters;
  if (p.model.experts > 0) {
    j["model"]["experts"] = p.model.experts;
    j["model"]["experts_per_token"] = p.model.experts_per_token;
  }
  if (p.gpu.multiprocessors > 0) j["gpu"]["multiprocessors"] = p.gpu.multiprocessors;
  for (const detail::term_key& k : detail::term_keys) {
    if (p.terms.*k.value != step_terms{}.*k.value) j["terms"][k.name] = p.terms.*k.value;
  }
  if (p.parallel != parallel_spec{}) {
    j["parallel"] = {{"tensor", p.parallel.tensor},
                     {"pipeline", p.parallel.pipeline},
                     {"bytes_per_s", p.parallel.bytes_per_s},
                     {"latency_s", p.parallel.latency_s}};
  }
  if (p.power.busy_watts > 0) j["power_watts"] = {{"idle", p.power.idle_watts}, {"busy", p.power.busy_watts}};
  if (!p.source.empty()) j["source"] = p.source;
  if (p.attention.multiprocessors > 0) {
    j["attention"] = {{"multiprocessors", p.attention.multiprocessors}, {"splits", p.attention.splits}};
  }
  return json_page(j);
}

}  // namespace sim

namespace sim {
namespace detail {

std::vector<std::string_view> term_names() {
  std::vector<std::string_view> names;
  for (const term_key& k : term_keys) names.emplace_back(k.name);
  return names;
}

measured_times read_measured(const profile_reader& in) {
  in.allow({"decode", "prefill"});
  measured_times out;
  if (in.has("decode")) {
    for (const profile_reader& point : in.objects("decode")) {
      point.allow({"batch", "context", "seconds"});
      out.decode.push_back({point.whole("batch", 1, 1'000'000), point.whole("context", 0, 1'000'000'000),
                            point.number("seconds", 0, 1e6, true)});
    }
    std::sort(out.decode.begin(), out.decode.end(), [](const auto& a, const auto& b) {
      return a.batch != b.batch ? a.batch < b.batch : a.context < b.context;
    });
    for (std::size_t i = 1; i < out.decode.size(); ++i) {
      const auto& d = out.decode[i];
      if (d.batch == out.decode[i - 1].batch && d.context == out.decode[i - 1].context) {
        in.refuse("decode", "measured.decode, every batch at most once with every context",
                  fmt::format("batch {} with context {} twice", d.batch, d.context));
      }
    }
  }
  if (in.has("prefill")) {
    for (const profile_reader& point : in.objects("prefill")) {
      point.allow({"length", "seconds"});
      out.prefill.push_back({point.whole("length", 1, 1'000'000'000), point.number("seconds", 0, 1e6, true)});
    }
    std::sort(out.prefill.begin(), out.prefill.end(), [](const auto& a, const auto& b) { return a.length < b.length; });
    for (std::size_t i = 1; i < out.prefill.size(); ++i) {
      if (out.prefill[i].length == out.prefill[i - 1].length) {
        in.refuse("prefill", "measured.prefill, every length once", fmt::format("{} twice", out.prefill[i].length));
      }
    }
  }
  return out;
}

}  // namespace detail
}  // namespace sim

namespace sim {

profile parse_profile(std::string_view text, std::string_view file) {
  text = without_mark(text);
  require_plain_text(text, file, "a JSON object");
  detail::json_checker checker;
  if (!nlohmann::json::sax_parse(text, &checker)) {
    const std::size_t offset = checker.offset < text.size() ? checker.offset : text.size();
    const bool at_end = checker.offset >= text.size();
    throw input_error{file, position_of(text, offset), checker.expected("valid JSON"),
                      at_end ? "the end of the file: is it truncated?" : shown(checker.token)};
  }
  const nlohmann::json document = nlohmann::json::parse(text);
  const detail::profile_reader root{text, file, document};
  root.allow({"name", "model", "gpu", "links", "measured", "attention", "terms", "parallel", "power_watts", "source"});

  profile p;
  p.name = root.text("name");

  const auto model = root.object("model");
  model.allow({"name", "parameters", "layers", "query_heads", "kv_heads", "head_dim", "hidden_size", "max_context",
               "bytes_per_weight", "bytes_per_kv_value", "active_parameters", "experts", "experts_per_token"});
  p.model = {.name = model.text("name"),
             .parameters = model.number("parameters", 1, 1e15),
             .layers = model.whole("layers", 1, 10'000),
             .query_heads = model.whole("query_heads", 1, 10'000),
             .kv_heads = model.whole("kv_heads", 1, 10'000),
             .head_dim = model.whole("head_dim", 1, 65'536),
             .bytes_per_weight = model.number("bytes_per_weight", 0, 16, true),
             .bytes_per_kv_value = model.number("bytes_per_kv_value", 0, 16, true)};

  if (model.has("hidden_size")) p.model.hidden_size = model.whole("hidden_size", 1, 10'000'000);
  if (model.has("max_context")) p.model.max_context = model.whole("max_context", 1, 1'000'000'000);
  if (model.has("active_parameters"))
    p.model.active_parameters = model.number("active_parameters", 1, p.model.parameters);
  if (model.has("experts")) {
    p.model.experts = model.whole("experts", 1, 100'000);
    p.model.experts_per_token = model.whole("experts_per_token", 1, p.model.experts);
  }

  const auto gpu = root.object("gpu");
  gpu.allow({"name", "flops", "flops_efficiency", "bytes_per_s", "bandwidth_efficiency", "memory_bytes",
             "usable_memory", "launch_seconds", "multiprocessors"});
  p.gpu = {.name = gpu.text("name"),
           .flops = gpu.number("flops", 1, 1e21),
           .flops_efficiency = gpu.number("flops_efficiency", 0, 1, true),
           .bytes_per_s = gpu.number("bytes_per_s", 1, 1e18),
           .bandwidth_efficiency = gpu.number("bandwidth_efficiency", 0, 1, true),
           .memory_bytes = gpu.number("memory_bytes", 1, 1e18),
           .usable_memory = gpu.number("usable_memory", 0, 1, true),
           .launch_seconds = gpu.number("launch_seconds", 0, 10)};

  if (gpu.has("multiprocessors")) p.gpu.multiprocessors = gpu.whole("multiprocessors", 1, 100'000);

  const auto links = root.object("links");
  links.allow({"host_bytes_per_s", "host_memory_bytes", "fabric_bytes_per_s"});
  p.links = {.host_bytes_per_s = links.number("host_bytes_per_s", 1, 1e18),
             .host_memory_bytes = links.number("host_memory_bytes", 0, 1e18),
             .fabric_bytes_per_s = links.number("fabric_bytes_per_s", 1, 1e18)};

  if (root.has("measured")) p.measured = detail::read_measured(root.object("measured"));
  if (root.has("attention")) {
    const auto attention = root.object("attention");
    attention.allow({"multiprocessors", "splits"});
    p.attention = {.multiprocessors = attention.whole("multiprocessors", 1, 100'000),
                   .splits = attention.number("splits", 1, 100'000)};
  }
  if (root.has("terms")) {
    const auto terms = root.object("terms");
    terms.allow(detail::term_names());
    for (const detail::term_key& k : detail::term_keys) {
      if (terms.has(k.name)) p.terms.*k.value = terms.number(k.name, k.least, k.most);
    }
    // Below 1, two parts together would take longer than one after the other.
    if (p.terms.knee > 0 && p.terms.knee < 1) {
      terms.refuse("knee", "terms.knee, 0 or a number of at least 1", fmt::format("{:g}", p.terms.knee));
    }
  }
  if (root.has("parallel")) {
    const auto parallel = root.object("parallel");
    parallel.allow({"tensor", "pipeline", "bytes_per_s", "latency_s"});
    p.parallel = {.tensor = parallel.whole("tensor", 1, 1024),
                  .pipeline = parallel.whole("pipeline", 1, 1024),
                  .bytes_per_s = parallel.number("bytes_per_s", 1, 1e18),
                  .latency_s = parallel.number("latency_s", 0, 1)};
  }
  if (root.has("power_watts")) {
    const auto power = root.object("power_watts");
    power.allow({"idle", "busy"});
    p.power.busy_watts = power.number("busy", 0, 1e6, true);
    p.power.idle_watts = power.number("idle", 0, p.power.busy_watts);
  }
  if (root.has("source")) p.source = root.text("source");
  if (!(p.kv_tokens() >= 1)) {
    gpu.refuse(
        "memory_bytes",
        fmt::format("gpu.memory_bytes with room for KV beside {:.4g} bytes of weights", p.model.weight_bytes()),
        fmt::format("{:.4g}, of which {:.4g} usable", p.gpu.memory_bytes, p.gpu.memory_bytes * p.gpu.usable_memory));
  }
  return p;
}

profile load_profile(const std::string& name_or_path) {
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json")) {
    return parse_profile(read_file(name_or_path), name_or_path);
  }
  return find_profile(name_or_path);
}

}  // namespace sim
TESSERA_NAMESPACE_END
