// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A router's life. Three replicas of some engine come, requests are placed by a policy, one moves while it runs, a
// replica dies. The transport is yours: here every call stands where a message would come or go.
#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/ledger.hpp>
#include <tessera/fleet/retry.hpp>
#include <tessera/fleet/stitch.hpp>
#include <tessera/placement/least_load.hpp>
#include <tessera/placement/migrate_when_tight.hpp>

#include <cstdio>

using namespace tessera::literals;
namespace fleet = tessera::fleet;
namespace placement = tessera::placement;

namespace {

using book_type = fleet::ledger<>;

tessera::time_point at(double seconds) { return tessera::time_point::at_seconds(seconds); }

void show(const char* when, const book_type& book) {
  std::printf("%-26s", when);
  const auto all = book.shown();
  for (std::size_t i = 0; i != all.size(); ++i) {
    std::printf("  %u: %zu, %lld blocks free", static_cast<unsigned>(all[i].id), all[i].requests,
                static_cast<long long>(all[i].free_blocks.count()));
  }
  std::printf("\n");
}

}  // namespace

int main() {
  auto storage = tessera::storage_for<book_type>({.replicas = 8, .reservations = 1000});
  book_type book{storage, {.block_size = 16_tok, .lease = 30_s, .tight = 20_blk}};
  placement::least_load arrivals;
  placement::migrate_when_tight moves{.headroom = 20_blk};

  for (fleet::replica_id id = 0; id != 3; ++id) {
    if (!ok(book.join(id, /*incarnation=*/1, {.capacity = 100_blk}, at(0)))) return 1;
  }

  // Another router keeps replica 0 busy: it is in the report, and none of it is ours.
  fleet::report busy{.incarnation = 1, .epoch = 1, .all = {.requests = 4, .kv_held = 60_blk}, .own = fleet::load{}};
  book.receive(0, busy, at(0.5));
  show("a report has come", book);

  // A burst: each counts at once, so it spreads although no report comes in between. A second choice is for a refusal.
  for (fleet::request_id request = 1; request <= 6; ++request) {
    const auto choices = book.rank(arrivals, 2);
    if (choices.empty() || !ok(book.reserve(request, choices.front(), {.prompt = 320_tok}, at(1)))) return 1;
    std::printf("request %llu goes to %u\n", static_cast<unsigned long long>(request), choices.front());
  }
  for (fleet::request_id request = 1; request <= 6; ++request) {
    for (const fleet::replica_id id : {0U, 1U, 2U}) book.first_token(request, id, at(2));  // false where it is not
  }
  show("all have a first token", book);

  // A second replica fills up with others' requests. Which request is to leave, and where to?
  fleet::report full{.incarnation = 1, .epoch = 1, .all = book.own(1), .own = book.own(1)};
  full.all.requests += 5;
  full.all.kv_held += 30_blk;
  book.receive(1, full, at(3));
  show("another is nearly full", book);
  for (const fleet::move& m : book.propose_moves(moves, at(3))) {
    std::printf("request %llu moves from %u to %u with %lld blocks\n", static_cast<unsigned long long>(m.request),
                m.from, m.to, static_cast<long long>(m.size.count()));
    // Copy its KV; it streams on from where it is. Then:
    book.moved(m.request, m.to, at(3.2));
  }
  show("it has moved", book);

  // Replica 2 is dead, and fenced. What it had is told, and is tried elsewhere from where the client has got to.
  fleet::orphan lost[8];
  std::size_t n = 0;
  book.fence(2, 1, [&](const fleet::orphan& o) { lost[n++] = o; });
  for (std::size_t i = 0; i != n; ++i) {
    fleet::retries patience;  // one of each request
    fleet::stitch stream;     // and one of each stream: say the client has 40 tokens
    const tessera::tokens has = stream.on(0_tok, 40_tok).take;
    const auto choices = book.rank(arrivals);
    if (!patience.after(fleet::failure::died) || choices.empty()) continue;
    const auto again = book.reserve(lost[i].request, choices.front(), {.prompt = 320_tok + has}, at(4));
    const fleet::stitch::piece next = stream.on(30_tok, 20_tok);
    std::printf("request %llu goes to %u: %s; of tokens 30 to 49 the client gets the last %lld\n",
                static_cast<unsigned long long>(lost[i].request), choices.front(), to_string(again),
                static_cast<long long>(next.take.count()));
  }

  // All end. Requests of which nothing was heard are given back a lease later.
  for (fleet::request_id request = 1; request <= 5; ++request) {
    for (const fleet::replica_id id : {0U, 1U}) book.release(request, id);
  }
  std::printf("in the book: %zu\n", book.size());
  book.expire(at(40));
  std::printf("a lease later: %zu\n", book.size());
}

/* output:
a report has come           0: 4, 40 blocks free  1: 0, 100 blocks free  2: 0, 100 blocks free
request 1 goes to 1
request 2 goes to 2
request 3 goes to 1
request 4 goes to 2
request 5 goes to 1
request 6 goes to 2
all have a first token      0: 4, 40 blocks free  1: 3, 37 blocks free  2: 3, 37 blocks free
another is nearly full      0: 4, 40 blocks free  1: 8, 7 blocks free  2: 3, 37 blocks free
request 1 moves from 1 to 0 with 21 blocks
it has moved                0: 5, 19 blocks free  1: 7, 28 blocks free  2: 3, 37 blocks free
request 2 goes to 1: ok; of tokens 30 to 49 the client gets the last 10
request 4 goes to 0: ok; of tokens 30 to 49 the client gets the last 10
request 6 goes to 1: ok; of tokens 30 to 49 the client gets the last 10
in the book: 1
a lease later: 0
*/
