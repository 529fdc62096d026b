// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/index.hpp>
#include <tessera/core/units.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

/// @file
/// What replicas of an engine say of themselves to a router, now and then.

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// A replica, numbered from 0 by the router. A number may be given to another replica later, with a larger incarnation.
using replica_id = std::uint32_t;
/// A request, as the router names it. One that is tried again on the replica where it was before takes another name.
using request_id = std::uint64_t;
/// "No replica."
inline constexpr replica_id no_replica = no_index;
/// "No request."
inline constexpr request_id no_request = std::numeric_limits<request_id>::max();

/// What requests are to a replica. A replica's load is the sum of two things: what each router has sent there, and
/// shared blocks that outlive the request that computed them. A block that several requests share counts once, for the
/// request that computed it. So the load of some requests has only what they have not found in the prefix cache.
struct load {
  std::size_t requests = 0;       ///< Live requests.
  blocks kv_held{};               ///< KV blocks that they hold, on device and host together; a shared one once.
  blocks waiting_blocks{};        ///< KV blocks that they need for the tokens that they have and do not hold.
  std::size_t reasoning = 0;      ///< In the high-priority queue (PASCAL's r_i).
  std::size_t fresh_answers = 0;  ///< Answers that have not used up their first quantum (PASCAL's a_i).
  double prefill_flops = 0;       ///< What is left to compute of their prompts, see `headroom::prefill_cost`.

  /// Memberwise.
  friend constexpr bool operator==(const load&, const load&) noexcept = default;
};

/// What is left of `all` without `part`, 0 where that is more: the two may be of different moments.
[[nodiscard]] constexpr load without(const load& all, const load& part) noexcept {
  const auto less = [](std::size_t a, std::size_t b) { return a > b ? a - b : 0; };
  return {.requests = less(all.requests, part.requests),
          .kv_held = max(all.kv_held - part.kv_held, blocks{}),
          .waiting_blocks = max(all.waiting_blocks - part.waiting_blocks, blocks{}),
          .reasoning = less(all.reasoning, part.reasoning),
          .fresh_answers = less(all.fresh_answers, part.fresh_answers),
          .prefill_flops = std::max(all.prefill_flops - part.prefill_flops, 0.0)};
}

/// A report. What a replica cannot tell is left as it is here:
/// - `own`: what the books had here when the report was asked for (`ledger::asked`) is taken, or else when it came.
///   Some requests are sent or end while the report is on its way. Such a request counts as another router's for one
///   report more, or not at all. If the books have more blocks than the report, they have counted shared ones twice,
///   see `ledger`.
/// - `free`: what `all` does not hold is free. Too much if requests swap to the host, for `kv_held` counts that.
/// - `all.waiting_blocks`: the queues of other routers' requests are not seen; `placement::least_load` is
///   `placement::least_kv` except for this router's own.
/// - `all.prefill_flops`: Phi_T knows only this router's prompts.
/// - `all.reasoning`, `all.fresh_answers`: PASCAL's second algorithm counts only this router's requests.
/// - `slo_met`: PASCAL's choices are from all replicas.
struct report {
  std::uint64_t incarnation = 0;  ///< Which life of the replica says so.
  std::uint64_t epoch = 0;        ///< Counts the reports of that life, from 1.
  load all{};                     ///< The load of all requests that the replica has.
  std::optional<load> own{};      ///< The part of `all` that this router has sent.
  std::optional<blocks> free{};   ///< Device blocks that could be allocated.
  bool slo_met = true;            ///< Whether all answers keep pace (PASCAL's t_i).
};

/// The greatest count that is believed: such counts can be added up without overflow.
inline constexpr std::int64_t greatest_count = std::int64_t{1} << 40U;

/// What a load from outside must satisfy before it is looked at. Not a protection against a replica that lies.
[[nodiscard]] constexpr bool well_formed(const load& l) noexcept {
  const auto few = [](std::uint64_t n) { return n <= std::uint64_t{greatest_count}; };
  const auto size = [](blocks b) { return blocks{} <= b && b <= blocks{greatest_count}; };
  return few(l.requests) && few(l.reasoning) && few(l.fresh_answers) && size(l.kv_held) && size(l.waiting_blocks) &&
         l.prefill_flops >= 0 && l.prefill_flops < std::numeric_limits<double>::infinity();
}
/// The same for a report.
[[nodiscard]] constexpr bool well_formed(const report& r) noexcept {
  return r.incarnation != 0 && r.epoch != 0 && well_formed(r.all) && (!r.own || well_formed(*r.own)) &&
         (!r.free || (blocks{} <= *r.free && *r.free <= blocks{greatest_count}));
}

/// What became of a report.
enum class reception : std::uint8_t {
  taken,      ///< It is what is known now.
  doubled,    ///< It has been taken before.
  late,       ///< A younger one has been taken.
  former,     ///< Its incarnation is dead.
  unknown,    ///< No replica has joined by this number, or not this incarnation of it.
  malformed,  ///< It is not `well_formed`.
};
/// How many there are.
inline constexpr std::size_t receptions = static_cast<std::size_t>(reception::malformed) + 1;

/// A lower-case name, for logs.
[[nodiscard]] constexpr const char* to_string(reception r) noexcept {
  switch (r) {
    case reception::taken: return "taken";
    case reception::doubled: return "doubled";
    case reception::late: return "late";
    case reception::former: return "former";
    case reception::unknown: return "unknown";
    case reception::malformed: return "malformed";
  }
  return "?";
}

}  // namespace fleet
TESSERA_NAMESPACE_END
