// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/storage.hpp>
#include <tessera/kv/block_table.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The plans in flight that still read blocks which were given back. KV that comes from elsewhere is written whatever
/// the device does: not before these plans have been run.
class block_reads {
 public:
  template <class Limits>
  [[nodiscard]] static constexpr std::size_t required_bytes(const Limits& l) noexcept {
    return storage_layout{}.template add<std::uint64_t>(l.plans_in_flight > 1 ? l.blocks : 0).bytes();
  }
  template <class Limits>
  block_reads(arena& memory, const Limits& l) noexcept
      : until_{memory.take<std::uint64_t>(l.plans_in_flight > 1 ? l.blocks : 0)}, overlaps_{l.plans_in_flight > 1} {}

  /// Begins the plan with this number. `before` is the newest plan in flight; 0: there is none. `copies`: it lists
  /// copies of blocks.
  void begin(std::uint64_t plan, std::uint64_t before, bool copies) noexcept {
    plan_ = plan;
    before_ = before;
    if (copies) copied_in_ = plan;
  }
  /// It is not made after all.
  void forget_plan() noexcept {
    if (copied_in_ == plan_) copied_in_ = before_;
    plan_ = before_;
  }
  /// Plans in flight may read these blocks, which their request gives up. O(blocks), O(1) without plans in flight.
  void note(std::span<const kv::block_id> ids) noexcept {
    for (std::size_t i = 0; overlaps_ && i != ids.size(); ++i) until_[ids[i]] = plan_;
  }

  /// The number of the present plan.
  [[nodiscard]] std::uint64_t plan() const noexcept { return plan_; }
  /// The newest plan before the present one that may read or copy from any block. `victims`: the present plan has some.
  [[nodiscard]] std::uint64_t of_any(bool victims) const noexcept {
    return !victims || before_ < copied_in_ ? copied_in_ : before_;
  }
  /// `last`, or a later plan before the present one that reads one of these blocks. O(blocks), O(1) without plans in
  /// flight.
  [[nodiscard]] std::uint64_t of(std::span<const kv::block_id> ids, std::uint64_t last) const noexcept {
    for (std::size_t i = 0; overlaps_ && i != ids.size(); ++i) last = until_[ids[i]] > last ? until_[ids[i]] : last;
    return last;
  }

 private:
  std::uint64_t* until_;         // by block, with several plans in flight: the newest plan when it was given back
  std::uint64_t plan_ = 0;       // the present plan,
  std::uint64_t before_ = 0;     // and the one before it, if it was in flight; else 0
  std::uint64_t copied_in_ = 0;  // the newest plan that lists copies: a request that it fills may have ended since
  bool overlaps_;
};

}  // namespace detail
TESSERA_NAMESPACE_END
