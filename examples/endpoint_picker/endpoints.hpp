// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/error.hpp>
#include <tessera/sim/input/input.hpp>
#include <tessera/sim/input/json_text.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <arpa/inet.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// The file that says which endpoints there are:
///
///   {"endpoints": [{"address": "10.0.0.1:8000", "role": "mixed", "labels": {"model": "llama"},
///                   "lengths": [0, 8192], "kv_tokens": 400000}],
///    "objectives": {"batch": -1}}
///
/// Everything but an address may be left out.

namespace endpoint_picker {

/// An address as the protocol writes it: `IP:PORT`, an IPv6 address in brackets.
struct address {
  std::string ip;
  std::uint16_t port = 0;
  bool v6 = false;
};

/// The address that a text is, if it is one.
[[nodiscard]] inline std::optional<address> read_address(std::string_view text) {
  address a;
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return std::nullopt;
  std::string_view ip = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  a.v6 = ip.size() > 2 && ip.front() == '[' && ip.back() == ']';
  if (a.v6) ip = ip.substr(1, ip.size() - 2);
  a.ip = ip;
  unsigned char bytes[16];
  if (inet_pton(a.v6 ? AF_INET6 : AF_INET, a.ip.c_str(), bytes) != 1) return std::nullopt;
  const auto [end, wrong] = std::from_chars(port.data(), port.data() + port.size(), a.port);
  if (wrong != std::errc{} || end != port.data() + port.size() || a.port == 0) return std::nullopt;
  return a;
}

/// An endpoint as the file has it.
struct endpoint {
  std::string where{};                ///< Its address.
  bool takes_requests = true;         ///< False of a `prefill` one: clients' requests do not go there.
  std::string model{};                ///< Its label `model`: requests for another one do not go there. Empty: any.
  std::uint64_t from = 0;             ///< It takes prompts of at least this many tokens,
  std::optional<std::uint64_t> to{};  ///< and less than this.
  std::uint64_t kv_tokens = 0;        ///< What it has KV for, if it does not say so itself.

  friend bool operator==(const endpoint&, const endpoint&) = default;
};

/// All of the file.
struct endpoint_list {
  std::vector<endpoint> endpoints;
  std::map<std::string, std::int64_t, std::less<>> objectives;  ///< Priorities by name; below 0 a request may be shed.
};

namespace detail {

/// Takes a file apart. Whatever is wrong is an error that says where.
class endpoint_reader {
 public:
  endpoint_reader(const std::string& file, std::string text) : file_{file}, text_{std::move(text)} {
    std::replace(text_.begin(), text_.end(), '\r', ' ');
    tessera::sim::detail::json_name_checker checker;
    if (!nlohmann::json::sax_parse(text_, &checker)) {
      throw tessera::sim::input_error{file_, tessera::sim::position_of(text_, checker.offset), "JSON",
                                      checker.offset >= text_.size()
                                          ? "the end of the file"
                                          : tessera::sim::shown(std::string_view{text_}.substr(checker.offset), 20)};
    }
    if (!checker.twice.empty()) fail(checker.twice, "each name once in an object");
    root_ = nlohmann::json::parse(text_);
  }

  [[nodiscard]] endpoint_list read(std::size_t most) const {
    endpoint_list list;
    known({}, root_, {"endpoints", "objectives"});
    const nlohmann::json none = nlohmann::json::array();
    const auto& all = root_.contains("endpoints") ? root_["endpoints"] : none;
    if (!root_.contains("endpoints")) fail({}, "an object with \"endpoints\"");
    if (!all.is_array()) fail({"endpoints"}, "an array of endpoints");
    if (all.size() > most) fail({"endpoints"}, fmt::format("at most {} endpoints (--endpoints-at-most)", most));
    std::set<std::string> seen;
    for (std::size_t i = 0; i != all.size(); ++i) {
      const path at{"endpoints", std::to_string(i)};
      list.endpoints.push_back(one(at, all[i]));
      if (!seen.insert(list.endpoints.back().where).second) fail(sub(at, "address"), "each address once");
    }
    if (root_.contains("objectives")) {
      const auto& objectives = root_["objectives"];
      if (!objectives.is_object()) fail({"objectives"}, "an object of priorities");
      for (const auto& o : objectives.items()) {
        list.objectives[o.key()] = whole({"objectives", o.key()}, o.value(), -1'000'000, 1'000'000);
      }
    }
    return list;
  }

