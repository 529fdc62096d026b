// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/csv.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// Measured steps as CSV, what `calibrate` fits a profile to. Two forms, told apart by their header:
///
///     kind,prefill_tokens,prefill_history,decodes,decode_context,seconds
///     mixed,512,4096,32,1024,0.0457
///
/// is a step with a chunk of 512 prompt tokens after 4,096 that were there, and 32 requests that decode with 1,024
/// tokens of KV each. `kind` is decode, prefill or mixed. A table of pure steps is shorter:
///
///     kind,batch,length,seconds
///     decode,32,1024,0.0121
///     prefill,1,1024,0.0424
///
/// where a prefill is of `batch` whole prompts. Seconds are of the whole step. A step may be there more than once.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// What a measured step is of. A prefill with history continues a prompt.
enum class step_kind : std::uint8_t { decode, prefill, history, mixed };

/// Names of `step_kind`, in its order.
inline constexpr std::array<std::string_view, 4> step_kind_names{"decode", "prefill", "prefill with history", "mixed"};

/// One measured step.
struct measured_step {
  step_kind kind = step_kind::decode;  ///< By its numbers.
  std::int64_t prompts = 0;            ///< Chunks of prompts, all alike:
  std::int64_t tokens = 0;             ///< prompt tokens of each,
  std::int64_t history = 0;            ///< after so many that are computed already.
  std::int64_t decodes = 0;            ///< Requests that decode,
  std::int64_t context = 0;            ///< with so many tokens of KV each.
  double seconds = 0;                  ///< What the step took.
  file_position at{};                  ///< Where in the file that is said.

  /// As `step_timer` takes it.
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
  /// The same step, whatever it took.
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
  bool can_mix = false;              ///< Its form has room for mixed steps.
  std::uint64_t lines = 0;           ///< Of the file.
};

/// Most tokens of anything in a step file.
inline constexpr std::int64_t max_step_tokens = 100'000'000;
/// Most requests of a step in a step file.
inline constexpr std::int64_t max_step_requests = 65'536;
/// Longest step of a step file, in seconds: whether it is in seconds is for others to judge.
inline constexpr double max_measured_seconds = 1e9;

/// Reads measured steps. @param name what messages call the file.
/// @throws input_error at the first thing that is not as the file comment says, or a file without a step.
[[nodiscard]] inline step_file parse_steps(std::string_view text, std::string_view name) {
  csv_reader in{text, name};
  step_file out;
  constexpr std::string_view known =
      "kind,prefill_tokens,prefill_history,decodes,decode_context,seconds or kind,batch,length,seconds";
  const std::size_t kind = in.column("kind", known);
  const std::size_t seconds = in.column("seconds", known);
  const bool pure = in.has("batch") && in.has("length");
  out.can_mix = !pure;
  const std::size_t batch = pure ? in.column("batch", known) : 0;
  const std::size_t length = pure ? in.column("length", known) : 0;
  const std::size_t tokens = pure ? 0 : in.column("prefill_tokens", known);
  const std::size_t history = pure ? 0 : in.column("prefill_history", known);
  const std::size_t decodes = pure ? 0 : in.column("decodes", known);
  const std::size_t context = pure ? 0 : in.column("decode_context", known);
  while (in.next()) {
    measured_step s;
    const std::string_view what = in.text(kind);
    const bool decode = what == "decode";
    const bool prefill = what == "prefill";
    if (!decode && !prefill && (pure || what != "mixed")) {
      in.fail(kind, fmt::format("kind, one of decode, prefill{}", pure ? "" : ", mixed"), shown(what));
    }
    if (pure) {
      (decode ? s.decodes : s.prompts) = in.whole(batch, 1, max_step_requests);
      (decode ? s.context : s.tokens) = in.whole(length, 1, max_step_tokens);
    } else {
      // What a kind does not have is 0, so that a row under the wrong kind is noticed.
      s.tokens = in.whole(tokens, decode ? 0 : 1, decode ? 0 : max_step_tokens);
      s.history = in.whole(history, 0, decode ? 0 : max_step_tokens);
      s.decodes = in.whole(decodes, prefill ? 0 : 1, prefill ? 0 : max_step_requests);
      s.context = in.whole(context, prefill ? 0 : 1, prefill ? 0 : max_step_tokens);
      s.prompts = decode ? 0 : 1;
    }
    s.seconds = in.real(seconds, 0, max_measured_seconds, true);
    s.kind = decode          ? step_kind::decode
             : !prefill      ? step_kind::mixed
             : s.history > 0 ? step_kind::history
                             : step_kind::prefill;
    s.at = in.position(seconds);
    out.steps.push_back(s);
  }
  out.lines = in.line();
  if (out.steps.empty()) throw input_error{name, {2, 1}, "at least one measured step", "the end of the file"};
  return out;
}

/// Reads a file of measured steps. @throws input_error as `parse_steps`, and when the file cannot be read.
[[nodiscard]] inline step_file read_steps(const std::string& path) { return parse_steps(read_file(path), path); }

/// One row of the longer form, with its newline.
[[nodiscard]] inline std::string format_step(const measured_step& s) {
  return fmt::format("{},{},{},{},{},{:.9g}\n",
                     s.kind == step_kind::decode  ? "decode"
                     : s.kind == step_kind::mixed ? "mixed"
                                                  : "prefill",
                     s.tokens, s.history, s.decodes, s.context, s.seconds);
}

/// The header of the longer form, with its newline.
inline constexpr std::string_view step_file_header =
    "kind,prefill_tokens,prefill_history,decodes,decode_context,seconds\n";

}  // namespace sim
TESSERA_NAMESPACE_END
