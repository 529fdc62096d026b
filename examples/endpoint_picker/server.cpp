// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "server.hpp"
#include "messages.hpp"
#include "scraper.hpp"

#include "ext_proc.grpc.pb.h"

#include <tessera/sim/error.hpp>
#include <tessera/sim/input/input.hpp>

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace endpoint_picker {
namespace {

class exchange;

/// All that live, so that time passes for them.
class exchanges {
 public:
  void add(const std::shared_ptr<exchange>& e) {
    const std::lock_guard lock{mutex_};
    all_[e.get()] = e;
  }
  void remove(exchange* e) {
    std::shared_ptr<exchange> last;  // it ends when the lock has been given back
    const std::lock_guard lock{mutex_};
    const auto at = all_.find(e);
    last = std::move(at->second);
    all_.erase(at);
  }
  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock{mutex_};
    return all_.size();
  }
  [[nodiscard]] std::vector<std::shared_ptr<exchange>> all() const {
    const std::lock_guard lock{mutex_};
    std::vector<std::shared_ptr<exchange>> out;
    out.reserve(all_.size());
    for (const auto& e : all_) out.push_back(e.second);
    return out;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<exchange*, std::shared_ptr<exchange>> all_;
};

/// A stream on gRPC: reads a message, writes what follows from it, reads the next one. So a gateway that sends faster
/// than it reads is slowed down by HTTP/2, and nothing is queued here.
class exchange final : public grpc::ServerBidiReactor<wire::ProcessingRequest, wire::ProcessingResponse> {
 public:
  exchange(grpc::CallbackServerContext* context, exchanges& all, picker& p, const stream_limits& l)
      : context_{context}, all_{all}, limits_{l}, stream_{p, l, now()} {}

  void begin() {
    const std::lock_guard lock{mutex_};
    go_on();
  }
  void OnReadDone(bool ok) override {
    const std::lock_guard lock{mutex_};
    reading_ = false;
    if (ended_) return;
    if (ok) {
      stream_.receive(from_wire(std::move(in_)), now());
      in_.Clear();
    } else {
      stream_.closed();
    }
    go_on();
  }
  void OnWriteDone(bool ok) override {
    const std::lock_guard lock{mutex_};
    writing_ = false;
    if (!ok) stream_.closed();
    go_on();
  }
  void OnCancel() override {
    const std::lock_guard lock{mutex_};
    stream_.closed();
    if (!writing_) go_on();
  }
  void OnDone() override {
    {
      // gRPC frees the context when this returns, and `tick` may still have the exchange.
      const std::lock_guard lock{mutex_};
      context_ = nullptr;
    }
    all_.remove(this);
  }

  void tick(tessera::time_point at) {
    const std::lock_guard lock{mutex_};
    if (context_ == nullptr) return;
    if (ended_ || writing_) {
      // A gateway that does not read what it is sent, or does not hear of the end.
      if (at - began_ >= limits_.request_silence) context_->TryCancel();
      return;
    }
    stream_.tick(at);
    go_on();
  }

 private:
  /// What comes next. gRPC may call back before it returns from being asked: so that is always the last thing done.
  void go_on() {
    if (ended_ || writing_) return;
    if (auto s = stream_.next()) {
      out_ = to_wire(std::move(*s));
      writing_ = true;
      began_ = now();
      StartWrite(&out_);
      return;
    }
    if (const auto& over = stream_.over()) {
      ended_ = true;
      began_ = now();
      Finish({static_cast<grpc::StatusCode>(over->status), over->why});
      return;
    }
    if (reading_) return;
    reading_ = true;
    StartRead(&in_);
  }

  grpc::CallbackServerContext* context_;
  exchanges& all_;
  const stream_limits& limits_;
  std::recursive_mutex mutex_;  // gRPC calls back while it is being asked, or from another thread
  stream<picker> stream_;
  wire::ProcessingRequest in_;
  wire::ProcessingResponse out_;
  tessera::time_point began_{};  // The last write, or the end.
  bool reading_ = false;
  bool writing_ = false;
  bool ended_ = false;
};

/// Refuses a stream when there are as many as there may be.
class refusal final : public grpc::ServerBidiReactor<wire::ProcessingRequest, wire::ProcessingResponse> {
 public:
  refusal() { Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many streams"}); }
  void OnDone() override { delete this; }
};

class service final : public wire::ExternalProcessor::CallbackService {
 public:
  service(picker& p, const server::settings& s) : picker_{p}, settings_{s} {}

  grpc::ServerBidiReactor<wire::ProcessingRequest, wire::ProcessingResponse>* Process(
      grpc::CallbackServerContext* context) override {
    if (all.size() >= settings_.streams) return new refusal;
    const auto e = std::make_shared<exchange>(context, all, picker_, settings_.each);
    all.add(e);
    e->begin();
    return e.get();
  }

  exchanges all;

 private:
  picker& picker_;
  const server::settings& settings_;
};

constexpr const char* service_name = "envoy.service.ext_proc.v3.ExternalProcessor";

}  // namespace

struct server::inside {
  inside(picker& p, const settings& s) : is{s}, service{p, is} {}

  settings is;
  endpoint_picker::service service;
  std::unique_ptr<grpc::Server> runs;
  int port = 0;
};

server::server(picker& p, const settings& s) : inside_{std::make_unique<inside>(p, s)} {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (!s.certificate.empty()) {
    grpc::SslServerCredentialsOptions tls;
    tls.pem_key_cert_pairs.push_back({tessera::sim::read_file(s.key), tessera::sim::read_file(s.certificate)});
    credentials = grpc::SslServerCredentials(tls);
  }
  builder.AddListeningPort(s.listen, credentials, &inside_->port);
  builder.RegisterService(&inside_->service);
  builder.SetMaxReceiveMessageSize(static_cast<int>(s.message));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);  // finds gateways that are gone without a word
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  inside_->runs = builder.BuildAndStart();
  if (!inside_->runs || inside_->port == 0) {
    throw tessera::sim::usage_error{"cannot listen on " + s.listen + ": expected IP:PORT, free, and a key that fits"};
  }
  auto* const health = inside_->runs->GetHealthCheckService();
  for (const char* const name : {"liveness", "readiness", service_name}) health->SetServingStatus(name, true);
}
server::~server() { drain(tessera::duration{}); }

int server::port() const noexcept { return inside_->port; }
std::size_t server::streams() const { return inside_->service.all.size(); }

void server::tick() {
  const tessera::time_point at = now();
  for (const auto& e : inside_->service.all.all()) e->tick(at);
}

void server::drain(tessera::duration patience) {
  if (!inside_->runs) return;
  auto* const health = inside_->runs->GetHealthCheckService();
  for (const char* const name : {"", "readiness", service_name}) health->SetServingStatus(name, false);
  inside_->runs->Shutdown(std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::system_clock::duration>(
                              std::chrono::duration<double>(patience.seconds())));
  inside_->runs->Wait();
  inside_->runs.reset();
}

}  // namespace endpoint_picker
