// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/draft/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace draft {

/// As many as the request's member `drafts` says. The engine sets it before it plans: how many were found for this
/// request in this step, or how many are worth it by what was accepted of the last ones.
///
///     struct my_request : tessera::request_hook { tessera::tokens drafts{}; };
///
/// When to use: drafts that are found, such as n-grams of the prompt, or drafters that adapt to each request.
struct per_request {
  /// Reads `r.drafts`.
  template <schedulable R>
    requires requires(const R& r) {
      { r.drafts } -> std::convertible_to<tokens>;
    }
  [[nodiscard]] constexpr tokens drafts(const R& r, const draft_view& /*view*/) const noexcept {
    return r.drafts;
  }
};

}  // namespace draft
TESSERA_NAMESPACE_END
