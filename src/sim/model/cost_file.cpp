// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/cost/qoe_model.hpp>
#include <tessera/sim/model/cost_file.hpp>
#include <tessera/sim/model/profile_file.hpp>

#include <fmt/ranges.h>

#include <array>
#include <string>
#include <string_view>

TESSERA_NAMESPACE_BEGIN

namespace sim {

std::string to_json(const cost_file& c) {
  nlohmann::ordered_json qoe;
  for (std::size_t i = 0; i != c.qoe.d.size(); ++i) qoe[fmt::format("d{}", i)] = c.qoe.d[i];
  const nlohmann::ordered_json j{
      {"qoe", qoe}, {"transfer", {{"per_sequence", c.transfer.per_sequence}, {"per_token", c.transfer.per_token}}}};
  return j.dump(2) + "\n";
}

cost_file parse_cost(std::string_view text, std::string_view file) {
  text = without_mark(text);
  require_plain_text(text, file, "a JSON object");
  detail::json_checker checker;
  if (!nlohmann::json::sax_parse(text, &checker)) {
    const bool at_end = checker.offset >= text.size();
    throw input_error{file, position_of(text, at_end ? text.size() : checker.offset), checker.expected("valid JSON"),
                      at_end ? "the end of the file: is it truncated?" : shown(checker.token)};
  }
  const nlohmann::json document = nlohmann::json::parse(text);
  const detail::json_locator locate{text};
  constexpr std::array<const char*, 2> keys{"qoe", "transfer"};
  if (!document.is_object()) {
    throw input_error{file, position_of(text, locate.find({}).value), "a cost model, an object", shown(text, 20)};
  }
  for (const auto& item : document.items()) {
    if (item.key() == keys[0] || item.key() == keys[1]) continue;
    throw input_error{file, position_of(text, locate.find({item.key()}).key),
                      fmt::format("only the keys {} in a cost model", fmt::join(keys, ", ")), shown(item.key())};
  }
  for (const char* key : keys) {
    if (document.contains(key)) continue;
    throw input_error{file, position_of(text, locate.find({}).value),
                      fmt::format("a cost model with the key {} (an object)", key), "an object without it"};
  }
  constexpr double most = 1e12;
  cost_file c;
  const detail::profile_reader qoe{text, file, document.at(keys[0]), {keys[0]}};
  qoe.allow({"d0", "d1", "d2", "d3", "d4"});
  for (std::size_t i = 0; i != c.qoe.d.size(); ++i) c.qoe.d[i] = qoe.number(fmt::format("d{}", i), 0, most);
  const detail::profile_reader transfer{text, file, document.at(keys[1]), {keys[1]}};
  transfer.allow({"per_sequence", "per_token"});
  c.transfer = {.per_sequence = transfer.number("per_sequence", 0, most),
                .per_token = transfer.number("per_token", 0, most)};
  return c;
}

cost_file read_cost(const std::string& path) { return parse_cost(read_file(path), path); }

}  // namespace sim
TESSERA_NAMESPACE_END
