# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schedulers against a runner that sees every block that is wrong: 160 settings of ours, and vLLM's own beside them."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

import pytest
import stub
from vllm.v1.core.sched.interface import PauseState

policies = {
    "fcfs": {},
    "priority": {},
    "pars": {"threshold": 0.05},
    "pascal": {"quantum": 16, "demote_above": 100, "end_of_reasoning": 11},
    "pascal_paced": {"quantum": 16, "slice": 16, "pace": 0.001, "margin": 0.01, "end_of_reasoning": 11},
    "due_first": {
        "slice": 16,
        "pace": 0.001,
        "margin": 0.01,
        "prompt_pace": 1e-5,
        "move_pace": 1e-6,
        "end_of_reasoning": 11,
    },
    "round_robin": {"quantum": 8},
    "shortest_prefill": {"threshold": 0.05},
    "vtc": {"weights": {"b": 3}},
    "fcfs in chunks": {},
}


@dataclass
class Run:
    """What came of a load."""

    got: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    reasons: dict[str, Any] = field(default_factory=dict)
    aborted: set[str] = field(default_factory=set)
    steps: int = 0
    preempted: int = 0
    hits: int = 0
    resets: int = 0
    overlapped: int = 0
    expected: int = 0  #: requests in a step with a token that a step before has yet to give
    finished_seen: set[str] = field(default_factory=set)


@stub.clock.installed()
def drive(s: Any, runner: stub.Runner, load: stub.Load, troubled: bool, in_flight: int = 1) -> Run:
    """Runs a load to its end. Troubled: aborts between a step and its output and elsewhere, resets, pauses.

    With several in flight it does as vLLM's engine core with a batch queue. A step is planned and launched before the
    result of the step before is known. When there are as many as can be, or nothing to plan, the oldest is taken in.
    """
    run = Run()
    rng = random.Random(load.seed + 1)
    arrivals = load.requests()
    told: set[str] = set()
    coming = iter(arrivals)
    left = len(arrivals)
    launched: deque[tuple[Any, Any]] = deque()
    while left or s.has_requests() or launched:
        if left or s.has_requests():
            for _ in range(2):
                if left:
                    s.add_request(load.request(next(coming)))
                    left -= 1
            if troubled and run.steps % 17 == 16:
                s.set_pause_state(rng.choice([PauseState.PAUSED_NEW, PauseState.PAUSED_ALL]))
            if troubled and run.steps % 17 == 3:
                s.set_pause_state(PauseState.UNPAUSED)
            if troubled and run.steps % 29 == 28:
                assert s.reset_prefix_cache(True)
                run.resets += 1
            step = s.schedule(throttle_prefills=troubled and run.steps % 5 == 0)
            told |= step.finished_req_ids
            run.preempted += len(step.preempted_req_ids or ())
            run.hits += sum(n.num_computed_tokens for n in step.scheduled_new_reqs)
            run.overlapped += bool(step.total_num_scheduled_tokens and launched)
            awaited = {
                i for _, ran in launched for i, got in zip(ran.req_ids, ran.sampled_token_ids, strict=True) if got
            }
            run.expected += len(awaited & step.num_scheduled_tokens.keys())
            launched.append((step, runner.run(step)))
            run.steps += 1
            stub.clock.now += stub.clock.step_s
            assert run.steps < 20_000, "it does not come to an end"
        if troubled and rng.random() < 0.2 and s.requests:
            for request_id in rng.sample(list(s.requests), min(2, len(s.requests))):
                ended = s.finish_requests(request_id, stub.RequestStatus.FINISHED_ABORTED)
                assert [r.request_id for r in ended] == [request_id]
                run.aborted.add(request_id)
            assert s.finish_requests("nobody", stub.RequestStatus.FINISHED_ABORTED) == []
        if len(launched) < in_flight and (left or s.has_requests()):
            continue
        step, output = launched.popleft()
        for outputs in s.update_from_output(step, output).values():
            run.finished_seen |= outputs.finished_requests or set()
            for o in outputs.outputs:
                assert o.request_id not in run.aborted or o.request_id in run.reasons
                assert o.request_id not in run.reasons, "it has ended"
                run.got[o.request_id] += o.new_token_ids
                if o.finish_reason is not None:
                    run.reasons[o.request_id] = (o.finish_reason, o.stop_reason)
        if runner.drafts and in_flight == 1 and step.total_num_scheduled_tokens:
            s.update_draft_token_ids(runner.take_draft_token_ids())
        if troubled and not s.has_requests():
            s.set_pause_state(PauseState.UNPAUSED)
    assert not s.requests
    assert s.get_request_counts() == (0, 0)
    assert s.get_kv_cache_usage() == 0
    assert told == {request_id for request_id, *_ in arrivals}, "the runner was told of every end"
    assert run.finished_seen == told
    return run


