# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A controller that `replay` has tried, in front of two engines, and what another one would have decided there.

python python/examples/two_engines.py [CONTROLLER [OTHER [LOG]]]

The engines are fakes without a model (examples/ray/fake_engine.py). Replace them by replicas of your own.
If LOG is named, it is kept.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "ray"))

from fake_engine import FakeEngine  # noqa: E402

from tessera import fleet  # noqa: E402
from tessera.fleet.replay import compare, text_of  # noqa: E402


async def serve(controller: str, log: Path) -> None:
    router = fleet.Router(controller=controller, block_size=16, record=log)
    for i in range(2):
        engine = FakeEngine(f"engine-{i}")
        router.add(engine.name, engine, capacity=engine.blocks)  # KV blocks
    background = asyncio.create_task(router.run())  # reports, alarms, moves, leases

    async def client(i: int) -> None:
        # Every third prompt begins as the others of its family do.
        prompt = [*range(100 * (i % 3), 100 * (i % 3) + 64), *range(i, i + 20)]
        await asyncio.sleep(0.05 * i)
        async for _ in router.stream(prompt, max_tokens=5 + 10 * (i % 4)):
            pass

    await asyncio.gather(*[client(i) for i in range(60)])
    background.cancel()
    await router.close()  # writes the rest of the log


def main(controller: str = "lmetric", other: str = "in-turn", kept: str | None = None) -> None:
    for name in (controller, other):
        if name not in fleet.controllers:
            raise SystemExit(f"{name}: expected a controller, one of {', '.join(fleet.controllers)}")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(kept or Path(folder) / "fleet.log")
        asyncio.run(serve(controller, log))
        print(log.read_text().split("\n", 1)[0])
        print(text_of(log.name, compare(log, other, most=2)))


if __name__ == "__main__":
    main(*sys.argv[1:4])
