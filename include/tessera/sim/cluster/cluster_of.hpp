// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/cluster/engine_of.hpp>
#include <tessera/sim/cluster/placed.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

/// @file
/// A cluster of one composition under a control of one type.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// A plain type as a `cluster_control`: it has `place(c, r)` and those of the other members of that class that it
/// needs.
template <class Control>
class control_of final : public cluster_control {
 public:
  /// Uses `control`, or a copy of it.
  explicit control_of(Control control) : control_{std::move(control)} {}

  // As `cluster_control` says.

  [[nodiscard]] std::size_t place(cluster& c, const request& r) override { return control_.place(c, r); }
  void starts(cluster& c) override {
    if constexpr (requires { control_.starts(c); }) control_.starts(c);
  }
  void failed(cluster& c, std::size_t i) override {
    if constexpr (requires { control_.failed(c, i); }) control_.failed(c, i);
  }
  void returned(cluster& c, std::size_t i) override {
    if constexpr (requires { control_.returned(c, i); }) control_.returned(c, i);
  }
  void lost(cluster& c, request& r) override {
    if constexpr (requires { control_.lost(c, r); }) control_.lost(c, r);
  }
  void rejected(cluster& c, request& r) override {
    if constexpr (requires { control_.rejected(c, r); }) control_.rejected(c, r);
  }
  void answers(cluster& c, request& r) override {
    if constexpr (requires { control_.answers(c, r); }) control_.answers(c, r);
  }
  void prefilled(cluster& c, request& r) override {
    if constexpr (requires { control_.prefilled(c, r); }) control_.prefilled(c, r);
  }
  void moved(cluster& c, request& r) override {
    if constexpr (requires { control_.moved(c, r); }) control_.moved(c, r);
  }
  void arrived(cluster& c, request& r) override {
    if constexpr (requires { control_.arrived(c, r); }) {
      control_.arrived(c, r);
    } else {
      cluster_control::arrived(c, r);
    }
  }
  void migration_failed(cluster& c, request& r) override {
    if constexpr (requires { control_.migration_failed(c, r); }) control_.migration_failed(c, r);
  }
  void finished(cluster& c, request& r) override {
    if constexpr (requires { control_.finished(c, r); }) control_.finished(c, r);
  }
  void step_ended(cluster& c, std::size_t i) override {
    if constexpr (requires { control_.step_ended(c, i); }) control_.step_ended(c, i);
  }
  void alarm(cluster& c, std::uint64_t what) override {
    if constexpr (requires { control_.alarm(c, what); }) control_.alarm(c, what);
  }
  void ended(cluster& c, run_result& result) override {
    if constexpr (requires { control_.ended(c, result); }) control_.ended(c, result);
  }

 private:
  Control control_;
};

/// `control` for a `cluster`, whether its type is derived from `cluster_control` or not.
template <class Control>
[[nodiscard]] std::unique_ptr<cluster_control> make_control(Control control) {
  if constexpr (std::derived_from<Control, cluster_control>) {
    return std::make_unique<Control>(std::move(control));
  } else {
    return std::make_unique<control_of<Control>>(std::move(control));
  }
}

/// A `cluster` of instances of one scheduler.
/// @tparam Scheduler any composition over `sim::request`. @tparam Control see `make_control`.
template <class Scheduler, class Control = placed<>>
class cluster_of : public cluster {
 public:
  /// Creates the instances. Allocates.
  explicit cluster_of(const cluster_options& options, const typename Scheduler::config& config = {},
                      Control control = {})
      : cluster{options, engines_of<Scheduler>(config), make_control(std::move(control))} {}
};

}  // namespace sim
TESSERA_NAMESPACE_END