def check(run: Run, load: stub.Load) -> None:
    for arrival in load.requests():
        request_id, expected = arrival[0], load.answer(arrival)
        if request_id in run.aborted:
            assert run.got[request_id] == expected[: len(run.got[request_id])]
            continue
        assert run.got[request_id] == expected, request_id
        assert request_id in run.reasons


one_or_two = pytest.mark.parametrize("in_flight", [1, 2], ids=["one in flight", "two in flight"])


@one_or_two
@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@pytest.mark.parametrize("second", [False, True], ids=["first runner", "second runner"])
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("name", policies)
def test_tokens(name: str, caching: bool, second: bool, troubled: bool, in_flight: int) -> None:
    place = list(policies).index(name)
    load = stub.Load(seed=place, priorities=name == "priority", tenants=name == "vtc", hints=bool(place % 2))
    more = {"long_prefill_token_threshold": 24} if "chunks" in name else {}
    more["async_scheduling"] = in_flight == 2
    made = stub.config(caching=caching, tessera={"policy": name.split()[0], **policies[name]}, second=second, **more)
    s = stub.scheduler(stub.Scheduler, made, blocks=60, include_finished_set=True)
    assert type(s) is stub.Scheduler
    runner = stub.Runner(60, second)
    run = drive(s, runner, load, troubled, in_flight)
    check(run, load)
    # Else it proves less than it says.
    assert run.preempted > 0
    assert (run.overlapped > run.steps / 2) == (in_flight == 2)
    assert not caching or run.hits > 0
    assert not troubled or (run.aborted and run.resets)
    assert second or runner.resumed > 0


@one_or_two
@pytest.mark.parametrize("second", [False, True], ids=["first runner", "second runner"])
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_beside_vllm(policy: str, caching: bool, second: bool, in_flight: int) -> None:
    """The stub is right by vLLM's own schedulers, and ours says the same as those."""
    load = stub.Load(seed=3, priorities=policy == "priority")
    runs = []
    theirs = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
    for cls, own in ((theirs, None), (stub.Scheduler, {"policy": policy})):
        made = stub.config(caching=caching, policy=policy, tessera=own, second=second, async_scheduling=in_flight == 2)
        s = stub.scheduler(cls, made, blocks=60, include_finished_set=True)
        runs.append(drive(s, stub.Runner(60, second), load, False, in_flight))
        check(runs[-1], load)
    assert runs[0].got == runs[1].got
    assert runs[0].reasons == runs[1].reasons


def test_a_wrong_block_is_seen() -> None:
    """The check can fail: one request is told another's block instead of its own, once."""
    load = stub.Load(seed=3)
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), blocks=60, include_finished_set=True)
    plan, wrong = s.schedule, []

    def with_a_wrong_block(**named: Any) -> Any:
        step = plan(**named)
        if not wrong and len(step.scheduled_new_reqs) > 1:
            first, second = step.scheduled_new_reqs[:2]
            second.block_ids[0][0] = first.block_ids[0][0]
            wrong.append(second.req_id)
        return step

    s.schedule = with_a_wrong_block
    with pytest.raises(AssertionError):
        check(drive(s, stub.Runner(60), load, False), load)
    assert wrong
