// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/draft/concepts.hpp>

TESSERA_NAMESPACE_BEGIN
namespace draft {

/// The number in the request's member `drafts`. The engine sets it before it plans. It may be the number of drafts
/// found for this request in this step, or the number that pays off by recent acceptance.
///
///     struct my_request : tessera::request_hook { tessera::tokens drafts{}; };
///
/// When to use: drafts that are looked up, such as n-grams of the prompt, or drafters that adapt to each request.
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
