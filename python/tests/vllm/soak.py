# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schedulers of all kinds that go on and on. Mixed are: policies, one and two steps in flight, both runners, aborts,
resets, pauses, adapters, and options that change while requests run. Memory: one group and several, windows, chunks,
latent attention, states with and without caching. Drafts: n-grams and drafters with KV of their own. Others have KV
events, prompts in one piece, or KV connectors.

Each lives until the end and serves one random load after another. Every token is checked, and that nothing is held when
a load has come to its end. Memory must not grow: a line through what the process has in the second half of the time.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import Any

import stub
import test_drafters
import test_events
import test_groups
import test_set_option
import test_states
import test_states_cached
import test_whole_prompts
from pair import Pair
from test_connectors import Served
from test_stub import Run, check, drive, policies

from tessera.vllm.options import settable

#: Growth in the second half that is taken for noise, in MB.
noise = 4.0

most = 3  #: drafts of a request


@dataclass
class Kind:
    """What a model needs of memory, and what its engine is asked for."""

    windows: tuple[int, ...] = (0,)
    blocks: int = 60
    caching: bool = True
    drafter: str = ""
    latent: bool = False
    adapters: int = 0
    events: bool = False
    whole: bool = False  #: prompts in one piece
    sizes: tuple[int, ...] = ()  #: tokens in the blocks of each group


def plain_kinds(rng: random.Random) -> list[Kind]:
    """One group of layers that look at all tokens."""
    some = [Kind(), Kind(latent=True), Kind(events=True), Kind(events=True, adapters=2), Kind(adapters=2)]
    some += [Kind(whole=True, blocks=110), Kind(whole=True, latent=True, blocks=110, caching=False)]
    for kind in some:
        kind.drafter = rng.choice(["", "ngram"])
    return some


def grouped_kinds(rng: random.Random) -> list[Kind]:
    some = []
    for windows in test_groups.kinds.values():
        # A window needs fewer; each group has its own.
        blocks = rng.choice([60, 90] if 0 in windows else [40, 60]) * len(windows)
        drafter, caching = rng.choice(["", "ngram"]), bool(rng.randrange(4))
        latent = rng.randrange(3) == 0 and min(windows) >= 0
        some.append(Kind(windows, blocks, caching, drafter, latent, adapters=rng.choice([0, 0, 2])))
    return some


def state_kinds(rng: random.Random) -> list[Kind]:
    some = []
    for module, caching, other in ((test_states, False, (110, 140)), (test_states_cached, True, (100, 140))):
        for name, windows in module.kinds.items():
            drafter = rng.choice(["", "ngram", "eagle"])
            some.append(Kind(windows, module.blocks_of.get(name, other)[drafter != ""], caching, drafter))
    return some


def drafter_kinds(rng: random.Random) -> list[Kind]:
    some = []
    for drafter, (windows, blocks, *sizes) in product(test_drafters.drafters, test_drafters.layers.values()):
        if drafter != "modules" or min(windows) >= 0:  # else it is handed back
            caching = bool(rng.randrange(4))
            some.append(Kind(windows, blocks * len(windows), caching, drafter, sizes=tuple(sizes)))
    return some


