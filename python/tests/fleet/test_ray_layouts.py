# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Controllers that change what replicas do, on Ray Serve before fake engines: due-first with its planner, and prefill
and decode pools. A replica is killed while the layout changes, and every stream is whole. Skipped where there is no
Ray."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import random
import signal
from typing import Any

import pytest

for needed in ("ray", "openai"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"there is no {needed} here: script/python fleet installs it", allow_module_level=True)

import slow_device  # noqa: E402
from endpoint import Endpoint, patience, prompts, text_of  # noqa: E402
from fake_engine import answer  # noqa: E402
from openai import AsyncOpenAI  # noqa: E402

#: Engines that hand over some tokens at a time: the processes of Ray cost more than the engines.
engine = {"blocks": 2048, "step": 0.005, "stream_interval": 16}
#: No engine hangs here: one that is silent has no processor, or is stopped by its test.
waits = ("--hang", str(patience), "--first", str(patience), "--settings", '{"lease": 600, "silence": 600}')


async def whole(client: AsyncOpenAI, ids: list[int], n: int) -> None:
    """A stream to the end."""
    assert await text_of(client, "fake", ids, n) == "".join(f" {t}" for t in answer(ids, n)), "a stream is not whole"


def streams(client: AsyncOpenAI, all_ids: list[list[int]], least: int, most: int) -> list[asyncio.Future[None]]:
    """A stream for each of these prompts."""
    draw = random.Random(len(all_ids))
    return [asyncio.ensure_future(whole(client, ids, draw.randrange(least, most))) for ids in all_ids]


def test_due_first_changes_its_layout_while_a_replica_is_killed() -> None:
    plans = {"profile": slow_device.profile(1e7, 1e-4), "max_batch": 16, "token_budget": 512, "kv_blocks": 2048}
    e = Endpoint(
        *("--engine", "fake", "--replicas", "3", "--longest", "4000", "--engine-options", json.dumps(engine)),
        *("--controller", "due-first", "--moves", "--planner", json.dumps(plans), *waits),
    )

    def told() -> dict[str, Any]:
        """What each replica has followed."""
        return {name: v["told"] for name, v in e.book()["replicas"].items()}

    async def run(client: AsyncOpenAI) -> None:
        # Short answers to short questions, and to documents. Lengths are known now; too few for a plan.
        questions, documents = prompts(42, 1, 20, 60), prompts(10, 2, 600, 800)
        await asyncio.gather(*streams(client, [*questions, *documents], 8, 40))
        assert e.book()["plans"] == 0 and e.book()["moved"] == 0

        # Answers that take a while. An engine that has some is stopped: it will not follow the plan.
        running = streams(client, prompts(6, 3, 20, 60), 2000, 2001)
        victim, pid = await e.soon(
            "a replica with a token",
            lambda: next(((n, v["pid"]) for n, v in e.book()["replicas"].items() if v["kv_held"] > 0), None),
        )
        os.kill(pid, signal.SIGSTOP)
        # With these, enough has come for a plan. The others follow it. The victim is killed before it does.
        running += streams(client, prompts(12, 4, 20, 60), 8, 40)
        await e.soon("two replicas that follow a plan", lambda: sum("set_prefill_budget" in t for t in told().values()) >= 2)
        assert e.book()["plans"] == 1 and told()[victim] == {}
        e.kill(pid)
        await asyncio.gather(*running)
        assert e.book()["failed"] > 0

        # The replica that comes for it has its part of the layout: stages by length.
        def laid_out() -> list[tuple[int, int | None]]:
            """The ranges that three replicas have followed, if these are all lengths."""
            ranges = sorted((tuple(t["set_length_range"]) for t in told().values() if "set_length_range" in t), key=str)
            print(ranges)
            return ranges

        await e.soon("a third replica in the layout", lambda: victim not in told() and len(told()) == 3 and all(told().values()))
        print(told(), laid_out())
        # Answers that outgrow the range of their replica move on.
        await asyncio.gather(*streams(client, prompts(4, 5, 20, 60), 900, 901))
        assert e.book()["moved"] > 0
        await e.settled()

    try:
        e.talk(run)
    finally:
        print(e.book_or_why())
        import subprocess; subprocess.run(f"rm -rf /tmp/w-ray/logs; mkdir /tmp/w-ray/logs; cp -rL {e.folder}/ray/session_latest/logs/* /tmp/w-ray/logs", shell=True)
        e.close()
