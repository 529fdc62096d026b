// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gate/concepts.hpp>
#include <tessera/gate/overtakings.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace gate {

/// An image, a sound, ... of a prompt: what an encoder makes of it is so many tokens.
struct encoder_input {
  std::uint64_t hash = 0;  ///< Of its content: equal ones are encoded once.
  tokens size{};           ///< What its output takes of the cache, and the encoder of a step's budget.
};

/// Requests with images start as the encoder can take them: at most so much of its work in a step, and as much as a
/// cache has room for of the outputs of those who run. Outputs stay in the cache while a request that has them holds
/// blocks, and then until their room is needed, the longest unused first. Who does not fit is skipped. What a request
/// has, its function `encoder_inputs()` says, the same as long as it is in a scheduler:
///
///     struct my_request : tessera::request_hook {
///       std::span<const tessera::gate::encoder_input> encoder_inputs() const noexcept;
///     };
///
/// Classes, each with a queue of its own, are requests without inputs, and requests whose inputs have the same number
/// of tokens within a factor of 2. So small ones do not wait behind large ones that do not fit.
///
/// The engine runs the encoder, before the step, for each input of one who starts (`entry_origin`) that the cache does
/// not hold when the plan is made (`scheduler.gate().holds(hash)`), and drops outputs that it does not hold any more.
///
/// A request starts as a whole: if its inputs together exceed the budget of a step, they are encoded in one of their
/// own. A request whose inputs exceed the cache is refused at `submit`; one that comes by `adopt` starts when nobody
/// else has any.
///
/// Nobody waits for ever because small ones go on to take the room: once `most_overtaken` with inputs have started
/// behind the first who is skipped, no more do until it starts or leaves (`gate::overtakings`).
///
/// When to use: multimodal models, whose encoder holds up everybody's step.
/// @tparam MostOutputs room for so many outputs, whatever their sizes.
template <std::size_t MostOutputs = 128>
struct basic_encoder_cache {
  static constexpr bool passes = false;       ///< Nobody passes one who lacks blocks.
  static constexpr bool screens = true;       ///< The first of each class is asked for.
  static constexpr bool counts = true;        ///< It hears who starts and stops.
  static constexpr bool refuses_some = true;  ///< Whose inputs do not fit into the empty cache.

  tokens per_step{2048};            ///< So much is encoded in a step.
  tokens capacity{8192};            ///< So much the cache holds.
  std::size_t most_overtaken = 64;  ///< So many with inputs start behind the first who does not fit.

  /// An output.
  struct output {
    encoder_input input{};    ///< Of what.
    std::uint32_t users = 0;  ///< Requests that hold blocks and have it.
    std::uint64_t last = 0;   ///< When it was used last, in calls.
    bool planned = false;     ///< One who starts in the plan that was made last has it.
  };
  std::array<output, MostOutputs> outputs{};  ///< The first `held` are in the cache.
  std::size_t held = 0;                       ///< So many are.
  std::array<encoder_input, MostOutputs>
      planned{};            ///< The first `plans` are not, and the plan made last encodes them.
  std::size_t plans = 0;    ///< So many does it,
  tokens encoding{};        ///< so large in all.
  std::uint64_t calls = 0;  ///< A clock.
  overtakings line{};       ///< Who does not fit, and how many have overtaken it.

  /// Whether the cache has the output of such an input. O(outputs).
  [[nodiscard]] constexpr bool holds(std::uint64_t hash) const noexcept { return find(hash) != held; }

  /// By how many tokens its inputs have in all, rounded down to a power of 2; 0 if it has none. O(inputs).
  template <schedulable R>
  [[nodiscard]] constexpr std::uint64_t class_of(const R& r) const noexcept {
    const std::span<const encoder_input> inputs = r.encoder_inputs();
    tokens all{};
    for (const encoder_input& input : inputs) all += input.size;
    return inputs.empty() ? 0U
                          : 1U + static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint64_t>(all.count())));
  }
  /// Checks the parameters (asserted; else the nearest that is possible).
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
    if (line.are_enough(most_overtaken)) return passage::skip;
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

  /// A plan is being made. O(outputs).
  constexpr void begin() noexcept {
    plans = 0;
    encoding = tokens{};
    for (output& o : std::span{outputs}.first(held)) o.planned = false;
    line.begin();
  }
  /// Its class is skipped in this plan, by this gate or another one. As `ask`.
  template <schedulable R>
  constexpr void skips(const R& r) noexcept {
    const std::span<const encoder_input> inputs = r.encoder_inputs();
    if (!inputs.empty() && !fits(inputs)) line.skips(r, class_of(r));
  }
  /// It starts in this plan.
  template <schedulable R>
  constexpr void starts(const R& r) noexcept {
    const std::span<const encoder_input> inputs = r.encoder_inputs();
    if (!inputs.empty()) line.starts(r);
    for (const encoder_input& input : inputs) {
      if (const std::size_t at = find(input.hash); at != held) {
        outputs[at].planned = true;
      } else if (!is_planned(input.hash) && plans != MostOutputs) {
        planned[plans++] = input;
        encoding += input.size;
      }
    }
  }
  /// It has come.
  template <schedulable R>
  constexpr void joins(const R& /*r*/) noexcept {}
  /// It holds blocks from now on.
  template <schedulable R>
  constexpr void started(const R& r) noexcept {
    const std::span<const encoder_input> inputs = r.encoder_inputs();
    if (!inputs.empty()) line.started(r);
    for (std::size_t i = 0; i != inputs.size(); ++i) {
      if (comes_again(inputs, i)) continue;
      if (find(inputs[i].hash) == held && !insert(inputs[i])) continue;
      output& o = outputs[find(inputs[i].hash)];
      ++o.users;
      o.last = ++calls;
    }
  }
  /// So many tokens came of it.
  template <schedulable R>
  constexpr void charge(const R& /*r*/, tokens /*n*/) noexcept {}
  /// It holds none any more.
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
  /// It has ended or left.
  template <schedulable R>
  constexpr void left(const R& r) noexcept {
    line.left(r);
  }

 private:
  /// Whether the encoder and the cache can take them now.
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
  /// The coldest go until there is room. False if there is no place even so: an adopted request that is too large.
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
