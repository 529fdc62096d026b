// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/split_mix.hpp>
#include <tessera/gate/concepts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>

TESSERA_NAMESPACE_BEGIN
namespace gate {

/// Several gates as one: a request starts if every gate allows it. If one says stop, no later request is asked for. If
/// one says skip, the candidate's class is skipped. If one defers, the candidate starts if no other can. Two requests
/// are of one class if they are so for every gate. Behind the first request that cannot start, the gates that let
/// requests pass decide, together with those that screen.
///
/// When to use: adapters, tenants' shares and backfilling at once.
/// @tparam Gates `gate_policy`s.
template <class... Gates>
struct all {
  static constexpr bool backfills = (Gates::backfills || ... || false);                    ///< Whether one backfills.
  static constexpr bool screens = (tessera::detail::gate_screens<Gates> || ... || false);  ///< Whether one screens.
  static constexpr bool counts = (tessera::detail::gate_counts<Gates> || ... || false);    ///< Whether one counts.
  static constexpr bool limits = (tessera::detail::gate_limits<Gates> || ... || false);    ///< Whether one limits.

  static constexpr bool refuses_some = (tessera::detail::gate_refuses<Gates> || ... || false);  ///< Whether one
                                                                                                ///< refuses.

  std::size_t most_skipped = 32;  ///< The most candidates that are asked for in vain in a plan, behind the first that
                                  ///< cannot start.
  std::tuple<Gates...> gates{};   ///< The gates, for `std::get`.

  /// The request's class: a mix of the gates' classes.
  template <schedulable R>
    requires(tessera::detail::gate_has_classes<Gates, R> || ... || false)
  [[nodiscard]] constexpr std::uint64_t class_of(const R& r) const noexcept {
    // One class is taken as it is; several are mixed. In 64 bits, two different ones never become one in practice.
    std::uint64_t mixed = 0;
    bool is_first = true;
    const auto one = [&]<class G>(const G& g) noexcept {
      if constexpr (tessera::detail::gate_has_classes<G, R>) {
        mixed = is_first ? g.class_of(r)
                         : tessera::detail::split_mix(mixed + tessera::detail::split_mix_step) + g.class_of(r);
        is_first = false;
      }
    };
    std::apply([&](const Gates&... g) noexcept { (one(g), ...); }, gates);
    return mixed;
  }
  /// Whether `a` goes before `b` for the first gate that prefers one.
  template <schedulable R>
    requires(tessera::detail::gate_prefers<Gates, R> || ... || false)
  [[nodiscard]] constexpr bool prefers(const R& a, const R& b) const noexcept {
    int verdict = 0;
    const auto one = [&]<class G>(const G& g) noexcept {
      if constexpr (tessera::detail::gate_prefers<G, R>) {
        if (verdict == 0) verdict = g.prefers(a, b) ? 1 : g.prefers(b, a) ? -1 : 0;
      }
    };
    std::apply([&](const Gates&... g) noexcept { (one(g), ...); }, gates);
    return verdict > 0;
  }
  /// Whether all gates can account for it.
  template <schedulable R>
    requires(tessera::detail::gate_knows_some<Gates, R> || ... || false)
  [[nodiscard]] constexpr bool knows(const R& r) const noexcept {
    const auto one = [&r]<class G>(const G& g) noexcept {
      if constexpr (tessera::detail::gate_knows_some<G, R>) {
        return g.knows(r);
      } else {
        return true;
      }
    };
    return std::apply([&](const Gates&... g) noexcept { return (one(g) && ... && true); }, gates);
  }
  /// Every gate checks its parameters.
  constexpr void set_up(tokens block_size) noexcept {
    const auto one = [block_size]<class G>(G& g) noexcept {
      if constexpr (tessera::detail::gate_is_set_up<G>) g.set_up(block_size);
    };
    std::apply([&](Gates&... g) noexcept { (one(g), ...); }, gates);
  }

  /// The strictest answer. Costs the sum of the gates' costs.
  template <schedulable R>
    requires(backfills || screens)
  [[nodiscard]] constexpr passage ask(const R& candidate, const gate_view<R>& view) const noexcept {
    passage strictest = passage::start;
    std::apply([&](const Gates&... g) noexcept { ((strictest = std::max(strictest, asked(g, candidate, view))), ...); },
               gates);
    return strictest;
  }

