// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/queue/heap.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

namespace {

using namespace tessera;

struct entry {
  int key;
  int id;
  friend bool operator==(const entry&, const entry&) = default;
};

/// Total, so that a sorted vector predicts everything.
struct by_key {
  bool operator()(const entry& a, const entry& b) const noexcept {
    return a.key != b.key ? a.key < b.key : a.id < b.id;
  }
};

template <class Heap>
struct sized {
  explicit sized(std::size_t capacity)
      : bytes(Heap::required_bytes({capacity}) + storage_alignment), memory{bytes}, heap{memory, {capacity}} {}
  std::vector<std::byte> bytes;
  arena memory;
  Heap heap;
};

TEST_CASE("fixed_heap: exhaustion is a value at n - 1, n, n + 1", "[queue][heap]") {
  for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{8}}) {
    sized<fixed_heap<int>> s{capacity};
    CHECK(s.heap.capacity() == capacity);
    CHECK(s.heap.empty());
    for (std::size_t i = 0; i != capacity; ++i) {
      CHECK_FALSE(s.heap.full());
      CHECK(s.heap.push(static_cast<int>(i)));
    }
    CHECK(s.heap.full());
    CHECK_FALSE(s.heap.push(-1));
    CHECK(s.heap.size() == capacity);
    if (capacity == 0) continue;
    CHECK(s.heap.top() == 0);
    s.heap.pop();
    CHECK(s.heap.push(-1));
    CHECK(s.heap.top() == -1);
    s.heap.clear();
    CHECK(s.heap.empty());
    for (std::size_t i = 0; i != capacity; ++i) CHECK(s.heap.push(3));
    CHECK_FALSE(s.heap.push(3));
  }
}

TEST_CASE("fixed_heap: a handle follows its entry", "[queue][heap]") {
  sized<fixed_heap<int>> s{3};
  const auto a = s.heap.push(5);
  const auto b = s.heap.push(6);
  const auto c = s.heap.push(7);
  CHECK(s.heap[a] == 5);
  s.heap.update(a, 8);
  CHECK(s.heap.top() == 6);
  CHECK(s.heap[a] == 8);
  s.heap.update(c, 1);
  CHECK(s.heap.top() == 1);
  s.heap.update(c, 1);
  CHECK(s.heap.top() == 1);
  s.heap.erase(c);
  s.heap.erase(b);
  CHECK(s.heap.top() == 8);
  CHECK(s.heap.size() == 1);
  CHECK_FALSE(fixed_heap<int>::handle{});
}

TEST_CASE("fixed_heap: the comparison may have a state", "[queue][heap]") {
  struct nearest {
    int to = 0;
    bool operator()(int a, int b) const noexcept { return (a - to) * (a - to) < (b - to) * (b - to); }
  };
  std::vector<std::byte> bytes(fixed_heap<int, nearest>::required_bytes({4}) + storage_alignment);
  arena memory{bytes};
  fixed_heap<int, nearest> heap{memory, {4}, nearest{10}};
  for (const int v : {1, 12, 9, 20}) CHECK(heap.push(v));
  std::vector<int> out;
  for (; !heap.empty(); heap.pop()) out.push_back(heap.top());
  CHECK(out == std::vector<int>{9, 12, 1, 20});
}

TEST_CASE("fixed_heap: as a sorted vector, over random operations, without the heap", "[queue][heap]") {
  using heap_type = fixed_heap<entry, by_key>;
  for (const unsigned seed : {1U, 2U, 3U, 4U}) {
    const std::size_t capacity = seed == 1 ? 3 : seed == 2 ? 33 : 700;
    sized<heap_type> s{capacity};
    std::vector<entry> slow;  // sorted
    std::vector<std::pair<int, heap_type::handle>> handles;
    slow.reserve(capacity + 1);
    handles.reserve(capacity + 1);
    std::mt19937 random{seed};
    int next_id = 0;
    bool agrees = true;
    tessera_test::no_allocation guard;
    for (int step = 0; step != 20'000; ++step) {
      const auto what = static_cast<unsigned>(random() % 100);
      const int key = static_cast<int>(random() % 50);
      if (what < (step / 4000 % 2 == 0 ? 55U : 25U)) {
        const entry e{key, next_id++};
        const auto h = s.heap.push(e);
        agrees = agrees && static_cast<bool>(h) == (slow.size() < capacity);
        if (h) {
          handles.emplace_back(e.id, h);
          slow.insert(std::upper_bound(slow.begin(), slow.end(), e, by_key{}), e);
        }
      } else if (!slow.empty()) {
        const std::size_t at = random() % handles.size();
        const auto [id, h] = handles[at];
        const auto found = std::find_if(slow.begin(), slow.end(), [id = id](const entry& e) { return e.id == id; });
        agrees = agrees && s.heap[h] == *found;
        if (what < 70) {
          slow.erase(found);
          const entry e{key, id};
          slow.insert(std::upper_bound(slow.begin(), slow.end(), e, by_key{}), e);
          s.heap.update(h, e);
        } else if (what < 85) {
          slow.erase(found);
          s.heap.erase(h);
          handles.erase(handles.begin() + static_cast<std::ptrdiff_t>(at));
        } else {
          const int top = slow.front().id;
          slow.erase(slow.begin());
          s.heap.pop();
          handles.erase(std::find_if(handles.begin(), handles.end(), [top](const auto& p) { return p.first == top; }));
        }
      }
      agrees = agrees && s.heap.size() == slow.size() && (slow.empty() || s.heap.top() == slow.front());
      if (!agrees) break;
    }
    const std::size_t allocations = guard.allocations();
    CHECK(allocations == 0);
    CHECK(agrees);
    for (const entry& e : slow) {
      agrees = agrees && s.heap.top() == e;
      s.heap.pop();
    }
    CHECK(agrees);
    CHECK(s.heap.empty());
  }
}

