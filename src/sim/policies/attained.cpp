// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/order/least_attained_service.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include <string>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// Least attained service, of programs where there are sessions.
policy published::attained(std::string name, std::string summary) {
  return make_policy<
      iteration_scheduler<request, order::least_attained_service<>, preempt::swap, admit::watermark, kv_store>>(
      std::move(name), std::move(summary));
}

}  // namespace sim
TESSERA_NAMESPACE_END
