// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/status.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/fleet/choices.hpp>
#include <tessera/fleet/ledger_book.hpp>
#include <tessera/fleet/ledger_types.hpp>
#include <tessera/fleet/view.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// Which requests that run may go on elsewhere: the moves of `fleet::ledger`.

TESSERA_NAMESPACE_BEGIN
namespace fleet::detail {

/// The accounts, and the decisions about requests that run. What is public here is so in `fleet::ledger`.
template <clock_policy Clock>
class ledger_moves : protected ledger_book<Clock> {
  using base = ledger_book<Clock>;

 public:
  using time_point = basic_time_point<Clock>;  ///< A moment on that clock.
  using settings = ledger_settings<Clock>;     ///< How the book is kept.
  using limits = ledger_limits;                ///< What there must be room for; fixed at construction.

  /// Which requests are to go on elsewhere. The policy decides about the requests of `ask_movers`, one after the other.
  /// Each time it sees views in which earlier requests have moved. A request that is proposed is on its way in the
  /// books: carry it out, and say `moved`, or `release` it at its destination. Valid until the next call of this.
  /// Complexity: as `ask_movers`, and O(replicas) for each that is asked about.
  template <migration_policy Policy>
  [[nodiscard]] std::span<const move> propose_moves(Policy& policy, time_point now) noexcept {
    moves_.clear();
    ask_movers(
        [&](request_id request, replica_id from, move_reason) noexcept {
          const destinations d = where_to(request, from);
          const std::size_t k = policy(d.replicas, d.here, d.grows, d.moves);
          if (k >= d.replicas.size() || k == d.here) return;
          const auto to = static_cast<replica_id>(d.replicas[k].id);
          const held& h = book_.data()[book_.find(request, from)];
          const move m{request, from, to, h.prompt + h.generated, h.size};
          if (ok(begin_move(request, from, to, now))) moves_.push_back(m);
        },
        now);
    return {moves_.data(), moves_.size()};
  }

  /// Calls `ask(request, replica, why)` for requests that may go on elsewhere, until it has moved
  /// `ledger_limits::moves` of them. First come requests that have begun to answer, or outgrown the range of their
  /// replica (`set_range`), since they were last asked about. Then, from each replica with fewer free blocks than
  /// `settings::tight`, the request that moves best; the replicas take turns. That request runs and does not rest. Its
  /// move frees at least as many blocks as it makes others hold twice: blocks shared with requests that stay do not
  /// become free. The fewest held twice come first, then the smallest request.
  ///
  /// `ask` may call `begin_move` for that request, and nothing else that changes the book. It is not called for a
  /// request that rests or has no token yet, nor for requests of a replica that is silent or drains. While the book is
  /// full it is not called at all. O(replicas), the requests on replicas that are tight, and those that wait to be
  /// asked.
  template <class Ask>
  void ask_movers(Ask ask, time_point now) noexcept {
    std::size_t left = most_moves_;
    // Whether it has moved.
    const auto asks = [&](std::uint32_t i, move_reason why) noexcept {
      const std::size_t before = moving_;
      ask(book_.data()[i].request, book_.data()[i].where, why);
      if (moving_ == before) return false;
      --left;
      return true;
    };
    for (std::uint32_t i = asking_.first; i != no_index && left != 0 && may_move();) {
      const std::uint32_t next = book_.data()[i].asking.after;
      const held& h = book_.data()[i];
      if (h.started && !(now < h.rests_until) && gives(h.where)) {
        ask_no_more(i);
        static_cast<void>(asks(i, h.size >= views_[h.where].to ? move_reason::outgrown : move_reason::answers));
      }
      i = next;
    }
    if (settings_.tight == blocks{}) return;
    const std::size_t n = open_.size();
    const auto first = static_cast<std::size_t>(std::lower_bound(open_.begin(), open_.end(), next_) - open_.begin());
    for (std::size_t k = 0; k != n && left != 0 && may_move(); ++k) {
      const replica_id id = open_[first + k < n ? first + k : first + k - n];
      if (!gives(id) || views_[id].free_blocks >= settings_.tight) continue;
      const std::uint32_t i = cheapest(id, now);
      if (i != no_index && asks(i, move_reason::tight)) next_ = id + 1;
    }
  }

  /// Where a request that is on a replica could go on: that replica, and others for which `may(view)` is true. These
  /// have room for it, do not only prefill and do not have it already. None for a request that is not there. Valid
  /// until the next call of this, of `among` or of `rank`. O(replicas).
  template <class May = everyone>
  [[nodiscard]] destinations where_to(request_id request, replica_id from, May may = {}) noexcept {
    const std::uint32_t i = book_.find(request, from);
    if (i == no_index || !gives(from)) return {{views_, choices_.left(), 0}, 0, {}, {}};
    const held& h = book_.data()[i];
    replica_id* const left = choices_.left();
    std::size_t n = 0;
    std::size_t here = 0;
    for (const replica_id id : open_) {
      if (id == from) {
        here = n;
      } else if (!may(views_[id]) || !takes(id, h)) {
        continue;
      }
      left[n++] = id;
    }
    const blocks grows = blocks_for(h.prompt + h.generated + tokens{1}, settings_.block_size) - h.size;
    return {{views_, left, n}, here, grows, h.size};
  }

