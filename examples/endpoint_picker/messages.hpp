// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "message.hpp"

#include "ext_proc.pb.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

/// @file
/// Between the protocol's values and what is on the wire.

namespace endpoint_picker {

namespace wire = ::envoy::service::ext_proc::v3;

/// The namespaces of the protocol's metadata.
inline constexpr const char* subset_namespace = "envoy.lb.subset_hint";
inline constexpr const char* destination_namespace = "envoy.lb";

namespace detail {

inline void take_headers(wire::HeaderMap& from, received& to) {
  for (wire::HeaderValue& h : *from.mutable_headers()) {
    to.headers.emplace_back(std::move(*h.mutable_key()),
                            h.raw_value().empty() ? std::move(*h.mutable_value()) : std::move(*h.mutable_raw_value()));
  }
}

inline const google::protobuf::Value* metadata_of(const wire::ProcessingRequest& m, const char* space,
                                                  const char* key) {
  const auto& all = m.metadata_context().filter_metadata();
  const auto fields = all.find(space);
  if (fields == all.end()) return nullptr;
  const auto value = fields->second.fields().find(key);
  return value == fields->second.fields().end() ? nullptr : &value->second;
}

}  // namespace detail

/// Takes a message apart.
[[nodiscard]] inline received from_wire(wire::ProcessingRequest&& m) {
  received out;
  using kind = wire::ProcessingRequest;
  switch (m.request_case()) {
    case kind::kRequestHeaders:
      out.what = part::request_headers;
      detail::take_headers(*m.mutable_request_headers()->mutable_headers(), out);
      out.end_of_stream = m.request_headers().end_of_stream();
      break;
    case kind::kResponseHeaders:
      out.what = part::response_headers;
      detail::take_headers(*m.mutable_response_headers()->mutable_headers(), out);
      out.end_of_stream = m.response_headers().end_of_stream();
      break;
    case kind::kRequestBody:
      out.what = part::request_body;
      out.body = std::move(*m.mutable_request_body()->mutable_body());
      out.end_of_stream = m.request_body().end_of_stream();
      break;
    case kind::kResponseBody:
      out.what = part::response_body;
      out.body = std::move(*m.mutable_response_body()->mutable_body());
      out.end_of_stream = m.response_body().end_of_stream();
      break;
    case kind::kRequestTrailers:
      out.what = part::request_trailers;
      detail::take_headers(*m.mutable_request_trailers()->mutable_trailers(), out);
      break;
    case kind::kResponseTrailers:
      out.what = part::response_trailers;
      detail::take_headers(*m.mutable_response_trailers()->mutable_trailers(), out);
      break;
    case kind::REQUEST_NOT_SET: break;
  }
  if (const auto* hint = detail::metadata_of(m, subset_namespace, subset_key)) {
    out.subset.emplace();
    for (const auto& one : hint->list_value().values()) out.subset->push_back(one.string_value());
    // Filters that make metadata of headers can make no lists.
    const std::string& text = hint->string_value();
    for (std::size_t from = 0; from < text.size();) {
      const std::size_t to = std::min(text.find(',', from), text.size());
      out.subset->push_back(text.substr(from, to - from));
      from = to + 1;
    }
  }
  if (const auto* where = detail::metadata_of(m, destination_namespace, served_key)) out.served = where->string_value();
  const auto none = wire::ProtocolConfiguration::NONE;
  const auto duplex = wire::ProtocolConfiguration::FULL_DUPLEX_STREAMED;
  out.unsuitable =
      m.observability_mode() ||
      (m.has_protocol_config() &&
       (m.protocol_config().request_body_mode() != duplex ||
        (m.protocol_config().response_body_mode() != duplex && m.protocol_config().response_body_mode() != none)));
  return out;
}

/// Makes a message.
[[nodiscard]] inline wire::ProcessingResponse to_wire(sent&& s) {
  wire::ProcessingResponse m;
  const auto set = [](wire::HeaderMutation* in, const char* name, const std::string& value) {
    wire::HeaderValueOption* const h = in->add_set_headers();
    h->mutable_header()->set_key(name);
    h->mutable_header()->set_raw_value(value);
    h->set_append_action(wire::HeaderValueOption::OVERWRITE_IF_EXISTS_OR_ADD);
  };
  const auto piece = [&](wire::BodyResponse* in) {
    wire::StreamedBodyResponse* const b = in->mutable_response()->mutable_body_mutation()->mutable_streamed_response();
    b->set_body(std::move(s.body));
    b->set_end_of_stream(s.end_of_stream);
  };
  switch (s.what) {
    case part::none: {
      wire::ImmediateResponse* const r = m.mutable_immediate_response();
      r->mutable_status()->set_code(s.status);
      set(r->mutable_headers(), "content-type", "application/json");
      r->set_body(std::move(s.body));
      r->set_details("endpoint_picker");
      break;
    }
    case part::request_headers: {
      wire::CommonResponse* const r = m.mutable_request_headers()->mutable_response();
      r->set_clear_route_cache(true);
      set(r->mutable_header_mutation(), destination_key, s.destination);
      auto& space = (*m.mutable_dynamic_metadata()->mutable_fields())[destination_namespace];
      (*space.mutable_struct_value()->mutable_fields())[destination_key].set_string_value(s.destination);
      break;
    }
    case part::request_body: piece(m.mutable_request_body()); break;
    case part::request_trailers: m.mutable_request_trailers(); break;
    case part::response_headers: m.mutable_response_headers()->mutable_response(); break;
    case part::response_body: piece(m.mutable_response_body()); break;
    case part::response_trailers: m.mutable_response_trailers(); break;
  }
  return m;
}

}  // namespace endpoint_picker
