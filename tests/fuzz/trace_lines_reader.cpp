// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The trace reader on JSON. It gets any bytes after a first line that selects JSON. It gets them after the beginning of
// a row, which goes deeper into the fields, and within arrays and documents.

#include "fuzz/trace_promises.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{reinterpret_cast<const char*>(data), size};
  constexpr std::string_view first =
      "{\"arrival_s\": 0, \"session\": 1, \"prompt_tokens\": 600, \"output_tokens\": 2, \"hash_ids\": [1, 2]}\n";
  tessera_test::check_trace_reader(std::string{first} + text);
  tessera_test::check_trace_reader("{\"prompt_tokens\": 1030, \"output_tokens\": 5, " + text);
  tessera_test::check_trace_reader("{\"prompt_tokens\": 1030, \"output_tokens\": 5, \"hash_ids\": " + text + "}\n");
  tessera_test::check_trace_reader("[{\"prompt_tokens\": 1, \"output_tokens\": 5},\n" + text + "]");
  tessera_test::check_trace_reader("{\"benchmarks\": [{\"requests\": {\"successful\": [" + text + "]}}]}");
  tessera_test::check_trace_reader("{\"resourceSpans\": [{\"scopeSpans\": [{\"spans\": [" + text + "]}]}]}");
  tessera_test::check_trace_reader("{\"input_lens\": [1, 2], \"output_lens\": [3, 4], \"start_times\": " + text + "}");
  return 0;
}
