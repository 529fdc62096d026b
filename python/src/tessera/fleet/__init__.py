# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A router in front of engines that you have: a controller, which decides, and a front end, which does what it says.

>>> from tessera import fleet
>>> controller = fleet.Runtime("least-load", block_size=16)
>>> controller.handle(fleet.Event("joined", 0.0, replica=0, number=1, capacity=8192))   # its first life, KV blocks
[]
>>> controller.arrived(1, 700, 0.1)              # a request with a prompt of 700 tokens; it counts there at once
[> place replica=0 request=1]
>>> controller.progressed(1, 0, 1, 0.3)
[]
>>> controller.handle(fleet.Event("ended", 0.9, request=1))
[]

`Runtime` is a controller by name, the same as in the simulator: events in, actions out. `Router` has one for replicas
of any kind, and streams requests through them (`Session`). It moves requests while they run, tries again what died, and
gives a client every token once. The page docs/fleet_reference.md says what is exact, what is stale and what clients see
of failures. `python -m tessera.fleet replay` asks a controller what it would have decided in a log of a router, and
shows what the simulator expects of its requests.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tessera import _fleet
from tessera._fleet import Action, Event, PrefixIndex, Retries, Runtime, Stitch, parse, takes
from tessera.fleet import _former
from tessera.fleet.carrier import Report
from tessera.fleet.replica import (
    AtFault,
    Call,
    Died,
    Failure,
    Piece,
    Refused,
    Timeouts,
    Unreachable,
    abilities,
    abilities_of,
    notify,
)
from tessera.fleet.router import Router, policies
from tessera.fleet.session import Session
from tessera.fleet.values import Assignment, Load, PlanRequest

__all__ = [
    "Action",
    "Assignment",
    "AtFault",
    "Call",
    "Died",
    "Event",
    "Export",
    "Failure",
    "Load",
    "Piece",
    "PlanRequest",
    "PrefixIndex",
    "Refused",
    "Report",
    "Retries",
    "Router",
    "Runtime",
    "Session",
    "Stitch",
    "Timeouts",
    "Unreachable",
    "abilities",
    "abilities_of",
    "controllers",
    "moves",
    "parse",
    "plan_export",
    "policies",
    "takes",
    "notify",
]

#: Names for `Router(controller=...)` and `Runtime(controller)`: as in `replay`, where the same is there.
controllers: tuple[str, ...] = _fleet.controllers
#: Names for `Router(moves=...)`.
moves: tuple[str, ...] = _fleet.moves


class Export(NamedTuple):
    """How the KV of a request that runs on is fetched from its source."""

    #: Tokens that the source is asked to generate for it.
    generates: int
    #: Leading tokens of the request, the KV of which is exported.
    covers: int
    #: Blocks of the export.
    blocks: int
    #: The target can take it; if not, it computes the request anew.
    whole: bool


def plan_export(length: int, block_size: int) -> Export:
    """What to ask the source of a move for, for a request with `length` tokens. ValueError if there is nothing."""
    return Export(*_fleet.plan_export(length, block_size))


def __getattr__(name: str) -> Any:
    return globals()[_former.find_name(__name__, name)]
