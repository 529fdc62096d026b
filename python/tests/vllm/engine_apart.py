# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One of vLLM's real engines in a process of its own; others may fetch its KV."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
from pathlib import Path
from typing import Any

import model

block_size = 32


def serve(pipe: Any, folder: str, tessera: dict[str, Any] | None, transfers: bool, blocks: int) -> None:
    """An engine in a process. It takes (id, prompt, tokens, parameters of a transfer) and gives (id, tokens, reason,
    parameters). None ends it: then it says how many preemptions there were and what is held."""
    sys.path.insert(0, str(Path(__file__).parent))
    model.prepare()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        os.environ["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(s.getsockname()[1])
    from vllm import LLM, SamplingParams

    options: dict[str, Any] = {}
    if tessera is not None:
        options = {"scheduler_cls": "tessera.vllm.Scheduler", "additional_config": {"tessera": tessera}}
    if transfers:
        options["kv_transfer_config"] = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
    engine = LLM(
        model=folder,
        dtype="float32",
        max_model_len=1024,
        enforce_eager=True,
        max_num_seqs=12,
        max_num_batched_tokens=256,
        block_size=block_size,
        num_gpu_blocks_override=blocks,
        kv_cache_memory_bytes=1 << 28,
        **options,
    ).llm_engine
    scheduler = engine.engine_core.engine_core.scheduler
    assert ("tessera" in type(scheduler).__module__) == (tessera is not None)
    preempted = 0
    pipe.send("ready")
    while True:
        while pipe.poll():
            asked = pipe.recv()
            if asked is None:
                pipe.send((preempted, scheduler.get_kv_cache_usage(), scheduler.has_requests()))
                return
            request_id, prompt, tokens, params = asked
            extra = {"kv_transfer_params": params} if params else None
            sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, extra_args=extra)
            engine.add_request(request_id, {"prompt_token_ids": prompt}, sampling)
        for o in engine.step():
            if o.finished:
                preempted += getattr(o.metrics, "num_preemptions", 0) or 0
                pipe.send(
                    (o.request_id, list(o.outputs[0].token_ids), o.outputs[0].finish_reason, o.kv_transfer_params)
                )


class Engine:
    """One of them, seen from here."""

    def __init__(
        self, tessera: dict[str, Any] | None, transfers: bool, blocks: int = 200, folder: str | None = None
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, there = context.Pipe()
        folder = folder or model.folder()
        self.process = context.Process(target=serve, args=(there, folder, tessera, transfers, blocks))
        self.process.start()
        there.close()

    def ready(self) -> None:
        assert self.take() == "ready"

    def take(self) -> Any:
        assert self.pipe.poll(240), "nothing comes of it"
        return self.pipe.recv()

    def ask(self, *request: Any) -> None:
        self.pipe.send(request)

    def end(self) -> Any:
        self.pipe.send(None)
        last = self.take()
        self.process.join(60)
        return last

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
