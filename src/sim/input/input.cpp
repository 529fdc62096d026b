// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/input.hpp>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

TESSERA_NAMESPACE_BEGIN

namespace sim {

file_position position_of(std::string_view text, std::size_t offset) noexcept {
  file_position at{1, 1};
  offset = offset < text.size() ? offset : text.size();
  for (std::size_t i = 0; i != offset; ++i) {
    if (text[i] == '\n' || (text[i] == '\r' && (i + 1 == text.size() || text[i + 1] != '\n'))) {
      ++at.line;
      at.column = 1;
    } else {
      ++at.column;
    }
  }
  return at;
}

std::string read_file(const std::string& path) {
  struct closer {
    void operator()(std::FILE* f) const noexcept { (void)std::fclose(f); }
  };
  const std::unique_ptr<std::FILE, closer> file{std::fopen(path.c_str(), "rb")};
  if (!file) throw input_error{path, {}, "a readable file", std::strerror(errno)};
  std::string text;
  constexpr std::size_t chunk = std::size_t{1} << 18;
  for (;;) {
    const std::size_t size = text.size();
    text.resize(size + chunk);
    errno = 0;
    const std::size_t got = std::fread(text.data() + size, 1, chunk, file.get());
    text.resize(size + got);
    if (text.size() > max_input_bytes) {
      throw input_error{path, {}, fmt::format("at most {} bytes", max_input_bytes), "a longer file"};
    }
    if (got < chunk) {
      if (std::ferror(file.get()) != 0) throw input_error{path, {}, "a readable file", std::strerror(errno)};
      return text;
    }
  }
}

void require_plain_text(std::string_view text, std::string_view name, std::string_view what, std::size_t longest) {
  if (text.empty()) throw input_error{name, {1, 1}, what, "an empty file"};
  const std::string_view head = text.substr(0, 2);
  if (head == "\xff\xfe" || head == "\xfe\xff") {
    throw input_error{name, {1, 1}, "plain UTF-8", "UTF-16 text " + shown(head)};
  }
  struct kind {
    std::string_view begin, is;
  };
  for (const kind& k :
       {kind{gzip_magic, "a gzip file: unpack it first, with gunzip"},
        kind{"\x28\xb5\x2f\xfd", "a Zstandard file: unpack it first, with unzstd"},
        kind{"PAR1", "a Parquet file: save it as CSV, as with pandas.read_parquet(...).to_csv(..., index=False)"},
        kind{"PK\x03\x04", "a zip archive or a spreadsheet: save it as CSV"}}) {
    if (text.substr(0, k.begin.size()) == k.begin) throw input_error{name, {1, 1}, "text", k.is};
  }
  std::uint64_t line = 1;
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::string_view row = take_line(text, at);
    if (const std::size_t nul = row.find('\0'); nul != row.npos) {
      throw input_error{name, {line, nul + 1}, "text", "a NUL byte (a binary file?)"};
    }
    if (row.size() > longest) {
      throw input_error{name,
                        {line, longest + 1},
                        fmt::format("lines of at most {} characters", longest),
                        fmt::format("one of {} that begins {}", row.size(), shown(row, 20))};
    }
  }
}

}  // namespace sim
TESSERA_NAMESPACE_END
