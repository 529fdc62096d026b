# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/ray as it is before fake engines: an ordinary client, and processes that are killed. Skipped where there is
no Ray."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterator

import pytest

for needed in ("ray", "openai"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"there is no {needed} here: script/python fleet installs it", allow_module_level=True)

from endpoint import Endpoint, kill_one, patience, prompts, text_of  # noqa: E402
from fake_engine import answer  # noqa: E402
from openai import AsyncOpenAI, BadRequestError, NotFoundError  # noqa: E402


def words(tokens: list[int]) -> str:
    return "".join(f" {t}" for t in tokens)


# Room for an answer that would take longer than any test waits, at a rate that leaves a busy machine some time.
endless = ("--longest", "200000", "--engine-options", '{"blocks": 16384, "step": 0.05}')


@pytest.fixture(scope="module")
def fake() -> Iterator[Endpoint]:
    e = Endpoint("--engine", "fake", "--replicas", "3", "--hang", "60", *endless)
    try:
        yield e
    finally:
        e.close()


def test_an_ordinary_client(fake: Endpoint) -> None:
    async def talk(client: AsyncOpenAI) -> None:
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
        for wrong in ({"max_tokens": 0}, {"max_tokens": 500_000}, {"n": 2}, {"stop": ""}, {"logprobs": 3}):
            with pytest.raises(BadRequestError) as e:
                await client.completions.create(model="fake", prompt=ids, **wrong)
            assert e.value.type == "invalid_request_error" and e.value.param == next(iter(wrong))
        with pytest.raises(NotFoundError):
            await client.completions.create(model="other", prompt=ids)
        await fake.settled()

    fake.talk(talk)


def test_what_cannot_be_is_said_at_the_start() -> None:
    import subprocess
    import sys

    from endpoint import app

    words = ["--engine", "fake", "--policy", "phi_time", "--prefill-budget", "0"]
    ended = subprocess.run([sys.executable, str(app), *words], capture_output=True, text=True, timeout=patience)
    assert ended.returncode == 2 and "--prefill-budget: above 0" in ended.stderr


def test_the_book_has_room_for_twice_as_many_replicas() -> None:
    from app import options, settings

    assert settings(options(["--engine", "fake"]))["replicas"] == 64
    assert settings(options(["--engine", "fake", "--replicas", "65"]))["replicas"] == 130
    own = ["--settings", '{"replicas": 200}']
    assert settings(options(["--engine", "fake", "--replicas", "65", *own]))["replicas"] == 200


def test_nobody_is_asked_to_move_where_engines_cannot() -> None:
    from app import options, settings

    fake = ["--engine", "fake", "--policy", "pascal"]
    assert settings(options(fake))["moves"] == "none" and "moves" not in settings(options([*fake, "--moves"]))
    assert settings(options([*fake, "--settings", '{"moves": "cascade"}']))["moves"] == "cascade"


def test_a_controller_is_named_as_in_replay() -> None:
    from app import options

    fake = ["--engine", "fake"]
    assert options([*fake, "--controller", "bounded-hashing", "--record", "a.log"]).controller == "bounded-hashing"
    assert options(fake).controller is None
    with pytest.raises(SystemExit):
        options([*fake, "--controller", "fastest"])


def test_streams_through_kill_9_of_a_replica(fake: Endpoint) -> None:
    async def run(client: AsyncOpenAI) -> None:
        all_ids = prompts(12, 1)
        before, names = fake.book()["failed"], set(fake.book()["replicas"])
        # None of them ends by itself, however long it takes to kill a replica.
        heard: list[list[str]] = [[] for _ in all_ids]
        streams = [
            asyncio.ensure_future(text_of(client, "fake", ids, 150_000, heard=into))
            for ids, into in zip(all_ids, heard, strict=True)
        ]
        await kill_one(fake, 3, streams)
        await fake.soon("requests that the replica has failed", lambda: fake.book()["failed"] > before)
        so_far = [len(into) for into in heard]
        await fake.soon(
            "streams that all go on", lambda: all(len(into) > n for into, n in zip(heard, so_far, strict=True))
        )
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
        for ids, into in zip(all_ids, heard, strict=True):
            text = "".join(into)
            assert text == words(answer(ids, text.count(" ")))
        await fake.settled()

        def is_replaced() -> bool:
            now = set(fake.book()["replicas"])
            return len(now) == 3 and now != names

        await fake.soon("another replica in its place", is_replaced)
        got = await asyncio.gather(*[text_of(client, "fake", ids, 20) for ids in all_ids])
        assert got == [words(answer(ids, 20)) for ids in all_ids]
        assert len((await fake.settled())["replicas"]) == 3

    fake.talk(run)


def test_a_client_that_hangs_up_stops_the_engine(fake: Endpoint) -> None:
    async def run(client: AsyncOpenAI) -> None:
        stream = await client.completions.create(
            model="fake", prompt=[1, 2, 3], max_tokens=150_000, stream=True, extra_body={"ignore_eos": True}
        )
        async for _ in stream:
            break
        assert fake.book()["requests"] == 1
        await fake.soon(
            "an engine that says that it has a request",
            lambda: any(v["reported"] == 1 for v in fake.book()["replicas"].values()),
        )
        await stream.close()
        # By itself it would go on for 150,000 steps of 50 ms, and that is longer than any test waits here.
        assert patience < 1500
        await fake.settled()
        await fake.soon(
            "engines that say that they have nothing to do",
            lambda: all(v["reported"] == 0 for v in fake.book()["replicas"].values()),
        )

    fake.talk(run)
