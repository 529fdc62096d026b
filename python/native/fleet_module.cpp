// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/control/flow_controller.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/kv_transfer.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/fleet/retry.hpp>
#include <tessera/fleet/stitch.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/placement/fill_to_level.hpp>
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
#include <tessera/placement/stay_in_range.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace nb = nanobind;

namespace tessera_python {
namespace {

namespace ts = tessera;
namespace fleet = tessera::fleet;
namespace placement = tessera::placement;

using ledger = fleet::ledger<>;
using ids = std::vector<std::int64_t>;

/// Above this no double of a count is exact enough, and no clock of seconds lasts.
constexpr double endless_seconds = 1e9;

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument{why}; }

/// A whole number from `least` to `most`.
std::int64_t whole(std::int64_t n, const char* name, std::int64_t least, std::int64_t most) {
  if (n < least || n > most) {
    refuse(std::string{name} + " is from " + std::to_string(least) + " to " + std::to_string(most) + ", not " +
           std::to_string(n));
  }
  return n;
}
std::int64_t count(std::int64_t n, const char* name) { return whole(n, name, 0, fleet::greatest_count); }
ts::tokens prompt_of(std::int64_t n, const char* name) {
  return ts::tokens{whole(n, name, 0, ts::headroom::longest_prompt.count())};
}
double real(double x, const char* name, double least, double most) {
  if (!(x >= least && x <= most)) {
    refuse(std::string{name} + " is from " + nb::str(nb::float_(least)).c_str() + " to " +
           nb::str(nb::float_(most)).c_str() + ", not " + nb::str(nb::float_(x)).c_str());
  }
  return x;
}
ts::duration lasting(double s, const char* name, double least) {
  return ts::duration::from_seconds(real(s, name, least, endless_seconds));
}
ts::time_point at(double now) { return ts::time_point::at_seconds(real(now, "now", 0, endless_seconds)); }

/// One of several words.
template <class Value, std::size_t N>
Value word(const std::string& given, const char* name, const std::pair<std::string_view, Value> (&all)[N]) {
  std::string allowed;
  for (const auto& [text, value] : all) {
    if (text == given) return value;
    allowed += (allowed.empty() ? "" : ", ") + std::string{text};
  }
  refuse(std::string{name} + " is one of " + allowed + ", not " + given);
}

// A load, as Python has it: requests, kv_held, waiting_blocks, reasoning, fresh_answers, prefill.
using six = std::tuple<double, double, double, double, double, double>;

/// What a network says is not trusted: what is no count is -1, or no load at all, and the ledger says so.
std::optional<fleet::load> load_of(const six& s) {
  const auto n = [](double x) {
    return x >= 0 && x <= static_cast<double>(fleet::greatest_count) && x == std::floor(x)
               ? static_cast<std::int64_t>(x)
               : std::int64_t{-1};
  };
  const std::int64_t all[] = {n(std::get<0>(s)), n(std::get<1>(s)), n(std::get<2>(s)), n(std::get<3>(s)),
                              n(std::get<4>(s))};
  if (std::ranges::any_of(all, [](std::int64_t x) { return x < 0; })) return std::nullopt;
  return fleet::load{.requests = static_cast<std::size_t>(all[0]),
                     .kv_held = ts::blocks{all[1]},
                     .waiting_blocks = ts::blocks{all[2]},
                     .reasoning = static_cast<std::size_t>(all[3]),
                     .fresh_answers = static_cast<std::size_t>(all[4]),
                     .prefill_flops = std::get<5>(s)};
}
nb::tuple tuple_of(const fleet::load& l) {
  return nb::make_tuple(l.requests, l.kv_held.count(), l.waiting_blocks.count(), l.reasoning, l.fresh_answers,
                        l.prefill_flops);
}

/// CascadeInfer's stages by length: the least load among those whose range has the prompt, see `book::ranked`.
struct by_length : placement::least_load {};

/// The highest Phi_T of replicas that decode as well: of those with room for the prompt, and then of the others. What
/// is left of prompts says nothing of how long one that fits nowhere waits for memory.
struct by_time {
  /// What is read of a view.
  struct left {
    double phi;
    std::size_t requests;
  };
  struct all_left {
    const fleet::candidates<>& all;
    ts::blocks needs;
    left operator[](std::size_t i) const noexcept {
      const fleet::view& v = all[i];
      // In the same order between -1 and 1.
      const double phi = v.time_phi / (1 + std::fabs(v.time_phi));
      return {v.free_blocks >= needs ? phi : phi - 2, v.requests};
    }
    [[nodiscard]] std::size_t size() const noexcept { return all.size(); }
  };
  placement::highest_phi highest{};
  ts::blocks needs{};  // Of the prompt that is placed.

