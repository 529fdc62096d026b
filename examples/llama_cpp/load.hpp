// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "server.hpp"

#include <tessera/sim/input/trace.hpp>
#include <tessera/sim/random.hpp>

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>

/// @file
/// What is served: prompts that people wrote, or load that is made up; and the soak test.

namespace llama_cpp {

/// A server's clock, from 0 on. With a scale, one second counts as `scale` seconds. A tiny model is a hundred times as
/// fast as a real one. To its readers it is then as slow as a real one, and needs no other targets.
///
/// It counts wall time, or the processor time of this process. With processor time a run with one thread takes what it
/// would on a machine of its own, whatever else runs. Waiting is then skipped, not slept.
class server_clock {
 public:
  enum class counts : bool { wall_time, processor_time };

  explicit server_clock(double scale = 1, counts what = counts::wall_time) : scale_{scale}, what_{what} {
    start_ = seconds();
  }
  [[nodiscard]] time_point operator()() const {
    return time_point::at_seconds(scale_ * (seconds() - start_) + skipped_);
  }
  void sleep_until(time_point t) {
    const double left = (t - (*this)()).seconds();
    if (!(left > 0)) return;
    if (what_ == counts::processor_time) {
      skipped_ += left;
    } else {
      std::this_thread::sleep_for(std::chrono::duration<double>(left / scale_));
    }
  }

 private:
  [[nodiscard]] double seconds() const {
    timespec t{};
    clock_gettime(what_ == counts::processor_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  double scale_;
  counts what_;
  double start_ = 0;
  double skipped_ = 0;
};

/// One request that will come.
struct arrival {
  double at_s = 0;
  served request;
};

/// Serves requests as they arrive, until all are read. `interrupted`: give up, all that is live is cancelled.
/// @param arrivals in order of their times; refused ones have `record.rejected` afterwards. Their addresses are kept.
template <class Clock, class Interrupted>
void serve(server& s, Clock& clock, std::list<arrival>& arrivals, Interrupted&& interrupted) {
  auto next = arrivals.begin();
  while (next != arrivals.end() || !s.idle()) {
    if (interrupted()) {
      while (!s.live().empty()) s.cancel(*s.live().back());
      return;
    }
    for (; next != arrivals.end() && !(clock() < time_point::at_seconds(next->at_s)); ++next) {
      static_cast<void>(s.submit(next->request));
    }
    const bool ran = s.step();
    s.deliver();
    if (ran || s.idle()) {
      if (!ran && next != arrivals.end()) clock.sleep_until(time_point::at_seconds(next->at_s));
      continue;
    }
    time_point until = s.next_release();
    if (next != arrivals.end() && time_point::at_seconds(next->at_s) < until)
      until = time_point::at_seconds(next->at_s);
    if (until == time_point::never()) throw engine_error{"requests are live, but none can run"};
    clock.sleep_until(until);
  }
}

/// A prompt that means nothing, for load: `length` tokens of the vocabulary, the special ones left out.
inline void fill_prompt(served& r, tokens length, const model& m, sim::random_engine& rng) {
  r.sequence.resize(static_cast<std::size_t>(length.count()));
  for (llama_token& t : r.sequence) t = static_cast<llama_token>(3 + sim::uniform_below(rng, m.vocabulary_size() - 6));
}

/// The requests of a trace, with made-up prompts and the trace's lengths.
[[nodiscard]] inline std::list<arrival> load_of(std::span<const sim::trace_row> rows, const model& m,
                                                std::uint64_t seed) {
  sim::random_engine rng{seed};
  std::list<arrival> all;
  for (const sim::trace_row& row : rows) {
    arrival& a = all.emplace_back();
    a.at_s = row.arrival_s;
    a.request.id = all.size() - 1;
    a.request.fixed_length = true;
    a.request.max_output = tokens{row.output_tokens};
    // As in the simulator, an answer has at least one token.
    a.request.reasoning_budget = min(tokens{row.reasoning_tokens}, a.request.max_output - tokens{1});
    fill_prompt(a.request, tokens{row.prompt_tokens}, m, rng);
  }
  return all;
}

/// Resident memory of this process in bytes; 0 where that is not known.
[[nodiscard]] inline std::size_t resident_memory() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long long total = 0;
  unsigned long long resident = 0;
  const int read = std::fscanf(file, "%llu %llu", &total, &resident);
  static_cast<void>(std::fclose(file));
  return read == 2 ? static_cast<std::size_t>(resident) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) : 0;
}

/// How a soak test runs.
struct soak_options {
  double seconds = 0;       ///< Seconds of wall time; 0: `steps` says.
  std::uint64_t steps = 0;  ///< Steps of the server; 0: `seconds` says.
  std::uint64_t seed = 1;
  tokens longest_prompt{512};
  tokens longest_output{256};
};

/// What a soak test saw.
struct soak_result {
  std::uint64_t submitted = 0;  ///< All that were tried.
  std::uint64_t malformed = 0;  ///< Requests among them that were made to be refused.
  std::uint64_t refused = 0;    ///< These, and those that found the queue full.
  std::uint64_t finished = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t moved = 0;  ///< To another slot or context, apart from migrations at the phase change.
  double seconds = 0;
  std::size_t memory_warm = 0;  ///< Resident bytes after a fifth of the run.
  std::size_t memory_end = 0;
  server_counts counts;
  std::string wrong;  ///< The first thing that was not as it should be; empty: nothing.
};

/// A server under random load: arrivals in waves, hang-ups between and within steps, moves, and prompts that must be
/// refused. After every step the schedulers' books are compared with what llama.cpp holds. At the end everything must
/// have ended exactly once, and nothing may be in use.
class soak_test {
 public:
  soak_test(const composition& c, const model& m, const server_options& o, const soak_options& soak)
      : model_{&m}, soak_{soak}, rng_{soak.seed}, longest_{o.limits.longest()} {
    server_options hooked = o;
    hooked.token = [this](const served&, llama_token) {
      if (!hang_up_within_step_) return;
      hang_up_within_step_ = false;
      hang_up();
    };
    hooked.closed = [this](served& r) { closed(r); };
    server_ = c.make(m, hooked);
  }

