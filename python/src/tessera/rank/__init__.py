# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Predicted output lengths: learned from a server's own log, in seconds, for `pars` and `due_first`.

>>> from tessera import rank
>>> model = rank.train(prompts, output_tokens)  # prompts: str, or lists of token ids
>>> model.tau_b(other_prompts, other_output_tokens)
>>> rank.save(model, "lengths.rank")            # the tool `rank` reads it, and tessera.vllm: {"model": "lengths.rank"}

A model ranks: only the order of its scores means something. A LengthCalibrator turns scores into lengths. A
LengthDistribution predicts how many tokens are left of an output from the tokens so far.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tessera._rank import LengthCalibrator, LengthDistribution, Model
from tessera._types import types_in_words

__all__ = ["LengthCalibrator", "LengthDistribution", "Model", "Prompt", "load", "save", "train"]

#: Text, or token ids. A model reads what it was trained on: text or ids of one tokenizer.
Prompt = str | Sequence[int]


@types_in_words
def train(
    prompts: Sequence[Prompt],
    lengths: Sequence[float],
    *,
    objective: str = "pairwise",
    seed: int = 1,
    delta: float = 0.2,
) -> Model:
    """Learns to rank prompts by the length of their outputs in tokens, reasoning included.

    `objective`: "pairwise" (PARS), "listwise" or "pointwise". `delta`: pairs with a smaller relative difference of
    lengths are not learned from. The same arguments give the same model. ValueError for invalid arguments.
    """
    for name, given in (("prompts", prompts), ("lengths", lengths)):
        if isinstance(given, str) or not hasattr(given, "__getitem__"):
            raise TypeError(f"{name} must be a list, not {given!r:.80}")
    return Model.train(prompts, [float(n) for n in lengths], objective, seed, delta)


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Writes a model to a file, whole or not at all."""
    if not isinstance(model, Model):
        raise TypeError(f"model must be a Model, not {model!r:.80}")
    target = Path(path)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(model.to_bytes())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str]) -> Model:
    """Reads a model from a file of `save`, or of the tool `rank`. OSError, or ValueError that names the file."""
    try:
        return Model.from_bytes(Path(path).read_bytes())
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None
