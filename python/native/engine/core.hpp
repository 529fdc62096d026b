// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "planner.hpp"
#include "record_maker.hpp"

#include <tessera/cost/learned_steps.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

/// @file
/// A scheduler that speaks vLLM's objects: its lists and dicts are built here, where it takes tens of nanoseconds a
/// request instead of a microsecond. What happens to few requests in a step is left to Python.

namespace tessera_python {

namespace nb = nanobind;

/// vLLM's classes and values that outputs are made of.
struct vocabulary {
  explicit vocabulary(const nb::dict& d);

  record_maker output;  ///< Makes an output of (id, tokens).
  nb::object status_waiting, status_loading, status_running, status_preempted, status_stopped, status_length;
  nb::object reason_stop, reason_length, reason_repetition;
  nb::object repeats;  ///< Asked of a request whether it repeats itself; sets its status if so.
  nb::object
      asks;  ///< Asked of a request that starts, with the number of its tokens that are here. Says how many
             ///< more are elsewhere (None: ask again), and whether they take longer than a step. None: not asked.
  nb::dict requests;  ///< Requests by id; a request that ends is taken out.
};

class core {
 public:
  core(const std::string& policy, const nb::dict& options, const nb::dict& words);
  ~core();
  core(const core&) = delete;
  core& operator=(const core&) = delete;

  /// A request joins. Its slot, or the word of the refusal.
  nb::object submit(nb::handle object, const nb::dict& description, double now);
  /// A request ends, whatever it does; its slot is not to be used again.
  void cancel(std::uint32_t slot);

  /// Gives an option another value, from the next step on; with two steps under way, an order's own perhaps one later.
  /// Requests keep their KV and what they have used, and take the places that they have by it. False: there is no such
  /// option. O(1), and O(requests log requests) in the next step for an option of the order.
  bool set_option(const std::string& name, double value);

  /// The next step. Up to `plans_in_flight` of them may be planned before what came of the first is known.
  nb::tuple schedule(double now, std::int64_t budget, std::int64_t max_chunk, bool admit, bool defer_prefills);
  /// Whether the next step would come too early for the engine's pipeline. A step has been taken in, and fewer than
  /// `plans_apart` steps have begun since it began: the first stage may lack its tokens.
  [[nodiscard]] bool is_early() const noexcept { return step_ + 1 < not_before_; }
  /// For each request of the list of ids, the tokens that the latest step computes: for stages that do not sample.
  [[nodiscard]] nb::object new_tokens() const { return sends_tokens_ ? new_tokens_ : nb::list(); }
  /// The drafts that it verifies: lists of tokens, by the ids of the requests that have some.
  [[nodiscard]] nb::object drafts() const { return drafts_; }
  /// Whether no request can use the drafts that are made in the latest step. Each surely ends with the step, or leaves
  /// a part of its prompt.
  [[nodiscard]] bool drafts_are_vain() const noexcept { return drafts_are_vain_; }
  /// Whether the latest step computes a part of a prompt. The last token is none, where all before it was found.
  [[nodiscard]] bool prefills() const noexcept { return prefills_; }
  /// Whether a request that holds blocks has all of its prompt, once the steps under way have been run. O(running).
  [[nodiscard]] bool decodes() const;
  /// Drafts for the step after those under way, where they are known before it is planned. They are lists of tokens,
  /// for requests with slots in `slot_of`. A request that does not decode next has no use for them.
  void take_drafts(nb::handle slot_of, nb::handle req_ids, nb::handle guesses);
  /// The loads of the latest plan: requests with KV on its way from now on. Each is (request, ids of its blocks, how
  /// many of its tokens are here already).
  [[nodiscard]] nb::object loads() const { return loads_; }
  /// Requests with less KV than they can go on with: they begin anew. Each is told of once.
  [[nodiscard]] nb::list lost() { return std::exchange(lost_, nb::list()); }
  /// The KV of `n` tokens of it has come, and no more will. It goes on as soon as a place of `residents` is free,
  /// before any other request starts. It does not in a plan that is made just after another one. The blocks of a
  /// cancelled request are free then.
  void arrived(std::uint32_t slot, std::int64_t n);
  /// A request with KV for other engines has ended, as `update` said: its blocks stay held until `drained` is told what
  /// this returns. None if it has none, or there is no room for that: its blocks are free.
  nb::object drain(std::uint32_t slot);
  void drained(std::uint64_t ticket);
  /// The same, if no engine wants the KV.
  void let_go(std::uint32_t slot);
  [[nodiscard]] std::size_t draining() const { return planner_->draining() + kept_; }
  /// Requests with KV on its way, and those that wait for a place in the runner because their KV has come.
  [[nodiscard]] std::size_t loading() const noexcept { return loading_; }
  /// Those of them that have not ended.
  [[nodiscard]] std::size_t coming() const noexcept { return loading_ - unwanted_; }

