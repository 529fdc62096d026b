# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a router's log says of its requests, and what the simulator expected of the same requests.

>>> log = expected.read("fleet.log")
>>> print(expected.text_of(expected.compare(log, "my-profile.json", "lmetric")))
"""

from __future__ import annotations

import contextlib
import csv
import math
import os
import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tessera import _fleet, sim
from tessera.fleet.log_reader import BadLog, Happened, open_log

#: The simulator has as many tenants in one trace,
_most_tenants = 64
#: so many tokens in a prompt or an answer, and so many KV blocks in a replica.
_most_tokens, _most_blocks = 10**9, 2**26


@dataclass
class Request:
    """A request of a log. Moments are in seconds of the router's clock; NaN: it did not happen."""

    number: int
    #: When it first asked for a place, or began to wait for its turn.
    arrival: float
    prompt: int = 0
    #: Tokens of its answer as far as the client has it, reasoning included.
    tokens: int = 0
    #: Those of `tokens` that are reasoning.
    reasoning: int = 0
    #: Its first answering token. If it only reasons, that is its last token, as in the simulator.
    first: float = math.nan
    #: Its last token.
    last: float = math.nan
    #: Tokens of the prompt that its first replica found in its cache.
    cached: int = 0
    #: The number of its session and of its tenant; 0: none is known.
    session: int = 0
    tenant: int = 0
    calls_tools: bool = False
    #: What was predicted of its answer, in tokens; 0: nothing.
    predicted: int = 0
    #: How often it was placed, and how often it has moved.
    places: int = 0
    moves: int = 0

    _reasons: bool = False
    #: Tokens when it was placed last, and when it arrived first: of another router, they count as prompt.
    _base: int = 0
    _before: int = 0
    #: How many came before it.
    _place: int = 0

    def _progresses(self, tokens: int, at: float) -> None:
        tokens -= self._before
        if tokens <= self.tokens:
            return
        # Until its reasoning ends, its last token may be the only one of its answer.
        if self._reasons:
            self.first, self.reasoning = at, tokens - 1
        elif self.tokens <= self.reasoning:
            self.first = at
        self.tokens, self.last = tokens, at

    @property
    def ttft(self) -> float:
        """Seconds to the first answering token."""
        return self.first - self.arrival

    @property
    def tpot(self) -> float:
        """Mean seconds between answering tokens; NaN for fewer than two."""
        answer = self.tokens - self.reasoning
        return (self.last - self.first) / (answer - 1) if answer > 1 else math.nan

    @property
    def e2e(self) -> float:
        """Seconds to the last token."""
        return self.last - self.arrival


