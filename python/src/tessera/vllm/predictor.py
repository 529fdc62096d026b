# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a trained model says of requests, and of how long their outputs will be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tessera.rank import LengthCalibrator, Model


class Predictor:
    """Expected lengths by a trained model's scores, as the outputs that end turn out."""

    #: How many outputs are seen between two fits.
    every = 128

    def __init__(self, model: Model, text_of: Callable[[list[int]], str] | None) -> None:
        self.model = model
        self.text_of = text_of
        self.calibrator = LengthCalibrator()
        self.scores: dict[str, float] = {}  #: of those that have not ended, by id
        self.seen = 0

    def predict(self, request: Any) -> tuple[float, int]:
        """The score of a request, and how many tokens it is expected to generate; 0: not known yet."""
        ids = request.prompt_token_ids
        score = self.model.score(ids if self.text_of is None else self.text_of(ids))
        self.scores[request.request_id] = score
        return score, self.calibrator(score)

    def ended(self, request: Any, is_whole: bool) -> None:
        """A request has ended, by itself or not: then it says nothing of lengths."""
        score = self.scores.pop(request.request_id, None)
        if score is None or not is_whole:
            return
        self.calibrator.observe(score, request.num_output_tokens)
        self.seen += 1
        if self.seen % self.every == 0:
            self.calibrator.fit()
