#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""endpoint_picker behind a real Envoy, by examples/endpoint_picker/envoy.yaml, in front of engines. Each token of these
is a function of all before it.

envoy_test.py PICKER ENVOY.YAML    ENVOY is on the PATH, or where script/envoy has put it; else 77: skipped.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

picker_program, envoy_config = sys.argv[1], Path(sys.argv[2])
cache = Path(os.environ.get("TESSERA_CACHE", Path.home() / ".cache" / "tessera"))
envoy_program = shutil.which("envoy") or shutil.which("envoy", path=str(cache / "envoy" / "bin"))
patience = 60.0


def tokens_from(ids: list[int]) -> Iterator[int]:
    """What any engine says to these."""
    h = 1469598103934665603
    for token in ids:
        h = ((h ^ token) * 1099511628211) & (2**64 - 1)
    while True:
        token = h % 50_000
        yield token
        h = ((h ^ token) * 1099511628211) & (2**64 - 1)


def tokens_after(ids: list[int], n: int) -> list[int]:
    return [*itertools.islice(tokens_from(ids), n)]


class Engine(http.server.ThreadingHTTPServer):
    """A vLLM server as far as a picker and a gateway see one."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.where = f"127.0.0.1:{self.server_port}"
        self.served = self.running = self.waiting = self.gone = 0
        self.lock = threading.Lock()
        self.refuses = False  #: connections end before an answer begins
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def count(self, **changes: int) -> None:
        with self.lock:
            for name, by in changes.items():
                setattr(self, name, getattr(self, name) + by)

    def handle_error(self, *_: Any) -> None:
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Engine

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        e = self.server
        page = (
            f'vllm:num_requests_running{{engine="0"}} {e.running}.0\nvllm:num_requests_waiting{{engine="0"}} {e.waiting}.0\n'
            f'vllm:kv_cache_usage_perc{{engine="0"}} {min(1, e.running / 100)}\nprocess_start_time_seconds 1700000000\n'
            'vllm:cache_config_info{block_size="16",num_gpu_blocks="1000"} 1.0\n'
        ).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        out = b""
        while size := int(self.rfile.readline(), 16):
            out += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return out

    def do_POST(self) -> None:
        e = self.server
        self.close_connection = True
        asked = json.loads(self.body())
        if e.refuses:
            return
        e.count(running=1)
        try:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("x-engine", e.where)
            self.end_headers()
            for token in itertools.islice(tokens_from(asked["prompt"]), asked["max_tokens"]):
                time.sleep(0.002)
                self.wfile.write(f"data: {json.dumps({'choices': [{'token': token}]})}\n\n".encode())
            usage = {"prompt_tokens": len(asked["prompt"]), "completion_tokens": asked["max_tokens"]}
            self.wfile.write(f"data: {json.dumps({'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n".encode())
            e.count(served=1)
        except OSError:
            e.count(gone=1)
        finally:
            e.count(running=-1)


hint = """\
- name: envoy.filters.http.header_to_metadata
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config
    request_rules:
    - header: x-subset
      remove: true
      on_header_present:
        metadata_namespace: envoy.lb.subset_hint
        key: x-gateway-destination-endpoint-subset
