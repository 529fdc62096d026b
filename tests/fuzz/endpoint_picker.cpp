// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A stream of the endpoint picker between gateways and engines that say anything. Messages are made of bytes, in any
// order, with bodies, answers and metrics that are bytes, and time that passes. Nothing may stop the program, no more
// is held than may be, and no more goes back than came. In the end the book is empty.

#include "../../examples/endpoint_picker/http_answer.hpp"
#include "../../examples/endpoint_picker/stream.hpp"

#include "support/fuzz_bytes.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

using namespace endpoint_picker;

void require(bool condition) {
  if (!condition) std::abort();
}

std::string some_text(tessera_test::fuzz_bytes& in) {
  // Words of the readers' own, so that their insides are reached, and bytes.
  static constexpr const char* words[] = {
      "{\"prompt\":\"", "\"}",      "{\"messages\":[",        "]}",
      "data: ",         "\n",       "\"completion_tokens\":", "vllm:num_requests_running ",
      "chunked",        "0\r\n\r\n"};
  std::string text;
  for (std::uint64_t n = in.byte() % 16; n != 0; --n) {
    const std::uint64_t b = in.byte();
    if (b < 80) {
      text += words[b % 10];
    } else {
      text += static_cast<char>(in.byte());
    }
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera_test::fuzz_bytes in{data, size};
  picker book{{.endpoints = 2, .requests = 2, .buffered = 200}};
  endpoint_list list;
  for (const char* where : {"10.0.0.1:80", "10.0.0.2:80"})
    list.endpoints.push_back({.where = where, .kv_tokens = 1600});
  book.list(list);
  for (const scrape_target& t : book.targets()) book.reported(t, {.started = 1}, {});
  const stream_limits limits{.body = 150, .headers = 100, .piece = 16};
  double now = 0;
  {
    stream<picker> one{book, limits, {}};
    std::size_t came = 0;
    std::size_t back = 0;
    bool began = false;
    bool answered = false;
    while (!in.done()) {
      const tessera::time_point at = tessera::time_point::at_seconds(now);
      received m;
      // Mostly what the protocol has next: other messages soon end a stream.
      const std::uint64_t b = in.byte();
      m.what = b < 64         ? static_cast<part>(b % 7)
               : !began       ? part::request_headers
               : !one.place() ? part::request_body
               : !answered    ? part::response_headers
                              : part::response_body;
      began = began || m.what == part::request_headers;
      answered = answered || m.what == part::response_headers;
      m.end_of_stream = in.byte() % 8 == 0;
      switch (in.byte() % 8) {
        case 0:
          now += static_cast<double>(in.byte() % 16);
          one.tick(at);
          break;
        case 1: m.headers.emplace_back(in.byte() % 2 == 0 ? "content-type" : "content-length", some_text(in)); break;
        case 2: m.subset.emplace().push_back(in.byte() % 2 == 0 ? "10.0.0.2:80" : some_text(in)); break;
        case 3: m.served = in.byte() % 2 == 0 ? "10.0.0.2:80" : some_text(in); break;
        case 4: {
          std::string why;
          const std::string page = some_text(in);
          const auto metrics = read_metrics(page, why);
          http_answer answer{64};
          answer.read("HTTP/1.1 200 OK\r\n" + page);
          require(answer.body().size() <= 64);
          for (const scrape_target& t : book.targets()) book.reported(t, metrics.value_or(engine_metrics{}), at);
          break;
        }
        default: m.body = some_text(in);
      }
      came += m.body.size();
      if (one.over()) break;
      while (one.next()) {
      }
      if (!one.over()) one.receive(std::move(m), at);
      while (const auto s = one.next()) {
        if (s->what == part::none) break;
        back += s->body.size();
        require(s->body.size() <= limits.piece);
      }
      require(back <= came && book.buffered() <= 200 && book.size() <= 1);
    }
  }
  require(book.size() == 0 && book.buffered() == 0);
  return 0;
}
