// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// @file
/// What a gateway and an endpoint picker say to each other about one HTTP request, as values. It is the part of Envoy's
/// ext_proc that the endpoint picker protocol uses. No gRPC here.

namespace endpoint_picker {

/// Where the destination is written: a header of the request, and a key of the dynamic metadata in `envoy.lb`.
inline constexpr const char* destination_key = "x-gateway-destination-endpoint";
/// The endpoints that may be chosen: a list, or a text with commas, in the filter metadata `envoy.lb.subset_hint`.
inline constexpr const char* subset_key = "x-gateway-destination-endpoint-subset";
/// Which of them has served the request: in the filter metadata `envoy.lb`, with the response.
inline constexpr const char* served_key = "x-gateway-destination-endpoint-served";
/// A request header: what the request is for. What has a negative priority may be shed.
inline constexpr const char* objective_key = "x-gateway-inference-objective";

/// Which part of an HTTP exchange a message is about.
enum class part : std::uint8_t {
  none,  ///< Nothing that we know.
  request_headers,
  request_body,
  request_trailers,
  response_headers,
  response_body,
  response_trailers,
};

/// A message from the gateway.
struct received {
  part what = part::none;
  std::vector<std::pair<std::string, std::string>> headers;  ///< Names in lower case.
  std::string body;
  bool end_of_stream = false;                      ///< Nothing follows in this direction.
  std::optional<std::vector<std::string>> subset;  ///< The endpoints that may be chosen, if it says so.
  std::string served;                              ///< The endpoint that has answered; empty: it does not say.
  bool unsuitable = false;  ///< For a filter that only watches, or gets bodies in another mode than full duplex.
};

/// A message to the gateway.
struct sent {
  part what = part::none;   ///< `none`: an answer of the picker's own, and the end.
  std::string destination;  ///< With `request_headers`: endpoints in the order of preference, separated by commas.
  std::string body;         ///< A piece of a body, or the text of the answer.
  bool end_of_stream = false;
  int status = 0;  ///< HTTP status of the answer.
};

/// How a stream ends; values as in gRPC.
enum class grpc_status : std::uint8_t {
  ok = 0,
  invalid_argument = 3,
  deadline_exceeded = 4,
  resource_exhausted = 8,
  unavailable = 14,
};

}  // namespace endpoint_picker
