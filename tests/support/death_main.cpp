// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The main function of the death tests.
//
//     NAME           runs the case; returning from it is an error
//     --list         prints the names, one a line
//     --check NAME   runs the case in a child process and checks how it died
//     --check-all    the same for every case

#include "support/death.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using tessera_test::death_case;

std::vector<const death_case*> all_cases() {
  std::vector<const death_case*> cases;
  for (const death_case* c = death_case::first(); c != nullptr; c = c->next()) cases.push_back(c);
  std::sort(cases.begin(), cases.end(),
            [](const death_case* a, const death_case* b) { return std::strcmp(a->name(), b->name()) < 0; });
  return cases;
}

/// What a child process left behind.
struct ending {
  int status = 0;
  std::string messages;
};

ending run_in_child(const death_case& c) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    std::perror("pipe");
    std::exit(2);
  }
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) {
    std::perror("fork");
    std::exit(2);
  }
  if (child == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    std::signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    c.run();
    _exit(0);
  }
  close(ends[1]);
  ending result;
  std::array<char, 4096> chunk{};
  for (ssize_t n = 0; (n = read(ends[0], chunk.data(), chunk.size())) > 0;) {
    result.messages.append(chunk.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  waitpid(child, &result.status, 0);
  return result;
}

bool died_as_it_should(const death_case& c) {
  const ending e = run_in_child(c);
  const bool aborted = WIFSIGNALED(e.status) && WTERMSIG(e.status) == SIGABRT;
  const bool spoke = e.messages.find("tessera:") != std::string::npos;
  const bool right_text = e.messages.find(c.expected()) != std::string::npos;
  if (aborted && spoke && right_text) {
    std::printf("%s: %s", c.name(), e.messages.c_str());
    return true;
  }
  std::printf("%s: FAILED:", c.name());
  if (!aborted) {
    if (WIFSIGNALED(e.status)) {
      std::printf(" died of signal %d, not of SIGABRT;", WTERMSIG(e.status));
    } else {
      std::printf(" did not abort (exit status %d);", WEXITSTATUS(e.status));
    }
  }
  if (!spoke) std::printf(" no line with 'tessera:' on stderr;");
  if (!right_text) std::printf(" the message lacks \"%s\";", c.expected());
  std::printf(" stderr was:\n%s\n", e.messages.c_str());
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<const death_case*> cases = all_cases();
  for (std::size_t i = 1; i < cases.size(); ++i) {
    if (std::strcmp(cases[i - 1]->name(), cases[i]->name()) == 0) {
      std::fprintf(stderr, "two death cases are called %s\n", cases[i]->name());
      return 2;
    }
  }

  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--list") {
    for (const death_case* c : cases) std::puts(c->name());
    return 0;
  }
  if (first == "--check-all") {
    std::size_t failed = 0;
    for (const death_case* c : cases) failed += died_as_it_should(*c) ? 0 : 1;
    std::printf("%zu death cases, %zu failed\n", cases.size(), failed);
    return failed == 0 && !cases.empty() ? 0 : 1;
  }

  const bool check = first == "--check" && argc > 2;
  const std::string_view wanted = check ? argv[2] : first;
  for (const death_case* c : cases) {
    if (wanted != c->name()) continue;
    if (check) return died_as_it_should(*c) ? 0 : 1;
    c->run();
    std::fprintf(stderr, "%s returned: nothing was violated\n", c->name());
    return 3;
  }
  std::fprintf(stderr, "usage: %s NAME | --list | --check NAME | --check-all\n", argv[0]);
  return 2;
}
