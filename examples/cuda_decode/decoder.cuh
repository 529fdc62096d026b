// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <decoder.hpp>
#include <decoder_checks.cuh>
#include <device/device.hpp>
#include <kernels/argmax.cuh>
#include <kernels/attention.cuh>
#include <kernels/embed.cuh>
#include <kernels/flashinfer.cuh>
#include <kernels/random.cuh>
#include <kernels/rms_norm.cuh>
#include <kernels/rope.cuh>
#include <kernels/silu.cuh>
#include <step_work.cuh>
#include <weights.hpp>
#include <weights_on_device.cuh>

#include <unistd.h>
#include <tessera/gpu/sort_key.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

/// @file
/// The decoder: what a step enqueues, and all memory it needs, allocated once.

namespace cuda_decode {

/// The model on `device`.
class device_decoder final : public decoder {
 public:
  explicit device_decoder(const decoder_options& options)
      : options_{detail::checked(options)},
        shape_{options_.shape},
        layout_{shape_},
        kv_{make_kv_layout(shape_.layers, shape_.kv_heads, shape_.head_dim, options_.block_size)},
        device_{device::query()},
        blas_{main_},
        attention_{shape_.head_dim},
        launched_(options_.in_flight) {
    settings_.split = options_.split;
    settings_.group = shape_.query_heads / shape_.kv_heads;
    settings_.kv_heads = shape_.kv_heads;
    settings_.blocks = attention_.blocks();
    bounds_ = attention_bounds(settings_, options_.max_rows, options_.max_tokens, options_.max_context, most_partials);
    blocks_per_row_ = (options_.max_context + block_size() - 1) / block_size() + 1;
    allocate();
    options_.weights.empty() ? make_weights(main_, options_, layout_, weights_.data())
                             : load_weights(main_, options_, layout_, weights_.data());
    if (!device::emulated) fill_pages();
    const std::vector<float> frequencies = rope_frequencies(shape_);
    device::copy(main_, frequencies_.data(), frequencies.data(), frequencies.size() * sizeof(float));
    device::clear(main_, claims_.data(), claims_.size() * sizeof(std::int32_t));
    main_.synchronize();
  }

  [[nodiscard]] decoder_facts facts() const override {
    return {.device = device_.name,
            .multiprocessors = device_.multiprocessors,
            .memory_bytes = static_cast<double>(device_.memory_bytes),
            .kv_blocks = options_.kv_blocks,
            .host_blocks = options_.host_blocks,
            .emulated = device::emulated};
  }

  void launch(const step_batch& batch) override {
    try {
      enqueue(batch);
    } catch (...) {
      forget();
      throw;
    }
  }

  step_result wait() override {
    detail::require(in_flight_ != 0, "no step is in flight to wait for");
    launched& l = slot(oldest_);
    try {
      l.done.synchronize();
    } catch (...) {
      forget();
      throw;
    }
    ++oldest_;
    --in_flight_;
    sampled_rows_ = l.sampled;
    step_result result{.sampled = {l.tokens.data(), l.sampled}, .times = {}};
    if (l.swaps) result.times.swap = seconds_between(l.swap_begin, l.swap_end);
    if (!l.computes) return result;
    result.times.host = l.host;
    result.times.upload = seconds_between(l.begin, l.uploaded);
    result.times.sort = seconds_between(l.uploaded, l.sorted);
    result.times.kernels = seconds_between(l.start, l.end);
    return result;
  }

  [[nodiscard]] std::vector<float> logits(std::size_t i) override {
    detail::require(in_flight_ == 0, "logits while a step is in flight");
    detail::require(i < sampled_rows_, "logits of a row that did not sample in the last step");
    const auto n = static_cast<std::size_t>(shape_.vocabulary);
    std::vector<float> out(n);
    device::copy(main_, out.data(), logits_.data() + i * n, n * sizeof(float));
    main_.synchronize();
    return out;
  }

