# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a client sees of a request that goes on at another engine: the longest gap between two of its tokens. The
request moves with its KV (fork), with and without a catch-up. Or its engine fails it, and the other computes it anew.
Or it stays. Further, when what happened in a move.

python python/tests/fleet/gap.py [--length 1500] [--times 12]
python python/tests/fleet/gap.py --paper [--length 1500]

Two of vLLM's engines on this machine's processor, with the tests' tiny model, NIXL between them, nothing else in them;
a router in this process. Each time another prompt, so that nothing is cached. Needs vLLM and NIXL: script/python
install_fleet. With --paper two fake engines in virtual time, that take as long as a GPU and Ray would: of docs/results.
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
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

here = Path(__file__).resolve()
sys.path[:0] = [str(here.parent), str(here.parents[1] / "vllm"), str(here.parents[3] / "examples" / "ray")]

import model as tiny  # noqa: E402

from tessera.fleet import Call, Died, Piece, Router, Timeouts  # noqa: E402

#: Tokens of an answer before and after the moment.
before, after = 40, 60


class Fails:
    """An engine with streams that break off when they are told to. What comes takes `back` seconds to come. `seen`, one
    for both engines, has when the streams of a move were asked for, and when they said something first and last."""

    def __init__(self, engine: Any, seen: dict[str, float], back: float = 0.0, catches_up: bool = True) -> None:
        self.engine = engine
        self.seen = seen
        self.back = back
        self.catches_up = catches_up
        self.report = engine.report
        self.failing = False

    async def stream(self, call: Call) -> AsyncGenerator[Piece, None]:
        now = asyncio.get_running_loop().time
        what = "export" if call.export else "target" if call.kv is not None else "catch-up" if call.at else ""
        self.seen[f"{what} asked"] = now()
        pieces = self.engine.stream(call)
        try:
            async for p in pieces:
                if self.back:
                    await asyncio.sleep(self.back)
                if self.failing:
                    self.failing = False
                    raise Died("it was told to")
                self.seen.setdefault(f"{what} first", now())
                self.seen[f"{what} last"] = now()
                yield p if self.catches_up else p._replace(cached=0)
        finally:
            await pieces.aclose()


async def one(router: Router, engines: dict[str, Fails], how: str, ids: list[int]) -> dict[str, float]:
    """Milliseconds: the longest gap before the moment, the longest from then on, and a step. Further, when, from the
    moment on, what happened in a move."""
    seen = next(iter(engines.values())).seen
    seen.clear()
    times: list[float] = []
    at = 0
    for name in router.names():
        router.serves(name, 0, 1 << 20)
    stream = router.stream(ids, before + after, {"temperature": 0, "ignore_eos": True})
    async for piece in stream:
        times += [router.now()] * len(piece.tokens)
        if not at and len(times) >= before:
            at = len(times)
            source = stream.replica
            if how in ("move", "no catch-up"):
                # It has outgrown where it is.
                router.serves(source, 0, 1)
            elif how == "recompute":
                engines[source].failing = True
    gaps = [1000 * (b - a) for a, b in zip(times, times[1:], strict=False)]
    moves = how in ("move", "no catch-up")
    assert stream.moves == moves and len(stream.failures) == (how == "recompute"), (how, stream.failures)
    out = {"before": max(gaps[2 : at - 1]), "then": max(gaps[at - 1 :]), "step": statistics.median(gaps)}
    if moves:
        for name in ("export last", "target asked", "target first", "catch-up asked", "catch-up first"):
            if name in seen:
                out[name] = 1000 * (seen[name] - times[at - 1])
        longest = max(range(at - 1, len(gaps)), key=lambda i: gaps[i])
        out["gap from"], out["gap to"] = (1000 * (times[longest + i] - times[at - 1]) for i in (0, 1))
    return out


def show(seen: dict[str, list[dict[str, float]]]) -> None:
    for how, all_of in seen.items():
        for part in ("before", "then"):
            v = sorted(x[part] for x in all_of)
            within = f"; {sum(x <= 200 for x in v)} of {len(v)} within 200 ms" if part == "then" else ""
            print(f"{how:10} {part:7} {statistics.median(v):7.1f} ({v[0]:.1f} to {v[-1]:.1f}){within}")
    print(f"a step, median: {statistics.median(x['step'] for v in seen.values() for x in v):.1f} ms")
    for name in [k for k in max(seen["move"], key=len) if k not in ("before", "then", "step")]:
        v = sorted(x[name] for x in seen["move"] if name in x)
        print(f"of a move: {name:12} {statistics.median(v):7.1f} ms after the moment ({v[0]:.1f} to {v[-1]:.1f})")


