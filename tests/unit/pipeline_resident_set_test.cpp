// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/order/fcfs.hpp>
#include <tessera/pipeline/resident_set.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

namespace {

using namespace tessera;

struct request : request_hook {};
using set = detail::resident_set<request, order::fcfs>;

}  // namespace

TEST_CASE("residents stay sorted, whatever comes and goes") {
  std::vector<std::byte> memory(set::required_bytes(64) + 64);
  arena a{memory};
  set residents{a, 64};
  std::deque<request> all(64);
  std::vector<request*> in, out;
  for (std::size_t i = 0; i != all.size(); ++i) {
    request_access::state(all[i]).sequence = i;
    all[i].priority = static_cast<int>(i % 3);
    out.push_back(&all[i]);
  }
  std::mt19937 random{3};
  for (int i = 0; i != 5000; ++i) {
    auto& from = random() % 2 == 0 ? in : out;
    if (from.empty()) continue;
    const auto at = from.begin() + static_cast<std::ptrdiff_t>(random() % from.size());
    request& r = **at;
    from.erase(at);
    CHECK(residents.contains(r) == (&from == &in));
    if (&from == &in) {
      residents.erase(r);
      out.push_back(&r);
    } else {
      residents.insert(r);
      in.push_back(&r);
    }
    std::sort(in.begin(), in.end(), [](const request* x, const request* y) { return order::fcfs::before(*x, *y); });
    REQUIRE(std::equal(in.begin(), in.end(), residents.all().begin(), residents.all().end()));
    if (!in.empty()) REQUIRE(residents[in.size() - 1] == in.back());
  }
  residents.truncate(0);
  CHECK(residents.size() == 0);
  CHECK_FALSE(residents.contains(all[0]));
}
