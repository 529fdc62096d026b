// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "loop.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// @file
/// Whether a sequence that was preempted goes on with the tokens that it would have had undisturbed.

namespace cuda_decode {

/// What one comparison found.
struct check_result {
  std::string name;
  std::uint64_t preemptions = 0;
  std::size_t tokens = 0;     ///< Tokens that were compared.
  std::size_t different = 0;  ///< Sequences with another token, each counted at its first.
  double gap = 0;             ///< The most that such a logit was below the best, as a part of the logits' range.
  bool exact = false;         ///< None may differ.
  [[nodiscard]] bool holds() const noexcept {
    return tokens > 0 && preemptions > 0 && (different == 0 || (!exact && gap <= tolerance));
  }
  /// In another batch, or as a part of a prompt, a GPU's matrix products sum in another order.
  static constexpr double tolerance = 0.02;
};

/// A decoder that keeps the logits of every token, if it is told to.
class recording_decoder final : public decoder {
 public:
  explicit recording_decoder(decoder& d) : decoder_{&d} {}
  [[nodiscard]] decoder_facts facts() const override { return decoder_->facts(); }
  void launch(const step_batch& b) override { decoder_->launch(b); }
  step_result wait() override {
    const step_result result = decoder_->wait();
    last.clear();
    for (std::size_t i = 0; records && i < result.sampled.size(); ++i) last.push_back(decoder_->logits(i));
    return result;
  }
  [[nodiscard]] std::vector<float> logits(std::size_t i) override { return decoder_->logits(i); }
  [[nodiscard]] double copy_bandwidth() override { return decoder_->copy_bandwidth(); }
  [[nodiscard]] double attention_seconds(const step_batch& b) override { return decoder_->attention_seconds(b); }
  void split(split_policy p) override { decoder_->split(p); }

  std::vector<std::vector<float>> last;  ///< Logits of each row that sampled in the last step.
  bool records = false;                  ///< Only where one step is in flight.

 private:
  decoder* decoder_;
};

/// Sequences alone, then with too few blocks under round-robin: swapped out and in, or computed again. One a step or
/// all in one batch, with one step in flight or two. `d` must have `check_decoder`'s size.
class preemption_check {
 public:
  static constexpr std::size_t sequences = 4;
  static constexpr std::int64_t prompt = 40;
  static constexpr std::int64_t output = 40;
  static constexpr std::size_t blocks_each = 5;  ///< 80 tokens, of which the last has no KV.

  /// The decoder that it needs.
  [[nodiscard]] static decoder_options decoder_for(decoder_options o) {
    o.kv_blocks = sequences * blocks_each;
    o.host_blocks = sequences * blocks_each;
    o.block_size = 16;
    o.max_rows = sequences;
    o.max_tokens = sequences * static_cast<std::size_t>(prompt + output);
    o.max_context = 128;
    o.in_flight = 2;
    return o;
  }

  preemption_check(decoder& d, std::int32_t vocabulary, std::uint64_t seed)
      : decoder_{d}, emulated_{d.facts().emulated}, vocabulary_{vocabulary}, seed_{seed} {}

  [[nodiscard]] std::vector<check_result> run() {
    logits_.resize(sequences);
    decoder_.records = true;
    for (std::size_t i = 0; i < sequences; ++i) {
      std::list<served> all = make_requests();
      auto r = std::next(all.begin(), static_cast<std::ptrdiff_t>(i));
      static_cast<void>(serve_all({&*r}, sequences * blocks_each, 0, 1, 1));
      alone_.push_back(r->sequence);
    }
    decoder_.records = false;
    // One row a step: the same matrix products as alone, so the same bits on any device.
    std::vector<check_result> results;
    results.push_back(disturbed("swapped out and in, one sequence a step", 2 * blocks_each - 2, true, 1, true));
    results.push_back(disturbed("computed again, one sequence a step", 2 * blocks_each - 2, false, 1, emulated_));
    results.push_back(disturbed("swapped out and in, in one batch", 2 * blocks_each, true, sequences, emulated_));
    results.push_back(disturbed("computed again, in one batch", 2 * blocks_each, false, sequences, emulated_));
    results.push_back(disturbed("swapped, two steps in flight", 2 * blocks_each, true, sequences, emulated_, 2));
    results.push_back(disturbed("computed again, two in flight", 2 * blocks_each, false, sequences, emulated_, 2));
    return results;
  }

 private:
  [[nodiscard]] std::list<served> make_requests() const {
    sim::random_engine rng{seed_};
    std::list<served> all;
    for (std::size_t i = 0; i < sequences; ++i) {
      served& r = all.emplace_back();
      r.id = i;
      fill_prompt(r.sequence, static_cast<std::size_t>(prompt), vocabulary_, rng);
      r.output = r.max_output = tokens{output};
    }
    return all;
  }

  std::uint64_t serve_all(std::vector<served*> requests, std::size_t blocks, std::size_t host_blocks, std::size_t batch,
                          std::size_t in_flight) {
    loop_options o;
    o.limits = {.blocks = blocks,
                .block_size = tokens{16},
                .residents = sequences,
                .host_blocks = host_blocks,
                .plans_in_flight = in_flight};
    o.step = {.max_batch = batch, .token_budget = tokens{sequences * (prompt + output)}};
    o.quantum = tokens{6};
    double time = 0;
    o.clock = {[&time] { return time += 1e-3; }, [](double) {}, [] {}};
    std::size_t place = 0;
    o.token = [&](served& r, std::int32_t) {
      if (decoder_.records) logits_[r.id].push_back(decoder_.last[place]);
      ++place;
    };
    const composition& c = *select_compositions("round_robin").front();
    const std::unique_ptr<loop> l = c.make(decoder_, o);
    for (served* r : requests) {
      if (!ok(l->submit(*r, 0))) throw device_error{"the check's sequences do not fit"};
    }
    while (!l->idle()) {
      place = 0;
      if (!l->step()) throw device_error{"the check's sequences cannot run"};
    }
    return l->preemptions();
  }

  [[nodiscard]] check_result disturbed(std::string name, std::size_t blocks, bool swap, std::size_t batch, bool exact,
                                       std::size_t in_flight = 1) {
    std::list<served> all = make_requests();
    std::vector<served*> requests;
    for (served& r : all) requests.push_back(&r);
    check_result result{.name = std::move(name)};
    result.exact = exact;
    result.preemptions = serve_all(requests, blocks, swap ? sequences * blocks_each : 0, batch, in_flight);
    for (const served& r : all) {
      const std::vector<std::int32_t>& want = alone_[r.id];
      for (std::size_t k = static_cast<std::size_t>(prompt); k < want.size(); ++k) {
        ++result.tokens;
        if (r.sequence[k] == want[k]) continue;
        // What comes after it follows from it.
        const std::vector<float>& l = logits_[r.id][k - static_cast<std::size_t>(prompt)];
        const auto [low, high] = std::minmax_element(l.begin(), l.end());
        const double below = *high - l[static_cast<std::size_t>(r.sequence[k])];
        ++result.different;
        result.gap = std::max(result.gap, below / std::max(static_cast<double>(*high - *low), 1e-30));
        break;
      }
    }
    return result;
  }

  recording_decoder decoder_;
  bool emulated_;
  std::int32_t vocabulary_;
  std::uint64_t seed_;
  std::vector<std::vector<std::int32_t>> alone_;
  std::vector<std::vector<std::vector<float>>> logits_;  ///< Logits of each sequence alone, by generated token.
};

}  // namespace cuda_decode