  [[nodiscard]] double copy_bandwidth() override {
    launched& l = idle();
    constexpr int runs = 5;
    constexpr int copies = 10;  // one after the other: the stream waits for the first alone to be submitted
    const std::size_t bytes = std::min<std::size_t>(std::size_t{256} << 20, device::query().free_bytes / 4);
    detail::require(facts().emulated || bytes >= std::size_t{128} << 20,
                    "too little memory is free to measure a copy that no cache holds");
    const device::buffer<std::byte> from{bytes};
    const device::buffer<std::byte> to{bytes};
    device::clear(main_, from.data(), bytes);
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i <= runs; ++i) {
      l.begin.record(main_);
      for (int k = 0; k != copies; ++k) device::copy(main_, to.data(), from.data(), bytes);
      l.end.record(main_);
      l.end.synchronize();
      if (i != 0) best = std::min(best, seconds_between(l.begin, l.end));  // the first ones warm up
    }
    return 2.0 * copies * static_cast<double>(bytes) / best;
  }

  [[nodiscard]] double attention_seconds(const step_batch& batch) override {
    launched& l = idle();
    check(batch);
    detail::require(!batch.rows.empty(), "attention of no rows");
    constexpr int runs = 20;
    const work w = prepare(batch, l);
    upload(w, l);
    sort(w);
    return attention_.seconds(main_, attention_arguments(w, 0), w.decodes, w.counts.merges != 0, runs);
  }

#ifdef CUDA_DECODE_FLASHINFER
  [[nodiscard]] double flashinfer_seconds(const step_batch& batch) override {
    return shape_.head_dim == 64 ? time_flashinfer<64>(batch) : time_flashinfer<128>(batch);
  }
#endif

  void split(split_policy p) override { settings_.split = p; }

  /// CUDA graphs made so far.
  [[nodiscard]] std::size_t captures() const noexcept { return captures_; }

 private:
  static constexpr std::size_t most_partials = 16384;

  [[nodiscard]] launched& slot(std::uint64_t step) noexcept { return launched_[step % launched_.size()]; }
  // The step before the next, whether it is in flight or was waited for.
  [[nodiscard]] launched& newest() noexcept { return slot(oldest_ + in_flight_ + launched_.size() - 1); }
  [[nodiscard]] const launched& newest() const noexcept {
    return launched_[(oldest_ + in_flight_ + launched_.size() - 1) % launched_.size()];
  }
  // A slot for what is measured.
  [[nodiscard]] launched& idle() {
    detail::require(in_flight_ == 0, "a measurement while a step is in flight");
    return slot(oldest_);
  }

  // Construction.

  [[nodiscard]] std::size_t block_size() const noexcept { return static_cast<std::size_t>(options_.block_size); }
  [[nodiscard]] std::size_t q_width() const noexcept {
    return static_cast<std::size_t>(shape_.query_heads) * static_cast<std::size_t>(shape_.head_dim);
  }
  [[nodiscard]] std::size_t qkv_width() const noexcept {
    return q_width() + 2 * static_cast<std::size_t>(shape_.kv_heads) * static_cast<std::size_t>(shape_.head_dim);
  }

