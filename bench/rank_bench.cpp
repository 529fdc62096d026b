// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <benchmark/benchmark.h>

#include <tessera/rank/kendall.hpp>
#include <tessera/rank/mlp.hpp>
#include <tessera/rank/model_file.hpp>
#include <tessera/rank/scorer.hpp>
#include <tessera/rank/train.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

// Prompts are made of words of 2 to 12 letters, a few of them very frequent, with punctuation, numbers and line ends.
// They have about 630 bytes for 100 words, as in instruction data. Every prompt is another one, so that branches and
// caches see what they would see in an engine.

namespace {

using namespace tessera::rank;

std::string made_up_prompt(std::mt19937& random, std::size_t words) {
  std::string text;
  for (std::size_t w = 0; w != words; ++w) {
    // Rank r of the vocabulary with a density of about 1 / r; the rank is the seed of the word.
    const auto rank = static_cast<unsigned>(std::exp(static_cast<double>(random() % 10000) / 10000.0 * 10.0));
    std::minstd_rand letters{rank + 1};
    letters.discard(3);
    const std::size_t n = 2 + letters() % 4 + letters() % (1 + rank % 7);
    for (std::size_t i = 0; i != n; ++i) text += static_cast<char>('a' + letters() % 26);
    const auto after = random() % 20;
    if (after == 0) text += ',';
    if (after == 1) text += '.';
    if (after == 2) text += " 17";
    text += after == 3 ? '\n' : ' ';
  }
  return text;
}

std::vector<std::string> prompts(std::size_t count, std::size_t words) {
  std::mt19937 random{1};
  std::vector<std::string> texts;
  for (std::size_t i = 0; i != count; ++i) texts.push_back(made_up_prompt(random, words));
  return texts;
}

std::vector<float> weights(std::size_t n) {
  std::mt19937 random{2};
  std::vector<float> w(n);
  for (float& x : w) x = static_cast<float>(random() % 2001) * 1e-3f - 1.0f;
  return w;
}

template <class Scorer>
void score_all(benchmark::State& state, const Scorer& score) {
  const auto texts = prompts(2000, static_cast<std::size_t>(state.range(0)));
  std::size_t i = 0;
  std::size_t bytes = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(score(texts[i]));
    bytes += texts[i].size();
    if (++i == texts.size()) i = 0;
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}

/// One prompt with as many words as the argument says, default features and model. Items are prompts.
void rank_score_linear(benchmark::State& state) {
  const hashed_features f;
  const auto w = weights(f.dimension());
  score_all(state, prompt_scorer{f, linear_model{w}});
}
BENCHMARK(rank_score_linear)->Arg(10)->Arg(100)->Arg(1000)->Arg(10000);

/// The same with 16 hidden units over 2^16 buckets.
void rank_score_mlp(benchmark::State& state) {
  const hashed_features f{16};
  const auto w = weights(mlp_model::parameters(f.dimension(), 16));
  score_all(state, prompt_scorer{f, mlp_model{w, f.dimension(), 16}});
}
BENCHMARK(rank_score_mlp)->Arg(100);

void rank_kendall(benchmark::State& state) {
  const auto x = weights(static_cast<std::size_t>(state.range(0)));
  const std::vector<float> y(x.rbegin(), x.rend());
  for (auto _ : state) benchmark::DoNotOptimize(kendall_tau_b(x, y));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(rank_kendall)->Arg(1000)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

/// One evaluation of the exact loss over all pairs, with its gradient.
void rank_pairwise_loss(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  std::vector<float> lengths = weights(n);
  for (float& l : lengths) l = 100 + 90 * l;
  const std::vector<float> scores(lengths.rbegin(), lengths.rend());
  pairwise_loss loss{lengths, 0.2, 1.0};
  std::vector<double> gradient(n);
  for (auto _ : state) benchmark::DoNotOptimize(loss(scores, gradient));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(rank_pairwise_loss)->Arg(1000)->Arg(10000)->Unit(benchmark::kMillisecond);

/// Training from text, the choice of the penalty included: 7,000 prompts of 30 words.
void rank_train(benchmark::State& state) {
  const auto texts = prompts(7000, 30);
  std::mt19937 random{3};
  for (auto _ : state) {
    const hashed_features f;
    dataset data{f};
    for (const auto& t : texts) data.add(f, t, static_cast<float>(t.size() + random() % 200));
    benchmark::DoNotOptimize(train_linear(data, data.all_rows(), train_options{}));
  }
}
BENCHMARK(rank_train)->Iterations(1)->Unit(benchmark::kSecond);

/// Checking and loading the default model's file.
void rank_load(benchmark::State& state) {
  const hashed_features f;
  const auto w = weights(f.dimension());
  const linear_model m{w};
  std::vector<std::byte> file(encoded_bytes(m));
  if (!ok(encode_model(m, f.fingerprint(), file))) state.SkipWithError("cannot encode");
  std::vector<float> storage(w.size() + 1);
  linear_model loaded;
  for (auto _ : state) benchmark::DoNotOptimize(load_model(file, f.fingerprint(), storage, loaded));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(file.size()));
}
BENCHMARK(rank_load)->Unit(benchmark::kMillisecond);

}  // namespace