  /// Calls `look(request, may_leave)` for each request that is on a replica, in no particular order. `may_leave`: it
  /// runs, is not on its way and does not rest, and requests may leave this replica. None if the replica is not there.
  /// `look` must not change the book. O(requests there).
  template <class Look>
  void each_at(replica_id id, time_point now, Look look) const noexcept {
    if (id >= limits_.replicas) return;
    for (std::uint32_t i = replicas_[id].requests.first; i != no_index; i = book_.data()[i].there.after) {
      const held& h = book_.data()[i];
      if (h.stands == standing::incoming) continue;
      look(h.request, h.stands == standing::here && h.started && !(now < h.rests_until) && gives(id));
    }
  }

  /// A request that runs is to go on at another replica. In one step its room is reserved there, and it is taken off
  /// its source. Carry it out, and say `moved`, or `release` it at its destination. O(1). Returns `unknown_request` if
  /// it is not there, and `busy` if it is on its way or rests. Returns `refused` if it has no token yet, or one of the
  /// replicas is silent, drains or is not there. It also returns `refused` if the destination has no room, only
  /// prefills or has it already. Returns `exhausted` if the book is full or `settings::moving` requests are on their
  /// way.
  [[nodiscard]] status begin_move(request_id request, replica_id from, replica_id to, time_point now) noexcept {
    const std::uint32_t i = book_.find(request, from);
    if (i == no_index) return status::unknown_request;
    const held& h = book_.data()[i];
    if (h.stands != standing::here || now < h.rests_until) return status::busy;
    if (!h.started || !gives(from) || to == from || to >= limits_.replicas || place_[to] == no_index || !takes(to, h)) {
      return status::refused;
    }
    if (!may_move()) return status::exhausted;
    depart(i, to, now);
    return status::ok;
  }

  /// The replicas that policies are shown of which `may(view)` is true, by number. Valid until the next call of this,
  /// of `where_to` or of `rank`. O(replicas).
  template <class May>
  [[nodiscard]] candidates<> among(May may) noexcept {
    const std::size_t n = choices_.keep(views_, {open_.data(), open_.size()}, may);
    return {views_, choices_.left(), n};
  }
  /// Brings into the views what each replica has of a prompt, for policies that read that. Until the next call.
  /// O(replicas).
  template <class Cached>
  void show_prefix(const prefix<Cached>& of) noexcept {
    for (const replica_id id : open_) {
      view& v = views_[id];
      v.cached_tokens = min(max(tokens{of.cached(id)}, tokens{}), of.prompt);
      v.new_prefill_tokens = of.prompt - v.cached_tokens;
      v.prefix_key = of.prefix_key;
    }
  }

 protected:
  using base::ask_no_more;
  using base::asking_;
  using base::book_;
  using base::cheapest;
  using base::depart;
  using base::limits_;
  using base::moving_;
  using base::open_;
  using base::place_;
  using base::replicas_;
  using base::settings_;
  using base::views_;
  using typename base::held;

  [[nodiscard]] static constexpr std::size_t required_bytes(const ledger_limits& l) noexcept {
    return storage_layout{}
        .add_bytes(base::required_bytes(l))
        .add_bytes(choices::required_bytes(l.replicas))
        .template add<move>(l.moves)
        .bytes();
  }
  ledger_moves(arena& memory, const ledger_limits& l, const settings& s) noexcept
      : base{memory, l, s}, choices_{memory, l.replicas}, moves_{memory, l.moves}, most_moves_{l.moves} {}

  /// Whether one more request may be on its way.
  [[nodiscard]] bool may_move() const noexcept { return moving_ < settings_.moving && !book_.full(); }
  /// Whether requests may leave it for others.
  [[nodiscard]] bool gives(replica_id id) const noexcept {
    return id < limits_.replicas && place_[id] != no_index && !replicas_[id].is_silent;
  }
  /// Whether a request that is elsewhere may go on there.
  [[nodiscard]] bool takes(replica_id id, const held& h) const noexcept {
    return views_[id].free_blocks >= h.size && views_[id].role != control::role::prefill && !replicas_[id].is_silent &&
           book_.find(h.request, id) == no_index;
  }

  detail::choices choices_;

 private:
  fixed_vector<move> moves_;
  std::size_t most_moves_;
  replica_id next_ = 0;  // The next replica to give a request away.
};

}  // namespace fleet::detail
TESSERA_NAMESPACE_END
