// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "request.hpp"
#include "told_events.hpp"

#include <tessera/core/status.hpp>
#include <tessera/gate/encoder_cache.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/kv/block_table.hpp>
#include <tessera/kv/table_view.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/pipeline/reasons.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

/// @file
/// One type for schedulers of all orders and block stores, so that what surrounds them is compiled once. A virtual call
/// or two for each step cost nothing next to the Python objects of a step.

namespace tessera_python {

/// The block tables are read where they lie: an entry says how many of its row's last blocks are new.
struct tables_in_place {
  struct nothing {
    bool operator==(const nothing&) const = default;
  };
  using limits = ts::kv::block_table::limits;
  using view_type = nothing;
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& /*l*/) noexcept { return 0; }
  tables_in_place(ts::arena& /*memory*/, const limits& /*l*/) noexcept {}
  void begin() noexcept {}
  void add(ts::kv::block_table& /*table*/, std::uint32_t /*row*/, ts::tokens /*n*/, std::size_t /*fresh*/) noexcept {}
  [[nodiscard]] nothing view(const ts::kv::block_table& /*table*/) const noexcept { return {}; }
};

/// Most adapters that can be on the device at once.
inline constexpr std::size_t most_adapters = 256;

/// What an encoder has computed. Images of 32 tokens fill a cache of 16,384 with as many outputs.
using encoder_outputs = ts::gate::basic_encoder_cache<512>;

/// Tenants that are told apart; the last stands for all further ones.
inline constexpr std::size_t tenants = 64;

using plan = ts::step_plan<request, tables_in_place::view_type>;
using time_point = request::time_point;

/// What a scheduler is made of.
struct settings {
  ts::scheduler_limits limits{};
  bool caching = false;
  bool chunked_prefill = true;
  double watermark = 0;
  // Each order takes what it has a use for.
  double threshold = 120;
  double pace = 0.1;
  double margin = 1;
  double prompt_pace = 0;
  double move_pace = 0;
  std::int64_t slice = 250;
  std::int64_t quantum = 500;
  std::int64_t demote_above = 5000;
  std::int64_t young_quanta = 2;
  bool fewest_quanta_first = true;
  std::int64_t prompt_cost = 1;
  std::int64_t output_cost = 2;
  std::array<std::int64_t, tenants> weights = ts::gate::detail::equal_weights<tenants>();
  std::vector<ts::tokens> windows;  ///< For each group of layers: how many tokens a token looks at; 0: all.
  std::vector<std::size_t> spare;   ///< For each group: blocks for the states after drafts.
  std::vector<bool> in_chunks;      ///< For each group: whether its windows begin anew at multiples of their length.
  /// For each group: tokens in a block. A block as long as the longest request holds its state.
  std::vector<ts::tokens> block_sizes;
  bool pads = false;        ///< A request that starts with one token to compute has places for drafts beside it.
  ts::tokens least_left{};  ///< Tokens that a step leaves of a prompt at least, unless it ends it.
  std::int64_t prefill_budget = 0;  ///< Most tokens of prompts in a step; 0: as many as the step has room for.
  double step_s = 0;                ///< Most seconds that a step takes with prompts; 0: as long as it takes.
  std::size_t adapters = 0;         ///< Most adapters of the requests that hold blocks; 0: none wants one.
  ts::tokens encoder_budget{};      ///< Most tokens that the encoder computes in a step,
  ts::tokens encoder_cache{};       ///< and most that it keeps; 0: there is none.
  ts::tokens longest_input{};       ///< Tokens of an image that must be computed in one step; 0: no image must.
  std::size_t batch = 0;            ///< Most requests in a step.
  bool tells = false;               ///< It tells what its prefix cache learns and forgets.
  bool transfers = false;           ///< KV comes from other engines and goes to them,
  bool stores = false;              ///< or from a store, which copies blocks that are full.
};

/// In place of a window: layers keep a state, which is found again where a step has ended with a block.
inline constexpr ts::tokens state_window{2};

/// Most groups of layers that a model can have here. The layers of Gemma 3 make 7 of them, those of Bamba 11.
inline constexpr std::size_t most_groups = 16;

/// A request's blocks in one group.
struct row_of_group {
  std::span<const ts::kv::block_id> blocks;
  std::size_t first = 0;  ///< Those before it are not its own any more.
  std::size_t fresh = 0;  ///< How many at the end are new in the plan.
};

