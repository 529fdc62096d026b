# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/ray before two of vLLM's engines: what one alone says, moves over NIXL, and processes that are killed.
Skipped where there is no Ray, vLLM or NIXL.

One start of the engines serves all tests that do not need others. `alone` is an engine by itself, which has ended
before they begin: two cores are few.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

for needed in ("ray", "openai", "vllm", "nixl", "gguf"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"there is no {needed} here: script/python fleet installs it", allow_module_level=True)

from endpoint import Endpoint, app, core, end_all, environment, here, kill_one, patience, replica, text_of  # noqa: E402
from openai import AsyncOpenAI  # noqa: E402

sys.path.insert(0, str(here.parents[1] / "vllm"))
import reasoner  # noqa: E402

block = 32
#: Tokens of an answer. Of these the model needs half; beyond its end it goes on with something, for an answer of
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
    """What an engine by itself says to these prompts, one after the other, and by its KV events: tokens of the first
    prompt that it has after that; of another; of the first after all others."""
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
class Alone:
    """The tiny reasoning model, sums to reason about, and what one engine says to them one after the other."""

    model: str
    prompts: list[list[int]]
    says: list[list[int]]
    #: By its KV events: tokens of the first prompt that it has after that; of another; of the first after all others.
    cached: list[int]


@pytest.fixture(scope="module")
def alone() -> Iterator[Alone]:
    draw = random.Random(11)
    sums = [reasoner.draw_prompt(draw, 10 + draw.randrange(8)) for _ in range(16)]
    ids = [reasoner.encode(p) for p in sums]
    with tempfile.TemporaryDirectory(prefix="tessera-fleet-") as folder:
        reasoner.convert(folder)
        said, cached = one_engine(folder, ids)
        for prompt, tokens in zip(sums, said, strict=True):
            assert reasoner.decode(tokens[: tokens.index(reasoner.end)]) == reasoner.completion_of(prompt)
        yield Alone(folder, ids, said, cached)


def test_a_real_engine_says_what_it_has_cached(alone: Alone) -> None:
    # All whole blocks of it, none of what begins otherwise, and nothing when 15 others have filled the memory.
    assert alone.cached == [len(alone.prompts[0]) // block * block, 0, 0]
    assert alone.cached[0] >= block


@pytest.fixture(scope="module")
def engines(alone: Alone) -> Iterator[Endpoint]:
    options = {**engine_options, "kv_transfer_config": {"kv_buffer_device": "cpu"}}
    e = Endpoint(
        *("--model", alone.model, "--name", "tiny", "--replicas", "2", "--block-size", str(block), "--longest", "512"),
        # There is memory for all: who moves does so because its reasoning has ended.
        *("--policy", "pascal", "--end-of-reasoning", str(reasoner.end_of_reasoning), "--moves", "--tight", "0"),
        # Nobody hangs here: whoever is silent has no processor.
        *("--settings", '{"lease": 600}', "--hang", str(patience), "--first", str(patience)),
        *("--engine-options", json.dumps(options)),
    )
    try:
        yield e
    finally:
        e.close()


def text(model: str, said: list[int]) -> str:
    from transformers import AutoTokenizer

    return str(AutoTokenizer.from_pretrained(model).decode(said, skip_special_tokens=True))


def same(e: Endpoint, alone: Alone, how_many: int, killed: str = "") -> dict[str, int]:
    """That many streams at once say what one engine says alone, whatever is killed meanwhile. The most requests that
    reasoned at the engine with the fewer, and the most that answered."""
    seen = {"reasoning": 0, "answering": 0}

    async def run(client: AsyncOpenAI) -> None:
        streams = [asyncio.ensure_future(text_of(client, "tiny", i, most)) for i in alone.prompts[:how_many]]
        if killed:
            await kill_one(e, killed, 2, streams)
        else:
            while not all(s.done() for s in streams):
                views = (await asyncio.to_thread(e.book))["replicas"].values()
                seen["reasoning"] = max(seen["reasoning"], min(v["reasoning"] for v in views))
                seen["answering"] = max(seen["answering"], sum(v["fresh_answers"] for v in views))
        got = await asyncio.gather(*streams)
        equal = sum(a == text(alone.model, b) for a, b in zip(got, alone.says, strict=False))
        print(f"{equal} of {how_many} streams are what one engine alone says; {seen}; {e.book()}")
        assert equal == how_many
        await e.settled()

    e.talk(run)
    return seen


def both(e: Endpoint) -> dict[str, Any]:
    """The book with both engines in it."""
    return dict(e.until("both engines", lambda: e.full(2)() and e.book()))


def test_real_engines_move_requests_at_the_end_of_their_reasoning(engines: Endpoint, alone: Alone) -> None:
    seen = same(engines, alone, 16)
    assert seen["reasoning"] >= 1 and seen["answering"] >= 1, "somebody reasons at both, and somebody answers"
    book = engines.book()
    assert book["failed"] == 0 and book["moved"] >= 1 and book["moved"] + book["stayed"] <= 16


def test_real_engines_through_kill_9_of_a_core(engines: Endpoint, alone: Alone) -> None:
    before = both(engines)["failed"]
    same(engines, alone, 8, core)
    assert engines.book()["failed"] > before


def test_real_engines_through_kill_9_of_a_replica(engines: Endpoint, alone: Alone) -> None:
    before = both(engines)["failed"]
    same(engines, alone, 8, replica)
    assert engines.book()["failed"] > before
