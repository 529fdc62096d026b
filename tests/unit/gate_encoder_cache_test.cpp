// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Images of prompts: what a step's encoder and the cache of its outputs can take, next to a plain cache that does the
// same.

#include <tessera/gate/encoder_cache.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"
#include "support/gate_engine.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <random>
#include <set>
#include <span>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::literals;

struct request : request_hook {
  std::vector<gate::encoder_input> images;
  std::int64_t output = 1;
  [[nodiscard]] std::span<const gate::encoder_input> encoder_inputs() const noexcept { return images; }
};
using cache = gate::basic_encoder_cache<16>;

struct fixture : tessera_test::gate_engine<request, cache> {
  explicit fixture(const cache& g) : gate_engine{{.blocks = 1000, .block_size = 16_tok, .residents = 8}, g} {}
  ~fixture() {
    for (request& r : requests) static_cast<void>(scheduler.cancel(r));
  }
  request& make(std::vector<gate::encoder_input> images, std::int64_t output = 1) {
    request& r = requests.emplace_back();
    r.prompt = 4_tok;
    r.output = output;
    r.images = std::move(images);
    return r;
  }
  request& submit(std::vector<gate::encoder_input> images, std::int64_t output = 1) {
    request& r = make(std::move(images), output);
    REQUIRE(scheduler.submit(r, time_point{}) == status::accepted);
    return r;
  }
};

}  // namespace

TEST_CASE("encoder_cache: a step encodes so much, and equal images once") {
  fixture f{{.per_step = 100_tok, .capacity = 1000_tok}};
  request& a = f.submit({{1, 60_tok}, {1, 60_tok}});
  request& b = f.submit({{2, 60_tok}});
  request& c = f.submit({{1, 60_tok}});
  request& d = f.submit({});
  request& e = f.submit({{3, 40_tok}});
  // Those behind the second that are of its class, with 32 to 63 tokens, wait with it.
  CHECK(f.plan() == std::vector{&a, &d});
  CHECK(f.scheduler.why(b) == wait_reason::gated);
  CHECK(f.scheduler.gate().encoding == 60_tok);
  CHECK_FALSE(f.scheduler.gate().holds(1));  // it is to be encoded before the step
  REQUIRE(f.scheduler.abandon(f.p) == status::ok);
  CHECK(f.step() == std::vector{&a, &d});
  CHECK(f.scheduler.gate().holds(1));
  request& again = f.submit({{1, 60_tok}, {3, 40_tok}});
  CHECK(f.step() == std::vector{&b, &c, &e, &again});  // what is cached is not encoded
}

TEST_CASE("encoder_cache: none waits for ever behind a stream of small ones") {
  for (const std::size_t most : {std::size_t{0}, std::size_t{5}, ~std::size_t{0}}) {
    fixture f{{.per_step = 100_tok, .capacity = 100_tok, .most_overtaken = most}};
    std::uint64_t hash = 0;
    f.submit({{++hash, 30_tok}}, 3);
    f.step();
    const request& large = f.submit({{++hash, 90_tok}});
    std::size_t before = 0;
    for (int i = 0; i != 100 && large.state().life == lifecycle::waiting; ++i) {
      f.submit({{++hash, 30_tok}}, 3);
      f.submit({});  // holds nothing up
      for (const request* r : f.step()) before += r != &large && !r->images.empty();
    }
    CHECK((large.state().life == lifecycle::waiting) == (most == ~std::size_t{0}));
    if (most == ~std::size_t{0}) {
      CHECK(before > 50);
    } else {
      CHECK(before == most);
    }
  }
}

TEST_CASE("encoder_cache: a running request keeps its outputs, others make room") {
  fixture f{{.per_step = 1000_tok, .capacity = 100_tok}};
  CHECK(f.scheduler.submit(f.make({{1, 60_tok}, {2, 60_tok}}), time_point{}) == status::refused);
  request& a = f.submit({{1, 60_tok}}, 3);
  request& b = f.submit({{2, 60_tok}});
  request& c = f.submit({{3, 30_tok}});
  CHECK(f.step() == std::vector{&a, &c});
  CHECK(f.step().empty());
  CHECK(f.scheduler.why(b) == wait_reason::gated);
  f.step();  // the first ends
  CHECK(f.scheduler.gate().holds(1));
  CHECK(f.step() == std::vector{&b});
  CHECK_FALSE(f.scheduler.gate().holds(3));  // the longest unused goes first,
  CHECK_FALSE(f.scheduler.gate().holds(1));  // and then the other
  CHECK(f.scheduler.gate().holds(2));
}