  // Everything in one list, so that what is asked for is what was checked to fit.
  void allocate() {
    const auto hidden = static_cast<std::size_t>(shape_.hidden);
    const auto width = static_cast<std::size_t>(shape_.feed_forward);
    const auto heads = static_cast<std::size_t>(shape_.query_heads);
    const auto dim = static_cast<std::size_t>(shape_.head_dim);
    const std::size_t t = options_.max_tokens;
    const std::size_t s = options_.max_rows;
    const upload_layout most{t, s};
    const std::size_t upload_bytes =
        (most.items + bounds_.items * item_words + s * blocks_per_row_) * sizeof(std::int32_t) +
        bounds_.items * sizeof(std::uint64_t) + sizeof(std::uint64_t);

    device_ = device::query();  // without what streams and matrix products took
    double needed = 0;
    const auto all = [&](const auto& f) {
      f(weights_, layout_.size);
      f(residual_, t * hidden);
      f(normed_, t * hidden);
      f(delta_, t * hidden);
      f(qkv_, t * qkv_width());
      f(attended_, t * q_width());
      f(gate_up_, t * 2 * width);
      f(activated_, t * width);
      f(logits_, s * static_cast<std::size_t>(shape_.vocabulary));
      f(sampled_, s);
      f(frequencies_, dim / 2);
      f(upload_, upload_bytes);
      f(merges_, bounds_.merges);
      f(claims_, std::size_t{2});
      f(partial_out_, bounds_.partials * heads * dim);
      f(partial_sums_, bounds_.partials * heads);
      f(order_, bounds_.items);
      f(sort_space_, work_sorter::required_bytes(bounds_.items));
    };
    all([&](const auto& b, std::size_t n) { needed += static_cast<double>(n) * sizeof(*b.data()); });

    const double weights = static_cast<double>(layout_.size) * sizeof(bf16);
    const auto free = static_cast<double>(device_.free_bytes);
    const auto block = static_cast<double>(kv_.block_bytes());
    const std::string rest =
        detail::gigabytes(weights) + " of weights and " + detail::gigabytes(needed - weights) + " of activations";
    // What libraries and graphs take later.
    const double headroom = std::min(2e9, static_cast<double>(device_.memory_bytes) / 16);
    if (options_.kv_blocks == 0) {
      if (free - needed - headroom < block) {
        detail::refuse(rest + " leave no room for KV blocks: " + detail::gigabytes(free) + " are free");
      }
      options_.kv_blocks = static_cast<std::size_t>((free - needed - headroom) / block);
      options_.kv_blocks = std::min(options_.kv_blocks, most_slots / block_size());
    }
    if (needed + static_cast<double>(options_.kv_blocks) * block > free) {
      detail::refuse(rest + " and " + detail::gigabytes(static_cast<double>(options_.kv_blocks) * block) +
                     " of KV blocks do not fit: " + detail::gigabytes(free) + " are free");
    }
    detail::require(options_.kv_blocks <= most_slots / block_size(), "more KV blocks than 32 bits can count tokens of");
    const double host = static_cast<double>(options_.host_blocks) * block;
    const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
    if (host > 0.9 * memory) {
      detail::refuse(detail::gigabytes(host) + " of pinned memory for blocks on the host, which has " +
                     detail::gigabytes(memory));
    }

    all([](auto& b, std::size_t n) { b = std::remove_reference_t<decltype(b)>{n}; });
    kv_pool_ = device::buffer<bf16>{options_.kv_blocks * static_cast<std::size_t>(kv_.block)};
    host_pool_ = device::pinned<bf16>{options_.host_blocks * static_cast<std::size_t>(kv_.block)};
    for (launched& l : launched_) {
      l.staging = device::pinned<std::byte>{upload_bytes};
      l.merges = device::pinned<attention_merge>{bounds_.merges};
      l.tokens = device::pinned<std::int32_t>{s};
    }
    if (options_.graphs) graphs_.resize(graph_index(s) + 1);
  }

  // What a measurement reads without having computed it: zeros, which fresh memory has, take less power than numbers.
  // On an emulated device it stays NaN, so that reading it shows.
  void fill_pages() {
    device::launch(main_, fill_random<random_numbers>, 4096U, 256U, kv_pool_.data(), kv_pool_.size(),
                   random_tensor(options_.seed, layout_.tensors.size(), 0, 1));
  }

  // A step. Main and copies run what is enqueued in its order, so one upload and one of each array is enough.