  /// Blocks that the runner makes zero before the latest step.
  [[nodiscard]] nb::object to_zero() const { return to_zero_; }

  /// What the encoder does before the latest step. For requests by id, the numbers of the inputs that it encodes. And
  /// the hashes of outputs that are dropped first. To be asked before anything else is called. O(requests in the step)
  /// if it encodes any.
  [[nodiscard]] nb::tuple encodes();
  /// All its outputs are gone.
  void forget_outputs();

  /// What the prefix cache has learnt and forgotten since this was asked last. One of ("stored", hash, group, the hash
  /// of the block before it or None, its first token, its request), ("removed", hash, group) and ("cleared",). What two
  /// blocks of a group have is told of once. To be asked after each `update`: it must be known which request has filled
  /// a block.
  nb::list events();

  /// A step in which nothing runs: the runner forgets which requests were in the step before.
  void skip() noexcept { ++step_; }
  /// What came of the oldest step that is not empty. Returns outputs by client, requests that Python must look at,
  /// requests that ended, and requests without a usable output, each with the reason. The last are cancelled.
  /// `spoilt`: slots of requests with KV that did not come. What they computed from it does not count, in this step and
  /// in those under way: they lose their KV and wait again.
  nb::tuple update(nb::handle index_of, nb::handle req_ids, nb::handle sampled, double now,
                   const std::vector<std::uint32_t>& spoilt);
  /// No prefix is known any more. Not while a step is open.
  void forget_prefixes();

  /// All KV is lost: a request that holds some waits again at its place, and no prefix is known. Returns the requests
  /// that lost theirs, or None while steps are under way.
  nb::object reset();

  /// Requests that hold blocks, by the latest plan, whether it has been run or not. O(1), O(running) while it has not.
  [[nodiscard]] std::size_t running() const;
  [[nodiscard]] std::size_t waiting() const { return live_ - running(); }
  [[nodiscard]] std::size_t live() const noexcept { return live_; }
  [[nodiscard]] bool pending() const noexcept { return !in_flight_.empty(); }
  [[nodiscard]] double usage() const;
  [[nodiscard]] std::string why(std::uint32_t slot) const;
  /// What the full blocks of a request in a group are found by, from its beginning, as far as its tokens are known.
  [[nodiscard]] std::vector<std::uint64_t> names_of(std::uint32_t slot, std::size_t group) const {
    return at(slot).hashes[size_of_group_.at(group)];
  }
  /// Tokens of a request that have KV once the steps under way have been run, if their drafts hold. O(1), O(running)
  /// while the latest plan has not been run.
  [[nodiscard]] std::int64_t computed(std::uint32_t slot) const;
  /// The engine's requests that `running` counts, except those that stand aside. They are in the order of their turns,
  /// and those that start in the latest plan come last. O(running log running), and a list.
  [[nodiscard]] nb::list residents() const;
  /// For each group the ids of the blocks that a request holds, as the runner has them.
  [[nodiscard]] nb::object blocks_of(std::uint32_t slot) const;
  /// Brings a request's lists of tokens up to date.
  void write_tokens(std::uint32_t slot);
  /// Ends everything; nothing else may be called then.
  void close();

 private:
  enum class ending { none, end_of_sequence, stop_token, length, repetition };
  struct arrival {
    request* who;
    ts::tokens there;
  };

