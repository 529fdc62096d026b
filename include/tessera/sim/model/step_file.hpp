// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/csv.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// Measured steps as CSV: `calibrate` fits a profile to them. Two forms, told apart by their header:
///
///     kind,prefill_tokens,prefill_history,decodes,decode_context,seconds
///     mixed,512,4096,32,1024,0.0457
///
/// is a step with a chunk of 512 prompt tokens after 4,096 computed ones, and 32 decodes with 1,024 tokens of KV each.
/// `kind` is decode, prefill or mixed. A table of pure steps is shorter:
///
///     kind,batch,length,seconds
///     decode,32,1024,0.0121
///     prefill,1,1024,0.0424
///
/// where a prefill has `batch` whole prompts. Seconds are those of the whole step. A step may occur more than once.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// The kind of a measured step. A prefill with history continues a prompt.
enum class step_kind : std::uint8_t { decode, prefill, history, mixed };

/// Names of `step_kind`, in its order.
inline constexpr std::array<std::string_view, 4> step_kind_names{"decode", "prefill", "prefill with history", "mixed"};

/// One measured step.
struct measured_step {
  step_kind kind = step_kind::decode;  ///< Determined by its numbers.
  std::int64_t prompts = 0;            ///< Chunks of prompts, all equal:
  std::int64_t tokens = 0;             ///< prompt tokens of each,
  std::int64_t history = 0;            ///< after this many computed tokens.
  std::int64_t decodes = 0;            ///< Requests that decode,
  std::int64_t context = 0;            ///< with this many tokens of KV each.
  double seconds = 0;                  ///< The time of the step.
  file_position at{};                  ///< Its place in the file.

  /// In the form of `step_timer`.
  [[nodiscard]] step_shape shape() const noexcept {
    step_shape s;
    s.decodes = decodes;
    s.decode_context = decodes * context;
    s.longest_context = decodes > 0 ? context : 0;
    if (prompts > 0) s.add_prefill(count(history), count(tokens));
    s.prefills = prompts;
    s.prefill_tokens *= prompts;
    s.prefill_context *= prompts;
    s.prefill_pairs *= prompts;
    return s;
  }
  /// Tokens that the step computes.
  [[nodiscard]] std::int64_t computed() const noexcept { return decodes + prompts * tokens; }
  /// Whether it is the same step, whatever its time.
  [[nodiscard]] bool same_step(const measured_step& o) const noexcept {
    return prompts == o.prompts && tokens == o.tokens && history == o.history && decodes == o.decodes &&
           context == o.context;
  }

 private:
  [[nodiscard]] static constexpr tessera::tokens count(std::int64_t n) noexcept { return tessera::tokens{n}; }
};

/// The steps of a file.
struct step_file {
  std::vector<measured_step> steps;  ///< In the order of the file.
  bool can_mix = false;              ///< Its form allows mixed steps.
  std::uint64_t lines = 0;           ///< Lines of the file.
};

/// Largest number of tokens in a step file.
inline constexpr std::int64_t max_step_tokens = 100'000'000;
/// Most requests of a step in a step file.
inline constexpr std::int64_t max_step_requests = 65'536;
/// Longest step of a step file, in seconds. The caller judges whether the unit is plausible.
inline constexpr double max_measured_seconds = 1e9;

/// Reads measured steps. @param name the file's name in messages.
/// @throws input_error at the first deviation from the file comment, or for a file without a step.
[[nodiscard]] step_file parse_steps(std::string_view text, std::string_view name);

/// Reads a file of measured steps. @throws input_error as `parse_steps`, and when the file cannot be read.
[[nodiscard]] step_file read_steps(const std::string& path);

/// One row of the longer form, with its newline.
[[nodiscard]] std::string format_step(const measured_step& s);

/// The header of the longer form, with its newline.
inline constexpr std::string_view step_file_header =
    "kind,prefill_tokens,prefill_history,decodes,decode_context,seconds\n";

}  // namespace sim
TESSERA_NAMESPACE_END
