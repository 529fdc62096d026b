// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Serves a trace with real kernels under the library's schedulers; measures the device for the simulator. See
// README.md.
#include "check.hpp"
#include "profile.hpp"
#include "validate.hpp"

#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/model/profile_file.hpp>
#include <tessera/sim/report/output_file.hpp>
#include <tessera/sim/report/report.hpp>
#include <tessera/sim/report/report_json.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace {

using namespace cuda_decode;

/// What is returned where there is no device: CTest calls such a test skipped.
constexpr int exit_no_device = 77;

struct arguments {
  std::string shape = "tiny";
  std::string weights;
  std::string policies = "fcfs,round_robin,pascal";
  std::string trace;
  std::int64_t load = 0;
  double rate = 0;
  std::int64_t seed = 1;
  std::int64_t kv_blocks = 0;
  std::int64_t host_blocks = -1;
  std::int64_t block_size = 16;
  std::int64_t max_batch = 0;
  std::int64_t token_budget = 0;
  std::int64_t max_context = 0;
  std::string split = "balanced";
  bool no_graphs = false;
  std::int64_t in_flight = 1;
  bool late_stops = false;
  std::int64_t quantum = 500;
  std::int64_t demote_above = 5000;
  double time_scale = 1;
  bool quick = false;
  std::string profile;
  std::string steps;
  std::string json;
  std::string csv;
};

std::int64_t in_range(std::int64_t n, std::int64_t least, std::int64_t most, const char* option) {
  if (n < least || n > most) {
    throw sim::usage_error{fmt::format("{} must be from {} to {}, not {}", option, least, most, n)};
  }
  return n;
}
double positive(double x, const char* option) {
  if (!(x > 0 && x <= 1e9)) {
    throw sim::usage_error{fmt::format("{} must be more than 0 and at most 1e9, not {}", option, x)};
  }
  return x;
}

const model_shape& find_shape(std::string_view name) {
  std::vector<std::string_view> known;
  for (const model_shape& s : model_shapes()) {
    if (s.name == name) return s;
    known.push_back(s.name);
  }
  throw sim::usage_error{fmt::format("unknown shape {}; there are: {}", sim::shown(name), fmt::join(known, ", "))};
}

bool tiny(const arguments& a) { return a.shape == "tiny"; }

decoder_options decoder_of(const arguments& a) {
  decoder_options o;
  o.shape = find_shape(a.shape);
  // What is too large for 64 bits arrives as the largest number.
  constexpr std::int64_t most_seed = std::numeric_limits<std::int64_t>::max() - 1;
  o.seed = static_cast<std::uint64_t>(in_range(a.seed, 0, most_seed, "--seed"));
  o.weights = a.weights;
  o.block_size = static_cast<std::int32_t>(in_range(a.block_size, 16, 1024, "--block-size"));
  if (o.block_size % 16 != 0) throw sim::usage_error{"--block-size must be a multiple of 16"};
  // What the emulated device takes is host memory: a tiny model does not get all of it.
  const std::int64_t blocks = a.kv_blocks == 0 && tiny(a) ? 256 : a.kv_blocks;
  constexpr std::int64_t most = std::int64_t{1} << 24;
  o.kv_blocks = static_cast<std::size_t>(in_range(blocks, 0, most, "--kv-blocks"));
  const std::int64_t block_bytes = o.block_size * o.shape.kv_bytes_per_token();
  const std::int64_t host = a.host_blocks < 0 ? std::min<std::int64_t>((std::int64_t{4} << 30) / block_bytes, 1024)
                                              : in_range(a.host_blocks, 0, most, "--host-blocks");
  o.host_blocks = static_cast<std::size_t>(host);
  o.max_rows =
      static_cast<std::size_t>(in_range(a.max_batch == 0 ? (tiny(a) ? 8 : 256) : a.max_batch, 1, 4096, "--max-batch"));
  o.max_tokens = static_cast<std::size_t>(
      in_range(a.token_budget == 0 ? (tiny(a) ? 128 : 4096) : a.token_budget, 1, 1 << 20, "--token-budget"));
  if (o.max_tokens < o.max_rows) throw sim::usage_error{"--token-budget must not be less than --max-batch"};
  o.max_context = static_cast<std::size_t>(
      in_range(a.max_context == 0 ? (tiny(a) ? 256 : 32768) : a.max_context, 1, 1 << 20, "--max-context"));
  o.in_flight = static_cast<std::size_t>(in_range(a.in_flight, 1, 2, "--in-flight"));
  o.graphs = !a.no_graphs;
  o.split = a.split == "uniform" ? split_policy::uniform : split_policy::balanced;
  return o;
}

