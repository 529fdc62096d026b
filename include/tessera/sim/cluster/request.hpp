// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/units.hpp>
#include <tessera/kv/prefix_cache.hpp>
#include <tessera/migration/live_migration.hpp>
#include <tessera/order/program_service.hpp>
#include <tessera/pacing/token_pacer.hpp>
#include <tessera/qoe/integrator.hpp>
#include <tessera/request/hook.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// @file
/// A request as the simulator runs it.

TESSERA_NAMESPACE_BEGIN
namespace sim {

/// How far a migration is.
enum class migration_stage : std::uint8_t {
  none,
  copies,   ///< Runs on while its KV is copied.
  stops,    ///< Copied except for the last tokens; stops when the step under way ends.
  stopped,  ///< Runs nowhere; the last copy is on its way. Its blocks are where it was.
  arrived,  ///< Runs nowhere; all its KV is at the destination, and still where it was.
};

/// The migration of a request to another instance.
struct migration_progress {
  migration_stage stage = migration_stage::none;  ///< How far it is.
  migration::live_migration copy{};               ///< In what rounds it is copied while it runs on.
  tokens copied{};       ///< How many of the computed tokens are copied; those on the fabric count.
  std::size_t to = 0;    ///< The destination.
  blocks takes{};        ///< Blocks announced at the destination.
  double began_s = 0;    ///< When the copy began.
  double stopped_s = 0;  ///< When the request was stopped.
};

struct request;

/// Scores with the true output length, which only a simulation knows: what a perfect predictor would say.
struct true_length {
  /// The output length, which a real scheduler cannot know.
  [[nodiscard]] float operator()(const request& r) const noexcept;
};

/// Bytes for what an order keeps about a simulated request.
inline constexpr std::size_t order_room = 64;

/// A request as the simulator runs it: what the model will do, and what has been measured so far. It can be served in
/// any order that keeps no more than `order_room` bytes about each request.
struct request : request_hook_for<any_order<order_room>> {
  float score = 0;                            ///< As the workload says; smaller is expected to be shorter.
  std::size_t index = 0;                      ///< Row of the workload.
  order::program_service* program = nullptr;  ///< The service of its session, if it is in one.
  std::uint32_t tenant = 0;                   ///< The tenant that it belongs to.
  std::int64_t session = -1;                  ///< The session that it is a turn of; -1: none.
  double* service = nullptr;                  ///< What its tenant has been given; null: it has no tenant.
  tokens cached{};  ///< Cached tokens of its prompt, as its order knew last; see `order::longest_prefix`.
  time_point answer_by = time_point::never();  ///< For `gate::in_time`.
  tokens output{};                             ///< Tokens it will generate in all. At least 1.
  tokens reasoning{};                          ///< How many of these are of the reasoning phase. Less than `output`.
  std::size_t where = 0;                       ///< The instance it is on.
  double executed_s = 0;                       ///< Time in steps that computed something for it.
  tokens found{};                              ///< Tokens of its prompt in the prefix cache when it first started.
  double preempted_s = 0;                      ///< Time between losing its blocks and the next step it was in.
  double preempted_since_s = -1;               ///< When it lost its blocks; -1: it has them, or never had.
  double first_step_s = -1;                    ///< Start of the first such step; -1: none yet.
  double phase_change_s = -1;                  ///< When reasoning ended; -1: not yet, or never reasoned.
  double answering_step_s = -1;                ///< Start of the first step of the answering phase; -1: none yet.
  double first_token_s = -1;                   ///< End of the step that gave its first token; -1: none yet.
  double first_answer_s = -1;                  ///< First answering token; -1: none yet.
  std::size_t answering_at = 0;                ///< Place in the list of its instance's answering requests.
  std::uint32_t migrations = 0;                ///< Moves to another instance.
  std::uint32_t recoveries = 0;                ///< How often its instance died under it.
  bool prefills = true;                        ///< It has sampled no token since it was placed.
  std::size_t listed_at = 0;                   ///< Place in the list of its instance's requests.
  blocks needs{};                              ///< Blocks for its tokens, as its instance counts them.
  migration_progress migration{};              ///< Its current migration.
  double next_turn_s = -1;  ///< From its last token to the next turn of its session; -1: there is none.
  double kept_s = 0;        ///< For how long a turn's KV is asked to be kept then.
  time_point keep_until{};  ///< For `kv::keep_until`, from its last token on.
  time_point next_use = time_point::never();  ///< For `kv::next_use`, likewise: known to a simulation alone.
  bool counted_demoted = false;               ///< In its instance's count of demoted requests.
  qoe_integrator qoe{};                       ///< Measures the answer.
  token_pacer pacer{};                        ///< Releases the answer.
  /// The hashes of its full blocks, of prompt and answer: a simulation knows the answer before it is generated. Empty
  /// where nothing is shared, and when the request has ended.
  std::vector<std::uint64_t> hashes{};
  tokens hash_block{16};  ///< Tokens per block, as these count.

  /// For the prefix cache: the hashes of the blocks that are full by now.
  [[nodiscard]] std::span<const std::uint64_t> prefix_hashes() const noexcept {
    const auto full = static_cast<std::size_t>(max(prompt, state().length) / hash_block);
    return std::span{hashes}.first(std::min(hashes.size(), full));
  }
};

/// Where simulated instances have their KV. Requests without hashes share nothing, and are served as with a
/// `kv::block_pool`.
using kv_store = kv::prefix_cache;

inline float true_length::operator()(const request& r) const noexcept { return static_cast<float>(r.output.count()); }

/// Whether a live migration of `r` may begin: it holds blocks, has a token since it was placed and is not on its way
/// already. (After its instance has died, a request has tokens, and its prompt is computed again: that is finished
/// first.)
[[nodiscard]] inline bool may_migrate(const request& r) noexcept {
  return r.migration.stage == migration_stage::none && r.state().life == lifecycle::resident && !r.prefills;
}

}  // namespace sim
TESSERA_NAMESPACE_END
