# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The front end before engines that are slow, silent, out of reach or wrong about themselves, in virtual time."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from fake_fleet import Fleet, in_a_fork, on, quick, tight_fleet, until, virtual

from tessera.fleet import Call, Load, Report, Session, Unreachable


@pytest.mark.parametrize("fenced", [True, False])
@virtual
async def test_a_replica_that_hangs(fenced: bool) -> None:
    f = Fleet(3, fenced=fenced)
    running = [asyncio.ensure_future(f.client(i)) for i in range(30)]
    await asyncio.sleep(0.3)
    hung = f.engines[1]
    had = len(on(f, hung))
    hung.hung = True
    began = f.router.now()
    sessions = await asyncio.gather(*running)
    assert had > 0 and sum(len(s.failures) for s in sessions) == had
    assert f.router.now() - began < quick.token + 3
    # Its front end still reports that it has nothing to do; it gets nothing for a while.
    before = hung.calls
    await asyncio.gather(*[f.client(100 + i) for i in range(10)])
    assert hung.calls == before and hung.dead == fenced
    hung.hung = False
    hung._wake.set()
    await asyncio.sleep(f.router.avoid_for)
    if not fenced:
        # What hung may come back.
        await asyncio.gather(*[f.client(200 + i) for i in range(10)])
        assert hung.calls > before
    await f.settle()


@virtual
async def test_a_replica_that_cannot_be_reached_keeps_the_streams_that_it_has() -> None:
    """One that drains, say: it is asked for nothing more, and what it has goes on. If it hangs then, it is fenced."""
    f = Fleet(2)
    running = [asyncio.ensure_future(f.client(i, tokens=200)) for i in range(10)]
    await asyncio.sleep(0.3)
    drains, serves = f.engines, f.engines[0].stream
    assert on(f, drains[0]) and on(f, drains[1])

    async def away(call: Call) -> Any:
        raise Unreachable("e0 is not there")
        yield

    drains[0].stream = away  # type: ignore[method-assign]
    later = await asyncio.gather(*[f.client(100 + i, tokens=5) for i in range(10)])
    assert any(s.failures for s in later) and not drains[0].dead
    sessions = await asyncio.gather(*running)
    assert not any(s.failures for s in sessions) and not drains[0].dead and f.router.names() == ["e0", "e1"]
    # While it is avoided for that, it is found to be dead: that is no less certain.
    entry = f.router.entry("e0")
    assert entry is not None and f.router.now() < entry.avoided_until
    f.router.suspect(entry)
    await asyncio.sleep(0.1)
    assert drains[0].dead and f.router.names() == ["e1"]
    drains[0].stream = serves  # type: ignore[method-assign]
    await f.settle()


@virtual
async def test_a_replica_that_is_slow_is_not_dead() -> None:
    f = Fleet(3)
    f.engines[2].slow = 30.0
    sessions = await asyncio.gather(*[f.client(i) for i in range(30)])
    assert not any(s.failures for s in sessions)
    assert f.engines[2].calls == 10 and not f.engines[2].dead
    # What an engine has is what counts: as long as it has not done that, it gets no more than the others.
    await f.settle()


