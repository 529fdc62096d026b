// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/host_chains.hpp>

TESSERA_NAMESPACE_BEGIN
namespace kv {
namespace detail {

/// State of a block in `host_tier`.
struct host_link {
  block_id next = no_index;
  block_id tail = no_index;  // for the head of a chain in use
  std::uint32_t size = 0;    // for the head of a chain in use; else 0
};

}  // namespace detail

/// Accounts for the KV blocks in host memory that hold swapped-out KV: a chain of host blocks per request.
///
/// A request keeps its first host block (`head`), which identifies the chain. Ids are in [0, capacity()).
/// Chains are taken from and put back on the front of one list. So calls are undone by their opposites in reverse
/// order: `store` after `release` gives the same ids again. 12 bytes a block.
class host_tier : public detail::host_chains<detail::host_link> {
 public:
  /// Capacities; fixed at construction.
  struct limits {
    std::size_t host_blocks = 0;  ///< May be 0: nothing can be swapped. Fewer than 2^32 - 1.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}.add<link>(l.host_blocks).bytes_unaligned();
  }

  /// All host blocks are free. O(host_blocks).
  host_tier(arena& memory, const limits& l) noexcept : host_chains{memory, l.host_blocks}, free_size_{l.host_blocks} {
    TESSERA_ASSERT(l.host_blocks < no_index, "block ids have 32 bits");
    for (std::size_t i = 0; i != capacity_; ++i) {
      links_[i].next = i + 1 != capacity_ ? static_cast<block_id>(i + 1) : no_index;
    }
    free_head_ = capacity_ != 0 ? 0 : no_index;
  }

  /// Host blocks that can be stored to now.
  [[nodiscard]] std::size_t free() const noexcept { return free_size_; }

  /// Takes a chain of `n` host blocks and sets `head` to its first. O(n). `invalid` if `n` is 0; `exhausted` if fewer
  /// are free. Both leave `head` unchanged.
  [[nodiscard]] status store(std::size_t n, block_id& head) noexcept {
    if (n == 0) return status::invalid;
    if (n > free_size_) return status::exhausted;
    block_id tail = free_head_;
    for (std::size_t i = 1; i != n; ++i) tail = links_[tail].next;
    head = free_head_;
    free_head_ = links_[tail].next;
    free_size_ -= n;
    links_[tail].next = no_index;
    links_[head].tail = tail;
    links_[head].size = static_cast<std::uint32_t>(n);
    return status::ok;
  }
  /// Gives a chain back. O(1). `foreign`: no host block; `not_allocated`: not the head of a chain in use.
  [[nodiscard]] status release(block_id head) noexcept {
    if (head >= capacity_) return status::foreign;
    link& first = links_[head];
    if (first.size == 0) return status::not_allocated;
    links_[first.tail].next = free_head_;
    free_head_ = head;
    free_size_ += first.size;
    first.size = 0;
    return status::ok;
  }

  /// Keeps the first `n` blocks of a chain and gives the others back. O(size(head)). Requires: `head` is the head of a
  /// chain in use, `0 < n <= size(head)` (asserted).
  void shorten(block_id head, std::size_t n) noexcept {
    const std::size_t before = size(head);
    TESSERA_ASSERT(n != 0 && n <= before, "a chain in use keeps one block at least");
    if (n == 0 || n >= before) return;
    block_id tail = head;
    for (std::size_t i = 1; i != n; ++i) tail = links_[tail].next;
    links_[links_[head].tail].next = free_head_;
    free_head_ = links_[tail].next;
    free_size_ += before - n;
    links_[tail].next = no_index;
    links_[head].tail = tail;
    links_[head].size = static_cast<std::uint32_t>(n);
  }

 private:
  using link = detail::host_link;

  std::size_t free_size_;
  block_id free_head_ = no_index;
};

}  // namespace kv
TESSERA_NAMESPACE_END
