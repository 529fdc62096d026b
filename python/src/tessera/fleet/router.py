# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A router: replicas of any kind, one controller, and the sessions that run through them. One event loop, one router.

What happens is told to the controller's runtime as events. `carrier` carries out what the runtime answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import logging
import os
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from tessera import _fleet
from tessera.fleet import _former
from tessera.fleet.carrier import Carrier, Entry, Report
from tessera.fleet.log import Log
from tessera.fleet.replica import Refused, Replica, Timeouts, abilities, abilities_of, checked_replica
from tessera.fleet.session import Session, wake, within
from tessera.fleet.values import Assignment, Load, PlanRequest

logger = logging.getLogger(__name__)

#: Names of policies for `Router(policy)`. Each is a controller as well.
policies = (
    "shortest_queue",
    "power_of_two",
    "least_kv",
    "least_load",
    "phi",
    "phi_time",
    "pascal",
    "cascade",
    "prefix_affinity",
    "lmetric",
    "fill_to_level",
)

#: If fewer waiting requests than this cannot use a change (their replica is another), the requests behind them still
#: get it.
_odd = 8


class Router(Carrier):
    """Places requests by a controller, streams them, and moves them while they run.

    >>> router = fleet.Router("least_load", block_size=16)
    >>> router.add("engine-0", replica, capacity=8192)
    >>> asyncio.create_task(router.run())             # reports, moves and leases
    >>> async for piece in router.stream(prompt_ids, max_tokens=100):
    ...     send(piece.tokens)

    `controller`: one of `tessera.fleet.controllers`, by the names that `replay` gives them. Or `policy`: one of
    `tessera.fleet.policies`; `cascade` takes the stages by length from `add`. `settings`: as for `Runtime`. Call
    everything inside a running loop, except the constructor, and `add` with a `now`.

    With `epoch`, at most one `elastic` replica changes its role each `epoch` seconds. Phasor's controller decides by
    the headroom of the prefill and the decode pool; `cooldown` is in epochs. A replica that must prepare for its new
    role has `async become(role)`, and gets no new requests until that returns. Prompts go to prefill and mixed replicas
    while there are any. At its first token on a prefill replica, a `movable` request moves to another one with room.

    `record`: a file for all events and actions, which `python -m tessera.fleet replay` reads. `close` writes the rest.
    `planner`: makes plans beside the service, for controllers that ask for them, as `due-first` does
    (`tessera.fleet.planner`); ValueError for others. If none can be made, the layout stays as it is.
    """

    def __init__(
        self,
        policy: str | None = None,
        *,
        controller: str | None = None,
        name: str | None = None,
        timeouts: Timeouts | None = None,
        avoid_for: float = 30.0,
        epoch: float = 0.0,
        record: str | os.PathLike[str] | None = None,
        planner: Callable[[PlanRequest], Awaitable[Sequence[Assignment]]] | None = None,
        **settings: Any,
    ) -> None:
        if not epoch >= 0:
            raise ValueError(f"epoch is seconds between two decisions about roles, or 0 for none, not {epoch}")
        former = _former.take_parameters(settings)
        if policy is not None and controller is not None:
            raise ValueError("a router has a policy or a controller, not both")
        if controller is None:
            policy = "least_load" if policy is None else policy
            if policy not in policies:
                raise ValueError(f"policy is one of {', '.join(policies)}, not {policy}")
            if policy == "pascal":
                settings.setdefault("moves", "pascal")
            controller = _former.controller_of(policy)
        elif controller not in _fleet.controllers:
            raise ValueError(_former.no_controller(controller))
        #: The controller's name.
        self.controller = controller
        settings["epoch"] = epoch
        self.name = name or uuid.uuid4().hex
        self.timeouts = former.get("timeouts", timeouts) or Timeouts()
        self.block_size: int = settings.get("block_size", 16)
        #: The runtime of the controller: what there is to look at of the book.
        self.book = _fleet.Runtime(controller, **settings)
        if planner is not None and self.book.sample() is None:
            raise ValueError(
                f"a planner is for a controller that asks for plans, as due-first; {controller} asks for none"
            )
        self.prefixes: _fleet.PrefixIndex | None = None
        if self.book.reads_prefixes:
            self.prefixes = _fleet.PrefixIndex(self.block_size, settings.get("replicas", 64))
        self._has_keys = controller in ("bounded-hashing", "dual-map")
        self._log = None if record is None else Log(record, {"controller": controller, **settings})
        self.book.recording = record is not None
        #: A replica that was silent while it had requests gets no new ones for so long.
        self.avoid_for: float = former.get("avoid_for", avoid_for)
        #: Requests that moved, requests that did not after all, and requests that an engine failed.
        self.moved = self.stayed = self.failed = 0
        self.epoch = epoch
        #: (replica, role before, role after), the last of those that have changed.
        self.changes: deque[tuple[str, str, str]] = deque(maxlen=1000)
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
        self._avoids = 0.0  # Until then at least one is avoided.
        self._asking = False
        self._closed = False
        self._actions: deque[_fleet.Action] = deque()
        self._acting = False
        self._planner = planner
        #: Plans that were made.
        self.plans = 0
        self._cannot_plan = False

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
        can: Iterable[str] | None = None,
        now: float | None = None,
    ) -> bool:
        """Adds a replica; an earlier life of that name is dead. False for a life that is over, or the same one again.
        `lengths`: the blocks [first, last) of the requests that it serves, for stages by length. `role`: "mixed",
        "prefill" or "decode"; an `elastic` replica may be given another.

        `can`: its abilities, of `abilities`; by default those that it has methods for, and moves. An `elastic` replica
        takes roles without `become`. An action beyond its abilities is refused, and the log says so once. ValueError if
        there is no room; ValueError or TypeError for an argument that makes no sense.
        """
        capacity = checked_replica(self.controller, capacity, role, lengths, prefill_budget, prefill_square)
        old = self._entries.get(name)
        if old is not None:
            if life <= old.life:
                return False
            self.gone(name)
        number = next((n for n in range(self._replicas) if n not in self._numbers), None)
        if number is None:
            raise ValueError(f"there is room for {self._replicas} replicas")
        now = self.now() if now is None else now
        can = {*abilities_of(replica), *(["roles"] if elastic else [])} if can is None else {*can}
        if not can <= {*abilities}:
            raise ValueError(f"can is of {', '.join(abilities)}, not {', '.join(sorted(can - {*abilities}))}")
        incarnation = max(life, self.book.incarnation(number) + 1)
        joins = _fleet.Event(
            "joined",
            now,
            replica=number,
            number=incarnation,
            capacity=capacity,
            has_role=role,
            elastic=elastic,
            alpha=float(prefill_square),
            beta=1.0,
            peak_flops=float(prefill_budget),
            ttft_s=1.0,
            **{what: what in can for what in abilities},
        )
        serves = None if lengths is None else self._range(number, now, *lengths)
        entry = Entry(name, number, life, incarnation, replica, role=role)
        self._entries[name] = self._numbers[number] = entry
        actions = self.book.handle(joins)
        if not self.book.contains(number):
            del self._entries[name], self._numbers[number]
            why = actions[-1].why if actions else "?"
            self._do(actions[:-1])  # of alarms that were due
            raise RuntimeError(f"the book has no place for {name}: {why}")
        if self.prefixes is not None:
            self.prefixes.cleared(number)
        self._do(actions)
        if serves is not None:
            self._do(self.book.handle(serves))
        elif role == "prefill":
            self._do(self.book.handle(self._range(number, now, 0, 1)))
        self._changed()
        return True

    def serves(self, name: str, first: int, last: int) -> bool:
        """From now on the replica serves requests of at least `first` blocks and fewer than `last`. Requests that have
        outgrown this range may move. ValueError for a range that is empty."""
        entry = self._entries.get(name)
        if entry is not None:
            self._do(self.book.handle(self._range(entry.number, self.now(), first, last)))
        return entry is not None

    def drain(self, name: str) -> bool:
        """The replica takes no new requests; those that it has go on."""
        entry = self._entries.get(name)
        if entry is not None:
            self._do(self._tell("drained", entry))
        return entry is not None

    def gone(self, name: str) -> bool:
        """The replica is dead for sure. Its messages no longer count, and its requests are tried elsewhere."""
        entry = self._entries.pop(name, None)
        if entry is None:
            return False
        del self._numbers[entry.number]
        entry.gone = True
        actions = self._tell("failed", entry, number=entry.incarnation)
        for session in [*self._sessions.values()]:
            session.replica_gone(entry)
        self._do(actions)
        self._changed()
        return True

    def lost(self, entry: Entry) -> None:
        """The replica could not be reached. It may live, and its requests go on. It gets no new ones for a while."""
        if entry.gone:
            return
        self._do(self._tell("unreachable", entry, number=entry.incarnation))
        entry.avoided_until = self._avoids = self.now() + self.avoid_for

    def suspect(self, entry: Entry) -> None:
        """The replica failed one of its requests, or a session waited for it in vain. `fence`, if there, makes sure of
        its death."""
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
        """A report has come, in any order. Returns "taken", or why it was not."""
        entry = self._entries.get(name)
        if entry is None:
            return "unknown"
        try:
            own = None if said.by_router is None else said.by_router.get(self.name, Load())
            what, actions = self.book.reported(
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
        took = True
        if what == "taken":
            entry.said = said.all
            self._changed()
            took = self._take_events(entry, said)
        self._do(actions)  # an alarm may have been due, whatever comes of the report
        return what if took else "malformed"

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
        expected: int = 0,
        spread: int = 0,
        session: int = 0,
        tenant: int = 0,
        calls_tools: bool = False,
    ) -> Session:
        """Starts a request, and returns a session to iterate over. `movable`: another engine would continue it alike,
        as with greedy decoding. Otherwise only a failure sends it elsewhere. `end_of_reasoning`: the token that ends
        the reasoning of a request that reasons.

        Some controllers read the rest; 0: nothing is known. `expected`: the length of its answer; `spread`: the
        standard deviation of `expected`. `session`: the number of the session that it continues. `tenant`: the number
        of its tenant. `calls_tools`: it may end in a call of a tool.
        """
        return Session(
            self,
            prompt,
            max_tokens,
            params or {},
            movable=movable,
            reasons=end_of_reasoning is not None,
            end_of_reasoning=end_of_reasoning,
            timeouts=self.timeouts,
            about={
                "expected": expected,
                "spread": spread,
                "session": session,
                "tenant": tenant,
                "calls_tools": calls_tools,
            },
        )

    async def run(self, period: float = 0.5) -> None:
        """Asks for reports each `period` seconds, and decides about moves and, each `epoch`, about roles, until it is
        cancelled or the router is closed."""
        asking: dict[Entry, asyncio.Task[None]] = {}
        step = min(period, self.epoch or period)
        asks = 0.0
        while not self._closed:
            if self.now() >= asks:
                asks = self.now() + period - step / 2  # in the step that is nearest
                for entry in [*self._entries.values()]:
                    report = getattr(entry.replica, "report", None)
                    if report is not None and (entry not in asking or asking[entry].done()):
                        asking[entry] = self._spawn(self._ask(entry, report, 4 * period))
                asking = {e: t for e, t in asking.items() if not e.gone}
            self.tick()
            wake = self.book.next_wake
            await asyncio.sleep(step if wake is None else min(step, max(wake - self.now(), 0.001)))

    async def _ask(self, entry: Entry, report: Any, timeout: float) -> None:
        # A replica that does not answer is silent, and the book knows what follows.
        with contextlib.suppress(Exception):
            self._do(self._tell("asks_report", entry))
            said = await asyncio.wait_for(report(), timeout)
            if self._entries.get(entry.name) is entry:
                self.report(entry.name, said)

    def tick(self) -> None:
        """Lets time pass: leases run out, alarms are due, and requests move. Call it several times a lease."""
        now = self.now()
        if now - self._touched >= self._lease / 4:
            # Sessions that wait, or that have a slow client, live too.
            self._touched = now
            for session in [*self._sessions.values()]:
                self._progress(session)
                if session._move is not None:
                    self._later(self.book.progressed(session._request, session._move.to.number, len(session.got), now))
        for session in [*self._sessions.values()]:
            session.look()
        self._do(self.book.handle(_fleet.Event("clock", now)))
        if self._log is not None:
            self._log.write(self.book.take_log())

    async def close(self) -> None:
        """Ends all streams from replicas, and sends them nothing more."""
        self._closed = True
        for session in [*self._sessions.values()]:
            session.stay()  # or its export might still begin at the target
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._log is not None:
            self._log.write(self.book.take_log())
            self._log.close()
            self._log, self.book.recording = None, False

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
                session._turn = turn
                if session._request < 0:
                    self._admit(session)
                    self._do(self._heard("lost", request=session._request))  # The log says since when it waits.
                await self._wait(turn, until)
            while True:
                if session._closed:
                    return None
                entry = None if self._closed else session._take_place() or self._choose(session, ids, avoid)
                if entry is not None:
                    return entry
                # A replica that has only refused may take it later.
                avoid.difference_update([e for e in avoid if e.gone or e.avoided_until <= self.now()])
                if self._closed or until <= self.now():
                    raise Refused(
                        "no replica takes requests" + "".join(f"; the last failure: {f}" for f in session.failures[-1:])
                    )
                if turn is None:
                    turn = session._turn = next(self._requests)
                elif self._in_vain < _odd:
                    # Perhaps only this request could not use the change.
                    self._in_vain += 1
                    self._wake(turn)
                await self._wait(turn, until)
        finally:
            if turn is not None:
                del self._waiting[turn]
            # It has a place, or leaves, perhaps when it was its turn: wake the next.
            self._wake(turn or 0)

    async def _wait(self, turn: int, until: float) -> None:
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

    def _wake_one(self, session: Session) -> None:
        """It has a place while it waits in the queue."""
        waits = self._waiting.get(session._turn)
        if waits is not None:
            wake(waits)

    def _admit(self, session: Session) -> None:
        """It has a number from now on."""
        if session._request < 0:
            session._request = next(self._requests)
        self._sessions[session._request] = session

    def _choose(self, session: Session, ids: list[int], avoid: set[Entry]) -> Entry | None:
        now = self.now()
        self._admit(session)
        self._check_layout()
        cached = None if self.prefixes is None else self.prefixes.match(ids)
        key = self.prefixes.key(session.prompt, session._request) if self._has_keys and self.prefixes is not None else 0
        never = {e.number for e in avoid if not e.gone}
        for_now = {e.number for e in self._entries.values() if now < e.avoided_until} if now < self._avoids else set()
        for avoided in (never | for_now, never):
            self._do(
                self.book.arrived(
                    session._request,
                    len(session.prompt),
                    now,
                    generated=len(session.got),
                    cached=cached,
                    excluded=[*avoided] or None,
                    prefix_key=key,
                    reasons=session.reasons,
                    movable=session.movable,
                    limit=session.max_tokens,
                    **session._about,
                )
            )
            entry = session._take_place()
            if entry is not None or not for_now:
                return entry
        return None

    def _say(self, kind: str, session: Session, entry: Entry, **members: Any) -> None:
        """Something about a request and its replica."""
        self._later(self._tell(kind, entry, request=session._request, **members))

    def _progress(self, session: Session, tokens: int | None = None) -> None:
        leg, n = session._leg, len(session.got) if tokens is None else tokens
        if leg is not None:
            self._later(self.book.progressed(session._request, leg.entry.number, n, self.now()))

    def _cache_hit(self, session: Session, cached: int) -> None:
        leg = session._leg
        if leg is not None:
            self._say("cache_hit", session, leg.entry, count=min(cached, len(leg.call.ids)))

    def _has_first(self, session: Session) -> None:
        # Its prompt is done, and there it does not stay. Asking which may move takes the longer the more replicas there
        # are: soon, but not at every first token of a large fleet.
        if session._leg is None or session._leg.entry.role != "prefill" or self._asking:
            return
        self._asking = True
        asyncio.get_running_loop().call_later(1e-5 * len(self._entries), self._ask_soon)

    def _ask_soon(self) -> None:
        self._asking = False
        if not self._closed:
            self._do(self._heard("clock"))

    def _answers(self, session: Session, thought: int) -> None:
        """Its first `thought` tokens are its reasoning, and that has ended."""
        self._progress(session, thought)
        leg = session._leg
        if leg is not None:
            self._say("reasoning_ended", session, leg.entry)

    def _moved(self, session: Session, to: Entry) -> bool:
        self._say("moved", session, to)
        return self.book.where(session._request) == to.number

    def _move_failed(self, session: Session, to: Entry) -> None:
        self._say("move_failed", session, to)
        self._changed()

    def _left(self, session: Session, entry: Entry) -> None:
        """It does not go on there, and may come again."""
        self._say("lost", session, entry)
        self._changed()

    def _forget(self, session: Session) -> None:
        if self._sessions.pop(session._request, None) is not None:
            self._later(self._heard("ended", request=session._request))
            self._changed()

    def _changed(self) -> None:
        # The first of the line, and when it has a place the next: not all at each change.
        self._in_vain = 0
        self._wake(0)

    def _spawn(self, what: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        # A move or a plan begins in the task of whichever request was heard of last. It is none of its work: Ray Serve
        # would cancel it with that request.
        task: asyncio.Task[None] = contextvars.Context().run(asyncio.get_running_loop().create_task, what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
