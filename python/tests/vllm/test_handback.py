# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is not had: handed back to vLLM's own scheduler as a whole, or refused request by request."""

from __future__ import annotations

import contextlib
import copy
import re
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
import stub
import torch
from vllm import SamplingParams
from vllm.config import KVEventsConfig
from vllm.lora.request import LoRARequest
from vllm.pooling_params import PoolingParams
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.engine import EngineCoreRequest, FinishReason
from vllm.v1.engine.output_processor import OutputProcessor
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
    MLAAttentionSpec,
    RSWASpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
)

from tessera.vllm import scheduler as ours
from tessera.vllm import support
from tessera.vllm.options import OptionsError

own = SimpleNamespace  # something that is there


def with_config(part: str | None, **values: Any) -> Any:
    """A configuration in which a part has other values, whatever vLLM thinks of them."""
    made = stub.config(tessera={"policy": "fcfs"})
    if part is None:
        for name, value in values.items():
            object.__setattr__(made, name, value)
    else:
        # What vLLM computes from its parts is asked of this one here.
        changed = copy.copy(getattr(made, part))
        changed.__class__ = type("Changed", (type(changed),), dict(values))
        for name, value in values.items():
            changed.__dict__.pop(name, None)
            assert getattr(changed, name) == value
        object.__setattr__(made, part, changed)
    return made


configurations = {
    "pipeline parallelism": ("parallel_config", {"pipeline_parallel_size": 2}),
    "context parallelism": ("parallel_config", {"decode_context_parallel_size": 2}),
    "drafts that have KV of their own": (None, {"speculative_config": own(method="eagle", use_eagle=lambda: True)}),
    "a number of drafts that follows the batch": (
        None,
        {"speculative_config": own(method="ngram", num_speculative_tokens_per_batch_size=[(1, 4, 3)])},
    ),
    "room for more than 256 adapters at once": (None, {"lora_config": own(max_loras=257)}),
    "a KV connector but NIXL's, which pulls": (None, {"kv_transfer_config": own(kv_connector="LMCacheConnectorV1")}),
    "an encoder cache connector": (None, {"ec_transfer_config": own()}),
    "KV cache metrics": ("observability_config", {"kv_cache_metrics": True}),
    "MFU metrics": ("observability_config", {"enable_mfu_metrics": True}),
    "a pooling model": ("model_config", {"runner_type": "pooling"}),
    "a diffusion model": ("model_config", {"is_diffusion": True}),
    "an encoder-decoder model": ("model_config", {"is_encoder_decoder": True}),
    "inputs that are not text": ("model_config", {"supports_multimodal_inputs": True}),
    "auxiliary outputs": (None, {"aux_output_config": own(enabled=True)}),
    "sampling masks": ("model_config", {"return_sampling_mask": True}),
    "prompts in one piece that are cut at a threshold": (
        "scheduler_config",
        {"enable_chunked_prefill": False, "max_num_batched_tokens": 1024, "long_prefill_token_threshold": 64},
    ),
    "prompts in one piece for which a step has no room": (
        "scheduler_config",
        {"enable_chunked_prefill": False, "max_num_batched_tokens": 1024, "max_num_scheduled_tokens": 1023},
    ),
    "max_num_active_seqs": ("scheduler_config", {"max_num_active_seqs": 3}),
}


def attention(**more: Any) -> FullAttentionSpec:
    return FullAttentionSpec(block_size=16, num_kv_heads=1, head_size=1, dtype=torch.float32, **more)


def window(**more: Any) -> SlidingWindowSpec:
    values = {"block_size": 16, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float32, "sliding_window": 64}
    return SlidingWindowSpec(**(values | more))


def chunks(size: int) -> ChunkedLocalAttentionSpec:
    return ChunkedLocalAttentionSpec(
        block_size=16, num_kv_heads=1, head_size=1, dtype=torch.float32, attention_chunk_size=size
    )


def latent(**more: Any) -> MLAAttentionSpec:
    return MLAAttentionSpec(**({"block_size": 16, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float32} | more))


def latent_window(**more: Any) -> SlidingWindowMLASpec:
    values = {"block_size": 16, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float32, "sliding_window": 64}
    return SlidingWindowMLASpec(**(values | more))


def groups(*specs: Any, **of_each: Any) -> KVCacheConfig:
    made = [KVCacheGroupSpec([str(i)], s, **of_each) for i, s in enumerate(specs)]
    return KVCacheConfig(num_blocks=60, kv_cache_tensors=[], kv_cache_groups=made)