  void enqueue(const step_batch& batch) {
    detail::require(in_flight_ < launched_.size(), "more steps in flight than there is room for");
    const auto now = std::chrono::steady_clock::now();
    check(batch);
    launched& l = slot(oldest_ + in_flight_);
    l.swaps = !batch.swap_out.empty() || !batch.copies.empty() || !batch.swap_in.empty();
    l.computes = !batch.rows.empty();
    if (l.swaps) swap(batch, l);
    work w;
    if (l.computes) {
      w = prepare(batch, l);
      l.host = std::chrono::duration<double>(std::chrono::steady_clock::now() - now).count();
      l.begin.record(main_);
      upload(w, l);
      l.uploaded.record(main_);
      sort(w);
      l.sorted.record(main_);
    }
    if (l.swaps) main_.wait(l.swap_end);
    if (l.computes) {
      l.start.record(main_);
      run(w);
      l.end.record(main_);
      device::copy(main_, l.tokens.data(), sampled_.data(), w.sampled * sizeof(std::int32_t));
    }
    l.sampled = w.sampled;
    l.done.record(main_);
    if (w.decodes && options_.graphs && !graph_of(w.tokens)) capture(w);
    ++in_flight_;
  }

  // After a failure. What is enqueued still reads the slots.
  void forget() noexcept {
    oldest_ += in_flight_;
    in_flight_ = 0;
    sampled_rows_ = 0;
    try {
      main_.synchronize();
      copies_.synchronize();
    } catch (...) {  // it was told already
      sampled_rows_ = 0;
    }
  }

  void check(const step_batch& b) const {
    // What is not known yet, the newest step in flight samples.
    const std::int64_t sampled = in_flight_ == 0 ? 0 : static_cast<std::int64_t>(newest().sampled);
    detail::check(b, options_, blocks_per_row_, sampled);
  }

  // On a stream of their own, after the last step and before this one's kernels.
  void swap(const step_batch& b, launched& l) {
    copies_.wait(newest().done);
    l.swap_begin.record(copies_);
    const auto block = static_cast<std::size_t>(kv_.block);
    // Neighbours here and there are one copy.
    const auto each = [&](std::span<const block_copy> list, const auto& f) {
      for (std::size_t i = 0; i != list.size();) {
        const std::size_t first = i++;
        while (i != list.size() && list[i].device == list[first].device + (i - first) &&
               list[i].host == list[first].host + (i - first)) {
          ++i;
        }
        f(kv_pool_.data() + list[first].device * block, host_pool_.data() + list[first].host * block,
          (i - first) * kv_.block_bytes());
      }
    };
    for (const device_copy& c : b.copies) {
      device::copy(copies_, kv_pool_.data() + c.to * block, kv_pool_.data() + c.from * block, kv_.block_bytes());
    }
    each(b.swap_out, [&](const bf16* here, bf16* host, std::size_t n) { device::copy(copies_, host, here, n); });
    each(b.swap_in, [&](bf16* here, const bf16* host, std::size_t n) { device::copy(copies_, here, host, n); });
    l.swap_end.record(copies_);
  }

  // Sizes that have a graph: 1, 2, 4, 8, then every eighth, and max_rows.
  [[nodiscard]] static std::size_t graph_index(std::size_t rows) noexcept {
    return rows <= 2 ? rows - 1 : rows <= 4 ? 2 : 2 + (rows + 7) / 8;
  }
  [[nodiscard]] std::size_t padded(std::size_t rows) const noexcept {
    const std::size_t size = rows <= 2 ? rows : rows <= 4 ? 4 : detail::rounded_up(rows, 8);
    return std::min(size, options_.max_rows);
  }
  [[nodiscard]] device::graph& graph_of(std::size_t rows) { return graphs_[graph_index(rows)]; }

