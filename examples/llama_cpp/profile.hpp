// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "load.hpp"

#include <tessera/sim/model/profile_file.hpp>
#include <tessera/sim/model/step_file.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

/// @file
/// Measures how long this engine's steps take, as a profile that the simulator reads. So what `replay` says of a policy
/// can be compared with what the engine does.

namespace llama_cpp {
namespace detail {

[[nodiscard]] inline double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

/// Submits `n` made-up requests of one length. They run until the server is idle.
inline void submit_alike(server& s, std::list<served>& requests, std::size_t n, tokens prompt, tokens output,
                         const model& m, sim::random_engine& rng) {
  for (std::size_t i = 0; i < n; ++i) {
    served& r = requests.emplace_back();
    r.fixed_length = true;
    r.max_output = output;
    fill_prompt(r, prompt, m, rng);
    if (!ok(s.submit(r))) throw sim::usage_error{"the instance is too small to be measured"};
  }
}

/// What one step takes, on the server's clock.
inline double timed_step(server& s) {
  const time_point before = s.options().clock();
  s.step();
  return (s.options().clock() - before).seconds();
}

}  // namespace detail

/// Measures steps of one instance under `o`: decoding, whole prompts up to `step_tokens`, prompts next to decodes, and
/// copies to host memory. Decoding is measured over a grid of batch sizes and contexts that fill its KV. Times are
/// medians, on the server's clock. @param steps if not null: becomes the measured steps as CSV, which `calibrate`
/// reads.
[[nodiscard]] inline sim::profile measure_profile(const model& m, server_options o, std::string name,
                                                  std::string* steps = nullptr) {
  constexpr int timed = 33;
  o.instances = 1;
  o.pace.tpot = tessera::duration{1e-9};  // without readers
  const std::unique_ptr<server> s = find_composition("fcfs").make(m, o);
  sim::random_engine rng{1};
  std::list<served> requests;
  const auto drain = [&] {
    while (!s->idle()) {
      s->step();
      s->deliver();
    }
    requests.clear();
  };

  // The longest context that a full batch can have, less what is generated while it is timed and one block of reserve.
  const auto slots = static_cast<std::int64_t>(o.limits.residents);
  const std::int64_t pool = o.limits.block_size.count() * (static_cast<std::int64_t>(o.limits.blocks) * 98 / 100);
  const std::int64_t most = std::min(pool / slots, o.limits.longest().count()) - o.limits.block_size.count() - timed;
  if (most < 2 * timed) throw sim::usage_error{"a full batch has too little KV to be measured: take more blocks"};

  sim::profile p;
  std::string rows{sim::step_file_header};
  std::vector<std::int64_t> batches;
  for (std::int64_t b = 1; b < slots; b *= 2) batches.push_back(b);
  batches.push_back(slots);
  for (const std::int64_t batch : batches) {
    for (const std::int64_t context : {most / 4, most / 2, most}) {
      const tokens prompt{std::max<std::int64_t>(context - timed / 2, 1)};
      detail::submit_alike(*s, requests, static_cast<std::size_t>(batch), prompt, tokens{timed + 8}, m, rng);
      // Until all decode: a prompt has had its last chunk when it has a token.
      const auto all_decode = [&] {
        return std::all_of(requests.begin(), requests.end(), [](const served& r) { return r.generated() > tokens{}; });
      };
      while (!all_decode()) s->step();
      std::vector<double> seconds;
      for (int i = 0; i < timed; ++i) {
        const std::uint64_t before = s->counts().tokens;
        const double took = detail::timed_step(*s);
        if (s->counts().tokens - before == static_cast<std::uint64_t>(batch)) seconds.push_back(took);
      }
      if (seconds.empty()) throw sim::usage_error{"a full batch has too little KV to be measured: take more blocks"};
      p.measured.decode.push_back({batch, context, detail::median(seconds)});
      rows += sim::format_step({.kind = sim::step_kind::decode,
                                .decodes = batch,
                                .context = context,
                                .seconds = p.measured.decode.back().seconds});
      drain();
    }
  }

  const std::int64_t longest = std::min(o.step_tokens.count(), o.limits.longest().count() - 1);
  for (const std::int64_t length : {longest / 16, longest / 4, longest / 2, longest}) {
    if (length < 2) continue;
    std::vector<double> seconds;
    for (int i = 0; i < timed; ++i) {
      detail::submit_alike(*s, requests, 1, tokens{length}, tokens{1}, m, rng);
      seconds.push_back(detail::timed_step(*s));
      drain();
    }
    p.measured.prefill.push_back({length, detail::median(seconds)});
    rows += sim::format_step({.kind = sim::step_kind::prefill,
                              .prompts = 1,
                              .tokens = length,
                              .seconds = p.measured.prefill.back().seconds});
  }

  // Whole prompts next to requests that decode: each of one token, so that there is room for the next.
  for (const std::int64_t decodes : {slots / 2, slots - 1}) {
    for (const std::int64_t context : {most / 4, most / 2}) {
      const std::int64_t chunk = std::min(longest - decodes, most / 4);
      if (decodes < 1 || chunk < 2 || (decodes == slots - 1 && slots / 2 == slots - 1)) continue;
      const tokens prompt{std::max<std::int64_t>(context - timed / 2, 1)};
      // One more step than is timed between the prompts at most, and some until all decode.
      detail::submit_alike(*s, requests, static_cast<std::size_t>(decodes), prompt, tokens{2 * timed + 8}, m, rng);
      while (!std::all_of(requests.begin(), requests.end(), [](const served& r) { return r.generated() > tokens{}; })) {
        s->step();
      }
      std::vector<double> seconds;
      for (int i = 0; i < timed; ++i) {
        detail::submit_alike(*s, requests, 1, tokens{chunk}, tokens{1}, m, rng);
        const std::uint64_t before = s->counts().tokens;
        const double took = detail::timed_step(*s);
        if (s->counts().tokens - before == static_cast<std::uint64_t>(decodes + chunk)) seconds.push_back(took);
        s->deliver();
      }
      if (!seconds.empty()) {
        rows += sim::format_step({.kind = sim::step_kind::mixed,
                                  .prompts = 1,
                                  .tokens = chunk,
                                  .decodes = decodes,
                                  .context = context,
                                  .seconds = detail::median(seconds)});
      }
      drain();
    }
  }
  if (steps != nullptr) *steps = rows;

  // A copy: a move to the same instance saves a sequence, and the next step restores it.
  std::vector<double> copies;
  for (int i = 0; i < timed; ++i) {
    detail::submit_alike(*s, requests, 1, tokens{most}, tokens{4}, m, rng);
    while (requests.front().generated() == tokens{}) s->step();
    const double before = o.clock().seconds();
    s->move(requests.front(), 0);
    copies.push_back(o.clock().seconds() - before);
    drain();
  }

  p.name = std::move(name);
  p.model.name = p.name;
  llama_model* const l = m.get();
  p.model.parameters = static_cast<double>(llama_model_n_params(l));
  p.model.layers = llama_model_n_layer(l);
  p.model.query_heads = llama_model_n_head(l);
  p.model.kv_heads = llama_model_n_head_kv(l);
  p.model.head_dim = llama_model_n_embd(l) / llama_model_n_head(l);
  p.model.bytes_per_weight = static_cast<double>(llama_model_size(l)) / p.model.parameters;
  p.model.bytes_per_kv_value = 2;
  // What the tables do not cover: the arithmetic that whole prompts reach, the weights at the speed of one decode.
  const auto& prompt = p.measured.prefill.back();
  p.gpu.name = "measured";
  p.gpu.flops = 2 * p.model.parameters * static_cast<double>(prompt.length) / prompt.seconds;
  p.gpu.flops_efficiency = 1;
  p.gpu.bytes_per_s = p.model.weight_bytes() / p.measured.decode.front().seconds;
  p.gpu.bandwidth_efficiency = 1;
  const double kv_tokens = static_cast<double>(o.limits.block_size.count()) * static_cast<double>(o.limits.blocks);
  p.gpu.memory_bytes = p.model.weight_bytes() + kv_tokens * p.model.kv_bytes_per_token();
  p.gpu.usable_memory = 1;
  p.gpu.launch_seconds = 0;
  p.links.host_bytes_per_s = static_cast<double>(most) * p.model.kv_bytes_per_token() / detail::median(copies);
  p.links.host_memory_bytes = static_cast<double>(o.limits.block_size.count()) *
                              static_cast<double>(o.limits.host_blocks) * p.model.kv_bytes_per_token();
  p.links.fabric_bytes_per_s = p.links.host_bytes_per_s;
  return p;
}

}  // namespace llama_cpp
