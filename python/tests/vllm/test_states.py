# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers that keep a state of a request (Mamba, GDN, KDA), alone and beside attention, without prefix caching. There is
a block for each state, and one more for each draft."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import stub
from test_stub import Run, check, drive, one_or_two, policies
from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec

from tessera.vllm import support

a_state = stub.a_state
kinds = {
    "state": (a_state,),
    "state and all": (a_state, 0),
    "three states and all": (a_state, a_state, a_state, 0),  # Qwen3-Next, Kimi Linear
    "state, window and all": (0, a_state, 40),
}
#: Blocks of each kind, so few that requests are preempted; where there are drafts, of which each has states of its own.
blocks_of = {"state": (12, 30), "state and all": (60, 80), "three states and all": (70, 160)}


def driven(cls: type, own: Any, load: stub.Load, kind: str, troubled: bool, in_flight: int, **more: Any) -> Run:
    drafts, second, adapters = (more.pop(name, 0) for name in ("drafts", "second", "adapters"))
    windows = kinds[kind]
    blocks = blocks_of.get(kind, (110, 140))[drafts > 0]
    made = stub.config(
        caching=False,
        tessera=own,
        second=bool(second),
        drafts=drafts,
        adapters=adapters,
        async_scheduling=in_flight == 2,
        **more,
    )
    s = stub.scheduler(cls, made, blocks, kv=stub.memory(blocks, windows, drafts=drafts), include_finished_set=True)
    assert type(s) is cls
    drafter = more.get("drafter", "")
    runner = stub.Runner(blocks, bool(second), drafts, adapters, windows, zeroes=True, drafter=drafter)
    run = drive(s, runner, load, troubled, in_flight)
    check(run, load)
    assert not drafts or (runner.tried > 50 and 0.2 * runner.tried < runner.accepted < 0.9 * runner.tried)
    return run


@one_or_two
@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@pytest.mark.parametrize("kind", kinds)
@pytest.mark.parametrize("name", policies)
def test_tokens(name: str, kind: str, troubled: bool, in_flight: int) -> None:
    place = list(policies).index(name) + list(kinds).index(kind)
    load = stub.Load(seed=place, priorities=name == "priority", tenants=name == "vtc", adapters=5 * (place % 5 == 0))
    more: dict[str, Any] = {"long_prefill_token_threshold": 24} if "chunks" in name else {}
    if place % 3 == 1:
        more |= {"drafts": 3} | ({"drafter": "eagle"} if place % 2 else {})
    run = driven(
        stub.Scheduler,
        {"policy": name.split()[0], **policies[name]},
        load,
        kind,
        troubled,
        in_flight,
        second=place % 2,
        adapters=2 * (place % 5 == 0),
        **more,
    )
    assert run.preempted > 0 or place % 5 == 0 or kind == "state"  # which does not grow
    assert run.hits == 0


@one_or_two
@pytest.mark.parametrize("drafts", [{}, {"drafts": 3}, {"drafts": 3, "drafter": "eagle"}], ids=["", "ngram", "eagle"])
@pytest.mark.parametrize("kind", kinds)
def test_beside_vllm(kind: str, drafts: dict[str, Any], in_flight: int) -> None:
    load = stub.Load(seed=3)
    theirs = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
    runs = [
        driven(cls, own, load, kind, False, in_flight, **drafts)
        for cls, own in ((theirs, None), (stub.Scheduler, {"policy": "fcfs"}))
    ]
    assert runs[0].got == runs[1].got and runs[0].reasons == runs[1].reasons
    assert runs[1].steps < 1.15 * runs[0].steps


def test_a_state_of_another_is_seen() -> None:
    """The check can fail: one request is told another's state instead of its own, once."""
    s = stub.scheduler(
        stub.Scheduler,
        stub.config(caching=False, tessera={}),
        60,
        kv=stub.memory(60, (a_state, 0)),
        include_finished_set=True,
    )
    plan, wrong = s.schedule, []

    def with_a_wrong_state(**named: Any) -> Any:
        step = plan(**named)
        if not wrong and len(step.scheduled_new_reqs) > 1:
            first, second = step.scheduled_new_reqs[:2]
            second.block_ids[0][0] = first.block_ids[0][0]
            wrong.append(second.req_id)
        return step

    s.schedule = with_a_wrong_state
    load = stub.Load(seed=3)
    with pytest.raises(AssertionError):
        check(drive(s, stub.Runner(60, windows=(a_state, 0), zeroes=True), load, False), load)
    assert wrong


def test_what_is_handed_back() -> None:
    """States that end within a request, and too many of them."""
    state, attention = (group.kv_cache_spec for group in stub.memory(60, (a_state, 0)).kv_cache_groups)

    def reasons(caching: bool, *specs: Any) -> list[str]:
        groups = [KVCacheGroupSpec([str(i)], spec) for i, spec in enumerate(specs)]
        memory = KVCacheConfig(num_blocks=60, kv_cache_tensors=[], kv_cache_groups=groups)
        return list(support.why_not_memory(memory, 1024, stub.config(caching=caching)))

    def other(spec: Any, **values: Any) -> Any:
        made = copy.copy(spec)
        for name, value in values.items():
            object.__setattr__(made, name, value)
        return made

    assert reasons(False, state, attention) == reasons(False, state) == []
    assert reasons(False, other(state, block_size=512), attention) == ["states in blocks of 512 tokens"]
    # 15 drafts and one state more are all that there is room for beside attention.
    assert reasons(False, other(state, num_speculative_blocks=14), attention) == []
    (reason,) = reasons(False, other(state, num_speculative_blocks=15), attention)
    assert reason == "17 groups of KV blocks (1 to 16 are supported): MambaSpec, FullAttentionSpec"