loop_options loop_of(const arguments& a, const decoder_options& d, const decoder_facts& facts) {
  loop_options o;
  const tokens block_size{d.block_size};
  const tokens all = block_size * static_cast<std::int64_t>(facts.kv_blocks);
  o.limits = {.requests = 65536,
              .blocks = facts.kv_blocks,
              .block_size = block_size,
              .residents = d.max_rows,
              .host_blocks = facts.host_blocks,
              .max_length = min(tokens{static_cast<std::int64_t>(d.max_context)}, all),
              .plans_in_flight = d.in_flight};
  o.step = {.max_batch = d.max_rows, .token_budget = tokens{static_cast<std::int64_t>(d.max_tokens)}};
  o.quantum = tokens{in_range(a.quantum, 1, 1 << 24, "--quantum")};
  o.demote_above = tokens{in_range(a.demote_above, 1, 1 << 24, "--demote-above")};
  o.late_stops = a.late_stops;
  o.clock = wall_clock(positive(a.time_scale, "--time-scale"));
  return o;
}

std::vector<sim::trace_row> made_up_rows(const arguments& a) {
  const std::int64_t n = in_range(a.load == 0 ? (tiny(a) ? 16 : 128) : a.load, 1, 1'000'000, "--load");
  made_up_load l{.requests = static_cast<std::size_t>(n), .rate = a.rate, .seed = static_cast<std::uint64_t>(a.seed)};
  if (tiny(a)) l.longest_prompt = 64, l.longest_reasoning = 32, l.longest_answer = 16;
  return make_rows(l);
}

std::vector<sim::trace_row> rows_of(const arguments& a) {
  if (a.rate != 0) positive(a.rate, "--rate");
  if (a.load != 0 && !a.trace.empty()) throw sim::usage_error{"--load and --trace exclude each other"};
  const std::vector<sim::trace_row> rows =
      a.trace.empty()
          ? made_up_rows(a)
          : sim::schedule_arrivals(sim::read_trace(a.trace), {.rate = a.rate > 0 ? std::optional{a.rate} : std::nullopt,
                                                              .seed = static_cast<std::uint64_t>(a.seed)});
  // The loop waits for them.
  constexpr double day = 86400;
  const double last = rows.back().arrival_s / positive(a.time_scale, "--time-scale");
  if (!(last <= day)) {
    throw sim::usage_error{fmt::format("the last of {} requests would come after {:.3g} s; at most {:g} make sense",
                                       rows.size(), last, day)};
  }
  return rows;
}

std::string format_split(const loop_result& r) {
  const step_split& s = r.split;
  if (s.steps() == 0) return {};
  std::string text = fmt::format(
      "{}: {} steps, {} tokens computed, {} of them in vain, {} preemptions, {} blocks swapped\n"
      "{:<12} {:>10} {:>10} {:>10} {:>8}\n",
      r.run.numbers.policy, s.steps(), r.computed_tokens, r.tokens_in_vain, r.preemptions, r.swapped_blocks, "",
      "total s", "mean ms", "p99 ms", "share");
  for (std::size_t i = 0; i < step_parts; ++i) {
    const auto p = static_cast<step_part>(i);
    text += fmt::format("{:<12} {:>10.4f} {:>10.4f} {:>10.4f} {:>7.2f}%\n", step_part_names[i], s.total(p),
                        s.mean(p) * 1e3, s.p99(p) * 1e3, 100 * s.share(p));
  }
  return text;
}

