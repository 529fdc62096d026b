# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a controller would have decided in a router's log: decision by decision, each in the book of the log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tessera import _fleet
from tessera.fleet.log import mark
from tessera.fleet.log_reader import BadLog, open_log


class Difference(NamedTuple):
    """A decision that would have been another one."""

    #: The line of the event.
    line: int
    #: The event, as in the log.
    event: str
    #: What was done, and what would have been done, as in the log; None: nothing.
    recorded: str | None
    wanted: str | None


@dataclass
class Comparison:
    """A controller beside a log."""

    #: The controller that was asked, and the one of the log if that is known.
    asked: str
    recorded: str | None
    events: int = 0
    #: Actions that were recorded or wanted, notes apart; one that was both counts once.
    decisions: int = 0
    different: int = 0
    first: list[Difference] = field(default_factory=list)


def _by_what(actions: Iterable[_fleet.Action]) -> dict[tuple[Any, ...], _fleet.Action]:
    """Actions by what they decide about."""
    found: dict[tuple[Any, ...], _fleet.Action] = {}
    for a in actions:
        if a.kind in ("place", "move", "cancel_move"):
            found[a.kind, a.request] = a
        elif a.kind != "note":
            found[a.kind, a.replica, a.parameter if a.kind == "set_order" else ""] = a
    return found


def _choice(a: _fleet.Action | None) -> tuple[Any, ...] | None:
    """What an action decides."""
    if a is None or a.kind == "cancel_move":
        return None if a is None else ()
    return (a.replica, a.role, a.low, a.high, a.value, a.how, a.number)


def _wrong_type(controller: str, settings: Mapping[str, Any]) -> str:
    """Which settings have no such name, or another type."""
    wrong = []
    for name, value in settings.items():
        try:
            _fleet.Runtime(controller, **{name: value})
        except TypeError:
            wrong.append(f"{name}={value!r}")
        except ValueError:
            pass  # a value that makes no sense by itself has the right type
    return f"{', '.join(wrong) or 'one'} is none of tessera.fleet.Runtime, or of another type"


def compare(
    path: str | os.PathLike[str],
    controller: str | None = None,
    settings: Mapping[str, Any] | None = None,
    most: int = 10,
) -> Comparison:
    """Asks a controller, by default that of the log, about each decision in a log. `settings` go before the log's. Up
    to `most` differences are kept with both choices.

    Before each decision the book follows what was recorded, so each is compared by itself. What the controller keeps
    besides the book, turns for instance, goes by its own decisions. `BadLog` says what cannot be read, and OSError that
    there is no such file. ValueError and TypeError are for settings that make no sense."""
    with open_log(path) as (recorded, events):
        name = recorded.pop("controller", None)
        asks = controller or name
        if asks is None:
            raise ValueError(f"{path} does not say which controller decided: name a controller")
        if controller is not None and controller != name:
            recorded.pop("moves", None)  # those were the other one's
        try:
            book = _fleet.Runtime(asks, **{**recorded, **(settings or {})}, follows=True)
        except (TypeError, ValueError) as error:
            why = _wrong_type(asks, settings or recorded) if isinstance(error, TypeError) else str(error)
            if settings or (controller is not None and controller not in _fleet.controllers):
                raise ValueError(f"settings: {why}") from None
            raise BadLog(path, 1, len(mark) + 1, f"settings that make sense: {why}") from None
        result = Comparison(asks, name)
        for happened in events:
            result.events += 1
            wanted = _by_what(book.follow(happened.event, happened.actions))
            done = _by_what(happened.actions)
            for what in {**done, **wanted}:
                result.decisions += 1
                was, would = done.get(what), wanted.get(what)
                if _choice(was) == _choice(would):
                    continue
                result.different += 1
                if len(result.first) < most:
                    both = (None if a is None else str(a)[2:] for a in (was, would))
                    result.first.append(Difference(happened.line, str(happened.event), *both))
    return result


def text_of(path: object, c: Comparison) -> str:
    """A comparison in words."""
    whose = f", decided by {c.recorded}" if c.recorded else ""
    share = 100 * c.different / c.decisions if c.decisions else 0.0
    lines = [
        f"{path}: {c.events} events{whose}",
        f"{c.asked} decides otherwise in {c.different} of {c.decisions} decisions ({share:.1f} %).",
    ]
    if c.first:
        lines.append(f"The first {len(c.first)}:" if len(c.first) > 1 else "It is:")
    for d in c.first:
        lines += [
            f"  line {d.line}: {d.event}",
            f"    recorded: {d.recorded or 'nothing'}",
            f"    {c.asked}: {d.wanted or 'nothing'}",
        ]
    return "\n".join(lines)
