# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models that are served most on vLLM, as a scheduler sees them: kinds of layers, how these alternate, and inputs.

python models.py --write  brings the table on docs/vllm_models.md up to date; test_models.py compares it.
"""

from __future__ import annotations

import copy
import math
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import model

model.prepare()

import stub  # noqa: E402
import torch  # noqa: E402
from vllm.v1.core import kv_cache_utils  # noqa: E402
from vllm.v1.kv_cache_interface import (  # noqa: E402
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
)

from tessera.vllm import support  # noqa: E402

try:
    from vllm.v1.core.kv_cache_planning import get_kv_cache_groups
except ImportError:  # before 0.33
    get_kv_cache_groups = kv_cache_utils.get_kv_cache_groups

shape: dict[str, Any] = {"block_size": 16, "num_kv_heads": 1, "dtype": torch.bfloat16}


def full() -> Any:
    return FullAttentionSpec(head_size=128, **shape)


def window() -> Any:
    return SlidingWindowSpec(head_size=128, sliding_window=1024, **shape)


def chunk() -> Any:
    return ChunkedLocalAttentionSpec(head_size=128, attention_chunk_size=8192, **shape)


def latent() -> Any:
    return MLAAttentionSpec(head_size=576, **shape)


def indexer() -> Any:
    return MLAAttentionSpec(head_size=132, **shape | {"dtype": torch.uint8})


#: What DeepSeek-V4's layers have in common, with KV in 8 bits.
v4: dict[str, Any] = {"num_kv_heads": 1, "dtype": torch.uint8, "alignment": 576}
of_v4: dict[str, Any] = {"cache_dtype_str": "fp8_ds_mla", "state_content_bytes": 584, "model_version": "deepseek_v4"}


def compressed(tokens: int) -> Any:
    """Latents of so many tokens each."""
    return MLAAttentionSpec(block_size=256, head_size=512, tokens_per_state=tokens, **v4, **of_v4)


def compressed_indexer() -> Any:
    return MLAAttentionSpec(block_size=256, head_size=132, tokens_per_state=4, **v4)


def latent_window() -> Any:
    return SlidingWindowMLASpec(block_size=64, head_size=512, sliding_window=128, **v4, **of_v4)


def compressing(block_size: int, head_size: int, window: int) -> Any:
    """What of the latest tokens is not compressed yet, or once more."""
    more = v4 | {"dtype": torch.float32}
    return SlidingWindowMLASpec(block_size=block_size, head_size=head_size, sliding_window=window, **more)


def layers_of_v4(by_4: int, by_128: int, windows: int) -> tuple[tuple[Any, int], ...]:
    """As vLLM 0.33's model files make them: `by_4` layers with latents of 4 tokens, `by_128` with latents of 128.
    `windows` layers have a window, that of MTP as well."""
    return (
        (latent_window, windows),
        (partial(compressed, 128), by_128),
        (partial(compressing, 8, 1024, 128), by_128),
        (compressed_indexer, by_4),
        (partial(compressing, 4, 512, 8), by_4),
        (partial(compressed, 4), by_4),
        (partial(compressing, 4, 2048, 8), by_4),
    )


def state() -> Any:
    """The state of a request; vLLM makes its blocks as large as those of attention."""
    page = latent().page_size_bytes
    return MambaSpec(block_size=stub.longest, shapes=((8,),), dtypes=(torch.bfloat16,), page_size_padded=page)


@dataclass(frozen=True)
class Model:
    name: str
    layers: tuple[tuple[Any, int], ...]  #: kinds, and how many of each
    images: bool = False
    drafts: str = ""  #: what drafts by vLLM's recipe


def each(*names: str, layers: tuple[tuple[Any, int], ...], images: bool = False, drafts: str = "") -> list[Model]:
    return [Model(name, layers, images, drafts) for name in names]


#: They make vLLM keep further tokens of windows.
modules = "MTP of several modules"

models: list[Model] = [
    *each("Qwen3 0.6B", "Qwen3 4B", "Qwen3 8B", "Qwen3 32B", layers=((full, 36),), drafts="EAGLE3"),
    *each("Qwen3 30B-A3B", "Qwen3 235B-A22B", "Qwen3-Coder 480B-A35B", layers=((full, 48),), drafts="EAGLE3"),
    *each("Qwen2.5 7B", layers=((full, 28),)),
    *each("Llama 3.1 8B", "Llama 3.2 3B", "Llama 3.3 70B", layers=((full, 32),), drafts="EAGLE3"),
    *each("gpt-oss 20B", "gpt-oss 120B", layers=((window, 12), (full, 12)), drafts="EAGLE3"),
    *each("Phi-4", layers=((full, 40),)),
    *each("MiniMax-M2.7", layers=((full, 62),), drafts="EAGLE3"),
    *each("GLM-4.7", layers=((full, 92),), drafts="MTP"),
    *each("Hy3", layers=((full, 80),), drafts="MTP"),
    *each("Seed-OSS 36B", layers=((full, 64),)),
    *each("DeepSeek-R1 and V3.1", layers=((latent, 61),), drafts="MTP"),
    *each("Kimi-K2-Thinking", layers=((latent, 61),)),
    *each("DeepSeek-V3.2", "GLM-5.2", layers=((latent, 61), (indexer, 61)), drafts="MTP"),
    *each("DeepSeek-V4 Pro", layers=layers_of_v4(30, 31, 62), drafts="MTP"),
    *each("DeepSeek-V4 Flash", layers=layers_of_v4(21, 20, 44), drafts="MTP"),
    *each("Kimi-K2.6", "Mistral-Large-3", layers=((latent, 61),), images=True, drafts="EAGLE"),
    *each("Kimi-K3", layers=((state, 60), (latent, 20)), images=True),
    *each("MiniMax-M3", layers=((full, 60), (indexer, 60)), images=True, drafts="EAGLE3"),
    *each("Qwen3-Next 80B-A3B", layers=((state, 36), (full, 12)), drafts="MTP"),
    *each("Qwen3.5", "Qwen3.6", "Qwen3.8", layers=((state, 36), (full, 12)), images=True, drafts="MTP"),
    *each("Qwen2.5-VL 7B", "Qwen3-VL 8B", "Ministral-3 8B", layers=((full, 34),), images=True),
    *each("Gemma 3 27B", layers=((window, 52), (full, 10)), images=True),
    *each("Gemma 4 31B", layers=((window, 50), (full, 10)), images=True, drafts="MTP"),
    *each("Llama 4 Scout", layers=((chunk, 36), (full, 12)), images=True),
    *each("Nemotron-3-Nano", layers=((state, 23), (full, 6))),
    *each("Step-3.5-Flash", layers=((window, 33), (full, 12)), drafts=modules),
]


def memory_of(m: Model, caching: bool, hybrid: bool = True) -> Any:
    """The groups that vLLM makes of its layers."""
    made = stub.config(caching=caching, drafts=3 * (m.drafts == modules), drafter="modules")
    made.scheduler_config.disable_hybrid_kv_cache_manager = not hybrid
    kinds = [kind for kind, _ in m.layers]
    # DeepSeek-V4's indexer asks for blocks that have all layers beside one another.
    made.cache_config.kv_cache_layout = "BLHNC" if compressed_indexer in kinds else "NHD"
    specs: dict[str, Any] = {}
    has_states = state in kinds
    for k, (kind, n) in enumerate(m.layers):
        for i in range(n):
            spec = kind()
            if kind is window and m.drafts == modules:
                spec = replace(spec, extra_retained_tokens=2)
            if kind is state:
                spec = copy.copy(spec)
                object.__setattr__(spec, "mamba_cache_mode", "align" if caching else "none")
                if caching:
                    object.__setattr__(spec, "block_size", shape["block_size"])
            elif has_states:
                spec = copy.copy(spec)
                object.__setattr__(spec, "page_size_padded", state().page_size_bytes)
            specs[f"{k} {i}"] = spec
    groups = get_kv_cache_groups(made, specs)
    worker = KVCacheConfig(num_blocks=60, kv_cache_tensors=[], kv_cache_groups=groups)
    return made, kv_cache_utils.generate_scheduler_kv_cache_config([worker])


def why_not(m: Model, caching: bool = True, hybrid: bool = True) -> list[str]:
    """Why vLLM's own scheduler would serve it."""
    made, memory = memory_of(m, caching, hybrid)
    sizes = {group.kv_cache_spec.block_size for group in memory.kv_cache_groups}
    return list(support.why_not_memory(memory, math.lcm(*sizes), made))


def is_scheduled(m: Model) -> bool:
    return not why_not(m)


def table() -> str:
    lines = [
        "| model | images | groups of KV blocks | drafts by its recipe | schedules here |",
        "|---|---|---|---|---|",
    ]
    for m in models:
        groups = len(memory_of(m, caching=False)[1].kv_cache_groups)
        answer = "yes" if is_scheduled(m) else "no: " + why_not(m)[0]
        lines.append(f"| {m.name} | {'yes' if m.images else ''} | {groups} | {m.drafts} | {answer} |")
    lines.append("")
    lines.append(f"{sum(map(is_scheduled, models))} of the {len(models)} are scheduled.")
    return "\n".join(lines) + "\n"


page = Path(__file__).parents[3] / "docs" / "vllm_models.md"
begin = "<!-- made by python/tests/vllm/models.py -->\n"


def with_table(text: str) -> str:
    return text[: text.index(begin) + len(begin)] + table()


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        page.write_text(with_table(page.read_text()))
    else:
        print(table(), end="")
