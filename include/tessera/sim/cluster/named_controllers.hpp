// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/flow_controller.hpp>
#include <tessera/core/clock.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/core/units.hpp>
#include <tessera/fleet/layout_controller.hpp>
#include <tessera/fleet/llumnix.hpp>
#include <tessera/fleet/placing.hpp>
#include <tessera/fleet/pools.hpp>
#include <tessera/placement/fill_to_level.hpp>
#include <tessera/placement/hashed.hpp>
#include <tessera/placement/join_shortest_queue.hpp>
#include <tessera/placement/least_kv.hpp>
#include <tessera/placement/least_load.hpp>
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
#include <tessera/sim/cluster/make_controller.hpp>
#include <tessera/sim/cluster/routing.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// @file
/// The controllers that routers in front of engines run, by name: those of `tessera.fleet` in Python, and the endpoint
/// picker. No simulated cluster is needed. To add a controller, write a line in `controllers`.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What work costs, in seconds.
struct headroom_costs {
  double prompt_square_s = 0;    ///< For each token of a prompt, times the tokens of the prompt.
  double prompt_token_s = 1e-4;  ///< For each token of a prompt.
  duration ttft{1.0};            ///< The time to first token that is aimed at.
  fleet::linear_speed decode{};  ///< A step that decodes.
};

/// What controllers are made with.
struct controller_settings {
  std::size_t replicas = 64;           ///< Their numbers are below this.
  tokens block_size{16};               ///< Tokens of a block.
  blocks tight{};                      ///< A replica with fewer free blocks gives requests away.
  blocks demand{};                     ///< Fewer free blocks than this are stranded.
  std::uint64_t seed = 1;              ///< For random choices.
  double bound = 1.25;                 ///< For affinity.
  double expected = 0;                 ///< What other routers send meanwhile; 0: as the runtime says.
  double epoch = 0;                    ///< Seconds between two decisions about roles; 0: none.
  double theta = 0.62;                 ///< For the decisions about roles.
  std::uint64_t cooldown = 20;         ///< The same, in epochs.
  std::uint64_t router = 0;            ///< Which router of how many.
  std::uint64_t routers = 1;           ///< How many.
  std::optional<std::string> moves{};  ///< How requests that run move, see `move_names`; none: as the controller does.
  std::size_t requests = 4096;         ///< Requests at a time.
  headroom_costs costs{};              ///< What work costs, for headroom.
  bool prefixes = false;               ///< Requests share prefixes, for headroom.
};

/// The names of `controller_settings::moves`.
inline constexpr std::string_view move_names[] = {"none", "when_tight", "to_headroom", "pascal", "cascade"};

namespace detail {

// -- placements that are of routers only

/// Stages by length, as replicas say of themselves: the least load among the replicas with the prompt in their range.
struct by_length : placement::least_load {};

/// The highest Phi_T of replicas that decode as well: first among those with room for the prompt, then among the
/// others. The prompt tokens that are left do not tell how long a prompt that fits nowhere waits for memory.
struct by_time {
  /// What is read of a view.
  struct left {
    double phi;
    std::size_t requests;
  };
  template <class V>
  struct all_left {
    const V& all;
    blocks needs;
    left operator[](std::size_t i) const noexcept {
      const fleet::view& v = all[i];
      // In the same order between -1 and 1.
      const double phi = v.time_phi / (1 + std::fabs(v.time_phi));
      return {v.free_blocks >= needs ? phi : phi - 2, v.requests};
    }
    [[nodiscard]] std::size_t size() const noexcept { return all.size(); }
  };
  placement::highest_phi highest{};
  blocks needs{};  ///< Blocks of the prompt that is placed.

  template <class V>
  std::size_t operator()(const V& all) noexcept {
    return highest(all_left<V>{all, needs});
  }
};

// -- by name

using any_placement =
    std::variant<placement::least_load, placement::least_kv, placement::join_shortest_queue, placement::round_robin,
                 placement::random, placement::power_of_two, placement::fill_to_level<>, placement::highest_phi,
                 placement::pascal_arrival, placement::lmetric, placement::prefix_affinity, placement::bounded_hashing,
                 placement::dual_map, by_time, by_length>;
using any_migration = std::variant<placement::stay, placement::migrate_when_tight, placement::migrate_to_headroom,
                                   placement::pascal_migrate_adaptively, placement::stay_in_range>;

/// A placement policy, and which replicas it may choose from: prompts are computed elsewhere than in the decode pool,
/// as long as there is elsewhere. Stages take what is in their range, as long as there is a stage for it.
class places_by {
 public:
  places_by(any_placement by, const controller_settings& s)
      : by_{std::move(by)}, block_size_{s.block_size}, told_{s.expected}, kept_(s.replicas) {}

