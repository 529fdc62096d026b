// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Serves prompts with llama.cpp under any of the library's compositions. See docs/embedding.md.
#include "load.hpp"
#include "profile.hpp"

#include <tessera/sim/input/split_list.hpp>
#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/input/workload.hpp>
#include <tessera/sim/report/output_file.hpp>
#include <tessera/sim/report/report.hpp>
#include <tessera/sim/report/report_json.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace llama_cpp;
namespace sim = tessera::sim;

struct arguments {
  std::string policies = "pascal";
  std::string model;
  bool random_model = false;
  std::string layers = "attention";
  std::string save_model;
  std::string prompts = "-";
  std::string trace;
  std::int64_t load = 0;
  std::string write_trace;
  double rate = 0;
  std::int64_t seed = 1;
  std::int64_t instances = 1;
  std::int64_t slots = 16;
  std::int64_t kv_blocks = 256;
  std::int64_t block_size = 16;
  std::int64_t host_blocks = -1;
  std::int64_t context = 0;
  std::int64_t batch_tokens = 512;
  std::int64_t draft = 0;
  std::int64_t samples = 1;
  double temperature = 0;
  std::string kv = "unified";
  bool no_flash_attention = false;
  int threads = 1;
  int gpu_layers = 0;
  std::int64_t quantum = 500;
  std::int64_t demote_above = 5000;
  double tpot = 0.1;
  double ttfat = 0.25;
  double time_scale = 1;
  bool processor_time = false;
  std::optional<std::string> end_of_reasoning;
  std::int64_t reasoning_budget = 0;
  std::int64_t max_output = 256;
  bool show_reasoning = false;
  bool quiet = false;
  std::string json;
  std::string csv;
  std::string metrics;
  double soak = 0;
  std::string measure;
  std::string measure_steps;
};

volatile std::sig_atomic_t interrupts = 0;

std::int64_t in_range(std::int64_t n, std::int64_t least, std::int64_t most, const char* option) {
  if (n < least || n > most)
    throw sim::usage_error{fmt::format("{} must be from {} to {}, not {}", option, least, most, n)};
  return n;
}
double positive(double x, const char* option) {
  if (!(x > 0 && x <= 1e9))
    throw sim::usage_error{fmt::format("{} must be more than 0 and at most 1e9, not {}", option, x)};
  return x;
}

std::vector<const composition*> select_compositions(std::string_view names) {
  std::vector<const composition*> chosen;
  for (const std::string_view name : sim::split_list(names)) chosen.push_back(&find_composition(name));
  return chosen;
}

/// Loads the model that was asked for. A random one lives in a file only until it is loaded, unless it is to be kept.
model load_model(const arguments& a) {
  if (a.random_model == !a.model.empty()) throw sim::usage_error{"name one of --model PATH and --random-model"};
  if (!a.random_model) return model{a.model, a.gpu_layers};
  const std::filesystem::path path =
      a.save_model.empty() ? std::filesystem::temp_directory_path() / fmt::format("tessera-random-{}.gguf", getpid())
                           : std::filesystem::path{a.save_model};
  const random_shape shape{.kind = a.layers == "windows"     ? layer_kind::windows
                                   : a.layers == "recurrent" ? layer_kind::recurrent
                                                             : layer_kind::attention};
  write_random_model(path.string(), static_cast<std::uint64_t>(a.seed), shape);
  model m{path.string(), a.gpu_layers};
  if (a.save_model.empty()) std::filesystem::remove(path);
  return m;
}

