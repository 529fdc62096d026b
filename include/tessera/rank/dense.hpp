// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/rank/concepts.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

/// @file
/// Embeddings of a user's own encoder as features: alone, or beside the hashed ones.

TESSERA_NAMESPACE_BEGIN
namespace rank {

/// An embedding as features: coordinate i becomes feature i. The model learns on exactly the values given, so scale
/// them alike when training and when scoring (sentence encoders usually give unit vectors).
class dense_features {
 public:
  using input_type = std::span<const float>;  ///< The input: one per example.

  constexpr dense_features() noexcept = default;
  /// Embeddings of `dimension` floats, from the encoder named `encoder`: any number except 0, different for another
  /// encoder. It goes into the fingerprint and so into model files.
  constexpr explicit dense_features(std::size_t dimension, std::uint32_t encoder = 1) noexcept
      : dimension_{dimension}, encoder_{encoder} {}

  /// Number of features; indices are below it.
  [[nodiscard]] constexpr std::size_t dimension() const noexcept { return dimension_; }
  /// Features below this index are hashed words, with weights scaled by their rarity.
  [[nodiscard]] constexpr std::size_t lexical_dimension() const noexcept { return 0; }
  /// Most features that one input can have.
  [[nodiscard]] constexpr std::size_t max_features() const noexcept { return dimension_; }
  /// Identifies the kind and the parameters of the features: a model fits only features with the same number.
  [[nodiscard]] constexpr std::uint64_t fingerprint() const noexcept {
    return (std::uint64_t{0x64656e73u} ^ static_cast<std::uint64_t>(dimension_)) << 32 | encoder_;
  }

  /// Visits `embedding`, [dimension]. Requires that size (asserted). A value that is not finite counts as 0.
  template <class Sink>
  constexpr void visit(std::span<const float> embedding, Sink&& sink) const noexcept {
    TESSERA_ASSERT(embedding.size() == dimension_, "the embedding does not have the features' dimension");
    for (std::size_t i = 0; i != dimension_; ++i) {
      const bool finite = (std::bit_cast<std::uint32_t>(embedding[i]) & 0x7f800000u) != 0x7f800000u;
      sink(static_cast<std::uint32_t>(i), finite ? embedding[i] : 0.0f);
    }
  }

 private:
  std::size_t dimension_ = 0;
  std::uint32_t encoder_ = 1;
};

/// Two extractors side by side; the second one's indices follow the first one's. Its lexical part must be empty
/// (asserted), so that the lexical indices stay in front.
template <prompt_features First, prompt_features Second>
class joined_features {
 public:
  /// The input: one per example.
  struct input_type {
    typename First::input_type first{};    ///< Read by the first features.
    typename Second::input_type second{};  ///< Read by the second.
  };

  /// The indices of `second` follow those of `first`.
  constexpr joined_features(First first, Second second) noexcept : first_{first}, second_{second} {
    TESSERA_ASSERT(second.lexical_dimension() == 0, "the second extractor must have no lexical features");
  }

  /// Number of features; indices are below it.
  [[nodiscard]] constexpr std::size_t dimension() const noexcept { return first_.dimension() + second_.dimension(); }
  /// Features below this index are hashed words, with weights scaled by their rarity.
  [[nodiscard]] constexpr std::size_t lexical_dimension() const noexcept { return first_.lexical_dimension(); }
  /// Most features that one input can have.
  [[nodiscard]] constexpr std::size_t max_features() const noexcept {
    return first_.max_features() + second_.max_features();
  }
  /// Identifies the kind and the parameters of the features: a model fits only features with the same number.
  [[nodiscard]] constexpr std::uint64_t fingerprint() const noexcept {
    return first_.fingerprint() * 0x9e3779b97f4a7c15u ^ second_.fingerprint();
  }

  /// Calls `sink(index, value)` for every feature. No allocation.
  template <class Sink>
  constexpr void visit(input_type input, Sink&& sink) const noexcept {
    first_.visit(input.first, sink);
    const auto offset = static_cast<std::uint32_t>(first_.dimension());
    second_.visit(input.second, [&](std::uint32_t index, float value) noexcept { sink(offset + index, value); });
  }

 private:
  First first_;
  Second second_;
};

/// Rows of float32, little-endian, one after the other without a header: the file that any encoder script can write
/// (`array.astype('<f4').tofile(...)`). A view over the file's bytes, which may be mapped and need no alignment.
class dense_rows {
 public:
  constexpr dense_rows() noexcept = default;
  /// @return rows over `file`, or an empty view with `valid()` false when it is no whole number of rows, or `dimension`
  /// is 0.
  [[nodiscard]] static constexpr dense_rows over(std::span<const std::byte> file, std::size_t dimension) noexcept {
    dense_rows rows;
    if (dimension == 0 || dimension > file.size() / 4 || file.size() % 4 != 0 || file.size() / 4 % dimension != 0) {
      return rows;
    }
    rows.file_ = file;
    rows.dimension_ = dimension;
    return rows;
  }

  /// Whether the rows could be read.
  [[nodiscard]] constexpr bool valid() const noexcept { return dimension_ != 0; }
  /// Number of features; indices are below it.
  [[nodiscard]] constexpr std::size_t dimension() const noexcept { return dimension_; }
  /// How many there are. O(1).
  [[nodiscard]] constexpr std::size_t size() const noexcept {
    return dimension_ == 0 ? 0 : file_.size() / 4 / dimension_;
  }

  /// Copies row `i` to `out`, [dimension]. Requires `i < size()` and `out.size() == dimension()` (asserted). Values
  /// that are not finite are copied unchanged: `dense_features` drops them.
  constexpr void read(std::size_t i, std::span<float> out) const noexcept {
    TESSERA_ASSERT(i < size() && out.size() == dimension_, "row or size out of range");
    const std::byte* p = file_.data() + i * dimension_ * 4;
    for (float& v : out) {
      std::uint32_t bits = 0;
      for (unsigned k = 0; k != 4; ++k) bits |= std::to_integer<std::uint32_t>(p[k]) << (8 * k);
      v = std::bit_cast<float>(bits);
      p += 4;
    }
  }

 private:
  std::span<const std::byte> file_{};
  std::size_t dimension_ = 0;
};

}  // namespace rank
TESSERA_NAMESPACE_END
