// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <llama.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// The choice of a token. It depends on the logits, the request's seed and the place in the text alone. So a text is
/// the same whatever runs at the same time, and however often it was computed again. It is the same whether or not its
/// tokens were guessed before.

namespace llama_cpp {

/// How a request's tokens are chosen.
struct sampling {
  float temperature = 0;   ///< 0: the most likely token, of equals the first.
  std::uint64_t seed = 0;  ///< Seed of what is drawn otherwise.
};

/// A number from 0 to 1, less than 1, for a place in a text: SplitMix64's finaliser over both.
[[nodiscard]] inline double drawn(std::uint64_t seed, std::uint64_t place) noexcept {
  std::uint64_t z = seed * 0x9e37'79b9'7f4a'7c15U + place;
  for (int i = 0; i < 2; ++i) {
    z = (z ^ (z >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d0'49bb'1331'11ebU;
    z ^= z >> 31U;
  }
  return static_cast<double>(z >> 11U) * 0x1p-53;
}

/// The token at `place` of a text. Requires logits.
[[nodiscard]] inline llama_token choose(std::span<const float> logits, const sampling& how,
                                        std::size_t place) noexcept {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (!(how.temperature > 0)) return static_cast<llama_token>(best - logits.begin());
  const auto weight = [&](float x) { return std::exp((static_cast<double>(x) - *best) / how.temperature); };
  double left = 0;
  for (const float x : logits) left += weight(x);
  left *= drawn(how.seed, place);
  for (std::size_t t = 0; t + 1 < logits.size(); ++t) {
    left -= weight(logits[t]);
    if (left < 0) return static_cast<llama_token>(t);
  }
  return static_cast<llama_token>(logits.size() - 1);
}

}  // namespace llama_cpp
