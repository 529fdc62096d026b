// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/rank/concepts.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

/// @file
/// The default features: the content of a prompt, hashed, without a vocabulary and without memory.
///
/// The text is cut into tokens: words, single punctuation characters, and line ends. A word has letters, digits, `_`
/// and all bytes from 0x80, so UTF-8 words stay whole. ASCII is lower-cased, and in a number every digit counts as 0.
/// Features, by group: words; pairs of neighbours. Pairs with one token between; words of the first line (where the
/// instruction stands). The first tokens with their positions; prefixes and suffixes of the token sequence. 4-grams of
/// characters inside words. And the shape: soft logarithmic buckets of length, lines, digits, punctuation, quotes,
/// brackets, capitals. A group's values are divided by the root of its size, so that long prompts do not drown short
/// ones.

TESSERA_NAMESPACE_BEGIN
namespace rank {
namespace detail {

/// A cheap invertible mix; the high bits are the good ones.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x *= 0x9e3779b97f4a7c15u;
  return x ^ (x >> 32);
}

enum byte_class : std::uint8_t { byte_blank = 0, byte_word = 1, byte_punctuation = 2, byte_line_end = 3 };

/// Per byte: class (bits 0, 1), digit (bit 2), upper case (bit 3), sentence end (4), quote (5), bracket (6), comma (7).
struct byte_table {
  std::uint8_t of[256]{};
  constexpr byte_table() noexcept {
    for (unsigned b = 0; b != 256; ++b) {
      const bool upper = b >= 'A' && b <= 'Z';
      const bool digit = b >= '0' && b <= '9';
      unsigned v = byte_blank;
      if (upper || digit || (b >= 'a' && b <= 'z') || b == '_' || b >= 0x80) {
        v = byte_word;
      } else if (b == '\n') {
        v = byte_line_end;
      } else if (b > ' ' && b != 0x7f) {
        v = byte_punctuation;
      }
      if (digit) v |= 1u << 2;
      if (upper) v |= 1u << 3;
      if (b == '.' || b == '?' || b == '!') v |= 1u << 4;
      if (b == '\'' || b == '"') v |= 1u << 5;
      if (b == '[' || b == ']' || b == '(' || b == ')' || b == '{' || b == '}' || b == '<' || b == '>') v |= 1u << 6;
      if (b == ',') v |= 1u << 7;
      of[b] = static_cast<std::uint8_t>(v);
    }
  }
};
inline constexpr byte_table bytes_of{};

/// log2(1 + n) to about 0.01, from the bits of a float: continuous, increasing, no libm call.
[[nodiscard]] constexpr float log2_1p(std::size_t n) noexcept {
  const float x = static_cast<float>(n) + 1.0f;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const float exponent = static_cast<float>(static_cast<int>(bits >> 23) - 127);
  const float m = std::bit_cast<float>((bits & 0x7fffffu) | 0x3f800000u) - 1.0f;  // mantissa, [0, 1)
  return exponent + m * (1.3465f - 0.3465f * m);
}

/// 1 / sqrt(n) for a group's size. n >= 1.
[[nodiscard]] inline float inverse_root(std::size_t n) noexcept {
  // Four Newton steps from the exponent-halving start: exact to the last bits, and no dependence on errno or libm.
  const float x = static_cast<float>(n);
  float y = std::bit_cast<float>(0x5f3759dfu - (std::bit_cast<std::uint32_t>(x) >> 1));
  for (int i = 0; i != 4; ++i) y = y * (1.5f - 0.5f * x * y * y);
  return y;
}

}  // namespace detail

/// Features of UTF-8 text, or of any bytes. A value of a few bytes. Does not allocate; uses 33 KiB of stack.
///
/// Complexity of `visit`: O(min(length, window)). If a text is longer than `window` bytes, only the first three
/// quarters and the last quarter of the window are read. (An instruction stands at the start or at the end.) Its length
/// is still known.
class hashed_features {
 public:
  using input_type = std::string_view;  ///< The input: one per example.

  static constexpr std::size_t window = 4096;        ///< Bytes read at most.
  static constexpr unsigned default_bits = 17;       ///< 2^17 weights: 512 KiB.
  static constexpr std::size_t shape_counters = 11;  ///< Counted properties of a prompt.
  static constexpr std::size_t shape_buckets = 64;   ///< Soft buckets per property.

  constexpr hashed_features() noexcept = default;
  /// Hashes into 2^bits buckets. Requires 8 <= bits <= 24.
  constexpr explicit hashed_features(unsigned bits) noexcept : bits_{bits} {
    TESSERA_ASSERT(bits >= 8 && bits <= 24, "hashed_features takes 8 to 24 bits");
  }

