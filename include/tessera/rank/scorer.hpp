// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/rank/features.hpp>
#include <tessera/rank/linear.hpp>

/// @file
/// Features and a model in one: an engine calls it once per prompt, before `submit`.
///
///     tessera::rank::prompt_scorer score{tessera::rank::hashed_features{}, model};
///     request.score = score(prompt);

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// Scores inputs; higher means a longer expected output. So `ranked` order, which serves the smallest score first,
/// serves the shortest expected job first (PARS, section III-B).
///
/// Features go straight into the model: none is stored, nothing is allocated. A value of a few words.
template <prompt_features Features = hashed_features, ranking_model Model = linear_model>
class prompt_scorer {
 public:
  using input_type = typename Features::input_type;  ///< The input: one per example.
  using features_type = Features;                    ///< The feature extractor.
  using model_type = Model;                          ///< The model.

  /// Requires `features.dimension() <= model.dimension()` (asserted). `load_model` rejects a model from a file for
  /// other features.
  constexpr prompt_scorer(Features features, Model model) noexcept : features_{features}, model_{model} {
    TESSERA_ASSERT(features.dimension() <= model.dimension(), "the model is too small for these features");
  }

  /// The score of one prompt. O(input). Does not allocate.
  [[nodiscard]] float operator()(input_type input) const noexcept {
    typename Model::accumulator sum{model_};
    features_.visit(input, sum);
    return sum.result();
  }

  /// The feature extractor.
  [[nodiscard]] constexpr const Features& features() const noexcept { return features_; }
  /// The model.
  [[nodiscard]] constexpr const Model& model() const noexcept { return model_; }

 private:
  Features features_;
  Model model_;
};

}  // namespace rank
TESSERA_NAMESPACE_END
