# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/ray before two of vLLM's engines: what one alone says, moves over NIXL, and processes that are killed.
Skipped where there is no Ray, vLLM or NIXL.

One start of the engines serves all tests that do not need others. `alone` is an engine by itself, which has ended
before they begin: two cores are few. The tests of processes that are killed (`-k kill_9`) do without it, in a few
minutes. There the oracles are the sums, and what the same engines say while none is killed and no request moves.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

for needed in ("ray", "openai", "vllm", "nixl", "gguf"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"there is no {needed} here: script/python fleet installs it", allow_module_level=True)

import slow_device  # noqa: E402
from endpoint import Endpoint, NeverCame, app, end_all, environment, here, is_core, patience, text_of  # noqa: E402
from openai import AsyncOpenAI  # noqa: E402

sys.path.insert(0, str(here.parents[1] / "vllm"))
import reasoner  # noqa: E402

block = 32
#: Tokens of an answer. The model needs half of these. Beyond its end it goes on with something, because an answer of
#: fifteen tokens ends before it could move.
most = 320
engine_options: dict[str, Any] = {
    "dtype": "float32",
    "max_model_len": 512,
    "enforce_eager": True,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 256,
    "block_size": block,
    "num_gpu_blocks_override": 200,
    "kv_cache_memory_bytes": 1 << 27,
    "seed": 0,
    "skip_tokenizer_init": True,
    "distributed_executor_backend": "uni",
}


def run_engine(script: str, said: Any) -> Any:
    """Runs it with an engine of its own; what it says in its last line. What fails is told, and nothing is left."""
    with tempfile.TemporaryDirectory(prefix="tessera-fleet-") as folder:
        mark = uuid.uuid4().hex
        file = Path(folder) / "engine.py"
        file.write_text(script)
        # Into files, not pipes: a process that it leaves behind would keep those open.
        out, err = Path(folder) / "out", Path(folder) / "err"
        with out.open("wb") as o, err.open("wb") as e:
            process = subprocess.Popen(
                [sys.executable, str(file)],
                stdin=subprocess.PIPE,
                stdout=o,
                stderr=e,
                env={**os.environ, **environment, "TESSERA_FLEET_TEST": mark},
                start_new_session=True,
            )
            try:
                process.communicate(json.dumps(said).encode(), timeout=patience)
            except subprocess.TimeoutExpired:
                pytest.fail(f"{patience:.0f} s, and the engine has not ended:\n{err.read_text()[-4000:]}")
            finally:
                end_all(mark)
                process.wait()
        assert process.returncode == 0, err.read_text()[-4000:]
        return json.loads(out.read_text().splitlines()[-1])


def one_engine(model: str, ids: list[list[int]]) -> Any:
    """What an engine by itself says to these prompts, one after the other. Further, by its KV events, tokens of the
    first prompt that it has after that, of another, and of the first after all others."""
    options = engine_options | {"num_gpu_blocks_override": 64}
    script = f"""
import asyncio, json, os, sys
sys.path.insert(0, {str(app.parent)!r})
from replica import VllmEngine
from tessera.fleet import Call, PrefixIndex

async def main():
    model, ids = json.load(sys.stdin)
    engine = VllmEngine(model, events=True, engine={options})
    index = PrefixIndex({block})
    async def ask(prompt):
        said = []
        async for p in engine.stream(
            Call(prompt, 0, {most}, "r", {{"temperature": 0, "ignore_eos": True}}, False, None)
        ):
            said += p.tokens
        return said
    async def hear():
        # Events are told some steps later.
        quiet = 0
        while quiet < 20:
            events = (await engine.report()).events
            quiet = 0 if events else quiet + 1
            for kind, *what in events:
                getattr(index, kind)(0, *what)
            await asyncio.sleep(0.05)
    said = [await ask(ids[0])]
    await hear()
    cached = [index.match(ids[0])[0], index.match([1, *ids[0]])[0]]
    said += [await ask(prompt) for prompt in ids[1:]]
    await hear()
    cached.append(index.match(ids[0])[0])
    print(json.dumps([said, cached]), flush=True)
    os._exit(0)  # torch does not like to be unloaded

if __name__ == "__main__":
    asyncio.run(main())
"""
    return run_engine(script, [model, ids])


