// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What `queue_discipline` and `ordered_queue` promise, checked for every model against a slow reference. Its requests
// are in a vector, sorted anew for each look, aged by a scan. A new model is one line in TESSERA_TEST_MODELS.

#include <tessera/order/earliest_due.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/order/least_attained_service.hpp>
#include <tessera/order/least_slack.hpp>
#include <tessera/order/paced.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/response_ratio.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/order/shortest_rest.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/queue/ordered_queue.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/is_slow.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace {

using namespace tessera;

struct engine_part {
  virtual ~engine_part() = default;
  double something = 0;
};

// Models besides the library's own: what a user would write.
struct shortest_prompt : order::fcfs {
  template <schedulable R>
  [[nodiscard]] static bool before(const R& a, const R& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.prompt != b.prompt) return a.prompt < b.prompt;
    return a.state().sequence < b.state().sequence;
  }
};
/// Longest prompt first above a length that is the order's own, shortest first below it.
struct around_a_length : order::fcfs {
  tokens pivot{30};
  template <schedulable R>
  [[nodiscard]] bool before(const R& a, const R& b) const noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    const bool large = a.prompt >= pivot;
    if (large != (b.prompt >= pivot)) return large;
    if (a.prompt != b.prompt) return large == (b.prompt < a.prompt);
    return a.state().sequence < b.state().sequence;
  }
  template <schedulable R>
  [[nodiscard]] bool displaces(const R& waiting, const R& resident) const noexcept {
    if (waiting.priority != resident.priority) return waiting.priority > resident.priority;
    return waiting.prompt >= pivot && resident.prompt < pivot;
  }
};
struct by_prompt {
  template <schedulable R>
  [[nodiscard]] float operator()(const R& r) const noexcept {
    return static_cast<float>(r.prompt.count());
  }
};

/// A reader with as long to read as the prompt is long.
struct reads_the_prompt {
  template <schedulable R>
  [[nodiscard]] typename R::time_point operator()(const R& r) const noexcept {
    using length = basic_duration<typename R::clock_type>;
    return r.state().answering_since + length::from_seconds(0.2 * static_cast<double>(r.prompt.count()));
  }
};
/// As long an output as the prompt.
struct expects_the_prompt {
  template <schedulable R>
  [[nodiscard]] tokens operator()(const R& r) const noexcept {
    return r.prompt;
  }
};
using by_due = order::earliest_due<expects_the_prompt, reads_the_prompt>;
/// Long prompts are held for up to a few seconds.
struct by_due_held : by_due {
  by_due_held() { prompt_pace = duration{0.3}; }
};
/// Three times the prompt at first, and then more the further it has come in every hundred tokens.
struct expects_more_and_more {
  template <schedulable R>
  [[nodiscard]] tokens operator()(const R& r) const noexcept {
    return max(tokens{3 * r.prompt.count() - r.generated().count()}, tokens{1 + r.generated().count() % 100});
  }
};
using by_rest = order::shortest_rest<expects_more_and_more>;
/// Requests of a few programs, which the order's user has somewhere.
struct one_of_three {
  order::program_service* all = nullptr;
  template <schedulable R>
  [[nodiscard]] order::program_service* operator()(const R& r) const noexcept {
    return all == nullptr || r.id % 4 == 0 ? nullptr : all + r.id % 4 - 1;
  }
};
using by_service = order::least_attained_service<one_of_three>;
/// Some were promised more than others.
struct promised_by_prompt {
  template <schedulable R>
  [[nodiscard]] order::token_deadlines operator()(const R& r) const noexcept {
    return {.ttft = duration{r.prompt.count() % 2 == 0 ? 1.0 : 9.0}, .tpot = duration{0.05}};
  }
};
using by_slack = order::least_slack<promised_by_prompt>;
using response_ratio = order::response_ratio<expects_the_prompt>;
struct by_ratio : response_ratio {
  by_ratio() {
    pace = duration{0.5};
    step = 2;
  }
};

