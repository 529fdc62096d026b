// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <new>
#include <string_view>

/// @file
/// What the command-line tools have in common.

namespace tool {

/// An empty value, as of an unset variable in a script, must not pass for none at all.
/// @throws tessera::sim::usage_error
inline void require_values(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word{argv[i]};
    if (word.empty() || (word.substr(0, 2) == "--" && word.back() == '=')) {
      throw tessera::sim::usage_error{fmt::format("{} needs a value", word.empty() ? argv[i - 1] : argv[i])};
    }
  }
}

/// Does the work of a tool, from parsing its arguments on. Exit code 2 and one line on stderr for anything that the
/// user can mend. @param less what to take less of when memory runs out.
template <class Work>
[[nodiscard]] int run(std::string_view name, std::string_view less, const CLI::App& app, Work&& work) {
  try {
    work();
    return 0;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& wrong) {
    fmt::print(stderr, "{}: {} (see --help)\n", name, wrong.what());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "{}: out of memory; take {}\n", name, less);
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "{}: {}\n", name, wrong.what());
  }
  return tessera::sim::exit_bad_input;
}

}  // namespace tool
