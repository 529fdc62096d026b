// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/assert.hpp>
#include <tessera/core/owned_storage.hpp>
#include <tessera/core/split_mix.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/fleet/keyed_pool.hpp>
#include <tessera/fleet/request_view.hpp>
#include <tessera/fleet/traffic_sample.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

TESSERA_NAMESPACE_BEGIN
namespace fleet {

/// What a router remembers of its traffic: the last requests that arrived, in order, and how they went. It also
/// remembers how many waited and were there at the last looks.
///
/// Allocates nothing after construction. Each event is O(1).
class traffic_memory {
 public:
  static constexpr std::size_t most_looks = 64;  ///< Looks that are remembered.

  /// What there must be room for; fixed at construction.
  struct limits {
    std::size_t requests = 2048;  ///< Requests at a time. Those beyond are not remembered.
    std::size_t window = 4096;    ///< Requests that are remembered. At least 1.
  };

  /// Bytes that an object with these limits takes from its arena, alignment included.
  [[nodiscard]] static constexpr std::size_t required_bytes(const limits& l) noexcept {
    return storage_layout{}
        .add_bytes(detail::keyed_pool<running>::required_bytes(l.requests))
        .add<seen_request>(l.window)
        .add<seen_request>(l.window)
        .bytes_unaligned();
  }
  /// Over the caller's memory, at least `required_bytes(l)` (checked in every build), which must outlive it. Nothing is
  /// remembered.
  traffic_memory(std::span<std::byte> memory, const limits& l) noexcept : traffic_memory{arena{memory}, l} {}
  /// Over storage from `storage_for`.
  explicit traffic_memory(owned_storage<limits>& storage) noexcept
      : traffic_memory{storage.memory(), storage.limits()} {}
  traffic_memory(const traffic_memory&) = delete;
  traffic_memory& operator=(const traffic_memory&) = delete;

  /// A request has arrived, or is to be placed again. @param score a predictor's; NaN: none.
  void arrived(const request_view& r, float score, double now_s) noexcept {
    if (running_.full() || running_.find(r.id) != no_index) return;
    if (size_ == window_) forget_first();
    running_[running_.insert(r.id)].number = arrivals_++;
    ++size_;
    has_tenants_ = has_tenants_ || r.tenant != 0;
    seen_[(arrivals_ - 1) % window_] = {.arrival_s = now_s,
                                        .prompt = r.prompt,
                                        .generated = r.generated,
                                        .limit = r.limit,
                                        .score = score,
                                        .tenant = static_cast<std::int32_t>(r.tenant),
                                        .reasons = r.is == phase::reasoning};
  }
  /// It has generated more.
  void progressed(const request_view& r) noexcept {
    if (seen_request* const s = find(r.id)) s->generated = max(s->generated, r.generated);
  }
  /// It has ended its reasoning.
  void answers(const request_view& r) noexcept {
    seen_request* const s = find(r.id);
    if (s == nullptr || !s->reasons) return;
    s->reasons = false;
    s->generated = max(s->generated, r.generated);
    s->reasoning = s->generated;
  }
  /// It is over. Without a token it counts as refused: nothing is learned of it. Whether it was remembered, and has a
  /// token.
  bool ended(const request_view& r) noexcept {
    const std::uint32_t i = running_.find(r.id);
    if (i == no_index) return false;
    seen_request* const s = find(r.id);
    running_.erase(i);
    if (s == nullptr) return false;
    s->generated = max(s->generated, r.generated);
    if (s->reasons) s->reasoning = s->generated;
    s->reasons = false;
    s->refused = s->generated == tokens{};
    s->ended = !s->refused;
    ended_ += s->ended ? 1U : 0U;
    return s->ended;
  }
  /// Forgets the older half. O(n).
  void forget_half() noexcept {
    for (std::size_t n = size_ / 2; n != 0; --n) forget_first();
  }

  /// The requests that are remembered, in order of arrival, as they are now. Valid until the next call of this. O(n).
  [[nodiscard]] std::span<const seen_request> sample() noexcept {
    for (std::size_t i = 0; i != size_; ++i) {
      sample_[i] = at(i);
      if (!has_tenants_) sample_[i].tenant = -1;
    }
    return {sample_, size_};
  }
  /// Requests that are remembered. O(1).
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// How many of these have ended. O(1).
  [[nodiscard]] std::size_t ended() const noexcept { return ended_; }
  /// How many of the newer half have ended. O(n).
  [[nodiscard]] std::size_t newer_ended() const noexcept {
    std::size_t n = 0;
    for (std::size_t i = size_ / 2; i != size_; ++i) n += at(i).ended ? 1U : 0U;
    return n;
  }
  /// Requests that have arrived in all. O(1).
  [[nodiscard]] std::size_t arrivals() const noexcept { return arrivals_; }
  /// Requests that have arrived and are not over. O(1).
  [[nodiscard]] std::size_t here() const noexcept { return running_.size(); }
  /// Arrivals a second, see `arrival_rate`. O(1,024).
  [[nodiscard]] double rate() const noexcept {
    return arrival_rate(size_, [this](std::size_t i) noexcept { return at(i).arrival_s; });
  }

