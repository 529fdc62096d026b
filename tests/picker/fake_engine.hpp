// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <nlohmann/json.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace picker_test {

/// The next token of any fake engine: a function of all before it.
inline std::uint64_t next_token(const std::vector<std::uint64_t>& ids) {
  std::uint64_t h = 1469598103934665603ULL;
  for (const std::uint64_t id : ids) h = (h ^ id) * 1099511628211ULL;
  return h % 50'000;
}
/// What an engine generates, and what a client must get.
inline std::vector<std::uint64_t> tokens_after(std::vector<std::uint64_t> ids, std::size_t n) {
  std::vector<std::uint64_t> out;
  while (out.size() != n) {
    out.push_back(next_token(ids));
    ids.push_back(out.back());
  }
  return out;
}

/// A socket of ours.
class connection {
 public:
  explicit connection(int fd) noexcept : fd_{fd} {}
  ~connection() {
    if (fd_ >= 0) ::close(fd_);
  }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool send(std::string_view all) const {
    while (!all.empty()) {
      const ssize_t n = ::send(fd_, all.data(), all.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      all.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  /// What has come; empty at the end.
  [[nodiscard]] std::string receive() const {
    std::string buffer(65536, '\0');
    const ssize_t n = ::recv(fd_, buffer.data(), buffer.size(), 0);
    buffer.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return buffer;
  }

 private:
  int fd_;
};

/// Connects to 127.0.0.1; -1 if nothing listens.
inline int connect_to(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) return fd;
  ::close(fd);
  return -1;
}

/// A vLLM server as far as a picker and a gateway see one: /metrics, and completions that stream. It runs in threads of
/// this process, and dies when it is told to.
class fake_engine {
 public:
  enum class metrics { right, hang, garbage, endless, not_found };

  explicit fake_engine(std::chrono::milliseconds per_token = std::chrono::milliseconds{1}) : per_token_{per_token} {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&at), size) != 0 || ::listen(listener_, 512) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) != 0) {
      throw std::runtime_error{"no port"};
    }
    port_ = ntohs(at.sin_port);
    accepts_ = std::thread{[this] { accept_all(); }};
  }
  ~fake_engine() {
    die();
    accepts_.join();
    for (std::thread& t : threads_) t.join();
  }

  /// kill -9: nothing listens any more, and all connections end.
  void die() {
    if (dead_.exchange(true)) return;
    ::shutdown(listener_, SHUT_RDWR);
  }
  [[nodiscard]] std::string where() const { return "127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] int port() const { return port_; }

  std::atomic<metrics> says{metrics::right};
  std::atomic<int> running{0};
  std::atomic<int> waiting{0};
  std::atomic<int> served{0};
  std::atomic<int> started{1'700'000'000};

 private:
  void accept_all() {
    for (;;) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0 || dead_) {
        if (fd >= 0) ::close(fd);
        break;
      }
      threads_.emplace_back([this, fd] { serve(fd); });
    }
    ::close(listener_);
  }
  /// True when there is something to read, false when this is dead.
  bool ready(int fd) const {
    pollfd p{fd, POLLIN, 0};
    while (!dead_) {
      if (::poll(&p, 1, 20) > 0) return true;
    }
    return false;
  }
  void serve(int fd) {
    const connection c{fd};
    std::string in;
    std::size_t head = std::string::npos;
    std::size_t length = 0;
    for (;;) {
      if (!ready(fd)) return;
      const std::string more = c.receive();
      if (more.empty()) return;
      in += more;
      if (head == std::string::npos && (head = in.find("\r\n\r\n")) != std::string::npos) {
        const std::size_t at = in.find("content-length: ");
        if (at != std::string::npos && at < head) length = std::stoul(in.substr(at + 16));
      }
      if (head != std::string::npos && in.size() >= head + 4 + length) break;
    }
    if (in.substr(0, 4) == "GET ") return give_metrics(c);
    complete(c, nlohmann::json::parse(in.substr(head + 4)));
  }
  void give_metrics(const connection& c) {
    switch (says.load()) {
      case metrics::right: {
        const double usage = std::min(1.0, running * 0.01);
        const std::string page = "# HELP x\nvllm:num_requests_running{engine=\"0\"} " + std::to_string(running) +
                                 ".0\nvllm:num_requests_waiting{engine=\"0\"} " + std::to_string(waiting) +
                                 ".0\nvllm:kv_cache_usage_perc{engine=\"0\"} " + std::to_string(usage) +
                                 "\nprocess_start_time_seconds " + std::to_string(started) +
                                 "\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\"} 1.0\n";
        static_cast<void>(
            c.send("HTTP/1.1 200 OK\r\ncontent-length: " + std::to_string(page.size()) + "\r\n\r\n" + page));
        return;
      }
      case metrics::hang:
        while (!dead_ && says == metrics::hang) std::this_thread::sleep_for(std::chrono::milliseconds{10});
        return;
      case metrics::garbage:
        static_cast<void>(c.send("HTTP/1.1 200 OK\r\n\r\n\x01\x02 vllm:num_requests_running{ -nan \n\n\"}}}{\n"));
        return;
      case metrics::endless:
        static_cast<void>(c.send("HTTP/1.1 200 OK\r\n\r\n"));
        while (!dead_ && says == metrics::endless && c.send(std::string(65536, 'x'))) {
        }
        return;
      case metrics::not_found: static_cast<void>(c.send("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")); return;
    }
  }
  void complete(const connection& c, const nlohmann::json& asked) {
    ++running;
    auto ids = asked["prompt"].get<std::vector<std::uint64_t>>();
    const std::size_t prompt = ids.size();
    bool lives = c.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
    for (std::size_t n = asked["max_tokens"].get<std::size_t>(); lives && n != 0; --n) {
      std::this_thread::sleep_for(per_token_);
      ids.push_back(next_token(ids));
      lives = !dead_ && c.send("data: {\"choices\":[{\"token\":" + std::to_string(ids.back()) + "}]}\n\n");
    }
    if (lives) {
      lives = c.send("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":" + std::to_string(prompt) +
                     ",\"completion_tokens\":" + std::to_string(ids.size() - prompt) + "}}\n\ndata: [DONE]\n\n");
    }
    --running;
    ++served;
  }

  std::chrono::milliseconds per_token_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> dead_{false};
  std::thread accepts_;
  std::vector<std::thread> threads_;
};

}  // namespace picker_test
