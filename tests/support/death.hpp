// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// Death tests: every violated precondition is shown to stop the program.
///
///     TESSERA_DEATH_CASE(fifo_push_twice) { ... misuse ... }
///     TESSERA_DEATH_CASE(fifo_push_twice, "already queued") { ... }   // the message must contain this as well
///
/// A case passes when it ends by SIGABRT and has written a line with `tessera:` (and the given text) to stderr. Names
/// are global to the program and must differ. All files of tests/death are linked into one program, see death_main.cpp.

#include <cstddef>

namespace tessera_test {

/// One registered case: a node of a list that is built before `main` and needs no memory of its own.
class death_case {
 public:
  death_case(const char* name, void (*body)(), const char* expected = "") noexcept
      : name_{name}, expected_{expected}, body_{body}, next_{first_} {
    first_ = this;
  }
  death_case(const death_case&) = delete;
  death_case& operator=(const death_case&) = delete;

  [[nodiscard]] const char* name() const noexcept { return name_; }
  [[nodiscard]] const char* expected() const noexcept { return expected_; }
  [[nodiscard]] const death_case* next() const noexcept { return next_; }
  void run() const { body_(); }

  [[nodiscard]] static const death_case* first() noexcept { return first_; }

 private:
  const char* name_;
  const char* expected_;
  void (*body_)();
  const death_case* next_;
  static inline constinit const death_case* first_ = nullptr;
};

}  // namespace tessera_test

/// Defines and registers a case. The optional second argument is text that the message must contain.
#define TESSERA_DEATH_CASE(case_name, ...)                                     \
  static void tessera_death_body_##case_name();                                \
  static const ::tessera_test::death_case tessera_death_case_##case_name{      \
      #case_name, &tessera_death_body_##case_name __VA_OPT__(, ) __VA_ARGS__}; \
  static void tessera_death_body_##case_name()
