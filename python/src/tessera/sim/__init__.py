# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The simulator: replay a workload through scheduling policies, and compare.

    from tessera import sim

    load = sim.generate("alpaca-chat", 4000, rate=3.0)
    for policy in ("fcfs", "pascal"):
        run = sim.replay(policy, load, instances=4)
        print(policy, run.summary["ttft"]["p99"], run.goodput(ttft=2.0, tpot=0.1))

Workloads and results are columns: dicts of numpy arrays, of one length. ``pandas.DataFrame(run.requests)`` takes them.
"""

from __future__ import annotations

import gzip
import json
import os
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tessera import _sim
from tessera._types import types_in_words

__all__ = [
    "Columns",
    "InstanceView",
    "Policy",
    "Run",
    "Workload",
    "generate",
    "policies",
    "profile",
    "profiles",
    "read_trace",
    "replay",
    "report",
    "router_costs",
    "scored",
    "sweep",
    "workload",
    "workloads",
]

#: Columns of one length, by name.
Columns = dict[str, np.ndarray]


class Policy(NamedTuple):
    """A policy that `replay` knows by name."""

    name: str
    summary: str
    needs_scores: bool
    least_instances: int


class Workload(NamedTuple):
    """A built-in workload."""

    name: str
    summary: str
    source: str
    rate: float


class InstanceView(NamedTuple):
    """What a placement is shown of an instance."""

    id: int
    requests: int  #: waiting and running
    kv_held: int  #: blocks, on the device and the host
    free_blocks: int  #: on the device


def policies() -> list[Policy]:
    """The policies that there are."""
    return [Policy(*p) for p in _sim.policies()]


def workloads() -> list[Workload]:
    """The built-in workloads."""
    return [Workload(*w) for w in _sim.workloads()]


def profiles() -> list[str]:
    """The names of the built-in profiles: a model on a device."""
    return [name for name, _ in _sim.profiles()]


@types_in_words
def profile(name: str) -> dict[str, Any]:
    """A profile by name or from a file, as a dict; change it and pass it to `replay`."""
    return json.loads(_sim.profile_json(name))


@types_in_words
def router_costs(
    profile: str | Mapping[str, Any] = "h100-96gb-qwen-32b", *, ttft: float | None = None
) -> dict[str, Any]:
    """What work costs on a profile: settings of ``tessera.fleet.Router(controller="due-first", ...)``. Work costs
    seconds: see `tessera.fleet.Runtime`. `ttft`: the time to first token that requests are promised, in seconds."""
    return dict(_sim.router_costs(_profile_text(profile), ttft))


def _columns(columns: dict[str, Any]) -> Columns:
    """Runs, a list for each request, in an array as the other columns are."""
    if "runs" in columns:
        runs = np.empty(len(columns["runs"]), dtype=object)
        for i, of_row in enumerate(columns["runs"]):
            runs[i] = of_row
        columns["runs"] = runs
    return columns


@types_in_words
def generate(workload: str, requests: int = 8000, *, rate: float | None = None, seed: int = 1) -> Columns:
    """Requests of a built-in workload; `rate` of them a second, or its own rate. The same seed, the same requests."""
    return _columns(_sim.generate(workload, requests, rate, seed))


@types_in_words
def read_trace(
    path: str | os.PathLike[str],
    *,
    rate: float | None = None,
    rate_scale: float = 1.0,
    requests: int = 0,
    seed: int = 1,
    hash_tokens: int | None = None,
    time_unit: str = "",
    run: int = 0,
) -> Columns:
    """The requests of a file, CSV or JSON, in gzip or not; only the first `requests` of them, if that is not 0.

    One without arrivals needs a rate. Each of the `hash_ids` stands for `hash_tokens` of the prompt; None: as many as
    the format has, 512 or 16. `time_unit` is that of arrivals that are numbers, s, ms, us or ns, where the file does
    not tell. `run` is the one to read of a benchmark's file with several, from 1; 0: the last. What is not used, left
    out or sorted is warned of."""
    name = os.fspath(path)
    text = None
    if Path(name).is_file():
        with open(name, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        if packed:
            try:
                with gzip.open(name) as file:
                    text = file.read()
            except (OSError, EOFError, zlib.error) as error:
                raise ValueError(f"{name}: expected a whole gzip file, found {error}") from None
    columns, remarks = _sim.read_trace(name, text, rate, rate_scale, requests, seed, hash_tokens, time_unit, run)
    for remark in remarks:
        warnings.warn(remark, stacklevel=3)  # behind the check of types
    return _columns(columns)


def workload(**columns: Any) -> Columns:
    """A workload of your own, from columns. Needed: arrival_s, prompt_tokens, output_tokens. Optional:

    - reasoning_tokens, answer_tokens and score;
    - session: its number (-1: none);
    - think_s: seconds before a later turn;
    - calls_tool: 1 for a turn that the server knows to be followed by another;
    - tenant: the number of the request's tenant, from 0 (-1: none);
    - runs: the beginning of the prompt, as pairs (number, tokens). Equal numbers after equal tokens are equal
      tokens."""
    optional = {"reasoning_tokens", "score", "answer_tokens", "session", "think_s", "calls_tool", "tenant", "runs"}
    needed = {"arrival_s", "prompt_tokens", "output_tokens"}
    if not needed <= columns.keys() <= needed | optional:
        raise ValueError(
            f"a workload has the columns {', '.join(sorted(needed))}, and may have {', '.join(sorted(optional))}; "
            f"not {', '.join(sorted(columns))}"
        )
    made = {name: np.asarray(values) for name, values in columns.items() if name != "runs"}
    if "runs" in columns:
        made.update(_columns({"runs": [list(runs) for runs in columns["runs"]]}))
    n = len(made["arrival_s"])
    made.setdefault("reasoning_tokens", np.zeros(n, dtype=np.int64))
    made.setdefault("score", np.full(n, np.nan))
    return made


def scored(load: Mapping[str, Any] | str | os.PathLike[str], order: Callable[[dict[str, Any]], float]) -> Columns:
    """The workload with scores by an order of your own. `order` is called once for each request. Its dict has what is
    known when the request comes (its number, arrival and prompt) and what a predictor would be asked for. The smaller
    score goes first under ``replay("pars", ...)``."""
    columns = {name: np.asarray(values) for name, values in _workload(load).items()}
    if not callable(order):
        raise TypeError(f"order must be a function of a request, not {order!r:.80}")
    names = [name for name in columns if name != "score"]
    rows = zip(*(columns[name].tolist() for name in names), strict=True)
    scores = []
    for i, row in enumerate(rows):
        score = order({"id": i, **dict(zip(names, row, strict=True))})
        if not isinstance(score, (int, float, np.number)) or score != score:
            raise ValueError(f"an order gives a number, and gave {score!r:.80} for request {i}")
        scores.append(float(score))
    return {**columns, "score": np.array(scores)}


@dataclass(frozen=True)
class Run:
    """What came of a replay."""

    policy: str
    #: The numbers of the table that `replay`, the tool, prints: its JSON keys.
    summary: dict[str, Any]
    #: A row for each request. Times in seconds; NaN: it did not happen.
    requests: Columns
    #: The state of the cluster, now and then.
    timeline: Columns
    #: A row for each instance.
    instances: Columns
    #: What was asked for by `explain`: the `explained` of the tool's JSON, and `text`, the timeline for people.
    explained: dict[str, Any] | None = None
    #: What `report` reads.
    _reported: Any = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reported": None}

    @types_in_words
    def goodput(self, *, ttft: float, tpot: float) -> float:
        """Requests a second that were good: their first answering token within `ttft`, the others `tpot` apart. Like
        `slo.goodput_requests_per_s` of the tool, it is the good part of the arrivals per second."""
        r = self.requests
        # A single token has no time between tokens.
        quick = np.isnan(r["tpot"]) | (r["tpot"] <= tpot)
        good = ~np.isnan(r["finish"]) & (r["ttft"] <= ttft) & quick
        window = self.summary["window"]["seconds"]
        # Between the first arrival and the last there is one gap less than there are requests.
        return float(good.mean()) * (len(good) - 1) / window if window else 0.0


def _profile_text(profile: Any) -> str:
    if isinstance(profile, str):
        return profile
    if isinstance(profile, Mapping):
        return json.dumps(dict(profile))
    raise TypeError(f"profile must be a name, a file, or a dict as profile() gives, not {profile!r:.80}")


def _workload(load: Any) -> Mapping[str, Any]:
    if isinstance(load, (str, os.PathLike)):
        return read_trace(load)
    if not hasattr(load, "keys"):  # as dicts and data frames have
        raise TypeError(f"load must be a workload, as of generate() or workload(), or a trace's path, not {load!r:.80}")
    return load


def _column(load: Mapping[str, Any], name: str) -> np.ndarray:
    try:
        column = np.ascontiguousarray(load[name], dtype=np.float64)
    except KeyError:
        raise ValueError(f"the workload has no column {name}; sim.workload makes one") from None
    except (TypeError, ValueError):
        column = None
    if column is None or column.ndim != 1:
        raise ValueError(f"the column {name} must be a list of numbers, not {load[name]!r:.80}")
    return column


@types_in_words
def replay(
    policy: str,
    load: Mapping[str, Any] | str | os.PathLike[str],
    *,
    profile: str | Mapping[str, Any] = "h100-96gb-qwen-32b",
    instances: int = 8,
    kv_blocks: int | None = None,
    block_size: int = 16,
    max_batch: int = 256,
    token_budget: int = 8192,
    in_flight: int = 0,
    prefix_cache: bool = True,
    order: Callable[[dict[str, Any]], float] | None = None,
    threshold: float | None = None,
    placement: str | Callable[[Sequence[InstanceView]], int] | None = None,
    routers: int | None = None,
    report_s: float = 1.0,
    ttft: float | None = None,
    tpot: float | None = None,
    slo: str = "",
    explain: int | float | None = None,
) -> Run:
    """Replays a workload under a policy, from the first arrival to the last token. Deterministic.

    :param policy: one of `policies()`; with an `order` or `threshold`: pars.
    :param load: a workload, or the path of a trace, which `read_trace` reads.
    :param profile: the name of a profile, a file, or a dict as `sim.profile` gives.
    :param in_flight: not 0: that many requests run at any time, and arrivals are not read.
    :param prefix_cache: whether requests find the KV of what they share again.
    :param order: an order of your own, as for `scored`; the policy is pars then.
    :param threshold: seconds after which pars lets a request go ahead of all that came later; inf: never.
    :param placement: where new requests go, for policies that leave it open: a name (`replay --help` lists them), or a
        callable. It is called for each request that comes, with a view of each instance, and returns an index.
    :param routers: the number of routers, used round-robin, that know only what they have sent and what instances
        report. None: one router knows everything at any moment. For policies that leave the placement open.
    :param report_s: seconds between two reports of an instance, with routers.
    :param ttft: the time to first token, in seconds, that every request is promised, for policies that plan for it:
        due-first, phasor and the slack orders.
    :param tpot: likewise the time per token after the first.
    :param slo: objectives as those of the tool, such as "ttft_p99=2,tpot_p99=0.05": promised in the place of `ttft` and
        `tpot`, and judged. `Run.summary["slo"]` says how far they are met.
    :param explain: a request (an int), or a time in seconds (a float). `Run.explained` says which policy decided what
        about it, or in the second from then on, and why.
    :raises ValueError: for invalid arguments; it says what is allowed.
    """
    load = _workload(load)
    if order is not None:
        if policy != "pars":
            raise ValueError(f"an order replaces pars's scores: policy must be 'pars', not {policy!r}")
        load = scored(load, order)
    if threshold is not None and (policy != "pars" or not threshold >= 0):
        raise ValueError(f"threshold is for pars, and a number of seconds from 0; not {threshold!r} for {policy}")
    place: str | Callable[[list[tuple[int, int, int, int]]], int] | None = None
    if isinstance(placement, str):
        place = placement
    elif placement is not None:
        if not callable(placement):
            raise TypeError(f"placement must be a name, or a function of the instances' views, not {placement!r:.80}")
        own = placement

        def place(views: list[tuple[int, int, int, int]]) -> int:
            return int(own([InstanceView(*v) for v in views]))

    n = len(np.atleast_1d(load["arrival_s"])) if "arrival_s" in load else 0
    given = _sim.replay(
        policy,
        _column(load, "arrival_s"),
        _column(load, "prompt_tokens"),
        _column(load, "output_tokens"),
        _column(load, "reasoning_tokens") if "reasoning_tokens" in load else np.zeros(n),
        _column(load, "score") if "score" in load else np.full(n, np.nan),
        _column(load, "session") if "session" in load else np.full(n, -1.0),
        _column(load, "think_s") if "think_s" in load else np.zeros(n),
        _column(load, "calls_tool") if "calls_tool" in load else np.zeros(n),
        _column(load, "tenant") if "tenant" in load else np.full(n, -1.0),
        [list(runs) for runs in load["runs"]] if "runs" in load else [],
        prefix_cache,
        _profile_text(profile),
        instances,
        kv_blocks,
        block_size,
        max_batch,
        token_budget,
        in_flight,
        threshold,
        place,
        routers,
        report_s,
        ttft,
        tpot,
        slo,
        None if explain is None else f"{'time' if isinstance(explain, float) else 'request'}:{explain}",
    )
    explained = None
    if explain is not None:
        explained = {**json.loads(given["explained"]), "text": given["timeline_text"]}
    return Run(
        policy,
        json.loads(given["summary"]),
        given["requests"],
        given["timeline"],
        given["instances"],
        explained,
        given["reported"],
    )


def report(runs: Iterable[Run]) -> str:
    """What the tool `replay` prints of these runs of one load: the table, verdict and remarks. At the end it says how
    to run the best policy in front of engines. ValueError for no run, or for one that was pickled."""
    reported = [run._reported for run in runs]
    if None in reported:
        raise ValueError("only a run of this process can be reported: one that was pickled lacks its records")
    return _sim.report(reported)


@types_in_words
def sweep(
    policies: Iterable[str],
    loads: Mapping[Any, Mapping[str, Any]],
    *,
    workers: int = 1,
    **options: Any,
) -> Iterator[tuple[Any, str, Run]]:
    """Every policy on every load: (the load's key, the policy, the run), in the order given.

    :param loads: by whatever is to be told apart, such as their rates.
    :param workers: replays at a time, each in a thread. A placement or an order in Python runs in one at a time.
    :param options: as for `replay`.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    if isinstance(policies, str):
        raise ValueError(f"policies is a list of names, not {policies!r}")
    if not isinstance(loads, Mapping) or not all(isinstance(load, Mapping) for load in loads.values()):
        raise ValueError("loads is a dict of workloads by name, such as their rates")
    return _sweep([(key, policy, loads[key]) for key, policy in product(loads, list(policies))], workers, options)


def _sweep(
    cases: list[tuple[Any, str, Mapping[str, Any]]], workers: int, options: dict[str, Any]
) -> Iterator[tuple[Any, str, Run]]:
    with ThreadPoolExecutor(workers) as pool:
        runs = [pool.submit(replay, policy, load, **options) for _, policy, load in cases]
        for (key, policy, _), run in zip(cases, runs, strict=True):
            yield key, policy, run.result()
