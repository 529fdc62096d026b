// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// One HTTP request and its answer through the endpoint picker's protocol, without gRPC.

#include "stream.hpp"

#include "support/catch.hpp"
#include "support/is_slow.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace endpoint_picker;
using tessera::time_point;

time_point at(double s) { return time_point::at_seconds(s); }

/// A picker with two idle endpoints, and one stream.
struct fixture {
  explicit fixture(const stream_limits& l = {}, const picker_settings& s = {}) : limits{l}, book{s} {
    book.list(read_endpoints("f", R"({"endpoints": [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}],
                                      "objectives": {"batch": -1}})",
                             9));
    report({.kv_tokens = 16'000, .started = 1});
    one.emplace(book, limits, at(0));
  }
  void report(const engine_metrics& m) {
    for (const scrape_target& t : book.targets()) book.reported(t, m, at(0));
  }
  std::vector<sent> say(received m, double now = 0) {
    one->receive(std::move(m), at(now));
    return heard();
  }
  std::vector<sent> heard() {
    std::vector<sent> all;
    while (auto s = one->next()) all.push_back(std::move(*s));
    return all;
  }
  /// The one answer of the picker's own; 0 if there is none.
  int status_of(const std::vector<sent>& all) const {
    if (all.size() != 1 || all[0].what != part::none) return 0;
    CHECK(one->over());
    CHECK(one->over()->status == grpc_status::ok);
    CHECK(nlohmann::json::parse(all[0].body)["error"]["code"] == all[0].status);
    return all[0].status;
  }

  stream_limits limits;
  picker book;
  std::optional<stream<picker>> one;
};

received headers(bool end = false) {
  received m;
  m.what = part::request_headers;
  m.headers = {{":method", "POST"}, {":path", "/v1/completions"}, {"content-type", "application/json"}};
  m.end_of_stream = end;
  return m;
}
received body(std::string text, bool end) {
  received m;
  m.what = part::request_body;
  m.body = std::move(text);
  m.end_of_stream = end;
  return m;
}
received trailers() {
  received m;
  m.what = part::request_trailers;
  return m;
}
received response_headers(bool end = false) {
  received m;
  m.what = part::response_headers;
  m.headers = {{":status", "200"}};
  m.end_of_stream = end;
  return m;
}
received response_body(std::string text, bool end) {
  received m;
  m.what = part::response_body;
  m.body = std::move(text);
  m.end_of_stream = end;
  return m;
}
received response_trailers() {
  received m;
  m.what = part::response_trailers;
  return m;
}

const std::string ask = R"({"model":"m","prompt":"0123456789abcdef0123456789abcdef","max_tokens":4})";

}  // namespace

TEST_CASE("a request goes out as it came, with its destination before it, and the book follows its answer") {
  fixture f;
  CHECK(f.say(headers()).empty());
  CHECK(f.say(body(ask.substr(0, 20), false)).empty());
  CHECK(f.book.buffered() == 20);
  const auto out = f.say(body(ask.substr(20), true));
  REQUIRE(out.size() == 2);
  CHECK(out[0].what == part::request_headers);
  CHECK(out[0].destination == "10.0.0.1:80,10.0.0.2:80");
  CHECK(out[1].what == part::request_body);
  CHECK(out[1].body == ask);
  CHECK(out[1].end_of_stream);
  CHECK(f.book.size() == 1);
  CHECK(f.book.buffered() == 0);
  CHECK(f.book.state()["endpoints"][0]["waiting_blocks"] == 1);

  const auto answered = f.say(response_headers());
  REQUIRE(answered.size() == 1);
  CHECK(answered[0].what == part::response_headers);
  const auto first = f.say(response_body("data: {\"choices\":[]}\n\n", false));
  REQUIRE(first.size() == 1);
  CHECK(first[0].what == part::response_body);
  CHECK(first[0].body == "data: {\"choices\":[]}\n\n");
  CHECK_FALSE(first[0].end_of_stream);
  CHECK(f.book.state()["endpoints"][0]["waiting_blocks"] == 0);
  CHECK(f.book.state()["endpoints"][0]["kv_held"] == 1);
  f.say(response_body("data: {\"usage\":{\"completion_tokens\":100}}\n\n", false));
  CHECK(f.book.state()["endpoints"][0]["kv_held"] == 7);  // 8 and 100 tokens
  const auto last = f.say(response_body("", true));
  REQUIRE(last.size() == 1);
  CHECK(last[0].end_of_stream);
  CHECK(f.book.size() == 0);
  CHECK_FALSE(f.one->over());
  f.one->closed();
  CHECK(f.one->over()->status == grpc_status::ok);
}

