// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>
#include <tessera/version.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

/// @file
/// The common part of the command-line tools: how they end, and the effect of signals. A tool returns 0, or 2 after one
/// line on stderr that says what to correct. It returns 128 and the signal's number when SIGINT, SIGTERM or SIGHUP
/// ended it. A tool that was asked whether something is possible returns 1 if it is not.

namespace tool {

/// The text of `--version`.
inline std::string version() {
  return fmt::format("{}.{}.{}", TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR, TESSERA_VERSION_PATCH);
}

/// An empty value, such as that of an unset variable in a script, must not count as no option.
/// @throws tessera::sim::usage_error
inline void require_values(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word{argv[i]};
    if (word.empty() || (word.substr(0, 2) == "--" && word.back() == '=')) {
      throw tessera::sim::usage_error{fmt::format("{} needs a value", word.empty() ? argv[i - 1] : argv[i])};
    }
  }
}

/// A file that a tool reads or writes, and the option that named it.
struct named_file {
  std::string_view option;
  std::string path;  ///< Empty: none. Names that are not files, such as those of built-in profiles, are allowed.
};

/// Checks that no input is overwritten, and no output written twice, under whatever names and links.
/// @throws tessera::sim::usage_error
inline void require_apart(const std::vector<named_file>& read, const std::vector<named_file>& written) {
  namespace fs = std::filesystem;
  const auto same = [](const std::string& a, const std::string& b) {
    if (a.empty() || b.empty()) return false;
    if (a == b) return true;
    if (a == "-" || b == "-") return false;
    std::error_code unknown;
    if (fs::equivalent(a, b, unknown)) return true;
    const auto whole = [&](const std::string& path) {
      return fs::weakly_canonical(fs::absolute(path, unknown), unknown);
    };
    return whole(a) == whole(b);
  };
  for (auto w = written.begin(); w != written.end(); ++w) {
    for (const named_file& r : read) {
      if (r.path != "-" && same(r.path, w->path)) {
        throw tessera::sim::usage_error{
            fmt::format("{} would write over {}, which {} reads", w->option, w->path, r.option)};
      }
    }
    for (auto v = written.begin(); v != w; ++v) {
      if (same(v->path, w->path)) {
        throw tessera::sim::usage_error{fmt::format("{} and {} name the same file", v->option, w->option)};
      }
    }
  }
}

/// While it lives, SIGINT, SIGTERM and SIGHUP end the tool at its next `check`, after its last words. These can remove
/// half-written files and print the finished part. A second signal ends the tool at once if it comes a second later or
/// more. An earlier one counts as the same signal: a shell and its child both pass on what was typed.
class signal_guard {
 public:
  /// @param last_words called once, on the thread that checks.
  explicit signal_guard(std::function<void()> last_words) : last_words_{std::move(last_words)} {
    caught_ = 0;
    writing_ = false;
    for (const int s : signals) static_cast<void>(std::signal(s, hear));
  }
  ~signal_guard() {
    for (const int s : signals) static_cast<void>(std::signal(s, SIG_DFL));
  }
  /// From now on files are written: only the last words remove them, however often a signal comes.
  void writes() noexcept { writing_ = true; }

  signal_guard(const signal_guard&) = delete;
  signal_guard& operator=(const signal_guard&) = delete;

  /// Call it now and then, on any thread. It does not throw, so that a caller in the middle of a run does not leave it
  /// halfway.
  void check() {
    const int which = caught_;
    if (which == 0) return;
    const std::lock_guard<std::mutex> once{ending_};  // for ever
    last_words_();
    static_cast<void>(std::fflush(nullptr));
    std::_Exit(128 + which);
  }

 private:
#ifdef SIGHUP
  static constexpr std::initializer_list<int> signals{SIGINT, SIGTERM, SIGHUP};
#else
  static constexpr std::initializer_list<int> signals{SIGINT, SIGTERM};
#endif
  static inline std::atomic<int> caught_{0};
  static inline std::atomic<std::int64_t> heard_at_ns_{0};
  static inline std::atomic<bool> writing_{false};
  static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free,
                "what a handler may write");

  static void hear(int which) {
    const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds{1};
    if (caught_ == 0) {
      heard_at_ns_ = now;
      caught_ = which;
    } else if (now - heard_at_ns_ >= 1'000'000'000 && !writing_) {
      std::_Exit(128 + which);
    }
  }

  std::function<void()> last_words_;
  std::mutex ending_;
};

/// Checks that all output has been written. @throws tessera::sim::output_error
inline void flush_output() {
  std::cout.flush();
  if (const bool lost = std::fflush(stdout) != 0; lost || !std::cout || std::ferror(stdout) != 0) {
    throw tessera::sim::output_error{fmt::format("cannot write to standard output: {}", std::strerror(errno))};
  }
}

/// Rejects whole numbers that begin with a 0, which would be read as octal: 010 as 8.
inline void require_decimal(CLI::App& app) {
  const CLI::Validator decimal{[](const std::string& value) {
                                 const std::size_t at = value.find_first_not_of("+-");
                                 const bool octal = at < 2 && value[at] == '0' && value.size() > at + 1 &&
                                                    value.find_first_not_of("0123456789", at) == value.npos;
                                 return octal ? value + " begins with a 0; without it a number is expected"
                                              : std::string{};
                               },
                               ""};
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.rfind("INT", 0) == 0 || type.rfind("UINT", 0) == 0) option->check(decimal);
  }
  for (CLI::App* command : app.get_subcommands({})) require_decimal(*command);
}

/// Does the work of a tool, from parsing its arguments on. @param less what to reduce when memory runs out.
/// @param work `work()` returns nothing, or whether the request is possible.
/// @return the result of main: see the file's comment.
template <class Work>
[[nodiscard]] int run(std::string_view name, std::string_view less, CLI::App& app, Work&& work) {
  require_decimal(app);
  // If stderr is closed as well, the exit code says it.
  const auto refuse = [&](std::string_view why) {
    static_cast<void>(std::fputs(fmt::format("{}: {}\n", name, why).c_str(), stderr));
  };
#ifdef SIGXFSZ
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));  // a file that may not grow counts as one that cannot be written
#endif
  try {
    try {
      if constexpr (std::is_same_v<std::invoke_result_t<Work>, bool>) {
        if (!work()) return 1;
      } else {
        work();
      }
    } catch (const CLI::Success& asked) {  // --help, --version
      static_cast<void>(app.exit(asked));
      flush_output();
    }
    return 0;
  } catch (const CLI::ConversionError& wrong) {
    // Only numbers are converted.
    refuse(fmt::format("{}: a number is expected (see --help)", wrong.what()));
  } catch (const CLI::ParseError& wrong) {
    refuse(fmt::format("{} (see --help)", wrong.what()));
  } catch (const std::bad_alloc&) {
    refuse(fmt::format("out of memory; take {}", less));
  } catch (const std::exception& wrong) {
    refuse(wrong.what());
  }
  return tessera::sim::exit_bad_input;
}

}  // namespace tool
