// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "fake_engine.hpp"

#include "ext_proc.grpc.pb.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace picker_test {

namespace wire = ::envoy::service::ext_proc::v3;
using namespace std::chrono_literals;

/// Whether something becomes true within a time that is long even on a busy machine.
template <class What>
bool soon(What what, std::chrono::milliseconds patience = 20s) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!what()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

/// The program, as a process of its own, with a folder for its file.
class picker_process {
 public:
  /// @param text of its file; empty: one with these endpoints.
  explicit picker_process(const std::vector<std::string>& endpoints, std::vector<std::string> options = {},
                          const std::string& text = {}) {
    char name[] = "/tmp/endpoint_picker_XXXXXX";
    if (::mkdtemp(name) == nullptr) throw std::runtime_error{"no folder"};
    folder_ = name;
    text.empty() ? list(endpoints) : write(text);
    const auto otherwise = [&](const char* option, const std::string& value) {
      if (std::find(options.begin(), options.end(), option) != options.end()) return;
      options.insert(options.begin(), {option, value});
    };
    otherwise("--endpoints", file());
    otherwise("--listen", "127.0.0.1:0");
    options.insert(options.begin(), {PICKER_PROGRAM, "--scrape-interval", "0.05", "--scrape-patience", "0.5"});
    int out[2];
    int err[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error{"no pipe"};
    std::vector<char*> arguments;
    for (std::string& o : options) arguments.push_back(o.data());
    arguments.push_back(nullptr);
    id_ = ::fork();
    if (id_ == 0) {
      ::dup2(out[1], 1);
      ::dup2(err[1], 2);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(out[1]);
    ::close(err[1]);
    out_ = out[0];
    err_ = err[0];
    const std::string said = line();
    constexpr std::string_view begins = "listening on port ";
    if (said.substr(0, begins.size()) != begins) {
      const int code = wait();
      const std::string why = errors();
      ::close(out_);
      ::close(err_);
      std::filesystem::remove_all(folder_);
      throw std::runtime_error{why + "exit code " + std::to_string(code)};
    }
    port_ = std::stoi(said.substr(begins.size()));
    connect(grpc::InsecureChannelCredentials(), {});
  }
  ~picker_process() {
    if (id_ > 0) {
      ::kill(id_, SIGKILL);
      ::waitpid(id_, nullptr, 0);
    }
    ::close(out_);
    ::close(err_);
    std::filesystem::remove_all(folder_);
  }
  picker_process(const picker_process&) = delete;
  picker_process& operator=(const picker_process&) = delete;

  [[nodiscard]] std::string file() const { return folder_ + "/endpoints.json"; }
  [[nodiscard]] const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  /// All streams from now on are over a channel of this kind.
  void connect(const std::shared_ptr<grpc::ChannelCredentials>& how, grpc::ChannelArguments arguments) {
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // fixed windows: else gRPC takes megabytes that have not been read
    channel_ = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port_), how, arguments);
  }
  void write(const std::string& text) const {
    // As a ConfigMap changes: at once.
    std::ofstream{file() + ".new"} << text;
    std::filesystem::rename(file() + ".new", file());
  }
  void list(const std::vector<std::string>& endpoints,
            const nlohmann::json& objectives = nlohmann::json::object()) const {
    nlohmann::json all{{"endpoints", nlohmann::json::array()}, {"objectives", objectives}};
    for (const std::string& e : endpoints) all["endpoints"].push_back({{"address", e}});
    write(all.dump());
  }
  /// Kilobytes of memory that it has.
  [[nodiscard]] long resident_kb() const {
    std::ifstream in{"/proc/" + std::to_string(id_) + "/status"};
    for (std::string line; std::getline(in, line);) {
      if (line.substr(0, 6) == "VmRSS:") return std::stol(line.substr(6));
    }
    return 0;
  }
  [[nodiscard]] long threads() const {
    long n = 0;
    for ([[maybe_unused]] const auto& t : std::filesystem::directory_iterator{"/proc/" + std::to_string(id_) + "/task"})
      ++n;
    return n;
  }
  void signal(int which) const { ::kill(id_, which); }
  /// Its book.
  nlohmann::json state() {
    signal(SIGUSR1);
    return nlohmann::json::parse(line());
  }
  /// Whether it knows `n` endpoints, all of them ready and none on its way out.
  bool has_ready(std::size_t n) {
    const auto s = state();
    for (const auto& e : s["endpoints"]) {
      if (!e["ready"].get<bool>() || e["drains"].get<bool>()) return false;
    }
    return s["endpoints"].size() == n;
  }
  bool empty() {
    const auto s = state();
    return s["in_book"] == 0 && s["streams"] == 0 && s["buffered"] == 0;
  }
  /// What it has complained of so far.
  std::string errors() {
    pollfd p{err_, POLLIN, 0};
    while (::poll(&p, 1, 0) > 0) {
      char buffer[4096];
      const ssize_t n = ::read(err_, buffer, sizeof buffer);
      if (n <= 0) break;
      errors_.append(buffer, static_cast<std::size_t>(n));
    }
    return errors_;
  }
  /// Waits for its end; its exit code, or 128 and its signal.
  int wait() {
    int status = 0;
    ::waitpid(id_, &status, 0);
    id_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  /// 1: it serves, 2: not.
  [[nodiscard]] int health(const std::string& service) const {
    grpc::GenericStub stub{channel_};
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 5s);
    grpc::CompletionQueue queue;
    const std::string asked = "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
    const grpc::Slice slice{asked};
    const grpc::ByteBuffer request{&slice, 1};
    const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
    grpc::ByteBuffer response;
    grpc::Status status;
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    std::vector<grpc::Slice> slices;
    if (!status.ok() || !response.Dump(&slices).ok() || slices.empty() || slices[0].size() != 2) return 0;
    return slices[0].begin()[1];
  }

