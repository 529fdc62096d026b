// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Requests for tests of order::earliest_due.

#include <tessera/order/earliest_due.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/queue/ordered_queue.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera_test::earliest_due_requests {

using namespace tessera;

struct request : request_hook_for<order::earliest_due<>> {
  token_pacer pacer{};
  tokens expected_output{};
};

using earliest_due = order::earliest_due<>;
using queue = ordered_queue<request, earliest_due>;

inline request::state_type& state(request& r) { return request_access::state(r); }
template <class R>
auto& place(R& r) {
  return request_access::order_state<earliest_due>(r);
}

/// A place on level 1, in seconds.
inline double seconds_of(std::uint64_t turn) {
  return static_cast<double>(static_cast<std::int64_t>(turn ^ (std::uint64_t{1} << 63U))) / 1e6;
}

/// What a container does with a request that joins it.
template <class Order, class R>
void join(Order& d, R& r, typename R::time_point now) {
  request_access::state(r).arrived = now;
  request_access::begin_order_state<Order>(r);
  d.enter(r, now);
}

inline time_point at(double s) { return time_point::at_seconds(s); }

/// The requests in the order in which the queue gives them out.
inline std::vector<std::size_t> served(queue& q, const std::vector<request>& all) {
  std::vector<std::size_t> out;
  for (; !q.empty(); q.pop_front()) out.push_back(static_cast<std::size_t>(q.front() - all.data()));
  return out;
}

}  // namespace tessera_test::earliest_due_requests