  // Writes what `upload` sends. The device reads none of it now: the step that had the slot before was waited for.
  work prepare(const step_batch& b, launched& l) {
    work w;
    const std::size_t tokens = b.tokens.size();
    w.decodes = tokens == b.rows.size();
    w.sampled = static_cast<std::size_t>(std::ranges::count(b.rows, true, &batch_row::samples));
    const bool pads = w.decodes && options_.graphs;
    w.tokens = pads ? padded(tokens) : tokens;
    w.samples = pads ? w.tokens : w.sampled;
    const upload_layout at{w.tokens, w.samples};
    auto* const words = reinterpret_cast<std::int32_t*>(l.staging.data());

    std::ranges::copy(b.tokens, words + at.tokens);
    std::fill(words + at.tokens + tokens, words + at.positions, 0);
    std::fill(words + at.positions + tokens, words + at.slots, 0);
    std::fill(words + at.slots + tokens, words + at.samples, -1);
    std::size_t next = 0;
    std::size_t samples = 0;
    for (std::size_t i = 0; i != b.rows.size(); ++i) {
      const batch_row& r = b.rows[i];
      const std::int32_t* const blocks = b.indices.data() + b.indptr[i];
      for (std::int32_t p = r.first; p != r.first + r.count; ++p, ++next) {
        words[at.positions + next] = p;
        words[at.slots + next] = blocks[p / options_.block_size] * options_.block_size + p % options_.block_size;
      }
      if (r.samples) words[at.samples + samples++] = static_cast<std::int32_t>(next - 1);
    }
    std::fill(words + at.samples + samples, words + at.samples + w.samples, 0);

    const std::span items{reinterpret_cast<attention_item*>(words + at.items), bounds_.items};
    w.counts = plan_attention(settings_, b.rows, b.indptr, items, {l.merges.data(), bounds_.merges}, bounds_.partials);
    words[at.counts] = w.counts.items;
    words[at.counts + 1] = w.counts.merges;
    // The kernel counts the block table's words from the items on, for they do not move.
    const auto count = static_cast<std::size_t>(w.counts.items);
    for (attention_item& i : items.first(count)) i.table += static_cast<std::int32_t>(count * item_words);
    const std::size_t table = at.items + count * item_words;
    std::ranges::copy(b.indices, words + table);
    w.keys = detail::rounded_up((table + b.indices.size()) * sizeof(std::int32_t), sizeof(std::uint64_t));
    auto* const keys = reinterpret_cast<std::uint64_t*>(l.staging.data() + w.keys);
    for (std::size_t i = 0; i != count; ++i) {
      keys[i] = tessera::gpu::longest_first<cost_bits>(attention_cost(items[i], settings_.group));
    }
    w.bytes = w.keys + count * sizeof(std::uint64_t);
    return w;
  }

  void upload(const work& w, const launched& l) {
    device::copy(main_, upload_.data(), l.staging.data(), w.bytes);
    device::copy(main_, merges_.data(), l.merges.data(),
                 static_cast<std::size_t>(w.counts.merges) * sizeof(attention_merge));
  }

  // The longest items first: the block that starts last should have little to do.
  void sort(const work& w) {
    const auto n = static_cast<std::size_t>(w.counts.items);
    const std::span keys{reinterpret_cast<const std::uint64_t*>(upload_.data() + w.keys), n};
    const std::span order{order_.data(), n};
    const std::span space{sort_space_.data(), sort_space_.size()};
    device::enqueue(main_, [keys, order, space](auto native) {
      const auto s = sorter_on(native).sort(keys, cost_bits, order, tessera::gpu::workspace{space});
      if (!tessera::ok(s)) detail::refuse("the device did not sort the work list");
    });
  }

  // The graph of this size if there is one. Otherwise all kernels that it will have, so that capturing it loads none.
  void run(const work& w) {
    const bool by_graph = w.decodes && options_.graphs;
    if (by_graph && graph_of(w.tokens)) {
      graph_of(w.tokens).launch(main_);
    } else {
      enqueue_kernels(w, by_graph || w.counts.merges != 0);
    }
  }

  // After the first step of this size.
  void capture(const work& w) {
    graph_of(w.tokens) = device::graph::capture(main_, [&] { enqueue_kernels(w, true); });
    ++captures_;
  }