  request& at(std::uint32_t slot);
  [[nodiscard]] const request& at(std::uint32_t slot) const;
  request& fresh_slot();
  void retire(request& r);
  void give_back(request& r);
  void forget_names(const request& r);
  void reclaim();
  void admit(const arrival& a);
  [[nodiscard]] std::size_t placed() const;
  void preempt(request& r);
  using input = std::tuple<std::uint64_t, std::int64_t, std::int64_t, std::int64_t>;  ///< Hash, size, place, length.
  static void take_inputs(request& r, const std::vector<input>& inputs);
  void note_sizes();
  void hash_prompt(request& r, nb::handle tokens, std::uint64_t salt);
  void close_link(request& r);
  [[nodiscard]] static std::uint64_t with_inputs(const request& r, std::uint64_t hash, std::int64_t begin,
                                                 std::int64_t end);
  void write_tokens(request& r);
  [[nodiscard]] ending ending_of(const request& r, std::int64_t token) const;
  [[nodiscard]] static bool computes_prompt(const request& r);
  void hold_prefills(bool defer);
  void retune();
  void note_loads();
  [[nodiscard]] plan plan_with_answers(double now, const ts::step_limits& limits);
  [[nodiscard]] bool ask();
  bool ask(request& r, ts::tokens here);
  [[nodiscard]] ts::tokens found(const request& r) const;
  void apply_answers();
  void lose(request& r);
  void note_loss(request& r);
  void note_events();
  std::pair<request*, std::size_t> filler_of(const told_events::block& b);
  [[nodiscard]] bool repeats_last_step() const;
  [[nodiscard]] bool carry_over();
  nb::tuple hand_out(nb::list fresh, nb::object resumed, nb::object all_tokens, nb::object blocks, nb::object computed,
                     nb::object outputs, nb::object preempted);
  nb::tuple hand_out_same();
  nb::tuple hand_out_anew();
  [[nodiscard]] ts::tokens prefill_budget() const;
  void note_step(double now);
  void settle_oldest(double now);
  void settle_empty(double now);
  [[nodiscard]] nb::object ids_of(const ts::scheduled<request>& e, bool all) const;
  [[nodiscard]] nb::object ids_of(std::uint32_t row, std::size_t fresh, bool all) const;
  [[nodiscard]] nb::object tokens_of(const ts::scheduled<request>& e);
  void note_zeroed(const ts::scheduled<request>& e, bool comes);
  void forget_drafts(request& r) noexcept;
  void hand_out_drafts(request& r, const ts::scheduled<request>& e);
  static PyObject* answer_of(request& r, const ts::scheduled<request>& e, nb::handle index_of, nb::handle req_ids,
                             nb::handle sampled);
  nb::object take_output(request& r, PyObject* got, double now, ts::outcome& o);

