# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A tiny random model, made here, and vLLM's environment for it on a CPU.

Weights are drawn wide enough that different prompts give different outputs: a block of KV in the wrong place is seen.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

#: To be set before vLLM is imported. With more threads OpenMP's waiting takes longer than the model's work.
environment = {
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
}


def prepare() -> None:
    for name, value in environment.items():
        os.environ.setdefault(name, value)


@cache
def register(module: str, name: str) -> None:
    """Has vLLM look at a model's class here. It would do so in a process of its own, which takes ten seconds."""
    from importlib import import_module

    from vllm import ModelRegistry

    ModelRegistry.register_model(name, getattr(import_module(f"vllm.model_executor.models.{module}"), name))


@cache
def folder(kind: str = "llama") -> str:
    """Where the model is; made at the first call, with a tokenizer of bytes.

    "terse": one that has five tokens for all that it says, so that what it has said before often follows again.
    "window": all of its layers look at 40 tokens. "window and all": every other one. "five windows and all": five of
    six, as Gemma 3's. "near terse": what "terse" says, often. "eagle", "eagle3": drafters for "terse". Others are
    those of tiny_models.py.
    """
    kept = tempfile.TemporaryDirectory(prefix="tessera-model-")
    _kept.append(kept)
    path = Path(kept.name)
    make(path, kind)
    return str(path)


_kept: list[tempfile.TemporaryDirectory] = []

vocabulary = 1024
longest = 2048


def make(path: Path, kind: str = "llama") -> None:
    import tiny_models
    import torch
    from transformers import (
        Gemma3ForCausalLM,
        Gemma3TextConfig,
        LlamaConfig,
        LlamaForCausalLM,
        MistralConfig,
        MistralForCausalLM,
    )

    torch.manual_seed(20)
    values: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": longest,
        "initializer_range": 0.25,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
    }
    if kind in ("eagle", "eagle3"):
        tiny_models.make_eagle(path, values, third=kind == "eagle3")
        return
    if kind in tiny_models.families:
        made = tiny_models.families[kind](values).float()
    elif kind == "window":
        made = MistralForCausalLM(MistralConfig(sliding_window=40, head_dim=32, **values)).float()
    elif kind in ("window and all", "five windows and all"):
        layers = ["sliding_attention"] * (5 if kind.startswith("five") else 1) + ["full_attention"]
        values["num_hidden_layers"] = len(layers)
        config = Gemma3TextConfig(sliding_window=40, head_dim=32, layer_types=layers, pad_token_id=0, **values)
        made = Gemma3ForCausalLM(config).float()
    else:
        made = LlamaForCausalLM(LlamaConfig(**values)).float()
    if "terse" in kind:
        weights = made.lm_head.weight.data
        weights[tiny_models.terse[0]] *= 0.6  # it is rare
        weights.copy_(tiny_models.keep_rows(weights, tiny_models.terse))
    if kind.startswith("near"):
        for weights in made.parameters():
            weights.data += 0.05 * weights.data.std() * torch.randn_like(weights)
    made.save_pretrained(path)

    write_tokenizer(path)


def write_tokenizer(path: Path, **special: str) -> None:
    """A tokenizer of bytes. `special`: the last tokens, by what a processor of images calls them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for letter in sorted(pre_tokenizers.ByteLevel.alphabet()):
        tokens[letter] = len(tokens)
    while len(tokens) < vocabulary - len(special):
        tokens[f"<{len(tokens)}>"] = len(tokens)
    for token in special.values():
        tokens[token] = len(tokens)
    tokenizer = Tokenizer(models.BPE(vocab=tokens, merges=[], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    more = {"extra_special_tokens": special} if special else {}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", **more
    ).save_pretrained(path)


@cache
def adapter(number: int) -> str:
    """The folder of an adapter (LoRA) for it: random, and wide enough that outputs are others."""
    import torch
    from safetensors.torch import save_file

    kept = tempfile.TemporaryDirectory(prefix=f"tessera-adapter-{number}-")
    _kept.append(kept)
    rank, made = 8, torch.Generator().manual_seed(number)
    weights = {}
    for layer in range(2):
        for name, rows in (("q_proj", 128), ("v_proj", 64)):
            module = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            weights[f"{module}.lora_A.weight"] = torch.randn(rank, 128, generator=made) * 0.3
            weights[f"{module}.lora_B.weight"] = torch.randn(rows, rank, generator=made) * 0.3
    save_file(weights, Path(kept.name) / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": rank,
        "target_modules": ["q_proj", "v_proj"],
        "bias": "none",
        "base_model_name_or_path": "",
    }
    (Path(kept.name) / "adapter_config.json").write_text(json.dumps(config))
    return kept.name


if __name__ == "__main__":
    make(Path(sys.argv[1]))
