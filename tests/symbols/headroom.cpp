// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Phasor's signal, its routing and its control loop, construction included.

#include <tessera/control/phasor.hpp>
#include <tessera/headroom/calibration.hpp>
#include <tessera/headroom/reference_demand.hpp>
#include <tessera/placement/phasor_router.hpp>

using namespace tessera;

struct view {
  double phi;
  std::size_t requests;
};

std::size_t use_router(arena& memory, std::size_t n, tokens prompt, std::span<const view> views) noexcept {
  placement::phasor_router router{memory, {.workers = n}};
  router.open(0, {.cost = headroom::phasor_printed_cost, .budget = {.peak_flops = 1e12, .ttft = 1_s}});
  const std::size_t w = router.route(prompt);
  router.advance(w, tokens{}, prompt);
  router.leave(w, prompt, prompt);
  router.close(w);
  return w + router.requests(0) + static_cast<std::size_t>(router.phi(0)) + placement::highest_phi{}(views);
}

double use_headroom(arena& memory, std::span<const headroom::prefill_sample> rows, tokens prompt,
                    const kv::memory_use& use) noexcept {
  headroom::reference_demand demand{memory, {.window = 100}};
  demand.observe(prompt);
  const headroom::calibration fit = headroom::calibrate(rows, 1e12);
  headroom::prefill_load load;
  load.join(prompt);
  return headroom::time_freeness(load, fit.cost, {.peak_flops = 1e12, .ttft = 1_s}) +
         headroom::space_freeness(use, kv::stranded_below{demand.value()}) +
         headroom::space_freeness(use, headroom::stranded_by_blocked_demand{blocks{5}, blocks{9}});
}

std::size_t use_control(arena& memory, std::span<const control::worker> workers) noexcept {
  control::phasor phasor{memory, {.workers = workers.size()}};
  const control::phasor_actions a = phasor.epoch(workers);
  return a.moves.size() + (a.change ? a.change->worker : 0) + phasor.flow().cooling(0) +
         static_cast<std::size_t>(phasor.defragment().freed().count());
}