 private:
  std::string line() {
    std::string out;
    char c = 0;
    while (::read(out_, &c, 1) == 1 && c != '\n') out += c;
    return out;
  }

  std::string folder_;
  std::string errors_;
  int out_ = -1;
  int err_ = -1;
  int port_ = 0;
  pid_t id_ = -1;
  std::shared_ptr<grpc::Channel> channel_;
};

/// One stream, as a gateway opens it for a request.
class gateway_stream {
 public:
  explicit gateway_stream(picker_process& p, std::chrono::milliseconds patience = 30s)
      : stub_{wire::ExternalProcessor::NewStub(p.channel())} {
    context_.set_deadline(std::chrono::system_clock::now() + patience);
    stream_ = stub_->Process(&context_);
  }
  ~gateway_stream() {
    if (!finished_) {
      context_.TryCancel();
      static_cast<void>(finish());
    }
  }

  bool send_headers(const std::vector<std::pair<std::string, std::string>>& more = {}, bool end = false,
                    const std::vector<std::string>* subset = nullptr) {
    wire::ProcessingRequest m;
    auto* const headers = m.mutable_request_headers()->mutable_headers();
    const auto add = [&](const std::string& name, const std::string& value) {
      auto* const h = headers->add_headers();
      h->set_key(name);
      h->set_raw_value(value);
    };
    add(":method", "POST");
    add("content-type", "application/json");
    for (const auto& [name, value] : more) add(name, value);
    m.mutable_request_headers()->set_end_of_stream(end);
    m.mutable_protocol_config()->set_request_body_mode(wire::ProtocolConfiguration::FULL_DUPLEX_STREAMED);
    m.mutable_protocol_config()->set_response_body_mode(wire::ProtocolConfiguration::FULL_DUPLEX_STREAMED);
    if (subset != nullptr) {
      auto& fields =
          *(*m.mutable_metadata_context()->mutable_filter_metadata())["envoy.lb.subset_hint"].mutable_fields();
      auto* const all = fields["x-gateway-destination-endpoint-subset"].mutable_list_value();
      for (const std::string& s : *subset) all->add_values()->set_string_value(s);
    }
    return stream_->Write(m);
  }
  bool send_body(const std::string& text, bool end) {
    wire::ProcessingRequest m;
    m.mutable_request_body()->set_body(text);
    m.mutable_request_body()->set_end_of_stream(end);
    return stream_->Write(m);
  }
  bool send_response_headers(const std::string& served = {}) {
    wire::ProcessingRequest m;
    auto* const h = m.mutable_response_headers()->mutable_headers()->add_headers();
    h->set_key(":status");
    h->set_raw_value("200");
    if (!served.empty()) {
      auto& fields = *(*m.mutable_metadata_context()->mutable_filter_metadata())["envoy.lb"].mutable_fields();
      fields["x-gateway-destination-endpoint-served"].set_string_value(served);
    }
    return stream_->Write(m);
  }
  bool send_response_body(const std::string& text, bool end) {
    wire::ProcessingRequest m;
    m.mutable_response_body()->set_body(text);
    m.mutable_response_body()->set_end_of_stream(end);
    return stream_->Write(m);
  }
  bool send(const wire::ProcessingRequest& m) { return stream_->Write(m); }
  std::optional<wire::ProcessingResponse> read() {
    wire::ProcessingResponse m;
    if (!stream_->Read(&m)) return std::nullopt;
    return m;
  }
  void half_close() { stream_->WritesDone(); }
  void cancel() { context_.TryCancel(); }
  grpc::Status finish() {
    finished_ = true;
    wire::ProcessingResponse m;
    while (stream_->Read(&m)) {
    }
    return stream_->Finish();
  }