/// One type of request for every order, with a hook that is not its first base.
template <class Clock>
using hook = basic_request_hook<Clock, order::round_robin, order::two_phase, order::ranked<>,
                                order::paced<reads_the_prompt>, by_due, by_rest, by_service, by_slack, response_ratio>;
struct request : engine_part, hook<seconds_clock> {
  std::size_t id = 0;
  float score = 0;
};
struct tick_request : hook<nanoseconds_clock> {
  std::size_t id = 0;
  float score = 0;
};
struct round_robin_by_quanta : order::round_robin {
  round_robin_by_quanta() { fewest_quanta_first = true; }
};
struct two_phase_by_quanta : order::two_phase {
  two_phase_by_quanta() { fewest_quanta_first = true; }
};

template <class Discipline, class Request = request>
struct model {
  using discipline = Discipline;
  using request_type = Request;
  using clock = typename Request::clock_type;

  /// Small parameters, so that short runs meet every rule.
  static Discipline make() {
    Discipline d{};
    if constexpr (requires { d.quantum; }) d.quantum = tokens{20};
    if constexpr (requires { d.demote_above; }) d.demote_above = tokens{150};
    if constexpr (requires { d.threshold; }) d.threshold = duration{6.0};
    if constexpr (requires { d.slice; }) d.slice = tokens{15};
    if constexpr (requires { d.first; }) d.first = tokens{20};
    return d;
  }
};

#define TESSERA_TEST_MODELS                                                                                            \
  model<order::fcfs>, model<order::round_robin>, model<order::two_phase>, model<order::ranked<>>,                      \
      model<order::ranked<by_prompt>>, model<shortest_prompt>, model<around_a_length>, model<round_robin_by_quanta>,   \
      model<two_phase_by_quanta>, model<order::paced<reads_the_prompt>>, model<by_due>, (model<by_due, tick_request>), \
      (model<order::paced<reads_the_prompt>, tick_request>), (model<order::fcfs, tick_request>),                       \
      (model<order::two_phase, tick_request>), (model<order::ranked<>, tick_request>), model<by_rest>,                 \
      model<by_service>, (model<by_service, tick_request>), model<by_slack>, (model<by_slack, tick_request>),          \
      model<by_due_held>, (model<by_due_held, tick_request>), model<by_ratio>, (model<by_ratio, tick_request>)

/// The same requests and the same operations, done the slow way.
template <class Model>
class reference {
 public:
  using D = typename Model::discipline;
  using R = typename Model::request_type;
  using time = typename R::time_point;

  explicit reference(std::vector<R> requests) : requests_{std::move(requests)}, queued_(requests_.size()) {}

  void push(std::size_t i, time now) {
    auto& s = state(i);
    s = {};
    s.length = requests_[i].prompt;
    s.phase = requests_[i].starts_in;
    s.arrived = s.answering_since = now;
    s.sequence = ++pushed_;
    request_access::begin_order_state<D>(requests_[i]);
    discipline_.enter(requests_[i], now);
    queued_[i] = true;
  }
  void insert(std::size_t i) { queued_[i] = true; }
  void erase(std::size_t i) { queued_[i] = false; }
  bool charge(std::size_t i, tokens ran) {
    if (!discipline_.charge(requests_[i], ran)) return false;
    discipline_.requeue(requests_[i]);
    return true;
  }
  void end_reasoning(std::size_t i) {
    state(i).phase = phase::answering;
    discipline_.change_phase(requests_[i]);
  }
  void advance(time now) {
    discipline_.advance(now);
    now_ = now;
    if constexpr (D::ages && !detail::ages_to_front<D>) age_all();
  }

  [[nodiscard]] std::size_t aged() const { return aged_; }
  [[nodiscard]] bool queued(std::size_t i) const { return queued_[i]; }
  R& operator[](std::size_t i) { return requests_[i]; }
  auto& state(std::size_t i) { return request_access::state(requests_[i]); }

