// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The attention kernels on a GPU, against softmax attention in double precision, and how fast they are: a plain
// program, for nvcc. Exits with 77 where there is no GPU.

#include "attention_case.hpp"
#include "gpu_program.hpp"

#include <kernels/flashinfer.cuh>

#include <cstdio>
#include <random>

namespace {

using namespace test;
namespace device = cuda_decode::device;

int failures = 0;

void expect(bool holds, const char* what, unsigned long long which) {
  if (holds) return;
  std::fprintf(stderr, "gpu_attention.cu: %s (%llu)\n", what, which);
  ++failures;
}

bool same(const bf16* a, const bf16* b, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    if (to_float(a[i]) != to_float(b[i])) return false;
  }
  return true;
}

void correct() {
  std::mt19937_64 random{1};
  const auto below = [&](int n) { return static_cast<std::int32_t>(random() % static_cast<unsigned>(n)); };
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const std::int32_t groups[]{1, 2, 3, 4, 8, 5, 6};
    const std::int32_t block_sizes[]{16, 32, 48};
    const attention_shape shape{seed % 2 == 0 ? 128 : 64, groups[seed % 7], 1 + below(3), block_sizes[seed % 3]};
    const bool decodes = seed % 5 == 0;
    std::vector<batch_row> rows;
    for (std::int32_t n = 1 + below(6); n-- != 0;) {
      rows.push_back({below(2) * below(900), decodes || below(3) == 0 ? 1 : below(below(3) == 0 ? 120 : 20)});
    }
    rows.push_back({below(2000), 1});
    const attention_case c{shape, rows, seed};
    const attention_settings settings{.split = seed % 3 == 0 ? split_policy::uniform : split_policy::balanced,
                                      .blocks = below(2) * (1 + below(400)),
                                      .chunk = 64 * (1 + below(8))};
    const auto r = run_attention(c, settings, seed % 4 == 0 ? static_cast<std::size_t>(below(40)) : 8192, seed);
    const double error = attention_error(c, r.out);
    if (!(error < 1)) std::fprintf(stderr, "gpu_attention.cu: error %g of what rounding explains\n", error);
    expect(error < 1, "wrong result for seed", seed);
    const auto again = run_attention(c, settings, 0, seed + 1);
    // Uniform chunks depend on the room for partials.
    expect(settings.split == split_policy::uniform || same(r.out.data(), again.out.data(), r.out.size()),
           "split and whole differ for seed", seed);
  }
  const attention_case sharp{{128, 4, 2, 16}, {{700, 1}, {20, 90}}, 7, 1e12};
  for (const bf16 x : run_attention(sharp, {.chunk = 64}, 8192).out) {
    expect(std::abs(to_float(x)) < 10, "great scores", x.bits);
  }
}

// One prompt in one piece and in pieces, down to decoding: the same bits.
void invariant() {
  for (const std::int32_t dim : {64, 128}) {
    for (const std::int32_t group : {1, 3, 4, 8}) {
      const std::int32_t length = 700;
      const attention_case whole{{dim, group, 2, 16}, {{0, length}}, 11};
      const attention_settings settings{.blocks = 1, .chunk = 128};
      const auto expected = run_attention(whole, settings, 0);
      const auto width = static_cast<std::size_t>(whole.query_heads() * dim);
      std::int32_t first = 0;
      for (std::int32_t i = 0; first < length; ++i) {
        const std::int32_t counts[]{1, 2, 61, 1, 17, 5, 130, 40};
        const std::int32_t count = std::min(counts[i % 8], length - first);
        attention_case piece = whole;
        piece.rows = {{first, count}};
        piece.indptr[1] = (first + count + 15) / 16;
        piece.q.assign(whole.q.begin() + first * whole.q_stride, whole.q.begin() + (first + count) * whole.q_stride);
        attention_settings cut = settings;
        cut.blocks = i % 2 == 0 ? 1 : 1000;
        const auto got = run_attention(piece, cut, i % 3 == 0 ? 0 : 8192);
        expect(same(got.out.data(), expected.out.data() + static_cast<std::size_t>(first) * width, got.out.size()),
               "a piece of a prompt has other bits than the whole, at", static_cast<unsigned long long>(first));
        first += count;
      }
    }
  }
}

template <class T>
device::buffer<T> write(device::stream& s, const std::vector<T>& values) {
  device::pinned<T> from(std::max<std::size_t>(values.size(), 1));
  std::copy(values.begin(), values.end(), from.data());
  device::buffer<T> to(from.size());
  device::copy(s, to.data(), from.data(), values.size() * sizeof(T));
  s.synchronize();
  return to;
}