  vocabulary words_;
  settings settings_;
  std::int64_t max_model_len_ = 0;
  bool tuned_ = false;           ///< The order is to be given changed settings.
  bool whole_at_end_ = false;    ///< The lists of a request that ends have all of its tokens.
  bool sends_tokens_ = false;    ///< The engine's first stage is told of tokens in each step.
  bool second_runner_ = false;   ///< vLLM's second model runner: it takes a resumed request for a new one.
  bool paces_ = false;           ///< Its order looks at readers.
  bool ranks_prefills_ = false;  ///< It ranks by what is to compute of a prompt.
  std::uint64_t root_ = 0;
  std::int64_t lookahead_ = 0;                 ///< Most drafts of a request in a step.
  std::vector<std::int64_t> drafts_of_batch_;  ///< By the requests in the step before, if that counts: most of them.
  std::size_t hash_lookahead_ = 0;             ///< Tokens behind a block that its name covers beside its own.
  std::size_t link_ = 0;                       ///< Tokens that are hashed at a time: what divides all sizes of blocks.
  std::vector<std::size_t> sizes_;             ///< The sizes of blocks, in links.
  std::vector<std::size_t> size_of_group_;     ///< For each group: which of these its blocks have.
  bool drafts_are_known_ = true;  ///< Else the runner has them when it comes to the step: these are places.
  nb::object drafts_;             ///< The drafts of the latest step, by id.
  std::int64_t drafted_ = 0;      ///< How many drafts they are.
  bool drafts_are_vain_ = false;
  bool prefills_ = false;
  std::int64_t drafts_next_ = 0;  ///< How many the runner makes for each request in that step.
  nb::object no_guesses_;         ///< As many places as can be.
  nb::object new_tokens_;
  nb::object loads_;
  nb::list lost_;
  std::vector<std::size_t> tables_;  ///< For each of the engine's groups: how many groups here make its table.
  std::vector<bool> zeroed_;         ///< For each of the engine's groups: whether its new blocks must be zero,
  bool zeroes_ = false;              ///< and whether those of any must.
  nb::object to_zero_;               ///< The blocks that are made zero before the latest step.
  /// If it tells: names of blocks, and slots of those with their tokens. Ordered, as many requests can share a name and
  /// each must be found among them.
  std::set<std::pair<std::uint64_t, std::uint32_t>> filled_by_;
  std::unordered_map<std::uint64_t, std::size_t> group_of_;  ///< The groups of blocks that were told of; not there: 0.
  nb::list told_;
  std::size_t kept_ = 0;            ///< Ended and suspended: KV for other engines, and a step under way has them.
  std::size_t loading_ = 0;         ///< Requests with KV on its way, or that has come and they have not gone on,
  std::size_t unwanted_ = 0;        ///< such of them as have ended,
  std::vector<arrival> arrived_;    ///< and those with KV that has come, in the order in which it came.
  std::vector<request*> given_up_;  ///< Preempted before the latest plan was made.
  /// What was said of a request that starts: KV of `there` tokens can be had; if it `waits`, that is not known yet.
  struct said {
    request* who;
    ts::tokens there;
    bool later;
    bool waits;
  };
  std::vector<said> answers_;      ///< To be taken in before the next plan.
  std::vector<request*> fetches_;  ///< Requests with KV elsewhere, as far as is known for the present plan.
  std::vector<request*> waits_;    ///< Parked until the next plan: it is not known yet.
  std::uint64_t asked_ = 0;        ///< Counts the times that this is asked.
  std::uint64_t planned_ = 0;      ///< Plans that were made,
  std::uint64_t settled_ = 0;      ///< and settled.

  std::deque<request> slots_;  ///< In place for ever.
  std::vector<std::uint32_t> free_;
  /// It is gone when the core has been closed: a later caller gets an exception and no crash.
  struct until_closed {
    std::unique_ptr<planner> is;
    planner* operator->() const {
      if (is == nullptr) throw std::runtime_error("the scheduler has been shut down");
      return is.get();
    }
  };
  until_closed planner_;
  std::size_t live_ = 0;

  plan plan_{};                 ///< The latest.
  double now_ = 0;              ///< The time that was told last.
  bool open_ = false;           ///< It has been planned, and nothing has been settled since.
  std::deque<plan> in_flight_;  ///< Those that are not settled, oldest first.
  /// What each of them runs, to learn how long that takes. All except `step` is 0 where `step_s` is.
  struct timed_step {
    std::uint64_t step = 0;
    double planned = 0;
    std::size_t decodes = 0;
    ts::tokens context{};
    ts::tokens prefill{};
  };
  std::deque<timed_step> timed_;
  double last_settled_ = 0;
  ts::cost::learned_steps steps_;
  std::uint64_t step_ = 0;
  std::uint64_t not_before_ = 0;  ///< The first step that is not too early.
  std::vector<ts::outcome> outcomes_;
  std::vector<std::uint32_t> failed_;  ///< Slots of requests without a usable output, while the others' are taken in.
  std::vector<request*> leaving_;      ///< Ended while plans hold them.
  std::vector<request*> standing_;     ///< Residents with deferred prompts.

  /// A request in the latest step.
  struct member {
    const request* who;
    nb::object id;           ///< Its slot may be another one's by now.
    std::int64_t count = 0;  ///< Tokens of it.
    bool listed = false;     ///< In the list of ids: the runner knew it.
  };
  // The latest step's dict and list of ids. They are handed out again while the same requests decode. They are changed
  // in place when other requests come and go, if nothing else refers to them.
  nb::object counts_, ids_;
  std::vector<member> batch_;
  std::vector<std::size_t> gone_;  ///< Places in it.
  bool only_decodes_ = false;
};

}  // namespace tessera_python