@virtual
async def test_what_an_engine_has_found_in_its_cache_counts_once() -> None:
    f = Fleet(1, period=None)
    e, book = f.engines[0], f.router.book
    sessions = [asyncio.ensure_future(f.client(7, 100, 60))]
    await until(lambda: f.sessions and len(f.sessions[0].got) >= 1)
    sessions += [asyncio.ensure_future(f.client(7, 100, 60)) for _ in range(4)]
    await until(lambda: len(f.sessions) == 5 and all(len(s.got) >= 1 for s in f.sessions))
    assert [s.cached for s in f.sessions] == [0, 96, 96, 96, 96]
    sizes = sum(-(-(100 + len(s.got)) // 16) for s in f.sessions)
    # Six whole blocks of the prompt are the first one's.
    assert book.own(0)[1] == sizes - 4 * 6
    said = await e.report()
    assert said.by_router is not None
    assert abs(said.by_router[f.router.name].kv_held - book.own(0)[1]) <= 5
    assert f.router.report("e0", said) == "taken"
    # These engines share nothing but the computing: what is shown is what they report.
    assert abs(book.view(0)["kv_held"] - said.all.kv_held) <= 5
    await asyncio.gather(*sessions)
    await f.settle()


@virtual
async def test_what_kv_events_say_is_there_takes_no_blocks_under_any_policy() -> None:
    f = Fleet(1, "least_load", period=None)
    await f.client(7, 100, 2)
    assert f.router.report("e0", await f.engines[0].report()) == "taken"
    second = asyncio.ensure_future(f.client(7, 100, 2))
    await until(lambda: len(f.router.book) == 1)
    # Six of its seven blocks are cached.
    assert f.router.book.view(0)["waiting_blocks"] == 1
    await second
    await f.settle()


@virtual
async def test_kv_that_came_from_a_peer_is_no_hit() -> None:
    f = tight_fleet()
    told: list[tuple[Session, int]] = []
    cache_hit = f.router._cache_hit

    def tells(session: Session, cached: int) -> None:
        told.append((session, cached))
        cache_hit(session, cached)

    f.router._cache_hit = tells  # type: ignore[method-assign]
    s, both, _, target = await in_a_fork(f, 0.0)
    await until(lambda: s.replica == target.name)
    # All that it has there is its own, though the target computed none of it.
    assert f.router.book.own(1)[1] == -(-(200 + len(s.got)) // 16)
    await both
    assert s.moves == 1 and [cached for session, cached in told if session is s] == [0]
    await f.settle()


@virtual
async def test_a_replica_that_lies_about_its_load() -> None:
    f = Fleet(3)
    f.engines[0].lie = lambda said: Report(said.epoch, Load(), {}, free=10**6, life=said.life)
    f.engines[1].lie = lambda said: Report(said.epoch, Load(10**30, -5), {f.router.name: Load(3.5)}, free=-4)
    running = []
    for i in range(90):
        running.append(asyncio.ensure_future(f.client(i, 100, 50)))
        await asyncio.sleep(0.02)
    await asyncio.gather(*running)
    calls = [e.calls for e in f.engines]
    # What a router has sent there counts in full, whatever is said.
    assert max(calls) - min(calls) <= 6, calls
    assert f.router.book.received["malformed"] > 5
    await f.settle()


@virtual
async def test_a_silent_replica_finishes_what_it_has() -> None:
    f = Fleet(2, silence=1.0)
    running = [asyncio.ensure_future(f.client(i, 100, 300)) for i in range(8)]
    await asyncio.sleep(0.1)

    async def silent() -> Report:
        await asyncio.sleep(1e6)
        raise AssertionError

    f.engines[0].report = silent  # type: ignore[method-assign]
    await asyncio.sleep(1.5)
    before = f.engines[0].calls
    sessions = [*await asyncio.gather(*running), *await asyncio.gather(*[f.client(50 + i) for i in range(6)])]
    assert f.engines[0].calls == before and not any(s.failures for s in sessions)
    await f.settle()


# -- reports


@pytest.mark.parametrize("seed", range(6))
@virtual
async def test_reports_late_doubled_reordered_or_of_a_former_life(seed: int) -> None:
    draw = random.Random(seed)
    f = Fleet(3, period=None)
    old = [await e.report() for e in f.engines]
    f.router.gone("e0")
    f.engines[0].life = 2
    f.join(f.engines[0])

    async def deliver(name: str, said: Report, after: float) -> None:
        await asyncio.sleep(after)
        f.router.report(name, said)

    async def reports() -> None:
        while True:
            for e in f.engines:
                said = await e.report()
                for _ in range(draw.choice([0, 1, 1, 2])):
                    asyncio.ensure_future(deliver(e.name, said, draw.random() * 1.5))
                if draw.random() < 0.2:
                    f.router.report("e0", old[0])
            f.router.tick()
            await asyncio.sleep(0.1)

    task = asyncio.ensure_future(reports())
    running = []
    for i in range(80):
        running.append(asyncio.ensure_future(f.client(1000 * seed + i, draw.randrange(20, 300), draw.randrange(5, 80))))
        await asyncio.sleep(0.03)
    await asyncio.gather(*running)
    task.cancel()
    await asyncio.sleep(2)
    counts = f.router.book.received
    assert counts["late"] > 0 and counts["doubled"] > 0 and counts["former"] > 0 and counts["malformed"] == 0
    for e in f.engines:
        assert f.router.report(e.name, await e.report()) == "taken"
        entry = f.router.entry(e.name)
        assert entry is not None
        assert f.router.book.others(entry.number) == Load() and f.router.book.own(entry.number) == Load()
    calls = [e.calls for e in f.engines]
    assert min(calls) > 10
    await f.settle()
