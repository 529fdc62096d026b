# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Predicted lengths: trained on a log, kept in a file, and read where vLLM's requests are described."""

from __future__ import annotations

import math
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tessera import rank
from tessera.vllm.options import Options, OptionsError
from tessera.vllm.predictor import Predictor

kinds = {"say yes or no": 5, "list the steps": 60, "write an essay": 700}


def log(n: int, seed: int) -> tuple[list[str], list[float]]:
    draw = random.Random(seed)
    prompts, lengths = [], []
    for _ in range(n):
        ask, length = draw.choice(list(kinds.items()))
        subject = draw.choice(["rivers", "bridges", "bees", "tides", "clocks"])
        prompts.append(f"Please {ask} about {subject} number {draw.randrange(1000)}")
        lengths.append(round(length * draw.uniform(0.6, 1.6)))
    return prompts, lengths


def as_ids(prompts: list[str]) -> list[list[int]]:
    """As a tokenizer of words would, that has been seen nowhere else."""
    return [[hash_of(word) for word in p.split()] for p in prompts]


def hash_of(word: str) -> int:
    return sum(ord(c) * 31**i for i, c in enumerate(word)) % 120_000


@pytest.mark.parametrize("reads", [lambda prompts: prompts, as_ids])
def test_learns_what_a_log_says(reads: Any, tmp_path: Path) -> None:
    prompts, lengths = log(400, 1)
    model = rank.train(reads(prompts), lengths)
    others, outputs = log(200, 2)
    tau, error = model.tau_b(reads(others), outputs)
    assert tau > 0.6 and error < 0.1
    # The same from a file, and it is the tool's format.
    path = tmp_path / "lengths.rank"
    rank.save(model, path)
    assert path.read_bytes()[:8] == b"TSRARANK"
    assert (
        rank.load(path).scores(reads(others)) == model.scores(reads(others)) == [model.score(p) for p in reads(others)]
    )
    assert rank.train(reads(prompts), lengths).to_bytes() == model.to_bytes()
    assert list(tmp_path.iterdir()) == [path]


def test_token_ids_may_be_any_sequence_of_whole_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    model = rank.train(as_ids(log(50, 1)[0]), log(50, 1)[1])
    assert model.score([1, 2, 3]) == model.score((1, 2, 3)) == model.score(numpy.array([1, 2, 3]))
    assert model.score([1, 2, 3]) != model.score([1, 2, 4])
    assert (
        math.isfinite(model.score([])) and math.isfinite(model.score("")) and math.isfinite(model.score([5] * 100_000))
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rank.train(["a"] * 30, [1.0] * 29), "30 prompts, and 29 lengths"),
        (lambda: rank.train(["a"] * 30, [math.nan] * 30), r"lengths\[0\] must be finite"),
        (lambda: rank.train(["a"] * 30, [1.0] * 29 + [-1]), r"lengths\[29\] must be finite and not negative"),
        (lambda: rank.train(["a"] * 19, [1.0] * 19), "at least 20 prompts"),
        (lambda: rank.train(["a"] * 30, [1.0] * 30, objective="best"), "objective must be pairwise"),
        (lambda: rank.train(["a"] * 30, [1.0] * 30, delta=1.0), "delta must be"),
        (lambda: rank.train([[-1]] * 30, [1.0] * 30), "a token id is not negative: -1"),
        (lambda: rank.train(["a"] * 30, [1.0] * 30, seed=-1), "seed is not negative: -1"),
        (lambda: rank.LengthCalibrator(window=0), "window is 1 to"),
        (lambda: rank.LengthDistribution(window=-1), "window is 1 to"),
        (lambda: rank.LengthDistribution(groups=0), "groups is 1 to"),
        (lambda: rank.LengthCalibrator().observe(1.0, -1), "a length is not negative: -1"),
        (lambda: rank.LengthDistribution().rest_quantile(1.0, 0, 0.0), "q is above 0"),
    ],
)
def test_what_cannot_be_meant_is_said(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_prompt_is_text_or_ids() -> None:
    model = rank.train(*log(50, 1))
    for wrong in (3, None, [1.5], ["a"]):
        with pytest.raises(TypeError):
            model.score(wrong)  # type: ignore[arg-type]
    for prompts in ("abc", 3):
        with pytest.raises(TypeError, match="^prompts must be a list, not "):
            rank.train(prompts, [1.0] * 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="^model must be a Model, not 3$"):
        rank.save(3, "lengths.rank")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="^seed must be a whole number, not 1.5$"):
        rank.train(*log(50, 1), seed=1.5)  # type: ignore[arg-type]


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        rank.load(tmp_path / "nothing")
    path = tmp_path / "broken"
    whole = rank.train(*log(50, 1)).to_bytes()
    for content in (b"", b"hello", whole[:-1], whole + b"x", whole[:200] + b"?" + whole[201:]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="broken: the model cannot be used"):
            rank.load(path)