  /// log2 of the size of the hash table.
  [[nodiscard]] constexpr unsigned bits() const noexcept { return bits_; }
  /// Features below this index are hashed words, with weights scaled by their rarity.
  [[nodiscard]] constexpr std::size_t lexical_dimension() const noexcept { return std::size_t{1} << bits_; }
  /// Number of features; indices are below it.
  [[nodiscard]] constexpr std::size_t dimension() const noexcept {
    return lexical_dimension() + shape_counters * shape_buckets;
  }
  /// At most five features a token (a token is at least a byte), one 4-gram a byte, and the fixed ones.
  [[nodiscard]] constexpr std::size_t max_features() const noexcept {
    return 5 * window + first_tokens + edge + edge + 2 * shape_counters + 1;
  }
  /// Changes whenever the features do. The low byte is `bits()`.
  [[nodiscard]] constexpr std::uint64_t fingerprint() const noexcept {
    return std::uint64_t{0x7465737365726101u} << 8 | bits_;
  }

  /// Calls `sink(index, value)` for each feature of `text`.
  template <class Sink>
  void visit(std::string_view text, Sink&& sink) const noexcept {
    scan s;
    if (text.size() <= window) {
      read(text, s);
    } else {
      read(text.substr(0, window / 4 * 3), s);
      read(text.substr(text.size() - window / 4), s);
    }
    emit_words(s, sink);
    emit_grams(s, sink);
    emit_shape(text.size(), s, sink);
  }

 private:
  static constexpr std::size_t first_tokens = 8;  ///< The number of first tokens with positions.
  static constexpr std::size_t edge = 4;          ///< Longest prefix and suffix.
  /// The weight of each group: the root of its share in the squared length of a feature vector, over its typical
  /// length.
  static constexpr float word_weight = 0.0404f;
  static constexpr float pair_weight = 0.0649f;
  static constexpr float gap_weight = 0.0553f;
  static constexpr float line_weight = 0.0928f;
  static constexpr float place_weight = 0.0525f;
  static constexpr float prefix_weight = 0.0318f;
  static constexpr float suffix_weight = 0.0290f;
  static constexpr float gram_weight = 0.0910f;
  static constexpr float shape_weight = 0.0893f;

  enum group : std::uint64_t { word = 1, pair, gap, line, place, prefix, suffix, gram };

  struct scan {
    std::uint32_t token[window];  ///< A number per token.
    std::uint32_t gram[window];   ///< Four bytes each, from `<word>`, brackets included. n - 1 for a word of n bytes.
    std::size_t tokens = 0;
    std::size_t first_line = 0;  ///< Tokens before the first line end.
    std::size_t grams = 0;
    std::size_t line_ends = 0;
    std::size_t digits = 0, capitals = 0, sentence_ends = 0, quotes = 0, brackets = 0, commas = 0, punctuation = 0,
                questions = 0;
    scan() noexcept {}  // leaves the arrays uninitialised
  };

  [[nodiscard]] constexpr std::uint32_t bucket(std::uint64_t h) const noexcept {
    return static_cast<std::uint32_t>(detail::mix(h) >> (64 - bits_));
  }
  [[nodiscard]] static constexpr std::uint64_t salted(group g, std::uint64_t a) noexcept {
    return (a + (static_cast<std::uint64_t>(g) << 32)) * 0xd6e8feb86659fd93u;
  }
  [[nodiscard]] static constexpr std::uint64_t salted(group g, std::uint64_t a, std::uint64_t b) noexcept {
    return salted(g, a) ^ (b * 0xa0761d6478bd642fu);
  }
  [[nodiscard]] static constexpr unsigned lower(unsigned b) noexcept { return b >= 'A' && b <= 'Z' ? b + 32 : b; }

