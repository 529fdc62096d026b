// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/pipeline/decision_log.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

/// @file
/// Repeats the calls of a `decision_log`. For tests, and to inspect users' logs. It allocates.

TESSERA_NAMESPACE_BEGIN

/// How a replay ended.
enum class replay_outcome : std::uint8_t {
  same,         ///< All calls had the logged answers.
  differs,      ///< A call had another answer.
  truncated,    ///< The log ends within a call, or before its answer: the program stopped there, or the file was cut.
  malformed,    ///< It is not a log of this version for such a scheduler and request, or has an invalid value.
  not_allowed,  ///< It has a call that its caller must not make: one plan too many, impossible outcomes.
  too_large,    ///< The scheduler would take more memory than allowed.
};

/// A lower-case name, for logs.
[[nodiscard]] constexpr const char* to_string(replay_outcome o) noexcept {
  switch (o) {
    case replay_outcome::same: return "same";
    case replay_outcome::differs: return "differs";
    case replay_outcome::truncated: return "truncated";
    case replay_outcome::malformed: return "malformed";
    case replay_outcome::not_allowed: return "not_allowed";
    case replay_outcome::too_large: return "too_large";
  }
  return "?";
}

/// The result of a replay. Unless it is `same`, it names the call at which the replay ended.
struct replay_result {
  replay_outcome outcome = replay_outcome::same;  ///< How it ended.
  std::size_t calls = 0;                          ///< Calls that had the same answer: the number of the next call, from
                                                  ///< 0.
  decision call = decision::none;                 ///< The next call; `none`: the end, or an unknown call.
  std::size_t offset = 0;                         ///< Its place in the log.
  std::uint64_t expected = 0;  ///< If it differs: the logged answer. A `status`, or for `plan` the digest.
  std::uint64_t came = 0;      ///< If it differs: the replayed answer.
};

namespace detail {

/// Reads fields. Returns zeros once there are too few bytes.
class log_reader {
 public:
  explicit log_reader(std::span<const std::byte> bytes) noexcept : bytes_{bytes} {}

  [[nodiscard]] std::size_t position() const noexcept { return next_; }
  [[nodiscard]] std::size_t left() const noexcept { return bytes_.size() - next_; }
  [[nodiscard]] bool failed() const noexcept { return failed_; }

  void get_bytes(void* to, std::size_t n) noexcept {
    if (n > left()) failed_ = true;
    if (failed_) {
      std::memset(to, 0, n);
    } else if (n != 0) {
      std::memcpy(to, bytes_.data() + next_, n);
      next_ += n;
    }
  }
  template <class T>
  [[nodiscard]] T get() noexcept {
    if constexpr (std::same_as<T, bool>) {
      return get<std::uint8_t>() != 0;
    } else if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(get<std::underlying_type_t<T>>());
    } else if constexpr (std::floating_point<T>) {
      return std::bit_cast<T>(get<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>());
    } else {
      unsigned char bytes[sizeof(T)];
      get_bytes(bytes, sizeof bytes);
      std::uint64_t value = 0;
      for (std::size_t i = 0; i != sizeof(T); ++i) value |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
      return static_cast<T>(value);
    }
  }
  [[nodiscard]] tokens get_tokens() noexcept { return tokens{get<std::int64_t>()}; }

 private:
  std::span<const std::byte> bytes_;
  std::size_t next_ = 0;
  bool failed_ = false;
};

/// Whether a scheduler can be made with these limits: nothing overflows.
[[nodiscard]] constexpr bool are_possible(const scheduler_limits& l) noexcept {
  constexpr std::size_t most = std::size_t{1} << 30;
  constexpr std::size_t max_int32 = 0x7fff'ffff;
  if (l.blocks == 0 || l.blocks > most || l.residents == 0 || l.residents > most || l.host_blocks > most ||
      l.requests == 0 || l.requests > most || l.max_length < tokens{} || l.deadlines > most || l.plans_in_flight == 0 ||
      l.plans_in_flight > 64 || l.plans_apart == 0 || l.block_size < tokens{1} || l.block_size > tokens{max_int32} ||
      l.slots_ahead < tokens{} || l.slots_ahead > tokens{max_int32} || l.longest() < tokens{1}) {
    return false;
  }
  const std::size_t width = l.blocks_per_row();
  return width <= max_int32 / static_cast<std::size_t>(l.block_size.count()) && width <= max_int32 / l.rows();
}

