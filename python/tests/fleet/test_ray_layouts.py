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
from collections.abc import Callable, Coroutine
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
waits = ("--hang", str(patience), "--first", str(patience), "--settings", '{"lease": 600, "silence": 600, "rest": 0}')


async def whole(client: AsyncOpenAI, ids: list[int], n: int) -> None:
    """A stream to the end."""
    assert await text_of(client, "fake", ids, n) == "".join(f" {t}" for t in answer(ids, n)), "a stream is not whole"


def streams(client: AsyncOpenAI, all_ids: list[list[int]], least: int, most: int) -> list[asyncio.Future[None]]:
    """A stream for each of these prompts."""
    draw = random.Random(len(all_ids))
    return [asyncio.ensure_future(whole(client, ids, draw.randrange(least, most))) for ids in all_ids]


def talk_and_close(e: Endpoint, what: Callable[[AsyncOpenAI], Coroutine[Any, Any, None]]) -> None:
    try:
        e.talk(what)
    finally:
        print(e.book_or_why())
        e.close()


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
        running = streams(client, prompts(6, 3, 20, 60), 1500, 1501)
        victim, pid = await e.soon(
            "a replica with a token",
            lambda: next(((n, v["pid"]) for n, v in e.book()["replicas"].items() if v["kv_held"] > 0), None),
        )
        os.kill(pid, signal.SIGSTOP)
        # With these, enough has come for a plan. The others follow it. The victim is killed before it does.
        running += streams(client, prompts(12, 4, 20, 60), 8, 40)
        await e.soon(
            "two replicas that follow a plan", lambda: sum("set_prefill_budget" in t for t in told().values()) >= 2
        )
        assert e.book()["plans"] == 1 and told()[victim] == {}
        e.kill(pid)
        await asyncio.gather(*running)
        assert e.book()["failed"] > 0

        # The replica that comes for it has its part of the layout: stages by length.
        def all_told() -> bool:
            return victim not in told() and len(told()) == 3 and all("set_length_range" in t for t in told().values())

        await e.soon("a third replica in the layout", all_told)
        ranges = [tuple(t["set_length_range"]) for t in told().values()]
        print(ranges)
        assert sorted(first for first, _ in ranges)[0] == 0 and any(last is None for _, last in ranges)
        assert any(last is not None for _, last in ranges), "stages"
        # Answers that outgrow the range of their replica move on.
        before = e.book()["moved"]
        await asyncio.gather(*streams(client, prompts(4, 5, 20, 60), 900, 901))
        assert e.book()["moved"] > before
        await e.settled()

    talk_and_close(e, run)


def test_pools_hand_over_while_the_prefill_replica_is_killed() -> None:
    e = Endpoint(
        *("--engine", "fake", "--replicas", "3", "--longest", "4000", "--engine-options", json.dumps(engine)),
        *("--controller", "distserve", "--prefill", "1", "--moves", *waits),
    )

    def roles() -> dict[str, str]:
        return {name: v["role"] for name, v in e.book()["replicas"].items()}

    async def run(client: AsyncOpenAI) -> None:
        assert sorted(roles().values()) == ["decode", "decode", "prefill"]
        running = streams(client, prompts(8, 1, 100, 400), 1200, 1201)
        await e.soon("requests that were handed over", lambda: e.book()["moved"] >= 4)
        # Long prompts: these are computed when the replica is killed, and the answers go on elsewhere.
        victim = next(name for name, role in roles().items() if role == "prefill")
        pid = e.book()["replicas"][victim]["pid"]
        os.kill(pid, signal.SIGSTOP)
        running += streams(client, prompts(4, 2, 1000, 2000), 20, 40)
        await e.soon("prompts at the prefill replica", lambda: e.book()["replicas"][victim]["requests"] >= 4)
        e.kill(pid)
        await asyncio.gather(*running)
        assert e.book()["failed"] >= 4
        # The replica that comes for it computes prompts.
        await e.soon("a third replica", lambda: victim not in roles() and len(roles()) == 3)
        assert sorted(roles().values()) == ["decode", "decode", "prefill"]
        before = e.book()["moved"]
        await asyncio.gather(*streams(client, prompts(4, 3, 100, 400), 400, 401))
        assert e.book()["moved"] >= before + 1
        await e.settled()

    talk_and_close(e, run)
