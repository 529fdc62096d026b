// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/rank/linear.hpp>
#include <tessera/rank/mlp.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// Models as files: from and to memory. Reading and writing the file itself is the caller's, as is the memory.
///
/// Layout, version 1, all numbers little-endian:
///
///     offset  size  what
///          0     8  "TSRARANK"
///          8     4  version, 1
///         12     4  kind: 1 linear, 2 one hidden layer
///         16     8  fingerprint of the features
///         24     8  dimension: number of features, 1 to 2^28
///         32     4  hidden units: 0 for linear, else 1 to 64
///         36     4  0
///         40     8  number of parameters: dimension + 1, or dimension * hidden + 2 * hidden + 1
///         48     8  0
///         56     8  CRC-64 (ECMA-182, reflected) of all other bytes, bytes 0 to 55 first, then those from 64
///         64    4n  parameters, IEEE 754 binary32: weights then bias; or as in `mlp_model`
///
/// A file has exactly that many bytes. No field is trusted before the checksum and the file's size agree with it, and
/// parameters must be finite. Nothing allocates; errors are values.

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// What kind of model a file holds. The numbers are part of the format.
enum class model_kind : std::uint32_t { linear = 1, mlp = 2 };

/// Why a model was not loaded.
enum class model_status : std::uint8_t {
  ok = 0,
  truncated,            ///< Shorter than its header says, or than a header.
  foreign,              ///< Not a model file.
  unsupported_version,  ///< A version that this library does not know.
  damaged,              ///< The checksum is wrong, or bytes follow the end.
  inconsistent,         ///< Fields that no writer writes: sizes out of range or inconsistent.
  not_finite,           ///< A parameter is infinite or not a number.
  wrong_features,       ///< A valid model, for other features.
  wrong_kind,           ///< A valid model, of the other kind.
  no_room,              ///< The caller's memory is too small.
};

/// Whether it is `ok`.
[[nodiscard]] constexpr bool ok(model_status s) noexcept { return s == model_status::ok; }

/// The end of a sentence, for messages: "cannot load the model: it is truncated".
[[nodiscard]] constexpr const char* to_string(model_status s) noexcept {
  switch (s) {
    case model_status::ok: return "ok";
    case model_status::truncated: return "it is truncated";
    case model_status::foreign: return "it is not a model file";
    case model_status::unsupported_version: return "its version is not supported";
    case model_status::damaged: return "it is damaged (the checksum does not match)";
    case model_status::inconsistent: return "its header contradicts itself";
    case model_status::not_finite: return "it holds values that are not finite";
    case model_status::wrong_features: return "it was trained on other features";
    case model_status::wrong_kind: return "it is a model of another kind";
    case model_status::no_room: return "the memory given is too small";
  }
  return "?";
}

/// The content of a file.
struct model_info {
  model_kind kind = model_kind::linear;  ///< Linear, or with a hidden layer.
  /// Identifies the kind and the parameters of the features: a model fits only features with the same number.
  std::uint64_t fingerprint = 0;
  std::size_t dimension = 0;   ///< Number of features; indices are below it.
  std::size_t hidden = 0;      ///< Hidden units; 0 for a linear model.
  std::size_t parameters = 0;  ///< Floats that loading needs room for.
};

namespace detail {

inline constexpr std::size_t model_header = 64;
inline constexpr std::size_t model_checksum_at = 56;
inline constexpr std::uint64_t model_max_dimension = std::uint64_t{1} << 28;
inline constexpr char model_magic[9] = "TSRARANK";

struct crc64_table {
  std::uint64_t of[256]{};
  constexpr crc64_table() noexcept {
    for (std::uint64_t b = 0; b != 256; ++b) {
      std::uint64_t r = b;
      for (int i = 0; i != 8; ++i) r = (r >> 1) ^ ((r & 1) != 0 ? 0xc96c5795d7870f42u : 0u);
      of[b] = r;
    }
  }
};
inline constexpr crc64_table crc64_of{};

[[nodiscard]] constexpr std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t crc) noexcept {
  for (const std::byte b : bytes) crc = crc64_of.of[(crc ^ std::to_integer<std::uint64_t>(b)) & 0xff] ^ (crc >> 8);
  return crc;
}
[[nodiscard]] constexpr std::uint64_t model_checksum(std::span<const std::byte> file) noexcept {
  return ~crc64(file.subspan(model_header), crc64(file.first(model_checksum_at), ~std::uint64_t{0}));
}

