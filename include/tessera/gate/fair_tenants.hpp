// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gate/concepts.hpp>
#include <tessera/gate/tenants.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

TESSERA_NAMESPACE_BEGIN
namespace gate {

/// Tenants get service in proportion to their weights, counted in tokens. Among tenants with waiting requests, the one
/// with the least service starts next. A prompt is charged to the request's tenant when it starts, each token when it
/// is generated. A tenant that returns after a pause is set to the least service among waiting tenants, so that no
/// tenant saves up credit. The request's member `tenant` names its tenant, below `Tenants`; another request is
/// `invalid`.
///
///     struct my_request : tessera::request_hook { std::uint32_t tenant = 0; };
///
/// Each tenant is a class with a queue of its own, in which the order decides. So shares do not depend on how many
/// requests of a tenant wait. If that tenant has no request that may start (another gate skips all of them), the next
/// tenant starts. The account is exact: remainders of the division by the weight are carried over.
///
/// When to use: tenants that pay alike should get alike, whatever the lengths of their requests.
/// Source: VTC, weighted (Sheng et al. 2024, "Fairness in serving large language models", algorithm 2 and section 4.3).
/// @tparam Tenants the largest number of tenants.
template <std::size_t Tenants = 64>
struct basic_fair_tenants {
  static constexpr bool backfills = false;    ///< No request passes one that lacks blocks.
  static constexpr bool screens = true;       ///< The first request of each tenant is asked for.
  static constexpr bool counts = true;        ///< It is told which requests start and what they cost.
  static constexpr bool refuses_some = true;  ///< It refuses requests of tenants with too many waiting.

  std::int64_t prompt_cost = 1;  ///< Cost of a prompt token. From 0 to 2^20.
  std::int64_t output_cost = 2;  ///< Cost of a generated token. From 0 to 2^20.
  std::array<std::int64_t, Tenants> weights = detail::equal_weights<Tenants>();  ///< Shares, in proportion. At least 1.

  std::int64_t most_waiting = std::numeric_limits<std::int64_t>::max();  ///< Waiting requests of one tenant; `submit`
                                                                         ///< refuses more.

  /// The cost of a tenant's tokens over its weight: `whole + part / weight`, with `part < weight`.
  struct service {
    std::int64_t whole = 0;  ///< Tokens of cost over weight, rounded down.
    std::int64_t part = 0;   ///< The remainder, below the weight.
  };
  /// The account of a tenant.
  struct account {
    service had{};             ///< Service of requests that have started.
    service planned{};         ///< The same, including the latest plan.
    std::int64_t starts = 0;   ///< Requests that start in the latest plan.
    std::int64_t waiting = 0;  ///< Requests that wait.
  };
  std::array<account, Tenants> accounts{};  ///< One per tenant.
  std::size_t last = 0;                     ///< The tenant of the request that started last.
  /// In the present plan, the tenant with the least service among those with more waiting requests. `Tenants`: no more
  /// wait.
  std::size_t least = Tenants;

  /// The request's tenant.
  template <schedulable R>
  [[nodiscard]] constexpr std::uint64_t class_of(const R& r) const noexcept {
    return static_cast<std::uint64_t>(r.tenant);
  }
  /// Whether its tenant exists.
  template <schedulable R>
  [[nodiscard]] constexpr bool knows(const R& r) const noexcept {
    return of(r) != Tenants;
  }
  /// Checks the parameters (asserted; else the nearest valid value is taken).
  constexpr void set_up(tokens /*block_size*/) noexcept {
    detail::check_weights(weights);
    detail::check_between(prompt_cost, 0, detail::most_cost);
    detail::check_between(output_cost, 0, detail::most_cost);
  }

  /// O(1).
  template <schedulable R>
    requires requires(const R& r) {
      { r.tenant } -> std::convertible_to<std::uint32_t>;
    }
  [[nodiscard]] constexpr passage ask(const R& candidate, const gate_view<R>& /*view*/) const noexcept {
    const std::size_t own = of(candidate);
    if (own == Tenants || least == Tenants) return passage::start;
    return is_less(accounts[least].planned, least, accounts[own].planned, own) ? passage::defer : passage::start;
  }
  /// Whether the tenant of `a` has had less service than that of `b`.
  template <schedulable R>
  [[nodiscard]] constexpr bool prefers(const R& a, const R& b) const noexcept {
    const std::size_t t = of(a);
    const std::size_t u = of(b);
    if (t == Tenants || u == Tenants) return u != Tenants;
    return is_less(accounts[t].planned, t, accounts[u].planned, u);
  }
  /// The service of a tenant: the cost of its tokens over its weight, rounded down. O(1).
  [[nodiscard]] constexpr std::int64_t had(std::size_t tenant) const noexcept { return accounts[tenant].had.whole; }

