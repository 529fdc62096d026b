// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// The parts of ranking prompts by expected output length: features of a prompt, and a model that turns them into a
/// score.
///
/// Follows PARS (Prompt-Aware Scheduling for Low-Latency LLM Serving, section III-A), where the features are BERT's
/// [CLS] embedding and the model is one linear layer. Here both are concepts.

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// One coordinate of a sparse feature vector. An index may occur more than once: values add up.
struct feature {
  std::uint32_t index = 0;  ///< Below the dimension.
  float value = 0;          ///< How often, or how much.

  /// Memberwise.
  friend bool operator==(const feature&, const feature&) = default;
};

/// The simplest visitor of features; also the archetype that the concepts are checked against.
struct feature_counter {
  std::size_t count = 0;  ///< The number of features so far.
  /// Counts one.
  constexpr void operator()(std::uint32_t, float) noexcept { ++count; }
};

/// Turns a prompt, or a substitute for it, into a sparse vector.
/// Requires: (1) `F::input_type`, cheap to copy (a view). (2) `f.dimension()`: indices are below it. (3)
/// `f.lexical_dimension()`: indices below it are counts of words and the like. Training weighs these by their rarity
/// (inverse document frequency), and takes the others as they are. (4) `f.max_features()`: the most that one call
/// visits.
/// (5) `f.fingerprint()`: equal for two extractors exactly if they give equal features; stored in model files. (6)
/// `f.visit(input, sink) noexcept`, which calls `sink(std::uint32_t index, float value)` for each feature. (2) to (6)
/// are const and noexcept.
/// Not checked: any bytes are safe. Visiting is deterministic, linear in the input's size and does not allocate. Every
/// value is finite. Models: `hashed_features` (text), `dense_features` (an embedding), `joined_features` (one of each).
template <class F>
concept prompt_features = std::copyable<F> && std::copyable<typename F::input_type> &&
                          requires(const F& f, typename F::input_type input, feature_counter& sink) {
                            { f.dimension() } noexcept -> std::same_as<std::size_t>;
                            { f.lexical_dimension() } noexcept -> std::same_as<std::size_t>;
                            { f.max_features() } noexcept -> std::same_as<std::size_t>;
                            { f.fingerprint() } noexcept -> std::same_as<std::uint64_t>;
                            { f.visit(input, sink) } noexcept;
                          };

/// Turns features into a score; higher means a longer expected output.
/// Requires: (1) `m.dimension()`: indices must be below it. (2) `M::accumulator`, constructible from `const M&`. It is
/// called with each feature (`a(index, value)`), and `a.result()` gives the score; all noexcept. Not checked: the score
/// is finite and depends only on the features; nothing is allocated. Models: `linear_model`, `mlp_model`.
template <class M>
concept ranking_model = std::copyable<M> && std::constructible_from<typename M::accumulator, const M&> &&
                        requires(const M& m, typename M::accumulator& a, std::uint32_t index, float value) {
                          { m.dimension() } noexcept -> std::same_as<std::size_t>;
                          { a(index, value) } noexcept;
                          { a.result() } noexcept -> std::same_as<float>;
                        };

/// Writes the features of `input` into the caller's memory. O(input). Does not allocate.
/// @return the number written: all of them if `out` holds `f.max_features()`, else at most `out.size()` of them.
template <prompt_features F>
[[nodiscard]] std::size_t extract(const F& f, typename F::input_type input, std::span<feature> out) noexcept {
  struct writer {
    std::span<feature> out;
    std::size_t count = 0;
    void operator()(std::uint32_t index, float value) noexcept {
      if (count != out.size()) out[count++] = feature{index, value};
    }
  } sink{out};
  f.visit(input, sink);
  return sink.count;
}

/// The score of features extracted before. O(features). Requires indices below `m.dimension()` (asserted).
template <ranking_model M>
[[nodiscard]] float score(const M& m, std::span<const feature> features) noexcept {
  typename M::accumulator sum{m};
  for (const feature& f : features) {
    TESSERA_ASSERT(f.index < m.dimension(), "feature index is outside the model");
    sum(f.index, f.value);
  }
  return sum.result();
}

}  // namespace rank
TESSERA_NAMESPACE_END
