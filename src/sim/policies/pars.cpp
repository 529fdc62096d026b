// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "published.hpp"

#include <tessera/compose/pars.hpp>

#include <limits>
#include <string>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace sim {

policy pars_policy(std::string name, std::string summary, duration threshold) {
  policy p = make_policy<tessera::pars<request, order::score_member, kv_store>>(std::move(name), summary,
                                                                                {.threshold = threshold});
  p.parameters.push_back({"threshold", 0, std::numeric_limits<double>::infinity(),
                          [summary = std::move(summary)](std::string own_name, double value) {
                            return pars_policy(std::move(own_name), summary, duration{value});
                          }});
  return needing_scores(std::move(p));
}

policy published::pars() {
  return pars_policy("pars", "PARS: lowest score first; a request that has waited 120 s goes ahead (needs scores)",
                     duration{120});
}

policy published::pars_unboosted(std::string name, std::string summary) {
  return needing_scores(make_policy<tessera::pars<request, order::score_member, kv_store>>(
      std::move(name), std::move(summary), {.threshold = duration::forever()}));
}

}  // namespace sim
TESSERA_NAMESPACE_END
