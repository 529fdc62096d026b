// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace kv::detail {

/// Chains of host blocks, each identified by its first: the common part of `host_tier` and `host_cache`.
/// @tparam Link the state of a block: `next`, and for the head of a chain in use its `size`, else 0.
template <class Link>
class host_chains {
 public:
  host_chains(const host_chains&) = delete;
  host_chains& operator=(const host_chains&) = delete;

  /// How many there is room for. O(1).
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Length of the chain in blocks; 0 if `head` is not the head of a chain in use. O(1).
  [[nodiscard]] std::size_t size(block_id head) const noexcept { return head < capacity_ ? links_[head].size : 0; }
  /// Writes the chain's ids, in order, to the front of `out` and returns their number: the smaller of `size(head)` and
  /// `out.size()`. O(ids written).
  std::size_t copy(block_id head, std::span<block_id> out) const noexcept {
    const std::size_t n = size(head) < out.size() ? size(head) : out.size();
    for (std::size_t i = 0; i != n; ++i) {
      out[i] = head;
      head = links_[head].next;
    }
    return n;
  }
  /// Calls `f(block_id)` for each host block of the chain, in order. O(size(head)).
  template <class F>
  void for_each(block_id head, F&& f) const noexcept(noexcept(f(head))) {
    for (std::size_t n = size(head); n != 0; --n) {
      const block_id id = head;
      head = links_[head].next;
      f(id);
    }
  }

 protected:
  host_chains(arena& memory, std::size_t blocks) noexcept : links_{memory.take<Link>(blocks)}, capacity_{blocks} {}
  ~host_chains() = default;

  Link* links_;           ///< By block.
  std::size_t capacity_;  ///< Number of blocks.
};

}  // namespace kv::detail
TESSERA_NAMESPACE_END
