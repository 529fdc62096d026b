// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/telemetry.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/fleet/ledger_types.hpp>
#include <tessera/fleet/report.hpp>
#include <tessera/fleet/reservations.hpp>
#include <tessera/fleet/view.hpp>
#include <tessera/headroom/prefill_load.hpp>
#include <tessera/headroom/space.hpp>
#include <tessera/kv/fragmentation.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>

/// @file
/// Requests by replica, what they add up to, and what views show of that: the accounts below `fleet::ledger`.

TESSERA_NAMESPACE_BEGIN
namespace fleet::detail {

/// Which requests are where, and what they are to their replicas. Each change of a reservation changes the sums of its
/// replica, and its view. O(1) unless said otherwise; nothing allocates.
template <clock_policy Clock>
class ledger_book {
 protected:
  using time_point = basic_time_point<Clock>;
  using settings = ledger_settings<Clock>;
  using held = reservation<Clock>;
  enum class condition : std::uint8_t { absent, open, draining };

  /// What requests add up to. Blocks: those that they have not found in the prefix cache.
  struct sums {
    std::size_t requests = 0;
    blocks kv_held{};
    blocks waiting_blocks{};
    std::size_t reasoning = 0;
    std::size_t fresh_answers = 0;
    headroom::prefill_load prefill{};
    blocks doubtful{};  // The part of `kv_held` in prompts that may be shared, because no hit was said.
    // For the requests that are there:
    std::size_t sharers = 0;  // Requests that share a prefix.
    blocks depth{};           // The longest that they share.
    blocks kept{};            // The part of `depth` that none of these requests has computed.
  };
  struct entry {
    replica what{};
    std::uint64_t incarnation = 0;
    std::uint64_t epoch = 0;
    time_point heard{};
    load others{};
    blocks total_room{};  // As reported: free, and what this router's requests held then.
    blocks doubled{};     // What the book counts more than once, as far as the last report shows.
    blocks remain{};      // What stays there of requests that leave.
    sums here{};          // This router's requests that are there.
    sums counts{};        // This router's requests as policies see them.
    sums then{};          // `here` when the report was asked for.
    list<&held::there> requests{};
    links by_time{};
    std::uint32_t reports = 0;  // How many were taken.
    condition is = condition::absent;
    bool was_asked = false;
    bool is_silent = false;
    bool is_changing = false;
  };

  [[nodiscard]] static constexpr std::size_t required_bytes(const ledger_limits& l) noexcept {
    return storage_layout{}
        .template add<entry>(l.replicas)
        .template add<view>(l.replicas)
        .template add<replica_id>(l.replicas)
        .template add<std::uint32_t>(l.replicas)
        .add_bytes(reservations<Clock>::required_bytes(l.reservations))
        .bytes();
  }
  ledger_book(arena& memory, const ledger_limits& l, const settings& s) noexcept
      : limits_{l},
        settings_{s},
        replicas_{memory.take<entry>(l.replicas)},
        views_{memory.take<view>(l.replicas)},
        open_{memory, l.replicas},
        place_{memory.take<std::uint32_t>(l.replicas)},
        book_{memory, l.reservations} {}

