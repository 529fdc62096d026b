# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The front end before engines that die, in virtual time."""

from __future__ import annotations

import asyncio

import pytest
from fake_fleet import Fleet, in_a_fork, on, quick, tight_fleet, until, virtual
from virtual_time import run

from tessera.fleet import Router


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fault", ["kill", "kill_core"])
@virtual
async def test_kill_of_a_replica_or_of_an_engines_core(fault: str, seed: int) -> None:
    f = Fleet(3)
    running = [asyncio.ensure_future(f.client(100 * seed + i)) for i in range(30)]
    await asyncio.sleep(0.02 + 0.17 * seed)
    dead = f.engines[0]
    had = len(on(f, dead))
    getattr(dead, fault)()
    sessions = await asyncio.gather(*running)
    assert sum(len(s.failures) for s in sessions) == had > 0
    # It comes back, as another life, and is used.
    back = f.start(life=2, name="e0")
    await asyncio.gather(*[f.client(500 + i) for i in range(9)])
    assert back.calls >= 2
    await f.settle()


@virtual
async def test_a_core_that_is_dead_in_a_replica_that_reports_no_load_is_no_black_hole() -> None:
    f = Fleet(3, fenced=False)
    f.engines[0].kill_core()
    for i in range(20):
        await f.client(i, 50, 5)
        await asyncio.sleep(0.3)
    # One found out; for the time that it is avoided no other request had to.
    assert sum(len(s.failures) for s in f.sessions) == 1
    await f.settle()


#: Through an export (some 15 ms), the way to the target, its first token, and the catch-up to where the client is.
moments = [
    0.0,
    0.002,
    0.005,
    0.01,
    0.015,
    0.018,
    0.02,
    0.025,
    0.035,
    0.045,
    0.055,
    0.065,
    0.07,
    0.075,
    0.08,
    0.09,
    0.12,
]


@pytest.mark.parametrize("after", moments)
@pytest.mark.parametrize("fault", ["kill", "kill_core"])
@pytest.mark.parametrize("whom", ["source", "target"])
@virtual
async def test_kill_of_source_or_target_in_a_fork(whom: str, fault: str, after: float) -> None:
    f = tight_fleet()
    s, task, source, target = await in_a_fork(f, after)
    was_moving = s._move is not None
    getattr(source if whom == "source" else target, fault)()
    await task
    # A target that did not get the KV of a dead source is another try, and no other death.
    assert s._retries.deaths <= 1 and len(s.failures) <= 2
    if whom == "target" and was_moving:
        assert s.failures == [] and s.moves_failed == 1
    await f.settle()


def test_the_moments_of_a_fork_are_all_met() -> None:
    async def stage(after: float) -> str:
        f = tight_fleet()
        s, task, _, _ = await in_a_fork(f, after)
        move = s._move
        what = "over" if move is None else "catch-up" if move.catch_up else "target" if move.target else "export"
        await task
        return what

    assert {run(stage(t)) for t in moments} == {"export", "target", "catch-up", "over"}


@virtual
async def test_the_source_dies_when_its_kv_was_not_fetched_yet() -> None:
    f = tight_fleet()
    s, task, source, target = await in_a_fork(f, 0.0)
    target.latency = 0.05
    await until(lambda: s._move is not None and s._move.target is not None)
    source.kill()
    await task
    # The target says "error": a failure, but no engine died of it there.
    assert len(s.failures) == 2 and "did not get the KV" in s.failures[1]
    assert not target.dead
    await f.settle()


@virtual
async def test_kill_of_the_router() -> None:
    f = Fleet(3, period=None)
    old = f.router
    streams = [asyncio.ensure_future(f.client(i, 200, 400)) for i in range(30)]
    await asyncio.sleep(0.5)
    # A new one with an empty book. The engines go on for clients with connections that have not broken yet.
    new = f.router = Router("least_load", timeouts=quick, **f.settings)
    for e in f.engines:
        f.join(e, new)
        assert new.report(e.name, await e.report()) == "taken"
        # Between two steps a token has been made that the old router has not heard of.
        seen, was = new.book.view(e.number if hasattr(e, "number") else int(e.name[1:])), old.book.own(int(e.name[1:]))
        assert seen["requests"] == was[0] == e.live == 10
        assert abs(seen["kv_held"] - was[1]) <= 10
    busiest = f.engines[0]
    for s in f.sessions:
        if s.replica in ("e1", "e2"):
            await s.aclose()
    for t in streams:
        t.cancel() if t.done() else None
    for e in f.engines:
        new.report(e.name, await e.report())
    assert new.book.view(0)["requests"] == busiest.live == 10 and new.book.view(1)["requests"] == 0
    placed = [new.book.arrived(10**6 + i, 100, new.now())[0].replica for i in range(4)]
    assert 0 not in placed
    # No router ends those: a lease later they are given back.
    await asyncio.sleep(20.0)
    new.tick()
    assert len(new.book) == 0 and new.book.expired == 4
    await asyncio.gather(*streams, return_exceptions=True)
    for e in f.engines:
        new.report(e.name, await e.report())
        assert new.book.view(int(e.name[1:]))["requests"] == 0
    old.tick()
    assert len(old.book) == 0
    await f.settle()
