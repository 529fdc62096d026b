// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/compose/fcfs.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/cluster/cluster_size.hpp>
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/model/profile.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::string spelled(std::string_view name, spelling how) {
  std::string out{name};
  if (how == spelling::names) return out;
  std::replace(out.begin(), out.end(), '_', '-');
  return "--" + out;
}

std::int64_t require_within(std::int64_t n, std::int64_t least, std::int64_t most, std::string_view name) {
  if (n < least || n > most) {
    throw usage_error{fmt::format("{} must be from {} to {}, not {}", name, least, most, n)};
  }
  return n;
}

double least_span(std::span<const trace_row> rows) {
  double last_s = rows.back().arrival_s;
  std::unordered_map<std::int64_t, double> sessions;
  for (const trace_row& row : rows) {
    if (row.session < 0) continue;
    const auto [at_s, first] = sessions.try_emplace(row.session, row.arrival_s);
    if (!first) at_s->second = std::max(row.arrival_s, at_s->second + row.think_s);
    last_s = std::max(last_s, at_s->second);
  }
  return last_s - rows.front().arrival_s;
}

void check_span(std::span<const trace_row> rows) {
  if (const double span = least_span(rows); !(span <= max_replay_seconds)) {
    throw usage_error{
        fmt::format("the last of {} requests arrives {:.3g} seconds after the first; a replay spans at most {:g}",
                    rows.size(), span, max_replay_seconds)};
  }
  if (!(rows.back().arrival_s <= max_trace_seconds)) {
    throw usage_error{fmt::format("the last of {} requests arrives at {:.3g} seconds; at most {:g} can be told apart",
                                  rows.size(), rows.back().arrival_s, max_trace_seconds)};
  }
}

instance_options size_instance(const instance_size& asked, const sim::profile& profile, std::span<const trace_row> rows,
                               spelling how) {
  constexpr std::int64_t max_kv_blocks = std::int64_t{1} << 26;
  constexpr std::int64_t max_token_budget = std::int64_t{1} << 24;
  const tokens block_size{require_within(asked.block_size, 1, 65'536, spelled("block_size", how))};
  if (asked.kv_blocks) require_within(*asked.kv_blocks, 1, max_kv_blocks, spelled("kv_blocks", how));
  const std::int64_t blocks = asked.kv_blocks.value_or(profile.kv_blocks(block_size).count());
  if (blocks > max_kv_blocks) {
    throw usage_error{fmt::format("{} has room for {} KV blocks of {} tokens; name {}, at most {}", profile.name,
                                  blocks, block_size.count(), spelled("kv_blocks", how), max_kv_blocks)};
  }
  std::int64_t shortest = rows.front().prompt_tokens + rows.front().output_tokens;
  std::int64_t longest = shortest;
  std::int64_t all_blocks = 0;
  for (const trace_row& row : rows) {
    const std::int64_t length = row.prompt_tokens + row.output_tokens;
    shortest = std::min(shortest, length);
    longest = std::max(longest, length);
    all_blocks += std::min(blocks_for(tokens{length}, block_size).count(), blocks);
  }
  if (const auto need = blocks_for(tokens{shortest - 1}, block_size).count(); need > blocks) {
    throw usage_error{
        fmt::format("{} KV blocks of {} tokens are too few for the shortest of {} requests, which needs {}; raise {}",
                    blocks, block_size.count(), rows.size(), need, spelled("kv_blocks", how))};
  }
  const auto max_batch =
      static_cast<std::size_t>(require_within(asked.max_batch, 1, 65'536, spelled("max_batch", how)));
  const tokens budget{require_within(asked.token_budget, 1, max_token_budget, spelled("token_budget", how))};
  const std::int64_t host_blocks = std::min(profile.host_blocks(block_size).count(), all_blocks);
  return {.limits = {.requests = rows.size(),
                     .blocks = static_cast<std::size_t>(blocks),
                     .block_size = block_size,
                     .residents = max_batch,
                     .host_blocks = static_cast<std::size_t>(host_blocks),
                     .max_length = tokens{longest}},
          // Prompts in turn, as in the papers: none leaves half of a step to those behind it.
          .step = {.max_batch = max_batch, .token_budget = budget, .max_chunk = budget},
          .timer = step_timer{profile},
          .swap_seconds_per_block = swap_seconds(profile, block_size),
          .idle_watts = profile.parallel.devices() * profile.power.idle_watts,
          .busy_watts = profile.parallel.devices() * profile.power.busy_watts};
}

cluster_options size_cluster(std::span<const machines> kinds, const instance_size& asked,
                             std::span<const trace_row> rows, spelling how) {
  check_span(rows);
  const sim::profile& first = kinds.front().profile;
  cluster_options o{.instances = 0,
                    .instance = size_instance(asked, first, rows, how),
                    .fabric_bytes_per_s = first.links.fabric_bytes_per_s,
                    .kv_bytes_per_token = first.kv_bytes_per_token(),
                    .host_request_seconds = first.terms.host_request_seconds};
  for (const machines& m : kinds) {
    o.instances += m.count;
    if (kinds.size() == 1) continue;
    o.each.insert(o.each.end(), m.count, size_instance(asked, m.profile, rows, how));
    o.fabric_bytes_per_s = std::min(o.fabric_bytes_per_s, m.profile.links.fabric_bytes_per_s);
    o.host_request_seconds = std::max(o.host_request_seconds, m.profile.terms.host_request_seconds);
  }
  return o;
}

void require_memory(const cluster_options& o, std::size_t rows, std::size_t kept, std::size_t jobs, spelling how) {
  constexpr double gib = 1 << 30;
  constexpr double max_memory = 16 * gib;      // that is written to
  constexpr double max_reserved = 1024 * gib;  // of address space, for the schedulers
  // A scheduler is made when its first request comes.
  const auto most = static_cast<double>(std::min(o.instances, rows) * jobs);
  double written = 0;
  double reserved = 0;
  for (std::size_t i = 0; i != (o.each.empty() ? 1 : o.each.size()); ++i) {
    const scheduler_limits& l = o.of(i).limits;
    written = std::max(written, static_cast<double>(kv_store::required_bytes({.blocks = l.blocks}) +
                                                    kv::host_tier::required_bytes({.host_blocks = l.host_blocks})));
    reserved = std::max(reserved, static_cast<double>(fcfs<request, kv_store>::required_bytes(l)));
  }
  const double requests =
      static_cast<double>(rows) * static_cast<double>(jobs * sizeof(request) + kept * sizeof(request_record));
  double books = 0;
  if (o.routed) {
    const std::size_t book = fleet::ledger<>::required_bytes({.replicas = o.instances, .reservations = 1});
    books = static_cast<double>(book) * static_cast<double>(o.routed->routers * jobs);
  }
  const auto refuse = [&](std::string_view what, double size, double allowed) {
    throw usage_error{
        fmt::format("this would {} {:.1f} GiB of memory; at most {:.0f} are allowed: take fewer {}, requests{} or {}",
                    what, size / gib, allowed / gib, spelled("instances", how),
                    how == spelling::options ? ", --jobs" : "", spelled("kv_blocks", how))};
  };
  const double used = most * written + requests + books;
  if (used > max_memory) refuse("use", used, max_memory);
  if (most * reserved > max_reserved) refuse("reserve", most * reserved, max_reserved);
}

}  // namespace sim
TESSERA_NAMESPACE_END