memories = {
    "3 groups of KV blocks instead of 2 at most (FullAttentionSpec, SlidingWindowSpec)": groups(
        attention(), window(), window()
    ),
    # DeepSeek-V4: latents of 4 and of 128 tokens, a window, and what is being compressed.
    "3 groups of KV blocks instead of 2 at most (MLAAttentionSpec, SlidingWindowMLASpec)": groups(
        latent(block_size=256, tokens_per_state=4), latent_window(), latent_window(sliding_window=8)
    ),
    "window of which more is kept, or computed again": groups(latent(), latent_window(bounded_replay=True)),
    "blocks of 16 tokens of which 128 are kept as one": groups(latent(tokens_per_state=128)),
    "KV of RSWASpec": groups(RSWASpec(block_size=16, num_kv_heads=1, head_size=1, dtype=torch.float32, rswa_window=64)),
    "KV of MambaSpec": groups(latent(), MambaSpec(block_size=16, shapes=((1,),), dtypes=(torch.float32,))),
    "KV in the memory of the host": groups(latent(), host_resident=True),
    "0 groups of KV blocks instead of 2 at most": groups(),
    "window of 1 tokens": groups(attention(), chunks(1)),
    "window of 2 tokens": groups(window(sliding_window=2)),
    "window of which more is kept": groups(window(extra_retained_tokens=3)),
    "blocks of 32 tokens that are scheduled by 16": groups(
        FullAttentionSpec(block_size=32, num_kv_heads=1, head_size=1, dtype=torch.float32)
    ),
}


def make(monkeypatch: pytest.MonkeyPatch, made: Any, kv: Any = None, fallback: bool = True) -> tuple[Any, list[str]]:
    """What one gets for this configuration, and the warnings that come with it."""
    made.additional_config = {"tessera": {"policy": "fcfs", "fallback": fallback}}
    warnings: list[str] = []
    monkeypatch.setattr(ours.logger, "warning", lambda text, *values: warnings.append(text % values))
    # vLLM's own would ask more of a configuration than is told here.
    monkeypatch.setattr(ours.api, "OwnScheduler", lambda *a, **k: ("own", a, k))
    monkeypatch.setattr(ours.api, "AsyncScheduler", lambda *a, **k: ("asynchronous", a, k))
    s = ours.Scheduler(made, kv or stub.memory(60), None, 16, hash_block_size=16, log_stats=True)
    return s, warnings


def test_every_question_is_tested() -> None:
    beside = {"two steps in flight", "drafts", "a buffer on the host of a device", "KV that is sent both ways"}
    in_transfers = {f"a KV connector with {what}" for what in beside}  # test_transfers.py
    assert {reason for reason, _ in support._questions} == set(configurations) | in_transfers


@pytest.mark.parametrize("asynchronous", [False, True], ids=["one in flight", "two in flight"])
@pytest.mark.parametrize("reason", configurations)
def test_configuration(monkeypatch: pytest.MonkeyPatch, reason: str, asynchronous: bool) -> None:
    part, values = configurations[reason]
    made = with_config(part, **values)
    made.scheduler_config = copy.copy(made.scheduler_config)
    made.scheduler_config.async_scheduling = asynchronous
    got, warnings = make(monkeypatch, made)
    assert got[0] == ("asynchronous" if asynchronous else "own")
    assert got[1][0] is made and got[2] == {"hash_block_size": 16, "log_stats": True}
    assert len(warnings) == 1
    assert warnings[0].startswith(f"tessera has no {reason}") and "vLLM's own scheduler does all of it" in warnings[0]
    with pytest.raises(NotImplementedError, match=f"tessera has no {reason}"):
        make(monkeypatch, made, fallback=False)


@pytest.mark.parametrize("reason", memories)
def test_memory(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    got, warnings = make(monkeypatch, stub.config(), memories[reason])
    assert got[0] == "own"
    assert len(warnings) == 1 and f"tessera has no {reason}" in warnings[0]
    with pytest.raises(NotImplementedError, match=re.escape(reason)):
        make(monkeypatch, stub.config(), memories[reason], fallback=False)


def test_several_reasons_are_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_config(None, lora_config=own(max_loras=300), kv_transfer_config=own(kv_connector="Mooncake"))
    _, warnings = make(monkeypatch, made)
    assert len(warnings) == 1
    assert (
        "tessera has no room for more than 256 adapters at once; no a KV connector but NIXL's, which pulls:"
        in warnings[0]
    )


def test_nothing_is_handed_back_without_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    made = stub.config()
    made.cache_config.num_gpu_blocks = 60
    got, warnings = make(monkeypatch, made)
    assert type(got) is ours.Scheduler and warnings == []


def test_a_wrong_option_is_an_error_at_start() -> None:
    for given, message in (
        ({"tessera": {"policy": "best"}}, "unknown policy 'best'; there are: due_first, fcfs"),
        ({"tessera": {"policy": "pascal", "quantum": -1}}, "quantum must be a whole number from 1"),
        ({"policy": "pascal"}, 'options go into additional_config={"tessera"'),
        (
            {"model": "lengths.rank", "tessera": {"policy": "pars"}},
            'model: options go into additional_config={"tessera"',
        ),
    ):
        made = stub.config()
        made.additional_config = given
        with pytest.raises(OptionsError, match=message):
            stub.scheduler(stub.Scheduler, made, 60)


# -- requests


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
            "score, reasoning and tenant",
        ),
        "a tenant of no use": (stub.request("x", [5], params(extra_args={"tessera": {"tenant": "a"}})), "no use for a"),
        "no dict": (stub.request("x", [5], params(extra_args={"tessera": 3})), "is a dict"),
        "no number": (stub.request("x", [5], params(extra_args={"tessera": {"score": "much"}})), "a score is a number"),
        "infinite": (stub.request("x", [5], params(extra_args={"tessera": {"score": float("nan")}})), "is nan"),
        "no answer": (stub.request("x", [5], params(extra_args={"tessera": {"reasoning": 1}})), "true or false"),
    }


