// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/split_mix.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/core/units.hpp>
#include <tessera/fleet/keyed_pool.hpp>
#include <tessera/fleet/report.hpp>
#include <tessera/headroom/prefill_load.hpp>
#include <tessera/headroom/space.hpp>
#include <tessera/placement/least_prefill_backlog.hpp>
#include <tessera/placement/phi.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

/// @file
/// Placement by headroom, with expected lengths.

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// How fast replicas decode, as far as a router knows.
template <class S>
concept decode_speed = requires(const S& s, replica_id id, std::int64_t n) {
  /// Seconds of a step in which `n` requests decode, with `n` tokens of KV together and `n` the longest.
  { s.step_s(id, n, n, n) } noexcept -> std::convertible_to<double>;
  /// Most requests of a step.
  { s.places(id) } noexcept -> std::convertible_to<std::size_t>;
  /// Whether all replicas are equally fast.
  { s.alike() } noexcept -> std::convertible_to<bool>;
};

/// Replicas that are alike, with steps that take a time linear in their content.
struct linear_speed {
  double fixed_s = 0.02;   ///< Seconds of a step, whatever is in it: to read the weights.
  double request_s = 0;    ///< Seconds for each request in it.
  double token_s = 1e-7;   ///< Seconds for each token of KV that it reads.
  std::size_t most = 256;  ///< Most requests of a step.

  /// Seconds of a step. O(1).
  [[nodiscard]] constexpr double step_s(replica_id /*id*/, std::int64_t decodes, std::int64_t context,
                                        std::int64_t /*longest*/) const noexcept {
    return fixed_s + request_s * static_cast<double>(decodes) + token_s * static_cast<double>(context);
  }
  /// Most requests of a step.
  [[nodiscard]] constexpr std::size_t places(replica_id /*id*/) const noexcept { return most; }
  /// They are.
  [[nodiscard]] constexpr bool alike() const noexcept { return true; }
};

/// What there must be room for in a `headroom_book`; fixed at construction.
struct headroom_book_limits {
  std::size_t replicas = 64;    ///< Numbers are below this.
  std::size_t requests = 4096;  ///< Requests at a time.
};

/// What a prompt costs, and what a block holds.
struct headroom_book_settings {
  headroom::prefill_cost cost{};      ///< The cost of a prompt.
  headroom::prefill_budget budget{};  ///< What a replica computes in the time to first token that is aimed at.
  tokens block_size{16};              ///< Tokens of a KV block.
};

/// What requests take of each replica when they have their expected length. A new one goes to the replica with the most
/// headroom: the smaller of Phi_T and Phi_S, which may be negative. Phi_T is the time left after
/// the prompts of the requests that have no token yet. Phi_S is the memory left when all requests of the replica have
/// their expected length.
///
/// While at least half of it is left, headroom counts as equal within the error of the expected lengths. From three
/// quarters on, all headroom counts as equal. Among equals, a request goes where it adds the least to the latencies of
/// all, its own included; ties go round-robin (`placement::least_prefill_backlog`). If replicas differ in speed, only
/// the headroom decides.
///
/// A request adds, in seconds:
/// - to its own latency: the prompts in the queue, and a decode step for each token that is expected of it. A step
///   counts all requests of the replica, and the prompts of the requests that follow those. If there are more requests
///   than a step may have, the steps count again for each time that it waits for a place;
/// - to each other request in a step: its prompt, and what its KV adds to these steps.
///
/// If only its own latency counted, all requests would avoid long contexts, until the other replicas were as slow.
///
/// If some of its prompt is cached on a replica, a request goes to the least
/// `queue + uncached * (requests + 1)`. `queue` is the time of the prompts in the queue, for which the request waits.
/// `uncached` is the time of the part of its prompt that is to be computed there, for which the others wait. The
/// product is LMetric's, in time. It counts the request itself; else an idle replica would be worth any prefix. If the
/// queue were multiplied as well, prefixes would scatter. If it did not count, a prefix that many requests share would
/// draw all of them to one replica.
///
/// It counts only requests that it was told of. Allocates nothing after construction.
/// Source: ours; Phi is Phasor's (section 3.1).
template <decode_speed Speed = linear_speed>
class headroom_book {
 public:
  using limits = headroom_book_limits;      ///< What there must be room for; fixed at construction.
  using settings = headroom_book_settings;  ///< Its parameters.

