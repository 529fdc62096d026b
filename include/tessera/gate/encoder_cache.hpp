// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gate/concepts.hpp>
#include <tessera/gate/skip_limit.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace gate {

/// An image, a sound, or another such part of a prompt. The encoder turns it into `size` tokens.
struct encoder_input {
  std::uint64_t hash = 0;  ///< Hash of its content: equal inputs are encoded once.
  tokens size{};           ///< Tokens that its output takes in the cache, and in the encoder's budget of a step.
};

/// Starts requests with images as the encoder and its cache allow: a step encodes at most `per_step` tokens, and at
/// most `capacity` are in use. An output stays in the cache while a request that uses it holds blocks. After that it
/// stays until its room is needed; the least recently used goes first. A request that does not fit is skipped. Its
/// function `encoder_inputs()` gives its inputs, the same as long as it is in a scheduler:
///
///     struct my_request : tessera::request_hook {
///       std::span<const tessera::gate::encoder_input> encoder_inputs() const noexcept;
///     };
///
/// Classes, each with a queue of its own: requests without inputs, and requests with the same number of input tokens
/// within a factor of 2. So small requests do not wait behind large ones that do not fit.
///
/// The engine runs the encoder before the step, for each input of a starting request (`entry_origin`) that is not
/// cached. `scheduler.gate().holds(hash)`, called when the plan is made, says whether an input is cached. The engine
/// drops outputs that `holds` no longer reports.
///
/// A request starts as a whole: if its inputs together exceed the budget of a step, they are encoded in a step of their
/// own. `submit` refuses a request with inputs that exceed the cache. If such a request comes by `adopt`, it starts
/// when no other request has inputs.
///
/// Starvation: small requests could take the room for ever. Once `most_overtaken` requests with inputs have started
/// behind the first skipped one, no more of them do until it starts or leaves (`gate::skip_limit`).
///
/// When to use: multimodal models with an encoder that delays every request's step.
/// @tparam MostOutputs capacity in outputs, whatever their sizes.
template <std::size_t MostOutputs = 128>
struct basic_encoder_cache {
  static constexpr bool backfills = false;    ///< No request passes one that lacks blocks.
  static constexpr bool screens = true;       ///< The first request of each class is asked for.
  static constexpr bool counts = true;        ///< It is told which requests start and stop.
  static constexpr bool refuses_some = true;  ///< It refuses requests with inputs that do not fit into the empty cache.

  tokens per_step{2048};            ///< Tokens encoded in a step, at most.
  tokens capacity{8192};            ///< Tokens that the cache holds.
  std::size_t most_overtaken = 64;  ///< This many requests with inputs may start behind the first that does not fit.

  /// An output.
  struct output {
    encoder_input input{};    ///< The input that it is made from.
    std::uint32_t users = 0;  ///< Requests that hold blocks and use it.
    std::uint64_t last = 0;   ///< The time of its last use, in calls.
    bool planned = false;     ///< A request that starts in the latest plan uses it.
  };
  std::array<output, MostOutputs> outputs{};  ///< The first `held` are in the cache.
  std::size_t held = 0;                       ///< Outputs in the cache.
  std::array<encoder_input, MostOutputs>
      planned{};            ///< The first `plans` are not in the cache, and the latest plan encodes them.
  std::size_t plans = 0;    ///< The number of inputs that it encodes.
  tokens encoding{};        ///< Their size in all.
  std::uint64_t calls = 0;  ///< A clock, in calls.
  skip_limit limit{};       ///< The request that does not fit, and how many have overtaken it.

  /// Whether the cache has the output of the input with this hash. O(outputs).
  [[nodiscard]] constexpr bool holds(std::uint64_t hash) const noexcept { return find(hash) != held; }

