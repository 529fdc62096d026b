// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Everything that the queues offer, in each discipline.

#include <tessera/queue/fcfs.hpp>
#include <tessera/queue/heap.hpp>
#include <tessera/queue/ranked.hpp>
#include <tessera/queue/round_robin.hpp>
#include <tessera/queue/two_phase.hpp>

using namespace tessera;

struct request : request_hook_for<order::round_robin, order::two_phase, order::ranked<>> {
  float score = 0;
};

namespace {

template <class Queue>
std::size_t use(Queue& q, request& a, request& b, time_point now) noexcept {
  q.push(a, now);
  q.push(b, now);
  q.erase(b);
  q.insert(b);
  std::size_t done = q.size();
  if (q.contains(a)) ++done;
  if (q.charge(a, tokens{600})) ++done;
  q.update(b, [](request& r) noexcept { r.priority = 3; });
  q.advance(now);
  for (request* r = q.front(); r != nullptr; r = q.next(*r)) ++done;
  const Queue& view = q;
  view.for_each([&done](const request&) noexcept { ++done; });
  for (const bool is : {q.back() == &b, view.back() == &b, view.front() == &a}) done += is ? 1U : 0U;
  while (!q.empty()) q.pop_front();
  return done;
}

}  // namespace

std::size_t use_fcfs(fcfs_queue<request>& q, request& a, request& b, time_point now) noexcept {
  return use(q, a, b, now);
}
std::size_t use_round_robin(round_robin_queue<request>& q, request& a, request& b, time_point now) noexcept {
  return use(q, a, b, now);
}
std::size_t use_two_phase(two_phase_queue<request>& q, request& a, request& b, time_point now) noexcept {
  return use(q, a, b, now);
}
std::size_t use_ranked(ranked_queue<request>& q, request& a, request& b, time_point now) noexcept {
  return use(q, a, b, now);
}

std::size_t use_heap(arena& memory, std::size_t n) noexcept {
  fixed_heap<std::uint64_t> heap{memory, {n}};
  const auto first = heap.push(3);
  const auto second = heap.push(5);
  heap.update(first, 7);
  std::size_t done = heap[first] + heap.top() + heap.size() + heap.capacity() + heap.full();
  heap.erase(second);
  heap.pop();
  heap.clear();
  return done + heap.empty();
}
