// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/queue/fcfs.hpp>
#include <tessera/queue/heap.hpp>
#include <tessera/queue/round_robin.hpp>

#include "support/death.hpp"

#include <cstddef>

namespace {

using namespace tessera;

struct request : request_hook_for<order::round_robin> {};

struct two {
  request queued;
  request loose;
  round_robin_queue<request> queue;
  two() { queue.push(queued, time_point{}); }
};

struct small_heap {
  alignas(storage_alignment) std::byte bytes[fixed_heap<int>::required_bytes({2})];
  arena memory{bytes};
  fixed_heap<int> heap{memory, {2}};
};

TESSERA_DEATH_CASE(queue_push_twice, "already queued") {
  two t;
  t.queue.push(t.queued, time_point{});
}

TESSERA_DEATH_CASE(queue_push_into_two_queues, "already queued") {
  two t;
  fcfs_queue<request> other;
  other.push(t.queued, time_point{});
}

TESSERA_DEATH_CASE(queue_insert_twice, "already queued") {
  two t;
  t.queue.insert(t.queued);
}

TESSERA_DEATH_CASE(queue_erase_unqueued, "not queued here") {
  two t;
  t.queue.erase(t.loose);
}

TESSERA_DEATH_CASE(queue_erase_from_another_queue, "not queued here") {
  two t;
  round_robin_queue<request> other;
  other.erase(t.queued);
}

TESSERA_DEATH_CASE(queue_update_unqueued, "not queued here") {
  two t;
  t.queue.update(t.loose, [](request&) {});
}

TESSERA_DEATH_CASE(queue_charge_unqueued, "not queued") {
  two t;
  t.queue.charge(t.loose, tokens{1});
}

TESSERA_DEATH_CASE(queue_next_of_unqueued, "not queued") {
  two t;
  static_cast<void>(t.queue.next(t.loose));
}

TESSERA_DEATH_CASE(heap_top_of_empty, "the heap is empty") {
  small_heap s;
  static_cast<void>(s.heap.top());
}

TESSERA_DEATH_CASE(heap_pop_of_empty, "the heap is empty") {
  small_heap s;
  s.heap.pop();
}

TESSERA_DEATH_CASE(heap_read_null_handle, "null handle") {
  small_heap s;
  static_cast<void>(s.heap[{}]);
}

TESSERA_DEATH_CASE(heap_update_null_handle, "null handle") {
  small_heap s;
  s.heap.update({}, 1);
}

TESSERA_DEATH_CASE(heap_erase_null_handle, "null handle") {
  small_heap s;
  s.heap.erase({});
}

TESSERA_DEATH_CASE(heap_storage_too_small, "smaller than required_bytes") {
  alignas(storage_alignment) static std::byte bytes[fixed_heap<int>::required_bytes({2})];
  arena memory{bytes};
  const fixed_heap<int> heap{memory, {3}};
  static_cast<void>(heap.size());
}

}  // namespace
