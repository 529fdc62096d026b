# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Options that are changed while requests run: from the next step on, and no token is another."""

from __future__ import annotations

import asyncio
import random
import re
from collections import deque
from pathlib import Path
from typing import Any

import pytest
import stub
from steps import served
from test_stub import check, drive, one_or_two, policies
from vllm import SamplingParams
from vllm.v1.engine.core import EngineCore

from tessera.vllm import OptionsError, control, set_option
from tessera.vllm.options import settable

budget = 128  #: tokens of a step


def engine(own: dict[str, Any], in_flight: int = 1, blocks: int = 400, **more: Any) -> tuple[Any, stub.Runner]:
    windows = more.pop("windows", (0,))
    made = stub.config(tessera=own, async_scheduling=in_flight == 2, **more)
    s = stub.scheduler(stub.Scheduler, made, blocks, kv=stub.memory(blocks, windows), include_finished_set=True)
    return s, stub.Runner(blocks, windows=windows)


def params(n: int = 8, **own: Any) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=n, extra_args={"tessera": own} if own else None)


def prompt_tokens(step: Any, s: Any) -> int:
    """Tokens of prompts in a step, except of those with one token left."""
    new = {n.req_id: n.num_computed_tokens for n in step.scheduled_new_reqs}
    cached = step.scheduled_cached_reqs
    done = new | dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
    return sum(n for i, n in step.num_scheduled_tokens.items() if s.requests[i].num_prompt_tokens - done[i] > 1)


@one_or_two
@pytest.mark.parametrize("windows", [(0,), (40, 0)], ids=["one group", "two groups"])
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
def test_prompts_are_bounded_from_the_next_step_on(caching: bool, windows: tuple[int, ...], in_flight: int) -> None:
    """Also if it is changed between a step and its output. Without the bound, steps are as full as before."""
    s, runner = engine({"policy": "fcfs"}, in_flight, caching=caching, windows=windows)
    rng = random.Random(3)
    prompts = {str(i): [rng.randrange(3, 64) for _ in range(300)] for i in range(12)}
    for name, prompt in prompts.items():
        s.add_request(stub.request(name, prompt, params(40)))
    bound_at = {5: 32, 12: 7, 25: 0, 27: 64}
    bound = 0
    seen: list[tuple[int, int]] = []
    got: dict[str, list[int]] = {name: [] for name in prompts}
    launched: deque[Any] = deque()
    steps = 0
    while s.has_requests() or launched:
        if s.has_requests():
            step = s.schedule()
            seen.append((bound, prompt_tokens(step, s)))
            steps += 1
            launched.append((step, runner.run(step)))
            if steps in bound_at:  # a step is under way
                bound = bound_at[steps]
                s.set_option("prefill_budget", bound)
            if len(launched) < in_flight:
                continue
        step, output = launched.popleft()
        for outputs in s.update_from_output(step, output).values():
            for o in outputs.outputs:
                got[o.request_id] += o.new_token_ids
    assert all(not most or n <= most for most, n in seen)
    while_waiting = {most: [n for m, n in seen if m == most and n] for most in (0, 32, 7, 64)}
    assert max(while_waiting[32]) == 32 and max(while_waiting[7]) == 7 and max(while_waiting[64]) == 64
    assert seen[0] == (0, budget) and max(n for _, n in seen[25:27]) > 64  # lifted
    assert got == {name: stub.answer(prompt, params(40)) for name, prompt in prompts.items()}


def test_a_budget_from_the_start() -> None:
    s, runner = engine({"policy": "fcfs", "prefill_budget": 16})
    s.add_request(stub.request("a", [6] * 100, params()))
    assert s.schedule().num_scheduled_tokens == {"a": 16}
    assert s.options.prefill_budget == 16


@one_or_two
@stub.clock.installed()
def test_prompts_take_what_decodes_leave_of_a_step(in_flight: int) -> None:
    """How long steps take is learned. Prompts get no more of `step_s` than is left, and no less."""
    s, runner = engine({"policy": "fcfs", "step_s": 0.05}, in_flight, blocks=2000, max_num_batched_tokens=2048)
    rng = random.Random(5)
    names = iter(range(10**6))
    launched: deque[Any] = deque()
    took: list[tuple[int, int, float]] = []
    for round in range(220):
        while len(s.requests) < 24:
            prompt = [rng.randrange(3, 64) for _ in range(rng.randrange(200, 900))]
            s.add_request(stub.request(str(next(names)), prompt, params(rng.randrange(5, 60))))
        step = s.schedule()
        prompts = prompt_tokens(step, s)
        decodes = len(step.num_scheduled_tokens) - (prompts > 0)
        launched.append((step, runner.run(step), (round, prompts, 0.01 + 0.0005 * decodes + 0.0001 * prompts)))
        if len(launched) < in_flight:
            continue
        *output, this = launched.popleft()
        took.append(this)
        stub.clock.now += this[2]
        if round == 120:
            stub.clock.now += 30  # a pause, as of a compilation
        s.update_from_output(*output)
    assert max(t for _, _, t in took[:16]) > 0.1  # nothing was known yet
    later = [(n, t) for at, n, t in took if at > 40]
    # A step is of whole blocks of 16 tokens, or one ends a prompt.
    assert max(t for _, t in later) <= 0.053
    full = [t for n, t in later if n > 100]
    assert len(full) > 50 and sum(full) / len(full) > 0.04


