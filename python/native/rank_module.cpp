// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/core/owned_storage.hpp>
#include <tessera/rank/length_calibrator.hpp>
#include <tessera/rank/length_distribution.hpp>
#include <tessera/rank/mlp.hpp>
#include <tessera/rank/model_file.hpp>
#include <tessera/rank/scorer.hpp>
#include <tessera/rank/train.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace nb = nanobind;

namespace tessera_python {
namespace {

namespace ts = tessera;
namespace rank = tessera::rank;

/// Token ids as words, for features that read words: letters, because all digits are alike to them.
void append_word(std::string& text, std::uint64_t id) {
  if (!text.empty()) text += ' ';
  do {
    text += static_cast<char>('a' + id % 26);
    id /= 26;
  } while (id != 0);
}

/// What is read of a prompt: its text, or its token ids as words.
class prompt_text {
 public:
  std::string_view operator()(nb::handle prompt) {
    if (PyUnicode_Check(prompt.ptr())) {
      Py_ssize_t size = 0;
      const char* const text = PyUnicode_AsUTF8AndSize(prompt.ptr(), &size);
      if (text == nullptr) throw nb::python_error{};
      return {text, static_cast<std::size_t>(size)};
    }
    words_.clear();
    const nb::object all = nb::steal(PySequence_Fast(prompt.ptr(), "a prompt is a str, or its token ids"));
    if (!all.is_valid()) throw nb::python_error{};
    const Py_ssize_t n = PySequence_Size(all.ptr());
    // What comes after that many bytes is not read.
    for (Py_ssize_t i = 0; i != n && words_.size() < rank::hashed_features::window; ++i) {
      const nb::object item = nb::steal(PySequence_GetItem(all.ptr(), i));
      if (!item.is_valid()) throw nb::python_error{};
      const nb::object index = nb::steal(PyNumber_Index(item.ptr()));
      if (!index.is_valid()) throw nb::python_error{};
      const long long id = PyLong_AsLongLong(index.ptr());
      if (id == -1 && PyErr_Occurred() != nullptr) throw nb::python_error{};
      if (id < 0) throw std::invalid_argument{"a token id is not negative: " + std::to_string(id)};
      append_word(words_, static_cast<std::uint64_t>(id));
    }
    return words_;
  }

 private:
  std::string words_;
};

void require_lengths(nb::sequence prompts, const std::vector<double>& lengths) {
  if (nb::len(prompts) != lengths.size()) {
    throw std::invalid_argument{std::to_string(nb::len(prompts)) + " prompts, and " + std::to_string(lengths.size()) +
                                " lengths"};
  }
  for (std::size_t i = 0; i != lengths.size(); ++i) {
    if (!(lengths[i] >= 0 && lengths[i] <= 1e30)) {
      throw std::invalid_argument{"lengths[" + std::to_string(i) + "] must be finite and not negative"};
    }
  }
}

class model {
 public:
  model(model&&) = default;
  static model train(nb::sequence prompts, const std::vector<double>& lengths, const std::string& objective,
                     std::int64_t seed, double delta) {
    require_lengths(prompts, lengths);
    if (seed < 0) throw std::invalid_argument{"seed is not negative: " + std::to_string(seed)};
    rank::train_options o;
    if (objective == "pointwise") {
      o.goal = rank::objective::pointwise;
    } else if (objective == "listwise") {
      o.goal = rank::objective::listwise;
    } else if (objective != "pairwise") {
      throw std::invalid_argument{"objective must be pairwise, pointwise or listwise, not " + objective};
    }
    if (!(delta >= 0 && delta < 1)) throw std::invalid_argument{"delta must be from 0 to less than 1"};
    constexpr std::size_t least = 20;
    if (lengths.size() < least) throw std::invalid_argument{"to learn from: at least 20 prompts"};
    o.seed = static_cast<std::uint64_t>(seed);
    o.delta = delta;
    model out;
    rank::dataset data{out.features_};
    prompt_text text;
    for (std::size_t i = 0; i != lengths.size(); ++i) {
      data.add(out.features_, text(prompts[i]), static_cast<float>(lengths[i]));
    }
    std::vector<std::uint32_t> rows(lengths.size());
    std::iota(rows.begin(), rows.end(), 0U);
    {
      const nb::gil_scoped_release released;
      rank::linear_training t = rank::train_linear(data, rows, o);
      out.storage_ = std::move(t.weights);
      out.view_ = rank::linear_model{out.storage_, t.bias};
    }
    return out;
  }