  /// Which request is served when, once all that are due for it have aged.
  [[nodiscard]] std::vector<std::size_t> in_order() {
    std::vector<std::size_t> ids;
    if constexpr (detail::ages_to_front<D>) age_all();
    for (std::size_t i = 0; i != requests_.size(); ++i) {
      if (queued_[i]) ids.push_back(i);
    }
    std::sort(ids.begin(), ids.end(),
              [this](std::size_t a, std::size_t b) { return discipline_.before(requests_[a], requests_[b]); });
    return ids;
  }

 private:
  void age_all() {
    for (std::size_t i = 0; i != requests_.size(); ++i) {
      // One may be due twice: it is looked at, and it has been held for long enough.
      for (; queued_[i] && discipline_.due_at(requests_[i]) <= now_; ++aged_) discipline_.age(requests_[i]);
    }
  }

  std::vector<R> requests_;
  std::vector<bool> queued_;
  D discipline_ = Model::make();
  std::uint64_t pushed_ = 0;
  time now_{};
  std::size_t aged_ = 0;
};

template <class R>
std::vector<R> some_requests(std::size_t n, std::mt19937& random) {
  std::vector<R> out(n);
  for (std::size_t i = 0; i != n; ++i) {
    out[i].id = i;
    out[i].prompt = tokens{static_cast<std::int64_t>(1 + random() % 60)};
    out[i].priority = random() % 4 == 0 ? static_cast<int>(random() % 3) - 1 : 0;
    out[i].score = random() % 10 == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(random() % 8);
    out[i].starts_in = random() % 3 == 0 ? phase::answering : phase::reasoning;
  }
  return out;
}

template <class Queue>
std::vector<std::size_t> walk(Queue& queue) {
  std::vector<std::size_t> ids;
  for (auto* r = queue.front(); r != nullptr; r = queue.next(*r)) ids.push_back(r->id);
  return ids;
}

template <class State>
bool same_state(const State& a, const State& b) {
  bool same = true;
  if constexpr (requires { a.level; }) same = same && a.level == b.level;
  if constexpr (requires { a.turn; }) same = same && a.turn == b.turn;
  if constexpr (requires { a.quantum_used; }) same = same && a.quantum_used == b.quantum_used;
  if constexpr (requires { a.urgent_at; }) same = same && a.urgent_at == b.urgent_at;
  if constexpr (requires { a.boost_at; }) same = same && a.boost_at == b.boost_at && a.boosted == b.boosted;
  if constexpr (requires { a.rank; }) same = same && a.rank == b.rank;
  if constexpr (requires { a.had; }) same = same && a.had == b.had && a.next_at == b.next_at;
  if constexpr (requires { a.start_by; }) same = same && a.start_by == b.start_by && a.used == b.used;
  if constexpr (requires { a.rest; }) same = same && a.rest == b.rest && a.used == b.used && a.keeps == b.keeps;
  return same;
}
template <class D, class R>
bool same_place(const R& a, const R& b) {
  bool same = a.state().sequence == b.state().sequence && a.state().carried == b.state().carried;
  if constexpr (requires { order_state<D>(a).quantum_used; }) {
    same = same && same_state(order_state<D>(a), order_state<D>(b));
  } else if constexpr (requires { order_state<D>(a).boost_at; }) {
    same = same && same_state(order_state<D>(a), order_state<D>(b));
  }
  return same;
}
/// The requests in the order in which they are queued.
template <class Queue>
std::vector<std::size_t> as_queued(const Queue& queue) {
  std::vector<std::size_t> ids;
  queue.for_each([&ids](const auto& r) { ids.push_back(r.id); });
  return ids;
}

