// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The threads of an engine: clients on many, one that owns the scheduler, and a bounded queue in between. Copy it and
// put your model where `toy_device` is. A request belongs to the scheduler's thread from the hand-over on. A client has
// its id and the stream that tokens come on. A cancellation names the id, so a late one finds no request and does no
// harm. Messages are taken while a step runs, too. A request that is cancelled then ends with the `commit`, which does
// not say which requests it has let go. So there is a list of requests that leave.
#include <tessera/compose/fcfs.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

using namespace tessera::literals;

/// What happened to a request, for its client.
enum class ending : std::uint8_t { none, finished, cancelled, refused };

/// The tokens of one answer on their way to its client. Room for all of them is made by the client's thread.
class token_stream {
 public:
  explicit token_stream(std::size_t most) { tokens_.reserve(most); }

  /// The scheduler's thread: one more token.
  void push(std::int32_t token) {
    const std::lock_guard lock{mutex_};
    tokens_.push_back(token);
    changed_.notify_one();
  }
  /// The scheduler's thread: there are no more.
  void end(ending how) {
    const std::lock_guard lock{mutex_};
    how_ = how;
    changed_.notify_one();
  }
  /// The client: waits for the next token; nothing after the last.
  [[nodiscard]] std::optional<std::int32_t> next() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return read_ != tokens_.size() || how_ != ending::none; });
    if (read_ == tokens_.size()) return std::nullopt;
    return tokens_[read_++];
  }
  /// The client, when `next` has returned nothing: why not.
  [[nodiscard]] ending how() {
    const std::lock_guard lock{mutex_};
    return how_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::int32_t> tokens_;
  std::size_t read_ = 0;
  ending how_ = ending::none;
};

/// A request and all that the engine knows of it.
struct job : tessera::request_hook {
  std::uint64_t id = 0;
  std::vector<std::int32_t> sequence;  // prompt and generated tokens
  std::shared_ptr<token_stream> stream;
};

/// What a client says: a new request, or, without one, that `id` is not wanted any more.
struct message {
  std::uint64_t id = 0;
  std::unique_ptr<job> submitted;
};

/// From many threads to one, at most `capacity` messages at once. The lock is held for a few moves; the reader takes
/// all there is.
class inbox {
 public:
  explicit inbox(std::size_t capacity) : capacity_{capacity} { messages_.reserve(capacity); }

  /// A new request is refused when the queue is full or closed: push back on the client.
  [[nodiscard]] bool offer(message&& m) {
    const std::lock_guard lock{mutex_};
    if (closed_ || messages_.size() == capacity_) return false;
    messages_.push_back(std::move(m));
    arrived_.notify_one();
    return true;
  }
  /// A cancellation must not be lost: it waits for room. After `close` all end anyway.
  void insist(message&& m) {
    std::unique_lock lock{mutex_};
    room_.wait(lock, [&] { return closed_ || messages_.size() != capacity_; });
    if (closed_) return;
    messages_.push_back(std::move(m));
    arrived_.notify_one();
  }
  void close() {
    const std::lock_guard lock{mutex_};
    closed_ = true;
    arrived_.notify_one();
    room_.notify_all();
  }
  /// The reader: swaps what there is for `taken`, which must be empty and have as much capacity. If there is nothing it
  /// waits, but no longer than `longest`. @return whether more may come.
  [[nodiscard]] bool take(std::vector<message>& taken, std::chrono::milliseconds longest) {
    std::unique_lock lock{mutex_};
    arrived_.wait_for(lock, longest, [&] { return closed_ != told_ || !messages_.empty(); });
    told_ = closed_;
    std::swap(taken, messages_);
    if (!taken.empty()) room_.notify_all();
    return !closed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_, room_;
  std::vector<message> messages_;
  std::size_t capacity_;
  bool closed_ = false;
  bool told_ = false;  // the reader knows that it is closed
};

/// Where your model goes. A token is the sum of those before it, and a step takes a moment.
struct toy_device {
  static std::int32_t sample(const std::vector<std::int32_t>& sequence) {
    std::uint32_t sum = 1;
    for (const std::int32_t t : sequence) sum = sum * 31 + static_cast<std::uint32_t>(t);
    return static_cast<std::int32_t>(sum % 1000);
  }
  static void run() { std::this_thread::sleep_for(std::chrono::microseconds{100}); }
};

class engine {
 public:
  /// What becomes of requests when the engine is shut down.
  enum class rest : std::uint8_t { finish, cancel };