TEST_CASE("what follows the end of reasoning in one piece of a body is of the answer") {
  struct hears : picker {
    using picker::picker;
    void progress(const ticket& t, std::uint64_t n, time_point now) {
      told.push_back(std::to_string(n));
      picker::progress(t, n, now);
    }
    void answers(const ticket& t, time_point now) {
      told.push_back("answers");
      picker::answers(t, now);
    }
    std::vector<std::string> told;
  };
  hears book{picker_settings{.policy = "pascal", .reasons = true}};
  book.list(read_endpoints("f", R"({"endpoints": [{"address": "10.0.0.1:80", "kv_tokens": 16000}]})", 9));
  for (const scrape_target& t : book.targets()) book.reported(t, {.kv_tokens = 16'000, .started = 1}, at(0));
  const stream_limits limits;
  stream<hears> one{book, limits, at(0)};
  const auto say = [&](received m) {
    one.receive(std::move(m), at(0));
    while (one.next()) {
    }
  };
  say(headers());
  say(body(ask, true));
  say(response_headers());
  const std::string thinks = "data: {\"choices\":[{\"delta\":{\"reasoning\":\"a\"}}]}\n\n";
  const std::string answers = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
  say(response_body(thinks + thinks, false));
  say(response_body(thinks + answers + answers, false));
  say(response_body(answers, true));
  CHECK(book.told == std::vector<std::string>{"2", "3", "answers", "5", "6"});
}

TEST_CASE("a body goes back in pieces, and the last one says so") {
  fixture f{{.piece = 10}};
  f.say(headers());
  const auto out = f.say(body(ask, true));
  REQUIRE(out.size() == 1 + (ask.size() + 9) / 10);
  std::string all;
  for (std::size_t i = 1; i != out.size(); ++i) {
    CHECK(out[i].what == part::request_body);
    CHECK(out[i].body.size() <= 10);
    CHECK(out[i].end_of_stream == (i + 1 == out.size()));
    all += out[i].body;
  }
  CHECK(all == ask);
}

TEST_CASE("where a request has trailers, they end it") {
  fixture f;
  f.say(headers());
  CHECK(f.say(body(ask, false)).empty());
  const auto out = f.say(trailers());
  REQUIRE(out.size() == 3);
  CHECK(out[0].what == part::request_headers);
  CHECK(out[1].what == part::request_body);
  CHECK_FALSE(out[1].end_of_stream);
  CHECK(out[2].what == part::request_trailers);
  REQUIRE(f.say(response_headers()).size() == 1);
  REQUIRE(f.say(response_body("x", false)).size() == 1);
  const auto end = f.say(response_trailers());
  REQUIRE(end.size() == 1);
  CHECK(end[0].what == part::response_trailers);
  CHECK(f.book.size() == 0);
}

TEST_CASE("a request without a body goes anywhere; so does one that is no JSON") {
  fixture f;
  const auto out = f.say(headers(true));
  REQUIRE(out.size() == 1);
  CHECK(out[0].what == part::request_headers);
  CHECK_FALSE(out[0].destination.empty());
  f.say(response_headers(true));
  CHECK(f.book.size() == 0);

  fixture g;
  received upload = headers();
  upload.headers[2].second = "multipart/form-data";
  g.say(std::move(upload));
  CHECK(g.say(body("not json", true)).size() == 2);
}

TEST_CASE("what is no JSON is 400") {
  for (const char* bad : {"{\"prompt\": \"x\"", "[]", "", "hello"}) {
    INFO(bad);
    fixture f;
    f.say(headers());
    CHECK(f.status_of(f.say(body(bad, true))) == 400);
    CHECK(f.book.size() == 0);
    CHECK(f.book.buffered() == 0);
  }
}

TEST_CASE("what is too large is 413 or 431, as soon as that is seen") {
  {
    fixture f{{.body = 50}};
    received h = headers();
    h.headers.emplace_back("content-length", "51");
    CHECK(f.status_of(f.say(std::move(h))) == 413);
  }
  {
    fixture f{{.body = 50}};
    f.say(headers());
    CHECK(f.say(body(std::string(50, ' '), false)).empty());
    CHECK(f.status_of(f.say(body(" ", false))) == 413);
    CHECK(f.book.buffered() == 0);
  }
  {
    fixture f{{.headers = 100}};
    received h = headers();
    h.headers.emplace_back("x", std::string(100, 'x'));
    CHECK(f.status_of(f.say(std::move(h))) == 431);
  }
  {
    fixture f{{.headers = 100}};
    f.say(headers());
    received t = trailers();
    t.headers.emplace_back("x", std::string(101, 'x'));
    CHECK(f.status_of(f.say(std::move(t))) == 431);
  }
  {
    fixture f{{}, {.buffered = 30}};
    f.say(headers());
    f.say(body(std::string(30, ' '), false));
    CHECK(f.status_of(f.say(body(" ", false))) == 503);
    CHECK(f.book.buffered() == 0);
  }
}

TEST_CASE("no ready endpoint is 503, a subset without one too; what may be shed is 429") {
  {
    fixture f;
    f.book.list({});
    f.say(headers());
    CHECK(f.status_of(f.say(body(ask, true))) == 503);
  }
  {
    fixture f;
    received h = headers();
    h.subset.emplace();
    f.say(std::move(h));
    CHECK(f.status_of(f.say(body(ask, true))) == 503);
  }
  {
    fixture f;
    received h = headers();
    h.subset = {"10.0.0.2:80"};
    f.say(std::move(h));
    CHECK(f.say(body(ask, true))[0].destination == "10.0.0.2:80");
  }
  {
    fixture f;
    f.report({.waiting = 9, .kv_tokens = 16'000, .started = 1});
    received h = headers();
    h.headers.emplace_back(objective_key, "batch");
    f.say(std::move(h));
    CHECK(f.status_of(f.say(body(ask, true))) == 429);
  }
}

TEST_CASE("a subset is held like a body, until the request is placed") {
  fixture f{{}, {.buffered = 1000}};
  received h = headers();
  h.subset = {"10.0.0.2:80"};
  f.say(std::move(h));
  const std::size_t held = f.book.buffered();
  CHECK(held > 10);
  for (int i = 0; i != 100; ++i) {  // some say it with each part of a body
    received part = body("", false);
    part.subset = {"10.0.0.2:80"};
    f.say(std::move(part));
  }
  CHECK(f.book.buffered() == held);
  CHECK(f.say(body(ask, true)).size() == 2);
  CHECK(f.book.buffered() == 0);

  fixture g{{}, {.buffered = 1000}};
  received get = headers(true);
  get.subset = {"10.0.0.2:80"};
  CHECK(g.say(std::move(get)).size() == 1);
  CHECK(g.book.buffered() == 0);

  fixture large{{}, {.buffered = 1000}};
  received many = headers();
  many.subset.emplace(100, "10.0.0.2:80");
  CHECK(large.status_of(large.say(std::move(many))) == 503);
  CHECK(large.book.buffered() == 0);
}

TEST_CASE("what is not in its place ends the stream") {
  const std::vector<std::vector<received>> wrong{
      {body(ask, true)},
      {trailers()},
      {response_headers()},
      {headers(), headers()},
      {headers(), response_headers()},
      {headers(), body(ask, true), body("x", true)},
      {headers(), body(ask, true), response_body("x", true)},
      {headers(), body(ask, true), trailers()},
      {headers(), body(ask, true), response_headers(), response_headers()},
      {headers(), body(ask, true), response_headers(true), response_body("x", true)},
      {received{}},
  };
  for (const auto& messages : wrong) {
    fixture f;
    for (const received& m : messages) {
      REQUIRE_FALSE(f.one->over());
      f.say(m);
    }
    REQUIRE(f.one->over());
    CHECK(f.one->over()->status == grpc_status::invalid_argument);
    CHECK(f.book.size() == 0);
    CHECK(f.say(headers()).empty());  // and nothing comes after it
  }
  fixture f;
  received h = headers();
  h.unsuitable = true;
  f.say(std::move(h));
  CHECK(f.one->over()->status == grpc_status::invalid_argument);
}

TEST_CASE("silence ends a stream, each in its way") {
  const stream_limits l{.request_silence = tessera::duration{10.0}, .request_time = tessera::duration{60.0}};
  {
    fixture f{l};
    f.one->tick(at(9.9));
    CHECK_FALSE(f.one->over());
    f.one->tick(at(10));
    CHECK(f.one->over()->status == grpc_status::deadline_exceeded);
  }
  {
    fixture f{l};
    f.say(headers());
    f.say(body("x", false), 5);
    f.one->tick(at(14));
    CHECK(f.heard().empty());
    f.one->tick(at(15));
    CHECK(f.status_of(f.heard()) == 408);
  }
  {
    fixture f{l};  // a byte now and then, for ever
    f.say(headers());
    for (int s = 1; s != 60; ++s) {
      f.say(body("x", false), s);
      f.one->tick(at(s));
      REQUIRE_FALSE(f.one->over());
    }
    f.one->tick(at(60));
    CHECK(f.status_of(f.heard()) == 408);
    CHECK(f.book.buffered() == 0);
  }
  {
    fixture f{l};  // the engine takes its time: then it goes on without us
    f.say(headers());
    f.say(body(ask, true));
    f.one->tick(at(599));
    CHECK(f.book.size() == 1);
    f.one->tick(at(600));
    CHECK(f.one->over()->status == grpc_status::ok);
    CHECK(f.book.size() == 0);
  }
  {
    fixture f{l};
    f.say(headers());
    f.say(body(ask, true));
    f.say(response_headers(), 500);
    f.one->tick(at(1000));
    CHECK_FALSE(f.one->over());
    f.one->tick(at(1100));
    CHECK(f.one->over()->status == grpc_status::deadline_exceeded);
    CHECK(f.book.size() == 0);
  }
}

TEST_CASE("an answer without end costs what one message costs") {
  fixture f;
  f.say(headers());
  f.say(body(ask, true));
  f.say(response_headers());
  std::uint64_t bytes = 0;
  for (int i = 0; i != 20'000; ++i) {
    for (const sent& s : f.say(response_body(std::string(997, 'x'), false))) bytes += s.body.size();
    REQUIRE(f.book.buffered() == 0);
  }
  CHECK(bytes == 20'000ULL * 997);
  CHECK(f.book.size() == 1);
}

TEST_CASE("the request is where it was served") {
  fixture f;
  f.say(headers());
  f.say(body(ask, true));
  received r = response_headers();
  r.served = "10.0.0.2:80";
  f.say(std::move(r));
  CHECK(f.book.state()["endpoints"][0]["own"] == 0);
  CHECK(f.book.state()["endpoints"][1]["own"] == 1);
  f.one.reset();
  CHECK(f.book.size() == 0);
}

TEST_CASE("a client that goes away at any moment leaves nothing behind") {
  const std::vector<received> whole{
      headers(),          body(ask.substr(0, 9), false),        body(ask.substr(9), true),
      response_headers(), response_body("data: {}\n\n", false), response_body("data: {}\n\n", true)};
  for (std::size_t n = 0; n <= whole.size(); ++n) {
    for (const bool says_so : {false, true}) {
      fixture f;
      for (std::size_t i = 0; i != n; ++i) f.say(whole[i]);
      says_so ? f.one->closed() : f.one.reset();
      CHECK(f.book.size() == 0);
      CHECK(f.book.buffered() == 0);
    }
  }
  // Or while its body is on its way back.
  fixture f{{.piece = 10}};
  f.say(headers());
  f.one->receive(body(ask, true), at(0));
  for (int i = 0; i != 4; ++i) CHECK(f.one->next());
  CHECK(f.book.buffered() == ask.size());
  f.one.reset();
  CHECK(f.book.buffered() == 0);
  CHECK(f.book.size() == 0);
}

TEST_CASE("random messages: what goes back is what came, in order, and nothing is held for longer than it may") {
  constexpr std::size_t most = 300;
  for (std::uint64_t seed = 1; seed != (tessera_test::is_slow ? 300 : 3000); ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 draw{seed};
    fixture f{{.body = most, .headers = 200, .piece = 1 + seed % 50}, {.buffered = 250}};
    const bool follows = draw() % 4 != 0;  // the protocol, mostly
    int at_step = 0;
    std::string came;
    std::string back;
    std::string answer_came;
    std::string answer_back;
    int ends = 0;
    int answer_ends = 0;
    part last = part::none;
    double now = 0;
    const std::string text = "{\"prompt\":\"" + std::string(draw() % 200, 'p') + "\"}";
    std::size_t told = 0;
    for (int step = 0; step != 40 && !f.one->over(); ++step) {
      now += static_cast<double>(draw() % 1000) / 1000;
      received m;
      const int choice = follows ? at_step : static_cast<int>(draw() % 7);
      const bool some_end = draw() % 5 == 0;
      switch (choice) {
        case 0:
          m = headers(draw() % 20 == 0);
          at_step = m.end_of_stream ? 2 : 1;
          break;
        case 1: {
          const std::size_t n = std::min<std::size_t>(draw() % 60, text.size() - told);
          m = body(text.substr(told, n), told + n == text.size());
          if (m.end_of_stream && draw() % 3 == 0) {
            m.end_of_stream = false;
            at_step = 5;
          } else if (m.end_of_stream) {
            at_step = 2;
          }
          told += n;
          break;
        }
        case 2:
          m = response_headers(draw() % 20 == 0);
          at_step = m.end_of_stream ? 6 : 3;
          break;
        case 3:
          m = response_body(std::string(draw() % 99, 'a'), some_end);
          at_step = some_end ? 6 : draw() % 6 == 0 ? 4 : 3;
          break;
        case 4:
          m = response_trailers();
          at_step = 6;
          break;
        case 5:
          m = trailers();
          at_step = 2;
          break;
        default:
          if (follows) {
            f.one->closed();
            continue;
          }
      }
      const received copy = m;
      const bool placed = f.one->place().has_value();
      f.one->receive(std::move(m), at(now));
      if (copy.what == part::request_body && !placed) came += copy.body;
      if (copy.what == part::response_body) answer_came += copy.body;
      while (auto s = f.one->next()) {
        if (s->what == part::none) {
          REQUIRE((s->status == 400 || s->status == 413 || s->status == 503));
          back = came = "";
          answer_came = answer_back;
          break;
        }
        REQUIRE(s->what >= last);  // headers, body, trailers; the request before its answer
        last = s->what;
        REQUIRE(s->body.size() <= f.limits.piece);
        if (s->what == part::request_body) {
          back += s->body;
          ends += s->end_of_stream ? 1 : 0;
        }
        if (s->what == part::response_body) {
          answer_back += s->body;
          answer_ends += s->end_of_stream ? 1 : 0;
        }
        REQUIRE(f.book.buffered() <= 250);
      }
      REQUIRE(f.book.size() <= 1);
      REQUIRE(ends <= 1);
      REQUIRE(answer_ends <= 1);
      if (f.one->place()) REQUIRE(back == came);
      if (follows && f.one->over()) {
        REQUIRE(f.one->over()->status == grpc_status::ok);
      }
      if (!f.one->over()) REQUIRE(answer_back == answer_came);
    }
    f.one.reset();
    REQUIRE(f.book.size() == 0);
    REQUIRE(f.book.buffered() == 0);
  }
}