def order_of(s: Any, runner: stub.Runner, steps: int) -> list[str]:
    """Which request runs, step by step, where there is room for one."""
    ran = []
    for _ in range(steps):
        step = s.schedule()
        ran += step.num_scheduled_tokens
        s.update_from_output(step, runner.run(step))
        stub.clock.now += 1
    return ran


@stub.clock.installed()
def test_threshold() -> None:
    """A long request that has waited for longer than the new threshold goes first; with the old one it waits again."""
    s, runner = engine({"policy": "pars", "threshold": 1e6}, max_num_seqs=1)
    s.add_request(stub.request("long", [6] * 20, params(2, score=900)))
    assert order_of(s, runner, 1) == ["long"]  # it runs to its end
    s.add_request(stub.request("longer", [7] * 20, params(2, score=950)))
    for i in range(8):
        s.add_request(stub.request(f"short {i}", [8 + i] * 20, params(1, score=1 + i)))
    assert order_of(s, runner, 3) == ["long", "short 0", "short 1"]
    s.set_option("threshold", 2)
    assert order_of(s, runner, 2) == ["longer", "longer"]
    s.add_request(stub.request("late", [9] * 20, params(1, score=990)))
    assert order_of(s, runner, 1) == ["short 2"]  # all of these are boosted
    s.set_option("threshold", 1e6)
    s.add_request(stub.request("shortest", [10] * 20, params(1, score=0)))
    assert order_of(s, runner, 7) == ["shortest", "short 3", "short 4", "short 5", "short 6", "short 7", "late"]
    assert not s.has_unfinished_requests()


@pytest.mark.parametrize("policy", ["pascal", "round_robin"])
def test_quantum(policy: str) -> None:
    s, runner = engine({"policy": policy, "quantum": 1000, "fewest_quanta_first": False}, max_num_seqs=1)
    for name in "ab":
        s.add_request(stub.request(name, [ord(name) - 90] * 20, params(60)))
    assert order_of(s, runner, 10) == ["a"] * 10
    s.set_option("quantum", 4)
    turns = order_of(s, runner, 40)
    assert turns[:3] == ["a", "b", "b"] and 16 < turns.count("b") < 24  # it has used its quantum already
    assert max(len(run) for run in "".join(turns).replace("ab", "a b").replace("ba", "b a").split()) == 4
    s.set_option("quantum", 1000)
    last = order_of(s, runner, 12)
    assert len(set(last[1:])) == 1


@stub.clock.installed()
def test_pace() -> None:
    """A deadline is the arrival and the expected output at this pace: of those that wait as well."""

    def first(*paces: float) -> str:
        s, runner = engine({"policy": "due_first", "pace": paces[0]}, max_num_seqs=1)
        s.add_request(stub.request("running", [5] * 20, params(2, score=1)))
        order_of(s, runner, 1)
        s.add_request(stub.request("long", [6] * 20, params(4, score=400)))
        stub.clock.now += 5
        s.add_request(stub.request("short", [7] * 20, params(4, score=4)))
        for pace in paces[1:]:
            s.set_option("pace", pace)
        ran = order_of(s, runner, 2)
        assert served(s, runner)
        return ran[1]

    slow, fast = 0.5, 1e-4
    assert first(slow) == "short" and first(fast) == "long"
    assert first(slow, fast) == "long" and first(fast, slow) == "short"
    assert first(slow, fast, slow) == "short"


@pytest.mark.parametrize("policy", [*dict.fromkeys(n.split()[0] for n in policies)])
def test_what_is_wrong_changes_nothing(policy: str) -> None:
    s, runner = engine({"policy": policy})
    before = s.options
    can = ", ".join(sorted(settable(policy)))
    for name in ("quantums", "policy", "watermark", "weights", "fewest_quanta_first", ""):
        with pytest.raises(ValueError, match=f"cannot be set while {policy} runs; these can: {can}$"):
            s.set_option(name, 3)
    for name, parameter in settable(policy).items():
        for value in (-1, "3", None, True, float("nan")):
            with pytest.raises(OptionsError, match=re.escape(f"{name} must be {parameter.allowed()}, not ")):
                s.set_option(name, value)
    assert s.options is before
    s.add_request(stub.request("a", [6] * 20, params()))
    assert served(s, runner).keys() == {"a"}


