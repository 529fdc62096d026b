# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``python -m tessera.sim replay``: the main part of the tool `replay`, without a compiler."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tessera import _sim, sim

#: The arguments of `generate` and `read_trace`, and those of `replay`: an option each, with the same name.
_of_load: dict[str, tuple[type, str]] = {
    "rate": (float, "mean arrivals per second"),
    "rate_scale": (float, "with --trace: a factor on its rate"),
    "requests": (int, "number of requests (a built-in workload: 8000, a trace: all)"),
    "seed": (int, "seed of all random draws (1)"),
}
_of_run: dict[str, tuple[type, str]] = {
    "instances": (int, "engine instances (8)"),
    "profile": (str, "the model on its device: a built-in name, or a .json file"),
    "slo": (str, "objectives in seconds, as ttft_p99=2,tpot_p99=0.05"),
    "routers": (int, "routers that know only what they sent and what instances report"),
    "kv_blocks": (int, "KV blocks per instance (by default what the profile's memory holds)"),
    "block_size": (int, "tokens per KV block (16)"),
    "max_batch": (int, "requests per step (256)"),
    "token_budget": (int, "tokens per step (8192)"),
}


def compare(policies: str, load: sim.Columns, jobs: int, options: dict[str, Any]) -> str:
    """The report of these policies, separated by commas. A policy that cannot run is named at the end. ValueError if
    none can."""
    names = _sim.select_policies(policies)
    runs, left_out = [], []
    with ThreadPoolExecutor(jobs) as pool:
        for made in [pool.submit(sim.replay, name, load, **options) for name in names]:
            try:
                runs.append(made.result())
            except ValueError as error:
                left_out.append(error)
    if not runs:
        raise left_out[0]
    return sim.report(runs) + "".join(f"Left out: {error}.\n" for error in left_out)


def main(words: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(prog="python -m tessera.sim", description="The simulator of LLM serving.")
    programs = p.add_subparsers(dest="program", required=True)
    replay = programs.add_parser(
        "replay",
        help="replays a load under policies and compares them",
        description="Replays a load under policies and compares them, as the tool `replay`, which has more options.",
    )
    loads = replay.add_mutually_exclusive_group(required=True)
    loads.add_argument("--trace", metavar="FILE", help="CSV or JSON; docs/traces.md has the formats")
    loads.add_argument("--workload", metavar="NAME", help=f"built-in: {', '.join(w.name for w in sim.workloads())}")
    loads.add_argument("--list", action="store_true", help="lists the policies, and runs nothing")
    replay.add_argument("--policy", default="fcfs,rr,pascal", help="comma-separated (fcfs,rr,pascal)", metavar="NAMES")
    replay.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time (one per core)")
    for name, (kind, meaning) in {**_of_load, **_of_run}.items():
        option = f"--{name.replace('_', '-')}"
        replay.add_argument(option, type=kind, help=meaning, default=argparse.SUPPRESS, metavar=kind.__name__.upper())
    o = p.parse_args(words)
    if o.list:
        print("\n".join(f"{policy.name:<17} {policy.summary}" for policy in sim.policies()))
        return 0
    if o.jobs < 1:
        replay.error(f"--jobs: expected a number from 1, not {o.jobs}")
    if o.trace is None and "rate_scale" in o:
        replay.error("--rate-scale goes with --trace")
    given = {
        name: {n: getattr(o, n) for n in names if n in o} for name, names in (("load", _of_load), ("run", _of_run))
    }
    try:
        with warnings.catch_warnings(record=True) as remarks:
            warnings.simplefilter("always")
            read = sim.generate if o.trace is None else sim.read_trace
            load = read(o.workload if o.trace is None else o.trace, **given["load"])
        text = compare(o.policy, load, o.jobs, given["run"])
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print(text + "".join(f"{remark.message}\n" for remark in remarks), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
