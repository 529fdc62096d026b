// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// Requests with a text, and policies for them that are chosen at run time.

#include <tessera/admit/future_peak.hpp>
#include <tessera/draft/unless_busy.hpp>
#include <tessera/gate/adapter_slots.hpp>
#include <tessera/gate/all.hpp>
#include <tessera/gate/backfill.hpp>
#include <tessera/gate/encoder_cache.hpp>
#include <tessera/gate/fair_tenants.hpp>
#include <tessera/kv/hash_chain.hpp>
#include <tessera/order/earliest_due.hpp>
#include <tessera/order/paced.hpp>
#include <tessera/order/ranked.hpp>
#include <tessera/order/response_ratio.hpp>
#include <tessera/order/round_robin.hpp>
#include <tessera/order/two_phase.hpp>
#include <tessera/pipeline/iteration_scheduler.hpp>
#include <tessera/preempt/cheapest.hpp>
#include <tessera/preempt/least_lost.hpp>
#include <tessera/preempt/recompute.hpp>
#include <tessera/preempt/swap.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace tessera_test {

using namespace tessera;

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return kv::detail::scramble(a * 0x9e37'79b9'7f4a'7c15ULL ^ (b + 0x1234'5678'9abc'def1ULL));
}

/// A request with a text, of which the first `common` tokens are those of its family.
struct text_request;
struct slow_reader;
struct expects_the_most;
using paced_order = order::paced<slow_reader>;
using due_order = order::earliest_due<expects_the_most, slow_reader>;
using ratio_order = order::response_ratio<expects_the_most>;
using text_hook = request_hook_for<order::round_robin, order::two_phase, order::ranked<>, order::paced<>,
                                   order::earliest_due<>, order::response_ratio<>>;
struct text_request : text_hook {
  float score = 0;
  std::uint32_t adapter = 0;
  std::uint32_t tenant = 0;
  mutable std::vector<gate::encoder_input> images;
  std::size_t id = 0;
  tokens output{};          ///< Tokens after which the engine ends it. At least 1.
  tokens reasoning{};       ///< Tokens after which its reasoning ends; 0: it does not reason, or never ends.
  time_point keep_until{};  ///< For a cache that goes by it,
  std::uint32_t kv_session = 0;
  bool releases_kv = false;  ///< and by these.
  std::vector<std::uint64_t> hashes;

  // What must have become of it.
  int accepted = 0;
  int ended = 0;
  bool cancelled_while_planned = false;
  tokens computed_before{};
  tokens length{};                        ///< What is known of it: what has been committed.
  tokens on_device{};                     ///< Its length where it runs.
  bool ended_there = false;               ///< A plan that was run ended it; later ones have it in vain.
  bool copy_pending = false;              ///< It was forked, and no plan with the copy of its last block was settled.
  std::vector<kv::block_id> host_ids;     ///< Where it was swapped to,
  std::size_t host_first = 0;             ///< from this block of its sequence on.
  std::vector<std::uint64_t> in_transit;  ///< Its KV on the way between two instances.
  std::uint64_t epoch = 0;                ///< How often prefixes had been forgotten when its oldest KV was computed.
  std::vector<std::uint64_t> contents;    ///< What the KV of its tokens is, by position.
  tokens announced{};                     ///< Tokens with KV that is on its way,
  std::size_t load_first = 0;             ///< from this block on,
  std::vector<kv::block_id> load_to;      ///< to these blocks.

  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept { return hashes; }

  [[nodiscard]] std::span<gate::encoder_input> encoder_inputs() const noexcept { return images; }