template <class T>
[[nodiscard]] constexpr T get_little(std::span<const std::byte> bytes, std::size_t at) noexcept {
  T v = 0;
  for (std::size_t k = 0; k != sizeof(T); ++k) {
    v = static_cast<T>(v | static_cast<T>(std::to_integer<T>(bytes[at + k]) << (8 * k)));
  }
  return v;
}
template <class T>
constexpr void put_little(std::span<std::byte> bytes, std::size_t at, T v) noexcept {
  for (std::size_t k = 0; k != sizeof(T); ++k) bytes[at + k] = static_cast<std::byte>(v >> (8 * k) & 0xff);
}

/// Writes the header; the parameters stand behind it already.
constexpr void seal_model(std::span<std::byte> out, const model_info& info) noexcept {
  for (std::size_t i = 0; i != 8; ++i) out[i] = static_cast<std::byte>(model_magic[i]);
  put_little<std::uint32_t>(out, 8, 1);
  put_little<std::uint32_t>(out, 12, static_cast<std::uint32_t>(info.kind));
  put_little<std::uint64_t>(out, 16, info.fingerprint);
  put_little<std::uint64_t>(out, 24, info.dimension);
  put_little<std::uint32_t>(out, 32, static_cast<std::uint32_t>(info.hidden));
  put_little<std::uint32_t>(out, 36, 0);
  put_little<std::uint64_t>(out, 40, info.parameters);
  put_little<std::uint64_t>(out, 48, 0);
  put_little<std::uint64_t>(out, model_checksum_at, model_checksum(out));
}

constexpr void put_floats(std::span<std::byte> out, std::size_t at, std::span<const float> values) noexcept {
  for (const float v : values) {
    put_little<std::uint32_t>(out, at, std::bit_cast<std::uint32_t>(v));
    at += 4;
  }
}

}  // namespace detail

/// Checks a whole file and describes its content. O(file). `out` is set only on `ok`.
[[nodiscard]] constexpr model_status inspect_model(std::span<const std::byte> file, model_info& out) noexcept {
  const std::size_t magic = file.size() < 8 ? file.size() : 8;
  for (std::size_t i = 0; i != magic; ++i) {
    if (file[i] != static_cast<std::byte>(detail::model_magic[i])) return model_status::foreign;
  }
  if (file.size() < detail::model_header) return model_status::truncated;
  if (detail::get_little<std::uint32_t>(file, 8) != 1) return model_status::unsupported_version;
  const auto kind = detail::get_little<std::uint32_t>(file, 12);
  const auto dimension = detail::get_little<std::uint64_t>(file, 24);
  const auto hidden = detail::get_little<std::uint32_t>(file, 32);
  const auto parameters = detail::get_little<std::uint64_t>(file, 40);
  const bool linear = kind == static_cast<std::uint32_t>(model_kind::linear) && hidden == 0;
  const bool mlp =
      kind == static_cast<std::uint32_t>(model_kind::mlp) && hidden >= 1 && hidden <= mlp_model::max_hidden;
  // In this order no product overflows: dimension <= 2^28, hidden <= 64.
  if ((!linear && !mlp) || dimension == 0 || dimension > detail::model_max_dimension ||
      parameters != (linear ? dimension + 1 : dimension * hidden + 2 * hidden + 1) ||
      detail::get_little<std::uint32_t>(file, 36) != 0 || detail::get_little<std::uint64_t>(file, 48) != 0) {
    return model_status::inconsistent;
  }
  const std::uint64_t bytes = detail::model_header + parameters * 4;
  if (file.size() < bytes) return model_status::truncated;
  if (file.size() > bytes ||
      detail::get_little<std::uint64_t>(file, detail::model_checksum_at) != detail::model_checksum(file)) {
    return model_status::damaged;
  }
  for (std::size_t i = detail::model_header; i != file.size(); i += 4) {
    constexpr std::uint32_t exponent = 0x7f800000u;
    if ((detail::get_little<std::uint32_t>(file, i) & exponent) == exponent) return model_status::not_finite;
  }
  out.kind = static_cast<model_kind>(kind);
  out.fingerprint = detail::get_little<std::uint64_t>(file, 16);
  out.dimension = static_cast<std::size_t>(dimension);
  out.hidden = hidden;
  out.parameters = static_cast<std::size_t>(parameters);
  return model_status::ok;
}

