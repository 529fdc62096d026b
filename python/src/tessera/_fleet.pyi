# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The book of a router before engines; use tessera.fleet."""

from collections.abc import Sequence
from typing import Any

policies: tuple[str, ...]
moves: tuple[str, ...]

_Load = Sequence[float]

class Ledger:
    """The book of one router, and the policy that reads it.

    Replicas are numbered from 0, requests as the caller likes. Times are seconds that do not run backwards. What comes
    from a network is never an error: a report that is late or nonsense, an end that comes twice, have no effect and say
    so. What a caller cannot mean is a ValueError that says what is allowed.

    `policy`: where new requests go, one of `tessera.fleet.policies`. `phi_time` is Phi_T: what is left of prompts, for
    which replicas join with a prefill_budget, among those with room for the prompt; `phi` is freeness of memory.
    `cascade`: least load among those whose range (`set_range`) has the prompt. `prefix_affinity` and `lmetric` read
    `cached`.

    `moves`: where running ones go on, one of `tessera.fleet.moves`; without it what belongs to `pascal` and `cascade`,
    and `when_tight` if `tight` is above 0.
    """

    def __init__(
        self,
        policy: str,
        *,
        moves: str | None = None,
        replicas: int = 64,
        reservations: int = 4096,
        block_size: int = 16,
        lease: float = 60.0,
        silence: float = 5.0,
        rest: float = 2.0,
        moving: int = 8,
        tight: int = 0,
        quantum: int = 500,
        seed: int = 1,
        bound: float = 1.25,
        expected: float = 0.0,
        demand: int = 0,
        theta: float = 0.62,
        cooldown: int = 20,
    ) -> None: ...
    def join(
        self,
        id: int,
        incarnation: int,
        capacity: int,
        now: float,
        prefill_budget: float = 0.0,
        prefill_square: float = 0.0,
        role: str = "mixed",
        elastic: bool = False,
    ) -> str:
        """A replica comes, with so many KV blocks. "ok", "busy" (the number is somebody's) or "refused" (that life of
        it is over). `prefill_budget`: prompt tokens that it computes within the time to first token that is aimed at;
        `prefill_square`: what a prompt of n tokens costs beside its n, divided by n². `role`: "mixed", "prefill" or
        "decode"; `elastic`: `propose_roles` may give it another."""
    def drain(self, id: int) -> bool:
        """It takes no new requests. False if it is not there."""
    def lost(self, id: int, incarnation: int) -> bool:
        """Somebody could not reach it: nobody is sent there until it reports, while others do."""
    def fence(self, id: int, incarnation: int) -> list[tuple[int, int, int | None]] | None:
        """It is dead for sure: (request, tokens heard, where it was going to) of all that it had; None if it is not
        there."""
    def asked(self, id: int) -> None:
        """It is asked for a report now."""
    def receive(
        self,
        id: int,
        incarnation: int,
        epoch: int,
        all: _Load,
        now: float,
        own: _Load | None = None,
        free: int | None = None,
        slo_met: bool = True,
    ) -> str:
        """A report has come, of all that it has, and what of it is this router's: `Load`s. "taken", "doubled", "late",
        "former", "unknown" or "malformed". A block that requests share counts once, for the one that computed it."""
    def set_range(self, id: int, first: int, last: int) -> None:
        """It serves requests of at least `first` blocks, and less than `last`."""
    def rank(
        self,
        prompt: int,
        choices: int = 1,
        cached: Sequence[int] | None = None,
        prefix_key: int = 0,
        only: Sequence[int] | None = None,
        avoid: Sequence[int] | None = None,
    ) -> list[int]:
        """The replicas for a request of so many tokens, best first. `cached`: tokens of it that each replica has, by
        number."""
    def reserve(self, request: int, id: int, prompt: int, now: float, cached: int = 0, reasons: bool = False) -> str:
        """It is sent there. "ok", "refused" (not there, or draining), "busy" (it is there) or "exhausted". `cached`:
        tokens of the prompt that are in its prefix cache; they take no blocks."""
    def place(
        self,
        request: int,
        prompt: int,
        now: float,
        cached: Sequence[int] | None = None,
        prefix_key: int = 0,
        reasons: bool = False,
        only: Sequence[int] | None = None,
        avoid: Sequence[int] | None = None,
    ) -> int | None:
        """Ranks and reserves: where it goes. None if nobody takes requests, or the book is full."""
    def first_token(self, request: int, id: int, now: float) -> bool:
        """It has its first token there. False if it is not there."""
    def progress(self, request: int, id: int, generated: int, now: float) -> bool:
        """So many tokens have come from there in all. False if it is not there."""
    def cache_hit(self, request: int, id: int, cached: int, now: float) -> bool:
        """The engine has found `cached` tokens of the prompt in its prefix cache; until then what `reserve` was given
        is expected. Not for tokens whose KV came from a peer. False if it is not there."""
    def answers(self, request: int, id: int, now: float) -> bool:
        """Its reasoning has ended. False if it is not there."""
    def release(self, request: int, id: int) -> bool:
        """It has ended there, was refused, or its move there came to nothing. False if it is not there."""
    def moved(self, request: int, to: int, now: float) -> bool:
        """It goes on there, and nowhere else. False if it was not on its way there."""
    def propose_moves(self, now: float) -> list[tuple[int, int, int, int, int]]:
        """(request, from, to, tokens, blocks) of those that are to go on elsewhere; their room is reserved there. Say
        `moved`, or `release` at the destination."""
    def propose_roles(self) -> tuple[int, str, str] | None:
        """(replica, its role, the one that it gets) of the replica that is to change, or None: Phasor's controller over
        the pools. Each call is an epoch of it; `cooldown` is in epochs. Nothing new goes there until `changed_role`."""
    def changed_role(self, id: int) -> bool:
        """It has the role that it was given. False if it was not given any."""
    def expire(self, now: float) -> list[tuple[int, int]]:
        """Gives back who was not named for a lease: (request, replica)."""
    def expect(self, load: float) -> None:
        """For fill_to_level: what other routers send between the reports and now."""
    def contains(self, id: int) -> bool: ...
    def incarnation(self, id: int) -> int: ...
    def silent(self, id: int) -> bool: ...
    def shown(self) -> list[int]:
        """Those that the policy chooses from."""
    def view(self, id: int) -> dict[str, Any]:
        """A replica as the policy sees it."""
    def own(self, id: int) -> tuple[int, int, int, int, int, float]:
        """What of its load is this router's, as it would count it itself."""
    def others(self, id: int) -> tuple[int, int, int, int, int, float]:
        """What is others', as of its last report."""
    def reserved(self, request: int, id: int) -> bool: ...
    def __len__(self) -> int: ...
    @property
    def moving(self) -> int:
        """Requests on their way."""
    @property
    def expired(self) -> int:
        """Reservations that ran out."""
    @property
    def received(self) -> dict[str, int]:
        """How many reports ended so."""

