// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What a fleet's ledger shows of engines that share prefixes, with the sets of blocks of each request as the truth.
// A report shows the engine to the block. Between two reports the view differs from the engine by no more than the
// ledger says.

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/placement/migrate_when_tight.hpp>

#include "support/catch.hpp"
#include "support/is_slow.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using fleet::load;
using fleet::reception;
using fleet::replica_id;
using fleet::report;
using fleet::request_id;
using ledger = fleet::ledger<>;

constexpr std::int64_t block_size = 4;
constexpr std::int64_t capacity = 400;

std::int64_t blocks_of(std::int64_t tokens) { return (tokens + block_size - 1) / block_size; }

/// An engine with a prefix cache: blocks with a name are found again. When room is needed, blocks that no request holds
/// are evicted, the longest unused first.
struct engine {
  struct block {
    int holders = 0;
    std::uint64_t name = 0;  // 0: cannot be found
  };
  struct request {
    std::vector<std::uint64_t> names{};  // of the whole blocks of its prompt
    std::int64_t prompt = 0;
    std::int64_t length = 0;
    bool is_ours = true;
    bool runs = false;
    std::int64_t hits = 0;
    std::vector<int> table{};
  };

  std::map<int, block> all{};
  std::map<std::uint64_t, int> named{};
  std::deque<int> idle{};
  std::map<request_id, request> requests{};
  std::vector<request_id> waiting{};
  int next = 0;

  [[nodiscard]] std::int64_t held() const {
    return std::count_if(all.begin(), all.end(), [](const auto& b) { return b.second.holders > 0; });
  }
  [[nodiscard]] std::int64_t match(const request& r) const {
    std::int64_t n = 0;
    while (n < (r.prompt - 1) / block_size && named.count(r.names[static_cast<std::size_t>(n)]) != 0) ++n;
    return n;
  }
  bool take(request& r, std::uint64_t name) {
    if (held() == capacity) return false;
    if (static_cast<std::int64_t>(all.size()) == capacity) {
      named.erase(all.at(idle.front()).name);
      all.erase(idle.front());
      idle.pop_front();
    }
    if (name != 0 && !named.emplace(name, next).second) name = 0;  // computed twice
    all[next] = {1, name};
    r.table.push_back(next++);
    return true;
  }
  /// It begins, and has its first token. Blocks that were idle before, or none if there is no room.
  std::optional<std::int64_t> begin(request_id id) {
    request& r = requests.at(id);
    r.hits = match(r);
    std::int64_t was_idle = 0;
    for (std::int64_t i = 0; i != r.hits; ++i) {
      const int b = named.at(r.names[static_cast<std::size_t>(i)]);
      if (all.at(b).holders++ == 0) {
        idle.erase(std::find(idle.begin(), idle.end(), b));
        ++was_idle;
      }
      r.table.push_back(b);
    }
    r.length = r.prompt + 1;
    while (static_cast<std::int64_t>(r.table.size()) < blocks_of(r.length)) {
      if (!take(r, r.table.size() < r.names.size() ? r.names[r.table.size()] : 0)) {
        give_back(r);
        return std::nullopt;
      }
    }
    r.runs = true;
    std::erase(waiting, id);
    return was_idle;
  }
  bool grow(request_id id, std::int64_t length) {
    request& r = requests.at(id);
    const std::int64_t more = blocks_of(length) - static_cast<std::int64_t>(r.table.size());
    if (held() + more > capacity) return false;
    for (std::int64_t i = 0; i < more; ++i) REQUIRE(take(r, 0));
    r.length = length;
    return true;
  }
  void give_back(request& r) {
    for (auto b = r.table.rbegin(); b != r.table.rend(); ++b) {
      if (--all.at(*b).holders != 0) continue;
      if (all.at(*b).name != 0) {
        idle.push_back(*b);
      } else {
        all.erase(*b);
      }
    }
    r.table.clear();
  }
  void end(request_id id) {
    give_back(requests.at(id));
    requests.erase(id);
    std::erase(waiting, id);
  }
  /// Blocks that only this request holds.
  [[nodiscard]] std::int64_t alone(request_id id) const {
    const std::vector<int>& t = requests.at(id).table;
    return std::count_if(t.begin(), t.end(), [&](int b) { return all.at(b).holders == 1; });
  }
  [[nodiscard]] load sum(bool ours_alone) const {
    load l;
    for (const auto& [id, r] : requests) {
      if (ours_alone && !r.is_ours) continue;
      ++l.requests;
      if (r.runs) {
        l.kv_held += blocks{static_cast<std::int64_t>(r.table.size()) - r.hits};
      } else {
        l.waiting_blocks += blocks{blocks_of(r.prompt)};
      }
    }
    if (!ours_alone) l.kv_held = blocks{held()};
    return l;
  }
};

