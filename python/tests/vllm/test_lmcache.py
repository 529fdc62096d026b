# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's real engine under our scheduler with LMCache, which keeps KV in the CPU's memory.

LMCache 0.5.6 copies between that and vLLM's blocks on accelerators alone ("No supported cpu connector found"). Here
`Copier` does that. All else is LMCache's: what it looks up, stores and loads, and when.
"""

from __future__ import annotations

import builtins
import importlib.util
import os
from typing import Any

import pytest

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("TESSERA_VLLM_ENGINE"), reason="the real engine takes minutes: set TESSERA_VLLM_ENGINE"
    ),
    pytest.mark.skipif(importlib.util.find_spec("lmcache") is None, reason="needs lmcache"),
]

block_size = 32


def copier(copied: dict[str, int]) -> Any:
    """Copies whole blocks: how tokens lie in one is the kernel's business."""
    import torch
    from lmcache.v1.gpu_connector.gpu_connectors import GPUConnectorInterface

    class Copier(GPUConnectorInterface):
        def __init__(self, shape: Any) -> None:
            self.shape = shape
            self.kv: list[Any] = []

        def initialize_kvcaches_ptr(self, **rest: Any) -> None:
            if "kvcaches" in rest:
                kv = rest["kvcaches"]
                self.kv = list(kv.values()) if isinstance(kv, dict) else list(kv)

        def _of(self, start: int, end: int, rest: Any) -> int:
            self.initialize_kvcaches_ptr(**rest)
            slots = rest["slot_mapping"][start:end].tolist()
            assert slots == list(range(slots[0], slots[0] + block_size)) and slots[0] % block_size == 0
            return slots[0] // block_size

        def from_gpu(self, memory_obj: Any, start: int, end: int, **rest: Any) -> None:
            block = self._of(start, end, rest)
            for layer, kv in enumerate(self.kv):
                memory_obj.tensor[:, layer] = kv[block].reshape(memory_obj.tensor[:, layer].shape)
            copied["stored"] += 1

        def to_gpu(self, memory_obj: Any, start: int, end: int, **rest: Any) -> None:
            block = self._of(start, end, rest)
            for layer, kv in enumerate(self.kv):
                kv[block] = memory_obj.tensor[:, layer].reshape(kv[block].shape)
            copied["loaded"] += 1

        def batched_from_gpu(self, memory_objs: Any, starts: Any, ends: Any, **rest: Any) -> None:
            for of_one in zip(memory_objs, starts, ends, strict=True):
                self.from_gpu(*of_one, **rest)

        def batched_to_gpu(self, memory_objs: Any, starts: Any, ends: Any, **rest: Any) -> None:
            for of_one in zip(memory_objs, starts, ends, strict=True):
                self.to_gpu(*of_one, **rest)

        def get_shape(self, num_tokens: int) -> Any:
            return torch.Size([2, self.shape[0], num_tokens, self.shape[3] * self.shape[4]])

    return lambda config, metadata, engine, layout_hints=None: Copier(metadata.kv_shape)


def test_the_same_tokens_with_lmcache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMCACHE_CHUNK_SIZE", str(block_size))
    monkeypatch.setenv("LMCACHE_LOCAL_CPU", "True")
    monkeypatch.setenv("LMCACHE_MAX_LOCAL_CPU_SIZE", "0.25")
    monkeypatch.setenv("LMCACHE_TRACK_USAGE", "false")
    import engine
    import lmcache.v1.gpu_connector
    import vllm.triton_utils.dispatcher as dispatcher

    # vLLM looks through all modules; llvmlite, which LMCache loads with numba, has an object without a dict.
    of_an_object = lambda value: made if hasattr(made := builtins.vars(value), "items") else {}  # noqa: E731
    monkeypatch.setattr(dispatcher, "vars", of_an_object, raising=False)
    copied = {"stored": 0, "loaded": 0}
    monkeypatch.setattr(lmcache.v1.gpu_connector, "CreateGPUConnector", copier(copied))
    load = {"prompts": 60, "shared": 100, "blocks": 40, "seqs": 24, "max_prompt": 160}
    with_it = {"kv_transfer_config": {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}}
    expected = engine.run(engine.Setting(**load), False)
    got = engine.run(engine.Setting(**load, own=with_it), True)
    assert got.scheduler == "tessera.vllm.scheduler.Scheduler"
    assert got.outputs == expected.outputs
    assert copied["stored"] > 50 and copied["loaded"] > 50 and got.preempted > 0
