// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/gate/concepts.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace gate {

/// An image, a sound, or another such part of a prompt. The encoder turns it into `size` tokens.
struct encoder_input {
  std::uint64_t hash = 0;  ///< Hash of its content: equal inputs are encoded once.
  tokens size{};           ///< Tokens that its output takes in the cache, and in the encoder's budget of a step.
  tokens first{};          ///< Its place in the prompt,
  tokens length{};         ///< and how many tokens of the prompt stand for it.

  std::uint64_t used_since = 0;  ///< Written by the gate, as the next: whether its request uses the output,
  std::uint64_t encoded_in = 0;  ///< and which plan encodes it for this request.
};

/// Computes prompts with images as far as the encoder and its cache allow. A step encodes at most `per_step` tokens,
/// and at most `capacity` are in use. A step of a prompt ends before the first input that does not fit. An output is in
/// use from the step that first needs it until the prompt has passed it. After that it stays until its room is needed;
/// the least recently used goes first. A request's `encoder_inputs()` gives its inputs, in the order of their places,
/// in memory of its own that the gate may write to:
///
///     struct my_request : tessera::request_hook {
///       std::span<tessera::gate::encoder_input> encoder_inputs() const noexcept;
///     };
///
/// Classes, each with a queue of its own: requests with inputs, and requests without. Requests without do not wait for
/// the encoder.
///
/// The engine looks at `scheduler.gate()` when a plan has been made. It drops the outputs in `dropped()`. Then it runs
/// the encoder for each input of a request in the plan for which `encodes(input)` is true.
///
/// An input that exceeds `per_step` is encoded in a step without another, and so are inputs of one place. `submit`
/// refuses a request with an input that exceeds the cache. If such a request comes by `adopt`, it goes on when no other
/// output is in use.
///
/// Starvation: while an input lacks room, no request with a later turn takes any. What is in use is given back when
/// the prompts that use it have passed it, and each of these can go on.
///
/// When to use: multimodal models.
/// @tparam MostOutputs capacity in outputs, whatever their sizes.
template <std::size_t MostOutputs = 128>
struct basic_encoder_cache {
  static_assert(MostOutputs > 0, "tessera: an encoder cache has a place for an output");
  static constexpr bool backfills = false;    ///< No request passes one that lacks blocks.
  static constexpr bool screens = true;       ///< The first request of each class is asked for.
  static constexpr bool counts = true;        ///< It is told which requests start and stop.
  static constexpr bool limits = true;        ///< It bounds the steps of prompts.
  static constexpr bool refuses_some = true;  ///< It refuses requests with an input that exceeds the cache.

  tokens per_step{2048};      ///< Tokens encoded in a step, at most.
  tokens capacity{8192};      ///< Tokens that the cache holds.
  bool whole_inputs = false;  ///< True: a step does not end within an input that it can leave to the next one.

  /// An output.
  struct output {
    std::uint64_t hash = 0;        ///< Hash of the input that it is made from.
    tokens size{};                 ///< What it takes.
    std::uint32_t users = 0;       ///< Inputs of requests that use it.
    std::uint64_t last = 0;        ///< The time of its last use, in calls.
    std::uint64_t wanted_in = 0;   ///< The latest plan that uses it without another user.
    std::uint64_t dropped_in = 0;  ///< The plan that drops it.
  };
  std::array<output, MostOutputs> outputs{};      ///< The first `held` are in the cache.
  std::array<output, MostOutputs> coming{};       ///< The first `encoded` are encoded by the latest plan,
  std::array<std::uint64_t, MostOutputs> gone{};  ///< and it drops the first `dropping`.
  std::size_t held = 0;                           ///< See `outputs`.
  std::size_t encoded = 0;                        ///< See `coming`.
  std::size_t dropping = 0;                       ///< See `gone`.
  tokens cached{};                                ///< What the outputs take.
  /// A number of outputs.
  struct amount {
    tokens size{};          ///< What they take.
    std::size_t count = 0;  ///< How many they are.
  };
  amount used{};            ///< Those with users.
  amount wanted{};          ///< Those that get some by the latest plan.
  tokens encoding{};        ///< What the latest plan encodes.
  bool lacks = false;       ///< In the latest plan, an input lacks room.
  std::uint64_t plan = 0;   ///< The number of plans,
  std::uint64_t epoch = 1;  ///< and of times that all outputs were dropped, and 1.
  std::uint64_t calls = 0;  ///< A clock, in calls.

