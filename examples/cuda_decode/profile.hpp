// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "loop.hpp"
#include "made_up_batch.hpp"
#include "null_decoder.hpp"

#include <tessera/sim/model/profile_file.hpp>
#include <tessera/sim/model/step_file.hpp>
#include <tessera/sim/model/step_time.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// @file
/// Measures the decoder: as a profile that the simulator reads, and as numbers that say how near to the device's limits
/// it is.
///
/// Steps are measured as the loop runs them, on the host's clock from the batch to the tokens. What the loop adds
/// (plan, commit, bookkeeping) is measured apart, on a decoder that does nothing, and added. Batches are made up. Rows
/// may have blocks in common, so that the grid need not fit in memory. Reading the same block for several rows takes as
/// long as reading different ones, if the pool is much larger than the device's caches.

namespace cuda_decode {

/// What is measured.
struct profile_options {
  std::string name = "measured";
  decoder_options decoder;  ///< What the decoder was made of.
  loop_options loop;        ///< Its limits are the decoder's.
  bool quick = false;       ///< Fewer points, each measured less often.
};

/// What came of it.
struct profile_result {
  sim::profile profile;
  nlohmann::ordered_json numbers;  ///< All that was measured, and which bars hold.
  std::string table;               ///< The same for people.
  std::string steps;               ///< The whole steps among them as CSV, which `calibrate` reads.
};

namespace detail {

[[nodiscard]] inline double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

/// 1, 2, 4, ... and `most` itself.
[[nodiscard]] inline std::vector<std::int64_t> powers_up_to(std::int64_t first, std::int64_t factor,
                                                            std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t n = first; n < most; n *= factor) all.push_back(n);
  all.push_back(most);
  return all;
}

[[nodiscard]] inline std::string_view name_of(split_policy p) {
  return p == split_policy::balanced ? "balanced" : "uniform";
}

}  // namespace detail

/// What was measured on what.
[[nodiscard]] inline nlohmann::ordered_json to_json(const decoder_facts& f, const decoder_options& o) {
  return {{"device", f.device},
          {"emulated", f.emulated},
          {"multiprocessors", f.multiprocessors},
          {"memory_bytes", f.memory_bytes},
          {"shape", o.shape.name},
          {"parameters", o.shape.parameters()},
          {"kv_bytes_per_token", o.shape.kv_bytes_per_token()},
          {"kv_blocks", f.kv_blocks},
          {"host_blocks", f.host_blocks},
          {"block_size", o.block_size},
          {"max_batch", o.max_rows},
          {"token_budget", o.max_tokens},
          {"max_context", o.max_context},
          {"graphs", o.graphs},
          {"split", detail::name_of(o.split)}};
}

/// Measures `d`. Takes a minute or two on a GPU. @throws device_error; sim::usage_error where nothing can be measured.
class profiler {
 public:
  profiler(decoder& d, profile_options o)
      : decoder_{&d},
        options_{std::move(o)},
        facts_{d.facts()},
        shape_{options_.decoder.shape},
        make_{shape_, options_.decoder.block_size, facts_.kv_blocks},
        rows_{static_cast<std::int64_t>(options_.decoder.max_rows)},
        longest_{static_cast<std::int64_t>(options_.decoder.max_context)},
        budget_{options_.loop.step.token_budget.count()} {
    if (longest_ < 32) throw sim::usage_error{"to be measured, a decoder must take contexts of at least 32 tokens"};
  }

  [[nodiscard]] profile_result run() {
    numbers_["decoder"] = to_json(facts_, options_.decoder);
    copy_bandwidth();
    attention();
    decode();
    prefill();
    mixed();
    mixed_lengths();
    swap();
    real_loop();
    fill_profile();
    check_mixed_step();
    numbers_["bars"] = bars_;
    numbers_["profile"] = nlohmann::ordered_json::parse(sim::to_json(profile_));
    return {profile_, std::move(numbers_), std::move(table_), std::move(steps_)};
  }

 private:
  using json = nlohmann::ordered_json;

  // -- how things are measured -------------------------------------------------------------------------------------

  [[nodiscard]] double now() const { return options_.loop.clock.now(); }

