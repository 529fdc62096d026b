// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/sim/cluster/request.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

/// @file
/// A scheduler as the simulator drives it, whatever its composition.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What an engine has to do, and what it holds.
struct engine_load {
  std::size_t waiting = 0;   ///< Requests without blocks.
  std::size_t resident = 0;  ///< Requests that hold blocks and run.
  blocks free{};             ///< Device blocks that are free.
  blocks device_held{};      ///< Device blocks that requests hold.
  blocks host_held{};        ///< Host blocks that swapped requests hold.
};

/// A scheduler behind a virtual interface: one call or two a step, so that what drives it is compiled once.
/// `engine_of<Scheduler>` is the implementation for every composition. Requests and plans are as the scheduler has
/// them, and so are the requirements.
class engine {
 public:
  using plan_type = step_plan<request>;  ///< What a step does.

  engine() = default;
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  virtual ~engine() = default;

  // Requests in and out.

  /// A new request, which its user made at `arrived`.
  virtual status submit(request& r, time_point arrived) = 0;
  /// A request that another instance gave up, with its KV.
  virtual status adopt(request& r) = 0;
  /// A request that has come so far elsewhere.
  virtual status adopt(request& r, const request_progress<seconds_clock>& from) = 0;
  /// A request leaves for another instance.
  virtual status evacuate(request& r) = 0;
  /// A resident stands aside, with its blocks.
  virtual status suspend(request& r) = 0;
  /// It goes on.
  virtual status resume(request& r) = 0;

  // A step.

  /// Decides the next step. Valid until `commit` or `abandon`, one of which follows.
  virtual const plan_type& plan(time_point now, const step_limits& limits) = 0;
  /// The step has been run.
  virtual void commit(std::span<const outcome> outcomes, time_point now) = 0;
  /// The step will not be run.
  virtual void abandon() = 0;

  // How it is.

  /// What it has to do, and what it holds. O(1).
  [[nodiscard]] virtual engine_load load() const = 0;
  /// No request is here.
  [[nodiscard]] virtual bool idle() const = 0;
  /// The requests that hold blocks and run, in the order of the discipline.
  [[nodiscard]] virtual std::span<request* const> residents() const = 0;
  /// Calls `f` for each request that waits, in the order of the discipline.
  virtual void for_each_waiting(const std::function<void(const request&)>& f) const = 0;
  /// Device blocks that a request holds. O(1).
  [[nodiscard]] virtual blocks blocks_held(const request& r) const = 0;
  /// How many of these blocks, from the first on, the prefix cache has. O(log blocks).
  [[nodiscard]] virtual std::size_t known_blocks(std::span<const std::uint64_t> hashes) const = 0;
  /// Forgets what the prefix cache has.
  virtual void forget_prefixes() = 0;
  /// Whether the order goes by what is cached. Then `look_again` brings that up to date for one request.
  [[nodiscard]] virtual bool reads_prefixes() const = 0;
  /// See `reads_prefixes`.
  virtual void look_again(request& r) = 0;

  // In words, for reports on why things happen.

  /// Why a request is not in the step that has just been planned.
  [[nodiscard]] virtual wait_reason why(const request& r) const = 0;
  /// Its place in the order, and that of its tenant.
  [[nodiscard]] virtual std::string place(const request& r) const = 0;
  /// Why the gate does not let it start.
  [[nodiscard]] virtual std::string gated(const request& r) const = 0;
  /// What the order expects of it; empty: nothing.
  [[nodiscard]] virtual std::string prediction(const request& r) const = 0;
};

/// How the engines of a cluster are made.
struct engine_maker {
  std::function<std::unique_ptr<engine>(const scheduler_limits&)> make;  ///< Makes one.
  bool shares_prefixes = false;                                          ///< They find again what is cached.
};

}  // namespace sim
TESSERA_NAMESPACE_END
