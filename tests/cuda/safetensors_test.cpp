// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <safetensors.hpp>

#include <support/catch.hpp>

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using cuda_decode::checkpoint;
using cuda_decode::weights_error;

/// A folder that goes with the test.
class folder {
 public:
  folder() : path_{fs::temp_directory_path() / ("tessera-safetensors-" + std::to_string(getpid()))} {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~folder() { fs::remove_all(path_); }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;

  [[nodiscard]] std::string file(const std::string& name, const std::string& content) const {
    std::ofstream{path_ / name, std::ios::binary} << content;
    return (path_ / name).string();
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

std::string length(std::uint64_t n) {
  std::string s;
  for (int i = 0; i != 8; ++i, n >>= 8) s += static_cast<char>(n & 0xFF);
  return s;
}

std::string whole(const std::string& header, const std::string& data) { return length(header.size()) + header + data; }

/// What is said about a file with this content when a [2][3] tensor `a` is looked for and read.
std::string error_of(const std::string& content) {
  const folder f;
  const std::string path = f.file("model.safetensors", content);
  try {
    checkpoint c{path};
    const std::vector<std::int64_t> shape{2, 3};
    const auto& t = c.find("a", shape);
    std::vector<std::byte> data(12);
    c.read(t, 0, data);
  } catch (const weights_error& e) {
    const std::string what = e.what();
    INFO(what);
    CHECK(what.rfind(path + ": ", 0) == 0);  // every message begins with the file
    return what.substr(path.size() + 2);
  }
  return "";
}

const std::string twelve = "abcdefghijkl";

std::string header(const std::string& fields) { return whole("{\"a\":{" + fields + "}}", twelve); }

}  // namespace

TEST_CASE("safetensors: tensors of a file and of a folder") {
  const folder f;
  const std::string first =
      f.file("model-1.safetensors",
             whole(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[2,14]},)"
                   R"("other":{"dtype":"F32","shape":[],"data_offsets":[0,0]}}   )",
                   "--" + twelve));
  (void)f.file("model-2.safetensors", whole(R"({"b":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})", "xy"));
  (void)f.file("config.json", "{}");
  const std::vector<std::int64_t> shape{2, 3};
  std::vector<std::byte> data(5);
  const auto text = [&] { return std::string{reinterpret_cast<const char*>(data.data()), data.size()}; };
  SECTION("file") {
    checkpoint c{first};
    const auto& a = c.find("a", shape);
    c.read(a, 0, data);
    CHECK(text() == "abcde");
    c.read(a, 7, data);
    CHECK(text() == "hijkl");
    CHECK_THROWS_AS(c.read(a, 8, data), weights_error);
    CHECK_THROWS_AS(c.read(a, ~std::uint64_t{0}, data), weights_error);
    CHECK_THROWS_AS(c.find("b", shape), weights_error);
  }
  SECTION("folder") {
    checkpoint c{f.path()};
    c.read(c.find("a", shape), 0, data);
    CHECK(text() == "abcde");
    const std::vector<std::int64_t> one{1};
    data.resize(2);
    c.read(c.find("b", one), 0, data);
    CHECK(text() == "xy");
  }
  SECTION("a tensor in two files") {
    (void)f.file("model-3.safetensors", whole(R"({"b":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}})", "xy"));
    CHECK_THROWS_WITH(checkpoint{f.path()}, Catch::Contains("tensor b: it is in another file, too"));
  }
  SECTION("none") {
    CHECK_THROWS_AS(checkpoint{f.path() + "/missing.safetensors"}, weights_error);
    fs::create_directory(f.path() + "/empty");
    CHECK_THROWS_WITH(checkpoint{f.path() + "/empty"}, Catch::Contains("no *.safetensors"));
  }
}