  struct timing {
    double seconds = 0;  ///< Median of the seconds of a step, on the host's clock.
    step_times parts;    ///< Parts of the last step.
  };
  [[nodiscard]] timing time_step(const step_batch& b) {
    decoder_->step(b);
    std::vector<double> seconds;
    timing t;
    const double started = now();
    const auto enough = [&] {
      const std::size_t n = seconds.size();
      if (facts_.emulated) return n == 3;
      return n == (options_.quick ? 5U : 15U) || (n >= 5 && now() - started > 0.5);
    };
    while (!enough()) {
      const double before = now();
      t.parts = decoder_->step(b).times;
      seconds.push_back(now() - before);
    }
    t.seconds = detail::median(std::move(seconds));
    return t;
  }

  /// What the loop adds to a decode step of `batch` rows.
  [[nodiscard]] double loop_seconds(std::int64_t batch) {
    const auto n = static_cast<std::size_t>(batch);
    loop_options o = options_.loop;
    constexpr std::int64_t output = 24;
    const std::int64_t prompt = std::clamp<std::int64_t>(longest_ - output, 1, 512);
    o.limits.residents = std::max(o.limits.residents, n);
    o.limits.max_length = tokens{prompt + output};
    o.limits.blocks =
        2 * n * static_cast<std::size_t>(blocks_for(o.limits.max_length, o.limits.block_size).count()) + 8;
    null_decoder nothing{o.limits.residents};
    std::list<served> requests;  // they outlive the loop, whatever is thrown
    const std::unique_ptr<loop> l = compositions().front().make(nothing, o);
    start_alike(*l, requests, n, prompt, output);
    std::vector<double> seconds;
    while (!l->idle()) {
      const double before = now();
      const std::uint64_t computed = l->computed_tokens();
      l->step();
      if (l->computed_tokens() - computed == n) seconds.push_back(now() - before);
    }
    return seconds.empty() ? 0 : detail::median(std::move(seconds));
  }

  void start_alike(loop& l, std::list<served>& requests, std::size_t n, std::int64_t prompt, std::int64_t output) {
    sim::random_engine rng{1};
    for (std::size_t i = 0; i < n; ++i) {
      served& r = requests.emplace_back();
      fill_prompt(r.sequence, static_cast<std::size_t>(prompt), shape_.vocabulary, rng);
      r.output = r.max_output = tokens{output};
      if (!ok(l.submit(r, now()))) throw sim::usage_error{"too few KV blocks to be measured"};
    }
  }

  /// Seconds in which a decode step's bytes can be read: every weight once, and the KV of the contexts.
  [[nodiscard]] double floor_seconds(std::int64_t batch, std::int64_t context) const {
    return (read_weight_bytes() + static_cast<double>(batch * context * shape_.kv_bytes_per_token())) / copy_;
  }
  /// Only some rows of the embedding are read, unless it is the head as well.
  [[nodiscard]] double read_weight_bytes() const {
    const std::int64_t unread =
        shape_.tied_embeddings ? 0 : std::int64_t{shape_.vocabulary} * std::int64_t{shape_.hidden};
    return 2.0 * static_cast<double>(shape_.parameters() - unread);
  }
  [[nodiscard]] double attention_bytes_per_s(std::int64_t tokens_read, double seconds) const {
    return static_cast<double>(tokens_read * shape_.kv_bytes_per_token() / shape_.layers) / seconds;
  }

  void bar(std::string_view name, double value, std::string_view relation, double limit, bool holds) {
    bars_.push_back(
        {{"bar", name}, {"value", value}, {"limit", fmt::format("{} {}", relation, limit)}, {"holds", holds}});
    say("{:<62} {:>8.4g}   {} {:<5} {}", name, value, relation, limit, holds ? "holds" : "does not hold");
  }
  template <class... A>
  void say(fmt::format_string<A...> text, A&&... values) {
    table_ += fmt::format(text, std::forward<A>(values)...) + "\n";
  }

  // -- what is measured --------------------------------------------------------------------------------------------

  void copy_bandwidth() {
    copy_ = decoder_->copy_bandwidth();
    numbers_["copy_bytes_per_s"] = copy_;
    say("copy: {:.4g} bytes per second", copy_);
  }

