# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""KV cache metrics and MFU metrics, beside vLLM's own: one request after another, so that both plan the same."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import stub


def told(cls: type, second: bool, caching: bool, windows: tuple[int, ...], sizes: tuple[int, ...]) -> list[Any]:
    """Serves a load, and checks what is told of blocks by the lists of blocks in the steps. Returns what is told of the
    operations of each step."""
    made = stub.config(tessera={} if cls is stub.Scheduler else None, second=second, caching=caching)
    made.observability_config = copy.copy(made.observability_config)
    for name, value in {"kv_cache_metrics": True, "kv_cache_metrics_sample": 1.0, "enable_mfu_metrics": True}.items():
        object.__setattr__(made.observability_config, name, value)
    blocks = 40 if len(windows) == 1 else 140
    s = stub.scheduler(cls, made, blocks=blocks, log_stats=True, kv=stub.memory(blocks, windows, sizes=sizes))
    assert type(s) is cls
    runner = stub.Runner(blocks, second, windows=windows, sizes=sizes)
    evicted, performed, found = [], [], 0
    hits: dict[int, int] = {}  # of each block since it was taken
    gone: list[int] = []  # the same of those that were given up

    def takes(blocks: list[int]) -> None:
        gone.extend(hits[block] for block in blocks if block in hits)
        hits.update(dict.fromkeys(blocks, 0))

    unit, hashed = math.lcm(*sizes), math.gcd(*sizes)
    for request_id, prompt, params, _, salt in stub.Load(seed=4, count=25, beginning=unit + 54).requests():
        s.add_request(stub.request(request_id, prompt, params, salt=salt, hashed=hashed))
        while s.has_requests():
            step = s.schedule()
            for new in step.scheduled_new_reqs:
                for block_ids, size in zip(new.block_ids, sizes, strict=True):
                    here = new.num_computed_tokens // size
                    for block in filter(None, block_ids[:here]):  # 0: a window has passed it
                        hits[block] += 1
                    takes(block_ids[here:])
                    found += here
            for groups in step.scheduled_cached_reqs.new_block_ids:
                for block_ids in groups or ():
                    takes(block_ids)
            for outputs in s.update_from_output(step, runner.run(step)).values():
                if outputs.scheduler_stats is not None:
                    evicted += outputs.scheduler_stats.kv_cache_eviction_events
                    performed.append(outputs.scheduler_stats.perf_stats)
    # Each block that is taken again has been given up; without a cache, vLLM tells of none.
    assert len(evicted) == (len(gone) if caching else 0)
    assert all(min(event.idle_seconds, event.lifetime_seconds) >= 0 for event in evicted)
    assert bool(found) == caching
    # There is a gap between two hits of a block.
    assert sum(map(bool, (event.reuse_gaps_seconds for event in evicted))) == sum(count >= 2 for count in gone)
    return performed


@pytest.mark.parametrize("second", [False, True], ids=["first runner", "second runner"])
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize(
    ("windows", "sizes"),
    [((0,), (16,)), ((40, 0), (16, 16)), ((40, 0), (8, 32))],
    ids=["one group", "two groups", "two sizes"],
)
def test_beside_vllm(windows: tuple[int, ...], sizes: tuple[int, ...], second: bool, caching: bool) -> None:
    theirs, ours = (told(cls, second, caching, windows, sizes) for cls in (stub.OwnScheduler, stub.Scheduler))
    assert any(performed is not None and performed.num_flops_per_gpu > 0 for performed in ours)
    # With a cache, they need not evict the same blocks.
    assert caching or ours == theirs
