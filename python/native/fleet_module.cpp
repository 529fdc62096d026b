// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "fleet/checks.hpp"
#include "fleet/prefixes.hpp"
#include "fleet/runtime.hpp"

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

template <class Names>
nb::tuple words(const Names& all) {
  nb::list names;
  for (const auto& one : all) {
    const std::string_view name = [&] {
      if constexpr (requires { one.name; }) {
        return one.name;
      } else {
        return one;
      }
    }();
    names.append(nb::str(name.data(), name.size()));
  }
  return nb::tuple(names);
}

}  // namespace
}  // namespace tessera_python

NB_MODULE(_fleet, m) {
  using namespace tessera_python;
  m.doc() = "Controllers in front of engines; use tessera.fleet.";
  m.attr("controllers") = words(ts::sim::controllers);
  m.attr("moves") = words(ts::sim::move_names);

  nb::class_<event_value>(m, "Event", "What has happened, as a value.")
      .def(nb::init<const std::string&, double, const nb::kwargs&>(), nb::arg("kind"), nb::arg("at"),
           nb::arg("members"))
      .def_prop_ro("kind", &event_value::kind)
      .def_prop_ro("at", &event_value::at)
      .def("__getattr__", &event_value::member, nb::arg("name"), "A member, named as in a log.")
      .def("__str__", &event_value::text)
      .def("__repr__", &event_value::text);

  nb::class_<action_value>(m, "Action", "What a controller wants done, as a value.")
      .def_prop_ro("kind", &action_value::kind)
      .def_prop_ro("replica", &action_value::replica)
      .def_prop_ro("source", &action_value::source)
      .def_prop_ro("request", &action_value::request)
      .def_prop_ro("how", &action_value::how)
      .def_prop_ro("role", &action_value::role)
      .def_prop_ro("parameter", &action_value::parameter)
      .def_prop_ro("low", &action_value::low)
      .def_prop_ro("high", &action_value::high)
      .def_prop_ro("number", &action_value::number)
      .def_prop_ro("value", &action_value::amount)
      .def_prop_ro("why", &action_value::why)
      .def("__eq__", &action_value::equals, nb::arg("other").none())
      .def("__str__", &action_value::text)
      .def("__repr__", &action_value::text);

  m.def("parse", &parse, nb::arg("line"), nb::arg("since") = 0.0,
        "The Event or Action of a line of a log, or (column, what belongs there).");

  nb::class_<runtime>(m, "Runtime", "A controller in front of engines: events in, actions out.")
      .def(nb::init<const std::string&, const std::optional<std::string>&, std::int64_t, std::int64_t, std::int64_t,
                    double, double, double, std::int64_t, std::int64_t, std::int64_t, std::uint64_t, double, double,
                    std::int64_t, double, std::int64_t, double, std::int64_t, std::int64_t,
                    const std::tuple<double, double>&, const std::tuple<double, double, double>&, double, bool, bool,
                    bool>(),
           nb::arg("controller"), nb::kw_only(), nb::arg("moves") = nb::none(), nb::arg("replicas") = 64,
           nb::arg("reservations") = 4096, nb::arg("block_size") = 16, nb::arg("lease") = 60.0,
           nb::arg("silence") = 5.0, nb::arg("rest") = 2.0, nb::arg("moving") = 8, nb::arg("tight") = 0,
           nb::arg("quantum") = 500, nb::arg("seed") = 1, nb::arg("bound") = 1.25, nb::arg("expected") = 0.0,
           nb::arg("demand") = 0, nb::arg("theta") = 0.62, nb::arg("cooldown") = 20, nb::arg("epoch") = 0.0,
           nb::arg("router") = 0, nb::arg("routers") = 1, nb::arg("prompt_cost") = std::tuple{0.0, 1e-4},
           nb::arg("decode_cost") = std::tuple{0.02, 0.0, 1e-7}, nb::arg("ttft") = 1.0, nb::arg("prefixes") = false,
           nb::arg("shares") = false, nb::arg("follows") = false)
      .def("handle", &runtime::handle, nb::arg("event"), "Something has happened: what is to be done.")
      .def("follow", &runtime::follow, nb::arg("event"), nb::arg("recorded"),
           "The book goes by the recorded actions: what the controller would have done.")
      .def("arrived", &runtime::arrived, nb::arg("request"), nb::arg("prompt"), nb::arg("now"), nb::kw_only(),
           nb::arg("generated") = 0, nb::arg("cached") = nb::none(), nb::arg("excluded") = nb::none(),
           nb::arg("prefix_key") = 0, nb::arg("reasons") = false, nb::arg("movable") = true, nb::arg("expected") = 0,
           nb::arg("spread") = 0, nb::arg("limit") = 0, nb::arg("session") = 0, nb::arg("tenant") = 0,
           nb::arg("calls_tools") = false, "A request is to be placed, new or again.")
      .def("progressed", &runtime::progressed, nb::arg("request"), nb::arg("replica"), nb::arg("count"), nb::arg("now"),
           "It has that many tokens in all.")
      .def("reported", &runtime::reported, nb::arg("replica"), nb::arg("incarnation"), nb::arg("epoch"), nb::arg("all"),
           nb::arg("now"), nb::arg("own") = nb::none(), nb::arg("free") = nb::none(), nb::arg("slo_met") = true,
           "A report has come: what became of it, and what is to be done.")
      .def_prop_rw("recording", &runtime::recording, &runtime::set_recording)
      .def_prop_ro("logged", &runtime::logged)
      .def("take_log", &runtime::take_log, "What was recorded since the last call, as bytes.")
      .def("sample", &runtime::sample, "The traffic as it was when the last plan was asked for, or None.")
      .def_prop_ro("reads_prefixes", &runtime::reads_prefixes)
      .def_prop_ro("next_wake", &runtime::next_wake)
      .def_prop_ro("requests", &runtime::requests)
      .def("where", &runtime::where, nb::arg("request"))
      .def("moves_to", &runtime::moves_to, nb::arg("request"))
      .def("contains", &runtime::contains, nb::arg("id"))
      .def("incarnation", &runtime::incarnation, nb::arg("id"))
      .def("silent", &runtime::silent, nb::arg("id"))
      .def("shown", &runtime::shown)
      .def("view", &runtime::view, nb::arg("id"))
      .def("own", &runtime::own, nb::arg("id"))
      .def("others", &runtime::others, nb::arg("id"))
      .def("reserved", &runtime::reserved, nb::arg("request"), nb::arg("id"))
      .def("__len__", &runtime::size)
      .def_prop_ro("moving", &runtime::moving)
      .def_prop_ro("expired", &runtime::expired)
      .def_prop_ro("dropped_notes", &runtime::dropped_notes)
      .def_prop_ro("received", &runtime::received);

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
      .def("key", &prefixes::key, nb::arg("prompt"), nb::arg("own"), "A hash of how a prompt begins.")
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
