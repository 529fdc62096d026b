# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Carries out the actions of a router's controller: places and moves requests, makes plans, tells replicas."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tessera import _fleet
from tessera.fleet.replica import Replica, notify
from tessera.fleet.values import Assignment, Load, PlanRequest

if TYPE_CHECKING:
    from tessera.fleet.session import Session

logger = logging.getLogger(__name__)

#: Controllers that send prompts to one pool of replicas, and answers to another.
_pooled = ("distserve", "splitwise", "phasor")


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
    #: What it is told now: one thing after the other.
    told: asyncio.Task[None] | None = None


class Carrier:
    """The part of a `Router` between its runtime and its replicas and sessions. The router has the rest."""

    book: _fleet.Runtime
    controller: str
    epoch: float
    changes: deque[tuple[str, str, str]]
    plans: int
    _actions: deque[_fleet.Action]
    _acting: bool
    _closed: bool
    _entries: dict[str, Entry]
    _numbers: dict[int, Entry]
    _sessions: dict[int, Session]
    _planner: Callable[[PlanRequest], Awaitable[Sequence[Assignment]]] | None
    _cannot_plan: bool
    _layout_checked = False

    now: Callable[[], float]
    _changed: Callable[[], None]
    _wake_one: Callable[[Session], None]
    _spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]

    @staticmethod
    def _range(number: int, now: float, first: int = 0, last: int | None = None) -> _fleet.Event:
        return _fleet.Event("serves", now, replica=number, low=first, high=last)

    def _tell(self, kind: str, entry: Entry, **members: Any) -> list[_fleet.Action]:
        """Something about a replica."""
        return self._heard(kind, replica=entry.number, **members)

    def _heard(self, kind: str, **members: Any) -> list[_fleet.Action]:
        try:
            now = self.now()
        except RuntimeError:
            now = 0.0  # A session ends after its loop. To the runtime that is the moment of the event before.
        return self.book.handle(_fleet.Event(kind, now, **members))

    def _later(self, actions: list[_fleet.Action]) -> None:
        """A session has said something, and is not through with it."""
        if actions:
            with contextlib.suppress(RuntimeError):  # Without a loop there is nothing to do it with.
                asyncio.get_running_loop().call_soon(self._do, actions)

    def _do(self, actions: list[_fleet.Action]) -> None:
        self._actions.extend(actions)
        if self._acting:
            return  # What follows from an action comes behind those that are there.
        self._acting = True
        try:
            while self._actions:
                self._carry_out(self._actions.popleft())
        finally:
            self._acting = False

    def _check_layout(self) -> None:
        """Says once, when the first request comes, that no replica has what the controller goes by."""
        if self._layout_checked or not self._entries:
            return
        self._layout_checked = True
        views = [self.book.view(n) for n in self._numbers]
        if self.controller in _pooled or self.epoch:
            roles = {v["role"] for v in views}
            if roles == {"mixed"}:
                logger.warning(
                    "%s has no pools: every replica is mixed. Give some role='prefill' and others role='decode', "
                    "with a prefill_budget, in Router.add",
                    self.controller,
                )
            elif len(roles) == 1:
                logger.warning("%s needs both prefill and decode; every replica has role=%r", self.controller, *roles)
        elif self.controller == "stages" and all((v["from"], v["to"]) == (0, None) for v in views):
            logger.warning(
                "stages has one stage: every replica serves all lengths. Give each its lengths in Router.add"
            )

    def _carry_out(self, action: _fleet.Action) -> None:
        if self._closed:
            return
        kind, request = action.kind, action.request
        entry = None if action.replica is None else self._numbers.get(action.replica)
        session = None if request is None else self._sessions.get(request)
        if kind == "note":
            if request is None and entry is not None:
                logger.warning("%s: %s", entry.name, action.why)
            else:
                logger.debug("request %s: %s", request, action.why)
        elif kind == "place":
            if session is not None and entry is not None and session._leg is None and not session._closed:
                session._place = entry
                self._wake_one(session)
        elif kind == "move":
            if self.book.moves_to(request) != action.replica:
                return  # It came to nothing meanwhile.
            if session is None or entry is None or not session.go(entry):
                self._do(self._tell("move_failed", entry, request=request) if entry is not None else [])
        elif kind == "cancel_move":
            if session is not None:
                session.stay()
        elif kind == "plan":
            if self._planner is not None:
                # The sample is that of this plan until the controller asks for the next one.
                names = tuple(e.name for _, e in sorted(self._numbers.items()))
                asked = PlanRequest(action.number, names, self.book.sample(), self.book.reads_prefixes)
                self._spawn(self._plan(self._planner, asked))
                return
            if not self._cannot_plan:
                logger.warning("%s asks for plans, and the router has no planner", self.controller)
            self._cannot_plan = True
            self._do(self._heard("planned", number=action.number))
        elif entry is not None:
            if kind == "set_role":
                # The role decides at once what is sent there, and what moves on from there.
                only = ("prefill",) if action.role == "prefill" else ()
                v = self.book.view(entry.number)
                # A range that a plan has just given stays.
                if only or (entry.role == "prefill" and (v["from"], v["to"]) == (0, 1)):
                    self._do(self.book.handle(self._range(entry.number, self.now(), 0, 1 if only else None)))
            entry.told = self._spawn(self._ask_for(entry, action, entry.told))

    async def _plan(
        self, planner: Callable[[PlanRequest], Awaitable[Sequence[Assignment]]], asked: PlanRequest
    ) -> None:
        """A plan for the replicas that live when it is made; an empty one if none can be made."""
        plan: list[dict[str, Any]] = []
        try:
            for a in await planner(asked):
                entry = self._entries.get(a.replica)
                if entry is None:
                    continue
                part = {"role": a.role, "low": a.first, "high": a.last, "count": a.prefill_budget}
                _fleet.Event("lays_out", 0.0, replica=entry.number, **part)  # ValueError if it makes no sense
                plan.append({"replica": entry.number, **part})
        except (Exception, asyncio.CancelledError) as error:
            if self._closed and isinstance(error, asyncio.CancelledError):
                raise
            logger.warning("there is no plan %d", asked.number, exc_info=error)
            plan = []
        self.plans += 1 if plan else 0
        for part in plan:
            self._do(self._heard("lays_out", **part))
        self._do(self._heard("planned", number=asked.number))

    async def _ask_for(self, entry: Entry, action: _fleet.Action, before: asyncio.Task[None] | None) -> None:
        """A replica is told something, after what it was told before."""
        if before is not None:
            await asyncio.wait([before])
        try:
            await notify(entry.replica, *_told(action))
        except (Exception, asyncio.CancelledError) as error:
            if self._closed and isinstance(error, asyncio.CancelledError):
                raise
            # The controller goes by what it said. A replica that cannot follow a role refuses requests, and others get
            # them.
            logger.warning("%s did not follow: %s", entry.name, action, exc_info=error)
        if action.kind != "set_role" or entry.gone:
            return
        before_role, entry.role = entry.role, action.role
        self.changes.append((entry.name, before_role, entry.role))
        self._do(self._tell("role_changed", entry))
        self._changed()


def _told(action: _fleet.Action) -> tuple[Any, ...]:
    """The method of a replica that an action calls, and its arguments."""
    if action.kind == "set_role":
        return "become", action.role
    if action.kind == "set_length_range":
        return action.kind, action.low, action.high
    if action.kind == "set_prefill_budget":
        return action.kind, action.low
    return action.kind, action.parameter, action.value
