// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/storage.hpp>

#include <boost/heap/binomial_heap.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

/// @file
/// A heap with handles over fixed storage, for things other than requests: timers, candidates, merge costs.
///
/// Boost.Heap's containers allocate a node per element. Here the nodes come from a caller's memory, through an
/// allocator that has no other source. The binomial heap is chosen because every operation is bounded in the worst
/// case, not only amortised. (A d-ary heap is bounded as well. But it keeps its nodes in a `std::list` and a
/// `std::vector`, and offers no access to the allocator of the first.)
///
/// Not in `tessera/tessera.hpp`: Boost.Heap is slow to compile, and only its users should wait for it.

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Nodes of one size, handed out and taken back in O(1).
class node_pool {
 public:
  /// Takes over `count` nodes, one after another from `first` on.
  void add(std::byte* first, std::size_t node_bytes, std::size_t count) noexcept {
    for (std::size_t i = count; i != 0; --i) give_back(first + (i - 1) * node_bytes);
  }

  /// Null when none is left.
  [[nodiscard]] void* take() noexcept {
    free_node* const n = free_;
    if (n != nullptr) free_ = n->next;
    return n;
  }
  void give_back(void* memory) noexcept { free_ = ::new (memory) free_node{free_}; }

 private:
  struct free_node {
    free_node* next;
  };
  free_node* free_ = nullptr;
};

/// The allocator that Boost.Heap sees. A default-constructed allocator is a pool of its own, at first without nodes. A
/// copy shares the pool of its source, so that either may free what the other allocated, as the standard asks of
/// copies. The pool lives as long as the default-constructed allocator.
///
/// This reaches the allocator of a heap through its interface alone. Boost.Heap default-constructs its allocator and
/// hands out copies, so nodes added to a copy's pool are the heap's. No version of Boost.Heap has a constructor that
/// takes an allocator and a comparison, and 1.74 has none that takes an allocator.
template <class T, std::size_t NodeBytes, std::size_t NodeAlignment>
class pool_allocator {
 public:
  using value_type = T;
  template <class U>
  struct rebind {
    using other = pool_allocator<U, NodeBytes, NodeAlignment>;
  };

  pool_allocator() noexcept : pool_{&own_} {}
  pool_allocator(const pool_allocator& other) noexcept : pool_{other.pool_} {}
  template <class U>
  explicit(false) pool_allocator(const pool_allocator<U, NodeBytes, NodeAlignment>& other) noexcept
      : pool_{&other.pool()} {}
  pool_allocator& operator=(const pool_allocator&) = delete;  // The nodes that it gave out would belong to another
                                                              // pool.
  ~pool_allocator() = default;

  [[nodiscard]] node_pool& pool() const noexcept { return *pool_; }

  /// One node at a time, and never more than the pool has: the heap checks before it asks.
  [[nodiscard]] T* allocate(std::size_t n) noexcept {
    static_assert(sizeof(T) <= NodeBytes && alignof(T) <= NodeAlignment, "a heap node is larger than it was taken for");
    TESSERA_ASSERT(n == 1, "a heap takes its nodes one by one");
    static_cast<void>(n);
    void* const node = pool_->take();
    TESSERA_ASSERT(node != nullptr, "the heap is full");
    return static_cast<T*>(node);
  }
  void deallocate(T* p, std::size_t /*n*/) noexcept { pool_->give_back(p); }

  friend bool operator==(const pool_allocator& a, const pool_allocator& b) noexcept { return a.pool_ == b.pool_; }

 private:
  node_pool own_;
  node_pool* pool_;
};

}  // namespace detail

/// Smaller first.
struct smaller_first {
  /// True if `b < a`.
  template <class T>
  [[nodiscard]] constexpr bool operator()(const T& a, const T& b) const noexcept {
    return a < b;
  }
};

/// A heap of at most `limits::capacity` values. Entries can be erased and changed through handles.
///
/// Complexity, in the number of entries and in the worst case: `top`, `size` O(1); `push` O(log n). `update`, `erase`
/// O(log^2 n). `pop` O(log n log log n), because it sorts the children of the top by their size. Allocates: never; the
/// memory is the caller's. Exhaustion: `push` returns a null handle. Entries that compare equal leave in an unspecified
/// order that depends only on the calls made.
///
/// @tparam T       copied in and out; trivially copyable, so that no operation can fail.
/// @tparam Compare `compare(a, b)`: `a` leaves before `b`; a strict weak order.
template <class T, class Compare = smaller_first>
class fixed_heap {
  static_assert(std::is_trivially_copyable_v<T>, "tessera: a fixed_heap holds trivially copyable values");
  static_assert(std::predicate<const Compare&, const T&, const T&>,
                "tessera: the comparison lacks `bool operator()(const T&, const T&) const`");

