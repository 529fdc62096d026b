# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Time of schedule() and update_from_output(), vLLM's scheduler and ours in turn, in one process, step by step.

Thread CPU time: on a machine with other work the wall clock measures that. The runner is a stub: a token for each
request that samples. Steady: the same requests decode all the time. Churn: requests of 1 to 255 tokens come as others
end. With two in flight: as with async scheduling, a step is planned before the output of the one before is taken in.

In turn, each finds the processor's caches full of what the other has left there. With --apart each has a process of its
own, as in an engine, and they take turns by the hundred steps.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import random
import statistics
import sys
import time
from collections import deque
from typing import Any

import stub
from vllm import SamplingParams
from vllm.v1.outputs import ModelRunnerOutput

clock = time.thread_time_ns


class Side:
    """A scheduler, its requests and its times."""

    def __init__(
        self, ours: bool, n: int, caching: bool, policy: dict, churn: bool, log_stats: bool, in_flight: int
    ) -> None:
        made = stub.config(
            async_scheduling=in_flight == 2,
            caching=caching,
            tessera=policy if ours else None,
            max_num_seqs=n,
            max_num_batched_tokens=8192,
            max_num_scheduled_tokens=8192,
        )
        blocks = n * 200 + 1
        own = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
        self.s = stub.scheduler(stub.Scheduler if ours else own, made, blocks, log_stats=log_stats)
        self.in_flight = in_flight
        self.launched: deque[tuple[Any, Any]] = deque()
        self.ours = ours
        self.rng = random.Random(2)
        self.n, self.churn = n, churn
        self.schedule: list[int] = []
        self.update: list[int] = []
        self.computed: dict[str, int] = {}
        self.lengths: dict[str, int] = {}
        self.sizes: list[int] = []
        self.added = 0
        self.add_ns: list[int] = []
        for _ in range(n * 2 if churn else n):
            self.add()

    def add(self) -> None:
        prompt = [self.rng.randrange(1000) for _ in range(256 if self.churn else 512)]
        most = self.rng.randrange(1, 256) if self.churn else 480
        name = f"request-{self.added:08d}-{self.rng.randrange(1 << 60):x}"
        self.added += 1
        begin = clock()
        r = stub.Request(
            name,
            prompt,
            SamplingParams(temperature=0, max_tokens=most, ignore_eos=True),
            None,
            block_hasher=stub.hasher() if not self.ours and self.s.cache_config.enable_prefix_caching else None,
        )
        self.s.add_request(r)
        self.add_ns.append(clock() - begin)
        self.lengths[name] = len(prompt)

    def step(self, measured: bool) -> int:
        t0 = clock()
        out = self.s.schedule()
        t1 = clock()
        ids = list(out.num_scheduled_tokens)
        for new in out.scheduled_new_reqs:
            self.computed[new.req_id] = new.num_computed_tokens
        tokens = []
        for name, count in out.num_scheduled_tokens.items():
            self.computed[name] += count
            samples = self.computed[name] >= self.lengths[name]
            tokens.append([self.rng.randrange(1000)] if samples else [])
        ran = ModelRunnerOutput(
            req_ids=ids, req_id_to_index={r: i for i, r in enumerate(ids)}, sampled_token_ids=tokens
        )
        self.launched.append((out, ran))
        if len(self.launched) < self.in_flight:
            return self.step(measured)
        out, ran = self.launched.popleft()
        t2 = clock()
        outputs = self.s.update_from_output(out, ran)
        t3 = clock()
        given = sum(len(o.outputs) for o in outputs.values())
        assert given == sum(map(bool, ran.sampled_token_ids)) or self.in_flight > 1  # some may be in vain
        if measured:
            self.schedule.append(t1 - t0)
            self.update.append(t3 - t2)
            self.sizes.append(len(ids))
        for one in outputs.values():
            for o in one.outputs:
                if o.finish_reason is not None and self.churn:
                    self.add()
        return out.total_num_scheduled_tokens if not self.churn else len(ids)

    def warm_up(self) -> None:
        for _ in range(400 if self.churn else 1000):
            if self.step(False) == self.n and not self.churn:
                break
        gc.collect()
        gc.freeze()

    def figures(self) -> dict[str, float]:
        both = [a + b for a, b in zip(self.schedule, self.update, strict=True)]
        return {
            "schedule": statistics.median(self.schedule) / 1e3,
            "update": statistics.median(self.update) / 1e3,
            "sum": statistics.median(both) / 1e3,
            "mean": statistics.mean(both) / 1e3,
            "least": min(both) / 1e3,
            "size": statistics.mean(self.sizes),
            "add": statistics.median(self.add_ns) / 1e3,
        }


