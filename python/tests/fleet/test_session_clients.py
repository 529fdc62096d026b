# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Clients that go away or read slowly, in virtual time."""

from __future__ import annotations

import asyncio
import gc
import random

import pytest
from fake_engine import answer
from fake_fleet import Fleet, begin_to_move, prompt, read, tight_fleet, until, virtual

from tessera.fleet import Refused, Session


@pytest.mark.parametrize("how", ["cancel", "close"])
@pytest.mark.parametrize(
    "moment", ["before it is placed", "waiting", "streaming", "in an export", "at the target", "after the end"]
)
@virtual
async def test_a_client_that_goes_away(moment: str, how: str) -> None:
    forks = moment in ("in an export", "at the target")
    f = tight_fleet() if forks else Fleet(2)
    for e in f.engines:
        if moment == "before it is placed":
            f.router.drain(e.name)
        e.hung = moment == "waiting"
    s = f.session(1, 200, 150)
    # One that waits for the next piece, or one that is between two.
    task = asyncio.ensure_future(read(s, 0 if how == "cancel" else 0.0001))
    await asyncio.sleep(0.1)
    beside = await begin_to_move(f, s) if forks else None
    if moment == "streaming":
        await until(lambda: len(s.got) > 20)
    elif moment == "at the target":
        await until(lambda: s._move is not None and s._move.target is not None)
    elif moment == "after the end":
        await task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await s.aclose()
    await s.aclose()
    if beside is not None:
        await beside
    for e in f.engines:
        e.hung = False
        e._wake.set()
    await asyncio.sleep(0.2)
    assert [e.live for e in f.engines] == [0, 0]
    await f.settle()


@pytest.mark.parametrize("seed", range(3))
@virtual
async def test_clients_that_go_away_at_any_moment(seed: int) -> None:
    f = Fleet(3, tight=370, rest=0.2, period=0.02)
    draw = random.Random(seed)

    async def leaves(i: int) -> None:
        await asyncio.sleep(i * 0.01)
        task = asyncio.ensure_future(f.client(1000 * seed + i, 100, 100))
        await asyncio.sleep(draw.random() * 2.5)
        task.cancel()
        result = (await asyncio.gather(task, return_exceptions=True))[0]
        assert isinstance(result, (Session, asyncio.CancelledError)), result

    await asyncio.gather(*[leaves(i) for i in range(150)])
    await asyncio.sleep(0.1)
    assert sum(s.moves for s in f.sessions) > 5
    assert [e.live for e in f.engines] == [0, 0, 0]
    await f.settle()


@pytest.mark.parametrize("how", ["break", "raise", "cancel"])
@virtual
async def test_a_client_that_leaves_the_loop(how: str) -> None:
    f = Fleet(1, lease=4.0)

    async def client() -> None:
        async for _ in f.router.stream(prompt(1, 50), 400, {"ignore_eos": True}):
            if how == "break":
                break
            if how == "raise":
                raise ConnectionError("nobody reads")
            await asyncio.sleep(1000)  # it sends, and that does not return

    task = asyncio.ensure_future(client())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task])
    gc.collect()
    await asyncio.sleep(0.1)
    assert f.engines[0].live == 0 and len(f.router.book) == 0 and not f.router._sessions
    await f.settle()


@virtual
async def test_a_loop_that_was_left_is_not_gone_on_with() -> None:
    f = Fleet(1)
    s = f.session(1)
    async for _ in s:
        break
    assert [piece async for piece in s] == [] and len(s.got) == 1
    await f.settle()


@virtual
async def test_a_client_that_closes_while_it_waits_for_a_place_gets_nothing() -> None:
    f = Fleet(0)
    s = f.session(1)
    reads = asyncio.ensure_future(read(s, 0))
    await asyncio.sleep(0.1)
    await s.aclose()
    await asyncio.wait([reads])
    assert reads.exception() is None and s.got == [] and not f.router._waiting
    await f.settle()


@virtual
async def test_a_router_that_closes_kills_nobody() -> None:
    f = Fleet(2)
    running = [asyncio.ensure_future(f.client(i, tokens=400)) for i in range(4)]
    await asyncio.sleep(0.5)
    await f.router.close()
    ended = await asyncio.gather(*running, return_exceptions=True)
    assert all(isinstance(e, Refused) for e in ended)
    await asyncio.sleep(2)
    assert not any(e.dead for e in f.engines) and f.router.names() == ["e0", "e1"]
    await f.settle()


@virtual
async def test_a_client_that_reads_slowly_keeps_its_place_in_the_book() -> None:
    f = Fleet(1, lease=4.0)
    s = f.session(1, 50, 30)
    got = []
    async for piece in s:
        got += piece.tokens
        await asyncio.sleep(1.0)
        assert len(f.router.book) == (0 if piece.finish else 1)
        if piece.finish:
            break
    assert got == answer(s.prompt, 30)
    await s.aclose()
    await f.settle()