  void attention() {
    json all = json::array();
    say("\nattention, one layer: batch, context, us, bytes per second, part of a copy's; FlashInfer's us, if it is "
        "there");
    const std::int64_t context = std::min<std::int64_t>(2048, longest_);
    for (const std::int64_t batch : detail::powers_up_to(1, 16, rows_)) {
      const step_batch b = make_.decode(batch, context);
      const double seconds = decoder_->attention_seconds(b);
      attention_ = attention_bytes_per_s(batch * context, seconds);
      all.push_back({{"batch", batch},
                     {"context", context},
                     {"seconds", seconds},
                     {"bytes_per_s", attention_},
                     {"of_copy", attention_ / copy_}});
      const double theirs = decoder_->flashinfer_seconds(b);
      if (theirs > 0) all.back()["flashinfer_seconds"] = theirs;
      say("{:>6} {:>7} {:>9.2f} {:>10.4g} {:>7.3f}{}", batch, context, seconds * 1e6, attention_, attention_ / copy_,
          theirs > 0 ? fmt::format(" {:>9.2f}", theirs * 1e6) : "");
    }
    numbers_["attention"] = all;
    bar(fmt::format("attention of batch {}, {} tokens: part of copy bandwidth", rows_, context), attention_ / copy_,
        ">=", 0.8, attention_ >= 0.8 * copy_);
  }

  void decode() {
    const std::int64_t first = longest_ >= 1024 ? 256 : 16;
    std::vector<std::int64_t> contexts = detail::powers_up_to(first, options_.quick ? 8 : 4, longest_);
    const std::vector<std::int64_t> batches = detail::powers_up_to(1, options_.quick ? 4 : 2, rows_);
    const std::int64_t barred = std::min<std::int64_t>(2048, longest_);
    if (std::find(contexts.begin(), contexts.end(), barred) == contexts.end()) {
      contexts.insert(std::lower_bound(contexts.begin(), contexts.end(), barred), barred);
    }
    json all = json::array();
    say("\ndecode: batch, context, ms of the step, ms in the loop, of its bytes' floor");
    double over = 0;
    for (const std::int64_t batch : batches) {
      const double host = loop_seconds(batch);
      for (const std::int64_t context : contexts) {
        const timing t = time_step(make_.decode(batch, context));
        const double seconds = t.seconds + host;
        const double floor = floor_seconds(batch, context);
        profile_.measured.decode.push_back({batch, context, seconds});
        step({.kind = sim::step_kind::decode, .decodes = batch, .context = context, .seconds = seconds});
        all.push_back({{"batch", batch},
                       {"context", context},
                       {"seconds", seconds},
                       {"loop_seconds", host},
                       {"kernels", t.parts.kernels},
                       {"sort", t.parts.sort},
                       {"upload", t.parts.upload},
                       {"prepare", t.parts.host},
                       {"floor_seconds", floor},
                       {"over_floor", seconds / floor}});
        say("{:>6} {:>7} {:>9.4f} {:>9.4f} {:>7.3f}", batch, context, seconds * 1e3, host * 1e3, seconds / floor);
        if (batch == rows_ && context == barred) over = seconds / floor;
      }
    }
    numbers_["decode"] = all;
    bar(fmt::format("decode step of batch {}, {} tokens: times its bytes' floor", rows_, barred), over, "<=", 1.25,
        over <= 1.25);
  }

