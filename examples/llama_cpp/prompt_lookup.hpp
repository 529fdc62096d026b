// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <llama.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

/// @file
/// Drafts without a draft model: a text repeats itself, and above all its prompt.

namespace llama_cpp {

/// Guesses up to `most` tokens that follow a sequence (prompt lookup decoding, Saxena 2023). They are those that
/// followed its last three tokens when these last came in the same order before, or else its last two. None if they did
/// not. O(length), without allocation if `guesses` has room for `most`.
inline void look_up(std::span<const llama_token> sequence, std::size_t most, std::vector<llama_token>& guesses) {
  constexpr std::size_t longest = 3;
  constexpr std::size_t shortest = 2;
  guesses.clear();
  std::size_t best = 0;
  std::size_t from = 0;
  for (std::size_t end = sequence.size(); end-- > shortest;) {
    // How many tokens before `end` are the last ones.
    std::size_t n = 0;
    while (n != longest && n != end && sequence[end - 1 - n] == sequence[sequence.size() - 1 - n]) ++n;
    if (n < shortest || n <= best) continue;
    best = n;
    from = end;
    if (n == longest) break;
  }
  if (best == 0) return;
  const auto found = sequence.subspan(from, std::min(most, sequence.size() - from));
  guesses.assign(found.begin(), found.end());
}

}  // namespace llama_cpp
