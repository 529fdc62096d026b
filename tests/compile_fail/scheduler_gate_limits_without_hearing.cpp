// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: tessera: a gate that limits must count, and needs

#include <tessera/compose/fcfs.hpp>

struct request : tessera::request_hook {};

struct my_gate {
  static constexpr bool backfills = false;
  static constexpr bool counts = true;
  static constexpr bool limits = true;
  void begin() noexcept {}
  void starts(const request&) noexcept {}
  void joins(const request&) noexcept {}
  void started(const request&) noexcept {}
  void charge(const request&, tessera::tokens) noexcept {}
  void stopped(const request&) noexcept {}
  void left(const request&) noexcept {}
  tessera::tokens limit(const request&, tessera::tokens, tessera::tokens count) const noexcept { return count; }
  void computes(const request&, tessera::tokens, tessera::tokens) noexcept {}
  void runs() noexcept {}
  void runs(const request&, tessera::tokens, tessera::tokens) noexcept {}
#ifdef EXPECT_OK
  void has_run(const request&, tessera::tokens) noexcept {}
#endif
};

std::size_t bytes() {
  return tessera::fcfs<request, tessera::kv::block_pool, tessera::kv::csr_tables, my_gate>::required_bytes(
      {.blocks = 4});
}