  double expected = 0;  ///< What other routers send meanwhile, as the runtime says.

  [[nodiscard]] fleet::reading reads() const noexcept {
    return std::visit(
        []<class P>(const P&) {
          return fleet::reading{.phases = placement::phase_reader<P>, .prefixes = placement::prefix_reader<P>};
        },
        by_);
  }
  std::size_t operator()(const fleet::candidates<>& all, const fleet::request_view& r) noexcept {
    const blocks size = blocks_for(r.length(), block_size_);
    const auto prefills = [](const fleet::view& v) noexcept { return v.role != control::role::decode; };
    const auto any = [](const fleet::view&) noexcept { return true; };
    if (std::holds_alternative<by_length>(by_)) {
      const auto in_range = [&](const fleet::view& v) noexcept { return prefills(v) && v.from <= size && size < v.to; };
      const std::size_t k = choose(all, in_range, size);
      if (k != placement::nowhere) return k;
    }
    const std::size_t k = choose(all, prefills, size);
    return k != placement::nowhere ? k : choose(all, any, size);
  }

 private:
  struct subset {
    const fleet::candidates<>& all;
    std::span<const std::size_t> kept;
    const fleet::view& operator[](std::size_t i) const noexcept { return all[kept[i]]; }
    [[nodiscard]] std::size_t size() const noexcept { return kept.size(); }
  };
  template <class May>
  std::size_t choose(const fleet::candidates<>& all, May may, blocks size) noexcept {
    std::size_t n = 0;
    for (std::size_t i = 0; i != all.size(); ++i) {
      if (may(all[i])) kept_[n++] = i;
    }
    if (n == 0) return placement::nowhere;
    const std::size_t k = std::visit(
        [&](auto& p) noexcept {
          if constexpr (requires { p.expected; }) p.expected = told_ > 0 ? told_ : expected;
          if constexpr (requires { p.needs; }) p.needs = size;
          return p(subset{all, {kept_.data(), n}});
        },
        by_);
    return k < n ? kept_[k] : placement::nowhere;
  }

  any_placement by_;
  tokens block_size_;
  double told_;
  std::vector<std::size_t> kept_;
};

/// A migration policy. A request that decodes at a prefill replica goes on at the replica of another role with the
/// least load, among those with room. All others follow the policy.
struct moves_by {
  any_migration by{};

  std::size_t operator()(const fleet::candidates<>& all, std::size_t current, blocks grows, blocks moves) noexcept {
    if (all[current].role != control::role::prefill) {
      return std::visit([&](auto& m) noexcept { return m(all, current, grows, moves); }, by);
    }
    std::size_t best = current;
    const auto load = [&](std::size_t i) noexcept { return all[i].kv_held + all[i].waiting_blocks; };
    for (std::size_t i = 0; i != all.size(); ++i) {
      if (i != current && (best == current || load(i) < load(best))) best = i;
    }
    return best;
  }
};

using placing_by_name = fleet::placing<places_by, moves_by>;

/// A placement and a migration policy, and once an epoch Phasor's macro controller. That gives `elastic` replicas other
/// roles, by what the prefill and the decode pool have left. A replica that changes counts as when it was last shown.
class with_roles final : public fleet::controller {
 public:
  with_roles(placing_by_name places, const controller_settings& s)
      : places_{std::move(places)},
        epoch_s_{s.epoch},
        demand_{s.demand},
        known_(s.replicas),
        workers_(s.replicas),
        memory_(control::flow_controller::required_bytes({.workers = s.replicas})) {
    arena arena{memory_};
    decides_.emplace(arena, control::flow_controller::limits{.workers = s.replicas},
                     control::flow_controller::settings{.theta = s.theta, .cooldown = s.cooldown});
  }

