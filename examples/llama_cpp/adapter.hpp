// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sampler.hpp"

#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/request/hook.hpp>

#include <llama.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// @file
/// The adapter between a scheduler's plan and llama.cpp: a plan goes in, logits come out. Everything that a port to
/// another engine has to write is here. The rest of the example is a server around it. docs/embedding.md walks through
/// it.

namespace llama_cpp {

/// What the engine keeps of a request: its tokens, and where their KV is. It names the orders that it may be served in,
/// of those that keep something about each request.
struct engine_request : tessera::request_hook_for<tessera::order::round_robin, tessera::order::two_phase> {
  std::vector<llama_token> sequence;  ///< Prompt and generated tokens.
  llama_seq_id slot = -1;             ///< Sequence id in the context while its KV is there.
  std::vector<std::uint8_t> saved;    ///< Its KV while it is swapped out, or on its way to another context.
  std::vector<llama_token> guesses;   ///< Drafts for its next step: what may follow the sequence.
  tessera::tokens drafts{};           ///< How many they are, for `tessera::draft::per_request`.
  sampling how;                       ///< How its tokens are chosen.
};

/// llama.cpp answered with something that must not happen.
class engine_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How large a context is.
struct context_options {
  std::uint32_t cells = 4096;  ///< KV cells in all. Padded to 256 (a slot, if not unified).
  std::uint32_t slots = 16;    ///< Sequences at once: not less than the scheduler's `residents`. At most 256.
  std::uint32_t batch = 512;   ///< Tokens in a step: not less than the step's `token_budget`.
  /// True: one pool of cells for all, as a block pool counts; any scheduler with `blocks * block_size <= cells` is
  /// safe. False: every slot has `cells / slots` of its own, which must cover `max_length`. Then a sequence's logits
  /// are the same to the last bit, whatever runs at the same time and wherever the sequence was moved to.
  bool unified = true;
  /// Only if unified. The CPU kernel of llama.cpp for it is faster there and rounds to 16 bits. It sums chunks of a
  /// prompt in another order than single tokens. So what is drawn at random may depend on what runs at the same time.
  bool flash_attention = true;
  int threads = 1;
};

/// Whether what was computed last can be taken back, as drafts need it: not from a recurrent state.
[[nodiscard]] inline bool takes_drafts(const llama_model* m) noexcept {
  return !llama_model_is_recurrent(m) && !llama_model_is_hybrid(m);
}

/// A llama.cpp context that runs plans. Sequences have slots from the step in which they start until they are preempted
/// or released. Its own arrays are reserved at construction; llama.cpp's, and the saved states, are allocated as it
/// goes.
class context {
 public:
  /// `model` must outlive it. @throws engine_error
  context(llama_model* model, const context_options& o) : unified_{o.unified}, slots_(o.slots, false) {
    llama_context_params p = llama_context_default_params();
    p.n_ctx = o.cells;
    p.n_batch = p.n_ubatch = o.batch;
    p.n_seq_max = o.slots;
    p.kv_unified = o.unified;
    p.swa_full = false;  // layers with a window keep no more than it
    if (!o.unified || !o.flash_attention) p.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    p.n_threads = p.n_threads_batch = o.threads;
    p.no_perf = true;
    llama_.reset(llama_init_from_model(model, p));
    if (!llama_) throw engine_error{"llama.cpp could not make a context"};
    vocabulary_ = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
    batch_ = llama_batch_init(static_cast<std::int32_t>(o.batch), 0, 1);
    order_.reserve(o.slots);
    last_.reserve(o.slots);
    first_.reserve(o.slots + 1);
    sampled_.reserve(o.batch);
  }
  ~context() { llama_batch_free(batch_); }
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  /// Runs one step: copies first, out before in, then the batch, with as many of each request's `guesses` as its entry
  /// has slots for. Afterwards `logits(i)` and `sampled(i)` belong to `plan[i]`, and `keep` is due. Sequences are saved
  /// and restored whole: for schedulers over a `block_pool`. Any block tables will do, llama.cpp has its own: so has it
  /// what `plan.copies` copies for forks. @throws engine_error
  template <class Request, class Tables>
  void run(const tessera::step_plan<Request, Tables>& plan) {
    for (const auto& t : plan.swap_out) save(*t.request);
    for (const auto& p : plan.preempted) release_slot(*p.request);
    for (const auto& t : plan.swap_in) restore(*t.request);
    for (const auto& t : plan.fetch) restore(*t.request);
    sampled_.clear();
    first_.assign(1, 0);
    last_.assign(plan.size(), -1);
    if (plan.empty()) return;

    fill_batch(plan);
    const int result = llama_decode(llama_.get(), batch_);
    if (result != 0) throw engine_error{"llama_decode answered " + std::to_string(result)};
    for (std::size_t i = 0; i < plan.size(); ++i) {
      // What holds of the drafts is what would have been sampled: the rest was computed on a wrong text.
      const auto slots = static_cast<std::size_t>(plan[i].lookahead.count());
      for (std::size_t k = 0; plan[i].samples; ++k) {
        const auto place = static_cast<std::size_t>((plan[i].first + plan[i].count).count()) + k;
        sampled_.push_back(choose(logits(i, k), plan[i].request->how, place));
        if (k == slots || sampled_.back() != plan[i].request->guesses[k]) break;
      }
      first_.push_back(sampled_.size());
    }
  }