class Side:
    """A scheduler with its runner, for good."""

    def __init__(self, number: int, name: str, in_flight: int, kind: Kind, rng: random.Random) -> None:
        self.name, self.in_flight, self.kind = name, in_flight, kind
        second = bool(rng.randrange(2))
        self.what = (name, in_flight, kind, second)
        drafts = most if kind.drafter else 0
        more: dict[str, Any] = {"long_prefill_token_threshold": 24} if "chunks" in name and not kind.whole else {}
        more |= test_whole_prompts.whole if kind.whole else {}
        made = stub.config(
            tessera={"policy": name.split()[0], **policies[name]},
            caching=kind.caching,
            second=second,
            drafts=drafts,
            drafter=kind.drafter or "ngram",
            adapters=kind.adapters,
            async_scheduling=in_flight == 2,
            **more,
        )
        self.s = stub.scheduler(
            stub.Scheduler,
            test_events.listened(made) if kind.events else made,
            kind.blocks,
            kv=stub.memory(kind.blocks, kind.windows, kind.latent, drafts, kind.sizes),
            include_finished_set=True,
            log_stats=bool(number % 3),
        )
        assert type(self.s) is stub.Scheduler, kind
        self.runner = (test_events.Watched if kind.events else stub.Runner)(
            kind.blocks,
            second,
            drafts=drafts,
            adapters=kind.adapters,
            windows=kind.windows,
            sizes=kind.sizes,
            whole=test_whole_prompts.budget if kind.whole else 0,
            drafter=kind.drafter if kind.drafter in test_drafters.drafters else "",
            zeroes=bool({*kind.windows} & {stub.a_state, stub.an_aligned}),
        )
        self.runner.exact = False
        self.listener = test_events.Listener.latest if kind.events else None
        self.changed = 0
        if number % 2:
            self.change_options(rng)

    def change_options(self, rng: random.Random) -> None:
        plan = self.s.schedule

        def schedule(**named: Any) -> Any:
            if rng.random() < 0.05:
                option = rng.choice(list(settable(self.name.split()[0])))
                self.s.set_option(option, rng.choice(test_set_option.values[option]))
                self.changed += 1
            return plan(**named)

        self.s.schedule = schedule

    def round(self, seed: int, rng: random.Random) -> Run:
        load = (test_whole_prompts.Load if self.kind.whole else stub.Load)(
            seed,
            count=rng.randrange(20, 120),
            priorities=self.name == "priority",
            tenants=self.name == "vtc",
            adapters=5 if self.kind.adapters else 0,
            beginning=rng.choice([64, 70]),
            hints=seed % 2 == 0,
        )
        self.runner.arrivals = {r[0]: r for r in load.requests()}
        test_events.Listener.latest = self.listener
        run = drive(self.s, self.runner, load, rng.random() < 0.7, self.in_flight)
        check(run, load)
        assert self.runner.stale == 0
        return run

    def moved(self) -> int:
        return 0

    def shutdown(self) -> None:
        self.s.shutdown()


class Transfers:
    """Two engines with a connector that asks what NIXL's asks, for good. Some transfers fail."""

    changed = 0

    def __init__(self, name: str, number: int) -> None:
        self.what = ("transfers", name, number)
        windows, blocks = [((0,), 60), ((0, 40), 80), ((40,), 50)][number % 3]
        own = {"policy": name, **policies[name]}
        self.pair = Pair(number, own, blocks, failing=0.1, second=bool(number % 2), windows=windows)

    def round(self, seed: int, rng: random.Random) -> Run:
        pair = self.pair
        for kept in (pair.got, pair.reasons, pair.aborted, *(worker.gone for _, worker in pair.engines.values())):
            kept.clear()
        pair.preempted = 0
        pair.serve(stub.Load(seed, count=rng.randrange(20, 120), hints=seed % 2 == 0), rng.random() < 0.7, forgets=0.1)
        return Run(pair.got, pair.reasons, pair.aborted, preempted=pair.preempted, finished_seen={*pair.got})

    def moved(self) -> int:
        return sum(worker.pulled for _, worker in self.pair.engines.values())

    def shutdown(self) -> None:
        for s, _ in self.pair.engines.values():
            s.shutdown()


class Stores:
    """An engine with a store, for good: a load comes twice, and some of what is stored cannot be loaded. Or with
    vLLM's own OffloadingConnector."""

    changed = 0

    def __init__(self, name: str, number: int, offloads: bool) -> None:
        more: dict[str, Any] = {"options": {"later": 0.5, "unsure": 0.3}, "failing": 0.1}
        if offloads:
            more = {"name": "OffloadingConnector", "options": {"cpu_bytes_to_use": 1 << 20}}
            more |= {"windows": (0, 40), "blocks": 80} if number % 3 else {}
        self.what = ("stores", name, number, more)
        own = {"policy": name, **policies[name]}
        self.served = Served(own, seed=number, second=bool(number % 2), count=20, **more)

    def round(self, seed: int, rng: random.Random) -> Run:
        served = self.served
        kept = [served.got, served.reasons, served.aborted, served.told, getattr(served.worker, "store", [])]
        for each in kept:
            each.clear()
        served.preempted = 0
        load = stub.Load(seed, count=rng.randrange(20, 60), hints=seed % 2 == 0)
        for turn in range(2):
            served.serve(load, turn, rng.random() < 0.7)
            while not served.s.reset_prefix_cache():
                served.step()
        return Run(served.got, served.reasons, served.aborted, preempted=served.preempted, finished_seen={*served.got})

    def moved(self) -> int:
        worker = self.served.worker
        return (worker.host if hasattr(worker, "host") else worker).loaded

    def shutdown(self) -> None:
        self.served.s.shutdown()


