// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "endpoints.hpp"
#include "engine_metrics.hpp"
#include "policies.hpp"

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/ledger.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

/// @file
/// The book behind all streams: endpoints by address, the fleet's ledger by number, one policy. Streams, the thread
/// that reads metrics and the one that reads the file share it. A lock, held for a call, gives the ledger one thread at
/// a time.

namespace endpoint_picker {

/// How endpoints are chosen, and when requests are turned away.
struct picker_settings {
  std::string policy = "least_load";
  std::uint64_t seed = 1;
  double expected = 0;             ///< For `fill_to_level`.
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
  tessera::fleet::request_id request = 0;
  tessera::fleet::replica_id where = tessera::fleet::no_replica;
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
  tessera::fleet::replica_id id = 0;
  std::uint64_t life = 0;
  std::string where;
};

/// Chooses, and keeps the book. Every call takes a lock, and the time from its caller.
class picker {
 public:
  using time_point = tessera::time_point;

  /// Requires a policy that there is.
  explicit picker(const picker_settings& s)
      : settings_{s},
        storage_{tessera::storage_for<ledger>({.replicas = 2 * s.endpoints, .reservations = s.requests, .moves = 1})},
        book_{storage_, {.block_size = s.block_size, .lease = s.lease, .silence = s.silence}},
        policy_{policy_of(s.policy, s.seed, s.expected).value()},
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
    for (tessera::fleet::replica_id id = 0; id != slots_.size(); ++id) {
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
    for (tessera::fleet::replica_id id = 0; id != slots_.size(); ++id) {
      if (slots_[id].used) out.push_back({id, slots_[id].life, slots_[id].is.where});
    }
    return out;
  }
  /// An endpoint is asked for its metrics now.
  void asked(const scrape_target& t) {
    const std::lock_guard lock{mutex_};
    if (current(t)) book_.asked(t.id);
  }
  /// It has said them. A process that began at another time than before is another one: what it had is lost.
  void reported(const scrape_target& t, const engine_metrics& m, time_point now) {
    const std::lock_guard lock{mutex_};
    if (!current(t)) return;
    slot& s = slots_[t.id];
    if (book_.contains(t.id) && m.started != 0 && s.started != 0 && m.started != s.started) {
      book_.fence(t.id, book_.incarnation(t.id));
      ++counts_.restarts;
      if (!s.listed) return forget(t.id);
    }
    s.waiting = m.waiting;
    if (!book_.contains(t.id) && !(s.listed && join(t.id, m, now))) return;
    const std::int64_t capacity = book_.at(t.id).capacity.count();
    tessera::fleet::report r{.incarnation = book_.incarnation(t.id), .epoch = ++s.epoch};
    r.all.requests = m.running + m.waiting;
    r.all.kv_held = tessera::blocks{static_cast<std::int64_t>(m.kv_usage * static_cast<double>(capacity))};
    if (settings_.alone) r.own = r.all;  // then one's own book says all, and says it now
    book_.receive(t.id, r, now);
    ++counts_.reports;
  }
  /// Nothing listens there: others are preferred until it has said something again.
  void unreachable(const scrape_target& t) {
    const std::lock_guard lock{mutex_};
    if (current(t) && book_.contains(t.id)) book_.lost(t.id, book_.incarnation(t.id));
  }
  /// Time has passed.
  void tick(time_point now) {
    const std::lock_guard lock{mutex_};
    book_.expire(now);
    settle();
  }

  // -- requests ------------------------------------------------------------------------------------------------------

