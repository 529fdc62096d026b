// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/control/telemetry.hpp>
#include <tessera/core/units.hpp>
#include <tessera/fleet/report.hpp>
#include <tessera/fleet/view.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

/// @file
/// What a fleet's controller wants done, as a value.

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// How the KV of a request that moves is copied.
enum class transfer : std::uint8_t {
  stopped,  ///< The request computes nothing until its KV is there.
  live,     ///< It runs on at its source meanwhile.
};

/// A parameter of the order in which a replica serves its requests.
enum class order_parameter : std::uint8_t {
  threshold_s,  ///< PARS: a request that has waited for so long goes first.
  quantum,      ///< PASCAL: tokens of an answer before others have their turn.
  pace,         ///< due-first: tokens per second at which an answer is read.
};

/// What an action is. Each names the members of `action` that it fills in.
enum class action_kind : std::uint8_t {
  none,
  place,               ///< `request` goes to `replica`.
  move,                ///< `request` goes on at `replica`, from `from`, copied as `how` says.
  cancel_move,         ///< The move of `request` to `replica` is off: it goes on where it was.
  set_role,            ///< `replica` gets the role `role`.
  set_length_range,    ///< `replica` serves requests of at least `low` and less than `high` blocks.
  set_prefill_budget,  ///< `replica` computes at most `low` tokens of prompts in a step; 0: its own budget.
  set_order,           ///< The parameter `parameter` of the order of `replica` becomes `value`.
  plan,                ///< Make the plan `number`, beside the service.
  note,                ///< Says why; `replica` or `request` may name what it is about.
};

/// A few words that need no heap. What is too long is cut off.
class short_text {
 public:
  static constexpr std::size_t most = 62;  ///< Characters.

  constexpr short_text() noexcept = default;
  /// The words, on one line: anything below a space becomes one.
  constexpr short_text(std::string_view s) noexcept  // NOLINT: text is text
      : size_{static_cast<std::uint8_t>(std::min(s.size(), most))} {
    for (std::size_t i = 0; i != size_; ++i) text_[i] = static_cast<unsigned char>(s[i]) < ' ' ? ' ' : s[i];
  }
  /// The same.
  constexpr short_text(const char* s) noexcept : short_text{std::string_view{s}} {}  // NOLINT: text is text
  /// The words.
  [[nodiscard]] constexpr std::string_view view() const noexcept { return {text_.data(), size_}; }
  /// Memberwise.
  friend constexpr bool operator==(const short_text&, const short_text&) noexcept = default;

 private:
  std::array<char, most> text_{};
  std::uint8_t size_ = 0;
};

/// An action. Members that its kind does not name are as they are here.
struct action {
  action_kind what = action_kind::none;                      ///< What it is.
  transfer how = transfer::stopped;                          ///< How KV is copied.
  control::role role = control::role::mixed;                 ///< A role.
  order_parameter parameter = order_parameter::threshold_s;  ///< Which parameter.
  replica_id replica = no_replica;                           ///< The replica that it is for.
  replica_id from = no_replica;                              ///< The source of a move.
  request_id request = no_request;                           ///< The request that it is about.
  std::int64_t low = 0;                                      ///< Blocks or tokens, as its kind says.
  std::int64_t high = endless.count();                       ///< Blocks.
  std::uint64_t number = 0;                                  ///< The number of a plan.
  double value = 0;                                          ///< The value of a parameter.
  short_text why{};                                          ///< In words.

  /// Memberwise.
  friend constexpr bool operator==(const action&, const action&) noexcept = default;
};

}  // namespace fleet
TESSERA_NAMESPACE_END
