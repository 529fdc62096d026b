# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/ray in a Ray of its own, for tests: started, looked at, and ended with all that it has started.

A machine that is busy makes everything late. So nothing here judges how long something takes. What is waited for is an
event. When `patience` is over, `until` says what did not come, and what the processes said.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

here = Path(__file__).resolve()
app = here.parents[3] / "examples" / "ray" / "app.py"
#: Seconds after which what has not come will not come. A start of two engines takes one minute on two idle cores.
patience = float(os.environ.get("TESSERA_FLEET_PATIENCE", "400"))

#: For engines on a CPU. Without the last the engine's core and its worker are two processes, and each spins while it
#: waits for the other. Four processes that spin on two cores leave little to those that have work. Ray gives its
#: workers 15 of niceness, and next to a compiler they get next to nothing.
environment = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "HF_HUB_OFFLINE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}


class NeverCame(AssertionError):
    """What was waited for has not come."""


class Endpoint:
    """The application in a Ray of its own."""

    def __init__(self, *words: str) -> None:
        self.mark = uuid.uuid4().hex
        self.port = free_port()
        self.folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # Ray's sockets have short names
        self.segments: set[str] = set()
        self.log = Path(self.folder) / "app.log"
        self.words = words
        self.process = self._begin()
        try:
            self.until("the endpoint with all its replicas", self._answers)
        except BaseException:
            self.close()
            raise

    def _begin(self) -> subprocess.Popen[bytes]:
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, str(app), "--port", str(self.port), *self.words],
                stdout=log,
                stderr=log,
                env={**os.environ, **environment, "TESSERA_FLEET_TEST": self.mark, "RAY_TMPDIR": self.folder},
                start_new_session=True,
            )

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            # Ray gives its processes half a minute to start, however busy the machine is.
            if b"The current node timed out during startup" not in self.log.read_bytes():
                raise NeverCame(f"the application has ended:\n{self.said()}")
            end_all(self.mark)
            self.process = self._begin()
        return b"/v1" in self.log.read_bytes()

    def close(self) -> None:
        """Ends it as it is: nothing that is asked to end in order ends in time on a machine that is busy."""
        for pid in self.pids():
            self._remember(pid)
        end_all(self.mark)
        self.process.wait()
        for name in self.segments:
            with contextlib.suppress(OSError):
                (Path("/dev/shm") / name).unlink()
        subprocess.run(["rm", "-rf", self.folder], check=False)

    def kill(self, pid: int) -> None:
        """kill -9. What it has in shared memory is removed at the end, because it cannot do that any more."""
        self._remember(pid)
        print(f"killed: {pid}, {Path(f'/proc/{pid}/cmdline').read_bytes()[:32]!r}")
        os.kill(pid, signal.SIGKILL)

    def _remember(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            maps = Path(f"/proc/{pid}/maps").read_text()
            self.segments.update(re.findall(r"/dev/shm/(psm_\w+|sem\.mp-\w+|ucx_shm_\w+)", maps))

    def pids(self, title: str = "") -> list[int]:
        """Processes of this application's alone, by what they call themselves."""
        return marked(self.mark, title)

    def cores(self) -> list[int]:
        """The cores of vLLM's engines, which replicas start. They are not found by what they call themselves: a process
        that had its environment changed before cannot always do that."""
        replicas = self.pids(replica)
        return [pid for pid in self.pids("") if parent_of(pid) in replicas and is_core(pid)]

    def core(self, pid: int) -> int:
        """The core of the engine of that replica, or 0 if it is not there."""
        return next((core for core in self.cores() if parent_of(core) == pid), 0)

    def said(self) -> str:
        """The ends of what the application and its replicas have said."""
        logs = [self.log, *Path(self.folder).glob("**/logs/serve/*engines*"), *Path(self.folder).glob("**/worker*.err")]
        parts = []
        for log in logs:
            with contextlib.suppress(OSError):
                if text := log.read_text(errors="replace").strip():
                    parts.append(f"-- {log.name}\n" + "\n".join(text.splitlines()[-15:]))
        return "\n".join(parts)

    # -- waiting

    def until(self, what: str, happens: Callable[[], Any], step: float = 0.2) -> Any:
        """What `happens` returns as soon as that is true. NeverCame says what did not come, and how things stand."""
        end = time.monotonic() + patience
        while True:
            if got := happens():
                return got
            if time.monotonic() > end:
                raise NeverCame(
                    f"{patience:.0f} s, and no sign of {what}; the book: {self.book_or_why()}\n{self.said()}"
                )
            time.sleep(step)

    async def soon(self, what: str, happens: Callable[[], Any], step: float = 0.05) -> Any:
        """The same while other tasks go on."""
        end = time.monotonic() + patience
        while True:
            if got := await asyncio.to_thread(happens):
                return got
            if time.monotonic() > end:
                raise NeverCame(
                    f"{patience:.0f} s, and no sign of {what}; the book: {self.book_or_why()}\n{self.said()}"
                )
            await asyncio.sleep(step)

    def book(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/fleet", timeout=patience) as said:
            return dict(json.load(said))

    def book_or_why(self) -> Any:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/fleet", timeout=20) as said:
                return json.load(said)
        except (OSError, urllib.error.URLError, ValueError) as error:
            return error

    async def settled(self) -> dict[str, Any]:
        """The book when it is back at zero."""

        def at_zero() -> dict[str, Any] | None:
            book = self.book()
            done = book["requests"] == 0 and all(v["requests"] == 0 for v in book["replicas"].values())
            return book if done else None

        book: dict[str, Any] = await self.soon("a book that is back at zero", at_zero)
        assert book["moving"] == 0 and book["expired"] == 0
        return book

    def talk(self, what: Callable[[AsyncOpenAI], Coroutine[Any, Any, None]]) -> None:
        """Runs it with an ordinary client."""

        async def run() -> None:
            url = f"http://127.0.0.1:{self.port}/v1"
            # A connection that is kept may be closed by the server just when it is used again.
            once = {"Connection": "close"}
            async with AsyncOpenAI(
                base_url=url, api_key="none", timeout=patience, max_retries=0, default_headers=once
            ) as client:
                await what(client)

        asyncio.run(run())


#: What a replica's actor calls itself.
replica = "ServeReplica:tessera:engines"


def marked(mark: str, title: str = "") -> list[int]:
    """Processes that have this mark in their environment, and that title in what they call themselves."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                ours = f"TESSERA_FLEET_TEST={mark}".encode() in (entry / "environ").read_bytes()
                if ours and title.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def parent_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def is_core(pid: int) -> bool:
    with contextlib.suppress(OSError):
        called = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"VLLM::EngineCore" in called or b"spawn_main" in called
    return False


def end_all(mark: str) -> None:
    """Kills them, until there are none: a process that is killed may have been about to start others. (A zombie has no
    environment.)"""
    while left := marked(mark):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def free_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


async def kill_one(e: Endpoint, replicas: int, streams: list[asyncio.Future[str]]) -> None:
    """Kills a replica as soon as every engine has a request with a token."""
    # Looked for first: on a machine that is busy that takes seconds, and streams end meanwhile.
    pids = await e.soon(replica, lambda: e.pids(replica))

    def all_run() -> bool:
        assert not all(s.done() for s in streams), "the streams had ended before every engine was seen to have one"
        held = [v["kv_held"] for v in e.book()["replicas"].values()]
        return len(held) == replicas and min(held) > 0

    await e.soon("a token of every engine", all_run, 0.02)
    e.kill(pids[0])


def prompts(n: int, seed: int, least: int = 20, most: int = 120) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(3, 1000) for _ in range(draw.randrange(least, most))] for _ in range(n)]


async def text_of(
    client: AsyncOpenAI, model: str, ids: list[int], n: int, moves: bool = True, heard: list[str] | None = None
) -> str:
    """What is said to these, greedily. A request that samples from one token is greedy too, but it does not move.
    `heard`: takes the parts as they come."""
    heard = [] if heard is None else heard
    how: dict[str, Any] = {"ignore_eos": True} if moves else {"ignore_eos": True, "top_k": 1}
    stream = await client.completions.create(
        model=model, prompt=ids, max_tokens=n, temperature=0 if moves else 1, stream=True, extra_body=how
    )
    async for chunk in stream:
        heard.append(chunk.choices[0].text)
        last = chunk.choices[0].finish_reason
    assert last == "length"
    return "".join(heard)
