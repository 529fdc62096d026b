# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A router in front of engines that you have: the book between reports and placement policies, and a front end.

>>> from tessera import fleet
>>> book = fleet.Ledger("least_load", block_size=16)
>>> book.join(0, 1, capacity=8192, now=0.0)          # replica 0, its first life, so many KV blocks
'ok'
>>> book.place(request=1, prompt=700, now=0.1)       # counts there at once, whatever reports say
0
>>> book.progress(1, 0, generated=1, now=0.3)
True
>>> book.release(1, 0)
True

`Ledger` is the book, one call a decision. `Router` keeps one for replicas of any kind and streams requests through them
(`Session`). It moves requests while they run, tries again what died, and gives a client every token once. The page
docs/fleet_reference.md says what is exact, what is stale and what clients see of failures.
"""

from __future__ import annotations

from typing import NamedTuple

from tessera import _fleet
from tessera._fleet import Ledger, PrefixIndex, Retries, Stitch, takes
from tessera.fleet.replica import AtFault, Call, Died, Failure, Piece, Refused, Timeouts, Unreachable
from tessera.fleet.router import Report, Router
from tessera.fleet.session import Session
from tessera.fleet.values import Load

__all__ = [
    "AtFault",
    "Call",
    "Died",
    "Export",
    "Failure",
    "Ledger",
    "Load",
    "Piece",
    "PrefixIndex",
    "Refused",
    "Report",
    "Retries",
    "Router",
    "Session",
    "Stitch",
    "Timeouts",
    "Unreachable",
    "moves",
    "plan_export",
    "policies",
    "takes",
]

#: Names for `Ledger(policy)`.
policies: tuple[str, ...] = _fleet.policies
#: Names for `Ledger(moves=...)`.
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