@pytest.mark.parametrize("what", refused_requests())
def test_request(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """An error for the one, and nothing for the others."""
    request, message = refused_requests()[what]
    errors: list[str] = []
    monkeypatch.setattr(ours.logger, "error", lambda text, *values: errors.append(text % values))
    adapters = 2 if what == "an adapter's number" else 0
    made = stub.config(tessera={"policy": "pars"}, adapters=adapters)
    s = stub.scheduler(stub.Scheduler, made, 40, include_finished_set=True)
    runner = stub.Runner(40)
    s.add_request(stub.request("before", [5, 6, 7], params()))
    s.add_request(request)
    s.add_request(stub.request("after", [6, 6, 7], params()))
    got: dict[str, list[Any]] = {"x": [], "before": [], "after": []}
    while s.has_requests():
        for o in stepped(s, runner):
            got[o.request_id].append(o)
    assert [(o.new_token_ids, o.finish_reason) for o in got["x"]] == [([], FinishReason.ERROR)]
    assert request.is_finished() and request.get_finished_reason() == FinishReason.ERROR
    for name, prompt in (("before", [5, 6, 7]), ("after", [6, 6, 7])):
        assert [t for o in got[name] for t in o.new_token_ids] == stub.answer(prompt, params())
    assert len(errors) == 1 and message in errors[0] and "x" in errors[0]
    assert s.requests == {} and s.get_request_counts() == (0, 0)


def test_a_refused_request_alone_is_told_so() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40)
    s.add_request(stub.request("x", [5] * 1000, params()))
    assert s.has_unfinished_requests()
    assert [o.finish_reason for o in stepped(s, stub.Runner(40))] == [FinishReason.ERROR]
    assert not s.has_unfinished_requests()


def test_a_refused_request_is_aborted_before_it_is_told() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40)
    r = stub.request("x", [5] * 1000, params())
    s.add_request(r)
    assert s.finish_requests(["x"], stub.RequestStatus.FINISHED_ABORTED) == [r]
    assert stepped(s, stub.Runner(40)) == []


def test_a_scores_function_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={"policy": "due_first", "score": f"{__name__}:fails"}), 40)
    s.add_request(stub.request("x", [5, 6], params()))
    assert [o.finish_reason for o in stepped(s, stub.Runner(40))] == [FinishReason.ERROR]


def fails(request: Any) -> float:
    raise KeyError("no such prompt")


def longest_last(request: Any) -> float:
    return request.num_prompt_tokens


def test_a_scores_function_orders() -> None:
    """PARS by a user's function: short prompts first, whatever they ask for."""
    made = stub.config(tessera={"policy": "pars", "score": f"{__name__}:longest_last"}, max_num_seqs=1)
    s = stub.scheduler(stub.Scheduler, made, 40)
    runner = stub.Runner(40)
    for name, length in (("c", 30), ("a", 10), ("b", 20)):
        s.add_request(stub.request(name, [5] * length, params(stop_token_ids=None)))
    order = []
    while s.has_requests():
        order += [o.request_id for o in stepped(s, runner) if o.finish_reason is not None]
    assert order == ["a", "b", "c"]


def test_a_request_that_outgrows_the_memory() -> None:
    """It has what it could get, and an error then; it does not wait for ever."""
    s = stub.scheduler(stub.Scheduler, stub.config(caching=False, tessera={}), 5)
    runner = stub.Runner(5)
    prompt = [5] * 40
    s.add_request(stub.request("x", prompt, SamplingParams(temperature=0, max_tokens=100)))
    got, reasons = [], []
    for _ in range(60):
        for o in stepped(s, runner):
            got += o.new_token_ids
            if o.finish_reason is not None:
                reasons.append(o.finish_reason)
    # 4 blocks of 16 hold 64 tokens; the 65th needs none.
    assert got == stub.answer(prompt, SamplingParams(temperature=0, max_tokens=25))
    assert reasons == [FinishReason.ERROR]
    assert s.requests == {} and s.get_kv_cache_usage() == 0


def test_twice_the_same_id() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40)
    s.add_request(stub.request("x", [5, 6], params()))
    with pytest.raises(ValueError, match="there is a request 'x' already"):
        s.add_request(stub.request("x", [5, 6], params()))