nlohmann::ordered_json json_of(const loop_result& r) {
  nlohmann::ordered_json j = sim::to_json(r.run.numbers);
  j["steps"] = r.split.steps();
  j["computed_tokens"] = r.computed_tokens;
  j["tokens_in_vain"] = r.tokens_in_vain;
  j["swapped_blocks"] = r.swapped_blocks;
  for (std::size_t i = 0; i < step_parts && r.split.steps() > 0; ++i) {
    const auto p = static_cast<step_part>(i);
    j["split"][std::string{step_part_names[i]}] = {{"total_s", r.split.total(p)},
                                                   {"mean_s", r.split.mean(p)},
                                                   {"p99_s", r.split.p99(p)},
                                                   {"share", r.split.share(p)}};
  }
  return j;
}

/// Something must run, or there is nothing to report.
void check_room(const std::vector<sim::trace_row>& rows, const loop_options& o) {
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (const sim::trace_row& r : rows) shortest = std::min(shortest, r.prompt_tokens + r.output_tokens);
  if (shortest - 1 > o.limits.max_length.count()) {
    throw sim::usage_error{
        fmt::format("the shortest of {} requests has {} tokens, and there is room for {}: raise --kv-blocks or "
                    "--max-context",
                    rows.size(), shortest, o.limits.max_length.count())};
  }
}

/// Files that are written at the end. Opened at once, so that an unwritable place is known before the work begins.
class output_files {
 public:
  explicit output_files(std::initializer_list<std::string> paths) {
    for (const std::string& path : paths) {
      files_.push_back(path.empty() ? nullptr : std::make_unique<sim::output_file>(path));
      for (const std::string& other : paths) {
        if (&other != &path && !path.empty() && same_file(path, other)) {
          throw sim::usage_error{fmt::format("{} is named twice", path)};
        }
      }
    }
  }
  void write(std::size_t i, const std::string& text) {
    if (files_[i] == nullptr) return;
    files_[i]->write(text);
    files_[i]->commit();
  }

 private:
  [[nodiscard]] static bool same_file(const std::string& a, const std::string& b) {
    const auto whole = [](const std::string& path) {
      std::error_code unknown;
      return std::filesystem::weakly_canonical(std::filesystem::absolute(path, unknown), unknown);
    };
    return whole(a) == whole(b);
  }
  std::vector<std::unique_ptr<sim::output_file>> files_;
};

/// What a decoder cannot be made of is a matter of the arguments.
std::unique_ptr<decoder> open(const decoder_options& d) {
  try {
    return make_decoder(d);
  } catch (const no_device&) {
    throw;
  } catch (const device_error& e) {
    throw sim::usage_error{e.what()};
  }
}

/// A decoder that is warm, and how a loop runs on it.
struct session {
  session(const arguments& a, const decoder_options& d)
      : device{open(d)}, facts{device->facts()}, loop{loop_of(a, d, facts)}, json(to_json(facts, d)) {
    fmt::print("{} on {}{}: {} KV blocks of {} tokens, {} on the host, batches up to {}\n", d.shape.name, facts.device,
               facts.emulated ? " (its times mean nothing)" : "", facts.kv_blocks, d.block_size, facts.host_blocks,
               d.max_rows);
    if (!facts.emulated) warm_up(*device, d);
  }
  std::unique_ptr<decoder> device;
  decoder_facts facts;
  loop_options loop;
  nlohmann::ordered_json json;
};

int run(const arguments& a) {
  const auto chosen = select_compositions(a.policies);
  const decoder_options d = decoder_of(a);
  const std::vector<sim::trace_row> rows = rows_of(a);
  static_cast<void>(loop_of(a, d, {}));  // its arguments, before anything is made
  output_files files{a.json, a.csv};
  const session s{a, d};
  check_room(rows, s.loop);
  std::vector<sim::summary> numbers;
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  std::string requests{sim::csv_header()};
  for (const composition* c : chosen) {
    const loop_result r = run_trace(*c, *s.device, s.loop, rows, d.shape.vocabulary, d.seed);
    numbers.push_back(r.run.numbers);
    results.push_back(json_of(r));
    requests += sim::format_csv(r.run);
    fmt::print("\n{}", format_split(r));
  }
  fmt::print("\n{}", sim::format_table(numbers));
  files.write(0, nlohmann::ordered_json{{"decoder", s.json}, {"runs", results}}.dump(2) + "\n");
  files.write(1, requests);
  return 0;
}

