// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "endpoints.hpp"
#include "engine_metrics.hpp"

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/runtime.hpp>
#include <tessera/sim/cluster/named_controllers.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

/// @file
/// The book behind all streams: endpoints by address, and a controller of a fleet in its `fleet::runtime`, which knows
/// them by number. Streams, the thread that reads metrics and the one that reads the file share it. A lock, held for a
/// call, gives the runtime one thread at a time.

namespace endpoint_picker {

namespace fleet = tessera::fleet;

/// How endpoints are chosen, and when requests are turned away.
struct picker_settings {
  std::string policy = "least-load";  ///< One of `tessera::sim::controllers`.
  std::uint64_t seed = 1;
  double expected = 0;             ///< For `fill-to-level`.
  std::size_t endpoints = 256;     ///< At most, those that drain not counted.
  std::size_t requests = 4096;     ///< In the book at a time, at most.
  std::size_t choices = 3;         ///< Endpoints that are named to the gateway, best first.
  tessera::tokens block_size{16};  ///< In which KV is counted here, whatever engines' blocks are.
  tessera::duration silence{5.0};  ///< An endpoint without metrics for so long is chosen only if all are.
  tessera::duration lease{900.0};  ///< A request that was not named for so long is given back.
  double shed_kv = 0.8;            ///< An endpoint with so much of its KV held or waited for is busy,
  std::uint64_t shed_waiting = 5;  ///< as is one with that many requests in its queue.
  double bytes_per_token = 4;      ///< Bytes of a prompt's text for each token, until answers have said better.
  bool alone = false;              ///< No other router sends requests to these endpoints.
  bool reasons = false;            ///< What requests do that do not say whether they reason.
  std::size_t buffered = std::size_t{256} << 20U;  ///< Bytes of bodies that are held at a time, of all streams.
};

/// What is asked of the picker.
struct pick_request {
  std::string_view model{};                          ///< Empty: any.
  std::uint64_t text_bytes = 0;                      ///< Bytes of the prompt's text.
  std::uint64_t token_ids = 0;                       ///< Token ids of the prompt.
  std::uint64_t max_tokens = 0;                      ///< To be generated; 0: unknown.
  std::optional<bool> reasons{};                     ///< Whether it reasons first.
  std::string_view objective{};                      ///< What it is for.
  const std::vector<std::string>* subset = nullptr;  ///< Null: all may be chosen.
};

/// A request in the book.
struct ticket {
  fleet::request_id request = 0;
  fleet::replica_id where = fleet::no_replica;
};

/// The answer to a pick request.
struct decision {
  enum class kind : std::uint8_t { chosen, none_ready, shed, full, too_long };
  kind what = kind::none_ready;
  ticket place{};
  std::string destination;  ///< Addresses, best first, separated by commas.
};

/// An endpoint that is to be asked for its metrics. `life` is another one when the number is another endpoint's.
struct scrape_target {
  fleet::replica_id id = 0;
  std::uint64_t life = 0;
  std::string where;
};

/// Tells a controller what happens, and carries out its placements; a gateway has no message for other actions.
/// Endpoints join without abilities, so the runtime refuses those. Every call takes a lock, and the time from its
/// caller.
class picker {
 public:
  using time_point = tessera::time_point;
  /// Told each event of the runtime, and the actions that follow.
  using listener = std::function<void(const fleet::event&, std::span<const fleet::action>)>;

  /// @throws std::invalid_argument for a policy that there is not.
  explicit picker(const picker_settings& s, listener heard = {})
      : settings_{s},
        heard_{std::move(heard)},
        by_{tessera::sim::make_controller(s.policy, {.replicas = 2 * s.endpoints,
                                                     .block_size = s.block_size,
                                                     .seed = s.seed,
                                                     .expected = s.expected,
                                                     .requests = s.requests})},
        storage_{tessera::storage_for<fleet::runtime>(
            {.book = {.replicas = 2 * s.endpoints, .reservations = s.requests, .moves = 1},
             .requests = s.requests,
             .actions = 64 + 2 * s.endpoints})},  // a note about each endpoint leaves room for a placement
        runs_{*by_, storage_, {.book = {.block_size = s.block_size, .lease = s.lease, .silence = s.silence}}},
        slots_(2 * s.endpoints),
        gates_(2 * s.endpoints),
        bytes_per_token_{s.bytes_per_token} {}