  /// Where a request goes; it is in the book from now on if it goes anywhere. O(endpoints).
  [[nodiscard]] decision pick(const pick_request& w, time_point now) {
    const std::lock_guard lock{mutex_};
    decision d;
    const tessera::tokens prompt = prompt_of(w);
    if (prompt > tessera::headroom::longest_prompt) {
      d.what = decision::kind::too_long;
      return d;
    }
    if (w.subset != nullptr) {
      ++subset_;
      for (const std::string& where : *w.subset) {
        if (const auto at = by_address_.find(where); at != by_address_.end()) gates_[at->second].subset = subset_;
      }
    }
    const bool anybody = alike_ && w.subset == nullptr;  // then a thousand gates need not be looked at
    const auto known = models_.find(w.model);
    const std::size_t model = known == models_.end() ? models_.size() : known->second;
    const auto may = [&](const tessera::fleet::view& v) noexcept {
      if (anybody) return true;
      const gate& g = gates_[v.id];
      return g.opens && (g.model == 0 || model == 0 || g.model == model) &&
             (w.subset == nullptr || g.subset == subset_);
    };
    // Endpoints for this length of prompt that can hold the request with all that it may generate, if there are any.
    const tessera::blocks needs = tessera::blocks_for(prompt, settings_.block_size);
    const tessera::tokens most{static_cast<std::int64_t>(std::min<std::uint64_t>(w.max_tokens, 1'000'000'000'000))};
    const tessera::blocks grows_to = tessera::blocks_for(prompt + most, settings_.block_size);
    const auto fits = [&](const tessera::fleet::view& v) noexcept {
      return v.from <= needs && needs < v.to && grows_to <= v.capacity && may(v);
    };
    std::span<const tessera::fleet::replica_id> ranked = rank(fits);
    if (ranked.empty()) ranked = rank(may);
    if (ranked.empty()) {
      ++counts_.none_ready;
      return d;
    }
    if (sheds(w.objective) && all_busy(may)) {
      ++counts_.shed;
      d.what = decision::kind::shed;
      return d;
    }
    d.place = {++requests_, ranked.front()};
    if (!ok(book_.reserve(d.place.request, d.place.where, arrival_of(w), now))) {
      ++counts_.full;
      d.what = decision::kind::full;
      return d;
    }
    for (const tessera::fleet::replica_id id : ranked) {
      if (!d.destination.empty()) d.destination += ',';
      d.destination += slots_[id].is.where;
    }
    d.what = decision::kind::chosen;
    ++counts_.picked;
    return d;
  }
  /// A gateway has tried others than the first, and this one has answered: the request is there.
  void served(ticket& t, std::string_view where, const pick_request& w, time_point now) {
    const std::lock_guard lock{mutex_};
    const auto at = by_address_.find(std::string{where});
    if (at == by_address_.end() || at->second == t.where) return;
    ++counts_.elsewhere;
    book_.release(t.request, t.where);
    t.where = at->second;
    static_cast<void>(book_.reserve(t.request, t.where, arrival_of(w), now));  // full: then it is in no book
  }
  /// So many tokens have come; at least one.
  void progress(const ticket& t, std::uint64_t generated, time_point now) {
    const std::lock_guard lock{mutex_};
    const auto n = static_cast<std::int64_t>(std::clamp<std::uint64_t>(generated, 1, 1'000'000'000));
    book_.progress(t.request, t.where, tessera::tokens{n}, now);
  }
  /// Its reasoning has ended.
  void answers(const ticket& t, time_point now) {
    const std::lock_guard lock{mutex_};
    book_.answers(t.request, t.where, now);
  }
  /// It has ended, however it did.
  void release(const ticket& t) {
    const std::lock_guard lock{mutex_};
    book_.release(t.request, t.where);
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
    return book_.shown().size() != 0;
  }
  /// Requests in the book.
  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock{mutex_};
    return book_.size();
  }
  /// Bytes of bodies that are held.
  [[nodiscard]] std::size_t buffered() const noexcept { return buffered_; }
  /// Everything, for people and tests.
  [[nodiscard]] nlohmann::ordered_json state() const {
    const std::lock_guard lock{mutex_};
    nlohmann::ordered_json out{{"in_book", book_.size()},
                               {"buffered", buffered_.load()},
                               {"picked", counts_.picked},
                               {"none_ready", counts_.none_ready},
                               {"shed", counts_.shed},
                               {"full", counts_.full},
                               {"elsewhere", counts_.elsewhere},
                               {"reports", counts_.reports},
                               {"restarts", counts_.restarts},
                               {"expired", book_.expired()},
                               {"bytes_per_token", bytes_per_token_},
                               {"endpoints", nlohmann::ordered_json::array()}};
    for (tessera::fleet::replica_id id = 0; id != slots_.size(); ++id) {
      const slot& s = slots_[id];
      if (!s.used) continue;
      nlohmann::ordered_json e{{"address", s.is.where}, {"drains", !s.listed}, {"ready", book_.contains(id)}};
      if (book_.contains(id)) {
        const tessera::fleet::view& v = book_.at(id);
        e["silent"] = book_.silent(id);
        e["own"] = book_.own(id).requests;
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
  using ledger = tessera::fleet::ledger<>;

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
  [[nodiscard]] tessera::fleet::arrival arrival_of(const pick_request& w) const noexcept {
    const bool reasons = w.reasons.value_or(settings_.reasons);
    return {.prompt = prompt_of(w), .starts_in = reasons ? tessera::phase::reasoning : tessera::phase::answering};
  }
  [[nodiscard]] bool current(const scrape_target& t) const noexcept {
    return t.id < slots_.size() && slots_[t.id].used && slots_[t.id].life == t.life;
  }
  bool join(tessera::fleet::replica_id id, const engine_metrics& m, time_point now) {
    slot& s = slots_[id];
    const std::uint64_t room = m.kv_tokens != 0 ? m.kv_tokens : s.is.kv_tokens;
    const auto block = static_cast<std::uint64_t>(settings_.block_size.count());
    if (room < block) return false;
    tessera::fleet::replica what{.capacity = tessera::blocks{static_cast<std::int64_t>(room / block)}};
    if (settings_.policy == "phi_time") {
      // All are taken to be as fast as each other. Then only how the square of a prompt compares to its length matters,
      // and a second's budget scales all alike.
      what.role = tessera::control::role::prefill;
      what.prefill = {.cost = {.alpha = 1, .beta = 75'000},
                      .budget = {.peak_flops = 1e9, .ttft = tessera::duration{1.0}}};
    }
    if (!ok(book_.join(id, book_.incarnation(id) + 1, what, now))) return false;
    s.started = m.started;
    if (s.is.from != 0 || s.is.to) {
      const auto in_blocks = [&](std::uint64_t n) {
        return tessera::blocks_for(tessera::tokens{static_cast<std::int64_t>(n)}, settings_.block_size);
      };
      const tessera::blocks from = in_blocks(s.is.from);
      book_.set_range(id, from,
                      s.is.to ? max(in_blocks(*s.is.to), from + tessera::blocks{1}) : tessera::fleet::endless);
    }
    return true;
  }
  void leave(tessera::fleet::replica_id id) {
    slot& s = slots_[id];
    s.listed = false;
    by_address_.erase(s.is.where);
    book_.drain(id);
  }
  void forget(tessera::fleet::replica_id id) {
    if (book_.contains(id)) book_.fence(id, book_.incarnation(id));
    slots_[id].used = false;
  }
  /// Forgets endpoints that drain and have nothing left. Gives a number to endpoints that are wanted and have none yet.
  void settle() {
    alike_ = true;
    for (tessera::fleet::replica_id id = 0; id != slots_.size(); ++id) {
      const slot& s = slots_[id];
      if (s.used && !s.listed && (!book_.contains(id) || book_.own(id).requests == 0)) forget(id);
      if (s.used) alike_ = alike_ && takes_all(s.is);
    }
    tessera::fleet::replica_id id = 0;
    for (const endpoint& e : wanted_) {
      if (by_address_.count(e.where) != 0) continue;
      while (id != slots_.size() && slots_[id].used) ++id;
      if (id == slots_.size()) return;  // goes on when an endpoint is forgotten
      slot& s = slots_[id];
      const std::uint64_t epoch = s.epoch;
      s = {};
      s.is = e;
      alike_ = alike_ && takes_all(e);
      gates_[id] = {.model = number_of(e.model), .opens = e.takes_requests};
      s.life = ++lives_;
      s.epoch = epoch;
      s.used = true;
      s.listed = true;
      by_address_[e.where] = id;
    }
  }
  std::size_t number_of(const std::string& model) { return models_.try_emplace(model, models_.size()).first->second; }
  [[nodiscard]] static bool takes_all(const endpoint& e) noexcept { return e.takes_requests && e.model.empty(); }
  template <class May>
  [[nodiscard]] std::span<const tessera::fleet::replica_id> rank(const May& may) noexcept {
    return std::visit([&](auto& p) noexcept { return book_.rank(p, settings_.choices, may); }, policy_);
  }
  [[nodiscard]] bool sheds(std::string_view objective) const {
    if (objective.empty()) return false;
    const auto priority = objectives_.find(objective);
    return priority != objectives_.end() && priority->second < 0;
  }
  template <class May>
  [[nodiscard]] bool all_busy(const May& may) const noexcept {
    const auto shown = book_.shown();
    for (std::size_t i = 0; i != shown.size(); ++i) {
      const tessera::fleet::view& v = shown[i];
      const auto load = static_cast<double>((v.kv_held + v.waiting_blocks).count());
      const bool busy = slots_[v.id].waiting >= settings_.shed_waiting ||
                        load >= settings_.shed_kv * static_cast<double>(v.capacity.count());
      if (may(v) && !busy) return false;
    }
    return true;
  }

  const picker_settings settings_;
  mutable std::mutex mutex_;
  tessera::owned_storage<ledger::limits> storage_;
  ledger book_;
  policy policy_;
  std::vector<slot> slots_;
  std::vector<gate> gates_;
  std::map<std::string, std::size_t, std::less<>> models_{{"", 0}};  // Models of endpoints.
  std::vector<endpoint> wanted_;
  std::map<std::string, std::int64_t, std::less<>> objectives_;
  std::unordered_map<std::string, tessera::fleet::replica_id> by_address_;  // Endpoints that are listed.
  bool alike_ = true;  // Every endpoint takes requests, for any model.
  std::uint64_t lives_ = 0;
  std::uint64_t subset_ = 0;
  std::uint64_t requests_ = 0;
  double bytes_per_token_;
  counts counts_;
  std::atomic<std::size_t> buffered_{0};
};

}  // namespace endpoint_picker