  /// The tokens to append to the sequence of `plan[i]`: the drafts that hold, and one more. None if the entry does
  /// not sample.
  [[nodiscard]] std::span<const llama_token> sampled(std::size_t i) const noexcept {
    return std::span{sampled_}.subspan(first_[i], first_[i + 1] - first_[i]);
  }
  /// The logits from which `sampled(i)[k]` was chosen, until the next step.
  [[nodiscard]] std::span<const float> logits(std::size_t i, std::size_t k = 0) const noexcept {
    return {llama_get_logits_ith(llama_.get(), last_[i] + static_cast<std::int32_t>(k)), vocabulary_};
  }
  /// So many of its tokens have been appended to the sequence of an entry that samples: of the drafts' KV, that of the
  /// others goes. Before the plan is committed.
  template <class Request>
  void keep(const tessera::scheduled<Request>& e, std::size_t appended) {
    const auto end = e.first + e.count + tessera::tokens{static_cast<std::int64_t>(appended) - 1};
    if (end == e.first + e.count + e.lookahead) return;
    if (!llama_memory_seq_rm(llama_get_memory(llama_.get()), e.request->slot, static_cast<llama_pos>(end.count()),
                             -1)) {
      throw engine_error{"this model's memory cannot go back: it takes no drafts"};
    }
  }

  /// Copies a sequence's KV to the request: before it is evacuated to another context, and when it is swapped out.
  void save(engine_request& r) {
    r.saved.resize(llama_state_seq_get_size(llama_.get(), r.slot));
    const std::size_t size = llama_state_seq_get_data(llama_.get(), r.saved.data(), r.saved.size(), r.slot);
    if (size != r.saved.size()) throw engine_error{"llama.cpp could not save a sequence"};
  }

  /// `child` goes on as a copy of `parent`: it has the same KV, in a slot of its own. In one pool of cells they share
  /// it; where each slot has cells of its own, it is copied.
  void fork(engine_request& parent, engine_request& child) {
    if (unified_) {
      take_slot(child);
      llama_memory_seq_cp(llama_get_memory(llama_.get()), parent.slot, child.slot, -1, -1);
    } else {
      save(parent);
      child.saved = std::move(parent.saved);
      parent.saved = {};
      restore(child);
    }
  }

  /// Forgets all that is kept of a request: it has ended.
  void release(engine_request& r) {
    release_slot(r);
    r.saved = {};
  }
  /// Forgets the KV of a request in this context: it was preempted, or goes elsewhere.
  void release_slot(engine_request& r) {
    if (r.slot < 0) return;
    llama_memory_seq_rm(llama_get_memory(llama_.get()), r.slot, -1, -1);
    slots_[static_cast<std::size_t>(r.slot)] = false;
    r.slot = -1;
  }

