# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The objects that the native core is given, as plain as they can be: no vLLM is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tessera import _vllm


@dataclass(eq=False)
class Request:
    id: str
    prompt: list[int]
    max_tokens: int
    stops: list[int] = field(default_factory=list)
    eos: int = -1
    status: str = "waiting"
    stop_reason: Any = None
    num_preemptions: int = 0
    is_prefill_chunk: bool = False

    def __post_init__(self) -> None:
        self.output: list[int] = []
        self.everything = list(self.prompt)


@dataclass
class Output:
    request_id: str
    new_token_ids: list[int]
    finish_reason: str | None = None
    stop_reason: Any = None


class Engine:
    """A core with its requests, and a model that makes its token from the sequence's length."""

    def __init__(self, policy: str = "fcfs", output: type = Output, **options: Any) -> None:
        self.requests: dict[str, Request] = {}
        self.slots: dict[str, int] = {}
        self.repeats = lambda request: False
        self.now = 0.0
        given: dict[str, Any] = {
            "blocks": 64,
            "block_size": 16,
            "residents": 8,
            "max_model_len": 512,
            "caching": False,
            "chunked_prefill": True,
            "watermark": 0.01,
            "second_runner": False,
            "plans_in_flight": 1,
            "plans_apart": 1,
            "sends_tokens": False,
            "whole_at_end": False,
            "lookahead": 0,
            "slots_ahead": 0,
            "hash_lookahead": 0,
            "prompt_ahead": 0,
            "spare": [],
            "drafts_of_batch": [],
            "adapters": 0,
            "windows": [0],
            "in_chunks": [],
            "block_sizes": [],
            "tables": [],
            "zeroed": [],
            "transfers": False,
            "stores": False,
            "tells": False,
            "encoder_budget": 0,
            "encoder_cache": 0,
            "longest_input": 0,
            "secret": 7,
        }
        self.core = _vllm.Core(
            policy,
            given | options,
            {
                "output": output,
                "status_waiting": "waiting",
                "status_loading": "loading",
                "status_running": "running",
                "status_preempted": "preempted",
                "status_stopped": "stopped",
                "status_length": "length",
                "reason_stop": "stop",
                "reason_length": "length",
                "reason_repetition": "repetition",
                "repeats": lambda request: self.repeats(request),
                "asks": None,
                "requests": self.requests,
            },
        )

    def add(self, request: Request, **more: Any) -> Any:
        description: dict[str, Any] = {
            "id": request.id,
            "output_token_ids": request.output,
            "all_token_ids": request.everything,
            "prompt": len(request.prompt),
            "max_tokens": request.max_tokens,
            "priority": 0,
            "arrival": 0.0,
            "score": float(request.max_tokens),
            "expected_output": request.max_tokens,
            "reasons": False,
            "end_of_reasoning": -1,
            "eos": request.eos,
            "stops": request.stops,
            "client": 0,
            "tenant": 0,
            "session": 0,
            "keep_s": 0.0,
            "is_last_turn": False,
            "adapter": 0,
            "watched": False,
            "repetitive": False,
            "caches": True,
            "salt": 0,
            "inputs": [],
        }
        slot = self.core.submit(request, description | more, self.now)
        if isinstance(slot, int):
            self.requests[request.id] = request
            self.slots[request.id] = slot
        return slot

    def plan(self, budget: int = 128, chunk: int = 0, admit: bool = True, defer: bool = False) -> tuple:
        self.now += 0.01
        return self.core.schedule(self.now, budget, chunk, admit, defer)

    def answer(self, counts: dict[str, int], tokens: dict[str, list[int]]) -> tuple:
        ids = list(counts)
        places = {request_id: i for i, request_id in enumerate(ids)}
        outputs, looked_at, ended, self.failed = self.core.update(
            places, ids, [tokens.get(i, []) for i in ids], self.now
        )
        for request, _ in self.failed:
            del self.slots[request.id]
        for request in ended:
            del self.slots[request.id]
        return outputs, looked_at, ended
