// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/death.hpp"

#include <tessera/rank/dense.hpp>
#include <tessera/rank/features.hpp>
#include <tessera/rank/kendall.hpp>
#include <tessera/rank/length_calibrator.hpp>
#include <tessera/rank/length_distribution.hpp>
#include <tessera/rank/mlp.hpp>
#include <tessera/rank/prompt_clusters.hpp>
#include <tessera/rank/scorer.hpp>
#include <tessera/rank/train_mlp.hpp>

#include <array>
#include <cmath>
#include <vector>

namespace {

using namespace tessera::rank;

TESSERA_DEATH_CASE(rank_features_of_too_few_bits, "8 to 24 bits") { static_cast<void>(hashed_features{7}); }
TESSERA_DEATH_CASE(rank_features_of_too_many_bits, "8 to 24 bits") { static_cast<void>(hashed_features{25}); }
TESSERA_DEATH_CASE(rank_scorer_with_a_small_model, "too small for these features") {
  const std::vector<float> w(10);
  static_cast<void>(prompt_scorer{hashed_features{}, linear_model{w}});
}
TESSERA_DEATH_CASE(rank_score_of_a_foreign_index, "outside the model") {
  const std::vector<float> w(10);
  const feature f{10, 1};
  static_cast<void>(score(linear_model{w}, {&f, 1}));
}
TESSERA_DEATH_CASE(rank_mlp_without_units, "1 to 64 hidden units") {
  const std::vector<float> w(1);
  static_cast<void>(mlp_model{w, 3, 0});
}
TESSERA_DEATH_CASE(rank_mlp_of_another_shape, "do not fit the model's shape") {
  const std::vector<float> w(10);
  static_cast<void>(mlp_model{w, 3, 2});
}
TESSERA_DEATH_CASE(rank_embedding_of_another_size, "the features' dimension") {
  const std::array<float, 2> e{};
  std::array<feature, 3> out{};
  static_cast<void>(extract(dense_features{3}, e, out));
}
TESSERA_DEATH_CASE(rank_joined_the_wrong_way_round, "no lexical features") {
  static_cast<void>(joined_features{dense_features{3}, hashed_features{}});
}
TESSERA_DEATH_CASE(rank_row_beyond_the_file, "out of range") {
  const std::array<std::byte, 8> file{};
  std::array<float, 1> row{};
  dense_rows::over(file, 1).read(2, row);
}
TESSERA_DEATH_CASE(rank_tau_of_unequal_sizes, "same size") {
  const std::array<float, 2> x{1, 2};
  const std::array<float, 3> y{1, 2, 3};
  static_cast<void>(kendall_tau_b(x, y));
}
TESSERA_DEATH_CASE(rank_tau_of_nan, "NaN has no rank") {
  const std::array<float, 2> x{1, std::nanf("")};
  static_cast<void>(kendall_tau_b(x, x));
}
TESSERA_DEATH_CASE(rank_delta_of_one, "delta must be in") {
  const std::array<float, 2> x{1, 2};
  static_cast<void>(pairwise_loss{x, 1.0, 1.0});
}
TESSERA_DEATH_CASE(rank_dataset_of_two_extractors, "one extractor") {
  dataset data{hashed_features{9}};
  data.add(hashed_features{10}, "text", 1);
}
TESSERA_DEATH_CASE(rank_dataset_of_negative_lengths, "not negative") {
  dataset data{hashed_features{9}};
  data.add(hashed_features{9}, "text", -1);
}
TESSERA_DEATH_CASE(rank_no_such_fold, "no such fold") { static_cast<void>(split_fold({}, 5, 5, 1)); }
TESSERA_DEATH_CASE(rank_no_penalty, "no penalty") {
  train_options o;
  o.penalties.clear();
  static_cast<void>(train_linear(dataset{hashed_features{9}}, {}, o));
}
TESSERA_DEATH_CASE(rank_calibrator_without_window, "a window of 1 to 2^31 - 1 pairs") {
  auto storage = tessera::storage_for<length_calibrator>({.window = 0, .groups = 1});
  length_calibrator{storage}.fit();
}
TESSERA_DEATH_CASE(rank_calibrator_without_groups, "1 to 2^31 - 1 groups") {
  auto storage = tessera::storage_for<length_calibrator>({.window = 1, .groups = 0});
  length_calibrator{storage}.fit();
}
TESSERA_DEATH_CASE(rank_calibrator_of_negative_lengths, "a length is not negative") {
  auto storage = tessera::storage_for<length_calibrator>({.window = 1, .groups = 1});
  length_calibrator{storage}.observe(1, tessera::tokens{-1});
}
TESSERA_DEATH_CASE(rank_prompt_clusters_without_window, "a window of 1 to 2^31 - 1 pairs") {
  auto storage = tessera::storage_for<prompt_clusters>({.window = 0, .groups = 1});
  prompt_clusters{storage}.fit();
}
TESSERA_DEATH_CASE(rank_prompt_clusters_without_groups, "1 to 1024 groups") {
  auto storage = tessera::storage_for<prompt_clusters>({.window = 1, .groups = 0});
  prompt_clusters{storage}.fit();
}
TESSERA_DEATH_CASE(rank_prompt_clusters_of_negative_lengths, "a length is not negative") {
  auto storage = tessera::storage_for<prompt_clusters>({.window = 1, .groups = 1});
  prompt_clusters{storage}.observe(tessera::tokens{1}, tessera::tokens{-1});
}
TESSERA_DEATH_CASE(rank_distribution_without_window, "a window of 1 to 2^31 - 1 pairs") {
  auto storage = tessera::storage_for<length_distribution>({.window = 0, .groups = 1});
  length_distribution{storage}.fit();
}
TESSERA_DEATH_CASE(rank_distribution_without_groups, "1 to 2^31 - 1 groups") {
  auto storage = tessera::storage_for<length_distribution>({.window = 1, .groups = 0});
  length_distribution{storage}.fit();
}
TESSERA_DEATH_CASE(rank_distribution_of_negative_lengths, "a length is not negative") {
  auto storage = tessera::storage_for<length_distribution>({.window = 1, .groups = 1});
  length_distribution{storage}.observe(1, tessera::tokens{-1});
}
TESSERA_DEATH_CASE(rank_distribution_of_no_probability, "a probability") {
  auto storage = tessera::storage_for<length_distribution>({.window = 1, .groups = 1});
  const length_distribution d{storage};
  static_cast<void>(d.rest_quantile(1, tessera::tokens{}, 0.0));
}
TESSERA_DEATH_CASE(rank_mlp_batch_of_one, "a batch needs a pair") {
  mlp_options o;
  o.batch = 1;
  static_cast<void>(train_mlp(dataset{hashed_features{9}}, {}, o));
}

}  // namespace
