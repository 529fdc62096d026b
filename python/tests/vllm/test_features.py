# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What else vLLM offers, on its real engine, under its own scheduler and under ours."""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import model
import pytest

model.prepare()

from vllm import LLM, SamplingParams  # noqa: E402
from vllm.sampling_params import StructuredOutputsParams  # noqa: E402

pytestmark = pytest.mark.skipif(
    not os.environ.get("TESSERA_VLLM_ENGINE"), reason="the real engine takes minutes: set TESSERA_VLLM_ENGINE"
)


def apart(test: Callable) -> Callable:
    """Runs a test in a process of its own: what vLLM loads for one engine disturbs it when it starts another."""

    @wraps(test)
    def run(**named: Any) -> None:
        call = f"import test_features; test_features.{test.__name__}.__wrapped__(**{named!r})"
        done = subprocess.run(
            [sys.executable, "-c", call], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]

    return run


ours = {
    "scheduler_cls": "tessera.vllm.Scheduler",
    "additional_config": {"tessera": {"policy": "pascal", "quantum": 20, "fallback": False}},
}


@contextmanager
def llm(**more: Any) -> Iterator[LLM]:
    made = LLM(
        **{
            "model": model.folder(),
            "dtype": "float32",
            "max_model_len": 1024,
            "enforce_eager": True,
            "max_num_seqs": 16,
            "max_num_batched_tokens": 256,
            "block_size": 32,
            "num_gpu_blocks_override": 200,
            "kv_cache_memory_bytes": 1 << 28,
            **more,
        }
    )
    try:
        yield made
    finally:
        made.llm_engine.engine_core.shutdown()
        del made
        gc.collect()


def scheduler_of(made: LLM) -> str:
    s = made.llm_engine.engine_core.engine_core.scheduler
    return f"{type(s).__module__}.{type(s).__name__}"


prompts = [f"prompt {i} " * (1 + i % 7) for i in range(40)]


def answers(made: LLM, params: Any, asked: list[str] = prompts) -> list[Any]:
    return [
        [(list(o.token_ids), o.text, o.finish_reason, o.stop_reason) for o in answer.outputs]
        for answer in made.generate(asked, params, use_tqdm=False)
    ]


@apart
def test_structured_output_stop_strings_and_several_answers() -> None:
    """Grammars (compiled beside the engine), stop strings (which the front end finds), n > 1, and penalties."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    kinds = [
        None,
        StructuredOutputsParams(regex=r"[0-9]{3}-[a-f]{4}"),
        StructuredOutputsParams(choice=["left", "right", "nowhere"]),
        StructuredOutputsParams(json=json.dumps(schema)),
    ]
    params = [
        SamplingParams(
            # Several answers are not to be had from a temperature of 0; with the likeliest token alone they are sure.
            temperature=1 if i % 5 == 0 else 0,
            top_k=1,
            max_tokens=40,
            structured_outputs=kinds[i % 4],
            stop=["zz", "e"] if i % 3 == 0 else None,
            n=3 if i % 5 == 0 else 1,
            presence_penalty=0.5 if i % 6 == 0 else 0,
        )
        for i in range(40)
    ]
    got = []
    for options in ({}, ours):
        with llm(**options) as made:
            assert scheduler_of(made).startswith("tessera") == bool(options)
            got.append(answers(made, params))
            assert made.llm_engine.engine_core.engine_core.scheduler.get_request_counts() == (0, 0)
    assert got[0] == got[1]
    import re

    assert all(re.fullmatch(r"[0-9]{3}-[a-f]{4}", a[0][1]) for a in got[1][1::4] if a[0][2] == "stop" and not a[0][3])
    assert {len(a) for a in got[1]} == {1, 3}
    assert any(a[0][3] == "e" for a in got[1])


@apart
def test_an_engine_core_in_a_process_of_its_own() -> None:
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"
    params = SamplingParams(temperature=0, max_tokens=20)
    got = []
    for options in ({}, ours):
        with llm(**options) as made:
            assert not hasattr(made.llm_engine.engine_core, "engine_core")
            got.append(answers(made, params))
    assert got[0] == got[1]


not_had = pytest.mark.parametrize(
    "what",
    [
        {"max_num_active_seqs": 8},
    ],
    ids=["max_num_active_seqs"],
)


@not_had
@apart
def test_handed_back(what: dict) -> None:
    """vLLM's own scheduler does it, and well."""
    params = SamplingParams(temperature=0, max_tokens=20)
    fallback = dict(ours, additional_config={"tessera": {"policy": "pascal"}})
    with llm() as made:
        expected = answers(made, params)
    with llm(**what, **fallback) as made:
        assert scheduler_of(made) == "vllm.v1.core.sched.scheduler.Scheduler"
        assert answers(made, params) == expected


