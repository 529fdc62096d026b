# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/ray as it is: an ordinary client, processes that are killed, real engines. Skipped where there is no Ray."""

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
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

for needed in ("ray", "openai"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"there is no {needed} here: script/python fleet installs it", allow_module_level=True)

from fake_engine import answer  # noqa: E402
from openai import AsyncOpenAI, BadRequestError, NotFoundError  # noqa: E402

here = Path(__file__).resolve()
app = here.parents[3] / "examples" / "ray" / "app.py"
real = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None or importlib.util.find_spec("nixl") is None,
    reason="there is no vLLM, or no NIXL, here: script/python fleet installs them",
)


class Endpoint:
    """The application in a Ray of its own."""

    def __init__(self, *words: str) -> None:
        self.mark = uuid.uuid4().hex
        self.port = free_port()
        self.folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # Ray's sockets have short names
        environment = {
            **os.environ,
            "TESSERA_FLEET_TEST": self.mark,
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": self.folder,
            "OMP_NUM_THREADS": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_LOGGING_LEVEL": "WARNING",
            "HF_HUB_OFFLINE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.log = Path(self.folder) / "app.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(app), "--port", str(self.port), *words],
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        end = time.monotonic() + 300
        while b"/v1" not in self.log.read_bytes():
            if self.process.poll() is not None or time.monotonic() > end:
                said = self.log.read_text()
                self.close()
                raise RuntimeError(said)
            time.sleep(0.2)

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        # What was killed has not cleaned up.
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        subprocess.run(["rm", "-rf", self.folder], check=False)

    def pids(self, title: str = "") -> list[int]:
        """Processes of this application's alone, by what they call themselves."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    ours = f"TESSERA_FLEET_TEST={self.mark}".encode() in (entry / "environ").read_bytes()
                    if ours and title.encode() in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
        return found

    def book(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/fleet", timeout=10) as said:
            return dict(json.load(said))

    def client(self) -> AsyncOpenAI:
        return AsyncOpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="none", timeout=120, max_retries=0)

    async def settled(self) -> dict[str, Any]:
        for _ in range(100):
            book = self.book()
            if book["requests"] == 0 and all(v["requests"] == 0 for v in book["replicas"].values()):
                assert book["moving"] == 0 and book["expired"] == 0
                return book
            await asyncio.sleep(0.1)
        raise AssertionError(f"books are not back at zero: {book}")


def free_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def prompts(n: int, seed: int, least: int = 20, most: int = 120) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(3, 1000) for _ in range(draw.randrange(least, most))] for _ in range(n)]


async def text_of(client: AsyncOpenAI, model: str, ids: list[int], n: int) -> str:
    got = ""
    stream = await client.completions.create(
        model=model, prompt=ids, max_tokens=n, temperature=0, stream=True, extra_body={"ignore_eos": True}
    )
    async for chunk in stream:
        got += chunk.choices[0].text
        last = chunk.choices[0].finish_reason
    assert last == "length"
    return got


def words(tokens: list[int]) -> str:
    return "".join(f" {t}" for t in tokens)


# -- fake engines


@pytest.fixture(scope="module")
def fake() -> Iterator[Endpoint]:
    e = Endpoint("--engine", "fake", "--replicas", "3", "--hang", "3")
    try:
        yield e
    finally:
        e.close()


def test_an_ordinary_client(fake: Endpoint) -> None:
    async def talk() -> None:
        client = fake.client()
        assert [m.id async for m in await client.models.list()] == ["fake"]
        ids = [5, 6, 7]
        tokens = answer(ids, 12)
        done = await client.completions.create(model="fake", prompt=ids, max_tokens=12, extra_body={"ignore_eos": True})
        assert done.choices[0].text == words(tokens) and done.choices[0].finish_reason == "length"
        assert done.usage is not None and (done.usage.prompt_tokens, done.usage.completion_tokens) == (3, 12)
        # A stop string that spans tokens, and is not in the text.
        stop = f"{tokens[4]} {tokens[5]}"
        done = await client.completions.create(
            model="fake", prompt="5 6 7", max_tokens=12, stop=[stop, "no"], extra_body={"ignore_eos": True}
        )
        assert done.choices[0].text == words(tokens[:4]) + " " and done.choices[0].finish_reason == "stop"
        stream = await client.chat.completions.create(
            model="fake",
            messages=[{"role": "user", "content": "hello"}],
            max_completion_tokens=5,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
        chunks = [c async for c in stream]
        assert chunks[0].choices[0].delta.role == "assistant"
        assert len("".join(c.choices[0].delta.content or "" for c in chunks[:-1]).split()) == 5
        assert chunks[-2].choices[0].finish_reason == "length" and chunks[-1].usage.completion_tokens == 5
        for wrong in ({"max_tokens": 0}, {"max_tokens": 5000}, {"n": 2}, {"stop": ""}, {"logprobs": 3}):
            with pytest.raises(BadRequestError) as e:
                await client.completions.create(model="fake", prompt=ids, **wrong)
            assert e.value.type == "invalid_request_error" and e.value.param == next(iter(wrong))
        with pytest.raises(NotFoundError):
            await client.completions.create(model="other", prompt=ids)
        await fake.settled()

    asyncio.run(talk())


def test_streams_through_kill_9_of_a_replica(fake: Endpoint) -> None:
    async def run() -> None:
        client = fake.client()
        all_ids = prompts(30, 1)
        before = fake.book()["failed"]
        streams = [asyncio.ensure_future(text_of(client, "fake", ids, 100)) for ids in all_ids]
        await asyncio.sleep(1.0)
        os.kill(fake.pids("ServeReplica:tessera:engines")[0], signal.SIGKILL)
        got = await asyncio.gather(*streams)
        assert got == [words(answer(ids, 100)) for ids in all_ids]
        assert fake.book()["failed"] > before
        for _ in range(300):
            if len((await fake.settled())["replicas"]) == 3:
                break
            await asyncio.sleep(0.1)
        got = await asyncio.gather(*[text_of(client, "fake", ids, 20) for ids in all_ids])
        assert got == [words(answer(ids, 20)) for ids in all_ids]
        assert len((await fake.settled())["replicas"]) == 3

    asyncio.run(run())


def test_a_client_that_hangs_up_stops_the_engine(fake: Endpoint) -> None:
    async def run() -> None:
        client = fake.client()
        stream = await client.completions.create(
            model="fake", prompt=[1, 2, 3], max_tokens=2000, stream=True, extra_body={"ignore_eos": True}
        )
        async for _ in stream:
            break
        assert fake.book()["requests"] == 1
        await stream.close()
        began = time.monotonic()
        await fake.settled()
        assert time.monotonic() - began < 5

    asyncio.run(run())


# -- real engines


@pytest.fixture(scope="module")
def alone() -> Iterator[tuple[str, list[list[int]], list[list[int]]]]:
    """A model, prompts, and what one engine says to them one after the other."""
    sys.path.insert(0, str(here.parents[1] / "vllm"))
    import model as tiny

    folder = tempfile.mkdtemp(prefix="tessera-fleet-")
    tiny.make(Path(folder))
    ids = prompts(16, 7, 100, 500)
    script = (
        "import json, sys\n"
        "from vllm import LLM, SamplingParams\n"
        "model, ids = json.load(sys.stdin)\n"
        f"engine = LLM(model, skip_tokenizer_init=True, **{engine_options})\n"
        "p = SamplingParams(temperature=0, max_tokens=120, ignore_eos=True, detokenize=False)\n"
        "out = [engine.generate([{'prompt_token_ids': i}], p, use_tqdm=False)[0] for i in ids]\n"
        "print(json.dumps([[*o.outputs[0].token_ids] for o in out]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps([folder, ids]),
        capture_output=True,
        text=True,
        env={**os.environ, **tiny.environment},
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-4000:])
    yield folder, ids, json.loads(done.stdout.splitlines()[-1])
    subprocess.run(["rm", "-rf", folder], check=False)


engine_options: dict[str, Any] = {
    "dtype": "float32",
    "max_model_len": 1024,
    "enforce_eager": True,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 256,
    "block_size": 32,
    "num_gpu_blocks_override": 200,
    "kv_cache_memory_bytes": 1 << 27,
    "seed": 0,
}


@pytest.fixture(scope="module")
def engines(alone: tuple[str, Any, Any]) -> Iterator[Endpoint]:
    options = {**engine_options, "skip_tokenizer_init": True, "distributed_executor_backend": "uni"}
    options["kv_transfer_config"] = {"kv_buffer_device": "cpu"}
    e = Endpoint(
        *("--model", alone[0], "--name", "tiny", "--replicas", "2", "--block-size", "32", "--longest", "1024"),
        *("--moves", "--tight", "150", "--settings", '{"rest": 1.0}', "--engine-options", json.dumps(options)),
    )
    try:
        yield e
    finally:
        e.close()


def text(model: str, tokens: list[int]) -> str:
    from transformers import AutoTokenizer

    return str(AutoTokenizer.from_pretrained(model).decode(tokens, skip_special_tokens=True))


async def same(e: Endpoint, alone: tuple[str, Any, Any], how_many: int, during: Any = None) -> None:
    model, ids, said = alone
    client = e.client()
    streams = [asyncio.ensure_future(text_of(client, "tiny", i, 120)) for i in ids[:how_many]]
    if during is not None:
        await during()
    got = await asyncio.gather(*streams)
    equal = sum(a == text(model, b) for a, b in zip(got, said, strict=False))
    print(f"{equal} of {how_many} streams are what one engine alone says; {e.book()}")
    assert equal == how_many
    await e.settled()


@real
def test_real_engines_say_what_one_alone_says_and_requests_move(engines: Endpoint, alone: Any) -> None:
    asyncio.run(same(engines, alone, 16))
    book = engines.book()
    assert book["failed"] == 0 and book["moved"] >= 1


@real
def test_real_engines_through_kill_9_of_a_core_and_of_a_replica(engines: Endpoint, alone: Any) -> None:
    async def kill(title: str) -> None:
        """As soon as every engine has a request with a token."""
        for _ in range(600):
            book = await asyncio.to_thread(engines.book)
            if all(v["kv_held"] > 0 for v in book["replicas"].values()):
                break
            await asyncio.sleep(0.05)
        pid = engines.pids(title)[0]
        print(f"killed: {pid}, {Path(f'/proc/{pid}/cmdline').read_bytes()[:40]!r}")
        os.kill(pid, signal.SIGKILL)

    before = engines.book()["failed"]
    asyncio.run(same(engines, alone, 8, lambda: kill("VLLM::EngineCore")))
    middle = engines.book()["failed"]
    assert middle > before
    for _ in range(1200):
        if len(engines.book()["replicas"]) == 2:
            break
        time.sleep(0.1)
    asyncio.run(same(engines, alone, 8, lambda: kill("ServeReplica:tessera:engines")))
    assert engines.book()["failed"] > middle
