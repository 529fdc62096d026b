# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Drafts of tokens, as the scheduler hears of them: which there are, and how many held."""

from __future__ import annotations

from typing import Any

from tessera.vllm import _api as api
from tessera.vllm.inquiries import Inquiries


class Drafts(Inquiries):
    """The part of the interface for them. `Scheduler` has the members that it reads."""

    def update_draft_token_ids(self, draft_token_ids: Any) -> None:
        """What the runner has guessed, for the next step."""
        ids, guesses = draft_token_ids.req_ids, draft_token_ids.draft_token_ids
        if self.structured:
            guesses = [
                guess if request is None else self.structured_output_manager.validate_tokens(request, guess)
                for request, guess in zip(map(self.structured.get, ids), guesses, strict=True)
            ]
        self.core.take_drafts(self.slots, ids, guesses)

    def update_draft_token_ids_in_output(self, draft_token_ids: Any, scheduler_output: Any) -> None:
        """The same for a step that has been planned with places for them: its grammars refuse some."""
        drafts = scheduler_output.scheduled_spec_decode_tokens
        invalid: dict[str, int] = {}
        for request_id, guess in zip(draft_token_ids.req_ids, draft_token_ids.draft_token_ids, strict=True):
            request = self.by_id.get(request_id)
            places = len(drafts.get(request_id, ()))
            if request is None or not places:
                continue
            valid = list(self.structured_output_manager.validate_tokens(request, guess[:places]))
            if len(valid) < places:
                invalid[request_id] = places - len(valid)
                valid += [-1] * invalid[request_id]
            drafts[request_id] = valid
        scheduler_output.num_invalid_spec_tokens = invalid

    def _count_drafts(self, step: Any, ran: Any) -> Any:
        """How many drafts held in a step: for the stats, and for each request that asks for it."""
        stats = api.SpecDecodingStats.new(self.lookahead) if self.log_stats else None
        invalid = step.num_invalid_spec_tokens or {}
        for request_id, drafts in step.scheduled_spec_decode_tokens.items():
            request = self.by_id.get(request_id)
            if request is None:
                continue
            try:
                accepted = len(ran.sampled_token_ids[ran.req_id_to_index[request_id]]) - 1
            except (LookupError, TypeError):
                accepted = -1
            tried = len(drafts) - invalid.get(request_id, 0)
            if not 0 <= accepted <= len(drafts):
                continue  # without a usable output: the core says so
            if stats is not None:
                stats.observe_draft(num_draft_tokens=tried, num_accepted_tokens=accepted)
            if request.spec_decode_metrics is not None:
                level = self.vllm_config.observability_config.per_request_spec_decode_metrics
                request.spec_decode_metrics.observe(tried, accepted, detailed=level == "detailed")
        return stats if stats is not None and stats.num_drafts else None
