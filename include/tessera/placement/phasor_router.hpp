// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/headroom/prefill_load.hpp>
#include <tessera/placement/phi.hpp>

TESSERA_NAMESPACE_BEGIN
namespace placement {

/// The properties of one worker's prefill queue, in its own units. Workers of different kinds may share a pool.
struct prefill_worker {
  headroom::prefill_cost cost{};      ///< Prefill cost on the worker.
  headroom::prefill_budget budget{};  ///< What it can compute within the TTFT.
};

/// Phasor's micro scale as one object. It routes each request to the prefill worker with the highest Phi_T. It keeps
/// the Phi_T of every worker up to date as requests join, progress and leave.
///
/// `route` and every change are O(log workers), whatever the lengths of the queues; nothing allocates. The queues
/// themselves are the engine's. A closed worker takes no new requests, but its requests may still progress and leave.
/// So a worker can change its role without losing count.
///
/// Source: Phasor, algorithm 1, lines 2 to 5, and appendix B.4.
class phasor_router {
 public:
  using limits = phi_index::limits;  ///< The number of workers.

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}.add<entry>(l.workers).add_bytes(phi_index::required_bytes(l)).bytes_unaligned();
  }

  /// No worker is open. O(workers).
  phasor_router(arena& memory, const limits& l) noexcept : entries_{memory.take<entry>(l.workers)}, index_{memory, l} {}

  /// Adds a worker with its properties to the pool; its queue is kept. Requires `id < workers()`, a budget above 0.
  void open(std::size_t id, const prefill_worker& worker) noexcept {
    TESSERA_ASSERT(id < index_.workers(), "no such worker");
    TESSERA_ASSERT(worker.budget.flops() > 0, "a worker has a budget");
    entries_[id].worker = worker;
    index_.set(id, phi_of(entries_[id]), entries_[id].load.requests());
  }
  /// Removes a worker from the pool: no more requests are routed to it.
  void close(std::size_t id) noexcept { index_.remove(id); }

  /// The worker that the next request goes to; `nowhere` if none is open. O(log workers).
  [[nodiscard]] std::size_t best() const noexcept { return index_.best(); }

  /// Sends a request to the best worker: joins its queue. `nowhere`, and no change, if none is open.
  std::size_t route(tokens prompt, tokens computed = {}) noexcept {
    const std::size_t id = index_.choose();
    if (id != nowhere) join(id, prompt, computed);
    return id;
  }

  /// As the members of `headroom::prefill_load`, for worker `id`.
  void join(std::size_t id, tokens prompt, tokens computed = {}) noexcept {
    at(id).load.join(prompt, computed);
    update(id);
  }
  /// A request has left worker `id`, with `computed` of its `prompt` tokens computed. O(log workers).
  void leave(std::size_t id, tokens prompt, tokens computed = {}) noexcept {
    at(id).load.leave(prompt, computed);
    update(id);
  }
  /// A prefill on worker `id` went from `from` to `to` computed tokens. O(log workers).
  void advance(std::size_t id, tokens from, tokens to) noexcept {
    at(id).load.advance(from, to);
    update(id);
  }

  /// Most workers. O(1).
  [[nodiscard]] std::size_t workers() const noexcept { return index_.workers(); }
  /// Workers that take requests. O(1).
  [[nodiscard]] std::size_t open_workers() const noexcept { return index_.size(); }
  /// Whether worker `id` takes requests. O(1).
  [[nodiscard]] bool is_open(std::size_t id) const noexcept { return index_.contains(id); }
  /// Requests in the queue of worker `id`. O(1).
  [[nodiscard]] std::size_t requests(std::size_t id) const noexcept { return at(id).load.requests(); }
  /// Phi_T of a worker, open or not. Requires: it has been open.
  [[nodiscard]] double phi(std::size_t id) const noexcept { return phi_of(at(id)); }

 private:
  struct entry {
    headroom::prefill_load load{};
    prefill_worker worker{};
  };

  [[nodiscard]] static double phi_of(const entry& e) noexcept {
    return headroom::time_freeness(e.load, e.worker.cost, e.worker.budget);
  }
  [[nodiscard]] entry& at(std::size_t id) noexcept {
    TESSERA_ASSERT(id < index_.workers(), "no such worker");
    return entries_[id];
  }
  [[nodiscard]] const entry& at(std::size_t id) const noexcept {
    TESSERA_ASSERT(id < index_.workers(), "no such worker");
    return entries_[id];
  }
  void update(std::size_t id) noexcept {
    if (index_.contains(id)) index_.set(id, phi_of(entries_[id]), entries_[id].load.requests());
  }

  entry* entries_;
  phi_index index_;
};

}  // namespace placement
TESSERA_NAMESPACE_END
