# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two steps in flight: what a grammar must know before a step samples, and what comes too late."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

import pytest
import stub
from steps import add_with_grammars
from vllm import SamplingParams


class Grammars:
    """Takes every token, and wants to have had all of them before it says which may come next."""

    def __init__(self, runner: stub.Runner) -> None:
        self.runner = runner
        self.accepted: dict[str, list[int]] = defaultdict(list)
        self.asked = 0

    def accept_tokens(self, request: Any, tokens: list[int]) -> bool:
        if request.use_structured_output:
            self.accepted[request.request_id] += tokens
        return True

    def grammar_bitmask(self, requests: Any, ids: list[str], drafts: Any) -> Any:
        for request_id in ids:
            state = self.runner.states.get(request_id)
            if state is not None:
                assert self.accepted[request_id] == state.tokens[state.prompt :], "a token that it has not had"
            self.asked += 1
        return object()


def run(s: Any, runner: stub.Runner, in_flight: int = 2) -> tuple[dict[str, list[int]], int]:
    """As vLLM's engine core: if its grammars lack a token, a step samples when the step before has been taken in."""
    got: dict[str, list[int]] = defaultdict(list)
    launched: deque[tuple[Any, Any]] = deque()
    deferred_steps = 0

    def take_in() -> None:
        step, output = launched.popleft()
        for outputs in s.update_from_output(step, output).values():
            for o in outputs.outputs:
                got[o.request_id] += o.new_token_ids

    while s.has_requests() or launched:
        if s.has_requests():
            step = s.schedule()
            if step.pending_structured_output_tokens:
                deferred_steps += 1
                take_in()
                if runner.drafts:
                    s.update_draft_token_ids_in_output(runner.take_draft_token_ids(), step)
            told = s.get_grammar_bitmask(step)
            runner.acceptable = {}
            if told is not None and in_flight == 2:
                ids = told.structured_output_request_ids
                drafts = step.scheduled_spec_decode_tokens
                runner.acceptable = {i: len([t for t in drafts.get(i, []) if t != -1]) for i in ids}
            launched.append((step, runner.run(step)))
            if len(launched) < in_flight and s.has_requests():
                continue
        take_in()
        if in_flight == 1 and runner.drafts:
            s.update_draft_token_ids(runner.take_draft_token_ids())
    return got, deferred_steps


@pytest.mark.parametrize("second", [False, True], ids=["first runner", "second runner"])
@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "vLLM's own"])
def test_a_grammar_has_had_every_token(second: bool, theirs: bool) -> None:
    runner = stub.Runner(60, second)
    made = stub.config(tessera=None if theirs else {"policy": "fcfs"}, second=second, async_scheduling=True)
    s = stub.scheduler(stub.OwnAsyncScheduler if theirs else stub.Scheduler, made, blocks=60)
    grammars = s.structured_output_manager = Grammars(runner)
    load = stub.Load(seed=11, count=60).requests()
    structured = add_with_grammars(s, load)
    got, deferred_steps = run(s, runner)
    for request_id, prompt, params, _, _ in load:
        assert got[request_id] == stub.answer(prompt, params), request_id
    assert len(structured) == 20 and set(grammars.accepted) == structured
    assert grammars.asked > 100 and deferred_steps > 10


def test_more_steps_than_can_be_under_way_are_refused() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}, async_scheduling=True), blocks=60)
    s.add_request(stub.request("a", [5] * 20, SamplingParams(max_tokens=50)))
    s.schedule()
    s.schedule()
    with pytest.raises(RuntimeError, match="the most steps are in flight"):
        s.schedule()


def test_a_reset_comes_when_nothing_is_under_way() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}, async_scheduling=True), blocks=60)
    runner = stub.Runner(60)
    s.add_request(stub.request("a", [5] * 40, SamplingParams(max_tokens=50)))
    steps = [s.schedule(), s.schedule()]
    outputs = [runner.run(step) for step in steps]
    assert s.reset_prefix_cache(reset_running_requests=True)
    s.update_from_output(steps[0], outputs[0])
    empty = s.schedule()
    assert empty.total_num_scheduled_tokens == 0  # nothing new before that
    s.update_from_output(steps[1], outputs[1])
    s.update_from_output(empty, runner.run(empty))
    again = s.schedule()
    assert again.preempted_req_ids == {"a"} and again.num_scheduled_tokens["a"] == 42  # all of it, computed anew
