// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// First come, first served with recomputation and a prefix cache, next to a scheduler as a textbook has it. That is an
// independent, plain version that keeps lists and looks at everything in each step. The plain one has the rules of the
// V1 scheduler of vLLM. Running requests go first, in order, and the last of them is dropped when a block is lacking.
// Then waiting requests start, in order, until one does not fit. It also holds back a prompt with a next block that
// another request computes in the same step, and lets others pass it.
//
// The two are alike, not equal. The plain one takes blocks of a prompt chunk by chunk and starts a request that fits by
// its first chunk. `fcfs` starts a request that fits as a whole, and gives a request that was dropped all of its blocks
// at once. So it preempts less. Steps, tokens and times must agree within a bound where memory is short, and to the
// letter where it is not.

#include <tessera/compose/fcfs.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/kv/row_tables.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

constexpr std::int64_t block = 16;

/// A request as its user sends it.
struct job {
  std::int64_t prompt = 0;
  std::int64_t output = 0;
  std::int64_t at = 0;  ///< The step before which it comes.
  std::vector<std::uint64_t> hashes;
};

/// What came of all jobs.
struct result {
  std::int64_t steps = 0;
  std::int64_t computed = 0;
  std::int64_t preempted = 0;
  std::int64_t waited = 0;  ///< Steps from arrival to the first token, summed up.

  result& operator+=(const result& other) {
    steps += other.steps;
    computed += other.computed;
    preempted += other.preempted;
    waited += other.waited;
    return *this;
  }
};

struct setting {
  std::int64_t blocks = 0;
  std::size_t batch = 64;
  std::int64_t budget = 512;
  bool holds_back = true;  ///< Whether prompts wait for blocks that others compute in the same step.
};

/// The textbook.
class plain_scheduler {
 public:
  plain_scheduler(const setting& s, const std::vector<job>& jobs) : s_{s}, jobs_{jobs} {
    for (std::int64_t i = 0; i != s.blocks; ++i) idle_.push_back(static_cast<std::size_t>(i));
    owners_.resize(static_cast<std::size_t>(s.blocks));
    name_.resize(static_cast<std::size_t>(s.blocks));
  }

  result run() {
    std::size_t next = 0;
    while (next != jobs_.size() || !running_.empty() || !waiting_.empty()) {
      for (; next != jobs_.size() && jobs_[next].at <= done_.steps; ++next) {
        sequence& q = all_.emplace_back();
        q.of = &jobs_[next];
        q.length = q.of->prompt;
        waiting_.push_back(&q);
      }
      step();
    }
    return done_;
  }

 private:
  struct sequence {
    const job* of = nullptr;
    std::int64_t length = 0;
    std::int64_t computed = 0;
    bool answered = false;
    std::vector<std::size_t> row;
  };
  struct share {
    sequence* of;
    std::int64_t count;
  };

  bool grow(sequence& q, std::int64_t length) {
    const auto want = static_cast<std::size_t>((length + block - 1) / block);
    if (want > q.row.size() + idle_.size()) return false;
    while (q.row.size() < want) {
      const std::size_t b = idle_.front();
      idle_.pop_front();
      if (const auto known = found_.find(name_[b]); known != found_.end() && known->second == b) found_.erase(known);
      name_[b] = 0;
      owners_[b] = 1;
      q.row.push_back(b);
    }
    return true;
  }
  void give_back(sequence& q) {
    for (auto b = q.row.rbegin(); b != q.row.rend(); ++b) {
      if (--owners_[*b] != 0) continue;
      // What cannot be found goes first.
      name_[*b] != 0 ? idle_.push_back(*b) : idle_.push_front(*b);
    }
    q.row.clear();
  }
  void publish(sequence& q) {
    const auto full = std::min(q.of->hashes.size(), static_cast<std::size_t>(q.computed / block));
    for (std::size_t i = 0; i != full; ++i) {
      if (name_[q.row[i]] == 0 && found_.emplace(q.of->hashes[i], q.row[i]).second) name_[q.row[i]] = q.of->hashes[i];
    }
  }
  [[nodiscard]] std::vector<std::size_t> match(const sequence& q) const {
    std::vector<std::size_t> row;
    for (const std::uint64_t h : q.of->hashes) {
      const auto known = found_.find(h);
      if (known == found_.end() || static_cast<std::int64_t>(row.size() + 1) * block >= q.length) break;
      row.push_back(known->second);
    }
    return row;
  }

