# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Controllers in front of engines; use tessera.fleet."""

from collections.abc import Sequence
from typing import Any

controllers: tuple[str, ...]
moves: tuple[str, ...]

_Load = Sequence[float]

class Event:
    """What has happened, as a value.

    `kind`, and the `members` that it reads, are named as in a log (docs/fleet.md): `Event("ended", 2.5, request=7)`. A
    member that is None is left out. `at` is in seconds. ValueError for what no event says.
    """

    def __init__(self, kind: str, at: float, **members: Any) -> None: ...
    @property
    def kind(self) -> str: ...
    @property
    def at(self) -> float: ...
    @property
    def request(self) -> int | None: ...
    @property
    def replica(self) -> int | None: ...
    def __getattr__(self, name: str) -> Any:
        """Any other member, named as in a log; a load is a tuple. `high` is None for a range without an end."""
    def __str__(self) -> str:
        """The line of a log."""

class Action:
    """What a controller wants done, as a value. `kind` says which of the members count, as in a log
    (docs/fleet.md)."""

    @property
    def kind(self) -> str:
        """ "place", "move", "cancel_move", "set_role", "set_length_range", "set_prefill_budget", "set_order", "plan"
        or "note"."""
    @property
    def replica(self) -> int | None:
        """The replica that it is for."""
    @property
    def source(self) -> int | None:
        """The source of a move."""
    @property
    def request(self) -> int | None: ...
    @property
    def how(self) -> str:
        """How KV is copied: "stopped" or "live"."""
    @property
    def role(self) -> str: ...
    @property
    def parameter(self) -> str:
        """A parameter of an order: "threshold_s", "quantum" or "pace"."""
    @property
    def low(self) -> int:
        """Blocks of a range, or tokens of a budget."""
    @property
    def high(self) -> int | None:
        """Blocks of a range; None: it has no end."""
    @property
    def number(self) -> int:
        """The number of a plan."""
    @property
    def value(self) -> float:
        """The value of a parameter."""
    @property
    def why(self) -> str:
        """In words."""
    def __str__(self) -> str:
        """The line of a log."""

def parse(line: str, since: float = 0.0) -> Event | Action | tuple[int, str]:
    """The event or action of a line of a log; or the column that is wrong, and what belongs there. `since`: the moment
    of the event before, and an earlier one is wrong."""

