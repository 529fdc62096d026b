// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The program endpoint_picker, between a gateway that speaks its protocol over gRPC and engines with sockets, all of
// them fake but the program.

#include "gateway.hpp"

#include "support/catch.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace picker_test;

/// Engines, and a picker that knows them all.
struct fleet {
  explicit fleet(std::size_t n, std::vector<std::string> options = {}, std::chrono::milliseconds per_token = 1ms) {
    for (std::size_t i = 0; i != n; ++i) engines.push_back(std::make_unique<fake_engine>(per_token));
    picker.emplace(addresses(), std::move(options));
    REQUIRE(soon([&] { return picker->has_ready(n); }));
  }
  [[nodiscard]] std::vector<std::string> addresses() const {
    std::vector<std::string> all;
    for (const auto& e : engines) all.push_back(e->where());
    return all;
  }
  std::vector<std::unique_ptr<fake_engine>> engines;
  std::optional<picker_process> picker;
};

std::vector<std::uint64_t> prompt_of(std::uint64_t i) { return {i, i * 7 + 1, 3, i % 5}; }

/// `clients` clients make `each` requests, one after the other. What went wrong, and how many came whole.
struct tally {
  std::atomic<int> whole{0};
  std::atomic<int> broken{0};  // by an engine
  std::atomic<int> wrong{0};
};
void run(fleet& f, std::uint64_t clients, std::uint64_t each, std::size_t max_tokens, tally& t) {
  std::vector<std::thread> all;
  for (std::uint64_t c = 0; c != clients; ++c) {
    all.emplace_back([&, c] {
      for (std::uint64_t i = 0; i != each; ++i) {
        const auto prompt = prompt_of(c * 1000 + i);
        try {
          const outcome o = request(*f.picker, prompt, max_tokens);
          const bool right = o.tokens == tokens_after(prompt, max_tokens);
          ++(o.status == 200 && right ? t.whole : o.status == 502 ? t.broken : t.wrong);
        } catch (const std::exception&) {
          ++t.wrong;
        }
      }
    });
  }
  for (std::thread& thread : all) thread.join();
}

std::string valid_body() { return R"({"model":"m","prompt":[1,2,3],"max_tokens":2})"; }

/// The status that the picker answers with; 0 if it chose.
int status_of(picker_process& p, const std::string& body,
              const std::vector<std::pair<std::string, std::string>>& headers = {},
              const std::vector<std::string>* subset = nullptr) {
  gateway_stream s{p};
  s.send_headers(headers, false, subset);
  s.send_body(body, true);
  return choice_of(s).status;
}

}  // namespace

TEST_CASE("many requests at once: all tokens come, every engine works, the book ends empty") {
  fleet f{3};
  tally t;
  run(f, 24, 6, 10, t);
  CHECK(t.whole == 24 * 6);
  CHECK(t.broken == 0);
  CHECK(t.wrong == 0);
  for (const auto& e : f.engines) CHECK(e->served > 10);
  CHECK(soon([&] { return f.picker->empty(); }));
  const auto state = f.picker->state();
  CHECK(state["picked"] == 24 * 6);
  CHECK(state["expired"] == 0);
}

