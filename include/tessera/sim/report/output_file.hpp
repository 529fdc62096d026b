// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#if __has_include(<unistd.h>)
#  include <unistd.h>
#endif

/// @file
/// The files of a tool's results: nothing is in place before it is complete.

TESSERA_NAMESPACE_BEGIN

namespace sim {

/// A file that is either written completely or not at all. From the first `write` on it grows beside its place under
/// another name, and is renamed when complete. A target that is no regular file (a pipe, a terminal) is written
/// directly. `-` is standard output, and is written when complete.
class output_file {
 public:
  /// Tests the place, so that a place that cannot be written is found before the work begins. Leaves nothing there.
  /// @throws output_error
  explicit output_file(std::filesystem::path path) : path_{std::move(path)}, to_stdout_{path_ == "-"} {
    if (to_stdout_) return;
    std::error_code ignored;
    const auto kind = std::filesystem::status(path_, ignored).type();
    if (kind == std::filesystem::file_type::directory) fail("it is a directory");
    direct_ = kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular;
    // The target of a symbolic link is replaced, or made, not the link. Links to other targets than files, such as
    // those in /dev/fd, do not always name a path.
    for (int links = 0; !direct_ && links != 40 && std::filesystem::is_symlink(path_, ignored); ++links) {
      const auto to = std::filesystem::read_symlink(path_, ignored);
      path_ = to.is_absolute() ? to : path_.parent_path() / to;
    }
    growing_ = path_;
    if (!direct_) growing_ += suffix();
    open();
    if (!direct_) close_and_remove();
  }

  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;

  /// Removes what was written unless `commit` was called.
  ~output_file() { close_and_remove(); }

  /// @throws output_error
  void write(std::string_view text) {
    if (to_stdout_) {
      held_ += text;
      return;
    }
    if (file_ == nullptr) open();
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail(std::strerror(errno));
  }

  /// Puts the complete file into its place. Call once.
  /// @throws output_error
  void commit() {
    if (to_stdout_) {
      if (std::fwrite(held_.data(), 1, held_.size(), stdout) != held_.size() || std::fflush(stdout) != 0) {
        throw output_error{fmt::format("cannot write to standard output: {}", std::strerror(errno))};
      }
      return;
    }
    if (file_ == nullptr) open();
    const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
    if (!closed) fail(std::strerror(errno));
    if (!direct_) {
      std::error_code failure;
      std::filesystem::rename(growing_, path_, failure);
      if (failure) fail(failure.message());
    }
    grows_ = false;
  }

 private:
  [[nodiscard]] static std::string suffix() {
#if __has_include(<unistd.h>)
    return fmt::format(".{}.partial", static_cast<long>(::getpid()));
#else
    return ".partial";
#endif
  }

  void open() {
    file_ = std::fopen(growing_.c_str(), "wb");
    if (file_ == nullptr) fail(std::strerror(errno));
    grows_ = !direct_;
  }
  void close_and_remove() noexcept {
    if (file_ != nullptr) (void)std::fclose(std::exchange(file_, nullptr));
    std::error_code ignored;
    if (std::exchange(grows_, false)) std::filesystem::remove(growing_, ignored);
  }
  [[noreturn]] void fail(const std::string& why) {
    close_and_remove();
    throw output_error{fmt::format("cannot write {}: {}", path_.string(), why)};
  }

  std::filesystem::path path_;
  std::filesystem::path growing_;
  std::string held_;
  std::FILE* file_ = nullptr;
  bool to_stdout_ = false;
  bool direct_ = false;
  bool grows_ = false;  ///< There is a file under the other name.
};

/// A folder for future files. It is made at once, so that an impossible place is found before the work begins. Folders
/// made for it that are still empty at the end are removed.
class output_folder {
 public:
  /// @throws output_error
  explicit output_folder(std::filesystem::path path) : path_{std::move(path)} {
    if (path_ == "-") throw output_error{"a folder is needed, and - is not one; write ./- for a folder of that name"};
    std::error_code failure;
    std::filesystem::path whole = std::filesystem::absolute(path_, failure).lexically_normal();
    if (!whole.has_filename()) whole = whole.parent_path();
    for (; !std::filesystem::exists(whole, failure) && whole != whole.parent_path(); whole = whole.parent_path()) {
      made_.push_back(whole);
    }
    std::filesystem::create_directories(path_, failure);
    if (!failure && !std::filesystem::is_directory(path_)) failure = std::make_error_code(std::errc::not_a_directory);
    if (failure) {
      remove_the_empty();
      throw output_error{fmt::format("cannot make {}: {}", path_.string(), failure.message())};
    }
    try {
      const output_file probe{path_ / "probe"};
    } catch (const output_error&) {
      remove_the_empty();
      throw output_error{fmt::format("cannot write into {}", path_.string())};
    }
  }
  output_folder(const output_folder&) = delete;
  output_folder& operator=(const output_folder&) = delete;
  ~output_folder() { remove_the_empty(); }

  /// The path as given.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  void remove_the_empty() noexcept {
    std::error_code not_empty;
    for (const std::filesystem::path& p : made_) std::filesystem::remove(p, not_empty);
  }

  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  ///< The innermost first.
};

}  // namespace sim
TESSERA_NAMESPACE_END