  void prefill() {
    const std::int64_t most = std::min(budget_, longest_);
    const double host = loop_seconds(1);
    json all = json::array();
    say("\nprefill: length, ms of the step, operations per second");
    std::vector<std::int64_t> lengths =
        detail::powers_up_to(std::min<std::int64_t>(16, most), options_.quick ? 8 : 2, most);
    // Matrix products come in tiles, and powers of two fill them: a little more than a tile takes another one.
    if (!options_.quick) {
      for (std::int64_t tile = 128; tile + 16 < most; tile *= 2) lengths.push_back(tile + 16);
      std::sort(lengths.begin(), lengths.end());
      lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
    }
    for (const std::int64_t length : lengths) {
      const double seconds = time_step(make_.prefill(0, length)).seconds + host;
      const double rate = 2 * static_cast<double>(shape_.parameters() * length) / seconds;
      profile_.measured.prefill.push_back({length, seconds});
      step({.kind = sim::step_kind::prefill, .prompts = 1, .tokens = length, .seconds = seconds});
      all.push_back({{"length", length}, {"seconds", seconds}, {"flops_per_s", rate}});
      say("{:>7} {:>9.4f} {:>10.4g}", length, seconds * 1e3, rate);
    }
    numbers_["prefill"] = all;
    // What a pair of a query and a context token takes: a chunk after others against one that is the first.
    const std::int64_t chunk = std::clamp<std::int64_t>(longest_ / 4, 1, std::min<std::int64_t>(2048, most));
    const std::int64_t before = std::min<std::int64_t>(8 * chunk, longest_ - chunk);
    const double alone = time_step(make_.prefill(0, chunk)).seconds;
    const double after = time_step(make_.prefill(before, chunk)).seconds;
    const double pairs = static_cast<double>(chunk) * static_cast<double>(before);
    const double least = 1e-3 * alone;  // what is less is noise
    pair_ = std::max(after - alone, least) / pairs;
    numbers_["prefill_after"] = {
        {"first", before}, {"count", chunk}, {"seconds", after}, {"fresh_seconds", alone}, {"seconds_per_pair", pair_}};
    say("{} tokens after {}: {:.4f} ms, alone {:.4f} ms", chunk, before, after * 1e3, alone * 1e3);
  }

  /// One long sequence among short ones against as many of one length with the same tokens in all. Also: the long ones
  /// of several batches in one batch. Also: a chunk of a prompt next to decodes, which `calibrate` asks for, as far as
  /// it fits.
  void mixed() {
    struct point {
      std::int64_t decodes, context, first, count;
    };
    json all = json::array();
    say("\nmixed: decodes, context, chunk, after, ms of the step");
    std::vector<point> done;
    for (point p :
         {point{32, 1024, 0, 512}, point{128, 1024, 0, 512}, point{32, 1024, 4096, 512}, point{8, 4096, 0, 1024}}) {
      p.decodes = std::min(p.decodes, std::min(rows_, budget_) - 1);
      p.context = std::min(p.context, longest_);
      if (p.decodes < 1) return;
      p.count = std::min({p.count, budget_ - p.decodes, longest_});
      p.first = std::min(p.first, longest_ - p.count);
      const auto same = [&](const point& o) {
        return o.decodes == p.decodes && o.context == p.context && o.first == p.first && o.count == p.count;
      };
      if (std::any_of(done.begin(), done.end(), same)) continue;
      done.push_back(p);
      const double seconds =
          time_step(make_.mixed(p.decodes, p.context, p.first, p.count)).seconds + loop_seconds(p.decodes + 1);
      step({.kind = sim::step_kind::mixed,
            .prompts = 1,
            .tokens = p.count,
            .history = p.first,
            .decodes = p.decodes,
            .context = p.context,
            .seconds = seconds});
      all.push_back({{"batch", p.decodes},
                     {"context", p.context},
                     {"prefill", p.count},
                     {"after", p.first},
                     {"seconds", seconds}});
      say("{:>6} {:>7} {:>7} {:>7} {:>9.4f}", p.decodes, p.context, p.count, p.first, seconds * 1e3);
    }
    numbers_["mixed"] = all;
  }

  void step(const sim::measured_step& s) { steps_ += sim::format_step(s); }

