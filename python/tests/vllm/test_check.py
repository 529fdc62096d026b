# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m tessera.vllm --check` says what an engine of the same options would do, by a model's configuration."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import model
import pytest
import stub
import torch
from transformers import (
    DeepseekV2Config,
    DeepseekV4Config,
    Gemma3TextConfig,
    GptOssConfig,
    Llama4TextConfig,
    LlamaConfig,
    MistralConfig,
    Qwen3NextConfig,
)

from tessera.vllm import support
from tessera.vllm.__main__ import _check
from tessera.vllm.support import why_not_model

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
alternating = ["sliding_attention", "full_attention"] * 3
states = [*["linear_attention"] * 3, "full_attention"]

#: Configurations of models, and why vLLM's own scheduler would serve them; "": ours would.
models = {
    "full": (LlamaConfig(num_hidden_layers=3, **small), ""),
    "a window in all layers": (MistralConfig(num_hidden_layers=3, sliding_window=64, **small), ""),
    "a window in every other layer": (
        GptOssConfig(num_hidden_layers=6, sliding_window=64, layer_types=alternating, **small),
        "",
    ),
    "five windows to one": (
        Gemma3TextConfig(num_hidden_layers=12, sliding_window=64, layer_types=five_to_one, **small),
        "",
    ),
    "twenty windows to one": (
        Gemma3TextConfig(
            num_hidden_layers=21,
            sliding_window=64,
            layer_types=[*["sliding_attention"] * 20, "full_attention"],
            **small,
        ),
        "21 groups of KV blocks (1 to 16 are supported): SlidingWindowSpec, FullAttentionSpec",
    ),
    "a window of two tokens": (MistralConfig(num_hidden_layers=3, sliding_window=2, **small), "a window of 2 tokens"),
    "states": (Qwen3NextConfig(num_hidden_layers=4, layer_types=states, num_experts=2, **small), "not told"),
    "latent": (DeepseekV2Config(num_hidden_layers=2, **small), ""),
    "latent and compressed": (DeepseekV4Config(num_hidden_layers=4, **small), ""),
    "chunks": (
        Llama4TextConfig(num_hidden_layers=4, attention_chunk_size=64, num_local_experts=2, **small),
        "",
    ),
    "chunks in every other layer": (
        Llama4TextConfig(
            num_hidden_layers=4, attention_chunk_size=64, num_local_experts=2, no_rope_layers=[1, 0, 1, 0], **small
        ),
        "",
    ),
}


def configured(kind: str) -> Any:
    """vLLM's configuration with another model in it: as much of that as its layers' kinds are found by."""
    hf = models[kind][0]
    made = copy.copy(stub.config())
    made.cache_config.block_size = 16
    made.model_config = SimpleNamespace(
        hf_text_config=hf,
        use_mla="latent" in kind,
        is_hybrid=kind == "states",
        is_attention_free=False,
        dtype=torch.float32,
        get_sliding_window=lambda: getattr(hf, "sliding_window", None),
        get_num_layers=lambda parallel: hf.num_hidden_layers,
        get_num_kv_heads=lambda parallel: hf.num_key_value_heads,
        get_head_size=lambda: hf.head_dim,
    )
    return made


@pytest.mark.parametrize("kind", models)
def test_layers(kind: str) -> None:
    if models[kind][1] == "not told":
        with pytest.raises(ValueError, match="its configuration does not tell the groups of its states"):
            list(why_not_model(configured(kind)))
        return
    assert list(why_not_model(configured(kind))) == ([reason] if (reason := models[kind][1]) else [])


def test_latent_attention_of_unknown_kinds_is_not_vouched_for() -> None:
    made = configured("latent")
    made.model_config.hf_text_config = DeepseekV2Config(num_hidden_layers=2, **small)
    made.model_config.hf_text_config.model_type = "hy_v4"
    with pytest.raises(ValueError, match="latent attention of hy_v4"):
        list(why_not_model(made))


def test_compressed_latents_have_windows_beside_them() -> None:
    made = configured("latent and compressed")
    made.scheduler_config.enable_chunked_prefill = False
    assert list(why_not_model(made)) == ["prompts in one piece with windows or several groups of KV blocks"]
    made.model_config.hf_text_config = copy.copy(made.model_config.hf_text_config)
    made.model_config.hf_text_config.model_type = "deepseek_v41"
    assert list(why_not_model(made)) == ["windows with 128 tokens that are computed again"]


@pytest.mark.parametrize("kind", ["twenty windows to one", "chunks"])
def test_windows_that_are_kept_whole_are_one_group(kind: str) -> None:
    made = configured(kind)
    made.scheduler_config.disable_hybrid_kv_cache_manager = True
    assert list(why_not_model(made)) == []


def check(folder: Path, *more: str) -> int:
    return _check(
        ["--model", str(folder), "--skip-tokenizer-init", "--dtype", "float32", "--max-model-len", "256", *more]
    )


def test_a_model_that_would_be_handed_back(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config, reason = models["twenty windows to one"]
    config.architectures = ["Gemma3ForCausalLM"]
    model.register("gemma3", "Gemma3ForCausalLM")
    config.save_pretrained(tmp_path)
    assert check(tmp_path) == 1
    said = capsys.readouterr().out
    assert f"  not supported     {reason}\n" in said and "  scheduler         vLLM's own scheduler\n" in said
    assert said.endswith("vLLM's own scheduler would do all of it.\n")
    # As at start.
    assert check(tmp_path, "--additional-config", '{"tessera": {"fallback": false}}') == 2


def test_options_of_the_server_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(Path(model.folder()), "--port", "8001") == 0
    assert capsys.readouterr().out.endswith("tessera would schedule.\n")


def test_without_options_it_names_what_is_handed_back(capsys: pytest.CaptureFixture[str]) -> None:
    """Each in one line, and no states, which are served."""
    assert _check([]) == 0
    _, said = capsys.readouterr().out.split("Done by vLLM's own scheduler, with a warning:\n")
    reasons = [reason for reason, _ in support._questions]
    assert said == "".join(f"  {reason}\n" for reason in (*reasons, *support.of_memory))
    assert "state-space" not in said and "prefix caching" not in said
