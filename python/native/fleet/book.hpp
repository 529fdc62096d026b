// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "checks.hpp"
#include "policies.hpp"

#include <tessera/control/flow_controller.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/ledger.hpp>

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

/// @file
/// The book of a router as Python has it.

namespace tessera_python {

using ledger = fleet::ledger<>;

/// The book of a router, and the policy that reads it.
class book {
 public:
  book(const std::string& name, const std::optional<std::string>& moves, std::int64_t replicas,
       std::int64_t reservations, std::int64_t block_size, double lease, double silence, double rest,
       std::int64_t moving, std::int64_t tight, std::int64_t quantum, std::uint64_t seed, double bound, double expected,
       std::int64_t demand, double theta, std::int64_t cooldown)
      : storage_{ts::storage_for<ledger>(
            {.replicas = static_cast<std::size_t>(whole(replicas, "replicas", 1, 1 << 20)),
             .reservations = static_cast<std::size_t>(whole(reservations, "reservations", 1, 1 << 24)),
             .moves = static_cast<std::size_t>(whole(moving, "moving", 1, 1 << 16))})},
        ledger_{storage_,
                {.block_size = ts::tokens{whole(block_size, "block_size", 1, 1 << 20)},
                 .lease = lasting(lease, "lease", 1e-3),
                 .silence = lasting(silence, "silence", 1e-3),
                 .rest = lasting(rest, "rest", 0),
                 .moving = static_cast<std::size_t>(moving),
                 .tight = ts::blocks{count(tight, "tight")},
                 .demand = ts::blocks{count(demand, "demand")},
                 .quantum = ts::tokens{count(quantum, "quantum")}}},
        block_size_{block_size},
        by_time_{name == "phi_time"},
        by_length_{name == "cascade"},
        may_(static_cast<std::size_t>(replicas)) {
    if (!(theta > 0 && theta <= 1)) refuse("theta is above 0 and at most 1");
    using controller = ts::control::flow_controller;
    const controller::limits workers{.workers = static_cast<std::size_t>(replicas)};
    controller_memory_.resize(controller::required_bytes(workers));
    ts::arena arena{controller_memory_};
    controller_.emplace(
        arena, workers,
        controller::settings{.theta = theta,
                             .cooldown = static_cast<std::uint64_t>(whole(cooldown, "cooldown", 0, 1 << 30))});
    const placement::random draws{.state = seed};
    real(bound, "bound", 1, 1e6);
    real(expected, "expected", 0, 1e9);
    const std::pair<std::string_view, policy> policies[] = {
        {"shortest_queue", placement::join_shortest_queue{}},
        {"power_of_two", placement::power_of_two{.draws = draws}},
        {"least_kv", placement::least_kv{}},
        {"least_load", placement::least_load{}},
        {"phi", placement::highest_phi{}},
        {"phi_time", by_time{}},
        {"pascal", placement::pascal_arrival{}},
        {"cascade", by_length{}},
        {"prefix_affinity", placement::prefix_affinity{.bound = bound}},
        {"lmetric", placement::lmetric{}},
        {"fill_to_level", placement::fill_to_level<>{.expected = expected, .draws = draws}}};
    policy_ = word(name, "policy", policies);
    const ts::blocks room{tight};
    const std::pair<std::string_view, mover> movers[] = {
        {"none", placement::stay{}},
        {"when_tight", placement::migrate_when_tight{.headroom = room}},
        {"to_headroom", placement::migrate_to_headroom{}},
        {"pascal", placement::pascal_migrate_adaptively{.headroom = room}},
        {"cascade", placement::stay_in_range{}}};
    const bool has_own = name == "pascal" || name == "cascade";
    mover_ = word(moves ? *moves : has_own ? name : tight > 0 ? "when_tight" : "none", "moves", movers);
  }

  // -- replicas