  std::size_t operator()(const fleet::candidates<>& all) noexcept { return highest(all_left{all, needs}); }
  std::size_t rank(const fleet::candidates<>& all, std::span<fleet::replica_id> best) noexcept {
    return highest.rank(all_left{all, needs}, best);
  }
};

constexpr std::pair<std::string_view, ts::control::role> roles[] = {{"mixed", ts::control::role::mixed},
                                                                    {"prefill", ts::control::role::prefill},
                                                                    {"decode", ts::control::role::decode}};

/// Who decodes at a prefill replica goes on at the replica of another role with the least load, among those with room.
/// Everybody else is `By`'s.
template <class By>
struct hands_over {
  By* by;

  std::size_t operator()(const fleet::candidates<>& all, std::size_t current, ts::blocks grows,
                         ts::blocks moves) noexcept {
    if (all[current].role != ts::control::role::prefill) return (*by)(all, current, grows, moves);
    std::size_t best = current;
    const auto load = [&](std::size_t i) noexcept { return all[i].kv_held + all[i].waiting_blocks; };
    for (std::size_t i = 0; i != all.size(); ++i) {
      if (i != current && (best == current || load(i) < load(best))) best = i;
    }
    return best;
  }
};

using policy = std::variant<by_time, placement::join_shortest_queue, placement::power_of_two, placement::least_kv,
                            placement::least_load, placement::highest_phi, placement::pascal_arrival, by_length,
                            placement::prefix_affinity, placement::lmetric, placement::fill_to_level<>>;
using mover = std::variant<placement::stay, placement::migrate_when_tight, placement::migrate_to_headroom,
                           placement::pascal_migrate_adaptively, placement::stay_in_range>;

constexpr std::string_view policy_names[] = {"shortest_queue", "power_of_two", "least_kv", "least_load",      "phi",
                                             "phi_time",       "pascal",       "cascade",  "prefix_affinity", "lmetric",
                                             "fill_to_level"};
constexpr std::string_view move_names[] = {"none", "when_tight", "to_headroom", "pascal", "cascade"};

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
  /// Whoever has his first token at a prefill replica has outgrown it, and asks where to go on.
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

/// One stream from several engines.
class stitched {
 public:
  std::tuple<std::int64_t, std::int64_t, bool> on(std::int64_t at, std::int64_t n) {
    const fleet::stitch::piece p = stream_.on(ts::tokens{count(at, "at")}, ts::tokens{count(n, "count")});
    return {p.skip.count(), p.take.count(), p.hole};
  }
  bool end(std::int64_t length) { return stream_.end(ts::tokens{count(length, "length")}); }
  [[nodiscard]] std::int64_t delivered() const { return stream_.delivered().count(); }
  [[nodiscard]] bool ended() const { return stream_.ended(); }

 private:
  fleet::stitch stream_;
};

/// Who may be tried again.
class patience {
 public:
  patience(std::int64_t deaths, std::int64_t tries)
      : retries_{{.deaths = static_cast<std::uint32_t>(whole(deaths, "deaths", 1, 1 << 20)),
                  .tries = static_cast<std::uint32_t>(whole(tries, "tries", 1, 1 << 20))}} {}
  bool after(const std::string& failure) {
    using enum fleet::failure;
    static constexpr std::pair<std::string_view, fleet::failure> all[] = {{"refused", refused},
                                                                          {"died", died},
                                                                          {"unreachable", unreachable},
                                                                          {"at_fault", at_fault},
                                                                          {"cancelled", cancelled}};
    return retries_.after(word(failure, "failure", all));
  }
  [[nodiscard]] std::uint32_t deaths() const { return retries_.deaths(); }
  [[nodiscard]] bool over() const { return retries_.over(); }