template <class Scheduler, class Prepare>
class replayer {
  using request = typename Scheduler::request_type;
  using clock = typename Scheduler::clock_type;
  using time_point = typename Scheduler::time_point;
  using plan_type = typename Scheduler::plan_type;

 public:
  replayer(std::span<const std::byte> log, Prepare& prepare) noexcept : in_{log}, prepare_{&prepare} {}

  replay_result run(const typename Scheduler::config& config, std::size_t most_bytes) {
    scheduler_limits limits;
    read_header(limits);
    if (!ended_ && Scheduler::required_bytes(limits) > most_bytes) end(replay_outcome::too_large);
    if (ended_) return result_;
    auto storage = storage_for<Scheduler>(limits);
    Scheduler scheduler{storage, config};
    while (!ended_) {
      result_.offset = in_.position();
      result_.call = in_.left() == 0 ? decision::none : in_.get<decision>();
      if (result_.call == decision::none) break;
      make(scheduler);
      if (!ended_) ++result_.calls;
    }
    return result_;
  }

 private:
  void end(replay_outcome o) noexcept {
    if (!ended_) result_.outcome = o;
    ended_ = true;
  }
  /// Whether a record has been read completely and is `right`.
  [[nodiscard]] bool read(bool right = true, replay_outcome otherwise = replay_outcome::malformed) noexcept {
    if (in_.failed()) {
      end(replay_outcome::truncated);
    } else if (!right) {
      end(otherwise);
    }
    return !ended_;
  }

  void read_header(scheduler_limits& l) noexcept {
    char magic[sizeof log_magic];
    in_.get_bytes(magic, sizeof magic);
    const bool known = std::memcmp(magic, log_magic, sizeof magic) == 0;
    const bool same_clock = in_.get<bool>() == std::floating_point<typename clock::rep>;
    const bool same_hashes = in_.get<bool>() == uses_hashes<Scheduler>;
    const bool same_ticks = std::bit_cast<std::uint64_t>(in_.get<double>()) ==
                            std::bit_cast<std::uint64_t>(static_cast<double>(clock::ticks_per_second));
    std::uint64_t sizes[4];
    sizes[0] = in_.get<std::uint64_t>();
    sizes[1] = in_.get<std::uint64_t>();
    l.block_size = in_.get_tokens();
    sizes[2] = in_.get<std::uint64_t>();
    sizes[3] = in_.get<std::uint64_t>();
    l.max_length = in_.get_tokens();
    l.plans_in_flight = static_cast<std::size_t>(in_.get<std::uint64_t>());
    l.plans_apart = static_cast<std::size_t>(in_.get<std::uint64_t>());
    l.deadlines = static_cast<std::size_t>(in_.get<std::uint64_t>());
    l.slots_ahead = in_.get_tokens();
    l.requests = static_cast<std::size_t>(sizes[0]);
    l.blocks = static_cast<std::size_t>(sizes[1]);
    l.residents = static_cast<std::size_t>(sizes[2]);
    l.host_blocks = static_cast<std::size_t>(sizes[3]);
    static_cast<void>(read(known && same_clock && same_hashes && same_ticks && are_possible(l)));
  }

