// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <model.hpp>

#include <unistd.h>

#include <fmt/format.h>
#include <filesystem>

namespace test {

/// A model of random weights of this shape.
inline llama_cpp::model make_random_model(const llama_cpp::random_shape& shape) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("tessera-test-{}.gguf", getpid());
  llama_cpp::write_random_model(path.string(), 1, shape);
  llama_cpp::model loaded{path.string()};
  std::filesystem::remove(path);
  return loaded;
}

/// One of full attention, written and loaded once for all tests.
inline const llama_cpp::model& random_model() {
  static const llama_cpp::model m = make_random_model({});
  return m;
}

}  // namespace test
