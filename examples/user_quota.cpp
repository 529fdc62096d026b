// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// A place that depends on other requests: a user with more than two requests under way is served after all other users.
// The order reads what is written in the request itself. The code that starts or ends a request corrects the others of
// its user with `update`, which moves them and leaves them their KV.
#include <tessera/pipeline/iteration_scheduler.hpp>

#include <array>
#include <cstdio>
#include <vector>

using namespace tessera::literals;

struct my_request : tessera::request_hook {
  char user = '?';
  bool over_quota = false;  // written through `update` only: containers are sorted by it
};

struct quota_last : tessera::order::fcfs {
  [[nodiscard]] static bool before(const my_request& a, const my_request& b) noexcept {
    if (a.over_quota != b.over_quota) return b.over_quota;
    return fcfs::before(a, b);
  }
  [[nodiscard]] static bool displaces(const my_request& waiting, const my_request& resident) noexcept {
    return !waiting.over_quota && resident.over_quota;
  }
};

using my_scheduler = tessera::iteration_scheduler<my_request, quota_last>;

constexpr std::size_t quota = 2;

/// The first `quota` requests of each user, by arrival, are within it.
void apply_quota(my_scheduler& scheduler, std::vector<my_request*>& live) {
  std::array<std::size_t, 256> of_user{};
  for (my_request* r : live) {
    const bool over = of_user[static_cast<unsigned char>(r->user)]++ >= quota;
    if (over == r->over_quota) continue;
    const auto done = scheduler.update(*r, [over](my_request& x) { x.over_quota = over; });
    if (!ok(done)) std::printf("%s\n", to_string(done));
  }
}

int main() {
  std::array<my_request, 6> requests;
  auto storage = tessera::storage_for<my_scheduler>({.blocks = 64, .residents = 3, .host_blocks = 64});
  my_scheduler scheduler{storage};
  std::vector<my_request*> live;
  const auto submit = [&](my_request& r, char user, tessera::tokens output) {
    r.user = user, r.prompt = 20_tok, r.max_output = output;
    if (ok(scheduler.submit(r, {}))) live.push_back(&r);
    apply_quota(scheduler, live);  // between two steps
  };

  // Alice is first with four requests; Bob comes a step later with two.
  for (std::size_t i = 0; i != 4; ++i) submit(requests[i], 'a', 3_tok);
  for (int step = 1; !scheduler.idle(); ++step) {
    const auto plan = scheduler.plan({}, {.max_batch = 3, .token_budget = 256_tok});
    std::vector<tessera::outcome> outcomes(plan.size());
    std::printf("step %d:", step);
    for (std::size_t i = 0; i != plan.size(); ++i) {
      const my_request& r = *plan[i].request;
      std::printf(" %c%d", r.user, static_cast<int>(&r - requests.data()));
      outcomes[i].finished = plan[i].samples && r.generated() + 1_tok == r.max_output;
    }
    for (const auto& v : plan.preempted)
      std::printf("  (%c%d is swapped out)", v.request->user, static_cast<int>(v.request - requests.data()));
    std::printf("\n");
    scheduler.commit(plan, outcomes, {});
    std::erase_if(live, [](const my_request* r) { return r->state().life == tessera::lifecycle::finished; });
    apply_quota(scheduler, live);
    if (step == 1) {
      for (std::size_t i : {4U, 5U}) submit(requests[i], 'b', 2_tok);
    }
  }
}

/* output:
step 1: a0 a1 a2
step 2: a0 a1 b4  (a2 is swapped out)
step 3: a0 a1 b4
step 4: a2 a3 b5
step 5: a2 a3 b5
step 6: a3
*/