  /// A time that arithmetic can handle.
  [[nodiscard]] time_point read_time() noexcept {
    using rep = typename clock::rep;
    if constexpr (std::floating_point<rep>) {
      const auto ticks = in_.get<double>();
      if (!(ticks > -1e300 && ticks < 1e300)) times_ = false;
      return time_point{typename time_point::duration{times_ ? static_cast<rep>(ticks) : rep{}}};
    } else {
      const auto ticks = in_.get<std::int64_t>();
      constexpr std::int64_t most = std::int64_t{1} << 61;
      if (ticks > most || ticks < -most || !std::in_range<rep>(ticks)) times_ = false;
      return time_point{typename time_point::duration{times_ ? static_cast<rep>(ticks) : rep{}}};
    }
  }
  [[nodiscard]] time_point read_deadline() noexcept {
    const bool is_none = in_.get<bool>();
    const time_point t = read_time();
    return is_none ? time_point::never() : t;
  }
  [[nodiscard]] request_progress<clock> read_progress() noexcept {
    request_progress<clock> p;
    p.length = in_.get_tokens();
    p.computed = in_.get_tokens();
    p.reasoning = in_.get_tokens();
    p.phase = read_phase();
    p.carried = in_.get<std::uint8_t>();
    p.preemptions = in_.get<std::uint32_t>();
    p.arrived = read_time();
    p.answering_since = read_time();
    return p;
  }
  [[nodiscard]] phase read_phase() noexcept {
    const auto p = in_.get<phase>();
    if (p > phase::answering) values_ = false;
    return p;
  }
  template <class T>
  void read_member(T& value) noexcept {
    if constexpr (is_number<T>) {
      value = in_.get<T>();
    } else {
      in_.get_bytes(&value, sizeof value);
    }
  }
  template <class... T>
  void read_members(std::tuple<T&...> members) noexcept {
    // Another type: what follows cannot be read.
    if (in_.get<std::uint32_t>() != bytes_of(members)) values_ = false;
    if (!values_) return;
    std::apply([this](auto&... m) noexcept { (this->read_member(m), ...); }, members);
  }
  /// A request that joins. Null: it cannot be read.
  [[nodiscard]] request* read_newcomer() {
    request& r = requests_.emplace_back();
    const auto life = in_.get<lifecycle>();
    if (life > lifecycle::failed) values_ = false;
    r.prompt = in_.get_tokens();
    r.max_output = in_.get_tokens();
    r.priority = in_.get<std::int32_t>();
    r.starts_in = read_phase();
    read_members(log_members(r));
    if (values_) read_members(note_members(r));
    std::span<const std::uint64_t> found;
    if constexpr (uses_hashes<Scheduler>) {
      const auto n = values_ ? in_.get<std::uint32_t>() : 0;
      // Checked before memory for them is allocated.
      if (n > in_.left() / sizeof(std::uint64_t)) {
        end(replay_outcome::truncated);
        return nullptr;
      }
      std::vector<std::uint64_t>& hashes = hashes_.emplace_back(n);
      for (std::uint64_t& h : hashes) h = in_.get<std::uint64_t>();
      found = hashes;
    }
    if (!read(times_ && values_)) return nullptr;
    request_access::state(r).life = life;
    (*prepare_)(r, found);
    return &r;
  }
  /// Null: it cannot be read.
  [[nodiscard]] request* read_name() noexcept {
    const auto name = in_.get<std::uint64_t>();
    if (name == 0) return read() ? &nobody_ : nullptr;
    return read(name <= names_.size()) ? names_[static_cast<std::size_t>(name - 1)] : nullptr;
  }

  void answer(status came) noexcept {
    const auto code = in_.get<std::uint8_t>();
    if (!read() || !read(code != 0, replay_outcome::truncated)) return;
    compare(code - 1U, static_cast<std::uint64_t>(came));
  }
  void compare(std::uint64_t expected, std::uint64_t came) noexcept {
    if (expected == came) return;
    end(replay_outcome::differs);
    result_.expected = expected;
    result_.came = came;
  }
  void joined(request& r, status came) {
    if (ok(came)) names_.push_back(&r);
    answer(came);
  }

  template <class F>
  void call(F&& f) noexcept(noexcept(f(nobody_))) {
    if (request* const r = read_name(); r != nullptr) answer(f(*r));
  }

