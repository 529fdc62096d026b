// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/controller.hpp>

#include <memory>

/// @file
/// Controllers of a fleet that own their memory.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A controller with memory of its own, sized by `limits`. Allocates. @tparam Controller is made from what
/// `storage_for` returns, and `args`.
template <class Controller, class... Args>
[[nodiscard]] std::shared_ptr<fleet::controller> make_controller(const typename Controller::limits& limits,
                                                                 const Args&... args) {
  struct owner {
    owned_storage<typename Controller::limits> storage;
    Controller decides;
    owner(const typename Controller::limits& l, const Args&... a)
        : storage{storage_for<Controller>(l)}, decides{storage, a...} {}
  };
  const auto all = std::make_shared<owner>(limits, args...);
  return {all, &all->decides};
}

}  // namespace sim
TESSERA_NAMESPACE_END