  /// `report(result so far)` is called some twenty times.
  template <class Report>
  [[nodiscard]] soak_result run(Report&& report) {
    const auto started = std::chrono::steady_clock::now();
    const auto part = [&] {
      result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
      const double steps = static_cast<double>(server_->counts().steps);
      return soak_.steps != 0 ? steps / static_cast<double>(soak_.steps) : result_.seconds / soak_.seconds;
    };
    double next_report = 0.05;
    try {
      for (double done = 0; done < 1 && result_.wrong.empty(); done = part()) {
        disturb();
        server_->step();
        server_->deliver();
        check();
        if (result_.memory_warm == 0 && done >= 0.2) result_.memory_warm = resident_memory();
        if (done >= next_report) {
          next_report += 0.05;
          result_.memory_end = resident_memory();
          result_.counts = server_->counts();
          report(result_);
        }
      }
      drain();
    } catch (const engine_error& e) {
      result_.wrong = e.what();
    }
    result_.memory_end = resident_memory();
    result_.counts = server_->counts();
    const std::uint64_t ended = result_.refused + result_.finished + result_.cancelled;
    if (result_.wrong.empty() && ended != result_.submitted) {
      result_.wrong = fmt::format("{} requests came, {} ended", result_.submitted, ended);
    }
    return result_;
  }

 private:
  [[nodiscard]] bool one_in(std::uint64_t n) { return sim::uniform_below(rng_, n) == 0; }
  [[nodiscard]] std::uint64_t from_to(std::uint64_t low, std::uint64_t high) {
    return low + sim::uniform_below(rng_, high - low + 1);
  }
  /// From 1 to `most`, small ones as likely as large ones.
  [[nodiscard]] std::uint64_t any_size(tokens most) {
    const double log = sim::uniform(rng_) * std::log(static_cast<double>(most.count()));
    return static_cast<std::uint64_t>(std::exp(log));
  }

  void disturb() {
    if (one_in(200)) wave_ = from_to(0, 3 * server_->options().limits.residents * server_->options().instances);
    for (std::size_t n = 0; n < 4 && server_->live().size() < wave_; ++n) submit();
    if (one_in(50)) submit_malformed();
    if (one_in(40)) hang_up();
    if (one_in(40)) hang_up_within_step_ = true;
    if (one_in(10) && !server_->live().empty()) {
      served& r = *server_->live()[from_to(0, server_->live().size() - 1)];
      if (server_->move(r, from_to(0, server_->options().instances - 1))) ++result_.moved;
    }
  }

