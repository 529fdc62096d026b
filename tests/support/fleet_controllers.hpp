// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// Every controller that there is, and one that does everything a controller may do.

#include <tessera/core/owned_storage.hpp>
#include <tessera/core/split_mix.hpp>
#include <tessera/cost/qoe_model.hpp>
#include <tessera/fleet/cascade.hpp>
#include <tessera/fleet/layout_controller.hpp>
#include <tessera/fleet/llumnix.hpp>
#include <tessera/fleet/placing.hpp>
#include <tessera/fleet/pools.hpp>
#include <tessera/partition/plan.hpp>
#include <tessera/placement/fill_to_level.hpp>
#include <tessera/placement/hashed.hpp>
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/least_prefill_backlog.hpp>
#include <tessera/placement/lmetric.hpp>
#include <tessera/placement/migrate_to_headroom.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/placement/pascal.hpp>
#include <tessera/placement/phi.hpp>
#include <tessera/placement/power_of_two.hpp>
#include <tessera/placement/prefix_affinity.hpp>
#include <tessera/placement/random.hpp>
#include <tessera/placement/round_robin.hpp>
#include <tessera/placement/stay_in_range.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tessera_test {

/// Does at random all that a port offers, from each of its calls. The same calls give the same actions.
class meddler final : public tessera::fleet::controller {
  using port = tessera::fleet::port;
  using replica_id = tessera::fleet::replica_id;
  using request_view = tessera::fleet::request_view;

 public:
  [[nodiscard]] tessera::fleet::reading reads() const noexcept override { return {true, true}; }
  void started(port& p) noexcept override { meddle(p, {}); }
  void joined(replica_id id, const tessera::fleet::replica&, port& p) noexcept override { meddle(p, {}, id); }
  void left(replica_id id, port& p) noexcept override { meddle(p, {}, id); }
  void reported(const tessera::fleet::view& v, port& p) noexcept override {
    if (p.age_s(v) != 0) p.note(last_, static_cast<replica_id>(v.id), "a report that has just come is old");
    meddle(p, {}, static_cast<replica_id>(v.id));
  }
  void failed(replica_id id, port& p) noexcept override { meddle(p, {}, id); }
  void arrived(const request_view& r, port& p) noexcept override {
    const auto all = p.replicas(r);
    if (all.size() != 0 && below(8) != 0) {
      const auto& v = all[below(all.size())];
      if (v.cached_tokens + v.new_prefill_tokens != r.prompt) p.note(r.id, 0, "a prompt is cached or not");
      p.place(r.id, static_cast<replica_id>(v.id));
    }
    meddle(p, r);
  }
  void first_token(const request_view& r, port& p) noexcept override { meddle(p, r); }
  void progressed(const request_view& r, port& p) noexcept override { meddle(p, r); }
  void reasoning_ended(const request_view& r, port& p) noexcept override { meddle(p, r); }
  void may_move(const request_view& r, tessera::fleet::move_reason why, port& p) noexcept override {
    p.note(r.id, r.where, to_text(why));
    meddle(p, r);
  }
  void arrived_with_kv(const request_view& r, port& p) noexcept override { meddle(p, r); }
  void move_failed(const request_view& r, port& p) noexcept override { meddle(p, r); }
  void lost(const request_view& r, port& p) noexcept override { meddle(p, r); }
  void ended(const request_view& r, port& p) noexcept override { meddle(p, r); }
  void woke(std::uint64_t alarm, port& p) noexcept override { meddle(p, {}, static_cast<replica_id>(alarm % 6)); }
  void planned(std::uint64_t plan, std::span<const tessera::fleet::assignment> layout, port& p) noexcept override {
    for (const auto& a : layout) {
      p.set_role(a.replica, a.role);
      if (a.from < a.to && tessera::blocks{} <= a.from) p.set_length_range(a.replica, a.from, a.to);
      p.set_prefill_budget(a.replica, a.prefill_budget);
    }
    meddle(p, {}, static_cast<replica_id>(plan % 6));
  }

 private:
  static const char* to_text(tessera::fleet::move_reason why) noexcept {
    using tessera::fleet::move_reason;
    return why == move_reason::answers ? "answers" : why == move_reason::outgrown ? "outgrown" : "tight";
  }
  std::uint64_t below(std::uint64_t n) noexcept {
    return tessera::detail::split_mix(state_ += tessera::detail::split_mix_step) % n;
  }
  void meddle(port& p, const request_view& r, replica_id id = 0) noexcept {
    if (r.id != tessera::fleet::no_request) last_ = r.id;
    const auto some = static_cast<replica_id>(below(6));
    switch (below(15)) {
      case 0: p.set_role(some, static_cast<tessera::control::role>(below(3))); break;
      case 1: p.set_prefill_budget(id, tessera::tokens{static_cast<std::int64_t>(below(4096))}); break;
      case 2:
        p.set_order(id, static_cast<tessera::fleet::order_parameter>(below(3)), static_cast<double>(below(9)) / 8);
        break;
      case 3: {
        const tessera::blocks from{static_cast<std::int64_t>(below(4))};
        p.set_length_range(some, from, from + tessera::blocks{static_cast<std::int64_t>(1 + below(8))});
        break;
      }
      case 4: p.wake_after(static_cast<double>(below(20)) / 4, below(100)); break;
      case 5: p.plan_async(below(1000)); break;
      case 6:
      case 14: p.cancel_move(moved_); break;
      case 7:
      case 8:
      case 9: {
        const auto d = p.where_to(r);
        if (d.replicas.size() == 0) break;
        const auto to = static_cast<replica_id>(d.replicas[below(d.replicas.size())].id);
        moved_ = r.id;
        p.move(r.id, to, below(3) == 0 ? tessera::fleet::transfer::live : tessera::fleet::transfer::stopped);
        break;
      }
      case 10: p.move(last_, some); break;
      case 11: p.place(last_, some); break;
      case 12: p.note(last_, some, "an idea"); break;
      case 13: {
        // In any order.
        std::uint64_t all = 0;
        tessera::fleet::request_id least = tessera::fleet::no_request;
        p.requests_at(some, [&](const request_view& at, bool may_move) noexcept {
          all += 3 * at.id + (may_move ? 1 : 0);
          if (may_move && at.id < least) least = at.id;
        });
        p.note(least, some, all % 2 == 0 ? "even" : "odd");
        if (least == tessera::fleet::no_request) break;
        if (ok(p.move(least, static_cast<replica_id>(below(6))))) moved_ = least;
        break;
      }
      default: break;
    }
  }

