// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A log of a fleet that says anything. A line that is read is written and read again as it was. No event, even of a
// line that is refused, stops a runtime or leaves a negative count in a view.

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/log.hpp>
#include <tessera/fleet/runtime.hpp>

#include "support/fleet_controllers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using namespace tessera;

constexpr std::string_view good_log = R"(0 joined replica=0 number=1 capacity=100
0 joined replica=1 number=1 capacity=50 elastic=1 alpha=0.5 beta=2 peak_flops=1000 ttft_s=2 moves=0 roles=0
0 joined replica=2 number=1 capacity=80
0.5 reported replica=0 incarnation=1 epoch=1 all_requests=4 all_kv=60 all_flops=1.5 own=1 own_requests=0 free=30
1 offers replica=2 count=48
1 offers replica=1 excluded=1
1 arrived request=1 prompt=320 expected=200 phase=reasoning prefix=7 session=3
1.5 first_token request=1 replica=2
1.5 cache_hit request=1 replica=2 count=48
2 arrived request=2 prompt=90 phase=reasoning
2 refused request=2 replica=0
2.5 progressed request=1 replica=2 count=40
3 reasoning_ended request=1 replica=2
3 moved request=1 replica=0
3 move_failed request=1 replica=0
3.5 serves replica=2 low=2 high=8
3.5 lost request=2 replica=1
4 lays_out replica=0 role=decode low=3 high=9 count=50
4 planned number=5
4 role_changed replica=0
5 failed replica=2 number=1
5 arrived request=1 prompt=320 generated=40
6 unreachable replica=0 number=1
7 drained replica=1
8 ended request=1
99 clock
)";

void require(bool condition) {
  if (!condition) std::abort();
}

template <class Controller>
void run(std::string_view log) {
  Controller by;
  auto storage = storage_for<fleet::runtime>(
      {.book = {.replicas = 4, .reservations = 12, .moves = 4}, .requests = 8, .actions = 8, .alarms = 4});
  fleet::runtime_settings s;
  s.book = {.lease = duration{20}, .silence = duration{5}, .rest = duration{1}, .tight = blocks{20}};
  fleet::runtime rt{by, storage, s};
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    fleet::log_line text;
    fleet::log_line again;
    fleet::action a;
    if (!fleet::read(line, a)) {
      const std::string_view written = fleet::write(a, text);
      fleet::action same;
      require(!fleet::read(written, same) && fleet::write(same, again) == written);
    }
    fleet::event e;
    if (!fleet::read(line, e)) {
      const std::string_view written = fleet::write(e, text);
      fleet::event same;
      require(!fleet::read(written, same) && fleet::write(same, again) == written);
    }
    if (e.at_s >= 0) rt.handle(e);  // whatever was read of it
    const auto shown = rt.book().shown();
    for (std::size_t i = 0; i != shown.size(); ++i) {
      require(shown[i].kv_held >= blocks{} && shown[i].waiting_blocks >= blocks{} && shown[i].free_blocks >= blocks{});
    }
  }
}

void run_all(std::string_view log) {
  run<tessera_test::meddler>(log);
  run<fleet::placing<placement::lmetric, placement::migrate_to_headroom>>(log);
  run<fleet::placing<placement::pascal_arrival, placement::pascal_migrate_adaptively>>(log);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  run_all({reinterpret_cast<const char*>(data), size});
  // And a right log with a few pieces of it replaced.
  std::string log{good_log};
  for (int pieces = 0; pieces != 6 && size >= 4; ++pieces) {
    const std::size_t at = (static_cast<std::size_t>(data[0]) << 8 | data[1]) % log.size();
    const std::size_t n = data[2] % 4;
    // Mostly a digit.
    const char c = data[3] < 200 ? static_cast<char>('0' + data[3] % 10) : static_cast<char>(data[3]);
    log.replace(at, n, 1 + n, c);
    data += 4;
    size -= 4;
  }
  run_all(log);
  return 0;
}