  void make(Scheduler& s) {
    switch (result_.call) {
      case decision::submit: {
        const time_point now = read_time();
        if (request* const r = read_newcomer(); r != nullptr) joined(*r, s.submit(*r, now));
        break;
      }
      case decision::adopt: {
        const request_progress<clock> p = read_progress();
        request* const r = read_newcomer();
        if (r == nullptr) break;
        auto& state = request_access::state(*r);
        state.length = p.length;
        state.computed = p.computed;
        state.reasoning = p.reasoning;
        state.phase = p.phase;
        state.carried = p.carried;
        state.preemptions = p.preemptions;
        state.arrived = p.arrived;
        state.answering_since = p.answering_since;
        joined(*r, s.adopt(*r));
        break;
      }
      case decision::adopt_progress: {
        const request_progress<clock> p = read_progress();
        if (request* const r = read_newcomer(); r != nullptr) joined(*r, s.adopt(*r, p));
        break;
      }
      case decision::fork: {
        const request* const parent = read_name();
        if (parent == nullptr) break;
        if (request* const child = read_newcomer(); child != nullptr) joined(*child, s.fork(*parent, *child));
        break;
      }
      case decision::evacuate: call([&s](request& r) noexcept { return s.evacuate(r); }); break;
      case decision::suspend: call([&s](request& r) noexcept { return s.suspend(r); }); break;
      case decision::resume: call([&s](request& r) noexcept { return s.resume(r); }); break;
      case decision::preempt: call([&s](request& r) noexcept { return s.preempt(r); }); break;
      case decision::cancel: call([&s](request& r) noexcept { return s.cancel(r); }); break;
      case decision::finish: call([&s](request& r) noexcept { return s.finish(r); }); break;
      case decision::update: update(s); break;
      case decision::park: {
        request* const r = read_name();
        const time_point deadline = read_deadline();
        const auto end = in_.get<park_end>();
        if (r != nullptr && read(times_ && end <= park_end::fails)) answer(s.park(*r, deadline, end));
        break;
      }
      case decision::ready: call([&s](request& r) noexcept { return s.ready(r); }); break;
      case decision::loading: {
        request* const r = read_name();
        const tokens n = in_.get_tokens();
        const time_point deadline = read_deadline();
        if (r != nullptr && read(times_)) answer(s.loading(*r, n, deadline));
        break;
      }
      case decision::fetching: {
        request* const r = read_name();
        const tokens n = in_.get_tokens();
        if (r != nullptr && read()) answer(s.fetching(*r, n));
        break;
      }
      case decision::arrived: {
        request* const r = read_name();
        const tokens n = in_.get_tokens();
        if (r != nullptr && read()) answer(s.arrived(*r, n));
        break;
      }
      case decision::start_by:
      case decision::evacuate_later:
      case decision::finish_later: {
        request* const r = read_name();
        const time_point deadline = read_deadline();
        if (r == nullptr || !read(times_)) break;
        std::uint64_t ticket = 0;
        answer(result_.call == decision::start_by         ? s.start_by(*r, deadline)
               : result_.call == decision::evacuate_later ? s.evacuate(*r, deadline, ticket)
                                                          : s.finish(*r, deadline, ticket));
        break;
      }
      case decision::drained: {
        const auto ticket = in_.get<std::uint64_t>();
        if (read()) answer(s.drained(ticket));
        break;
      }
      case decision::note:
        if (request* const r = read_name(); r != nullptr) {
          request read_apart;  // a truncated record must not set half of the members
          const log_reader members = in_;
          read_members(note_members(read_apart));
          if (!read(values_)) break;
          in_ = members;
          read_members(note_members(*r));
        }
        break;
      case decision::forget_prefixes:
        if constexpr (requires { s.forget_prefixes(); }) {
          answer(s.forget_prefixes());
        } else {
          end(replay_outcome::malformed);
        }
        break;
      case decision::plan: plan(s); break;
      case decision::commit: commit(s); break;
      case decision::abandon:
        if (read(s.can_abandon(), replay_outcome::not_allowed)) {
          answer(s.abandon(plans_.back()));
          plans_.pop_back();
        }
        break;
      default: result_.call = decision::none; end(replay_outcome::malformed);
    }
  }

  void update(Scheduler& s) {
    request* const r = read_name();
    if (r == nullptr) return;
    request said;
    const bool called = in_.get<bool>();
    const log_reader before = in_;
    if (called) {
      said.max_output = in_.get_tokens();
      said.priority = in_.get<std::int32_t>();
      read_members(log_members(said));
    }
    // Larger values are impossible and would only overflow sums.
    if (!read(values_ && said.max_output >= tokens{} && said.max_output < tokens{std::int64_t{1} << 40})) return;
    const log_reader after = in_;
    const status came = s.update(*r, [&](request& q) noexcept {
      if (!called) return;
      in_ = before;
      q.max_output = in_.get_tokens();
      q.priority = in_.template get<std::int32_t>();
      read_members(log_members(q));
    });
    in_ = after;
    answer(came);
  }

  void plan(Scheduler& s) noexcept {
    const time_point now = read_time();
    step_limits l;
    l.max_batch = static_cast<std::size_t>(in_.get<std::uint64_t>());
    l.token_budget = in_.get_tokens();
    l.max_chunk = in_.get_tokens();
    l.lookahead = in_.get_tokens();
    l.max_starts = static_cast<std::size_t>(in_.get<std::uint64_t>());
    l.prefill_budget = in_.get_tokens();
    if (!read(times_)) return;
    const bool allowed = s.plans_in_flight() < s.size_limits().plans_in_flight && l.max_batch > 0 &&
                         l.token_budget > tokens{} && l.lookahead >= tokens{} && l.prefill_budget >= tokens{} &&
                         l.max_chunk >= tokens{};
    if (!read(allowed, replay_outcome::not_allowed)) return;
    plans_.push_back(s.plan(now, l));
    const auto expected = in_.get<std::uint64_t>();
    if (read() && read(expected != 0, replay_outcome::truncated))
      compare(expected, digest_of(plans_.back(), s.tables()));
  }

