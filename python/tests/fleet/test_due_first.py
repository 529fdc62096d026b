# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The controller due-first before engines: what it learns, the plans that it asks for, and what becomes of them."""

from __future__ import annotations

import asyncio
import contextvars
import random
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from fake_fleet import Fleet, until, virtual

from tessera import fleet
from tessera.fleet import Assignment, Call, Event, Piece, PlanRequest, Router, Runtime
from tessera.fleet.planner import LayoutPlanner
from tessera.fleet.replay import compare

try:
    from tessera import _sim
except ImportError:
    _sim = None  # type: ignore[assignment]

plans = pytest.mark.skipif(not hasattr(_sim, "LayoutPlanner"), reason="tessera._sim makes no plans")


def two_replicas(**settings: Any) -> Runtime:
    r = Runtime("due-first", **settings)
    for i in range(2):
        r.handle(Event("joined", 0.0, replica=i, number=1, capacity=200))
    return r


def serve(r: Runtime, request: int, prompt: int, tokens: int, now: float) -> None:
    (place,) = r.arrived(request, prompt, now)
    r.progressed(request, place.replica, tokens, now + 0.001)
    r.handle(Event("ended", now + 0.002, request=request))


def places(r: Runtime, prompts: list[int], now: float) -> list[int]:
    """The replicas of requests that arrive one after the other."""
    where = []
    for i, prompt in enumerate(prompts):
        (action,) = [a for a in r.arrived(10_000 + i, prompt, now) if a.kind == "place"]
        where.append(action.replica)
    return where


def test_lengths_are_learned() -> None:
    question, task = 200, 240
    mixed = [task, question, question, question]
    # A request of which nothing is known is its prompt.
    assert places(two_replicas(), mixed, 1.0) == [0, 1, 1, 0]
    r = two_replicas()
    assert Runtime("lmetric").sample() is None
    for i in range(100):
        # The answer to a task fills most of a replica.
        serve(r, i, *((task, 2000) if i % 2 else (question, 16)), now=0.005 * i)
    actions = r.handle(Event("clock", 1.5))
    assert [a.number for a in actions if a.kind == "plan"] == [1]
    first, *others = places(r, mixed, 1.6)
    assert others == [1 - first] * 3

    sample = r.sample()
    assert sample is not None and sample["here"] == 0 and not sample["held"] and not sample["behind"]
    assert sample["rate"] == pytest.approx(200.0)
    requests = sample["requests"]
    assert [(a, p, g) for a, p, g, *_ in requests] == [
        (pytest.approx(0.005 * i), *((task, 2000) if i % 2 else (question, 16))) for i in range(100)
    ]
    assert all(ended and not refused and tenant == -1 for *_, tenant, ended, refused, _ in requests)


