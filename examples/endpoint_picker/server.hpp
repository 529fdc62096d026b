// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "picker.hpp"
#include "stream.hpp"

#include <tessera/core/units.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace endpoint_picker {

/// The picker on gRPC: Envoy's external processing service and gRPC's health service. A stream is an object without a
/// thread of its own. Threads of gRPC call it when a message has come or gone. They are half as many as there are
/// processors, and at least two.
class server {
 public:
  struct settings {
    std::string listen = "0.0.0.0:9002";          ///< Port 0: any.
    std::size_t streams = 1024;                   ///< At a time; more end with RESOURCE_EXHAUSTED.
    std::size_t message = std::size_t{4} << 20U;  ///< Bytes of a message from a gateway.
    stream_limits each{};
    std::string certificate;  ///< PEM files; empty: no TLS.
    std::string key;
  };

  /// Listens. @throws tessera::sim::error where it cannot
  server(picker& p, const settings& s);
  ~server();
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  [[nodiscard]] int port() const noexcept;
  /// Streams that live.
  [[nodiscard]] std::size_t streams() const;
  /// Time has passed: ends streams that are silent or stuck. To be called several times a second.
  void tick();
  /// Takes no new streams, and says so; returns when the others have ended, or after so long, when they are cut off.
  void drain(tessera::duration patience);

 private:
  struct inside;
  std::unique_ptr<inside> inside_;
};

}  // namespace endpoint_picker
