# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Requests that no engine serves as it should, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fake_engine import POISON, FakeEngine, answer
from fake_fleet import Fleet, in_a_fork, prompt, quick, read, tight_fleet, until, virtual

from tessera import fleet
from tessera.fleet import AtFault, Call, Died, Failure, Piece, Refused, Router, Session, Timeouts


@virtual
async def test_a_request_that_kills_engines() -> None:
    f = Fleet(5, fenced=False, tight=390, rest=0.1, period=0.02)
    running = [asyncio.ensure_future(f.client(i, 100, 80)) for i in range(40)]
    await asyncio.sleep(0.1)
    poison = f.router.stream([*prompt(1, 50), POISON, *prompt(2, 10)], 20)
    with pytest.raises(Failure):
        async for _ in poison:
            pass
    assert sum(e.core_dead for e in f.engines) == 2
    sessions = await asyncio.gather(*running, return_exceptions=True)
    # A request that was beside it both times cannot be told from it.
    failed = [s for s, how in zip(f.sessions, sessions, strict=True) if isinstance(how, Failure)]
    assert len(failed) <= 8 and all(s._retries.deaths == 2 for s in failed)
    assert sum(isinstance(s, Session) for s in sessions) == 40 - len(failed)
    await f.settle()


@virtual
async def test_a_request_that_kills_while_it_moves_is_bounded_too() -> None:
    f = tight_fleet(fenced=False)
    s, task, source, target = await in_a_fork(f, 0.0)
    await until(lambda: s._move is not None and s._move.target is not None)
    await asyncio.sleep(0.005)
    target.kill_core()
    f.start()
    await until(lambda: s.moves_failed == 1)
    assert s.replica == "e0"
    source.kill_core()
    with pytest.raises(Failure):
        await task
    assert s._retries.deaths == 2 and sum(e.core_dead for e in f.engines) == 2
    await f.sessions[1].aclose()
    await asyncio.sleep(1)
    await f.settle()


@virtual
async def test_refusals_are_tried_elsewhere_and_end() -> None:
    f = Fleet(3)
    f.engines[0].refusing = f.engines[1].refusing = True
    sessions = await asyncio.gather(*[f.client(i, 50, 10) for i in range(6)])
    assert f.engines[2].calls == 6 and all(len(s.failures) <= 2 for s in sessions)
    assert not any(f.router.book.silent(k) for k in range(3))
    f.engines[2].refusing = True
    with pytest.raises(Refused):
        await f.client(9)
    for e in f.engines:
        e.refusing = False
    await f.settle()


@virtual
async def test_what_no_engine_can_serve_is_the_requests_fault() -> None:
    f = Fleet(2)
    with pytest.raises(AtFault):
        await f.client(1, 400 * 16, 10)
    assert not any(e.dead for e in f.engines)
    with pytest.raises(ValueError, match="a prompt has at least one token"):
        f.router.stream([], 1)
    with pytest.raises(ValueError, match="max_tokens is at least 1, not 0"):
        f.router.stream([1], 0)
    for what, most in (("abc", 1), (["x"], 1), ([1.5], 1), ([1], 1.5), ([1], "3")):
        with pytest.raises(ValueError, match="whole numbers"):
            f.router.stream(what, most)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="each is from 0 to"):
        f.router.stream([1, -1], 1)
    await f.settle()


@virtual
async def test_a_request_waits_for_a_replica_and_not_for_ever() -> None:
    f = Fleet(0)
    began = f.router.now()
    with pytest.raises(Refused, match="no replica takes requests"):
        await f.client(1)
    assert 20.0 <= f.router.now() - began < 21.0
    waits = asyncio.ensure_future(f.client(2))
    await asyncio.sleep(3.0)
    f.start()
    assert not (await waits).failures
    await f.settle()


class Scripted:
    """A replica that says what it is told to."""

    def __init__(self, *pieces: Piece | Exception) -> None:
        self.pieces = pieces

    async def stream(self, call: Call) -> Any:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece


@pytest.mark.parametrize(
    ("pieces", "says"),
    [
        ([Piece(0, [5, 6])], "broke off"),
        ([Piece(0, [5, 6]), Piece(3, [7])], "left tokens out"),
        ([Piece(0, [5, 6]), Piece(4, (), "stop")], "left tokens out"),
        ([ValueError("odd")], "odd"),
    ],
)
@virtual
async def test_an_engine_that_breaks_the_rules_is_as_one_that_died(pieces: list[Any], says: str) -> None:
    router = Router(timeouts=quick)
    for i in range(3):
        router.add(f"e{i}", Scripted(*pieces), 100)
    s = router.stream([1, 2, 3], 10)
    with pytest.raises(fleet.Died, match=says):
        async for _ in s:
            pass
    assert s._retries.deaths == 2 and len(router.book) == 0


