// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/admit/watermark.hpp>

#include "support/catch.hpp"

#include <array>

namespace {

using namespace tessera;

struct request : request_hook {};

}  // namespace

TEST_CASE("watermark keeps a fraction of the capacity free") {
  request candidate;
  request other;
  const std::array<request*, 1> one{&other};
  const auto view = [&](std::int64_t free_after) {
    return admission_view<request>{.free_after = blocks{free_after},
                                   .capacity = blocks{200},
                                   .block_size = tokens{16},
                                   .residents = one,
                                   .admitted = {}};
  };
  const admit::watermark one_percent{};
  CHECK_FALSE(one_percent.admits(candidate, view(0)));
  CHECK_FALSE(one_percent.admits(candidate, view(1)));
  CHECK(one_percent.admits(candidate, view(2)));
  CHECK(one_percent.admits(candidate, view(3)));
  CHECK(admit::watermark{.fraction = 0}.admits(candidate, view(0)));
  CHECK_FALSE(admit::watermark{.fraction = 1}.admits(candidate, view(199)));
  CHECK(admit::watermark{.fraction = 1}.admits(candidate, view(200)));
  CHECK(admit::always{}.admits(candidate, view(0)));
}

TEST_CASE("watermark lets a request into an empty instance, whatever it leaves free") {
  request candidate;
  request other;
  const std::array<request*, 1> one{&other};
  const admit::watermark half{.fraction = 0.5};
  admission_view<request> view{
      .free_after = blocks{0}, .capacity = blocks{200}, .block_size = tokens{16}, .residents = {}, .admitted = {}};
  CHECK(half.admits(candidate, view));
  view.admitted = one;
  CHECK_FALSE(half.admits(candidate, view));
  view.admitted = {};
  view.residents = one;
  CHECK_FALSE(half.admits(candidate, view));
}
