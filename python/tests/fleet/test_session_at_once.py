# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Faults at any time and at once, and faults that were found by trying to break the front end."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from fake_engine import FakeEngine, answer
from fake_fleet import Fleet, Unfenced, prompt, until, virtual

from tessera.fleet import Call, Died, Failure, Piece, Refused, Report, Router, Timeouts


@pytest.mark.parametrize("seed", range(12))
@virtual
async def test_anything_may_happen_at_any_time(seed: int) -> None:
    draw = random.Random(seed)
    f = Fleet(5, tight=300, rest=0.3, period=0.05, fenced=seed % 2 == 0)
    ended = {"whole": 0, "failed": 0, "left": 0}

    async def one(i: int) -> None:
        await asyncio.sleep(draw.random() * 20)
        length, tokens = draw.randrange(10, 400), draw.randrange(1, 120)
        leaves = draw.random() < 0.2
        task = asyncio.ensure_future(f.client(1000 * seed + i, length, tokens))
        if leaves:
            await asyncio.sleep(draw.random() * 2)
            task.cancel()
        result = (await asyncio.gather(task, return_exceptions=True))[0]
        if isinstance(result, asyncio.CancelledError):
            ended["left"] += 1
        elif isinstance(result, Failure):
            ended["failed"] += 1
        elif isinstance(result, BaseException):
            raise result
        else:
            ended["whole"] += 1

    async def faults() -> None:
        for k in range(12):
            await asyncio.sleep(draw.random() * 3)
            living = [e for e in f.engines if f.peers[e.name] is e and not (e.dead or e.core_dead or e.hung)]
            if len(living) < 3:
                continue
            e = draw.choice(living)
            what = draw.choice(["kill", "kill_core", "hang", "slow"])
            if what == "slow":
                e.slow = draw.choice([1.0, 5.0])
            elif what == "hang":
                e.hung = True
            else:
                getattr(e, what)()
            if what != "slow":
                await asyncio.sleep(draw.random() * 3)
                e.kill()
                f.start(life=k + 2, name=e.name)

    await asyncio.gather(faults(), *[one(i) for i in range(250)])
    await asyncio.sleep(1)
    # Two engines may have died under the same request; few have such luck.
    assert ended["whole"] >= 170 and ended["failed"] <= 12, ended
    for e in f.engines:
        e.hung = False
    await f.settle()


# -- found by trying to break it


@virtual
async def test_a_request_that_kills_where_it_moves_to_moves_no_more() -> None:
    f = Fleet(1, period=None, moves="cascade", rest=0.1)
    died: list[str] = []

    class Dies(Unfenced):
        def __init__(self, engine: FakeEngine) -> None:
            super().__init__(engine)
            self.stream = self.dying
            self.engine = engine

        async def dying(self, call: Call) -> Any:
            if call.kv is not None:
                died.append(self.engine.name)
                raise Died("killed by it")
            async for piece in self.engine.stream(call):
                yield piece

    s = f.session(1, tokens=400)
    reads = asyncio.ensure_future(f.read(s))
    await asyncio.sleep(0.2)
    for i in range(1, 6):
        e = FakeEngine(f"d{i}", peers=f.peers, **f.options)
        f.engines.append(e)
        f.router.add(e.name, Dies(e), e.blocks)
    for _ in range(30):
        f.router.serves("e0", 0, 1)
        await asyncio.sleep(0.1)
    await reads
    assert len(died) == f.timeouts.deaths and s.moves == 0
    await f.settle()


@pytest.mark.parametrize("later", range(5))
@virtual
async def test_a_client_is_cancelled_when_a_piece_has_just_come(later: int) -> None:
    f = Fleet(1)
    s = f.session(1)
    reads = asyncio.ensure_future(f.read(s))
    put = s._said.put
    heard = 0

    def cancel(steps: int) -> None:
        if steps:
            asyncio.get_running_loop().call_soon(cancel, steps - 1)
        else:
            reads.cancel()

    def hooked(*what: Any) -> None:
        nonlocal heard
        put(*what)
        heard += 1
        if heard == 5:
            cancel(later)

    s._said.put = hooked  # type: ignore[method-assign]
    await asyncio.wait([reads], timeout=30)
    assert reads.cancelled()
    await f.settle()


@virtual
async def test_a_source_that_breaks_off_when_the_target_is_gone() -> None:
    f = Fleet(1, fenced=False, moves="cascade", rest=0.0, engine={"per_fetched_token": 1e-3})
    s = f.session(1, tokens=200)
    reads = asyncio.ensure_future(f.read(s))
    await asyncio.sleep(0.3)
    f.start()
    f.router.serves("e0", 0, 1)
    await until(lambda: s._move is not None and s._move.target is not None)
    s._said.put(s._leg, Died("it broke off"))
    f.router.gone("e1")
    f.start(name="e2")
    await reads
    assert len(s.failures) == 1
    await f.settle()