int profile(const arguments& a) {
  if (a.profile.empty()) throw sim::usage_error{"profile needs --profile FILE.json, where it is written"};
  const decoder_options d = decoder_of(a);
  static_cast<void>(loop_of(a, d, {}));
  output_files files{a.profile, a.json, a.steps};
  const session s{a, d};
  const profile_result r =
      profiler{*s.device, {.name = "measured-" + d.shape.name, .decoder = d, .loop = s.loop, .quick = a.quick}}.run();
  fmt::print("{}", r.table);
  files.write(0, sim::to_json(r.profile));
  files.write(1, r.numbers.dump(2) + "\n");
  files.write(2, r.steps);
  return 0;
}

int validate(const arguments& a) {
  if (a.profile.empty()) throw sim::usage_error{"validate needs --profile FILE.json, as `profile` wrote it"};
  const auto chosen = select_compositions(a.policies);
  const sim::profile p = sim::load_profile(a.profile);
  const decoder_options d = decoder_of(a);
  if (p.model.layers != d.shape.layers || p.model.parameters != static_cast<double>(d.shape.parameters())) {
    throw sim::usage_error{fmt::format("{} is a profile of {}, not of {}", a.profile, p.model.name, d.shape.name)};
  }
  const std::vector<sim::trace_row> rows = rows_of(a);
  static_cast<void>(loop_of(a, d, {}));
  output_files files{a.json};
  const session s{a, d};
  check_room(rows, s.loop);
  std::vector<validation> all;
  for (const composition* c : chosen) {
    all.push_back(cuda_decode::validate(*c, *s.device, p, s.loop, rows, d.shape.vocabulary, d.seed));
  }
  fmt::print("\n{}", format_validations(all));
  files.write(0, nlohmann::ordered_json{{"decoder", s.json}, {"validation", to_json(all)}}.dump(2) + "\n");
  return 0;
}

int check(const arguments& a) {
  const decoder_options d = preemption_check::decoder_for(decoder_of(a));
  const std::unique_ptr<decoder> device = open(d);
  fmt::print("{} on {}\n", d.shape.name, device->facts().device);
  bool good = true;
  for (const check_result& r : preemption_check{*device, d.shape.vocabulary, d.seed}.run()) {
    good = good && r.holds();
    fmt::print("{:<40} {} preemptions, {} tokens, {} of {} sequences differ{}: {}\n", r.name, r.preemptions, r.tokens,
               r.different, preemption_check::sequences,
               r.different == 0 ? "" : fmt::format(" (by at most {:.4f} of the logits' range)", r.gap),
               r.holds() ? "good" : "WRONG");
  }
  return good ? 0 : 1;
}

/// The options that decide what the decoder is.
void add_decoder(CLI::App& app, arguments& a) {
  std::string shapes = "of the model:";
  for (const model_shape& s : model_shapes()) shapes += " " + s.name;
  app.add_option("--shape", a.shape, shapes)->capture_default_str();
  app.add_option("--weights", a.weights, "a folder with safetensors files, or such a file (default: random weights)");
  app.add_option("--seed", a.seed, "seed of all random draws")->capture_default_str();
  app.add_option("--split", a.split, "how attention cuts sequences")
      ->check(CLI::IsMember({"balanced", "uniform"}))
      ->capture_default_str();
  app.add_flag("--no-graphs", a.no_graphs, "launch every kernel of a decode step");
}
void add_sizes(CLI::App& app, arguments& a) {
  app.add_option("--kv-blocks", a.kv_blocks, "KV blocks on the device (default: what fits; tiny: 256)");
  app.add_option("--host-blocks", a.host_blocks, "KV blocks in host memory (default: 4 GiB, at most 1024)");
  app.add_option("--block-size", a.block_size, "tokens in a block, a multiple of 16")->capture_default_str();
  app.add_option("--max-batch", a.max_batch, "requests in a step (default: 256; tiny: 8)");
  app.add_option("--token-budget", a.token_budget, "tokens in a step (default: 4096; tiny: 128)");
  app.add_option("--max-context", a.max_context, "tokens of a sequence (default: 32768; tiny: 256)");
}
void add_load(CLI::App& app, arguments& a) {
  std::string names = "comma-separated, one after the other:";
  for (const composition& c : compositions()) names += fmt::format("\n{:<12} {}", c.name, c.summary);
  app.add_option("--policy", a.policies, names)->capture_default_str();
  app.add_option("--trace", a.trace, "a CSV of lengths, as replay reads it, with made-up tokens");
  app.add_option("--load", a.load, "instead: number of made-up requests (default: 128; tiny: 16)");
  app.add_option("--rate", a.rate, "mean arrivals per second (default: all at once, or as in the trace)");
  app.add_option("--quantum", a.quantum, "tokens between two turns")->capture_default_str();
  app.add_option("--demote-above", a.demote_above, "KV length above which PASCAL demotes reasoning")
      ->capture_default_str();
}

}  // namespace

