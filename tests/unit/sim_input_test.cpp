// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/sim/input/input.hpp>

#include "support/catch.hpp"

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

namespace {

namespace sim = tessera::sim;

struct temporary_file {
  explicit temporary_file(std::string_view content)
      : path{(std::filesystem::temp_directory_path() / "tessera_sim_input_test.txt").string()} {
    std::FILE* f = std::fopen(path.c_str(), "wb");
    REQUIRE(f != nullptr);
    REQUIRE(std::fwrite(content.data(), 1, content.size(), f) == content.size());
    REQUIRE(std::fclose(f) == 0);
  }
  ~temporary_file() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  std::string path;
};

TEST_CASE("a file is read whole, byte for byte", "[sim]") {
  std::string content;
  for (std::size_t i = 0; i < 600'001; ++i) content += static_cast<char>(i * 7 % 256);
  CHECK(sim::read_file(temporary_file{content}.path) == content);
  CHECK(sim::read_file(temporary_file{""}.path).empty());
  // Exactly one and two chunks.
  CHECK(sim::read_file(temporary_file{std::string(std::size_t{1} << 18, 'x')}.path).size() == std::size_t{1} << 18);
  CHECK(sim::read_file(temporary_file{std::string(std::size_t{1} << 19, 'x')}.path).size() == std::size_t{1} << 19);
}

TEST_CASE("a file that cannot be read is an error with its name", "[sim]") {
  try {
    (void)sim::read_file("/no/such/file.csv");
    FAIL("no error");
  } catch (const sim::input_error& e) {
    CHECK(std::string{e.what()} == "/no/such/file.csv: expected a readable file, found No such file or directory");
    CHECK(e.line() == 0);
  }
  CHECK_THROWS_AS(sim::read_file("/"), sim::input_error);
}

TEST_CASE("positions count lines and bytes from 1", "[sim]") {
  const std::string_view text = "ab\n\ncd";
  const auto at = [&](std::size_t offset) {
    const auto p = sim::position_of(text, offset);
    return std::to_string(p.line) + ":" + std::to_string(p.column);
  };
  CHECK(at(0) == "1:1");
  CHECK(at(2) == "1:3");
  CHECK(at(3) == "2:1");
  CHECK(at(4) == "3:1");
  CHECK(at(6) == "3:3");
  CHECK(at(100) == "3:3");
  CHECK(sim::position_of("a\rb\r\nc", 5).line == 3);
  CHECK(sim::position_of("a\rb\r\nc", 2).column == 1);
}

std::string refusal(std::string_view text) {
  try {
    sim::require_plain_text(text, "f", "a header");
  } catch (const sim::input_error& e) {
    return e.what();
  }
  return "";
}

TEST_CASE("only plain text is taken", "[sim]") {
  CHECK(refusal("a\nb\n").empty());
  CHECK(refusal("a").empty());
  CHECK(refusal("gr\xc3\xbc\xc3\x9f\n").empty());
  CHECK(refusal("") == "f:1:1: expected a header, found an empty file");
  CHECK(refusal(std::string_view{"\xff\xfe"
                                 "a\0",
                                 4})
            .find("f:1:1: expected plain UTF-8, found UTF-16 text") == 0);
  CHECK(refusal(std::string_view{"a\nbc\0d\n", 7}) == "f:2:3: expected text, found a NUL byte (a binary file?)");
  CHECK(refusal("a\r\nb\r\n").empty());
  CHECK(refusal("a\nbcd\re\n").empty());
  CHECK(refusal("\x1f\x8b\x08") == "f:1:1: expected text, found a gzip file: unpack it first, with gunzip");
  CHECK(refusal("\x28\xb5\x2f\xfd") == "f:1:1: expected text, found a Zstandard file: unpack it first, with unzstd");
  CHECK(refusal("PAR1\x15").find("f:1:1: expected text, found a Parquet file: save it as CSV") == 0);
  CHECK(refusal("PK\x03\x04").find("f:1:1: expected text, found a zip archive or a spreadsheet") == 0);
}

TEST_CASE("lines end as they do in the world", "[sim]") {
  const auto lines = [](std::string_view text) {
    std::string joined;
    text = sim::without_mark(text);
    for (std::size_t at = 0; at < text.size();) joined += std::string{sim::take_line(text, at)} + "|";
    return joined;
  };
  CHECK(lines("a\nb\n") == "a|b|");
  CHECK(lines("a\r\nb\r\n") == "a|b|");
  CHECK(lines("a\r\n\r\nb") == "a||b|");
  CHECK(lines("\xef\xbb\xbf"
              "a\nb") == "a|b|");
  CHECK(lines("").empty());
  CHECK(lines("\n") == "|");
  CHECK(lines("a\rb\r") == "a|b|");
  CHECK(lines("a\rb") == "a|b|");
  CHECK(lines("a\r\rb\n") == "a||b|");
  CHECK(lines("\n\r\n\r") == "|||");
  CHECK(sim::without_mark("\xef\xbb") == "\xef\xbb");
}

TEST_CASE("a line may have so many characters and not one more", "[sim]") {
  CHECK(refusal("a\n" + std::string(sim::max_line_bytes, 'x') + "\nb\n").empty());
  CHECK(refusal("a\n" + std::string(sim::max_line_bytes + 1, 'x') + "\nb\n") ==
        "f:2:65537: expected lines of at most 65536 characters, found one of 65537 that begins "
        "'xxxxxxxxxxxxxxxxxxxx'...");
  CHECK(refusal(std::string(1'000'000, 'x')).find("f:1:65537: ") == 0);
}

}  // namespace