async def a_move(
    o: argparse.Namespace, draw: random.Random, ray: bool, transfer: float, catches_up: bool
) -> dict[str, float]:
    """Llama-3.1-8B on an H100: docs/results/fleet.md has where the numbers come from."""
    from fake_engine import FakeEngine

    peers: dict[str, FakeEngine] = {}
    seen: dict[str, float] = {}
    engines: dict[str, Fails] = {}
    beside = []
    router = Router("least_load", moves="cascade", block_size=16, rest=0.0)
    for name in ("a", "b"):
        e = FakeEngine(
            name,
            peers=peers,
            blocks=1000,
            budget=8192,
            step=0.007,
            per_sequence=0.0,
            per_prompt_token=0.041 / 1500,
            latency=0.0046 if ray else 0.0,
            per_fetched_token=transfer / o.length,
        )
        engines[name] = Fails(e, seen, 0.0030 if ray else 0.0, catches_up)
        router.add(name, engines[name], e.blocks)

        async def read(e: FakeEngine = e) -> None:
            async for _ in e.stream(Call([3], 0, 10_000, "beside", {"ignore_eos": True})):
                pass

        # Another stream is there, so that the engine's steps begin when they do.
        await asyncio.sleep(draw.random() * 0.007)
        beside.append(asyncio.ensure_future(read()))
    ids = [draw.randrange(3, 1000) for _ in range(o.length - before - draw.randrange(16))]
    got = await one(router, engines, "move", ids)
    for task in beside:
        task.cancel()
    for x in engines.values():
        x.engine.kill()
    return got


async def on_paper(o: argparse.Namespace) -> None:
    for ray in (True, False):
        for transfer in (0.0044, 0.0175):
            for catches_up in (False, True):
                draw = random.Random(5)
                moves = [await a_move(o, draw, ray, transfer, catches_up) for _ in range(o.times)]
                v = sorted(x["then"] for x in moves)
                print(
                    f"{'with' if ray else 'without'} Ray, transfer {1000 * transfer:4.1f} ms, "
                    f"{'catch-up' if catches_up else 'no catch-up'}: "
                    f"mean {statistics.mean(v):.1f} ms ({v[0]:.1f} to {v[-1]:.1f}); "
                    f"the gap ends after {statistics.mean(x['gap to'] for x in moves):.0f} ms"
                )


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
        **({"scheduler_cls": None} if o.own else {}),
    }
    router = Router(
        "least_load", moves="cascade", block_size=32, rest=0.0, avoid_for=0.0, timeouts=Timeouts(token=60.0)
    )
    engines: dict[str, Fails] = {}
    marks: dict[str, float] = {}
    for name in ("a", "b"):
        os.environ.pop("VLLM_NIXL_SIDE_CHANNEL_PORT", None)
        engines[name] = Fails(VllmEngine(model, moves=True, engine=dict(options)), marks)
        router.add(name, engines[name], engines[name].engine.blocks)
    run = asyncio.ensure_future(router.run(0.1))
    print("measuring", flush=True)
    draw = random.Random(5)
    seen: dict[str, list[dict[str, float]]] = {"stay": [], "move": [], "no catch-up": [], "recompute": []}
    for i in range(o.times + 1):
        for how, all_of in seen.items():
            ids = [draw.randrange(3, 1000) for _ in range(o.length - before)]
            for e in engines.values():
                e.catches_up = how != "no catch-up"
            got = await one(router, engines, how, ids)
            if i > 0:  # the first of each shakes hands
                all_of.append(got)
    run.cancel()
    print(f"{o.length} tokens, {o.times} times each; the longest gap of each, ms: median (least to most)")
    show(seen)
    print(json.dumps(seen), flush=True)
    for engine in engines.values():
        engine.engine._llm.shutdown()


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--length", type=int, default=1500, help="tokens of prompt and answer at the moment")
    p.add_argument("--times", type=int, default=12)
    p.add_argument("--own", action="store_true", help="vLLM's own scheduler")
    p.add_argument("--paper", action="store_true")
    asked = p.parse_args()
    if asked.paper:
        from virtual_time import run

        run(on_paper(asked))
        sys.exit()
    os.environ.update({**tiny.environment, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"})
    with tempfile.TemporaryDirectory(prefix="tessera-fleet-") as folder:
        tiny.make(Path(folder))
        asyncio.run(main(asked, folder))
    os._exit(0)  # torch does not like to be unloaded