  reception take(replica_id id, const report& said, time_point now) noexcept {
    if (id >= limits_.replicas) return reception::unknown;
    if (!well_formed(said)) return reception::malformed;
    entry& r = replicas_[id];
    const bool is_there = r.is != condition::absent;
    if (is_there ? said.incarnation < r.incarnation : said.incarnation <= r.incarnation) return reception::former;
    if (!is_there || said.incarnation > r.incarnation) return reception::unknown;
    if (said.epoch == r.epoch) return reception::doubled;
    if (said.epoch < r.epoch) return reception::late;
    const load own = own_then(id, said);
    const bool was_heard = r.epoch != 0 && !r.is_silent;
    r.epoch = said.epoch;
    ++r.reports;
    r.was_asked = false;
    r.others = without(said.all, own);
    // What waits is not in what is held, and takes of what is free.
    const blocks free = said.free ? *said.free : r.what.capacity - said.all.kv_held;
    r.total_room = min(max(free, blocks{}) + min(own.kv_held, said.all.kv_held), r.what.capacity);
    views_[id].slo_met = said.slo_met;
    views_[id].reported_s = now.seconds();
    if (!r.is_silent) by_time_.erase(replicas_, id);
    by_time_.push_back(replicas_, id);
    r.heard = now;
    refresh(id);
    r.is_silent = false;
    if (!was_heard) reopen();
    return reception::taken;
  }
  /// The part of a report that was this router's, in the blocks of the replica. Corrects what the book has more than
  /// the report. That is a prefix that it kept in vain, and prompts that it counted twice because no hit was said. A
  /// report that does not have all of the book's requests is of another moment, and corrects nothing.
  [[nodiscard]] load own_then(replica_id id, const report& said) noexcept {
    entry& r = replicas_[id];
    const sums then = r.was_asked ? r.then : r.here;
    load own = said.own ? *said.own : as_load(id, then);
    blocks kept = then.kept;
    r.doubled = min(r.doubled, then.doubtful);
    if ((said.own ? own.requests : said.all.requests) >= then.requests) {
      kept = min(kept, max(said.all.kv_held - own.kv_held, blocks{}));
      if (r.here.kept == then.kept) r.here.kept = kept;
      // What waited then and has begun since is no more than what waits less now.
      const blocks begun = said.own ? max(own.waiting_blocks - then.waiting_blocks, blocks{}) : blocks{};
      const blocks more = then.kv_held - begun - (said.own ? own.kv_held : said.all.kv_held);
      // Where nothing says which of the blocks are this router's, as few as can be: they are what an end sets free.
      r.doubled = said.own ? min(max(more, blocks{}), then.doubtful) : more > blocks{} ? then.doubtful : blocks{};
    }
    own.kv_held += kept - (said.own ? blocks{} : r.doubled);
    return own;
  }
  void silence(replica_id id) noexcept {
    if (replicas_[id].is_silent) return;
    replicas_[id].is_silent = true;
    by_time_.erase(replicas_, id);
  }

  /// The set of replicas that take requests has changed. If all replicas that have ever reported are silent, the
  /// reports are broken, or there are none. Then all replicas are shown, and not only those that have just joined.
  void reopen() noexcept {
    open_.clear();
    const std::span<const entry> all{replicas_, limits_.replicas};
    const auto takes_requests = [](const entry& r) noexcept { return r.is == condition::open && !r.is_changing; };
    const bool reports = std::any_of(all.begin(), all.end(), [&](const entry& r) noexcept {
      return takes_requests(r) && !r.is_silent && r.epoch != 0;
    });
    for (std::size_t id = 0; id != all.size(); ++id) {
      if (takes_requests(all[id]) && !(reports && all[id].is_silent)) open_.push_back(static_cast<replica_id>(id));
    }
    for (std::size_t id = 0; id != limits_.replicas; ++id) place_[id] = no_index;
    for (std::uint32_t k = 0; k != open_.size(); ++k) place_[open_[k]] = k;
  }

  // What a request is to its replica.

