// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/market/message.hpp>

#include <concepts>
#include <cstdint>

/// @file
/// The engine's part of the market: it sends messages, and carries out decisions.

TESSERA_NAMESPACE_BEGIN
namespace market {

/// One transfer, as seen by the engine at either end.
struct transfer {
  request_id request = 0;    ///< The request.
  peer other;                ///< At the source: the target. At the target: the source.
  std::uint64_t ticket = 0;  ///< Names the transfer at the target, which finds the addresses of its reserved blocks by
                             ///< it.
  std::uint32_t epoch = 0;   ///< How often the request was handed over, this time included: a fencing token.
  tokens length{};           ///< As last known.
  blocks room{};             ///< Reserved at the target. A request that outgrows it cannot be handed over.
};

/// The engine, as the market uses it. It is passed to every call and not kept. Its functions record or start something
/// and return; they must not call back into the market.
///
/// Anywhere:
/// - `p.send(m)`: pass `m` to the instance `m.to.id`. It may be lost, delayed, duplicated or overtaken.
///
/// As the source of a transfer:
/// - `p.copy(t)`: begin to copy the KV of `t.request` to `t.other`, for instance with `migration::live_migration`. The
///   request continues to run. Call `hand_over` when it has stopped and the last block has arrived. It keeps its blocks
///   (`iteration_scheduler::suspend`), because the target may still refuse it.
/// - `p.kept(request)`: the transfer is off. Cut the copy off: nothing may be written under its ticket any more. The
///   request is yours; continue to run it if it had stopped (`resume`). It is still on offer: another `copy` or
///   `unsold` follows.
/// - `p.released(request)`: another instance owns it; free what it held (`evacuate`).
/// - `p.unresolved(request, target)`: it was granted to an incarnation that is dead. It is not yours. Free what it held
///   and tell the front end.
/// - `p.unsold(request)`: no instance took it. It is yours, and not on offer any more.
///
/// As the target:
/// - `p.load()`: tokens of KV of the requests that the instance owns.
/// - `p.idle_blocks()`: KV blocks that are neither used nor reserved.
/// - `p.reserve(t)`: reserve `t.room` idle blocks for `t`; false if there are fewer.
/// - `p.discard(t)`: the transfer failed: the blocks are idle again.
/// - `p.activate(t)`: the request is yours: its KV lies in the reserved blocks. Run it.
template <class P>
concept port = requires(P& p, const message& m, const transfer& t, request_id r, peer other) {
  { p.send(m) } noexcept;
  { p.copy(t) } noexcept;
  { p.kept(r) } noexcept;
  { p.released(r) } noexcept;
  { p.unresolved(r, other) } noexcept;
  { p.unsold(r) } noexcept;
  { p.load() } noexcept -> std::same_as<tokens>;
  { p.idle_blocks() } noexcept -> std::same_as<blocks>;
  { p.reserve(t) } noexcept -> std::same_as<bool>;
  { p.discard(t) } noexcept;
  { p.activate(t) } noexcept;
};

}  // namespace market
TESSERA_NAMESPACE_END
