// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// reproduce NAME: runs a paper's evaluation in the simulator. The results are CSV files, with the paper's numbers
// beside ours where it has them.
#include "reproduce.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>

int main(int argc, char** argv) {
  using namespace reproduce;
  options o;
  std::string out = "docs/results";
  std::string data;
  o.threads = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  CLI::App app{"Runs the evaluations of the published systems and writes docs/results/NAME/*.csv."};
  app.require_subcommand(1);
  app.add_option("--out", out, "folder of the results")->capture_default_str();
  app.add_option("--data", data, "folder of real traces and prompts; without it, what needs them is left out")
      ->check(CLI::ExistingDirectory);
  app.add_option("--seeds", o.seeds, "runs per number")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--threads", o.threads, "runs at once")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_flag("--quick", o.quick, "only see that everything runs");
  std::sort(reproductions().begin(), reproductions().end(),
            [](const reproduction& a, const reproduction& b) { return a.name < b.name; });
  for (const reproduction& r : reproductions()) {
    app.add_subcommand(r.name, r.summary)->fallthrough()->final_callback([&] {
      options mine = o;
      mine.out = std::filesystem::path{out} / r.name;
      mine.data = data;
      r.run(mine);
    });
  }
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& wrong) {
    fmt::print(stderr, "reproduce: {} (see --help)\n", wrong.what());
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "reproduce: {}\n", wrong.what());
  }
  return sim::exit_bad_input;
}