@not_had
@apart
def test_not_handed_back(what: dict) -> None:
    with pytest.raises(NotImplementedError, match="tessera does not support"), llm(**what, **ours):
        pass


@apart
def test_metrics_of_kv_and_of_operations() -> None:
    params = SamplingParams(temperature=0, max_tokens=20)
    asked = {"kv_cache_metrics": True, "kv_cache_metrics_sample": 1.0, "enable_mfu_metrics": True}
    with llm() as made:
        expected = answers(made, params)
    with llm(**asked, **ours) as made:
        assert scheduler_of(made).startswith("tessera")
        assert answers(made, params) == expected


@apart
def test_kv_in_a_store() -> None:
    """vLLM's ExampleConnector writes the KV of prompts to files, and loads it in the step that starts a request."""
    import tempfile

    from vllm.config import KVTransferConfig

    # Longer than a block: of shorter prompts that connector keeps nothing, and finds less than that.
    asked: Any = [{"prompt_token_ids": [3 + (i * j) % 50 for j in range(70 + 3 * i)]} for i in range(1, 20)]
    params = SamplingParams(temperature=0, max_tokens=20)
    got, loaded = [], []
    for options in ({}, ours):
        with tempfile.TemporaryDirectory() as folder:
            transfer = KVTransferConfig(
                kv_connector="ExampleConnector",
                kv_role="kv_both",
                kv_connector_extra_config={"shared_storage_path": folder},
            )
            more = {"kv_transfer_config": transfer, "enable_prefix_caching": False, "max_num_batched_tokens": 8192}
            for _ in range(2):
                with llm(**more, **options) as made:
                    assert scheduler_of(made).startswith("tessera") == bool(options)
                    connector = made.llm_engine.engine_core.engine_core.scheduler.connector
                    after, told = connector.update_state_after_alloc, []
                    connector.update_state_after_alloc = lambda r, b, n, a=after, t=told: (a(r, b, n), t.append(n))
                    got.append(answers(made, params, asked))
                    loaded.append(sum(told))
    assert got[1:] == got[:1] * 3
    assert loaded[0] == loaded[2] == 0 and loaded[1] == loaded[3] > 1000


@apart
def test_kv_events() -> None:
    """A router hears the same of ours as of vLLM's own scheduler."""
    import msgspec
    import zmq
    from vllm.config import KVEventsConfig
    from vllm.distributed.kv_events import BlockStored, KVEventBatch

    params = SamplingParams(temperature=0, max_tokens=40)
    long = ["The same beginning of forty words, " * 8 + p for p in prompts]
    heard, got = [], []
    with zmq.Context() as context:
        for options in ({}, ours):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            told = KVEventsConfig(enable_kv_cache_events=True, publisher="zmq", endpoint=f"tcp://*:{port}")
            with (
                llm(kv_events_config=told, num_gpu_blocks_override=2000, **options) as made,
                context.socket(zmq.SUB) as listener,
            ):
                listener.setsockopt(zmq.SUBSCRIBE, b"")
                listener.connect(f"tcp://127.0.0.1:{port}")
                assert ("tessera" in scheduler_of(made)) == bool(options)
                # While a subscriber joins, what is said may be lost.
                made.generate(long[:1], params, use_tqdm=False)
                assert made.reset_prefix_cache()
                got.append(answers(made, params, long))
                blocks: dict[int, tuple[int, ...]] = {}
                while listener.poll(2000):
                    _, _, payload = listener.recv_multipart()
                    for event in msgspec.msgpack.decode(payload, type=KVEventBatch).events:
                        if not isinstance(event, BlockStored) or event.parent_block_hash not in (None, *blocks):
                            continue
                        before = blocks.get(event.parent_block_hash, ())
                        for i, name in enumerate(event.block_hashes):
                            before += tuple(event.token_ids[i * 32 : (i + 1) * 32])
                            blocks[name] = before
                heard.append(set(blocks.values()))
    assert got[0] == got[1]
    assert len(heard[0]) > 40
    # A block that a request's last token fills is published here when it has been run: never.
    assert len(heard[0] ^ heard[1]) <= len(long)