 private:
  std::unique_ptr<wire::ExternalProcessor::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<wire::ProcessingRequest, wire::ProcessingResponse>> stream_;
  bool finished_ = false;
};

/// What a picker has said to a request.
struct choice {
  int status = 0;  ///< The status of its own answer, if it gave one.
  std::vector<std::string> endpoints;
  std::string body;      ///< As it came back.
  std::string metadata;  ///< The destination in the dynamic metadata.
};

/// Reads what comes back of a request, to its end.
inline choice choice_of(gateway_stream& s, bool has_body = true) {
  choice c;
  for (;;) {
    const auto m = s.read();
    if (!m) return c;
    if (m->has_immediate_response()) {
      c.status = m->immediate_response().status().code();
      return c;
    }
    if (m->has_request_headers()) {
      std::string all = m->request_headers().response().header_mutation().set_headers(0).header().raw_value();
      const auto& space = m->dynamic_metadata().fields().at("envoy.lb").struct_value();
      c.metadata = space.fields().at("x-gateway-destination-endpoint").string_value();
      if (c.metadata != all) throw std::runtime_error{"header and metadata differ"};
      for (std::size_t at = 0; at <= all.size();) {
        const std::size_t comma = std::min(all.find(',', at), all.size());
        c.endpoints.push_back(all.substr(at, comma - at));
        at = comma + 1;
      }
      if (!has_body) return c;
    }
    if (m->has_request_body()) {
      const auto& piece = m->request_body().response().body_mutation().streamed_response();
      c.body += piece.body();
      if (piece.end_of_stream()) return c;
    }
  }
}

/// What a client has got.
struct outcome {
  int status = 0;  ///< 200: all tokens came.
  std::vector<std::uint64_t> tokens;
  std::string served;
};

/// A request from a client through gateway, picker and engine; the gateway tries the endpoints in their order.
inline outcome request(picker_process& p, const std::vector<std::uint64_t>& prompt, std::size_t max_tokens,
                       const std::vector<std::pair<std::string, std::string>>& headers = {}) {
  outcome out;
  gateway_stream s{p};
  const std::string body =
      nlohmann::json{{"model", "m"}, {"prompt", prompt}, {"max_tokens", max_tokens}, {"stream", true}}.dump();
  s.send_headers(headers);
  s.send_body(body.substr(0, body.size() / 2), false);
  s.send_body(body.substr(body.size() / 2), true);
  const choice c = choice_of(s);
  if (c.endpoints.empty()) {
    out.status = c.status != 0 ? c.status : 500;
    return out;
  }
  if (c.body != body) throw std::runtime_error{"the body has changed"};
  int fd = -1;
  for (const std::string& e : c.endpoints) {
    fd = connect_to(std::stoi(e.substr(e.find(':') + 1)));
    out.served = e;
    if (fd >= 0) break;
  }
  if (fd < 0) {
    out.status = 502;
    return out;
  }
  const connection engine{fd};
  static_cast<void>(engine.send("POST /v1/completions HTTP/1.1\r\ncontent-length: " + std::to_string(body.size()) +
                                "\r\n\r\n" + body));
  std::string head;
  while (head.find("\r\n\r\n") == std::string::npos) {
    const std::string more = engine.receive();
    if (more.empty()) {
      out.status = 502;
      return out;
    }
    head += more;
  }
  std::string piece = head.substr(head.find("\r\n\r\n") + 4);
  s.send_response_headers(out.served);
  if (!s.read()) throw std::runtime_error{"the response's headers do not come back"};
  std::string answer;
  for (bool end = false; !end; piece = end ? piece : engine.receive()) {
    end = piece.empty() && !answer.empty();
    if (piece.empty() && !end) {
      piece = engine.receive();
      end = piece.empty();
    }
    s.send_response_body(piece, end);
    for (std::string back; end ? true : back.size() < piece.size();) {
      const auto m = s.read();
      if (!m) {
        out.status = 500;
        return out;
      }
      const auto& b = m->response_body().response().body_mutation().streamed_response();
      back += b.body();
      answer += b.body();
      if (b.end_of_stream()) break;
    }
    if (end) break;
  }
  s.half_close();
  if (!s.finish().ok()) throw std::runtime_error{"the stream does not end well"};
  constexpr std::string_view token = "\"token\":";
  for (std::size_t at = answer.find(token); at != std::string::npos; at = answer.find(token, at + 1)) {
    out.tokens.push_back(std::stoull(answer.substr(at + token.size())));
  }
  out.status = answer.find("[DONE]") != std::string::npos ? 200 : 502;
  return out;
}

}  // namespace picker_test
