// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/concepts.hpp>
#include <tessera/pipeline/decision.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/pipeline/plan_digest.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

/// @file
/// The calls and decisions of a scheduler, written to the caller's buffer: a bug report is a file.
/// `replay_decisions.hpp` repeats the calls and names the first answer that differs.
///
/// A log begins with its scheduler and goes on until the buffer is full. Its beginning cannot be dropped, because all
/// later records depend on it. In the buffer, numbers are little-endian and without padding:
///
///     "TESSLOG", a byte with the version, what clock and whether there are hashes, the limits;
///     then for each call: the `decision` (a byte), the arguments, and the answer: the status + 1 (a byte) or the
///     digest of the plan (8 bytes, never 0). A `commit` is of the oldest plan in flight, an `abandon` of the newest.
///
/// The arguments are written before the call is made. So if the program dies in a call, the log ends with that call,
/// without an answer. In a file that was mapped and zeroed, the log ends at the first zeros.

TESSERA_NAMESPACE_BEGIN

/// Writes whole records to the caller's buffer. The log ends when one does not fit. Allocates nothing.
class decision_log {
 public:
  /// Does not own `buffer`, which must outlive it.
  explicit decision_log(std::span<std::byte> buffer) noexcept : buffer_{buffer} {}

  /// The log so far: the content of a file. Within a call it ends with that call, without an answer.
  [[nodiscard]] std::span<const std::byte> written() const noexcept { return buffer_.first(size_); }
  /// Whether records are missing because there was no room for them. The records before that are a valid log.
  [[nodiscard]] bool full() const noexcept { return full_; }

 private:
  template <class>
  friend class logged;

