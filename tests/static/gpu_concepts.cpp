// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/gpu/host_sorter.hpp>

// Truth table: an archetype that passes with nothing to spare, and a near-miss per requirement.

namespace {

using namespace tessera;

using keys = std::span<const std::uint64_t>;
using in = std::span<const std::uint32_t>;
using out = std::span<std::uint32_t>;

static_assert(gpu::batch_sorter<gpu::host_sorter>);
static_assert(!gpu::batch_sorter<int>);

struct archetype {
  static std::size_t required_bytes(std::size_t) noexcept { return 0; }
  status sort(keys, unsigned, out, gpu::workspace) const noexcept { return {}; }
  status sort_segments(keys, unsigned, in, out, gpu::workspace) const noexcept { return {}; }
  status bucket(in, in, out, out, gpu::workspace) const noexcept { return {}; }
  status admit(in, in, in, in, out, gpu::workspace) const noexcept { return {}; }
};
static_assert(gpu::batch_sorter<archetype>);

struct not_copyable : archetype {
  not_copyable(const not_copyable&) = delete;
};
static_assert(!gpu::batch_sorter<not_copyable>);

struct lacks_bytes : archetype {
  void required_bytes(std::size_t) const noexcept;
};
static_assert(!gpu::batch_sorter<lacks_bytes>);

struct sort_may_throw : archetype {
  status sort(keys, unsigned, out, gpu::workspace) const { return {}; }
};
static_assert(!gpu::batch_sorter<sort_may_throw>);

struct sort_says_nothing : archetype {
  void sort(keys, unsigned, out, gpu::workspace) const noexcept {}
};
static_assert(!gpu::batch_sorter<sort_says_nothing>);

struct sort_wants_to_change_keys : archetype {
  status sort(std::span<std::uint64_t>, unsigned, out, gpu::workspace) const noexcept { return {}; }
};
static_assert(!gpu::batch_sorter<sort_wants_to_change_keys>);

struct lacks_segments : archetype {
  void sort_segments() const noexcept {}
};
static_assert(!gpu::batch_sorter<lacks_segments>);

struct lacks_buckets : archetype {
  void bucket() const noexcept {}
};
static_assert(!gpu::batch_sorter<lacks_buckets>);

struct admit_changes_itself : archetype {
  status admit(in, in, in, in, out, gpu::workspace) noexcept { return {}; }
};
static_assert(!gpu::batch_sorter<admit_changes_itself>);

}  // namespace
