// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Images of prompts: what a step's encoder and the cache of its outputs can take. A plain runner holds what the plans
// say.

#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/encoder_cache.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/pipeline/grouped_ledger.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/gate_engine.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook {
  mutable std::vector<gate::encoder_input> images;
  std::int64_t output = 1;
  [[nodiscard]] std::span<gate::encoder_input> encoder_inputs() const noexcept { return images; }
};
using cache = gate::basic_encoder_cache<16>;

/// An image: its content, its place, and the tokens that it takes there and in the cache.
gate::encoder_input image(std::uint64_t hash, tokens first, tokens size) {
  return {.hash = hash, .size = size, .first = first, .length = size};
}

struct fixture : tessera_test::gate_engine<request, cache> {
  explicit fixture(const cache& g, tokens least_left = {}, std::size_t blocks = 1000)
      : gate_engine{{.blocks = blocks, .block_size = 16_tok, .residents = 8}, g, least_left} {}
  ~fixture() {
    for (request& r : requests) static_cast<void>(scheduler.cancel(r));
  }
  request& make(tokens prompt, std::vector<gate::encoder_input> images, std::int64_t output = 1) {
    request& r = requests.emplace_back();
    r.prompt = prompt;
    r.output = output;
    r.images = std::move(images);
    return r;
  }
  request& submit(tokens prompt, std::vector<gate::encoder_input> images, std::int64_t output = 1) {
    request& r = make(prompt, std::move(images), output);
    REQUIRE(scheduler.submit(r, time_point{}) == status::accepted);
    return r;
  }
  /// Tokens of a request in the plan.
  [[nodiscard]] tokens share(const request& r) const {
    for (std::size_t i = 0; i != p.size(); ++i) {
      if (p[i].request == &r) return p[i].count;
    }
    return tokens{};
  }
  [[nodiscard]] bool encodes(const request& r, std::size_t i) const { return scheduler.gate().encodes(r.images[i]); }
};

}  // namespace

TEST_CASE("encoder_cache: a step encodes so much, and equal images once") {
  fixture f{{.per_step = 100_tok, .capacity = 1000_tok}};
  request& a = f.submit(200_tok, {image(1, 10_tok, 60_tok), image(1, 80_tok, 60_tok)});
  request& b = f.submit(200_tok, {image(2, 50_tok, 60_tok)});
  request& c = f.submit(200_tok, {image(3, 0_tok, 50_tok)});
  request& d = f.submit(50_tok, {});
  // The second comes to its image when the first has used the encoder; the third begins with one, and waits.
  CHECK(f.plan() == std::vector{&a, &b, &d});
  CHECK(f.share(a) == 200_tok);
  CHECK(f.share(b) == 50_tok);
  CHECK(f.encodes(a, 0));
  CHECK_FALSE(f.encodes(a, 1));
  CHECK(f.scheduler.gate().encoding == 60_tok);
  CHECK(f.scheduler.why(c) == wait_reason::gated);
  CHECK_FALSE(f.scheduler.gate().holds(1));  // it is to be encoded before the step
  REQUIRE(f.scheduler.abandon(f.p) == status::ok);
  CHECK(f.step() == std::vector{&a, &b, &d});
  CHECK(f.scheduler.gate().holds(1));
  request& again = f.submit(200_tok, {image(1, 10_tok, 60_tok)});
  CHECK(f.plan().empty());  // the third still lacks encoder time, and another with an image does not pass it
  CHECK(f.encodes(b, 0));
  f.commit();
  CHECK(f.step() == std::vector{&c, &again});  // what is cached is not encoded
}

TEST_CASE("encoder_cache: an image is in use until the prompt has passed it") {
  fixture f{{.per_step = 1000_tok, .capacity = 100_tok}};
  CHECK(f.scheduler.submit(f.make(500_tok, {image(1, 0_tok, 101_tok)}), time_point{}) == status::refused);
  // More than the cache, one after the other.
  request& a = f.submit(300_tok, {image(1, 0_tok, 60_tok), image(2, 100_tok, 60_tok), image(3, 200_tok, 40_tok)}, 5);
  CHECK(f.plan() == std::vector{&a});
  CHECK(f.share(a) == 100_tok);
  f.commit();
  CHECK(f.scheduler.gate().used.count == 0);
  f.plan();
  CHECK(f.share(a) == 200_tok);  // the last two fit together
  CHECK(std::vector(f.scheduler.gate().dropped().begin(), f.scheduler.gate().dropped().end()) ==
        std::vector<std::uint64_t>{1});
  f.commit();
  CHECK(f.scheduler.gate().used.count == 0);  // while it decodes, it holds nothing
  CHECK(f.scheduler.gate().holds(2));
  CHECK_FALSE(f.scheduler.gate().holds(1));
}

