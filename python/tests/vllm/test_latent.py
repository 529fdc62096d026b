# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Latent attention (MLA): one vector of a token instead of keys and values, in as many blocks."""

from __future__ import annotations

from typing import Any

import pytest
import stub
import torch
from test_groups import driven
from test_stub import one_or_two
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.kv_cache_utils import generate_scheduler_kv_cache_config
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, MLAAttentionSpec, UniformTypeKVCacheSpecs

try:
    from vllm.v1.core.kv_cache_planning import get_kv_cache_groups
except ImportError:  # before 0.33
    get_kv_cache_groups = kv_cache_utils.get_kv_cache_groups

kinds = {"all": (0,), "window": (40,), "window and all": (40, 0)}


@one_or_two
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("kind", kinds)
def test_beside_vllm(kind: str, caching: bool, in_flight: int) -> None:
    load = stub.Load(seed=4)
    theirs = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
    runs = [
        driven(cls, own, load, kinds[kind], False, in_flight, caching=caching, latent=True)
        for cls, own in ((theirs, None), (stub.Scheduler, {"policy": "fcfs"}))
    ]
    assert runs[0].got == runs[1].got and runs[0].reasons == runs[1].reasons
    assert all((run.hits > 0) == caching and run.preempted > 0 for run in runs)


@one_or_two
@pytest.mark.parametrize("policy", ["pascal", "due_first", "round_robin"])
def test_tokens(policy: str, in_flight: int) -> None:
    """With all that goes wrong, and drafts."""
    run = driven(
        stub.Scheduler,
        {"policy": policy},
        stub.Load(seed=5),
        (0,),
        True,
        in_flight,
        caching=True,
        latent=True,
        drafts=3,
    )
    assert run.hits > 0


@pytest.mark.parametrize("main", ["latent", "full"])
def test_layers_of_two_sizes_share_their_blocks(main: str) -> None:
    """DeepSeek-V3.2: an indexer keeps a smaller vector of each token; MiniMax-M3 has one beside keys and values. A
    scheduler is told of one group."""
    made = stub.config(tessera={"fallback": False})
    shape: dict[str, Any] = {"block_size": stub.block_size, "num_kv_heads": 1}
    specs: dict[str, Any] = {}
    for i in range(3):
        of_main = MLAAttentionSpec if main == "latent" else FullAttentionSpec
        specs[f"layer {i}"] = of_main(head_size=576, dtype=torch.bfloat16, **shape)
        specs[f"indexer {i}"] = MLAAttentionSpec(head_size=132, dtype=torch.uint8, **shape)
    (group,) = get_kv_cache_groups(made, specs)
    assert type(group.kv_cache_spec) is UniformTypeKVCacheSpecs and len(group.layer_names) == 6
    worker = KVCacheConfig(num_blocks=60, kv_cache_tensors=[], kv_cache_groups=[group])
    s = stub.scheduler(stub.Scheduler, made, 60, kv=generate_scheduler_kv_cache_config([worker]))
    assert type(s) is stub.Scheduler
