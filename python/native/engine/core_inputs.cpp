// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "core.hpp"
#include "objects.hpp"

#include <tessera/kv/hash_chain.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

/// @file
/// What is in a request's prompt: the names of its blocks, and its images.

namespace tessera_python {

/// How the tokens are hashed by which blocks are found, for all sizes of blocks at once.
void core::note_sizes() {
  for (const ts::tokens n : settings_.block_sizes) link_ = std::gcd(link_, static_cast<std::size_t>(n.count()));
  for (const ts::tokens n : settings_.block_sizes) {
    const std::size_t size = static_cast<std::size_t>(n.count()) / link_;
    const auto known = std::find(sizes_.begin(), sizes_.end(), size);
    size_of_group_.push_back(static_cast<std::size_t>(known - sizes_.begin()));
    if (known == sizes_.end()) sizes_.push_back(size);
  }
}

/// Names the full blocks of its prompt, the first of a list of `tokens`. Throws if one of them is no number.
void core::hash_prompt(request& r, nb::handle tokens, std::uint64_t salt) {
  r.chain = salt == 0 ? root_ : ts::kv::hash_root(root_ ^ salt);
  const std::size_t named = link_ + hash_lookahead_;
  for (std::int64_t i = 0; i != r.prompt.count(); ++i) {
    r.recent.push_back(static_cast<std::int32_t>(value_of(NB_LIST_GET_ITEM(tokens.ptr(), i))));
    if (r.recent.size() != named) continue;
    close_link(r);
    r.recent.erase(r.recent.begin(), r.recent.end() - static_cast<std::ptrdiff_t>(hash_lookahead_));
  }
  r.till_full = static_cast<std::uint32_t>(named - r.recent.size());
}

/// The latest tokens fill a link of the chain of hashes. Where a block ends with it, all that the block's name in the
/// prefix cache covers is known. A drafter may read the token behind its own: its KV depends on the first token behind
/// the block, too. A request that goes on with another token must not find it.
void core::close_link(request& r) {
  const std::size_t n = link_;
  const std::span<const std::int32_t> latest = std::span{r.recent}.last(n + hash_lookahead_);
  const auto begin = static_cast<std::int64_t>(r.links++ * n);
  const auto end = begin + static_cast<std::int64_t>(n);
  const auto has_passed = [begin](const ts::gate::encoder_input& i) { return (i.first + i.length).count() <= begin; };
  while (r.passed != r.inputs.size() && has_passed(r.inputs[r.passed])) ++r.passed;
  r.chain = with_inputs(r, ts::kv::hash_block(r.chain, latest.first(n)), begin, end);
  std::uint64_t name = r.chain;
  if (hash_lookahead_ != 0) {
    name = ts::kv::hash_block(name, latest.last(hash_lookahead_));
    name = with_inputs(r, name, end, end + static_cast<std::int64_t>(hash_lookahead_));
  }
  for (std::size_t i = 0; i != sizes_.size(); ++i) {
    if (r.links % sizes_[i] != 0) continue;
    r.hashes[i].push_back(name);
    if (settings_.tells) filled_by_.emplace(name, r.slot);
  }
  r.till_full = static_cast<std::uint32_t>(n);
}

/// The same tokens stand for different images: a hash of tokens, with the images in them and their places. Images
/// before the link that `close_link` is at are passed over.
std::uint64_t core::with_inputs(const request& r, std::uint64_t hash, std::int64_t begin, std::int64_t end) {
  for (const ts::gate::encoder_input& input : std::span{r.inputs}.subspan(r.passed)) {
    const std::int64_t first = input.first.count();
    if (first >= end) break;
    if (first + input.length.count() <= begin) continue;
    const std::array<std::int32_t, 3> mixed{static_cast<std::int32_t>(input.hash),
                                            static_cast<std::int32_t>(input.hash >> 32U),
                                            static_cast<std::int32_t>(first - begin)};
    hash = ts::kv::hash_block(hash, mixed);
  }
  return hash;
}

/// The images of its prompt. Throws if one is not in it.
void core::take_inputs(request& r, const std::vector<input>& inputs) {
  r.inputs.clear();
  r.passed = 0;
  for (const auto& [hash, size, first, length] : inputs) {
    r.inputs.push_back({hash, ts::tokens{size}, ts::tokens{first}, ts::tokens{length}});
    if (size < 0 || first < 0 || length < 0 || first > r.prompt.count() - length) {
      throw nb::value_error("an input in no prompt");
    }
  }
}

nb::tuple core::encodes() {
  nb::dict by_id;
  nb::list dropped;
  encoder_outputs* const outputs = planner_->encoder();
  if (outputs == nullptr || !open_) return nb::make_tuple(by_id, dropped);
  for (const std::uint64_t hash : outputs->dropped()) dropped.append(hash);
  for (std::size_t i = 0; outputs->encoded != 0 && i != plan_.size(); ++i) {
    const request& r = *plan_[i].request;
    nb::list mine;
    for (std::size_t k = 0; k != r.inputs.size(); ++k) {
      if (outputs->encodes(r.inputs[k])) mine.append(k);
    }
    if (mine.size() != 0) by_id[nb::handle(r.id)] = mine;
  }
  return nb::make_tuple(by_id, dropped);
}

void core::forget_outputs() {
  if (encoder_outputs* const outputs = planner_->encoder(); outputs != nullptr) outputs->forget();
}

}  // namespace tessera_python