TEST_CASE("encoder_cache: a small image does not take the room for which a large one waits") {
  fixture f{{.per_step = 1000_tok, .capacity = 100_tok}};
  request& a = f.submit(1000_tok, {image(1, 0_tok, 60_tok)});
  f.step({.token_budget = 30_tok});  // half of the image
  request& b = f.submit(200_tok, {image(2, 10_tok, 90_tok)});
  request& c = f.submit(200_tok, {image(3, 10_tok, 20_tok)});
  request& d = f.submit(20_tok, {});
  CHECK(f.plan({.token_budget = 60_tok, .max_chunk = 20_tok}) == std::vector{&b, &d});
  CHECK(f.share(b) == 10_tok);  // what stands before its image
  f.commit();
  CHECK(f.plan({.max_chunk = 100_tok}).empty());
  CHECK(f.share(a) == 100_tok);
  CHECK(f.share(b) == 0_tok);
  CHECK(f.scheduler.why(c) == wait_reason::gated);
  f.commit();
  f.plan({.max_chunk = 100_tok});
  CHECK(f.share(b) == 100_tok);
}

TEST_CASE("encoder_cache: some models need all of an image at once") {
  fixture g{{.per_step = 1000_tok, .capacity = 1000_tok, .whole_inputs = true}};
  request& b = g.submit(200_tok, {image(1, 50_tok, 60_tok)});
  g.plan({.token_budget = 80_tok});
  CHECK(g.share(b) == 50_tok);
  g.commit();
  g.plan({.token_budget = 59_tok});
  CHECK(g.share(b) == 59_tok);  // it could not leave more of it to the next
  g.commit();
}

