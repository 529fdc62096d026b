// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "answer_scan.hpp"
#include "completion.hpp"
#include "message.hpp"
#include "picker.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace endpoint_picker {

/// How much a stream may ask of the picker.
struct stream_limits {
  std::size_t body = std::size_t{8} << 20U;      ///< Bytes of a request's body.
  std::size_t headers = std::size_t{64} << 10U;  ///< Bytes of a request's headers and trailers.
  std::size_t piece = std::size_t{60} << 10U;    ///< Bytes of a body that go back in one message.
  tessera::duration request_silence{10.0};       ///< Between two messages of a request.
  tessera::duration request_time{60.0};          ///< From the first message of a request to its last one.
  tessera::duration answer_silence{600.0};       ///< Until the engine answers, and between two messages of its answer.
};

/// One HTTP request and its answer, as the protocol has them: messages in, messages out, the time from the caller. No
/// thread, no gRPC.
///
/// `receive` takes a message. Then `next` gives what is to be sent until it gives nothing; then comes the next message.
/// Nothing is queued: what is held is the request's body until it has gone back, and after that one message's. When
/// `over`, the stream ends with that status.
///
/// In full duplex the answers come in the order of an HTTP message: headers, body in pieces, trailers. The headers have
/// the destination, which is known only when all of the body is there. An answer's messages go back one by one as they
/// come.
template <class Picker>
class stream {
 public:
  using time_point = tessera::time_point;

  /// How it ends.
  struct end {
    grpc_status status = grpc_status::ok;
    const char* why = "";
  };