int main(int argc, char** argv) {
  arguments a;
  CLI::App app{"Decodes with real kernels under the library's schedulers. Exit code 77: there is no device."};
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.require_subcommand(1);
  CLI::App& runs = *app.add_subcommand("run", "serve a trace: the table of replay, and where the steps' time went");
  CLI::App& profiles = *app.add_subcommand("profile", "measure step times; write the simulator's profile");
  CLI::App& validates = *app.add_subcommand("validate", "serve a trace, simulate it with a profile, compare");
  CLI::App& checks =
      *app.add_subcommand("check", "a preempted sequence goes on with the same tokens; else exit code 1");
  for (CLI::App* const s : {&runs, &profiles, &validates, &checks}) {
    add_decoder(*s, a);
    if (s != &checks) {
      add_sizes(*s, a);
      s->add_option("--json", a.json, "write the numbers");
    }
    if (s == &runs || s == &validates) add_load(*s, a);
  }
  runs.add_option("--csv", a.csv, "write a row per policy and request");
  runs.add_option("--time-scale", a.time_scale, "seconds that a second counts as")->capture_default_str();
  runs.add_option("--in-flight", a.in_flight, "2: plan and launch a step while another runs")->capture_default_str();
  runs.add_flag("--late-stops", a.late_stops,
                "requests end as by a stop token: the scheduler is not told their lengths");
  profiles.add_option("--profile", a.profile, "the profile to write");
  profiles.add_option("--steps", a.steps, "write the measured steps as CSV, for calibrate");
  profiles.add_flag("--quick", a.quick, "fewer points, each measured less often");
  validates.add_option("--profile", a.profile, "the profile to read");
  // An empty value, as of an unset variable in a script, must not pass for none at all.
  const CLI::Validator given{[](const std::string& value) { return std::string{value.empty() ? "needs a value" : ""}; },
                             ""};
  for (CLI::App* const s : {&runs, &profiles, &validates, &checks}) {
    for (CLI::Option* option : s->get_options()) {
      if (option->get_type_size() != 0) option->check(given);
    }
  }
  try {
    app.parse(argc, argv);
    const int result = runs.parsed()        ? run(a)
                       : profiles.parsed()  ? profile(a)
                       : validates.parsed() ? validate(a)
                                            : check(a);
    if (std::fflush(stdout) != 0) {
      throw sim::output_error{fmt::format("cannot write to standard output: {}", std::strerror(errno))};
    }
    return result;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& wrong) {
    fmt::print(stderr, "cuda_decode: {} (see --help)\n", wrong.what());
  } catch (const no_device& wrong) {
    fmt::print(stderr, "cuda_decode: {}\n", wrong.what());
    return exit_no_device;
  } catch (const device_error& wrong) {
    fmt::print(stderr, "cuda_decode: {}\n", wrong.what());
    return 1;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "cuda_decode: out of memory; take fewer --kv-blocks or --host-blocks\n");
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "cuda_decode: {}\n", wrong.what());
  }
  return sim::exit_bad_input;
}