TEST_CASE("a request goes back as it came, whatever its size, and both ways say the same destination") {
  fleet f{2};
  for (const std::size_t size : {std::size_t{1}, std::size_t{61439}, std::size_t{61441}, std::size_t{3'000'000}}) {
    gateway_stream s{*f.picker};
    const std::string body = "{\"prompt\":\"" + std::string(size, 'x') + "\"}";
    s.send_headers();
    std::thread writes{[&] {
      for (std::size_t at = 0; at < body.size(); at += 50'000) {
        s.send_body(body.substr(at, 50'000), at + 50'000 >= body.size());
      }
    }};
    const choice c = choice_of(s);
    writes.join();
    CHECK(c.body == body);
    CHECK(c.endpoints.size() == 2);
  }
  gateway_stream get{*f.picker};
  get.send_headers({}, true);
  CHECK(choice_of(get, false).endpoints.size() == 2);
}

TEST_CASE("an engine that dies: requests that were there break off as they would without a picker, others complete") {
  fleet f{3, {"--silence", "2"}, 3ms};
  tally t;
  bool has_served = false;
  std::thread kills{[&] {
    has_served = soon([&] { return f.engines[0]->served > 0; });
    f.engines[0]->die();
  }};
  run(f, 16, 8, 12, t);
  kills.join();
  CHECK(has_served);
  CHECK(t.wrong == 0);
  CHECK(t.whole + t.broken == 16 * 8);
  CHECK(t.broken <= 16);  // those that ran there when it died, and none after
  CHECK(soon([&] { return f.picker->empty(); }));
  // Now it is known, and no request is sent there first.
  CHECK(soon([&] { return f.picker->state()["endpoints"][0]["silent"] == true; }));
  for (int i = 0; i != 6; ++i) CHECK(request(*f.picker, {1}, 1).served != f.engines[0]->where());
  CHECK(f.picker->errors().find(f.engines[0]->where() + ": Connection refused") != std::string::npos);
}

TEST_CASE("metrics that hang, lie outside their format, never end or are not there keep no request waiting") {
  for (const auto how : {fake_engine::metrics::hang, fake_engine::metrics::garbage, fake_engine::metrics::endless,
                         fake_engine::metrics::not_found}) {
    INFO(static_cast<int>(how));
    fake_engine bad;
    fake_engine good;
    bad.says = how;
    picker_process p{{bad.where(), good.where()}};
    REQUIRE(soon([&] { return p.state()["endpoints"][1]["ready"] == true; }));
    for (int i = 0; i != 4; ++i) CHECK(request(p, {1, 2}, 2).served == good.where());
    const auto before = p.state()["reports"].get<int>();
    CHECK(soon([&] { return p.state()["reports"].get<int>() > before + 1; }));
    CHECK(soon([&] { return p.errors().find(bad.where() + ": ") != std::string::npos; }));
    bad.says = fake_engine::metrics::right;
    CHECK(soon([&] { return p.has_ready(2); }));
    CHECK(soon([&] { return p.errors().find(bad.where() + ": answers again") != std::string::npos; }));
  }
}

TEST_CASE("an engine that has started anew has lost what it had") {
  fleet f{1};
  gateway_stream s{*f.picker};
  s.send_headers();
  s.send_body(valid_body(), true);
  CHECK(choice_of(s).endpoints.size() == 1);
  CHECK(f.picker->state()["in_book"] == 1);
  f.engines[0]->started = 1'800'000'000;
  CHECK(soon([&] { return f.picker->state()["in_book"] == 0; }));
  CHECK(f.picker->state()["restarts"] == 1);
}

TEST_CASE("what is wrong ends in the status that the protocol wants") {
  fleet f{2, {"--body-at-most", "1000", "--message-at-most", "100000", "--headers-at-most", "2000"}};
  picker_process& p = *f.picker;
  CHECK(status_of(p, valid_body()) == 0);
  CHECK(status_of(p, "{\"prompt\":") == 400);
  CHECK(status_of(p, std::string(1001, ' ')) == 413);
  CHECK(status_of(p, valid_body(), {{"content-length", "1001"}}) == 413);
  CHECK(status_of(p, valid_body(), {{"x", std::string(3000, 'x')}}) == 431);
  const std::vector<std::string> none;
  const std::vector<std::string> unknown{"10.0.0.1:1"};
  const std::vector<std::string> second{f.engines[1]->where()};
  CHECK(status_of(p, valid_body(), {}, &none) == 503);
  CHECK(status_of(p, valid_body(), {}, &unknown) == 503);
  {
    gateway_stream s{p};
    s.send_headers({}, false, &second);
    s.send_body(valid_body(), true);
    CHECK(choice_of(s).endpoints == second);
  }
  {  // a message that is larger than gRPC takes
    gateway_stream s{p};
    s.send_headers();
    s.send_body(std::string(200'000, ' '), true);
    CHECK(s.finish().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  {  // a message in the wrong place
    gateway_stream s{p};
    s.send_response_headers();
    CHECK(s.finish().error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  }
  {  // a message that says nothing
    gateway_stream s{p};
    s.send(wire::ProcessingRequest{});
    CHECK(s.finish().error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  }
  {  // another mode
    gateway_stream s{p};
    wire::ProcessingRequest m;
    m.mutable_request_headers();
    m.mutable_protocol_config()->set_request_body_mode(wire::ProtocolConfiguration::BUFFERED);
    s.send(m);
    CHECK(s.finish().error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  }
  p.list({});
  CHECK(soon([&] { return status_of(p, valid_body()) == 503; }));
  CHECK(soon([&] { return p.empty(); }));
}

TEST_CASE("what may be shed is shed when engines are busy") {
  fleet f{1};
  f.picker->list(f.addresses(), {{"batch", -1}});
  REQUIRE(soon([&] { return f.picker->errors().find("read ") != std::string::npos; }));
  CHECK(status_of(*f.picker, valid_body(), {{"x-gateway-inference-objective", "batch"}}) == 0);
  f.engines[0]->waiting = 9;
  CHECK(soon([&] { return status_of(*f.picker, valid_body(), {{"x-gateway-inference-objective", "batch"}}) == 429; }));
  CHECK(status_of(*f.picker, valid_body()) == 0);
}

TEST_CASE("silent and half-open streams end, and cost nothing after that") {
  fleet of_requests{1, {"--request-silence", "1", "--request-time", "1.5"}};
  // A fleet of its own, because a busy machine may take a second over a request that is to be answered.
  fleet of_answers{1, {"--answer-silence", "2"}};
  picker_process& p = *of_requests.picker;
  picker_process& q = *of_answers.picker;
  {
    gateway_stream s{p};  // says nothing
    CHECK(s.finish().error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  {
    gateway_stream s{p};  // half a request
    s.send_headers();
    s.send_body("{\"prompt\":", false);
    CHECK(choice_of(s).status == 408);
    CHECK(s.finish().ok());
  }
  {
    gateway_stream s{p};  // a byte now and then
    s.send_headers();
    std::atomic<bool> ends{false};
    std::thread drips{[&] {
      while (!ends && s.send_body(" ", false)) std::this_thread::sleep_for(50ms);
    }};
    CHECK(choice_of(s).status == 408);
    ends = true;
    drips.join();
  }
  {
    gateway_stream s{q};  // the engine never answers: the request is left alone
    s.send_headers();
    s.send_body(valid_body(), true);
    CHECK(choice_of(s).endpoints.size() == 1);
    CHECK(s.finish().ok());
  }
  {
    gateway_stream s{q};  // it stops in the middle of its answer
    s.send_headers();
    s.send_body(valid_body(), true);
    choice_of(s);
    s.send_response_headers();
    CHECK(s.finish().error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  {
    gateway_stream s{q};  // closes its side early
    s.send_headers();
    s.half_close();
    CHECK(s.finish().ok());
  }
  CHECK(soon([&] { return p.empty(); }));
  CHECK(soon([&] { return q.empty(); }));
}

TEST_CASE("a gateway that does not read what it is sent is cut off") {
  fleet f{1, {"--request-silence", "0.5", "--body-at-most", "4000000"}};
  gateway_stream s{*f.picker};
  const std::string body = "{\"prompt\":\"" + std::string(3'000'000, 'x') + "\"}";
  s.send_headers();
  for (std::size_t at = 0; at < body.size(); at += 50'000)
    s.send_body(body.substr(at, 50'000), at + 50'000 >= body.size());
  if (!soon([&] { return f.picker->empty(); })) FAIL(f.picker->state().dump());
}

TEST_CASE("a client that goes away at any moment leaves nothing behind") {
  fleet f{2};
  for (int moment = 0; moment != 8; ++moment) {
    for (int i = 0; i != 5; ++i) {
      gateway_stream s{*f.picker};
      if (moment > 0) s.send_headers();
      if (moment > 1) s.send_body(valid_body().substr(0, 10), false);
      if (moment > 2) s.send_body(valid_body().substr(10), true);
      if (moment > 3) choice_of(s);
      if (moment > 4) s.send_response_headers();
      if (moment > 5) s.read();
      if (moment > 6) s.send_response_body("data: {}\n\n", false);
      s.cancel();
    }
  }
  CHECK(soon([&] { return f.picker->empty(); }));
  CHECK(f.picker->state()["expired"] == 0);
}

TEST_CASE("more streams than may be are refused, and only these") {
  fleet f{1, {"--streams-at-most", "3"}};
  std::vector<std::unique_ptr<gateway_stream>> held;
  for (int i = 0; i != 3; ++i) {
    held.push_back(std::make_unique<gateway_stream>(*f.picker));
    held.back()->send_headers();
  }
  REQUIRE(soon([&] { return f.picker->state()["streams"] == 3; }));
  {
    gateway_stream s{*f.picker};
    CHECK(s.finish().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  held[0]->send_body(valid_body(), true);
  CHECK(choice_of(*held[0]).endpoints.size() == 1);
  held.clear();
  REQUIRE(soon([&] { return f.picker->empty(); }));
  CHECK(status_of(*f.picker, valid_body()) == 0);
}

TEST_CASE("endpoints change under load: no request is sent to one that is gone, those that run go on") {
  fleet f{4, {}, 2ms};
  std::atomic<bool> ends{false};
  std::thread changes{[&] {
    for (int i = 0; !ends; ++i) {
      auto all = f.addresses();
      all.erase(all.begin() + i % 4);
      f.picker->list(all);
      std::this_thread::sleep_for(100ms);
      f.picker->signal(SIGHUP);
    }
  }};
  tally t;
  run(f, 12, 24, 10, t);
  ends = true;
  changes.join();
  CHECK(t.whole == 12 * 24);
  CHECK(t.wrong == 0);
  CHECK(t.broken == 0);
  f.picker->list(f.addresses());
  f.picker->signal(SIGHUP);
  CHECK(soon([&] { return f.picker->has_ready(4); }));
  CHECK(soon([&] { return f.picker->empty(); }));
}

TEST_CASE("an endpoint that drains gets nothing new, keeps what it has, and is forgotten with its last request") {
  fleet f{2};
  const std::vector<std::string> first{f.engines[0]->where()};
  gateway_stream s{*f.picker};
  s.send_headers({}, false, &first);
  s.send_body(valid_body(), true);
  REQUIRE(choice_of(s).endpoints == first);
  f.picker->list({f.engines[1]->where()});
  REQUIRE(soon([&] { return f.picker->state()["endpoints"][0]["drains"] == true; }));
  for (int i = 0; i != 4; ++i) CHECK(request(*f.picker, {7}, 2).served == f.engines[1]->where());
  CHECK(f.picker->state()["endpoints"][0]["own"] == 1);
  s.send_response_headers();
  s.read();
  s.send_response_body("data: {}\n\n", true);
  s.read();
  CHECK(soon([&] { return f.picker->has_ready(1); }));
}

TEST_CASE("a file that is wrong changes nothing, and is complained of by line and column") {
  fleet f{1};
  f.picker->write("{\"endpoints\": [\n  {\"address\": \"localhost:80\"}]}");
  CHECK(soon(
      [&] { return f.picker->errors().find(f.picker->file() + ":2:15: expected an address") != std::string::npos; }));
  CHECK(request(*f.picker, {1}, 3).status == 200);
  f.picker->list(f.addresses());
  CHECK(soon([&] { return f.picker->errors().find("read " + f.picker->file()) != std::string::npos; }));
}

TEST_CASE("health is told, and changes when it drains; running requests end, and it ends with 0") {
  fleet f{1, {"--drain", "20"}};
  const std::string service = "envoy.service.ext_proc.v3.ExternalProcessor";
  CHECK(f.picker->health("") == 1);
  CHECK(f.picker->health("liveness") == 1);
  CHECK(f.picker->health("readiness") == 1);
  CHECK(f.picker->health(service) == 1);
  gateway_stream s{*f.picker};
  s.send_headers();
  s.send_body(valid_body(), true);
  REQUIRE(choice_of(s).endpoints.size() == 1);
  f.picker->signal(SIGTERM);
  REQUIRE(soon([&] { return f.picker->errors().find("drains") != std::string::npos; }));
  s.send_response_headers();
  CHECK(s.read());
  s.send_response_body("data: {}\n\n", true);
  CHECK(s.read());
  s.half_close();
  CHECK(s.finish().ok());
  CHECK(f.picker->wait() == 0);
  CHECK(f.picker->errors().find("in the book: 0") != std::string::npos);
}

TEST_CASE("with a certificate it speaks TLS, and nothing else") {
  char folder[] = "/tmp/endpoint_picker_tls_XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const std::string key = std::string{folder} + "/key.pem";
  const std::string certificate = std::string{folder} + "/certificate.pem";
  const std::string make =
      "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext "
      "subjectAltName=DNS:localhost -keyout " +
      key + " -out " + certificate + " 2>/dev/null";
  if (std::system(make.c_str()) != 0) {
    WARN("there is no openssl to make a certificate with");
    return;
  }
  {
    fake_engine engine;
    picker_process p{{engine.where()}, {"--tls-certificate", certificate, "--tls-key", key}};
    CHECK(p.health("") == 0);  // without TLS
    std::ifstream in{certificate};
    grpc::SslCredentialsOptions trusts;
    trusts.pem_root_certs.assign(std::istreambuf_iterator<char>{in}, {});
    grpc::ChannelArguments as_localhost;
    as_localhost.SetSslTargetNameOverride("localhost");
    p.connect(grpc::SslCredentials(trusts), as_localhost);
    CHECK(p.health("") == 1);
    REQUIRE(soon([&] { return p.has_ready(1); }));
    CHECK(request(p, {4, 5}, 3).tokens == tokens_after({4, 5}, 3));
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("a command that is wrong is refused: what was expected, and 2") {
  fake_engine engine;
  const auto refusal = [&](const std::vector<std::string>& options, const std::string& text = {}) {
    try {
      picker_process p{{engine.where()}, options, text};
    } catch (const std::runtime_error& wrong) {
      return std::string{wrong.what()};
    }
    return std::string{"it listens"};
  };
  const auto says = [](const std::string& all, const std::string& part) {
    INFO(all);
    CHECK(all.find(part) != std::string::npos);
    CHECK(all.find("exit code 2") != std::string::npos);
  };
  says(refusal({"--controller", "best"}), "--controller: one of least-load, least-kv");
  says(refusal({"--choices", "0"}), "--choices: a number from 1 to 64 is expected");
  says(refusal({"--drain", "nan"}), "--drain: a number from 0 to");
  says(refusal({"--shed-kv", "2"}), "--shed-kv: a number from 0 to 1 is expected");
  says(refusal({"--controller", "fill_to_level", "--expected", "1e9"}), "--expected: a number from 0 to 1000000");
  says(refusal({"--expected", "3"}), "--expected goes with --controller fill-to-level, not with 'least-load'");
  says(refusal({"--silence", "x"}), "a number is expected");
  says(refusal({"--no-such-option"}), "--no-such-option");
  for (const char* const listen : {"127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:", "127.0.0.1", ":80", "a:80x"}) {
    says(refusal({"--listen", listen}), "--listen: IP:PORT with a port from 0 to 65535 is expected");
  }
  says(refusal({"--metrics-path", "metrics"}), "--metrics-path: a path that begins with / is expected");
  says(refusal({"--tls-key", "key.pem"}), "--tls-certificate and --tls-key are expected together");
  says(refusal({"--listen", "127.0.0.1:" + std::to_string(engine.port())}), "cannot listen on 127.0.0.1:");
  says(refusal({}, "{\"endpoints\": 3}"), ":1:15: expected an array of endpoints, found '3'");
  says(refusal({"--endpoints", "/no/such/file"}), "/no/such/file: expected a readable file");
}

TEST_CASE("at start the picker says what it leaves out of its controller, and the name now of a former one") {
  fake_engine engine;
  picker_process p{{engine.where()}, {"--policy", "round_robin"}};  // the option by its other name
  CHECK(p.errors() ==
        "endpoint_picker: --controller round_robin is now --controller in-turn\n"
        "endpoint_picker: in-turn places requests, and does nothing else\n");
  picker_process q{{engine.where()}, {"--controller", "llumnix"}};
  CHECK(q.errors() == "endpoint_picker: llumnix places requests; its other actions are left out: move\n");
}

TEST_CASE("streams that do not end are cut off when the time to drain is over") {
  fleet f{1, {"--drain", "0.3"}};
  gateway_stream s{*f.picker};
  s.send_headers();
  s.send_body(valid_body(), true);
  REQUIRE(choice_of(s).endpoints.size() == 1);
  f.picker->signal(SIGTERM);
  CHECK_FALSE(s.finish().ok());
  CHECK(f.picker->wait() == 0);
  CHECK(f.picker->errors().find("in the book: 0") != std::string::npos);
}
