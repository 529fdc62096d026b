# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What requests of agents say of their KV: how long it is of use, of which session it is, and that it is of none."""

from __future__ import annotations

import json
from typing import Any

import pytest
import stub
from vllm import SamplingParams


class Agents:
    """A small cache, and requests that come one after another."""

    def __init__(self, windows: tuple[int, ...] = (0,)) -> None:
        blocks = 40 * len(windows)
        made = stub.config(tessera={"policy": "due_first"})
        self.s = stub.scheduler(stub.Scheduler, made, blocks, kv=stub.memory(blocks, windows))
        self.runner = stub.Runner(blocks, windows=windows)
        self.names = 0

    def serve(self, prompt: list[int], **hints: Any) -> int:
        """How many of its tokens the cache had."""
        self.names += 1
        params = SamplingParams(temperature=0, max_tokens=4)
        if hints:
            # As they come over HTTP, or as they are.
            params.extra_args = {"tessera": json.dumps(hints) if self.names % 2 else hints}
        self.s.add_request(stub.request(str(self.names), prompt, params))
        found = 0
        while self.s.has_unfinished_requests():
            step = self.s.schedule()
            for new in step.scheduled_new_reqs:
                found = new.num_computed_tokens
            self.s.update_from_output(step, self.runner.run(step))
        return found

    def others(self) -> None:
        """More than the cache holds."""
        for i in range(8):
            self.serve([500 + self.names + i] * 100)


groups = pytest.mark.parametrize("windows", [(0,), (0, 40)], ids=["", "window"])


@groups
@pytest.mark.parametrize("keep_s", [0, 3600])
def test_a_turn_is_kept_while_its_tool_runs(keep_s: int, windows: tuple[int, ...]) -> None:
    agents = Agents(windows)
    agents.serve([7] * 160, session="a", keep_s=keep_s)
    agents.others()
    found = agents.serve([7] * 170, session="a")
    assert found == (160 if keep_s else 0)
    # It said nothing of a further turn.
    agents.others()
    assert agents.serve([7] * 170, session="a") == 0


def test_a_common_beginning_outlives_one_of_its_sessions() -> None:
    agents = Agents()
    agents.serve([7] * 160 + [8] * 40, session="a")
    agents.serve([7] * 160 + [9] * 40, session="b", release=True)
    # All blocks but one are taken or known then.
    for token in (4, 6):
        agents.serve([token] * 200)
    # Takes that one, both of `b`, and two more that are older than the beginning.
    agents.serve([3] * 70)
    assert agents.serve([7] * 160 + [5] * 40) == 160


def test_what_is_released_goes_first() -> None:
    agents = Agents()
    agents.serve([7] * 200)
    agents.serve([8] * 200, release=True)  # 13 of the 39 blocks
    agents.serve([9] * 200, session="c", keep_s=3600, release=True)
    agents.serve([6] * 200)
    assert agents.serve([7] * 200) == 192


def test_kept_kv_makes_way_for_a_request() -> None:
    agents = Agents()
    for i in range(3):
        agents.serve([7 + i] * 200, keep_s=10**9)
    assert agents.serve([6] * 600) == 0
    assert agents.s.get_kv_cache_usage() == 0


def test_without_a_prefix_cache_hints_do_nothing() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}, caching=False), 40)
    runner = stub.Runner(40)
    params = SamplingParams(temperature=0, max_tokens=4, extra_args={"tessera": {"keep_s": 5, "session": "a"}})
    s.add_request(stub.request("x", [5] * 40, params))
    while s.has_unfinished_requests():
        step = s.schedule()
        s.update_from_output(step, runner.run(step))
    assert s.requests == {}