@pytest.mark.parametrize("after", [(), (0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_input_that_comes_piece_by_piece(after: tuple[int, ...]) -> None:
    """Two pieces under one name, and the mark of the end, as vLLM sends them; a step after some. Its front end has an
    end of it, and others are served."""
    s, runner = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40), stub.Runner(40)
    front = OutputProcessor(None, log_stats=False)
    reasons: list[Any] = []

    def step() -> None:
        outputs = stepped(s, runner)
        assert all(o.new_token_ids == [] for o in outputs), "nothing of it is computed"
        reasons.extend(o.finish_reason for o in outputs)
        front.process_outputs(outputs)

    for i, prompt in enumerate(([5, 6], [7, 8], [0])):
        piece = EngineCoreRequest(
            "x", prompt, None, params(detokenize=False), None, 0.0, None, None, None, resumable=i < 2
        )
        piece.external_req_id = "x"
        front.add_request(piece, None)
        s.add_request(stub.request("x", prompt, params(), resumable=i < 2))
        if i in after:
            step()
    while s.has_requests():
        step()
    # From 0.33 on a front end has forgotten the input when the mark comes after an answer: then that is answered, too.
    late = ours.api.tells_errors and 1 in after
    assert reasons == [FinishReason.ERROR] * (3 if late else 2)
    assert not front.request_states, "its client waits for nothing"
    assert s.requests == {} and s.refused == [] and s.refused_streams == set()
    s.add_request(stub.request("y", [5, 6, 7], params()))
    assert served(s, runner) == {"y": FinishReason.LENGTH}


def test_input_that_comes_piece_by_piece_is_aborted() -> None:
    s, runner = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40), stub.Runner(40)
    for with_step in (False, True):
        for _ in range(2):
            s.add_request(stub.request("x", [5, 6], params(), resumable=True))
        if with_step:
            stepped(s, runner)
        s.finish_requests("x", stub.RequestStatus.FINISHED_ABORTED)
        assert stepped(s, runner) == [] and s.refused_streams == set()
        # The name is free.
        s.add_request(stub.request("x", [5, 6], params()))
        assert served(s, runner) == {"x": FinishReason.LENGTH}


def test_what_is_not_there() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40)
    assert s.get_kv_connector() is None and s.get_ec_connector() is None
    assert s.get_kv_event_publisher_config() is None
    s.reset_encoder_cache()


# -- pauses, resets, stats: as vLLM's own


def both(blocks: int = 60, **more: Any) -> list[tuple[Any, stub.Runner]]:
    made = []
    for cls, chosen in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        s = stub.scheduler(cls, stub.config(tessera=chosen), blocks, log_stats=True, **more)
        made.append((s, stub.Runner(blocks)))
    return made


def test_pause_and_resume() -> None:
    for s, runner in both():
        for name in "ab":
            s.add_request(stub.request(name, [5, 6, 7, ord(name)], params()))
        assert len(stepped(s, runner)) == 2
        s.set_pause_state(PauseState.PAUSED_NEW)
        assert s.pause_state == PauseState.PAUSED_NEW
        s.add_request(stub.request("c", [5, 6, 8], params()))
        assert {o.request_id for o in stepped(s, runner)} == {"a", "b"}
        assert s.get_num_unfinished_requests() == 2
        s.set_pause_state(PauseState.PAUSED_ALL)
        assert stepped(s, runner) == []
        assert s.get_num_unfinished_requests() == 0 and not s.has_unfinished_requests()
        s.set_pause_state(PauseState.UNPAUSED)
        assert s.get_num_unfinished_requests() == 3
        assert {o.request_id for o in stepped(s, runner)} == {"a", "b", "c"}


def test_reset_of_the_cache() -> None:
    for s, runner in both():
        prompt = list(range(3, 63))
        s.add_request(stub.request("a", prompt, params()))
        stepped(s, runner)
        assert not s.reset_prefix_cache(), "not while somebody holds blocks"
        s.add_request(stub.request("b", prompt, params()))
        step = s.schedule()
        assert [n.num_computed_tokens for n in step.scheduled_new_reqs] == [48]
        s.update_from_output(step, runner.run(step))
        assert s.reset_prefix_cache(reset_running_requests=True)
        assert s.get_request_counts() == (0, 2)
        step = s.schedule()
        assert step.preempted_req_ids == {"a", "b"}
        assert step.num_scheduled_tokens["a"] == 62, "all is computed anew"
        s.update_from_output(step, runner.run(step))
        while s.has_requests():
            stepped(s, runner)
        assert s.reset_prefix_cache()
        s.add_request(stub.request("c", prompt, params()))
        assert s.schedule().scheduled_new_reqs[0].num_computed_tokens == 0


def test_a_reset_while_a_step_is_under_way_comes_after_it() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 60)
    runner = stub.Runner(60)
    prompt = list(range(3, 63))
    s.add_request(stub.request("a", prompt, params()))
    step = s.schedule()
    assert s.reset_prefix_cache(reset_running_requests=True)
    assert s.get_request_counts() == (1, 0)
    got = tokens_of(s.update_from_output(step, runner.run(step)))
    assert s.get_request_counts() == (0, 1)
    step = s.schedule()
    assert step.preempted_req_ids == {"a"} and step.num_scheduled_tokens == {"a": 61}
    got += [
        t for o in s.update_from_output(step, runner.run(step)).values() for x in o.outputs for t in x.new_token_ids
    ]
    while s.has_requests():
        got += [t for o in stepped(s, runner) for t in o.new_token_ids]
    assert got == stub.answer(prompt, params())