def test_the_page_names_them() -> None:
    page = (Path(__file__).parents[3] / "docs" / "vllm_measure.md").read_text()
    table = page.split("beside `prefill_budget` and `step_s` |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (`.*`) \| (`.*`) \|$", table, re.M)
    said = {policy: set(re.findall(r"`(\w+)`", names)) for on, names in rows for policy in re.findall(r"`(\w+)`", on)}
    for policy in {n.split()[0] for n in policies}:
        assert settable(policy).keys() == {"prefill_budget", "step_s"} | said.get(policy, set())


def test_each_name_is_known_to_the_core() -> None:
    for policy in {n.split()[0] for n in policies}:
        s, _ = engine({"policy": policy})
        assert all(s.core.set_option(name, 1.0) for name in settable(policy))
        assert not s.core.set_option("watermark", 1.0)


#: Values that are drawn for an option.
values: dict[str, tuple[Any, ...]] = {
    "prefill_budget": (0, 1, 20, 64, 1000),
    "step_s": (0, 1e-6, 1e-3, 1.0),
    "threshold": (0, 0.01, 0.1, 100, float("inf")),
    "quantum": (1, 4, 30, 500),
    "demote_above": (0, 60, 5000),
    "young_quanta": (0, 1, 9),
    "pace": (1e-4, 1e-3, 0.1),
    "slice": (1, 16, 250),
    "margin": (0, 0.01, 1),
    "prompt_pace": (0, 1e-5, 1e-4),
    "move_pace": (0, 1e-6, 1),
}


@one_or_two
@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@pytest.mark.parametrize("windows", [(0,), (40, 0)], ids=["one group", "two groups"])
@pytest.mark.parametrize("name", policies)
def test_random_changes(name: str, windows: tuple[int, ...], troubled: bool, in_flight: int) -> None:
    """Tokens are those of vLLM's own scheduler, whatever is changed and when."""
    place = list(policies).index(name)
    load = stub.Load(seed=place, priorities=name == "priority", tenants=name == "vtc")
    blocks = 60 * len(windows)
    policy = name.split()[0]
    s, runner = engine({"policy": policy, **policies[name]}, in_flight, blocks, windows=windows)
    rng = random.Random(place)
    bound = 0
    changed = 0

    def at_random(f: Any) -> Any:
        def call(*a: Any, **k: Any) -> Any:
            nonlocal bound, changed
            if rng.random() < 0.1:
                option = rng.choice(list(settable(policy)))
                value = rng.choice(values[option])
                s.set_option(option, value)
                changed += 1
                bound = value if option == "prefill_budget" else bound
            result = f(*a, **k)
            if hasattr(result, "num_scheduled_tokens"):
                restarted = {n.req_id for n in result.scheduled_new_reqs} | result.scheduled_cached_reqs.resumed_req_ids
                assert not bound or restarted or prompt_tokens(result, s) <= bound
            return result

        return call

    s.schedule, s.update_from_output = at_random(s.schedule), at_random(s.update_from_output)
    run = drive(s, runner, load, troubled, in_flight)
    check(run, load)
    assert changed > 20
    if not troubled and name == "fcfs":
        theirs = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
        made = stub.config(async_scheduling=in_flight == 2)
        own = stub.scheduler(theirs, made, blocks, kv=stub.memory(blocks, windows), include_finished_set=True)
        beside = drive(own, stub.Runner(blocks, windows=windows), load, False, in_flight)
        assert (run.got, run.reasons) == (beside.got, beside.reasons)


def test_from_the_process_of_a_client() -> None:
    """A client reaches it through a call of the engine core, which returns what is wrong."""
    s, _ = engine({"policy": "pars"})
    core = EngineCore.__new__(EngineCore)
    core.scheduler = s

    class Client:
        async def call_utility_async(self, method: str, *args: Any) -> Any:
            return getattr(core, method)(*args)

    class Engine:
        engine_core = Client()

    asyncio.run(set_option(Engine, "threshold", 3))
    assert s.options.parameters == {"threshold": 3.0}
    with pytest.raises(ValueError, match="'quantum' cannot be set while pars runs; these can: prefill_budget, step_s"):
        asyncio.run(set_option(Engine, "quantum", 3))
    core.scheduler = stub.scheduler(stub.OwnScheduler, stub.config(), 60)
    with pytest.raises(ValueError, match="vLLM's own scheduler serves"):
        asyncio.run(set_option(Engine, "threshold", 3))
    assert control.call in vars(EngineCore)