@dataclass
class Record:
    """What a log says."""

    path: str
    controller: str | None
    settings: dict[str, Any]
    #: Requests that have ended and had a token, by arrival.
    requests: list[Request] = field(default_factory=list)
    #: Requests that had not ended when the log ended.
    unfinished: int = 0
    #: Requests that ended without a token.
    empty: int = 0
    #: The fewest and the most replicas that lived at a time, from the first arrival on, and deaths of replicas.
    fewest: int = 0
    most: int = 0
    deaths: int = 0
    #: How many lives of replicas had as many KV blocks.
    capacities: Counter[int] = field(default_factory=Counter)
    #: A replica had a role other than mixed.
    pools: bool = False
    #: Turns that came before the turn before had ended: each begins a session.
    overlaps: int = 0

    @property
    def block_size(self) -> int:
        """Tokens of a block."""
        return int(self.settings.get("block_size", 16))

    @property
    def kv_blocks(self) -> int:
        """KV blocks of a replica; their mean if not all have as many."""
        return round(sum(n * lives for n, lives in self.capacities.items()) / max(self.capacities.total(), 1))

    def happened(self) -> dict[str, np.ndarray]:
        """`ttft`, `tpot` and `e2e` of each request, in seconds, as `tessera.sim.Run.requests` has them."""
        return {name: np.array([getattr(r, name) for r in self.requests], dtype=float) for name in metrics}

    def trace(self) -> sim.Columns:
        """The requests as `tessera.sim.replay` takes them. The first arrives at 0. Sessions and tenants are numbered in
        the order in which they come. ValueError if there is no request."""
        if not self.requests:
            raise ValueError(f"{self.path}: no request has ended with a token, so there is no trace")
        began = self.requests[0].arrival
        columns: dict[str, Any] = {
            "arrival_s": [r.arrival - began for r in self.requests],
            "prompt_tokens": [r.prompt for r in self.requests],
            "output_tokens": [r.tokens for r in self.requests],
            "reasoning_tokens": [r.reasoning for r in self.requests],
        }
        if any(r.session for r in self.requests):
            columns.update(self._sessions())
        tenants: dict[int, int] = {}
        of = [tenants.setdefault(r.tenant, len(tenants)) if r.tenant else -1 for r in self.requests]
        if 0 < len(tenants) <= _most_tenants:
            columns["tenant"] = of
        if all(r.predicted for r in self.requests):
            columns["score"] = [float(r.predicted) for r in self.requests]
        return sim.workload(**columns)

    def _sessions(self) -> dict[str, list[Any]]:
        """A later turn comes `think_s` after the turn before has ended."""
        last: dict[int, tuple[int, float]] = {}
        numbers, thinks = [], []
        begun = self.overlaps = 0
        for r in self.requests:
            number, ended = last.get(r.session, (-1, math.nan)) if r.session else (-1, math.nan)
            if r.session and not ended <= r.arrival:
                self.overlaps += number >= 0
                number, begun = begun, begun + 1
                ended = math.nan
            if r.session:
                last[r.session] = (number, r.last)
            numbers.append(number)
            thinks.append(0.0 if math.isnan(ended) else r.arrival - ended)
        calls = [int(r.calls_tools and r.session > 0) for r in self.requests]
        return {"session": numbers, "think_s": thinks, "calls_tool": calls}


#: What is compared, by its name in `tessera.sim.Run.requests`.
metrics = ("ttft", "tpot", "e2e")


