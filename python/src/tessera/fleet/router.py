# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A router: replicas of any kind, one book, and the sessions that run through them. One event loop, one router."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import uuid
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tessera import _fleet
from tessera.fleet.replica import Refused, Replica, Timeouts
from tessera.fleet.session import Session, wake, within
from tessera.fleet.values import Load

logger = logging.getLogger(__name__)

_read_prefixes = ("prefix_affinity", "lmetric")

#: If fewer waiting requests than this cannot use a change (their replica is another), the requests behind them still
#: get it.
_odd = 8


@dataclass(frozen=True)
class Report:
    """What a replica says of itself."""

    #: Counts its reports, from 1.
    epoch: int
    #: The load of all requests that it has.
    all: Load = Load()
    #: The part of that load that each router has sent, by the router's name; None if it does not know its routers.
    by_router: Mapping[str, Load] | None = None
    #: Device blocks that could be allocated.
    free: int | None = None
    #: Which life of the replica says so: larger after a restart.
    life: int = 1
    #: Whether all answers keep pace (PASCAL's t_i).
    slo_met: bool = True
    #: KV events since the report before: ("stored", hashes, parent, tokens), ("removed", hashes) or ("cleared",).
    events: Sequence[tuple[Any, ...]] = ()


@dataclass(eq=False)
class Entry:
    """A life of a replica, as the router knows it."""

    name: str
    number: int
    life: int
    incarnation: int
    replica: Replica
    gone: bool = False
    #: Not sent to before this time, while there are others.
    avoided_until: float = 0.0
    #: Not made sure of again before this time.
    suspected_until: float = 0.0
    epoch: int = 0
    #: What it last reported that it has.
    said: Load = Load()
    #: "mixed", "prefill" or "decode".
    role: str = "mixed"


