// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/market/message.hpp>

#include <concepts>
#include <cstdint>

/// @file
/// What an engine gives to the market: a way to send messages, and the handling of what was decided.

TESSERA_NAMESPACE_BEGIN
namespace market {

/// One transfer, as the engine at either end sees it.
struct transfer {
  request_id request = 0;    ///< The request.
  peer other;                ///< At the source: the target. At the target: the source.
  std::uint64_t ticket = 0;  ///< Names the transfer at the target. The addresses of its reserved blocks go by it.
  std::uint32_t epoch = 0;   ///< The request's count of hand-overs, this one included: a fencing token.
  tokens length{};           ///< As last known.
  blocks room{};             ///< Reserved at the target. What outgrows it cannot be handed over.
};

/// The engine, as the market uses it. It is handed to every call and not kept. Its functions record or start something
/// and return; they must not call back into the market.
///
/// Anywhere:
/// - `p.send(m)`: pass `m` to the instance `m.to.id`. It may get lost, late, doubled or overtaken.
///
/// As the source of a transfer:
/// - `p.copy(t)`: begin to copy the KV of `t.request` to `t.other`, for instance with `migration::live_migration`. The
///   request goes on running. Call `hand_over` when it has stopped and the last block has arrived; it keeps its blocks
///   (`iteration_scheduler::suspend`), because the target may refuse it still.
/// - `p.kept(request)`: the transfer is off. Cut the copy off: nothing may be written under its ticket any more. The
///   request is yours; go on running it if it had stopped (`resume`). It is still on offer: another `copy` or `unsold`
///   follows.
/// - `p.released(request)`: it is another's; free what it held (`evacuate`).
/// - `p.unresolved(request, target)`: it was granted to an incarnation that is dead. It is not yours. Free what it held
///   and tell the front end.
/// - `p.unsold(request)`: nobody took it. It is yours, and not on offer any more.
///
/// As the target:
/// - `p.load()`: tokens of KV of the requests that the instance owns.
/// - `p.idle_blocks()`: KV blocks that nobody has or has reserved.
/// - `p.reserve(t)`: set `t.room` idle blocks apart for `t`; false if there are fewer.
/// - `p.discard(t)`: the transfer came to nothing: the blocks are idle again.
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