  static model from_bytes(nb::bytes given) {
    const auto file = std::as_bytes(std::span{given.c_str(), given.size()});
    const auto require = [](rank::model_status s) {
      if (!rank::ok(s)) throw std::invalid_argument{std::string{"the model cannot be used: "} + rank::to_string(s)};
    };
    rank::model_info info;
    require(rank::inspect_model(file, info));
    model out;
    const auto bits = static_cast<unsigned>(info.fingerprint & 0xFFU);
    if (bits < 8 || bits > 24) require(rank::model_status::wrong_features);
    out.features_ = rank::hashed_features{bits};
    if (out.features_.fingerprint() != info.fingerprint || out.features_.dimension() != info.dimension) {
      require(rank::model_status::wrong_features);
    }
    out.storage_.resize(info.parameters);
    if (info.kind == rank::model_kind::linear) {
      rank::linear_model m;
      require(rank::load_model(file, info.fingerprint, out.storage_, m));
      out.view_ = m;
    } else {
      rank::mlp_model m;
      require(rank::load_model(file, info.fingerprint, out.storage_, m));
      out.view_ = m;
    }
    return out;
  }

  [[nodiscard]] nb::bytes to_bytes() const {
    std::string file;
    std::visit(
        [&](const auto& m) {
          file.resize(rank::encoded_bytes(m));
          const auto s = rank::encode_model(m, features_.fingerprint(),
                                            std::as_writable_bytes(std::span{file.data(), file.size()}));
          if (!rank::ok(s)) throw std::runtime_error{rank::to_string(s)};
        },
        view_);
    return nb::bytes{file.data(), file.size()};
  }

  [[nodiscard]] float score(nb::handle prompt) {
    const std::string_view text = text_(prompt);
    return std::visit([&](const auto& m) { return rank::prompt_scorer{features_, m}(text); }, view_);
  }

  [[nodiscard]] std::vector<float> scores(nb::sequence prompts) {
    std::vector<float> out;
    const std::size_t n = nb::len(prompts);
    for (std::size_t i = 0; i != n; ++i) out.push_back(score(prompts[i]));
    return out;
  }

  [[nodiscard]] std::pair<double, double> tau_b(nb::sequence prompts, const std::vector<double>& lengths) {
    require_lengths(prompts, lengths);
    const std::vector<float> x = scores(prompts);
    const std::vector<float> y{lengths.begin(), lengths.end()};
    const rank::kendall_result k = rank::kendall_tau_b(x, y);
    return {k.tau, k.standard_error};
  }

 private:
  model() = default;

  rank::hashed_features features_{};
  std::vector<float> storage_;
  std::variant<rank::linear_model, rank::mlp_model> view_;  // moves with the storage, which stays where it is
  prompt_text text_;
};

[[nodiscard]] ts::tokens length_of(std::int64_t n) {
  if (n < 0) throw std::invalid_argument{"a length is not negative: " + std::to_string(n)};
  return ts::tokens{n};
}
[[nodiscard]] std::size_t room(std::int64_t n, const char* what) {
  if (n < 1 || n > 1 << 24) throw std::invalid_argument{std::string{what} + " is 1 to 2^24"};
  return static_cast<std::size_t>(n);
}

class calibrator {
 public:
  calibrator(std::int64_t window, std::int64_t groups)
      : storage_{ts::storage_for<rank::length_calibrator>(
            {.window = room(window, "window"), .groups = room(groups, "groups")})},
        lengths_{storage_} {}
  void observe(float score, std::int64_t output) { lengths_.observe(score, length_of(output)); }
  void fit() { lengths_.fit(); }
  [[nodiscard]] std::int64_t expected(float score) const { return lengths_(score).count(); }
  [[nodiscard]] std::size_t size() const { return lengths_.size(); }

