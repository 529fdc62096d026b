// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/storage.hpp>
#include <tessera/gate/concepts.hpp>
#include <tessera/queue/class_queue.hpp>
#include <tessera/queue/ordered_queue.hpp>

#include <cstddef>
#include <type_traits>

/// @file
/// The queue of waiting requests in a scheduler.

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The queue of waiting requests: by class if the gate sees classes.
template <schedulable Request, class Order, class Gate>
using waiting_queue = std::conditional_t<gate_has_classes<Gate, Request>, class_queue<Request, Order, Gate>,
                                         ordered_queue<Request, Order>>;

/// A preempted request waits again, however many wait.
template <class Limits>
[[nodiscard]] constexpr std::size_t most_waiting(const Limits& l) noexcept {
  return l.requests + l.residents;
}

/// Bytes that `make_waiting` takes from its arena.
template <schedulable Request, class Order, class Gate, class Limits>
[[nodiscard]] constexpr std::size_t waiting_bytes(const Limits& l) noexcept {
  if constexpr (gate_has_classes<Gate, Request>) {
    return waiting_queue<Request, Order, Gate>::required_bytes(most_waiting(l));
  } else {
    return 0;
  }
}

/// An empty queue. `g` need not be constructed yet.
template <schedulable Request, class Order, class Gate, class Limits>
[[nodiscard]] waiting_queue<Request, Order, Gate> make_waiting(arena& memory, const Limits& l, const Order& order,
                                                               const Gate& g) noexcept {
  if constexpr (gate_has_classes<Gate, Request>) {
    return waiting_queue<Request, Order, Gate>{memory, most_waiting(l), order, g};
  } else {
    return waiting_queue<Request, Order, Gate>{order};
  }
}

}  // namespace detail
TESSERA_NAMESPACE_END
