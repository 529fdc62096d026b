// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/core/index.hpp>
#include <tessera/core/storage.hpp>
#include <tessera/pipeline/plan.hpp>
#include <tessera/request/concepts.hpp>

#include <boost/intrusive/set.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <tuple>

TESSERA_NAMESPACE_BEGIN
namespace detail {

/// Future moments, of requests and of blocks, in two orders: by time, to find those that are due, and by name, to drop
/// one. O(log n) each, O(1) if nothing is due. Storage for `capacity` of them.
template <class Request>
class deadlines {
  struct when_tag;
  struct name_tag;
  template <class Tag>
  using hook = boost::intrusive::set_base_hook<boost::intrusive::tag<Tag>,
                                               boost::intrusive::link_mode<boost::intrusive::normal_link>>;

 public:
  using time_point = typename Request::time_point;

  struct entry : hook<when_tag>, hook<name_tag> {
    time_point when{};
    deadline_of what{};
    bool fails = false;            ///< The request fails with it.
    std::uint32_t row = no_index;  ///< The row of draining blocks.
    std::uint64_t name = 0;        ///< The request's sequence number, or the ticket.
    Request* request = nullptr;
  };

  [[nodiscard]] static constexpr std::size_t required_bytes(std::size_t capacity) noexcept {
    return storage_layout{}.add<entry*>(capacity).add_bytes(capacity * entry_bytes).bytes();
  }
  deadlines(arena& memory, std::size_t capacity) noexcept
      : free_{memory, capacity}, room_{memory.take_uninitialised<room>(capacity)}, capacity_{capacity} {}

  [[nodiscard]] bool empty() const noexcept { return by_when_.empty(); }
  [[nodiscard]] bool full() const noexcept { return used_ == capacity_ && free_.empty(); }

  /// Requires: `!full()`, and there is none of that kind and name.
  entry& add(deadline_of what, std::uint64_t name, time_point when) noexcept {
    void* memory = nullptr;
    if (free_.empty()) {
      memory = room_ + used_++;
    } else {
      memory = free_.back();
      free_.pop_back();
    }
    entry* const e = ::new (memory) entry{};
    e->when = when;
    e->what = what;
    e->name = name;
    by_when_.insert(*e);
    by_name_.insert(*e);
    return *e;
  }
  [[nodiscard]] entry* find(deadline_of what, std::uint64_t name) noexcept {
    const auto i = by_name_.find(key{name, what}, by_key{});
    return i == by_name_.end() ? nullptr : &*i;
  }
  void erase(entry& e) noexcept {
    by_when_.erase(by_when_.iterator_to(e));
    by_name_.erase(by_name_.iterator_to(e));
    free_.push_back(&e);
  }
  /// Sets a deadline of a request, replacing the one of that kind if there is one. False if there is no room.
  [[nodiscard]] bool set(deadline_of what, Request& r, time_point when, bool fails) noexcept {
    entry* const before = empty() ? nullptr : find(what, r.state().sequence);
    if (before == nullptr && when != time_point::never() && full()) return false;
    if (before != nullptr) erase(*before);
    if (when == time_point::never()) return true;
    entry& e = add(what, r.state().sequence, when);
    e.request = &r;
    e.fails = fails;
    return true;
  }
  /// Drops the request's deadline of that kind.
  void drop(deadline_of what, const Request& r) noexcept {
    if (empty()) return;
    if (entry* const e = find(what, r.state().sequence); e != nullptr) erase(*e);
  }
  /// Drops all deadlines of the request.
  void drop_all(const Request& r) noexcept {
    if (empty()) return;
    for (const deadline_of what : {deadline_of::parked, deadline_of::loading, deadline_of::waiting}) drop(what, r);
  }
  /// The earliest deadline, if it is due; else null.
  [[nodiscard]] entry* due(time_point now) noexcept {
    return empty() || now < by_when_.begin()->when ? nullptr : &*by_when_.begin();
  }

 private:
  struct key {
    std::uint64_t name;
    deadline_of what;
  };
  struct sooner {
    [[nodiscard]] bool operator()(const entry& a, const entry& b) const noexcept {
      if (a.when != b.when) return a.when < b.when;
      return a.name != b.name ? a.name < b.name : a.what < b.what;
    }
  };
  struct by_key {
    template <class A, class B>
    [[nodiscard]] bool operator()(const A& a, const B& b) const noexcept {
      return a.name != b.name ? a.name < b.name : a.what < b.what;
    }
  };
  struct alignas(entry) room {
    std::byte bytes[sizeof(entry)];
  };
  static constexpr std::size_t entry_bytes = sizeof(entry);
  template <class Tag, class Compare>
  using tree =
      boost::intrusive::multiset<entry, boost::intrusive::base_hook<hook<Tag>>, boost::intrusive::compare<Compare>,
                                 boost::intrusive::constant_time_size<false>>;

  fixed_vector<entry*> free_;
  room* room_;
  std::size_t capacity_;
  std::size_t used_ = 0;  ///< The number of elements of `room_` that have been used.
  tree<when_tag, sooner> by_when_;
  tree<name_tag, by_key> by_name_;
};

}  // namespace detail
TESSERA_NAMESPACE_END
