// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Model files: whatever the bytes, loading answers, stays inside them and changes nothing when it refuses. Half of the
// inputs get a right header and checksum around their bytes, so that the checks behind those are reached.

#include <tessera/rank/model_file.hpp>
#include <tessera/rank/scorer.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

using namespace tessera::rank;

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const std::vector<std::byte>& file) {
  model_info info;
  info.dimension = 12345;
  const model_status s = inspect_model(file, info);
  require(to_string(s)[0] != '?');
  if (!ok(s)) {
    require(info.dimension == 12345);
    std::vector<float> storage(64, -1.0f);
    linear_model linear;
    mlp_model mlp;
    require(load_model(file, 1, storage, linear) == s && load_model(file, 1, storage, mlp) == s);
    for (const float v : storage) require(v == -1.0f);
    return;
  }
  // An accepted file says no more than it holds, and comes out again as it was.
  require(file.size() == 64 + 4 * info.parameters);
  std::vector<float> storage(info.parameters);
  std::vector<std::byte> again(file.size());
  if (info.kind == model_kind::linear) {
    linear_model m;
    require(ok(load_model(file, info.fingerprint, storage, m)) && m.dimension() == info.dimension);
    require(ok(encode_model(m, info.fingerprint, again)));
  } else {
    mlp_model m;
    require(ok(load_model(file, info.fingerprint, storage, m)) && m.dimension() == info.dimension);
    require(ok(encode_model(m, info.fingerprint, again)));
  }
  require(again == file);
  for (const float v : storage) require(std::isfinite(v));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> file(size);
  if (size != 0) std::memcpy(file.data(), data, size);
  check(file);
  if (size < 4) return 0;

  // The bytes as parameters of a model of a shape that they choose, then one header byte that they choose changed.
  const std::size_t hidden = data[0] % 4;
  const std::size_t floats = (size - 4) / 4;
  const std::size_t dimension =
      hidden == 0 ? (floats == 0 ? 0 : floats - 1) : (floats < 2 * hidden + 2 ? 0 : (floats - 2 * hidden - 1) / hidden);
  if (dimension == 0) return 0;
  const std::size_t parameters = hidden == 0 ? dimension + 1 : mlp_model::parameters(dimension, hidden);
  file.assign(64 + 4 * parameters, std::byte{0});
  std::memcpy(file.data() + 64, data + 4, 4 * parameters);
  tessera::rank::detail::seal_model(
      file, {hidden == 0 ? model_kind::linear : model_kind::mlp, data[1], dimension, hidden, parameters});
  check(file);
  file[data[2] % 64] ^= static_cast<std::byte>(data[3]);
  check(file);
  tessera::rank::detail::put_little<std::uint64_t>(file, 56, tessera::rank::detail::model_checksum(file));
  check(file);

  // And as a prompt: any bytes have a finite score.
  static const hashed_features features{8};
  static const std::vector<float> weights(features.dimension(), 0.5f);
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  require(std::isfinite(prompt_scorer{features, linear_model{weights}}(text)));
  return 0;
}
