// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// An engine asks a store about each request that starts, abandons the plan and plans again with what the store has. Now
// and then that KV does not come. The KV of a token is what all tokens up to it come to. It is written where the tables
// say, and copied to the host and back. So no request reads KV that never came, or shares it, and each ends with its
// own output.

#include <tessera/compose/fcfs.hpp>
#include <tessera/kv/host_cache.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/kv/row_tables.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/preempt/recompute.hpp>
#include <tessera/preempt/swap.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

constexpr std::int64_t block = 4;
constexpr std::uint64_t garbage = 0xdead;

struct text_request : request_hook_for<order::ranked<>> {
  float score = 0;
  std::vector<std::uint64_t> kv;  ///< What the KV of each of its tokens is, the output's included.
  std::vector<std::uint64_t> hashes;
  std::int64_t generated_here = 0;
  bool spoilt = false;  ///< KV for it did not come, and the scheduler has not been told.
  bool trusts = true;   ///< It asks the store. Not after KV did not come: it would ask for ever.
  int ended = 0;
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }
};

[[nodiscard]] std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = (a ^ (b + 0x9e37'79b9'7f4a'7c15ULL)) * 0xbf58'476d'1ce4'e5b9ULL;
  x ^= x >> 29U;
  return x * 0x94d0'49bb'1331'11ebULL + 1;
}

struct counts {
  std::size_t fetched = 0;
  std::size_t again = 0;
  std::size_t spoilt = 0;
  std::size_t shared = 0;
  std::size_t preempted = 0;
  std::size_t swapped = 0;
  std::size_t on_host = 0;  ///< Outcomes `spoilt` of requests that were swapped out since,
  std::size_t back = 0;     ///< and of those that had come back.
};

template <class Order, class Store, class Preempt = preempt::recompute>
class asking_engine {
  using scheduler_type = iteration_scheduler<text_request, Order, Preempt, admit::watermark, Store, kv::row_tables>;
  using plan_type = typename scheduler_type::plan_type;

 public:
  asking_engine(std::uint64_t seed, std::size_t in_flight, counts& c)
      : random_{seed * 8 + in_flight},
        limits_{.blocks = 12 + below(40),
                .block_size = tokens{block},
                .residents = 1 + below(8),
                .host_blocks = std::same_as<Preempt, preempt::swap> ? below(40) : 0,
                .plans_in_flight = in_flight},
        storage_{storage_for<scheduler_type>(limits_)},
        scheduler_{storage_, {.admit = {.fraction = 0}}},
        device_(limits_.blocks * block, 0),
        host_(limits_.host_blocks * block, 0),
        tells_all_{below(2) == 0},
        patience_{2 + below(8)},
        unchunked_{below(6)},
        all_(30),
        counts_{c} {}

  void run() {
    for (std::size_t steps = 0; come_ != all_.size() || !scheduler_.idle(); ++steps) {
      REQUIRE(steps != 20'000);
      if (come_ != all_.size() && below(2) == 0) submit(all_[come_++]);
      if (come_ != 0 && below(60) == 0) static_cast<void>(scheduler_.cancel(all_[below(come_)]));
      if (come_ != 0 && below(60) == 0) static_cast<void>(scheduler_.preempt(all_[below(come_)]));
      if (come_ != 0 && below(20) == 0) static_cast<void>(scheduler_.suspend(all_[below(come_)]));
      for (text_request& r : all_) {
        if (r.state().life == lifecycle::suspended && below(3) == 0) static_cast<void>(scheduler_.resume(r));
      }
      if (plans_.size() == limits_.plans_in_flight || (!plans_.empty() && below(patience_) == 0)) commit();
      plan();
      if (limits_.plans_in_flight == 1) commit();
    }
    CHECK(scheduler_.device_blocks_held() == blocks{});
    for (const text_request& r : all_) {
      if (r.state().life == lifecycle::cancelled) continue;
      CHECK(r.ended == 1);
      CHECK(r.generated_here == r.max_output.count());
    }
  }

 private:
  struct flight {
    plan_type plan;
    std::vector<bool> spoilt;
  };
  [[nodiscard]] std::uint64_t below(std::uint64_t n) { return random_() % n; }

  void submit(text_request& r) {
    const std::int64_t longest = static_cast<std::int64_t>(limits_.blocks) * block;
    const auto length = 1 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(std::min(longest, 60L))));
    r.prompt = tokens{length};
    r.max_output =
        tokens{1 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(longest - length + 1) % 20 + 1))};
    r.max_output = std::min(r.max_output, tokens{longest - length + 1});
    r.score = static_cast<float>(below(10));
    r.priority = static_cast<int>(below(3));
    std::uint64_t chain = 1;
    const std::uint64_t way = below(3);  // prompts have beginnings in common
    for (std::int64_t i = 0; i != length + r.max_output.count(); ++i) {
      chain = mix(chain, i < 24 ? way : 100 + static_cast<std::uint64_t>(&r - all_.data()));
      r.kv.push_back(chain);
      if (i < length && (i + 1) % block == 0) r.hashes.push_back(chain);
    }
    REQUIRE(scheduler_.submit(r, now_) == status::accepted);
  }

  [[nodiscard]] std::uint64_t* content(std::vector<std::uint64_t>& memory, kv::block_id id) {
    return &memory.at(id * static_cast<std::size_t>(block));
  }
  std::uint64_t& slot(std::span<const kv::block_id> row, std::int64_t position) {
    return device_.at(row[static_cast<std::size_t>(position / block)] * static_cast<std::size_t>(block) +
                      static_cast<std::size_t>(position % block));
  }

  /// Plans, asks, and plans again until nothing new is said.
  void plan() {
    const step_limits l{.max_batch = 1 + below(8),
                        .token_budget = tokens{1 + static_cast<std::int64_t>(below(40))},
                        .max_chunk = tokens{static_cast<std::int64_t>(below(6) >= unchunked_ ? 1 + below(9) : 0)}};
    std::map<text_request*, tokens> said;   // what it begins with, by the store's answer,
    std::map<text_request*, tokens> asked;  // and with what it was asked
    plan_type p = scheduler_.plan(now_, l);
    for (bool news = true; news;) {
      news = false;
      std::map<text_request*, tokens> starts;
      for (std::size_t i = 0; i != p.size(); ++i) {
        const bool swapped = p[i].request->state().host_head != no_index;  // the store is not asked about it
        if (p[i].origin != entry_origin::going_on && !swapped) starts[p[i].request] = p[i].first;
      }
      for (const auto& [r, first] : starts) {
        const auto before = said.find(r);
        const tokens hits = tokens{static_cast<std::int64_t>(hits_of(p, *r)) * block};
        if (before != said.end() && asked[r] == hits) {
          // As `loading`: what has become known meanwhile counts as well.
          CHECK(first == std::max(before->second, hits));
          continue;
        }
        const auto room = static_cast<std::uint64_t>((r->state().length - hits).count());
        const tokens n = r->trusts && below(2) == 0 ? tokens{static_cast<std::int64_t>(below(room))} : tokens{};
        asked[r] = hits;
        said[r] = n == tokens{} ? tokens{} : hits + n;
        news = true;
      }
      if (!news) break;
      REQUIRE(scheduler_.abandon(p) == status::ok);
      for (const auto& [r, n] : said) REQUIRE(scheduler_.fetching(*r, n) == status::ok);
      p = scheduler_.plan(now_, l);
      ++counts_.again;
    }
    for (const auto& [r, n] : said) {
      const status s = scheduler_.fetching(*r, {});
      bool starts = false;
      for (std::size_t i = 0; i != p.size(); ++i) starts = starts || p[i].request == r;
      CHECK(s == (starts ? status::busy : status::ok));
    }
    counts_.preempted += p.preempted.size();
    run(p);
  }
  /// Blocks that a starting request shares, by the plan's own list of what is fetched for it.
  [[nodiscard]] std::size_t hits_of(const plan_type& p, const text_request& r) const {
    for (const auto& f : p.fetch) {
      if (f.request == &r) return f.first;
    }
    for (std::size_t i = 0; i != p.size(); ++i) {
      if (p[i].request == &r) return static_cast<std::size_t>(p[i].first.count() / block);
    }
    return 0;
  }

  /// What the device does.
  void run(const plan_type& p) {
    flight f{p, {}};
    for (const auto& t : p.swap_out) {
      for (std::size_t i = 0; i != t.host.size(); ++i) {
        std::copy_n(content(device_, t.device[i]), block, content(host_, t.host[i]));
      }
      ++counts_.swapped;
    }
    for (const auto& d : p.demoted) std::copy_n(content(device_, d.device), block, content(host_, d.host));
    for (const auto& t : p.swap_in) {
      for (std::size_t i = 0; i != t.host.size(); ++i) {
        std::copy_n(content(host_, t.host[i]), block, content(device_, t.device[i]));
      }
    }
    for (const auto& t : p.fetch) fetch(p, t);
    for (std::size_t i = 0; i != p.size(); ++i) {
      const auto& e = p[i];
      text_request& r = *e.request;
      const auto row = scheduler_.tables().row(e.row);
      const bool is_right = first_wrong(r, row, 0, e.first.count()) == e.first.count();
      if (!is_right) REQUIRE(r.spoilt);  // else a plan reads what the scheduler was told of
      for (tokens t = e.first; t != e.first + e.count; t += 1_tok) {
        slot(row, t.count()) = is_right ? r.kv[static_cast<std::size_t>(t.count())] : garbage;
      }
      // Some engines tell it of all plans with the request, others only of those that read wrong KV.
      f.spoilt.push_back(tells_all_ ? r.spoilt : !is_right);
      counts_.shared += e.origin != entry_origin::going_on && hits_of(p, r) != 0;
    }
    plans_.push_back(std::move(f));
  }
  void fetch(const plan_type& p, const kv_fetch<text_request>& t) {
    const bool comes = below(4) != 0;
    const std::int64_t begin = static_cast<std::int64_t>(t.first) * block;
    tokens end{};
    for (std::size_t i = 0; i != p.size(); ++i) {
      if (p[i].request == t.request) end = p[i].first;
    }
    REQUIRE(end > tokens{begin});
    CHECK(t.device.size() == static_cast<std::size_t>((end.count() - begin + block - 1) / block));
    for (std::int64_t i = begin; i != end.count(); ++i) {
      const bool lost = !comes && i >= begin + (end.count() - begin) / 2;
      slot(t.device, i - begin) = lost ? garbage : t.request->kv[static_cast<std::size_t>(i)];
    }
    if (!comes) {
      t.request->spoilt = true;
      t.request->trusts = false;
    }
    ++counts_.fetched;
  }
  /// The first of the tokens [from, to) with KV in these blocks that is not its own; `to` if there is none. The blocks
  /// begin with that of `from`.
  [[nodiscard]] std::int64_t first_wrong(const text_request& r, std::span<const kv::block_id> row, std::int64_t from,
                                         std::int64_t to) {
    for (std::int64_t t = from; t < to; ++t) {
      if (slot(row, t - from) != r.kv[static_cast<std::size_t>(t)]) return t;
    }
    return to;
  }

  void commit() {
    const flight f = plans_.front();
    plans_.pop_front();
    std::vector<outcome> outcomes(f.plan.size());
    std::vector<text_request*> lost;
    for (std::size_t i = 0; i != f.plan.size(); ++i) {
      text_request& r = *f.plan[i].request;
      outcomes[i].spoilt = f.spoilt[i];
      if (f.spoilt[i]) {
        lost.push_back(&r);
        ++counts_.spoilt;
        counts_.on_host += r.state().host_head != no_index;
        counts_.back += r.state().row != no_index && r.state().row != f.plan[i].row && is_wrong(r);
        continue;
      }
      if (!f.plan[i].samples || r.ended != 0) continue;
      ++r.generated_here;
      outcomes[i].finished = r.generated_here == r.max_output.count();
      r.ended += outcomes[i].finished;
    }
    REQUIRE(scheduler_.commit(f.plan, outcomes, now_ += 1_ms) == status::ok);
    for (text_request* r : lost) r->spoilt = false;
    for (const text_request& r : all_) {
      if (!r.spoilt && is_live(r.state().life) && r.state().ends_as == lifecycle::idle) REQUIRE(!is_wrong(r));
    }
  }
  /// Whether some of the KV that the scheduler takes for the request's is not, on the device or the host.
  [[nodiscard]] bool is_wrong(const text_request& r) {
    const std::int64_t computed = r.state().computed.count();
    if (r.state().row != no_index) {
      return first_wrong(r, scheduler_.tables().row(r.state().row), 0, computed) != computed;
    }
    const std::int64_t written = (computed + block - 1) / block;
    std::int64_t i = written - static_cast<std::int64_t>(scheduler_.host().size(r.state().host_head));
    if (r.state().host_head == no_index) return false;
    bool wrong = false;
    scheduler_.host().for_each(r.state().host_head, [&](kv::block_id id) {
      for (std::int64_t t = i * block; t < std::min((i + 1) * block, computed); ++t) {
        wrong = wrong || content(host_, id)[t % block] != r.kv[static_cast<std::size_t>(t)];
      }
      ++i;
    });
    return wrong;
  }

  std::mt19937_64 random_;
  scheduler_limits limits_;
  owned_storage<scheduler_limits> storage_;
  scheduler_type scheduler_;
  std::vector<std::uint64_t> device_;
  std::vector<std::uint64_t> host_;
  bool tells_all_;
  std::uint64_t patience_;   ///< It commits one time in so many, while more plans may be in flight.
  std::uint64_t unchunked_;  ///< The number of plans without `max_chunk`, out of six.
  std::vector<text_request> all_;
  std::deque<flight> plans_;
  std::size_t come_ = 0;
  typename scheduler_type::time_point now_{};
  counts& counts_;
};

}  // namespace

