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

/// Tenants spend credit, counted in tokens that are computed. Cached tokens cost nothing, so tenants with shared
/// prefixes do not pay for work that is not done. Requests of a tenant with credit may start, by the order. So requests
/// that share a prefix can stay together for a quantum of tokens. Requests of a tenant without credit are skipped.
/// If no waiting tenant has credit, every tenant without credit gets a quantum, repeatedly until a waiting one has
/// some. A prompt is charged to its tenant when it starts, without its cached blocks; each token when it is generated.
/// The request's member `tenant` names its tenant, below `Tenants`; another request is `invalid`.
///
///     struct my_request : tessera::request_hook { std::uint32_t tenant = 0; };
///
/// Each tenant is a class with a queue of its own. If the tenants with credit have no request that may start (another
/// gate skips them), the tenant that lacks the fewest quanta is next. While no other tenant waits, a tenant runs into
/// no debt, and older debt is forgiven: it takes nothing from the others.
///
/// With an order by cached prefix (`order::longest_prefix`) it is DLPM; with arrival order it is deficit round robin.
/// Take two tenants that always have waiting requests. Their charges over their weights differ by at most two quanta
/// and twice the largest charge between two questions.
///
/// When to use: as `fair_tenants`, if prompts share prefixes. A small quantum is fairer, a large one keeps more
/// prefixes together. It is multiplied by the weight: with weights in the thousands, keep it small.
/// Source: DLPM (Cao et al. 2025, "Locality-aware fair scheduling in LLM serving", section 4). Forgiving debt is ours;
/// deficit round robin does it with a queue that becomes empty.
/// @tparam Tenants the largest number of tenants.
template <std::size_t Tenants = 64>
struct basic_tenant_deficits {
  static constexpr bool backfills = false;  ///< No request passes one that lacks blocks.
  static constexpr bool screens = true;     ///< The first request of each tenant is asked for.
  static constexpr bool counts = true;      ///< It is told which requests start and what they cost.

  std::int64_t quantum = 4096;   ///< Credit that a tenant of weight 1 gets at a time. From 1 to 2^31 - 1.
  std::int64_t prompt_cost = 1;  ///< Cost of a computed prompt token. From 0 to 2^20.
  std::int64_t output_cost = 2;  ///< Cost of a generated token. From 0 to 2^20.
  std::array<std::int64_t, Tenants> weights = detail::equal_weights<Tenants>();  ///< Shares, in proportion. At least 1.

  /// The account of a tenant.
  struct account {
    std::int64_t credit = 0;   ///< Its credit; at most its quantum.
    std::int64_t waiting = 0;  ///< Requests that wait.
    std::int64_t left = 0;     ///< Its credit after the charges of the present plan.
    std::int64_t starts = 0;   ///< Its requests that start in the present plan.
  };
  std::array<account, Tenants> accounts{};  ///< One per tenant.
  std::size_t tenants_waiting = 0;          ///< Tenants with requests that wait.
  std::int64_t fewest = none;               ///< Quanta, in this plan, until a tenant with more waiting requests has
                                            ///< credit.
  tokens block{};                           ///< Tokens of a block, set by the scheduler.

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
  /// Checks the parameters (asserted; else the nearest valid value is taken), and takes the block size.
  constexpr void set_up(tokens block_size) noexcept {
    detail::check_weights(weights);
    detail::check_between(quantum, 1, detail::most_weight);
    detail::check_between(prompt_cost, 0, detail::most_cost);
    detail::check_between(output_cost, 0, detail::most_cost);
    block = block_size;
  }

  /// O(1).
  template <schedulable R>
    requires requires(const R& r) {
      { r.tenant } -> std::convertible_to<std::uint32_t>;
    }
  [[nodiscard]] constexpr passage ask(const R& candidate, const gate_view<R>& /*view*/) const noexcept {
    const std::size_t own = of(candidate);
    return own == Tenants || rounds(own, accounts[own].left) <= fewest ? passage::start : passage::defer;
  }
  /// Whether the tenant of `a` lacks fewer quanta than that of `b`.
  template <schedulable R>
  [[nodiscard]] constexpr bool prefers(const R& a, const R& b) const noexcept {
    const std::size_t t = of(a);
    const std::size_t u = of(b);
    if (t == Tenants || u == Tenants) return u != Tenants;
    return rounds(t, accounts[t].left) < rounds(u, accounts[u].left);
  }
  /// The credit of a tenant. O(1).
  [[nodiscard]] constexpr std::int64_t credit(std::size_t tenant) const noexcept { return accounts[tenant].credit; }