  [[nodiscard]] attention_args attention_arguments(const work& w, std::size_t layer) const {
    const auto* const words = reinterpret_cast<const std::int32_t*>(upload_.data());
    const std::int32_t* const items = words + upload_layout{w.tokens, w.samples}.items;
    attention_args a;
    a.q = qkv_.data();
    a.out = attended_.data();
    a.q_stride = static_cast<std::int64_t>(qkv_width());
    a.out_stride = static_cast<std::int64_t>(q_width());
    a.kv = kv_pool_.data() + static_cast<std::size_t>(kv_.layer) * layer;
    a.layout = kv_;
    a.indices = items;
    a.items = reinterpret_cast<const attention_item*>(items);
    a.merges = merges_.data();
    a.counts = words;
    a.order = order_.data();
    a.claims = claims_.data();
    a.partial_out = partial_out_.data();
    a.partial_sums = partial_sums_.data();
    a.group = settings_.group;
    a.kv_heads = shape_.kv_heads;
    a.scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim));
    return a;
  }

  void enqueue_kernels(const work& w, bool merges) {
    using kind = weight_layout::kind;
    const auto* const words = reinterpret_cast<const std::int32_t*>(upload_.data());
    const upload_layout at{w.tokens, w.samples};
    const auto rows = static_cast<unsigned>(w.tokens);
    const int m = static_cast<int>(w.tokens);
    const int hidden = shape_.hidden;
    const int width = shape_.feed_forward;
    const int q = static_cast<int>(q_width());
    const auto weight = [&](std::size_t offset) { return weights_.data() + offset; };
    rms_norm_arrays norm{residual_.data(), delta_.data(), words + at.samples, nullptr, normed_.data()};
    const auto normalise = [&](auto kernel, unsigned blocks, std::size_t weights) {
      norm.weight = weight(weights);
      device::launch(main_, kernel, blocks, static_cast<unsigned>(rms_norm_threads(hidden)), norm, hidden,
                     shape_.norm_epsilon);
    };

    device::launch(main_, embed<std::int32_t>, rows, 128U, weight(layout_.embedding()), words + at.tokens,
                   sampled_.data(), residual_.data(), hidden);
    for (std::size_t l = 0; l != layout_.layers; ++l) {
      normalise(l == 0 ? rms_norm<norm_input::plain> : rms_norm<norm_input::added>, rows,
                layout_.of(l, kind::attention_norm));
      blas_.multiply(main_, normed_.data(), weight(layout_.of(l, kind::qkv)), qkv_.data(), m,
                     static_cast<int>(qkv_width()), hidden);
      const rope_arrays rope{qkv_.data(),
                             words + at.positions,
                             words + at.slots,
                             frequencies_.data(),
                             kv_pool_.data() + static_cast<std::size_t>(kv_.layer) * l,
                             kv_};
      device::launch(main_, shape_.head_dim == 64 ? rope_append<64> : rope_append<128>, rows,
                     static_cast<unsigned>(rope_threads), rope, shape_.query_heads, shape_.kv_heads);
      attention_(main_, attention_arguments(w, l), w.decodes, merges);
      blas_.multiply(main_, attended_.data(), weight(layout_.of(l, kind::attention_output)), delta_.data(), m, hidden,
                     q);
      normalise(rms_norm<norm_input::added>, rows, layout_.of(l, kind::feed_forward_norm));
      blas_.multiply(main_, normed_.data(), weight(layout_.of(l, kind::gate_up)), gate_up_.data(), m, 2 * width,
                     hidden);
      constexpr unsigned threads = 256;
      const dim3 grid{rows, (static_cast<unsigned>(width) / vector_size + threads - 1) / threads};
      device::launch(main_, activate_multiply<silu>, grid, threads, gate_up_.data(), activated_.data(), width);
      blas_.multiply(main_, activated_.data(), weight(layout_.of(l, kind::down)), delta_.data(), m, hidden, width);
    }
    if (w.samples == 0) return;
    const auto samples = static_cast<unsigned>(w.samples);
    normalise(rms_norm<norm_input::added_gathered>, samples, layout_.final_norm());
    blas_.multiply(main_, normed_.data(), weight(layout_.head()), logits_.data(), static_cast<int>(w.samples),
                   shape_.vocabulary, hidden);
    constexpr int argmax_threads = 1024;
    device::launch(main_, argmax<argmax_threads>, samples, static_cast<unsigned>(argmax_threads), logits_.data(),
                   sampled_.data(), shape_.vocabulary);
  }