def alternate(steps: int, *what: Any) -> list[dict[str, float]]:
    """vLLM's and ours, step by step in this process."""
    sides = [Side(ours, *what) for ours in (False, True)]
    for side in sides:
        side.warm_up()
    for _ in range(steps):
        for side in sides:
            side.step(True)
    gc.unfreeze()
    return [side.figures() for side in sides]


def _serve(pipe: Any, ours: bool, *what: Any) -> None:
    """A side in a process of its own: it does as many steps as it is told, and at 0 says how long they took."""
    side = Side(ours, *what)
    side.warm_up()
    pipe.send(None)
    while steps := pipe.recv():
        for _ in range(steps):
            side.step(True)
        pipe.send(None)
    pipe.send(side.figures())


def apart(steps: int, *what: Any) -> list[dict[str, float]]:
    """vLLM's and ours, by turns, each in a process of its own."""
    made = multiprocessing.get_context("spawn")
    pipes = []
    processes = []
    for ours in (False, True):
        mine, theirs = made.Pipe()
        pipes.append(mine)
        processes.append(made.Process(target=_serve, args=(theirs, ours, *what), daemon=True))
        processes[-1].start()
        mine.recv()
    for begun in range(0, steps, 100):
        for pipe in pipes:
            pipe.send(min(100, steps - begun))
            pipe.recv()
    found = []
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send(0)
        found.append(pipe.recv())
        process.join()
    return found


def measure(
    n: int,
    caching: bool,
    churn: bool,
    steps: int,
    policy: dict,
    log_stats: bool = False,
    in_flight: int = 1,
    run: Any = alternate,
) -> dict[str, Any]:
    row: dict[str, Any] = {"running": n, "caching": caching, "load": "churn" if churn else "steady", "stats": log_stats}
    row["policy"] = policy["policy"]
    row["vllm"], row["tessera"] = run(steps, n, caching, policy, churn, log_stats, in_flight)
    row["times"] = row["vllm"]["sum"] / row["tessera"]["sum"]
    row["times_mean"] = row["vllm"]["mean"] / row["tessera"]["mean"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--running", type=int, nargs="*", default=[256, 1024])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--policy", default="fcfs")
    parser.add_argument("--stats", action="store_true")
    parser.add_argument("--in-flight", type=int, default=1, choices=[1, 2])
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--json", default="")
    a = parser.parse_args()
    rows = []
    for churn in (False, True):
        for n in a.running:
            for caching in (False, True):
                steps = a.steps if n < 1000 else a.steps // 2
                how = apart if a.apart else alternate
                row = measure(n, caching, churn, steps, {"policy": a.policy}, a.stats, a.in_flight, how)
                rows.append(row)
                v, t = row["vllm"], row["tessera"]
                print(
                    f"{row['load']:6} {n:5} caching {int(caching)} {a.policy}: vLLM {v['sum']:8.1f} us "
                    f"(mean {v['mean']:8.1f}), tessera {t['schedule']:6.1f} + {t['update']:6.1f} = {t['sum']:6.1f} us "
                    f"(mean {t['mean']:6.1f}, least {t['least']:6.1f}), {row['times']:.1f} times "
                    f"(means {row['times_mean']:.1f}); add {v['add']:.1f}, {t['add']:.1f} us; "
                    f"{v['size']:.0f}, {t['size']:.0f} in a step",
                    flush=True,
                )
    if a.json:
        with open(a.json, "w") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    sys.exit(main())