def test_costs_decide_the_headroom_in_time() -> None:
    # In half a second a replica computes 500 tokens of prompts here; by default that is no load.
    costs = {"prompt_cost": (0.0, 1e-3), "decode_cost": (0.02, 0.0, 1e-7), "ttft": 0.5}
    for wrong in ({"prompt_cost": (-1.0, 0.0)}, {"ttft": 0.0}, {"decode_cost": (0.0, 2.0, 0.0)}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Runtime("due-first", **wrong)  # type: ignore[arg-type]
    r = two_replicas(**costs)
    first, *others = places(r, [480, 60, 60, 60, 60], 0.5)
    assert others == [1 - first] * 4


async def traffic(f: Fleet, n: int, draw: random.Random, over_s: float, tokens: tuple[int, int] = (20, 160)) -> None:
    async def client(i: int) -> None:
        await asyncio.sleep(over_s * i / n)
        await f.client(i, draw.randrange(20, 300), draw.randrange(*tokens))

    await asyncio.gather(*[client(i) for i in range(n)])


@virtual
async def test_stages_of_a_plan_are_laid_out_and_requests_that_outgrow_theirs_move(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    asked: list[PlanRequest] = []

    async def planner(what: PlanRequest) -> list[Assignment]:
        asked.append(what)
        await asyncio.sleep(2.0)
        if len(asked) == 1:
            f.engines[3].kill()  # while the plan is made for it
        await asyncio.sleep(1.0)
        return [
            Assignment("e0", last=10, prefill_budget=256),
            Assignment("e1", last=10, prefill_budget=256),
            Assignment("e2", first=10),
            Assignment("e3", first=10),
        ]

    log = tmp_path / "fleet.log"
    f = Fleet(4, controller="due-first", tight=32, planner=planner, record=log)
    await traffic(f, 200, random.Random(1), 10.0)
    first = asked[0]
    assert first.number == 1 and first.replicas == ("e0", "e1", "e2", "e3") and not first.prefixes
    assert first.sample is not None and len(first.sample["requests"]) >= 64
    assert sum(ended for *_, ended, _, _ in first.sample["requests"]) >= 4
    # Twice as many requests: another plan.
    assert len(asked) >= 2 and len(asked[1].sample["requests"]) >= 2 * len(first.sample["requests"])  # type: ignore[index]
    told = [e.told for e in f.engines]
    assert [t.get("lengths") for t in told] == [(0, 10), (0, 10), (10, None), None]
    assert [t.get("prefill_budget") for t in told] == [256, 256, 0, None]
    assert sum(s.moves for s in f.sessions) > 20
    assert any(s.failures for s in f.sessions)
    assert not [r for r in caplog.records if "there is no plan" in r.getMessage()]
    await f.settle()
    await f.router.close()
    same = compare(log)
    assert same.asked == "due-first" and same.decisions >= 200 and same.different == 0


@virtual
async def test_what_a_router_begins_belongs_to_no_request() -> None:
    """Ray Serve cancels what a request has begun when that request has ended. It knows by a context variable."""
    request: contextvars.ContextVar[int] = contextvars.ContextVar("request")

    async def planner(asked: PlanRequest) -> list[Assignment]:
        begun.append(request.get(0))
        return [Assignment("e0", last=10), Assignment("e1", first=10)]

    f = Fleet(2, controller="due-first", tight=32, planner=planner)
    begun: list[int] = []
    for e in f.engines:

        async def stream(call: Call, stream: Any = e.stream) -> AsyncGenerator[Piece, None]:
            begun.append(request.get(0))
            async for piece in stream(call):
                yield piece

        async def set_length_range(first: int, last: int | None) -> None:
            begun.append(request.get(0))

        e.stream, e.set_length_range = stream, set_length_range  # type: ignore[method-assign,assignment]

    async def client(i: int) -> None:
        request.set(i)
        # Nothing else says that time has passed.
        await asyncio.sleep(0.05 * i)
        await f.client(i, 40, 20 if i % 8 else 300)

    for task in f.running:
        task.cancel()
    await asyncio.gather(*[client(i) for i in range(1, 120)])
    assert len(begun) > 120 + 3 and sum(s.moves for s in f.sessions) > 0
    assert not any(begun)
    await f.settle()


@virtual
async def test_a_replica_dies_while_it_takes_its_role() -> None:
    async def planner(asked: PlanRequest) -> list[Assignment]:
        await asyncio.sleep(0.5)
        return [Assignment(name, "prefill" if i < 2 else "decode") for i, name in enumerate(sorted(asked.replicas))]

    f = Fleet(0, controller="due-first", tight=32, planner=planner)
    for _ in range(4):
        f.start_as("mixed", elastic=True, become=1.5)

    async def death() -> None:
        await until(lambda: f.router.entry("e1") is None or f.router.entry("e1").told is not None)  # type: ignore[union-attr]
        await asyncio.sleep(0.5)
        f.engines[1].kill()
        f.router.gone("e1")
        await asyncio.sleep(3.0)
        f.start(life=2, name="e1")

    dying = asyncio.ensure_future(death())
    await traffic(f, 240, random.Random(2), 12.0)
    await dying
    roles = {name: f.router.entry(name).role for name in f.router.names()}  # type: ignore[union-attr]
    assert roles == {"e0": "prefill", "e1": "prefill", "e2": "decode", "e3": "decode"}
    # Each once, and the one that died in the middle when it has come back.
    changes = [(name, after) for name, _, after in f.router.changes]
    assert changes[0] == ("e0", "prefill") and len(changes) == 4
    assert {*changes} == {("e0", "prefill"), ("e1", "prefill"), ("e2", "decode"), ("e3", "decode")}
    assert sum(s.moves for s in f.sessions) > 40
    await f.settle()


@virtual
async def test_without_a_planner_the_layout_stays(caplog: pytest.LogCaptureFixture) -> None:
    f = Fleet(3, controller="due-first")
    await traffic(f, 150, random.Random(3), 10.0)
    assert [r.getMessage() for r in caplog.records] == ["due-first asks for plans, and the router has no planner"]
    assert [e.told for e in f.engines] == [{}] * 3
    await f.settle()


# -- the planner


def sample_of(n: int, rate: float) -> dict[str, Any]:
    draw = random.Random(5)
    nan = float("nan")
    requests = [
        (i / rate, draw.randrange(50, 2000), draw.choice((20, 200, 1500)), 0, 4096, nan, -1, i < n - 10, False, False)
        for i in range(n)
    ]
    return {"requests": requests, "rate": rate, "lately": 0.0, "here": 10, "held": False, "behind": False}


@plans
def test_what_makes_no_plan() -> None:
    with pytest.raises(ValueError, match="no-such"):
        LayoutPlanner("no-such-profile")
    with pytest.raises(ValueError, match="ttft"):
        LayoutPlanner(ttft=-1.0)
    with pytest.raises(ValueError, match="kv_blocks"):
        LayoutPlanner(kv_blocks=0)
    p = _sim.LayoutPlanner(**LayoutPlanner()._how)
    bad = sample_of(3, 1.0)
    with pytest.raises(ValueError, match="has none"):
        p({**bad, "requests": []}, 2, False)
    with pytest.raises(ValueError, match=r"requests\[1\]"):
        p({**bad, "requests": bad["requests"][1::-1]}, 2, False)
    with pytest.raises(ValueError, match=r"generated\[0\]"):
        p({**bad, "requests": [(0.0, 7, -1, *bad["requests"][0][3:])]}, 2, False)
    with pytest.raises(ValueError, match="instances"):
        p(bad, 0, False)
    # What a router may see is no error: an empty prompt, no token, no limit that a client would name.
    assert len(p({**bad, "requests": [(0.0, 0, 0, 0, 1 << 32, *bad["requests"][0][5:])]}, 2, False)) == 2


@plans
def test_a_planner_remembers_its_layout() -> None:
    def of(far_apart: bool) -> dict[str, Any]:
        draw = random.Random(1)
        nan = float("nan")
        requests = []
        for i in range(100):
            prompt = draw.randrange(20_000, 60_000) if far_apart and draw.random() < 0.1 else draw.randrange(100, 400)
            requests.append((i / 8.0, prompt, draw.randrange(100, 400), 0, 0, nan, -1, True, False, False))
        return {"requests": requests, "rate": 8.0, "lately": 0.0, "here": 50, "held": False, "behind": False}

    p = _sim.LayoutPlanner(**LayoutPlanner("h200-llama-3.1-8b")._how)
    stages = p(of(True), 4, False)
    assert p.layout == "stages" and "stages by length" in p.why
    ranges = [(first, last) for _, first, last, _ in stages]
    assert ranges[0][0] == 0 and ranges[-1][1] is None and ranges[-1][0] > 1000
    # One plan does not give them up, the next one does.
    assert p(of(False), 4, False) == stages
    assert [what[:3] for what in p(of(False), 4, False)] == [("mixed", 0, None)] * 4
    # With another number of replicas it begins anew; where prefixes are shared there are no stages.
    p(of(True), 4, False)
    assert p.layout == "stages"
    assert [what[:3] for what in p(of(False), 3, False)] == [("mixed", 0, None)] * 3
    assert [what[:3] for what in p(of(True), 3, True)] == [("mixed", 0, None)] * 3


@plans
def test_a_plan_is_made_in_a_process_of_its_own() -> None:
    planner = LayoutPlanner(ttft=1.0, tpot=0.1)
    sample = sample_of(80, 4.0)

    async def ask() -> list[Assignment]:
        return await planner(PlanRequest(1, ("a", "b", "d"), sample))

    async def beside() -> list[Assignment]:
        """The loop goes on meanwhile."""
        plan = asyncio.ensure_future(ask())
        turns = 0
        while not plan.done():
            await asyncio.sleep(0.001)
            turns += 1
        assert turns > 10
        assert planner._process is not None
        # A worker that dies is replaced, and the plan that it makes is not there.
        planner._process.kill()
        with pytest.raises(RuntimeError, match="process that plans has died"):
            await ask()
        assert await ask() == plan.result()
        with pytest.raises(ValueError, match="no sample"):
            await planner(PlanRequest(2, ("a",)))
        with pytest.raises(ValueError, match="has none"):
            await planner(PlanRequest(3, ("a",), {**sample, "requests": []}))
        assert await ask() == plan.result(), "the process lives"
        return plan.result()

    plan = asyncio.run(beside())
    planner.close()
    assert [a.replica for a in plan] == ["a", "b", "d"]
    assert all(a.role == "mixed" and a.prefill_budget > 0 for a in plan)
    here = _sim.LayoutPlanner(**planner._how)
    assert [tuple(a[1:]) for a in plan] == here(sample, 3, False)


@plans
def test_a_process_that_gives_no_answer_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = LayoutPlanner()
    asked = PlanRequest(1, ("a", "b"), sample_of(80, 4.0))
    with monkeypatch.context() as m:
        m.setattr("tessera.fleet.planner._script", "print('ready', flush=True); input()")
        with pytest.raises(RuntimeError, match="gave no answer"):
            asyncio.run(planner(asked))
    assert len(asyncio.run(planner(asked))) == 2
    planner.close()
    planner.close()


@plans
def test_a_planner_is_closed_while_its_process_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tessera.fleet.planner._script", "import sys; sys.stdin.buffer.read()")
    planner = LayoutPlanner()

    async def ask() -> None:
        plan = asyncio.ensure_future(planner(PlanRequest(1, ("a", "b"), sample_of(80, 4.0))))
        while planner._process is None:
            await asyncio.sleep(0.001)
        planner.close()
        with pytest.raises(RuntimeError, match="process that plans has died"):
            await plan

    asyncio.run(ask())


@plans
def test_the_process_that_plans_ends_with_its_router() -> None:
    # Without the guard of a main module, which `multiprocessing` would want.
    script = f"""
import asyncio, os, signal
from tessera.fleet import PlanRequest
from tessera.fleet.planner import LayoutPlanner
nan = float("nan")
planner = LayoutPlanner()
asyncio.run(planner(PlanRequest(1, ("a", "b"), {sample_of(80, 4.0)!r})))
print(planner._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    # The process that plans has standard error from its router: that is at its end when both are gone.
    router = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert router.returncode == -signal.SIGKILL and router.stdout.strip().isdigit(), router.stderr


@plans
def test_a_router_has_a_plan_of_its_traffic() -> None:
    costs = _sim.router_costs("h100-96gb-qwen-32b", 0.5)
    assert costs["ttft"] == 0.5 and costs["prompt_cost"][1] > 1e-5 and costs["decode_cost"][0] > 0.01

    async def serves() -> None:
        planner = LayoutPlanner(ttft=0.5)
        f = Fleet(2, controller="due-first", tight=32, planner=planner, engine={"step": 0.002}, **costs)
        await traffic(f, 100, random.Random(4), 1.0, (5, 40))
        await until(lambda: all(e.told.get("prefill_budget") for e in f.engines), step=0.05, most=100)
        planner.close()
        for task in f.running:
            task.cancel()
        await f.router.close()

    asyncio.run(serves())


@plans
def test_costs_of_a_profile() -> None:
    costs = _sim.router_costs("h100-96gb-qwen-32b", None)
    square, each = costs["prompt_cost"]
    fixed, request, token = costs["decode_cost"]
    # What the profile says of itself: 1,000 tokens of a prompt in 112 ms; decode steps of 24 ms, and 30 ms with 64.
    assert square * 1e6 + each * 1e3 == pytest.approx(0.112, rel=0.03)
    assert fixed + request + token == pytest.approx(0.024, rel=0.03)
    assert fixed + 64 * request + 64_000 * token == pytest.approx(0.030, rel=0.03)
    assert costs["ttft"] == _sim.router_costs("h100-96gb-qwen-32b", 3.0)["ttft"] == 1.0
    with pytest.raises(ValueError, match="no-such"):
        _sim.router_costs("no-such-profile", None)
    assert Runtime("due-first", **costs).sample() is not None


def test_the_name_is_there() -> None:
    assert "due-first" in fleet.controllers
    assert Router(controller="due-first").book.reads_prefixes is False
    assert Router(controller="due-first", prefixes=True).prefixes is not None