TEST_CASE("encoder_cache: holds what a plain cache holds") {
  struct entry {
    std::uint64_t hash;
    std::int64_t size;
    int users;
  };
  std::size_t skipped = 0;
  std::size_t hits = 0;
  for (std::uint64_t seed = 0; seed != 60; ++seed) {
    std::mt19937_64 random{seed};
    const auto below = [&](std::uint64_t n) { return random() % n; };
    const auto size_of = [](std::uint64_t hash) { return static_cast<std::int64_t>(5 + hash * 7 % 30); };
    const std::int64_t per_step = 20 + static_cast<std::int64_t>(below(60));
    const std::int64_t capacity = 90 + static_cast<std::int64_t>(below(60));
    fixture f{{.per_step = tokens{per_step}, .capacity = tokens{capacity}}};
    std::list<entry> kept;  // the longest unused first
    std::vector<request*> line;
    std::vector<request*> running;
    const auto in_cache = [&](std::uint64_t hash) {
      return std::find_if(kept.begin(), kept.end(), [&](const entry& e) { return e.hash == hash; });
    };
    const auto different = [](const request& r) {
      std::vector<std::uint64_t> all;
      for (const auto& i : r.images) {
        if (std::find(all.begin(), all.end(), i.hash) == all.end()) all.push_back(i.hash);
      }
      return all;
    };
    for (int step = 0; step != 60; ++step) {
      for (std::uint64_t n = below(3); n != 0; --n) {
        std::vector<gate::encoder_input> images;
        for (std::uint64_t k = below(3); k != 0; --k) {
          const std::uint64_t hash = 1 + below(12);
          images.push_back({hash, tokens{size_of(hash)}});
        }
        const auto output = static_cast<std::int64_t>(1 + below(5));
        line.push_back(&f.submit(std::move(images), output));
      }
      std::set<std::uint64_t> needed;  // by requests that run and start
      for (const entry& e : kept) {
        if (e.users != 0) needed.insert(e.hash);
      }
      std::set<std::uint64_t> encoded;
      std::vector<request*> expected;
      std::vector<request*> left;
      std::set<std::uint64_t> closed;  // classes of which one has been skipped: sizes, rounded to a power of 2
      for (request* r : line) {
        std::set<std::uint64_t> with = needed;
        std::int64_t work = 0;
        for (const std::uint64_t hash : different(*r)) {
          with.insert(hash);
          if (in_cache(hash) == kept.end() && encoded.count(hash) == 0) work += size_of(hash);
        }
        std::int64_t room = 0;
        for (const std::uint64_t hash : with) room += size_of(hash);
        std::int64_t before = 0;
        for (const std::uint64_t hash : encoded) before += size_of(hash);
        const bool has_images = !r->images.empty();
        const bool full = running.size() + expected.size() == 8;
        std::uint64_t size = 0;
        for (const auto& image : r->images) size += static_cast<std::uint64_t>(image.size.count());
        const std::uint64_t its_class = has_images ? std::bit_floor(size) : 0;
        const bool fits = !has_images || (room <= capacity && (work == 0 || before == 0 || before + work <= per_step));
        if (full || !fits || closed.count(its_class) != 0) {
          left.push_back(r);
          skipped += !full;
          if (!full) closed.insert(its_class);
          continue;
        }
        expected.push_back(r);
        needed = with;
        for (const std::uint64_t hash : different(*r)) {
          hits += in_cache(hash) != kept.end();
          if (in_cache(hash) == kept.end()) encoded.insert(hash);
        }
      }
      if (below(3) == 0) {
        CHECK(f.plan() == expected);
        REQUIRE(f.scheduler.abandon(f.p) == status::ok);
      }
      REQUIRE(f.plan() == expected);
      std::set<std::uint64_t> planned;
      for (const request* r : expected) {
        for (const std::uint64_t hash : different(*r)) planned.insert(hash);
      }
      // They start, one after the other,
      for (const request* r : expected) {
        for (const std::uint64_t hash : different(*r)) {
          if (in_cache(hash) == kept.end()) {
            std::int64_t all = size_of(hash);
            for (const entry& e : kept) all += e.size;
            for (auto i = kept.begin(); all > capacity && i != kept.end();) {
              if (i->users == 0 && planned.count(i->hash) == 0) {
                all -= i->size;
                i = kept.erase(i);
              } else {
                ++i;
              }
            }
            kept.push_back({hash, size_of(hash), 0});
          }
          const auto at = in_cache(hash);
          ++at->users;
          kept.splice(kept.end(), kept, at);
        }
      }
      line = left;
      running.insert(running.end(), expected.begin(), expected.end());
      std::vector<request*> entries;
      for (std::size_t i = 0; i != f.p.size(); ++i) entries.push_back(f.p[i].request);
      f.commit();
      // and some end, in the order of the plan.
      for (const request* r : entries) {
        if (is_live(r->state().life)) continue;
        for (const std::uint64_t hash : different(*r)) {
          const auto at = in_cache(hash);
          --at->users;
          kept.splice(kept.end(), kept, at);
        }
      }
      std::erase_if(running, [](const request* r) { return !is_live(r->state().life); });
      for (std::uint64_t hash = 1; hash != 13; ++hash) {
        REQUIRE(f.scheduler.gate().holds(hash) == (in_cache(hash) != kept.end()));
      }
    }
  }
  CHECK(skipped > 500);
  CHECK(hits > 500);
}
