// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "engine/core.hpp"

#include <tessera/version.hpp>

namespace nb = nanobind;

NB_MODULE(_vllm, m) {
  using tessera_python::core;
  // vLLM keeps its scheduler until the process ends, and then frees what it likes.
  nb::set_leak_warnings(false);
  m.doc() = "The scheduler of tessera.vllm; use that.";
  nb::list names;
  for (const std::string_view name : tessera_python::planner_names()) names.append(nb::str(name.data(), name.size()));
  m.attr("policies") = nb::tuple(names);
  m.attr("adapters") = tessera_python::most_adapters;
  m.attr("groups") = tessera_python::most_groups;
  m.attr("state_window") = tessera_python::state_window.count();
  m.attr("tenants") = tessera_python::tenants;
  m.attr("sessions") = tessera_python::caching_order::last_session;
  m.attr("version") = nb::make_tuple(TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR, TESSERA_VERSION_PATCH);

  nb::class_<core>(m, "Core", "A scheduler that takes and gives vLLM's objects.")
      .def(nb::init<const std::string&, const nb::dict&, const nb::dict&>(), nb::arg("policy"), nb::arg("options"),
           nb::arg("words"))
      .def("submit", &core::submit, nb::arg("request"), nb::arg("description"), nb::arg("now"),
           "A request joins: its slot, or the word of the refusal.")
      .def("cancel", &core::cancel, nb::arg("slot"), "A request ends, whatever it does.")
      .def("set_option", &core::set_option, nb::arg("name"), nb::arg("value"),
           "Gives an option another value, from the next step on. False: there is none of this name.")
      .def("schedule", &core::schedule, nb::arg("now"), nb::arg("budget"), nb::arg("max_chunk"), nb::arg("admit"),
           nb::arg("defer_prefills"), "Plans a step.")
      .def("drafts", &core::drafts, "The drafts that the latest step verifies, by the ids of their requests.")
      .def("is_early", &core::is_early, "Whether the next step would come too early for the engine's pipeline.")
      .def("new_tokens", &core::new_tokens,
           "For each request of the latest step's list of ids, the tokens that the step computes.")
      .def("drafts_are_vain", &core::drafts_are_vain, "Whether no request can use what is drafted in the latest step.")
      .def("prefills", &core::prefills, "Whether the latest step computes a part of a prompt.")
      .def("decodes", &core::decodes, "Whether a request that holds blocks has all of its prompt.")
      .def("to_zero", &core::to_zero, "Blocks that the runner makes zero before the latest step.")
      .def("take_drafts", &core::take_drafts, nb::arg("slot_of"), nb::arg("req_ids"), nb::arg("guesses"),
           "Drafts for the next step, where they are known before it is planned.")
      .def("loads", &core::loads,
           "KV that is on its way by the latest plan: (request, block ids by group, tokens that are here).")
      .def("lost", &core::lost,
           "Requests that begin anew since the last call: too little KV has come for their windows.")
      .def("arrived", &core::arrived, nb::arg("slot"), nb::arg("tokens"),
           "KV of its first `tokens` tokens has come, and no more will.")
      .def("drain", &core::drain, nb::arg("slot"), "It has ended, and its blocks stay held: by this ticket, or not.")
      .def("drained", &core::drained, nb::arg("ticket"), "They can be given to others.")
      .def("let_go", &core::let_go, nb::arg("slot"), "It has ended, and its KV is not wanted.")
      .def("draining", &core::draining, "Requests that have ended and hold blocks.")
      .def("loading", &core::loading, "Requests with KV that is on its way, or has come and waits for a place.")
      .def("coming", &core::coming, "Requests of `loading` that have not ended.")
      .def("encodes", &core::encodes,
           "What the encoder does before the latest step: (numbers of inputs by the ids of requests, hashes of outputs "
           "that it drops first).")
      .def("forget_outputs", &core::forget_outputs, "All outputs of the encoder are gone.")
      .def("events", &core::events, "What the prefix cache has learnt and forgotten.")
      .def("skip", &core::skip, "A step in which nothing runs.")
      .def("update", &core::update, nb::arg("index_of"), nb::arg("req_ids"), nb::arg("sampled"), nb::arg("now"),
           nb::arg("spoilt") = std::vector<std::uint32_t>{},
           "Takes in what came of a step: (outputs by client, what to look at, requests that ended, requests without a "
           "usable output and why). `spoilt`: slots of requests with KV that did not come.")
      .def("forget_prefixes", &core::forget_prefixes, "No prefix is known any more.")
      .def("reset", &core::reset, "All KV is lost: the requests that had some, or None while a step is under way.")
      .def("running", &core::running, "Requests that hold blocks.")
      .def("waiting", &core::waiting, "Requests that hold none.")
      .def("live", &core::live, "Requests that have not ended.")
      .def("pending", &core::pending, "Whether a step is under way.")
      .def("usage", &core::usage, "Part of the blocks that requests hold.")
      .def("why", &core::why, nb::arg("slot"), "Why a request is not in the latest step.")
      .def("computed", &core::computed, nb::arg("slot"),
           "Tokens of a request that have KV once the steps under way have been run.")
      .def("residents", &core::residents, "The requests that hold blocks, in the order of their turns.")
      .def("names_of", &core::names_of, nb::arg("slot"), nb::arg("group"),
           "What the full blocks of a request in a group are found by.")
      .def("blocks_of", &core::blocks_of, nb::arg("slot"),
           "For each group the blocks that a request holds, as the runner has them.")
      .def("write_tokens", nb::overload_cast<std::uint32_t>(&core::write_tokens), nb::arg("slot"),
           "Brings a request's lists of tokens up to date.")
      .def("close", &core::close, "Ends everything.");
}
