// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/log.hpp>
#include <tessera/fleet/runtime.hpp>

#include "support/catch.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace tessera_test {

using lines = std::vector<std::string>;

// What no router knows is nowhere in what a controller is shown.
template <class T>
concept knows_the_output = requires(const T& r) { r.output; };
static_assert(!knows_the_output<tessera::fleet::request_view>);

/// A runtime that is told lines and answers in lines.
struct told {
  tessera::owned_storage<tessera::fleet::runtime_limits> storage;
  tessera::fleet::runtime rt;

  explicit told(tessera::fleet::controller& by, const tessera::fleet::runtime_settings& s = {},
                const tessera::fleet::runtime_limits& l = {.book = {.replicas = 4, .reservations = 32}, .requests = 16})
      : storage{tessera::storage_for<tessera::fleet::runtime>(l)}, rt{by, storage, s} {}

  lines operator()(std::string_view line) {
    using namespace tessera;
    fleet::event e;
    const fleet::log_error wrong = fleet::read(line, e);
    INFO(line);
    REQUIRE(wrong.column == 0);
    return (*this)(e);
  }
  /// The same of an event that no line may say.
  lines operator()(const tessera::fleet::event& e) {
    using namespace tessera;
    lines out;
    fleet::log_line to;
    for (const fleet::action& a : rt.handle(e)) out.emplace_back(fleet::write(a, to));
    return out;
  }
};

}  // namespace tessera_test
