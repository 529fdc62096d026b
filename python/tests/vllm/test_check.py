# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m tessera.vllm --check` says what an engine of the same options would do, by a model's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import model
import pytest
from transformers import (
    DeepseekV2Config,
    Gemma3TextConfig,
    GptOssConfig,
    Llama4TextConfig,
    LlamaConfig,
    MistralConfig,
    Qwen3NextConfig,
)

from tessera.vllm.__main__ import _check

small: dict[str, Any] = {
    "vocab_size": 1024,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 512,
}
five_to_one = [*["sliding_attention"] * 5, "full_attention"] * 2
in_turn = ["sliding_attention", "full_attention"] * 3

#: The architecture, its configuration, and why vLLM's own scheduler would serve it; "": ours would.
models = {
    "full": ("LlamaForCausalLM", LlamaConfig(num_hidden_layers=3, **small), ""),
    "a window in all layers": (
        "MistralForCausalLM",
        MistralConfig(num_hidden_layers=3, sliding_window=64, **small),
        "",
    ),
    "a window in every other layer": (
        "GptOssForCausalLM",
        GptOssConfig(num_hidden_layers=6, sliding_window=64, layer_types=in_turn, **small),
        "",
    ),
    "five windows to one": (
        "Gemma3ForCausalLM",
        Gemma3TextConfig(num_hidden_layers=12, sliding_window=64, layer_types=five_to_one, **small),
        "6 groups of KV blocks instead of 2 at most",
    ),
    "states": (
        "Qwen3NextForCausalLM",
        Qwen3NextConfig(
            num_hidden_layers=4, layer_types=[*["linear_attention"] * 3, "full_attention"], num_experts=2, **small
        ),
        "state-space layers",
    ),
    "latent": ("DeepseekV2ForCausalLM", DeepseekV2Config(num_hidden_layers=2, **small), "latent attention"),
    "chunks": (
        "Llama4ForCausalLM",
        Llama4TextConfig(num_hidden_layers=4, attention_chunk_size=64, num_local_experts=2, **small),
        "attention to chunks",
    ),
}


def check(folder: Path, *more: str) -> int:
    return _check(
        ["--model", str(folder), "--skip-tokenizer-init", "--dtype", "float32", "--max-model-len", "256", *more]
    )


@pytest.mark.parametrize("kind", models)
def test_layers(capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str) -> None:
    architecture, config, reason = models[kind]
    config.architectures = [architecture]
    config.save_pretrained(tmp_path)
    code = check(tmp_path)
    said = capsys.readouterr()
    if reason:
        assert code == 1 and f"Not had: {reason}\n" in said.out and "vLLM's own scheduler would do all" in said.out, (
            said
        )
        # As at start.
        assert check(tmp_path, "--additional-config", '{"tessera": {"fallback": false}}') == 2
    else:
        assert code == 0 and said.out.endswith("tessera would schedule.\n"), said


def test_windows_that_are_kept_whole_are_one_group(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    architecture, config, _ = models["five windows to one"]
    config.architectures = [architecture]
    config.save_pretrained(tmp_path)
    assert check(tmp_path, "--disable-hybrid-kv-cache-manager") == 0
    assert "tessera would schedule." in capsys.readouterr().out


def test_options_of_the_server_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(Path(model.folder()), "--port", "8001") == 0
    assert "tessera would schedule." in capsys.readouterr().out
