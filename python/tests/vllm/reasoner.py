# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tiny reasoning model of examples/llama_cpp as a folder that vLLM loads, and prompts for it.

pip install gguf
python reasoner.py FOLDER      # then: vllm serve FOLDER --dtype float32 --scheduler-cls tessera.vllm.Scheduler ...

prompt      Add a7 k3 c9.
completion  <think>a:0+7=7 k:7+3=10 c:10+9=19</think>The sum is 19.
"""

from __future__ import annotations

import json
import random
import sys
import zlib
from pathlib import Path
from typing import Any

default = Path(__file__).resolve().parents[3] / "examples/llama_cpp/model/tiny_reasoner.gguf"

#: Its vocabulary: every byte is a token from 3 on, but a space is one of its own.
begin, end, think, end_of_reasoning, space = 1, 2, 259, 260, 261
#: No completion has more tokens.
longest_output = 240

_blank = "\u2581"


def encode(text: str) -> list[int]:
    """A prompt's tokens, with the one that begins every text."""
    return [begin] + [space if byte == ord(" ") else 3 + byte for byte in text.encode()]


def decode(tokens: list[int]) -> str:
    """The text of what it says, without the token that ends it."""
    marks = {think: b"<think>", end_of_reasoning: b"</think>", space: b" ", end: b""}
    return b"".join(marks[t] if t in marks else bytes([t - 3]) for t in tokens).decode()


def draw_prompt(rng: random.Random, items: int) -> str:
    """One that the model was not trained on: a checksum says which."""
    while True:
        labels = rng.sample("abcdefghijklmnopqrstuvwxyz", items)
        digits = [rng.randrange(10) for _ in labels]
        prompt = "Add " + " ".join(f"{label}{digit}" for label, digit in zip(labels, digits, strict=True)) + "."
        if zlib.crc32(prompt.encode()) % 8 == 0:
            return prompt


def completion_of(prompt: str) -> str:
    """What a model that makes no mistake says."""
    steps, total = [], 0
    for item in prompt.removeprefix("Add ").removesuffix(".").split():
        label, digit = item[0], int(item[1:])
        steps.append(f"{label}:{total}+{digit}={total + digit}")
        total += digit
    return f"<think>{' '.join(steps)}</think>The sum is {total}."


def answer_of(completion: str) -> str:
    return completion.partition("</think>")[2]


def convert(folder: str | Path, file: str | Path = default) -> None:
    """Writes config, weights (fp32) and tokenizer of a GGUF file: the architecture llama, f16 or f32, tied output."""
    import gguf
    import numpy as np
    from safetensors.numpy import save_file
    from transformers import LlamaConfig

    reader = gguf.GGUFReader(file)

    def field(name: str) -> Any:
        found = reader.get_field(name)
        if found is None:
            raise ValueError(f"{file}: wanted a GGUF file of the architecture llama, and it does not say {name}")
        return found.contents()

    if field("general.architecture") != "llama":
        raise ValueError(f"{file}: wanted the architecture llama, not {field('general.architecture')}")
    heads, kv_heads = field("llama.attention.head_count"), field("llama.attention.head_count_kv")
    names = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    parts = {
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    weights = {}
    for tensor in reader.tensors:
        if tensor.data.dtype not in (np.float16, np.float32):
            raise ValueError(f"{file}: wanted weights in f16 or f32, and {tensor.name} is {tensor.tensor_type.name}")
        value = tensor.data.astype(np.float32)
        name = names.get(tensor.name)
        if name is None:
            _, layer, part, _ = tensor.name.split(".")
            name = f"model.layers.{layer}.{parts[part]}.weight"
            # There neighbours 2i and 2i+1 turn together, here i and i + half.
            if part in ("attn_q", "attn_k"):
                n = heads if part == "attn_q" else kv_heads
                rows, columns = value.shape
                value = value.reshape(n, rows // n // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
        weights[name] = np.ascontiguousarray(value)

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    tokens = field("tokenizer.ggml.tokens")
    LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=len(tokens),
        hidden_size=field("llama.embedding_length"),
        intermediate_size=field("llama.feed_forward_length"),
        num_hidden_layers=field("llama.block_count"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=field("llama.context_length"),
        rms_norm_eps=field("llama.attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": field("llama.rope.freq_base")},
        tie_word_embeddings=True,
        bos_token_id=field("tokenizer.ggml.bos_token_id"),
        eos_token_id=field("tokenizer.ggml.eos_token_id"),
        dtype="float32",
    ).save_pretrained(folder)
    _write_tokenizer(folder, tokens)


def _write_tokenizer(folder: Path, tokens: list[str]) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: i for i, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>", byte_fallback=True))
    made.normalizer = normalizers.Replace(" ", _blank)
    made.decoder = decoders.Sequence([decoders.Replace(_blank, " "), decoders.ByteFallback(), decoders.Fuse()])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", begin)])
    # Not special: its text shows where the reasoning ends.
    made.add_tokens([AddedToken(mark, normalized=False) for mark in ("<think>", "</think>")])
    PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", bos_token="<s>", eos_token="</s>", clean_up_tokenization_spaces=False
    ).save_pretrained(folder)


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: reasoner.py FOLDER [FILE.gguf]")
    try:
        convert(*sys.argv[1:])
    except (OSError, ValueError, KeyError) as error:
        print(f"reasoner: {error}", file=sys.stderr)
        sys.exit(2)
    said = json.loads((Path(sys.argv[1]) / "config.json").read_text())
    print(f"{sys.argv[1]}: {said['model_type']}, {said['vocab_size']} tokens, end of reasoning {end_of_reasoning}")


if __name__ == "__main__":
    main()
