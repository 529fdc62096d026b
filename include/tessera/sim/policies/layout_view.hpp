// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/cluster_options.hpp>
#include <tessera/sim/cluster/compare_views.hpp>
#include <tessera/sim/cluster/instance.hpp>
#include <tessera/sim/cluster/run_watcher.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A cluster as one of several controls sees it that take turns: the same calls, but that its alarms are told from
/// those of the controls before and after it.
/// @tparam C a `cluster`.
template <class C>
class layout_view {
 public:
  /// Of control number `life` of the cluster `c`. @param life 1 or more, below 2^24.
  layout_view(C& c, std::uint64_t life) noexcept : c_{&c}, life_{life} {}

  /// Which control an alarm is for, as the cluster has it.
  [[nodiscard]] static constexpr std::uint64_t life_of(std::uint64_t what) noexcept { return what % lives; }
  /// What the control called it.
  [[nodiscard]] static constexpr std::uint64_t word_of(std::uint64_t what) noexcept { return what / lives; }
  /// See `cluster::call_after`.
  void call_after(double delay_s, std::uint64_t what) { c_->call_after(delay_s, what * lives + life_); }

  // All else as in `cluster`.

  /// See `cluster::options`.
  [[nodiscard]] const cluster_options& options() const noexcept { return c_->options(); }
  /// See `cluster::now_s`.
  [[nodiscard]] double now_s() const noexcept { return c_->now_s(); }
  /// See `cluster::size`.
  [[nodiscard]] std::size_t size() const noexcept { return c_->size(); }
  /// See `cluster::views`.
  [[nodiscard]] const auto& views() const noexcept { return c_->views(); }
  /// See `cluster::candidates`.
  [[nodiscard]] const auto& candidates(const request& r) { return c_->candidates(r); }
  /// See `cluster::in_service`.
  [[nodiscard]] bool in_service(std::size_t i) const noexcept { return c_->in_service(i); }
  /// See `cluster::up`.
  [[nodiscard]] bool up(std::size_t i) const noexcept { return c_->up(i); }
  /// See `cluster::takes`.
  [[nodiscard]] bool takes(std::size_t i, const request& r) const noexcept { return c_->takes(i, r); }
  /// See `cluster::capacity`.
  [[nodiscard]] blocks capacity(std::size_t i) const noexcept { return c_->capacity(i); }
  /// See `cluster::queued_blocks`.
  [[nodiscard]] blocks queued_blocks(std::size_t i) const noexcept { return c_->queued_blocks(i); }
  /// See `cluster::first_blocks`.
  [[nodiscard]] blocks first_blocks(std::size_t i) const noexcept { return c_->first_blocks(i); }
  /// See `cluster::at`.
  [[nodiscard]] const auto& at(std::size_t i) const noexcept { return std::as_const(*c_).at(i); }
  /// See `cluster::requests`.
  [[nodiscard]] std::span<request> requests() noexcept { return c_->requests(); }
  /// See `cluster::asks`.
  [[nodiscard]] bool asks(const request& r) const { return c_->asks(r); }
  /// See `cluster::because`.
  void because(std::string why, comparison seen = {}) { c_->because(std::move(why), std::move(seen)); }
  /// See `cluster::tell`.
  void tell(const request& r, happening what, std::size_t where, std::string why = {}, comparison seen = {}) {
    c_->tell(r, what, where, std::move(why), std::move(seen));
  }
  /// See `cluster::look_at_phases`.
  void look_at_phases() noexcept { c_->look_at_phases(); }
  /// See `cluster::look_at_prefixes`.
  void look_at_prefixes(const request& r) { c_->look_at_prefixes(r); }
  /// See `cluster::move`.
  bool move(request& r, std::size_t to) { return c_->move(r, to); }
  /// See `cluster::migrate`.
  bool migrate(request& r, std::size_t to) { return c_->migrate(r, to); }
  /// See `cluster::admit`.
  void admit(request& r) { c_->admit(r); }
  /// See `cluster::cut_migration`.
  void cut_migration(request& r) { c_->cut_migration(r); }
  /// See `cluster::lose`.
  void lose(request& r) { c_->lose(r); }

 private:
  static constexpr std::uint64_t lives = std::uint64_t{1} << 24U;

  C* c_;
  std::uint64_t life_;
};

}  // namespace sim
TESSERA_NAMESPACE_END
