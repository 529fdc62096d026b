# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prompts that are computed in one step: by choice, or because the attention knows no chunks (MLA on a CPU).

vLLM wants a step's budget to have room for the longest prompt. One that the decodes of a step leave too little for
waits, as all behind it.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import Any

import pytest
import stub
from pair import Pair
from test_handback import groups, latent, make, with_config
from test_handback import window as a_window
from test_stub import Run, check, drive, one_or_two, policies
from vllm import SamplingParams

#: As many tokens as a prompt and its output can have.
budget = 1024
whole = {"enable_chunked_prefill": False, "max_num_batched_tokens": budget, "max_num_scheduled_tokens": budget}


@dataclass
class Load(stub.Load):
    """Some of the prompts need nearly all of a step."""

    def requests(self) -> list[tuple[str, list[int], SamplingParams, int, str | None]]:
        made = super().requests()
        rng = random.Random(self.seed)
        for i, (_, prompt, params, *_) in enumerate(made):
            if i % 10 == 0:
                prompt[:] = [rng.randrange(3, 64) for _ in range(rng.randrange(990, 1018))]
                params.max_tokens = min(params.max_tokens, 5)
        return made


def driven(cls: type, own: Any, load: stub.Load, in_flight: int, troubled: bool = False, **more: Any) -> Run:
    second, drafts, latent_kv = (more.pop(name, 0) for name in ("second", "drafts", "latent"))
    blocks = more.pop("blocks", 110)
    made = stub.config(
        tessera=own, second=bool(second), drafts=drafts, async_scheduling=in_flight == 2, **whole, **more
    )
    kv = stub.memory(blocks, latent=bool(latent_kv))
    s = stub.scheduler(cls, made, blocks, kv=kv, include_finished_set=True)
    assert type(s) is cls
    run = drive(s, stub.Runner(blocks, bool(second), drafts, whole=budget), load, troubled, in_flight)
    check(run, load)
    return run


@one_or_two
@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@pytest.mark.parametrize("name", [name for name in policies if "chunks" not in name])
def test_tokens(name: str, troubled: bool, in_flight: int) -> None:
    place = list(policies).index(name)
    load = Load(seed=place, priorities=name == "priority", tenants=name == "vtc")
    run = driven(
        stub.Scheduler,
        {"policy": name, **policies[name]},
        load,
        in_flight,
        troubled,
        caching=bool(place % 2),
        second=place % 3 == 0,
        drafts=3 * (place % 4 == 1),
        latent=place % 2,
    )
    assert run.preempted > 0
    assert (run.hits > 0) == bool(place % 2)


@one_or_two
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_beside_vllm(policy: str, caching: bool, in_flight: int) -> None:
    load = Load(seed=3, priorities=policy == "priority")
    theirs = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
    runs = [
        driven(cls, own, load, in_flight, caching=caching, policy=policy, latent=True)
        for cls, own in ((theirs, None), (stub.Scheduler, {"policy": policy}))
    ]
    assert runs[0].got == runs[1].got and runs[0].reasons == runs[1].reasons
    assert all(run.preempted > 0 for run in runs)


def steps_of(cls: type, own: Any, prompts: list[int], in_flight: int) -> list[dict[str, int]]:
    """What each step computes of each request, with memory for all."""
    made = stub.config(tessera=own, caching=False, async_scheduling=in_flight == 2, **whole)
    s = stub.scheduler(cls, made, 400)
    runner = stub.Runner(400, whole=budget)
    for i, length in enumerate(prompts):
        most = min(40 + 7 * (i % 5), budget - length)
        s.add_request(stub.request(str(i), [3 + i] * length, SamplingParams(temperature=0, max_tokens=most)))
    steps, launched = [], deque()
    while s.has_requests() or launched:
        if s.has_requests():
            step = s.schedule()
            steps.append(dict(step.num_scheduled_tokens))
            launched.append((step, runner.run(step)))
        if len(launched) == in_flight or not s.has_requests():
            s.update_from_output(*launched.popleft())
    return [step for step in steps if step]


@one_or_two
def test_a_prompt_waits_until_decodes_leave_room(in_flight: int) -> None:
    """Step for step as in vLLM: those behind it wait too, though there were room for them."""
    prompts = [30, 20, 40, 10, 1022, 50, 7, 1023, 500, 400, 300, 3]
    theirs = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
    steps = [
        steps_of(cls, own, prompts, in_flight) for cls, own in ((theirs, None), (stub.Scheduler, {"policy": "fcfs"}))
    ]
    assert steps[1] == steps[0]
    first = {name: i for i in reversed(range(len(steps[0]))) for name in steps[0][i]}
    assert first["4"] > 40 and first["5"] == first["6"] == first["4"] + 1 and first["7"] > first["6"] + 30  # they wait


def test_kv_from_another_engine() -> None:
    """What does not come of it is computed in one step."""
    pair = Pair(5, {}, failing=0.3, **whole)
    for _, worker in pair.engines.values():
        worker.runner.whole = budget
    pair.serve(stub.Load(seed=5, count=120), aborts=True)
    assert pair.workers["D"].failed > 3 and pair.preempted > 0


def test_windows_are_handed_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """They give their blocks back between the chunks of a prompt."""
    for kv in (groups(a_window()), groups(latent(), a_window())):
        got, warnings = make(monkeypatch, with_config("scheduler_config", **whole), kv)
        assert got[0] == "own" and "prompts in one piece with windows or several groups" in warnings[0]
    got, warnings = make(monkeypatch, with_config("scheduler_config", **whole), groups(latent()))
    assert type(got) is stub.Scheduler and not warnings