TEMPLATE_TEST_CASE("ordered_queue: as the slow reference, over random operations", "[conformance][queue]",
                   TESSERA_TEST_MODELS) {
  using R = typename TestType::request_type;
  using D = typename TestType::discipline;
  using time = typename R::time_point;

  for (const unsigned seed : {1U, 2U, 3U}) {
    std::mt19937 random{seed};
    const std::size_t n = seed == 1 ? 3 : seed == 2 ? 12 : 150;
    const int steps = tessera_test::is_slow && n != 3 ? 2'000 : 6'000;
    std::vector<R> requests = some_requests<R>(n, random);
    reference<TestType> slow{requests};
    ordered_queue<R, D> queue{TestType::make()};
    std::vector<bool> left(n);  // was queued once and can be put back
    double seconds = 0;
    bool agrees = true;
    std::size_t moves = 0;

    for (int step = 0; step != steps && agrees; ++step) {
      const std::size_t i = random() % n;
      R& r = requests[i];
      const auto what = static_cast<unsigned>(random() % 100);
      seconds += static_cast<double>(random() % 100) / 1000;
      const time now = time::at_seconds(seconds);
      agrees = queue.contains(r) == slow.queued(i);
      if (!slow.queued(i)) {
        if (left[i] && what % 2 == 0) {
          queue.insert(r);
          slow.insert(i);
        } else {
          queue.push(r, now);
          slow.push(i, now);
        }
      } else if (what < 15) {
        queue.erase(r);
        slow.erase(i);
        left[i] = true;
      } else if (what < 30) {
        const std::size_t first = slow.in_order().front();
        R* const popped = queue.pop_front();
        agrees = popped == &requests[first];
        slow.erase(first);
        left[first] = true;
      } else if (what < 40) {
        const int priority = static_cast<int>(random() % 3) - 1;
        queue.update(r, [priority](R& changed) { changed.priority = priority; });
        slow[i].priority = priority;
      } else if (what < 75) {
        const tokens ran{static_cast<std::int64_t>(random() % 12)};
        for (auto* s : {&request_access::state(r), &slow.state(i)}) {
          s->computed += ran;
          s->length += ran;
        }
        const bool moved = queue.charge(r, ran);
        agrees = moved == slow.charge(i, ran);
        moves += moved ? 1 : 0;
      } else if (what < 80) {
        if (r.state().phase == phase::reasoning) {
          queue.update(r, [&queue](R& changed) {
            request_access::state(changed).phase = phase::answering;
            queue.discipline().change_phase(changed);
          });
          slow.end_reasoning(i);
        }
      } else {
        queue.advance(now);
        slow.advance(now);
      }

      if (step % 7 == 0) {
        const std::vector<std::size_t> expected = slow.in_order();
        // By then all that are due have come to where they belong.
        agrees = agrees && walk(queue) == expected && as_queued(queue) == expected;
        agrees = agrees && std::as_const(queue).front() == (expected.empty() ? nullptr : &requests[expected.front()]);
        agrees = agrees && queue.size() == expected.size() && queue.empty() == expected.empty();
        agrees = agrees && queue.front() == (expected.empty() ? nullptr : &requests[expected.front()]);
        agrees = agrees && queue.back() == (expected.empty() ? nullptr : &requests[expected.back()]);
        for (const std::size_t k : expected) {
          agrees = agrees && same_place<D>(requests[k], slow[k]);
        }
      }
    }
    INFO("seed " << seed);
    CHECK(agrees);
    CHECK((slow.aged() > 0) == D::ages);
    constexpr bool takes_turns =
        requires(D d) { d.quantum; } || requires(D d) { d.slice; } || requires(D d) { d.first; };
    CHECK((moves > 0) == takes_turns);

    while (queue.pop_front() != nullptr) {
    }
    CHECK(queue.empty());
    CHECK(queue.size() == 0);
    CHECK(queue.front() == nullptr);
    CHECK(queue.back() == nullptr);
    CHECK(std::as_const(queue).front() == nullptr);
    CHECK(std::as_const(queue).back() == nullptr);
  }
}

