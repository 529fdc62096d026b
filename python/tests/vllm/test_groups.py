# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers that look at a window or a chunk, alone and beside those that look at all: a table for each group of them."""

from __future__ import annotations

from typing import Any

import pytest
import stub
from test_stub import Run, check, drive, one_or_two, policies
from vllm import SamplingParams

kinds = {
    "window": (40,),
    "window and all": (40, 0),
    "all and window": (0, 40),
    "two windows": (24, 70),
    "chunks and all": (-48, 0),
    "chunks": (-32,),
    "chunks across blocks": (-40, 0),  # two can have a part of a block
    "five windows and all": (40, 40, 40, 40, 40, 0),  # Gemma 3 of 12B
    "chunks and all, four groups": (-48, -48, -48, 0),  # Llama 4
}


def driven(
    cls: type, own: Any, load: stub.Load, windows: tuple[int, ...], troubled: bool, in_flight: int, **more: Any
) -> Run:
    blocks = more.pop("blocks", (60 if 0 in windows else 40) * len(windows))
    second, drafts, adapters, latent = (more.pop(name, 0) for name in ("second", "drafts", "adapters", "latent"))
    sizes = more.pop("sizes", ())
    made = stub.config(
        tessera=own,
        second=bool(second),
        drafts=drafts,
        adapters=adapters,
        async_scheduling=in_flight == 2,
        **more,
    )
    kv = stub.memory(blocks, windows, bool(latent), sizes=sizes)
    s = stub.scheduler(cls, made, blocks, kv=kv, include_finished_set=True)
    assert type(s) is cls
    runner = stub.Runner(blocks, bool(second), drafts, adapters, windows, sizes)
    run = drive(s, runner, load, troubled, in_flight)
    check(run, load)
    # How many are tried depends on when requests are preempted, and so, a little, on the clock.
    assert not drafts or (runner.tried > 50 and 0.2 * runner.tried < runner.accepted < 0.9 * runner.tried)
    return run


@one_or_two
@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@pytest.mark.parametrize("kind", kinds)
@pytest.mark.parametrize("name", policies)
def test_tokens(name: str, kind: str, troubled: bool, in_flight: int) -> None:
    place = list(policies).index(name) + list(kinds).index(kind)
    load = stub.Load(seed=place, priorities=name == "priority", tenants=name == "vtc", adapters=5 * (place % 5 == 0))
    more = {"long_prefill_token_threshold": 24} if "chunks" in name else {}
    run = driven(
        stub.Scheduler,
        {"policy": name.split()[0], **policies[name]},
        load,
        kinds[kind],
        troubled,
        in_flight,
        caching=bool(place % 3),
        second=place % 2,
        drafts=3 * (place % 4 == 1),
        adapters=2 * (place % 5 == 0),
        **more,
    )
    # Blocks that a window has passed are evicted first. Two settings keep no beginnings that windows pass.
    together = name == "shortest_prefill" and in_flight == 2
    assert (run.hits > 0) == bool(place % 3) or (together and run.hits == 0)
    assert run.preempted > 0 or place % 5 == 0


@one_or_two
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
# Across blocks, vLLM's own finds prefixes that chunks do not have.
@pytest.mark.parametrize("kind", [kind for kind in kinds if "across" not in kind])
def test_beside_vllm(kind: str, caching: bool, in_flight: int) -> None:
    load = stub.Load(seed=3)
    theirs = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
    runs = [
        driven(cls, own, load, kinds[kind], False, in_flight, caching=caching)
        for cls, own in ((theirs, None), (stub.Scheduler, {"policy": "fcfs"}))
    ]
    assert runs[0].got == runs[1].got and runs[0].reasons == runs[1].reasons


def test_a_window_gives_back_what_it_has_passed() -> None:
    """A long answer holds as much as its window, and block 0 stands for what is gone where it starts again."""
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 60, kv=stub.memory(60, (0, 40)))
    runner = stub.Runner(60, windows=(0, 40))
    params = SamplingParams(temperature=0, max_tokens=150)
    s.add_request(stub.request("a", [6] * 100, params))
    held = []
    while s.has_unfinished_requests():
        step = s.schedule()
        held.append(round(s.get_kv_cache_usage() * 59))
        s.update_from_output(step, runner.run(step))
    assert held[0] == 7 + 7 and held[-1] <= 16 + 4
    # Another one with the same beginning finds it, though the window has passed the most of it.
    s.add_request(stub.request("b", [6] * 100, params))
    step = s.schedule()
    (new,) = step.scheduled_new_reqs
    assert new.num_computed_tokens == 96
    all_of_it, windows = new.block_ids
    assert 0 not in all_of_it and windows[:3] == [0, 0, 0] and 0 not in windows[4:]


def test_a_block_of_another_group_is_seen() -> None:
    """The check can fail."""
    load = stub.Load(seed=3)
    kv = stub.memory(120, (0, 40))
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 120, kv=kv, include_finished_set=True)
    plan, wrong = s.schedule, []

    def with_a_wrong_block(**named: Any) -> Any:
        step = plan(**named)
        if not wrong and step.scheduled_new_reqs:
            new = step.scheduled_new_reqs[0]
            new.block_ids[1][-1] = new.block_ids[0][-1]
            wrong.append(new.req_id)
        return step

    s.schedule = with_a_wrong_block
    with pytest.raises(AssertionError):
        check(drive(s, stub.Runner(120, windows=(0, 40)), load, False), load)
    assert wrong