  /// A look: so many requests wait. @param patience looks that are compared, at most `most_looks`.
  void look(std::size_t waiting, std::size_t patience) noexcept {
    TESSERA_ASSERT(patience <= most_looks, "at most 64 looks");
    const std::size_t keeps = std::min(looks_, patience - 1);
    std::copy(look_.begin() + static_cast<std::ptrdiff_t>(looks_ - keeps),
              look_.begin() + static_cast<std::ptrdiff_t>(looks_), look_.begin());
    look_[keeps] = {arrivals_, here(), waiting};
    looks_ = keeps + 1;
  }
  /// No look counts any more.
  void forget_looks() noexcept { looks_ = 0; }
  /// Whether the queue has grown over `patience` looks. Each look of the last quarter has more than any of the first,
  /// and more than `part` of what arrived meanwhile waits. O(patience).
  [[nodiscard]] bool queue_grows(std::size_t patience, double part) const noexcept {
    if (looks_ < patience) return false;
    const std::size_t quarter = std::max<std::size_t>(1, patience / 4);
    std::size_t least_last = look_[looks_ - 1].waiting, most_first = 0;
    for (std::size_t i = 0; i != quarter; ++i) {
      most_first = std::max(most_first, look_[i].waiting);
      least_last = std::min(least_last, look_[looks_ - 1 - i].waiting);
    }
    const auto came = static_cast<double>(look_[looks_ - 1].arrived - look_[0].arrived);
    return least_last > most_first && static_cast<double>(look_[looks_ - 1].waiting) > part * came;
  }
  /// Whether about the same number of requests is here at every look. If arrivals did not depend on the requests that
  /// end, their number would vary by the square root of how many arrived meanwhile. O(patience).
  [[nodiscard]] bool held(std::size_t patience) const noexcept {
    if (looks_ < patience) return false;
    std::size_t least = look_[0].here, most = look_[0].here;
    for (std::size_t i = 1; i != looks_; ++i) {
      least = std::min(least, look_[i].here);
      most = std::max(most, look_[i].here);
    }
    const std::size_t came = look_[looks_ - 1].arrived - look_[0].arrived;
    constexpr std::size_t enough = 16;  // if there are fewer, none or one may be here at any look
    return came >= enough && least >= enough &&
           static_cast<double>(most - least) < std::sqrt(static_cast<double>(came)) / 4;
  }
  /// Requests a second that arrived between the last looks, which are `look_s` apart; 0 if these were few.
  [[nodiscard]] double rate_lately(double look_s) const noexcept {
    if (looks_ < 2) return 0;
    constexpr std::size_t enough = 100;
    const std::size_t came = look_[looks_ - 1].arrived - look_[0].arrived;
    return came < enough ? 0 : static_cast<double>(came) / (look_s * static_cast<double>(looks_ - 1));
  }

 private:
  /// A request that is not over.
  struct running {
    using key = request_id;
    request_id id = no_request;
    std::size_t number = 0;  // How many arrived before it.
    std::uint32_t next_free = no_index;

    [[nodiscard]] static constexpr running named(request_id id) noexcept { return {.id = id}; }
    [[nodiscard]] constexpr request_id name() const noexcept { return id; }
    [[nodiscard]] static constexpr std::uint64_t hash(request_id id) noexcept {
      return tessera::detail::split_mix(id + tessera::detail::split_mix_step);
    }
  };
  struct look_at {
    std::size_t arrived = 0;  // Until then.
    std::size_t here = 0;     // Then.
    std::size_t waiting = 0;  // Then, without a token.
  };

  traffic_memory(arena memory, const limits& l) noexcept
      : running_{memory, l.requests},
        seen_{memory.take_uninitialised<seen_request>(l.window)},
        sample_{memory.take_uninitialised<seen_request>(l.window)},
        window_{l.window} {
    TESSERA_ASSERT(l.window > 0, "it remembers something");
  }

  /// The i-th that is remembered.
  [[nodiscard]] seen_request& at(std::size_t i) const noexcept { return seen_[(arrivals_ - size_ + i) % window_]; }
  /// Null if it is not remembered.
  [[nodiscard]] seen_request* find(request_id id) noexcept {
    const std::uint32_t i = running_.find(id);
    if (i == no_index || running_[i].number < arrivals_ - size_) return nullptr;
    return &seen_[running_[i].number % window_];
  }
  void forget_first() noexcept {
    ended_ -= at(0).ended ? 1U : 0U;
    --size_;
  }

  detail::keyed_pool<running> running_;
  seen_request* seen_;    // A ring.
  seen_request* sample_;  // In order.
  std::size_t window_;
  std::size_t size_ = 0;
  std::size_t arrivals_ = 0;
  std::size_t ended_ = 0;
  bool has_tenants_ = false;
  std::array<look_at, most_looks> look_{};
  std::size_t looks_ = 0;
};

}  // namespace fleet
TESSERA_NAMESPACE_END
