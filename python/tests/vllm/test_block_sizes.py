# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Groups of layers with blocks of as many bytes, and of several numbers of tokens: DeepSeek-V4."""

from __future__ import annotations

import copy
import math
from collections import Counter
from typing import Any

import models
import pytest
import stub
from test_events import Kept, listened
from test_groups import driven
from test_stub import Run, check, drive, one_or_two, policies
from vllm import SamplingParams
from vllm.distributed.kv_events import EventPublisherFactory

from tessera.vllm import support

#: What a group's layers look at, as test_groups.py's, the sizes of their blocks, and their number.
kinds = {
    "DeepSeek-V4": ((128, 128, 0, 8, 128), (64, 64, 256, 4, 8), 160),
    "a quarter of it": ((32, 32, 0, 8, 32), (16, 16, 64, 4, 8), 160),
    "neither size divides the other": ((0, 40), (48, 32), 60),
    "a window in larger blocks": ((40, 0), (64, 16), 90),
}


def load_of(kind: str, seed: int, **more: Any) -> stub.Load:
    """Prompts that share some blocks of all groups."""
    _, sizes, _ = kinds[kind]
    return stub.Load(seed, 80, beginning=math.lcm(*sizes) + 10, hashed=math.gcd(*sizes), **more)


def run(cls: type, own: Any, load: stub.Load, kind: str, troubled: bool, in_flight: int, **more: Any) -> Run:
    windows, sizes, blocks = kinds[kind]
    return driven(cls, own, load, windows, troubled, in_flight, sizes=sizes, **{"blocks": blocks} | more)


@one_or_two
@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@pytest.mark.parametrize("kind", kinds)
@pytest.mark.parametrize("name", policies)
def test_tokens(name: str, kind: str, troubled: bool, in_flight: int) -> None:
    place = list(policies).index(name) + list(kinds).index(kind)
    load = load_of(kind, place, priorities=name == "priority", tenants=name == "vtc")
    result = run(
        stub.Scheduler,
        {"policy": name.split()[0], **policies[name]},
        load,
        kind,
        troubled,
        in_flight,
        caching=bool(place % 3),
        second=place % 2,
        drafts=3 * (place % 4 == 1),
        **({"long_prefill_token_threshold": 24} if "chunks" in name else {}),
    )
    assert (result.hits > 0) == bool(place % 3) or (troubled and result.hits == 0)
    assert result.preempted > 0 or "fcfs" in name


@one_or_two
@pytest.mark.parametrize("memory", ["no cache", "cache", "roomy cache"])
@pytest.mark.parametrize("kind", kinds)
def test_beside_vllm(kind: str, memory: str, in_flight: int) -> None:
    load = load_of(kind, 3)
    theirs = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
    roomy = {"blocks": 1200} if "roomy" in memory else {}
    runs = [
        run(cls, own, load, kind, False, in_flight, caching=memory != "no cache", **roomy)
        for cls, own in ((theirs, None), (stub.Scheduler, {"policy": "fcfs"}))
    ]
    assert runs[0].got == runs[1].got and runs[0].reasons == runs[1].reasons
    assert runs[1].steps < 1.1 * runs[0].steps
    # vLLM publishes a block when it is planned, we when it has been run.
    assert not roomy or (runs[1].steps == runs[0].steps and runs[1].hits > 0.95 * runs[0].hits)


@pytest.mark.parametrize("kind", kinds)
def test_tables_are_those_of_vllm(kind: str) -> None:
    """In each group, the same blocks of a prompt are found, and as many are new."""
    windows, sizes, _ = kinds[kind]
    tables = []
    for cls in (stub.OwnScheduler, stub.Scheduler):
        made = stub.config(tessera={} if cls is stub.Scheduler else None)
        s = stub.scheduler(cls, made, 300, kv=stub.memory(300, windows, sizes=sizes))
        runner = stub.Runner(300, windows=windows, sizes=sizes)
        prompt = [6] * 600
        for name in ("a", "b"):
            params = SamplingParams(temperature=0, max_tokens=30)
            s.add_request(stub.request(name, prompt, params, hashed=math.gcd(*sizes)))
            step = s.schedule()
            (new,) = step.scheduled_new_reqs
            tables.append((new.num_computed_tokens, [[block != 0 for block in ids] for ids in new.block_ids]))
            while True:
                s.update_from_output(step, runner.run(step))
                if not s.has_unfinished_requests():
                    break
                step = s.schedule()
    assert tables[:2] == tables[2:]
    unit = math.lcm(*sizes)
    assert tables[0][0] == 0 and tables[1][0] == 599 // unit * unit


