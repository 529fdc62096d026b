# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""KV cache metrics and MFU metrics, beside vLLM's own: one request after another, so that both plan the same."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import stub


def told(cls: type, second: bool, caching: bool) -> tuple[Any, list[int], list[Any]]:
    """What a scheduler reports of a load: how often blocks were given up and found, and the operations of each step."""
    made = stub.config(tessera={} if cls is stub.Scheduler else None, second=second, caching=caching)
    made.observability_config = copy.copy(made.observability_config)
    for name, value in {"kv_cache_metrics": True, "kv_cache_metrics_sample": 1.0, "enable_mfu_metrics": True}.items():
        object.__setattr__(made.observability_config, name, value)
    s = stub.scheduler(cls, made, blocks=40, log_stats=True)
    assert type(s) is cls
    runner = stub.Runner(40, second)
    evicted, performed = [], []
    for request_id, prompt, params, _, salt in stub.Load(seed=4, count=25).requests():
        s.add_request(stub.request(request_id, prompt, params, salt=salt))
        while s.has_requests():
            step = s.schedule()
            for outputs in s.update_from_output(step, runner.run(step)).values():
                if outputs.scheduler_stats is not None:
                    evicted += outputs.scheduler_stats.kv_cache_eviction_events
                    performed.append(outputs.scheduler_stats.perf_stats)
    assert all(0 <= event.idle_seconds <= event.lifetime_seconds for event in evicted)
    return len(evicted), sorted(len(event.reuse_gaps_seconds) for event in evicted), performed


@pytest.mark.parametrize("second", [False, True], ids=["first runner", "second runner"])
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
def test_the_same_as_vllm(second: bool, caching: bool) -> None:
    theirs, ours = (told(cls, second, caching) for cls in (stub.OwnScheduler, stub.Scheduler))
    assert ours == theirs
    assert bool(ours[0]) == caching, "without a cache, vLLM tells of no block"
    assert any(performed is not None and performed.num_flops_per_gpu > 0 for performed in ours[2])