TEST_CASE("safetensors: malformed files are refused with a reason") {
  const std::string good = R"("dtype":"BF16","shape":[2,3],"data_offsets":[0,12])";
  REQUIRE(error_of(header(good)).empty());
  CHECK(error_of("") == "not a safetensors file: it is too short");
  CHECK(error_of("1234567") == "not a safetensors file: it is too short");
  CHECK(error_of(length(3) + "{}") == "not a safetensors file: a header of 3 bytes in a file of 10");
  CHECK(error_of(length(~std::uint64_t{0}) + "{}").find("a header of 18446744073709551615 bytes") != std::string::npos);
  CHECK(error_of(length(100'000'001) + "{}").find("not a safetensors file") == 0);
  CHECK(error_of(whole("", "")) == "its header is not a JSON object");
  CHECK(error_of(whole("[]", "")) == "its header is not a JSON object");
  CHECK(error_of(whole("{\"a\":", "")) == "its header is not a JSON object");
  CHECK(error_of(whole(std::string(100000, '['), "")) == "its header is not a JSON object");
  CHECK(error_of(whole("{}", "")) == "tensor a is missing");
  CHECK(error_of(whole("{\"a\":1}", "")) == "tensor a: dtype, shape or data_offsets is missing");
  CHECK(error_of(header(R"("dtype":"BF16","shape":[2,3])")) == "tensor a: dtype, shape or data_offsets is missing");
  CHECK(error_of(header(R"("dtype":16,"shape":[2,3],"data_offsets":[0,12])")) == "tensor a: dtype is not a string");
  CHECK(error_of(header(R"("dtype":"BF16","shape":6,"data_offsets":[0,12])")) ==
        "tensor a: shape is not a short array");
  CHECK(error_of(header(R"("dtype":"BF16","shape":[2,-3],"data_offsets":[0,12])")) ==
        "tensor a: a number that is not a non-negative integer");
  CHECK(error_of(header(R"("dtype":"BF16","shape":[2,3.5],"data_offsets":[0,12])")) ==
        "tensor a: a number that is not a non-negative integer");
  CHECK(error_of(header(R"("dtype":"BF16","shape":[2,18446744073709551615],"data_offsets":[0,12])")) ==
        "tensor a: a dimension is too large");
  CHECK(error_of(header(R"("dtype":"BF16","shape":[2,3],"data_offsets":[12])")) ==
        "tensor a: data_offsets is not a pair");
  CHECK(error_of(header(R"("dtype":"BF16","shape":[2,3],"data_offsets":[12,0])")) ==
        "tensor a: its data is not inside the file");
  CHECK(error_of(header(R"("dtype":"BF16","shape":[2,3],"data_offsets":[1,13])")) ==
        "tensor a: its data is not inside the file");
  CHECK(error_of(header(R"("dtype":"BF16","shape":[2,3],"data_offsets":[0,"12"])")) ==
        "tensor a: a number that is not a non-negative integer");
  CHECK(error_of(header(R"("dtype":"BF16","shape":[2,3],"data_offsets":[0,10])")) ==
        "tensor a has 10 bytes of data, which is not its shape's");
  CHECK(error_of(header(R"("dtype":"BF16","shape":[3,2],"data_offsets":[0,12])")) ==
        "tensor a has shape [3, 2]; the model needs [2, 3]");
  CHECK(error_of(header(R"("dtype":"BF16","shape":[],"data_offsets":[0,12])")) ==
        "tensor a has shape []; the model needs [2, 3]");
  CHECK(error_of(header(R"("dtype":"F16","shape":[2,3],"data_offsets":[0,12])")) ==
        "tensor a has type F16; only BF16 is supported");
}

TEST_CASE("safetensors: a shape with a size that is no 64-bit number") {
  const folder f;
  const std::string path = f.file(
      "m.safetensors", whole(R"({"a":{"dtype":"BF16","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", ""));
  checkpoint c{path};
  const std::vector<std::int64_t> shape{4294967296, 4294967296};
  CHECK_THROWS_AS(c.find("a", shape), weights_error);
}

TEST_CASE("safetensors: a damaged file is read or refused, never worse") {
  const std::string good = header(R"("dtype":"BF16","shape":[2,3],"data_offsets":[0,12])");
  std::mt19937 random{7};
  const folder f;
  int refused = 0;
  for (int i = 0; i != 3000; ++i) {
    std::string bad = good;
    for (int k = 0; k != 1 + i % 3; ++k) bad[random() % bad.size()] = static_cast<char>(random() & 0xFF);
    if (i % 4 == 0) bad.resize(random() % bad.size());
    const std::string path = f.file("m.safetensors", bad);
    try {
      checkpoint c{path};
      const std::vector<std::int64_t> shape{2, 3};
      std::vector<std::byte> data(12);
      c.read(c.find("a", shape), 0, data);
    } catch (const weights_error&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
  CHECK(refused < 3000);
}