@dataclass(frozen=True)
class Model:
    """The tiny reasoning model, and sums to reason about."""

    folder: str
    sums: list[str]

    @property
    def prompts(self) -> list[list[int]]:
        return [reasoner.encode(p) for p in self.sums]


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    draw = random.Random(11)
    sums = [reasoner.draw_prompt(draw, 10 + draw.randrange(8)) for _ in range(16)]
    with tempfile.TemporaryDirectory(prefix="tessera-fleet-") as folder:
        reasoner.convert(folder)
        yield Model(folder, sums)


@dataclass(frozen=True)
class Alone:
    """What one engine says to the sums, one after the other."""

    says: list[list[int]]
    #: By its KV events: tokens of the first prompt that it has after that, of another, of the first after all others.
    cached: list[int]


@pytest.fixture(scope="module")
def alone(model: Model) -> Alone:
    said, cached = one_engine(model.folder, model.prompts)
    for prompt, tokens in zip(model.sums, said, strict=True):
        assert reasoner.decode(tokens[: tokens.index(reasoner.end)]) == reasoner.completion_of(prompt)
    return Alone(said, cached)


def test_a_real_engine_says_what_it_has_cached(alone: Alone, model: Model) -> None:
    # All whole blocks of it, none of what begins otherwise, and nothing when 15 others have filled the memory.
    assert alone.cached == [len(model.prompts[0]) // block * block, 0, 0]
    assert alone.cached[0] >= block


def test_a_real_engine_says_what_is_wrong_and_lives(model: Model) -> None:
    """What it rejects is the request's fault, whatever part of vLLM says so, and it serves the next one."""
    ids = reasoner.encode(model.sums[0])
    wrong: list[tuple[list[int], dict[str, Any]]] = [
        *((ids, p) for p in ({"top_p": 0}, {"temperature": 2.5}, {"temperature": -1}, {"min_p": 2})),
        *((ids, p) for p in ({"seed": 10**30}, {"stop_token_ids": ["x"]}, {"top_k": -7})),
        ([10**6], {}),
        (ids * 60, {}),
    ]
    script = f"""
import asyncio, json, os, sys
sys.path.insert(0, {str(app.parent)!r})
from replica import Engine

async def main():
    model, calls = json.load(sys.stdin)
    engine = Engine("vllm", {{"model": model, "engine": {engine_options}}})
    said = []
    for ids, params in calls:
        call = dict(ids=ids, at=0, max_tokens=4, router="r", params=params, export=False, kv=None)
        said.append([item async for item in engine.stream(call)][-1])
    print(json.dumps([said, engine._engine.core_dead]), flush=True)
    os._exit(0)  # torch does not like to be unloaded

if __name__ == "__main__":
    asyncio.run(main())
"""
    good = (ids, {"temperature": 0, "ignore_eos": True})
    said, dead = run_engine(script, [model.folder, [*wrong, good]])
    for (_, params), what in zip(wrong, said, strict=False):
        print(f"{params}: {what}")
    kinds = [what.get("failure") for what in said[: len(wrong)]]
    assert kinds == ["at_fault"] * len(wrong)
    assert said[-1].get("finish") == "length" and not dead


def test_kill_9_of_a_core_while_due_first_changes_its_layout(model: Model) -> None:
    """due-first learns lengths, and its planner finds stages by length. An engine is killed before it follows. The one
    that comes for it follows, requests move by stages, and all streams say what they say undisturbed."""
    plans = {"profile": slow_device.profile(1e8, 1e-5), "max_batch": 16, "token_budget": 256, "kv_blocks": 199}
    options = {**engine_options, "kv_transfer_config": {"kv_buffer_device": "cpu"}}
    e = Endpoint(
        *("--model", model.folder, "--name", "tiny", "--replicas", "2", "--block-size", str(block), "--longest", "512"),
        *("--controller", "due-first", "--moves", "--planner", json.dumps(plans)),
        *("--settings", '{"lease": 600, "silence": 600, "rest": 0}', "--hang", str(patience), "--first", str(patience)),
        *("--engine-options", json.dumps(options)),
    )
    draw = random.Random(5)
    tokens = sorted({t for prompt in model.prompts for t in prompt})
    #: Less than a block: each answer outgrows the stage that its prompt is in.
    begins = [prompt[:24] for prompt in model.prompts[:8]]

    def asks(client: AsyncOpenAI, n: int, least: int, end: int) -> list[asyncio.Future[str]]:
        """Short answers to prompts of such lengths."""
        prompts = [draw.choices(tokens, k=draw.randrange(least, end)) for _ in range(n)]
        return [asyncio.ensure_future(text_of(client, "tiny", ids, draw.randrange(4, 16))) for ids in prompts]

    def answers(client: AsyncOpenAI, moves: bool = True) -> list[asyncio.Future[str]]:
        return [asyncio.ensure_future(text_of(client, "tiny", ids, most, moves)) for ids in begins]

    def follow() -> dict[str, bool]:
        """Which replicas have followed a plan."""
        return {name: "set_prefill_budget" in v["told"] for name, v in e.book()["replicas"].items()}

    async def run(client: AsyncOpenAI) -> None:
        await asyncio.gather(*asks(client, 40, 20, 30), *asks(client, 14, 380, 440))
        cores = {name: e.core(v["pid"]) for name, v in e.book()["replicas"].items()}
        assert e.book()["plans"] == 0 and len(cores) == 2 and all(cores.values())
        # An engine that has requests and stands still does not follow the plan.
        send([*cores.values()], signal.SIGSTOP)
        running = answers(client)
        victim = await e.soon(
            "an engine with requests",
            lambda: next((name for name, v in e.book()["replicas"].items() if v["requests"] > 0), None),
        )
        (other,) = {*cores} - {victim}
        send([cores[other]], signal.SIGCONT)
        rest = asks(client, 12, 20, 30)
        await e.soon("an engine that follows a plan", lambda: follow()[other])
        assert follow() == {other: True, victim: False} and e.book()["plans"] == 1
        e.kill(cores[victim])
        got = [await asyncio.gather(*running)]
        await asyncio.gather(*rest)
        assert e.book()["failed"] > 0
        await e.soon("two engines that follow", lambda: victim not in follow() and [*follow().values()] == [True] * 2)
        end = time.monotonic() + patience
        # At the rate of a busy machine stages may not pay. There is another plan when twice as many have come.
        while not all(v["from"] or v["to"] for v in e.book()["replicas"].values()):
            await asyncio.gather(*asks(client, 40, 20, 30), *asks(client, 14, 380, 440))
            assert time.monotonic() < end, f"no plan has stages: {e.book()}"
        ranges = sorted((v["from"], v["to"]) for v in e.book()["replicas"].values())
        print(f"stages, in blocks: {ranges}")
        assert ranges[0][0] == 0 and ranges[0][1] == ranges[1][0] and ranges[1][1] is None
        # A move that takes long on a busy machine comes to nothing, and the request stays.
        moved = e.book()["moved"]
        while e.book()["moved"] == moved:
            got.append(await asyncio.gather(*answers(client)))
            assert time.monotonic() < end, f"no request moves: {e.book()}"
        says = await asyncio.gather(*answers(client, moves=False))
        equal = [sum(a == b for a, b in zip(texts, says, strict=True)) for texts in got]
        print(f"{equal} of {len(says)} streams are the same as undisturbed; {await e.settled()}")
        assert equal == [len(says)] * len(got)

    try:
        e.talk(run)
    finally:
        e.close()


@pytest.fixture(scope="module")
def engines(model: Model) -> Iterator[Endpoint]:
    options = {**engine_options, "kv_transfer_config": {"kv_buffer_device": "cpu"}}
    e = Endpoint(
        *("--model", model.folder, "--name", "tiny", "--replicas", "2", "--block-size", str(block), "--longest", "512"),
        # There is memory for all: a request that moves does so because its reasoning has ended.
        *("--policy", "pascal", "--end-of-reasoning", str(reasoner.end_of_reasoning), "--moves", "--tight", "0"),
        # No engine hangs here: one that is silent has no processor.
        *("--settings", '{"lease": 600}', "--hang", str(patience), "--first", str(patience)),
        *("--engine-options", json.dumps(options)),
    )
    try:
        yield e
    finally:
        e.close()


@pytest.fixture(scope="module")
def undisturbed(engines: Endpoint, model: Model) -> list[str]:
    """What the engines say to the sums when no request moves and no engine is killed: right, and then something."""
    got: list[str] = []

    async def run(client: AsyncOpenAI) -> None:
        got.extend(await asyncio.gather(*[text_of(client, "tiny", i, most, moves=False) for i in model.prompts]))
        await engines.settled()

    engines.talk(run)
    for prompt, said in zip(model.sums, got, strict=True):
        assert said.startswith(reasoner.completion_of(prompt))
    book = engines.book()
    assert book["moved"] == book["stayed"] == book["failed"] == 0
    return got


def test_real_engines_move_requests_at_the_end_of_their_reasoning(
    alone: Alone, engines: Endpoint, model: Model, undisturbed: list[str]
) -> None:
    """Sixteen streams at once say what one engine says alone."""
    from transformers import AutoTokenizer

    decode = AutoTokenizer.from_pretrained(model.folder).decode
    expected = [str(decode(said, skip_special_tokens=True)) for said in alone.says]
    assert undisturbed == expected
    # The most requests that reasoned at the engine with the fewer, and the most that answered.
    seen = {"reasoning": 0, "answering": 0}

    async def run(client: AsyncOpenAI) -> None:
        streams = [asyncio.ensure_future(text_of(client, "tiny", i, most)) for i in model.prompts]
        while not all(s.done() for s in streams):
            views = (await asyncio.to_thread(engines.book))["replicas"].values()
            seen["reasoning"] = max(seen["reasoning"], min(v["reasoning"] for v in views))
            seen["answering"] = max(seen["answering"], sum(v["fresh_answers"] for v in views))
        got = await asyncio.gather(*streams)
        equal = sum(a == b for a, b in zip(got, expected, strict=True))
        print(f"{equal} of 16 streams are what one engine alone says; {seen}; {engines.book()}")
        assert equal == 16
        await engines.settled()

    engines.talk(run)
    assert seen["reasoning"] >= 1 and seen["answering"] >= 1, "somebody reasons at both, and somebody answers"
    book = engines.book()
    assert book["failed"] == 0 and book["moved"] >= 1 and book["moved"] + book["stayed"] <= 16


def send(pids: list[int], signal_number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal_number)


async def in_a_move(e: Endpoint, cores: dict[str, int], begin: Callable[[], None]) -> dict[str, str]:
    """A request's move that goes no further, because the cores of both engines are stopped. It is not met by chance,
    because a move may last milliseconds. Answers go where fewer reason. So one engine stands still until no request
    reasons at the other, and then the other stands still. The engine that goes does so by the moment: it may be an
    answer ahead of what has been heard of it. `begin` begins streams.
    """

    async def book() -> tuple[dict[str, int], list[dict[str, str]]]:
        """How many reason where, and the moves."""
        said = await asyncio.to_thread(e.book)
        return {name: v["reasoning"] for name, v in said["replicas"].items()}, said["moves"]

    send([*cores.values()], signal.SIGSTOP)
    begin()
    end = time.monotonic() + patience
    while min((await book())[0].values()) < 2:
        if time.monotonic() > end:
            raise NeverCame(f"{patience:.0f} s, and never two that reason at both: {e.book_or_why()}")
        await asyncio.sleep(0.05)
    for goes in reversed(cores):
        reasons = True
        while reasons and time.monotonic() < end:
            send([cores[goes]], signal.SIGCONT)
            time.sleep(0.02)  # not the loop's, which may be late by hundreds of tokens
            send([cores[goes]], signal.SIGSTOP)
            await asyncio.sleep(0.1)  # what it has said is heard
            reasons = (await book())[0][goes] > 0
            if not reasons:
                await asyncio.sleep(0.5)  # moves are proposed now and then
            if moves := (await book())[1]:
                return dict(moves[0])
    raise NeverCame(f"no move to where nobody reasons: {e.book_or_why()}")


async def while_all_run(e: Endpoint, cores: dict[str, int], begin: Callable[[], None]) -> str | None:
    """The name of an engine in the middle of its requests, if the moment was not missed; the cores of both are stopped.
    `begin` begins streams."""
    # No request ends before both have some, however fast they are and whatever else has work.
    send([*cores.values()], signal.SIGSTOP)
    begin()

    def both() -> bool:
        return min(v["requests"] for v in e.book()["replicas"].values()) >= 2

    await e.soon("requests at both engines", both)
    send([*cores.values()], signal.SIGCONT)
    time.sleep(0.05)  # not the loop's; and yet on a machine that is busy it lasts seconds
    send([*cores.values()], signal.SIGSTOP)
    book = await asyncio.to_thread(e.book)
    return next((name for name, v in book["replicas"].items() if v["requests"] > 0), None)


def killed(
    e: Endpoint,
    model: Model,
    says: list[str],
    what: str,
    when: Callable[[Endpoint, dict[str, int], Callable[[], None]], Awaitable[str | None]],
    counted: str = "failed",
) -> None:
    """Streams say what they say undisturbed although the "actor" or the "core" of an engine is killed. `when` names the
    engine, and the book notices a request that is `counted`. Again, if all had said everything before."""

    def whole() -> tuple[dict[str, Any], dict[str, int], dict[str, int]] | None:
        """The book when it has two engines, with the processes of each. An engine with a killed core is in it for a
        while: until its health is asked for."""
        book = e.book()
        actors = {name: v["pid"] for name, v in book["replicas"].items()}
        cores = {name: e.core(pid) for name, pid in actors.items()}
        return (book, actors, cores) if len(actors) == 2 and all(cores.values()) else None

    async def noticed(client: AsyncOpenAI) -> bool:
        before, actors, cores = await e.soon("both engines", whole)
        streams: list[asyncio.Future[str]] = []

        def begin() -> None:
            streams.extend(asyncio.ensure_future(text_of(client, "tiny", ids, most)) for ids in model.prompts[:8])

        victim = await when(e, cores, begin)
        if victim:
            e.kill((cores if what == "core" else actors)[victim])
        send([*cores.values()], signal.SIGCONT)
        got = await asyncio.gather(*streams)
        equal = sum(s == say for s, say in zip(got, says, strict=False))
        after = await e.settled()
        count = {name: (before[name], after[name]) for name in ("moved", "stayed", "failed")}
        print(f"{equal} of {len(got)} streams are the same; before and after: {count}")
        assert equal == len(got)
        if victim:
            # The kill sees to nothing else, and the core has the memory that the next one needs.
            await e.soon("the end of its core", lambda: not is_core(cores[victim]))
        return bool(after[counted] > before[counted])

    async def run(client: AsyncOpenAI) -> None:
        end = time.monotonic() + patience
        while not await noticed(client):
            if time.monotonic() > end:
                raise NeverCame(
                    f"{patience:.0f} s, and nobody was killed in the middle of a request: {e.book_or_why()}"
                )

    e.talk(run)


def test_kill_9_of_a_core_while_all_run(engines: Endpoint, model: Model, undisturbed: list[str]) -> None:
    killed(engines, model, undisturbed, "core", while_all_run)


def test_kill_9_of_a_replica_while_all_run(engines: Endpoint, model: Model, undisturbed: list[str]) -> None:
    killed(engines, model, undisturbed, "actor", while_all_run)


def test_kill_9_of_a_core_in_a_move_from_it(engines: Endpoint, model: Model, undisturbed: list[str]) -> None:
    async def source(*what: Any) -> str:
        return (await in_a_move(*what))["from"]

    killed(engines, model, undisturbed, "core", source)


def test_kill_9_of_a_replica_in_a_move_to_it(engines: Endpoint, model: Model, undisturbed: list[str]) -> None:
    async def target(*what: Any) -> str:
        return (await in_a_move(*what))["to"]

    # A request on its way to an engine that is killed stays where it was, and its client notices nothing.
    killed(engines, model, undisturbed, "actor", target, "stayed")