  /// What was compared of a replica.
  struct compared {
    std::size_t requests = 0;  ///< Live requests.
    double phi = 0;            ///< The headroom; where some of the prompt is cached, what is to be computed, negative.
    double error = 0;          ///< By how much `phi` may be wrong.
    double prefill_backlog =
        0;  ///< Seconds added to all latencies, without its own prompt, which takes as long everywhere.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(detail::keyed_pool<taken>::required_bytes(l.requests))
        .template add<total>(l.replicas)
        .template add<compared>(l.replicas)
        .bytes_unaligned();
  }
  /// Over the caller's memory, at least `required_bytes(l)` (checked in every build), which must outlive it. No request
  /// is there.
  headroom_book(std::span<std::byte> memory, const limits& l, const settings& s, const Speed& speed = {}) noexcept
      : headroom_book{arena{memory}, l, s, speed} {}
  /// Over storage from `storage_for`.
  headroom_book(owned_storage<limits>& storage, const settings& s, const Speed& speed = {}) noexcept
      : headroom_book{storage.memory(), storage.limits(), s, speed} {}
  headroom_book(const headroom_book&) = delete;
  headroom_book& operator=(const headroom_book&) = delete;

  /// The index of the replica that a request goes to; `placement::nowhere` if there is none. Advances a round-robin
  /// position. O(replicas).
  /// @param all views of replicas, see `fleet::view`. @param expected tokens of its output; 0: nothing is known.
  /// @param reads_prefixes whether the views say what is cached of its prompt.
  /// @param shows_all `last` is to have the seconds added of every replica.
  template <class Views>
  [[nodiscard]] std::size_t choose(const Views& all, tokens prompt, tokens expected, bool reads_prefixes,
                                   bool shows_all = false) noexcept {
    is_cached_ = false;
    for (std::size_t i = 0; reads_prefixes && i != all.size(); ++i) {
      is_cached_ = is_cached_ || all[i].cached_tokens > tokens{};
    }
    views_.clear();
    for (std::size_t i = 0; i != all.size(); ++i) {
      const auto& v = all[i];
      const total& sum = totals_at(v.id);
      const double prefill_backlog = sum.prompts.flops(settings_.cost);
      if (is_cached_) {
        const double own = settings_.cost.flops(prompt, v.cached_tokens);
        views_.push_back(
            {.requests = v.requests, .phi = -(prefill_backlog + own * static_cast<double>(v.requests + 1))});
        continue;
      }
      const double error = std::sqrt(sum.squares) / static_cast<double>(v.capacity.count());
      views_.push_back({.requests = v.requests,
                        .phi = std::min(time_phi(v), space_phi(v)),
                        .error = speed_.alike() ? error : 0,
                        .prefill_backlog = seconds(prefill_backlog)});
    }
    // The added latency decides only among several replicas of equal headroom.
    const double most = least_backlog_.most_of(views_);
    is_among_equals_ = !is_cached_ && speed_.alike() && most >= least_backlog_.phi_low_watermark &&
                       std::count_if(views_.begin(), views_.end(),
                                     [&](const compared& v) noexcept { return least_backlog_.is_equal(v, most); }) > 1;
    if (is_among_equals_ || (shows_all && speed_.alike())) {
      for (std::size_t i = 0; i != all.size(); ++i) views_[i].prefill_backlog += added_s(all[i], prompt, expected);
    }
    return is_cached_ ? most_free_(views_) : least_backlog_(views_);
  }
  /// What the last choice compared, by index.
  [[nodiscard]] std::span<const compared> last() const noexcept { return {views_.data(), views_.size()}; }
  /// Whether some of the prompt was cached somewhere.
  [[nodiscard]] bool is_cached() const noexcept { return is_cached_; }
  /// Whether the seconds added decided.
  [[nodiscard]] bool is_among_equals() const noexcept { return is_among_equals_; }
  /// Phi_T of a replica.
  template <class View>
  [[nodiscard]] double time_phi(const View& v) const noexcept {
    return headroom::time_freeness(totals_at(v.id).prompts, settings_.cost, settings_.budget);
  }
  /// Phi_S of a replica. If its requests have generated more than expected in total, the blocks held count.
  template <class View>
  [[nodiscard]] double space_phi(const View& v) const noexcept {
    return headroom::space_freeness(max(totals_at(v.id).memory, blocks{v.kv_held}), {}, v.capacity);
  }

