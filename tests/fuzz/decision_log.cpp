// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Decision logs: whatever the bytes, a replay ends in a value.

#include "support/logged_engine.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera_test;

template <class Scheduler>
const std::vector<std::byte>& good_log() {
  static const std::vector<std::byte> log = [] {
    std::vector<std::byte> buffer(std::size_t{1} << 18);
    decision_log l{buffer};
    make_calls<Scheduler>(l, {}, 300, 1);
    buffer.resize(l.written().size());
    return buffer;
  }();
  return log;
}

template <class Scheduler>
void check(std::span<const std::byte> log) {
  const auto r = replay_decisions<Scheduler>(log, {}, give_hashes, std::size_t{1} << 20);
  if (r.offset > log.size()) std::abort();
}

template <class Scheduler>
void run(std::span<const std::byte> data) {
  check<Scheduler>(data);
  // And a right log with a few pieces of it replaced, each by up to 8 bytes: with many, it would end early.
  std::vector<std::byte> log = good_log<Scheduler>();
  for (int pieces = 0; pieces != 3 && data.size() >= 3; ++pieces) {
    const std::size_t at = (static_cast<std::size_t>(data[0]) << 8 | static_cast<std::size_t>(data[1])) % log.size();
    std::size_t n = static_cast<std::size_t>(data[2]) % 8 + 1;
    data = data.subspan(3);
    for (std::size_t i = at; i != log.size() && n != 0 && !data.empty(); ++i, --n) {
      log[i] = data.front();
      data = data.subspan(1);
    }
  }
  check<Scheduler>(log);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes_of_input = std::as_bytes(std::span{data, size});
  run<logged_phases>(bytes_of_input);
  run<logged_ranks>(bytes_of_input);
  return 0;
}
