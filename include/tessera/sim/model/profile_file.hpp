// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/input/input.hpp>
#include <tessera/sim/input/json_text.hpp>
#include <tessera/sim/model/profiles.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// Profiles as JSON files: the user's own, beside the built-in ones.

TESSERA_NAMESPACE_BEGIN

namespace sim {

namespace detail {

/// A term of `step_terms` in a file: its name, its member, and its range.
struct term_key {
  const char* name;
  double step_terms::*value;
  double least;
  double most;
};
inline constexpr std::array<term_key, 10> term_keys{
    {{"kv_bandwidth_efficiency", &step_terms::kv_bandwidth_efficiency, 0, 10},
     {"attention_flops_efficiency", &step_terms::attention_flops_efficiency, 0, 10},
     {"knee", &step_terms::knee, 0, 1000},
     {"request_seconds", &step_terms::request_seconds, 0, 1},
     {"token_seconds", &step_terms::token_seconds, 0, 1},
     {"least_context", &step_terms::least_context, 0, 1e6},
     {"mixed_kv_factor", &step_terms::mixed_kv_factor, 1, 100},
     {"longest_history_factor", &step_terms::longest_history_factor, 0, 1000},
     {"host_step_seconds", &step_terms::host_step_seconds, 0, 10},
     {"host_request_seconds", &step_terms::host_request_seconds, 0, 100}}};

}  // namespace detail

/// A profile as JSON, with every key that `parse_profile` requires: a start for your own. Optional keys are included
/// only if they are not neutral.
[[nodiscard]] std::string to_json(const profile& p);

namespace detail {

/// One JSON object of a profile, read key by key. Errors name the key, the line and the column.
class profile_reader {
 public:
  profile_reader(std::string_view text, std::string_view name, const nlohmann::json& value,
                 std::vector<std::string> path = {})
      : text_{text}, name_{name}, value_{value}, path_{std::move(path)} {
    if (!value_.is_object()) fail(path_, label({}) + ", an object", found(path_));
  }

  /// Rejects keys other than these.
  void allow(std::initializer_list<std::string_view> keys) const {
    allow(std::vector<std::string_view>{keys.begin(), keys.end()});
  }
  void allow(const std::vector<std::string_view>& keys) const {
    for (const auto& item : value_.items()) {
      if (std::find(keys.begin(), keys.end(), item.key()) != keys.end()) continue;
      const auto place = json_locator{text_}.find(sub(item.key()));
      throw input_error{name_, position_of(text_, place.key),
                        fmt::format("only the keys {} in {}", fmt::join(keys, ", "), label({})), shown(item.key())};
    }
  }

  [[nodiscard]] bool has(std::string_view key) const { return value_.contains(std::string{key}); }

  [[nodiscard]] std::string text(std::string_view key) const {
    const nlohmann::json& v = member(key, "a text");
    if (!v.is_string()) fail(sub(key), label(key) + ", a text", found(sub(key)));
    return v.get<std::string>();
  }

  /// A number in [least, most], or in (least, most] if `open`.
  [[nodiscard]] double number(std::string_view key, double least, double most, bool open = false) const {
    const std::string what = fmt::format("a number {} {:g}, at most {:g}", open ? "above" : "of at least", least, most);
    const nlohmann::json& v = member(key, what);
    const double x = v.is_number() ? v.get<double>() : std::nan("");
    if (!(open ? x > least : x >= least) || !(x <= most)) fail(sub(key), label(key) + ", " + what, found(sub(key)));
    return x;
  }

  [[nodiscard]] std::int64_t whole(std::string_view key, std::int64_t least, std::int64_t most) const {
    const std::string what = fmt::format("a whole number from {} to {}", least, most);
    const nlohmann::json& v = member(key, what);
    const double x = v.is_number() ? v.get<double>() : std::nan("");
    if (!(x >= static_cast<double>(least)) || !(x <= static_cast<double>(most)) || x != std::floor(x)) {
      fail(sub(key), label(key) + ", " + what, found(sub(key)));
    }
    return static_cast<std::int64_t>(x);
  }

  [[nodiscard]] profile_reader object(std::string_view key) const {
    return {text_, name_, member(key, "an object"), sub(key)};
  }

  /// The objects in the array `key`.
  [[nodiscard]] std::vector<profile_reader> objects(std::string_view key) const {
    const nlohmann::json& v = member(key, "an array");
    if (!v.is_array() || v.empty()) fail(sub(key), label(key) + ", an array of at least one object", found(sub(key)));
    std::vector<profile_reader> readers;
    readers.reserve(v.size());
    for (std::size_t i = 0; i < v.size(); ++i) {
      auto path = sub(key);
      path.push_back(std::to_string(i));
      readers.push_back({text_, name_, v[i], std::move(path)});
    }
    return readers;
  }

  /// Rejects the value of `key`; empty: this object as a whole.
  [[noreturn]] void refuse(std::string_view key, const std::string& expected, const std::string& instead) const {
    fail(key.empty() ? path_ : sub(key), expected, instead);
  }

 private:
  [[nodiscard]] const nlohmann::json& member(std::string_view key, const std::string& what) const {
    const auto it = value_.find(std::string{key});
    if (it == value_.end()) {
      fail(path_, fmt::format("the key {} ({})", label(key), what), "an object without it");
    }
    return *it;
  }

  [[nodiscard]] std::vector<std::string> sub(std::string_view key) const {
    auto path = path_;
    path.emplace_back(key);
    return path;
  }

  [[nodiscard]] std::string label(std::string_view key) const {
    auto path = path_;
    if (!key.empty()) path.emplace_back(key);
    return path.empty() ? std::string{"a profile"} : fmt::format("{}", fmt::join(path, "."));
  }

  [[nodiscard]] std::string found(const std::vector<std::string>& path) const {
    const auto place = json_locator{text_}.find(path);
    return shown(text_.substr(place.value, place.end - place.value));
  }

  [[noreturn]] void fail(const std::vector<std::string>& path, const std::string& expected,
                         const std::string& instead) const {
    throw input_error{name_, position_of(text_, json_locator{text_}.find(path).value), expected, instead};
  }

  std::string_view text_;
  std::string_view name_;
  const nlohmann::json& value_;
  std::vector<std::string> path_;
};

}  // namespace detail

/// Reads a profile from JSON: the keys of `to_json`, no others. The keys of name, model, gpu and links are required,
/// except for the experts and the multiprocessors. Other missing keys are neutral.
/// @param file its name in messages.
/// @throws input_error at the first bad key or value.
[[nodiscard]] profile parse_profile(std::string_view text, std::string_view file);

/// The built-in profile of that name, or the file of that name if it has a `/` or ends in `.json`.
/// @throws usage_error that lists the built-in ones; input_error for a bad file.
[[nodiscard]] profile load_profile(const std::string& name_or_path);

}  // namespace sim
TESSERA_NAMESPACE_END