  /// A request is on a replica, with `computed` tokens of its prompt cached there. While the book is full it is not
  /// counted. O(1).
  /// @param in_line it has no token yet.
  void take(request_id request, replica_id at, tokens prompt, tokens expected, tokens computed = {},
            bool in_line = true) noexcept {
    leave(request);
    if (all_.full()) return;
    taken& t = all_[all_.insert(request)];
    t.at = at;
    t.prompt = prompt;
    t.computed = computed;
    t.memory = blocks_for(prompt + expected, settings_.block_size);
    t.in_line = in_line;
    const double prompt_s = seconds(settings_.cost.flops(prompt, computed));
    t.prompts_ns = std::llround(1e9 * (expected > tokens{} ? prompt_s / static_cast<double>(expected.count()) : 0));
    join(t);
  }
  /// It has a token: its prompt is computed. O(1).
  void has_token(request_id request) noexcept {
    const std::uint32_t i = all_.find(request);
    if (i == no_index) return;
    taken& t = all_[i];
    if (t.in_line) totals_[t.at].prompts.leave(t.prompt, t.computed);
    t.in_line = false;
  }
  /// It goes on at another replica. O(1).
  void moved(request_id request, replica_id to) noexcept {
    const std::uint32_t i = all_.find(request);
    if (i == no_index) return;
    part(all_[i]);
    all_[i].at = to;
    join(all_[i]);
  }
  /// It is on none. O(1).
  void leave(request_id request) noexcept {
    const std::uint32_t i = all_.find(request);
    if (i == no_index) return;
    part(all_[i]);
    all_.erase(i);
  }

  /// Requests that are counted.
  [[nodiscard]] std::size_t requests() const noexcept { return all_.size(); }
  /// Requests of a replica without a token.
  [[nodiscard]] std::size_t in_line(replica_id id) const noexcept { return totals_at(id).prompts.requests(); }
  /// Blocks of the requests of a replica when they have their expected length.
  [[nodiscard]] blocks expected_memory(replica_id id) const noexcept { return totals_at(id).memory; }

 private:
  /// What a request takes of a replica.
  struct taken {
    using key = request_id;
    request_id id = no_request;
    replica_id at = no_replica;
    std::uint32_t next_free = no_index;
    tokens prompt{};
    tokens computed{};            // Tokens of its prompt that were cached.
    blocks memory{};              // When it has its expected length.
    std::int64_t prompts_ns = 0;  // What it adds to a step if it is followed by others like it.
    bool in_line = false;         // Until it has its first token.

    [[nodiscard]] static constexpr taken named(request_id id) noexcept {
      taken t;
      t.id = id;
      return t;
    }
    [[nodiscard]] constexpr request_id name() const noexcept { return id; }
    [[nodiscard]] static constexpr std::uint64_t hash(request_id id) noexcept {
      return tessera::detail::split_mix(id + tessera::detail::split_mix_step);
    }
  };
  /// What all requests of a replica take together.
  struct total {
    blocks memory{};
    double squares = 0;  // The sum over its requests of their blocks: whole numbers, so that nothing is rounded.
    headroom::prefill_load prompts{};
    std::int64_t prompts_ns = 0;
  };