  /// Whether the cache has the output of the input with this hash. O(outputs).
  [[nodiscard]] constexpr bool holds(std::uint64_t hash) const noexcept { return find(hash) != held; }
  /// Whether the latest plan encodes this input.
  [[nodiscard]] constexpr bool encodes(const encoder_input& input) const noexcept { return input.encoded_in == plan; }
  /// Hashes of the outputs that the latest plan drops, before it encodes others.
  [[nodiscard]] constexpr std::span<const std::uint64_t> dropped() const noexcept {
    return std::span{gone}.first(dropping);
  }
  /// All outputs are gone: the encoder's weights have changed. At any time.
  constexpr void forget() noexcept {
    held = encoded = dropping = 0;
    cached = tokens{};
    used = {};
    ++epoch;
  }

  /// 1 if it has inputs, else 0.
  template <schedulable R>
  [[nodiscard]] constexpr std::uint64_t class_of(const R& r) const noexcept {
    return r.encoder_inputs().empty() ? 0U : 1U;
  }
  /// Checks the parameters (asserted; else the nearest valid value is taken).
  constexpr void set_up(tokens /*block_size*/) noexcept {
    TESSERA_ASSERT(per_step > tokens{} && capacity > tokens{}, "an encoder cache has room, and a budget");
    per_step = max(per_step, tokens{1});
    capacity = max(capacity, tokens{1});
  }

  /// Whether its turn comes at all: not if others with inputs wait for room.
  template <schedulable R>
    requires requires(const R& r) {
      { r.encoder_inputs() } noexcept -> std::convertible_to<std::span<encoder_input>>;
    }
  [[nodiscard]] constexpr passage ask(const R& candidate, const gate_view<R>& /*view*/) const noexcept {
    return lacks && !candidate.encoder_inputs().empty() ? passage::skip : passage::start;
  }
  /// Whether one of its inputs exceeds the cache.
  template <schedulable R>
  [[nodiscard]] constexpr bool refuses(const R& r, typename R::time_point /*now*/) const noexcept {
    for (const encoder_input& input : r.encoder_inputs()) {
      if (input.size > capacity) return true;
    }
    return false;
  }