 private:
  fleet::retries retries_;
};

/// Which replicas have which beginnings of prompts, from their KV events. Engines name blocks by hashes of their own:
/// here a block is named by its tokens and those before it, so that any engine's events and any prompt meet.
class prefixes {
 public:
  prefixes(std::int64_t block_size, std::int64_t replicas)
      : block_size_{static_cast<std::size_t>(whole(block_size, "block_size", 1, 1 << 20))},
        engines_(static_cast<std::size_t>(whole(replicas, "replicas", 1, 1 << 20))) {}

  void stored(std::int64_t replica, const nb::sequence& names, nb::handle parent,
              const std::vector<std::int32_t>& tokens) {
    engine& e = of(replica);
    if (tokens.size() != nb::len(names) * block_size_) refuse("an event has the tokens of its blocks");
    std::uint64_t chain = ts::kv::hash_root();
    if (!parent.is_none()) {
      const auto known = e.named.find(name_of(parent));
      if (known == e.named.end()) return;  // what it follows is not known any more: it cannot be found either
      chain = known->second;
    }
    for (std::size_t i = 0; i != nb::len(names); ++i) {
      chain = ts::kv::hash_block(chain, std::span{tokens}.subspan(i * block_size_, block_size_));
      const auto [at, is_new] = e.named.emplace(name_of(names[i]), chain);
      if (is_new) ++e.has[chain];
    }
  }
  void removed(std::int64_t replica, const nb::sequence& names) {
    engine& e = of(replica);
    for (const nb::handle name : names) {
      const auto known = e.named.find(name_of(name));
      if (known == e.named.end()) continue;
      const auto has = e.has.find(known->second);
      if (--has->second == 0) e.has.erase(has);
      e.named.erase(known);
    }
  }
  void cleared(std::int64_t replica) { of(replica) = {}; }
  /// Leading tokens that each replica has: whole blocks.
  [[nodiscard]] ids match(const std::vector<std::int32_t>& prompt) const {
    ids out(engines_.size(), 0);
    std::vector<char> goes_on(engines_.size(), 1);
    std::size_t left = engines_.size();
    std::uint64_t chain = ts::kv::hash_root();
    for (std::size_t i = 0; left != 0 && i + block_size_ <= prompt.size(); i += block_size_) {
      chain = ts::kv::hash_block(chain, std::span{prompt}.subspan(i, block_size_));
      for (std::size_t k = 0; k != engines_.size(); ++k) {
        if (goes_on[k] == 0) continue;
        if (engines_[k].has.contains(chain)) {
          out[k] = static_cast<std::int64_t>(i + block_size_);
        } else {
          goes_on[k] = 0;
          --left;
        }
      }
    }
    return out;
  }
  [[nodiscard]] std::size_t size(std::int64_t replica) { return of(replica).named.size(); }

 private:
  struct engine {
    std::unordered_map<std::string, std::uint64_t> named;  // Its name of a block, and ours.
    std::unordered_map<std::uint64_t, std::uint32_t> has;  // How often.
  };
  engine& of(std::int64_t replica) {
    return engines_[static_cast<std::size_t>(
        whole(replica, "a replica's number", 0, static_cast<std::int64_t>(engines_.size()) - 1))];
  }
  /// Bytes, or an integer of 64 bits, signed or not.
  static std::string name_of(nb::handle name) {
    if (nb::isinstance<nb::bytes>(name)) {
      const auto b = nb::borrow<nb::bytes>(name);
      return 'b' + std::string{b.c_str(), b.size()};
    }
    if (nb::isinstance<nb::int_>(name)) return 'i' + std::string{nb::str(name).c_str()};
    refuse("a block's hash is bytes or an int");
  }

  std::size_t block_size_;
  std::vector<engine> engines_;
};

std::int64_t length_of(std::int64_t n, const char* name, std::int64_t least) {
  return whole(n, name, least, fleet::greatest_count);
}

template <std::size_t N>
nb::tuple words(const std::string_view (&all)[N]) {
  nb::list names;
  for (const std::string_view name : all) names.append(nb::str(name.data(), name.size()));
  return nb::tuple(names);
}

}  // namespace
}  // namespace tessera_python

