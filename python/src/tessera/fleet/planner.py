# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The planner of `due-first` for a router: the simulator tries layouts on the traffic, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from tessera.fleet.values import Assignment, PlanRequest


class LayoutPlanner:
    """Makes the plans of one router.

    >>> planner = LayoutPlanner("h100-96gb-qwen-32b", ttft=1.0, tpot=0.05)
    >>> router = fleet.Router(controller="due-first", planner=planner)

    `profile`: the model on its device, as for `tessera.sim.replay`: a name, a file, or a dict. The limits of a replica
    have that function's names as well. `ttft`, `tpot`: what each request is promised, in seconds; None: nothing.
    `pools`: plans may separate prefill from decode; then every replica must be able to take any role.

    A plan takes seconds of a CPU, in a process that starts with the first plan. The planner supposes that its last plan
    was carried out, and gives up a layout only when two plans in a row say so. If the number of replicas differs from
    that of the last plan, it begins with replicas that do everything.
    """

    def __init__(
        self,
        profile: str | Mapping[str, Any] = "h100-96gb-qwen-32b",
        *,
        ttft: float | None = None,
        tpot: float | None = None,
        kv_blocks: int | None = None,
        block_size: int = 16,
        max_batch: int = 256,
        token_budget: int = 8192,
        pools: bool = False,
    ) -> None:
        self._how: dict[str, Any] = {
            "profile": profile if isinstance(profile, str) else json.dumps(dict(profile)),
            "kv_blocks": kv_blocks,
            "block_size": block_size,
            "max_batch": max_batch,
            "token_budget": token_budget,
            "ttft": ttft,
            "tpot": tpot,
            "pools": pools,
        }
        _made(self._how)  # ValueError here, not at the first plan
        self._pool: ProcessPoolExecutor | None = None

    async def __call__(self, asked: PlanRequest) -> list[Assignment]:
        """What each replica is to do. ValueError if no plan can be made of that."""
        if asked.sample is None:
            raise ValueError("the controller keeps no sample of its traffic")
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                max_workers=1,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_begin,
                initargs=(self._how,),
            )
        try:
            plan = await asyncio.get_running_loop().run_in_executor(
                self._pool, _plan, asked.sample, len(asked.replicas), asked.prefixes
            )
        except BrokenProcessPool:
            self._pool = None  # The next plan gets another process.
            raise
        return [Assignment(name, *what) for name, what in zip(asked.replicas, plan, strict=True)]

    def close(self) -> None:
        """Ends the process, after the plan that it makes now."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


# In the process that plans.
_planner: Any = None


def _made(how: dict[str, Any]) -> Any:
    from tessera import _sim

    return _sim.LayoutPlanner(**how)


def _begin(how: dict[str, Any]) -> None:
    global _planner
    _planner = _made(how)


def _plan(sample: dict[str, Any], replicas: int, prefixes: bool) -> list[tuple[str, int, int | None, int]]:
    plan: list[tuple[str, int, int | None, int]] = _planner(sample, replicas, prefixes)
    return plan
