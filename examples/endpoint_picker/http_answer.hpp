// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// @file
/// An HTTP/1.1 answer as it comes in pieces: enough of it for a GET of metrics.

namespace endpoint_picker {

/// Reads one answer, at most `most` bytes of head and body each. Bytes in, state out; no socket.
class http_answer {
 public:
  enum class state : std::uint8_t { more, whole, broken };

  explicit http_answer(std::size_t most) noexcept : most_{most} {}

  /// More has come. O(piece).
  state read(std::string_view piece) {
    while (!piece.empty() && state_ == state::more) take(piece);
    return state_;
  }
  /// The connection was closed: then all has come if nothing said how much it would be.
  state closed() noexcept {
    if (state_ == state::more) state_ = where_ == at::until_closed ? state::whole : state::broken;
    return state_;
  }

  [[nodiscard]] int status() const noexcept { return status_; }
  [[nodiscard]] const std::string& body() const noexcept { return body_; }

 private:
  enum class at : std::uint8_t { head, counted, until_closed, chunk_size, chunk, chunk_end, trailer };

  void take(std::string_view& piece) {
    switch (where_) {
      case at::head:
        if (line(piece)) head_line();
        break;
      case at::counted:
      case at::until_closed:
      case at::chunk: {
        const std::size_t n = where_ == at::until_closed ? piece.size() : std::min(piece.size(), left_);
        if (n > most_ - body_.size()) return fail();
        body_.append(piece.substr(0, n));
        piece.remove_prefix(n);
        if (where_ == at::until_closed) break;
        left_ -= n;
        if (left_ == 0) where_ == at::counted ? end() : go(at::chunk_end);
        break;
      }
      case at::chunk_size:
        if (line(piece)) {
          const auto n = whole(std::string_view{line_}.substr(0, line_.find(';')), 16);
          line_.clear();
          if (!n) return fail();
          left_ = *n;
          go(left_ == 0 ? at::trailer : at::chunk);
        }
        break;
      case at::chunk_end:
        if (line(piece)) {
          if (!line_.empty()) return fail();
          go(at::chunk_size);
        }
        break;
      case at::trailer:
        if (line(piece)) {
          if (line_.empty()) return end();
          line_.clear();
        }
        break;
    }
  }
  /// True when `line_` is a whole line.
  bool line(std::string_view& piece) {
    const std::size_t n = std::min(piece.find('\n'), piece.size());
    head_bytes_ += n + (n == piece.size() ? 0U : 1U);
    if (head_bytes_ > most_) {
      fail();
      return false;
    }
    line_.append(piece.substr(0, n));
    if (n == piece.size()) {
      piece = {};
      return false;
    }
    piece.remove_prefix(n + 1);
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    return true;
  }
  void head_line() {
    if (status_ == 0) {
      if (line_.substr(0, 7) != "HTTP/1." || line_.size() < 12) return fail();
      const auto status = whole(std::string_view{line_}.substr(9, 3), 10);
      if (!status || *status < 200) return fail();  // a 1xx was not asked for
      status_ = static_cast<int>(*status);
    } else if (line_.empty()) {
      return chunked_ ? go(at::chunk_size) : !length_ ? go(at::until_closed) : *length_ == 0 ? end() : go(at::counted);
    } else {
      std::transform(line_.begin(), line_.end(), line_.begin(),
                     [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
      const std::size_t colon = line_.find(':');
      const std::string_view name = std::string_view{line_}.substr(0, colon);
      std::string_view value = colon == line_.npos ? std::string_view{} : std::string_view{line_}.substr(colon + 1);
      while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
      while (!value.empty() && value.back() == ' ') value.remove_suffix(1);
      if (name == "transfer-encoding") chunked_ = value.find("chunked") != value.npos;
      if (name == "content-length") {
        length_ = whole(value, 10);
        if (!length_ || *length_ > most_) return fail();
        left_ = *length_;
      }
    }
    line_.clear();
  }
  static std::optional<std::size_t> whole(std::string_view text, int base) noexcept {
    std::size_t n = 0;
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), n, base);
    if (wrong != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return n;
  }
  void go(at next) {
    line_.clear();
    where_ = next;
  }
  void end() noexcept { state_ = state::whole; }
  void fail() noexcept { state_ = state::broken; }

  std::size_t most_;
  std::string line_;
  std::string body_;
  std::size_t head_bytes_ = 0;  // Bytes of the head and of all other lines that are no body.
  std::size_t left_ = 0;
  std::optional<std::size_t> length_;
  int status_ = 0;
  bool chunked_ = false;
  at where_ = at::head;
  state state_ = state::more;
};

}  // namespace endpoint_picker
