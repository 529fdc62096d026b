// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "device_case.hpp"
#include "device_memory.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

// Streams, events and graphs of the emulated device.

namespace {

using namespace cuda_decode;
using cuda_decode_test::read;
using cuda_decode_test::scheduled;
using cuda_decode_test::write;
namespace emulation = device::emulation;

// Streams

__global__ void set(int* to, int value) { *to = value; }
__global__ void increment(int* x) { ++*x; }

TEST_CASE("streams work late, at once or at random") {
  device::pinned<int> out(1);
  const auto early = [&](emulation::schedule order, std::uint64_t seed) {
    const scheduled now{order, seed};
    device::stream s;
    const device::buffer<int> x(1);
    out[0] = 0;
    device::launch(s, set, 1, 1, x.data(), 7);
    device::copy(s, out.data(), x.data(), sizeof(int));
    const int before = out[0];
    s.synchronize();
    CHECK(out[0] == 7);
    return before == 7;
  };
  CHECK_FALSE(early(emulation::lazy, 1));
  CHECK(early(emulation::eager, 1));
  std::set<bool> seen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) seen.insert(early(emulation::random, seed));
  CHECK(seen.size() == 2);
  CHECK(early(emulation::random, 3) == early(emulation::random, 3));
}

// One stream produces, another one consumes.
int consumed(emulation::schedule order, std::uint64_t seed, bool waits) {
  const scheduled now{order, seed};
  device::stream producer;
  device::stream consumer;
  const auto x = write(producer, std::vector<int>{1});
  device::pinned<int> out(1);
  device::event ready;
  device::launch(producer, set, 1, 1, x.data(), 2);
  ready.record(producer);
  if (waits) consumer.wait(ready);
  device::copy(consumer, out.data(), x.data(), sizeof(int));
  consumer.synchronize();
  return out[0];
}

TEST_CASE("a stream that does not wait for an event shows it") {
  CHECK(consumed(emulation::lazy, 1, false) == 1);
  CHECK(consumed(emulation::lazy, 1, true) == 2);
  CHECK(consumed(emulation::eager, 1, true) == 2);
  std::set<int> seen;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    seen.insert(consumed(emulation::random, seed, false));
    CHECK(consumed(emulation::random, seed, true) == 2);
  }
  CHECK(seen == std::set<int>{1, 2});
}

TEST_CASE("an event stands for what it recorded last when it was waited for") {
  device::stream a;
  device::stream b;
  const auto x = write(a, std::vector<int>{0});
  device::pinned<int> out(1);
  device::event e;
  device::launch(a, increment, 1, 1, x.data());
  e.record(a);
  b.wait(e);
  device::launch(a, increment, 1, 1, x.data());
  e.record(a);
  device::copy(b, out.data(), x.data(), sizeof(int));
  b.synchronize();
  CHECK(out[0] == 1);
  e.synchronize();
  CHECK(read(b, x)[0] == 2);
}

TEST_CASE("pinned memory that is overwritten too early shows it") {
  const auto uploaded = [](bool waits) {
    device::stream s;
    device::pinned<int> staging(1);
    const device::buffer<int> x(2);
    staging[0] = 1;
    device::copy(s, x.data(), staging.data(), sizeof(int));
    if (waits) s.synchronize();
    staging[0] = 2;
    device::copy(s, x.data() + 1, staging.data(), sizeof(int));
    return read(s, x);
  };
  CHECK(uploaded(true) == std::vector<int>{1, 2});
  CHECK(uploaded(false) == std::vector<int>{2, 2});
}

TEST_CASE("memory that is freed waits for its work, and arguments were copied") {
  device::pinned<int> out(1);
  device::stream s;
  {
    const device::buffer<int> x(1);
    int value = 5;
    device::launch(s, set, 1, 1, x.data(), value);
    value = 6;
    device::copy(s, out.data(), x.data(), sizeof(int));
  }
  CHECK(out[0] == 5);
  const auto free = device::query().free_bytes;
  device::buffer<char> x(1000);
  CHECK(device::query().free_bytes == free - 1000);
  x = device::buffer<char>{};
  CHECK(device::query().free_bytes == free);
}

TEST_CASE("work in a stream's order, of the host as well") {
  device::stream s;
  std::vector<int> seen;
  const device::buffer<int> x(2);
  device::launch(s, set, 1, 1, x.data(), 3);
  device::enqueue(s, [&, p = x.data()](auto) { seen.push_back(p[0]); });
  device::launch(s, increment, 1, 1, x.data());
  device::enqueue(s, [&, p = x.data()](auto) { seen.push_back(p[0]); });
  device::clear(s, x.data(), sizeof(int));
  CHECK(seen.empty());
  CHECK(read(s, x) == std::vector<int>{0, -1});
  CHECK(seen == std::vector<int>{3, 4});
}

TEST_CASE("events know the time") {
  device::stream s;
  device::event a;
  device::event b;
  a.record(s);
  device::enqueue(s, [](auto) { std::this_thread::sleep_for(std::chrono::milliseconds{20}); });
  b.record(s);
  b.synchronize();
  CHECK(device::seconds_between(a, b) >= 0.02);
  CHECK(device::seconds_between(a, b) < 10);
  CHECK(device::seconds_between(b, a) == -device::seconds_between(a, b));
}

TEST_CASE("a graph repeats what was enqueued, with the arguments of then and the memory of now") {
  for (const auto order : {emulation::lazy, emulation::eager, emulation::random}) {
    const scheduled now{order};
    device::stream s;
    device::pinned<int> source(1);
    const auto x = write(s, std::vector<int>{0});
    const auto y = write(s, std::vector<int>{0});
    int value = 10;
    auto g = device::graph::capture(s, [&] {
      device::copy(s, x.data(), source.data(), sizeof(int));
      device::launch(s, increment, 1, 1, x.data());
      device::launch(s, set, 1, 1, y.data(), value);
    });
    CHECK(static_cast<bool>(g));
    CHECK_FALSE(static_cast<bool>(device::graph{}));
    CHECK(read(s, y)[0] == 0);  // not done yet
    value = 20;
    for (int i = 0; i < 3; ++i) {
      source[0] = i * 100;
      device::clear(s, y.data(), sizeof(int));
      g.launch(s);
      CHECK(read(s, x)[0] == i * 100 + 1);
      CHECK(read(s, y)[0] == 10);
    }
    g.launch(s);
    g = device::graph{};  // the work goes on
    s.synchronize();
  }
}

}  // namespace