  void commit(Scheduler& s) {
    const time_point now = read_time();
    const auto n = in_.get<std::uint32_t>();
    if (!read(times_)) return;
    if (!read(s.plan_pending() && n == plans_.front().size(), replay_outcome::not_allowed)) return;
    const plan_type oldest = plans_.front();
    outcomes_.assign(n, outcome{});
    for (auto i = in_.get<std::uint32_t>(); !in_.failed() && i != no_index; i = in_.get<std::uint32_t>()) {
      outcome o;
      o.produced = in_.get<std::uint16_t>();
      const unsigned flags = in_.get<std::uint8_t>();
      o.end_of_reasoning = (flags & 1U) != 0;
      o.finished = (flags & 2U) != 0;
      o.failed = (flags & 4U) != 0;
      o.spoilt = (flags & 8U) != 0;
      if (!read(i < n && flags < 16)) return;
      outcomes_[i] = o;
    }
    bool possible = true;
    for (std::size_t i = 0; i != n; ++i) {
      const outcome& o = outcomes_[i];
      const auto& e = oldest[i];
      if (e.samples && !o.failed && !o.spoilt) {
        possible = possible && o.produced > 0 && tokens{o.produced} <= tokens{1} + e.lookahead;
      }
    }
    if (!read(possible, replay_outcome::not_allowed)) return;
    plans_.pop_front();
    answer(s.commit(oldest, outcomes_, now));
  }

  log_reader in_;
  Prepare* prepare_;
  std::deque<std::vector<std::uint64_t>> hashes_;
  std::deque<request> requests_;
  request nobody_;
  std::vector<request*> names_;
  std::vector<outcome> outcomes_;
  std::deque<plan_type> plans_;  ///< Plans in flight.
  replay_result result_;
  bool ended_ = false;
  bool times_ = true;   ///< Whether all times were usable,
  bool values_ = true;  ///< and all other values valid.
};

}  // namespace detail

/// Repeats the calls of a log on a new scheduler with the same limits, and compares the answers. It ends with the first
/// that differs. So `result.calls` in a breakpoint's condition leads to the point of failure.
///
/// The log need not be trusted: every field is checked, and an impossible value is an outcome, not a failed assertion.
/// The members that the order reads (`logged_members`) are taken as they are. The decisions are the same with the same
/// library, the same `config`, and policies that read nothing outside of the log.
///
/// @param config     as at the scheduler's construction; or another, to see where it makes a difference.
/// @param prepare    `prepare(r, hashes)` is called for each new request. A scheduler with a prefix cache needs it, to
/// make `r.prefix_hashes()` return `hashes`, which stay in place until the end.
/// @param most_bytes the most memory that the scheduler may take.
/// @tparam Scheduler the logged type, without `logged`; its requests can be default-constructed.
/// Throws `std::bad_alloc`. O(the calls).
template <class Scheduler, class Prepare>
  requires std::invocable<Prepare&, typename Scheduler::request_type&, std::span<const std::uint64_t>>
[[nodiscard]] replay_result replay_decisions(std::span<const std::byte> log, const typename Scheduler::config& config,
                                             Prepare&& prepare, std::size_t most_bytes = 0xffff'ffffU) {
  return detail::replayer<Scheduler, std::remove_reference_t<Prepare>>{log, prepare}.run(config, most_bytes);
}
/// The same for a scheduler without a prefix cache.
template <class Scheduler>
[[nodiscard]] replay_result replay_decisions(std::span<const std::byte> log,
                                             const typename Scheduler::config& config = {}) {
  static_assert(!detail::uses_hashes<Scheduler>,
                "tessera: a prefix cache needs `prepare`, to give requests their hashes");
  return replay_decisions<Scheduler>(
      log, config, [](typename Scheduler::request_type& /*r*/, std::span<const std::uint64_t> /*hashes*/) noexcept {});
}

TESSERA_NAMESPACE_END
