// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "decoder.hpp"

#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/request/hook.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

/// @file
/// The adapter between a scheduler's plan and a decoder with paged KV: a plan goes in, tokens come out. Everything that
/// a port to another engine of this kind has to write is here; the rest of the example is a loop around it.

namespace cuda_decode {

/// What the engine keeps of a request: its tokens. Where their KV is, the scheduler knows. It names the orders that it
/// may be served in, of those that keep something about each request.
struct engine_request : tessera::request_hook_for<tessera::order::round_robin, tessera::order::two_phase> {
  std::vector<std::int32_t> sequence;  ///< Prompt and generated tokens. Reserve it: then a step allocates nothing.
  std::int32_t sampled_at = 0;         ///< Its place among those that sample in the newest step that has it.
};

/// Runs plans on a decoder. Its arrays have their full size from construction on. At most two plans may be in flight: a
/// token that is not known yet is then one of the plan before.
class engine {
 public:
  /// `d` must outlive it, and have at least these many blocks, rows and tokens.
  engine(decoder& d, const tessera::scheduler_limits& l, const tessera::step_limits& s) : decoder_{&d} {
    rows_.reserve(l.residents);
    sampled_.reserve(l.residents);
    tokens_.reserve(static_cast<std::size_t>(s.token_budget.count()));
    const std::size_t swapped = l.blocks < l.host_blocks ? l.blocks : l.host_blocks;
    swap_out_.reserve(swapped);
    swap_in_.reserve(swapped);
    copies_.reserve(l.residents);
  }

  /// The plan as a batch: its rows in the plan's order, its block table where the scheduler keeps it. Valid until the
  /// plan is committed, or the next call.
  template <class Request>
  [[nodiscard]] step_batch batch(const tessera::step_plan<Request>& plan) {
    rows_.clear();
    tokens_.clear();
    std::int32_t samples = 0;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      const tessera::scheduled<Request>& e = plan[i];
      const std::vector<std::int32_t>& sequence = e.request->sequence;
      const auto first = static_cast<std::size_t>(e.first.count());
      const std::size_t end = first + static_cast<std::size_t>(e.count.count());
      for (std::size_t p = first; p < end; ++p) {
        // The plan before is still to sample it: the device has it by then.
        tokens_.push_back(p < sequence.size() ? sequence[p] : -1 - e.request->sampled_at);
      }
      if (e.samples) e.request->sampled_at = samples++;
      rows_.push_back(
          {static_cast<std::int32_t>(e.first.count()), static_cast<std::int32_t>(e.count.count()), e.samples});
    }
    transfer(plan.swap_out, swap_out_);
    transfer(plan.swap_in, swap_in_);
    copies_.clear();
    for (const tessera::kv::block_copy& c : plan.copies) copies_.push_back({c.from, c.to});
    return {.tokens = tokens_,
            .rows = rows_,
            .indptr = plan.tables.indptr,
            .indices = plan.tables.indices,
            .swap_out = swap_out_,
            .copies = copies_,
            .swap_in = swap_in_};
  }

  /// Enqueues the batch that `batch(plan)` made, and does not wait for it. @throws device_error: then no plan is in
  /// flight any more
  template <class Request>
  void launch(const tessera::step_plan<Request>& plan, const step_batch& b) {
    // An adopted request's KV would come from another instance. There is none.
    if (!plan.fetch.empty()) throw device_error{"KV of another instance cannot be fetched"};
    decoder_->launch(b);
  }
  /// Waits for the oldest plan in flight, which is `plan`. Afterwards `sampled(i)` belongs to `plan[i]`.
  /// @throws device_error, as `launch`
  template <class Request>
  step_times wait(const tessera::step_plan<Request>& plan) {
    const step_result result = decoder_->wait();
    sampled_.assign(plan.size(), -1);
    std::size_t next = 0;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (plan[i].samples) sampled_[i] = result.sampled[next++];
    }
    return result.times;
  }

  /// The token to append to the sequence of `plan[i]`; -1 if the entry does not sample.
  [[nodiscard]] std::int32_t sampled(std::size_t i) const noexcept { return sampled_[i]; }

 private:
  template <class Request>
  static void transfer(std::span<const tessera::kv_transfer<Request>> transfers, std::vector<block_copy>& out) {
    out.clear();
    for (const tessera::kv_transfer<Request>& t : transfers) {
      for (std::size_t k = 0; k < t.device.size(); ++k) out.push_back({t.device[k], t.host[k]});
    }
  }

  decoder* decoder_;
  std::vector<batch_row> rows_;
  std::vector<std::int32_t> tokens_;
  std::vector<block_copy> swap_out_;
  std::vector<block_copy> swap_in_;
  std::vector<device_copy> copies_;
  std::vector<std::int32_t> sampled_;  ///< Sampled token of each entry of the plan.
};

}  // namespace cuda_decode
