// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/sim/input/input.hpp>
#include <tessera/sim/model/profile_file.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// One line of telemetry: a JSON object with members that are asked for by name. Whatever is wrong is an error that
/// names file, line, column and what was expected.

namespace control_plane {

namespace sim = tessera::sim;

class line {
 public:
  line(const std::string& file, std::uint64_t number, std::string_view text)
      : file_{file}, number_{number}, text_{text} {
    sim::detail::json_checker checker;
    if (!nlohmann::json::sax_parse(text, &checker)) {
      throw sim::input_error{file_,
                             {number_, checker.offset + 1},
                             checker.expected("a JSON object"),
                             sim::shown(text.substr(checker.offset))};
    }
    root_ = nlohmann::json::parse(text);
    if (!root_.is_object()) fail({}, "a JSON object");
  }

  using path = std::vector<std::string>;

  [[nodiscard]] bool has(const char* key) const { return root_.contains(key); }
  [[nodiscard]] const nlohmann::json& root() const noexcept { return root_; }

  /// The value at `where`, or null if there is none.
  [[nodiscard]] const nlohmann::json* find(const path& where) const {
    const nlohmann::json* at = &root_;
    for (const std::string& step : where) {
      if (at->is_array()) {
        at = &(*at)[static_cast<std::size_t>(std::stoul(step))];
      } else {
        const auto it = at->is_object() ? at->find(step) : at->end();
        if (!at->is_object() || it == at->end()) return nullptr;
        at = &*it;
      }
    }
    return at;
  }
  /// A whole number in [least, most].
  [[nodiscard]] std::int64_t whole(const path& where, std::int64_t least, std::int64_t most) const {
    const std::string expected = fmt::format("a whole number from {} to {} as \"{}\"", least, most, where.back());
    const nlohmann::json& v = get(where, expected);
    const double x = v.is_number() ? v.get<double>() : std::nan("");
    if (!(x >= static_cast<double>(least) && x <= static_cast<double>(most)) || x != std::floor(x))
      fail(where, expected);
    return v.get<std::int64_t>();
  }
  [[nodiscard]] std::int64_t whole(const path& where, std::int64_t least, std::int64_t most,
                                   std::int64_t otherwise) const {
    return find(where) == nullptr ? otherwise : whole(where, least, most);
  }
  /// A number above 0.
  [[nodiscard]] double positive(const path& where) const {
    const std::string expected = fmt::format("a number above 0, at most 1e30, as \"{}\"", where.back());
    const nlohmann::json& v = get(where, expected);
    const double x = v.is_number() ? v.get<double>() : 0;
    if (!(x > 0 && x <= 1e30)) fail(where, expected);
    return x;
  }
  [[nodiscard]] bool flag(const path& where, bool otherwise) const {
    const nlohmann::json* v = find(where);
    if (v == nullptr) return otherwise;
    if (!v->is_boolean()) fail(where, fmt::format("true or false as \"{}\"", where.back()));
    return v->get<bool>();
  }
  /// The length of an array; 0 if there is none.
  [[nodiscard]] std::size_t size(const char* key) const {
    const nlohmann::json* v = find({key});
    if (v == nullptr) return 0;
    if (!v->is_array()) fail({key}, fmt::format("an array as \"{}\"", key));
    return v->size();
  }

  /// @param where the value that is wrong, or is missing in what is.
  [[noreturn]] void fail(path where, const std::string& expected) const {
    std::string_view found = "none";
    std::size_t column = 0;
    if (find(where) != nullptr) {
      const auto place = sim::detail::json_locator{text_}.find(where);
      column = place.value;
      throw sim::input_error{
          file_, {number_, column + 1}, expected, sim::shown(text_.substr(column, place.end - column))};
    }
    where.pop_back();
    column = sim::detail::json_locator{text_}.find(where).value;
    throw sim::input_error{file_, {number_, column + 1}, expected, found};
  }

 private:
  [[nodiscard]] const nlohmann::json& get(const path& where, const std::string& expected) const {
    const nlohmann::json* v = find(where);
    if (v == nullptr) fail(where, expected);
    return *v;
  }

  const std::string& file_;
  std::uint64_t number_;
  std::string_view text_;
  nlohmann::json root_;
};

}  // namespace control_plane