  static void read(std::string_view text, scan& s) noexcept {
    const auto* p = reinterpret_cast<const unsigned char*>(text.data());
    const auto* const end = p + text.size();
    while (p != end) {
      const unsigned kind = detail::bytes_of.of[*p];
      switch (kind & 3u) {
        case detail::byte_blank: ++p; break;
        case detail::byte_line_end:
          if (s.line_ends++ == 0) s.first_line = s.tokens;
          s.token[s.tokens++] = '\n';
          ++p;
          break;
        case detail::byte_punctuation:
          ++s.punctuation;
          s.sentence_ends += kind >> 4 & 1u;
          s.quotes += kind >> 5 & 1u;
          s.brackets += kind >> 6 & 1u;
          s.commas += kind >> 7 & 1u;
          s.questions += *p == '?';
          s.token[s.tokens++] = *p++;
          break;
        default: {
          const bool number = (kind & 4u) != 0;
          std::uint64_t h = 0;
          std::uint32_t last = '<';
          const auto* const first = p;
          std::uint32_t* const grams = s.gram + s.grams;
          std::size_t n = 0;
          for (unsigned k = kind; (k & 3u) == detail::byte_word;) {
            s.digits += k >> 2 & 1u;
            s.capitals += k >> 3 & 1u;
            const unsigned c = number && (k & 4u) != 0 ? unsigned{'0'} : lower(*p);
            h = std::rotl(h, 7) + c;
            last = last << 8 | c;
            grams[n] = last;
            n += static_cast<std::size_t>(p - first >= 2);
            if (++p == end) break;
            k = detail::bytes_of.of[*p];
          }
          if (!number && p - first >= 2) {
            grams[n++] = last << 8 | unsigned{'>'};
            s.grams += n;
          }
          s.token[s.tokens++] = static_cast<std::uint32_t>(detail::mix(h) >> 32) | 0x100u;  // differs from every
                                                                                            // punctuation's code
        }
      }
    }
  }

  template <class Sink>
  void emit_words(const scan& s, Sink& sink) const noexcept {
    const std::size_t n = s.tokens;
    if (n == 0) return;
    const std::uint32_t* const t = s.token;
    float v = word_weight * detail::inverse_root(n);
    for (std::size_t i = 0; i != n; ++i) sink(bucket(salted(word, t[i])), v);
    if (n > 1) {
      v = pair_weight * detail::inverse_root(n - 1);
      for (std::size_t i = 0; i + 1 < n; ++i) sink(bucket(salted(pair, t[i], t[i + 1])), v);
    }
    if (n > 2) {
      v = gap_weight * detail::inverse_root(n - 2);
      for (std::size_t i = 0; i + 2 < n; ++i) sink(bucket(salted(gap, t[i], t[i + 2])), v);
    }
    const std::size_t in_line = s.line_ends == 0 ? n : s.first_line;
    if (in_line != 0) {
      v = line_weight * detail::inverse_root(in_line);
      for (std::size_t i = 0; i != in_line; ++i) sink(bucket(salted(line, t[i])), v);
    }
    const std::size_t head = n < first_tokens ? n : first_tokens;
    v = place_weight * detail::inverse_root(head);
    for (std::size_t i = 0; i != head; ++i) sink(bucket(salted(place, t[i], i + 1)), v);
    const std::size_t ends = n < edge ? n : edge;
    std::uint64_t from_start = 0;
    std::uint64_t from_end = 0;
    const float vp = prefix_weight * detail::inverse_root(ends);
    const float vs = suffix_weight * detail::inverse_root(ends);
    for (std::size_t i = 0; i != ends; ++i) {
      from_start = detail::mix(from_start + t[i] + 1);
      from_end = detail::mix(from_end + t[n - 1 - i] + 1);
      sink(bucket(salted(prefix, from_start)), vp);
      sink(bucket(salted(suffix, from_end)), vs);
    }
  }

  template <class Sink>
  void emit_grams(const scan& s, Sink& sink) const noexcept {
    if (s.grams == 0) return;
    const float v = gram_weight * detail::inverse_root(s.grams);
    for (std::size_t i = 0; i != s.grams; ++i) sink(bucket(salted(gram, s.gram[i])), v);
  }

  template <class Sink>
  void emit_shape(std::size_t length, const scan& s, Sink& sink) const noexcept {
    const std::size_t in_line = s.line_ends == 0 ? s.tokens : s.first_line;
    const struct {
      std::size_t n;
      float steps;  // buckets per doubling
    } counter[shape_counters] = {{length, 3},          {in_line, 3},       {s.tokens - in_line, 3},   {s.line_ends, 3},
                                 {s.digits, 2},        {s.punctuation, 2}, {s.questions, 3},          {s.capitals, 2},
                                 {s.sentence_ends, 3}, {s.commas, 2},      {s.quotes + s.brackets, 2}};
    auto base = static_cast<std::uint32_t>(lexical_dimension());
    constexpr float v = shape_weight;
    for (const auto& c : counter) {
      const float z = detail::log2_1p(c.n) * c.steps;
      auto b = static_cast<std::uint32_t>(z);
      if (b > shape_buckets - 2) b = static_cast<std::uint32_t>(shape_buckets - 2);
      float f = z - static_cast<float>(b);
      if (f > 1.0f) f = 1.0f;
      sink(base + b, v * (1.0f - f));
      sink(base + b + 1, v * f);
      base += static_cast<std::uint32_t>(shape_buckets);
    }
  }

  unsigned bits_ = default_bits;
};

}  // namespace rank
TESSERA_NAMESPACE_END
