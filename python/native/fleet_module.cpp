// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "fleet/book.hpp"
#include "fleet/checks.hpp"
#include "fleet/policies.hpp"
#include "fleet/prefixes.hpp"

#include <tessera/fleet/kv_transfer.hpp>
#include <tessera/fleet/retry.hpp>
#include <tessera/fleet/stitch.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace tessera_python {
namespace {

/// One stream from several engines.
class stitched {
 public:
  std::tuple<std::int64_t, std::int64_t, bool> on(std::int64_t at, std::int64_t n) {
    const fleet::stitch::piece p = stream_.on(ts::tokens{count(at, "at")}, ts::tokens{count(n, "count")});
    return {p.skip.count(), p.take.count(), p.hole};
  }
  bool end(std::int64_t length) { return stream_.end(ts::tokens{count(length, "length")}); }
  [[nodiscard]] std::int64_t delivered() const { return stream_.delivered().count(); }
  [[nodiscard]] bool ended() const { return stream_.ended(); }

 private:
  fleet::stitch stream_;
};

/// Whether a request may be tried again.
class patience {
 public:
  patience(std::int64_t deaths, std::int64_t tries)
      : retries_{{.deaths = static_cast<std::uint32_t>(whole(deaths, "deaths", 1, 1 << 20)),
                  .tries = static_cast<std::uint32_t>(whole(tries, "tries", 1, 1 << 20))}} {}
  bool after(const std::string& failure) {
    using enum fleet::failure;
    static constexpr std::pair<std::string_view, fleet::failure> all[] = {{"refused", refused},
                                                                          {"died", died},
                                                                          {"unreachable", unreachable},
                                                                          {"at_fault", at_fault},
                                                                          {"cancelled", cancelled}};
    return retries_.after(word(failure, "failure", all));
  }
  [[nodiscard]] std::uint32_t deaths() const { return retries_.deaths(); }
  [[nodiscard]] bool over() const { return retries_.over(); }

 private:
  fleet::retries retries_;
};

std::int64_t length_of(std::int64_t n, const char* name, std::int64_t least) {
  return whole(n, name, least, fleet::greatest_count);
}

template <std::size_t N>
nb::tuple words(const std::string_view (&all)[N]) {
  nb::list names;
  for (const std::string_view name : all) names.append(nb::str(name.data(), name.size()));
  return nb::tuple(names);
}

}  // namespace
}  // namespace tessera_python