  engine() : thread_{[this] { run(); }} {}
  ~engine() { shut_down(rest::cancel); }
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Any thread: hands a request over. @return its id; nothing if too much is on its way, or the engine shuts down.
  /// One that can never run is told so by its stream.
  [[nodiscard]] std::optional<std::uint64_t> submit(std::vector<std::int32_t> prompt, std::size_t most,
                                                    std::shared_ptr<token_stream> stream) {
    if (most == 0) {  // to a scheduler 0 means that the length is unknown: here it would be an answer without an end
      stream->end(ending::refused);
      return ids_.fetch_add(1, std::memory_order_relaxed);
    }
    auto j = std::make_unique<job>();
    j->prompt = tessera::tokens{static_cast<std::int64_t>(prompt.size())};
    j->max_output = tessera::tokens{static_cast<std::int64_t>(most)};
    j->sequence = std::move(prompt);
    j->sequence.reserve(j->sequence.size() + most);
    j->stream = std::move(stream);
    const std::uint64_t id = j->id = ids_.fetch_add(1, std::memory_order_relaxed);
    if (!inbox_.offer({.id = id, .submitted = std::move(j)})) return std::nullopt;
    return id;
  }
  /// Any thread: the client has hung up. Its stream ends when no step has the request any more.
  void cancel(std::uint64_t id) { inbox_.insist({.id = id, .submitted = nullptr}); }
  /// Any thread: what has happened so far, as of the latest step, for metrics.
  [[nodiscard]] tessera::scheduler_counters counters() {
    const std::lock_guard lock{counters_mutex_};
    return counters_;
  }
  /// One thread, once or more often: takes no more requests and waits until there are none.
  void shut_down(rest what) {
    if (what == rest::cancel) cancel_rest_.store(true);
    inbox_.close();
    if (thread_.joinable()) thread_.join();
  }

