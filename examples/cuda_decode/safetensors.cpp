// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <safetensors.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

namespace cuda_decode {
namespace {

constexpr std::uint64_t max_header = 100'000'000;  // the format's own limit
constexpr std::size_t max_dimensions = 8;

[[noreturn]] void fail(const std::string& path, const std::string& what) { throw weights_error{path + ": " + what}; }

std::string text(std::span<const std::int64_t> shape) {
  std::string s = "[";
  for (const std::int64_t n : shape) s += (s.size() == 1 ? "" : ", ") + std::to_string(n);
  return s + "]";
}

std::uint64_t unsigned_number(const nlohmann::json& j) {
  if (!j.is_number_unsigned()) throw weights_error{"a number that is not a non-negative integer"};
  return j.get<std::uint64_t>();
}

checkpoint::tensor parse(const nlohmann::json& j, std::uint64_t data_begin, std::uint64_t data_bytes) {
  if (!j.is_object() || !j.contains("dtype") || !j.contains("shape") || !j.contains("data_offsets")) {
    throw weights_error{"dtype, shape or data_offsets is missing"};
  }
  const auto& type = j["dtype"];
  const auto& shape = j["shape"];
  const auto& offsets = j["data_offsets"];
  if (!type.is_string()) throw weights_error{"dtype is not a string"};
  if (!shape.is_array() || shape.size() > max_dimensions) throw weights_error{"shape is not a short array"};
  if (!offsets.is_array() || offsets.size() != 2) throw weights_error{"data_offsets is not a pair"};
  checkpoint::tensor t;
  t.type = type.get<std::string>();
  for (const auto& n : shape) {
    const std::uint64_t extent = unsigned_number(n);
    if (extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw weights_error{"a dimension is too large"};
    }
    t.shape.push_back(static_cast<std::int64_t>(extent));
  }
  const std::uint64_t begin = unsigned_number(offsets[0]);
  const std::uint64_t end = unsigned_number(offsets[1]);
  if (begin > end || end > data_bytes) throw weights_error{"its data is not inside the file"};
  t.begin = data_begin + begin;
  t.end = data_begin + end;
  return t;
}

// Bytes of a bf16 tensor; none if that is no 64-bit number.
bool bytes_of(std::span<const std::int64_t> shape, std::uint64_t& bytes) {
  bytes = 2;
  for (const std::int64_t n : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(n), &bytes)) return false;
  }
  return true;
}

}  // namespace

checkpoint::checkpoint(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    open(path);
    return;
  }
  std::vector<std::string> found;
  for (fs::directory_iterator i{path, error}, end; !error && i != end; i.increment(error)) {
    if (i->path().extension() == ".safetensors") found.push_back(i->path().string());
  }
  if (error) fail(path, error.message());
  if (found.empty()) fail(path, "there is no *.safetensors in this folder");
  std::ranges::sort(found);
  for (const std::string& f : found) open(f);
}

void checkpoint::open(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) fail(path, "no such file");
  std::ifstream in{path, std::ios::binary};
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (!in || error) fail(path, "cannot be opened");
  unsigned char length[8];
  if (size < sizeof(length) || !in.read(reinterpret_cast<char*>(length), sizeof(length))) {
    fail(path, "not a safetensors file: it is too short");
  }
  std::uint64_t header = 0;
  for (int i = 7; i >= 0; --i) header = header << 8 | length[i];
  if (header > max_header || header > size - sizeof(length)) {
    fail(path, "not a safetensors file: a header of " + std::to_string(header) + " bytes in a file of " +
                   std::to_string(size));
  }
  std::string json(header, '\0');
  if (!in.read(json.data(), static_cast<std::streamsize>(header))) fail(path, "cannot be read");
  const auto root = nlohmann::json::parse(json, nullptr, false);
  if (!root.is_object()) fail(path, "its header is not a JSON object");
  const std::uint64_t data_begin = sizeof(length) + header;
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") continue;
    try {
      tensor t = parse(value, data_begin, size - data_begin);
      t.file = files_.size();
      if (!tensors_.emplace(name, std::move(t)).second) throw weights_error{"it is in another file, too"};
    } catch (const weights_error& e) {
      fail(path, "tensor " + name + ": " + e.what());
    }
  }
  files_.push_back({path, std::move(in)});
}

const checkpoint::tensor& checkpoint::find(const std::string& name, std::span<const std::int64_t> shape) const {
  const auto i = tensors_.find(name);
  if (i == tensors_.end()) fail(files_.front().path, "tensor " + name + " is missing");
  const tensor& t = i->second;
  const std::string& path = files_[t.file].path;
  if (t.type != "BF16") fail(path, "tensor " + name + " has type " + t.type + "; only BF16 is supported");
  if (!std::ranges::equal(t.shape, shape)) {
    fail(path, "tensor " + name + " has shape " + text(t.shape) + "; the model needs " + text(shape));
  }
  std::uint64_t bytes = 0;
  if (!bytes_of(t.shape, bytes) || bytes != t.end - t.begin) {
    fail(path,
         "tensor " + name + " has " + std::to_string(t.end - t.begin) + " bytes of data, which is not its shape's");
  }
  return t;
}

void checkpoint::read(const tensor& t, std::uint64_t offset, std::span<std::byte> to) {
  file& f = files_[t.file];
  if (offset > t.end - t.begin || to.size() > t.end - t.begin - offset) fail(f.path, "read past the end of a tensor");
  f.stream.clear();
  f.stream.seekg(static_cast<std::streamoff>(t.begin + offset));
  if (!f.stream.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size()))) {
    fail(f.path, "cannot be read");
  }
}

}  // namespace cuda_decode