TEST_CASE("fixed_heap: equal entries leave as they came, over random operations, often full", "[queue][heap]") {
  struct by_key_alone {
    bool operator()(const entry& a, const entry& b) const noexcept { return a.key < b.key; }
  };
  using heap_type = fixed_heap<entry, by_key_alone>;
  struct held {
    entry value;
    heap_type::handle handle;
  };
  for (const std::size_t capacity : {std::size_t{1}, std::size_t{2}, std::size_t{8}, std::size_t{65}}) {
    sized<heap_type> s{capacity};
    std::set<entry, by_key> slow;  // An id is the step in which it was pushed or updated.
    std::vector<held> inside;
    std::mt19937 random{static_cast<unsigned>(capacity)};
    const auto drop = [&](std::size_t at) {
      slow.erase(inside[at].value);
      inside.erase(inside.begin() + static_cast<std::ptrdiff_t>(at));
    };
    std::size_t refused = 0;
    bool agrees = true;
    for (int step = 0; step != 20'000 && agrees; ++step) {
      const auto what = random() % 100;
      const entry e{static_cast<int>(random() % 4), step};
      if (what < 60) {
        const auto h = s.heap.push(e);
        agrees = static_cast<bool>(h) == (inside.size() != capacity);
        if (h) {
          slow.insert(e);
          inside.push_back({e, h});
        } else {
          ++refused;
        }
      } else if (what == 99 && step % 7 == 0) {
        s.heap.clear();
        slow.clear();
        inside.clear();
      } else if (!inside.empty()) {
        std::size_t at = random() % inside.size();
        if (what < 75) {
          s.heap.update(inside[at].handle, e);
          slow.erase(inside[at].value);
          slow.insert(e);
          inside[at].value = e;
        } else if (what < 87) {
          s.heap.erase(inside[at].handle);
          drop(at);
        } else {
          for (at = 0; inside[at].value != *slow.begin();) ++at;
          s.heap.pop();
          drop(at);
        }
      }
      agrees = agrees && s.heap.size() == slow.size() && s.heap.full() == (slow.size() == capacity) &&
               (slow.empty() || s.heap.top() == *slow.begin()) &&
               std::all_of(inside.begin(), inside.end(), [&](const held& h) { return s.heap[h.handle] == h.value; });
    }
    CHECK(agrees);
    CHECK(refused > 0);
    for (const entry& e : slow) {
      agrees = agrees && s.heap.top() == e;
      s.heap.pop();
    }
    CHECK(agrees);
    CHECK(s.heap.empty());
  }
}

TEST_CASE("fixed_heap: two heaps keep to their own memory, which is free when they are gone", "[queue][heap]") {
  using heap_type = fixed_heap<int>;
  std::vector<std::byte> bytes(heap_type::required_bytes({4}) + heap_type::required_bytes({8}) + storage_alignment);
  for (int round = 0; round != 3; ++round) {
    arena memory{bytes};
    heap_type a{memory, {4}};
    heap_type b{memory, {8}};
    for (int i = 0; i != 8; ++i) {
      CHECK(static_cast<bool>(a.push(i)) == (i < 4));
      CHECK(b.push(-i));
    }
    CHECK_FALSE(b.push(0));
    CHECK(a.top() == 0);
    CHECK(b.top() == -7);
    a.clear();
    for (int i = 0; i != 4; ++i) CHECK(a.push(i));
    CHECK_FALSE(a.push(4));
    // Both are destroyed full.
  }
}

TEST_CASE("fixed_heap: pushed in order, a large one is destroyed without deep recursion", "[queue][heap]") {
  sized<fixed_heap<std::int64_t>> s{200'000};
  for (std::int64_t i = 0; i != 200'000; ++i) static_cast<void>(s.heap.push(-i));
  CHECK(s.heap.top() == -199'999);
  s.heap.clear();
  CHECK(s.heap.empty());
}

}  // namespace