  void submit() {
    std::string text;
    for (std::uint64_t n = any_size(soak_.longest_prompt); n > 0; --n) text += static_cast<char>(from_to('a', 'z'));
    served& r = requests_.emplace_back();
    if (one_in(2)) r.reasoning_budget = tokens{static_cast<std::int64_t>(any_size(soak_.longest_output))};
    r.fixed_length = one_in(2);
    const tokens output{static_cast<std::int64_t>(any_size(soak_.longest_output))};
    ++result_.submitted;
    const auto refused = prepare(r, text, *model_, output, longest_);
    if (refused || !ok(server_->submit(r))) {
      ++result_.refused;
      requests_.pop_back();
    } else {
      r.id = result_.submitted;
    }
  }

  /// Prompts that are empty, not text, or too long. None may get through.
  void submit_malformed() {
    static constexpr std::string_view bad[] = {
        "", " \t\r\n ", "a\xff", "\xc3", "\xed\xa0\x80", "\xc0\xaf", "\xf5\x80\x80\x80", "ab\x80 and on", "\xe2\x82"};
    served& r = requests_.emplace_back();
    ++result_.submitted;
    ++result_.malformed;
    const std::uint64_t kind = from_to(0, std::size(bad) + 2);
    bool accepted = false;
    if (kind < std::size(bad)) {
      accepted = !prepare(r, bad[kind], *model_, tokens{8}, longest_);
    } else if (kind == std::size(bad)) {
      accepted =
          !prepare(r, std::string(static_cast<std::size_t>(longest_.count()) + 1, 'x'), *model_, tokens{8}, longest_);
    } else if (kind == std::size(bad) + 1) {
      accepted = !prepare(r, std::string(std::size_t{1} << 20, 'x'), *model_, tokens{8}, longest_);
    } else {  // what did not pass `prepare` is refused by the scheduler
      r.sequence.assign(static_cast<std::size_t>(longest_.count()), llama_token{70});
      r.max_output = tokens{2};
      accepted = ok(server_->submit(r));
    }
    if (accepted) {
      result_.wrong = "a malformed prompt was accepted";
    } else {
      ++result_.refused;
    }
    requests_.pop_back();
  }

  /// A client goes. A live one: those that are only being read go by themselves.
  void hang_up() {
    if (server_->live().empty()) return;
    static_cast<void>(server_->cancel(*server_->live()[from_to(0, server_->live().size() - 1)]));
  }

  void closed(served& r) {
    const bool finished = r.state().life == tessera::lifecycle::finished;
    ++(finished ? result_.finished : result_.cancelled);
    if (finished && r.sequence.size() != static_cast<std::size_t>((r.prompt + r.generated()).count())) {
      result_.wrong = "a sequence is not as long as the scheduler says";
    }
    if (r.slot >= 0 || !r.saved.empty()) result_.wrong = "a request ended with KV";
    const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const served& x) { return &x == &r; });
    if (found == requests_.end()) {
      result_.wrong = "a request ended twice";
    } else {
      requests_.erase(found);
    }
  }

  void check() {
    if (result_.wrong.empty()) result_.wrong = server_->inconsistency();
  }

  void drain() {
    for (int step = 0; !server_->idle() && result_.wrong.empty(); ++step) {
      if (step % 20 == 0) hang_up();
      const bool ran = server_->step();
      server_->deliver();
      check();
      if (!ran && !server_->live().empty()) result_.wrong = "requests are live, but none can run";
    }
    if (result_.wrong.empty() && server_->in_use() != server::usage{}) result_.wrong = "something is still in use";
    if (result_.wrong.empty() && !requests_.empty()) result_.wrong = "a request never ended";
  }

  const model* model_;
  soak_options soak_;
  sim::random_engine rng_;
  tokens longest_;
  std::list<served> requests_;
  std::unique_ptr<server> server_;
  std::size_t wave_ = 8;
  bool hang_up_within_step_ = false;
  soak_result result_;
};

}  // namespace llama_cpp