  void mixed_lengths() {
    json effect = json::array();
    json sorted = json::array();
    say("\none long among short ones: split, batch, long, short, ms mixed, ms alike, ratio; attention alone: ratio");
    double worst = 0;
    double recovered = 0;
    for (const split_policy p : {split_policy::balanced, split_policy::uniform}) {
      decoder_->split(p);
      const std::int64_t batch = std::min<std::int64_t>(64, rows_);
      for (const std::int64_t part : {8, 4, 1}) {
        const std::int64_t longest = longest_ / part;
        const std::int64_t shortest = std::max<std::int64_t>(longest_ / 64, 1);
        std::vector<std::int64_t> mixed(static_cast<std::size_t>(batch), shortest);
        mixed.front() = longest;
        const std::vector<std::int64_t> alike = even(mixed);
        const double mixed_s = time_step(make_.decode(mixed)).seconds;
        const double alike_s = time_step(make_.decode(alike)).seconds;
        const double mixed_attention = decoder_->attention_seconds(make_.decode(mixed));
        const double alike_attention = decoder_->attention_seconds(make_.decode(alike));
        effect.push_back({{"split", detail::name_of(p)},
                          {"batch", batch},
                          {"long", longest},
                          {"short", shortest},
                          {"mixed_seconds", mixed_s},
                          {"alike_seconds", alike_s},
                          {"ratio", mixed_s / alike_s},
                          {"mixed_attention_seconds", mixed_attention},
                          {"alike_attention_seconds", alike_attention},
                          {"attention_ratio", mixed_attention / alike_attention}});
        say("{:>9} {:>4} {:>6} {:>5} {:>9.4f} {:>9.4f} {:>6.3f} {:>6.3f}", detail::name_of(p), batch, longest, shortest,
            mixed_s * 1e3, alike_s * 1e3, mixed_s / alike_s, mixed_attention / alike_attention);
        if (p == split_policy::uniform) worst = std::max(worst, mixed_s / alike_s);
        if (p == options_.decoder.split && part == 1) {
          tail_seconds_ = mixed_s - alike_s;
          tail_part_ = mixed_s / alike_s - 1;
          tail_excess_ = static_cast<double>(longest - alike.back());
        }
      }
      // Several batches, a long one in each; or all long ones in one batch, and the short ones in as many others.
      const std::int64_t groups = std::min<std::int64_t>(8, rows_);
      if (groups < 2) continue;
      std::int64_t each = std::min<std::int64_t>(32, rows_);
      while ((groups * (each - 1) + groups - 2) / (groups - 1) > rows_) --each;
      const std::int64_t shortest = std::max<std::int64_t>(longest_ / 64, 1);
      std::vector<std::int64_t> mixed(static_cast<std::size_t>(each), shortest);
      mixed.front() = longest_;
      const double mixed_s = static_cast<double>(groups) * time_step(make_.decode(mixed)).seconds;
      double sorted_s = time_step(make_.decode(groups, longest_)).seconds;
      const std::int64_t all_short = groups * (each - 1);
      for (std::int64_t g = 0; g < groups - 1; ++g) {
        const std::int64_t n = all_short * (g + 1) / (groups - 1) - all_short * g / (groups - 1);
        if (n > 0) sorted_s += time_step(make_.decode(n, shortest)).seconds;
      }
      const double saved = 1 - sorted_s / mixed_s;
      if (p == split_policy::uniform) recovered = saved;
      sorted.push_back({{"split", detail::name_of(p)},
                        {"batches", groups},
                        {"rows", each},
                        {"long", longest_},
                        {"short", shortest},
                        {"mixed_seconds", mixed_s},
                        {"by_length_seconds", sorted_s},
                        {"saved", saved}});
      say("{:>9}: {} batches of {}, a long one in each, {:.4f} ms; batched by length {:.4f} ms, saves {:.1f} %",
          detail::name_of(p), groups, each, mixed_s * 1e3, sorted_s * 1e3, 100 * saved);
    }
    decoder_->split(options_.decoder.split);
    numbers_["mixed_lengths"] = effect;
    numbers_["by_length"] = sorted;
    bar("one long among short ones, uniform split: times as long", worst, ">=", 1.1, worst >= 1.1);
    bar("batching by length, uniform split: part of the time saved", recovered, ">=", 0, recovered >= 0);
  }

  [[nodiscard]] static std::vector<std::int64_t> even(const std::vector<std::int64_t>& lengths) {
    const std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    const auto n = static_cast<std::int64_t>(lengths.size());
    std::vector<std::int64_t> all(lengths.size(), total / n);
    for (std::int64_t i = 0; i < total % n; ++i) ++all[static_cast<std::size_t>(i)];
    return all;
  }

