// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstdint>

/// @file
/// The result of a call that can be refused. Exhaustion and refusal are values, never exceptions.

TESSERA_NAMESPACE_BEGIN

/// The outcome of an operation. Every value except `ok` means that nothing was changed.
enum class status : std::uint8_t {
  ok = 0,
  accepted = ok,    ///< The name of `ok` for `submit`.
  never_fits,       ///< The request could not run even on an empty instance.
  queue_full,       ///< The bounded waiting queue is full.
  exhausted,        ///< Not enough free blocks, rows or host blocks.
  not_allocated,    ///< Double free, or a block that is not in use.
  foreign,          ///< A block or request that does not belong to this object.
  unknown_request,  ///< The request is not, or no longer, in this scheduler.
  busy,             ///< The request is in this or another scheduler already, or a plan is pending.
  invalid,          ///< An argument outside its documented range.
  refused,          ///< The gate rejects it: a quota, or a deadline that cannot be met.
};

/// Whether it is `ok`.
[[nodiscard]] constexpr bool ok(status s) noexcept { return s == status::ok; }

/// A lower-case name, for logs.
[[nodiscard]] constexpr const char* to_string(status s) noexcept {
  switch (s) {
    case status::ok: return "ok";
    case status::never_fits: return "never_fits";
    case status::queue_full: return "queue_full";
    case status::exhausted: return "exhausted";
    case status::not_allocated: return "not_allocated";
    case status::foreign: return "foreign";
    case status::unknown_request: return "unknown_request";
    case status::busy: return "busy";
    case status::invalid: return "invalid";
    case status::refused: return "refused";
  }
  return "?";
}

TESSERA_NAMESPACE_END
