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
    from a network is never an error: a report that is late or nonsense, or an end that comes twice, has no effect. The
    result says so. An argument that makes no sense is a ValueError that says what is allowed.

    `policy`: where new requests go, one of `tessera.fleet.policies`. `phi_time` is Phi_T, by the prompt tokens that are
    left to compute, among replicas with room for the prompt; each needs a `prefill_budget`. `phi` is freeness of
    memory. `cascade` is the least load among the replicas with the prompt in their range (`set_range`).
    `prefix_affinity` and `lmetric` read `cached`.

    `moves`: where running requests go on, one of `tessera.fleet.moves`. Without it, `pascal` and `cascade` use their
    own moves. The others use `when_tight` if `tight` is above 0.
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
        """A replica comes, with `capacity` KV blocks. "ok", "busy" (another replica has the number) or "refused" (that
        life of it is over). `prefill_budget`: prompt tokens that it computes within the target of the time to first
        token. `prefill_square`: what a prompt of n tokens costs besides its n, divided by n². `role`: "mixed",
        "prefill" or "decode"; `elastic`: `propose_roles` may give it another."""
    def drain(self, id: int) -> bool:
        """It takes no new requests. False if it is not there."""
    def lost(self, id: int, incarnation: int) -> bool:
        """It could not be reached. No request is sent there until it reports, as long as other replicas take
        requests."""
    def fence(self, id: int, incarnation: int) -> list[tuple[int, int, int | None]] | None:
        """It is dead for sure. Returns (request, tokens heard, where it was going to) of all its requests; None if it
        is not there."""
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
        """A report has come: `all`, the load of all its requests, and `own`, the part that this router sent (`Load`s).
        Returns "taken", "doubled", "late", "former", "unknown" or "malformed". A block that requests share counts once,
        for the request that computed it."""
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
        """The replicas for a request with `prompt` tokens, best first. `cached`: prompt tokens that each replica has,
        by number."""
    def reserve(self, request: int, id: int, prompt: int, now: float, cached: int = 0, reasons: bool = False) -> str:
        """The request is sent there. "ok", "refused" (the replica is not there, or draining), "busy" (the request is
        there) or "exhausted". `cached`: tokens of the prompt that are in its prefix cache; they take no blocks."""
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
        """Ranks and reserves. Returns the replica that it goes to; None if no replica takes requests, or the book is
        full."""
    def first_token(self, request: int, id: int, now: float) -> bool:
        """It has its first token there. False if it is not there."""
    def progress(self, request: int, id: int, generated: int, now: float) -> bool:
        """`generated` tokens have come from there in all. False if it is not there."""
    def cache_hit(self, request: int, id: int, cached: int, now: float) -> bool:
        """The engine has found `cached` tokens of the prompt in its prefix cache. Until then the book expects what
        `reserve` was given. Not for tokens with KV from a peer. False if it is not there."""
    def answers(self, request: int, id: int, now: float) -> bool:
        """Its reasoning has ended. False if it is not there."""
    def release(self, request: int, id: int) -> bool:
        """It has ended there, was refused, or its move there came to nothing. False if it is not there."""
    def moved(self, request: int, to: int, now: float) -> bool:
        """It goes on there, and nowhere else. False if it was not on its way there."""
    def propose_moves(self, now: float) -> list[tuple[int, int, int, int, int]]:
        """(request, from, to, tokens, blocks) of the requests that are to go on elsewhere; their room is reserved
        there. Say `moved`, or `release` at the destination."""
    def propose_roles(self) -> tuple[int, str, str] | None:
        """(replica, its role, its next role) of the replica that is to change, or None: Phasor's controller over the
        pools. Each call is one epoch of the controller; `cooldown` is in epochs. Nothing new goes there until
        `changed_role`."""
    def changed_role(self, id: int) -> bool:
        """It has the role that it was given. False if it was given none."""
    def expire(self, now: float) -> list[tuple[int, int]]:
        """Releases the requests that were not named for a lease. Returns their (request, replica)."""
    def expect(self, load: float) -> None:
        """For fill_to_level: the load that other routers send between the reports and now."""
    def contains(self, id: int) -> bool: ...
    def incarnation(self, id: int) -> int: ...
    def silent(self, id: int) -> bool: ...
    def shown(self) -> list[int]:
        """The replicas that the policy chooses from."""
    def view(self, id: int) -> dict[str, Any]:
        """A replica as the policy sees it."""
    def own(self, id: int) -> tuple[int, int, int, int, int, float]:
        """The part of its load that this router sent, counted as the replica would count it."""
    def others(self, id: int) -> tuple[int, int, int, int, int, float]:
        """The load of other routers, as of its last report."""
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
        """Reports by their result, as `receive` returned it."""

class Stitch:
    """One stream of tokens to a client from several engines: each position once, in order."""

    def __init__(self) -> None: ...
    def on(self, at: int, count: int) -> tuple[int, int, bool]:
        """The tokens [at, at + count) have come. Returns how many to skip, how many to take then, and whether tokens
        before them are missing."""
    def end(self, length: int) -> bool:
        """The stream ends with `length` tokens. False, and no effect, if it cannot."""
    @property
    def delivered(self) -> int: ...
    @property
    def ended(self) -> bool: ...

class Retries:
    """Whether a request may be tried on another engine. The number of engines that died while they had it is
    bounded."""

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

    A block is named by its tokens and all before them, whatever its engine calls it. Use one index for each tenant,
    adapter or salt: equal tokens of two indexes are not shared.
    """

    def __init__(self, block_size: int, replicas: int = 64) -> None: ...
    def stored(
        self, replica: int, hashes: Sequence[bytes | int], parent: bytes | int | None, tokens: Sequence[int]
    ) -> None:
        """Blocks that follow `parent`, with their tokens. Blocks after an unknown block are not found."""
    def removed(self, replica: int, hashes: Sequence[bytes | int]) -> None:
        """Blocks are evicted."""
    def cleared(self, replica: int) -> None:
        """All blocks are evicted. Call it also when a replica restarts, or events were lost."""
    def match(self, prompt: Sequence[int]) -> list[int]:
        """Leading tokens that each replica has, by number: what `Ledger.place` takes as `cached`."""
    def size(self, replica: int) -> int:
        """Blocks that a replica has."""

def plan_export(length: int, block_size: int) -> tuple[int, int, int, bool]:
    """(generates, covers, blocks, whole) of an export."""

def takes(exported: int, length: int, block_size: int) -> bool:
    """Whether a target that goes on with `length` tokens can take an export of `exported` blocks."""
