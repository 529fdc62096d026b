// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// 9. Ranking (PARS): prompts are scored when they arrive, and the shortest expected answer goes first. The model is
// trained here on a few made-up examples; a real one comes from `rank train`, and is loaded with `rank::load_model`.
#include <tessera/compose/pars.hpp>
#include <tessera/rank/scorer.hpp>
#include <tessera/rank/train.hpp>

#include <array>
#include <cstdio>
#include <string>

using namespace tessera::literals;
namespace rank = tessera::rank;

struct my_request : tessera::pars_request {  // `score` is a member of it
  std::string text;
  int answer = 0;  // tokens; the engine finds out as it goes
};

/// What was asked before, and how long the answers were.
rank::linear_training learn(const rank::hashed_features& features) {
  rank::dataset data{features};
  float chance = 0;
  for (const std::string animal : {"cats", "whales", "owls", "bees", "newts", "yaks"}) {
    data.add(features, "Write an essay on " + animal + ".", 700 + chance);
    data.add(features, "Summarise what is known of " + animal + ".", 200 - chance);
    data.add(features, "Are " + animal + " mammals? Yes or no.", 3 + chance);
    chance += 5;
  }
  return rank::train_linear(data, data.all_rows(), {.penalties = {1}});  // too few examples to choose one
}

int main() {
  const rank::hashed_features features;
  const rank::linear_training trained = learn(features);
  const rank::prompt_scorer score{features, trained.model()};

  // The first three come at once. From then on a yes or no is asked for every second.
  std::array<my_request, 8> requests;
  const std::array<const char*, 4> texts{"Write an essay on ants.", "Summarise what is known of moths.",
                                         "Are bats mammals? Yes or no.", "Are rooks mammals? Yes or no."};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    my_request& r = requests[i];
    r.text = texts[i < 3 ? i : 3];
    r.answer = i == 0 ? 6 : i == 1 ? 3 : 1;
    r.prompt = 8_tok;
    r.score = score(r.text);  // microseconds, nothing allocated
  }

  // One request at a time, so that a queue forms; an essay may wait for 4 s and no longer.
  using scheduler_type = tessera::pars<my_request>;
  auto storage = tessera::storage_for<scheduler_type>({.blocks = 16, .residents = 1, .host_blocks = 16});
  scheduler_type scheduler{storage, {.threshold = 4_s}};
  std::size_t next = 0;
  for (std::size_t second = 0; next < requests.size() || !scheduler.idle(); ++second) {
    const auto now = tessera::time_point::at_seconds(static_cast<double>(second));
    for (; next < requests.size() && next < second + 3; ++next) {
      if (!ok(scheduler.submit(requests[next], now))) return 1;
    }
    const auto plan = scheduler.plan(now, {.max_batch = 1, .token_budget = 64_tok});  // one entry: the others wait
    const my_request& r = *plan[0].request;
    if (plan[0].count > 1_tok) std::printf("at %2zu s: %s\n", second, r.text.c_str());
    const tessera::outcome done{.finished = plan[0].samples && r.generated().count() + 1 == r.answer};
    scheduler.commit(plan, {&done, 1}, now + 1_s);
  }
}

/* output:
at  0 s: Are bats mammals? Yes or no.
at  1 s: Are rooks mammals? Yes or no.
at  2 s: Are rooks mammals? Yes or no.
at  3 s: Are rooks mammals? Yes or no.
at  4 s: Write an essay on ants.
at 10 s: Summarise what is known of moths.
at 13 s: Are rooks mammals? Yes or no.
at 14 s: Are rooks mammals? Yes or no.
*/