def all_sides(rng: random.Random) -> list[Any]:
    """For every policy, with one and two steps in flight: a kind of each sort, in turn."""
    sorts = [cycle(kinds(rng)) for kinds in (plain_kinds, grouped_kinds, state_kinds, drafter_kinds)]
    sides: list[Any] = []
    for in_flight, name, sort in product((1, 2), policies, sorts):
        sides.append(Side(len(sides), name, in_flight, next(sort), rng))
    for number, name in enumerate(("fcfs", "pars", "pascal", "due_first")):
        sides += [Transfers(name, number), Stores(name, number, offloads=number % 2 == 0)]
    return sides


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def slope(points: list[tuple[float, float]]) -> float:
    """The slope of the line that fits best."""
    n = len(points)
    if n == 0:
        return 0.0
    x, y = (sum(p[i] for p in points) / n for i in (0, 1))
    spread = sum((p[0] - x) ** 2 for p in points)
    return sum((p[0] - x) * (p[1] - y) for p in points) / spread if spread else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float, nargs="?", default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    rng = random.Random(a.seed)
    test_events.Factory._registry["zmq"] = test_events.Listener
    sides = all_sides(rng)
    begin = told = time.monotonic()
    memory: list[tuple[float, float]] = []
    total = dict.fromkeys(("loads", "requests", "steps", "preempted", "aborted", "resets", "hits", "tokens"), 0)
    while (now := time.monotonic()) - begin < a.minutes * 60:
        for side in rng.sample(sides, len(sides)):
            try:
                run = side.round(a.seed * 1_000_000 + total["loads"], rng)
            except Exception:
                print(f"in the load {total['loads']}, of {side.what}", file=sys.stderr)
                raise
            total["loads"] += 1
            total["requests"] += len(run.finished_seen)
            total["tokens"] += sum(map(len, run.got.values()))
            for name in ("steps", "preempted", "resets", "hits"):
                total[name] += getattr(run, name)
            total["aborted"] += len(run.aborted)
        gc.collect()
        memory.append(((now - begin) / 60, resident_mb()))
        if now - told > 60:
            told = now
            print(f"{memory[-1][0]:6.1f} min {memory[-1][1]:7.1f} MB  {total}", flush=True)
    minutes = (time.monotonic() - begin) / 60
    half = [p for p in memory if p[0] > minutes / 2]
    grown = slope(half) * minutes / 2
    own = [side for side in sides if isinstance(side, Side)]
    drafts = sum(s.runner.accepted for s in own), sum(s.runner.tried for s in own)
    print(f"{minutes:.1f} minutes, {len(sides)} kinds: {total}; {drafts[0]} of {drafts[1]} drafts accepted", end="; ")
    print(f"{sum(s.changed for s in sides)} options changed, {sum(s.moved() for s in sides)} blocks moved", end="; ")
    print(f"{sum(s.listener.stored for s in own if s.listener)} blocks told of; no token wrong")
    print(f"memory: {memory[0][1]:.1f} MB after the first round, {memory[-1][1]:.1f} at the end", end="; ")
    print(f"by the line through the second half ({len(half)} rounds) {grown:+.2f} MB in {minutes / 2:.1f} minutes")
    for side in sides:
        side.shutdown()
    if grown > noise:
        print(f"memory grows: more than {noise} MB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