  // -- endpoints -----------------------------------------------------------------------------------------------------

  /// These are the endpoints from now on. Others get nothing new, and are forgotten when their requests have ended.
  void list(const endpoint_list& all) {
    const std::lock_guard lock{mutex_};
    wanted_ = all.endpoints;
    objectives_ = all.objectives;
    models_ = {{"", 0}};
    for (fleet::replica_id id = 0; id != slots_.size(); ++id) {
      slot& s = slots_[id];
      if (s.used) gates_[id].model = number_of(s.is.model);
      if (!s.listed) continue;
      const auto same = std::find(wanted_.begin(), wanted_.end(), s.is);
      if (same == wanted_.end()) leave(id);
    }
    settle();
  }
  /// Endpoints to ask for metrics: all that are listed, and those that still have requests.
  [[nodiscard]] std::vector<scrape_target> targets() const {
    const std::lock_guard lock{mutex_};
    std::vector<scrape_target> out;
    for (fleet::replica_id id = 0; id != slots_.size(); ++id) {
      if (slots_[id].used) out.push_back({id, slots_[id].life, slots_[id].is.where});
    }
    return out;
  }
  /// An endpoint is asked for its metrics now.
  void asked(const scrape_target& t) {
    const std::lock_guard lock{mutex_};
    if (current(t)) notify({.what = kind::asks_report, .replica = t.id});
  }
  /// It has said them. A process that began at another time than before is another one: what it had is lost.
  void reported(const scrape_target& t, const engine_metrics& m, time_point now) {
    const std::lock_guard lock{mutex_};
    if (!current(t)) return;
    slot& s = slots_[t.id];
    if (book().contains(t.id) && m.started != 0 && s.started != 0 && m.started != s.started) {
      fail(t.id);
      ++counts_.restarts;
      if (!s.listed) return forget(t.id);
    }
    s.waiting = m.waiting;
    if (!book().contains(t.id) && !(s.listed && join(t.id, m, now))) return;
    const auto capacity = static_cast<double>(book().at(t.id).capacity.count());
    fleet::event e{.at_s = now.seconds(), .what = kind::reported, .replica = t.id};
    e.said = {.incarnation = book().incarnation(t.id), .epoch = ++s.epoch};
    e.said.all.requests = m.running + m.waiting;
    e.said.all.kv_held = tessera::blocks{static_cast<std::int64_t>(m.kv_usage * capacity)};
    if (settings_.alone) e.said.own = e.said.all;  // then one's own book says all, and says it now
    notify(e);
    ++counts_.reports;
  }
  /// Nothing listens there: others are preferred until it has said something again.
  void unreachable(const scrape_target& t) {
    const std::lock_guard lock{mutex_};
    if (!current(t) || !book().contains(t.id)) return;
    notify({.what = kind::unreachable, .replica = t.id, .number = book().incarnation(t.id)});
  }
  /// Time has passed.
  void tick(time_point now) {
    const std::lock_guard lock{mutex_};
    notify({.at_s = now.seconds(), .what = kind::clock});
    settle();
  }

  // -- requests ------------------------------------------------------------------------------------------------------

