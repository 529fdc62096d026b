# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schedulers against a runner that sees every block that is wrong: 64 settings of ours, and vLLM's own beside them."""

from __future__ import annotations

import random
from collections import defaultdict
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
    "improved": {"slice": 16, "pace": 0.001, "margin": 0.01, "end_of_reasoning": 11},
    "round_robin": {"quantum": 8},
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
    finished_seen: set[str] = field(default_factory=set)


def drive(s: Any, runner: stub.Runner, load: stub.Load, troubled: bool) -> Run:
    """Runs a load to its end. Troubled: aborts between a step and its output and elsewhere, resets, pauses."""
    run = Run()
    rng = random.Random(load.seed + 1)
    arrivals = load.requests()
    told: set[str] = set()
    coming = iter(arrivals)
    left = len(arrivals)
    while left or s.has_requests():
        for _ in range(2):
            if left:
                s.add_request(stub.request(*next(coming)))
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
        if troubled and rng.random() < 0.2 and s.requests:
            for request_id in rng.sample(list(s.requests), min(2, len(s.requests))):
                ended = s.finish_requests(request_id, stub.RequestStatus.FINISHED_ABORTED)
                assert [r.request_id for r in ended] == [request_id]
                run.aborted.add(request_id)
            assert s.finish_requests("nobody", stub.RequestStatus.FINISHED_ABORTED) == []
        output = runner.run(step)
        for outputs in s.update_from_output(step, output).values():
            run.finished_seen |= outputs.finished_requests or set()
            for o in outputs.outputs:
                assert o.request_id not in run.aborted or o.request_id in run.reasons
                run.got[o.request_id] += o.new_token_ids
                if o.finish_reason is not None:
                    assert o.request_id not in run.reasons
                    run.reasons[o.request_id] = (o.finish_reason, o.stop_reason)
        run.steps += 1
        assert run.steps < 20_000, "it does not come to an end"
        if troubled and not s.has_requests():
            s.set_pause_state(PauseState.UNPAUSED)
    assert not s.requests
    assert s.get_request_counts() == (0, 0)
    assert s.get_kv_cache_usage() == 0
    assert told == {request_id for request_id, *_ in arrivals}, "the runner was told of every end"
    assert run.finished_seen == told
    return run


def check(run: Run, load: stub.Load) -> None:
    for request_id, prompt, params, _, _ in load.requests():
        if request_id in run.aborted:
            expected = stub.answer(prompt, params)
            assert run.got[request_id] == expected[: len(run.got[request_id])]
            continue
        assert run.got[request_id] == stub.answer(prompt, params), request_id
        assert request_id in run.reasons


@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@pytest.mark.parametrize("second", [False, True], ids=["first runner", "second runner"])
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("name", policies)
def test_tokens(name: str, caching: bool, second: bool, troubled: bool) -> None:
    load = stub.Load(seed=list(policies).index(name), priorities=name == "priority")
    chunks = {"long_prefill_token_threshold": 24} if "chunks" in name else {}
    made = stub.config(caching=caching, tessera={"policy": name.split()[0], **policies[name]}, second=second, **chunks)
    s = stub.scheduler(stub.Scheduler, made, blocks=60, include_finished_set=True)
    assert type(s) is stub.Scheduler
    runner = stub.Runner(60, second)
    run = drive(s, runner, load, troubled)
    check(run, load)
    # Else it proves less than it says.
    assert run.preempted > 0
    assert not caching or run.hits > 0
    assert not troubled or (run.aborted and run.resets)
    assert second or runner.resumed > 0


@pytest.mark.parametrize("second", [False, True], ids=["first runner", "second runner"])
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_beside_vllm(policy: str, caching: bool, second: bool) -> None:
    """The stub is right by vLLM's own scheduler, and ours says the same as that one."""
    load = stub.Load(seed=3, priorities=policy == "priority")
    runs = []
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {"policy": policy})):
        made = stub.config(caching=caching, policy=policy, tessera=own, second=second)
        s = stub.scheduler(cls, made, blocks=60, include_finished_set=True)
        runs.append(drive(s, stub.Runner(60, second), load, False))
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