  void swap() {
    const std::size_t n = std::min({facts_.host_blocks, facts_.kv_blocks, std::size_t{256}});
    const double bytes =
        static_cast<double>(n) * options_.decoder.block_size * static_cast<double>(shape_.kv_bytes_per_token());
    if (n == 0) return;
    std::vector<block_copy> copies;
    for (std::size_t i = 0; i < n; ++i)
      copies.push_back({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i)});
    const std::vector<std::int32_t> nothing{0};
    const double out =
        time_step({.tokens = {}, .rows = {}, .indptr = nothing, .indices = {}, .swap_out = copies}).seconds;
    const double in =
        time_step({.tokens = {}, .rows = {}, .indptr = nothing, .indices = {}, .swap_out = {}, .swap_in = copies})
            .seconds;
    host_bytes_per_s_ = 2 * bytes / (out + in);
    numbers_["swap"] = {
        {"blocks", n}, {"bytes", bytes}, {"out_bytes_per_s", bytes / out}, {"in_bytes_per_s", bytes / in}};
    say("\nswap: {} blocks, out {:.4g}, in {:.4g} bytes per second", n, bytes / out, bytes / in);
  }

  /// A full batch under a real scheduler: what its part of a step is.
  void real_loop() {
    const auto batch = static_cast<std::size_t>(rows_);
    const auto block = static_cast<std::int64_t>(options_.decoder.block_size);
    const std::int64_t room = static_cast<std::int64_t>(facts_.kv_blocks) * 98 / 100 / rows_ * block;
    const std::int64_t steps = facts_.emulated ? 4 : 32;
    // So many tokens that all decode in the last of these steps, though the first began when their prompt was computed.
    const std::int64_t most = std::min<std::int64_t>({1024, room - block - 2 * steps, longest_ - 2 * steps});
    const std::int64_t beside = std::max<std::int64_t>(budget_ - rows_, 1);  // of a step with all the decodes
    const std::int64_t output = steps + 4 + (rows_ * std::max<std::int64_t>(most, 1) + beside - 1) / beside;
    const std::int64_t prompt = std::min<std::int64_t>({1024, room - block - output, longest_ - output});
    if (prompt < 1) return;
    std::list<served> requests;
    const std::unique_ptr<loop> l = compositions().front().make(*decoder_, options_.loop);
    start_alike(*l, requests, batch, prompt, output);
    const auto decodes = [&] {
      return std::all_of(requests.begin(), requests.end(), [](const served& r) { return r.generated() > tokens{}; });
    };
    while (!decodes() && l->step()) {
    }
    l->reset();
    const std::uint64_t before = l->computed_tokens();
    for (std::int64_t i = 0; i < steps && !l->idle(); ++i) l->step();
    const step_split& s = l->split();
    if (s.steps() == 0) return;
    const double mean = static_cast<double>(l->computed_tokens() - before) / static_cast<double>(s.steps());
    if (mean != static_cast<double>(rows_)) return say("\nloop: not measured, for want of blocks");
    double context = 0;
    for (const served& r : requests) context += static_cast<double>(r.sequence.size()) / static_cast<double>(batch);
    context -= static_cast<double>(steps) / 2;
    const double share = (s.total(step_part::scheduling) + s.total(step_part::upload)) / s.total(step_part::step);
    numbers_["loop"] = {{"batch", rows_}, {"context", context}, {"steps", s.steps()}, {"scheduling_and_upload", share}};
    for (std::size_t i = 0; i < step_parts; ++i) {
      numbers_["loop"][std::string{step_part_names[i]}] = s.mean(static_cast<step_part>(i));
    }
    say("\nloop: {} steps of batch {}, {:.4f} ms each; scheduling {:.4f}, upload {:.4f}, sorting {:.4f}, kernels "
        "{:.4f}",
        s.steps(), rows_, s.mean(step_part::step) * 1e3, s.mean(step_part::scheduling) * 1e3,
        s.mean(step_part::upload) * 1e3, s.mean(step_part::sorting) * 1e3, s.mean(step_part::kernels) * 1e3);
    bar(fmt::format("scheduling and upload, batch {}: part of a decode step", rows_), share, "<=", 0.01, share <= 0.01);
    for (served& r : requests) static_cast<void>(l->cancel(r));
  }

  void fill_profile() {
    sim::profile& p = profile_;
    p.name = options_.name;
    p.model = {.name = shape_.name,
               .parameters = static_cast<double>(shape_.parameters()),
               .layers = shape_.layers,
               .query_heads = shape_.query_heads,
               .kv_heads = shape_.kv_heads,
               .head_dim = shape_.head_dim,
               .bytes_per_weight = 2,
               .bytes_per_kv_value = 2};
    // Beside the tables, the simulator asks for the cost of attention's pairs in chunks that are not the first.
    const auto& longest = p.measured.prefill.back();
    const double products = 2 * p.model.parameters * static_cast<double>(longest.length) / longest.seconds;
    const double pairs = p.model.attention_flops_per_pair() / pair_;
    p.gpu.name = facts_.device;
    p.gpu.flops = std::max({products, pairs, 1.0});
    p.gpu.flops_efficiency = std::min(pairs / p.gpu.flops, 1.0);
    p.gpu.bytes_per_s = std::max({copy_, attention_, 1.0});
    p.gpu.bandwidth_efficiency = std::min(attention_ / p.gpu.bytes_per_s, 1.0);
    const double kv_tokens = static_cast<double>(facts_.kv_blocks) * options_.decoder.block_size;
    p.gpu.memory_bytes = p.model.weight_bytes() + kv_tokens * p.model.kv_bytes_per_token();
    p.gpu.usable_memory = 1;
    p.gpu.launch_seconds = 0;  // in the tables
    p.links.host_bytes_per_s = std::max(host_bytes_per_s_, 1.0);
    p.links.host_memory_bytes =
        static_cast<double>(facts_.host_blocks) * options_.decoder.block_size * p.model.kv_bytes_per_token();
    p.links.fabric_bytes_per_s = p.links.host_bytes_per_s;  // there is no other instance
    // The tail of a long sequence, where there is one: solved for the splits.
    if (tail_part_ > 0.02 && facts_.multiprocessors > 1) {
      const double m = facts_.multiprocessors;
      const double kv_token = p.model.kv_bytes_per_token() / (p.gpu.bytes_per_s * p.gpu.bandwidth_efficiency);
      const double splits = kv_token * tail_excess_ * (m - 1) / (static_cast<double>(shape_.kv_heads) * tail_seconds_);
      p.attention = {.multiprocessors = facts_.multiprocessors, .splits = std::clamp(splits, 1.0, 1e5)};
    }
    // It must be what others can read.
    profile_ = sim::parse_profile(sim::to_json(p), "the measured profile");
  }

  /// How well the profile tells the time of a step that it was not measured on.
  void check_mixed_step() {
    const std::int64_t batch = std::max<std::int64_t>(rows_ / 4, 1);
    const std::int64_t context = std::max<std::int64_t>(longest_ / 8, 2);
    const std::int64_t chunk = std::min<std::int64_t>({512, budget_ - batch, longest_});
    if (chunk < 1 || batch == rows_) return;
    const double seconds = time_step(make_.mixed(batch, context, 0, chunk)).seconds + loop_seconds(batch);
    sim::step_shape shape;
    for (std::int64_t i = 0; i < batch; ++i) shape.add_decode(tokens{context});
    shape.add_prefill(tokens{}, tokens{chunk});
    const double predicted = sim::step_timer{profile_}(shape);
    numbers_["mixed_step"] = {{"batch", batch},     {"context", context},     {"prefill", chunk},
                              {"seconds", seconds}, {"predicted", predicted}, {"error", predicted / seconds - 1}};
    say("a step of {} decodes at {} and a prompt of {}: {:.4f} ms, the profile says {:.4f}", batch, context, chunk,
        seconds * 1e3, predicted * 1e3);
  }

  decoder* decoder_;
  profile_options options_;
  decoder_facts facts_;
  model_shape shape_;
  made_up_batch make_;
  std::int64_t rows_;
  std::int64_t longest_;
  std::int64_t budget_;

  double copy_ = 0;
  double attention_ = 0;  ///< Bytes per second that attention reads, full batch.
  double pair_ = 0;       ///< Seconds.
  double host_bytes_per_s_ = 0;
  double tail_seconds_ = 0;
  double tail_part_ = 0;
  double tail_excess_ = 0;
  sim::profile profile_;
  json numbers_;
  json bars_ = json::array();
  std::string table_;
  std::string steps_{sim::step_file_header};
};

}  // namespace cuda_decode