def test_stats_and_events() -> None:
    seen = []
    for s, runner in both():
        prompt = list(range(3, 63))
        told: list[Any] = []
        for i, name in enumerate("abc"):
            s.add_request(stub.request(name, prompt[: 60 - i], params()))
            step = s.schedule()
            (outputs,) = s.update_from_output(step, runner.run(step)).values()
            stats = outputs.scheduler_stats
            told.append(
                (
                    stats.num_running_reqs,
                    stats.num_waiting_reqs,
                    stats.num_skipped_waiting_reqs,
                    stats.kv_cache_usage,
                    stats.prefix_cache_stats,
                )
            )
            for o in outputs.outputs:
                told.append((o.request_id, [e.type for e in o.events or []], o.prefill_stats))
        assert s.get_request_counts() == (3, 0)
        assert s.get_kv_cache_usage() > 0
        seen.append(told)
    assert seen[0] == seen[1]


def test_who_is_preempted_says_so() -> None:
    """The front end counts preemptions by these events."""
    told = []
    for s, runner in both(blocks=8):
        for name in "ab":
            s.add_request(stub.request(name, [ord(name)] * 30, SamplingParams(temperature=0, max_tokens=50)))
        mine: dict[str, list[Any]] = {"a": [], "b": []}
        resets = 0
        while s.has_requests():
            for o in stepped(s, runner):
                mine[o.request_id] += [e.type for e in o.events or []]
            if resets < 2:
                resets += 1
                assert s.reset_prefix_cache(reset_running_requests=True)
        told.append(mine)
    assert told[0] == told[1]
    assert [len([e for e in events if e.name == "PREEMPTED"]) for events in told[1].values()] == [2, 3]


def test_one_that_has_outgrown_the_memory_when_all_is_reset() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(caching=False, tessera={}), 5)
    runner = stub.Runner(5)
    s.add_request(stub.request("x", [5] * 40, SamplingParams(temperature=0, max_tokens=100)))
    for _ in range(25):
        assert stepped(s, runner)[0].finish_reason is None
    assert s.reset_prefix_cache(reset_running_requests=True)
    assert [o.finish_reason for o in stepped(s, runner)] == [FinishReason.ERROR]
    assert s.requests == {} and s.get_kv_cache_usage() == 0


def test_outputs_go_to_their_clients() -> None:
    for s, runner in both(include_finished_set=True):
        for i in range(6):
            s.add_request(stub.request(str(i), [5, 6, 7 + i], params(), client_index=i % 3))
        finished: dict[int, set[str]] = {0: set(), 1: set(), 2: set()}
        while s.has_requests():
            step = s.schedule()
            for client, outputs in s.update_from_output(step, runner.run(step)).items():
                assert {int(o.request_id) % 3 for o in outputs.outputs} <= {client}
                finished[client] |= outputs.finished_requests or set()
        assert finished == {0: {"0", "3"}, 1: {"1", "4"}, 2: {"2", "5"}}


def test_prompts_wait_for_their_turn_where_data_is_parallel() -> None:
    for s, runner in both():
        s.add_request(stub.request("a", [5, 6, 7], params()))
        stepped(s, runner)
        s.add_request(stub.request("b", [5, 6, 8], params()))
        # A step that releases prompts and leaves none behind lifts the bound.
        for throttled, expected in ((True, {"a"}), (True, {"a"}), (False, {"a", "b"})):
            step = s.schedule(throttle_prefills=throttled)
            assert set(step.num_scheduled_tokens) == expected, type(s)
            s.update_from_output(step, runner.run(step))


@pytest.mark.parametrize("drafts", [0, 3], ids=["no drafts", "drafts"])
def test_prompts_in_one_of_several_steps(drafts: int) -> None:
    """`prefill_schedule_interval` on one engine: from vLLM 0.33 on, and as vLLM's own takes it."""
    seen = []
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        made = stub.config(tessera=own, drafts=drafts, prefill_schedule_interval=5)
        s, runner = stub.scheduler(cls, made, 300), stub.Runner(300, drafts=drafts)
        s.add_request(stub.request("a", [5, 6, 7], SamplingParams(temperature=0, max_tokens=200)))
        computed = []
        for i in range(40):
            if i % 3 == 2:
                s.add_request(stub.request(str(i), [5, 6, 7 + i] * 10, params()))
            step = s.schedule()
            guessed = step.scheduled_spec_decode_tokens
            computed.append(any(n > 1 + len(guessed.get(r, ())) for r, n in step.num_scheduled_tokens.items()))
            s.update_from_output(step, runner.run(step))
            if drafts:
                s.update_draft_token_ids(runner.take_draft_token_ids())
        seen.append(computed)
    assert seen[0] == seen[1]
    assert sum(seen[1]) == (8 if ours.api.interval_counts_alone else 14)


