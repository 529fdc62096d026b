# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schedulers of all kinds that go on and on. The kinds: aborts, resets, pauses, drafts, adapters, windows, one and two
groups of layers, one and two steps in flight.

Each lives until the end and serves one random load after another. Every token is checked, and that nothing is held when
a load has come to its end. Memory must not grow: a line through what the process has in the second half of the time.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from itertools import cycle, product
from pathlib import Path
from typing import Any

import stub
from test_groups import kinds
from test_stub import check, drive, policies

#: Growth in the second half that is taken for noise, in MB.
noise = 4.0


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


class Side:
    """A scheduler with its runner, for good."""

    def __init__(self, number: int, name: str, in_flight: int, windows: tuple[int, ...], rng: random.Random) -> None:
        self.name, self.in_flight, self.windows = name, in_flight, windows
        second, caching = bool(rng.randrange(2)), bool(rng.randrange(4))
        drafts, adapters = rng.choice([0, 3]), rng.choice([0, 0, 2])
        # A window needs fewer; each group has its own.
        blocks = rng.choice([60, 90] if 0 in windows else [40, 60]) * len(windows)
        more: dict[str, Any] = {"long_prefill_token_threshold": 24} if "chunks" in name else {}
        made = stub.config(
            tessera={"policy": name.split()[0], **policies[name]},
            caching=caching,
            second=second,
            drafts=drafts,
            adapters=adapters,
            async_scheduling=in_flight == 2,
            **more,
        )
        self.s = stub.scheduler(
            stub.Scheduler,
            made,
            blocks,
            kv=stub.memory(blocks, windows),
            include_finished_set=True,
            log_stats=bool(number % 3),
        )
        assert type(self.s) is stub.Scheduler
        self.runner = stub.Runner(blocks, second, drafts=drafts, adapters=adapters, windows=windows)
        self.adapters = 5 if adapters else 0

    def round(self, seed: int, rng: random.Random) -> Any:
        load = stub.Load(
            seed,
            count=rng.randrange(20, 120),
            priorities=self.name == "priority",
            tenants=self.name == "vtc",
            adapters=self.adapters,
        )
        run = drive(self.s, self.runner, load, rng.random() < 0.7, self.in_flight)
        check(run, load)
        return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float, nargs="?", default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    rng = random.Random(a.seed)
    # Twice of every policy where all is looked at, and twice with windows, of each kind in turn.
    kinds_in_turn = cycle(kinds.values())
    sides = []
    for in_flight, name in product((1, 2), policies):
        for windows in ((0,), next(kinds_in_turn)):
            sides.append(Side(len(sides), name, in_flight, windows, rng))
    begin = told = time.monotonic()
    memory: list[tuple[float, float]] = []
    total = dict.fromkeys(("loads", "requests", "steps", "preempted", "aborted", "resets", "tokens"), 0)
    while (now := time.monotonic()) - begin < a.minutes * 60:
        for side in rng.sample(sides, len(sides)):
            run = side.round(a.seed * 1_000_000 + total["loads"], rng)
            total["loads"] += 1
            total["requests"] += len(run.finished_seen)
            total["tokens"] += sum(map(len, run.got.values()))
            for name in ("steps", "preempted", "resets"):
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
    drafts = sum(s.runner.accepted for s in sides), sum(s.runner.tried for s in sides)
    print(f"{minutes:.1f} minutes: {total}; {drafts[0]} of {drafts[1]} drafts accepted; no token wrong")
    print(f"memory: {memory[0][1]:.1f} MB after the first round, {memory[-1][1]:.1f} at the end", end="; ")
    print(f"by the line through the second half ({len(half)} rounds) {grown:+.2f} MB in {minutes / 2:.1f} minutes")
    for side in sides:
        side.s.shutdown()
    if grown > noise:
        print(f"memory grows: more than {noise} MB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