  std::string join(std::int64_t id, std::uint64_t incarnation, std::int64_t capacity, double now, double prefill_budget,
                   double prefill_square, const std::string& role, bool elastic) {
    const bool has_budget = prefill_budget != 0;
    if (by_time_ && !has_budget) refuse("phi_time places by what is left of prompts: prefill_budget must be above 0");
    fleet::replica what{
        .capacity = ts::blocks{count(capacity, "capacity")}, .role = word(role, "role", roles), .elastic = elastic};
    if (by_length_ && what.role == ts::control::role::prefill)
      refuse("cascade goes by lengths: it has no prefill pool");
    if (what.role != ts::control::role::mixed && !has_budget) {
      refuse("pools are measured by what is left of prompts: prefill_budget must be above 0");
    }
    what.prefill.cost = {.alpha = real(prefill_square, "prefill_square", 0, 1), .beta = 1};
    what.prefill.budget = {.peak_flops = real(prefill_budget, "prefill_budget", 0, 1e15),
                           .ttft = ts::duration::from_seconds(1)};
    const ts::status s = ledger_.join(number(id), incarnation, what, at(now));
    if (s == ts::status::invalid) refuse("incarnation is above 0, and a replica has blocks");
    if (ts::ok(s)) follow_role(number(id));
    return ts::to_string(s);
  }
  bool drain(std::int64_t id) { return ledger_.drain(number(id)); }
  bool lost(std::int64_t id, std::uint64_t incarnation) { return ledger_.lost(number(id), incarnation); }
  nb::object fence(std::int64_t id, std::uint64_t incarnation) {
    orphans_.clear();
    // A replica has fewer requests than there are reservations: gathered first, for Python may throw.
    if (!ledger_.fence(number(id), incarnation, [&](const fleet::orphan& o) noexcept { orphans_.push_back(o); })) {
      return nb::none();
    }
    nb::list all;
    for (const fleet::orphan& o : orphans_) {
      all.append(nb::make_tuple(o.request, o.generated.count(), id_or_none(o.elsewhere)));
    }
    return all;
  }
  void asked(std::int64_t id) { ledger_.asked(number(id)); }
  const char* receive(std::int64_t id, std::uint64_t incarnation, std::uint64_t epoch, const six& all, double now,
                      const std::optional<six>& own, std::optional<std::int64_t> free, bool slo_met) {
    fleet::report said{.incarnation = incarnation, .epoch = epoch, .slo_met = slo_met};
    const auto take = [&](const six& s) {
      const std::optional<fleet::load> l = load_of(s);
      if (!l) said.incarnation = 0;
      return l ? *l : fleet::load{};
    };
    said.all = take(all);
    if (own) said.own = take(*own);
    if (free) said.free = ts::blocks{*free};
    return fleet::to_string(ledger_.receive(number(id), said, at(now)));
  }
  void set_range(std::int64_t id, std::int64_t from, std::int64_t to) {
    require_there(id);
    if (count(from, "from") >= to) refuse("a range of lengths is not empty");
    ledger_.set_range(number(id), ts::blocks{from}, ts::blocks{to});
  }

  // -- requests

  ids rank(std::int64_t prompt, std::int64_t choices, const std::optional<ids>& cached, std::uint64_t prefix_key,
           const std::optional<ids>& only, const std::optional<ids>& avoid) {
    const auto all =
        ranked(prompt_of(prompt, "prompt"), static_cast<std::size_t>(whole(choices, "choices", 0, 1 << 20)), cached,
               prefix_key, only, avoid);
    return {all.begin(), all.end()};
  }
  const char* reserve(std::uint64_t request, std::int64_t id, std::int64_t prompt, double now, std::int64_t cached,
                      bool reasons) {
    const ts::tokens length = prompt_of(prompt, "prompt");
    if (cached < 0 || cached > prompt) refuse("cached is from 0 to prompt");
    return ts::to_string(ledger_.reserve(request, number(id),
                                         {.prompt = length,
                                          .cached = ts::tokens{cached},
                                          .starts_in = reasons ? ts::phase::reasoning : ts::phase::answering},
                                         at(now)));
  }
  nb::object place(std::uint64_t request, std::int64_t prompt, double now, const std::optional<ids>& cached,
                   std::uint64_t prefix_key, bool reasons, const std::optional<ids>& only,
                   const std::optional<ids>& avoid) {
    const ts::time_point t = at(now);
    const ts::tokens length = prompt_of(prompt, "prompt");
    const auto all = ranked(length, 1, cached, prefix_key, only, avoid);
    if (all.empty()) return nb::none();
    const fleet::replica_id id = all.front();
    const ts::status s = ledger_.reserve(request, id,
                                         {.prompt = length,
                                          .cached = cached_on(cached, id),
                                          .starts_in = reasons ? ts::phase::reasoning : ts::phase::answering},
                                         t);
    if (s == ts::status::busy) refuse("request " + std::to_string(request) + " is there already");
    return ts::ok(s) ? nb::object{nb::int_(id)} : nb::object{nb::none()};
  }
  bool first_token(std::uint64_t request, std::int64_t id, double now) {
    return ledger_.first_token(request, number(id), at(now));
  }
  bool progress(std::uint64_t request, std::int64_t id, std::int64_t generated, double now) {
    return ledger_.progress(request, number(id), prompt_of(generated, "generated"), at(now));
  }
  bool cache_hit(std::uint64_t request, std::int64_t id, std::int64_t cached, double now) {
    return ledger_.cache_hit(request, number(id), prompt_of(cached, "cached"), at(now));
  }
  bool answers(std::uint64_t request, std::int64_t id, double now) {
    return ledger_.answers(request, number(id), at(now));
  }
  bool release(std::uint64_t request, std::int64_t id) { return ledger_.release(request, number(id)); }
  bool moved(std::uint64_t request, std::int64_t to, double now) { return ledger_.moved(request, number(to), at(now)); }

