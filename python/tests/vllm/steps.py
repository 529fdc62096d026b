# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of a stubbed engine, and requests for it."""

from __future__ import annotations

from typing import Any

import stub
import torch
from vllm import SamplingParams
from vllm.config import KVEventsConfig
from vllm.lora.request import LoRARequest
from vllm.pooling_params import PoolingParams
from vllm.sampling_params import StructuredOutputsParams


def stepped(s: Any, runner: stub.Runner) -> list[Any]:
    """One step of an engine: all outputs."""
    step = s.schedule()
    outputs = s.update_from_output(step, runner.run(step))
    return [o for one in outputs.values() for o in one.outputs]


def tokens_of(outputs: dict[int, Any]) -> list[int]:
    return [token for one in outputs.values() for o in one.outputs for token in o.new_token_ids]


def params(**more: Any) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=8, **more)


class Grammar:
    """One that is compiled, or could not be; and that accepts what it likes."""


def refused_requests() -> dict[str, tuple[Any, str]]:
    def with_embeddings() -> Any:
        r = stub.request("x", [5, 6, 7], params())
        r.prompt_embeds = torch.zeros(3, 4)
        return r

    def with_inputs() -> Any:
        r = stub.request("x", [5, 6, 7], params())
        r.mm_features = [object()]
        return r

    pooling = stub.Request("x", [5, 6, 7], None, PoolingParams())
    return {
        "input piece by piece": (stub.request("x", [5, 6], params(), resumable=True), "piece by piece"),
        "pooling": (pooling, "for pooling"),
        "embeddings": (with_embeddings(), "of embeddings"),
        "pictures": (with_inputs(), "not text"),
        "adapter": (stub.request("x", [5, 6], params(), lora_request=LoRARequest("a", 1, "/a")), "an adapter"),
        "an adapter's number": (
            stub.request("x", [5, 6], params(), lora_request=LoRARequest("a", 2**32, "/a")),
            "has the number 4294967296",
        ),
        "never fits": (stub.request("x", [5] * 1000, params()), "never_fits"),
        "unknown argument": (
            stub.request("x", [5], params(extra_args={"tessera": {"scores": 3}})),
            "is a dict of score, reasoning, tenant, session, keep_s, release",
        ),
        "a tenant of no use": (stub.request("x", [5], params(extra_args={"tessera": {"tenant": "a"}})), "no use for a"),
        "no dict": (stub.request("x", [5], params(extra_args={"tessera": 3})), "is a dict"),
        "no number": (stub.request("x", [5], params(extra_args={"tessera": {"score": "much"}})), "a score is a number"),
        "infinite": (stub.request("x", [5], params(extra_args={"tessera": {"score": float("nan")}})), "is nan"),
        "a time of no length": (
            stub.request("x", [5], params(extra_args={"tessera": {"keep_s": -1}})),
            "from 0 to 1000000000",
        ),
        "a time of no end": (
            stub.request("x", [5], params(extra_args={"tessera": {"keep_s": float("nan")}})),
            "a number of seconds",
        ),
        "a session without a name": (
            stub.request("x", [5], params(extra_args={"tessera": {"session": 3}})),
            "a session is a name",
        ),
        "no release": (
            stub.request("x", [5], params(extra_args={"tessera": {"release": "now"}})),
            "release is true or false",
        ),
        "no answer": (stub.request("x", [5], params(extra_args={"tessera": {"reasoning": 1}})), "true or false"),
    }


def served(s: Any, runner: stub.Runner, most: int = 100) -> dict[str, Any]:
    """Until all have ended: why, by name."""
    reasons = {}
    for _ in range(most):
        if not s.has_requests():
            break
        reasons |= {o.request_id: o.finish_reason for o in stepped(s, runner) if o.finish_reason is not None}
    assert not s.has_requests() and s.requests == {} and s.get_kv_cache_usage() == 0
    return reasons


def listening() -> Any:
    """A configuration in which a listener is told the names of blocks."""
    made = stub.config(tessera={})
    made.kv_events_config = KVEventsConfig(enable_kv_cache_events=True, publisher="null")
    return made


def add_with_grammars(s: Any, load: list[Any]) -> set[str]:
    """Adds the requests of a load, each third of them with a grammar; gives the names of those that have one."""
    structured = set()
    for i, (request_id, prompt, params, priority, salt) in enumerate(load):
        if i % 3 == 0:
            params.structured_outputs = StructuredOutputsParams(regex="[a-z]*")
        r = stub.request(request_id, prompt, params, priority, salt)
        if r.use_structured_output:
            structured.add(request_id)
            r.structured_output_request.grammar = object()
        s.add_request(r)
    return structured
