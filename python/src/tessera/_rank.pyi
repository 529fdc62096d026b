# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Predicted output lengths; use tessera.rank."""

from collections.abc import Sequence

class Model:
    """Ranks prompts by how long their outputs are expected to be."""

    @staticmethod
    def train(
        prompts: Sequence[str | Sequence[int]], lengths: list[float], objective: str, seed: int, delta: float
    ) -> Model:
        """Learns from prompts and the lengths of their outputs."""
    @staticmethod
    def from_bytes(file: bytes) -> Model:
        """What `to_bytes`, or `rank train`, wrote."""
    def to_bytes(self) -> bytes:
        """As a file, which `rank` reads, too."""
    def score(self, prompt: str | Sequence[int]) -> float:
        """The score of a prompt, a str or its token ids; higher is longer."""
    def scores(self, prompts: Sequence[str | Sequence[int]]) -> list[float]:
        """The scores of several."""
    def tau_b(self, prompts: Sequence[str | Sequence[int]], lengths: list[float]) -> tuple[float, float]:
        """Kendall's tau-b of the scores with these lengths, and its standard error."""

class LengthCalibrator:
    """Scores as expected lengths, learned from the outputs that ended."""

    def __init__(self, window: int = 4096, groups: int = 32) -> None: ...
    def observe(self, score: float, output: int) -> None:
        """An output of `output` tokens has ended."""
    def fit(self) -> None:
        """Learns from what was observed."""
    def __call__(self, score: float) -> int:
        """Expected tokens; 0 before the first fit."""
    def __len__(self) -> int: ...

class LengthDistribution:
    """How long an output will still be, given how long it is already."""

    def __init__(self, window: int = 4096, groups: int = 8) -> None: ...
    def observe(self, score: float, output: int) -> None:
        """An output of `output` tokens has ended."""
    def fit(self, running: list[tuple[float, int]] = ...) -> None:
        """Learns from what was observed, and from (score, tokens so far) of the outputs that run."""
    def expected_rest(self, score: float, generated: int) -> int:
        """Tokens that it is expected to generate from now on."""
    def rest_quantile(self, score: float, generated: int, q: float) -> int:
        """The number of tokens that it still generates is at most this with probability q."""
    def __len__(self) -> int: ...
    @property
    def drift(self) -> float:
        """How far outputs are from what was learned. Above 10 what was learned no longer holds."""
