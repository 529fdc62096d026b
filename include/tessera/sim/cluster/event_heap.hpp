// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// What happens, the earliest first. An event has a member `at_s`, and a total order that begins with it.
template <class Event>
class event_heap {
 public:
  /// Whether nothing happens any more.
  [[nodiscard]] bool empty() const noexcept { return events_.empty(); }
  /// How many happen still.
  [[nodiscard]] std::size_t size() const noexcept { return events_.size(); }
  /// When the next event is; infinity if there is none.
  [[nodiscard]] double next_s() const noexcept {
    return events_.empty() ? std::numeric_limits<double>::infinity() : events_.front().at_s;
  }
  /// O(log events).
  void push(Event e) {
    events_.push_back(std::move(e));
    std::push_heap(events_.begin(), events_.end(), std::greater<>{});
  }
  /// Takes the next event. O(log events). Requires: there is one.
  Event pop() {
    std::pop_heap(events_.begin(), events_.end(), std::greater<>{});
    Event e = std::move(events_.back());
    events_.pop_back();
    return e;
  }
  /// Calls `change(events)`, which may do with the vector what it likes. O(events).
  template <class Change>
  void update(Change&& change) {
    change(events_);
    std::make_heap(events_.begin(), events_.end(), std::greater<>{});
  }

 private:
  std::vector<Event> events_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