NB_MODULE(_fleet, m) {
  using namespace tessera_python;
  m.doc() = "The book of a router before engines; use tessera.fleet.";
  m.attr("policies") = words(policy_names);
  m.attr("moves") = words(move_names);

  nb::class_<book>(m, "Ledger", "The book of one router, and the policy that reads it.")
      .def(nb::init<const std::string&, const std::optional<std::string>&, std::int64_t, std::int64_t, std::int64_t,
                    double, double, double, std::int64_t, std::int64_t, std::int64_t, std::uint64_t, double, double,
                    std::int64_t, double, std::int64_t>(),
           nb::arg("policy"), nb::kw_only(), nb::arg("moves") = nb::none(), nb::arg("replicas") = 64,
           nb::arg("reservations") = 4096, nb::arg("block_size") = 16, nb::arg("lease") = 60.0,
           nb::arg("silence") = 5.0, nb::arg("rest") = 2.0, nb::arg("moving") = 8, nb::arg("tight") = 0,
           nb::arg("quantum") = 500, nb::arg("seed") = 1, nb::arg("bound") = 1.25, nb::arg("expected") = 0.0,
           nb::arg("demand") = 0, nb::arg("theta") = 0.62, nb::arg("cooldown") = 20)
      .def("join", &book::join, nb::arg("id"), nb::arg("incarnation"), nb::arg("capacity"), nb::arg("now"),
           nb::arg("prefill_budget") = 0.0, nb::arg("prefill_square") = 0.0, nb::arg("role") = "mixed",
           nb::arg("elastic") = false, "A replica comes: \"ok\", \"busy\" or \"refused\".")
      .def("drain", &book::drain, nb::arg("id"), "It takes no new requests. False if it is not there.")
      .def("lost", &book::lost, nb::arg("id"), nb::arg("incarnation"), "Somebody could not reach it.")
      .def("fence", &book::fence, nb::arg("id"), nb::arg("incarnation"),
           "It is dead for sure: (request, tokens, where it was going to) of all that it had; None if it is not there.")
      .def("asked", &book::asked, nb::arg("id"), "It is asked for a report now.")
      .def("receive", &book::receive, nb::arg("id"), nb::arg("incarnation"), nb::arg("epoch"), nb::arg("all"),
           nb::arg("now"), nb::arg("own") = nb::none(), nb::arg("free") = nb::none(), nb::arg("slo_met") = true,
           "A report has come: what became of it.")
      .def("set_range", &book::set_range, nb::arg("id"), nb::arg("first"), nb::arg("last"),
           "It serves requests of at least so many blocks, and less than so many.")
      .def("rank", &book::rank, nb::arg("prompt"), nb::arg("choices") = 1, nb::arg("cached") = nb::none(),
           nb::arg("prefix_key") = 0, nb::arg("only") = nb::none(), nb::arg("avoid") = nb::none(),
           "The replicas for a request, best first.")
      .def("reserve", &book::reserve, nb::arg("request"), nb::arg("id"), nb::arg("prompt"), nb::arg("now"),
           nb::arg("cached") = 0, nb::arg("reasons") = false,
           "It is sent there: \"ok\", \"refused\", \"busy\" or \"exhausted\".")
      .def("place", &book::place, nb::arg("request"), nb::arg("prompt"), nb::arg("now"), nb::arg("cached") = nb::none(),
           nb::arg("prefix_key") = 0, nb::arg("reasons") = false, nb::arg("only") = nb::none(),
           nb::arg("avoid") = nb::none(), "Ranks and reserves: where it goes, or None.")
      .def("first_token", &book::first_token, nb::arg("request"), nb::arg("id"), nb::arg("now"),
           "It has its first token there.")
      .def("progress", &book::progress, nb::arg("request"), nb::arg("id"), nb::arg("generated"), nb::arg("now"),
           "So many tokens have come from there in all.")
      .def("cache_hit", &book::cache_hit, nb::arg("request"), nb::arg("id"), nb::arg("cached"), nb::arg("now"),
           "The engine has found so many tokens of its prompt in the prefix cache.")
      .def("answers", &book::answers, nb::arg("request"), nb::arg("id"), nb::arg("now"), "Its reasoning has ended.")
      .def("release", &book::release, nb::arg("request"), nb::arg("id"), "It has ended there, however.")
      .def("moved", &book::moved, nb::arg("request"), nb::arg("to"), nb::arg("now"), "It goes on there.")
      .def("propose_moves", &book::propose_moves, nb::arg("now"),
           "(request, from, to, tokens, blocks) of those that are to go on elsewhere.")
      .def("propose_roles", &book::propose_roles, "(replica, from, to) of the one that is to change its role, or None.")
      .def("changed_role", &book::changed_role, nb::arg("id"), "It has the role that it was given.")
      .def("expire", &book::expire, nb::arg("now"), "Gives back who was not named for a lease: (request, replica).")
      .def("expect", &book::expect, nb::arg("load"), "For fill_to_level: what other routers send meanwhile.")
      .def("contains", &book::contains, nb::arg("id"))
      .def("incarnation", &book::incarnation, nb::arg("id"))
      .def("silent", &book::silent, nb::arg("id"))
      .def("shown", &book::shown, "Those that the policy chooses from.")
      .def("view", &book::view, nb::arg("id"), "A replica as the policy sees it.")
      .def("own", &book::own, nb::arg("id"), "What of its load is this router's.")
      .def("others", &book::others, nb::arg("id"), "What is others', as of its last report.")
      .def("reserved", &book::reserved, nb::arg("request"), nb::arg("id"))
      .def("__len__", &book::size)
      .def_prop_ro("moving", &book::moving, "Requests on their way.")
      .def_prop_ro("expired", &book::expired, "Reservations that ran out.")
      .def_prop_ro("received", &book::received, "How many reports ended so.");

  nb::class_<stitched>(m, "Stitch", "One stream to a client from several engines.")
      .def(nb::init<>())
      .def("on", &stitched::on, nb::arg("at"), nb::arg("count"), "Tokens have come: (skip, take, whether a hole).")
      .def("end", &stitched::end, nb::arg("length"), "The stream ends with so many. False if it cannot.")
      .def_prop_ro("delivered", &stitched::delivered)
      .def_prop_ro("ended", &stitched::ended);

  nb::class_<patience>(m, "Retries", "Whether a request may be tried again.")
      .def(nb::init<std::int64_t, std::int64_t>(), nb::arg("deaths") = 2, nb::arg("tries") = 8)
      .def("after", &patience::after, nb::arg("failure"), "An engine has failed it: whether another may be tried.")
      .def_prop_ro("deaths", &patience::deaths)
      .def_prop_ro("over", &patience::over);

  nb::class_<prefixes>(m, "PrefixIndex", "Which replicas have which beginnings of prompts.")
      .def(nb::init<std::int64_t, std::int64_t>(), nb::arg("block_size"), nb::arg("replicas") = 64)
      .def("stored", &prefixes::stored, nb::arg("replica"), nb::arg("hashes"), nb::arg("parent").none(),
           nb::arg("tokens"), "A replica has cached blocks.")
      .def("removed", &prefixes::removed, nb::arg("replica"), nb::arg("hashes"), "A replica has evicted blocks.")
      .def("cleared", &prefixes::cleared, nb::arg("replica"), "A replica has none any more.")
      .def("match", &prefixes::match, nb::arg("prompt"), "Leading tokens that each replica has.")
      .def("size", &prefixes::size, nb::arg("replica"), "Blocks that a replica has.");

  m.def(
      "plan_export",
      [](std::int64_t length, std::int64_t block_size) {
        const fleet::kv_export e = fleet::plan_export(ts::tokens{length_of(length, "length", 1)},
                                                      ts::tokens{length_of(block_size, "block_size", 1)});
        return std::tuple{e.generates.count(), e.covers.count(), e.size.count(), e.whole};
      },
      nb::arg("length"), nb::arg("block_size"), "(generates, covers, blocks, whole) of an export.");
  m.def(
      "takes",
      [](std::int64_t exported, std::int64_t length, std::int64_t block_size) {
        return fleet::takes(ts::blocks{length_of(exported, "exported", 0)}, ts::tokens{length_of(length, "length", 0)},
                            ts::tokens{length_of(block_size, "block_size", 1)});
      },
      nb::arg("exported"), nb::arg("length"), nb::arg("block_size"),
      "Whether a target that goes on with so many tokens can take an export of so many blocks.");
}