#ifdef CUDA_DECODE_FLASHINFER
  template <int Dim>
  [[nodiscard]] double time_flashinfer(const step_batch& b) {
    launched& l = idle();
    check(b);
    const work w = prepare(b, l);
    detail::require(w.decodes && !b.rows.empty(), "FlashInfer's attention is measured for rows that decode");
    // Its tables have no block behind a sequence's end: [rows + 1] begins, [rows] tokens in the last block, blocks.
    const std::size_t rows = b.rows.size();
    const device::pinned<std::int32_t> staged(2 * rows + 1 + b.indices.size());
    const device::buffer<std::int32_t> lists(staged.size());
    std::int32_t* const last = staged.data() + rows + 1;
    std::int32_t* next = last + rows;
    staged[0] = 0;
    for (std::size_t i = 0; i != rows; ++i) {
      const std::int32_t blocks = b.rows[i].first / options_.block_size + 1;
      last[i] = b.rows[i].first % options_.block_size + 1;
      next = std::copy_n(b.indices.data() + b.indptr[i], blocks, next);
      staged[i + 1] = staged[i] + blocks;
    }
    device::copy(main_, lists.data(), staged.data(), staged.size() * sizeof(std::int32_t));

    flashinfer_attention<Dim> kernels;
    kernels.plan(main_, staged.data(), static_cast<std::int32_t>(rows), settings_.group, shape_.kv_heads,
                 options_.block_size);
    attention_args a = attention_arguments(w, 0);
    a.indices = lists.data() + 2 * rows + 1;
    constexpr int runs = 20;
    for (int i = 0; i != runs + 1; ++i) {
      if (i == 1) l.begin.record(main_);  // the first one loads the kernels
      kernels(main_, a, lists.data(), lists.data() + rows + 1);
    }
    l.end.record(main_);
    l.end.synchronize();
    return seconds_between(l.begin, l.end) / runs;
  }
#endif

  static constexpr std::size_t most_slots = std::numeric_limits<std::int32_t>::max();

  decoder_options options_;
  model_shape shape_;
  weight_layout layout_;
  kv_layout kv_;
  device::facts device_;
  device::stream main_;
  device::stream copies_;
  device::blas blas_;
  attention attention_;
  attention_settings settings_;
  attention_capacity bounds_;
  std::size_t blocks_per_row_ = 0;

  device::buffer<bf16> weights_;
  device::buffer<bf16> kv_pool_;
  device::buffer<float> frequencies_;
  device::buffer<bf16> residual_;  // [tokens][hidden], as the next five
  device::buffer<bf16> normed_;
  device::buffer<bf16> delta_;      // what is added to the residual next
  device::buffer<bf16> qkv_;        // [..][query heads + 2 x KV heads][head_dim]
  device::buffer<bf16> attended_;   // [..][query heads][head_dim]
  device::buffer<bf16> gate_up_;    // [..][2][feed_forward]
  device::buffer<bf16> activated_;  // [..][feed_forward]
  device::buffer<float> logits_;    // [rows][vocabulary]
  device::buffer<std::int32_t> sampled_;
  device::buffer<std::byte> upload_;
  device::buffer<attention_merge> merges_;
  device::buffer<std::int32_t> claims_;
  device::buffer<float> partial_out_;
  device::buffer<float2> partial_sums_;
  device::buffer<std::uint32_t> order_;
  device::buffer<std::byte> sort_space_;
  device::pinned<bf16> host_pool_;

  std::vector<device::graph> graphs_;
  std::size_t captures_ = 0;
  std::vector<launched> launched_;  // a ring
  std::uint64_t oldest_ = 0;        // of those in flight
  std::size_t in_flight_ = 0;
  std::size_t sampled_rows_ = 0;  // of the step that was waited for last
};

}  // namespace cuda_decode
