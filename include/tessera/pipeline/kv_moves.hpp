// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/storage.hpp>
#include <tessera/pipeline/limits.hpp>
#include <tessera/pipeline/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// The effects of one plan on KV outside its kernels: copies and evictions. The plan's spans point here, so it stays
/// unchanged until the plan is settled.
template <class Request>
struct kv_moves {
  /// Copies of blocks for forks, and lists of blocks to fetch: one per request and group of layers.
  template <class Limits>
  [[nodiscard]] static constexpr std::size_t of_groups(const Limits& l) noexcept {
    if constexpr (requires { l.used; }) {
      return l.residents * l.used;
    } else {
      return l.residents;
    }
  }
  template <class Limits>
  [[nodiscard]] static constexpr std::size_t required_bytes(const Limits& l) noexcept {
    return storage_layout{}
        .add_bytes(fixed_vector<kv_transfer<Request>>::required_bytes(l.residents) * 2)
        .add_bytes(fixed_vector<kv_fetch<Request>>::required_bytes(of_groups(l)))
        .add_bytes(fixed_vector<preemption<Request>>::required_bytes(l.residents))
        .add_bytes(fixed_vector<kv::block_copy>::required_bytes(of_groups(l)))
        .add_bytes(fixed_vector<kv_demotion>::required_bytes(l.host_blocks))
        .add_bytes(fixed_vector<std::span<const kv::block_id>>::required_bytes(l.residents))
        .add_bytes(fixed_vector<kv::block_id>::required_bytes(2 * l.host_blocks))
        .add_bytes(fixed_vector<std::uint32_t>::required_bytes(l.rows()))
        .bytes();
  }
  template <class Limits>
  kv_moves(arena& memory, const Limits& l) noexcept
      : swap_out{memory, l.residents},
        swap_in{memory, l.residents},
        fetch{memory, of_groups(l)},
        victims{memory, l.residents},
        copies{memory, of_groups(l)},
        demoted{memory, l.host_blocks},
        loads{memory, l.residents},
        host_ids{memory, 2 * l.host_blocks},
        left_rows{memory, l.rows()} {}

  void clear() noexcept {
    swap_out.clear();
    swap_in.clear();
    fetch.clear();
    victims.clear();
    copies.clear();
    demoted.clear();
    loads.clear();
    loaded_blocks = 0;
    found_on_host = 0;
    host_ids.clear();
    left_rows.clear();
  }

  fixed_vector<kv_transfer<Request>> swap_out;
  fixed_vector<kv_transfer<Request>> swap_in;
  fixed_vector<kv_fetch<Request>> fetch;
  fixed_vector<preemption<Request>> victims;
  fixed_vector<kv::block_copy> copies;
  fixed_vector<kv_demotion> demoted;
  fixed_vector<std::span<const kv::block_id>> loads;  ///< Host blocks of transfers for requests that were never swapped
                                                      ///< out.
  std::size_t loaded_blocks = 0;                      ///< Their number: at most the host's blocks.
  std::size_t found_on_host = 0;                      ///< The number of these for requests that start and compute.
  fixed_vector<kv::block_id> host_ids;                ///< Host blocks of all transfers.
  fixed_vector<std::uint32_t> left_rows;  ///< Rows of evicted requests, which own no blocks any more: the spans lie in
                                          ///< them.
};

}  // namespace detail
TESSERA_NAMESPACE_END
