# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiny models with random weights of the families that a scheduler treats differently, and drafters for the Llama.

The shapes are those that vLLM's kernels for the CPU take. Weights are drawn wide, as in model.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: What all of model.py's models share; a family takes what its configuration has.
Values = dict[str, Any]

#: All that the model "terse" says. The first of them ends some requests.
terse = [30, 100, 101, 102, 103]

experts: Values = {"num_experts_per_tok": 2, "moe_intermediate_size": 64}
#: The kernel for one token's attention knows only these two.
latent: Values = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 32, "v_head_dim": 32}


def deepseek_v2(values: Values) -> Any:
    from transformers import DeepseekV2Config, DeepseekV2ForCausalLM

    routed = experts | {"n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1}
    more = {"num_key_value_heads": 4, "q_lora_rank": None, "n_group": 1, "topk_group": 1}
    return DeepseekV2ForCausalLM(DeepseekV2Config(**values | latent | routed | more))


def deepseek_v3(values: Values) -> Any:
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    routed = experts | {"n_routed_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1}
    more = {"num_key_value_heads": 4, "q_lora_rank": 64, "n_group": 4, "topk_group": 2, "num_nextn_predict_layers": 0}
    more |= {"topk_method": "noaux_tc"}
    return DeepseekV3ForCausalLM(DeepseekV3Config(**values | latent | routed | more))


def gpt_oss(values: Values) -> Any:
    """A layer with a window, and one that looks at all; a sink for each head."""
    from transformers import GptOssConfig, GptOssForCausalLM

    more = {"head_dim": 32, "sliding_window": 40, "num_local_experts": 4, "num_experts_per_tok": 2}
    return GptOssForCausalLM(GptOssConfig(**values | more))


def llama4(values: Values) -> Any:
    """Three layers that look at chunks of 64 tokens, and one that looks at all."""
    from transformers import Llama4ForCausalLM, Llama4TextConfig

    more = {"num_hidden_layers": 4, "head_dim": 32, "attention_chunk_size": 64, "num_local_experts": 4}
    more |= {"intermediate_size_mlp": 256, "pad_token_id": 0}
    return Llama4ForCausalLM(Llama4TextConfig(**values | more))


def qwen3_next(values: Values) -> Any:
    """Three layers of Gated DeltaNet, which keep a state, and one of attention. All experts of the last layer compute
    each token: in bfloat16 it may change by rounding which of them would."""
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    more = {"num_hidden_layers": 4, "head_dim": 256, "mlp_only_layers": [0, 1, 2]}
    more |= experts | {"num_experts": 2, "shared_expert_intermediate_size": 64}
    more |= {"linear_num_key_heads": 2, "linear_num_value_heads": 2}
    more |= {"linear_key_head_dim": 64, "linear_value_head_dim": 64}
    return Qwen3NextForCausalLM(Qwen3NextConfig(**values | more))


def mamba2(values: Values) -> Any:
    from transformers import Mamba2Config, Mamba2ForCausalLM

    names = ("vocab_size", "hidden_size", "num_hidden_layers", "initializer_range", "bos_token_id", "eos_token_id")
    shape = {"num_heads": 8, "head_dim": 32, "state_size": 16, "n_groups": 1}
    return Mamba2ForCausalLM(Mamba2Config(**{name: values[name] for name in names} | shape))


families: dict[str, Callable[[Values], Any]] = {
    f.__name__: f for f in (deepseek_v2, deepseek_v3, gpt_oss, llama4, qwen3_next, mamba2)
}


def keep_rows(weights: Any, rows: list[int]) -> Any:
    import torch

    return torch.zeros_like(weights).index_copy(0, torch.tensor(rows), weights[rows])


def make_eagle(path: Path, values: Values, third: bool) -> None:
    """A drafter of one layer. EAGLE's reads an embedding beside the model's last state, and has the model's head.
    EAGLE3's reads the states before, between and after its two layers, and has a head of its own."""
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaConfig, LlamaForCausalLM

    made = LlamaForCausalLM(LlamaConfig(**values | {"num_hidden_layers": 1})).float()
    size = values["hidden_size"]
    weights = {name.removeprefix("model."): value for name, value in made.state_dict().items()}
    del weights["embed_tokens.weight"]
    if third:
        weights = {name.replace("layers.0", "midlayer"): value for name, value in weights.items()}
        weights["midlayer.hidden_norm.weight"] = torch.ones(size)
        for part in "qkv":  # embedding and state beside each other
            old = weights[f"midlayer.self_attn.{part}_proj.weight"]
            weights[f"midlayer.self_attn.{part}_proj.weight"] = torch.randn(len(old), 2 * size) * 0.2
        weights["fc.weight"] = torch.randn(size, 3 * size) * 0.1
        weights["lm_head.weight"] = keep_rows(weights["lm_head.weight"], terse)
    else:
        for name in ("lm_head.weight", "norm.weight", "layers.0.input_layernorm.weight"):
            del weights[name]
        weights["fc.weight"] = torch.randn(size, 2 * size) * 0.1
    weights = {name: value.contiguous() for name, value in weights.items()}
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    kind = "LlamaForCausalLMEagle3" if third else "LlamaForCausalLM"
    config = made.config.to_dict() | {"architectures": [kind], "torch_dtype": "float32"}
    if third:
        config["eagle_aux_hidden_state_layer_ids"] = [0, 1, 2]
    (path / "config.json").write_text(json.dumps(config))
