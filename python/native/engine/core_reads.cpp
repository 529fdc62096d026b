// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "core.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

/// @file
/// What is read of `core` between steps: numbers of the memory, of a request, and which requests are resident.

namespace tessera_python {

double core::usage() const {
  // As vLLM computes it, to the last bit.
  const auto all = static_cast<double>(settings_.limits.blocks);
  return 1.0 - (all - static_cast<double>(planner_->held().count())) / all;
}

/// Requests with a place in the runner when the latest plan has been run, at most.
std::size_t core::placed() const {
  std::size_t n = planner_->residents().size() + standing_.size();
  if (!open_) return n;
  n -= plan_.preempted.size();
  for (std::size_t i = 0; i != plan_.size(); ++i) n += plan_[i].origin != ts::entry_origin::going_on ? 1 : 0;
  return n;
}

std::string core::why(std::uint32_t slot) const { return ts::to_string(planner_->why(at(slot))); }

bool core::decodes() const {
  const auto samples = [](const ts::scheduled<request>& e) { return e.samples && !e.request->dead; };
  for (std::size_t i = 0; open_ && i != plan_.size(); ++i) {
    if (samples(plan_[i])) return true;
  }
  const auto residents = planner_->residents();
  return std::any_of(residents.begin(), residents.end(),
                     [](const request* r) { return !r->dead && !computes_prompt(*r); });
}

std::int64_t core::computed(std::uint32_t slot) const {
  const request& r = at(slot);
  for (std::size_t i = 0; open_ && i != plan_.size(); ++i) {
    const ts::scheduled<request>& e = plan_[i];
    if (e.request == &r) return (e.first + e.count + e.lookahead).count();
  }
  for (std::size_t i = 0; open_ && i != plan_.preempted.size(); ++i) {
    if (plan_.preempted[i].request == &r) return 0;
  }
  return r.state().computed.count();
}

nb::list core::residents() const {
  nb::list all;
  std::set<const request*> lost;
  if (open_) {
    for (const ts::preemption<request>& p : plan_.preempted) lost.insert(p.request);
  }
  const auto add = [&](const request& r) {
    if (!r.dead && lost.count(&r) == 0) all.append(nb::borrow(r.object));
  };
  for (const request* r : planner_->residents()) add(*r);
  for (std::size_t i = 0; open_ && i != plan_.size(); ++i) {
    if (plan_[i].origin != ts::entry_origin::going_on) add(*plan_[i].request);
  }
  return all;
}

nb::object core::blocks_of(std::uint32_t slot) const {
  const request& r = at(slot);
  if (r.state().row != ts::no_index) return ids_of(r.state().row, 0, true);
  nb::list none;
  for (std::size_t t = 0; t != tables_.size(); ++t) none.append(nb::list());
  return nb::tuple(none);
}

}  // namespace tessera_python