  // -- decisions

  nb::list propose_moves(double now) {
    const ts::time_point t = at(now);
    nb::list all;
    std::visit(
        [&](auto& by) {
          hands_over<std::remove_reference_t<decltype(by)>> from_prefill{&by};
          for (const fleet::move& m : ledger_.propose_moves(from_prefill, t)) {
            all.append(nb::make_tuple(m.request, m.from, m.to, m.length.count(), m.size.count()));
          }
        },
        mover_);
    return all;
  }
  nb::object propose_roles() {
    const std::optional<ts::control::role_change> change = ledger_.propose_roles(*controller_);
    if (!change) return nb::none();
    follow_role(change->worker);
    return nb::make_tuple(change->worker, ts::control::to_string(change->from), ts::control::to_string(change->to));
  }
  bool changed_role(std::int64_t id) { return ledger_.changed_role(number(id)); }
  nb::list expire(double now) {
    gone_.clear();
    ledger_.expire(at(now), [&](fleet::request_id r, fleet::replica_id id) noexcept { gone_.emplace_back(r, id); });
    nb::list all;
    for (const auto& [request, id] : gone_) all.append(nb::make_tuple(request, id));
    return all;
  }
  void expect(double load) {
    real(load, "load", 0, 1e9);
    if (auto* p = std::get_if<placement::fill_to_level<>>(&policy_)) p->expected = load;
  }

  // -- to look at

  [[nodiscard]] bool contains(std::int64_t id) const { return ledger_.contains(number(id)); }
  [[nodiscard]] std::uint64_t incarnation(std::int64_t id) const { return ledger_.incarnation(number(id)); }
  [[nodiscard]] bool silent(std::int64_t id) const { return ledger_.silent(number(id)); }
  [[nodiscard]] ids shown() const {
    ids out;
    const auto all = ledger_.shown();
    for (std::size_t i = 0; i != all.size(); ++i) out.push_back(static_cast<std::int64_t>(all[i].id));
    return out;
  }
  [[nodiscard]] nb::dict view(std::int64_t id) const {
    require_there(id);
    const fleet::view& v = ledger_.at(number(id));
    nb::dict d;
    d["id"] = v.id;
    d["requests"] = v.requests;
    d["kv_held"] = v.kv_held.count();
    d["waiting_blocks"] = v.waiting_blocks.count();
    d["free_blocks"] = v.free_blocks.count();
    d["capacity"] = v.capacity.count();
    d["phi"] = v.phi;
    d["time_phi"] = v.time_phi;
    d["reasoning"] = v.reasoning;
    d["fresh_answers"] = v.fresh_answers;
    d["slo_met"] = v.slo_met;
    d["role"] = ts::control::to_string(v.role);
    return d;
  }
  [[nodiscard]] nb::tuple own(std::int64_t id) const {
    require_there(id);
    return tuple_of(ledger_.own(number(id)));
  }
  [[nodiscard]] nb::tuple others(std::int64_t id) const {
    require_there(id);
    return tuple_of(ledger_.others(number(id)));
  }
  [[nodiscard]] bool reserved(std::uint64_t request, std::int64_t id) const {
    return ledger_.reserved(request, number(id));
  }
  [[nodiscard]] std::size_t size() const { return ledger_.size(); }
  [[nodiscard]] std::size_t moving() const { return ledger_.moving(); }
  [[nodiscard]] std::uint64_t expired() const { return ledger_.expired(); }
  [[nodiscard]] nb::dict received() const {
    nb::dict d;
    for (std::size_t i = 0; i != fleet::receptions; ++i) {
      const auto r = static_cast<fleet::reception>(i);
      d[fleet::to_string(r)] = ledger_.received(r);
    }
    return d;
  }