// With numbers: zeros draw less power, so are faster.
void fill(device::stream& s, const device::buffer<bf16>& b) {
  std::mt19937 random{1};
  std::vector<bf16> some(1 << 20);
  for (bf16& x : some) x = cuda_decode::from_float(static_cast<float>(random() % 2048) / 1024 - 1);
  const auto from = write(s, some);
  for (std::size_t i = 0; i < b.size(); i += some.size()) {
    device::copy(s, b.data() + i, from.data(), std::min(some.size(), b.size() - i) * sizeof(bf16));
  }
  s.synchronize();
}

// The bandwidth of a plain copy, reading and writing together.
double copy_bandwidth(device::stream& s) {
  const std::size_t bytes = std::size_t{1} << 30;
  const device::buffer<std::uint8_t> a(bytes);
  const device::buffer<std::uint8_t> b(bytes);
  device::event from;
  device::event to;
  for (int i = 0; i < 12; ++i) {
    if (i == 2) from.record(s);
    device::copy(s, b.data(), a.data(), bytes);
  }
  to.record(s);
  to.synchronize();
  return 2.0 * 10 * static_cast<double>(bytes) / device::seconds_between(from, to);
}

// The batch over pages in random order, all in one layer.
void measure(device::stream& s, const char* name, std::int32_t group, const std::vector<batch_row>& rows,
             split_policy split, double copy) {
  constexpr std::int32_t dim = 128;
  const std::int32_t kv_heads = 8;
  const std::int32_t block_size = 16;
  const cuda_decode::attention kernels{dim};
  const auto layout = cuda_decode::make_kv_layout(1, kv_heads, dim, block_size);
  std::vector<std::int32_t> indptr{0};
  std::size_t tokens = 0;
  std::int64_t context = 0;
  std::int32_t longest = 1;
  double products = 0;  // multiplications
  bool decodes = true;
  for (const batch_row& r : rows) {
    indptr.push_back(indptr.back() + (r.first + r.count + block_size - 1) / block_size);
    tokens += static_cast<std::size_t>(r.count);
    context += r.first + r.count;
    longest = std::max(longest, r.first + r.count);
    products += 2.0 * r.count * (r.first + (r.count + 1) / 2.0) * dim * group * kv_heads;
    decodes = decodes && r.count == 1;
  }
  std::vector<std::int32_t> indices(static_cast<std::size_t>(indptr.back()));
  std::iota(indices.begin(), indices.end(), 0);
  std::shuffle(indices.begin(), indices.end(), std::mt19937{1});
  const attention_settings settings{.split = split, .group = group, .kv_heads = kv_heads, .blocks = kernels.blocks()};
  const auto most =
      cuda_decode::attention_bounds(settings, rows.size(), tokens, static_cast<std::size_t>(longest), 16384);
  std::vector<attention_item> items(most.items);
  std::vector<attention_merge> merges(most.merges);
  const auto n = cuda_decode::plan_attention(settings, rows, indptr, items, merges, most.partials);
  // Longest first.
  std::vector<std::uint32_t> order(static_cast<std::size_t>(n.items));
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return cuda_decode::attention_cost(items[a], group) > cuda_decode::attention_cost(items[b], group);
  });

  const std::size_t width = static_cast<std::size_t>(kv_heads * group * dim);
  const device::buffer<bf16> pool(static_cast<std::size_t>(indptr.back()) * static_cast<std::size_t>(layout.block));
  const device::buffer<bf16> q(tokens * width);
  const device::buffer<bf16> out(tokens * width);
  fill(s, pool);
  fill(s, q);
  const auto device_indices = write(s, indices);
  const auto device_items = write(s, items);
  const auto device_merges = write(s, merges);
  const auto device_order = write(s, order);
  const auto counts = write(s, std::vector<std::int32_t>{n.items, n.merges});
  const auto claims = write(s, std::vector<std::int32_t>{0, 0});
  const device::buffer<float> partial_out(std::max<std::size_t>(most.partials * width, 1));
  const device::buffer<float2> sums(
      std::max<std::size_t>(most.partials * static_cast<std::size_t>(kv_heads * group), 1));
  attention_args a;
  a.q = q.data();
  a.q_stride = a.out_stride = static_cast<std::int64_t>(width);
  a.out = out.data();
  a.kv = pool.data();
  a.layout = layout;
  a.indices = device_indices.data();
  a.items = device_items.data();
  a.merges = device_merges.data();
  a.counts = counts.data();
  a.order = device_order.data();
  a.claims = claims.data();
  a.partial_out = partial_out.data();
  a.partial_sums = sums.data();
  a.group = group;
  a.kv_heads = kv_heads;
  a.scale = 0.0883883F;
  static_cast<void>(kernels.seconds(s, a, decodes, n.merges != 0, 3));
  const double seconds = kernels.seconds(s, a, decodes, n.merges != 0, 20);
  const double bytes = static_cast<double>(context) * kv_heads * dim * 2 * sizeof(bf16);
  std::printf("%-44s group %d %-8s items %6d merges %4d  %9.1f us", name, group,
              split == split_policy::balanced ? "balanced" : "uniform", n.items, n.merges, seconds * 1e6);
  if (decodes) {
    std::printf("  %7.1f GB/s, %5.1f %% of a copy\n", bytes / seconds / 1e9, 100 * bytes / seconds / copy);
#ifdef CUDA_DECODE_FLASHINFER
    if (split == split_policy::uniform) return;
    const auto device_indptr = write(s, indptr);
    std::vector<std::int32_t> last;
    for (const batch_row& r : rows) last.push_back((r.first + r.count - 1) % block_size + 1);
    const auto device_last = write(s, last);
    const auto outputs = [&] {
      const device::pinned<bf16> back(out.size());
      device::copy(s, back.data(), out.data(), out.size() * sizeof(bf16));
      s.synchronize();
      return std::vector<bf16>{back.data(), back.data() + out.size()};
    };
    const std::vector<bf16> ours = outputs();
    cuda_decode::flashinfer_attention<dim> other;
    other.plan(s, indptr.data(), static_cast<std::int32_t>(rows.size()), group, kv_heads, block_size);
    device::event from;
    device::event to;
    for (int i = 0; i < 23; ++i) {
      if (i == 3) from.record(s);
      other(s, a, device_indptr.data(), device_last.data());
    }
    to.record(s);
    to.synchronize();
    const double theirs = device::seconds_between(from, to) / 20;
    const std::vector<bf16> also = outputs();
    double worst = 0;  // of means of numbers between -1 and 1
    for (std::size_t i = 0; i < also.size(); ++i) {
      const double difference = std::abs(to_float(also[i]) - to_float(ours[i]));
      worst = difference <= worst ? worst : difference;  // NaN stays
    }
    expect(worst < 0.01, "FlashInfer's results are others, of rows", rows.size());
    std::printf("%-44s group %d FlashInfer %39.1f us  %7.1f GB/s, %5.1f %% of a copy\n", name, group, theirs * 1e6,
                bytes / theirs / 1e9, 100 * bytes / theirs / copy);
#endif
  } else {
    std::printf("  %7.1f TFLOP/s\n", 2 * products / seconds / 1e12);
  }
}