  /// Tokens of all its inputs, rounded down to a power of 2; 0 if it has none. O(inputs).
  template <schedulable R>
  [[nodiscard]] constexpr std::uint64_t class_of(const R& r) const noexcept {
    const std::span<const encoder_input> inputs = r.encoder_inputs();
    tokens all{};
    for (const encoder_input& input : inputs) all += input.size;
    return inputs.empty() ? 0U
                          : 1U + static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint64_t>(all.count())));
  }
  /// Checks the parameters (asserted; else the nearest valid value is taken).
  constexpr void set_up(tokens /*block_size*/) noexcept {
    TESSERA_ASSERT(per_step > tokens{} && capacity > tokens{}, "an encoder cache has room, and a budget");
    per_step = max(per_step, tokens{1});
    capacity = max(capacity, tokens{1});
  }

  /// O(inputs * (inputs + outputs)).
  template <schedulable R>
    requires requires(const R& r) {
      { r.encoder_inputs() } noexcept -> std::convertible_to<std::span<const encoder_input>>;
    }
  [[nodiscard]] constexpr passage ask(const R& candidate, const gate_view<R>& /*view*/) const noexcept {
    const std::span<const encoder_input> inputs = candidate.encoder_inputs();
    if (inputs.empty()) return passage::start;
    if (limit.are_enough(most_overtaken)) return passage::skip;
    return fits(inputs) ? passage::start : passage::skip;
  }

  /// Whether its inputs alone exceed the cache.
  template <schedulable R>
  [[nodiscard]] constexpr bool refuses(const R& r, typename R::time_point /*now*/) const noexcept {
    const std::span<const encoder_input> inputs = r.encoder_inputs();
    tokens room{};
    std::size_t places = 0;
    for (std::size_t i = 0; i != inputs.size(); ++i) {
      if (!comes_again(inputs, i)) room += inputs[i].size, ++places;
    }
    return room > capacity || places > MostOutputs;
  }

  /// Begins a plan. O(outputs).
  constexpr void begin() noexcept {
    plans = 0;
    encoding = tokens{};
    for (output& o : std::span{outputs}.first(held)) o.planned = false;
    limit.begin();
  }
  /// The request's class is skipped in this plan, by this gate or another one. As `ask`.
  template <schedulable R>
  constexpr void skips(const R& r) noexcept {
    const std::span<const encoder_input> inputs = r.encoder_inputs();
    if (!inputs.empty() && !fits(inputs)) limit.skips(r, class_of(r));
  }
  /// The request starts in this plan.
  template <schedulable R>
  constexpr void starts(const R& r) noexcept {
    const std::span<const encoder_input> inputs = r.encoder_inputs();
    if (!inputs.empty()) limit.starts(r);
    for (const encoder_input& input : inputs) {
      if (const std::size_t at = find(input.hash); at != held) {
        outputs[at].planned = true;
      } else if (!is_planned(input.hash) && plans != MostOutputs) {
        planned[plans++] = input;
        encoding += input.size;
      }
    }
  }
  /// The request has come, and waits.
  template <schedulable R>
  constexpr void joins(const R& /*r*/) noexcept {}
  /// The request holds blocks from now on.
  template <schedulable R>
  constexpr void started(const R& r) noexcept {
    const std::span<const encoder_input> inputs = r.encoder_inputs();
    if (!inputs.empty()) limit.started(r);
    for (std::size_t i = 0; i != inputs.size(); ++i) {
      if (comes_again(inputs, i)) continue;
      if (find(inputs[i].hash) == held && !insert(inputs[i])) continue;
      output& o = outputs[find(inputs[i].hash)];
      ++o.users;
      o.last = ++calls;
    }
  }
  /// `n` tokens were generated for it.
  template <schedulable R>
  constexpr void charge(const R& /*r*/, tokens /*n*/) noexcept {}
  /// The request holds no blocks any more.
  template <schedulable R>
  constexpr void stopped(const R& r) noexcept {
    const std::span<const encoder_input> inputs = r.encoder_inputs();
    for (std::size_t i = 0; i != inputs.size(); ++i) {
      const std::size_t at = find(inputs[i].hash);
      if (comes_again(inputs, i) || at == held || outputs[at].users == 0) continue;
      --outputs[at].users;
      outputs[at].last = ++calls;
    }
  }
  /// The request has ended or left.
  template <schedulable R>
  constexpr void left(const R& r) noexcept {
    limit.left(r);
  }

 private:
  /// Whether the encoder and the cache have room for them now.
  [[nodiscard]] constexpr bool fits(std::span<const encoder_input> inputs) const noexcept {
    tokens to_encode{};
    tokens room{};
    std::size_t places = 0;
    for (const output& o : std::span{outputs}.first(held)) {
      if (o.users != 0 || o.planned) room += o.input.size, ++places;
    }
    room += encoding;
    places += plans;
    if (places == 0) return true;
    for (std::size_t i = 0; i != inputs.size(); ++i) {
      if (comes_again(inputs, i) || is_planned(inputs[i].hash)) continue;
      const std::size_t at = find(inputs[i].hash);
      if (at == held) to_encode += inputs[i].size;
      if (at == held || (outputs[at].users == 0 && !outputs[at].planned)) room += inputs[i].size, ++places;
    }
    if (room > capacity || places > MostOutputs) return false;
    const bool too_much = to_encode != tokens{} && encoding != tokens{} && encoding + to_encode > per_step;
    return !too_much;
  }
  [[nodiscard]] constexpr std::size_t find(std::uint64_t hash) const noexcept {
    std::size_t i = 0;
    while (i != held && outputs[i].input.hash != hash) ++i;
    return i;
  }
  [[nodiscard]] constexpr bool is_planned(std::uint64_t hash) const noexcept {
    for (const encoder_input& input : std::span{planned}.first(plans)) {
      if (input.hash == hash) return true;
    }
    return false;
  }
  /// Evicts the least recently used until there is room. False if there is no room even so: an adopted request that is
  /// too large.
  [[nodiscard]] constexpr bool insert(const encoder_input& input) noexcept {
    tokens all = input.size;
    for (const output& o : std::span{outputs}.first(held)) all += o.input.size;
    while (all > capacity || held == MostOutputs) {
      std::size_t coldest = held;
      for (std::size_t i = 0; i != held; ++i) {
        const bool is_free = outputs[i].users == 0 && !outputs[i].planned;
        if (is_free && (coldest == held || outputs[i].last < outputs[coldest].last)) coldest = i;
      }
      if (coldest == held) break;
      all -= outputs[coldest].input.size;
      outputs[coldest] = outputs[--held];
    }
    if (held == MostOutputs) return false;
    outputs[held++] = {.input = input};
    return true;
  }
  [[nodiscard]] static constexpr bool comes_again(std::span<const encoder_input> inputs, std::size_t i) noexcept {
    for (std::size_t j = 0; j != i; ++j) {
      if (inputs[j].hash == inputs[i].hash) return true;
    }
    return false;
  }
};

using encoder_cache = basic_encoder_cache<>;  ///< Room for 128 outputs.

}  // namespace gate
TESSERA_NAMESPACE_END