  /// Slots in use. O(slots).
  [[nodiscard]] std::size_t slots_in_use() const { return slots_.size() - free_slots(); }
  /// Sequences of which llama.cpp still has KV: as many as `slots_in_use` between two steps. O(slots).
  [[nodiscard]] std::size_t sequences() const {
    std::size_t n = 0;
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      if (llama_memory_seq_pos_max(llama_get_memory(llama_.get()), static_cast<llama_seq_id>(s)) >= 0) ++n;
    }
    return n;
  }
  /// Tokens of a request that have KV here.
  [[nodiscard]] std::int64_t kv_length(const engine_request& r) const {
    return r.slot < 0 ? 0 : std::int64_t{llama_memory_seq_pos_max(llama_get_memory(llama_.get()), r.slot)} + 1;
  }

 private:
  struct deleter {
    void operator()(llama_context* c) const noexcept { llama_free(c); }
  };

  /// An entry is a run of positions of one sequence, and drafts behind it. Only the last one of these positions needs
  /// logits, and only if it samples; and each draft.
  template <class Request, class Tables>
  void fill_batch(const tessera::step_plan<Request, Tables>& plan) {
    // llama.cpp splits a batch where slots do not follow each other, so entries go in by slot, not by rank.
    order_.resize(plan.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    for (const std::size_t i : order_) {
      if (plan[i].request->slot >= 0) continue;
      if (plan[i].first > tessera::tokens{}) throw engine_error{"KV of another sequence is not shared"};
      take_slot(*plan[i].request);
    }
    std::sort(order_.begin(), order_.end(),
              [&](std::size_t a, std::size_t b) { return plan[a].request->slot < plan[b].request->slot; });

    batch_.n_tokens = 0;
    for (const std::size_t i : order_) {
      const auto& e = plan[i];
      const auto end = e.first + e.count;
      for (auto position = e.first; position < end + e.lookahead; position += tessera::tokens{1}) {
        const std::int32_t n = batch_.n_tokens++;
        const bool draft = position >= end;
        const auto& from = draft ? e.request->guesses : e.request->sequence;
        batch_.token[n] = from[static_cast<std::size_t>((draft ? position - end : position).count())];
        batch_.pos[n] = static_cast<llama_pos>(position.count());
        batch_.n_seq_id[n] = 1;
        batch_.seq_id[n][0] = e.request->slot;
        batch_.logits[n] = draft ? 1 : 0;
      }
      if (e.samples) {
        last_[i] = batch_.n_tokens - 1 - static_cast<std::int32_t>(e.lookahead.count());
        batch_.logits[last_[i]] = 1;
      }
    }
  }

  void restore(engine_request& r) {
    take_slot(r);
    if (llama_state_seq_set_data(llama_.get(), r.saved.data(), r.saved.size(), r.slot) != r.saved.size()) {
      throw engine_error{"llama.cpp could not restore a sequence"};
    }
    r.saved = {};
  }

  /// The first free slot: there is one, because the scheduler has no more residents than there are slots.
  void take_slot(engine_request& r) {
    const auto free = std::find(slots_.begin(), slots_.end(), false);
    if (free == slots_.end()) throw engine_error{"more residents than slots"};
    *free = true;
    r.slot = static_cast<llama_seq_id>(free - slots_.begin());
  }

  [[nodiscard]] std::size_t free_slots() const {
    return static_cast<std::size_t>(std::count(slots_.begin(), slots_.end(), false));
  }

  bool unified_;
  std::unique_ptr<llama_context, deleter> llama_;
  llama_batch batch_{};
  std::size_t vocabulary_ = 0;
  std::vector<bool> slots_;           ///< Whether each is in use.
  std::vector<std::size_t> order_;    ///< Entries of the plan by slot.
  std::vector<std::int32_t> last_;    ///< For each entry that samples, the place of its last token in the batch.
  std::vector<llama_token> sampled_;  ///< Sampled tokens of all entries,
  std::vector<std::size_t> first_;    ///< where those of each begin, and the end.
};

}  // namespace llama_cpp
