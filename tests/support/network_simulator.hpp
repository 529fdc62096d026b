// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// A bad network in simulated time: delays, duplicates, reorders, loses, and is partitioned. What happens depends on
/// the seed alone.

#include <cstddef>
#include <cstdint>
#include <queue>
#include <random>
#include <vector>

namespace tessera_test {

/// Random numbers that are the same with every standard library.
class seeded_random {
 public:
  explicit seeded_random(std::uint64_t seed) : engine_{seed} {}
  /// In [0, n).
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  /// In [0, 1).
  double unit() { return static_cast<double>(engine_() >> 11U) * 0x1p-53; }
  double between(double a, double b) { return a + (b - a) * unit(); }
  bool chance(double p) { return unit() < p; }

 private:
  std::mt19937_64 engine_;
};

/// How bad the network is.
struct network_faults {
  double loss = 0;        ///< Probability that a copy of a message is lost.
  double duplicate = 0;   ///< Probability that a message is sent once more, again and again.
  double straggle = 0;    ///< Probability that a copy takes up to `latest` instead of up to `late`.
  double early = 0.0005;  ///< Least delay, seconds.
  double late = 0.005;    ///< Usual greatest delay. Messages overtake each other within it.
  double latest = 2;
};

/// Messages on their way between nodes.
template <class Message>
class network_simulator {
 public:
  struct delivery {
    double at;
    std::uint64_t number;
    std::size_t to;
    Message message;
  };

  network_simulator(std::size_t nodes, const network_faults& f, std::uint64_t seed)
      : faults{f}, nodes_{nodes}, cut_(nodes * nodes, 0.0), random_{seed} {}

  void send(std::size_t from, std::size_t to, const Message& m, double now) {
    ++sent_;
    do {
      const bool cut = now < cut_[from * nodes_ + to];
      if (cut || random_.chance(faults.loss)) {
        ++lost_;
        continue;
      }
      const double most = random_.chance(faults.straggle) ? faults.latest : faults.late;
      on_their_way_.push({now + random_.between(faults.early, most), numbered_++, to, m});
    } while (random_.chance(faults.duplicate));
  }

  /// Nothing passes from `from` to `to` before `until`: partitions may be one-way.
  void cut(std::size_t from, std::size_t to, double until) { cut_[from * nodes_ + to] = until; }

  /// No more faults. What is on its way stays so.
  void heal() {
    faults = {};
    cut_.assign(cut_.size(), 0.0);
  }

  [[nodiscard]] bool empty() const { return on_their_way_.empty(); }
  /// When the next message arrives. Requires `!empty()`.
  [[nodiscard]] double next() const { return on_their_way_.top().at; }
  delivery pop() {
    const delivery d = on_their_way_.top();
    on_their_way_.pop();
    ++delivered_;
    return d;
  }

  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  [[nodiscard]] std::uint64_t delivered() const { return delivered_; }

  network_faults faults;

 private:
  struct later {
    bool operator()(const delivery& a, const delivery& b) const {
      return a.at != b.at ? a.at > b.at : a.number > b.number;
    }
  };

  std::size_t nodes_;
  std::vector<double> cut_;
  seeded_random random_;
  std::priority_queue<delivery, std::vector<delivery>, later> on_their_way_;
  std::uint64_t numbered_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t delivered_ = 0;
};

}  // namespace tessera_test