  [[nodiscard]] fleet::reading reads() const noexcept override { return places_.reads(); }
  void started(fleet::port& p) noexcept override { p.wake_after(epoch_s_, 0); }
  void joined(fleet::replica_id id, const fleet::replica& what, fleet::port&) noexcept override {
    known_[id] = {.elastic = what.elastic, .changes = false, .last = {}};
  }
  void left(fleet::replica_id id, fleet::port&) noexcept override { known_[id].changes = false; }
  void failed(fleet::replica_id id, fleet::port&) noexcept override { known_[id].changes = false; }
  void arrived(const fleet::request_view& r, fleet::port& p) noexcept override { places_.arrived(r, p); }
  void may_move(const fleet::request_view& r, fleet::move_reason why, fleet::port& p) noexcept override {
    places_.may_move(r, why, p);
  }
  void woke(std::uint64_t /*alarm*/, fleet::port& p) noexcept override {
    const fleet::candidates<> open = p.replicas(fleet::request_view{});
    for (control::worker& w : workers_) w.available = false;
    for (std::size_t i = 0; i != open.size(); ++i) {
      known& k = known_[open[i].id];
      k.last = open[i];
      k.changes = false;
      show(k);
    }
    for (const known& k : known_) {
      if (k.changes) show(k);
    }
    if (const auto change = decides_->decide(workers_)) {
      known& k = known_[change->worker];
      k.changes = ok(p.set_role(change->worker, change->to));
      if (k.changes) k.last.role = change->to;
    }
    p.wake_after(epoch_s_, 0);
  }

 private:
  struct known {
    bool elastic = false;
    bool changes = false;
    fleet::view last{};
  };
  void show(const known& k) noexcept {
    const fleet::view& v = k.last;
    control::worker& w = workers_[v.id];
    // A mixed replica that keeps its role is in no pool.
    const bool counts = k.elastic || v.role != control::role::mixed;
    w = {.role = v.role, .elastic = k.elastic, .available = counts, .changing = k.changes};
    w.time_phi = v.time_phi;
    w.total = v.capacity;
    w.free = v.free_blocks;
    w.queued = v.waiting_blocks;
    w.demand = demand_;
    w.sequences_held = v.requests;
  }

