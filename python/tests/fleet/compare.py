# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies before eight fake engines at 80 % load, in virtual time: mean time to first token, by seed.

python python/tests/fleet/compare.py [--seeds 10] [--first 0] [--requests 800] [--policies NAME,...] [scenario ...]

Everything is the router's own: reports of half a second, sessions, moves. What saturates the engines is found first, in
a closed loop, where it is full. An interval is Student's, of 95 %, over the differences within seeds.
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import math
import random
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[3] / "examples" / "ray")]

from fake_engine import FakeEngine  # noqa: E402
from virtual_time import run  # noqa: E402

from tessera.fleet import Router, Timeouts  # noqa: E402

Draw = Callable[[random.Random], tuple[int, int]]


def chat(draw: random.Random) -> tuple[int, int]:
    """A prompt and an answer, both lognormal."""
    return (
        min(max(int(draw.lognormvariate(5.5, 0.7)), 8), 4000),
        min(max(int(draw.lognormvariate(4.5, 0.7)), 4), 1000),
    )


def long_answers(draw: random.Random) -> tuple[int, int]:
    """Short prompts that grow to ten times their length, in memory for a few of them."""
    return min(max(int(draw.lognormvariate(4.0, 0.5)), 8), 400), min(max(int(draw.lognormvariate(6.0, 0.5)), 50), 1500)


def mixed(draw: random.Random) -> tuple[int, int]:
    """Each twentieth prompt is ten times as long."""
    prompt, output = chat(draw)
    return (min(prompt * 10, 8000), output) if draw.random() < 0.05 else (prompt, output)


#: Levels, and the quantiles there of prompts and outputs of an hour of a service: `azure-conv` of the simulator. Its
#: source is said there (tessera/sim/input/workload.hpp).
levels = [
    0,
    0.01,
    0.02,
    0.05,
    0.1,
    0.15,
    0.2,
    0.25,
    0.3,
    0.35,
    0.4,
    0.45,
    0.5,
    0.55,
    0.6,
    0.65,
    0.7,
    0.75,
    0.8,
    0.85,
    0.9,
    0.93,
    0.95,
    0.97,
    0.98,
    0.99,
    0.995,
    0.999,
    1,
]
service_prompt = [
    2,
    29,
    91,
    181,
    207,
    372,
    387,
    396,
    403,
    414,
    703,
    984,
    1020,
    1045,
    1071,
    1097,
    1130,
    1189,
    1315,
    1876,
    2734,
    4076,
    4083,
    4090,
    4098,
    4142,
    4831,
    6179,
    14050,
]
service_output = [
    7,
    16,
    24,
    41,
    54,
    67,
    77,
    85,
    91,
    96,
    103,
    113,
    129,
    151,
    177,
    217,
    384,
    395,
    400,
    411,
    424,
    433,
    451,
    509,
    540,
    601,
    643,
    954,
    1000,
]


def service(draw: random.Random) -> tuple[int, int]:
    """Conversation as `azure-conv`."""
    return tuple(max(round(quantile(table, draw.random())), 1) for table in (service_prompt, service_output))  # type: ignore[return-value]


def service_mixed(draw: random.Random) -> tuple[int, int]:
    """Each twentieth prompt is ten times as long."""
    prompt, output = service(draw)
    return (min(prompt * 10, 60_000), output) if draw.random() < 0.05 else (prompt, output)


def quantile(table: list[float], u: float) -> float:
    i = max(bisect.bisect_right(levels, u), 1)
    if i == len(levels):
        return table[-1]
    part = (u - levels[i - 1]) / (levels[i] - levels[i - 1])
    return table[i - 1] + part * (table[i] - table[i - 1])


#: The simulator's `h100-96gb-qwen-32b`: 24.4 ms to read the weights and launch, and 0.09 ms for the KV of 1,000 tokens.
#: A token of a prompt takes 0.11 ms of arithmetic.
h100 = {
    "seqs": 256,
    "budget": 8192,
    "step": 0.0244,
    "per_prompt_token": 1.1e-4,
    "per_sequence": 9e-5,
    "roofline": True,
    "blocks": 5000,
}
scenarios: dict[str, tuple[Draw, dict[str, Any]]] = {
    "service": (service, h100),
    "service, scarce": (service, {**h100, "blocks": 2500}),
    "service, mixed": (service_mixed, h100),
    "plain": (chat, {"blocks": 4000}),
    "scarce": (chat, {"blocks": 300}),
    "scarce, growing": (long_answers, {"blocks": 300}),
    "mixed": (mixed, {"blocks": 4000}),
}
engine = {
    "seqs": 32,
    "budget": 512,
    "step": 0.008,
    "per_prompt_token": 6e-5,
    "per_sequence": 2e-4,
    "cache_blocks": 0,
    "stream_interval": 16,
}

#: No engine hangs here: a request that has no token yet waits.
endless = Timeouts(first=1e6, token=1e6, place=1e6)


def fleet_of(policy: str, options: dict[str, Any], n: int = 8, **settings: Any) -> tuple[Router, list[FakeEngine]]:
    peers: dict[str, FakeEngine] = {}
    router = Router(policy, name="r", reservations=1 << 16, silence=1e6, timeouts=endless, **settings)
    engines = [FakeEngine(f"e{i}", peers=peers, **{**engine, **options}) for i in range(n)]
    for e in engines:
        router.add(e.name, e, e.blocks, prefill_budget=8192.0)
    return router, engines