class Router:
    """Places requests by a policy, streams them, and moves them while they run.

    >>> router = fleet.Router("least_load", block_size=16)
    >>> router.add("engine-0", replica, capacity=8192)
    >>> asyncio.create_task(router.run())             # reports, moves and leases
    >>> async for piece in router.stream(prompt_ids, max_tokens=100):
    ...     send(piece.tokens)

    `policy` and `settings`: as for `Ledger`. Everything is called inside a running loop, except the constructor, and
    `add` with a `now`.

    With `epoch`, replicas that are `elastic` change their roles, at most one each `epoch` seconds.
    `Ledger.propose_roles` decides by what the prefill and the decode pool have left; `cooldown` is in epochs. A replica
    that must prepare for its new role has `async become(role)`, and gets no new requests until that returns. Prompts go
    to prefill and mixed replicas while there are any. A request that has its first token at a prefill replica moves on
    to another, if it is `movable` and there is room.
    """

    def __init__(
        self,
        policy: str = "least_load",
        *,
        name: str | None = None,
        timeouts: Timeouts | None = None,
        avoid_for: float = 30.0,
        epoch: float = 0.0,
        **settings: Any,
    ) -> None:
        if not epoch >= 0:
            raise ValueError(f"epoch is seconds between two decisions about roles, or 0 for none, not {epoch}")
        self.name = name or uuid.uuid4().hex
        self.timeouts = timeouts or Timeouts()
        self.block_size: int = settings.get("block_size", 16)
        self.book = _fleet.Ledger(policy, **settings)
        self.prefixes: _fleet.PrefixIndex | None = None
        if policy in _read_prefixes:
            self.prefixes = _fleet.PrefixIndex(self.block_size, settings.get("replicas", 64))
        #: A replica that was silent while it had requests gets no new ones for so long.
        self.avoid_for = avoid_for
        #: Requests that moved, requests that did not after all, and requests that an engine failed.
        self.moved = self.stayed = self.failed = 0
        self.epoch = epoch
        #: (replica, role before, role after), the last of those that have changed.
        self.changes: deque[tuple[str, str, str]] = deque(maxlen=1000)
        self._decides = 0.0
        self._lease: float = settings.get("lease", 60.0)
        self._touched = 0.0
        self._entries: dict[str, Entry] = {}
        self._numbers: dict[int, Entry] = {}
        self._replicas: int = settings.get("replicas", 64)
        self._sessions: dict[int, Session] = {}
        self._requests = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        #: Those that wait for a replica, by when they began to.
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._in_vain = 0  # Waiting requests that could not use the latest change.
        self._proposing = False
        self._closed = False

    @staticmethod
    def now() -> float:
        """The time of the running loop."""
        return asyncio.get_running_loop().time()

    # -- replicas

    def add(
        self,
        name: str,
        replica: Replica,
        capacity: int,
        *,
        life: int = 1,
        prefill_budget: float = 0.0,
        prefill_square: float = 0.0,
        lengths: tuple[int, int] | None = None,
        role: str = "mixed",
        elastic: bool = False,
        now: float | None = None,
    ) -> bool:
        """A replica comes; an earlier life of that name is dead. False for a life that is over, or the same one again.
        `lengths`: for `cascade`, the blocks [first, last) of the requests that it serves. `role`: "mixed", "prefill" or
        "decode"; an `elastic` replica may be given another. ValueError if there is no room."""
        old = self._entries.get(name)
        if old is not None:
            if life <= old.life:
                return False
            self.gone(name)
        number = next((n for n in range(self._replicas) if n not in self._numbers), None)
        if number is None:
            raise ValueError(f"there is room for {self._replicas} replicas")
        incarnation = max(life, self.book.incarnation(number) + 1)
        joined = self.book.join(
            number,
            incarnation,
            capacity,
            self.now() if now is None else now,
            prefill_budget,
            prefill_square,
            role,
            elastic,
        )
        if joined != "ok":
            raise RuntimeError(f"the book has no place for {name}: {joined}")
        try:
            if lengths is not None:
                self.book.set_range(number, *lengths)
        except (TypeError, ValueError):
            self.book.fence(number, incarnation)
            raise
        entry = Entry(name, number, life, incarnation, replica, role=role)
        self._entries[name] = self._numbers[number] = entry
        if self.prefixes is not None:
            self.prefixes.cleared(number)
        self._changed()
        return True

    def drain(self, name: str) -> bool:
        """It takes no new requests; those that it has go on."""
        entry = self._entries.get(name)
        return entry is not None and self.book.drain(entry.number)

    def gone(self, name: str) -> bool:
        """It is dead for sure: nothing that it says counts any more, and what it had is tried elsewhere."""
        entry = self._entries.pop(name, None)
        if entry is None:
            return False
        del self._numbers[entry.number]
        entry.gone = True
        self.book.fence(entry.number, entry.incarnation)
        for session in [*self._sessions.values()]:
            session.replica_gone(entry)
        self._changed()
        return True

    def lost(self, entry: Entry) -> None:
        """It could not be reached. It may well live, and have requests that go on. It gets no new ones for a while."""
        if entry.gone:
            return
        self.book.lost(entry.number, entry.incarnation)
        entry.avoided_until = self.now() + self.avoid_for

    def suspect(self, entry: Entry) -> None:
        """It failed a request that was there, or a session waited for it in vain. If its death can be made sure of
        (`fence`), it is."""
        if entry.gone or self._closed:
            return
        self.lost(entry)
        fresh = entry.suspected_until <= self.now()
        entry.suspected_until = entry.avoided_until
        fence = getattr(entry.replica, "fence", None)
        if fence is not None and fresh:
            self._spawn(self._fence(entry, fence))

    async def _fence(self, entry: Entry, fence: Any) -> None:
        with contextlib.suppress(Exception):
            await fence()
            if self._entries.get(entry.name) is entry:
                self.gone(entry.name)

    def report(self, name: str, said: Report) -> str:
        """A report has come, in whatever order: "taken", or why it is not."""
        entry = self._entries.get(name)
        if entry is None:
            return "unknown"
        try:
            own = None if said.by_router is None else said.by_router.get(self.name, Load())
            what = self.book.receive(
                entry.number,
                max(entry.incarnation + said.life - entry.life, 0),
                said.epoch,
                said.all,
                self.now(),
                own=own,
                free=said.free,
                slo_met=said.slo_met,
            )
        except (AttributeError, TypeError, ValueError):
            return "malformed"
        if what == "taken":
            entry.said = said.all
            self._changed()
            if not self._take_events(entry, said):
                return "malformed"
        return what

    def _take_events(self, entry: Entry, said: Report) -> bool:
        if self.prefixes is None:
            if not said.events:
                return True
            # Whatever the policy reads: what is cached takes no blocks.
            self.prefixes = _fleet.PrefixIndex(self.block_size, self._replicas)
        if said.epoch != entry.epoch + 1:
            self.prefixes.cleared(entry.number)  # some were lost
        entry.epoch = said.epoch
        try:
            for kind, *what in said.events:
                if kind == "stored":
                    self.prefixes.stored(entry.number, *what)
                elif kind == "removed":
                    self.prefixes.removed(entry.number, *what)
                else:
                    self.prefixes.cleared(entry.number)
        except (TypeError, ValueError):
            self.prefixes.cleared(entry.number)
            return False
        return True

    # -- requests

    def stream(
        self,
        prompt: Sequence[int],
        max_tokens: int,
        params: Mapping[str, Any] | None = None,
        *,
        movable: bool = True,
        end_of_reasoning: int | None = None,
    ) -> Session:
        """A request: a session to iterate over. `movable`: another engine that goes on with it says the same, as with
        greedy decoding. If it is not movable, only a failure sends it elsewhere. `end_of_reasoning`: the token that
        ends the reasoning of a request that reasons."""
        return Session(
            self,
            prompt,
            max_tokens,
            params or {},
            movable=movable,
            reasons=end_of_reasoning is not None,
            end_of_reasoning=end_of_reasoning,
            timeouts=self.timeouts,
        )

    async def run(self, period: float = 0.5) -> None:
        """Asks for reports each `period` seconds, and decides about moves and, each `epoch`, about roles, until it is
        cancelled."""
        asking: dict[Entry, asyncio.Task[None]] = {}
        step = min(period, self.epoch or period)
        asks = 0.0
        while True:
            if self.now() >= asks:
                asks = self.now() + period - step / 2  # in the step that is nearest
                for entry in [*self._entries.values()]:
                    report = getattr(entry.replica, "report", None)
                    if report is not None and (entry not in asking or asking[entry].done()):
                        asking[entry] = self._spawn(self._ask(entry, report, 4 * period))
                asking = {e: t for e, t in asking.items() if not e.gone}
            self.tick()
            await asyncio.sleep(step)

    async def _ask(self, entry: Entry, report: Any, timeout: float) -> None:
        # A replica that does not answer is silent, and the book knows what follows.
        with contextlib.suppress(Exception):
            self.book.asked(entry.number)
            said = await asyncio.wait_for(report(), timeout)
            if self._entries.get(entry.name) is entry:
                self.report(entry.name, said)

    def tick(self) -> None:
        """Time has passed: leases run out, and requests move. Several times a lease."""
        now = self.now()
        if now - self._touched >= self._lease / 4:
            # Sessions that wait, or that have a slow client, live too.
            self._touched = now
            for session in self._sessions.values():
                self._progress(session, 0)
                if session._move is not None:
                    self.book.progress(session._request, session._move.to.number, 0, now)
        for session in [*self._sessions.values()]:
            session.look()
        self.book.expire(now)
        if self.epoch > 0 and now >= self._decides:
            self._decides = now + self.epoch
            self._propose_roles()
        self._propose_moves()

    def _propose_moves(self) -> None:
        for request, _, to, _, _ in self.book.propose_moves(self.now()):
            session = self._sessions.get(request)
            if session is None or not session.go(self._numbers[to]):
                self.book.release(request, to)

    def _propose_roles(self) -> None:
        change = self.book.propose_roles()
        if change is not None:
            number, before, after = change
            self._spawn(self._become(self._numbers[number], before, after))

    async def _become(self, entry: Entry, before: str, after: str) -> None:
        become = getattr(entry.replica, "become", None)
        try:
            if become is not None:
                await become(after)
        except Exception as error:
            # The role decides what is sent there. A replica that cannot follow refuses requests, and others get them.
            logger.warning("%s did not become %s", entry.name, after, exc_info=error)
        if entry.gone:
            return
        entry.role = after
        self.changes.append((entry.name, before, after))
        self.book.changed_role(entry.number)
        self._changed()

    async def close(self) -> None:
        """Ends what still reads from replicas; nothing more is sent to them."""
        self._closed = True
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def entry(self, name: str) -> Entry | None:
        """A replica that lives."""
        return self._entries.get(name)

    def names(self) -> list[str]:
        """Those that live."""
        return [*self._entries]

    def moving(self) -> list[tuple[str, str]]:
        """Requests that are on their way now: from where, and to where."""
        return [
            (s._leg.entry.name, s._move.to.name)
            for s in self._sessions.values()
            if s._leg is not None and s._move is not None
        ]

    # -- what sessions need

    async def _place(self, session: Session, avoid: set[Entry]) -> Entry | None:
        """Where it is sent next; it counts there when this returns. None if the client has gone."""
        ids = [*session.prompt, *session.got]
        until = self.now() + session.timeouts.place
        # A request that comes while many wait is behind them.
        turn = None if len(self._waiting) <= _odd else next(self._requests)
        try:
            if turn is not None:
                await self._turn(turn, until)
            while True:
                if session._closed:
                    return None
                entry = None if self._closed else self._choose(session, ids, avoid)
                if entry is not None:
                    return entry
                # A replica that has only refused may take it later.
                avoid.difference_update([e for e in avoid if e.gone or e.avoided_until <= self.now()])
                if self._closed or until <= self.now():
                    raise Refused(
                        "no replica takes requests" + "".join(f"; the last failure: {f}" for f in session.failures[-1:])
                    )
                if turn is None:
                    turn = next(self._requests)
                elif self._in_vain < _odd:
                    # Perhaps only this request could not use the change.
                    self._in_vain += 1
                    self._wake(turn)
                await self._turn(turn, until)
        finally:
            if turn is not None:
                del self._waiting[turn]
            # It has a place, or leaves, perhaps when it was its turn: wake the next.
            self._wake(turn or 0)

    async def _turn(self, turn: int, until: float) -> None:
        """Waits in the queue until something has changed for it, or it looks for itself. All waiting requests together
        look some dozens of times a second."""
        changed = self._waiting[turn] = asyncio.get_running_loop().create_future()
        often = 0.25 * max(1.0, len(self._waiting) / 16)
        await within(changed, max(min(until - self.now(), often), 0.0))

    def _wake(self, after: int) -> None:
        """Wakes the next in the queue after that place."""
        for turn, waits in self._waiting.items():
            if turn > after and not waits.done():
                wake(waits)
                return

    def _choose(self, session: Session, ids: list[int], avoid: set[Entry]) -> Entry | None:
        now = self.now()
        request = next(self._requests)
        cached = None if self.prefixes is None else self.prefixes.match(ids)
        never = {e.number for e in avoid if not e.gone}
        for_now = {e.number for e in self._entries.values() if now < e.avoided_until}
        for avoided in (never | for_now, never):
            number = self.book.place(
                request, len(ids), now, cached=cached, reasons=session.reasons, avoid=[*avoided] or None
            )
            if number is not None:
                self._sessions.pop(session._request, None)
                session._request = request
                self._sessions[request] = session
                return self._numbers[number]
            if not for_now:
                break
        return None

    def _progress(self, session: Session, generated: int) -> None:
        leg = session._leg
        if leg is not None:
            self.book.progress(session._request, leg.entry.number, generated, self.now())

    def _cache_hit(self, session: Session, cached: int) -> None:
        leg = session._leg
        if leg is not None:
            self.book.cache_hit(session._request, leg.entry.number, min(cached, len(leg.call.ids)), self.now())

    def _has_first(self, session: Session) -> None:
        # Its prompt is done, and there it does not stay. Proposing takes the longer the more replicas there are: soon,
        # but not at every first token of a large fleet.
        if session._leg is None or session._leg.entry.role != "prefill" or self._proposing:
            return
        self._proposing = True
        asyncio.get_running_loop().call_later(1e-5 * len(self._entries), self._propose_soon)

    def _propose_soon(self) -> None:
        self._proposing = False
        if not self._closed:
            self._propose_moves()

    def _answers(self, session: Session) -> None:
        leg = session._leg
        if leg is not None:
            self.book.answers(session._request, leg.entry.number, self.now())

    def _moved(self, session: Session, to: Entry) -> bool:
        return self.book.moved(session._request, to.number, self.now())

    def _release(self, session: Session, entry: Entry) -> None:
        self.book.release(session._request, entry.number)
        self._changed()

    def _forget(self, session: Session) -> None:
        self._sessions.pop(session._request, None)

    def _changed(self) -> None:
        # The first of the line, and when it has a place the next: not all at each change.
        self._in_vain = 0
        self._wake(0)

    def _spawn(self, what: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