class Stitch:
    """One stream of tokens to a client from several engines: each position once, in order."""

    def __init__(self) -> None: ...
    def on(self, at: int, count: int) -> tuple[int, int, bool]:
        """The tokens [at, at + count) have come: how many to skip, then to take; or that there is a hole before."""
    def end(self, length: int) -> bool:
        """The stream ends with so many tokens. False, and no effect, if it cannot."""
    @property
    def delivered(self) -> int: ...
    @property
    def ended(self) -> bool: ...

class Retries:
    """Whether a request may be tried on another engine: bounded by those that died while they had it."""

    def __init__(self, deaths: int = 2, tries: int = 8) -> None: ...
    def after(self, failure: str) -> bool:
        """An engine has failed it: "refused", "died", "unreachable", "at_fault" or "cancelled". Whether another may be
        tried."""
    @property
    def deaths(self) -> int: ...
    @property
    def over(self) -> bool: ...

class PrefixIndex:
    """Which replicas have which beginnings of prompts, from the KV events of their engines.

    A block is named by its tokens and all before them, whatever its engine calls it. Give one to each tenant, adapter
    or salt: what they have in common is not shared.
    """

    def __init__(self, block_size: int, replicas: int = 64) -> None: ...
    def stored(
        self, replica: int, hashes: Sequence[bytes | int], parent: bytes | int | None, tokens: Sequence[int]
    ) -> None:
        """Blocks that follow `parent`, with their tokens. What follows a block that is not known is not found."""
    def removed(self, replica: int, hashes: Sequence[bytes | int]) -> None:
        """Blocks are evicted."""
    def cleared(self, replica: int) -> None:
        """All are: also when a replica restarts, or events were lost."""
    def match(self, prompt: Sequence[int]) -> list[int]:
        """Leading tokens that each replica has, by number: what `Ledger.place` takes as `cached`."""
    def size(self, replica: int) -> int:
        """Blocks that a replica has."""

def plan_export(length: int, block_size: int) -> tuple[int, int, int, bool]:
    """(generates, covers, blocks, whole) of an export."""

def takes(exported: int, length: int, block_size: int) -> bool:
    """Whether a target that goes on with so many tokens can take an export of so many blocks."""