async def first_token(router: Router, ids: list[int], output: int, end: list[float] | None = None) -> float:
    began, first = router.now(), -1.0
    async for _ in router.stream(ids, output, {"ignore_eos": True}):
        if first < 0:
            first = router.now() - began
    if end is not None:
        end.append(router.now() - began)
    return first


async def saturation(scenario: str) -> float:
    """Requests a second that eight engines take when there are always more. It is eight times what one takes between
    the first and the last tenth of its requests, where it is full."""
    lengths, options = scenarios[scenario]
    router, engines = fleet_of("shortest_queue", options, 1)
    draw = random.Random(0)
    flying = 2 * engines[0].seqs
    left = [lengths(draw) for _ in range(8 * flying)]
    ends: list[float] = []

    async def one() -> None:
        while left:
            n, output = left.pop()
            await first_token(router, [draw.randrange(3, 1000) for _ in range(n)], output)
            ends.append(router.now())

    await asyncio.gather(*[one() for _ in range(flying)])
    tenth = len(ends) // 10
    return 8 * 8 * tenth / (ends[9 * tenth] - ends[tenth])


def floor(engines: list[FakeEngine], prompt: int, now: float) -> float:
    """What no router could make the TTFT less than, whatever it knew: the least of all engines. At each engine it is
    what is left of the step, and the prompt's own steps. These have the requests that run there now, and no other
    prompt."""

    def on(e: FakeEngine) -> float:
        first, left = max(e.step_ends, now + e.latency) - now, prompt
        while left > 0:
            memory = e.step + e.per_sequence * (len(e.running) + 1)
            arithmetic = e.per_prompt_token * min(left, e.budget)
            first += max(memory, arithmetic) if e.roofline else memory + arithmetic
            left -= e.budget
        return first

    return min(on(e) for e in engines)


async def measure(
    scenario: str, policy: str, rate: float, requests: int, seed: int, settings: dict[str, Any]
) -> tuple[float, float, float]:
    """Mean TTFT, mean time of a request, and the mean of `floor`, without the first fifth."""
    lengths, options = scenarios[scenario]
    router, engines = fleet_of(policy, options, seed=seed + 1, **settings)
    draw = random.Random(1000 + seed)
    task = asyncio.ensure_future(router.run(0.5))
    clients, ends, floors = [], [], []
    for _ in range(requests):
        await asyncio.sleep(draw.expovariate(rate))
        n, output = lengths(draw)
        ends.append([])
        floors.append(floor(engines, n, router.now()))
        ids = [draw.randrange(3, 1000) for _ in range(n)]
        clients.append(asyncio.ensure_future(first_token(router, ids, output, ends[-1])))
    ttft = await asyncio.gather(*clients)
    task.cancel()
    assert len(router.book) == 0
    warm = requests // 5
    return statistics.mean(ttft[warm:]), statistics.mean(e[0] for e in ends[warm:]), statistics.mean(floors[warm:])


#: Name, policy, settings.
entries: list[tuple[str, str, dict[str, Any]]] = [
    ("shortest_queue", "shortest_queue", {}),
    ("power_of_two", "power_of_two", {}),
    ("least_kv", "least_kv", {}),
    ("least_load", "least_load", {}),
    ("phi_time", "phi_time", {}),
    ("phi_time, moves when tight", "phi_time", {"tight": 40}),
]


def interval(values: list[float]) -> float:
    t = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 8: 2.36, 10: 2.26, 12: 2.20, 20: 2.09, 30: 2.05, 40: 2.02}.get(
        len(values), 2.0
    )
    return t * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--seeds", type=int, default=10)
    p.add_argument("--first", type=int, default=0, help="the first seed")
    p.add_argument("--requests", type=int, default=800)
    p.add_argument("--policies", default="", help="names of the table's first column, separated by commas")
    p.add_argument("scenario", nargs="*", default=[*scenarios])
    o = p.parse_args()
    for scenario in o.scenario:
        full = run(saturation(scenario))
        print(f"## {scenario}: saturated at {full:.1f} requests a second; 80 % is {0.8 * full:.1f}", flush=True)
        print("| policy | mean TTFT, ms | beside shortest queue | beside power of two | end to end, s | floor, ms |")
        print("|---|---|---|---|---|---|")
        base: dict[str, list[float]] = {}
        for name, policy, settings in entries:
            if o.policies and name not in o.policies.split(","):
                continue
            seeds = range(o.first, o.first + o.seeds)
            results = [run(measure(scenario, policy, 0.8 * full, o.requests, s, settings)) for s in seeds]
            ttft = base[name] = [r[0] for r in results]
            row = [f"{1000 * statistics.mean(ttft):.1f} ± {1000 * interval(ttft):.1f}"]
            for other in ("shortest_queue", "power_of_two"):
                if other == name or other not in base:
                    row.append("")
                    continue
                change = [100 * (a / b - 1) for a, b in zip(ttft, base[other], strict=True)]
                row.append(f"{statistics.mean(change):+.1f} ± {interval(change):.1f} %")
            row.append(f"{statistics.mean(r[1] for r in results):.2f}")
            row.append(f"{1000 * statistics.mean(r[2] for r in results):.1f}")
            print(f"| {name} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
