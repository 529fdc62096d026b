// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/trace_data.hpp>

#ifdef TESSERA_TOOLS_ZLIB
#  include <tessera/sim/input/input.hpp>

#  include <fmt/format.h>
#  include <zlib.h>

#  include <algorithm>
#  include <cstddef>
#  include <limits>
#  include <memory>
#  include <string>
#  include <string_view>
#endif

/// @file
/// Traces in gzip files, where the tools were built with zlib.

namespace tool {

#ifdef TESSERA_TOOLS_ZLIB
/// The text in a gzip file, of one member or several. @throws tessera::sim::input_error
inline std::string gunzip(std::string_view packed, std::string_view name) {
  namespace sim = tessera::sim;
  z_stream stream{};
  if (inflateInit2(&stream, MAX_WBITS + 16) != Z_OK) {
    throw sim::input_error{name, {1, 1}, "memory to unpack it in", "none"};
  }
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end{&stream, &inflateEnd};
  std::string text;
  std::size_t at = 0;
  constexpr std::size_t chunk = std::size_t{1} << 20;
  for (int state = Z_OK; state != Z_STREAM_END || at != packed.size();) {
    if (state == Z_STREAM_END && inflateReset(&stream) != Z_OK) break;
    const std::size_t left = std::min<std::size_t>(packed.size() - at, std::numeric_limits<uInt>::max());
    const std::size_t size = text.size();
    text.resize(size + chunk);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + at));
    stream.avail_in = static_cast<uInt>(left);
    stream.next_out = reinterpret_cast<Bytef*>(text.data() + size);
    stream.avail_out = static_cast<uInt>(chunk);
    state = inflate(&stream, Z_NO_FLUSH);
    at += left - stream.avail_in;
    text.resize(size + chunk - stream.avail_out);
    if (text.size() > sim::max_input_bytes) {
      throw sim::input_error{name, {1, 1}, fmt::format("at most {} bytes, unpacked", sim::max_input_bytes), "more"};
    }
    if (state == Z_OK || state == Z_STREAM_END) continue;
    throw sim::input_error{name,
                           {1, at + 1},
                           "a whole gzip file",
                           state == Z_BUF_ERROR ? "the end of the file: is it truncated?" : "damaged data"};
  }
  return text;
}
#endif

/// The `options`, with unpacking of gzip files if it is available.
inline tessera::sim::trace_options unpacking(tessera::sim::trace_options options) {
#ifdef TESSERA_TOOLS_ZLIB
  options.gunzip = &gunzip;
#endif
  return options;
}

}  // namespace tool
