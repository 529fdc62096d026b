// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/config.hpp>

#include <cstdint>

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// Why an engine does not go on with a request.
enum class failure : std::uint8_t {
  refused,      ///< It would not take it: full, or draining.
  died,         ///< It died, or failed inside, while it had the request.
  unreachable,  ///< It could not be reached, and has not seen the request.
  at_fault,     ///< It says that the request is wrong.
  cancelled,    ///< The client has gone.
};

/// Whether a request may be tried on another engine. A request may itself be what kills engines, and each engine that
/// it is sent to next dies of it. So the bound counts the engines that died while they had it, and not only tries. A
/// value per request. O(1).
class retries {
 public:
  /// How patient.
  struct limits {
    std::uint32_t deaths = 2;  ///< Engines that may die while they have it.
    std::uint32_t tries = 8;   ///< Failures of any kind.
  };

  constexpr retries() noexcept = default;
  /// With other limits.
  constexpr explicit retries(const limits& l) noexcept : limits_{l} {}

  /// An engine has failed it. True if another may be tried. After a `died`, do so only when the dead engine is fenced,
  /// or nothing takes its results.
  [[nodiscard]] constexpr bool after(failure f) noexcept {
    ++tries_;
    deaths_ += f == failure::died ? 1U : 0U;
    over_ = over_ || f == failure::at_fault || f == failure::cancelled || deaths_ >= limits_.deaths ||
            tries_ >= limits_.tries;
    return !over_;
  }

  /// Engines that died while they had it.
  [[nodiscard]] constexpr std::uint32_t deaths() const noexcept { return deaths_; }
  /// Whether it is not tried again, whatever comes.
  [[nodiscard]] constexpr bool over() const noexcept { return over_; }

 private:
  limits limits_{};
  std::uint32_t deaths_ = 0;
  std::uint32_t tries_ = 0;
  bool over_ = false;
};

}  // namespace fleet
TESSERA_NAMESPACE_END
