// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/rank/dense.hpp>
#include <tessera/rank/linear.hpp>
#include <tessera/rank/mlp.hpp>
#include <tessera/rank/scorer.hpp>

#include <type_traits>

namespace {

using namespace tessera::rank;

// prompt_features: the archetype, and one near-miss per requirement.
struct archetype {
  using input_type = int;
  std::size_t dimension() const noexcept;
  std::size_t lexical_dimension() const noexcept;
  std::size_t max_features() const noexcept;
  std::uint64_t fingerprint() const noexcept;
  template <class Sink>
  void visit(int, Sink&&) const noexcept;
};
static_assert(prompt_features<archetype>);
static_assert(prompt_features<hashed_features>);
static_assert(prompt_features<dense_features>);
static_assert(prompt_features<joined_features<hashed_features, dense_features>>);

struct without_input {
  std::size_t dimension() const noexcept;
  std::size_t lexical_dimension() const noexcept;
  std::size_t max_features() const noexcept;
  std::uint64_t fingerprint() const noexcept;
  template <class Sink>
  void visit(int, Sink&&) const noexcept;
};
struct dimension_may_throw : archetype {
  std::size_t dimension() const;
};
struct signed_lexical_dimension : archetype {
  int lexical_dimension() const noexcept;
};
struct without_bound : archetype {
  std::size_t max_features() const noexcept = delete;
};
struct narrow_fingerprint : archetype {
  std::uint32_t fingerprint() const noexcept;
};
struct visit_changes_it : archetype {
  template <class Sink>
  void visit(int, Sink&&) noexcept;
};
struct visit_may_throw : archetype {
  template <class Sink>
  void visit(int, Sink&&) const;
};
struct not_copyable : archetype {
  not_copyable(const not_copyable&) = delete;
};
static_assert(!prompt_features<int>);
static_assert(!prompt_features<without_input>);
static_assert(!prompt_features<dimension_may_throw>);
static_assert(!prompt_features<signed_lexical_dimension>);
static_assert(!prompt_features<without_bound>);
static_assert(!prompt_features<narrow_fingerprint>);
static_assert(!prompt_features<visit_changes_it>);
static_assert(!prompt_features<visit_may_throw>);
static_assert(!prompt_features<not_copyable>);

// ranking_model.
struct model {
  std::size_t dimension() const noexcept;
  struct accumulator {
    explicit accumulator(const model&) noexcept;
    void operator()(std::uint32_t, float) noexcept;
    float result() noexcept;
  };
};
static_assert(ranking_model<model>);
static_assert(ranking_model<linear_model>);
static_assert(ranking_model<mlp_model>);

struct model_without_dimension {
  struct accumulator {
    explicit accumulator(const model_without_dimension&) noexcept;
    void operator()(std::uint32_t, float) noexcept;
    float result() noexcept;
  };
};
struct model_without_accumulator {
  std::size_t dimension() const noexcept;
};
struct accumulator_of_another : model {};  // accumulator takes a model: fine through its base
struct accumulator_from_nothing {
  std::size_t dimension() const noexcept;
  struct accumulator {
    void operator()(std::uint32_t, float) noexcept;
    float result() noexcept;
  };
};
struct call_may_throw {
  std::size_t dimension() const noexcept;
  struct accumulator {
    explicit accumulator(const call_may_throw&) noexcept;
    void operator()(std::uint32_t, float);
    float result() noexcept;
  };
};
struct double_result {
  std::size_t dimension() const noexcept;
  struct accumulator {
    explicit accumulator(const double_result&) noexcept;
    void operator()(std::uint32_t, float) noexcept;
    double result() noexcept;
  };
};
static_assert(ranking_model<accumulator_of_another>);
static_assert(!ranking_model<int>);
static_assert(!ranking_model<model_without_dimension>);
static_assert(!ranking_model<model_without_accumulator>);
static_assert(!ranking_model<accumulator_from_nothing>);
static_assert(!ranking_model<call_may_throw>);
static_assert(!ranking_model<double_result>);

// A scorer is what ranked order can be given: a small value, called with the prompt, without exceptions.
static_assert(std::is_nothrow_invocable_r_v<float, const prompt_scorer<>&, std::string_view>);
static_assert(std::is_trivially_copyable_v<prompt_scorer<>>);
static_assert(
    std::is_nothrow_invocable_r_v<float, const prompt_scorer<dense_features, mlp_model>&, std::span<const float>>);

}  // namespace
