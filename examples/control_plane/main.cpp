// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// control_plane: Phasor's controllers alone, on your own telemetry. JSON lines in, actions out:
//
//     {"worker": 0, "role": "prefill", "queue": [{"prompt": 900, "computed": 256}]}   a report; the latest counts
//     {"worker": 1, "role": "decode", "total": 1000, "free": 12, "sequences": [{"id": 7, "blocks": 30,
//      "bytes": 3932160}]}
//     {"worker": 2, "role": "mixed", "elastic": true, "total": 1000, "free": 1000}
//     {"request": "r1", "prompt": 1200}      answered by  {"request":"r1","worker":0,"phi":0.71}
//     {"epoch": 1}                           answered by  {"epoch":1,"move":7,...} and {"epoch":1,"worker":2,...}

#include "../../tools/tool.hpp"
#include "input.hpp"

#include <tessera/control/phasor.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/headroom/reference_demand.hpp>
#include <tessera/placement/phasor_router.hpp>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace tessera;
using control_plane::line;

constexpr std::int64_t most_blocks = 1'000'000'000;
constexpr std::int64_t most_tokens = 100'000'000;

/// What an operator's control plane holds: the controllers, and the last report of each worker.
class cluster {
 public:
  cluster(std::size_t workers, const placement::prefill_worker& kind, tokens block_size)
      : kind_{kind},
        workers_(workers),
        sequences_(workers),
        queues_(workers),
        demand_{demand_memory_, {}, {.block_size = block_size}} {
    for (control::worker& w : workers_) w.available = false;
  }

  void report(const line& in) {
    const auto id = static_cast<std::size_t>(in.whole({"worker"}, 0, static_cast<std::int64_t>(workers_.size()) - 1));
    control::worker w;
    const auto* role = in.find({"role"});
    if (role == nullptr || (*role != "prefill" && *role != "decode" && *role != "mixed")) {
      in.fail({"role"}, "\"prefill\", \"decode\" or \"mixed\" as \"role\"");
    }
    w.role = *role == "prefill"  ? control::role::prefill
             : *role == "decode" ? control::role::decode
                                 : control::role::mixed;
    w.elastic = in.flag({"elastic"}, w.role == control::role::mixed);
    w.available = in.flag({"available"}, true);
    w.total = blocks{in.whole({"total"}, 0, most_blocks, 0)};
    w.free = blocks{in.whole({"free"}, 0, w.total.count(), w.total.count())};
    w.leaving = blocks{in.whole({"leaving"}, 0, (w.total - w.free).count(), 0)};

    std::vector<control::sequence> sequences;
    for (std::size_t i = 0; i != in.size("sequences"); ++i) {
      const std::string k = std::to_string(i);
      sequences.push_back({static_cast<std::uint64_t>(in.whole({"sequences", k, "id"}, 0, std::int64_t{1} << 53)),
                           blocks{in.whole({"sequences", k, "blocks"}, 1, most_blocks)},
                           bytes{in.whole({"sequences", k, "bytes"}, 1, std::int64_t{1} << 53)}});
    }
    w.sequences_held = static_cast<std::size_t>(
        in.whole({"sequences_held"}, 0, most_blocks, static_cast<std::int64_t>(sequences.size())));
    headroom::prefill_load queue;
    for (std::size_t i = 0; i != in.size("queue"); ++i) {
      const std::string k = std::to_string(i);
      const std::int64_t prompt = in.whole({"queue", k, "prompt"}, 0, most_tokens);
      queue.join(tokens{prompt}, tokens{in.whole({"queue", k, "computed"}, 0, prompt, 0)});
    }
    // Nothing is changed by a report that is wrong.
    workers_[id] = w;
    sequences_[id] = std::move(sequences);
    queues_[id] = queue;
  }

  /// Micro: the prefill worker with the highest Phi_T.
  void route(const line& in) {
    const tokens prompt{in.whole({"prompt"}, 0, most_tokens)};
    demand_.observe(prompt);
    struct view {
      double phi;
      std::size_t requests;
    };
    std::vector<view> views;
    std::vector<std::size_t> ids;
    for (std::size_t i = 0; i != workers_.size(); ++i) {
      if (!workers_[i].available || workers_[i].role != control::role::prefill) continue;
      views.push_back({phi(i), queues_[i].requests()});
      ids.push_back(i);
    }
    nlohmann::ordered_json out{{"request", in.root().at("request")}, {"worker", nullptr}};
    if (const std::size_t best = most_free_(views); best != placement::nowhere) {
      queues_[ids[best]].join(prompt);  // Until its next report.
      out["worker"] = ids[best];
      out["phi"] = views[best].phi;
    }
    say(out);
  }

