# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adapters (LoRA): no more at once than there is room for, and no KV of one is another's."""

from __future__ import annotations

import pytest
import stub
from test_stub import check, drive, one_or_two, policies
from vllm import SamplingParams
from vllm.lora.request import LoRARequest


@one_or_two
@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@pytest.mark.parametrize("name", policies)
def test_tokens(name: str, troubled: bool, in_flight: int) -> None:
    place = list(policies).index(name)
    load = stub.Load(seed=place, priorities=name == "priority", tenants=name == "vtc", adapters=5)
    second, caching = bool(place % 2), bool(place % 3)
    made = stub.config(
        tessera={"policy": name.split()[0], **policies[name]},
        caching=caching,
        second=second,
        adapters=2,
        drafts=3 * (place % 4 == 0),
        async_scheduling=in_flight == 2,
    )
    s = stub.scheduler(stub.Scheduler, made, blocks=60, include_finished_set=True)
    assert type(s) is stub.Scheduler
    runner = stub.Runner(60, second, adapters=2, drafts=3 * (place % 4 == 0))
    run = drive(s, runner, load, troubled, in_flight)
    check(run, load)
    assert run.preempted > 0
    # Resets, aborts and five adapters may leave nothing to be found again.
    assert run.hits == 0 if not caching else troubled or run.hits > 0


@one_or_two
def test_beside_vllm(in_flight: int) -> None:
    load = stub.Load(seed=3, adapters=5)
    theirs = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
    runs = []
    for cls, own in ((theirs, None), (stub.Scheduler, {"policy": "fcfs"})):
        made = stub.config(tessera=own, adapters=2, async_scheduling=in_flight == 2)
        s = stub.scheduler(cls, made, blocks=60, include_finished_set=True)
        runs.append(drive(s, stub.Runner(60, adapters=2), load, False, in_flight))
        check(runs[-1], load)
    assert runs[0].got == runs[1].got and runs[0].reasons == runs[1].reasons


def test_who_needs_another_adapter_is_passed() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}, adapters=1), 60)
    runner = stub.Runner(60, adapters=1)
    for name, adapter in (("a", 1), ("b", 2), ("c", 1), ("d", 0)):
        s.add_request(stub.request(name, [5, 6, 7], SamplingParams(temperature=0, max_tokens=3), adapter=adapter))
    step = s.schedule()
    assert set(step.num_scheduled_tokens) == {"a", "c", "d"}
    assert [n.lora_request and n.lora_request.lora_int_id for n in step.scheduled_new_reqs] == [1, 1, None]
    while "b" not in step.num_scheduled_tokens:
        s.update_from_output(step, runner.run(step))
        step = s.schedule()
    assert set(step.num_scheduled_tokens) == {"b"}


def test_an_adapter_that_comes_anew_under_its_name_finds_nothing() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}, adapters=4), 60)
    runner = stub.Runner(60, adapters=4)
    found = []
    for i, adapter in enumerate(
        (
            None,
            None,
            LoRARequest("a", 1, "/a"),
            LoRARequest("a", 1, "/a"),
            LoRARequest("b", 2, "/a"),
            LoRARequest("a", 1, "/b"),
        )
    ):
        params = SamplingParams(temperature=0, max_tokens=1)
        s.add_request(stub.request(str(i), [5] * 50, params, lora_request=adapter))
        step = s.schedule()
        found.append(step.scheduled_new_reqs[0].num_computed_tokens)
        s.update_from_output(step, runner.run(step))
    assert found == [0, 48, 0, 48, 0, 0]
