# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a router asks of a replica, what a replica answers, and why it may fail."""

from __future__ import annotations

import inspect
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any, NamedTuple, Protocol


class Failure(Exception):
    """Why a replica stops serving a request. `kind` is a word of `Retries.after`."""

    kind = "died"


class Refused(Failure):
    """The replica does not take the request, because it is full or draining. Another may."""

    kind = "refused"


class Unreachable(Failure):
    """The replica could not be reached, and has not seen the request. It may live, so it is not fenced."""

    kind = "unreachable"


class Died(Failure):
    """The replica died, failed inside or fell silent while it had the request."""

    kind = "died"


class AtFault(Failure):
    """The request is wrong, and no replica can serve it."""

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
    """Asks a replica to generate the tokens after `ids`."""

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

    It may also have `async report() -> Report`, which `Router.run` calls, and `async fence()`, which makes sure that it
    is dead and cannot come back. A controller may call these, each `async` or not:

    - `become(role)`: "mixed", "prefill" or "decode". It gets no new requests until that returns.
    - `set_prefill_budget(tokens)`: most prompt tokens of a step; 0: its own budget.
    - `set_order(parameter, value)`: "threshold_s", "quantum" or "pace" of the order of its requests.
    - `set_length_range(first, last)`: serves requests of at least `first` blocks and fewer than `last`; None: of any
      length from `first` on.
    - `set_option(name, value)`: sets an option of its scheduler, instead of `set_prefill_budget` and `set_order`.
    """

    def stream(self, call: Call) -> AsyncGenerator[Piece, None]:
        """Yields pieces until one has a `finish`. Raises `Failure`; any other exception counts as `Died`. The engine
        stops if the stream is closed (`aclose`) before its end."""


#: What a replica may be able to do besides serving requests: the methods that say so; none: it can by itself.
abilities: Mapping[str, tuple[str, ...]] = {
    "moves": (),
    "live_moves": (),
    "roles": ("become",),
    "ranges": ("set_length_range",),
    "budgets": ("set_prefill_budget", "set_option"),
    "orders": ("set_order", "set_option"),
}


def abilities_of(replica: object) -> list[str]:
    """The abilities that a replica has by its methods."""
    return [what for what, methods in abilities.items() if not methods or any(hasattr(replica, m) for m in methods)]


def checked_replica(
    controller: str, capacity: Any, role: Any, lengths: Any, prefill_budget: Any, prefill_square: Any
) -> int:
    """The capacity, if these arguments of `Router.add` make sense. TypeError and ValueError say which does not."""

    def whole(name: str, n: Any, least: int, what: str) -> int:
        try:
            n = index(n)
        except TypeError:
            raise TypeError(f"{name} is a number of {what}, not {n!r}") from None
        if not least <= n <= 2**40:
            raise ValueError(f"{name} is a number of {what} from {least} to 2**40, not {n}")
        return n

    roles = ("mixed", "prefill", "decode")
    if role not in roles:
        raise ValueError(f"role is one of {', '.join(roles)}, not {role!r}")
    if controller == "stages" and role == "prefill":
        raise ValueError("cascade goes by lengths: it has no prefill pool")
    capacity = whole("capacity", capacity, 0 if role == "prefill" else 1, "KV blocks")
    for name, x in (("prefill_budget", prefill_budget), ("prefill_square", prefill_square)):
        try:
            makes_sense = 0 <= float(x) < math.inf
        except (TypeError, ValueError):
            raise TypeError(f"{name} is a number, not {x!r}") from None
        if not makes_sense:
            raise ValueError(f"{name} is a finite number from 0, not {x!r}")
    if not prefill_budget and (role != "mixed" or controller == "phi-time"):
        raise ValueError(
            f"{'pools are measured' if role != 'mixed' else 'phi_time places'} by what is left of prompts: "
            "prefill_budget must be above 0"
        )
    if lengths is not None:
        try:
            first, last = lengths
        except (TypeError, ValueError):
            raise TypeError(
                f"lengths is (first, last), in blocks; last is None for any length, not {lengths!r}"
            ) from None
        first = whole("the first of lengths", first, 0, "blocks")
        if last is not None and whole("the last of lengths", last, 0, "blocks") <= first:
            raise ValueError(f"lengths is (first, last) with last above first, or None, not {lengths!r}")
    return capacity


def option_of(parameter: str, value: float) -> tuple[str, float]:
    """The option of a scheduler (`tessera.vllm`) that is a parameter of `set_order`."""
    if parameter == "pace":
        return "pace", 1.0 / value  # seconds of a token, not tokens of a second
    return ("threshold", value) if parameter == "threshold_s" else (parameter, int(value))


async def notify(replica: object, method: str, *what: Any) -> None:
    """Calls a method of a replica, or sets the option of its scheduler that replaces it. Does nothing without either.
    Raises what the replica raises."""
    call, option = getattr(replica, method, None), getattr(replica, "set_option", None)
    if call is not None:
        result = call(*what)
    elif option is not None and method == "set_prefill_budget":
        result = option("prefill_budget", *what)
    elif option is not None and method == "set_order":
        result = option(*option_of(*what))
    else:
        return
    if inspect.isawaitable(result):
        await result


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
