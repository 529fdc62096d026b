// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gate/concepts.hpp>
#include <tessera/gate/tenants.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

TESSERA_NAMESPACE_BEGIN
namespace gate {

/// Tenants get service in proportion to their weights, counted in tokens: of those with requests that wait, the one who
/// has had least starts next. A request's prompt is charged to its tenant when it starts, each token when it is
/// generated. One who comes back after a pause has had as much as the least of those who wait, so that nobody saves up.
/// Which tenant's a request is, its member `tenant` says, below `Tenants`.
///
///     struct my_request : tessera::request_hook { std::uint32_t tenant = 0; };
///
/// Among the requests of a tenant the order decides. Others are skipped, `most_skipped` in a plan; the next
/// after these starts whoever it is if nobody has, so that nothing is idle because whose turn it is stands too far
/// behind. A plan goes on from the one who started: who was skipped before him is asked in the next. So shares are kept
/// as long as not more than `most_skipped` of one tenant wait before the first of another: where tenants flood the
/// queue, let it be as long as that; it costs some nanoseconds for each that is skipped.
///
/// When to use: tenants who pay alike should get alike, whatever the lengths of their requests.
/// Source: VTC, weighted (Sheng et al. 2024, "Fairness in serving large language models", algorithm 2 and section
/// 4.3).
/// @tparam Tenants so many, at most.
template <std::size_t Tenants = 64>
struct basic_fair_tenants {
  static constexpr bool passes = false;       ///< Nobody passes one who lacks blocks.
  static constexpr bool screens = true;       ///< Each who waits is asked for.
  static constexpr bool counts = true;        ///< It hears who starts and what it costs.
  static constexpr bool refuses_some = true;  ///< Who has too many waiting.

  std::int64_t prompt_cost = 1;                                                  ///< Of a token of a prompt.
  std::int64_t output_cost = 2;                                                  ///< Of a token that is generated.
  std::size_t most_skipped = 32;                                                 ///< So many are skipped in a plan.
  std::array<std::int64_t, Tenants> weights = detail::equal_weights<Tenants>();  ///< Shares, in proportion. At least 1.

  std::int64_t most_waiting = std::numeric_limits<std::int64_t>::max();  ///< Of one tenant; `submit` refuses more.

  static constexpr std::int64_t unit = 1 << 10;  ///< Of `had`: a token of cost 1 and weight 1.
  /// What is known of a tenant.
  struct account {
    std::int64_t had = 0;      ///< The cost of its tokens over its weight, in units.
    std::int64_t waiting = 0;  ///< Requests that wait.
    std::int64_t charged = 0;  ///< By the plan that is being made,
    std::int64_t starts = 0;   ///< in which so many of these start.
  };
  std::array<account, Tenants> accounts{};  ///< One for each.
  std::size_t last = 0;                     ///< Whose request started last.
  /// Had by whoever has had least of those with more that wait, in the plan that is being made.
  std::int64_t least = 0;

  /// O(1).
  template <schedulable R>
    requires requires(const R& r) {
      { r.tenant } -> std::convertible_to<std::uint32_t>;
    }
  [[nodiscard]] constexpr passage ask(const R& candidate, const gate_view<R>& view) const noexcept {
    const account& own = accounts[of(candidate)];
    if (own.had + own.charged <= least) return passage::start;
    if (view.may_skip) return passage::skip;
    return view.admitted.empty() ? passage::start : passage::stop;
  }
  /// What a tenant has had, in units. O(1).
  [[nodiscard]] constexpr std::int64_t had(std::size_t tenant) const noexcept { return accounts[tenant].had; }

  /// Whether as many of its tenant wait as may.
  template <schedulable R>
  [[nodiscard]] constexpr bool refuses(const R& r, typename R::time_point /*now*/) const noexcept {
    return accounts[of(r)].waiting >= most_waiting;
  }

  /// A plan is being made. O(tenants).
  constexpr void begin() noexcept {
    for (account& a : accounts) a.charged = a.starts = 0;
    find_least();
  }
  /// It starts in this plan. O(tenants).
  template <schedulable R>
  constexpr void starts(const R& r) noexcept {
    account& a = accounts[of(r)];
    a.charged += cost_of_prompt(r);
    ++a.starts;
    find_least();
  }
  /// It has come.
  template <schedulable R>
  constexpr void joins(const R& r) noexcept {
    account& own = accounts[of(r)];
    if (own.waiting++ != 0) return;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const account& a : accounts) {
      if (&a != &own && a.waiting != 0 && a.had < least) least = a.had;
    }
    if (least == std::numeric_limits<std::int64_t>::max()) least = accounts[last].had;
    if (own.had < least) own.had = least;
  }
  /// It holds blocks from now on.
  template <schedulable R>
  constexpr void started(const R& r) noexcept {
    account& a = accounts[of(r)];
    a.had += cost_of_prompt(r);
    --a.waiting;
    last = of(r);
    a.charged = a.starts = 0;  // of the plan that was made last, which has been told of now
  }
  /// So many tokens came of it.
  template <schedulable R>
  constexpr void charge(const R& r, tokens n) noexcept {
    accounts[of(r)].had += n.count() * output_cost * unit / weights[of(r)];
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
  constexpr void find_least() noexcept {
    least = std::numeric_limits<std::int64_t>::max();
    for (const account& a : accounts) {
      if (a.waiting > a.starts && a.had + a.charged < least) least = a.had + a.charged;
    }
  }
  template <class R>
  [[nodiscard]] static constexpr std::size_t of(const R& r) noexcept {
    return detail::tenant_of<Tenants>(r);
  }
  template <class R>
  [[nodiscard]] constexpr std::int64_t cost_of_prompt(const R& r) const noexcept {
    return detail::owes_its_prompt(r) ? r.prompt.count() * prompt_cost * unit / weights[of(r)] : 0;
  }
};

using fair_tenants = basic_fair_tenants<>;  ///< Room for 64.

}  // namespace gate
TESSERA_NAMESPACE_END
