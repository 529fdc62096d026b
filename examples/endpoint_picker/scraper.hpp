// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "http_answer.hpp"
#include "picker.hpp"

#include <tessera/core/units.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace endpoint_picker {

/// The time for everything here.
[[nodiscard]] inline tessera::time_point now() noexcept {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return tessera::time_point::at_seconds(std::chrono::duration<double>(since).count());
}

/// Asks all endpoints for their metrics, all at once, with sockets that do not block, in the thread that calls it. An
/// endpoint that hangs costs a socket until its time is over; the others do not wait for it.
class scraper {
 public:
  struct settings {
    std::string path = "/metrics";
    tessera::duration patience{1.0};           ///< For an answer, whole.
    std::size_t most = std::size_t{1} << 20U;  ///< Bytes of an answer.
    std::size_t sockets = 256;                 ///< Open at a time.
  };
  /// @param complain is told what is wrong with an endpoint when that begins, and nothing when it has ended.
  scraper(picker& p, const settings& s, std::function<void(const std::string&)> complain)
      : picker_{p}, settings_{s}, complain_{std::move(complain)} {}

  /// Asks every endpoint once. Returns when all have answered, failed, or had their time, or when `ends` says so.
  template <class Ends>
  void round(Ends ends) {
    std::vector<scrape_target> waiting = picker_.targets();
    std::reverse(waiting.begin(), waiting.end());
    forget_who_is_gone(waiting);
    std::vector<visit> open;
    std::vector<pollfd> polled;
    std::string buffer(16384, '\0');
    while ((!waiting.empty() || !open.empty()) && !ends()) {
      while (!waiting.empty() && open.size() < settings_.sockets) {
        begin(std::move(waiting.back()), open);
        waiting.pop_back();
      }
      polled.clear();
      for (const visit& v : open) polled.push_back({v.fd.get(), static_cast<short>(v.asked ? POLLIN : POLLOUT), 0});
      if (!polled.empty()) static_cast<void>(::poll(polled.data(), polled.size(), 50));
      const tessera::time_point at = now();
      for (std::size_t i = open.size(); i-- != 0;) {
        const bool goes_on = (polled[i].revents == 0 || move(open[i], buffer)) &&
                             (at < open[i].until || fail(open[i], "does not answer in time", false));
        if (goes_on) continue;
        if (i + 1 != open.size()) open[i] = std::move(open.back());
        open.pop_back();
      }
    }
  }

 private:
  class socket_handle {
   public:
    explicit socket_handle(int fd = -1) noexcept : fd_{fd} {}
    ~socket_handle() {
      if (fd_ >= 0) ::close(fd_);
    }
    socket_handle(socket_handle&& o) noexcept : fd_{std::exchange(o.fd_, -1)} {}
    socket_handle& operator=(socket_handle&& o) noexcept {
      std::swap(fd_, o.fd_);
      return *this;
    }
    [[nodiscard]] int get() const noexcept { return fd_; }

   private:
    int fd_;
  };
  struct visit {
    scrape_target whom;
    socket_handle fd;
    tessera::time_point until;
    http_answer answer;
    std::string request;
    bool asked = false;
  };

  void begin(scrape_target whom, std::vector<visit>& open) {
    const address a = read_address(whom.where).value();
    visit v{std::move(whom),
            socket_handle{::socket(a.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)},
            now() + settings_.patience,
            http_answer{settings_.most},
            {},
            false};
    v.request = "GET " + settings_.path + " HTTP/1.1\r\nHost: " + v.whom.where +
                "\r\nAccept: text/plain\r\nConnection: close\r\n\r\n";
    if (v.fd.get() < 0) {
      fail(v, std::strerror(errno), false);
      return;
    }
    sockaddr_storage to{};
    socklen_t size = 0;
    if (a.v6) {
      auto& in = reinterpret_cast<sockaddr_in6&>(to);
      in.sin6_family = AF_INET6;
      in.sin6_port = htons(a.port);
      inet_pton(AF_INET6, a.ip.c_str(), &in.sin6_addr);
      size = sizeof in;
    } else {
      auto& in = reinterpret_cast<sockaddr_in&>(to);
      in.sin_family = AF_INET;
      in.sin_port = htons(a.port);
      inet_pton(AF_INET, a.ip.c_str(), &in.sin_addr);
      size = sizeof in;
    }
    picker_.asked(v.whom);
    if (::connect(v.fd.get(), reinterpret_cast<sockaddr*>(&to), size) != 0 && errno != EINPROGRESS) {
      fail(v, std::strerror(errno), true);
      return;
    }
    open.push_back(std::move(v));
  }
  /// Its socket has something to say. False when it is over.
  bool move(visit& v, std::string& buffer) {
    if (!v.asked) {
      int wrong = 0;
      socklen_t size = sizeof wrong;
      ::getsockopt(v.fd.get(), SOL_SOCKET, SO_ERROR, &wrong, &size);
      if (wrong != 0) return fail(v, std::strerror(wrong), true);
      const ssize_t n = ::send(v.fd.get(), v.request.data(), v.request.size(), MSG_NOSIGNAL);
      if (n < 0) return errno == EAGAIN || errno == EINTR || fail(v, std::strerror(errno), true);
      v.request.erase(0, static_cast<std::size_t>(n));
      v.asked = v.request.empty();
      return true;
    }
    const ssize_t n = ::recv(v.fd.get(), buffer.data(), buffer.size(), 0);
    if (n < 0) return errno == EAGAIN || errno == EINTR || fail(v, std::strerror(errno), true);
    const auto state = n == 0 ? v.answer.closed() : v.answer.read({buffer.data(), static_cast<std::size_t>(n)});
    if (state == http_answer::state::more) return true;
    if (state == http_answer::state::broken) return fail(v, "an answer that is no HTTP or too long", false);
    if (v.answer.status() != 200) return fail(v, "status " + std::to_string(v.answer.status()), false);
    std::string why;
    const auto metrics = read_metrics(v.answer.body(), why);
    if (!metrics) return fail(v, "metrics without " + why, false);
    picker_.reported(v.whom, *metrics, now());
    if (complaints_.erase(v.whom.life) != 0) complain_(v.whom.where + ": answers again");
    return false;
  }
  /// Always false.
  bool fail(const visit& v, const std::string& why, bool unreachable) {
    if (unreachable) picker_.unreachable(v.whom);
    std::string& last = complaints_[v.whom.life];
    if (last != why) complain_(v.whom.where + ": " + why);
    last = why;
    return false;
  }
  void forget_who_is_gone(const std::vector<scrape_target>& all) {
    std::erase_if(complaints_, [&](const auto& c) {
      return std::none_of(all.begin(), all.end(), [&](const scrape_target& t) { return t.life == c.first; });
    });
  }

  picker& picker_;
  settings settings_;
  std::function<void(const std::string&)> complain_;
  std::map<std::uint64_t, std::string> complaints_;  // By life.
};

}  // namespace endpoint_picker
