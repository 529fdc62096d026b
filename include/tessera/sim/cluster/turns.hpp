// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/block_chain.hpp>
#include <tessera/sim/input/trace_row.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

/// @file
/// The sessions of a workload while it runs: which turn comes after which, and what each of them says.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Which rows are later turns of which, and what is known of their tokens.
///
/// A prompt is the runs that its row names and then tokens of its own. Where the row of a later turn names none, the
/// prompt begins with all of the session so far: the earlier prompt and its answer. Reasoning is left out of a history,
/// as chat templates do. Then the text after it is at other positions than when it was computed, so only the earlier
/// prompt is shared. A prompt that is shorter than the history was cut, at its beginning: it shares nothing.
class turns {
 public:
  /// No row.
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  turns() = default;
  /// O(rows). @param shares whether `hashes` will be asked for. @param longest tokens of a request that an instance
  /// takes: none beyond have a hash.
  turns(std::span<const trace_row> rows, std::int64_t block_size, bool shares,
        std::int64_t longest = std::numeric_limits<std::int64_t>::max())
      : nothing_{block_size, static_cast<std::size_t>(longest / block_size)} {
    std::unordered_map<std::int64_t, std::size_t> latest;
    bool known = false;
    for (std::size_t i = 0; i != rows.size(); ++i) {
      known = known || !rows[i].runs.empty();
      if (rows[i].session < 0) continue;
      if (next_.empty()) {
        next_.assign(rows.size(), none);
        follows_.assign(rows.size(), false);
      }
      const auto [at, first] = latest.try_emplace(rows[i].session, i);
      if (first) continue;
      next_[at->second] = i;
      follows_[i] = true;
      at->second = i;
    }
    shares_ = shares && (known || !next_.empty());
  }

  /// Whether the row comes when an earlier turn has ended.
  [[nodiscard]] bool follows(std::size_t row) const noexcept { return !follows_.empty() && follows_[row]; }
  /// The row that comes after this one, or `none`.
  [[nodiscard]] std::size_t after(std::size_t row) const noexcept { return next_.empty() ? none : next_[row]; }
  /// Whether there are sessions.
  [[nodiscard]] bool any() const noexcept { return !next_.empty(); }
  /// Whether requests have hashes: one of them at least may share something.
  [[nodiscard]] bool shares() const noexcept { return shares_; }

  /// The hashes of the full blocks of a request, prompt and `output` tokens, that comes now. The turns of a session are
  /// asked for in order. O(blocks).
  [[nodiscard]] std::vector<std::uint64_t> hashes(const trace_row& row, std::size_t index, std::int64_t output) {
    if (row.session < 0) {
      block_chain text = nothing_;
      add_prompt(text, row, index);
      text.append({own(index, 1), output});
      return text.hashes();
    }
    const auto at = texts_.try_emplace(row.session, nothing_).first;
    block_chain& text = at->second;
    if (!row.runs.empty() || text.length() > row.prompt_tokens) text = nothing_;
    add_prompt(text, row, index);
    const block_chain::mark prompt = text.here();
    text.append({own(index, 1), output});
    std::vector<std::uint64_t> all = text.hashes();
    if (after(index) == none) {
      texts_.erase(at);
    } else if (row.reasoning_tokens > 0) {
      text.cut(prompt);
    }
    return all;
  }

 private:
  /// Tokens that no other row has, unless its runs say so: the prompt of a row, or its answer.
  [[nodiscard]] static std::uint64_t own(std::size_t index, std::uint64_t part) noexcept {
    return std::uint64_t{1} << 63U | std::uint64_t{index} << 1U | part;
  }
  static void add_prompt(block_chain& text, const trace_row& row, std::size_t index) {
    for (const text_run& r : row.runs) {
      const std::int64_t left = row.prompt_tokens - text.length();
      text.append({r.id, r.tokens < left ? r.tokens : left});
    }
    text.append({own(index, 0), row.prompt_tokens - text.length()});
  }

  block_chain nothing_{1};
  std::vector<std::size_t> next_;  ///< By row; empty where there are no sessions.
  std::vector<bool> follows_;
  bool shares_ = false;
  std::unordered_map<std::int64_t, block_chain> texts_;  ///< By session: what its next prompt begins with.
};

}  // namespace sim
TESSERA_NAMESPACE_END