  void step() {
    std::vector<share> plan;
    std::int64_t budget = s_.budget;
    bool dropped = false;
    std::set<std::uint64_t> leads;  // the next blocks of prompts in this step
    const auto add = [&](sequence& q, std::int64_t n) {
      const auto first = static_cast<std::size_t>(q.computed / block);
      if (q.length - q.computed != 1 && first < q.of->hashes.size()) leads.insert(q.of->hashes[first]);
      plan.push_back({&q, n});
      budget -= n;
    };
    for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
      sequence& q = *running_[i];
      const std::int64_t n = std::min(q.length - q.computed, budget);
      bool has_room = grow(q, q.computed + n);
      while (!has_room && running_.back() != &q) {
        drop_last();
        dropped = true;
        has_room = grow(q, q.computed + n);
      }
      if (!has_room) {
        drop_last();
        dropped = true;
        break;
      }
      add(q, n);
    }
    std::size_t held = 0;
    for (auto w = waiting_.begin(); !dropped && w != waiting_.end() && budget > 0;) {
      if (running_.size() + held >= s_.batch) break;
      sequence& q = **w;
      q.row = match(q);
      const auto hits = q.row.size();
      if (s_.holds_back && hits < q.of->hashes.size() && static_cast<std::int64_t>(hits + 1) * block < q.length &&
          leads.count(q.of->hashes[hits]) != 0) {
        q.row.clear();
        ++held;
        ++w;
        continue;
      }
      for (const std::size_t b : q.row) {
        if (owners_[b]++ == 0) idle_.erase(std::find(idle_.begin(), idle_.end(), b));
      }
      q.computed = static_cast<std::int64_t>(hits) * block;
      const std::int64_t n = std::min(q.length - q.computed, budget);
      if (!grow(q, q.computed + n)) {
        give_back(q);
        q.computed = 0;
        break;
      }
      running_.push_back(&q);
      w = waiting_.erase(w);
      add(q, n);
    }
    ++done_.steps;
    for (const share& p : plan) {
      sequence& q = *p.of;
      if (q.row.empty()) continue;  // dropped after its turn
      q.computed += p.count;
      done_.computed += p.count;
      publish(q);
      if (q.computed != q.length) continue;
      ++q.length;
      if (!q.answered) done_.waited += done_.steps - q.of->at;
      q.answered = true;
    }
    std::erase_if(running_, [&](sequence* q) {
      if (q->length - q->of->prompt < q->of->output) return false;
      give_back(*q);
      return true;
    });
  }
  void drop_last() {
    sequence* const last = running_.back();
    running_.pop_back();
    give_back(*last);
    last->computed = 0;
    waiting_.push_front(last);
    ++done_.preempted;
  }

  setting s_;
  const std::vector<job>& jobs_;
  std::deque<sequence> all_;
  std::vector<sequence*> running_;
  std::deque<sequence*> waiting_;
  std::deque<std::size_t> idle_;  ///< Without an owner, the first to be taken at the front.
  std::vector<int> owners_;
  std::vector<std::uint64_t> name_;  ///< What a block is found by; 0: it is not.
  std::map<std::uint64_t, std::size_t> found_;
  result done_;
};

struct hashed_request : request_hook {
  std::vector<std::uint64_t> hashes;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};
using scheduler_type = fcfs<hashed_request, kv::prefix_cache, kv::row_tables>;

result run_tessera(const setting& s, const std::vector<job>& jobs) {
  std::deque<hashed_request> requests(jobs.size());
  auto storage = storage_for<scheduler_type>({.blocks = static_cast<std::size_t>(s.blocks), .residents = s.batch});
  scheduler_type scheduler{storage, {.watermark = 0}};
  result done;
  std::size_t next = 0;
  while (next != jobs.size() || !scheduler.idle()) {
    for (; next != jobs.size() && jobs[next].at <= done.steps; ++next) {
      hashed_request& r = requests[next];
      r.prompt = tokens{jobs[next].prompt};
      r.max_output = tokens{jobs[next].output};
      r.hashes = jobs[next].hashes;
      REQUIRE(scheduler.submit(r, {}) == status::accepted);
    }
    const auto p = scheduler.plan({}, {.max_batch = s.batch, .token_budget = tokens{s.budget}});
    ++done.steps;
    done.computed += p.computed.count();
    std::vector<outcome> outcomes(p.size());
    for (std::size_t i = 0; i != p.size(); ++i) {
      const hashed_request& r = *p[i].request;
      if (!p[i].samples) continue;
      if (r.generated() == 0_tok) {
        done.waited +=
            done.steps - jobs[static_cast<std::size_t>(std::find_if(requests.begin(), requests.end(),
                                                                    [&](const hashed_request& q) { return &q == &r; }) -
                                                       requests.begin())]
                             .at;
      }
      outcomes[i].finished = r.generated() + 1_tok >= r.max_output;
    }
    REQUIRE(scheduler.commit(p, outcomes, {}) == status::ok);
  }
  done.preempted = static_cast<std::int64_t>(scheduler.counters().recomputed);
  return done;
}

