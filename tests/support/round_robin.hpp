// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/placement/turn.hpp>

#include "support/catch.hpp"

#include <cstddef>
#include <vector>

namespace tessera_test {

/// Round-robin, in words of its own. Returns the first of the `equals`, in rising order, that is not before `next`, or
/// the first of all. The next turn begins behind it. `nowhere` if there are none.
inline std::size_t round_robin(const std::vector<std::size_t>& equals, std::size_t& next) {
  if (equals.empty()) return tessera::placement::nowhere;
  std::size_t chosen = equals.front();
  for (auto it = equals.rbegin(); it != equals.rend() && *it >= next; ++it) chosen = *it;
  next = chosen + 1;
  return chosen;
}

/// `choose()` returns one of `equals`, which stay as they are: each as often as the others.
template <class Choose>
void check_round_robin(const std::vector<std::size_t>& equals, std::size_t instances, Choose choose) {
  std::vector<int> chosen(instances);
  for (std::size_t i = 0; i != 20 * equals.size(); ++i) ++chosen.at(choose());
  for (const std::size_t i : equals) CHECK(chosen.at(i) == 20);
}

}  // namespace tessera_test