def test_repetition_ends_a_request() -> None:
    from vllm.sampling_params import RepetitionDetectionParams

    reasons = []
    for s, runner in both():
        p = SamplingParams(
            temperature=0,
            max_tokens=20,
            min_tokens=6,
            repetition_detection=RepetitionDetectionParams(max_pattern_size=1, min_pattern_size=1, min_count=3),
        )
        s.add_request(stub.request("a", [5, 6, 7], p))
        got = []
        while s.has_requests():
            step = s.schedule()
            output = runner.run(step)
            output.sampled_token_ids = [[9] for _ in output.sampled_token_ids]
            for state in runner.states.values():
                state.tokens[-1] = 9
            for outputs in s.update_from_output(step, output).values():
                got += [(o.new_token_ids, o.finish_reason, o.stop_reason) for o in outputs.outputs]
        reasons.append(got)
    assert reasons[0] == reasons[1]
    assert len(reasons[1]) == 6 and reasons[1][-1][1:] == (FinishReason.REPETITION, "repetition_detected")


# -- what nobody should do, and somebody does


def served(s: Any, runner: stub.Runner, most: int = 100) -> dict[str, Any]:
    """Until all have ended: why, by name."""
    reasons = {}
    for _ in range(most):
        if not s.has_requests():
            break
        reasons |= {o.request_id: o.finish_reason for o in stepped(s, runner) if o.finish_reason is not None}
    assert not s.has_requests() and s.requests == {} and s.get_kv_cache_usage() == 0
    return reasons


def test_numbers_as_large_as_clients_may_send() -> None:
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        s, runner = stub.scheduler(cls, stub.config(policy="priority", tessera=own), 60), stub.Runner(60)
        sent = {
            "first": stub.request("first", [5, 6], params(), -(2**63)),
            "last": stub.request("last", [5, 6], params(stop_token_ids=[2**63, 2**70]), 2**63 - 1),
        }
        for r in sent.values():
            s.add_request(r)
        assert served(s, runner) == dict.fromkeys(sent, FinishReason.LENGTH)


def test_numbers_that_no_core_can_take_are_refused() -> None:
    s = stub.scheduler(stub.Scheduler, listening(), 60)
    runner = stub.Runner(60)
    shared = [*range(3, 40)]
    s.add_request(stub.request("token", [*shared, 2**64], params()))
    s.add_request(stub.request("fine", shared, params()))
    reasons = served(s, runner)
    assert reasons == {"token": FinishReason.ERROR, "fine": FinishReason.LENGTH}
    s.add_request(stub.request("again", shared, params()))
    assert served(s, runner) == {"again": FinishReason.LENGTH}


def listening() -> Any:
    """A configuration in which blocks have names that somebody is told of."""
    made = stub.config(tessera={})
    made.kv_events_config = KVEventsConfig(enable_kv_cache_events=True, publisher="null")
    return made


def test_an_argument_as_json() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={"policy": "pars"}), 60)
    runner = stub.Runner(60)
    for name, own in (("a", '{"score": 3}'), ("b", '{"score": "3"}'), ("c", '{"score"'), ("d", "3"), ("e", '{"s": 1}')):
        s.add_request(stub.request(name, [5], params(extra_args={"tessera": own})))
    reasons = served(s, runner)
    assert reasons == {"a": FinishReason.LENGTH, **dict.fromkeys("bcde", FinishReason.ERROR)}


def test_a_scheduler_that_has_been_shut_down() -> None:
    for under_way in (False, True):
        s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 60)
        runner = stub.Runner(60)
        s.add_request(stub.request("a", [5, 6, 7], params()))
        step = s.schedule()
        ran = runner.run(step)
        if not under_way:
            s.update_from_output(step, ran)
        s.shutdown()
        s.shutdown()
        with pytest.raises(RuntimeError, match="shut down"):
            s.schedule()
        # The others say so, too, or that nothing is there; the interpreter lives.
        calls: list[Any] = [
            s.get_kv_cache_usage,
            s.get_request_counts,
            s.reset_prefix_cache,
            lambda s=s: s.finish_requests("a", stub.RequestStatus.FINISHED_ABORTED),
        ]
        if under_way:
            calls.append(lambda s=s, step=step, ran=ran: s.update_from_output(step, ran))
        for call in calls:
            with contextlib.suppress(RuntimeError, IndexError):
                call()


def test_a_step_is_updated_once_and_in_order() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}, async_scheduling=True), 60)
    runner = stub.Runner(60)
    s.add_request(stub.request("a", [5, 6, 7], params()))
    first = s.schedule()
    ran = runner.run(first)
    second = s.schedule()
    ran_second = runner.run(second)
    with pytest.raises(RuntimeError, match="not the oldest"):
        s.update_from_output(second, ran_second)
    s.update_from_output(first, ran)
    with pytest.raises(RuntimeError, match="not the oldest"):
        s.update_from_output(first, ran)
    s.update_from_output(second, ran_second)
    with pytest.raises(RuntimeError, match="not the oldest"):
        s.update_from_output(second, ran_second)
    assert served(s, runner) == {"a": FinishReason.LENGTH}


# -- what a runner should not return, and returns for one request of several


def without_tokens(ran: Any, name: str) -> None:
    ran.sampled_token_ids[ran.req_id_to_index[name]] = []


def with_tokens(*tokens: Any) -> Any:
    def change(ran: Any, name: str) -> None:
        ran.sampled_token_ids[ran.req_id_to_index[name]] = list(tokens)

    return change