  void add(sums& to, const held& h) noexcept {
    ++to.requests;
    (h.started ? to.kv_held : to.waiting_blocks) += h.size - h.shared;
    to.doubtful += doubtful(h);
    to.reasoning += h.answers ? 0 : 1;
    to.fresh_answers += is_fresh(h) ? 1U : 0U;
    if (!h.started) to.prefill.join(h.prompt, h.cached);
  }
  void subtract(sums& from, const held& h) noexcept {
    --from.requests;
    (h.started ? from.kv_held : from.waiting_blocks) -= h.size - h.shared;
    from.doubtful -= doubtful(h);
    from.reasoning -= h.answers ? 0 : 1;
    from.fresh_answers -= is_fresh(h) ? 1U : 0U;
    if (!h.started) from.prefill.leave(h.prompt, h.cached);
  }
  [[nodiscard]] bool is_fresh(const held& h) const noexcept {
    return h.answers && h.generated - h.reasoned < settings_.quantum;
  }
  /// Leading blocks of its prompt that can be shared when `cached` tokens are in a cache. Only whole blocks count, and
  /// the last token is always computed.
  [[nodiscard]] blocks prefix_of(const held& h, tokens cached) const noexcept {
    const tokens most = min(cached, max(h.prompt - tokens{1}, tokens{}));
    return blocks{most / settings_.block_size};
  }
  /// Blocks that it holds and may share, besides those that it is known to share.
  [[nodiscard]] blocks doubtful(const held& h) const noexcept {
    return h.started && !h.has_hit ? prefix_of(h, h.prompt) - h.shared : blocks{};
  }
  /// Whether it held blocks when the last report came.
  [[nodiscard]] bool was_reported(const held& h) const noexcept {
    return h.started && h.since != replicas_[h.where].reports;
  }

  // What is shared. A prefix counts for the request that has computed it: for one that found less in the cache. If
  // there is none, it is kept while a request shares it.

  /// Before `add`.
  void enter(sums& to, const held& h) noexcept {
    if (h.shared == blocks{}) return;
    if (to.sharers == to.requests) to.kept = max(to.kept, h.shared);
    ++to.sharers;
    to.depth = max(to.depth, h.shared);
  }
  void leave(sums& from, const held& h) noexcept {
    if (h.shared > blocks{}) --from.sharers;
    if (from.sharers == 0) {
      from.depth = from.kept = blocks{};
    } else if (h.shared < from.depth) {
      from.kept = max(from.kept, min(prefix_of(h, h.prompt), from.depth));
    }
  }
  /// It shares so much from now on.
  void reshare(sums& of, const held& h, blocks shared) noexcept {
    of.sharers -= h.shared > blocks{} ? 1U : 0U;
    of.sharers += shared > blocks{} ? 1U : 0U;
    if (of.sharers == 0) {
      of.depth = of.kept = blocks{};
    } else {
      of.depth = max(of.depth, shared);
      if (of.sharers == of.requests) of.kept = max(of.kept, shared);
    }
  }
  /// It counts no more. What was taken off for its prompt, because the report had it once, is not taken off again.
  void count_again(const held& h) noexcept {
    if (was_reported(h)) replicas_[h.where].doubled -= min(replicas_[h.where].doubled, doubtful(h));
  }
  /// Blocks that become free where it is, as far as is certain, when it goes on elsewhere.
  [[nodiscard]] blocks frees(const held& h) const noexcept {
    const entry& r = replicas_[h.where];
    const bool others_share = r.here.sharers > (h.shared > blocks{} ? 1U : 0U);
    blocks stays = others_share ? max(min(prefix_of(h, h.prompt), r.here.depth), h.shared) : h.shared;
    if (r.doubled > blocks{} && was_reported(h)) stays = max(stays, h.shared + doubtful(h));
    return h.size - stays;
  }

  void put_in(const held& h) noexcept {
    entry& r = replicas_[h.where];
    if (h.stands != standing::incoming) add(r.here, h);
    if (h.stands != standing::leaving) add(r.counts, h);
    refresh(h.where);
  }
  void take_out(const held& h) noexcept {
    entry& r = replicas_[h.where];
    if (h.stands != standing::incoming) subtract(r.here, h);
    if (h.stands != standing::leaving) subtract(r.counts, h);
  }
  /// Changes a reservation, and what it adds up to.
  template <class Change>
  void update(std::uint32_t i, Change change) noexcept {
    held& h = book_.data()[i];
    take_out(h);
    change(h);
    put_in(h);
  }

