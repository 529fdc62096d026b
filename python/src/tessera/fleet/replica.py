# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a router asks of a replica, what a replica answers, and why it may fail."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol


class Failure(Exception):
    """Why a replica does not go on with a request. `kind` is a word of `Retries.after`."""

    kind = "died"


class Refused(Failure):
    """It does not take the request: full, or draining. Another may."""

    kind = "refused"


class Unreachable(Failure):
    """It could not be reached, and has not seen the request. It may live: it is not fenced."""

    kind = "unreachable"


class Died(Failure):
    """It died, failed inside or fell silent while it had the request."""

    kind = "died"


class AtFault(Failure):
    """The request is wrong, wherever it is sent."""

    kind = "at_fault"


class Piece(NamedTuple):
    """Some tokens of an answer."""

    #: Position of the first of them in the answer.
    at: int
    tokens: Sequence[int]
    #: Why the answer ends with them: "stop", "length", or another word of the engine's; None if it goes on. "error" and
    #: "abort" are no end: another replica is tried.
    finish: str | None = None
    #: How a peer gets the KV, on the last piece of an export. The replicas' own affair.
    kv: Mapping[str, Any] | None = None
    #: Prompt tokens that were not computed.
    cached: int = 0


@dataclass(frozen=True)
class Call:
    """What a replica is asked for: to go on after `ids`."""

    #: The prompt and what the client has of the answer.
    ids: Sequence[int]
    #: How much of `ids` is the answer: the position of the next token.
    at: int
    #: Most tokens.
    max_tokens: int
    #: The router's name, under which the replica counts it.
    router: str
    #: Sampling, in the engine's own words. Nothing here looks at it.
    params: Mapping[str, Any] = field(default_factory=dict)
    #: At the end keep the KV for a peer, and say in `Piece.kv` how it is had.
    export: bool = False
    #: The KV of `ids` but the last, as a peer said.
    kv: Mapping[str, Any] | None = None


class Replica(Protocol):
    """What a router needs of a replica: a handle of Ray's, a client of an HTTP server, a fake.

    It may also have `async report() -> Report`, which `Router.run` asks for, `async fence()`: makes sure that it is
    dead and cannot come back; and `async become(role)`, for `Router`'s roles.
    """

    def stream(self, call: Call) -> AsyncGenerator[Piece, None]:
        """Pieces until one has a `finish`. Raises `Failure`; another exception counts as `Died`. When it is closed
        (`aclose`) before, the engine stops."""


@dataclass(frozen=True)
class Timeouts:
    """How long a session waits, in seconds, and how often it tries."""

    #: For the first token of a replica that has the request.
    first: float = 120.0
    #: For each further one. Then the replica counts as hung.
    token: float = 15.0
    #: For a replica to send it to.
    place: float = 30.0
    #: For a move, from its decision to the target's first token.
    move: float = 15.0
    #: Before another try, at first; then twice as long each time.
    again: float = 0.05
    #: Engines that may die while they have it.
    deaths: int = 2
    #: Failures of any kind.
    tries: int = 8
