# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A router's log, read: its settings, and each event with the actions that followed from it."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import logging
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tessera import _fleet
from tessera.fleet.log import mark

logger = logging.getLogger(__name__)


class BadLog(ValueError):
    """A log that cannot be read: where, and what was expected there."""

    def __init__(self, path: object, line: int, column: int, expected: str) -> None:
        super().__init__(f"{path}:{line}:{column}: expected {expected}")


class Happened(NamedTuple):
    """An event, its line, and the actions that followed from it."""

    line: int
    event: _fleet.Event
    actions: list[_fleet.Action]


@contextlib.contextmanager
def open_log(path: str | os.PathLike[str]) -> Iterator[tuple[dict[str, Any], Iterator[Happened]]]:
    """The settings of a log, and what happened. `BadLog` says what cannot be read, and OSError that there is no such
    file."""
    with open(path, encoding="utf-8", errors="replace") as file:
        first = file.readline().rstrip("\n")
        if not first.startswith("#") and not isinstance(_fleet.parse(first), _fleet.Event):
            raise BadLog(path, 1, 1, f"{mark.strip()} and the settings, or an event")
        lines = enumerate(itertools.chain([first], _whole(path, file)), 1)
        yield _settings(path, first), _events(path, lines)


def _whole(path: object, file: Iterable[str]) -> Iterator[str]:
    """The lines, except a last one that was cut: it may be another than was written."""
    for line in file:
        if not line.endswith("\n"):
            _say_cut(path)
            return
        yield line[:-1]


@functools.cache
def _say_cut(path: object) -> None:
    logger.warning("%s: the last line is cut, and left out", path)


def _events(path: object, lines: Iterable[tuple[int, str]]) -> Iterator[Happened]:
    happened: Happened | None = None
    for number, line in lines:
        if not line or line.startswith("#"):
            continue
        got = _fleet.parse(line, 0.0 if happened is None else happened.event.at)
        if isinstance(got, tuple):
            raise BadLog(path, number, *got)
        if isinstance(got, _fleet.Event):
            if happened is not None:
                yield happened
            happened = Happened(number, got, [])
        elif happened is None:
            raise BadLog(path, number, 1, "an event before its first action")
        else:
            happened.actions.append(got)
    if happened is not None:
        yield happened


def _settings(path: object, line: str) -> dict[str, Any]:
    """How the router of a log was set up, from its first line; nothing if that does not say it."""
    if not line.startswith("#"):
        return {}
    if not line.startswith(mark):
        raise BadLog(path, 1, 1, f"{mark.strip()} and the settings, or an event")
    try:
        settings = json.loads(line[len(mark) :])
    except (ValueError, RecursionError) as error:
        column = len(mark) + getattr(error, "colno", 1)
        raise BadLog(path, 1, column, "the settings as JSON") from None
    if not isinstance(settings, dict):
        raise BadLog(path, 1, len(mark) + 1, "the settings as JSON, an object")
    if not isinstance(settings.get("controller", ""), str):
        raise BadLog(path, 1, len(mark) + 1, "a controller that is a name")
    return settings