void benchmark() {
  device::stream s;
  const double copy = copy_bandwidth(s);
  std::printf("copy %.1f GB/s, blocks of threads %d\n", copy / 1e9, cuda_decode::attention{128}.blocks());
  const auto batch = [](std::size_t rows, std::int32_t context) {
    return std::vector<batch_row>(rows, {context - 1, 1});
  };
  for (const std::int32_t group : {3, 4}) {
    for (const split_policy split : {split_policy::balanced, split_policy::uniform}) {
      measure(s, "256 rows, 2048 keys", group, batch(256, 2048), split, copy);
      auto uneven = batch(255, 1936);
      uneven.push_back({30591, 1});
      measure(s, "255 rows, 1936 keys, one of 30592", group, uneven, split, copy);
      measure(s, "256 rows, 512 keys", group, batch(256, 512), split, copy);
      measure(s, "64 rows, 8192 keys", group, batch(64, 8192), split, copy);
      measure(s, "16 rows, 2048 keys", group, batch(16, 2048), split, copy);
      measure(s, "1 row, 2048 keys", group, batch(1, 2048), split, copy);
      measure(s, "1 row, 32768 keys", group, batch(1, 32768), split, copy);
    }
    measure(s, "a prompt of 512", group, {{0, 512}}, split_policy::balanced, copy);
    measure(s, "a prompt of 2048", group, {{0, 2048}}, split_policy::balanced, copy);
    measure(s, "a prompt of 8192", group, {{0, 8192}}, split_policy::balanced, copy);
    measure(s, "512 tokens of a prompt after 16384", group, {{16384, 512}}, split_policy::balanced, copy);
    auto mixed = batch(128, 2048);
    mixed.push_back({0, 1024});
    measure(s, "128 rows, 2048 keys, and a prompt of 1024", group, mixed, split_policy::balanced, copy);
  }
}

}  // namespace

int main() {
  return cuda_decode_test::run_on_gpu("gpu_attention.cu", failures, [] {
    std::printf("%s\n", device::query().name.c_str());
    correct();
    invariant();
    if (failures == 0) benchmark();
  });
}