  /// Begins a plan.
  constexpr void begin() noexcept {
    ++plan;
    encoded = dropping = 0;
    wanted = {};
    encoding = tokens{};
    lacks = false;
  }
  /// How many of the `count` tokens from `first` on can be computed in this plan. O(inputs * (inputs + outputs)).
  template <schedulable R>
  [[nodiscard]] constexpr tokens limit(const R& r, tokens first, tokens count) const noexcept {
    amount more = wanted;
    tokens work = encoding;
    const std::span<const encoder_input> inputs = r.encoder_inputs();
    std::size_t passed = 0;
    tokens place{-1};
    tokens before_place{};  // what is encoded besides inputs of the same place
    for (std::size_t i = 0; i != inputs.size(); ++i) {
      const encoder_input& input = inputs[i];
      const tokens end = input.first + input.length;
      if (input.first >= first + count) break;
      if (end <= first) ++passed;
      if (end <= first || is_used(input)) continue;
      if (input.first != place) before_place = work;
      place = input.first;
      const tokens before = max(input.first - first, tokens{});
      if (whole_inputs && first + count < end && first < input.first) return before;
      const bool comes_again = std::any_of(&inputs[passed], &input, [&input](const encoder_input& earlier) noexcept {
        return earlier.hash == input.hash;
      });
      if (!comes_again && !fits(input, more, work, before_place)) return before;
    }
    return count;
  }
  /// The plan computes these tokens of the request, which `limit` has allowed.
  template <schedulable R>
  constexpr void computes(const R& r, tokens first, tokens count) noexcept {
    const auto is_read = [&](const encoder_input& input) noexcept {
      return count != tokens{} && is_needed(input, first, count);
    };
    // Those that are there first: they are not dropped for the others.
    for (const encoder_input& input : r.encoder_inputs()) {
      if (is_read(input)) keep(input);
    }
    for (encoder_input& input : r.encoder_inputs()) {
      if (is_read(input)) encode(input);
    }
    for (const encoder_input& input : r.encoder_inputs()) {
      if (lacks || is_read(input) || !is_needed(input, first, count + tokens{1})) continue;
      amount more = wanted;
      lacks = look_up(input) != shared && !has_room(input, more);
    }
  }
  /// The plan is run: it cannot be abandoned any more.
  constexpr void runs() noexcept {
    for (std::size_t i = held; i-- != 0;) {
      if (outputs[i].dropped_in != plan) continue;
      cached -= outputs[i].size;
      outputs[i] = outputs[--held];
    }
    for (const output& o : std::span{coming}.first(encoded)) {
      outputs[held] = o;
      outputs[held++].last = ++calls;
      cached += o.size;
    }
    encoded = dropping = 0;
  }
  /// So are these tokens of the request.
  template <schedulable R>
  constexpr void runs(const R& r, tokens first, tokens count) noexcept {
    for (encoder_input& input : r.encoder_inputs()) {
      if (is_needed(input, first, count)) use(input);
    }
  }
  /// The tokens of the request before `end` have KV.
  template <schedulable R>
  constexpr void has_run(const R& r, tokens end) noexcept {
    for (encoder_input& input : r.encoder_inputs()) {
      if (input.first + input.length <= end) release(input);
    }
  }
  /// The request starts in this plan.
  template <schedulable R>
  constexpr void starts(const R& /*r*/) noexcept {}
  /// The request has come, and waits.
  template <schedulable R>
  constexpr void joins(const R& r) noexcept {
    for (encoder_input& input : r.encoder_inputs()) input.used_since = input.encoded_in = 0;
  }
  /// The request holds blocks from now on. A fork has the inputs of its parent, and uses none.
  template <schedulable R>
  constexpr void started(const R& r) noexcept {
    for (encoder_input& input : r.encoder_inputs()) input.used_since = 0;
  }
  /// `n` tokens were generated for it.
  template <schedulable R>
  constexpr void charge(const R& /*r*/, tokens /*n*/) noexcept {}
  /// The request holds no blocks any more.
  template <schedulable R>
  constexpr void stopped(const R& r) noexcept {
    for (encoder_input& input : r.encoder_inputs()) release(input);
  }
  /// The request has ended or left.
  template <schedulable R>
  constexpr void left(const R& /*r*/) noexcept {}