TEMPLATE_TEST_CASE("queue_discipline: before is a strict total order, displaces agrees with it", "[conformance][queue]",
                   TESSERA_TEST_MODELS) {
  using R = typename TestType::request_type;
  using D = typename TestType::discipline;
  using time = typename R::time_point;

  std::mt19937 random{11};
  std::vector<R> requests = some_requests<R>(40, random);
  D d = TestType::make();
  std::uint64_t sequence = 0;
  for (R& r : requests) {
    auto& s = request_access::state(r);
    s.phase = r.starts_in;
    s.sequence = sequence++;
    s.computed = tokens{static_cast<std::int64_t>(random() % 300)};
    request_access::begin_order_state<D>(r);
    d.enter(r, time::at_seconds(static_cast<double>(random() % 5)));
    if (random() % 3 == 0) d.requeue(r);
    if (random() % 3 == 0) {
      s.phase = phase::answering;
      d.change_phase(r);
    }
    if constexpr (D::ages) {
      if (random() % 3 == 0 && d.due_at(r) != time::never()) d.age(r);
    }
  }

  std::size_t wrong = 0;
  std::size_t displacements = 0;
  for (const R& a : requests) {
    for (const R& b : requests) {
      const bool same = &a == &b;
      wrong += (d.before(a, b) ? 1 : 0) + (d.before(b, a) ? 1 : 0) == (same ? 0 : 1) ? 0 : 1;
      if (a.priority > b.priority) wrong += d.before(a, b) && d.displaces(a, b) ? 0 : 1;
      if (d.displaces(a, b)) ++displacements;
      if (d.displaces(a, b) && !d.before(a, b)) ++wrong;
      for (const R& c : requests) {
        if (d.before(a, b) && d.before(b, c) && !d.before(a, c)) ++wrong;
        if (d.displaces(a, b) && d.before(b, c) && !d.displaces(a, c)) ++wrong;
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(displacements > 0);
}

TEMPLATE_TEST_CASE("queue_discipline: aged requests precede those of their priority that are not due, in order of dues",
                   "[conformance][queue]", TESSERA_TEST_MODELS) {
  using R = typename TestType::request_type;
  using D = typename TestType::discipline;
  using time = typename R::time_point;

  if constexpr (detail::ages_to_front<D>) {
    std::mt19937 random{14};
    std::vector<R> requests = some_requests<R>(60, random);
    D d = TestType::make();
    std::vector<time> due(requests.size());
    for (std::size_t i = 0; i != requests.size(); ++i) {
      auto& s = request_access::state(requests[i]);
      s.phase = requests[i].starts_in;
      s.length = requests[i].prompt + tokens{1};
      s.arrived = s.answering_since = time::at_seconds(0.25 * static_cast<double>(random() % 60));
      s.sequence = i;
      request_access::begin_order_state<D>(requests[i]);
      d.enter(requests[i], s.arrived);
      due[i] = d.due_at(requests[i]);
    }
    const time now = time::at_seconds(15);
    std::size_t aged = 0;
    std::size_t later = 0;
    for (std::size_t i = requests.size(); i-- != 0;) {  // in any order
      if (due[i] == time::never()) continue;
      if (now < due[i]) {
        ++later;
        continue;
      }
      d.age(requests[i]);
      ++aged;
      CHECK(d.due_at(requests[i]) == time::never());
    }
    CHECK(aged > 0);
    CHECK(later > 0);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i != requests.size(); ++i) {
      for (std::size_t j = 0; j != requests.size(); ++j) {
        if (due[i] > now || requests[i].priority != requests[j].priority) continue;
        if (due[j] > due[i]) wrong += d.before(requests[i], requests[j]) ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
    // A new place may make it due again.
    for (R& r : requests) d.requeue(r);
  }
}

TEMPLATE_TEST_CASE("ordered_queue: the time costs nothing, however many are due; each look moves at most one",
                   "[conformance][queue]", TESSERA_TEST_MODELS) {
  using R = typename TestType::request_type;
  using D = typename TestType::discipline;
  using time = typename R::time_point;

  if constexpr (detail::ages_to_front<D>) {
    std::mt19937 random{15};
    std::vector<R> requests = some_requests<R>(200, random);
    for (R& r : requests) {
      r.priority = 0;
      r.starts_in = phase::answering;  // some orders age answers alone
    }
    ordered_queue<R, D> queue{TestType::make()};
    for (R& r : requests) queue.push(r, time::at_seconds(0.5));
    const auto left = [&] {
      std::size_t n = 0;
      for (const R& r : requests) n += queue.discipline().due_at(r) != time::never() ? 1U : 0U;
      return n;
    };
    const std::size_t will_age = left();
    queue.advance(time::at_seconds(1000));
    CHECK(left() == will_age);
    std::size_t before = will_age;
    for (R* r = queue.front(); r != nullptr; r = queue.next(*r)) {
      const std::size_t now = left();
      CHECK(before - now <= 1);
      before = now;
    }
    CHECK(left() == 0);
  }
}

TEMPLATE_TEST_CASE("queue_discipline: charge leaves the place, requeue never improves it", "[conformance][queue]",
                   TESSERA_TEST_MODELS) {
  using R = typename TestType::request_type;
  using D = typename TestType::discipline;

  std::mt19937 random{12};
  std::vector<R> requests = some_requests<R>(30, random);
  D d = TestType::make();
  std::uint64_t sequence = 0;
  for (R& r : requests) {
    auto& s = request_access::state(r);
    s.phase = r.starts_in;
    s.sequence = sequence++;
    request_access::begin_order_state<D>(r);
    d.enter(r, {});
  }
  const auto behind = [&](const R& r) {
    std::vector<bool> out;
    for (const R& other : requests) out.push_back(d.before(r, other));
    return out;
  };
  std::size_t wrong = 0;
  for (int step = 0; step != 2'000; ++step) {
    R& r = requests[random() % requests.size()];
    const std::vector<bool> place = behind(r);
    request_access::state(r).computed += tokens{7};
    const bool due = d.charge(r, tokens{7});
    wrong += behind(r) == place ? 0 : 1;
    if (!due) continue;
    d.requeue(r);
    const std::vector<bool> after = behind(r);
    for (std::size_t i = 0; i != after.size(); ++i) wrong += after[i] && !place[i] ? 1 : 0;
    if constexpr (requires { order_state<D>(r).quantum_used; }) {
      wrong += order_state<D>(r).quantum_used == tokens{0} ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("ordered_queue: no operation allocates", "[conformance][queue]", TESSERA_TEST_MODELS) {
  using R = typename TestType::request_type;
  using D = typename TestType::discipline;
  using time = typename R::time_point;

  std::mt19937 random{13};
  std::vector<R> requests = some_requests<R>(64, random);
  std::size_t seen = 0;
  tessera_test::no_allocation guard;
  {
    ordered_queue<R, D> queue{TestType::make()};
    for (R& r : requests) queue.push(r, time::at_seconds(0.1));
    for (R& r : requests) queue.charge(r, tokens{25});
    queue.advance(time::at_seconds(100));
    for (R& r : requests) queue.update(r, [](R& changed) { ++changed.priority; });
    for (R* r = queue.front(); r != nullptr; r = queue.next(*r)) ++seen;
    queue.erase(requests[5]);
    queue.insert(requests[5]);
    for (int i = 0; i != 30; ++i) queue.pop_front();
    seen += queue.size();
  }
  const std::size_t allocations = guard.allocations();
  CHECK(allocations == 0);
  CHECK(seen == 64 + 34);
}

}  // namespace
