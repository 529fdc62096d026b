// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// @file
/// What a vLLM server says of itself on /metrics, in the text format of Prometheus.

namespace endpoint_picker {

/// A server's load. One that has several engines behind its address (data parallel) is taken as one.
struct engine_metrics {
  std::uint64_t running = 0;    ///< Requests in its batches.
  std::uint64_t waiting = 0;    ///< Requests in its queues.
  double kv_usage = 0;          ///< The part of its KV blocks that is in use, 0 to 1.
  std::uint64_t kv_tokens = 0;  ///< Tokens that it has KV for; 0: it does not say.
  double started = 0;           ///< When its process began, in seconds; 0: it does not say.
};

namespace detail {

/// The number that a text is, if it is one and nothing else.
[[nodiscard]] inline std::optional<double> number_of(std::string_view text) noexcept {
  double x = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (wrong != std::errc{} || end != text.data() + text.size() || !std::isfinite(x)) return std::nullopt;
  return x;
}

/// The value of a label in `a="b",c="d"`; empty if there is none. Values with escaped quotes are others'.
[[nodiscard]] inline std::string_view label_of(std::string_view labels, std::string_view name) noexcept {
  while (!labels.empty()) {
    const std::size_t equals = labels.find("=\"");
    if (equals == labels.npos) return {};
    const std::string_view key = labels.substr(0, equals);
    std::size_t end = equals + 2;
    while (end < labels.size() && labels[end] != '"') end += labels[end] == '\\' ? 2U : 1U;
    if (end >= labels.size()) return {};
    if (key == name) return labels.substr(equals + 2, end - equals - 2);
    labels.remove_prefix(end + 1);
    while (!labels.empty() && (labels.front() == ',' || labels.front() == ' ')) labels.remove_prefix(1);
  }
  return {};
}

}  // namespace detail

/// Reads a page of metrics; none if it does not have the three that a decision needs, and `why` says which. Lines that
/// are not understood are passed over. O(page).
[[nodiscard]] inline std::optional<engine_metrics> read_metrics(std::string_view page, std::string& why) {
  engine_metrics m;
  double running = 0;
  double waiting = 0;
  double usage = 0;
  double tokens = 0;
  std::uint64_t engines_running = 0;
  std::uint64_t engines_waiting = 0;
  std::uint64_t engines_usage = 0;
  constexpr double most = 1e12;
  const auto add = [&](double& sum, std::uint64_t& n, double x) {
    if (!(0 <= x && x <= most)) return;
    sum += x;
    ++n;
  };
  while (!page.empty()) {
    const std::size_t end = page.find('\n');
    std::string_view line = page.substr(0, end);
    page.remove_prefix(end == page.npos ? page.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const std::size_t brace = line.find('{');
    const std::size_t blank = line.find(' ');
    std::string_view name;
    std::string_view labels;
    std::string_view rest;
    if (brace < blank) {
      const std::size_t close = line.rfind('}');
      if (close == line.npos || close < brace) continue;
      name = line.substr(0, brace);
      labels = line.substr(brace + 1, close - brace - 1);
      rest = line.substr(close + 1);
    } else if (blank != line.npos) {
      name = line.substr(0, blank);
      rest = line.substr(blank);
    }
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    rest = rest.substr(0, rest.find(' '));  // without a time
    const std::optional<double> x = detail::number_of(rest);
    if (!x) continue;
    if (name == "vllm:num_requests_running") add(running, engines_running, *x);
    if (name == "vllm:num_requests_waiting") add(waiting, engines_waiting, *x);
    if (name == "vllm:kv_cache_usage_perc" || name == "vllm:gpu_cache_usage_perc") {
      if (*x <= 1) add(usage, engines_usage, *x);
    }
    if (name == "process_start_time_seconds" && 0 < *x && *x <= most) m.started = *x;
    if (name == "vllm:cache_config_info") {
      // Layers of several kinds share blocks, so newer servers say for how many tokens there is room.
      const auto size = detail::number_of(detail::label_of(labels, "kv_cache_size_tokens"));
      const auto count = detail::number_of(detail::label_of(labels, "num_gpu_blocks"));
      const auto each = detail::number_of(detail::label_of(labels, "block_size"));
      const double room = size ? *size : count && each ? *count * *each : 0;
      if (0 < room && room <= most) tokens += room;
    }
  }
  const char* missing = engines_running == 0   ? "vllm:num_requests_running"
                        : engines_waiting == 0 ? "vllm:num_requests_waiting"
                        : engines_usage == 0   ? "vllm:kv_cache_usage_perc"
                                               : nullptr;
  if (missing != nullptr) {
    why = missing;
    return std::nullopt;
  }
  if (running > most || waiting > most || tokens > most) {
    why = "counts that can be";
    return std::nullopt;
  }
  m.running = static_cast<std::uint64_t>(running);
  m.waiting = static_cast<std::uint64_t>(waiting);
  m.kv_usage = usage / static_cast<double>(engines_usage);
  m.kv_tokens = static_cast<std::uint64_t>(tokens);
  return m;
}

}  // namespace endpoint_picker
