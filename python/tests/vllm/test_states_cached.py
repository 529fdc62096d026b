# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers that keep a state of a request (Mamba, GDN, KDA), with prefix caching: vLLM's mode "align". A step leaves a
state where it ends. Where that is the end of a block, other requests start from it."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import stub
from test_stub import Run, check, drive, one_or_two, policies
from vllm import SamplingParams
from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec

from tessera.vllm import support

state = stub.an_aligned
size = stub.block_size
kinds = {
    "state": (state,),
    "state and all": (state, 0),
    "three states and all": (state, state, state, 0),  # Qwen3-Next, Kimi Linear
    "all and state": (0, state),
    "state, window and all": (0, state, 40),
}
#: Blocks of each kind, so few that requests are preempted; where there are drafts, of which each has states of its own.
blocks_of = {
    "state": (30, 60),
    "state and all": (60, 90),
    "three states and all": (90, 200),
    "all and state": (60, 90),
}


def driven(cls: type, own: Any, load: stub.Load, kind: str, troubled: bool, in_flight: int, **more: Any) -> Run:
    second, adapters, drafts = (more.pop(name, 0) for name in ("second", "adapters", "drafts"))
    windows, blocks = kinds[kind], more.pop("roomy", 1) * blocks_of.get(kind, (100, 140))[drafts > 0]
    made = stub.config(
        caching=True,
        tessera=own,
        second=bool(second),
        adapters=adapters,
        drafts=drafts,
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
    # Resets forget the states, and a window gives up the blocks before them.
    assert run.hits > 0 or troubled or "window" in kind


@one_or_two
@pytest.mark.parametrize("drafts", [{}, {"drafts": 3}, {"drafts": 3, "drafter": "eagle"}], ids=["", "ngram", "eagle"])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", kinds)
def test_beside_vllm(kind: str, seed: int, drafts: dict[str, Any], in_flight: int) -> None:
    """Random requests: the tokens and the ends are vLLM's. With room to keep all states, prefixes are found as far as
    there, or nearly."""
    load = stub.Load(seed=100 + seed, beginning=random.Random(seed).randrange(16, 120))
    theirs = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
    for roomy in (1, 20):
        runs = [
            driven(cls, own, load, kind, False, in_flight, roomy=roomy, **drafts)
            for cls, own in ((theirs, None), (stub.Scheduler, {"policy": "fcfs"}))
        ]
        assert runs[0].got == runs[1].got and runs[0].reasons == runs[1].reasons
        assert runs[1].steps < 1.25 * runs[0].steps
        # Where prompts depart from what is known is told by layers that look at all tokens.
        assert roomy == 1 or runs[1].hits > (0.85 if 0 in kinds[kind] else 0.65) * runs[0].hits > 0


def one(s: Any, runner: stub.Runner, name: str, prompt: list[int], n: int = 2) -> tuple[int, list[int]]:
    """Runs a request alone: what it finds, and where its steps end."""
    s.add_request(stub.request(name, prompt, SamplingParams(temperature=0, max_tokens=n)))
    found, ends, at = -1, [], 0
    while s.has_unfinished_requests():
        step = s.schedule()
        for new in step.scheduled_new_reqs:
            found = at = new.num_computed_tokens
        at += step.num_scheduled_tokens[name]
        ends.append(at)
        s.update_from_output(step, runner.run(step))
    return found, ends


def lone(budget: int = 128, blocks: int = 200, windows: tuple[int, ...] = (state, 0)) -> tuple[Any, stub.Runner]:
    made = stub.config(caching=True, tessera={}, max_num_scheduled_tokens=budget)
    s = stub.scheduler(stub.Scheduler, made, blocks, kv=stub.memory(blocks, windows))
    return s, stub.Runner(blocks, windows=windows, zeroes=True)


def test_where_steps_end() -> None:
    """With whole blocks, before the last block of the prompt, and where a prompt departs from what is known."""
    s, runner = lone(budget=100)
    rng = random.Random(5)
    prompt = [rng.randrange(3, 64) for _ in range(300)]
    # 288 is the last end of a block before the end of the prompt.
    assert one(s, runner, "a", prompt) == (0, [96, 192, 288, 300, 301])
    assert one(s, runner, "b", prompt) == (288, [300, 301])
    # It departs at 160, where no step has ended: the last state before is at 96. It ends one there, for others.
    other = [*prompt[:165], *(rng.randrange(3, 64) for _ in range(100))]
    assert one(s, runner, "c", other) == (96, [160, 256, 265, 266])
    third = [*prompt[:165], *(rng.randrange(3, 64) for _ in range(60))]
    assert one(s, runner, "d", third)[0] == 160
    # States of an answer are found as well.
    found, _ = one(s, runner, "e", [6] * 20, n=60)
    answer = stub.answer([6] * 20, SamplingParams(max_tokens=60))
    assert found == 0 and one(s, runner, "f", [6] * 20 + answer + [7])[0] == 64


def test_a_step_shorter_than_a_block() -> None:
    s, runner = lone(budget=10)
    prompt = [6 + i % 50 for i in range(60)]
    assert one(s, runner, "a", prompt) == (0, [10, 16, 26, 32, 42, 48, 58, 60, 61])
    assert one(s, runner, "b", prompt)[0] == 48


def test_a_state_holds_one_block_where_it_stands() -> None:
    """While it decodes: its own block, and after a block's end the one before it for a step."""
    s, runner = lone(windows=(state,), blocks=60)
    s.add_request(stub.request("a", [6] * 100, SamplingParams(temperature=0, max_tokens=60)))
    held = []
    while s.has_unfinished_requests():
        step = s.schedule()
        held.append(round(s.get_kv_cache_usage() * 59))
        s.update_from_output(step, runner.run(step))
    assert held[0] == 6 and max(held[2:]) == 2 and held.count(2) < 10


def test_the_state_of_another_place_is_seen() -> None:
    """The check can fail: a request starts from a state that is not that of its prefix."""
    s, runner = lone()
    prompt = [6 + i % 50 for i in range(100)]
    assert one(s, runner, "a", prompt) == (0, [96, 100, 101])
    s.add_request(stub.request("b", prompt, SamplingParams(temperature=0, max_tokens=2)))
    step = s.schedule()
    (new,) = step.scheduled_new_reqs
    assert new.num_computed_tokens == 96
    column = 96 // size - 1
    assert new.block_ids[0][column] != 0 and not any(new.block_ids[0][:column])
    new.block_ids[0][column] = new.block_ids[0][-1]
    with pytest.raises(AssertionError):
        runner.run(step)


def test_what_is_handed_back() -> None:
    aligned, attention = (group.kv_cache_spec for group in stub.memory(60, (state, 0)).kv_cache_groups)

    def reasons(caching: bool, *specs: Any) -> list[str]:
        groups = [KVCacheGroupSpec([str(i)], spec) for i, spec in enumerate(specs)]
        memory = KVCacheConfig(num_blocks=60, kv_cache_tensors=[], kv_cache_groups=groups)
        return list(support.why_not_memory(memory, size, stub.config(caching=caching)))

    def other(spec: Any, **values: Any) -> Any:
        made = copy.copy(spec)
        for name, value in values.items():
            object.__setattr__(made, name, value)
        return made

    assert reasons(True, aligned, attention) == reasons(True, aligned) == []
    # A runner may keep one state more, in a block of the step that no other request starts from.
    assert reasons(True, other(aligned, num_prefill_checkpoint_blocks=1), attention) == []
    assert reasons(False, aligned, attention) == ["states in the cache mode align without prefix caching"]
    assert reasons(True, other(aligned, num_speculative_blocks=3), attention) == []
    assert reasons(True, other(aligned, mamba_cache_mode="none"), attention) == [
        "states in the cache mode none with prefix caching"
    ]
    assert reasons(True, other(aligned, block_size=32), attention) == [
        "states in blocks of 32 tokens in a scheduler with blocks of 16"
    ]
