// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstdint>

/// @file
/// The calls of a scheduler by name, as `decision_log` writes them.

TESSERA_NAMESPACE_BEGIN

/// A call, as logs name it.
enum class decision : std::uint8_t {
  none,             ///< No call: the log ends here.
  submit,           ///< `submit`.
  adopt,            ///< `adopt(r)`.
  adopt_progress,   ///< `adopt(r, progress)`.
  evacuate,         ///< `evacuate`.
  suspend,          ///< `suspend`.
  resume,           ///< `resume`.
  preempt,          ///< `preempt`.
  fork,             ///< `fork`.
  update,           ///< `update`.
  forget_prefixes,  ///< `forget_prefixes`.
  cancel,           ///< `cancel`.
  finish,           ///< `finish`.
  plan,             ///< `plan`.
  commit,           ///< `commit`.
  abandon,          ///< `abandon`.
  note,             ///< `logged::note`.
  park,             ///< `park`.
  ready,            ///< `ready`.
  loading,          ///< `loading`.
  arrived,          ///< `arrived`.
  start_by,         ///< `start_by`.
  evacuate_later,   ///< `evacuate` with a copy in progress.
  finish_later,     ///< `finish` with a copy in progress.
  drained,          ///< `drained`.
  fetching,         ///< `fetching`.
};

/// A lower-case name, for logs.
[[nodiscard]] constexpr const char* to_string(decision d) noexcept {
  switch (d) {
    case decision::none: return "none";
    case decision::submit: return "submit";
    case decision::adopt: return "adopt";
    case decision::adopt_progress: return "adopt_progress";
    case decision::evacuate: return "evacuate";
    case decision::suspend: return "suspend";
    case decision::resume: return "resume";
    case decision::preempt: return "preempt";
    case decision::fork: return "fork";
    case decision::update: return "update";
    case decision::forget_prefixes: return "forget_prefixes";
    case decision::cancel: return "cancel";
    case decision::finish: return "finish";
    case decision::plan: return "plan";
    case decision::commit: return "commit";
    case decision::abandon: return "abandon";
    case decision::note: return "note";
    case decision::park: return "park";
    case decision::ready: return "ready";
    case decision::loading: return "loading";
    case decision::arrived: return "arrived";
    case decision::start_by: return "start_by";
    case decision::evacuate_later: return "evacuate_later";
    case decision::finish_later: return "finish_later";
    case decision::drained: return "drained";
    case decision::fetching: return "fetching";
  }
  return "?";
}

TESSERA_NAMESPACE_END
