# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tiny reasoning model on the real engine: its sums are right, its texts those of a forward pass in numpy."""

from __future__ import annotations

import gc
import os
import random
from pathlib import Path
from typing import Any

import engine
import pytest
import reasoner
from engine import SamplingParams, Setting

pytestmark = pytest.mark.skipif(
    not os.environ.get("TESSERA_VLLM_ENGINE"), reason="the real engine takes minutes: set TESSERA_VLLM_ENGINE"
)


class Reference:
    """The model as its file says it, with nothing of the conversion: neighbours turn together."""

    layers, width, heads, kv_heads, head, epsilon, base = 3, 128, 4, 2, 32, 1e-5, 10000.0

    def __init__(self) -> None:
        import gguf
        import numpy as np

        self.np = np
        self.weights = {t.name: t.data.astype(np.float64) for t in gguf.GGUFReader(reasoner.default).tensors}

    def norm(self, x: Any, name: str) -> Any:
        np = self.np
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon) * self.weights[f"{name}.weight"]

    def turn(self, x: Any) -> Any:
        np = self.np
        turns = x.reshape(*x.shape[:-1], self.head // 2, 2).copy().view(np.complex128)[..., 0]
        speed = self.base ** (-np.arange(self.head // 2) * 2 / self.head)
        turns *= np.exp(1j * np.arange(len(x))[:, None, None] * speed)
        return turns[..., None].view(np.float64).reshape(x.shape)

    def next_tokens(self, tokens: list[int]) -> list[int]:
        """What greedy decoding says after each of the tokens."""
        np, w, n = self.np, self.weights, len(tokens)
        x = w["token_embd.weight"][tokens]
        for i in range(self.layers):
            h = self.norm(x, f"blk.{i}.attn_norm")
            q, k, v = (
                (h @ w[f"blk.{i}.attn_{name}.weight"].T).reshape(n, count, self.head)
                for name, count in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads))
            )
            q, k = self.turn(q), self.turn(k)
            said = []
            for one in range(self.heads):
                group = one // (self.heads // self.kv_heads)
                scores = q[:, one] @ k[:, group].T / np.sqrt(self.head)
                scores[np.triu_indices(n, 1)] = -np.inf
                likely = np.exp(scores - scores.max(-1, keepdims=True))
                said.append(likely / likely.sum(-1, keepdims=True) @ v[:, group])
            x = x + np.concatenate(said, -1) @ w[f"blk.{i}.attn_output.weight"].T
            h = self.norm(x, f"blk.{i}.ffn_norm")
            gate = h @ w[f"blk.{i}.ffn_gate.weight"].T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w[f"blk.{i}.ffn_up.weight"].T)) @ w[f"blk.{i}.ffn_down.weight"].T
        return (self.norm(x, "output_norm") @ w["token_embd.weight"].T).argmax(-1).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("gguf")
    made = tmp_path_factory.mktemp("reasoner")
    reasoner.convert(made)
    return str(made)


def prompts(count: int = 240) -> list[str]:
    rng = random.Random(2026)
    return [reasoner.draw_prompt(rng, 1 + i % 12) for i in range(count)]


def serve(folder: str, policy: dict | None) -> tuple[list[list[int]], int]:
    """What is said to each prompt, and how often a request lost its memory."""
    own = {"model": folder, "max_model_len": 512}
    e = engine.engine(Setting(policy or {}, blocks=41, seqs=16, budget=256, own=own), ours=policy is not None)
    try:
        s = e.engine_core.engine_core.scheduler
        said: dict[str, list[int]] = {}
        lost, plan = 0, s.schedule

        def counted(*arguments: Any, **named: Any) -> Any:
            nonlocal lost
            step = plan(*arguments, **named)
            lost += len(step.preempted_req_ids or ())
            return step

        s.schedule = counted
        for i, prompt in enumerate(prompts()):
            params = SamplingParams(
                temperature=0,
                max_tokens=reasoner.longest_output,
                stop_token_ids=[reasoner.end],
                detokenize=False,
            )
            e.add_request(str(i), {"prompt_token_ids": reasoner.encode(prompt)}, params)
        while e.has_unfinished_requests():
            for output in e.step():
                if output.finished:
                    assert output.outputs[0].finish_reason == "stop"
                    said[output.request_id] = list(output.outputs[0].token_ids)
        assert s.get_kv_cache_usage() == 0
        return [said[str(i)] for i in range(len(said))], lost
    finally:
        e.engine_core.shutdown()
        del e
        gc.collect()


@pytest.fixture(scope="module")
def theirs(folder: str) -> tuple[list[list[int]], int]:
    return serve(folder, None)


def test_sums_are_right(theirs: tuple[list[list[int]], int]) -> None:
    said, _ = theirs
    texts, asked = [reasoner.decode(tokens) for tokens in said], prompts()
    wanted = [reasoner.completion_of(prompt) for prompt in asked]
    answers = sum(map(lambda a, b: reasoner.answer_of(a) == reasoner.answer_of(b), texts, wanted))
    exact = sum(map(str.__eq__, texts, wanted))
    print(f"\n{answers} of {len(asked)} sums right, {exact} whole texts")
    assert len(set(asked)) > 0.9 * len(asked)
    assert answers >= 0.99 * len(asked) and exact >= 0.9 * len(asked)


def test_texts_are_those_of_a_reference(theirs: tuple[list[list[int]], int]) -> None:
    """One pass for each text: greedy decoding says it if every token is the likeliest after those before it."""
    reference = Reference()
    for prompt, said in zip(prompts(), theirs[0], strict=True):
        before = reasoner.encode(prompt)
        assert reference.next_tokens([*before, *said])[len(before) - 1 : -1] == said, prompt


@pytest.mark.parametrize("policy", ["pascal", "pascal_paced", "due_first"])
def test_same_texts_under_our_policies(policy: str, folder: str, theirs: tuple[list[list[int]], int]) -> None:
    own = {"quantum": 24} if policy != "due_first" else {"slice": 24}
    said, lost = serve(folder, {"policy": policy, "end_of_reasoning": reasoner.end_of_reasoning, **own})
    print(f"\n{policy}: preempted {lost}, vLLM's own {theirs[1]}")
    assert lost > 0
    assert said == theirs[0]


def test_vllm_s_tokenizer_says_the_same(folder: str) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    for prompt in prompts(30):
        said = reasoner.completion_of(prompt)
        assert tokenizer.encode(prompt) == reasoner.encode(prompt)
        tokens = tokenizer.encode(said)[1:]
        assert tokens.count(reasoner.end_of_reasoning) == tokens.count(reasoner.think) == 1
        assert reasoner.decode(tokens) == said == tokenizer.decode([*tokens, reasoner.end], skip_special_tokens=True)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    (tmp_path / "x.gguf").write_bytes(b"GGUX" + bytes(100))
    with pytest.raises(ValueError):
        reasoner.convert(tmp_path / "made", tmp_path / "x.gguf")
    assert not (tmp_path / "made").exists()