class _Reader:
    """Follows the events of a log."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.now = 0.0
        self.lives: dict[int, int] = {}  # The incarnation of each replica that lives.
        self.known: dict[int, Request] = {}
        self.came = 0  # Requests that have arrived.

    def take(self, happened: Happened) -> None:
        event = happened.event
        self.now = event.at
        kind = event.kind
        if kind in ("joined", "failed"):
            self._replica(happened)
        elif event.request is not None:
            self._request(event)
            if kind in ("arrived", "progressed"):
                self._within(happened, max(event.prompt + event.generated, event.count), _most_tokens, "tokens")
        for a in happened.actions:
            r = None if a.request is None else self.known.get(a.request)
            if a.kind == "place" and r is not None:
                r.places += 1
                r._base = r.tokens + r._before

    def end(self) -> None:
        self.record.unfinished = len(self.known)
        self.record.requests.sort(key=lambda r: r._place)

    def _replica(self, happened: Happened) -> None:
        event, record = happened.event, self.record
        assert event.replica is not None
        if event.kind == "failed":
            if self.lives.get(event.replica) == event.number:
                del self.lives[event.replica]
                record.deaths += 1
        # The book refuses a replica with a word.
        elif not any(a.kind == "note" and a.request is None and " " not in a.why for a in happened.actions):
            self._within(happened, event.capacity, _most_blocks, "KV blocks")
            self.lives[event.replica] = event.number
            record.capacities[event.capacity] += 1
            record.pools = record.pools or event.has_role != "mixed"
        self._count()

    def _count(self) -> None:
        record, lives = self.record, len(self.lives)
        record.most = max(record.most, lives)
        if self.came:
            record.fewest = min(record.fewest, lives)

    def _request(self, event: _fleet.Event) -> None:
        number = event.request
        assert number is not None
        r = self.known.get(number)
        if event.kind in ("arrived", "lost") and r is None:
            if self.came == 0:
                self.record.fewest = len(self.lives)
            r = self.known[number] = Request(number, self.now, _place=self.came)
            self.came += 1
        if r is None:
            return
        if event.kind == "arrived":
            self._arrives(r, event)
        elif event.kind == "progressed":
            r._progresses(event.count, self.now)
        elif event.kind == "first_token":
            r._progresses(r._base + 1, self.now)
        elif event.kind == "reasoning_ended" and r._reasons:
            r._reasons, r.reasoning = False, r.tokens
        elif event.kind == "cache_hit" and r.places == 1:
            r.cached = min(event.count, r.prompt)
        elif event.kind == "moved":
            r.moves += 1
        elif event.kind == "ended":
            self._ends(r)

    def _arrives(self, r: Request, event: _fleet.Event) -> None:
        if r.places == 0:
            r._before = r._base = event.generated
            r.prompt = event.prompt + r._before
            r.session, r.tenant, r.predicted = event.session, event.tenant, event.expected
            r.calls_tools = event.calls_tools
            r._reasons = event.phase == "reasoning"
        else:
            r._progresses(event.generated, self.now)

    def _within(self, happened: Happened, n: int, most: int, what: str) -> None:
        """What the book bears may be more than the simulator does."""
        if n > most:
            raise BadLog(self.record.path, happened.line, 1, f"at most {most} {what}, as the simulator has, not {n}")

    def _ends(self, r: Request) -> None:
        del self.known[r.number]
        if not r.tokens:
            self.record.empty += 1
            return
        # The simulator, too, has at least one token of answer.
        if r.reasoning == r.tokens:
            r.reasoning, r.first = r.tokens - 1, r.last
        self.record.requests.append(r)


def read(path: str | os.PathLike[str], settings: Mapping[str, Any] | None = None) -> Record:
    """What a log says of its requests. `settings` go before those of the log. `BadLog` and OSError are as for
    `tessera.fleet.replay.compare`. O(lines)."""
    with open_log(path) as (recorded, events):
        controller = recorded.pop("controller", None)
        reader = _Reader(Record(os.fspath(path), controller, {**recorded, **(settings or {})}))
        for happened in events:
            reader.take(happened)
    reader.end()
    return reader.record


def write_trace(record: Record, path: str | os.PathLike[str]) -> None:
    """The trace as a file that `replay --trace` reads. It is there whole or not at all. ValueError if there is no
    request, or if the file is the log."""
    if os.path.exists(path) and os.path.samefile(path, record.path):
        raise ValueError(f"{path}: this is the log; name another file for the trace")
    columns = record.trace()
    known = [name for name in columns if name != "score" or not np.isnan(columns[name]).all()]
    rows = zip(*(columns[name].tolist() for name in known), strict=True)
    session = known.index("session") if "session" in known else None
    beginning = f"{os.fspath(path)}.{os.getpid()}"
    try:
        with open(beginning, "w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(known)
            for row in rows:
                alone = session is not None and row[session] < 0
                empty = {"session", "think_s", "calls_tool"} if alone else set()
                out.writerow(
                    "" if name in empty or (name == "tenant" and value < 0) else repr(value)
                    for name, value in zip(known, row, strict=True)
                )
        os.replace(beginning, path)
    except OSError as error:
        with contextlib.suppress(FileNotFoundError):
            os.remove(beginning)
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


class Spread(NamedTuple):
    """How a number is spread over requests. NaN if no request has it."""

    mean: float
    p50: float
    p99: float


def spread(values: np.ndarray) -> Spread:
    """Without NaNs; a percentile is linear between ranks, as in the simulator's summary."""
    there = values[~np.isnan(values)]
    if not len(there):
        return Spread(math.nan, math.nan, math.nan)
    return Spread(float(there.mean()), *(float(p) for p in np.percentile(there, [50, 99])))