 private:
  using path = std::vector<std::string>;

  static path sub(path at, const std::string& step) {
    at.push_back(step);
    return at;
  }
  [[nodiscard]] endpoint one(const path& at, const nlohmann::json& e) const {
    endpoint out;
    known(at, e, {"address", "role", "labels", "lengths", "kv_tokens"});
    if (!e.contains("address")) fail(at, "an endpoint with an \"address\"");
    if (!e["address"].is_string() || !read_address(e["address"].get<std::string>())) {
      fail(sub(at, "address"), "an address \"IP:PORT\" or \"[IPv6]:PORT\"");
    }
    out.where = e["address"].get<std::string>();
    if (e.contains("role")) {
      const auto& role = e["role"];
      if (role != "mixed" && role != "decode" && role != "prefill") {
        fail(sub(at, "role"), "\"mixed\", \"decode\" or \"prefill\"");
      }
      out.takes_requests = role != "prefill";
    }
    if (e.contains("labels")) {
      if (!e["labels"].is_object()) fail(sub(at, "labels"), "an object of texts");
      for (const auto& l : e["labels"].items()) {
        if (!l.value().is_string()) fail(sub(sub(at, "labels"), l.key()), "a text");
        if (l.key() == "model") out.model = l.value().get<std::string>();
      }
    }
    if (e.contains("lengths")) {
      const path here = sub(at, "lengths");
      const auto& l = e["lengths"];
      if (!l.is_array() || l.size() != 2) fail(here, "two lengths: from, and to (or null)");
      out.from = static_cast<std::uint64_t>(whole(sub(here, "0"), l[0], 0, longest));
      if (!l[1].is_null()) {
        out.to =
            static_cast<std::uint64_t>(whole(sub(here, "1"), l[1], static_cast<std::int64_t>(out.from) + 1, longest));
      }
    }
    if (e.contains("kv_tokens")) {
      out.kv_tokens = static_cast<std::uint64_t>(whole(sub(at, "kv_tokens"), e["kv_tokens"], 1, longest));
    }
    return out;
  }
  [[nodiscard]] std::int64_t whole(const path& at, const nlohmann::json& v, std::int64_t least,
                                   std::int64_t most) const {
    const double x = v.is_number() ? v.get<double>() : std::nan("");
    if (!(static_cast<double>(least) <= x && x <= static_cast<double>(most)) || x != std::floor(x)) {
      fail(at, fmt::format("a whole number from {} to {}", least, most));
    }
    return static_cast<std::int64_t>(x);
  }
  void known(const path& at, const nlohmann::json& o, std::initializer_list<std::string_view> names) const {
    if (!o.is_object()) fail(at, "an object");
    for (const auto& m : o.items()) {
      if (std::find(names.begin(), names.end(), m.key()) != names.end()) continue;
      fail(sub(at, m.key()), fmt::format("one of the names {}", fmt::join(names, ", ")));
    }
  }
  [[noreturn]] void fail(const path& at, const std::string& expected) const {
    const auto place = tessera::sim::detail::json_locator{text_}.find(at);
    const std::string_view found = std::string_view{text_}.substr(place.value, place.end - place.value);
    throw tessera::sim::input_error{file_, tessera::sim::position_of(text_, place.value), expected,
                                    tessera::sim::shown(found)};
  }

  static constexpr std::int64_t longest = 1'000'000'000'000;

  std::string file_;
  std::string text_;
  nlohmann::json root_;
};

}  // namespace detail

/// The endpoints that a text lists, at most `most`. @throws tessera::sim::input_error
[[nodiscard]] inline endpoint_list read_endpoints(const std::string& file, std::string text, std::size_t most) {
  return detail::endpoint_reader{file, std::move(text)}.read(most);
}

}  // namespace endpoint_picker
