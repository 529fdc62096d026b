# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values that cross between replicas, routers and the book."""

from __future__ import annotations

from typing import Any, NamedTuple


class Assignment(NamedTuple):
    """What a plan has for a replica."""

    #: Its name.
    replica: str
    #: "mixed", "prefill" or "decode".
    role: str = "mixed"
    #: It serves requests of at least so many blocks,
    first: int = 0
    #: and of fewer than this; None: of any length from there on.
    last: int | None = None
    #: Prompt tokens in a step; 0: its own budget.
    prefill_budget: int = 0


class PlanRequest(NamedTuple):
    """What a controller asks a planner for."""

    #: Counts the plans, from 1.
    number: int
    #: The names of the replicas that live, in the order of their numbers.
    replicas: tuple[str, ...]
    #: The traffic (`Runtime.sample`); None if the controller keeps no sample.
    sample: dict[str, Any] | None = None
    #: The controller sends requests to where their prefixes are cached.
    prefixes: bool = False


class Load(NamedTuple):
    """The load that requests put on a replica, for `Runtime.reported`. Loads add up."""

    #: Live requests.
    requests: float = 0
    #: KV blocks that they hold, on device and host together. A block that several share counts once: in the load of a
    #: router that of the request which computed it.
    kv_held: float = 0
    #: KV blocks that they need for the tokens that they have and do not hold.
    waiting_blocks: float = 0
    #: Those that reason (PASCAL's r_i).
    reasoning: float = 0
    #: Answers that have not used up their first quantum (PASCAL's a_i).
    fresh_answers: float = 0
    #: What is left to compute of their prompts, in the unit of `Router.add`'s prefill_budget: tokens.
    prefill: float = 0.0