  // No two entries may compare equal in Boost.Heap's binomial heap (1.74 to at least 1.81). A push of a value equal to
  // the top may put the top below it and still take the top for a root. A later update or erasure then crashes. So ties
  // are broken: the entry that was pushed or updated earlier leaves first.
  struct entry {
    T value;
    std::uint64_t since;
  };
  // A node is the entry, its links, its children and its parent. The allocator checks that this size suffices.
  static constexpr std::size_t node_alignment = alignof(entry) > alignof(void*) ? alignof(entry) : alignof(void*);
  struct alignas(node_alignment) node_space {
    std::byte value[sizeof(entry)];
    void* links[8];
  };
  // Boost.Heap has the greatest on top.
  struct leaves_after {
    [[no_unique_address]] Compare compare;
    bool operator()(const entry& a, const entry& b) const noexcept {
      if (compare(b.value, a.value)) return true;
      return a.since > b.since && !compare(a.value, b.value);
    }
  };
  using allocator = detail::pool_allocator<entry, sizeof(node_space), node_alignment>;
  using heap = boost::heap::binomial_heap<entry, boost::heap::compare<leaves_after>, boost::heap::allocator<allocator>>;

 public:
  using value_type = T;  ///< The type of the elements.

  /// Capacities; fixed at construction.
  struct limits {
    std::size_t capacity = 0;  ///< Most entries at once.
  };

  /// Names an entry from its `push` until it leaves. The null handle names none.
  class handle {
   public:
    handle() noexcept = default;
    /// False for the null handle. Does not say whether the entry is still there.
    [[nodiscard]] explicit operator bool() const noexcept { return set_; }

   private:
    friend class fixed_heap;
    explicit handle(typename heap::handle_type h) noexcept : inner_{h}, set_{true} {}
    typename heap::handle_type inner_{};
    bool set_ = false;
  };

  /// Bytes taken from an `arena`.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}.add<node_space>(l.capacity).bytes();
  }

  /// Takes `required_bytes(l)` from `memory`.
  fixed_heap(arena& memory, const limits& l, const Compare& compare = {}) noexcept
      : capacity_{l.capacity}, heap_{leaves_after{compare}} {
    node_space* const nodes = memory.take_uninitialised<node_space>(l.capacity);
    heap_.get_allocator().pool().add(reinterpret_cast<std::byte*>(nodes), sizeof(node_space), l.capacity);
  }

  fixed_heap(const fixed_heap&) = delete;
  fixed_heap& operator=(const fixed_heap&) = delete;

  /// How many there are. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return heap_.size(); }
  /// How many there is room for. O(1).
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Whether there is none. O(1).
  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
  /// Whether there is no room left. O(1).
  [[nodiscard]] bool full() const noexcept { return size() == capacity_; }

  /// The entry that leaves next. Requires `!empty()`.
  [[nodiscard]] const T& top() const noexcept {
    TESSERA_ASSERT(!empty(), "the heap is empty");
    return heap_.top().value;
  }

  /// Null if the heap is full; nothing has changed then. O(log n).
  [[nodiscard]] handle push(const T& value) noexcept {
    if (full()) return {};
    return handle{heap_.push(entry{value, calls_++})};
  }

  /// Requires `!empty()`. Invalidates the handle of the entry that was on top. O(log n log log n).
  void pop() noexcept {
    TESSERA_ASSERT(!empty(), "the heap is empty");
    heap_.pop();
  }

  /// The value of an entry. Requires: `h` names one of this heap.
  [[nodiscard]] const T& operator[](handle h) const noexcept {
    TESSERA_ASSERT(h.set_, "a null handle names no entry");
    return (*h.inner_).value;
  }

  /// Gives an entry another value. Requires: `h` names one of this heap. Its handle stays valid. O(log^2 n).
  void update(handle h, const T& value) noexcept {
    TESSERA_ASSERT(h.set_, "a null handle names no entry");
    heap_.update(h.inner_, entry{value, calls_++});
  }

  /// Requires: `h` names an entry of this heap. Invalidates it. O(log^2 n).
  void erase(handle h) noexcept {
    TESSERA_ASSERT(h.set_, "a null handle names no entry");
    heap_.erase(h.inner_);
  }

  /// Drops every entry and invalidates every handle. O(n).
  void clear() noexcept { heap_.clear(); }

 private:
  std::size_t capacity_;
  std::uint64_t calls_ = 0;  // Calls of push and update. At one a nanosecond it lasts 584 years.
  heap heap_;
};

TESSERA_NAMESPACE_END