def test_scores_become_lengths_and_lengths_say_what_is_left() -> None:
    calibrator, lengths = rank.LengthCalibrator(), rank.LengthDistribution()
    assert calibrator(0.0) == 0 and lengths.expected_rest(0.0, 10) == 0
    for i in range(600):
        calibrator.observe(float(i % 2), 100 if i % 2 else 10)
        lengths.observe(float(i % 2), 100 if i % 2 else 10)
    calibrator.fit()
    lengths.fit([(1.0, 50)] * 5)
    assert (len(calibrator), calibrator(0.0), calibrator(1.0)) == (600, 10, 100)
    assert len(lengths) == 600 and lengths.drift == 0
    assert abs(lengths.expected_rest(1.0, 60) - 40) <= 7 and lengths.rest_quantile(0.0, 0, 0.99) in (10, 11)
    for _ in range(100):
        lengths.observe(0.0, 1000)
    assert lengths.drift > 10


def request(number: int, prompt: Any, outputs: int = 0) -> Any:
    return SimpleNamespace(request_id=str(number), prompt_token_ids=prompt, num_output_tokens=outputs)


def test_a_predictor_learns_lengths_from_the_outputs_that_end() -> None:
    prompts, lengths = log(400, 1)
    predictor = Predictor(rank.train(as_ids(prompts), lengths), None)
    for i, (prompt, length) in enumerate(zip(*log(Predictor.every * 3, 5), strict=True)):
        score, expected = predictor.predict(request(i, as_ids([prompt])[0]))
        assert math.isfinite(score) and (expected == 0) == (i < Predictor.every)
        predictor.ended(request(i, None, int(length)), is_whole=True)
    assert predictor.scores == {}
    for ask, length in kinds.items():
        _, expected = predictor.predict(request(0, as_ids([f"Please {ask} about bees number 7"])[0]))
        assert 0.6 * length < expected < 1.8 * length
    # Those that are cut off say nothing, nor do those that no score was asked for.
    seen = predictor.seen
    predictor.ended(request(0, None, 3), is_whole=False)
    predictor.ended(request(99, None, 3), is_whole=True)
    assert (predictor.seen, predictor.scores) == (seen, {})


def test_options_name_a_model(tmp_path: Path) -> None:
    path = tmp_path / "lengths.rank"
    rank.save(rank.train(*log(50, 1)), path)
    options = Options.parse({"policy": "pars", "model": str(path)})
    assert options.model_reads == "tokens" and options.predictor() is not None
    assert Options.parse({"policy": "due_first", "model": str(path), "model_reads": "text"}).model_reads == "text"
    assert Options.parse({"policy": "pars"}).predictor() is None
    for given, message in [
        ({"policy": "fcfs", "model": str(path)}, "fcfs has no use for model; these have: due_first, pars"),
        ({"policy": "pars", "model": 3}, "model must be the path of a file"),
        (
            {"policy": "pars", "model": str(tmp_path / "nothing")},
            "model must be a file that tessera.rank wrote: .*nothing",
        ),
        ({"policy": "pars", "model": __file__}, "test_rank.py: the model cannot be used: it is not a model file"),
        ({"policy": "pars", "model": str(path), "model_reads": "bytes"}, 'model_reads must be "tokens" or "text"'),
        ({"policy": "pars", "model_reads": "text"}, "model_reads needs model"),
        ({"policy": "pars", "model": str(path), "score": "math:sqrt"}, "score or model, not both"),
    ]:
        with pytest.raises(OptionsError, match=message):
            Options.parse(given)
