// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/input/csv.hpp>
#include <tessera/sim/model/step_file.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

TESSERA_NAMESPACE_BEGIN

namespace sim {

step_file parse_steps(std::string_view text, std::string_view name) {
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
      // Fields that a kind does not have are 0, so that a row under the wrong kind is noticed.
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

step_file read_steps(const std::string& path) { return parse_steps(read_file(path), path); }

std::string format_step(const measured_step& s) {
  return fmt::format("{},{},{},{},{},{:.9g}\n",
                     s.kind == step_kind::decode  ? "decode"
                     : s.kind == step_kind::mixed ? "mixed"
                                                  : "prefill",
                     s.tokens, s.history, s.decodes, s.context, s.seconds);
}

}  // namespace sim
TESSERA_NAMESPACE_END