NB_MODULE(_fleet, m) {
  using namespace tessera_python;
  m.doc() = "The book of a router before engines; use tessera.fleet.";
  m.attr("policies") = words(policy_names);
  m.attr("moves") = words(move_names);

  nb::class_<book>(m, "Ledger", "The book of one router, and the policy that reads it.")
      .def(nb::init<const std::string&, const std::optional<std::string>&, std::int64_t, std::int64_t, std::int64_t,
                    double, double, double, std::int64_t, std::int64_t, std::int64_t, std::uint64_t, double, double,
                    std::int64_t, double, std::int64_t>(),
           nb::arg("policy"), nb::kw_only(), nb::arg("moves") = nb::none(), nb::arg("replicas") = 64,
           nb::arg("reservations") = 4096, nb::arg("block_size") = 16, nb::arg("lease") = 60.0,
           nb::arg("silence") = 5.0, nb::arg("rest") = 2.0, nb::arg("moving") = 8, nb::arg("tight") = 0,
           nb::arg("quantum") = 500, nb::arg("seed") = 1, nb::arg("bound") = 1.25, nb::arg("expected") = 0.0,
           nb::arg("demand") = 0, nb::arg("theta") = 0.62, nb::arg("cooldown") = 20)
      .def("join", &book::join, nb::arg("id"), nb::arg("incarnation"), nb::arg("capacity"), nb::arg("now"),
           nb::arg("prefill_budget") = 0.0, nb::arg("prefill_square") = 0.0, nb::arg("role") = "mixed",
           nb::arg("elastic") = false, "A replica comes: \"ok\", \"busy\" or \"refused\".")
      .def("drain", &book::drain, nb::arg("id"), "It takes no new requests. False if it is not there.")
      .def("lost", &book::lost, nb::arg("id"), nb::arg("incarnation"), "A connection to the replica has failed.")
      .def("fence", &book::fence, nb::arg("id"), nb::arg("incarnation"),
           "It is dead for sure: (request, tokens, where it was going to) of all that it had; None if it is not there.")
      .def("asked", &book::asked, nb::arg("id"), "It is asked for a report now.")
      .def("receive", &book::receive, nb::arg("id"), nb::arg("incarnation"), nb::arg("epoch"), nb::arg("all"),
           nb::arg("now"), nb::arg("own") = nb::none(), nb::arg("free") = nb::none(), nb::arg("slo_met") = true,
           "A report has come: what became of it.")
      .def("set_range", &book::set_range, nb::arg("id"), nb::arg("first"), nb::arg("last"),
           "It serves requests of at least `first` blocks, and less than `last`.")
      .def("rank", &book::rank, nb::arg("prompt"), nb::arg("choices") = 1, nb::arg("cached") = nb::none(),
           nb::arg("prefix_key") = 0, nb::arg("only") = nb::none(), nb::arg("avoid") = nb::none(),
           "The replicas for a request, best first.")
      .def("reserve", &book::reserve, nb::arg("request"), nb::arg("id"), nb::arg("prompt"), nb::arg("now"),
           nb::arg("cached") = 0, nb::arg("reasons") = false,
           "It is sent there: \"ok\", \"refused\", \"busy\" or \"exhausted\".")
      .def("place", &book::place, nb::arg("request"), nb::arg("prompt"), nb::arg("now"), nb::arg("cached") = nb::none(),
           nb::arg("prefix_key") = 0, nb::arg("reasons") = false, nb::arg("only") = nb::none(),
           nb::arg("avoid") = nb::none(), "Ranks and reserves: where it goes, or None.")
      .def("first_token", &book::first_token, nb::arg("request"), nb::arg("id"), nb::arg("now"),
           "It has its first token there.")
      .def("progress", &book::progress, nb::arg("request"), nb::arg("id"), nb::arg("generated"), nb::arg("now"),
           "`generated` tokens have come from there in all.")
      .def("cache_hit", &book::cache_hit, nb::arg("request"), nb::arg("id"), nb::arg("cached"), nb::arg("now"),
           "The engine has found `cached` tokens of its prompt in the prefix cache.")
      .def("answers", &book::answers, nb::arg("request"), nb::arg("id"), nb::arg("now"), "Its reasoning has ended.")
      .def("release", &book::release, nb::arg("request"), nb::arg("id"), "It has ended there, however.")
      .def("moved", &book::moved, nb::arg("request"), nb::arg("to"), nb::arg("now"), "It goes on there.")
      .def("propose_moves", &book::propose_moves, nb::arg("now"),
           "(request, from, to, tokens, blocks) of requests that are to go on elsewhere.")
      .def("propose_roles", &book::propose_roles,
           "(replica, from, to) of the replica that is to change its role, or None.")
      .def("changed_role", &book::changed_role, nb::arg("id"), "It has the role that it was given.")
      .def("expire", &book::expire, nb::arg("now"),
           "Gives back the reservations without a call for the length of a lease: (request, replica).")
      .def("expect", &book::expect, nb::arg("load"), "For fill_to_level: what other routers send meanwhile.")
      .def("contains", &book::contains, nb::arg("id"))
      .def("incarnation", &book::incarnation, nb::arg("id"))
      .def("silent", &book::silent, nb::arg("id"))
      .def("shown", &book::shown, "The replicas that the policy chooses from.")
      .def("view", &book::view, nb::arg("id"), "A replica as the policy sees it.")
      .def("own", &book::own, nb::arg("id"), "The part of its load that this router has sent.")
      .def("others", &book::others, nb::arg("id"), "The load that other routers have sent, as of its last report.")
      .def("reserved", &book::reserved, nb::arg("request"), nb::arg("id"))
      .def("__len__", &book::size)
      .def_prop_ro("moving", &book::moving, "Requests on their way.")
      .def_prop_ro("expired", &book::expired, "Reservations that ran out.")
      .def_prop_ro("received", &book::received, "Reports by what became of them.");

  nb::class_<stitched>(m, "Stitch", "One stream to a client from several engines.")
      .def(nb::init<>())
      .def("on", &stitched::on, nb::arg("at"), nb::arg("count"), "Tokens have come: (skip, take, whether a hole).")
      .def("end", &stitched::end, nb::arg("length"), "The stream ends after `length` tokens. False if it cannot.")
      .def_prop_ro("delivered", &stitched::delivered)
      .def_prop_ro("ended", &stitched::ended);

  nb::class_<patience>(m, "Retries", "Whether a request may be tried again.")
      .def(nb::init<std::int64_t, std::int64_t>(), nb::arg("deaths") = 2, nb::arg("tries") = 8)
      .def("after", &patience::after, nb::arg("failure"), "An engine has failed it: whether another may be tried.")
      .def_prop_ro("deaths", &patience::deaths)
      .def_prop_ro("over", &patience::over);

  nb::class_<prefixes>(m, "PrefixIndex", "Which replicas have which beginnings of prompts.")
      .def(nb::init<std::int64_t, std::int64_t>(), nb::arg("block_size"), nb::arg("replicas") = 64)
      .def("stored", &prefixes::stored, nb::arg("replica"), nb::arg("hashes"), nb::arg("parent").none(),
           nb::arg("tokens"), "A replica has cached blocks.")
      .def("removed", &prefixes::removed, nb::arg("replica"), nb::arg("hashes"), "A replica has evicted blocks.")
      .def("cleared", &prefixes::cleared, nb::arg("replica"), "A replica has none any more.")
      .def("match", &prefixes::match, nb::arg("prompt"), "Leading tokens that each replica has.")
      .def("size", &prefixes::size, nb::arg("replica"), "Blocks that a replica has.");

  m.def(
      "plan_export",
      [](std::int64_t length, std::int64_t block_size) {
        const fleet::kv_export e = fleet::plan_export(ts::tokens{length_of(length, "length", 1)},
                                                      ts::tokens{length_of(block_size, "block_size", 1)});
        return std::tuple{e.generates.count(), e.covers.count(), e.size.count(), e.whole};
      },
      nb::arg("length"), nb::arg("block_size"), "(generates, covers, blocks, whole) of an export.");
  m.def(
      "takes",
      [](std::int64_t exported, std::int64_t length, std::int64_t block_size) {
        return fleet::takes(ts::blocks{length_of(exported, "exported", 0)}, ts::tokens{length_of(length, "length", 0)},
                            ts::tokens{length_of(block_size, "block_size", 1)});
      },
      nb::arg("exported"), nb::arg("length"), nb::arg("block_size"),
      "Whether a target that goes on with `length` tokens can take an export of `exported` blocks.");
}
