// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/migration/handover.hpp>
#include <tessera/migration/live_migration.hpp>

namespace {

struct wire {
  tessera::blocks sent{};
  void copy(const tessera::migration::block_range& r) noexcept { sent += r.size(); }
};

}  // namespace

std::int64_t migrate(tessera::migration::live_migration& m, tessera::tokens length, tessera::blocks room) {
  wire w;
  static_cast<void>(m.begin(length, room, w));
  static_cast<void>(m.copied(length, w));
  static_cast<void>(m.stopped(length, w));
  m.handed_over();
  static_cast<void>(m.abort());
  return w.sent.count() + m.sent().count() + m.sent_stopped().count();
}
bool hand_over(tessera::migration::handover_source& s, tessera::migration::handover_target& t) {
  return s.grant() && t.on_grant() && s.on_ack() && !s.on_refuse() && !s.cancel() && !s.on_peer_failed() &&
         !t.refuse() && (t.on_closed(), t.over()) &&
         t.repeats() == tessera::migration::handover_target::answer::nothing;
}
