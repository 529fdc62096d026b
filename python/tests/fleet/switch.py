# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An operator tries a controller before switching: the log, the profile and the table of docs/fleet_deploy.md.

PYTHONPATH=python/src python python/tests/fleet/switch.py FOLDER

Four fake engines serve 600 requests in virtual time: under one controller, and then under the other one. FOLDER gets
both logs and the profile of a fake engine, for `python -m tessera.fleet replay`.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3] / "examples" / "ray")]

from fake_engine import FakeEngine  # noqa: E402
from virtual_time import run  # noqa: E402

from tessera.fleet import Router, expected  # noqa: E402

max_batch, token_budget, capacity = 64, 512, 700
#: A step of a fake engine takes 10 ms, 0.2 ms more for each request and 20 us for each token of a prompt.
profile = {
    "name": "fake-engine",
    "model": {
        "name": "none",
        "parameters": 1e6,
        "layers": 1,
        "query_heads": 1,
        "kv_heads": 1,
        "head_dim": 64,
        "bytes_per_weight": 1,
        "bytes_per_kv_value": 1,
    },
    "gpu": {
        "name": "none",
        "flops": 1e15,
        "flops_efficiency": 1,
        "bytes_per_s": 1e15,
        "bandwidth_efficiency": 1,
        "memory_bytes": 1e9,
        "usable_memory": 0.9,
        "launch_seconds": 0.01,
    },
    "links": {"host_bytes_per_s": 50e9, "host_memory_bytes": 512e9, "fabric_bytes_per_s": 50e9},
    "terms": {"request_seconds": 2e-4, "token_seconds": 2e-5},
    "source": "the steps of examples/ray/fake_engine.py",
}


async def serve(controller: str, log: Path, requests: int) -> None:
    router = Router(controller=controller, block_size=16, record=log)
    for i in range(4):
        e = FakeEngine(f"engine-{i}", seqs=max_batch, budget=token_budget, blocks=capacity)
        router.add(e.name, e, capacity)
    background = asyncio.create_task(router.run())
    draw = random.Random(3)

    async def client(at: float, prompt: int, tokens: int, leaves: bool) -> None:
        await asyncio.sleep(at)
        ids = [draw.randrange(3, 1000) for _ in range(prompt)]
        session = router.stream(ids, tokens, {"ignore_eos": True})
        async for _ in session:
            if leaves and len(session.got) > 20:
                break
        await session.aclose()

    at, clients = 0.0, []
    for i in range(requests):
        at += draw.expovariate(26.0)
        prompt = min(int(draw.lognormvariate(5.5, 1.2)) + 8, 6000)
        tokens = min(int(draw.lognormvariate(4.2, 1.0)) + 2, 900)
        clients.append(client(at, prompt, tokens, leaves=i % 29 == 0))
    await asyncio.gather(*clients)
    background.cancel()
    await router.close()


def main(folder: Path, before: str = "in-turn", after: str = "least-load", requests: int = 600) -> expected.Expectation:
    (folder / "fake-engine.json").write_text(json.dumps(profile))
    logs = {name: folder / f"{name}.log" for name in (before, after)}
    for name, log in logs.items():
        run(serve(name, log, requests))
    e = expected.compare(
        expected.read(logs[before]),
        str(folder / "fake-engine.json"),
        after,
        max_batch=max_batch,
        token_budget=token_budget,
    )
    print(expected.text_of(e))
    print(f"\nAfter switching to {after}, seconds:")
    for name, values in expected.read(logs[after]).happened().items():
        print(name, *(f"{kind} {value:.4f}" for kind, value in expected.spread(values)._asdict().items()))
    return e


if __name__ == "__main__":
    main(Path(sys.argv[1]))
