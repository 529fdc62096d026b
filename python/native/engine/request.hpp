// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gate/encoder_cache.hpp>
#include <tessera/order/earliest_due.hpp>
#include <tessera/order/paced.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pacing/token_pacer.hpp>

#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// @file
/// A request of an engine that is written in Python. It has what every order wants to know of it, and its tokens as far
/// as the prefix cache needs them. It refers to the objects by which the engine knows it.

namespace tessera_python {

namespace ts = tessera;

struct request : ts::request_hook_for<ts::order::two_phase, ts::order::ranked<>, ts::order::earliest_due<>,
                                      ts::order::paced<>, ts::order::round_robin> {
  // What a step touches: together, and small, since with hundreds of requests none of it is in the nearest cache.
  PyObject* id = nullptr;            ///< The engine's name for it.
  std::vector<std::int32_t> recent;  ///< What was in the prompt after its last full link, and all output.
  std::uint64_t last_step = 0;       ///< The latest step that it was in.
  std::int32_t place = 0;            ///< Where it stood in the latest output of the runner.
  std::int32_t known = 0;            ///< Output tokens with values that have come.
  std::int32_t longest = 0;          ///< It ends with this many output tokens.
  std::uint32_t till_full = 0;       ///< Another link of the chain of hashes is full after this many more tokens.
  std::int64_t eos = -1;
  std::int64_t end_of_reasoning = -1;
  std::int32_t client = 0;
  bool dead = false;  ///< Ended for the engine; a plan may still hold it.
  bool known_to_runner = false;
  bool has_news = true;     ///< It has started since its latest output, or lost its KV.
  bool watched = false;     ///< Its outputs are looked at in Python, and its lists are kept up to date.
  bool repetitive = false;  ///< It is asked in Python whether it repeats itself.
  bool hashes_tokens = false;
  bool has_stops = false;
  bool transfers = false;     ///< Its KV comes from another engine, or goes to one.
  bool loading = false;       ///< Its KV is on its way.
  bool in_prompt = false;     ///< The latest step that it was in has left a part of its prompt.
  bool fetches = false;       ///< What is known of its KV elsewhere is said for the present plan.
  std::uint32_t written = 0;  ///< How many of `recent` are in the lists below.
  std::uint32_t slot = 0;

  // For the orders and gates.
  double arrival = 0;  ///< When it arrived, in seconds by the engine's clock; 0 for all where that does not count.
  std::uint32_t tenant = 0;
  std::uint32_t adapter = 0;  ///< The weights that it wants beside the model's; 0: none.
  ts::tokens drafts{};        ///< How many it would have verified in its next step,
  float score = 0;
  ts::tokens expected_output{};

  // For the prefix cache.
  ts::time_point keep_until{};
  std::uint32_t kv_session = 0;
  bool releases_kv = false;
  bool is_last_turn = false;  ///< Its session has no other turn.
  double keep_s = 0;          ///< For so long its KV is kept after its end.

  /// States the hints, when it comes and when it ends. In between, it gives back what a window has passed.
  void state_hints(double now, bool ends) noexcept {
    keep_until = keep_s > 0 ? ts::time_point::at_seconds(now + keep_s) : ts::time_point{};
    releases_kv = ends && is_last_turn;
  }

  ts::token_pacer pacer{};

  std::uint64_t asked_in = 0;      ///< The time when it was last asked what of it is elsewhere,
  ts::tokens asked_with{};         ///< how many of its tokens were here,
  std::uint64_t spoilt_until = 0;  ///< Results of plans up to this one do not count: KV has not come, or is lost.

  mutable std::vector<ts::gate::encoder_input> inputs;  ///< Images and the like, in the order of their places.
  std::size_t passed = 0;                               ///< Those of them before the latest full link.
  [[nodiscard]] std::span<ts::gate::encoder_input> encoder_inputs() const noexcept { return inputs; }

  std::vector<std::int64_t> stops;
  std::vector<std::vector<std::uint64_t>> hashes;  ///< For each size of blocks: the hashes of the full blocks.
  std::span<const std::size_t> size_of_group;      ///< For each group of layers: which of these are its blocks'.
  std::uint64_t chain = 0;                         ///< A hash of the tokens in whole links, or where the chain begins.
  std::uint32_t links = 0;                         ///< Each is as long as what all sizes of blocks are multiples of.

  PyObject* guesses = nullptr;     ///< and these, where they are known when the step is planned: a list.
  PyObject* object = nullptr;      ///< The engine's request.
  PyObject* output = nullptr;      ///< Its list of output tokens.
  PyObject* everything = nullptr;  ///< Its list of all tokens.

  /// One store asks for the hashes of its blocks, another for the hashes in each of its groups.
  struct every_group {
    const request& of;
    // NOLINTBEGIN(google-explicit-constructor)
    operator std::span<const std::uint64_t>() const noexcept { return of.hashes.front(); }
    template <std::size_t Groups>
    operator std::array<std::span<const std::uint64_t>, Groups>() const noexcept {
      std::array<std::span<const std::uint64_t>, Groups> all{};
      for (std::size_t g = 0; g != of.size_of_group.size(); ++g) all[g] = of.hashes[of.size_of_group[g]];
      return all;
    }
    // NOLINTEND(google-explicit-constructor)
  };
  [[nodiscard]] every_group prefix_hashes() const noexcept { return {*this}; }

  request() = default;
  request(const request&) = delete;
  request& operator=(const request&) = delete;

  /// Has the part that a step touches fetched, long before it is needed.
  void prefetch() const noexcept {
    __builtin_prefetch(this);
    __builtin_prefetch(reinterpret_cast<const char*>(this) + 64);
    __builtin_prefetch(&id, 1);
    __builtin_prefetch(&client);
  }
  /// What these point to. Reads them.
  void prefetch_targets() const noexcept {
    __builtin_prefetch(id, 1);
    __builtin_prefetch(recent.data() + recent.size(), 1);
  }

  void release() noexcept {
    Py_CLEAR(id);
    Py_CLEAR(guesses);
    Py_CLEAR(object);
    Py_CLEAR(output);
    Py_CLEAR(everything);
  }
};

}  // namespace tessera_python