 private:
  using scheduler_type = tessera::fcfs<job>;
  static constexpr std::size_t most_messages = 64;
  static constexpr std::chrono::milliseconds at_once{0}, a_moment{1}, a_while{10'000};

  // All below is the scheduler's thread alone.
  void run() {
    messages_.reserve(most_messages);
    while (open_ || !scheduler_.idle()) {
      // When there is nothing to do, it sleeps until there is a message. When there is nothing to run, it sleeps for a
      // moment. If all are parked, or wait for their KV, only a message or a deadline changes that.
      listen(scheduler_.idle() ? a_while : ran_ ? at_once : a_moment);
      if (!open_ && cancel_rest_.load()) {
        for (auto& [id, j] : live_) cancel(*j);
      }
      reclaim();
      if (!scheduler_.idle()) step();
    }
  }
  /// Takes all messages that there are. Allowed while a step runs.
  void listen(std::chrono::milliseconds longest) {
    open_ = inbox_.take(messages_, longest);
    for (message& m : messages_) handle(m);
    messages_.clear();
  }
  void handle(message& m) {
    if (m.submitted) {
      job& j = *live_.emplace(m.id, std::move(m.submitted)).first->second;
      if (!ok(scheduler_.submit(j, now()))) {  // never_fits or queue_full; tell the client which
        j.stream->end(ending::refused);
        live_.erase(m.id);
      }
    } else if (const auto found = live_.find(m.id); found != live_.end()) {
      cancel(*found->second);
    }
  }
  /// It ends at once, or with the `commit` of a plan that it need not be in: one that was preempted, say.
  void cancel(job& j) {
    if (j.state().ends_as != tessera::lifecycle::idle) return;  // it is about to end
    static_cast<void>(scheduler_.cancel(j));
    leaving_.push_back(j.id);
  }
  void step() {
    const auto plan = scheduler_.plan(now(), {.max_batch = 16, .token_budget = 256_tok});
    ran_ = !plan.empty();
    for (job* j : plan.outgrown) {  // as long as can be: without this they would stay for ever
      static_cast<void>(scheduler_.finish(*j));
      leaving_.push_back(j->id);
    }
    toy_device::run();  // a plan without entries, too: it may have copies
    listen(at_once);    // with a device that runs by itself: until it is done
    outcomes_.assign(plan.size(), {});
    for (std::size_t i = 0; i != plan.size(); ++i) {
      job& j = *plan[i].request;
      // In vain: it has ended since this was planned. Any outcome will do.
      if (j.state().ends_as != tessera::lifecycle::idle || !plan[i].samples) continue;
      j.sequence.push_back(toy_device::sample(j.sequence));
      j.stream->push(j.sequence.back());
      outcomes_[i].finished = j.generated() + 1_tok == j.max_output;
      if (outcomes_[i].finished) leaving_.push_back(j.id);
    }
    scheduler_.commit(plan, outcomes_, now());
    reclaim();
    const std::lock_guard lock{counters_mutex_};
    counters_ = scheduler_.counters();
  }
  /// Lets go of the requests that have left. With several plans in flight, that is at the last plan that has them.
  void reclaim() {
    std::erase_if(leaving_, [&](std::uint64_t id) {
      const auto found = live_.find(id);
      if (found == live_.end()) return true;  // it was on the list twice
      if (!let_go(*found->second)) return false;
      live_.erase(found);
      return true;
    });
  }
  /// Whether the scheduler has done with a request. Then its client is told.
  static bool let_go(job& j) {
    const tessera::lifecycle life = j.state().life;
    if (is_live(life)) return false;
    j.stream->end(life == tessera::lifecycle::finished ? ending::finished : ending::cancelled);
    return true;
  }
  [[nodiscard]] tessera::time_point now() const {
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - begin_;
    return tessera::time_point{tessera::duration{since.count()}};
  }

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  // Requests outlive the scheduler, so they stand before it.
  std::unordered_map<std::uint64_t, std::unique_ptr<job>> live_;
  tessera::owned_storage<tessera::scheduler_limits> storage_ = tessera::storage_for<scheduler_type>(
      {.requests = 256, .blocks = 8192, .residents = 16, .max_length = 100'000_tok});
  scheduler_type scheduler_{storage_};
  std::vector<tessera::outcome> outcomes_;
  std::vector<message> messages_;
  std::vector<std::uint64_t> leaving_;  // requests that end or were cancelled, until the scheduler has let go of them
  bool open_ = true;                    // more messages may come
  bool ran_ = true;                     // the latest plan was not empty

  // What other threads touch.
  inbox inbox_{most_messages};
  std::atomic<std::uint64_t> ids_{1};
  std::atomic<bool> cancel_rest_{false};
  std::mutex counters_mutex_;
  tessera::scheduler_counters counters_{};
  std::thread thread_;  // last: it begins when all else is there
};

/// A client that hangs up after `hang_up_after` tokens, or reads all. @return how its request ended, and whether every
/// token was right.
std::pair<ending, bool> ask(engine& e, std::int32_t seed, std::size_t most, std::size_t hang_up_after) {
  std::vector<std::int32_t> expected(static_cast<std::size_t>(20 + seed % 50), seed);
  const auto stream = std::make_shared<token_stream>(most);
  auto id = e.submit(expected, most, stream);
  for (; !id; id = e.submit(expected, most, stream)) std::this_thread::yield();  // pushed back
  bool right = true;
  std::size_t n = 0;
  while (const auto token = stream->next()) {
    right = right && *token == toy_device::sample(expected);
    expected.push_back(*token);
    if (++n == hang_up_after) {
      e.cancel(*id);
      while (stream->next()) {  // what was under way
      }
      return {stream->how(), right};
    }
  }
  return {stream->how(), right && n == most};
}

int main() {
  constexpr std::size_t endless = 90'000;
  std::atomic<int> whole{0};
  std::atomic<int> hung_up{0};
  std::atomic<int> wrong{0};
  engine e;
  {
    std::vector<std::thread> clients;
    for (std::int32_t c = 0; c != 8; ++c) {
      clients.emplace_back([&, c] {
        for (std::int32_t k = 0; k != 7; ++k) {
          const bool impatient = k == 3;
          const auto [how, right] = ask(e, c * 7 + k, impatient ? endless : 40, impatient ? 5 : 0);
          if (!right) ++wrong;
          if (how == ending::finished) ++whole;
          if (how == ending::cancelled) ++hung_up;
        }
      });
    }
    for (std::thread& c : clients) c.join();
  }
  std::printf("%d answers came whole, %d clients hung up, %d were wrong\n", whole.load(), hung_up.load(), wrong.load());

  const auto unlimited = std::make_shared<token_stream>(0);
  if (!e.submit({1, 2, 3}, 0, unlimited)) return 1;
  while (unlimited->next()) {
  }
  std::printf("an answer without a limit was %s\n", unlimited->how() == ending::refused ? "refused" : "given");

  // A shutdown with requests under way: each stream ends, and says so.
  std::vector<std::shared_ptr<token_stream>> streams;
  for (std::int32_t k = 0; k != 4; ++k) {
    streams.push_back(std::make_shared<token_stream>(endless));
    if (!e.submit(std::vector<std::int32_t>(30, k), endless, streams.back())) return 1;
  }
  e.shut_down(engine::rest::cancel);
  int told = 0;
  for (const auto& s : streams) {
    while (s->next()) {
    }
    if (s->how() == ending::cancelled) ++told;
  }
  const tessera::scheduler_counters c = e.counters();
  std::printf("%d were told of the shutdown; afterwards %s\n", told,
              e.submit({1}, 1, streams.front()) ? "one was taken" : "none is taken");
  std::printf("the scheduler finished %llu\n", static_cast<unsigned long long>(c.finished));
}

/* output:
48 answers came whole, 8 clients hung up, 0 were wrong
an answer without a limit was refused
4 were told of the shutdown; afterwards none is taken
the scheduler finished 48
*/
