// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/gate/fair_tenants.hpp>
#include <tessera/gate/tenant_deficits.hpp>
#include <tessera/kv/csr_tables.hpp>
#include <tessera/order/fcfs.hpp>
#include <tessera/order/longest_prefix.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>

#include <string>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace sim {

namespace published {

policy vtc() {
  return make_policy<iteration_scheduler<request, order::fcfs, preempt::swap, admit::watermark, kv_store,
                                         kv::csr_tables, gate::fair_tenants>>(
      "vtc", "VTC: the waiting tenant that has been given least starts next");
}

policy dlpm() {
  return make_policy<iteration_scheduler<request, order::longest_prefix<>, preempt::swap, admit::watermark, kv_store,
                                         kv::csr_tables, gate::tenant_deficits>>(
      "dlpm",
      "DLPM: among tenants with credit, the request with the longest cached prefix starts next; cached tokens cost no "
      "credit");
}

policy longest_prefix(std::string name, std::string summary) {
  return make_policy<iteration_scheduler<request, order::longest_prefix<>, preempt::swap, admit::watermark, kv_store>>(
      std::move(name), std::move(summary));
}

}  // namespace published

}  // namespace sim
TESSERA_NAMESPACE_END
