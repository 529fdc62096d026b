// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/rank/dense.hpp>
#include <tessera/rank/length_calibrator.hpp>
#include <tessera/rank/length_distribution.hpp>
#include <tessera/rank/length_drift.hpp>
#include <tessera/rank/mlp.hpp>
#include <tessera/rank/model_file.hpp>
#include <tessera/rank/prompt_clusters.hpp>
#include <tessera/rank/scorer.hpp>

template class tessera::rank::prompt_scorer<tessera::rank::hashed_features, tessera::rank::linear_model>;
template class tessera::rank::prompt_scorer<tessera::rank::hashed_features, tessera::rank::mlp_model>;
template class tessera::rank::prompt_scorer<
    tessera::rank::joined_features<tessera::rank::hashed_features, tessera::rank::dense_features>,
    tessera::rank::linear_model>;

tessera::rank::model_status load(std::span<const std::byte> file, std::span<float> storage,
                                 tessera::rank::linear_model& out) {
  return tessera::rank::load_model(file, 1, storage, out);
}
tessera::rank::model_status save(const tessera::rank::mlp_model& model, std::span<std::byte> out) {
  return tessera::rank::encode_model(model, 1, out);
}
std::size_t features(std::string_view text, std::span<tessera::rank::feature> out) {
  return tessera::rank::extract(tessera::rank::hashed_features{}, text, out);
}
tessera::tokens expected_length(std::span<std::byte> memory, const tessera::rank::length_calibrator::limits& limits,
                                float score, tessera::tokens output) noexcept {
  tessera::rank::length_calibrator length{memory, limits};
  length.observe(score, output);
  length.fit();
  return length.size() != 0 ? length(score) : tessera::tokens{};
}
tessera::tokens expected_of_prompt(std::span<std::byte> memory, const tessera::rank::prompt_clusters::limits& limits,
                                   tessera::tokens prompt, tessera::tokens output) noexcept {
  tessera::rank::prompt_clusters lengths{memory, limits};
  lengths.observe(prompt, output);
  lengths.fit();
  return lengths.size() != 0 && lengths.clusters() != 0 ? lengths(prompt) : tessera::tokens{};
}
tessera::tokens expected_rest(std::span<std::byte> memory, const tessera::rank::length_distribution::limits& limits,
                              std::span<const tessera::rank::running_length> running) noexcept {
  tessera::rank::length_distribution lengths{memory, limits};
  lengths.observe(1.0F, tessera::tokens{5});
  lengths.fit(running);
  lengths.observe(1.0F, tessera::tokens{7});
  return lengths.drift() > 0 ? lengths.rest_quantile(1.0F, tessera::tokens{3}, 0.9)
                             : lengths.expected_rest(1.0F, tessera::tokens{3});
}
double drift(std::span<tessera::rank::known_length> seen) noexcept { return tessera::rank::length_drift_z(seen); }