  [[nodiscard]] load as_load(replica_id id, const sums& s) const noexcept {
    return {.requests = s.requests,
            .kv_held = s.kv_held,
            .waiting_blocks = s.waiting_blocks,
            .reasoning = s.reasoning,
            .fresh_answers = s.fresh_answers,
            .prefill_flops = s.prefill.flops(replicas_[id].what.prefill.cost)};
  }
  [[nodiscard]] double time_phi(replica_id id) const noexcept {
    const double budget = replicas_[id].what.prefill.budget.flops();
    return budget > 0 ? 1.0 - views_[id].prefill_backlog / budget : 1.0;
  }
  void refresh(replica_id id) noexcept {
    const entry& r = replicas_[id];
    view& v = views_[id];
    v.requests = r.others.requests + r.counts.requests;
    const blocks own = r.counts.kv_held + r.here.kept + r.remain - min(r.doubled, r.counts.doubtful);
    v.kv_held = r.others.kv_held + own;
    v.waiting_blocks = r.others.waiting_blocks + r.counts.waiting_blocks;
    v.reasoning = r.others.reasoning + r.counts.reasoning;
    v.fresh_answers = r.others.fresh_answers + r.counts.fresh_answers;
    const blocks free = r.total_room - own - r.counts.waiting_blocks;
    v.free_blocks = min(max(free, blocks{}), v.capacity);
    v.free_after_queue = free - r.others.waiting_blocks;
    v.queued = r.counts.prefill.requests();
    v.prefill_backlog = r.others.prefill_flops + r.counts.prefill.flops(r.what.prefill.cost);
    v.time_phi = time_phi(id);
    v.phi = v.role == control::role::prefill
                ? v.time_phi
                : headroom::space_freeness(v.kv_held + v.waiting_blocks,
                                           kv::stranded_below{settings_.demand}({v.capacity, v.free_blocks, {}}),
                                           v.capacity);
  }

  // The book.

  void enlist(std::uint32_t i, time_point now) noexcept {
    held& h = book_.data()[i];
    h.heard = now;
    replicas_[h.where].requests.push_back(book_.data(), i);
    named_.push_back(book_.data(), i);
    if (h.stands != standing::incoming) enter(replicas_[h.where].here, h);
    put_in(h);
  }
  /// Requires: its twin, if it has one, is seen to.
  void remove(std::uint32_t i) noexcept {
    held& h = book_.data()[i];
    ask_no_more(i);
    take_out(h);
    if (h.stands != standing::incoming) leave(replicas_[h.where].here, h);
    if (h.stands != standing::leaving) count_again(h);
    replicas_[h.where].remain -= h.remain;
    refresh(h.where);
    if (h.stands == standing::incoming) --moving_;
    replicas_[h.where].requests.erase(book_.data(), i);
    named_.erase(book_.data(), i);
    book_.erase(i);
  }
  [[nodiscard]] std::uint32_t touch(request_id request, replica_id id, time_point now) noexcept {
    const std::uint32_t i = book_.find(request, id);
    if (i != no_index) name(i, now);
    return i;
  }
  void name(std::uint32_t i, time_point now) noexcept {
    book_.data()[i].heard = now;
    if (named_.last == i) return;
    named_.erase(book_.data(), i);
    named_.push_back(book_.data(), i);
  }
  void grow(std::uint32_t i, tokens generated) noexcept {
    const held& before = book_.data()[i];
    if (generated <= before.generated) return;
    const blocks size = blocks_for(before.prompt + generated, settings_.block_size);
    const bool same = before.started && size == before.size && !is_fresh(before);
    if (same) {
      book_.data()[i].generated = generated;
      return;
    }
    const bool larger = size != before.size || !before.started;
    update(i, [&](held& h) {
      h.generated = generated;
      h.size = size;
      if (!h.started) h.since = replicas_[h.where].reports;
      h.started = true;
    });
    const held& h = book_.data()[i];
    if (larger && h.size >= views_[h.where].to) ask(i);
  }
  void begin_to_answer(std::uint32_t i) noexcept {
    if (book_.data()[i].answers) return;
    update(i, [](held& h) {
      h.answers = true;
      h.reasoned = h.generated;
    });
    ask(i);
  }
  /// A request that moves asks when that is over.
  void ask(std::uint32_t i) noexcept {
    held& h = book_.data()[i];
    if (h.asks) return;
    h.asks = true;
    if (h.stands == standing::here) asking_.push_back(book_.data(), i);
  }
  void ask_no_more(std::uint32_t i) noexcept {
    held& h = book_.data()[i];
    if (!h.asks) return;
    h.asks = false;
    if (h.stands == standing::here) asking_.erase(book_.data(), i);
  }

