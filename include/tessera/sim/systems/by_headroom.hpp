// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/owned_storage.hpp>
#include <tessera/fleet/headroom_book.hpp>
#include <tessera/placement/migrate_when_tight.hpp>
#include <tessera/sim/cluster/cluster.hpp>
#include <tessera/sim/cluster/compare_views.hpp>
#include <tessera/sim/cluster/placed.hpp>
#include <tessera/sim/systems/disaggregated.hpp>
#include <tessera/sim/traffic/learned_lengths.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// The step times of a cluster's instances, as `fleet::headroom_book` asks for them.
struct instance_speed {
  const cluster_options* options = nullptr;  ///< Must outlive it.
  bool all_alike = true;                     ///< Whether steps take as long on all instances.

  /// The speed of the instances of a cluster. O(instances).
  [[nodiscard]] static instance_speed of(const cluster_options& o) {
    step_shape decode, prompt;
    decode.add_decode(tokens{1000});
    prompt.add_prefill(tokens{}, tokens{1000});
    const auto speed = [&](std::size_t i) { return std::pair{o.of(i).timer(decode), o.of(i).timer(prompt)}; };
    instance_speed all{.options = &o};
    for (std::size_t i = 0; i != o.instances; ++i) all.all_alike = all.all_alike && speed(i) == speed(0);
    return all;
  }
  /// Seconds of a step.
  [[nodiscard]] double step_s(fleet::replica_id i, std::int64_t decodes, std::int64_t context,
                              std::int64_t longest) const noexcept {
    step_shape s;
    s.longest_context = longest;
    s.decodes = decodes;
    s.decode_context = context;
    return options->of(i).timer(s);
  }
  /// Most requests of a step.
  [[nodiscard]] std::size_t places(fleet::replica_id i) const noexcept {
    return std::min(options->of(i).step.max_batch, options->of(i).limits.residents);
  }
  /// Whether they are alike.
  [[nodiscard]] bool alike() const noexcept { return all_alike; }
};

/// A new request goes to the instance with the most headroom by expected lengths: `fleet::headroom_book`. Requests that
/// begin to answer stay, unless memory is tight. O(instances) a request, and O(instances log blocks) where prefixes are
/// shared.
class by_headroom : public cluster_control {
 public:
  /// @param model what prompts cost, and the time to first token that is aimed at.
  explicit by_headroom(const prefill_model& model) : model_{model} {}

  /// Called once: before the first event, or when it takes over from another control, with the requests that are there.
  void starts(cluster& c) override {
    taken_ = std::make_shared<book>(c, model_);
    for (std::size_t i = 0; i != c.size(); ++i) {
      for (const request* r : c.at(i).requests()) {
        taken_->all.take(r->index, at(i), r->prompt, scored_length{}(*r), {}, r->prefills);
      }
    }
  }
  /// The instance that a request which has just arrived goes to.
  [[nodiscard]] std::size_t place(cluster& c, const request& r) override {
    const bool may_share = !r.prefix_hashes().empty();
    if (may_share) c.look_at_prefixes(r);
    const auto& instances = c.candidates(r);
    auto& all = taken_->all;
    const std::size_t k = all.choose(instances, r.prompt, scored_length{}(r), may_share, c.asks(r));
    const instance_view& chosen = instances[k];
    if (c.asks(r)) say_why(c, r, instances);
    all.take(r.index, at(chosen.id), r.prompt, scored_length{}(r), all.is_cached() ? chosen.cached_tokens : tokens{});
    return chosen.id;
  }
  /// `r` has its first token.
  void prefilled(cluster& /*c*/, request& r) override { taken_->all.has_token(r.index); }
  /// A request begins to answer: it may move.
  void answers(cluster& c, request& r) override {
    prefilled(c, r);  // a moved request gets no such call
    migration_.answers(c, r);
  }
  /// `r` has arrived with its KV.
  void moved(cluster& /*c*/, request& r) override { taken_->all.moved(r.index, at(r.where)); }
  /// `r` was refused.
  void rejected(cluster& c, request& r) override { finished(c, r); }
  /// The instance of `r` has died.
  void lost(cluster& c, request& r) override { finished(c, r); }
  /// `r` has ended.
  void finished(cluster& /*c*/, request& r) override { taken_->all.leave(r.index); }

 private:
  using headroom_book = fleet::headroom_book<instance_speed>;
  struct book {
    owned_storage<headroom_book::limits> memory;
    headroom_book all;

    book(cluster& c, const prefill_model& model)
        : memory{storage_for<headroom_book>({.replicas = c.size(), .requests = c.requests().size()})},
          all{memory,
              {.cost = model.cost, .budget = model.budget, .block_size = c.options().instance.limits.block_size},
              instance_speed::of(c.options())} {}
  };

  [[nodiscard]] static fleet::replica_id at(std::size_t i) noexcept { return static_cast<fleet::replica_id>(i); }

  void say_why(cluster& c, const request& r, const std::vector<instance_view>& instances) const {
    const auto& all = taken_->all;
    if (all.is_cached()) {
      return c.because("the least queue + uncached prompt * (requests + 1), in work; part of the prompt is cached",
                       sim::compare_views(instances, {.prefixes = true}));
    }
    comparison seen{.columns = {"requests", "Phi_T", "Phi_S", "adds, s"}};
    for (std::size_t i = 0; i != instances.size(); ++i) {
      const instance_view& v = instances[i];
      seen.rows.push_back(
          {v.id,
           {},
           {static_cast<double>(v.requests), all.time_phi(v), all.space_phi(v), all.last()[i].prefill_backlog}});
    }
    c.because(
        fmt::format("{}; {} tokens are expected of it",
                    all.is_among_equals()
                        ? "the least added latency, its own and the others', by queued prompts and decoding: several "
                          "have equal headroom, the smaller of Phi_T and Phi_S"
                        : "the most headroom, the smaller of Phi_T and Phi_S",
                    scored_length{}(r).count()),
        std::move(seen));
  }

  prefill_model model_;
  placed<placement::least_load, placement::migrate_when_tight> migration_{{}, {.headroom = quantum_blocks}};
  std::shared_ptr<book> taken_{};  // None before it starts.
};

/// New requests to the instance with the least load instead, and those that begin to answer likewise.
[[nodiscard]] inline auto by_least_load() {
  return placed<placement::least_load, placement::migrate_when_tight>{{}, {.headroom = quantum_blocks}};
}

}  // namespace sim
TESSERA_NAMESPACE_END
