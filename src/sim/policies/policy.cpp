// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/error.hpp>
#include <tessera/sim/input/did_you_mean.hpp>
#include <tessera/sim/input/split_list.hpp>
#include <tessera/sim/names.hpp>
#include <tessera/sim/policies/policy.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

policy make_control_policy(std::string name, std::string summary, engine_maker engines, control_maker make,
                           std::size_t least_instances, std::string placement) {
  policy p{.name = name,
           .summary = std::move(summary),
           .run = {},
           .placement = placement,
           .least_instances = least_instances};
  p.run = [name, engines = std::move(engines), make = std::move(make), placement](
              const cluster_options& options, std::span<const trace_row> rows, const progress_callback& progress) {
    cluster c{options, engines, make(options, rows)};
    run_result result = c.run(rows, progress);
    result.numbers.policy = name;
    result.numbers.placement = placement;
    return result;
  };
  return p;
}

policy with_most(policy p, std::size_t instances) {
  p.most_instances = instances;
  return p;
}

policy with_pools(policy p, std::size_t pools) {
  p.pools = pools;
  return p;
}

policy needing_scores(policy p) {
  p.needs_scores = true;
  return p;
}

void require_instances(const policy& p, std::size_t instances) {
  if (instances < p.least_instances) {
    throw usage_error{
        fmt::format("the policy {} needs at least {} instances, not {}", p.name, p.least_instances, instances)};
  }
  if (instances > p.most_instances) {
    throw usage_error{fmt::format("the policy {} takes at most {} instances, not {}: each of them knows all others",
                                  p.name, p.most_instances, instances)};
  }
}

void require_open_placement(const policy& p, const cluster_options& options) {
  if (!options.routed || p.placement.empty() || p.knows_routers) return;
  throw usage_error{fmt::format(
      "the policy {} places requests by itself, and sees all instances at any moment: it knows no routers", p.name)};
}

void require_scores(const policy& p, std::span<const trace_row> rows, std::string_view what) {
  if (!p.needs_scores) return;
  const auto missing = std::count_if(rows.begin(), rows.end(), [](const trace_row& r) { return r.score != r.score; });
  if (missing == 0) return;
  throw usage_error{
      fmt::format("the policy {} needs a score for every request; {} of {} in {} have none (a trace with "
                  "scores comes from `rank score --trace`; `sjf` needs none)",
                  p.name, missing, rows.size(), what)};
}

std::string list_parameters(const policy& p) { return fmt::format("{}", fmt::join(names_of(p.parameters), ", ")); }

namespace {

/// `p` with the parameters of the text `:PARAMETER=VALUE:...`. @throws usage_error
[[nodiscard]] policy with_parameters(policy p, std::string_view settings, std::string_view what) {
  const std::string name = p.name;
  std::vector<std::string_view> seen;
  for (const std::string_view item : split_list(settings, ':')) {
    if (p.parameters.empty()) {
      throw usage_error{fmt::format("the {} {} has no parameters, but {} is to be set", what, name, shown(item))};
    }
    const std::size_t equals = item.find('=');
    if (equals == item.npos) {
      throw usage_error{fmt::format("{}: expected PARAMETER=VALUE, not {}", name, shown(item))};
    }
    const std::string_view key = item.substr(0, equals);
    const std::string_view text = item.substr(equals + 1);
    const auto found = std::find_if(p.parameters.begin(), p.parameters.end(),
                                    [&](const policy_parameter& x) { return x.name == key; });
    if (found == p.parameters.end()) {
      throw usage_error{fmt::format("{} has no parameter {}; there are: {}", name, shown(key), list_parameters(p))};
    }
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      throw usage_error{fmt::format("{}: {} is set twice", name, key)};
    }
    seen.push_back(key);
    double value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc{} || end != text.data() + text.size() ||
        !(value >= found->least && value <= found->most)) {
      throw usage_error{fmt::format("{}: {} is a number from {:g} to {:g}, not {}", name, key, found->least,
                                    found->most, shown(text))};
    }
    p = found->with(fmt::format("{}:{}", p.name, item), value);
  }
  return p;
}

}  // namespace

std::vector<policy> select_policies(std::span<const policy> all, std::string_view names, std::string_view what) {
  std::vector<policy> chosen;
  for (const std::string_view item : split_list(names)) {
    const std::size_t colon = std::min(item.find(':'), item.size());
    const std::string_view name = item.substr(0, colon);
    const auto found = std::find_if(all.begin(), all.end(), [&](const policy& p) {
      return !name.empty() && (p.name == name || p.formerly == name);
    });
    if (found == all.end()) {
      const std::vector<std::string_view> allowed = names_of(all);
      throw usage_error{fmt::format("unknown {} {}{}; there are: {}", what, shown(name), did_you_mean(name, allowed),
                                    fmt::join(allowed, ", "))};
    }
    policy one = colon == item.size() ? *found : with_parameters(*found, item.substr(colon + 1), what);
    const auto again = [&](const policy& p) { return p.name == one.name; };
    if (std::any_of(chosen.begin(), chosen.end(), again)) {
      throw usage_error{fmt::format("the {} {} is named twice", what, shown(one.name))};
    }
    chosen.push_back(std::move(one));
  }
  return chosen;
}

}  // namespace sim
TESSERA_NAMESPACE_END