@one_or_two
@pytest.mark.parametrize("name", ["DeepSeek-V4 Pro", "DeepSeek-V4 Flash"])
def test_memory_of_the_models(name: str, in_flight: int) -> None:
    """As vLLM makes it of their layers: new blocks must be zero, because groups write numbers of several kinds."""
    (model,) = (m for m in models.models if m.name == name)
    _, kv = models.memory_of(model, caching=True)
    kv.num_blocks = 300
    windows = tuple(support.windows_of(kv))
    sizes = tuple(group.kv_cache_spec.block_size for group in kv.kv_cache_groups)
    assert sorted(zip(windows, sizes, strict=True)) == [(0, 256), (8, 4), (128, 8), (128, 64), (128, 64)]
    assert kv.needs_kv_cache_zeroing
    load = load_of("DeepSeek-V4", 5)
    theirs = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
    runs = []
    for cls, own in ((theirs, None), (stub.Scheduler, {"policy": "due_first"})):
        made = stub.config(tessera=own, async_scheduling=in_flight == 2)
        s = stub.scheduler(cls, made, 300, kv=kv, include_finished_set=True)
        assert type(s) is cls
        runs.append(drive(s, stub.Runner(300, windows=windows, sizes=sizes, zeroes=True), load, False, in_flight))
        check(runs[-1], load)
    assert runs[0].got == runs[1].got and runs[1].hits > 0


def test_blocks_that_no_prefix_needs_are_used_first() -> None:
    """A window's blocks of which no found prefix could make use do not push others out of the cache."""
    windows, sizes = (0, 32), (64, 4)
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 90, kv=stub.memory(90, windows, sizes=sizes))
    runner = stub.Runner(90, windows=windows, sizes=sizes)

    def found(token: int) -> int:
        s.add_request(stub.request(str(token), [token] * 104, SamplingParams(temperature=0, max_tokens=1)))
        first = -1
        while s.has_unfinished_requests():
            step = s.schedule()
            first = step.scheduled_new_reqs[0].num_computed_tokens if first < 0 else first
            s.update_from_output(step, runner.run(step))
        return first

    # Each leaves a block of 64 tokens and the eight blocks of the window before its end. Those of the window at the end
    # of the prompt, eight more, would not fit beside them and what a request computes.
    assert [found(token) for token in range(3, 9)] == [0] * 6
    assert [found(token) for token in range(3, 9)] == [64] * 6


@pytest.mark.parametrize("kind", ["a quarter of it", "neither size divides the other", "a window in larger blocks"])
def test_blocks_are_told_with_their_tokens(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """As many as vLLM tells of, or more: blocks behind the last whole unit may serve a longer prompt. Where vLLM leaves
    out blocks that no prefix needs, its events have other tokens than those of the blocks."""
    monkeypatch.setitem(EventPublisherFactory._registry, "zmq", Kept)
    windows, sizes, _ = kinds[kind]
    unit, hashed = math.lcm(*sizes), math.gcd(*sizes)
    shared = [3 + i % 900 for i in range(2 * unit)]
    prompts = [shared[: unit * (i % 3)] + [*range(5 + i, 70 + 2 * i)] for i in range(8)]
    told = []
    for cls, tessera in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        kv = stub.memory(4000, windows, sizes=sizes)
        s = stub.scheduler(cls, listened(stub.config(tessera=tessera)), blocks=4000, kv=kv)
        runner = stub.Runner(4000, windows=windows, sizes=sizes)
        for i, prompt in enumerate(prompts):
            full = {"kv_cache_report_mode": "full"} if i % 3 else {}
            params = SamplingParams(temperature=0, max_tokens=1, extra_args=full)
            s.add_request(stub.request(str(i), prompt, params, hashed=hashed))
            while s.has_requests():
                step = s.schedule()
                s.update_from_output(step, runner.run(step))
        told.append(Kept.latest.told)
    theirs, ours = (Counter(block[8] for block in of) for of in told)
    assert theirs <= ours and ours.total() < 1.5 * theirs.total()
    parts = {tuple(p[i : i + n]) for p in prompts for n in sizes for i in range(0, len(p), n)}
    for block in told[1]:
        assert block[4] == sizes[block[8]] == len(block[2]) and block[2] in parts


def test_what_is_handed_back() -> None:
    windows, sizes, blocks = kinds["DeepSeek-V4"]
    kv, made = stub.memory(blocks, windows, sizes=sizes), stub.config()
    made.observability_config = copy.copy(made.observability_config)
    object.__setattr__(made.observability_config, "kv_cache_metrics", True)
    for asked in (made, listened(stub.config())):
        assert list(support.why_not_memory(kv, 256, asked)) == []
    kv = stub.memory(blocks, (stub.an_aligned, 0, 40), sizes=(16, 16, 8))
    assert list(support.why_not_memory(kv, 16, stub.config())) == [
        "blocks of 8 tokens in a scheduler with blocks of 16"
    ]