@virtual
async def test_a_move_of_a_slow_client_comes_to_an_end() -> None:
    f = Fleet(1, moves="cascade", rest=0.0, engine={"per_fetched_token": 1e-4})
    s = f.session(1, tokens=300)

    async def read() -> None:
        async for _ in s:
            await asyncio.sleep(0.3)

    reads = asyncio.ensure_future(read())
    await asyncio.sleep(1.0)
    f.start()
    f.router.serves("e0", 0, 1)
    assert s._move is not None
    await asyncio.sleep(f.timeouts.move + 1)
    assert s.moves_failed == 1 and not reads.done()
    await reads
    assert s.got == answer(s.prompt, 300)
    await f.settle()


@virtual
async def test_an_engine_that_raises_before_it_streams_or_is_cancelled_inside() -> None:
    class Raises:
        def stream(self, call: Call) -> Any:
            raise Refused("full")

    class Cancelled:
        async def stream(self, call: Call) -> Any:
            yield Piece(call.at, answer(call.ids, 1))
            raise asyncio.CancelledError

    for replica, said in ((Raises(), "full"), (Cancelled(), "cancelled")):
        f = Fleet(0)
        f.router.add("wrong", replica, 100)
        began = f.router.now()
        reads = asyncio.ensure_future(f.client(1))
        await asyncio.sleep(0.01)
        f.start()
        s = await reads
        assert said in s.failures[0] and f.router.now() - began < 3
        await f.settle()


@virtual
async def test_what_is_no_piece_fails_its_engine() -> None:
    class Says:
        def __init__(self, *pieces: Any) -> None:
            self.pieces = pieces

        async def stream(self, call: Call) -> Any:
            for p in self.pieces:
                yield p

    wrongs: list[Any] = [Piece(-1, [5]), Piece(0, None), Piece("0", [5]), "x", [1, 2], Piece(0, ["a"])]  # type: ignore[arg-type]
    wrongs += [Piece(0, [2**31]), Piece(2**50, [5]), Piece(2**70, [5]), Piece(2**70, ()), Piece(0, [5], cached=None)]  # type: ignore[arg-type]
    for wrong in wrongs:
        r = Router()
        for i in range(3):
            r.add(f"e{i}", Says(wrong), 100)
        with pytest.raises(Died, match="is not a fleet.Piece"):
            async for _ in r.stream(prompt(1, 30), 3):
                pass
        assert len(r.book) == 0
    # An engine that says more than was asked for is not listened to.
    r = Router()
    r.add("e", Says(Piece(0, [5, 6]), Piece(2, [7] * 50)), 100)
    got = [p async for p in r.stream(prompt(1, 30), 3)]
    assert [t for p in got for t in p.tokens] == [5, 6, 7] and got[-1].finish == "length"


@virtual
async def test_a_replica_that_cannot_be_added_leaves_nothing() -> None:
    r = Router("cascade")
    e = FakeEngine("a")
    with pytest.raises(ValueError, match="last above first"):
        r.add("a", e, 100, lengths=(5, 5))
    assert r.names() == [] and not r.book.contains(0)
    assert r.add("a", e, 100, lengths=(0, 100))
    assert r.report("a", await e.report()) == "taken"
    assert r.gone("a") and not r.book.contains(0)


@virtual
async def test_reports_that_are_none() -> None:
    r = Router("prefix_affinity")
    r.add("a", FakeEngine("a"), 100)
    events: list[Any] = [[("stored",)], [()], None, [("stored", [1], None, [1, 2])]]
    for wrong in [*(Report(i + 1, events=e) for i, e in enumerate(events)), Report(9, by_router=[1]), None]:  # type: ignore[arg-type]
        assert r.report("a", wrong) == "malformed"  # type: ignore[arg-type]


@virtual
async def test_many_wait_for_a_place_in_line() -> None:
    """No request waits in vain while there is room, the first come are served first, and a change wakes few."""
    f = Fleet(4, period=None, reservations=40, timeouts=Timeouts(first=20, token=5, place=200))
    chosen = 0
    choose = f.router._choose

    def counted(*what: Any) -> Any:
        nonlocal chosen
        chosen += 1
        return choose(*what)

    f.router._choose = counted  # type: ignore[method-assign]
    ended: list[int] = []

    async def client(i: int) -> None:
        await f.client(i, 40, 20)
        ended.append(i)

    await asyncio.gather(*[client(i) for i in range(1000)])
    assert all(abs(place - i) < 100 for place, i in enumerate(ended))
    assert chosen < 6000
    assert not f.router._waiting
    # And no request that has given up keeps a place.
    impatient = Router(timeouts=Timeouts(place=3))
    tries = [asyncio.ensure_future(anext(aiter(impatient.stream([5], 1)))) for _ in range(50)]
    await asyncio.wait(tries)
    assert all(isinstance(t.exception(), Refused) for t in tries) and not impatient._waiting
