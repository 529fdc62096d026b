// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/partition/bucketed.hpp>
#include <tessera/partition/chain.hpp>
#include <tessera/partition/exact.hpp>
#include <tessera/partition/flat.hpp>
#include <tessera/partition/merge.hpp>
#include <tessera/partition/range_refiner.hpp>

template class tessera::partition::range_refiner<tessera::partition::by_quality>;
template class tessera::partition::range_refiner<tessera::partition::by_count>;
template class tessera::partition::range_refiner<tessera::partition::by_memory>;

using tessera::partition::length_table;
using tessera::partition::stage;

tessera::status assign(length_table& t, std::span<const tessera::cost::request_lengths> sample,
                       const length_table::prices& p) {
  return t.assign(sample, p);
}
double plan(tessera::arena& memory, const length_table& t, std::size_t instances, std::span<stage> out) {
  using namespace tessera::partition;
  exact a{memory, {.lengths = t.size(), .instances = instances}};
  chain b{memory, {.lengths = t.size(), .instances = instances}};
  bucketed c{memory, {.instances = instances}};
  merge d{memory, {}};
  return a(t, instances, out).quality + b(t, instances, out).quality + c(t, instances, out).quality +
         d(t, instances, out).quality + flat{}(t, instances, out).quality;
}
