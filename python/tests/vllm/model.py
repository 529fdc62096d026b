# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A tiny random model, made here, and vLLM's environment for it on a CPU.

Weights are drawn wide enough that different prompts give different outputs: a block of KV in the wrong place is seen.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import cache
from pathlib import Path

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
def folder() -> str:
    """Where the model is; made at the first call, with a tokenizer of bytes."""
    kept = tempfile.TemporaryDirectory(prefix="tessera-model-")
    _kept.append(kept)
    path = Path(kept.name)
    make(path)
    return str(path)


_kept: list[tempfile.TemporaryDirectory] = []

vocabulary = 1024
longest = 2048


def make(path: Path) -> None:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(20)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=longest,
            initializer_range=0.25,
            bos_token_id=1,
            eos_token_id=2,
            tie_word_embeddings=False,
        )
    ).float().save_pretrained(path)

    tokens = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for letter in sorted(pre_tokenizers.ByteLevel.alphabet()):
        tokens[letter] = len(tokens)
    while len(tokens) < vocabulary:
        tokens[f"<{len(tokens)}>"] = len(tokens)
    tokenizer = Tokenizer(models.BPE(vocab=tokens, merges=[], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    ).save_pretrained(path)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
