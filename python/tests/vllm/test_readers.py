# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What code finds that reads a scheduler from outside: the requests, with true numbers, as in vLLM's own."""

from __future__ import annotations

from typing import Any

import pytest
import stub
from steps import params, stepped
from test_stub import one_or_two


def read(s: Any) -> dict[str, tuple[Any, ...]]:
    return {
        request_id: (r.num_computed_tokens, r.num_tokens, list(r.output_token_ids), r.num_preemptions, r.status)
        for request_id, r in s.requests.items()
    }


def followed(cls: type, own: Any, in_flight: int, drafts: int, blocks: int) -> list[Any]:
    """What is to be read after each plan and after each output."""
    made = stub.config(tessera=own, drafts=drafts, async_scheduling=in_flight == 2, caching=False)
    s, runner = stub.scheduler(cls, made, blocks), stub.Runner(blocks, drafts=drafts)
    load = stub.Load(seed=5, count=40).requests()
    flying: list[Any] = []
    seen = []

    def look(after: str) -> None:
        names = {r.request_id for r in s.running}
        assert {r.request_id for r in s.waiting} == s.requests.keys() - names
        seen.append((after, read(s), [r.request_id for r in s.running]))

    while load or s.has_unfinished_requests():
        for request_id, prompt, asked, _, _ in load[:2]:
            s.add_request(stub.request(request_id, prompt, asked))
        del load[:2]
        step = s.schedule()
        look("plan")
        flying.append((step, runner.run(step)))
        if len(flying) == in_flight or not step.num_scheduled_tokens:
            s.update_from_output(*flying.pop(0))
            if drafts:
                s.update_draft_token_ids(runner.take_draft_token_ids())
            look("output")
    return seen


@one_or_two
def test_requests_have_the_numbers_of_vllms_own(in_flight: int) -> None:
    """With memory for all: then both plan the same steps."""
    theirs = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
    own, mine = followed(theirs, None, in_flight, 0, 400), followed(stub.Scheduler, {}, in_flight, 0, 400)
    for i, (a, b) in enumerate(zip(own, mine, strict=True)):
        assert a == b, i
    assert len(mine) > 100


@one_or_two
@pytest.mark.parametrize("drafts", [0, 3], ids=["no drafts", "drafts"])
def test_numbers_where_requests_are_preempted(drafts: int, in_flight: int) -> None:
    """A request without blocks has nothing computed. After an output, the KV of the latest token is still to come."""
    preempted = 0
    for after, requests, running in followed(stub.Scheduler, {}, in_flight, drafts, 60):
        for request_id, (computed, tokens, _, preemptions, _) in requests.items():
            preempted += preemptions
            assert request_id not in running or computed > 0
            assert request_id in running or computed == 0
            if after == "output" and in_flight == 1:
                assert computed < tokens
    assert preempted


def test_a_request_that_is_not_there() -> None:
    s, runner = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 60), stub.Runner(60)
    assert s.requests == {} and s.running == [] and s.waiting == []
    with pytest.raises(KeyError):
        s.requests["x"]
    s.add_request(stub.request("x", [5, 6, 7], params()))
    assert list(s.requests) == ["x"] and "x" in s.requests and len(s.requests) == 1
    assert [r.request_id for r in s.waiting] == ["x"]
    while s.has_unfinished_requests():
        stepped(s, runner)
    assert s.requests == {} and s.running == [] and s.requests.get("x") is None


def test_a_refused_request_waits_until_it_is_reported() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40)
    s.add_request(stub.request("x", [5] * 1000, params()))
    assert [r.request_id for r in s.waiting] == ["x"] and s.requests["x"].num_computed_tokens == 0
    stepped(s, stub.Runner(40))
    assert s.requests == {}
