// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/order/fcfs.hpp>
#include <tessera/queue/fcfs.hpp>

#include "support/catch.hpp"

#include <vector>

namespace {

using namespace tessera;

struct request : request_hook {
  int id = 0;
};

std::vector<int> drain(fcfs_queue<request>& queue) {
  std::vector<int> ids;
  while (request* const r = queue.pop_front()) ids.push_back(r->id);
  return ids;
}

TEST_CASE("fcfs: order of arrival, the more urgent first", "[order][fcfs]") {
  std::vector<request> r(6);
  for (int i = 0; i != 6; ++i) r[static_cast<std::size_t>(i)].id = i;
  r[2].priority = 1;
  r[4].priority = 1;
  r[1].priority = -1;
  r[5].starts_in = phase::answering;
  fcfs_queue<request> queue;
  for (request& one : r) queue.push(one, time_point{});
  CHECK(drain(queue) == std::vector<int>{2, 4, 0, 3, 5, 1});
}

TEST_CASE("fcfs: none is ever due, and a phase change moves none", "[order][fcfs]") {
  request a;
  request b;
  fcfs_queue<request> queue;
  queue.push(a, time_point{});
  queue.push(b, time_point{});
  CHECK_FALSE(queue.charge(a, tokens{1'000'000}));
  queue.update(a, [&](request& r) {
    request_access::state(r).phase = phase::answering;
    queue.discipline().change_phase(r);
  });
  CHECK(queue.front() == &a);
}

TEST_CASE("fcfs: one that is put back stands where it stood", "[order][fcfs]") {
  std::vector<request> r(3);
  for (int i = 0; i != 3; ++i) r[static_cast<std::size_t>(i)].id = i;
  fcfs_queue<request> queue;
  for (request& one : r) queue.push(one, time_point{});
  request* const first = queue.pop_front();
  request* const second = queue.pop_front();
  queue.insert(*second);
  queue.insert(*first);
  CHECK(drain(queue) == std::vector<int>{0, 1, 2});
  queue.insert(r[1]);
  queue.push(r[0], time_point{});  // comes anew, so it comes last
  CHECK(drain(queue) == std::vector<int>{1, 0});
}

TEST_CASE("fcfs: only the more urgent displaces", "[order][fcfs]") {
  request waiting;
  request resident;
  request_access::state(resident).sequence = 1;
  CHECK(order::fcfs::before(waiting, resident));
  CHECK_FALSE(order::fcfs::displaces(waiting, resident));
  waiting.priority = 1;
  CHECK(order::fcfs::displaces(waiting, resident));
  CHECK_FALSE(order::fcfs::displaces(resident, waiting));
}

}  // namespace