  std::uint64_t state_ = 5;
  tessera::fleet::request_id last_ = tessera::fleet::no_request;
  tessera::fleet::request_id moved_ = tessera::fleet::no_request;
};

/// A controller with memory of its own.
template <class Controller, class... Args>
[[nodiscard]] std::shared_ptr<tessera::fleet::controller> with_memory(const typename Controller::limits& limits,
                                                                      const Args&... args) {
  struct owner {
    tessera::owned_storage<typename Controller::limits> storage;
    Controller decides;
    owner(const typename Controller::limits& l, const Args&... a)
        : storage{tessera::storage_for<Controller>(l)}, decides{storage, a...} {}
  };
  const auto all = std::make_shared<owner>(limits, args...);
  return {all, &all->decides};
}

/// Calls `f(make)` for every controller that there is: `make()` gives a new one, as a `std::shared_ptr`.
/// @param block tokens of a KV block.
template <class F>
void each_controller(F f, tessera::tokens block = tessera::tokens{4}) {
  using namespace tessera;
  const auto of = [&]<class P, class M = placement::stay>(const P& p, const M& m = {}) {
    f([p, m] { return std::shared_ptr<fleet::controller>{std::make_shared<fleet::placing<P, M>>(p, m)}; });
  };
  of(placement::join_shortest_queue{});
  of(placement::least_kv{});
  of(placement::least_load{});
  of(placement::round_robin{});
  of(placement::random{});
  of(placement::power_of_two{});
  of(placement::fill_to_level<>{});
  of(placement::fill_to_level<placement::by_phi>{});
  of(placement::highest_phi{});
  of(placement::least_prefill_backlog{});
  of(placement::lmetric{});
  of(placement::prefix_affinity{});
  of(placement::bounded_hashing{});
  of(placement::dual_map{});
  of(placement::pascal_arrival{}, placement::pascal_migrate_always{});
  of(placement::pascal_arrival{}, placement::pascal_migrate_adaptively{.headroom = blocks{2}});
  of(placement::least_load{}, placement::migrate_when_tight{.headroom = blocks{4}});
  of(placement::least_load{}, placement::migrate_to_headroom{.below = 0.5, .gain = 0.05});
  of(placement::least_load{}, placement::stay_in_range{});
  f([] {
    return with_memory<fleet::llumnix>({.replicas = 6}, fleet::llumnix::config{.epoch_s = 1.5, .low = 4, .high = 5});
  });
  f([block] {
    const partition::stage stages[] = {{.from = tokens{}, .to = 4 * block, .instances = 1},
                                       {.from = 4 * block, .to = 8 * block, .instances = 1},
                                       {.from = 8 * block, .to = partition::unbounded, .instances = 1}};
    const cost::qoe_model model{{1e-2, 1e-3, 1e-6, 0, 1e-6}};
    return with_memory<fleet::cascade<>>(
        {.replicas = 6, .stages = 3, .requests = 80, .transfers = 8},
        fleet::cascade<>::config{
            .stages = stages, .refinement = {.rule = {model}, .fewest = 2}, .block_size = block, .outgoing = 2});
  });
  f([block] {
    return with_memory<fleet::pools>({.replicas = 6, .requests = 80},
                                     fleet::pools::config{.epoch_s = 0.7, .block_size = block});
  });
  f([] {
    // It plans soon, and has little room.
    struct owner {
      using controller = fleet::layout_controller<>;
      owned_storage<controller::limits> storage = storage_for<controller>({.replicas = 6, .requests = 40, .window = 8});
      controller by{storage,
                    {.placing = {.cost = {.alpha = 0.5, .beta = 2},
                                 .budget = {.peak_flops = 1000, .ttft = duration{2}},
                                 .block_size = tokens{4}},
                     .reads_prefixes = true,
                     .tight = blocks{4},
                     .first_plan = 1,
                     .first_window = 2,
                     .look_s = 0.5,
                     .patience = 4}};
    };
    const auto all = std::make_shared<owner>();
    return std::shared_ptr<fleet::controller>{all, &all->by};
  });
}

}  // namespace tessera_test
