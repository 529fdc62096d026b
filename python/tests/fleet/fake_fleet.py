# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Some fake engines, a router, and clients that check what they get, in virtual time.

After each test every stream that lives is whole: no token came twice, and none is missing. Books are back at zero, and
no engine holds anything for longer than a lease.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from fake_engine import FakeEngine, answer
from virtual_time import run

from tessera.fleet import Call, Router, Session, Timeouts

quick = Timeouts(first=20.0, token=2.0, place=20.0, move=5.0)


class Unfenced:
    """A replica that offers no way to make sure that it is dead."""

    def __init__(self, engine: FakeEngine) -> None:
        self.stream = engine.stream
        self.report = engine.report


class Fleet:
    """Some fake engines, a router, and clients that check what they get."""

    def __init__(
        self,
        n: int = 3,
        policy: str = "least_load",
        *,
        fenced: bool = True,
        period: float | None = 0.25,
        timeouts: Timeouts = quick,
        engine: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.peers: dict[str, FakeEngine] = {}
        self.options = {"blocks": 400, "block_size": 16, "export_lease": 5.0, **(engine or {})}
        self.engines: list[FakeEngine] = []
        self.settings = {"lease": 20.0, "rest": 0.5, **settings}
        self.timeouts = timeouts
        self.router = Router(None if "controller" in settings else policy, timeouts=timeouts, **self.settings)
        self.fenced = fenced
        self.sessions: list[Session] = []
        for _ in range(n):
            self.start()
        self.running = [asyncio.ensure_future(self.router.run(period))] if period else []

    def start(self, life: int = 1, name: str | None = None, **options: Any) -> FakeEngine:
        e = FakeEngine(name or f"e{len(self.engines)}", peers=self.peers, life=life, **{**self.options, **options})
        self.engines.append(e)
        self.join(e)
        return e

    def join(self, e: FakeEngine, router: Router | None = None) -> None:
        replica: Any = e if self.fenced else Unfenced(e)
        assert (router or self.router).add(e.name, replica, e.blocks, life=e.life, prefill_budget=1000.0)

    def start_as(self, role: str, elastic: bool = False, become: float = 0.0) -> FakeEngine:
        """One of a pool, which takes so long to change its role."""
        e = FakeEngine(f"e{len(self.engines)}", peers=self.peers, **self.options)
        self.engines.append(e)

        class Elastic:
            stream, report, fence = e.stream, e.report, e.fence

            async def become(self, role: str) -> None:
                await asyncio.sleep(become)

        assert self.router.add(e.name, Elastic(), e.blocks, prefill_budget=1000.0, role=role, elastic=elastic)
        return e

    async def read(self, s: Session) -> None:
        got: list[int] = []
        async for piece in s:
            assert piece.at == len(got)
            got += piece.tokens
        assert got == answer(s.prompt, s.max_tokens) == s.got

    def session(self, seed: int, length: int = 100, tokens: int = 50, **how: Any) -> Session:
        s = self.router.stream(prompt(seed, length), tokens, {"ignore_eos": True}, **how)
        self.sessions.append(s)
        return s

    async def client(self, seed: int, length: int = 100, tokens: int = 50, **how: Any) -> Session:
        s = self.session(seed, length, tokens, **how)
        await self.read(s)
        return s

    async def settle(self) -> None:
        """All is given back."""
        assert self.router.book.moving == 0 and len(self.router.book) == 0
        await asyncio.sleep(self.options["export_lease"] + 1)
        for e in self.engines:
            if not (e.dead or e.core_dead or e.hung):
                # Leases end when the engine looks: at the next request it does.
                async for _ in e.stream(Call([3], 0, 1, "test")):
                    pass
                assert (e.free, e.live, e.exports) == (e.blocks, 0, {}), e.name
        assert not self.router._sessions
        for task in self.running:
            task.cancel()
        await asyncio.sleep(0)
        await asyncio.gather(*self.running, return_exceptions=True)
        await asyncio.sleep(1)
        assert not self.router._tasks, "nothing reads from an engine any more"
        assert all(s._move is None for s in self.sessions)


def prompt(seed: int, length: int) -> list[int]:
    draw = random.Random(seed)
    return [draw.randrange(3, 1000) for _ in range(length)]


def virtual(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test in virtual time."""
    import functools
    import inspect

    @functools.wraps(test)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        run(test(*args, **kwargs))  # type: ignore[arg-type]

    wrapped.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]
    return wrapped


async def until(happens: Callable[[], object], step: float = 0.001, most: float = 100.0) -> None:
    for _ in range(int(most / step)):
        if happens():
            return
        await asyncio.sleep(step)
    raise AssertionError("it never happens")


def on(f: Fleet, e: FakeEngine) -> list[Session]:
    return [s for s in f.sessions if s.replica == e.name]


def tight_fleet(**how: Any) -> Fleet:
    engine = {"latency": 0.004, "per_fetched_token": 1e-4}
    return Fleet(1, tight=395, rest=0.2, period=0.01, engine=engine, **how)


async def begin_to_move(f: Fleet, s: Session) -> asyncio.Task[Session]:
    """Beside a larger request, on an engine that is tight, it moves as soon as there is another one. The larger one."""
    beside = asyncio.ensure_future(f.client(8, 600, 300))
    await until(lambda: len(s.got) >= 40 and len(f.sessions[-1].got) >= 1)
    f.start()
    await until(lambda: s._move is not None)
    assert s.replica == "e0" and s._move is not None and s._move.to.name == "e1"
    return beside


async def in_a_fork(f: Fleet, after: float) -> tuple[Session, Awaitable[Any], FakeEngine, FakeEngine]:
    """A request that has been on its way from one engine to another for so long."""
    task = asyncio.ensure_future(f.client(7, 200, 150))
    await asyncio.sleep(0)
    beside = await begin_to_move(f, f.sessions[0])
    await asyncio.sleep(after)
    return f.sessions[0], asyncio.gather(task, beside), f.engines[0], f.engines[1]


async def read(s: Session, thinks: float) -> None:
    async for _ in s:
        if thinks:
            await asyncio.sleep(thinks)