  void write(std::size_t name, tokens length, tokens common, std::uint64_t family, tokens block_size) {
    id = name;
    keep_until = time_point::at_seconds(static_cast<double>(mix(name, 77) % 64));
    kv_session = static_cast<std::uint32_t>(mix(name, 78) % 5);
    releases_kv = mix(name, 79) % 4 == 0;
    prompt = length;
    std::vector<std::int32_t> text;
    std::uint64_t chain = 0;
    contents.clear();
    for (std::int64_t i = 0; i != length.count(); ++i) {
      text.push_back(static_cast<std::int32_t>(
          mix(i < common.count() ? family : 1000 + name, static_cast<std::uint64_t>(i)) & 0x7fff'ffff));
      chain = mix(chain, static_cast<std::uint64_t>(text.back()));
      contents.push_back(chain);
    }
    hashes.resize(text.size() / static_cast<std::size_t>(block_size.count()));
    kv::hash_chain(text, static_cast<std::size_t>(block_size.count()), hashes);
  }

  std::uint64_t content(std::size_t position) {
    while (contents.size() <= position) contents.push_back(mix(contents.back(), id));
    return contents[position];
  }

  // A slot holds a token's content, and in its low bits the epoch of the request that computed it.
  static constexpr std::uint64_t epochs = 0xffff;
  [[nodiscard]] std::uint64_t written(std::size_t position, std::uint64_t in_epoch) {
    return (content(position) & ~epochs) | in_epoch;
  }
  /// Whether that is its own KV, or such as it may share: not computed before its own was.
  [[nodiscard]] bool may_read(std::uint64_t kv, std::size_t position, std::uint64_t in_epoch) {
    return ((kv ^ content(position)) & ~epochs) == 0 && (kv & epochs) >= in_epoch;
  }
};

/// A reader of 1.5 tokens a second.
struct slow_reader {
  [[nodiscard]] time_point operator()(const text_request& r) const noexcept {
    const tokens answered = r.generated() - r.state().reasoning;
    if (answered <= tokens{}) return time_point::never();
    return r.state().answering_since + duration{static_cast<double>(answered.count()) / 1.5};
  }
};

/// Expects what the request says it will generate at most.
struct expects_the_most {
  [[nodiscard]] tokens operator()(const text_request& r) const noexcept { return r.max_output; }
};

/// Policies chosen at run time, so that all combinations are one type.
struct any_preempt {
  int kind = 0;
  template <schedulable R>
  [[nodiscard]] preemption_mode mode(const R& r, blocks held) const noexcept {
    if (kind == 0) return preempt::swap{}.mode(r, held);
    if (kind == 1) return preempt::recompute{}.mode(r, held);
    // Such rates that both answers occur among the short sequences of a test.
    return preempt::cheapest{.seconds_per_block = 1.0, .seconds_per_token = 0.1, .seconds_per_token_squared = 0.05}
        .mode(r, held);
  }
};
/// The same with victims that are chosen.
struct any_victim : any_preempt {
  static constexpr bool chooses = true;
  std::size_t window = 4;
  template <schedulable R>
  [[nodiscard]] double loss(const R& r, const victim_view& v) const noexcept {
    return preempt::least_lost{{.seconds_per_block = 1.0, .seconds_per_token = 0.1, .seconds_per_token_squared = 0.05}}
        .loss(r, v);
  }
};
/// Says that victims are chosen. No request passes one that lacks blocks.
struct chosen_victims : gate::in_line {};
template <class Gate>
inline constexpr bool chooses_victims = std::same_as<Gate, chosen_victims>;

struct any_admit {
  int kind = 0;
  template <schedulable R>
  [[nodiscard]] bool admits(const R& r, const admission_view<R>& view) const noexcept {
    if (kind == 0) return admit::always{}.admits(r, view);
    if (kind == 1) return admit::watermark{.fraction = 0.1}.admits(r, view);
    return admit::basic_future_peak<admit::max_output_bound>{.expected_output = {.if_unknown = tokens{8}}}.admits(r,
                                                                                                                  view);
  }
};

struct any_draft {
  int kind = 0;
  template <schedulable R>
  [[nodiscard]] tokens drafts(const R& r, const draft_view& view) const noexcept {
    if (kind == 0) return draft::same_for_all{}.drafts(r, view);
    if (kind == 1) return tokens{static_cast<std::int64_t>(r.id % 5) - 1};
    return draft::unless_busy<>{.batch = 3, .tokens_for_free = tokens{8}, .waiting = 2}.drafts(r, view);
  }
};

/// Adapters, tenants, images and backfilling at once.
using all_gates =
    gate::all<gate::basic_adapter_slots<4>, gate::basic_fair_tenants<4>, gate::basic_encoder_cache<8>, gate::backfill>;
template <class Gate>
inline constexpr bool screens = tessera::detail::gate_screens<Gate>;

template <class Order, class BlockStore, class Gate = gate::in_line>
using any_scheduler =
    iteration_scheduler<text_request, Order, std::conditional_t<chooses_victims<Gate>, any_victim, any_preempt>,
                        any_admit, BlockStore, kv::csr_tables, Gate, any_draft>;

}  // namespace tessera_test
