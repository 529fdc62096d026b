// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "planner.hpp"
#include "record_maker.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
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
  nb::object status_running, status_preempted, status_stopped, status_length;
  nb::object reason_stop, reason_length, reason_repetition;
  nb::object repeats;  ///< Asked of a request whether it repeats itself; sets its status if so.
  nb::dict requests;   ///< Requests by id, from which those who end are taken out.
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

  /// The next step. Up to `plans_in_flight` of them may be planned before what came of the first is known.
  nb::tuple schedule(double now, std::int64_t budget, std::int64_t max_chunk, bool admit, bool defer_prefills);
  /// The drafts that it verifies: lists of tokens, by the ids of those who have some.
  [[nodiscard]] nb::object drafts() const { return drafts_; }
  /// Drafts for the step after those under way, where they are known before it is planned: lists of tokens for requests
  /// whose slots `slot_of` has. Who does not decode next has no use for them.
  void take_drafts(nb::handle slot_of, nb::handle req_ids, nb::handle guesses);
  /// A step in which nothing runs: the runner forgets who was in the one before.
  void skip() noexcept { ++step_; }
  /// What came of the oldest step that anything runs in: outputs by client, those that Python must look at, and
  /// requests that ended.
  nb::tuple update(nb::handle index_of, nb::handle req_ids, nb::handle sampled, double now);

  /// All KV is lost: whoever holds some waits again at its place, and no prefix is known. The requests that lost
  /// theirs, or None while steps are under way.
  nb::object reset();

  /// Requests that hold blocks, by the latest plan, whether it has been run or not. O(1), O(running) while it has not.
  [[nodiscard]] std::size_t running() const;
  [[nodiscard]] std::size_t waiting() const { return live_ - running(); }
  [[nodiscard]] std::size_t live() const noexcept { return live_; }
  [[nodiscard]] bool pending() const noexcept { return !in_flight_.empty(); }
  [[nodiscard]] double usage() const;
  [[nodiscard]] std::string why(std::uint32_t slot) const;
  /// Block ids that a request holds.
  [[nodiscard]] std::vector<std::uint32_t> blocks_of(std::uint32_t slot) const;
  /// Brings a request's lists of tokens up to date.
  void write_tokens(std::uint32_t slot);
  /// Ends everything; nothing else may be called then.
  void close();

 private:
  enum class ending { none, end_of_sequence, stop_token, length, repetition };

  request& at(std::uint32_t slot);
  [[nodiscard]] const request& at(std::uint32_t slot) const;
  request& fresh_slot();
  void bury(request& r);
  void sweep();
  void close_block(request& r);
  void write_tokens(request& r);
  [[nodiscard]] ending ending_of(const request& r, std::int64_t token) const;
  void hold_prefills(bool defer);
  [[nodiscard]] bool repeats_last_step() const;
  [[nodiscard]] bool carry_over();
  nb::tuple hand_out(nb::list fresh, nb::object resumed, nb::object all_tokens, nb::object blocks, nb::object computed,
                     nb::object outputs, nb::object preempted);
  nb::tuple hand_out_same();
  nb::tuple hand_out_anew();
  void settle_oldest(double now);
  void settle_empty(double now);
  [[nodiscard]] nb::object ids_of(const ts::scheduled<request>& e, bool all) const;
  void forget_drafts(request& r) noexcept;
  void hand_out_drafts(request& r, const ts::scheduled<request>& e);
  nb::object take_output(request& r, PyObject* got, double now, ts::outcome& o);

  vocabulary words_;
  settings settings_;
  std::int64_t max_model_len_ = 0;
  bool whole_at_end_ = false;    ///< The lists of a request that ends have all of its tokens.
  bool second_runner_ = false;   ///< vLLM's second model runner: it takes who resumes for new.
  bool paces_ = false;           ///< Its order looks at readers.
  bool ranks_prefills_ = false;  ///< It ranks by what is to compute of a prompt.
  std::uint64_t root_ = 0;
  std::int64_t lookahead_ = 0;    ///< Most drafts of a request in a step.
  bool drafts_are_known_ = true;  ///< Else the runner has them when it comes to the step: these are places.
  nb::object drafts_;             ///< Of the latest step, by id.
  std::int64_t drafted_ = 0;      ///< How many they are.
  nb::object no_guesses_;         ///< As many places as can be.

  std::deque<request> slots_;  ///< In place for ever.
  std::vector<std::uint32_t> free_;
  std::unique_ptr<planner> planner_;
  std::size_t live_ = 0;

  plan plan_{};                 ///< The latest.
  bool open_ = false;           ///< It has been planned, and nothing has been settled since.
  std::deque<plan> in_flight_;  ///< Those that are not settled, oldest first.
  std::uint64_t step_ = 0;
  std::vector<ts::outcome> outcomes_;
  std::vector<request*> leaving_;   ///< Ended while plans hold them.
  std::vector<request*> standing_;  ///< Residents whose prompts are deferred.

  /// Somebody in the latest step.
  struct member {
    const request* who;
    nb::object id;           ///< Its slot may be another one's by now.
    std::int64_t count = 0;  ///< Tokens of it.
    bool listed = false;     ///< In the list of ids: the runner knew it.
  };
  // The latest step's dict and list of ids: handed out again while the same requests decode, and changed if others come
  // and go and nobody else has them.
  nb::object counts_, ids_;
  std::vector<member> batch_;
  std::vector<std::size_t> gone_;  ///< Places in it.
  bool only_decodes_ = false;
};

}  // namespace tessera_python