TEST_CASE("encoder_cache: an image is not cut to leave the prompt's last tokens to another step") {
  const cache whole{.per_step = 2000_tok, .capacity = 2000_tok, .whole_inputs = true};
  fixture f{whole, 4_tok, 2000};
  request& a = f.submit(42_tok, {image(1, 20_tok, 20_tok)});
  f.plan({.token_budget = 40_tok});
  CHECK(f.share(a) == 20_tok);  // with the image, 2 tokens would be left
  CHECK_FALSE(f.encodes(a, 0));
  f.commit();
  f.plan({.token_budget = 40_tok});
  CHECK(f.share(a) == 22_tok);
  f.commit();

  // A long prompt, which gets what others have left of a step.
  request& b = f.submit(20'012_tok, {image(2, 19'000_tok, 1010_tok)});
  f.submit(8_tok, {});
  f.plan({.token_budget = 20'018_tok});
  CHECK(f.share(b) == 19'000_tok);
  f.commit();

  for (std::uint64_t seed = 0; seed != 60; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
    fixture few{whole, 4_tok, 8};
    for (std::uint64_t i = 0; i != 12; ++i) {
      const tokens first{below(30)};
      const tokens size{1 + below(30)};
      few.submit(first + size + tokens{1 + below(8)}, {image(100 * seed + i, first, size)}, 1 + below(30));
    }
    for (int step = 0; !few.scheduler.idle(); ++step) {
      REQUIRE(step < 1000);
      few.plan({.token_budget = tokens{30 + below(40)}});
      for (std::size_t i = 0; i != few.p.size(); ++i) {
        const auto& e = few.p[i];
        const tokens end = e.first + e.count;
        const gate::encoder_input& one = e.request->images[0];
        REQUIRE((e.samples || e.request->state().length - end >= 4_tok));
        REQUIRE_FALSE((e.first < one.first && one.first < end && end < one.first + one.length));
      }
      few.commit();
    }
  }
}

TEST_CASE("encoder_cache: a step that begins with an image ends within it where a state is kept") {
  struct named : request {
    [[nodiscard]] std::array<std::span<const std::uint64_t>, 1> prefix_hashes() const noexcept { return {}; }
  };
  using scheduler_type =
      iteration_scheduler<named, order::fcfs, preempt::swap, admit::always, kv::groups<1>, kv::csr_tables, cache>;
  auto storage = storage_for<scheduler_type>(
      {{.blocks = 100, .residents = 2, .max_length = 200_tok}, {kv::group::recurrent(16_tok, true)}});
  scheduler_type s{storage, {.gate = {.per_step = 1000_tok, .capacity = 1000_tok, .whole_inputs = true}}};
  const auto ends = [&](tokens prompt, const gate::encoder_input& of, tokens budget) {
    named r;
    r.prompt = prompt;
    r.images = {of};
    REQUIRE(s.submit(r, time_point{}) == status::accepted);
    std::vector<std::int64_t> all;
    while (is_live(r.state().life)) {
      const auto p = s.plan(time_point{}, {.token_budget = budget});
      REQUIRE(p.size() == 1);
      all.push_back((p[0].first + p[0].count).count());
      const outcome o{.finished = p[0].samples};
      REQUIRE(s.commit(p, std::span{&o, 1}, time_point{}) == status::ok);
    }
    return all;
  };
  // 48 is within the image. A step that begins with it gets beyond.
  CHECK(ends(100_tok, image(1, 40_tok, 20_tok), 50_tok) == std::vector<std::int64_t>{40, 80, 96, 100});
  // None can: the state after 48 tokens is the last that others find.
  CHECK(ends(62_tok, image(2, 10_tok, 49_tok), 100_tok) == std::vector<std::int64_t>{10, 48, 62});
}

TEST_CASE("encoder_cache: inputs of one place are needed together") {
  fixture f{{.per_step = 50_tok, .capacity = 100_tok}};
  const auto place = [](std::uint64_t hash, tokens size) -> gate::encoder_input {
    return {.hash = hash, .size = size, .first = 10_tok, .length = 80_tok};
  };
  request& a = f.submit(200_tok, {place(1, 40_tok), place(2, 30_tok)});
  request& b = f.submit(200_tok, {place(3, 40_tok), place(4, 30_tok)});
  f.plan({.max_chunk = 30_tok});
  CHECK(f.share(a) == 30_tok);  // more than the budget, for nothing else is encoded
  CHECK(f.share(b) == 10_tok);
  f.commit();
  for (int i = 0; i != 20; ++i) f.step({.max_chunk = 30_tok});
  CHECK_FALSE(is_live(a.state().life));
  CHECK_FALSE(is_live(b.state().life));
}

TEST_CASE("encoder_cache: one is encoded again if all were dropped in the middle of it") {
  fixture f{{.per_step = 1000_tok, .capacity = 100_tok}};
  request& a = f.submit(200_tok, {image(1, 0_tok, 60_tok)});
  f.step({.token_budget = 30_tok});
  f.plan({.token_budget = 10_tok});
  f.scheduler.gate().forget();
  f.commit();
  CHECK_FALSE(f.scheduler.gate().holds(1));
  f.plan({.token_budget = 10_tok});
  CHECK(f.encodes(a, 0));
  f.commit();
  CHECK(f.scheduler.gate().holds(1));
  f.plan();
  CHECK_FALSE(f.encodes(a, 0));
  f.commit();
  CHECK(f.scheduler.gate().used.count == 0);
}

TEST_CASE("encoder_cache: none waits for ever, and every cut has its reason") {
  struct entry {
    std::uint64_t hash;
    std::int64_t size;
  };
  std::size_t cuts = 0;
  std::size_t encoded_in_all = 0;
  std::size_t hits = 0;
  for (std::uint64_t seed = 0; seed != 60; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random{seed};
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
    const auto size_of = [](std::uint64_t hash) { return static_cast<std::int64_t>(5 + hash * 7 % 30); };
    const cache g{
        .per_step = tokens{20 + below(60)}, .capacity = tokens{40 + below(60)}, .whole_inputs = below(3) == 0};
    fixture f{g};
    std::list<entry> kept;  // the longest unused first, as far as the plain cache knows
    std::size_t live = 0;
    for (int step = 0; step < 60 || live != 0; ++step) {
      REQUIRE(step < 3000);
      for (std::int64_t n = step < 60 ? below(3) : 0; n != 0; --n) {
        std::vector<gate::encoder_input> images;
        std::int64_t at = below(10);
        for (std::int64_t k = below(4); k != 0; --k) {
          const std::uint64_t hash = 1 + static_cast<std::uint64_t>(below(12));
          const std::int64_t length = size_of(hash) + below(4);
          images.push_back({hash, tokens{size_of(hash)}, tokens{at}, tokens{length}});
          at += length + below(2) * below(30);
        }
        f.submit(tokens{at + 1 - (at == 0 ? 0 : below(2))}, std::move(images), 1 + below(5));
      }
      const step_limits l{.token_budget = tokens{30 + below(100)}, .max_chunk = tokens{below(2) * (1 + below(80))}};
      if (below(3) == 0) {
        f.plan(l);
        REQUIRE(f.scheduler.abandon(f.p) == status::ok);
      }
      const auto before = f.scheduler.gate();
      f.plan(l);
      // A runner that holds what the plan says.
      for (const std::uint64_t hash : f.scheduler.gate().dropped()) {
        REQUIRE(std::erase_if(kept, [&](const entry& e) { return e.hash == hash; }) == 1);
      }
      std::int64_t work = 0;
      std::size_t count = 0;
      for (std::size_t i = 0; i != f.p.size(); ++i) {
        for (const auto& one : f.p[i].request->images) {
          if (!f.scheduler.gate().encodes(one)) continue;
          for (const entry& e : kept) REQUIRE(e.hash != one.hash);
          kept.push_back({one.hash, one.size.count()});
          work += one.size.count();
          ++count;
        }
      }
      encoded_in_all += count;
      REQUIRE((count < 2 || work <= g.per_step.count()));
      std::int64_t all = 0;
      for (const entry& e : kept) all += e.size;
      REQUIRE(all <= g.capacity.count());
      std::int64_t left = l.token_budget.count();
      // What is left is more than prompts leave to the 8 residents.
      for (std::size_t i = 0; i != f.p.size(); ++i) left -= f.p[i].count.count();
      // What is in use after the plan: it is read by the plan, or a prompt stands in the middle of it.
      std::map<std::uint64_t, std::int64_t> used;
      for (const request& r : f.requests) {
        if (r.state().row == no_index && f.share(r) == 0_tok) continue;
        for (const auto& one : r.images) {
          if (before.holds(one.hash) && one.used_since == before.epoch) used[one.hash] = one.size.count();
        }
      }
      for (std::size_t i = 0; i != f.p.size(); ++i) {
        const auto& e = f.p[i];
        const tokens end = e.first + e.count;
        bool is_cut = end < e.request->prompt && left > 8 && l.max_chunk == tokens{};
        for (const auto& one : e.request->images) {
          if (e.first >= e.request->prompt || one.first >= end || one.first + one.length <= e.first) continue;
          REQUIRE(std::any_of(kept.begin(), kept.end(), [&](const entry& k) { return k.hash == one.hash; }));
          hits += !f.scheduler.gate().encodes(one);
          used[one.hash] = one.size.count();
        }
        cuts += is_cut;
      }
      std::int64_t in_use = 0;
      for (const auto& [hash, size] : used) in_use += size;
      REQUIRE(in_use <= g.capacity.count());
      for (std::size_t i = 0; i != f.p.size(); ++i) {
        const auto& e = f.p[i];
        const tokens end = e.first + e.count;
        if (end >= e.request->prompt || left <= 8 || l.max_chunk != tokens{}) continue;
        // It ends before an image, and this one could be neither encoded nor kept now, or it waits for one that could
        // not.
        const auto next = std::find_if(e.request->images.begin(), e.request->images.end(),
                                       [&](const auto& one) { return one.first >= end; });
        REQUIRE(next != e.request->images.end());
        REQUIRE(next->first == end);
        const bool is_there =
            std::any_of(kept.begin(), kept.end(), [&](const entry& k) { return k.hash == next->hash; });
        const bool lacks_time = !is_there && work + next->size.count() > g.per_step.count();
        const bool lacks_room = in_use + next->size.count() > g.capacity.count();
        const bool is_too_long = g.whole_inputs && end.count() + left < (next->first + next->length).count() + 8;
        REQUIRE((lacks_time || lacks_room || is_too_long || f.scheduler.gate().lacks));
      }
      f.commit();
      live = static_cast<std::size_t>(std::count_if(f.requests.begin(), f.requests.end(),
                                                    [](const request& r) { return is_live(r.state().life); }));
      for (const entry& e : kept) REQUIRE(f.scheduler.gate().holds(e.hash));
      REQUIRE(f.scheduler.gate().held == kept.size());
    }
    CHECK(f.scheduler.gate().used.count == 0);
    CHECK(f.scheduler.gate().used.size == 0_tok);
  }
  CHECK(cuts > 300);
  CHECK(encoded_in_all > 1000);
  CHECK(hits > 500);
}

TEST_CASE("encoder_cache: one that waits for room is not passed by requests of other classes for ever") {
  struct with_adapter : request {
    std::uint32_t adapter = 0;
  };
  using gates = gate::all<gate::adapter_slots, cache>;
  using scheduler_type = iteration_scheduler<with_adapter, order::fcfs, preempt::swap, admit::always, kv::block_pool,
                                             kv::csr_tables, gates>;
  auto storage = storage_for<scheduler_type>({.blocks = 1000, .block_size = 16_tok, .residents = 8});
  scheduler_type s{storage, {.gate = {.gates = {{}, {.per_step = 1000_tok, .capacity = 100_tok}}}}};
  std::deque<with_adapter> requests;
  const auto submit = [&](std::uint64_t hash, tokens size, std::uint32_t adapter) -> with_adapter& {
    with_adapter& r = requests.emplace_back();
    r.prompt = 120_tok;
    r.adapter = adapter;
    r.images = {image(hash, 0_tok, size)};
    REQUIRE(s.submit(r, time_point{}) == status::accepted);
    return r;
  };
  const auto step = [&] {
    const auto p = s.plan(time_point{}, {.max_chunk = 20_tok});
    std::vector<outcome> outcomes(p.size());
    for (std::size_t i = 0; i != p.size(); ++i) outcomes[i].finished = p[i].samples;
    REQUIRE(s.commit(p, outcomes, time_point{}) == status::ok);
  };
  submit(1, 60_tok, 2);
  step();
  const with_adapter& large = submit(2, 90_tok, 1);
  int steps = 0;
  for (; steps != 100 && large.state().life == lifecycle::waiting; ++steps) {
    submit(static_cast<std::uint64_t>(10 + steps), 30_tok, 2);
    step();
  }
  CHECK(steps < 10);
  for (with_adapter& r : requests) static_cast<void>(s.cancel(r));
}

TEST_CASE("encoder_cache: works without the heap, and in a gate of several") {
  using gates = gate::all<gate::in_line, cache>;
  static_assert(gate_policy<gates, request> && gates::limits && gates::screens);
  using scheduler_type =
      iteration_scheduler<request, order::fcfs, preempt::swap, admit::always, kv::block_pool, kv::csr_tables, gates>;
  auto storage = storage_for<scheduler_type>({.blocks = 100, .residents = 4});
  scheduler_type s{storage, {.gate = {.gates = {{}, {.per_step = 50_tok, .capacity = 60_tok}}}}};
  request r;
  r.prompt = 200_tok;
  r.images = {image(1, 10_tok, 50_tok), image(2, 100_tok, 50_tok)};
  const tessera_test::no_allocation guard;
  REQUIRE(s.submit(r, time_point{}) == status::accepted);
  std::size_t steps = 0;
  while (is_live(r.state().life)) {
    const auto p = s.plan(time_point{}, {});
    REQUIRE(p.size() == 1);
    const outcome o{.finished = p[0].samples};
    REQUIRE(s.commit(p, std::span{&o, 1}, time_point{}) == status::ok);
    ++steps;
  }
  CHECK(steps == 2);
  CHECK(guard.allocations() == 0);
}
