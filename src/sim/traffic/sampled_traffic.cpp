// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/rank/length_drift.hpp>
#include <tessera/sim/golden_section.hpp>
#include <tessera/sim/traffic/sampled_traffic.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {
namespace {

using fleet::seen_request;

constexpr std::size_t alike_scores = 32;               ///< The number of neighbours by score that count as similar.
constexpr std::size_t scored = std::size_t{1} << 31U;  // beyond all classes of prompts

/// By request, a number that is close for requests with similar expectations. With a score, its place among all, from
/// `scored` + 1 on, equal scores at the first place. Without a score, the expectation of its class of prompts.
std::vector<std::size_t> kinds_of(std::span<const seen_request> seen, const learned_lengths& lengths, bool predicts) {
  const auto has_score = [predicts](const seen_request& e) { return predicts && e.score == e.score; };
  std::vector<float> sorted;
  for (const seen_request& e : seen) {
    if (has_score(e)) sorted.push_back(e.score);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::size_t> kinds;
  kinds.reserve(seen.size());
  for (const seen_request& e : seen) {
    if (has_score(e)) {
      const auto at = std::lower_bound(sorted.begin(), sorted.end(), e.score);
      kinds.push_back(scored + static_cast<std::size_t>(at - sorted.begin()) + 1);
    } else {
      const float expected = lengths.expected_of(std::numeric_limits<float>::quiet_NaN(), e.prompt);
      kinds.push_back(static_cast<std::size_t>(std::min(expected, 1e9F)));
    }
  }
  return kinds;
}

/// The fraction of all that is longer than `length`.
struct part_left {
  tokens length{};
  double part = 1;
};
/// The curve of neighbouring kinds, see `kinds_of`.
struct curve {
  std::size_t last = 0;          // The last of the kinds.
  std::vector<part_left> parts;  // Its values at each length, ended or not; by length.
};
struct known {
  std::size_t kind = 0;
  tokens length{};
  bool ended = false;
};

std::vector<part_left> survival_of(std::span<known> of) {
  std::sort(of.begin(), of.end(), [](const known& a, const known& b) { return a.length < b.length; });
  std::vector<part_left> parts;
  double part = 1;
  for (std::size_t first = 0, past = 0; first != of.size(); first = past) {
    std::size_t ended = 0;
    for (; past != of.size() && of[past].length == of[first].length; ++past) ended += of[past].ended ? 1 : 0;
    part *= 1 - static_cast<double>(ended) / static_cast<double>(of.size() - first);
    parts.push_back({of[first].length, part});
  }
  return parts;
}

/// By kind: at least `alike_scores` requests have ended in each, if there are that many.
std::vector<curve> survival(std::span<const seen_request> requests, const std::vector<std::size_t>& kinds) {
  std::vector<known> seen;
  for (std::size_t i = 0; i != requests.size(); ++i) {
    if (!requests[i].refused) seen.push_back({kinds[i], requests[i].generated, requests[i].ended});
  }
  std::sort(seen.begin(), seen.end(), [](const known& a, const known& b) { return a.kind < b.kind; });
  std::vector<std::size_t> ends;
  std::size_t ended = 0;
  for (std::size_t i = 0; i != seen.size(); ++i) {
    ended += seen[i].ended ? 1 : 0;
    if (ended < alike_scores || (i + 1 != seen.size() && seen[i + 1].kind == seen[i].kind)) continue;
    ends.push_back(i + 1);
    ended = 0;
  }
  if (ends.empty()) ends.push_back(0);
  ends.back() = seen.size();  // a group that is too small joins the one before it
  std::vector<curve> curves;
  std::size_t from = 0;
  for (const std::size_t to : ends) {
    const std::size_t last = to == 0 ? 0 : seen[to - 1].kind;
    curves.push_back({last, survival_of(std::span{seen}.subspan(from, to - from))});
    from = to;
  }
  return curves;
}

/// The length at the quantile `place` among those longer than `than`.
tokens longer_than(const std::vector<part_left>& curve, tokens than, double place) {
  const auto above =
      std::upper_bound(curve.begin(), curve.end(), than, [](tokens t, const part_left& p) { return t < p.length; });
  const double left = (above == curve.begin() ? 1.0 : std::prev(above)->part) * (1 - place);
  const auto found = std::partition_point(above, curve.end(), [left](const part_left& p) { return p.part > left; });
  if (found != curve.end()) return found->length;
  const part_left& last = curve.back();
  if (last.part >= 1 || left <= 0) return max(than, last.length) + tokens{1};
  const double length = static_cast<double>(last.length.count()) * std::log(left) / std::log(last.part);
  return tokens{std::max(than.count() + 1, static_cast<std::int64_t>(std::min(length, 1e7)))};
}

/// The fraction of reasoning in the outputs of ended requests that reasoned; half if there are none.
double reasoning_part(std::span<const seen_request> seen) {
  double reasoning = 0, all = 0;
  for (const seen_request& e : seen) {
    if (!e.ended || e.reasoning == tokens{}) continue;
    reasoning += static_cast<double>(e.reasoning.count());
    all += static_cast<double>(e.generated.count());
  }
  return all > 0 ? reasoning / all : 0.5;
}

}  // namespace

std::vector<seen_output> known_outputs(std::span<const seen_request> seen) {
  std::vector<seen_output> out;
  out.reserve(seen.size());
  for (const seen_request& e : seen) {
    if (!e.refused) out.push_back({e.score, e.generated, e.ended, e.prompt});
  }
  return out;
}

traffic_shift find_drift(std::span<const seen_request> seen, const learned_lengths& lengths, bool predicts) {
  std::vector<rank::known_length> outputs;
  std::vector<rank::known_length> prompts;
  std::vector<rank::known_length> scores;
  const std::vector<std::size_t> kinds = kinds_of(seen, lengths, predicts);
  for (std::size_t i = 0; i != seen.size(); ++i) {
    const seen_request& e = seen[i];
    if (e.refused) continue;
    const bool newer = i >= seen.size() / 2;
    const bool has_score = kinds[i] > scored;
    const std::size_t group = has_score ? scored + (kinds[i] - scored) / alike_scores : kinds[i];
    outputs.push_back({e.generated, e.ended, newer, static_cast<std::uint32_t>(group)});
    prompts.push_back({e.prompt, true, newer});
    if (has_score) scores.push_back({tokens{static_cast<std::int64_t>(kinds[i])}, true, newer});
  }
  return {rank::length_drift_z(outputs), rank::length_drift_z(prompts), rank::length_drift_z(scores)};
}

std::vector<trace_row> rows_of(std::span<const seen_request> seen, const learned_lengths& lengths, bool predicts) {
  const std::vector<std::size_t> kinds = kinds_of(seen, lengths, predicts);
  const std::vector<curve> curves = survival(seen, kinds);
  const double part = reasoning_part(seen);
  std::vector<trace_row> out;
  out.reserve(seen.size());
  golden_section places;
  for (std::size_t i = 0; i != seen.size(); ++i) {
    const seen_request& e = seen[i];
    if (e.refused) continue;
    trace_row row;
    row.arrival_s = e.arrival_s - seen.front().arrival_s;
    row.prompt_tokens = e.prompt.count();
    row.score = lengths.expected_of(e.score, e.prompt);
    row.tenant = e.tenant;
    tokens output = e.generated;
    tokens reasoning = e.reasoning;
    if (!e.ended) {
      const double place = places.next();
      const auto own =
          std::partition_point(curves.begin(), curves.end() - 1, [&](const curve& c) { return c.last < kinds[i]; });
      output = longer_than(own->parts, e.generated, place);
      if (e.limit > tokens{}) output = max(min(output, e.limit), e.generated);
      if (e.reasons) {
        reasoning = max(e.generated, tokens{std::llround(part * static_cast<double>(output.count()))});
      }
    }
    // The last token belongs to the answer.
    row.output_tokens = std::max<std::int64_t>(1, output.count());
    row.reasoning_tokens = std::min(reasoning.count(), row.output_tokens - 1);
    row.answer_tokens = row.output_tokens - row.reasoning_tokens;
    out.push_back(row);
  }
  return out;
}

}  // namespace sim
TESSERA_NAMESPACE_END
