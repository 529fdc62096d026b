# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two of vLLM's real engines under our scheduler, KV from one to the other over NIXL."""

from __future__ import annotations

import importlib.util
import os
import random

import model
import pytest
from engine_apart import Engine, block_size

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("TESSERA_VLLM_ENGINE"), reason="the real engine takes minutes: set TESSERA_VLLM_ENGINE"
    ),
    pytest.mark.skipif(importlib.util.find_spec("nixl") is None, reason="needs nixl"),
]


def prompts() -> list[list[int]]:
    rng = random.Random(11)
    start = [rng.randrange(3, 250) for _ in range(70)]
    # Up to the end of a block, one token further, and anything else; some begin alike.
    lengths = [32, 33, 64, 65, 63, 1, 97, 200, 128, 129, *(rng.randrange(2, 300) for _ in range(38))]
    made = [[rng.randrange(3, 250) for _ in range(n)] for n in lengths]
    return made + [start + p for p in made[:20]]


@pytest.mark.parametrize(
    ("kind", "groups", "policy"),
    [("llama", 1, "fcfs"), ("llama", 1, "pascal"), ("gpt_oss", 2, "fcfs"), ("five windows and all", 6, "pascal")],
)
def test_the_same_tokens_by_two_engines(kind: str, groups: int, policy: str) -> None:
    """Prompts are computed by one and gone on with by the other, which has little memory: the tokens of one engine."""
    asked = prompts()
    lengths = [5 + 7 * i % 60 for i in range(len(asked))]
    folder = model.folder(kind)
    alone = Engine(None, transfers=False, blocks=200 * groups, folder=folder)
    ours = {"policy": policy, "fallback": False}
    pair = [Engine(ours, transfers=True, blocks=b * groups, folder=folder) for b in (200, 50)]
    all_engines = [alone, *pair]
    try:
        for e in all_engines:
            e.ready()
        for i, prompt in enumerate(asked):
            alone.ask(str(i), prompt, lengths[i], None)
            pair[0].ask(str(i), prompt, 1, {"do_remote_decode": True})
        expected = {}
        for _ in asked:
            request_id, tokens, reason, _ = alone.take()
            expected[request_id] = (tokens, reason)
        for _ in asked:
            request_id, tokens, reason, params = pair[0].take()
            assert (tokens, reason) == (expected[request_id][0][:1], "length")
            assert params["do_remote_prefill"]
            i = int(request_id)
            # Each window hands over its last blocks.
            whole = -(-len(asked[i]) // block_size)
            assert len(params["remote_block_ids"]) == groups
            assert max(len(ids) for ids in params["remote_block_ids"]) == whole
            pair[1].ask(request_id, asked[i], lengths[i], params)
        for _ in asked:
            request_id, tokens, reason, _ = pair[1].take()
            assert (tokens, reason) == expected[request_id], request_id
        for e in pair:
            preempted, held, busy = e.end()
            assert held == 0 and not busy, "somebody's blocks are kept for a peer who has read them"
        alone.end()
    finally:
        for e in all_engines:
            e.kill()