namespace detail {

[[nodiscard]] constexpr model_status read_model(std::span<const std::byte> file, model_kind kind,
                                                std::uint64_t fingerprint, std::span<float> storage,
                                                model_info& info) noexcept {
  const model_status s = inspect_model(file, info);
  if (!ok(s)) return s;
  if (info.kind != kind) return model_status::wrong_kind;
  if (info.fingerprint != fingerprint) return model_status::wrong_features;
  if (storage.size() < info.parameters) return model_status::no_room;
  for (std::size_t i = 0; i != info.parameters; ++i) {
    storage[i] = std::bit_cast<float>(get_little<std::uint32_t>(file, model_header + 4 * i));
  }
  return model_status::ok;
}

}  // namespace detail

/// Loads a linear model for features with this fingerprint into `storage`, which the model then views.
/// Changes neither `storage` nor `out` on an error. O(file); does not allocate.
[[nodiscard]] constexpr model_status load_model(std::span<const std::byte> file, std::uint64_t fingerprint,
                                                std::span<float> storage, linear_model& out) noexcept {
  model_info info;
  const model_status s = detail::read_model(file, model_kind::linear, fingerprint, storage, info);
  if (ok(s)) out = linear_model{storage.first(info.dimension), storage[info.dimension]};
  return s;
}

/// As above, for a model with a hidden layer.
[[nodiscard]] constexpr model_status load_model(std::span<const std::byte> file, std::uint64_t fingerprint,
                                                std::span<float> storage, mlp_model& out) noexcept {
  model_info info;
  const model_status s = detail::read_model(file, model_kind::mlp, fingerprint, storage, info);
  if (ok(s)) out = mlp_model{storage.first(info.parameters), info.dimension, info.hidden};
  return s;
}

/// Bytes of a model's file.
[[nodiscard]] constexpr std::size_t encoded_bytes(const linear_model& m) noexcept {
  return detail::model_header + 4 * (m.dimension() + 1);
}
/// Bytes that `encode_model` writes.
[[nodiscard]] constexpr std::size_t encoded_bytes(const mlp_model& m) noexcept {
  return detail::model_header + 4 * m.weights().size();
}

/// Writes a model's file to `out`, [encoded_bytes(m)]. `no_room` if that is another size; `inconsistent` if the model
/// is empty or too large to be loaded again. Values that are not finite are written, and rejected by loading.
[[nodiscard]] constexpr model_status encode_model(const linear_model& m, std::uint64_t fingerprint,
                                                  std::span<std::byte> out) noexcept {
  if (m.dimension() == 0 || m.dimension() > detail::model_max_dimension) return model_status::inconsistent;
  if (out.size() != encoded_bytes(m)) return model_status::no_room;
  const float bias = m.bias();
  detail::put_floats(out, detail::model_header, m.weights());
  detail::put_floats(out, detail::model_header + 4 * m.dimension(), {&bias, 1});
  detail::seal_model(out, {model_kind::linear, fingerprint, m.dimension(), 0, m.dimension() + 1});
  return model_status::ok;
}
/// The same for a network with one hidden layer.
[[nodiscard]] constexpr model_status encode_model(const mlp_model& m, std::uint64_t fingerprint,
                                                  std::span<std::byte> out) noexcept {
  if (m.dimension() == 0 || m.dimension() > detail::model_max_dimension) return model_status::inconsistent;
  if (out.size() != encoded_bytes(m)) return model_status::no_room;
  detail::put_floats(out, detail::model_header, m.weights());
  detail::seal_model(out, {model_kind::mlp, fingerprint, m.dimension(), m.hidden(), m.weights().size()});
  return model_status::ok;
}

}  // namespace rank
TESSERA_NAMESPACE_END