server_options options_of(const arguments& a, const model& m) {
  server_options o;
  constexpr std::int64_t most = std::int64_t{1} << 24;
  o.instances = static_cast<std::size_t>(in_range(a.instances, 1, 64, "--instances"));
  o.limits.requests = 65536;
  o.limits.residents = static_cast<std::size_t>(
      in_range(a.slots, 1, static_cast<std::int64_t>(llama_max_parallel_sequences()), "--slots"));
  o.limits.block_size = tokens{in_range(a.block_size, 1, 4096, "--block-size")};
  o.limits.blocks = static_cast<std::size_t>(in_range(a.kv_blocks, 1, most / a.block_size, "--kv-blocks"));
  o.limits.host_blocks =
      static_cast<std::size_t>(a.host_blocks < 0 ? 4 * a.kv_blocks : in_range(a.host_blocks, 0, most, "--host-blocks"));
  const std::int64_t trained = llama_model_n_ctx_train(m.get());
  o.limits.max_length = tokens{
      in_range(a.context == 0 ? std::min(trained, a.kv_blocks * a.block_size) : a.context, 1, trained, "--context")};
  o.step_tokens = tokens{in_range(a.batch_tokens, a.slots, most, "--batch-tokens")};
  o.drafts = tokens{in_range(a.draft, 0, 64, "--draft")};
  if (o.drafts > tokens{} && !takes_drafts(m.get())) {
    throw sim::usage_error{"--draft: this model has a recurrent state, which cannot go back to before a refused draft"};
  }
  o.unified = a.kv == "unified";
  o.flash_attention = !a.no_flash_attention;
  o.threads = static_cast<int>(in_range(a.threads, 1, 1024, "--threads"));
  o.quantum = tokens{in_range(a.quantum, 1, most, "--quantum")};
  o.demote_above = tokens{in_range(a.demote_above, 1, most, "--demote-above")};
  o.pace = {.tpot = tessera::duration{positive(a.tpot, "--tpot")},
            .ttfat = tessera::duration{positive(a.ttfat, "--ttfat")}};
  if (a.end_of_reasoning) {
    const auto token = m.token_of(*a.end_of_reasoning);
    if (!token) {
      throw sim::usage_error{
          fmt::format("--end-of-reasoning {}: the model has no such token", sim::shown(*a.end_of_reasoning))};
    }
    o.end_of_reasoning = *token;
  } else {
    o.end_of_reasoning = m.token_of("</think>").value_or(-1);
  }
  return o;
}

server_clock clock_of(const arguments& a) {
  return server_clock{a.time_scale,
                      a.processor_time ? server_clock::counts::processor_time : server_clock::counts::wall_time};
}

/// One prompt a line.
std::string read_prompts(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>{std::cin}, std::istreambuf_iterator<char>{}};
  return sim::read_file(path);
}

/// Made-up requests that reason: lengths spread evenly over orders of magnitude.
std::vector<sim::trace_row> make_load(std::int64_t requests, double rate, std::uint64_t seed) {
  sim::random_engine rng{seed};
  const auto between = [&](double low, double high) {
    return static_cast<std::int64_t>(low * std::exp(sim::uniform(rng) * std::log(high / low)));
  };
  std::vector<sim::trace_row> rows(static_cast<std::size_t>(requests));
  double now = 0;
  for (sim::trace_row& row : rows) {
    if (rate > 0) now += sim::exponential(rng, rate);
    row.arrival_s = now;
    row.prompt_tokens = between(16, 128);
    row.reasoning_tokens = between(64, 2048);
    row.answer_tokens = between(32, 256);
    row.output_tokens = row.reasoning_tokens + row.answer_tokens;
  }
  return rows;
}

/// What one run is about: the same for every composition.
std::list<arrival> make_arrivals(const arguments& a, const model& m, const server_options& o, const std::string& text,
                                 const std::vector<sim::trace_row>& rows) {
  const auto seed = static_cast<std::uint64_t>(a.seed);
  if (!rows.empty()) return load_of(rows, m, seed);
  std::list<arrival> all;
  sim::random_engine rng{seed};
  double now = 0;
  std::uint64_t line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    ++line;
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view prompt = std::string_view{text}.substr(begin, end - begin);
    begin = end + 1;
    arrival& next = all.emplace_back();
    next.request.id = line;
    next.request.reasoning_budget = tokens{a.reasoning_budget};
    if (const auto refused = prepare(next.request, prompt, m, tokens{a.max_output}, o.limits.longest())) {
      fmt::print(stderr, "{}:{}: refused: {}\n", a.prompts == "-" ? "stdin" : a.prompts, line, *refused);
      all.pop_back();
      continue;
    }
    if (a.rate > 0) now += sim::exponential(rng, a.rate);
    next.at_s = now;
  }
  return all;
}

