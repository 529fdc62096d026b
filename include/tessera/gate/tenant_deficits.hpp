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

/// Tenants spend credit, counted in tokens that have to be computed: what a prefix cache has costs nothing, so that
/// whose prompts share prefixes is not made to wait for the work that nobody does. Who has credit may start, in the
/// order's order, so that requests that share a prefix can stay together for a quantum's worth of tokens; who has none
/// is skipped. When nobody who waits has any, all who have none get a quantum, again until somebody has some. A prompt
/// is charged to its tenant when it starts, without its blocks that were found, each token when it is generated. Which
/// tenant's a request is, its member `tenant` says, below `Tenants`.
///
///     struct my_request : tessera::request_hook { std::uint32_t tenant = 0; };
///
/// With an order by what of a prompt is cached (`order::longest_prefix`) it is DLPM; with
/// arrival order it is deficit round robin. Between two tenants who always have requests waiting, what they are
/// charged for their weights differs by at most two quanta and twice the largest charge between two questions.
/// `most_skipped` are skipped in a plan; the next after these starts whoever it is if nobody has.
///
/// When to use: as `fair_tenants`, where prompts share prefixes. A small quantum is fairer, a large one keeps more
/// prefixes together.
/// Source: DLPM (Cao et al. 2025, "Locality-aware fair scheduling in LLM serving", section 4).
/// @tparam Tenants so many, at most.
template <std::size_t Tenants = 64>
struct basic_tenant_deficits {
  static constexpr bool passes = false;  ///< Nobody passes one who lacks blocks.
  static constexpr bool screens = true;  ///< Each who waits is asked for.
  static constexpr bool counts = true;   ///< It hears who starts and what it costs.

  std::int64_t quantum = 4096;    ///< Credit that a tenant of weight 1 gets at a time. At least 1.
  tokens block_size{16};          ///< Of the scheduler's limits.
  std::int64_t prompt_cost = 1;   ///< Of a token of a prompt that is computed.
  std::int64_t output_cost = 2;   ///< Of a token that is generated.
  std::size_t most_skipped = 32;  ///< So many are skipped in a plan.
  std::array<std::int64_t, Tenants> weights = detail::equal_weights<Tenants>();  ///< Shares, in proportion. At least 1.

  /// What is known of a tenant.
  struct account {
    std::int64_t credit = 0;   ///< What it may spend; at most its quantum.
    std::int64_t waiting = 0;  ///< Requests that wait.
    std::int64_t left = 0;     ///< Of the credit, when the plan that is being made has been charged,
    std::int64_t starts = 0;   ///< in which so many of these start.
  };
  std::array<account, Tenants> accounts{};  ///< One for each.

  /// O(tenants).
  template <schedulable R>
    requires requires(const R& r) {
      { r.tenant } -> std::convertible_to<std::uint32_t>;
    }
  [[nodiscard]] constexpr passage ask(const R& candidate, const gate_view<R>& view) const noexcept {
    const std::size_t own = of(candidate);
    if (rounds(own, accounts[own].left) <= fewest_rounds(&account::left)) return passage::start;
    if (view.may_skip) return passage::skip;
    return view.admitted.empty() ? passage::start : passage::stop;
  }
  /// What a tenant may spend. O(1).
  [[nodiscard]] constexpr std::int64_t credit(std::size_t tenant) const noexcept { return accounts[tenant].credit; }

  /// A plan is being made. O(tenants).
  constexpr void begin() noexcept {
    for (account& a : accounts) a.left = a.credit, a.starts = 0;
  }
  /// It starts in this plan. O(tenants).
  template <schedulable R>
  constexpr void starts(const R& r) noexcept {
    refill(&account::left);
    account& own = accounts[of(r)];
    own.left -= cost_of_prompt(r);
    ++own.starts;
  }
  /// It has come.
  template <schedulable R>
  constexpr void joins(const R& r) noexcept {
    ++accounts[of(r)].waiting;
  }
  /// It holds blocks from now on. O(tenants).
  template <schedulable R>
  constexpr void started(const R& r) noexcept {
    for (account& a : accounts) a.starts = 0;  // of the plan that was made last, which is told of now
    refill(&account::credit);
    account& own = accounts[of(r)];
    own.credit -= cost_of_prompt(r);
    --own.waiting;
  }
  /// So many tokens came of it.
  template <schedulable R>
  constexpr void charge(const R& r, tokens n) noexcept {
    accounts[of(r)].credit -= n.count() * output_cost;
  }
  /// It holds none any more, and waits again or leaves.
  template <schedulable R>
  constexpr void stopped(const R& r) noexcept {
    ++accounts[of(r)].waiting;
  }
  /// It has ended or left.
  template <schedulable R>
  constexpr void left(const R& r) noexcept {
    --accounts[of(r)].waiting;
  }

 private:
  template <class R>
  [[nodiscard]] static constexpr std::size_t of(const R& r) noexcept {
    return detail::tenant_of<Tenants>(r);
  }
  /// So often it would have to get a quantum to have any credit.
  [[nodiscard]] constexpr std::int64_t rounds(std::size_t tenant, std::int64_t credit) const noexcept {
    return credit > 0 ? 0 : -credit / (quantum * weights[tenant]) + 1;
  }
  /// So often until somebody who waits has some.
  [[nodiscard]] constexpr std::int64_t fewest_rounds(std::int64_t account::*purse) const noexcept {
    std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
    for (std::size_t t = 0; t != Tenants; ++t) {
      const account& a = accounts[t];
      if (a.waiting > a.starts) fewest = std::min(fewest, rounds(t, a.*purse));
    }
    return fewest;
  }
  /// Who has no credit gets some, if all who wait have none; who does not wait gets what has been missed, not more.
  constexpr void refill(std::int64_t account::*purse) noexcept {
    const std::int64_t fewest = fewest_rounds(purse);
    if (fewest == 0 || fewest == std::numeric_limits<std::int64_t>::max()) return;
    for (std::size_t t = 0; t != Tenants; ++t) {
      std::int64_t& own = accounts[t].*purse;
      own += std::min(fewest, rounds(t, own)) * quantum * weights[t];
    }
  }
  /// Without what was found.
  template <class R>
  [[nodiscard]] constexpr std::int64_t cost_of_prompt(const R& r) const noexcept {
    const tokens found = block_size * static_cast<std::int64_t>(r.state().shared_blocks);
    return detail::owes_its_prompt(r) ? std::max<std::int64_t>(0, r.prompt.count() - found.count()) * prompt_cost : 0;
  }
};

using tenant_deficits = basic_tenant_deficits<>;  ///< Room for 64.

}  // namespace gate
TESSERA_NAMESPACE_END