struct planner {
  planner() = default;
  planner(const planner&) = delete;
  planner& operator=(const planner&) = delete;
  virtual ~planner() = default;

  virtual ts::status submit(request& r, time_point now) = 0;
  virtual plan next(time_point now, const ts::step_limits& limits) = 0;
  virtual ts::status commit(const plan& p, std::span<const ts::outcome> outcomes, time_point now) = 0;
  virtual ts::status cancel(request& r) = 0;
  virtual ts::status finish(request& r) = 0;
  virtual ts::status preempt(request& r) = 0;
  virtual ts::status suspend(request& r) = 0;
  virtual ts::status resume(request& r) = 0;
  virtual ts::status forget_prefixes() = 0;
  /// Gives the order the parameters of `s`. `busy` while a plan is open: nothing has changed then. O(1).
  virtual ts::status tune(const settings& s) = 0;
  /// Moves a request to its place by the order's parameters. O(log n). Not while a plan is open.
  virtual void retune(request& r) = 0;
  /// What the prefix cache has learnt and forgotten since its `forget`; null if it tells nothing.
  [[nodiscard]] virtual told_events* events() { return nullptr; }
  /// The outputs of the encoder; null if there is none. What the latest plan encodes and drops is to be read before
  /// another call.
  [[nodiscard]] virtual encoder_outputs* encoder() { return nullptr; }
  /// What KV from elsewhere needs: see the scheduler's. As `unknown_request` says, not with several groups. `drain`: it
  /// has ended, and its blocks are read from elsewhere until `drained`.
  virtual ts::status loading(request& /*r*/, ts::tokens /*n*/) { return ts::status::unknown_request; }
  virtual ts::status fetching(request& /*r*/, ts::tokens /*n*/) { return ts::status::unknown_request; }
  virtual ts::status arrived(request& /*r*/, ts::tokens /*n*/) { return ts::status::unknown_request; }
  virtual ts::status park(request& /*r*/) { return ts::status::unknown_request; }
  virtual ts::status ready(request& /*r*/) { return ts::status::unknown_request; }
  virtual ts::status abandon(const plan& /*p*/) { return ts::status::unknown_request; }
  virtual ts::status drain(request& /*r*/, std::uint64_t& /*ticket*/) { return ts::status::unknown_request; }
  virtual ts::status drained(std::uint64_t /*ticket*/) { return ts::status::unknown_request; }
  /// Tokens at the beginning of its prompt that the prefix cache has now. O(blocks).
  [[nodiscard]] virtual ts::tokens cached(const request& r) const = 0;
  [[nodiscard]] virtual ts::wait_reason why(const request& r) const = 0;
  [[nodiscard]] virtual std::span<request* const> residents() const = 0;
  [[nodiscard]] virtual std::size_t suspended() const = 0;
  [[nodiscard]] virtual std::size_t draining() const = 0;
  [[nodiscard]] virtual std::size_t waiting() const = 0;
  /// A row in a group. `fresh`: blocks that are new in it, in all groups together.
  [[nodiscard]] virtual row_of_group row(std::size_t group, std::uint32_t row, std::size_t fresh) const = 0;
  /// Most tokens of a request that have KV.
  [[nodiscard]] virtual ts::tokens longest() const = 0;
  [[nodiscard]] virtual ts::blocks held() const = 0;
};

[[nodiscard]] std::unique_ptr<planner> make_fcfs(const settings& s);
[[nodiscard]] std::unique_ptr<planner> make_ranked(const settings& s);
[[nodiscard]] std::unique_ptr<planner> make_two_phase(const settings& s);
[[nodiscard]] std::unique_ptr<planner> make_earliest_due(const settings& s);
[[nodiscard]] std::unique_ptr<planner> make_paced(const settings& s);
[[nodiscard]] std::unique_ptr<planner> make_round_robin(const settings& s);
[[nodiscard]] std::unique_ptr<planner> make_vtc(const settings& s);

/// The scheduler of a policy; null if there is none of that name.
[[nodiscard]] std::unique_ptr<planner> make_planner(std::string_view policy, const settings& s);
/// The names that `make_planner` knows.
[[nodiscard]] std::span<const std::string_view> planner_names() noexcept;

}  // namespace tessera_python