  /// Whether one gate refuses it.
  template <schedulable R>
  [[nodiscard]] constexpr bool refuses(const R& r, typename R::time_point now) const noexcept {
    const auto one = [&]<class G>(const G& g) noexcept {
      if constexpr (tessera::detail::gate_refuses<G>) {
        return g.refuses(r, now);
      } else {
        return false;
      }
    };
    return std::apply([&](const Gates&... g) noexcept { return (one(g) || ... || false); }, gates);
  }

  /// Begins a plan.
  constexpr void begin() noexcept {
    notify([](auto& g) noexcept { g.begin(); });
  }
  /// The request's class is skipped in this plan, by one of the gates.
  template <schedulable R>
    requires(tessera::detail::gate_hears_skips<Gates, R> || ... || false)
  constexpr void skips(const R& r) noexcept {
    notify([&r]<class G>(G& g) noexcept {
      if constexpr (tessera::detail::gate_hears_skips<G, R>) g.skips(r);
    });
  }
  /// The fewest tokens that a gate allows.
  template <schedulable R>
    requires limits
  [[nodiscard]] constexpr tokens limit(const R& r, tokens first, tokens count) const noexcept {
    const auto one = [&]<class G>(const G& g) noexcept {
      if constexpr (tessera::detail::gate_limits<G>) count = count > tokens{} ? g.limit(r, first, count) : count;
    };
    std::apply([&](const Gates&... g) noexcept { (one(g), ...); }, gates);
    return count;
  }
  /// The plan computes these tokens of the request.
  template <schedulable R>
    requires limits
  constexpr void computes(const R& r, tokens first, tokens count) noexcept {
    notify([&]<class G>(G& g) noexcept {
      if constexpr (tessera::detail::gate_limits<G>) g.computes(r, first, count);
    });
  }
  /// The plan is run.
  constexpr void runs() noexcept
    requires limits
  {
    notify([]<class G>(G& g) noexcept {
      if constexpr (tessera::detail::gate_limits<G>) g.runs();
    });
  }
  /// So are these tokens of the request.
  template <schedulable R>
    requires limits
  constexpr void runs(const R& r, tokens first, tokens count) noexcept {
    notify([&]<class G>(G& g) noexcept {
      if constexpr (tessera::detail::gate_limits<G>) g.runs(r, first, count);
    });
  }
  /// The tokens of the request before `end` have KV.
  template <schedulable R>
    requires limits
  constexpr void has_run(const R& r, tokens end) noexcept {
    notify([&]<class G>(G& g) noexcept {
      if constexpr (tessera::detail::gate_limits<G>) g.has_run(r, end);
    });
  }
  /// The request starts in this plan.
  template <schedulable R>
  constexpr void starts(const R& r) noexcept {
    notify([&r](auto& g) noexcept { g.starts(r); });
  }
  /// The request has come, and waits.
  template <schedulable R>
  constexpr void joins(const R& r) noexcept {
    notify([&r](auto& g) noexcept { g.joins(r); });
  }
  /// The request holds blocks from now on.
  template <schedulable R>
  constexpr void started(const R& r) noexcept {
    notify([&r](auto& g) noexcept { g.started(r); });
  }
  /// `n` tokens were generated for it.
  template <schedulable R>
  constexpr void charge(const R& r, tokens n) noexcept {
    notify([&r, n](auto& g) noexcept { g.charge(r, n); });
  }
  /// The request holds no blocks any more.
  template <schedulable R>
  constexpr void stopped(const R& r) noexcept {
    notify([&r](auto& g) noexcept { g.stopped(r); });
  }
  /// The request has ended or left.
  template <schedulable R>
  constexpr void left(const R& r) noexcept {
    notify([&r](auto& g) noexcept { g.left(r); });
  }

 private:
  template <class G, class R>
  [[nodiscard]] static constexpr passage asked(const G& g, const R& r, const gate_view<R>& view) noexcept {
    if constexpr (tessera::detail::gate_screens<G>) {
      return g.ask(r, view);
    } else if constexpr (G::backfills) {
      return view.blocked == nullptr ? passage::start : g.ask(r, view);
    } else {
      return passage::start;
    }
  }
  template <class F>
  constexpr void notify(F&& f) noexcept {
    const auto one = [&f]<class G>(G& g) noexcept {
      if constexpr (tessera::detail::gate_counts<G>) f(g);
    };
    std::apply([&](Gates&... g) noexcept { (one(g), ...); }, gates);
  }
};

}  // namespace gate
TESSERA_NAMESPACE_END