"""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def until(what: str, true: Callable[[], Any]) -> Any:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what}: not in {patience:g} s")


class Picker:
    def __init__(self, folder: Path, port: int, *options: str) -> None:
        self.log = folder / f"picker-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [picker_program, "--endpoints", str(folder / "endpoints.json"), "--listen", f"127.0.0.1:{port}"]
                + ["--choices", "1", "--scrape-interval", "0.1", *options],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        until("the picker listens", lambda: "listening" in self.log.read_text())

    def book(self) -> dict[str, Any]:
        before = self.log.read_text().count("\n{")
        self.process.send_signal(signal.SIGUSR1)
        until("the book", lambda: self.log.read_text().count("\n{") > before)
        until("all of it", lambda: self.log.read_text().endswith("\n"))
        line = [x for x in self.log.read_text().splitlines() if x.startswith("{")][-1]
        return dict(json.loads(line))

    def ready(self, n: int) -> None:
        """So many are there for new requests."""
        until(f"{n} ready", lambda: sum(e["ready"] and not e["drains"] for e in self.book()["endpoints"]) == n)

    def looks_again(self) -> None:
        """All metrics have been read once more."""
        book = self.book()
        enough = book["reports"] + 2 * len(book["endpoints"])
        until("reports", lambda: self.book()["reports"] >= enough)

    def end(self, how: int = signal.SIGKILL) -> None:
        self.process.send_signal(how)
        self.process.wait(patience)


class BehindEnvoy(unittest.TestCase):
    def setUp(self) -> None:
        done = contextlib.ExitStack()
        self.addCleanup(done.close)
        self.folder = Path(done.enter_context(tempfile.TemporaryDirectory(prefix="tessera-envoy-")))
        self.engines = [Engine() for _ in range(3)]
        for e in self.engines:
            done.callback(e.server_close)
            done.callback(e.shutdown)
        self.list(self.engines)
        self.port, self.picker_port = free_port(), free_port()
        config = envoy_config.read_text()
        for was, is_ in ((8080, self.port), (9002, self.picker_port)):
            config, times = re.subn(rf"port_value: {was}\b", f"port_value: {is_}", config)
            assert times == 1, "the example's ports"
        # A gateway says in metadata which endpoints may be chosen; here a header does.
        config, times = re.subn("( *)http_filters:\n", lambda at: at[0] + textwrap.indent(hint, at[1]), config)
        assert times == 1, "the example's filters"
        (self.folder / "envoy.yaml").write_text(config)
        self.picker = Picker(self.folder, self.picker_port)
        done.callback(lambda: self.picker.end())
        self.envoy_log = done.enter_context((self.folder / "envoy.log").open("w+b"))
        envoy = subprocess.Popen(
            [str(envoy_program), "-c", str(self.folder / "envoy.yaml"), "--concurrency", "1"]
            + ["--disable-hot-restart", "--log-level", "warning"],
            stdout=self.envoy_log,
            stderr=subprocess.STDOUT,
        )
        done.callback(envoy.wait)
        done.callback(envoy.kill)
        self.picker.ready(3)
        until("Envoy listens, or ends", lambda: self.listens() or envoy.poll() is not None)
        self.assertIsNone(envoy.poll(), (self.folder / "envoy.log").read_text())

    def listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def list(self, engines: list[Engine]) -> None:
        listed = {"endpoints": [{"address": e.where} for e in engines], "objectives": {"batch": -1}}
        made = self.folder / "new.json"
        made.write_text(json.dumps(listed))
        made.rename(self.folder / "endpoints.json")

    def ask(self, body: bytes, **headers: str) -> tuple[int, bytes, str]:
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience)
        with contextlib.closing(c):
            # A request that is refused before it is sent whole may find that the rest is not read.
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                c.request("POST", "/v1/completions", body, {"content-type": "application/json", **headers})
            answer = http.client.HTTPResponse(c.sock, method="POST")
            answer.begin()
            return answer.status, answer.read(), answer.headers.get("x-engine", "")

    def complete(self, ids: list[int], n: int, **headers: str) -> str:
        body = json.dumps({"model": "m", "prompt": ids, "max_tokens": n, "stream": True}).encode()
        status, said, engine = self.ask(body, **headers)
        self.assertEqual(status, 200, said)
        events = [json.loads(x[6:]) for x in said.decode().split("\n\n") if x.startswith("data: {")]
        self.assertEqual([c["token"] for e in events for c in e["choices"]], tokens_after(ids, n))
        self.assertTrue(said.endswith(b"data: [DONE]\n\n"))
        return engine

    def rests(self) -> None:
        """No request is in the book any more."""
        until("an empty book", lambda: not any(e.get("own", 0) for e in self.picker.book()["endpoints"]))

    def test_streams_come_whole_and_are_spread(self) -> None:
        with ThreadPoolExecutor(24) as pool:
            asked = [pool.submit(self.complete, [i, 2, 3], 40 + i) for i in range(72)]
            came = [a.result(patience) for a in asked]
        self.assertEqual(set(came), {e.where for e in self.engines})
        self.assertGreater(min(e.served for e in self.engines), 12)
        self.rests()

    def test_a_long_prompt_passes(self) -> None:
        self.complete([*range(200_000)], 1)

    def test_what_is_no_request_is_answered_by_the_picker(self) -> None:
        self.assertEqual(self.ask(b'{"prompt": [1, 2')[0], 400)
        self.assertEqual(self.ask(b"[" + b"1," * 5_000_000 + b"1]")[0], 413)
        self.complete([1], 1)

    def test_what_may_be_shed_is_shed_and_the_rest_is_not(self) -> None:
        for e in self.engines:
            e.waiting = 50
        self.picker.looks_again()
        body = json.dumps({"model": "m", "prompt": [1], "max_tokens": 1}).encode()
        self.assertEqual(self.ask(body, **{"x-gateway-inference-objective": "batch"})[0], 429)
        self.complete([1], 1)

    def test_a_subset_is_kept_to(self) -> None:
        second = self.engines[1].where
        self.assertEqual({self.complete([i], 2, **{"x-subset": second}) for i in range(10)}, {second})
        two = {self.engines[0].where, second}
        self.assertEqual({self.complete([i], 2, **{"x-subset": ",".join(two)}) for i in range(20)}, two)
        body = json.dumps({"prompt": [1], "max_tokens": 1}).encode()
        self.assertEqual(self.ask(body, **{"x-subset": "127.0.0.1:1"})[0], 503)

    def test_nobody_is_ready(self) -> None:
        self.list([])
        until("nobody", lambda: not self.picker.book()["endpoints"])
        self.assertEqual(self.ask(b'{"prompt": [1], "max_tokens": 1}')[0], 503)
        self.list(self.engines)
        self.picker.ready(3)
        self.complete([1], 1)

    def test_an_endpoint_drains(self) -> None:
        with ThreadPoolExecutor(12) as pool:
            asked = [pool.submit(self.complete, [i], 400) for i in range(12)]
            until("all run", lambda: sum(e.running for e in self.engines) == 12)
            self.list(self.engines[:2])
            self.picker.ready(2)
            later = [self.complete([i, i], 5) for i in range(20)]
            for a in asked:
                a.result(patience)
        self.assertNotIn(self.engines[2].where, later)
        until("it is forgotten", lambda: len(self.picker.book()["endpoints"]) == 2)

    def test_a_client_that_goes_away(self) -> None:
        for _ in range(8):
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience)
            body = json.dumps({"model": "m", "prompt": [1], "max_tokens": 100_000}).encode()
            c.request("POST", "/v1/completions", body, {"content-type": "application/json"})
            self.assertTrue(c.getresponse().read(10))
            c.close()
        self.rests()
        until("engines hear of it", lambda: sum(e.gone for e in self.engines) == 8)

    def test_an_engine_that_ends_before_it_answers(self) -> None:
        self.engines[0].refuses = True
        seen = [self.ask(json.dumps({"prompt": [i], "max_tokens": 3}).encode())[0] for i in range(12)]
        self.assertEqual(set(seen) - {200}, {503})
        self.assertIn(200, seen)
        self.rests()

    def test_kill_9_of_the_picker_and_another(self) -> None:
        self.picker.end()
        self.assertEqual(self.ask(b'{"prompt": [1], "max_tokens": 1}')[0] // 100, 5)
        self.picker = Picker(self.folder, self.picker_port)
        self.picker.ready(3)
        until("Envoy has found it", lambda: self.ask(b'{"prompt": [1], "max_tokens": 1}')[0] == 200)
        self.complete([4, 5], 10)


if __name__ == "__main__":
    if envoy_program is None:
        print("Envoy is not installed: script/envoy installs it")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