struct setting {
  std::int64_t families = 1;  ///< Prompts that requests have in common.
  bool others = false;        ///< Another router sends there as well.
  bool says_own = false;      ///< Reports say which part is this router's.
  bool says_hits = false;     ///< Engines say what they have found.
  bool expects = false;       ///< KV events say what is in the cache. Then hits are said as well.
};

/// Returns how many requests have moved.
std::size_t run(std::uint64_t seed, const setting& s) {
  CAPTURE(seed, s.families, s.others, s.says_own, s.says_hits, s.expects);
  constexpr std::int64_t depth = 12;
  constexpr std::size_t replicas = 2;
  std::mt19937_64 random{seed};
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  auto storage = storage_for<ledger>({.replicas = replicas, .reservations = 100});
  ledger l{storage, {.block_size = tokens{block_size}, .rest = 0_s, .tight = 300_blk}};
  placement::migrate_when_tight policy{.headroom = 300_blk};
  engine engines[replicas];
  std::uint64_t epochs[replicas] = {};
  std::int64_t was_idle[replicas] = {};  // blocks that hits have brought back since the last report
  for (replica_id id = 0; id != replicas; ++id) REQUIRE(ok(l.join(id, 1, {.capacity = blocks{capacity}}, {})));
  request_id next = 1;
  std::size_t moves = 0;
  const auto draw = [&](bool is_ours) {
    engine::request r;
    const std::int64_t family = below(s.families + 1);  // the last has nothing in common with any
    r.prompt = 1 + below(4 * block_size) + (family != s.families ? depth * block_size : 0);
    for (std::int64_t i = 0; i != r.prompt / block_size; ++i) {
      const bool is_common = family != s.families && i < depth;
      r.names.push_back(static_cast<std::uint64_t>(is_common ? 1 + family * depth + i
                                                             : 1'000'000 + 100 * static_cast<std::int64_t>(next) + i));
    }
    r.is_ours = is_ours;
    return r;
  };
  const auto some = [&](const engine& e, bool ours, bool running) -> std::optional<request_id> {
    std::vector<request_id> ids;
    for (const auto& [id, r] : e.requests) {
      if (r.is_ours == ours && r.runs == running) ids.push_back(id);
    }
    if (ids.empty()) return std::nullopt;
    return ids[static_cast<std::size_t>(below(static_cast<std::int64_t>(ids.size())))];
  };
  const auto begins = [&](replica_id id, request_id r) {
    engine& e = engines[id];
    const std::optional<std::int64_t> idle = e.begin(r);
    if (!idle) return;
    was_idle[id] += *idle;
    if (!e.requests.at(r).is_ours) return;
    CHECK(l.first_token(r, id, {}));
    if (s.says_hits) CHECK(l.cache_hit(r, id, tokens{e.requests.at(r).hits * block_size}, {}));
  };
  for (int step = 0; step != 400; ++step) {
    const auto id = static_cast<replica_id>(below(replicas));
    engine& e = engines[id];
    bool reports = false;
    const std::int64_t what = below(20);
    if (what < 6) {
      if (l.size() < 30) {
        const engine::request r = draw(true);
        const tokens cached{s.expects ? e.match(r) * block_size : 0};
        REQUIRE(ok(l.reserve(next, id, {.prompt = tokens{r.prompt}, .cached = cached}, {})));
        e.requests[next] = r;
        e.waiting.push_back(next++);
      }
    } else if (what < 11) {
      if (!e.waiting.empty()) begins(id, e.waiting.front());
    } else if (what < 13) {
      if (const auto r = some(e, true, true)) {
        const std::int64_t length = e.requests.at(*r).length + below(3 * block_size);
        if (e.grow(*r, length)) CHECK(l.progress(*r, id, tokens{length - e.requests.at(*r).prompt}, {}));
      }
    } else if (what < 16) {
      if (const auto r = some(e, true, below(4) != 0)) {
        e.end(*r);
        CHECK(l.release(*r, id));
        CHECK_FALSE(l.release(*r, id));
      }
    } else if (what < 17) {
      // A report that is late or doubled changes nothing.
      const std::int64_t before = l.at(id).kv_held.count();
      if (epochs[id] != 0) {
        const std::uint64_t epoch = epochs[id] - static_cast<std::uint64_t>(below(2));
        CHECK(l.receive(id, {.incarnation = 1, .epoch = epoch, .all = {.requests = 99}}, {}) != reception::taken);
      }
      CHECK(l.at(id).kv_held.count() == before);
    } else if (what < 18) {
      for (const fleet::move& m : l.propose_moves(policy, time_point::at_seconds(step))) {
        engine& from = engines[m.from];
        const std::int64_t size = static_cast<std::int64_t>(from.requests.at(m.request).table.size());
        REQUIRE(size == m.size.count());
        // What it frees is at least half of what it copies, unless another router's request shares it.
        if (!s.others && s.says_hits) REQUIRE(2 * from.alone(m.request) >= size);
        REQUIRE(from.alone(m.request) >= 1);
        engine::request copy = from.requests.at(m.request);
        copy.table.clear();
        copy.hits = 0;
        copy.names.clear();
        engine& to = engines[m.to];
        to.requests[m.request] = copy;
        if (below(3) == 0 || !to.grow(m.request, copy.length)) {
          to.end(m.request);
          CHECK(l.release(m.request, m.to));
          continue;
        }
        ++moves;
        from.end(m.request);
        CHECK(l.moved(m.request, m.to, {}));
      }
    } else {
      reports = true;
      // Another router's requests come, begin and end, as the report will say.
      for (std::int64_t i = 0; s.others && i != 4; ++i) {
        const auto r = some(e, false, true);
        if (r && below(2) == 0) e.end(*r);
        e.requests[next] = draw(false);
        begins(id, next);
        if (!e.requests.at(next).runs) e.end(next);
        ++next;
      }
      if (below(2) == 0) l.asked(id);
      report said{.incarnation = 1, .epoch = ++epochs[id], .all = e.sum(false), .free = blocks{capacity - e.held()}};
      if (s.says_own) said.own = e.sum(true);
      REQUIRE(l.receive(id, said, {}) == reception::taken);
      was_idle[id] = 0;
    }
    for (replica_id k = 0; k != replicas; ++k) {
      CAPTURE(step, k);
      const fleet::view& v = l.at(k);
      const std::int64_t truth = engines[k].held();
      const std::int64_t shown = v.kv_held.count();
      const load own = l.own(k);
      REQUIRE(v.requests >= own.requests);
      REQUIRE(v.waiting_blocks >= own.waiting_blocks);
      if (reports && k == id) {
        REQUIRE(shown == truth);
        REQUIRE(v.requests == engines[k].requests.size());
        REQUIRE(v.free_blocks.count() == std::max<std::int64_t>(capacity - truth - own.waiting_blocks.count(), 0));
      }
      if (epochs[k] == 0) continue;
      // Less by what hits have brought back, and by common prompts that are not kept: all except the longest. Another
      // router's requests may have them all, and then the longest may have been kept in vain.
      const std::int64_t unkept = (s.families + (s.others ? 1 : -1)) * depth;
      // Where neither hits nor `own` are said, what ends may be another router's.
      if (s.says_hits || s.says_own || !s.others) REQUIRE(shown >= truth - was_idle[k] - unkept);
      // More by the common prompts of the report, and by the longest once more that is kept in vain.
      if (s.says_hits) REQUIRE(shown <= truth + (s.families + 1) * depth);
    }
  }
  for (replica_id id = 0; id != replicas; ++id) {
    while (const auto r = some(engines[id], true, true)) {
      engines[id].end(*r);
      CHECK(l.release(*r, id));
    }
    while (const auto r = some(engines[id], true, false)) {
      engines[id].end(*r);
      CHECK(l.release(*r, id));
    }
    CHECK(l.own(id) == load{});
  }
  CHECK(l.size() == 0);
  return moves;
}

TEST_CASE("fleet blocks: a view is the report and what has changed since, beside engines that share prefixes") {
  const std::uint64_t seeds = tessera_test::is_slow ? 6 : 60;
  std::size_t moves = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    for (const std::int64_t families : {1, 3}) {
      for (const bool others : {false, true}) {
        for (const bool says_own : {false, true}) {
          moves += run(seed, {families, others, says_own, false, false});
          moves += run(seed, {families, others, says_own, true, false});
          moves += run(seed, {families, others, says_own, true, true});
        }
      }
    }
  }
  CHECK(moves > 100);
}

}  // namespace