class Runtime:
    """A controller in front of engines: events in, actions out.

    Replicas are numbered from 0, requests as the caller likes. Times are seconds that do not run backwards. What comes
    from a network is never an error: an event that is late, comes twice or does not fit has no effect. An argument
    that makes no sense is a ValueError that says what is allowed. The caller carries out the actions, in their order;
    what becomes of them is an event again.

    `controller`: one of `tessera.fleet.controllers`, named as in `replay`. `stages` takes stages by length, as
    replicas say of themselves (`serves`). `phi-time` is Phi_T, by the prompt tokens that are left to compute, among
    replicas with room for the prompt.

    `moves`: where running requests go on, one of `tessera.fleet.moves`. Without it, `pascal` and `stages` use their
    own moves. The other placements use `when_tight` if `tight` is above 0.

    `epoch`: seconds between two decisions about the roles of `elastic` replicas; `theta`, `cooldown` (in epochs) and
    `demand` are theirs. `router` of `routers`: each has a runtime of its own, and with `shares` prefers its own
    replicas. `follows`: for `follow`.

    `due-first` places by headroom, for which work costs seconds. `prompt_cost` has two numbers for a prompt's token:
    times the tokens of that prompt, and by itself. `decode_cost` has three: for a step that decodes, for each request
    in it, and for each token of KV that it reads. `ttft`: the time to first token that is aimed at.
    `tessera.sim.router_costs` has them for a profile. With `prefixes` it reads what replicas have cached of a prompt.
    """

    def __init__(
        self,
        controller: str,
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
        epoch: float = 0.0,
        router: int = 0,
        routers: int = 1,
        prompt_cost: Sequence[float] = (0.0, 1e-4),
        decode_cost: Sequence[float] = (0.02, 0.0, 1e-7),
        ttft: float = 1.0,
        prefixes: bool = False,
        shares: bool = False,
        follows: bool = False,
    ) -> None: ...
    def handle(self, event: Event) -> list[Action]:
        """Something has happened. Returns what is to be done."""
    def follow(self, event: Event, recorded: Sequence[Action]) -> list[Action]:
        """An event of a log and what followed from it. The book does what was recorded. Returns what the controller
        would have done."""
    def arrived(
        self,
        request: int,
        prompt: int,
        now: float,
        *,
        generated: int = 0,
        cached: Sequence[int] | None = None,
        excluded: Sequence[int] | None = None,
        prefix_key: int = 0,
        reasons: bool = False,
        movable: bool = True,
        expected: int = 0,
        spread: int = 0,
        limit: int = 0,
        session: int = 0,
        tenant: int = 0,
        calls_tools: bool = False,
    ) -> list[Action]:
        """A request is to be placed, new or again: the events `offers` and `arrived`. `cached`: prompt tokens that
        each replica has, by number. `excluded`: replicas that may not be chosen."""
    def progressed(self, request: int, replica: int, count: int, now: float) -> list[Action]:
        """It has generated `count` tokens in all, the last of them there."""
    def reported(
        self,
        replica: int,
        incarnation: int,
        epoch: int,
        all: _Load,
        now: float,
        own: _Load | None = None,
        free: int | None = None,
        slo_met: bool = True,
    ) -> tuple[str, list[Action]]:
        """A report has come: `all`, the load of all its requests, and `own`, the part that this router sent (`Load`s).
        Returns "taken", "doubled", "late", "former", "unknown" or "malformed", and what is to be done. A block that
        requests share counts once, for the request that computed it."""
    recording: bool
    @property
    def logged(self) -> int:
        """Bytes that were recorded and not taken."""
    def take_log(self) -> bytes:
        """The lines that were recorded since the last call."""
    def sample(self) -> dict[str, Any] | None:
        """The traffic as it was when the controller last asked for a plan, for `tessera._sim.LayoutPlanner`; None if
        it keeps no sample. `requests` are in order of arrival. Each is a tuple. Five members are `arrival_s` and
        tokens: of the prompt, generated so far, generated in reasoning, and the limit. Then come a predictor's score
        (NaN: none) and the tenant (-1: none). Three flags say whether it has ended, was refused, and reasons now.
        `rate` and `lately` are requests a second, `here` is how many are served. `held`: that is constant. `behind`:
        the queue grows."""
    @property
    def reads_prefixes(self) -> bool:
        """Whether the controller reads what replicas have cached."""
    @property
    def next_wake(self) -> float | None:
        """When a `clock` event is due for an alarm of the controller."""
    @property
    def requests(self) -> int:
        """Requests that have arrived and not ended."""
    def where(self, request: int) -> int | None:
        """The replica that has it."""
    def moves_to(self, request: int) -> int | None:
        """The replica that it is on its way to."""
    def contains(self, id: int) -> bool: ...
    def incarnation(self, id: int) -> int: ...
    def silent(self, id: int) -> bool: ...
    def shown(self) -> list[int]:
        """The replicas that the controller chooses from."""
    def view(self, id: int) -> dict[str, Any]:
        """A replica as the controller sees it."""
    def own(self, id: int) -> tuple[int, int, int, int, int, float]:
        """The part of its load that this router sent, counted as the replica would count it."""
    def others(self, id: int) -> tuple[int, int, int, int, int, float]:
        """The load of other routers, as of its last report."""
    def reserved(self, request: int, id: int) -> bool: ...
    def __len__(self) -> int:
        """Reservations in the book."""
    @property
    def moving(self) -> int:
        """Requests on their way."""
    @property
    def expired(self) -> int:
        """Reservations that ran out."""
    @property
    def dropped_notes(self) -> int:
        """Notes that were left out because one event had too many actions."""
    @property
    def received(self) -> dict[str, int]:
        """Reports by their result, as `reported` returned it."""

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
        """Leading tokens that each replica has, by number: what `Runtime.arrived` takes as `cached`."""
    def key(self, prompt: Sequence[int], own: int) -> int:
        """A hash of how a prompt begins, for `bounded-hashing` and `dual-map`; `own` if it has no whole block. The
        more of the latest prompts begin alike, the more of a prompt it reads."""
    def size(self, replica: int) -> int:
        """Blocks that a replica has."""

def plan_export(length: int, block_size: int) -> tuple[int, int, int, bool]:
    """(generates, covers, blocks, whole) of an export."""

def takes(exported: int, length: int, block_size: int) -> bool:
    """Whether a target that goes on with `length` tokens can take an export of `exported` blocks."""
