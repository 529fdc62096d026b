// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/storage.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/step.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The plans in flight, oldest first: made, and neither committed nor abandoned. Only the newest can be *open*: no plan
/// has been made or settled since, so it can be undone exactly.
template <class Request>
class plan_ring {
 public:
  using step_type = step<Request>;

  template <class Limits>
  [[nodiscard]] static constexpr std::size_t required_bytes(const Limits& l) noexcept {
    return storage_layout{}
        .add<step_type>(l.plans_in_flight)
        .add_bytes(step_type::required_bytes(l) * l.plans_in_flight)
        .bytes();
  }
  template <class Limits>
  plan_ring(arena& memory, const Limits& l) noexcept
      : steps_{memory.take_uninitialised<step_type>(l.plans_in_flight)},
        capacity_{l.plans_in_flight},
        apart_{l.plans_apart - 1} {
    for (std::size_t i = 0; i != capacity_; ++i) ::new (static_cast<void*>(steps_ + i)) step_type{memory, l};
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool full() const noexcept { return size_ == capacity_; }
  [[nodiscard]] step_type& oldest() noexcept { return steps_[first_]; }
  /// The latest plan, even if it is settled.
  [[nodiscard]] step_type& latest() noexcept { return steps_[latest_]; }
  [[nodiscard]] const step_type& latest() const noexcept { return steps_[latest_]; }
  /// The newest plan in flight if it can still be abandoned, else null.
  [[nodiscard]] step_type* open() noexcept { return steps_[latest_].open ? steps_ + latest_ : nullptr; }
  [[nodiscard]] bool has_open() const noexcept { return steps_[latest_].open; }

  /// Begins a plan. Requires: `!full()`.
  [[nodiscard]] step_type& push() noexcept {
    latest_ = at(size_++);
    step_type& s = steps_[latest_];
    s.id = ++plans_;
    s.expects = size_ != 1;
    s.apart = steps_[at(size_ - 1 - std::min(apart_, size_ - 1))].mark();
    s.open = true;
    return s;
  }
  void pop_oldest() noexcept {
    steps_[first_].open = false;
    first_ = at(1);
    --size_;
  }
  void pop_open() noexcept {
    steps_[latest_].open = false;
    --size_;
  }

  /// The last plan in flight that contains the request, or contained it when it was abandoned; null if there is none.
  /// Requires: none is open. O(plans in flight).
  [[nodiscard]] step_type* last_with(const Request& r) noexcept {
    if (r.state().mark == plan_mark::none) return nullptr;  // in no plan yet, and `marked_in` has no meaning
    for (std::size_t i = size_; i-- != 0;) {
      step_type& s = steps_[at(i)];
      if (static_cast<std::int32_t>(r.state().marked_in - s.mark()) >= 0) return &s;
    }
    return nullptr;
  }
  [[nodiscard]] const step_type* last_with(const Request& r) const noexcept {
    return const_cast<plan_ring*>(this)->last_with(r);
  }

  /// Calls `f(step)` for each plan in flight.
  template <class F>
  void for_each(F&& f) const noexcept {
    for (std::size_t i = 0; i != size_; ++i) f(steps_[at(i)]);
  }

 private:
  [[nodiscard]] std::size_t at(std::size_t i) const noexcept {
    const std::size_t n = first_ + i;
    return n < capacity_ ? n : n - capacity_;
  }

  step_type* steps_;
  std::size_t capacity_;
  std::size_t apart_;  ///< Plans before one that may not sample for the same requests.
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  std::size_t latest_ = 0;
  std::uint64_t plans_ = 0;  ///< The number of plans made.
};

}  // namespace detail
TESSERA_NAMESPACE_END