  placing_by_name places_;
  double epoch_s_;
  blocks demand_;
  std::vector<known> known_;
  std::vector<control::worker> workers_;
  std::vector<std::byte> memory_;
  std::optional<control::flow_controller> decides_;
};

// -- to make them

/// What controllers do besides placing.
inline constexpr fleet::action_kind only_moves[] = {fleet::action_kind::move};
inline constexpr fleet::action_kind moves_and_roles[] = {fleet::action_kind::move, fleet::action_kind::set_role};
inline constexpr fleet::action_kind whole_layout[] = {fleet::action_kind::move, fleet::action_kind::set_role,
                                                      fleet::action_kind::set_length_range,
                                                      fleet::action_kind::set_prefill_budget, fleet::action_kind::plan};

using made = std::shared_ptr<fleet::controller>;

/// The index of a name among `all`. @throws std::invalid_argument, which says what there is.
inline std::size_t index_of(std::string_view name, std::span<const std::string_view> all, const char* what) {
  std::string allowed;
  for (std::size_t i = 0; i != all.size(); ++i) {
    if (all[i] == name) return i;
    allowed.append(i == 0 ? "" : ", ").append(all[i]);
  }
  throw std::invalid_argument{std::string{what} + " is one of " + allowed + ", not " + std::string{name}};
}

/// A placement policy by name, with pools. @param moves how requests move where the settings do not say.
inline made make_placing(any_placement by, const controller_settings& s, std::optional<any_migration> moves = {}) {
  const any_migration movers[] = {
      placement::stay{}, placement::migrate_when_tight{.headroom = s.tight}, placement::migrate_to_headroom{},
      placement::pascal_migrate_adaptively{.headroom = s.tight}, placement::stay_in_range{}};
  if (!moves) moves = movers[s.tight > blocks{} ? 1 : 0];
  if (s.moves) moves = movers[index_of(*s.moves, move_names, "moves")];
  const placing_by_name places{places_by{std::move(by), s}, moves_by{*moves}};
  if (s.epoch > 0) return std::make_shared<with_roles>(places, s);
  return std::make_shared<placing_by_name>(places);
}
template <class Placement>
Placement seated(const controller_settings& s) {
  Placement p{};
  if constexpr (requires { p.bound; }) p.bound = s.bound;
  if constexpr (requires { p.state; }) p.state = s.seed;
  if constexpr (requires { p.draws.state; }) p.draws.state = s.seed;
  take_seat(p, {.router = s.router, .routers = s.routers, .instances = s.replicas});
  return p;
}
template <class Placement>
made place_by(const controller_settings& s) {
  return make_placing(seated<Placement>(s), s);
}
/// As `replay --policy pascal` has it: one quantum of answer is free before an answer stays.
inline made make_pascal(const controller_settings& s) {
  const blocks room = s.tight > blocks{} ? s.tight : blocks{32};
  return make_placing(seated<placement::pascal_arrival>(s), s, placement::pascal_migrate_adaptively{.headroom = room});
}
/// Stages by length, and requests go on in the next one.
inline made make_stages(const controller_settings& s) {
  return make_placing(seated<by_length>(s), s, placement::stay_in_range{});
}

inline made make_llumnix(const controller_settings& s) {
  fleet::llumnix::config config;
  take_seat(config, {.router = s.router, .routers = s.routers, .instances = s.replicas});
  return make_controller<fleet::llumnix>({.replicas = s.replicas}, config);
}
/// Prefill and decode replicas, as `replay` has them under these names. The first of several routers changes roles.
inline made make_pools(const controller_settings& s, fleet::pools_config config) {
  config.changes_roles = config.changes_roles && s.router == 0;
  if (s.epoch > 0) config.epoch_s = s.epoch;
  config.block_size = s.block_size;
  return make_controller<fleet::pools>({.replicas = s.replicas}, config);
}
inline made make_phasor(const controller_settings& s) { return make_pools(s, {}); }
inline made make_distserve(const controller_settings& s) { return make_pools(s, fleet::distserve_pools); }
inline made make_splitwise(const controller_settings& s) { return make_pools(s, fleet::splitwise_pools); }

using layouts = fleet::layout_controller<>;

/// As `replay --policy due-first` has it: what is remembered, and one quantum of answer is free before an answer stays.
inline made make_due_first(const controller_settings& s) {
  const headroom_costs& c = s.costs;
  // With one FLOP a second, costs are seconds.
  const layouts::settings how{.placing = {.cost = {.alpha = c.prompt_square_s, .beta = c.prompt_token_s},
                                          .budget = {.peak_flops = 1, .ttft = c.ttft},
                                          .block_size = s.block_size},
                              .reads_prefixes = s.prefixes,
                              .tight = s.tight > blocks{} ? s.tight : blocks{32}};
  return make_controller<layouts>(
      {.replicas = s.replicas, .requests = s.requests, .window = std::clamp<std::size_t>(s.requests, 4, 16'384)}, how,
      c.decode);
}

}  // namespace detail

/// A controller by its name: as `replay` has it, where the same is there.
struct named_controller {
  std::string_view name;                                                   ///< Its name.
  std::shared_ptr<fleet::controller> (*make)(const controller_settings&);  ///< Makes one, with memory of its own.
  /// What it does besides placing requests, canceling moves and notes. A placement alone, which has nothing here, moves
  /// requests as well where replicas have roles or the settings say so.
  std::span<const fleet::action_kind> does{};
};

/// All of them.
inline constexpr named_controller controllers[] = {
    {"least-load", detail::place_by<placement::least_load>},
    {"least-kv", detail::place_by<placement::least_kv>},
    {"shortest-queue", detail::place_by<placement::join_shortest_queue>},
    {"in-turn", detail::place_by<placement::round_robin>},
    {"random", detail::place_by<placement::random>},
    {"power-of-two", detail::place_by<placement::power_of_two>},
    {"fill-to-level", detail::place_by<placement::fill_to_level<>>},
    {"phi", detail::place_by<placement::highest_phi>},
    {"phi-time", detail::place_by<detail::by_time>},
    {"lmetric", detail::place_by<placement::lmetric>},
    {"prefix-affinity", detail::place_by<placement::prefix_affinity>},
    {"bounded-hashing", detail::place_by<placement::bounded_hashing>},
    {"dual-map", detail::place_by<placement::dual_map>},
    {"pascal", detail::make_pascal, detail::only_moves},
    {"stages", detail::make_stages, detail::only_moves},
    {"llumnix", detail::make_llumnix, detail::only_moves},
    {"distserve", detail::make_distserve, detail::only_moves},
    {"splitwise", detail::make_splitwise, detail::only_moves},
    {"phasor", detail::make_phasor, detail::moves_and_roles},
    {"due-first", detail::make_due_first, detail::whole_layout},
};

/// The controller of a name; null if there is none.
[[nodiscard]] constexpr const named_controller* find_controller(std::string_view name) noexcept {
  const auto* const at = std::ranges::find(controllers, name, &named_controller::name);
  return at == std::end(controllers) ? nullptr : at;
}
/// Makes the controller of a name. @throws std::invalid_argument for a name that there is not.
[[nodiscard]] inline std::shared_ptr<fleet::controller> make_controller(std::string_view name,
                                                                        const controller_settings& s) {
  std::vector<std::string_view> names;
  for (const named_controller& c : controllers) names.push_back(c.name);
  return controllers[detail::index_of(name, names, "controller")].make(s);
}

}  // namespace sim
TESSERA_NAMESPACE_END