  headroom_book(arena memory, const limits& l, const settings& s, const Speed& speed) noexcept
      : settings_{s},
        speed_{speed},
        all_{memory, l.requests},
        totals_{memory.take<total>(l.replicas)},
        replicas_{l.replicas},
        views_{memory, l.replicas} {
    TESSERA_ASSERT(s.budget.flops() > 0, "a replica has a budget");
    if (!speed_.alike()) least_backlog_.phi_high_watermark = std::numeric_limits<double>::infinity();
  }

  [[nodiscard]] const total& totals_at(std::uint64_t id) const noexcept {
    TESSERA_ASSERT(id < replicas_, "no such replica");
    return totals_[id];
  }
  void join(const taken& t) noexcept {
    TESSERA_ASSERT(t.at < replicas_, "no such replica");
    total& sum = totals_[t.at];
    sum.memory += t.memory;
    sum.squares += squared(t.memory);
    sum.prompts_ns += t.prompts_ns;
    if (t.in_line) sum.prompts.join(t.prompt, t.computed);
  }
  void part(const taken& t) noexcept {
    total& sum = totals_[t.at];
    sum.memory -= t.memory;
    sum.squares -= squared(t.memory);
    sum.prompts_ns -= t.prompts_ns;
    if (t.in_line) sum.prompts.leave(t.prompt, t.computed);
  }
  [[nodiscard]] static double squared(blocks n) noexcept {
    return static_cast<double>(n.count()) * static_cast<double>(n.count());
  }
  [[nodiscard]] double seconds(double flops) const noexcept { return flops / settings_.budget.peak_flops; }

  /// Seconds by which a request and all requests on `v` would take longer if it went to `v`. The prompts in the queue
  /// and its own prompt do not count for itself. Every request that ends is followed by another like it.
  template <class View>
  [[nodiscard]] double added_s(const View& v, tokens prompt, tokens output) const noexcept {
    const auto id = static_cast<replica_id>(v.id);
    const auto expected = static_cast<double>(output.count());
    const auto there = static_cast<double>(v.requests);
    // While it is there, each other request grows by at most its output. Together they grow at most to what they are
    // expected to hold in the end. On average they have grown by half of that. All contexts count as equally long.
    const std::int64_t block = settings_.block_size.count();
    const std::int64_t now = (v.kv_held + v.waiting_blocks).count() * block;
    const std::int64_t later = totals_at(id).memory.count() * block;
    const double grows = std::min(static_cast<double>(std::max<std::int64_t>(later - now, 0)), there * expected);
    const std::int64_t held = now + std::llround(grows / 2);
    const std::size_t most = speed_.places(id);
    // A step of at most `most` of `n` requests, with `context` tokens together.
    const auto step_of = [&](std::size_t n, std::int64_t context) noexcept {
      const std::int64_t each = context / static_cast<std::int64_t>(std::max<std::size_t>(n, 1));
      const auto decodes = static_cast<std::int64_t>(std::min(n, most));
      return speed_.step_s(id, decodes, n > most ? each * decodes : context, each);
    };
    const double before = step_of(v.requests, held);
    const double step = step_of(v.requests + 1, held + prompt.count() + output.count() / 2);
    const auto places = static_cast<double>(most);
    // Requests beyond the places of a step wait for a place, and so do those that follow.
    const double rounds = there < places ? 1 : (2 * there + 1) / places;
    return expected * (step + 1e-9 * static_cast<double>(totals_at(id).prompts_ns)) * rounds +
           std::min(there, places) * (seconds(settings_.cost.flops(prompt)) + expected * (step - before));
  }

  settings settings_;
  Speed speed_;
  placement::highest_phi most_free_{};
  placement::least_prefill_backlog least_backlog_{};
  detail::keyed_pool<taken> all_;
  total* totals_;  // By replica.
  std::size_t replicas_;
  fixed_vector<compared> views_;
  bool is_cached_ = false;
  bool is_among_equals_ = false;
};

}  // namespace fleet
TESSERA_NAMESPACE_END