 private:
  [[nodiscard]] constexpr bool is_used(const encoder_input& input) const noexcept { return input.used_since == epoch; }
  /// Whether a step of these tokens needs it, and its request does not use it yet.
  [[nodiscard]] constexpr bool is_needed(const encoder_input& input, tokens first, tokens count) const noexcept {
    return !is_used(input) && input.first < first + count && input.first + input.length > first;
  }
  /// The place of the output, as the latest plan leaves it; `held`: there is none.
  [[nodiscard]] constexpr std::size_t find(std::uint64_t hash) const noexcept {
    std::size_t i = 0;
    while (i != held && (outputs[i].hash != hash || outputs[i].dropped_in == plan)) ++i;
    return i;
  }
  [[nodiscard]] constexpr bool is_coming(std::uint64_t hash) const noexcept {
    for (const output& o : std::span{coming}.first(encoded)) {
      if (o.hash == hash) return true;
    }
    return false;
  }
  static constexpr std::size_t shared = MostOutputs + 1;
  /// As `find`, for an input that its request does not use yet. `shared`: other requests, or the latest plan, hold the
  /// room of its output already.
  [[nodiscard]] constexpr std::size_t look_up(const encoder_input& input) const noexcept {
    if (is_coming(input.hash)) return shared;
    const std::size_t at = find(input.hash);
    return at != held && (outputs[at].users != 0 || outputs[at].wanted_in == plan) ? shared : at;
  }
  /// Whether there is room for an output that is not shared beside `more`, to which it is added.
  [[nodiscard]] constexpr bool has_room(const encoder_input& input, amount& more) const noexcept {
    const std::size_t count = used.count + more.count;
    if (count != 0 && (used.size + more.size + input.size > capacity || count == MostOutputs)) return false;
    more = {more.size + input.size, more.count + 1};
    return true;
  }
  /// Whether it can be encoded beside `work` as well, to which it is added. `others`: what of this has another place.
  [[nodiscard]] constexpr bool fits(const encoder_input& input, amount& more, tokens& work,
                                    tokens others) const noexcept {
    const std::size_t at = look_up(input);
    if (at == shared) return true;
    const bool is_new = at == held;
    if (lacks || (is_new && others != tokens{} && work + input.size > per_step) || !has_room(input, more)) return false;
    if (is_new) work += input.size;
    return true;
  }
  constexpr void want(const encoder_input& input) noexcept {
    wanted.size += input.size;
    ++wanted.count;
  }
  /// If its output is there, the latest plan uses it.
  constexpr void keep(const encoder_input& input) noexcept {
    const std::size_t at = look_up(input);
    if (at == shared || at == held) return;
    want(input);
    outputs[at].wanted_in = plan;
  }
  /// If its output is not there, the latest plan encodes it.
  constexpr void encode(encoder_input& input) noexcept {
    if (look_up(input) != held) return;
    want(input);
    make_room(input.size);
    coming[encoded++] = {.hash = input.hash, .size = input.size};
    encoding += input.size;
    input.encoded_in = plan;
  }
  /// Drops the least recently used, until there is room for `size` more.
  constexpr void make_room(tokens size) noexcept {
    const auto is_free = [this](const output& o) noexcept {
      return o.users == 0 && o.wanted_in != plan && o.dropped_in != plan;
    };
    tokens all = cached + encoding + size;
    for (const output& o : std::span{outputs}.first(held)) all -= o.dropped_in == plan ? o.size : tokens{};
    while (all > capacity || held - dropping + encoded == MostOutputs) {
      output* coldest = nullptr;
      for (output& o : std::span{outputs}.first(held)) {
        if (is_free(o) && (coldest == nullptr || o.last < coldest->last)) coldest = &o;
      }
      if (coldest == nullptr) return;  // one that exceeds the cache
      coldest->dropped_in = plan;
      gone[dropping++] = coldest->hash;
      all -= coldest->size;
    }
  }
  constexpr void use(encoder_input& input) noexcept {
    const std::size_t at = find(input.hash);
    if (at == held) return;  // all were dropped meanwhile
    output& o = outputs[at];
    if (o.users++ == 0) used = {used.size + o.size, used.count + 1};
    o.last = ++calls;
    input.used_since = epoch;
  }
  constexpr void release(encoder_input& input) noexcept {
    const bool was_used = is_used(input);
    input.used_since = 0;
    if (!was_used) return;
    output& o = outputs[find(input.hash)];
    if (--o.users == 0) used = {used.size - o.size, used.count - 1};
    o.last = ++calls;
  }
};

using encoder_cache = basic_encoder_cache<>;  ///< Room for 128 outputs.

}  // namespace gate
TESSERA_NAMESPACE_END
