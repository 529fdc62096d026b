// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/kv/groups.hpp>
#include <tessera/kv/table_view.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

TESSERA_NAMESPACE_BEGIN
namespace kv {

namespace detail {

template <class Tables>
struct sliding_tables {
  using type = Tables;
};
template <class Tables>
  requires requires { typename Tables::sliding; }
struct sliding_tables<Tables> {
  using type = typename Tables::sliding;
};

}  // namespace detail

/// A group's block tables of one batch.
/// @tparam View the form for the group's kernels. `csr_view`: an entry begins with its row's `first_block`. `row_view`:
/// entries before that are unspecified. Or changes alone.
template <class View>
struct group_view {
  View tables{};                               ///< The rows.
  std::span<const std::uint32_t> first_block;  ///< [entries]; the first block of each row that it still holds.
  std::span<const std::uint32_t> new_blocks;   ///< [entries]; the number of blocks at the end of each row that have not
                                               ///< been shown yet.
};

/// Shows the rows of a batch to an engine with different kinds of layers: for each group its tables, in the form of
/// `Tables`. A `table_policy` over `groups` instead of one `block_table`.
/// @tparam Groups number of groups, at most. The tables of groups that a model lacks are empty.
/// @tparam Tables a `table_policy` for each group's tables.
template <std::size_t Groups, table_policy Tables>
class group_tables {
  using shown = typename detail::sliding_tables<Tables>::type;

 public:
  using limits = std::array<block_table::limits, Groups>;                       ///< The limits of each group's table.
  using view_type = std::array<group_view<typename shown::view_type>, Groups>;  ///< The view of a plan.

  /// Bytes that an object with these limits takes from its arena.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    storage_layout all;
    for (const block_table::limits& t : l) {
      all.add_bytes(shown::required_bytes(t))
          .add_bytes(fixed_vector<std::uint32_t>::required_bytes(t.rows))
          .add_bytes(fixed_vector<std::uint32_t>::required_bytes(t.rows));
    }
    return all.add_bytes(fixed_vector<entry>::required_bytes(l[0].rows)).bytes();
  }
  /// The batch is empty. O(rows).
  group_tables(arena& memory, const limits& l) noexcept : group_tables{memory, l, std::make_index_sequence<Groups>{}} {}
  group_tables(const group_tables&) = delete;
  group_tables& operator=(const group_tables&) = delete;

  /// Starts the next step's batch. O(Groups).
  void begin() noexcept {
    for (of_group& g : group_) {
      g.tables.begin();
      g.first_block.clear();
      g.new_blocks.clear();
    }
    entries_.clear();
  }
  /// Appends an entry with `kv_length` tokens of KV. As the policy's. O(1).
  template <class KV>
  void add(KV& /*kv*/, std::uint32_t row, tokens kv_length, std::size_t new_blocks) noexcept {
    entries_.push_back({row, new_blocks != 0, kv_length});
  }
  /// The batch. Valid until `begin`. As the policy's, for each group.
  template <class KV>
  [[nodiscard]] view_type view(KV& kv) noexcept {
    view_type all{};
    for (std::size_t g = 0; g != kv.count(); ++g) {
      if (group_[g].first_block.empty()) add_to(g, kv);
      all[g] = {group_[g].tables.view(kv.table(g)), group_[g].first_block, group_[g].new_blocks};
    }
    return all;
  }

 private:
  struct of_group {
    of_group(arena& memory, const block_table::limits& l) noexcept
        : tables{memory, l}, first_block{memory, l.rows}, new_blocks{memory, l.rows} {}
    shown tables;
    fixed_vector<std::uint32_t> first_block;
    fixed_vector<std::uint32_t> new_blocks;
  };
  struct entry {
    std::uint32_t row;
    bool has_new;  // in some group
    tokens kv_length;
  };

  /// Adds the batch's entries group by group, so that few arrays are written to at a time.
  template <class KV>
  void add_to(std::size_t g, KV& kv) noexcept {
    of_group& to = group_[g];
    block_table& table = kv.table(g);
    std::uint32_t* const first_block = to.first_block.extend(entries_.size());
    std::uint32_t* const new_blocks = to.new_blocks.extend(entries_.size());
    for (std::size_t i = 0; i != entries_.size(); ++i) {
      const entry& e = entries_[i];
      const std::size_t more = e.has_new ? table.size(e.row) - table.sent(e.row) : 0;
      const std::size_t first = kv.first_block(g, e.row);
      if constexpr (requires { to.tables.add(table, e.row, e.kv_length, more, first); }) {
        to.tables.add(table, e.row, e.kv_length, more, first);
      } else {
        to.tables.add(table, e.row, e.kv_length, more);
      }
      first_block[i] = static_cast<std::uint32_t>(first);
      new_blocks[i] = static_cast<std::uint32_t>(more);
    }
  }

  template <std::size_t... G>
  group_tables(arena& memory, const limits& l, std::index_sequence<G...> /*all*/) noexcept
      : group_{{{memory, l[G]}...}}, entries_{memory, l[0].rows} {}

  std::array<of_group, Groups> group_;
  fixed_vector<entry> entries_;
};

}  // namespace kv
TESSERA_NAMESPACE_END
