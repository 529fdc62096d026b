# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Requests with a grammar: they wait until it has been compiled, and the sampler follows it."""

from __future__ import annotations

from typing import Any

from tessera.vllm import _api as api

_make_grammar = api.make(api.GrammarOutput)


class Grammars:
    """The part of the interface for them. `Scheduler` has the members that it reads."""

    def _take_grammars(self) -> None:
        """Requests join the queue when their grammar has been compiled."""
        waiting, self.without_grammar = self.without_grammar, []
        for request in waiting:
            grammar = request.structured_output_request.grammar
            if grammar is None:
                self.without_grammar.append(request)
            elif isinstance(grammar, Exception):
                self._refuse(request, f"its grammar does not compile: {grammar}")
            else:
                request.status = api.RequestStatus.WAITING
                self._submit(request)

    def _note_structured(self, output: Any) -> list[str]:
        """The requests with a grammar that the sampler must follow. Also notes whether a token that a grammar has to
        know is on its way."""
        ids = self._structured_in(output)
        output.has_structured_output_requests = bool(ids)
        if ids and any(not set(ids).isdisjoint(step) for _, step in self.steps):
            output.pending_structured_output_tokens = True
        return ids

    def _structured_in(self, output: Any) -> list[str]:
        """The requests with a grammar that sample in a step."""
        return [
            request_id
            for request_id in output.num_scheduled_tokens
            if (request := self.structured.get(request_id)) is not None and not request.is_prefill_chunk
        ]

    def get_grammar_bitmask(self, scheduler_output: Any) -> Any:
        if not scheduler_output.has_structured_output_requests:
            return None
        ids = self._structured_in(scheduler_output)
        if not ids:
            return None
        drafts = scheduler_output.scheduled_spec_decode_tokens
        bitmask = self.structured_output_manager.grammar_bitmask(self.by_id, ids, drafts)
        return _make_grammar(
            structured_output_request_ids=ids,
            grammar_bitmask=bitmask,
            num_acceptable_drafts=[len(api.without_padding(drafts.get(i, []))) for i in ids],
        )
