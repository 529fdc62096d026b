// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

/// @file
/// Tensors of a model in safetensors files: eight bytes of length, a header in JSON, data.

namespace cuda_decode {

/// A file of weights is not there, is malformed, or is of another model.
class weights_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// All tensors of one file, or of all *.safetensors in a folder. Headers are read at construction and trusted in
/// nothing; data is read on demand.
class checkpoint {
 public:
  /// Where a tensor lies.
  struct tensor {
    std::string type;                 ///< "BF16"
    std::vector<std::int64_t> shape;  ///< Outermost dimension first.
    std::size_t file = 0;             ///< Index of the file.
    std::uint64_t begin = 0;          ///< First byte in it,
    std::uint64_t end = 0;            ///< and that after the last.
  };

  /// @throws weights_error
  explicit checkpoint(const std::string& path);

  /// The bf16 tensor of this name and shape. @throws weights_error that names it
  [[nodiscard]] const tensor& find(const std::string& name, std::span<const std::int64_t> shape) const;
  /// Copies `to.size()` bytes of a tensor's data, from byte `offset` of it on. @throws weights_error
  void read(const tensor& t, std::uint64_t offset, std::span<std::byte> to);

 private:
  struct file {
    std::string path;
    std::ifstream stream;
  };

  void open(const std::string& path);

  std::vector<file> files_;
  std::map<std::string, tensor, std::less<>> tensors_;
};

}  // namespace cuda_decode