  /// Macro and meso.
  void epoch(const line& in, control::phasor& phasor) {
    const std::int64_t number = in.whole({"epoch"}, 0, std::int64_t{1} << 53);
    for (std::size_t i = 0; i != workers_.size(); ++i) {
      workers_[i].time_phi = phi(i);
      workers_[i].demand = demand_.value();
      workers_[i].sequences = sequences_[i];
    }
    const control::phasor_actions actions = phasor.epoch(workers_);
    if (const auto& c = actions.change) {
      say({{"epoch", number}, {"worker", c->worker}, {"from", to_string(c->from)}, {"to", to_string(c->to)}});
    }
    for (const control::move& m : actions.moves) {
      say({{"epoch", number},
           {"move", m.sequence},
           {"from", m.from},
           {"to", m.to},
           {"blocks", m.held.count()},
           {"bytes", m.size.count()}});
    }
  }

 private:
  [[nodiscard]] double phi(std::size_t i) const {
    return headroom::time_freeness(queues_[i], kind_.cost, kind_.budget);
  }
  static void say(const nlohmann::ordered_json& action) {
    std::cout << action.dump() << '\n';
    tool::flush_output();  // An action that is not written out has no effect.
  }

  placement::prefill_worker kind_;
  std::vector<control::worker> workers_;
  std::vector<std::vector<control::sequence>> sequences_;
  std::vector<headroom::prefill_load> queues_;
  placement::highest_phi most_free_{};
  owned_storage<headroom::reference_demand::limits> demand_storage_ = storage_for<headroom::reference_demand>({});
  arena demand_memory_{demand_storage_.memory()};
  headroom::reference_demand demand_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string file = "-";
  std::size_t workers = 64;
  placement::prefill_worker kind{.cost = {.alpha = 200'704, .beta = 15.2e9},
                                 .budget = {.peak_flops = 60e12, .ttft = 0.4_s}};
  double ttft = kind.budget.ttft.seconds();
  std::int64_t block_size = 16;
  CLI::App app{"Phasor's controllers on telemetry as JSON lines; prints the actions as JSON lines."};
  app.add_option("telemetry", file, "the file to read; - is the standard input")->capture_default_str();
  app.add_option("--workers", workers, "ids are below this")->check(CLI::Range(1, 1'000'000))->capture_default_str();
  app.add_option("--alpha", kind.cost.alpha, "FLOP per squared token of a prompt")
      ->check(CLI::Range(0.0, 1e30))
      ->capture_default_str();
  app.add_option("--beta", kind.cost.beta, "FLOP per token of a prompt")
      ->check(CLI::Range(0.0, 1e30))
      ->capture_default_str();
  app.add_option("--peak", kind.budget.peak_flops, "FLOP per second of a prefill worker")
      ->check(CLI::Range(1.0, 1e30))
      ->capture_default_str();
  app.add_option("--ttft", ttft, "target, in seconds")->check(CLI::Range(1e-6, 1e6))->capture_default_str();
  app.add_option("--block-size", block_size, "tokens per block")->check(CLI::Range(1, 65536))->capture_default_str();
  return tool::run("control_plane", "fewer --workers", app, [&] {
    tool::require_values(argc, argv);
    app.parse(argc, argv);
    kind.budget.ttft = duration{ttft};
    const control::phasor::limits limits{.workers = workers, .defragment = {}};
    auto storage = storage_for<control::phasor>(limits);
    arena memory{storage.memory()};
    control::phasor phasor{memory, limits};
    cluster all{workers, kind, tokens{block_size}};

    std::ifstream opened;
    if (file != "-") opened.open(file);
    std::istream& input = file == "-" ? std::cin : opened;
    const std::string name = file == "-" ? "standard input" : file;
    if (!input) throw sim::input_error{name, {}, "a readable file", "none"};
    std::string text;
    for (std::uint64_t number = 1; std::getline(input, text); ++number) {
      if (text.find_first_not_of(" \t") == text.npos) continue;
      const line in{name, number, text};
      if (in.has("worker")) {
        all.report(in);
      } else if (in.has("request")) {
        all.route(in);
      } else if (in.has("epoch")) {
        all.epoch(in, phasor);
      } else {
        in.fail({}, "an object with \"worker\", \"request\" or \"epoch\"");
      }
    }
    if (input.bad()) throw sim::input_error{name, {}, "a readable file", std::strerror(errno)};
  });
}
