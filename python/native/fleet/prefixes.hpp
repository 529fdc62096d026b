// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "checks.hpp"

#include <tessera/kv/hash_chain.hpp>
#include <tessera/sim/cluster/prefix_keys.hpp>

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

/// @file
/// Which replicas have which beginnings of prompts.

namespace tessera_python {

/// Which replicas have which beginnings of prompts, from their KV events. Engines name blocks by hashes of their own.
/// Here a block is named by its tokens and those before it, so that any engine's events and any prompt meet.
class prefixes {
 public:
  prefixes(std::int64_t block_size, std::int64_t replicas)
      : block_size_{static_cast<std::size_t>(whole(block_size, "block_size", 1, 1 << 20))},
        engines_(static_cast<std::size_t>(whole(replicas, "replicas", 1, 1 << 20))),
        keys_{engines_.size()} {}

  void stored(std::int64_t replica, const nb::sequence& names, nb::handle parent,
              const std::vector<std::int32_t>& tokens) {
    engine& e = of(replica);
    if (tokens.size() != nb::len(names) * block_size_) refuse("an event has the tokens of its blocks");
    std::uint64_t chain = ts::kv::hash_root();
    if (!parent.is_none()) {
      const auto known = e.named.find(name_of(parent));
      if (known == e.named.end()) return;  // what it follows is not known any more: it cannot be found either
      chain = known->second;
    }
    for (std::size_t i = 0; i != nb::len(names); ++i) {
      chain = ts::kv::hash_block(chain, std::span{tokens}.subspan(i * block_size_, block_size_));
      const auto [at, is_new] = e.named.emplace(name_of(names[i]), chain);
      if (is_new) ++e.has[chain];
    }
  }
  void removed(std::int64_t replica, const nb::sequence& names) {
    engine& e = of(replica);
    for (const nb::handle name : names) {
      const auto known = e.named.find(name_of(name));
      if (known == e.named.end()) continue;
      const auto has = e.has.find(known->second);
      if (--has->second == 0) e.has.erase(has);
      e.named.erase(known);
    }
  }
  void cleared(std::int64_t replica) { of(replica) = {}; }
  /// Leading tokens that each replica has: whole blocks.
  [[nodiscard]] ids match(const std::vector<std::int32_t>& prompt) const {
    ids out(engines_.size(), 0);
    std::vector<char> goes_on(engines_.size(), 1);
    std::size_t left = engines_.size();
    std::uint64_t chain = ts::kv::hash_root();
    for (std::size_t i = 0; left != 0 && i + block_size_ <= prompt.size(); i += block_size_) {
      chain = ts::kv::hash_block(chain, std::span{prompt}.subspan(i, block_size_));
      for (std::size_t k = 0; k != engines_.size(); ++k) {
        if (goes_on[k] == 0) continue;
        if (engines_[k].has.contains(chain)) {
          out[k] = static_cast<std::int64_t>(i + block_size_);
        } else {
          goes_on[k] = 0;
          --left;
        }
      }
    }
    return out;
  }
  /// The key of how a prompt begins, as the simulator's routers make it; `own` if it has no whole block.
  [[nodiscard]] std::uint64_t key(const std::vector<std::int32_t>& prompt, std::uint64_t own) {
    std::vector<std::uint64_t> chain;
    std::uint64_t last = ts::kv::hash_root();
    for (std::size_t i = 0; i + block_size_ <= prompt.size(); i += block_size_) {
      chain.push_back(last = ts::kv::hash_block(last, std::span{prompt}.subspan(i, block_size_)));
    }
    return keys_(chain, own);
  }
  [[nodiscard]] std::size_t size(std::int64_t replica) { return of(replica).named.size(); }

 private:
  struct engine {
    std::unordered_map<std::string, std::uint64_t> named;  // Its name of a block, and ours.
    std::unordered_map<std::uint64_t, std::uint32_t> has;  // How often.
  };
  engine& of(std::int64_t replica) {
    return engines_[static_cast<std::size_t>(
        whole(replica, "a replica's number", 0, static_cast<std::int64_t>(engines_.size()) - 1))];
  }
  /// Bytes, or an integer of 64 bits, signed or not.
  static std::string name_of(nb::handle name) {
    if (nb::isinstance<nb::bytes>(name)) {
      const auto b = nb::borrow<nb::bytes>(name);
      return 'b' + std::string{b.c_str(), b.size()};
    }
    if (nb::isinstance<nb::int_>(name)) return 'i' + std::string{nb::str(name).c_str()};
    refuse("a block's hash is bytes or an int");
  }

  std::size_t block_size_;
  std::vector<engine> engines_;
  ts::sim::prefix_keys keys_;
};

}  // namespace tessera_python