/// 120 questions about 6 documents. `gap`: steps between two of them, on average.
std::vector<job> questions(std::uint64_t seed, double gap) {
  std::mt19937_64 random{seed};
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  std::vector<job> jobs(120);
  double at = 0;
  std::uint64_t own = 1'000'000;
  for (job& j : jobs) {
    const std::int64_t document = below(6);
    const std::int64_t shared = block * (10 + 6 * document);
    j.prompt = shared + 1 + below(300);
    j.output = 1 + below(150);
    j.at = static_cast<std::int64_t>(at);
    at += gap * static_cast<double>(1 + below(100)) / 50.0;
    own += 1000;
    for (std::int64_t i = 0; i != j.prompt / block; ++i) {
      const auto n = static_cast<std::uint64_t>(i);
      j.hashes.push_back(i < shared / block ? static_cast<std::uint64_t>(1 + document) * 1000 + n : own + n);
    }
  }
  return jobs;
}

[[nodiscard]] double apart(std::int64_t a, std::int64_t b) {
  return std::abs(static_cast<double>(a - b)) / static_cast<double>(std::max<std::int64_t>(b, 1));
}

}  // namespace

TEST_CASE("fcfs with recomputation and a prefix cache does what a textbook says", "[pipeline]") {
  for (const double gap : {0.5, 3.0}) {
    for (const std::int64_t blocks : {120, 250, 600, 2000}) {
      const setting s{.blocks = blocks};
      result plain;
      result ours;
      for (std::uint64_t seed = 1; seed != 9; ++seed) {
        const std::vector<job> jobs = questions(seed, gap);
        plain += plain_scheduler{s, jobs}.run();
        ours += run_tessera(s, jobs);
      }
      CAPTURE(gap, blocks, plain.steps, ours.steps, plain.computed, ours.computed, plain.preempted, ours.preempted,
              plain.waited, ours.waited);
      CHECK(apart(ours.steps, plain.steps) < 0.01);
      CHECK(apart(ours.waited, plain.waited) < 0.01);
      CHECK(ours.preempted <= plain.preempted);
      CHECK(static_cast<double>(ours.computed) < 1.01 * static_cast<double>(plain.computed));
      if (plain.preempted == 0) {
        CHECK(ours.steps == plain.steps);
        CHECK(ours.computed == plain.computed);
        CHECK(ours.waited == plain.waited);
      }
    }
  }
}

TEST_CASE("holding prompts back that begin alike computes no more and costs no time", "[pipeline]") {
  // Questions about one document, all at once.
  std::vector<job> jobs(32);
  std::uint64_t own = 1'000'000;
  for (job& j : jobs) {
    j.prompt = 2064;
    j.output = 50;
    own += 1000;
    for (std::uint64_t i = 0; i != 129; ++i) j.hashes.push_back(i < 128 ? 1 + i : own + i);
  }
  for (const std::int64_t budget : {512, 2048, 8192}) {
    const setting holds{.blocks = 4000, .budget = budget};
    setting starts_all = holds;
    starts_all.holds_back = false;
    const result ours = run_tessera(holds, jobs);
    const result plain = plain_scheduler{holds, jobs}.run();
    const result twice = plain_scheduler{starts_all, jobs}.run();
    CAPTURE(budget);
    CHECK(ours.computed == plain.computed);
    CHECK(ours.steps == plain.steps);
    CHECK(ours.waited == plain.waited);
    CHECK(ours.computed == 2048 + 32 * (16 + 49));
    CHECK(ours.computed <= twice.computed);
    CHECK(ours.steps <= twice.steps + 1);
  }
}