@dataclass
class Expectation:
    """What happened, and what the simulator expected of the same requests."""

    record: Record
    profile: str
    #: How each engine orders its requests, where the controller leaves that open.
    policy: str
    max_batch: int
    token_budget: int
    #: By metric.
    happened: dict[str, Spread]
    #: By controller: that of the log, and that which was asked for, if the simulator has them.
    runs: dict[str, sim.Run] = field(default_factory=dict)
    #: Controllers that the simulator does not have.
    lacks: list[str] = field(default_factory=list)

    def expected(self, controller: str) -> dict[str, Spread]:
        """By metric."""
        return {m: spread(self.runs[controller].requests[m]) for m in metrics}

    def errors(self) -> dict[str, Spread] | None:
        """How far the simulator is from what happened, under the controller of the log: (simulated - happened) /
        happened. None if it was not simulated."""
        own = self.record.controller
        if own not in self.runs:
            return None
        there = self.expected(own)
        return {
            m: Spread(*(s / h - 1 if h else math.nan for s, h in zip(there[m], self.happened[m], strict=True)))
            for m in metrics
        }


def compare(
    record: Record,
    profile: str,
    controller: str | None = None,
    *,
    policy: str = "fcfs",
    max_batch: int = 256,
    token_budget: int = 8192,
) -> Expectation:
    """Simulates the trace of a log behind as many replicas, with the log's controller and with `controller`.

    :param profile: a name or a file, as for `tessera.sim.replay`.
    :param policy: how each engine orders its requests, by the names of `tessera.sim.policies`. Controllers that are a
        policy there, as `pascal`, bring their own.
    :param max_batch: requests in a step of an engine.
    :param token_budget: tokens in a step of an engine.
    :raises ValueError: for invalid arguments, and if the log has no request that ended with a token.
    """
    trace = record.trace()
    result = Expectation(
        record,
        profile,
        policy,
        max_batch,
        token_budget,
        {m: spread(values) for m, values in record.happened().items()},
    )
    if record.most == 0 or record.kv_blocks == 0:
        raise ValueError(f"{record.path}: no replica with KV blocks has joined")
    sim.profile(profile)  # ValueError for what is none, whatever the controllers are
    policies = {p.name for p in sim.policies()}
    for name in dict.fromkeys((record.controller, controller)):
        if name is None:
            continue
        if name in _not_simulated:
            result.lacks.append(name)
            continue
        whole = name in policies
        result.runs[name] = sim.replay(
            name if whole else policy,
            trace,
            placement=None if whole else name,
            profile=profile,
            instances=record.most,
            kv_blocks=record.kv_blocks,
            block_size=record.block_size,
            max_batch=max_batch,
            token_budget=token_budget,
            ttft=record.settings.get("ttft"),
        )
    return result


#: How engines order requests under a controller that is a policy of the simulator, by tessera.vllm's name; else fcfs.
_own_orders = {"pascal": "pascal", "due-first": "due_first"}

#: Controllers that go by what replicas say of themselves, which the simulator does not have.
_not_simulated = ("phi-time", "stages")


def _share(part: float) -> str:
    return "-" if math.isnan(part) else f"{100 * part:+.1f} %"


def _seconds(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def _table(e: Expectation) -> list[str]:
    own, errors = e.record.controller, e.errors()
    columns: list[tuple[str, dict[str, Spread], Any]] = [("happened", e.happened, _seconds)]
    for name in e.runs:
        columns.append((name, e.expected(name), _seconds))
        if name == own and errors is not None:
            columns.append(("error", errors, _share))
    rows = [["", "", *(name for name, _, _ in columns)]]
    for m in metrics:
        for which in Spread._fields:
            cells = [show(getattr(values[m], which)) for _, values, show in columns]
            rows.append([f"{m.upper()}, s" if which == "mean" else "", which, *cells])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]