 private:
  ts::owned_storage<rank::length_calibrator::limits> storage_;
  rank::length_calibrator lengths_;
};

class distribution {
 public:
  distribution(std::int64_t window, std::int64_t groups)
      : storage_{ts::storage_for<rank::length_distribution>(
            {.window = room(window, "window"), .groups = room(groups, "groups")})},
        lengths_{storage_} {}
  void observe(float score, std::int64_t output) { lengths_.observe(score, length_of(output)); }
  void fit(const std::vector<std::pair<float, std::int64_t>>& running) {
    std::vector<rank::running_length> all;
    for (const auto& [score, generated] : running) all.push_back({score, length_of(generated)});
    lengths_.fit(all);
  }
  [[nodiscard]] std::int64_t expected_rest(float score, std::int64_t generated) const {
    return lengths_.expected_rest(score, length_of(generated)).count();
  }
  [[nodiscard]] std::int64_t rest_quantile(float score, std::int64_t generated, double q) const {
    if (!(q > 0 && q <= 1)) throw std::invalid_argument{"q is above 0, and at most 1"};
    return lengths_.rest_quantile(score, length_of(generated), q).count();
  }
  [[nodiscard]] double drift() const { return lengths_.drift(); }
  [[nodiscard]] std::size_t size() const { return lengths_.size(); }

 private:
  ts::owned_storage<rank::length_distribution::limits> storage_;
  rank::length_distribution lengths_;
};

}  // namespace
}  // namespace tessera_python

NB_MODULE(_rank, m) {
  using namespace tessera_python;
  m.doc() = "Predicted output lengths; use tessera.rank.";
  nb::class_<model>(m, "Model", "Ranks prompts by how long their outputs are expected to be.")
      .def_static("train", &model::train, nb::arg("prompts"), nb::arg("lengths"), nb::arg("objective"), nb::arg("seed"),
                  nb::arg("delta"), "Learns from prompts and the lengths of their outputs.")
      .def_static("from_bytes", &model::from_bytes, nb::arg("file"), "What `to_bytes`, or `rank train`, wrote.")
      .def("to_bytes", &model::to_bytes, "As a file, which `rank` reads, too.")
      .def("score", &model::score, nb::arg("prompt"),
           "The score of a prompt, a str or its token ids; higher is longer.")
      .def("scores", &model::scores, nb::arg("prompts"), "The scores of several prompts.")
      .def("tau_b", &model::tau_b, nb::arg("prompts"), nb::arg("lengths"),
           "Kendall's tau-b of the scores with these lengths, and its standard error.");
  nb::class_<calibrator>(m, "LengthCalibrator", "Scores as expected lengths, learned from the outputs that ended.")
      .def(nb::init<std::int64_t, std::int64_t>(), nb::arg("window") = 4096, nb::arg("groups") = 32)
      .def("observe", &calibrator::observe, nb::arg("score"), nb::arg("output"),
           "An output has ended after `output` tokens.")
      .def("fit", &calibrator::fit, "Learns from what was observed.")
      .def("__call__", &calibrator::expected, nb::arg("score"), "Expected tokens; 0 before the first fit.")
      .def("__len__", &calibrator::size);
  nb::class_<distribution>(m, "LengthDistribution", "How long an output will still be, given how long it is already.")
      .def(nb::init<std::int64_t, std::int64_t>(), nb::arg("window") = 4096, nb::arg("groups") = 8)
      .def("observe", &distribution::observe, nb::arg("score"), nb::arg("output"),
           "An output has ended after `output` tokens.")
      .def("fit", &distribution::fit, nb::arg("running") = std::vector<std::pair<float, std::int64_t>>{},
           "Learns from what was observed, and from (score, tokens so far) of the outputs that run.")
      .def("expected_rest", &distribution::expected_rest, nb::arg("score"), nb::arg("generated"),
           "Tokens that it is expected to generate yet.")
      .def("rest_quantile", &distribution::rest_quantile, nb::arg("score"), nb::arg("generated"), nb::arg("q"),
           "Tokens that it generates yet at most with probability q.")
      .def("__len__", &distribution::size)
      .def_prop_ro("drift", &distribution::drift,
                   "How far outputs are from what was learned; beyond 10 it holds no more.");
}
