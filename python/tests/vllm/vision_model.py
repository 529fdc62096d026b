# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiny random models that see images, made here as model.py's, and images for them.

The weights of the vision towers are drawn wide enough that another image gives another output.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import model

#: Square images of so many pixels a side, in square patches. LLaVA has an embedding for each patch.
side, patch = 98, 14
embeddings = (side // patch) ** 2

#: The last tokens of the vocabulary, by what the models' processors call them.
special = {
    "llava": {"image_token": "<image>"},
    "llava_next": {"image_token": "<image>"},
    "gemma3": {"boi_token": "<start_of_image>", "image_token": "<image_soft_token>", "eoi_token": "<end_of_image>"}
    | {f"newlines_{n}": "\n" * n for n in range(1, 5)},
}

#: Where vLLM has their classes.
classes = {
    "llava": ("llava", "LlavaForConditionalGeneration"),
    "llava_next": ("llava_next", "LlavaNextForConditionalGeneration"),
    "gemma3": ("gemma3_mm", "Gemma3ForConditionalGeneration"),
}

_kept: list[tempfile.TemporaryDirectory] = []


@cache
def register(kind: str = "llava") -> None:
    """Lets vLLM have the model's class where torchvision is not installed, as in the tests' environment.

    Transformers reads images by Pillow then. But modules that vLLM imports, import torchvision's as well, which are
    empty here. And vLLM would look at the class in a process of its own, where they are not.
    """
    from transformers.utils import is_torchvision_available

    if is_torchvision_available():
        return
    whole = ["torchvision", "transforms", "v2", "functional"]
    names = [".".join(whole[: n + 1]) for n in range(len(whole))]
    for name in names:
        sys.modules.setdefault(name, ModuleType(name))
    for name in names[1:]:
        above, _, below = name.rpartition(".")
        setattr(sys.modules[above], below, sys.modules[name])
    model.register(*classes[kind])


@cache
def folder(kind: str = "llava") -> str:
    """Where a model is; made at the first call. "llava": CLIP before Llama, as many embeddings for each image.
    "llava_next": the same with an image in tiles, so that there are more for a wide one. "gemma3": SigLIP before
    Gemma 3, with windows; text before and behind each image belongs to it."""
    kept = tempfile.TemporaryDirectory(prefix="tessera-vision-")
    _kept.append(kept)
    make(Path(kept.name), kind)
    register(kind)
    return kept.name


def token(kind: str, name: str = "image_token") -> int:
    """The number of a special token."""
    names = list(special[kind])
    return model.vocabulary - len(names) + names.index(name)


def mark(kind: str) -> int:
    """The token that stands for an image in a prompt."""
    return token(kind, next(iter(special[kind])))


def marks(kind: str) -> range:
    """All tokens that a text does not have."""
    return range(model.vocabulary - len(special[kind]), model.vocabulary)


def _write(path: Path, name: str, values: dict[str, Any]) -> None:
    (path / name).write_text(json.dumps(values))


def _text(**more: Any) -> dict[str, Any]:
    return {
        "vocab_size": model.vocabulary,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": model.longest,
        "initializer_range": 0.25,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
        **more,
    }


def _tower(**more: Any) -> dict[str, Any]:
    return {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": side,
        "patch_size": patch,
        **more,
    }


def make(path: Path, kind: str) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    torch.manual_seed(21)
    made = {"llava": _llava, "llava_next": _llava_next, "gemma3": _gemma3}[kind](path)
    for name, weights in made.named_parameters():
        if weights.dim() > 1 and ("vision" in name or "projector" in name):
            torch.nn.init.normal_(weights, std=1.5 * weights[0].numel() ** -0.5)
    made.float().save_pretrained(path)
    # Published models have a name between these; transformers 5 has none when it writes, and vLLM asks for it.
    file = path / "model.safetensors"
    tower, published = re.compile(r"vision_tower\.(?!vision_model)"), "vision_tower.vision_model."
    save_file({tower.sub(published, name): w for name, w in load_file(file).items()}, file, {"format": "pt"})
    model.write_tokenizer(path, **special[kind])


def _clip_and_llama(kind: str) -> dict[str, Any]:
    from transformers import CLIPVisionConfig, LlamaConfig

    return {
        "vision_config": CLIPVisionConfig(**_tower()),
        "text_config": LlamaConfig(**_text()),
        "image_token_index": token(kind),
        "vision_feature_layer": -1,
        "tie_word_embeddings": False,
    }


def _write_llava_processor(path: Path, kind: str, of_images: str, **more: Any) -> None:
    """`more`: what the processor of images knows beside the size."""
    _write(
        path,
        "preprocessor_config.json",
        {
            "image_processor_type": f"{of_images}ImageProcessor",
            "size": {"shortest_edge": side},
            "crop_size": {"height": side, "width": side},
            **more,
        },
    )
    _write(
        path,
        "processor_config.json",
        {
            "processor_class": f"{kind}Processor",
            "patch_size": patch,
            "vision_feature_select_strategy": "default",
            "num_additional_image_tokens": 1,
            "image_token": "<image>",
        },
    )


def _llava(path: Path) -> Any:
    from transformers import LlavaConfig, LlavaForConditionalGeneration

    _write_llava_processor(path, "Llava", "CLIP")
    return LlavaForConditionalGeneration(LlavaConfig(**_clip_and_llama("llava"), image_seq_length=embeddings))


def _llava_next(path: Path) -> Any:
    from transformers import LlavaNextConfig, LlavaNextForConditionalGeneration

    tiles = {"image_grid_pinpoints": [[side, side], [side, 2 * side], [2 * side, side]]}
    _write_llava_processor(path, "LlavaNext", "LlavaNext", **tiles)
    return LlavaNextForConditionalGeneration(LlavaNextConfig(**_clip_and_llama("llava_next"), **tiles))


def _gemma3(path: Path) -> Any:
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3TextConfig, SiglipVisionConfig

    text = Gemma3TextConfig(
        sliding_window=40,
        head_dim=32,
        layer_types=["sliding_attention", "full_attention"],
        pad_token_id=0,
        **_text(),
    )
    config = Gemma3Config(
        vision_config=SiglipVisionConfig(**_tower(image_size=4 * patch)),
        text_config=text,
        mm_tokens_per_image=16,
        boi_token_index=token("gemma3", "boi_token"),
        eoi_token_index=token("gemma3", "eoi_token"),
        image_token_index=token("gemma3"),
        tie_word_embeddings=False,
    )
    # Attention that looks ahead within an image, which vLLM does not have on a CPU.
    config.is_mm_prefix_lm = False
    _write(
        path,
        "preprocessor_config.json",
        {
            "image_processor_type": "Gemma3ImageProcessor",
            "size": {"height": 4 * patch, "width": 4 * patch},
            "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5],
        },
    )
    _write(path, "processor_config.json", {"processor_class": "Gemma3Processor", "image_seq_length": 16})
    return Gemma3ForConditionalGeneration(config)


@cache
def image(number: int) -> Any:
    """One of noise; each third one is wide, and each third one high."""
    from PIL import Image

    size = ((side, side), (2 * side, side), (side, 2 * side))[number % 3]
    return Image.frombytes("RGB", size, random.Random(number).randbytes(3 * size[0] * size[1]))