def _remarks(e: Expectation) -> list[str]:
    """What is not in the log, and what was assumed."""
    r = e.record
    policies = {p.name for p in sim.policies()}
    placements = [name for name in e.runs if name not in policies]
    said = [f"The simulator has no controller {name}." for name in e.lacks]
    profile = sim.profile(e.profile)
    if profile.get("source"):
        said.append(f"The profile {profile['name']}: {profile['source']}.")
    orders = [f"by {e.policy} under {' and '.join(placements)} (--policy names another order)"] if placements else []
    orders += [
        f"by {_own_orders.get(name, 'fcfs')}, its own order, under {name}" for name in e.runs if name in policies
    ]
    order = f"order requests {' and '.join(orders)}, and " if orders else ""
    said.append(
        f"Assumed, because the log does not say it: engines {order}take at most {e.max_batch} requests (--max-batch) "
        f"and {e.token_budget} tokens (--token-budget) in a step."
    )
    prompts = sum(q.prompt for q in r.requests)
    found = sum(q.cached for q in r.requests) / prompts
    begins = "turns of a session share their history" if any(q.session for q in r.requests) else "they share nothing"
    cached = " and ".join(
        f"{100 * run.requests['cached_tokens'].sum() / prompts:.1f} % with {name}" for name, run in e.runs.items()
    )
    said.append(
        f"The log does not say which prompts begin alike; here {begins}. Engines found {100 * found:.1f} % of the "
        f"prompts' tokens cached, the simulator {cached or 'none'}."
    )
    if r.fewest != r.most or r.deaths:
        said.append(
            f"From {r.fewest} to {r.most} replicas lived at a time, and {r.deaths} died: {r.most} are simulated, and "
            "none dies."
        )
    if len(r.capacities) > 1:
        said.append(f"Replicas had {min(r.capacities)} to {max(r.capacities)} KV blocks; their mean is simulated.")
    if r.pools:
        said.append("Replicas had roles; the simulator divides them by its own rule, or not at all.")
    again = sum(q.places > 1 for q in r.requests)
    moved = sum(q.moves > 0 for q in r.requests)
    if again or moved:
        none = f" With {' and '.join(placements)} the simulator moves none." if moved and placements else ""
        said.append(f"{again} requests were placed again after a failure, and {moved} moved.{none}")
    never = sum(q._reasons for q in r.requests)
    if never:
        said.append(
            f"{never} of {len(r.requests)} requests did not end their reasoning: their TTFT is that of their last "
            "token. Is end_of_reasoning right?"
        )
    if r.unfinished or r.empty:
        said.append("Requests that are left out had a part in the load, and are not simulated.")
    if r.overlaps:
        said.append(f"{r.overlaps} turns came before the turn before had ended; each begins a session of its own.")
    routers = int(r.settings.get("routers", 1))
    if routers > 1:
        said.append(f"This is one of {routers} routers; what the others sent is not in the log.")
    for name, run in e.runs.items():
        refused = int(run.requests["rejected"].sum())
        if refused:
            said.append(f"With {name} the simulator refuses {refused} requests, which are left out there.")
        if run.summary["load"]["state"] == "overload":
            said.append(f"With {name} the load is more than the replicas carry; latencies say how long the log is.")
    errors = e.errors()
    if errors is None:
        said.append("The log's controller was not simulated, so nothing says how far to trust the simulator here.")
    elif len(e.runs) > 1:
        worst = max((abs(x) for s in errors.values() for x in s if not math.isnan(x)), default=0.0)
        said.append(
            f"The error is the simulator's, at most {100 * worst:.1f} %. A smaller difference between the controllers "
            "says nothing."
        )
    return said


def text_of(e: Expectation) -> str:
    """What happened and what was expected, in words."""
    r = e.record
    out = [
        f"{r.path}: {_count(r)}",
        f"Simulated: {r.most} replicas of {r.kv_blocks} KV blocks of {r.block_size} tokens, by controller.",
        "",
        *_table(e),
        "",
        *(line for said in _remarks(e) for line in textwrap.wrap(said, 100)),
    ]
    return "\n".join(out)


def _count(r: Record) -> str:
    left = [f"{n} {why}" for n, why in ((r.unfinished, "not ended"), (r.empty, "without a token")) if n]
    return f"{len(r.requests)} requests" + (f"; left out: {', '.join(left)}" if left else "")
