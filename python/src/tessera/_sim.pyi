# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The simulator of tessera.sim; use that."""

from collections.abc import Callable
from typing import Any

import numpy as np

def policies() -> list[tuple[str, str, bool, int]]: ...
def workloads() -> list[tuple[str, str, str, float]]: ...
def profiles() -> list[tuple[str, str]]: ...
def profile_json(name: str) -> str: ...
def generate(workload: str, requests: int, rate: float | None, seed: int) -> dict[str, Any]: ...
def read_trace(
    path: str,
    text: bytes | None,
    rate: float | None,
    rate_scale: float,
    requests: int,
    seed: int,
    hash_tokens: int | None,
    time_unit: str,
    run: int,
) -> tuple[dict[str, Any], list[str]]: ...
def router_costs(profile: str, ttft: float | None) -> dict[str, Any]: ...

class LayoutPlanner:
    """Plans for a fleet, one after the other; it remembers the layout of the last."""

    def __init__(
        self,
        *,
        profile: str,
        kv_blocks: int | None,
        block_size: int,
        max_batch: int,
        token_budget: int,
        ttft: float | None,
        tpot: float | None,
        pools: bool,
    ) -> None: ...
    def __call__(self, sample: dict[str, Any], replicas: int, prefixes: bool) -> list[tuple[str, int, int | None, int]]:
        """A plan from a sample (`Runtime.sample`). For each replica: its role, the first and the last block of its
        range, and its bound on prompts in a step. Takes seconds."""
    @property
    def layout(self) -> str:
        """ "headroom", "stages" or "pools"."""
    @property
    def why(self) -> str:
        """Why, in words."""

def replay(
    policy: str,
    arrival_s: np.ndarray,
    prompt_tokens: np.ndarray,
    output_tokens: np.ndarray,
    reasoning_tokens: np.ndarray,
    score: np.ndarray,
    session: np.ndarray,
    think_s: np.ndarray,
    calls_tool: np.ndarray,
    tenant: np.ndarray,
    runs: list[list[tuple[int, int]]],
    prefix_cache: bool,
    profile: str,
    instances: int,
    kv_blocks: int | None,
    block_size: int,
    max_batch: int,
    token_budget: int,
    in_flight: int,
    threshold: float | None,
    place: Callable[[list[tuple[int, int, int, int]]], int] | None,
    routers: int | None,
    report_s: float,
    ttft: float | None,
    tpot: float | None,
    slo: str,
    explain: str | None,
) -> dict[str, Any]: ...

class ReportedRun:
    """What a report reads of a run."""

def report(runs: list[ReportedRun]) -> str: ...
def select_policies(names: str) -> list[str]:
    """The names in a list that is separated by commas. ValueError for one that there is not."""