  /// Whether its tenant has `most_waiting` requests waiting.
  template <schedulable R>
  [[nodiscard]] constexpr bool refuses(const R& r, typename R::time_point /*now*/) const noexcept {
    const std::size_t own = of(r);
    return own == Tenants || accounts[own].waiting >= most_waiting;
  }

  /// Begins a plan. O(tenants).
  constexpr void begin() noexcept {
    bool is_large = false;
    for (const account& a : accounts) is_large = is_large || a.had.whole > most_had;
    if (is_large) count_from_least();
    for (account& a : accounts) a.planned = a.had, a.starts = 0;
    find_least();
  }
  /// The request starts in this plan. O(tenants).
  template <schedulable R>
  constexpr void starts(const R& r) noexcept {
    const std::size_t own = of(r);
    if (own == Tenants) return;
    add(accounts[own].planned, cost_of_prompt(r), own);
    ++accounts[own].starts;
    find_least();
  }
  /// The request has come, and waits.
  template <schedulable R>
  constexpr void joins(const R& r) noexcept {
    const std::size_t own = of(r);
    if (own == Tenants || accounts[own].waiting++ != 0) return;
    std::size_t from = Tenants;
    for (std::size_t t = 0; t != Tenants; ++t) {
      if (t == own || accounts[t].waiting == 0) continue;
      if (from == Tenants || is_less(accounts[t].had, t, accounts[from].had, from)) from = t;
    }
    if (from == Tenants) from = last;
    service& had = accounts[own].had;
    const service lift = accounts[from].had;
    if (is_less(had, own, lift, from)) had = {lift.whole, lift.part * weights[own] / weights[from]};
  }
  /// The request holds blocks from now on.
  template <schedulable R>
  constexpr void started(const R& r) noexcept {
    const std::size_t own = of(r);
    if (own == Tenants) return;
    add(accounts[own].had, cost_of_prompt(r), own);
    --accounts[own].waiting;
    last = own;
  }
  /// `n` tokens were generated for it.
  template <schedulable R>
  constexpr void charge(const R& r, tokens n) noexcept {
    const std::size_t own = of(r);
    if (own != Tenants) add(accounts[own].had, n.count() * output_cost, own);
  }
  /// The request holds no blocks any more, and waits again or leaves.
  template <schedulable R>
  constexpr void stopped(const R& r) noexcept {
    if (const std::size_t own = of(r); own != Tenants) ++accounts[own].waiting;
  }
  /// The request has ended or left.
  template <schedulable R>
  constexpr void left(const R& r) noexcept {
    if (const std::size_t own = of(r); own != Tenants) --accounts[own].waiting;
  }

 private:
  static constexpr std::int64_t most_had = std::int64_t{1} << 60;

  /// Whether `a`, of tenant `t`, is less than `b`, of tenant `u`. The products stay below 2^62.
  [[nodiscard]] constexpr bool is_less(const service& a, std::size_t t, const service& b,
                                       std::size_t u) const noexcept {
    return a.whole != b.whole ? a.whole < b.whole : a.part * weights[u] < b.part * weights[t];
  }
  constexpr void add(service& s, std::int64_t cost, std::size_t tenant) const noexcept {
    const std::int64_t weight = weights[tenant];
    s.whole += cost / weight;
    s.part += cost % weight;
    if (s.part < weight) return;
    s.part -= weight;
    ++s.whole;
  }
  constexpr void find_least() noexcept {
    least = Tenants;
    for (std::size_t t = 0; t != Tenants; ++t) {
      const account& a = accounts[t];
      if (a.waiting <= a.starts) continue;
      if (least == Tenants || is_less(a.planned, t, accounts[least].planned, least)) least = t;
    }
  }
  /// Only differences count, so all accounts are counted from the least waiting one. A tenant with less service that
  /// does not wait is set to that level when it returns.
  constexpr void count_from_least() noexcept {
    std::int64_t from = accounts[last].had.whole;
    for (const account& a : accounts) {
      if (a.waiting != 0) from = std::min(from, a.had.whole);
    }
    for (account& a : accounts) a.had = a.had.whole < from ? service{} : service{a.had.whole - from, a.had.part};
  }
  template <class R>
  [[nodiscard]] static constexpr std::size_t of(const R& r) noexcept {
    return detail::tenant_of<Tenants>(r);
  }
  template <class R>
  [[nodiscard]] constexpr std::int64_t cost_of_prompt(const R& r) const noexcept {
    return detail::owes_its_prompt(r) ? r.prompt.count() * prompt_cost : 0;
  }
};

using fair_tenants = basic_fair_tenants<>;  ///< Room for 64.

}  // namespace gate
TESSERA_NAMESPACE_END
