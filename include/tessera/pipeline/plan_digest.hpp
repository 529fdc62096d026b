// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/kv/concepts.hpp>
#include <tessera/pipeline/plan.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

/// @file
/// A hash of a plan: two plans with the same hash are taken to be equal.

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// A hash of a plan. Its terms are independent, so that a processor computes many at a time.
class plan_digest {
 public:
  void add(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0, std::uint64_t d = 0) noexcept {
    const std::uint64_t sum = (a + 0x9e37'79b9'7f4a'7c15ULL) * 0xff51'afd7'ed55'8ccdULL +
                              (b ^ 0xc2b2'ae3d'27d4'eb4fULL) * k1 + std::rotl(c * k2, 31) + std::rotl(d * k3, 17);
    value_ = (std::rotl(value_, 5) ^ sum ^ (sum >> 29)) * k1;
  }
  /// Never 0.
  [[nodiscard]] std::uint64_t value() const noexcept {
    const std::uint64_t v = value_ ^ (value_ >> 32);
    return v == 0 ? 1 : v;
  }

 private:
  static constexpr std::uint64_t k1 = 0x9fb2'1c65'1e98'df25ULL;
  static constexpr std::uint64_t k2 = 0xd6e8'feb8'6659'fd93ULL;
  static constexpr std::uint64_t k3 = 0xa076'1d64'78bd'642fULL;
  std::uint64_t value_ = 0x2545'f491'4f6c'dd1dULL;
};

/// Hashes everything in a plan that an engine acts on. A row of the block tables enters with its length and its new
/// blocks: its other blocks were in an earlier digest. O(entries + new blocks + blocks to copy).
template <class Plan>
[[nodiscard]] std::uint64_t digest_of(const Plan& p, const kv::block_table& table) noexcept {
  const auto number = [](auto count) noexcept { return static_cast<std::uint64_t>(count.count()); };
  plan_digest d;
  d.add(p.decode.size(), p.prefill.size(), number(p.computed), p.id);
  for (const auto entries : {p.decode, p.prefill}) {
    for (const auto& e : entries) {
      const std::uint64_t row = e.row | static_cast<std::uint64_t>(table.size(e.row)) << 32;
      const std::uint64_t kind = static_cast<std::uint64_t>(e.samples) | static_cast<std::uint64_t>(e.origin) << 1;
      d.add(e.request->state().sequence, number(e.first), number(e.count) << 8 | kind,
            row ^ std::rotl(number(e.lookahead), 52));
      if (e.new_blocks == 0) continue;
      d.add(e.new_blocks);
      for (const kv::block_id b : table.row(e.row).last(e.new_blocks)) d.add(b);
    }
  }
  for (const auto transfers : {p.swap_out, p.swap_in}) {
    d.add(transfers.size());
    for (const auto& t : transfers) {
      d.add(t.request->state().sequence, t.first, t.device.size());
      for (std::size_t i = 0; i != t.device.size(); ++i) d.add(t.device[i], t.host[i]);
    }
  }
  d.add(p.fetch.size(), p.copies.size(), p.preempted.size(), p.outgrown.size());
  for (const auto& t : p.fetch) {
    d.add(t.request->state().sequence, t.first, t.device.size());
    for (const kv::block_id b : t.device) d.add(b);
  }
  for (const kv::block_copy& c : p.copies) d.add(c.from, c.to);
  for (const auto& v : p.preempted) d.add(v.request->state().sequence, static_cast<std::uint64_t>(v.mode));
  for (const auto* r : p.outgrown) d.add(r->state().sequence);
  for (const kv_demotion& t : p.demoted) d.add(t.device, t.host, 1);
  if (!p.load.empty() || !p.late.empty()) {
    d.add(p.load.size(), p.late.size());
    for (const auto& t : p.load) {
      d.add(t.request->state().sequence, t.first, t.device.size());
      for (const kv::block_id b : t.device) d.add(b);
    }
    for (const auto& l : p.late) {
      d.add(l.request == nullptr ? l.ticket : l.request->state().sequence, static_cast<std::uint64_t>(l.what));
    }
  }
  return d.value();
}

}  // namespace detail
TESSERA_NAMESPACE_END