  /// Begins a record. The first byte comes last, so that half a record reads as the end.
  void open() noexcept {
    next_ = size_ + 1;
    fits_ = !full_ && size_ != buffer_.size();
  }
  void put_bytes(const void* from, std::size_t n) noexcept {
    if (!fits_ || buffer_.size() - next_ < n) {
      fits_ = false;
    } else if (n != 0) {
      std::memcpy(buffer_.data() + next_, from, n);
      next_ += n;
    }
  }
  template <class T>
  void put(T value) noexcept {
    if constexpr (std::is_enum_v<T>) {
      put(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::floating_point<T>) {
      static_assert(sizeof(T) == 4 || sizeof(T) == 8, "tessera: float or double");
      put(std::bit_cast<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>(value));
    } else {
      static_assert(std::integral<T>);
      if constexpr (std::endian::native == std::endian::little) {
        put_bytes(&value, sizeof value);
      } else {
        std::byte out[sizeof(T)];
        for (std::size_t i = 0; i != sizeof(T); ++i) {
          out[i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
        }
        put_bytes(out, sizeof out);
      }
    }
  }
  /// Ends a record. If `answer` bytes are to follow, ends the part that is known before the call.
  void close(decision d, std::size_t answer = 0) noexcept {
    if (!fits_ || buffer_.size() - next_ < answer) {
      full_ = true;
      fits_ = false;
      return;
    }
    buffer_[size_] = static_cast<std::byte>(d);
    record_ = size_;
    size_ = next_;
  }
  template <class T>
  void answer(T value) noexcept {
    if (!fits_) return;
    put(value);
    size_ = next_;
  }
  /// The request of the call is not here.
  void forget_name() noexcept {
    if (fits_) std::memset(buffer_.data() + record_ + 1, 0, sizeof(std::uint64_t));
  }

  std::span<std::byte> buffer_;
  std::size_t size_ = 0;    ///< The number of readable bytes.
  std::size_t next_ = 0;    ///< The place of the next field.
  std::size_t record_ = 0;  ///< The place of the latest record.
  bool fits_ = false;       ///< Whether the present record fits.
  bool full_ = false;
};

namespace detail {

inline constexpr char log_magic[8] = {'T', 'E', 'S', 'S', 'L', 'O', 'G', 5};

/// The members that the request's order reads beside its hook: those of `logged_members`, or those that the library's
/// orders read.
template <class R>
[[nodiscard]] constexpr auto log_members(R& r) noexcept {
  if constexpr (requires { logged_members(r); }) {
    return logged_members(r);
  } else if constexpr (requires { r.score, r.expected_output; }) {
    return std::tie(r.score, r.expected_output);
  } else if constexpr (requires { r.score; }) {
    return std::tie(r.score);
  } else if constexpr (requires { r.expected_output; }) {
    return std::tie(r.expected_output);
  } else {
    return std::tuple<>{};
  }
}
/// The members that may change while the request is in the scheduler, outside `update`.
template <class R>
[[nodiscard]] constexpr auto note_members(R& r) noexcept {
  if constexpr (requires { noted_members(r); }) {
    return noted_members(r);
  } else {
    return std::tuple<>{};
  }
}
template <class T>
inline constexpr bool is_loggable = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>;

/// Types written as numbers, the same on every machine.
template <class T>
inline constexpr bool is_number =
    std::integral<T> || std::is_enum_v<T> || std::same_as<T, float> || std::same_as<T, double>;

template <class... T>
[[nodiscard]] constexpr std::uint32_t bytes_of(const std::tuple<T&...>& /*members*/) noexcept {
  static_assert((is_loggable<T> && ...), "tessera: members in a log are plain values, and no pointers");
  return static_cast<std::uint32_t>((sizeof(T) + ... + 0));
}

/// Whether the scheduler finds prompts by their hashes.
template <class Scheduler>
inline constexpr bool uses_hashes =
    kv::prefix_store<std::remove_cvref_t<decltype(std::declval<const Scheduler&>().store())>>;

}  // namespace detail

/// A scheduler that logs its calls: each call before it is made, and its answer after it. It is used as the scheduler
/// is; calls through a reference to the base class are not logged.
///
/// Requests are named by their `state().sequence`. When a request joins, its description is logged: prompt, max_output,
/// priority, starts_in, prefix hashes if the scheduler uses them, and members that its order reads. These members are
/// `score` and `expected_output`, if it has them, or the result of a function beside the request type:
///
///     auto logged_members(auto& r) noexcept { return std::tie(r.score, r.user); }
///
/// It is called with `const my_request&` to write and with `my_request&` to read. Members are plain values; types other
/// than numbers and enumerations are copied byte by byte. They may change in `update`, which logs them again. Members
/// that an order reads and other code changes, such as a `token_pacer`, are not visible to the scheduler's calls. To
/// reproduce decisions, name them in `noted_members` in the same way, and call `note` after each change.
///
/// Complexity: as the call, plus O(outcomes) for `commit`, O(entries + new blocks) for `plan`, O(hashes) for a joining
/// request. Allocates nothing.
template <class Scheduler>
class logged : public Scheduler {
  static_assert(std::same_as<typename Scheduler::limits, scheduler_limits>,
                "tessera: the decision log has no form for kv::groups");

 public:
  using request_type = typename Scheduler::request_type;  ///< As the scheduler's.
  using clock_type = typename Scheduler::clock_type;      ///< As the scheduler's.
  using time_point = typename Scheduler::time_point;      ///< As the scheduler's.
  using plan_type = typename Scheduler::plan_type;        ///< As the scheduler's.
  using config = typename Scheduler::config;              ///< As the scheduler's.

  /// As the scheduler, with an empty log, which must outlive it.
  logged(decision_log& log, std::span<std::byte> memory, const scheduler_limits& l, const config& c) noexcept
      : Scheduler{memory, l, c}, log_{&log} {
    begin(l);
  }
  /// The same over storage from `storage_for`.
  logged(decision_log& log, owned_storage<scheduler_limits>& storage, const config& c) noexcept
      : logged{log, storage.memory(), storage.limits(), c} {}
  /// The same with the policies' defaults.
  logged(decision_log& log, owned_storage<scheduler_limits>& storage) noexcept
    requires std::default_initializable<config>
      : logged{log, storage, config{}} {}

  /// As the scheduler's.
  [[nodiscard]] status submit(request_type& r, time_point now) noexcept {
    log_->open();
    put(now);
    newcomer(r);
    log_->close(decision::submit, 1);
    return answered(Scheduler::submit(r, now));
  }
  /// As the scheduler's.
  [[nodiscard]] status adopt(request_type& r) noexcept {
    log_->open();
    put(r.progress());
    newcomer(r);
    log_->close(decision::adopt, 1);
    return answered(Scheduler::adopt(r));
  }
  /// As the scheduler's.
  [[nodiscard]] status adopt(request_type& r, const request_progress<clock_type>& p) noexcept {
    log_->open();
    put(p);
    newcomer(r);
    log_->close(decision::adopt_progress, 1);
    return answered(Scheduler::adopt(r, p));
  }
  /// As the scheduler's.
  [[nodiscard]] status fork(const request_type& parent, request_type& child) noexcept {
    log_->open();
    put_name(parent);
    newcomer(child);
    log_->close(decision::fork, 1);
    return answered_of(Scheduler::fork(parent, child));
  }
  /// As the scheduler's.
  [[nodiscard]] status evacuate(request_type& r) noexcept {
    name(decision::evacuate, r);
    return answered_of(Scheduler::evacuate(r));
  }
  /// As the scheduler's.
  [[nodiscard]] status suspend(request_type& r) noexcept {
    name(decision::suspend, r);
    return answered_of(Scheduler::suspend(r));
  }
  /// As the scheduler's.
  [[nodiscard]] status resume(request_type& r) noexcept {
    name(decision::resume, r);
    return answered_of(Scheduler::resume(r));
  }
  /// As the scheduler's.
  [[nodiscard]] status preempt(request_type& r) noexcept {
    name(decision::preempt, r);
    return answered_of(Scheduler::preempt(r));
  }
  /// As the scheduler's.
  [[nodiscard]] status park(request_type& r, time_point deadline, park_end at_deadline = park_end::ready) noexcept {
    log_->open();
    put_name(r);
    put_deadline(deadline);
    log_->put(at_deadline);
    log_->close(decision::park, 1);
    return answered_of(Scheduler::park(r, deadline, at_deadline));
  }
  /// As the scheduler's.
  [[nodiscard]] status ready(request_type& r) noexcept {
    name(decision::ready, r);
    return answered_of(Scheduler::ready(r));
  }
  /// As the scheduler's.
  [[nodiscard]] status loading(request_type& r, tokens n, time_point deadline) noexcept {
    log_->open();
    put_name(r);
    log_->put(n.count());
    put_deadline(deadline);
    log_->close(decision::loading, 1);
    return answered_of(Scheduler::loading(r, n, deadline));
  }
  /// As the scheduler's.
  [[nodiscard]] status fetching(request_type& r, tokens n) noexcept {
    log_->open();
    put_name(r);
    log_->put(n.count());
    log_->close(decision::fetching, 1);
    return answered_of(Scheduler::fetching(r, n));
  }
  /// As the scheduler's.
  [[nodiscard]] status arrived(request_type& r, tokens n) noexcept {
    log_->open();
    put_name(r);
    log_->put(n.count());
    log_->close(decision::arrived, 1);
    return answered_of(Scheduler::arrived(r, n));
  }
  /// As the scheduler's.
  [[nodiscard]] status start_by(request_type& r, time_point deadline) noexcept {
    name(decision::start_by, r, deadline);
    return answered_of(Scheduler::start_by(r, deadline));
  }
  /// As the scheduler's.
  [[nodiscard]] status evacuate(request_type& r, time_point deadline, std::uint64_t& ticket) noexcept {
    name(decision::evacuate_later, r, deadline);
    return answered_of(Scheduler::evacuate(r, deadline, ticket));
  }
  /// As the scheduler's.
  [[nodiscard]] status finish(request_type& r, time_point deadline, std::uint64_t& ticket) noexcept {
    name(decision::finish_later, r, deadline);
    return answered_of(Scheduler::finish(r, deadline, ticket));
  }
  /// As the scheduler's.
  status drained(std::uint64_t ticket) noexcept {
    log_->open();
    log_->put(ticket);
    log_->close(decision::drained, 1);
    return answered(Scheduler::drained(ticket));
  }
  /// As the scheduler's.
  status cancel(request_type& r) noexcept {
    name(decision::cancel, r);
    return answered_of(Scheduler::cancel(r));
  }
  /// As the scheduler's.
  status finish(request_type& r) noexcept {
    name(decision::finish, r);
    return answered_of(Scheduler::finish(r));
  }
  /// As the scheduler's. Logs the priority, `max_output` and the members, once `f` has set them.
  template <std::invocable<request_type&> F>
  [[nodiscard]] status update(request_type& r, F&& f) noexcept {
    bool called = false;
    const status s = Scheduler::update(r, [&](request_type& q) noexcept {
      f(q);
      called = true;
      updates(q, true);
    });
    if (!called) updates(r, false);
    return answered_of(s);
  }
  /// As the scheduler's.
  [[nodiscard]] status forget_prefixes() noexcept
    requires requires(Scheduler& s) { s.forget_prefixes(); }
  {
    log_->open();
    log_->close(decision::forget_prefixes, 1);
    return answered(Scheduler::forget_prefixes());
  }
  /// The request's `noted_members` have changed.
  void note(const request_type& r) noexcept {
    log_->open();
    put_name(r);
    put_members(detail::note_members(r));
    log_->close(decision::note);
  }

  /// As the scheduler's.
  [[nodiscard]] plan_type plan(time_point now, const step_limits& l) noexcept {
    log_->open();
    put(now);
    log_->put(static_cast<std::uint64_t>(l.max_batch));
    log_->put(l.token_budget.count());
    log_->put(l.max_chunk.count());
    log_->put(l.lookahead.count());
    log_->put(static_cast<std::uint64_t>(l.max_starts));
    log_->put(l.prefill_budget.count());
    log_->close(decision::plan, sizeof(std::uint64_t));
    const plan_type p = Scheduler::plan(now, l);
    if (log_->fits_) log_->answer(detail::digest_of(p, this->tables()));
    return p;
  }
  /// As the scheduler's. Logs the outcomes that are not the default.
  status commit(const plan_type& p, std::span<const outcome> outcomes, time_point now) noexcept {
    log_->open();
    put(now);
    log_->put(static_cast<std::uint32_t>(outcomes.size()));
    for (std::size_t i = 0; i != outcomes.size(); ++i) {
      const outcome& o = outcomes[i];
      const int flags = static_cast<int>(o.end_of_reasoning) | static_cast<int>(o.finished) << 1 |
                        static_cast<int>(o.failed) << 2 | static_cast<int>(o.spoilt) << 3;
      if (o.produced == 1 && flags == 0) [[likely]]
        continue;
      log_->put(static_cast<std::uint32_t>(i));
      log_->put(o.produced);
      log_->put(static_cast<std::uint8_t>(flags));
    }
    log_->put(no_index);
    log_->close(decision::commit, 1);
    return answered(Scheduler::commit(p, outcomes, now));
  }
  /// As the scheduler's.
  status abandon(const plan_type& p) noexcept {
    log_->open();
    log_->close(decision::abandon, 1);
    return answered(Scheduler::abandon(p));
  }

 private:
  void begin(const scheduler_limits& l) noexcept {
    TESSERA_ASSERT(log_->written().empty(), "a log begins with its scheduler");
    log_->open();
    log_->put_bytes(detail::log_magic + 1, sizeof detail::log_magic - 1);
    log_->put(std::floating_point<typename clock_type::rep>);
    log_->put(detail::uses_hashes<Scheduler>);
    log_->put(static_cast<double>(clock_type::ticks_per_second));
    log_->put(static_cast<std::uint64_t>(l.requests));
    log_->put(static_cast<std::uint64_t>(l.blocks));
    log_->put(l.block_size.count());
    log_->put(static_cast<std::uint64_t>(l.residents));
    log_->put(static_cast<std::uint64_t>(l.host_blocks));
    log_->put(l.max_length.count());
    log_->put(static_cast<std::uint64_t>(l.plans_in_flight));
    log_->put(static_cast<std::uint64_t>(l.plans_apart));
    log_->put(static_cast<std::uint64_t>(l.deadlines));
    log_->put(l.slots_ahead.count());
    log_->close(static_cast<decision>(detail::log_magic[0]));
  }

  void put(time_point t) noexcept {
    if constexpr (std::floating_point<typename clock_type::rep>) {
      log_->put(static_cast<double>(t.since_origin().ticks()));
    } else {
      log_->put(static_cast<std::int64_t>(t.since_origin().ticks()));
    }
  }
  void put_deadline(time_point t) noexcept {
    const bool is_none = t == time_point::never();
    log_->put(is_none);
    put(is_none ? time_point{} : t);
  }
  void put(const request_progress<clock_type>& p) noexcept {
    log_->put(p.length.count());
    log_->put(p.computed.count());
    log_->put(p.reasoning.count());
    log_->put(p.phase);
    log_->put(p.carried);
    log_->put(p.preemptions);
    put(p.arrived);
    put(p.answering_since);
  }
  /// 0: it is not here.
  void put_name(const request_type& r) noexcept {
    log_->put(is_live(r.state().life) ? r.state().sequence : std::uint64_t{0});
  }
  template <class T>
  void put_member(const T& value) noexcept {
    if constexpr (detail::is_number<T>) {
      log_->put(value);
    } else {
      log_->put_bytes(&value, sizeof value);
    }
  }
  template <class... T>
  void put_members(const std::tuple<T&...>& members) noexcept {
    log_->put(detail::bytes_of(members));
    std::apply([this](const auto&... m) noexcept { (this->put_member(m), ...); }, members);
  }
  /// A request that joins, and whether it may.
  void newcomer(const request_type& r) noexcept {
    // A request in a queue of the user's is refused like a scheduled one.
    const bool queued = static_cast<const detail::rank_hook&>(r).is_linked();
    log_->put(queued ? lifecycle::waiting : r.state().life);
    log_->put(r.prompt.count());
    log_->put(r.max_output.count());
    log_->put(static_cast<std::int32_t>(r.priority));
    log_->put(r.starts_in);
    put_members(detail::log_members(r));
    put_members(detail::note_members(r));
    if constexpr (detail::uses_hashes<Scheduler>) {
      const std::span<const std::uint64_t> hashes = r.prefix_hashes();
      log_->put(static_cast<std::uint32_t>(hashes.size()));
      for (const std::uint64_t h : hashes) log_->put(h);
    }
  }
  void name(decision d, const request_type& r) noexcept {
    log_->open();
    put_name(r);
    log_->close(d, 1);
  }
  void name(decision d, const request_type& r, time_point deadline) noexcept {
    log_->open();
    put_name(r);
    put_deadline(deadline);
    log_->close(d, 1);
  }
  void updates(const request_type& r, bool called) noexcept {
    log_->open();
    put_name(r);
    log_->put(called);
    if (called) {
      log_->put(r.max_output.count());
      log_->put(static_cast<std::int32_t>(r.priority));
      put_members(detail::log_members(r));
    }
    log_->close(decision::update, 1);
  }

  status answered(status s) noexcept {
    log_->answer(static_cast<std::uint8_t>(static_cast<unsigned>(s) + 1));
    return s;
  }
  /// A call about one request. Its name may belong to another scheduler.
  status answered_of(status s) noexcept {
    if (s == status::unknown_request) log_->forget_name();
    return answered(s);
  }

  decision_log* log_;
};

TESSERA_NAMESPACE_END
