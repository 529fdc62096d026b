// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/rank/features.hpp>

#include "support/allocation_guard.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace tessera::rank;
using tessera_test::approx;

std::vector<feature> features_of(std::string_view text, const hashed_features& f = hashed_features{}) {
  std::vector<feature> out(f.max_features());
  out.resize(extract(f, text, out));
  std::sort(out.begin(), out.end(), [](const feature& a, const feature& b) {
    return a.index != b.index ? a.index < b.index : a.value < b.value;
  });
  return out;
}

bool is_word(unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c >= 0x80; }

/// The tokens of a text, the slow way.
std::vector<std::string> tokens_of(const std::string& text) {
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i != text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (is_word(c)) {
      std::string word;
      for (; i != text.size() && is_word(static_cast<unsigned char>(text[i])); ++i) word += text[i];
      tokens.push_back(word);
      continue;
    }
    if (c == '\n' || (c > ' ' && c != 0x7f)) tokens.emplace_back(1, text[i]);
    ++i;
  }
  return tokens;
}

/// How many features a text of at most one window has, from its tokens.
std::size_t count_by_definition(const std::string& text) {
  const auto t = tokens_of(text);
  const std::size_t n = t.size();
  const auto first_line = static_cast<std::size_t>(std::find(t.begin(), t.end(), "\n") - t.begin());
  std::size_t grams = 0;
  for (const auto& w : t) {
    if (is_word(static_cast<unsigned char>(w[0])) && !(w[0] >= '0' && w[0] <= '9')) grams += w.size() - 1;
  }
  return n + (n > 1 ? n - 1 : 0) + (n > 2 ? n - 2 : 0) + first_line + std::min<std::size_t>(n, 8) +
         2 * std::min<std::size_t>(n, 4) + grams + 22;
}

std::string random_text(std::mt19937& random, std::size_t n, bool any_byte) {
  static constexpr std::string_view usual = "abcdefXYZ 0123  .,?!'\"()[]{}\n\t_";
  std::string s;
  for (std::size_t i = 0; i != n; ++i) {
    s += any_byte ? static_cast<char>(random() & 0xff) : usual[random() % usual.size()];
  }
  return s;
}

TEST_CASE("hashed features: every group has as many as the tokens say") {
  std::mt19937 random{1};
  CHECK(features_of("").size() == 22);
  CHECK(features_of("a").size() == count_by_definition("a"));
  for (int round = 0; round != 300; ++round) {
    const std::string text = random_text(random, random() % 200, round % 2 == 0);
    REQUIRE(features_of(text).size() == count_by_definition(text));
  }
}

TEST_CASE("hashed features: any bytes are safe and within bounds") {
  std::mt19937 random{2};
  const hashed_features f{10};
  std::vector<feature> out(f.max_features());
  for (int round = 0; round != 300; ++round) {
    const std::size_t n = round < 200 ? random() % 300 : hashed_features::window - 3 + random() % 6000;
    const std::string text = random_text(random, n, round % 3 != 0);
    const std::size_t count = extract(f, text, out);
    REQUIRE(count < out.size());  // the bound is not tight
    for (std::size_t i = 0; i != count; ++i) {
      REQUIRE(out[i].index < f.dimension());
      REQUIRE(std::isfinite(out[i].value));
      REQUIRE(out[i].value >= 0);
    }
  }
  // The texts with the most features for their size: punctuation only, one-letter words, one word.
  for (const auto* const unit : {"!", "a ", "ab", "\n", "a!"}) {
    std::string text;
    while (text.size() < 3 * hashed_features::window) text += unit;
    for (const std::size_t n : {hashed_features::window - 1, hashed_features::window, hashed_features::window + 1}) {
      REQUIRE(extract(f, std::string_view{text}.substr(0, n), out) < out.size());
    }
    REQUIRE(extract(f, text, out) < out.size());
  }
}

TEST_CASE("hashed features: a text longer than the window counts by its start, its end and its length") {
  const std::size_t w = hashed_features::window;
  std::string text(4 * w, 'x');
  std::mt19937 random{3};
  for (char& c : text) c = random() % 5 == 0 ? ' ' : static_cast<char>('a' + random() % 26);
  const auto all = features_of(text);
  std::string middle = text;
  for (std::size_t i = w; i != 3 * w; ++i) middle[i] = '!';
  CHECK(features_of(middle) == all);
  std::string start = text;
  start.replace(100, 3, "!!!");
  CHECK(features_of(start) != all);
  std::string end = text;
  end.replace(end.size() - 100, 3, "!!!");
  CHECK(features_of(end) != all);
  // Three quarters of the window from the start, one from the end, to the byte.
  const auto changed = [&](std::size_t at) {
    std::string other = text;
    other[at] = '!';
    return features_of(other) != all;
  };
  CHECK(changed(w / 4 * 3 - 1));
  CHECK_FALSE(changed(w / 4 * 3));
  CHECK_FALSE(changed(text.size() - w / 4 - 1));
  CHECK(changed(text.size() - w / 4));
  std::string longer = text;
  longer.insert(2 * w, std::string(4 * w, 'y'));
  CHECK(features_of(longer) != all);
}

