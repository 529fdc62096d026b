// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What is simulated is what is deployed, from Python as well. Small logs of the simulator's router are in files. Here
// the simulator writes the same; python/tests/fleet/test_controllers.py runs them through the controllers that
// tessera.fleet has by name, which must act the same. With TESSERA_WRITE_LOGS the files are written anew.
#include <tessera/compose/pascal.hpp>
#include <tessera/fleet/log.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/lmetric.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/sim/cluster/cluster_of.hpp>
#include <tessera/sim/cluster/placed.hpp>

#include "sim/toy_profile.hpp"
#include "support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace tessera;

std::vector<sim::trace_row> small_trace() {
  std::vector<sim::trace_row> rows;
  for (std::int64_t i = 0; i != 16; ++i) {
    const std::int64_t reasoning = i % 3 == 0 ? 0 : 4 + i * 7 % 9;
    rows.push_back(tessera_test::row(0.125 * static_cast<double>(i), 20 + i * 37 % 150, reasoning, 3 + i * 11 % 8));
  }
  return rows;
}

template <class Placement, class Migration = placement::stay>
std::string log_of(const char* name, const Migration& migration = {}) {
  sim::cluster_options o = tessera_test::toy_cluster(3, 60);
  std::string log = "# tessera.fleet log 1 {\"block_size\": 16, \"controller\": \"" + std::string{name} +
                    "\", \"lease\": 1e9, \"moving\": 1000, \"quantum\": " + std::to_string(o.quantum.count()) +
                    ", \"replicas\": 3, \"rest\": 0.0, \"silence\": 1e9}\n";
  o.routed = sim::routing{.report_s = 0.5,
                          .heard = [&](std::size_t, const fleet::event& e, std::span<const fleet::action> actions) {
                            fleet::log_line line;
                            log.append(fleet::write(e, line)) += '\n';
                            for (const fleet::action& a : actions) log.append(fleet::write(a, line)) += '\n';
                          }};
  const auto rows = small_trace();
  sim::cluster_of<pascal<sim::request, sim::kv_store>, sim::placed<Placement, Migration>> c{o, {}, {{}, migration}};
  REQUIRE(c.run(rows, [](std::size_t) {}).numbers.completed == rows.size());
  return log;
}

void is_in_its_file(const char* name, const std::string& log) {
  const std::string path = std::string{TESSERA_TEST_SOURCES "/sim/logs/"} + name + ".log";
  if (std::getenv("TESSERA_WRITE_LOGS") != nullptr) std::ofstream{path} << log;
  std::ifstream file{path};
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  CHECK(text.str() == log);
}

TEST_CASE("the logs of a simulated router are those that Python runs again", "[sim]") {
  is_in_its_file("least-load", log_of<placement::least_load>("least-load"));
  is_in_its_file("lmetric", log_of<placement::lmetric>("lmetric"));
  const std::string moves = log_of<placement::pascal_arrival>(
      "pascal", placement::pascal_migrate_adaptively{.headroom = sim::quantum_blocks});
  is_in_its_file("pascal", moves);
  CHECK(moves.find("> move ") != moves.npos);
}

}  // namespace