  stream(Picker& p, const stream_limits& l, time_point now) noexcept
      : picker_{p}, limits_{l}, began_{now}, heard_{now} {}
  ~stream() { give_back(); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  /// A message has come. Requires that `next` has given all (asserted).
  void receive(received&& m, time_point now) {
    TESSERA_ASSERT(sends_ == part::none && !answer_, "what is to be sent goes first");
    if (over_) return;
    heard_ = now;
    if (m.unsuitable) return stop(grpc_status::invalid_argument, "the picker needs bodies in FULL_DUPLEX_STREAMED");
    switch (m.what) {
      case part::request_headers: return request_headers(m, now);
      case part::request_body: return request_body(m, now);
      case part::request_trailers: return request_trailers(m, now);
      case part::response_headers: return response_headers(m, now);
      case part::response_body: return response_body(m, now);
      case part::response_trailers: return response_trailers(now);
      case part::none: break;
    }
    stop(grpc_status::invalid_argument, "a message that says nothing");
  }
  /// The gateway has nothing more to say: the request has ended, or its client has gone.
  void closed() {
    if (!over_) stop(grpc_status::ok, "");
  }
  /// Time has passed.
  void tick(time_point now) {
    if (over_ || sends_ != part::none || answer_) return;
    const bool late =
        now - heard_ >= (at_ == at::begin || at_ == at::request ? limits_.request_silence : limits_.answer_silence);
    switch (at_) {
      case at::begin:
        if (late) stop(grpc_status::deadline_exceeded, "no request came");
        break;
      case at::request:
        if (late || now - began_ >= limits_.request_time) answer(408, "the request did not come in time");
        break;
      case at::waiting:
        // The request is with the engine, and goes on without us.
        if (late) stop(grpc_status::ok, "");
        break;
      case at::response:
        if (late) stop(grpc_status::deadline_exceeded, "the response did not go on");
        break;
      case at::done:
        if (late) stop(grpc_status::ok, "");
        break;
    }
  }

  /// What is to be sent now, if anything is.
  [[nodiscard]] std::optional<sent> next() {
    if (answer_) {
      std::optional<sent> out;
      out.swap(answer_);
      over_ = end{};
      return out;
    }
    sent out;
    out.what = sends_;
    switch (sends_) {
      case part::none: return std::nullopt;
      case part::request_headers:
        out.destination = std::move(destination_);
        // A request without a body has none to send back.
        sends_ = headers_alone_                 ? part::none
                 : !body_.empty() || !trailers_ ? part::request_body
                                                : part::request_trailers;
        return out;
      case part::request_body:
      case part::response_body: {
        const std::size_t n = std::min(body_.size() - gone_, limits_.piece);
        out.body = gone_ == 0 && n == body_.size() ? std::move(body_) : body_.substr(gone_, n);
        gone_ += n;
        if (gone_ >= body_size_) {
          out.end_of_stream = ends_ && !trailers_;
          sends_ = trailers_ ? part::request_trailers : part::none;
          drop_body();
        }
        return out;
      }
      case part::request_trailers:
      case part::response_headers:
      case part::response_trailers:
        sends_ = part::none;
        trailers_ = false;
        return out;
    }
    return std::nullopt;
  }
  /// How the stream ends, once it does.
  [[nodiscard]] const std::optional<end>& over() const noexcept { return over_; }
  /// Where its request is, for tests.
  [[nodiscard]] const std::optional<ticket>& place() const noexcept { return place_; }

 private:
  enum class at : std::uint8_t { begin, request, waiting, response, done };

  void request_headers(received& m, time_point now) {
    if (at_ != at::begin) return out_of_order();
    at_ = at::request;
    began_ = now;
    std::size_t size = 0;
    std::optional<std::uint64_t> length;
    for (const auto& [name, value] : m.headers) {
      size += name.size() + value.size();
      if (name == "content-length") {
        std::uint64_t n = 0;
        const auto [last, wrong] = std::from_chars(value.data(), value.data() + value.size(), n);
        if (wrong == std::errc{} && last == value.data() + value.size()) length = n;
      }
      if (name == "content-type") is_json_ = value.find("json") != value.npos;
      if (name == objective_key) objective_ = value;
    }
    if (size > limits_.headers) return answer(431, "the headers are too large");
    if (!take_subset(m)) return;
    if (m.end_of_stream) {
      headers_alone_ = true;
      return decide(now);
    }
    if (length && *length > limits_.body) return answer(413, "the body is too large");
  }
  void request_body(received& m, time_point now) {
    if (at_ != at::request) return out_of_order();
    if (!take_subset(m)) return;
    if (m.body.size() > limits_.body - body_.size()) return answer(413, "the body is too large");
    if (!picker_.hold(m.body.size())) return answer(503, "the picker holds too many bodies at a time");
    held_ += m.body.size();
    if (body_.empty()) {
      body_ = std::move(m.body);
    } else {
      body_.append(m.body);
    }
    if (!m.end_of_stream) return;
    ends_ = true;
    decide(now);
  }
  void request_trailers(received& m, time_point now) {
    if (at_ != at::request) return out_of_order();
    std::size_t size = 0;
    for (const auto& [name, value] : m.headers) size += name.size() + value.size();
    if (size > limits_.headers) return answer(431, "the trailers are too large");
    trailers_ = true;
    decide(now);
  }
  /// It counts as a body until the request is placed; one that is said again, with each part of a body, is held once.
  /// False if there is no room for it.
  bool take_subset(received& m) {
    if (!m.subset) return true;
    const auto size_of = [](const std::vector<std::string>& all) {
      std::size_t size = 0;
      for (const std::string& where : all) size += sizeof where + where.size();
      return size;
    };
    if (subset_) {
      const std::size_t before = size_of(*subset_);
      picker_.let_go(before);
      held_ -= before;
      subset_.reset();
    }
    const std::size_t size = size_of(*m.subset);
    if (!picker_.hold(size)) {
      answer(503, "the picker holds too many bodies at a time");
      return false;
    }
    held_ += size;
    subset_ = std::move(m.subset);
    return true;
  }
  void response_headers(received& m, time_point now) {
    if (at_ != at::waiting) return out_of_order();
    if (!m.served.empty()) picker_.served(*place_, m.served, now);
    at_ = at::response;
    sends_ = part::response_headers;
    if (m.end_of_stream) finish(now);
  }
  void response_body(received& m, time_point now) {
    if (at_ != at::response) return out_of_order();
    scan_.read(m.body);
    if (!m.body.empty()) {
      const std::uint64_t all = scan_.generated().value_or(scan_.events());
      if (scan_.reasoned() && scan_.answered() && !answers_) {
        answers_ = true;
        // What comes behind the end of its reasoning in this piece is of the answer.
        picker_.progress(*place_, std::min(scan_.thoughts(), all), now);
        picker_.answers(*place_, now);
      }
      picker_.progress(*place_, all, now);
    }
    body_ = std::move(m.body);
    body_size_ = body_.size();
    gone_ = 0;
    ends_ = m.end_of_stream;
    sends_ = part::response_body;
    if (m.end_of_stream) finish(now);
  }
  void response_trailers(time_point now) {
    if (at_ != at::response) return out_of_order();
    sends_ = part::response_trailers;
    finish(now);
  }

  void decide(time_point now) {
    if (!headers_alone_ && is_json_ && !(body_.empty())) {
      std::size_t offset = 0;
      std::optional<completion> said = read_completion(body_, offset);
      if (!said) return answer(400, "the body is no JSON object: see byte " + std::to_string(offset));
      asked_ = std::move(*said);
    } else if (!headers_alone_ && is_json_) {
      return answer(400, "the body is empty");
    } else {
      asked_.text_bytes = body_.size();
    }
    decision d = picker_.pick(asks(), now);
    switch (d.what) {
      case decision::kind::chosen: break;
      case decision::kind::none_ready: return answer(503, "no endpoint is ready");
      case decision::kind::shed: return answer(429, "all endpoints are busy, and this request may be shed");
      case decision::kind::full: return answer(429, "too many requests at a time");
      case decision::kind::too_long: return answer(413, "the prompt is too long");
    }
    place_ = d.place;
    destination_ = std::move(d.destination);
    // What only the decision needed is not kept for the rest of the stream.
    subset_.reset();
    picker_.let_go(held_ - body_.size());
    held_ = body_.size();
    objective_ = {};
    asked_.model = {};
    body_size_ = body_.size();
    sends_ = part::request_headers;
    at_ = at::waiting;
  }
  [[nodiscard]] pick_request asks() const noexcept {
    return {.model = asked_.model,
            .text_bytes = asked_.text_bytes,
            .token_ids = asked_.token_ids,
            .max_tokens = asked_.max_tokens.value_or(0),
            .reasons = asked_.reasons,
            .objective = objective_,
            .subset = subset_ ? &*subset_ : nullptr};
  }
  /// All of the answer has come.
  void finish(time_point) {
    at_ = at::done;
    if (scan_.prompt() && asked_.token_ids == 0) picker_.learn(asked_.text_bytes, *scan_.prompt());
    give_back();
  }
  void give_back() {
    if (place_) picker_.release(*place_);
    place_.reset();
    if (held_ != 0) picker_.let_go(held_);
    held_ = 0;
  }
  void drop_body() {
    body_ = {};
    body_size_ = 0;
    gone_ = 0;
    if (held_ != 0) picker_.let_go(held_);
    held_ = 0;
  }
  void answer(int status, const std::string& why) {
    sent out;
    out.status = status;
    out.body = nlohmann::json{{"error", {{"message", why}, {"type", "endpoint_picker"}, {"code", status}}}}.dump();
    answer_ = std::move(out);
    at_ = at::done;
    give_back();
    body_ = {};
  }
  void out_of_order() { stop(grpc_status::invalid_argument, "a message that does not come here"); }
  void stop(grpc_status status, const char* why) {
    over_ = end{status, why};
    sends_ = part::none;
    answer_.reset();
    give_back();
    body_ = {};
  }

  Picker& picker_;
  const stream_limits& limits_;
  time_point began_;
  time_point heard_;
  at at_ = at::begin;
  part sends_ = part::none;
  std::optional<sent> answer_;
  std::optional<end> over_;
  std::optional<ticket> place_;
  std::string destination_;
  std::string objective_;
  std::optional<std::vector<std::string>> subset_;
  completion asked_;
  answer_scan scan_;
  std::string body_;
  std::size_t body_size_ = 0;
  std::size_t gone_ = 0;
  std::size_t held_ = 0;  // Bytes that it holds of the budget that all streams share.
  bool is_json_ = true;
  bool headers_alone_ = false;
  bool ends_ = false;
  bool trailers_ = false;  // The request's trailers are still to be sent back.
  bool answers_ = false;
};

}  // namespace endpoint_picker
