# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The planner of `due-first` for a router: the simulator tries layouts on the traffic, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tessera.fleet.values import Assignment, PlanRequest

#: What the process that plans runs. It needs nothing of the program of the router, whatever that is.
_script = (
    # What is printed is no answer.
    "import os, pickle, sys; says = os.dup(1); os.dup2(2, 1); sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from tessera.fleet.planner import _serve; _serve(says)"
)


class LayoutPlanner:
    """Makes the plans of one router.

    >>> planner = LayoutPlanner("h100-96gb-qwen-32b", ttft=1.0, tpot=0.05)
    >>> router = fleet.Router(controller="due-first", planner=planner)

    `profile`: the model on its device, as for `tessera.sim.replay`: a name, a file, or a dict. The limits of a replica
    have that function's names as well. `ttft`, `tpot`: what each request is promised, in seconds; None: nothing.
    `pools`: plans may separate prefill from decode; then every replica must be able to take any role.

    A plan takes seconds of a CPU, in a process that starts with the first plan and ends with the router's. The planner
    supposes that its last plan was carried out, and gives up a layout only when two plans in a row say so. If the
    number of replicas differs from that of the last plan, it begins with replicas that do everything.
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
        # It waits for the process.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tessera planner")
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None

    async def __call__(self, asked: PlanRequest) -> list[Assignment]:
        """What each replica is to do. ValueError if no plan can be made of that."""
        if asked.sample is None:
            raise ValueError("the controller keeps no sample of its traffic")
        what = (asked.sample, len(asked.replicas), asked.prefixes)
        plan = await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, what)
        return [Assignment(name, *part) for name, part in zip(asked.replicas, plan, strict=True)]

    def close(self) -> None:
        """Ends the process. There is no plan if it makes one now. More calls do nothing."""
        if self._closed:
            return
        self._closed = True
        self._thread.submit(self._end)
        self._thread.shutdown(wait=False)
        process = self._process
        if process is not None:
            process.kill()  # The thread may wait for its answer.

    # -- in the thread

    def _ask(self, what: tuple[Any, ...]) -> list[tuple[str, int, int | None, int]]:
        try:
            if self._process is None:
                # A session of its own: an interrupt at the keyboard is for the router. It ends with its pipe.
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _script],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                )
                self._say(sys.path)
                self._say(self._how)
            self._say(what)
            assert self._process.stdout is not None
            made = pickle.load(self._process.stdout)
        except Exception as error:  # An answer that is none may raise anything.
            self._end()  # The next plan gets another process.
            raise RuntimeError("the process that plans has died, or gave no answer") from error
        if isinstance(made, Exception):
            raise made
        plan: list[tuple[str, int, int | None, int]] = made
        return plan

    def _say(self, what: Any) -> None:
        assert self._process is not None and self._process.stdin is not None
        pickle.dump(what, self._process.stdin)
        self._process.stdin.flush()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _made(how: dict[str, Any]) -> Any:
    from tessera import _sim

    return _sim.LayoutPlanner(**how)


def _serve(answers: int) -> None:
    """The process that plans, until its router has gone. `answers` is the file descriptor of its pipe."""
    asks = sys.stdin.buffer
    planner = _made(pickle.load(asks))
    with open(answers, "wb") as says:
        while True:
            try:
                what = pickle.load(asks)
            except EOFError:
                return
            try:
                made = planner(*what)
            except Exception as error:
                made = error
            pickle.dump(made, says)
            says.flush()