TEST_CASE("KV that is fetched within a step, or does not come, changes no output", "[pipeline]") {
  for (std::size_t in_flight = 1; in_flight != 5; ++in_flight) {
    counts c;
    for (std::uint64_t seed = 0; seed != 400; ++seed) {
      CAPTURE(seed, in_flight);
      asking_engine<order::fcfs, kv::prefix_cache>{seed, in_flight, c}.run();
      asking_engine<order::ranked<>, kv::prefix_cache>{seed, in_flight, c}.run();
      asking_engine<order::ranked<>, kv::block_pool>{seed, in_flight, c}.run();
      asking_engine<order::ranked<>, kv::block_pool, preempt::swap>{seed, in_flight, c}.run();
      asking_engine<order::ranked<>, kv::prefix_cache, preempt::swap>{seed, in_flight, c}.run();
      asking_engine<order::fcfs, kv::two_level_cache<>, preempt::swap>{seed, in_flight, c}.run();
    }
    CAPTURE(c.on_host, c.back);
    // Else it proves less than it says.
    CHECK(c.fetched > 500);
    CHECK(c.again > 500);
    CHECK(c.spoilt > 100);
    CHECK(c.shared > 100);
    CHECK(c.preempted > 100);
    CHECK(c.swapped > 100);
    CHECK((in_flight < 2 || c.on_host > 0));
    CHECK((in_flight < 3 || c.back > 0));
  }
}
