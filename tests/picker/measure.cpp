// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What a decision costs. Not tests, and not run as such: picker_server_tests "[.measure]" prints numbers.

#include "gateway.hpp"
#include "stream.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace picker_test;
using clock = std::chrono::steady_clock;

void print(const std::string& what, std::vector<double> us) {
  std::sort(us.begin(), us.end());
  std::printf("%-48s p50 %8.2f us   p99 %8.2f us   (%zu)\n", what.c_str(), us[us.size() / 2], us[us.size() * 99 / 100],
              us.size());
  static_cast<void>(std::fflush(stdout));
}
double since(clock::time_point t) { return std::chrono::duration<double, std::micro>(clock::now() - t).count(); }

/// A chat of about `bytes` bytes.
std::string chat_of(std::size_t bytes) {
  std::string text = R"({"model":"m","stream":true,"max_tokens":256,"messages":[{"role":"user","content":")";
  while (text.size() < bytes) text += "the quick brown fox ";
  return text + "\"}]}";
}

}  // namespace

TEST_CASE("what a decision costs inside", "[.measure]") {
  using namespace endpoint_picker;
  for (const std::size_t n : {std::size_t{64}, std::size_t{1024}}) {
    const std::pair<const char*, bool> cases[] = {
        {"shortest-queue", false}, {"least-load", false},   {"phi", false},
        {"phi-time", false},       {"power-of-two", false}, {"least-load", true}};
    for (const auto& [policy, named] : cases) {  // named: all name a model, every other one another
      picker p{{.policy = policy, .endpoints = n, .requests = 4096}};
      endpoint_list list;
      for (std::size_t i = 0; i != n; ++i) {
        list.endpoints.push_back(
            {.where = "10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1) + ":80",
             .model = !named       ? ""
                      : i % 2 == 0 ? "m"
                                   : "meta-llama/Llama-3.1-8B-Instruct"});
      }
      p.list(list);
      const tessera::time_point now = tessera::time_point::at_seconds(1);
      std::uint64_t k = 0;
      for (const scrape_target& t : p.targets()) {
        p.reported(
            t, {.running = ++k % 37, .kv_usage = static_cast<double>(k % 83) / 100, .kv_tokens = 400'000, .started = 1},
            now);
      }
      std::vector<ticket> live;
      std::vector<double> picks;
      std::vector<double> wholes;
      const std::string body = chat_of(2000);
      const stream_limits limits;
      for (int i = 0; i != 30'000; ++i) {
        const auto t = clock::now();
        const decision d = p.pick({.model = "m", .text_bytes = 2000}, now);
        picks.push_back(since(t));
        live.push_back(d.place);
        if (live.size() > 2000) {
          p.release(live[static_cast<std::size_t>(i) % live.size()]);
          std::swap(live[static_cast<std::size_t>(i) % live.size()], live.back());
          live.pop_back();
        }
      }
      for (int i = 0; i != 5'000; ++i) {
        received h;
        h.what = part::request_headers;
        h.headers = {{"content-type", "application/json"}};
        received b;
        b.what = part::request_body;
        b.body = body;
        b.end_of_stream = true;
        const auto t = clock::now();
        stream<picker> s{p, limits, now};
        s.receive(std::move(h), now);
        s.receive(std::move(b), now);
        const auto out = s.next();
        wholes.push_back(since(t));
        REQUIRE(out);
      }
      print(std::to_string(n) + " endpoints, " + policy + (named ? ", by model" : "") + ", three choices", picks);
      print("   the same with a body of 2 kB, read", wholes);
    }
  }
}

TEST_CASE("what a decision costs over gRPC", "[.measure]") {
  std::vector<std::unique_ptr<fake_engine>> engines;
  std::vector<std::string> addresses;
  for (int i = 0; i != 8; ++i) {
    engines.push_back(std::make_unique<fake_engine>());
    addresses.push_back(engines.back()->where());
  }
  picker_process p{addresses};
  REQUIRE(soon([&] { return p.has_ready(8); }));
  const std::string body = chat_of(2000);
  const auto one = [&](std::vector<double>& all, std::vector<double>& decisions) {
    const auto t = clock::now();
    gateway_stream s{p};
    s.send_headers();
    const auto d = clock::now();
    s.send_body(body, true);
    if (!s.read()) return;
    decisions.push_back(since(d));
    all.push_back(since(t));
  };
  std::vector<double> all;
  std::vector<double> decisions;
  for (int i = 0; i != 200; ++i) one(all, decisions);
  all.clear();
  decisions.clear();
  for (int i = 0; i != 3000; ++i) one(all, decisions);
  print("one stream after the other: body to destination", decisions);
  print("   from opening the stream", all);
  std::vector<std::thread> threads;
  std::vector<std::vector<double>> each(16);
  std::vector<std::vector<double>> each_all(16);
  const auto begin = clock::now();
  for (std::size_t i = 0; i != 16; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k != 500; ++k) one(each_all[i], each[i]);
    });
  }
  for (std::thread& t : threads) t.join();
  const double seconds = since(begin) / 1e6;
  decisions.clear();
  for (const auto& e : each) decisions.insert(decisions.end(), e.begin(), e.end());
  print("16 clients: body to destination", decisions);
  std::printf("   %.0f requests a second, client and picker on one machine\n",
              static_cast<double>(decisions.size()) / seconds);

  REQUIRE(soon([&] { return p.empty(); }));
  const long before = p.resident_kb();
  std::vector<std::unique_ptr<gateway_stream>> held;
  for (int i = 0; i != 1000; ++i) {
    held.push_back(std::make_unique<gateway_stream>(p));
    held.back()->send_headers();
    held.back()->send_body(body, true);
    REQUIRE(held.back()->read());
  }
  std::printf("1,000 streams that wait for their engines: %ld kB more, %ld threads in all\n", p.resident_kb() - before,
              p.threads());
}
