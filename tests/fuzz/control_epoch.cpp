// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The control loop on any telemetry that is plausible: the bytes are workers and sequences, epoch after epoch. Whatever
// they say, actions keep the rules. Moves stay within their bounds and between decode workers. They strand or overfill
// no worker. No role changes twice within the cool-down.

#include <tessera/control/phasor.hpp>
#include <tessera/core/owned_storage.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

namespace {

using namespace tessera;
using namespace tessera::control;

void require(bool condition) {
  if (!condition) std::abort();
}

class reader {
 public:
  reader(const std::uint8_t* data, std::size_t size) : data_{data}, size_{size} {}
  [[nodiscard]] bool empty() const { return at_ >= size_; }
  std::uint8_t byte() { return empty() ? std::uint8_t{0} : data_[at_++]; }
  std::int64_t below(std::int64_t n) { return n <= 0 ? 0 : byte() % n; }
  double number() {
    switch (byte() % 8) {
      case 0: return std::numeric_limits<double>::infinity();
      case 1: return -std::numeric_limits<double>::infinity();
      case 2: {
        double x = 0;
        std::uint8_t raw[8];
        for (auto& b : raw) b = byte();
        std::memcpy(&x, raw, sizeof x);
        return x;
      }
      default: return static_cast<double>(byte()) / 64 - 2;
    }
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  reader in{data, size};
  const std::size_t n = static_cast<std::size_t>(in.below(9));
  const auto small = [&](std::int64_t most) { return static_cast<std::size_t>(in.below(most)); };
  control::phasor::limits limits{.workers = n, .defragment = {}};
  limits.defragment = {
      .moves = small(10), .sources = small(6), .targets = small(6), .pieces = small(5), .sequences = small(9)};
  control::phasor::settings settings{};
  settings.flow = {.theta = static_cast<double>(1 + in.below(100)) / 100,
                   .cooldown = static_cast<std::uint64_t>(in.below(12)),
                   .recall = in.below(3) != 0};
  settings.defragment.growth = blocks{in.below(3)};
  settings.defragment.fill = in.below(2) != 0;
  auto storage = storage_for<control::phasor>(limits);
  arena memory{storage.memory()};
  control::phasor phasor{memory, limits, settings};

  std::vector<worker> workers(n);
  std::vector<std::vector<sequence>> held(n);
  std::vector<std::int64_t> last(n, std::numeric_limits<std::int64_t>::min() / 2);
  for (std::int64_t epoch = 0; epoch == 0 || (n != 0 && !in.empty()); ++epoch) {
    for (std::size_t i = 0; i != n; ++i) {
      worker& w = workers[i];
      w.role = static_cast<role>(in.below(3));
      w.elastic = in.below(2) != 0;
      const std::int64_t odd = in.below(16);
      w.available = odd % 8 != 0;
      w.changing = odd == 9;
      w.queued = blocks{odd >= 13 ? in.below(80) : 0};
      w.time_phi = in.number();
      w.total = blocks{in.below(200)};
      w.demand = blocks{in.below(60)};
      held[i].clear();
      std::int64_t left = w.total.count();
      for (std::int64_t k = in.below(8); k != 0 && left > 0; --k) {
        const std::int64_t l = 1 + in.below(left);
        held[i].push_back({static_cast<std::uint64_t>(k), blocks{l}, bytes{1 + in.below(100)}});
        left -= l;
      }
      w.free = blocks{in.below(left + 1)};
      w.leaving = blocks{in.below(left - w.free.count() + 1)};
      w.sequences = held[i];
      w.sequences_held = held[i].size() + small(3);
    }
    const phasor_actions a = phasor.epoch(workers);
    if (a.change) {
      const std::size_t i = a.change->worker;
      require(i < n && a.change->from == workers[i].role && a.change->to != workers[i].role);
      require(workers[i].available && !workers[i].changing);
      require(epoch - last[i] >= static_cast<std::int64_t>(settings.flow.cooldown));
      last[i] = epoch;
    }
    require(a.moves.size() <= limits.defragment.moves);
    std::vector<worker> after = workers;
    std::set<std::size_t> from;
    std::set<std::size_t> to;
    for (const move& m : a.moves) {
      require(m.from < n && m.to < n && m.from != m.to);
      require(!a.change || (a.change->worker != m.from && a.change->worker != m.to));
      from.insert(m.from);
      to.insert(m.to);
      after[m.from].leaving += m.held;
      after[m.to].free -= m.held;
    }
    blocks before_all{};
    blocks after_all{};
    for (std::size_t i = 0; i != n; ++i) {
      if (workers[i].role != role::decode || !workers[i].available || workers[i].changing) {
        require(from.count(i) == 0 && to.count(i) == 0);
        continue;
      }
      before_all += stranded(workers[i]);
      after_all += stranded(after[i]);
      require(from.count(i) == 0 || (to.count(i) == 0 && stranded(after[i]) == blocks{}));
      if (to.count(i) == 0) continue;
      require(after[i].free >= after[i].queued);
      require(settled_free(workers[i]) < workers[i].demand || stranded(after[i]) == blocks{});
    }
    require(before_all - after_all == phasor.defragment().freed());
    require(a.moves.empty() || after_all < before_all);
  }
  return 0;
}