  // The two ends of a move.

  /// The request to move: its move makes the fewest blocks be held twice, and among equals it is the smallest. A
  /// request that would make more blocks be held twice than it frees is not chosen.
  [[nodiscard]] std::uint32_t cheapest(replica_id id, time_point now) const noexcept {
    std::uint32_t best = no_index;
    blocks least{};
    for (std::uint32_t i = replicas_[id].requests.first; i != no_index; i = book_.data()[i].there.after) {
      const held& h = book_.data()[i];
      if (h.stands != standing::here || !h.started || now < h.rests_until) continue;
      const blocks free = frees(h);
      const blocks twice = h.size - free;
      if (twice > free) continue;
      const auto key = [](const held& of, blocks b) noexcept { return std::tuple{b, of.size, of.request}; };
      if (best == no_index || key(h, twice) < key(book_.data()[best], least)) {
        best = i;
        least = twice;
      }
    }
    return best;
  }
  void depart(std::uint32_t i, replica_id to, time_point now) noexcept {
    const std::uint32_t there = book_.insert(book_.data()[i].request, to);
    ask_no_more(i);
    const blocks free = frees(book_.data()[i]);
    count_again(book_.data()[i]);
    update(i, [&](held& h) {
      h.stands = standing::leaving;
      h.remain = h.size - h.shared - free;
      replicas_[h.where].remain += h.remain;
      h.rests_until = now + settings_.rest;
      h.twin = there;
    });
    name(i, now);
    const held& from = book_.data()[i];
    held& h = book_.data()[there];
    h.rests_until = from.rests_until;
    h.prompt = from.prompt;
    h.cached = from.cached;
    h.generated = from.generated;
    h.reasoned = from.reasoned;
    h.size = from.size;
    h.twin = i;
    h.stands = standing::incoming;
    h.since = replicas_[to].reports;
    h.started = true;
    h.answers = from.answers;
    ++moving_;
    enlist(there, now);
  }
  /// The one end of a move knows nothing of the other any more.
  void untie(std::uint32_t i) noexcept { book_.data()[i].twin = no_index; }
  /// A request that was leaving stays.
  void stays(std::uint32_t i) noexcept {
    held& was = book_.data()[i];
    entry& r = replicas_[was.where];
    if (was.stands == standing::incoming) enter(r.here, was);
    r.remain -= was.remain;
    was.remain = blocks{};
    update(i, [](held& h) {
      h.stands = standing::here;
      h.twin = no_index;
    });
    if (book_.data()[i].asks) asking_.push_back(book_.data(), i);
  }
  /// A request that was incoming is there.
  void arrive(std::uint32_t i, time_point now) noexcept {
    --moving_;
    book_.data()[i].rests_until = now + settings_.rest;
    stays(i);
  }

  ledger_limits limits_;
  settings settings_;
  entry* replicas_;
  view* views_;
  fixed_vector<replica_id> open_;  // The replicas that are shown, by number.
  std::uint32_t* place_;           // The place of a replica in `open_`.
  reservations<Clock> book_;
  list<&held::by_time> named_{};
  list<&held::asking> asking_{};
  list<&entry::by_time> by_time_{};  // Replicas that are not silent.
  std::size_t moving_ = 0;
};

}  // namespace fleet::detail
TESSERA_NAMESPACE_END
