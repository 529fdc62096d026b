// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Runs a libFuzzer target without libFuzzer, on inputs that depend on the seed alone.
//   [--runs N] [--seed S] [FILE or FOLDER ...]
// The files run first, as they are; then N inputs, random bytes or mutations of the files. An input that makes the
// target stop the program is written to standard error as hexadecimal text.

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using bytes = std::vector<std::uint8_t>;
using engine = std::mt19937_64;

// What runs now, for the handler.
const bytes* current = nullptr;

extern "C" void say_input_and_die(int number) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::array<char, 2> text{};
  if (current != nullptr) {
    for (const std::uint8_t b : *current) {
      text = {digits[b >> 4U], digits[b & 15U]};
      if (write(STDERR_FILENO, text.data(), text.size()) < 0) break;
    }
    if (write(STDERR_FILENO, "\n", 1) < 0) std::_Exit(3);
  }
  std::signal(number, SIG_DFL);
  std::raise(number);
}

std::size_t below(engine& random, std::size_t n) { return static_cast<std::size_t>(random() % n); }

std::uint8_t byte(engine& random) {
  // Small numbers and the edges are more likely to mean something than others.
  constexpr std::array<std::uint8_t, 8> edges{0, 1, 2, 16, 127, 128, 254, 255};
  return below(random, 4) == 0 ? edges[below(random, edges.size())] : static_cast<std::uint8_t>(random());
}

bytes made_up(engine& random) {
  bytes b(below(random, std::size_t{1} << below(random, 13)));
  for (auto& x : b) x = byte(random);
  return b;
}

void mutate(bytes& b, engine& random) {
  for (std::size_t changes = 1 + below(random, 8); changes != 0; --changes) {
    const auto at = b.begin() + static_cast<std::ptrdiff_t>(below(random, b.size() + 1));
    const auto most = static_cast<std::size_t>(b.end() - at);
    const auto some = static_cast<std::ptrdiff_t>(most == 0 ? 0 : 1 + below(random, most));
    switch (below(random, 5)) {
      case 0:
        if (most != 0) *at = byte(random);
        break;
      case 1: b.insert(at, byte(random)); break;
      case 2: b.erase(at, at + some); break;
      case 3: {
        if (b.size() > 65536) break;
        const bytes copy(at, at + some);
        b.insert(b.begin() + static_cast<std::ptrdiff_t>(below(random, b.size() + 1)), copy.begin(), copy.end());
        break;
      }
      default: b.erase(at, b.end()); break;
    }
  }
}

bytes contents(const std::filesystem::path& path) {
  std::ifstream in{path, std::ios::binary};
  if (!in) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>{in}, std::istreambuf_iterator<char>{}};
}

void run(const bytes& b) {
  current = &b;
  LLVMFuzzerTestOneInput(b.data(), b.size());
  current = nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  unsigned long runs = 1000;
  unsigned long seed = 1;
  std::vector<bytes> corpus;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if ((argument == "--runs" || argument == "--seed") && i + 1 < argc) {
      (argument == "--runs" ? runs : seed) = std::strtoul(argv[++i], nullptr, 10);
    } else if (std::filesystem::is_directory(argument)) {
      std::vector<std::filesystem::path> files;
      for (const auto& f : std::filesystem::directory_iterator{argument}) files.push_back(f.path());
      // A directory's order is not the same on every machine.
      std::sort(files.begin(), files.end());
      for (const auto& f : files) corpus.push_back(contents(f));
    } else {
      corpus.push_back(contents(argument));
    }
  }
  if (runs == 0) {
    std::fprintf(stderr, "--runs must be at least 1\n");
    return 2;
  }

  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(number, say_input_and_die);
  run({});
  for (const bytes& b : corpus) run(b);
  engine random{seed};
  for (unsigned long i = 0; i < runs; ++i) {
    if (corpus.empty() || below(random, 4) == 0) {
      run(made_up(random));
    } else {
      bytes b = corpus[below(random, corpus.size())];
      mutate(b, random);
      run(b);
    }
  }
  std::printf("%zu files and %lu made-up inputs\n", corpus.size(), runs);
  return 0;
}