 private:
  [[nodiscard]] fleet::replica_id number(std::int64_t id) const {
    return static_cast<fleet::replica_id>(
        whole(id, "a replica's number", 0, static_cast<std::int64_t>(may_.size()) - 1));
  }
  void require_there(std::int64_t id) const {
    if (!ledger_.contains(number(id))) refuse("replica " + std::to_string(id) + " is not there");
  }
  /// A request that has its first token at a prefill replica has outgrown it, and asks where to go on.
  void follow_role(fleet::replica_id id) {
    if (by_length_) return;
    const bool prefills = ledger_.at(id).role == ts::control::role::prefill;
    ledger_.set_range(id, ts::blocks{}, prefills ? ts::blocks{1} : fleet::endless);
  }
  [[nodiscard]] static nb::object id_or_none(fleet::replica_id id) {
    return id == fleet::no_replica ? nb::object{nb::none()} : nb::object{nb::int_(id)};
  }
  [[nodiscard]] static ts::tokens cached_on(const std::optional<ids>& cached, fleet::replica_id id) {
    return ts::tokens{cached && id < cached->size() ? (*cached)[id] : 0};
  }

  std::span<const fleet::replica_id> ranked(ts::tokens prompt, std::size_t choices, const std::optional<ids>& cached,
                                            std::uint64_t prefix_key, const std::optional<ids>& only,
                                            const std::optional<ids>& avoid) {
    if (cached) {
      for (const std::int64_t n : *cached) {
        if (n < 0 || n > prompt.count()) refuse("cached has tokens of the prompt by replica: from 0 to prompt");
      }
    }
    std::ranges::fill(may_, only ? char{0} : char{1});
    if (only) {
      for (const std::int64_t id : *only) may_[number(id)] = 1;
    }
    if (avoid) {
      for (const std::int64_t id : *avoid) may_[number(id)] = 0;
    }
    // Prompts are computed elsewhere than in the decode pool, as long as there is elsewhere.
    const auto prefills = [this](const fleet::view& v) noexcept {
      return may_[v.id] != 0 && v.role != ts::control::role::decode;
    };
    const auto may = [this](const fleet::view& v) noexcept { return may_[v.id] != 0; };
    const auto all = ranked(prompt, choices, cached, prefix_key, prefills);
    return all.empty() ? ranked(prompt, choices, cached, prefix_key, may) : all;
  }
  template <class May>
  std::span<const fleet::replica_id> ranked(ts::tokens prompt, std::size_t choices, const std::optional<ids>& cached,
                                            std::uint64_t prefix_key, const May& may) {
    return std::visit(
        [&](auto& by) {
          using type = std::remove_cvref_t<decltype(by)>;
          if constexpr (requires { type::reads_prefixes; }) {
            const auto has = [&](fleet::replica_id id) noexcept { return cached_on(cached, id); };
            return ledger_.rank(by, fleet::prefix<decltype(has)>{prompt, prefix_key, has}, choices, may);
          } else if constexpr (std::is_same_v<type, by_length>) {
            const ts::blocks size = ts::blocks_for(prompt, block_size_);
            const auto in_range = [&](const fleet::view& v) noexcept {
              return may(v) && v.from <= size && size < v.to;
            };
            const auto all = ledger_.rank(by, choices, in_range);
            return all.empty() ? ledger_.rank(by, choices, may) : all;
          } else if constexpr (std::is_same_v<type, by_time>) {
            by.needs = ts::blocks_for(prompt, block_size_);
            return ledger_.rank(by, choices, may);
          } else {
            return ledger_.rank(by, choices, may);
          }
        },
        policy_);
  }

  ts::owned_storage<ledger::limits> storage_;
  ledger ledger_;
  ts::tokens block_size_;
  bool by_time_;
  bool by_length_;
  std::vector<std::byte> controller_memory_;
  std::optional<ts::control::flow_controller> controller_;
  policy policy_;
  mover mover_;
  std::vector<char> may_;
  std::vector<fleet::orphan> orphans_;
  std::vector<std::pair<fleet::request_id, fleet::replica_id>> gone_;
};

}  // namespace tessera_python