def with_none(ran: Any, name: str) -> None:
    ran.sampled_token_ids[ran.req_id_to_index[name]] = None


def left_out(ran: Any, name: str) -> None:
    ran.req_ids = ["somebody" if n == name else n for n in ran.req_ids]
    ran.req_id_to_index = {n: i for n, i in ran.req_id_to_index.items() if n != name}


def at(place: Any) -> Any:
    def change(ran: Any, name: str) -> None:
        left_out(ran, name)
        ran.req_id_to_index[name] = place

    return change


unusable = {
    "no token": (without_tokens, "returned no token"),
    "no list": (with_none, "no list of tokens"),
    "too many tokens": (with_tokens(*[9] * 9), "more tokens"),
    "a token below zero": (with_tokens(-1), "returned -1, which is no token"),
    "a token beyond all vocabularies": (with_tokens(2**31), "which is no token"),
    "a token that no integer holds": (with_tokens(2**70), "too large|too big"),
    "no number": (with_tokens("a"), "TypeError"),
    "left out": (left_out, "lacks it"),
    **{f"place {place}": (at(place), "no list of tokens") for place in (-1, 7, 2**31, 2**32)},
    "no place": (at("first"), "TypeError"),
}


def bad_once(s: Any, runner: stub.Runner, in_flight: int, change: Any) -> dict[str, list[Any]]:
    """All to their end; the third output for `b` is changed. The outputs by request."""
    got: dict[str, list[Any]] = {}
    launched: deque[Any] = deque()
    samples = 0
    while s.has_requests() or launched:
        if s.has_requests():
            step = s.schedule()
            launched.append((step, runner.run(step)))
        if len(launched) < in_flight and s.has_requests():
            continue
        step, ran = launched.popleft()
        if "b" in ran.req_id_to_index and ran.sampled_token_ids[ran.req_id_to_index["b"]]:
            samples += 1
            if samples == 3:
                change(ran, "b")
        for outputs in s.update_from_output(step, ran).values():
            for o in outputs.outputs:
                got.setdefault(o.request_id, []).append(o)
        if runner.drafts and in_flight == 1 and step.total_num_scheduled_tokens:
            s.update_draft_token_ids(runner.take_draft_token_ids())
    return got


@pytest.mark.parametrize("drafts", [0, 3], ids=["no drafts", "drafts"])
@pytest.mark.parametrize("in_flight", [1, 2], ids=["one in flight", "two in flight"])
@pytest.mark.parametrize("what", unusable)
def test_a_request_without_a_usable_output_ends_alone(
    monkeypatch: pytest.MonkeyPatch, what: str, in_flight: int, drafts: int
) -> None:
    change, message = unusable[what]
    errors: list[str] = []
    monkeypatch.setattr(ours.logger, "error", lambda text, *values: errors.append(text % values))
    made = stub.config(tessera={}, drafts=drafts, async_scheduling=in_flight == 2)
    s = stub.scheduler(stub.Scheduler, made, 60, include_finished_set=True, log_stats=True)
    runner = stub.Runner(60, drafts=drafts)
    prompts = {name: [5, 6, 7, ord(name)] * 9 for name in "abc"}
    asked = SamplingParams(temperature=0, max_tokens=30)
    requests = {name: stub.request(name, prompt, asked) for name, prompt in prompts.items()}
    for r in requests.values():
        s.add_request(r)
    got = bad_once(s, runner, in_flight, change)
    tokens = {name: [t for o in outputs for t in o.new_token_ids] for name, outputs in got.items()}
    reasons = {name: [o.finish_reason for o in outputs if o.finish_reason is not None] for name, outputs in got.items()}
    assert reasons == {"a": [FinishReason.LENGTH], "b": [FinishReason.ERROR], "c": [FinishReason.LENGTH]}
    assert requests["b"].get_finished_reason() == FinishReason.ERROR
    for name in "ac":
        assert tokens[name] == stub.answer(prompts[name], asked)
    whole = stub.answer(prompts["b"], asked)
    assert 2 <= len(tokens["b"]) < len(whole) and tokens["b"] == whole[: len(tokens["b"])]
    assert len(errors) == 1 and "request b" in errors[0] and re.search(message, errors[0])
    # Nothing is left of it, and the server does not say that the client is at fault.
    assert s.requests == {} and s.get_request_counts() == (0, 0) and s.get_kv_cache_usage() == 0
    assert getattr(got["b"][-1], "error", None) is None
    s.add_request(stub.request("b", prompts["b"], asked))
    assert served(s, runner) == {"b": FinishReason.LENGTH}