  /// Begins a plan. O(tenants).
  constexpr void begin() noexcept {
    for (account& a : accounts) a.left = a.credit, a.starts = 0;
    fewest = fewest_rounds(&account::left);
  }
  /// The request starts in this plan. O(tenants).
  template <schedulable R>
  constexpr void starts(const R& r) noexcept {
    const std::size_t own = of(r);
    if (own == Tenants) return;
    refill(&account::left);
    ++accounts[own].starts;
    bool others_wait = false;
    for (std::size_t t = 0; t != Tenants; ++t) {
      others_wait = others_wait || (t != own && accounts[t].waiting > accounts[t].starts);
    }
    spend(accounts[own].left, cost_of_prompt(r), others_wait);
    fewest = fewest_rounds(&account::left);
  }
  /// The request has come, and waits.
  template <schedulable R>
  constexpr void joins(const R& r) noexcept {
    waits(of(r));
  }
  /// The request holds blocks from now on. O(tenants).
  template <schedulable R>
  constexpr void started(const R& r) noexcept {
    const std::size_t own = of(r);
    if (own == Tenants) return;
    for (account& a : accounts) a.starts = 0;  // belongs to the latest plan, which is accounted now
    refill(&account::credit);
    waits_no_more(own);
    spend(accounts[own].credit, cost_of_prompt(r), others_wait(own));
  }
  /// `n` tokens were generated for it.
  template <schedulable R>
  constexpr void charge(const R& r, tokens n) noexcept {
    const std::size_t own = of(r);
    if (own != Tenants) spend(accounts[own].credit, n.count() * output_cost, others_wait(own));
  }
  /// The request holds no blocks any more, and waits again or leaves.
  template <schedulable R>
  constexpr void stopped(const R& r) noexcept {
    waits(of(r));
  }
  /// The request has ended or left.
  template <schedulable R>
  constexpr void left(const R& r) noexcept {
    waits_no_more(of(r));
  }

 private:
  static constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

  template <class R>
  [[nodiscard]] static constexpr std::size_t of(const R& r) noexcept {
    return detail::tenant_of<Tenants>(r);
  }
  constexpr void waits(std::size_t tenant) noexcept {
    if (tenant != Tenants && accounts[tenant].waiting++ == 0) ++tenants_waiting;
  }
  constexpr void waits_no_more(std::size_t tenant) noexcept {
    if (tenant != Tenants && --accounts[tenant].waiting == 0) --tenants_waiting;
  }
  [[nodiscard]] constexpr bool others_wait(std::size_t tenant) const noexcept {
    return tenants_waiting > (accounts[tenant].waiting != 0 ? 1U : 0U);
  }
  /// Service while no other tenant waits makes no debt.
  static constexpr void spend(std::int64_t& purse, std::int64_t cost, bool others_wait) noexcept {
    purse -= cost;
    if (!others_wait) purse = std::max<std::int64_t>(purse, 0);
  }
  /// The number of quanta until it has credit.
  [[nodiscard]] constexpr std::int64_t rounds(std::size_t tenant, std::int64_t credit) const noexcept {
    return credit > 0 ? 0 : -credit / (quantum * weights[tenant]) + 1;
  }
  /// The number of quanta until a waiting tenant has credit; `none` if none waits.
  [[nodiscard]] constexpr std::int64_t fewest_rounds(std::int64_t account::*purse) const noexcept {
    std::int64_t least = none;
    for (std::size_t t = 0; t != Tenants; ++t) {
      const account& a = accounts[t];
      if (a.waiting > a.starts) least = std::min(least, rounds(t, a.*purse));
    }
    return least;
  }
  /// If no waiting tenant has credit, gives quanta to tenants without credit. A tenant that does not wait gets at most
  /// what it lacks.
  constexpr void refill(std::int64_t account::*purse) noexcept {
    const std::int64_t quanta = fewest_rounds(purse);
    if (quanta == 0 || quanta == none) return;
    for (std::size_t t = 0; t != Tenants; ++t) {
      std::int64_t& own = accounts[t].*purse;
      own += std::min(quanta, rounds(t, own)) * quantum * weights[t];
    }
  }
  /// Without cached tokens.
  template <class R>
  [[nodiscard]] constexpr std::int64_t cost_of_prompt(const R& r) const noexcept {
    const tokens found = block * static_cast<std::int64_t>(r.state().shared_blocks);
    return detail::owes_its_prompt(r) ? std::max<std::int64_t>(0, r.prompt.count() - found.count()) * prompt_cost : 0;
  }
};

using tenant_deficits = basic_tenant_deficits<>;  ///< Room for 64.

}  // namespace gate
TESSERA_NAMESPACE_END