@apart
@pytest.mark.parametrize("reads", ["tokens", "text"])
def test_an_order_by_a_trained_model(reads: str) -> None:
    """Trained on this engine's own outputs: the same answers as vLLM's, and the short ones first."""
    import tempfile

    from tessera import rank

    lengths = [5 if i % 2 else 60 for i in range(len(prompts))]
    asked = [("brief " if n == 5 else "everything ") * 3 + p for n, p in zip(lengths, prompts, strict=True)]
    params = [SamplingParams(temperature=0, max_tokens=n, ignore_eos=True) for n in lengths]
    with llm() as made:
        tokenizer = made.get_tokenizer()
        expected = answers(made, params, asked)
    with tempfile.TemporaryDirectory() as kept:
        path = os.path.join(kept, "lengths.rank")
        rank.save(rank.train(asked if reads == "text" else [tokenizer.encode(p) for p in asked], lengths), path)
        chosen = {"policy": "pars", "model": path, "model_reads": reads, "fallback": False}
        with llm(**{**ours, "additional_config": {"tessera": chosen}, "max_num_seqs": 4}) as made:
            scheduler = made.llm_engine.engine_core.engine_core.scheduler
            ended: list[int] = []
            notify = scheduler._notify_finished
            scheduler._notify_finished = lambda request: (ended.append(request.num_output_tokens), notify(request))
            assert answers(made, params, asked) == expected
            predictor = scheduler.describer.predictor
            assert predictor.seen == len(asked) and predictor.scores == {}
    # But for those that the first four places were given to before the others came.
    assert sum(n == 5 for n in ended[:20]) >= 16


@apart
def test_wrong_options_at_start() -> None:
    for given, message in (
        ({"policy": "best"}, "unknown policy 'best'; there are"),
        ({"policy": "pascal", "quantum": 0}, "quantum must be a whole number from 1"),
    ):
        with (
            pytest.raises(ValueError, match=message),
            llm(scheduler_cls="tessera.vllm.Scheduler", additional_config={"tessera": given}),
        ):
            pass


@apart
def test_requests_that_are_refused_do_not_hold_up_others() -> None:
    params = [SamplingParams(temperature=0, max_tokens=10) for _ in prompts]
    with llm(**ours) as made:
        expected = answers(made, params)
        params[7] = SamplingParams(temperature=0, max_tokens=10, extra_args={"tessera": {"score": 3}})
        got = answers(made, params)
    assert got[7][0][2] == "error" and got[7][0][0] == []
    assert got[:7] + got[8:] == expected[:7] + expected[8:]


@apart
def test_reset_between_requests() -> None:
    """What an engine's owner calls between requests."""
    with llm(**ours, enable_prefix_caching=True) as made:
        params = SamplingParams(temperature=0, max_tokens=10)
        first = answers(made, params)
        assert made.reset_prefix_cache()
        assert answers(made, params) == first


@apart
def test_kill_and_restart() -> None:
    """An engine core is killed while it works: the front end ends as with vLLM's own, and the next engine serves."""
    import signal
    import time
    from multiprocessing import active_children

    from vllm.v1.engine.exceptions import EngineDeadError

    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"
    params = SamplingParams(temperature=0, max_tokens=60, ignore_eos=True)
    got, ends = [], []
    for options in ({}, ours):
        with llm(**options) as made:
            got.append(answers(made, params))
            for i, prompt in enumerate(prompts):
                made.llm_engine.add_request(str(i), prompt, params)
            for _ in range(5):
                made.llm_engine.step()
            (core,) = active_children()
            os.kill(core.pid, signal.SIGKILL)
            begin = time.monotonic()
            # vLLM's client for one thread would wait for the dead one's next output; that it is dead is known.
            while not made.llm_engine.engine_core.resources.engine_dead:
                assert time.monotonic() - begin < 30
                time.sleep(0.05)
            with pytest.raises(EngineDeadError) as error:
                made.llm_engine.add_request("late", prompts[0], params)
            ends.append(str(error.value))
    assert got[0] == got[1] and ends[0] == ends[1]
    with llm(**ours) as made:
        assert answers(made, params) == got[0]