def test_what_fails_for_one_output_ends_its_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grammar that raises, logprobs that are too short."""
    from vllm.sampling_params import StructuredOutputsParams

    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 60)
    runner = stub.Runner(60)
    broken = stub.request("grammar", [5, 6, 7], params(structured_outputs=StructuredOutputsParams(regex="[a-z]*")))
    broken.structured_output_request.grammar = object()
    s.add_request(broken)
    s.add_request(stub.request("logprobs", [6, 6, 7], params(logprobs=1)))
    s.add_request(stub.request("fine", [7, 6, 7], params()))

    class Short:
        def slice_request(self, index: int, n: int) -> Any:
            raise IndexError(index)

    def raises(*_: Any) -> bool:
        raise AssertionError("the matcher has ended")

    monkeypatch.setattr(s.structured_output_manager, "accept_tokens", raises)
    reasons: dict[str, Any] = {}
    while s.has_requests():
        step = s.schedule()
        ran = runner.run(step)
        ran.logprobs = Short()
        for outputs in s.update_from_output(step, ran).values():
            reasons |= {o.request_id: o.finish_reason for o in outputs.outputs if o.finish_reason is not None}
    assert reasons == {"grammar": FinishReason.ERROR, "logprobs": FinishReason.ERROR, "fine": FinishReason.LENGTH}
    assert s.requests == {} and s.get_kv_cache_usage() == 0


# -- what the server is told of a request that is refused (vLLM 0.33)


def first_error(s: Any) -> Any:
    (output,) = stepped(s, stub.Runner(40))
    assert output.finish_reason == FinishReason.ERROR
    return getattr(output, "error", None)


needs_errors = pytest.mark.skipif(not ours.api.tells_errors, reason="outputs have errors from vLLM 0.33 on")


@needs_errors
def test_a_grammar_that_does_not_compile_is_the_clients_fault() -> None:
    from vllm.exceptions import VLLMValidationError
    from vllm.sampling_params import StructuredOutputsParams

    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40)
    r = stub.request("x", [5, 6, 7], params(structured_outputs=StructuredOutputsParams(regex="(")))
    r.structured_output_request.grammar = ValueError("unclosed group")
    s.add_request(r)
    error = first_error(s)
    assert error.code == "validation_error" and not error.retryable
    assert "grammar does not compile: unclosed group" in error.message
    assert isinstance(error.to_exception(), VLLMValidationError), "the server answers 400"


@needs_errors
@pytest.mark.parametrize("what", refused_requests())
def test_a_request_that_is_refused_is_told_why(what: str) -> None:
    request, message = refused_requests()[what]
    adapters = 2 if what == "an adapter's number" else 0
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={"policy": "pars"}, adapters=adapters), 40)
    s.add_request(request)
    error = first_error(s)
    assert error.code == "validation_error" and message in error.message


def test_what_is_not_the_clients_fault_is_no_validation_error() -> None:
    made = stub.config(tessera={"policy": "due_first", "score": f"{__name__}:fails"})
    s = stub.scheduler(stub.Scheduler, made, 40)
    s.add_request(stub.request("x", [5, 6], params()))
    assert first_error(s) is None


# -- equal priorities


@pytest.mark.parametrize("policy", ["fcfs", "priority", "vtc"])
def test_equal_priorities_go_by_arrival_time(policy: str) -> None:
    """Several front ends send their requests in another order than that in which they arrived."""
    orders = []
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {"policy": policy})):
        s = stub.scheduler(cls, stub.config(policy="priority", tessera=own, max_num_seqs=1), 60)
        runner = stub.Runner(60, places=1)
        for name, priority, arrived in (("late", 1, 3.0), ("urgent", 0, 9.0), ("first", 1, 1.0), ("second", 1, 2.0)):
            s.add_request(stub.request(name, [5, 6, 7], params(), priority, arrival_time=arrived))
        orders.append(list(served(s, runner)))
    assert orders[0] == orders[1] == ["urgent", "first", "second", "late"]


def test_without_priorities_arrival_times_do_not_count() -> None:
    orders = []
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        s = stub.scheduler(cls, stub.config(tessera=own, max_num_seqs=1), 60)
        runner = stub.Runner(60, places=1)
        for name, arrived in (("late", 3.0), ("first", 1.0)):
            s.add_request(stub.request(name, [5, 6, 7], params(), arrival_time=arrived))
        orders.append(list(served(s, runner)))
    assert orders[0] == orders[1] == ["late", "first"]


def test_the_latest_to_arrive_makes_way_among_equals() -> None:
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        made = stub.config(caching=False, policy="priority", tessera=own)
        s, runner = stub.scheduler(cls, made, 8), stub.Runner(8)
        for name, arrived in (("late", 2.0), ("early", 1.0)):
            s.add_request(
                stub.request(
                    name, [ord(name[0])] * 30, SamplingParams(temperature=0, max_tokens=50), arrival_time=arrived
                )
            )
        preempted: set[str] = set()
        while s.has_requests():
            step = s.schedule()
            preempted |= step.preempted_req_ids or set()
            s.update_from_output(step, runner.run(step))
        assert preempted == {"late"}, cls


def test_an_arrival_time_that_is_none_is_refused() -> None:
    s, runner = stub.scheduler(stub.Scheduler, stub.config(policy="priority", tessera={}), 60), stub.Runner(60)
    s.add_request(stub.request("x", [5, 6], params(), arrival_time=float("nan")))
    s.add_request(stub.request("y", [5, 6], params()))
    assert served(s, runner) == {"x": FinishReason.ERROR, "y": FinishReason.LENGTH}
