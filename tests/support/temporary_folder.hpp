// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <system_error>

namespace tessera_test {

/// A folder of its own, with a name that needs quoting, gone at the end.
struct temporary_folder {
  temporary_folder() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator{path}, std::filesystem::directory_iterator{}));
  }
  std::filesystem::path path = std::filesystem::temp_directory_path() / "tessera it's a \"$(test)\"";
};

}  // namespace tessera_test
