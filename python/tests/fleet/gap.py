# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a client sees of a request that goes on at another engine: the longest gap between two of its tokens, when it
moves with its KV (fork), when its engine fails it and the other computes it anew, and when it stays.

python python/tests/fleet/gap.py [--length 1500] [--times 12]

Two of vLLM's engines on this machine's processor, with the tests' tiny model, NIXL between them, nothing else in them;
a router in this process. Each time another prompt, so that nothing is cached. Needs vLLM and NIXL: script/python
install_fleet.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

here = Path(__file__).resolve()
sys.path[:0] = [str(here.parents[1] / "vllm"), str(here.parents[3] / "examples" / "ray")]

import model as tiny  # noqa: E402

from tessera.fleet import Call, Died, Patience, Piece, Router  # noqa: E402

#: Tokens of an answer before and after the moment.
before, after = 40, 60


class Fails:
    """An engine whose streams break off when they are told to."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.report = engine.report
        self.failing = False

    async def stream(self, call: Call) -> AsyncGenerator[Piece, None]:
        pieces = self.engine.stream(call)
        try:
            async for p in pieces:
                if self.failing:
                    self.failing = False
                    raise Died("it was told to")
                yield p
        finally:
            await pieces.aclose()


async def one(router: Router, engines: dict[str, Fails], how: str, ids: list[int]) -> dict[str, float]:
    """Milliseconds: the longest gap before the moment, and from then on; whether it went where it was to go."""
    times: list[float] = []
    at = 0
    for n in (0, 1):
        router.book.set_range(n, 0, 1 << 20)
    stream = router.stream(ids, before + after, {"temperature": 0, "ignore_eos": True})
    async for piece in stream:
        times += [time.perf_counter()] * len(piece.tokens)
        if not at and len(times) >= before:
            at = len(times)
            source = stream.replica
            if how == "move":
                # It has outgrown where it is.
                router.book.set_range(router.entry(source).number, 0, 1)
                router.tick()
            elif how == "recompute":
                engines[source].failing = True
    gaps = [1000 * (b - a) for a, b in zip(times, times[1:], strict=False)]
    assert stream.moves == (how == "move") and len(stream.failures) == (how == "recompute"), (how, stream.failures)
    return {"before": max(gaps[2 : at - 1]), "then": max(gaps[at - 1 :]), "step": statistics.median(gaps)}


async def main(o: argparse.Namespace, model: str) -> None:
    from replica import VllmEngine

    options = {
        "dtype": "float32",
        "max_model_len": 2048,
        "enforce_eager": True,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 2048,
        "block_size": 32,
        "num_gpu_blocks_override": 400,
        "kv_cache_memory_bytes": 1 << 28,
        "seed": 0,
        "skip_tokenizer_init": True,
        "distributed_executor_backend": "uni",
        "kv_transfer_config": {"kv_buffer_device": "cpu"},
    }
    router = Router("least_load", moves="cascade", block_size=32, rest=0.0, shun=0.0, patience=Patience(token=60.0))
    engines: dict[str, Fails] = {}
    for name in ("a", "b"):
        os.environ.pop("VLLM_NIXL_SIDE_CHANNEL_PORT", None)
        engines[name] = Fails(VllmEngine(model, moves=True, engine=dict(options)))
        router.add(name, engines[name], engines[name].engine.blocks)
    run = asyncio.ensure_future(router.run(0.1))
    print("measuring", flush=True)
    draw = random.Random(5)
    seen: dict[str, list[dict[str, float]]] = {"stay": [], "move": [], "recompute": []}
    for i in range(o.times + 1):
        for how, all_of in seen.items():
            ids = [draw.randrange(3, 1000) for _ in range(o.length - before)]
            got = await one(router, engines, how, ids)
            if i > 0:  # the first of each shakes hands
                all_of.append(got)
    run.cancel()
    print(f"{o.length} tokens, {o.times} times each; the longest gap of each, ms: median (least to most)")
    for how, all_of in seen.items():
        for part in ("before", "then"):
            v = sorted(x[part] for x in all_of)
            print(f"{how:10} {part:7} {statistics.median(v):7.1f} ({v[0]:.1f} to {v[-1]:.1f})")
    print(f"a step, median: {statistics.median(x['step'] for v in seen.values() for x in v):.1f} ms")
    print(json.dumps(seen), flush=True)
    for engine in engines.values():
        engine.engine._llm.shutdown()


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--length", type=int, default=1500, help="tokens of prompt and answer at the moment")
    p.add_argument("--times", type=int, default=12)
    asked = p.parse_args()
    os.environ.update({**tiny.environment, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"})
    with tempfile.TemporaryDirectory(prefix="tessera-fleet-") as folder:
        tiny.make(Path(folder))
        asyncio.run(main(asked, folder))
    os._exit(0)  # torch does not like to be unloaded