  /// Where a request goes; it is in the book from now on if it goes anywhere. O(endpoints).
  [[nodiscard]] decision pick(const pick_request& w, time_point now) {
    const std::lock_guard lock{mutex_};
    decision d;
    const auto turn_away = [&](decision::kind what, std::uint64_t& count) {
      ++count;
      d.what = what;
      return d;
    };
    fleet::event e{.at_s = now.seconds(), .what = kind::arrived, .request = ++requests_};
    e.asks = view_of(w);
    e.asks.prefix_key = e.request;  // nothing is known of prefixes: it shares none
    if (e.asks.prompt > tessera::headroom::longest_prompt) {
      d.what = decision::kind::too_long;
      return d;
    }
    const auto shown = book().shown();
    const auto [worst, best] = grade(shown, w, e.asks);
    if (best == 0) return turn_away(decision::kind::none_ready, counts_.none_ready);
    if (sheds(w.objective) && all_busy(shown)) return turn_away(decision::kind::shed, counts_.shed);
    if (runs_.requests() == settings_.requests) return turn_away(decision::kind::full, counts_.full);
    if (worst != best) exclude(shown, now, [&, best = best](fleet::replica_id id) { return gates_[id].grade != best; });
    d.place = {e.request, placed(notify(e))};
    if (d.place.where == fleet::no_replica) {
      notify({.what = kind::ended, .request = e.request});
      return turn_away(decision::kind::none_ready, counts_.none_ready);
    }
    d.destination = slots_[d.place.where].is.where;
    add_others(d, shown, best);
    d.what = decision::kind::chosen;
    ++counts_.picked;
    return d;
  }
  /// A gateway has tried others than the first, and this one has answered: the request is there. If the endpoint takes
  /// nothing new by now, the request is in no book.
  void served(ticket& t, std::string_view where, time_point now) {
    const std::lock_guard lock{mutex_};
    const auto at = by_address_.find(std::string{where});
    const fleet::request_view* r = runs_.find(t.request);  // null: its lease is over
    if (at == by_address_.end() || r == nullptr || r->where == at->second) return;
    ++counts_.elsewhere;
    fleet::event e{.at_s = now.seconds(), .what = kind::refused, .replica = r->where, .request = t.request};
    if (r->where == fleet::no_replica) {  // the first was another process meanwhile
      e.what = kind::arrived;
      e.asks = *r;
    }
    exclude(book().shown(), now, [&](fleet::replica_id id) { return id != at->second; });
    t.where = placed(notify(e));
  }
  /// So many tokens have come; at least one.
  void progress(const ticket& t, std::uint64_t generated, time_point now) {
    const std::lock_guard lock{mutex_};
    const auto n = static_cast<std::int64_t>(std::clamp<std::uint64_t>(generated, 1, 1'000'000'000));
    notify({.at_s = now.seconds(),
            .what = kind::progressed,
            .replica = t.where,
            .request = t.request,
            .count = tessera::tokens{n}});
  }
  /// Its reasoning has ended.
  void answers(const ticket& t, time_point now) {
    const std::lock_guard lock{mutex_};
    notify({.at_s = now.seconds(), .what = kind::reasoning_ended, .replica = t.where, .request = t.request});
  }
  /// It has ended, however it did.
  void release(const ticket& t) {
    const std::lock_guard lock{mutex_};
    notify({.what = kind::ended, .request = t.request});
  }
  /// A prompt's text of `bytes` bytes was `tokens` tokens.
  void learn(std::uint64_t bytes, std::uint64_t tokens) {
    if (bytes < 64 || tokens == 0) return;
    const double said = static_cast<double>(bytes) / static_cast<double>(tokens);
    if (!(0.5 <= said && said <= 16)) return;
    const std::lock_guard lock{mutex_};
    bytes_per_token_ += (said - bytes_per_token_) / 64;
  }
  /// Room for `bytes` bytes of a body, or none.
  [[nodiscard]] bool hold(std::size_t bytes) noexcept {
    if (buffered_.fetch_add(bytes) + bytes <= settings_.buffered) return true;
    buffered_ -= bytes;
    return false;
  }
  /// They are not needed any more.
  void let_go(std::size_t bytes) noexcept { buffered_ -= bytes; }

  // -- to look at ----------------------------------------------------------------------------------------------------

  /// Whether any endpoint has said that it is ready.
  [[nodiscard]] bool ready() const {
    const std::lock_guard lock{mutex_};
    return book().shown().size() != 0;
  }
  /// Requests in the book.
  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock{mutex_};
    return book().size();
  }
  /// Bytes of bodies that are held.
  [[nodiscard]] std::size_t buffered() const noexcept { return buffered_; }
  /// Everything, for people and tests.
  [[nodiscard]] nlohmann::ordered_json state() const {
    const std::lock_guard lock{mutex_};
    nlohmann::ordered_json out{{"in_book", book().size()},
                               {"buffered", buffered_.load()},
                               {"picked", counts_.picked},
                               {"none_ready", counts_.none_ready},
                               {"shed", counts_.shed},
                               {"full", counts_.full},
                               {"elsewhere", counts_.elsewhere},
                               {"reports", counts_.reports},
                               {"restarts", counts_.restarts},
                               {"expired", book().expired()},
                               {"notes", notes_},
                               {"bytes_per_token", bytes_per_token_},
                               {"endpoints", nlohmann::ordered_json::array()}};
    for (fleet::replica_id id = 0; id != slots_.size(); ++id) {
      const slot& s = slots_[id];
      if (!s.used) continue;
      nlohmann::ordered_json e{{"address", s.is.where}, {"drains", !s.listed}, {"ready", book().contains(id)}};
      if (book().contains(id)) {
        const fleet::view& v = book().at(id);
        e["silent"] = book().silent(id);
        e["own"] = book().own(id).requests;
        e["requests"] = v.requests;
        e["kv_held"] = v.kv_held.count();
        e["waiting_blocks"] = v.waiting_blocks.count();
        e["capacity"] = v.capacity.count();
      }
      out["endpoints"].push_back(e);
    }
    return out;
  }

 private:
  using kind = fleet::event_kind;

  struct slot {
    endpoint is;
    std::uint64_t life = 0;
    std::uint64_t epoch = 0;    // Number of its last report. It never comes twice, whichever endpoint has the slot.
    std::uint64_t waiting = 0;  // In its queue, as reported.
    double started = 0;
    bool used = false;
    bool listed = false;
  };
  /// What is looked at for each request to see whether it may have a slot, apart from the rest of a thousand slots.
  struct gate {
    std::uint64_t subset = 0;  // The last request that might be sent there by its subset.
    std::size_t model = 0;     // Its number in `models_`; 0: any.
    bool opens = false;
    std::uint8_t grade = 0;  // For the request at hand: 0 it may not go there, 1 it may, 2 it fits there.
  };
  struct counts {
    std::uint64_t picked = 0;
    std::uint64_t none_ready = 0;
    std::uint64_t shed = 0;
    std::uint64_t full = 0;
    std::uint64_t elsewhere = 0;
    std::uint64_t reports = 0;
    std::uint64_t restarts = 0;
  };

  [[nodiscard]] tessera::tokens prompt_of(const pick_request& w) const noexcept {
    const double n = static_cast<double>(w.token_ids) + static_cast<double>(w.text_bytes) / bytes_per_token_;
    return tessera::tokens{static_cast<std::int64_t>(std::min(n, 1e15))};
  }
  [[nodiscard]] fleet::request_view view_of(const pick_request& w) const noexcept {
    const bool reasons = w.reasons.value_or(settings_.reasons);
    const auto most = static_cast<std::uint64_t>(tessera::headroom::longest_prompt.count());
    return {.prompt = prompt_of(w),
            .limit = tessera::tokens{static_cast<std::int64_t>(std::min(w.max_tokens, most))},
            .is = reasons ? tessera::phase::reasoning : tessera::phase::answering};
  }
  [[nodiscard]] const fleet::ledger<>& book() const noexcept { return runs_.book(); }
  /// Something has happened; without a moment, at the last one.
  std::span<const fleet::action> notify(fleet::event& e) {
    e.at_s = now_s_ = std::max(now_s_, e.at_s);
    const auto all = runs_.handle(e);
    if (heard_) heard_(e, all);
    for (const fleet::action& a : all) {
      if (a.what == fleet::action_kind::note) ++notes_[std::string{a.why.view()}];
    }
    return all;
  }
  std::span<const fleet::action> notify(fleet::event&& e) { return notify(e); }
  /// Where a request is placed by these actions.
  [[nodiscard]] static fleet::replica_id placed(std::span<const fleet::action> all) noexcept {
    for (const fleet::action& a : all) {
      if (a.what == fleet::action_kind::place) return a.replica;
    }
    return fleet::no_replica;
  }
  /// Before a request arrives: those of `shown` with a true `never(id)` may not be chosen.
  template <class Never>
  void exclude(const fleet::candidates<>& shown, time_point now, Never never) {
    fleet::event e{.at_s = now.seconds(), .what = kind::offers, .excluded = true};
    for (std::size_t i = 0; i != shown.size(); ++i) {
      e.replica = static_cast<fleet::replica_id>(shown[i].id);
      if (never(e.replica)) notify(e);
    }
  }
  /// Grades the endpoints that are shown. Returns the worst and the best grade, 0 if none is shown. An endpoint fits if
  /// it is for this length of prompt and can hold the request with all that it may generate.
  [[nodiscard]] std::pair<std::uint8_t, std::uint8_t> grade(const fleet::candidates<>& shown, const pick_request& w,
                                                            const fleet::request_view& r) {
    if (w.subset != nullptr) {
      ++subset_;
      for (const std::string& where : *w.subset) {
        if (const auto at = by_address_.find(where); at != by_address_.end()) gates_[at->second].subset = subset_;
      }
    }
    const auto known = models_.find(w.model);
    const std::size_t model = known == models_.end() ? models_.size() : known->second;
    const tessera::blocks needs = tessera::blocks_for(r.prompt, settings_.block_size);
    const tessera::blocks grows_to = tessera::blocks_for(r.prompt + r.limit, settings_.block_size);
    std::uint8_t worst = 2;
    std::uint8_t best = 0;
    for (std::size_t i = 0; i != shown.size(); ++i) {
      const fleet::view& v = shown[i];
      gate& g = gates_[v.id];
      const bool may =
          g.opens && (g.model == 0 || model == 0 || g.model == model) && (w.subset == nullptr || g.subset == subset_);
      const bool fits = v.from <= needs && needs < v.to && grows_to <= v.capacity;
      g.grade = !may ? 0 : fits ? 2 : 1;
      worst = std::min(worst, g.grade);
      best = std::max(best, g.grade);
    }
    return {worst, best};
  }
  /// Adds the endpoints for retries: the least load of those with this grade, and equals in turn. Controllers choose
  /// one endpoint and have no second choice.
  void add_others(decision& d, const fleet::candidates<>& shown, std::uint8_t grade) {
    const std::size_t most = settings_.choices - 1;
    const std::size_t first = d.place.request % slots_.size();
    others_.clear();
    for (std::size_t i = 0; i != shown.size() && most != 0; ++i) {
      const fleet::view& v = shown[i];
      if (gates_[v.id].grade != grade || v.id == d.place.where) continue;
      const std::tuple other{v.kv_held + v.waiting_blocks, v.id < first ? v.id + slots_.size() : v.id, v.id};
      if (others_.size() == most && others_.back() < other) continue;
      if (others_.size() == most) others_.pop_back();
      others_.insert(std::upper_bound(others_.begin(), others_.end(), other), other);
    }
    for (const auto& [load, turn, id] : others_) d.destination.append(",").append(slots_[id].is.where);
  }
  [[nodiscard]] bool current(const scrape_target& t) const noexcept {
    return t.id < slots_.size() && slots_[t.id].used && slots_[t.id].life == t.life;
  }
  bool join(fleet::replica_id id, const engine_metrics& m, time_point now) {
    slot& s = slots_[id];
    const std::uint64_t room = m.kv_tokens != 0 ? m.kv_tokens : s.is.kv_tokens;
    const auto block = static_cast<std::uint64_t>(settings_.block_size.count());
    if (room < block) return false;
    fleet::event e{.at_s = now.seconds(), .what = kind::joined, .replica = id, .number = book().incarnation(id) + 1};
    e.joins.capacity = tessera::blocks{static_cast<std::int64_t>(room / block)};
    e.joins.can = fleet::no_abilities;
    // All are taken to be as fast as each other. Then only how the square of a prompt compares to its length matters
    // for Phi_T, and a second's budget scales all alike.
    e.joins.prefill = {.cost = {.alpha = 1, .beta = 75'000},
                       .budget = {.peak_flops = 1e9, .ttft = tessera::duration{1.0}}};
    notify(e);
    if (!book().contains(id)) return false;
    s.started = m.started;
    if (s.is.from != 0 || s.is.to) {
      const auto in_blocks = [&](std::uint64_t n) {
        return tessera::blocks_for(tessera::tokens{static_cast<std::int64_t>(n)}, settings_.block_size);
      };
      const tessera::blocks from = in_blocks(s.is.from);
      notify({.what = kind::serves,
              .replica = id,
              .low = from,
              .high = s.is.to ? max(in_blocks(*s.is.to), from + tessera::blocks{1}) : fleet::endless});
    }
    return true;
  }
  void leave(fleet::replica_id id) {
    slot& s = slots_[id];
    s.listed = false;
    by_address_.erase(s.is.where);
    notify({.what = kind::drained, .replica = id});
  }
  void fail(fleet::replica_id id) { notify({.what = kind::failed, .replica = id, .number = book().incarnation(id)}); }
  void forget(fleet::replica_id id) {
    if (book().contains(id)) fail(id);
    slots_[id].used = false;
  }
  /// Forgets endpoints that drain and have nothing left. Gives a number to endpoints that are wanted and have none yet.
  void settle() {
    for (fleet::replica_id id = 0; id != slots_.size(); ++id) {
      const slot& s = slots_[id];
      if (s.used && !s.listed && (!book().contains(id) || book().own(id).requests == 0)) forget(id);
    }
    fleet::replica_id id = 0;
    for (const endpoint& e : wanted_) {
      if (by_address_.count(e.where) != 0) continue;
      while (id != slots_.size() && slots_[id].used) ++id;
      if (id == slots_.size()) return;  // goes on when an endpoint is forgotten
      slot& s = slots_[id];
      const std::uint64_t epoch = s.epoch;
      s = {};
      s.is = e;
      gates_[id] = {.model = number_of(e.model), .opens = e.takes_requests};
      s.life = ++lives_;
      s.epoch = epoch;
      s.used = true;
      s.listed = true;
      by_address_[e.where] = id;
    }
  }
  std::size_t number_of(const std::string& model) { return models_.try_emplace(model, models_.size()).first->second; }
  [[nodiscard]] bool sheds(std::string_view objective) const {
    if (objective.empty()) return false;
    const auto priority = objectives_.find(objective);
    return priority != objectives_.end() && priority->second < 0;
  }
  /// Whether all that the request may go to are busy.
  [[nodiscard]] bool all_busy(const fleet::candidates<>& shown) const noexcept {
    for (std::size_t i = 0; i != shown.size(); ++i) {
      const fleet::view& v = shown[i];
      const auto load = static_cast<double>((v.kv_held + v.waiting_blocks).count());
      const bool busy = slots_[v.id].waiting >= settings_.shed_waiting ||
                        load >= settings_.shed_kv * static_cast<double>(v.capacity.count());
      if (gates_[v.id].grade != 0 && !busy) return false;
    }
    return true;
  }

  const picker_settings settings_;
  mutable std::mutex mutex_;
  listener heard_;
  std::shared_ptr<fleet::controller> by_;
  tessera::owned_storage<fleet::runtime_limits> storage_;
  fleet::runtime runs_;
  std::vector<slot> slots_;
  std::vector<gate> gates_;
  std::map<std::string, std::size_t, std::less<>> models_{{"", 0}};  // Models of endpoints.
  std::vector<endpoint> wanted_;
  std::map<std::string, std::int64_t, std::less<>> objectives_;
  std::unordered_map<std::string, fleet::replica_id> by_address_;                  // Endpoints that are listed.
  std::vector<std::tuple<tessera::blocks, std::uint64_t, std::uint64_t>> others_;  // Load, turn and number; the least.
  std::map<std::string, std::uint64_t> notes_;                                     // How often each was made.
  std::uint64_t lives_ = 0;
  std::uint64_t subset_ = 0;
  std::uint64_t requests_ = 0;
  double now_s_ = 0;
  double bytes_per_token_;
  counts counts_;
  std::atomic<std::size_t> buffered_{0};
};

}  // namespace endpoint_picker