/// Shows what is read, and of which request it is whenever that changes.
class printer {
 public:
  printer(const model& m, bool one) : model_{&m}, one_{one} {}
  void operator()(const served& r, llama_token t) {
    if (last_ != &r) {
      if (last_ != nullptr) fmt::print("\n");
      if (!one_) fmt::print("[{}] ", r.id);
      last_ = &r;
    }
    const std::string text = model_->piece(t);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
  void end() {
    if (last_ != nullptr) fmt::print("\n");
    last_ = nullptr;
  }

 private:
  const model* model_;
  const served* last_ = nullptr;
  bool one_;
};

std::string number(double x) { return std::isnan(x) ? "-" : fmt::format("{:.3f}", x); }

void print_requests(const std::vector<const served*>& requests) {
  fmt::print("{:>6} {:>7} {:>9} {:>7} {:>9} {:>9} {:>7} {:>9} {:>6}  {}\n", "id", "prompt", "reasoning", "answer",
             "ttft", "tpot", "qoe", "preempted", "moved", "end");
  for (const served* s : requests) {
    const sim::request_record& r = s->record;
    const char* const end = r.rejected                                        ? "refused"
                            : s->state().life == tessera::lifecycle::finished ? "finished"
                                                                              : "cancelled";
    fmt::print("{:>6} {:>7} {:>9} {:>7} {:>9} {:>9} {:>7} {:>9} {:>6}  {}\n", r.id, r.prompt_tokens, r.reasoning_tokens,
               r.answer_tokens, number(r.ttft()), number(r.tpot()), number(r.qoe), r.preemptions, r.migrations, end);
  }
}

sim::run_result run(const composition& c, const model& m, server_options o, const arguments& a, const std::string& text,
                    const std::vector<sim::trace_row>& rows) {
  std::list<arrival> arrivals = make_arrivals(a, m, o, text, rows);
  // Those of a prompt follow each other.
  std::list<served> samples;
  std::vector<const served*> requests;
  for (arrival& first : arrivals) {
    const std::size_t id = first.request.id;
    for (std::int64_t i = 0; i < a.samples; ++i) {
      served& r = i == 0 ? first.request : samples.emplace_back();
      if (a.samples > 1) r.id = id * 100 + static_cast<std::size_t>(i);
      r.how = {.temperature = static_cast<float>(a.temperature),
               .seed = static_cast<std::uint64_t>(a.seed) << 32U | r.id};
      if (i != 0) first.request.samples.push_back(&r);
      requests.push_back(&r);
    }
  }
  printer show{m, requests.size() == 1};
  if (!a.quiet && rows.empty()) {
    o.read = [&](const served& r, std::span<const llama_token> released) {
      for (const llama_token t : released) show(r, t);
    };
    if (a.show_reasoning) {
      o.token = [&](const served& r, llama_token t) {
        if (r.state().phase == tessera::phase::reasoning) show(r, t);
      };
    }
  }
  sim::run_result result;
  sim::run_facts facts;
  server_clock clock = clock_of(a);
  const auto started = std::chrono::steady_clock::now();
  o.clock = [&clock] { return clock(); };
  const std::unique_ptr<server> s = c.make(m, o);
  // A scraper never sees half a file: it is replaced as a whole.
  auto due = started;
  const auto write_metrics = [&] {
    sim::output_file file{a.metrics};
    file.write(prometheus_text(s->snapshots()));
    file.commit();
    due = std::chrono::steady_clock::now() + std::chrono::seconds{1};
  };
  serve(*s, clock, arrivals, [&] {
    if (!a.metrics.empty() && std::chrono::steady_clock::now() >= due) write_metrics();
    return interrupts > 0;
  });
  if (!a.metrics.empty()) write_metrics();
  show.end();
  facts.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  if (!a.quiet) print_requests(requests);
  for (const served* r : requests) result.requests.push_back(r->record);
  const server_counts& n = s->counts();
  facts.policy = c.name;
  facts.kv_transfers = n.move_seconds;
  facts.scheduler_ns = n.scheduler_ns;
  facts.simulated_tokens = static_cast<double>(n.tokens);
  result.numbers = sim::summarize(result.requests, facts);
  if (n.steps > 0) {
    fmt::print("{}: {} steps of {:.3f} ms, {:.2f} % of it in the scheduler; {} preemptions, {} moves\n", c.name,
               n.steps, 1e3 * n.step_seconds / static_cast<double>(n.steps), 100 * n.scheduler_seconds / n.step_seconds,
               n.preemptions, n.moves);
    if (n.forks > 0) fmt::print("{}: {} of the samples began with a prompt that was there\n", c.name, n.forks);
    if (n.drafts > 0) {
      fmt::print("{}: {} of {} drafts accepted, {} tokens in {} steps\n", c.name, n.accepted, n.drafts, n.sampled,
                 n.steps);
    }
  }
  return result;
}

/// AddressSanitizer keeps what was freed for a while, so that memory grows.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool keeps_freed_memory = true;
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
constexpr bool keeps_freed_memory = true;
#  else
constexpr bool keeps_freed_memory = false;
#  endif
#else
constexpr bool keeps_freed_memory = false;
#endif

int soak(const arguments& a, const model& m, server_options o) {
  o.clock = clock_of(a);
  o.limits.requests = 3 * o.limits.residents;  // so that the queue is sometimes full
  for (const composition* c : select_compositions(a.policies)) {
    const tokens most = max(min(o.limits.longest() / 2, tokens{512}), tokens{1});
    soak_test test{*c,
                   m,
                   o,
                   {.seconds = positive(a.soak, "--soak"),
                    .seed = static_cast<std::uint64_t>(a.seed),
                    .longest_prompt = most,
                    .longest_output = most}};
    const auto report = [&](const soak_result& r) {
      fmt::print(
          "{}: {:5.0f} s, {} steps, {} requests ({} finished, {} cancelled, {} refused), {} preemptions, "
          "{} swapped in, {} moves, {} to another context, {:.1f} MiB\n",
          c->name, r.seconds, r.counts.steps, r.submitted, r.finished, r.cancelled, r.refused, r.counts.preemptions,
          r.counts.swaps_in, r.moved, r.counts.moves, static_cast<double>(r.memory_end) / (1 << 20));
      std::fflush(stdout);
    };
    const soak_result r = test.run(report);
    report(r);
    if (!r.wrong.empty()) {
      fmt::print(stderr, "llama_cpp: soak: {}\n", r.wrong);
      return 1;
    }
    // A tenth more, or what an allocator keeps: a leak of one state per request would be a hundred times that.
    if (!keeps_freed_memory && r.memory_end > r.memory_warm + r.memory_warm / 10 + (std::size_t{4} << 20)) {
      fmt::print(stderr, "llama_cpp: soak: memory grew from {} to {} bytes\n", r.memory_warm, r.memory_end);
      return 1;
    }
    fmt::print("{}: nothing was lost; memory {:.1f} MiB when warm, {:.1f} MiB at the end\n", c->name,
               static_cast<double>(r.memory_warm) / (1 << 20), static_cast<double>(r.memory_end) / (1 << 20));
  }
  return 0;
}

int run(const arguments& a) {
  const auto chosen = select_compositions(a.policies);
  in_range(a.seed, 0, std::numeric_limits<std::int64_t>::max(), "--seed");
  in_range(a.max_output, 1, sim::max_trace_tokens, "--max-output");
  in_range(a.reasoning_budget, 0, sim::max_trace_tokens, "--reasoning-budget");
  in_range(a.load, 0, 1'000'000, "--load");
  in_range(a.samples, 1, 99, "--samples");
  if (!(a.temperature >= 0 && a.temperature <= 100)) {
    throw sim::usage_error{fmt::format("--temperature must be from 0 to 100, not {}", a.temperature)};
  }
  positive(a.time_scale, "--time-scale");
  if (a.rate != 0) positive(a.rate, "--rate");
  if (a.load > 0 && !a.trace.empty()) throw sim::usage_error{"--load and --trace exclude each other"};
  if (!a.write_trace.empty() && a.load == 0) throw sim::usage_error{"--write-trace needs --load"};

  std::vector<sim::trace_row> rows;
  if (!a.trace.empty()) {
    rows = sim::schedule_arrivals(sim::read_trace(a.trace), {.rate = a.rate > 0 ? std::optional{a.rate} : std::nullopt,
                                                             .seed = static_cast<std::uint64_t>(a.seed)});
  } else if (a.load > 0) {
    rows = make_load(a.load, a.rate, static_cast<std::uint64_t>(a.seed));
  }
  if (!a.write_trace.empty()) {
    sim::output_file file{a.write_trace};
    file.write("arrival_s,prompt_tokens,output_tokens,reasoning_tokens,answer_tokens\n");
    for (const sim::trace_row& r : rows) {
      file.write(fmt::format("{:.6f},{},{},{},{}\n", r.arrival_s, r.prompt_tokens, r.output_tokens, r.reasoning_tokens,
                             r.answer_tokens));
    }
    file.commit();
  }

  const model m = load_model(a);
  server_options o = options_of(a, m);
  if (a.soak != 0) return soak(a, m, o);
  if (!a.measure.empty()) {
    sim::output_file file{a.measure};
    std::unique_ptr<sim::output_file> table;
    if (!a.measure_steps.empty()) table = std::make_unique<sim::output_file>(a.measure_steps);
    o.clock = clock_of(a);
    std::string steps;
    file.write(sim::to_json(measure_profile(m, o, "llama.cpp", &steps)));
    file.write("\n");
    if (table) {
      table->write(steps);
      table->commit();
    }
    file.commit();
    return 0;
  }
  std::string text;
  if (rows.empty()) text = read_prompts(a.prompts);
  std::unique_ptr<sim::output_file> json;
  std::unique_ptr<sim::output_file> csv;
  if (!a.json.empty()) json = std::make_unique<sim::output_file>(a.json);
  if (!a.csv.empty()) csv = std::make_unique<sim::output_file>(a.csv);
  std::vector<sim::run_result> runs;
  std::vector<sim::summary> numbers;
  for (const composition* c : chosen) {
    runs.push_back(run(*c, m, o, a, text, rows));
    numbers.push_back(runs.back().numbers);
    if (interrupts > 0) break;
  }
  fmt::print("\n{}", sim::format_table(numbers));
  if (json) {
    json->write(sim::format_json(numbers));
    json->commit();
  }
  if (csv) {
    csv->write(sim::csv_header());
    for (const sim::run_result& r : runs) csv->write(sim::format_csv(r));
    csv->commit();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  arguments a;
  CLI::App app{"Serves prompts with llama.cpp under the library's schedulers."};
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  std::string names = "comma-separated, one after the other:";
  for (const composition& c : compositions()) names += fmt::format("\n{:<12} {}", c.name, c.summary);
  app.add_option("--policy", a.policies, names)->capture_default_str();
  app.add_option("--model", a.model, "a GGUF file");
  app.add_flag("--random-model", a.random_model, "a tiny model of random weights, written at start");
  app.add_option("--layers", a.layers,
                 "of the random model: attention; windows: every other one with a sliding window (gemma3); recurrent: "
                 "every other one with a state (jamba)")
      ->check(CLI::IsMember({"attention", "windows", "recurrent"}))
      ->capture_default_str();
  app.add_option("--save-model", a.save_model, "keep the random model in this file");
  app.add_option("--prompts", a.prompts, "a file with a prompt a line; -: standard input")->capture_default_str();
  app.add_option("--trace", a.trace, "instead of prompts: a CSV of lengths, as replay reads it, with made-up tokens");
  app.add_option("--load", a.load, "instead of prompts: number of made-up requests");
  app.add_option("--write-trace", a.write_trace, "write the made-up requests as a trace for replay");
  app.add_option("--rate", a.rate, "mean arrivals per second (default: all at once, or as in the trace)");
  app.add_option("--seed", a.seed, "seed of all random draws")->capture_default_str();
  app.add_option("--max-output", a.max_output, "most tokens that a prompt may generate")->capture_default_str();
  app.add_option("--end-of-reasoning", a.end_of_reasoning,
                 "the token that ends reasoning (default: </think>, if the model has it)");
  app.add_option("--reasoning-budget", a.reasoning_budget, "tokens after which reasoning is ended; 0: never")
      ->capture_default_str();
  app.add_option("--instances", a.instances, "contexts, each with a scheduler")->capture_default_str();
  app.add_option("--slots", a.slots, "sequences in an instance at once")->capture_default_str();
  app.add_option("--kv-blocks", a.kv_blocks, "KV blocks of an instance")->capture_default_str();
  app.add_option("--block-size", a.block_size, "tokens in a KV block")->capture_default_str();
  app.add_option("--host-blocks", a.host_blocks, "KV blocks in host memory (default: four times the others)");
  app.add_option("--context", a.context, "most tokens of a sequence (default: the model's, or what the blocks hold)");
  app.add_option("--batch-tokens", a.batch_tokens, "tokens in a step; longer prompts come in chunks")
      ->capture_default_str();
  app.add_option("--samples", a.samples, "answers to each prompt, side by side; its prompt is computed once")
      ->capture_default_str();
  app.add_option("--temperature", a.temperature, "0: the most likely token; else drawn, by the seed and the place")
      ->capture_default_str();
  app.add_option("--draft", a.draft, "most tokens of each request to guess from its own text, and verify")
      ->capture_default_str();
  app.add_option("--kv", a.kv,
                 "unified: one pool for all; slots: a part for each, with results that do not depend on the batch")
      ->check(CLI::IsMember({"unified", "slots"}))
      ->capture_default_str();
  app.add_flag("--no-flash-attention", a.no_flash_attention,
               "with --kv unified: slower on a CPU, and what is drawn depends less on the batch");
  app.add_option("--threads", a.threads, "threads of a step")->capture_default_str();
  app.add_option("--gpu-layers", a.gpu_layers, "layers on a GPU, with a llama.cpp that has one")->capture_default_str();
  app.add_option("--quantum", a.quantum, "tokens between two turns")->capture_default_str();
  app.add_option("--demote-above", a.demote_above, "KV length above which PASCAL demotes reasoning")
      ->capture_default_str();
  app.add_option("--tpot", a.tpot, "seconds in which a reader takes a token")->capture_default_str();
  app.add_option("--ttfat", a.ttfat, "seconds that a reader waits for the first answering token")
      ->capture_default_str();
  app.add_option("--time-scale", a.time_scale, "seconds that a second counts as")->capture_default_str();
  app.add_flag("--processor-time", a.processor_time,
               "count the processor time of this process, not wall time: to measure on a busy machine");
  app.add_flag("--show-reasoning", a.show_reasoning, "print reasoning too, as it comes");
  app.add_flag("--quiet", a.quiet, "print the summary only");
  app.add_option("--json", a.json, "write the numbers of each policy");
  app.add_option("--csv", a.csv, "write a row per policy and request");
  app.add_option("--metrics", a.metrics,
                 "write what the schedulers have done to this file, each second, as Prometheus' text");
  app.add_option("--soak", a.soak, "seconds per policy of random load, hang-ups and malformed prompts");
  CLI::Option* const measure =
      app.add_option("--measure", a.measure, "measure step times and write them as a profile for replay");
  app.add_option("--measure-steps", a.measure_steps, "with --measure: write the steps as CSV, for calibrate")
      ->needs(measure);
  const CLI::Validator given{[](const std::string& value) { return std::string{value.empty() ? "needs a value" : ""}; },
                             ""};
  for (CLI::Option* option : app.get_options()) {
    if (option->get_type_size() != 0) option->check(given);
  }
  std::signal(SIGINT, [](int) {
    if (interrupts > 0) std::_Exit(130);
    interrupts = 1;
  });
  try {
    app.parse(argc, argv);
    return run(a);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& wrong) {
    fmt::print(stderr, "llama_cpp: {} (see --help)\n", wrong.what());
  } catch (const engine_error& wrong) {
    fmt::print(stderr, "llama_cpp: {}\n", wrong.what());
    return 1;
  } catch (const std::exception& wrong) {
    fmt::print(stderr, "llama_cpp: {}\n", wrong.what());
  }
  return sim::exit_bad_input;
}