TEST_CASE("hashed features: case and digits do not matter to words, everything else does") {
  const hashed_features f;
  const auto lexical = [&](std::string_view text) {
    auto v = features_of(text);
    v.erase(std::remove_if(v.begin(), v.end(), [&](const feature& x) { return x.index >= f.lexical_dimension(); }),
            v.end());
    return v;
  };
  CHECK(lexical("Write 123 lines") == lexical("write 456 LINES"));
  CHECK(lexical("write  123\tlines") == lexical("write 123 lines"));
  CHECK(lexical("write 123 lines") != lexical("write 1234 lines"));
  CHECK(lexical("write lines") != lexical("lines write"));
  CHECK(lexical("a\nb") != lexical("a b"));
  CHECK(lexical("\xc3\xa4pfel") != lexical("\xc3\xb6pfel"));
  CHECK(features_of("Write lines") != features_of("write lines"));  // a capital is part of the shape
}

TEST_CASE("hashed features: values of a group have the same squared sum for short and long prompts") {
  // The squares for the words of a text without any repetition, by what a text of one word adds.
  const hashed_features f;
  const auto squares = [&](std::string_view text) {
    double s = 0;
    for (const feature& x : features_of(text)) {
      if (x.index < f.lexical_dimension()) s += static_cast<double>(x.value) * static_cast<double>(x.value);
    }
    return s;
  };
  const std::string a = "one two three four five six seven eight";
  std::string b = a;
  for (int i = 0; i != 5; ++i) b += " " + a;
  CHECK(squares(a) == approx(squares(b)).epsilon(0.01));
}

TEST_CASE("hashed features: a counter is shared by two neighbouring buckets") {
  const hashed_features f;
  for (const std::string& text : {std::string{}, std::string{"Why?"}, std::string(700, 'x'), std::string(99, ',')}) {
    std::vector<double> shape(f.dimension() - f.lexical_dimension(), 0.0);
    for (const feature& x : features_of(text)) {
      if (x.index >= f.lexical_dimension()) shape[x.index - f.lexical_dimension()] += static_cast<double>(x.value);
    }
    REQUIRE(shape.size() == hashed_features::shape_counters * hashed_features::shape_buckets);
    const double unit = shape[hashed_features::shape_buckets * 6] +
                        shape[hashed_features::shape_buckets * 6 + 3];  // question marks: none, or one: log2(2) * 3
    REQUIRE(unit > 0);
    for (std::size_t c = 0; c != hashed_features::shape_counters; ++c) {
      double sum = 0;
      double middle = 0;
      std::size_t used = 0;
      for (std::size_t b = 0; b != hashed_features::shape_buckets; ++b) {
        const double v = shape[c * hashed_features::shape_buckets + b];
        sum += v;
        middle += v * static_cast<double>(b);
        used += v > 0;
      }
      CHECK(sum == approx(unit));
      CHECK((used == 1 || used == 2));
      // The first counts bytes, three buckets a doubling.
      if (c == 0) CHECK(middle / sum == approx(3 * std::log2(1.0 + static_cast<double>(text.size()))).margin(0.04));
    }
  }
}

TEST_CASE("hashed features: soft buckets follow the logarithm") {
  using tessera::rank::detail::inverse_root;
  using tessera::rank::detail::log2_1p;
  float last = -1;
  for (std::size_t n = 0; n < 100000; n += 1 + n / 50) {
    const float v = log2_1p(n);
    REQUIRE(std::abs(static_cast<double>(v) - std::log2(1.0 + static_cast<double>(n))) < 0.012);
    REQUIRE(v > last);
    last = v;
    if (n != 0)
      REQUIRE(static_cast<double>(inverse_root(n)) == approx(1 / std::sqrt(static_cast<double>(n))).epsilon(1e-6));
  }
}

TEST_CASE("extract fills what there is, allocates nothing and repeats itself") {
  const hashed_features f;
  const std::string text = "Explain, in two sentences, why the sky is blue.\nAnswer like a poet.";
  const auto all = features_of(text);
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, all.size() - 1, all.size(), all.size() + 1}) {
    std::vector<feature> out(n);
    tessera_test::no_allocation guard;
    const std::size_t count = extract(f, text, out);
    const auto allocations = guard.allocations();
    CHECK(allocations == 0);
    CHECK(count == std::min(n, all.size()));
  }
  CHECK(features_of(text) == all);
}

TEST_CASE("fingerprints tell extractors apart") {
  CHECK(hashed_features{16}.fingerprint() != hashed_features{17}.fingerprint());
  CHECK(hashed_features{16}.fingerprint() == hashed_features{16}.fingerprint());
  CHECK(hashed_features{}.bits() == hashed_features::default_bits);
}

}  // namespace