@virtual
async def test_an_engine_that_ends_before_what_it_has_said_lives_and_another_goes_on() -> None:
    router = Router(timeouts=quick)
    router.add("e0", Scripted(Piece(0, [5, 6]), Piece(1, (), "stop")), 100)
    s = router.stream([1, 2, 3], 4)
    reads = asyncio.ensure_future(read(s, 0))
    await asyncio.sleep(0.01)
    router.add("e1", Scripted(Piece(2, [7, 8], "length")), 100)
    await reads
    assert s.got == [5, 6, 7, 8] and len(s.failures) == 1 and s._retries.deaths == 0
    assert router.entry("e0").avoided_until == 0.0


@virtual
async def test_a_mistake_in_a_replica_is_logged_and_said(caplog: pytest.LogCaptureFixture) -> None:
    router = Router(timeouts=quick)
    router.add("e", Scripted(TypeError("my bug")), 100)
    with pytest.raises(Refused, match="no replica takes requests; the last failure: e: my bug"):
        async for _ in router.stream([1, 2, 3], 10):
            pass
    assert "the stream of e raised" in caplog.text and "TypeError: my bug" in caplog.text


@virtual
async def test_a_stream_that_lost_only_its_end_is_whole() -> None:
    router = Router(timeouts=quick)
    router.add("e0", Scripted(Piece(0, [5, 6])), 100)
    router.add("e1", Scripted(Piece(0, [5, 6])), 100)
    got = [piece async for piece in router.stream([1, 2, 3], 2)]
    assert [t for p in got for t in p.tokens] == [5, 6] and got[-1].finish == "length"
    assert len(router.book) == 0


@virtual
async def test_a_second_engine_that_dies_after_the_last_token_is_the_end() -> None:
    class First(Scripted):
        async def stream(self, call: Call) -> Any:
            raise Died("before it began")
            yield

    router = Router(timeouts=quick)
    router.add("e0", First(), 100)
    reads = asyncio.ensure_future(anext(aiter(s := router.stream([1, 2, 3], 2))))
    await asyncio.sleep(0.01)
    router.add("e1", Scripted(Piece(0, [5, 6])), 100)
    pieces = s.__aiter__()
    assert (await reads).tokens == [5, 6]
    assert (await anext(pieces)).finish == "length"
    assert s._retries.deaths == 1 and len(router.book) == 0


class Fails:
    """An engine that lives, and ends each request after `after` tokens with `finish`."""

    def __init__(self, engine: FakeEngine, finish: str, after: int) -> None:
        self.engine, self.finish, self.after, self.calls = engine, finish, after, 0
        self.report, self.fence = engine.report, engine.fence

    async def stream(self, call: Call) -> Any:
        self.calls += 1
        async for piece in self.engine.stream(call):
            if piece.at >= call.at + self.after:
                break
            yield piece
        yield Piece(call.at + self.after, (), self.finish)


@pytest.mark.parametrize("after", [0, 5])
@pytest.mark.parametrize("finish", ["error", "abort"])
@virtual
async def test_an_engine_that_ends_a_request_with_an_error_is_one_try(finish: str, after: int) -> None:
    f = Fleet(0)
    e = FakeEngine("fails", peers=f.peers, **f.options)
    fails = Fails(e, finish, after)
    f.router.add("fails", fails, e.blocks)
    reads = asyncio.ensure_future(f.client(1))
    await until(lambda: fails.calls == 1)
    f.start()
    s = await reads
    assert s.failures == [f"fails ended it: {finish}"] and s._retries.deaths == 0 and not e.dead
    # They are bounded, and the request is not said to be wrong.
    f.router.gone("e0")
    with pytest.raises(Died, match="ended it"):
        await f.client(2, tokens=300)
    assert fails.calls == 1 + quick.tries and not e.dead
    await f.settle()


@virtual
async def test_many_tries_are_allowed() -> None:
    class Refuses:
        async def stream(self, call: Call) -> Any:
            raise Refused("full")
            yield

    router = Router(timeouts=Timeouts(tries=1100, again=0.0))
    router.add("e", Refuses(), 100)
    s = router.stream([1], 1)
    with pytest.raises(Refused, match="full"):
        await read(s, 0)
    assert len(s.failures) == 1100


@pytest.mark.parametrize(
    "says",
    [
        lambda call, at: Piece(at, (), "stop"),
        lambda call, at: Piece(at, answer(call.ids, 2), "length"),
        lambda call, at: Piece(at, (), "abort"),
    ],
)
@virtual
async def test_a_target_that_ends_before_the_client_does_is_left(says: Callable[[Call, int], Piece]) -> None:
    f = Fleet(1, moves="cascade", rest=0.0, engine={"cache_blocks": 0})

    class Ends:
        async def stream(self, call: Call) -> Any:
            await asyncio.sleep(0.1)  # the source has said more meanwhile
            yield says(call, call.at)

    s = f.session(1, tokens=200)
    reads = asyncio.ensure_future(f.read(s))
    await until(lambda: len(s.got) >= 20)
    assert f.router.add("t", Ends(), 512)
    f.router.serves("e0", 0, 1)
    assert s._move is not None
    await reads
    assert s.moves == 0 and s.moves_failed >= 1 and s.failures == []
    await f.settle()
