# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is not supported: handed back to vLLM's own scheduler as a whole, or refused request by request."""

from __future__ import annotations

import copy
import re
from types import SimpleNamespace
from typing import Any

import pytest
import stub
import torch
from vllm.config import KVTransferConfig
from vllm.v1.core.sched import diffusion_scheduler
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


def connector(name: str, **options: Any) -> Any:
    return KVTransferConfig(kv_connector=name, kv_role="kv_both", engine_id="one", kv_connector_extra_config=options)


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


two_stages, three_stages = (copy.copy(stub.config(stages=n).parallel_config) for n in (2, 3))
configurations = {
    "pipeline parallelism with drafts": (
        None,
        {
            "parallel_config": two_stages,
            "speculative_config": own(method="ngram", uses_draft_kv_cache=lambda: False),
        },
    ),
    "OffloadingConnector with more than two stages of a pipeline": (
        None,
        {"parallel_config": three_stages, "kv_transfer_config": connector("OffloadingConnector")},
    ),
    "context parallelism": ("parallel_config", {"decode_context_parallel_size": 2}),
    "unknown drafters with KV of their own": (
        None,
        {"speculative_config": own(method="extract_hidden_states", uses_draft_kv_cache=lambda: True)},
    ),
    "a max_num_batched_tokens without room for the drafter's slots of max_num_seqs requests": (
        None,
        {"speculative_config": own(method="draft_model", max_num_new_slots_for_drafting=6)},  # for 24 requests, of 128
    ),
    "more than 256 adapters at once": (None, {"lora_config": own(max_loras=257)}),
    "KV connectors that work on vLLM's own block pool": (
        None,
        {"kv_transfer_config": connector("SimpleCPUOffloadConnector")},
    ),
    "KV connectors of vLLM's that were not tried": (
        None,
        {
            "kv_transfer_config": connector(
                "MultiConnector",
                connectors=[
                    {"kv_connector": "ExampleConnector", "kv_role": "kv_both"},
                    {"kv_connector": "NixlPushConnector", "kv_role": "kv_both"},
                ],
            )
        },
    ),
    "encoder cache connectors": (None, {"ec_transfer_config": own()}),
    "pooling models": ("model_config", {"runner_type": "pooling"}),
    "diffusion models": ("model_config", {"is_diffusion": True}),
    "encoder-decoder models": ("model_config", {"is_encoder_decoder": True}),
    "engines that only encode": ("model_config", {"multimodal_config": own(mm_encoder_only=True)}),
    "an encoder_cache_manager_cls": (None, {"ec_manager_config": own(encoder_cache_manager_cls="mine.Manager")}),
    "auxiliary outputs": (None, {"aux_output_config": own(enabled=True)}),
    "sampling masks": ("model_config", {"return_sampling_mask": True}),
    "prompts in one piece with long_prefill_token_threshold": (
        "scheduler_config",
        {"enable_chunked_prefill": False, "max_num_batched_tokens": 1024, "long_prefill_token_threshold": 64},
    ),
    "prompts in one piece with steps shorter than max_model_len": (
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
    "17 groups of KV blocks (1 to 16 are supported): FullAttentionSpec, SlidingWindowSpec": groups(
        attention(), *[window()] * 16
    ),
    "windows with 64 tokens that are computed again": groups(latent(), latent_window(bounded_replay=True)),
    "one state for 128 tokens in blocks of 16 tokens": groups(latent(tokens_per_state=128)),
    "layers of the kind RSWASpec": groups(
        RSWASpec(block_size=16, num_kv_heads=1, head_size=1, dtype=torch.float32, rswa_window=64)
    ),
    "states in the cache mode none with prefix caching": groups(
        latent(), MambaSpec(block_size=1024, shapes=((1,),), dtypes=(torch.float32,))
    ),
    "KV that stays in the host's memory": groups(latent(), host_resident=True),
    "0 groups of KV blocks (1 to 16 are supported)": groups(),
    "a window of 1 tokens": groups(attention(), chunks(1)),
    "a window of 2 tokens": groups(window(sliding_window=2)),
    "blocks of 32 tokens in a scheduler with blocks of 16": groups(
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
    in_transfers = {  # test_transfers.py
        "kv_buffer_device=cpu on a GPU",
        "bidirectional_kv_xfer",
    }
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
    assert (
        warnings[0].startswith(f"tessera does not support {reason}")
        and "vLLM's own scheduler does all of it" in warnings[0]
    )
    with pytest.raises(NotImplementedError, match=f"tessera does not support {reason}"):
        make(monkeypatch, made, fallback=False)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["one in flight", "two in flight"])
def test_diffusion_goes_to_its_own_scheduler(monkeypatch: pytest.MonkeyPatch, asynchronous: bool) -> None:
    """vLLM has another scheduler for such models, and takes it only where no other is named."""
    made = with_config("model_config", is_diffusion=True)
    made.diffusion_config = own(canvas_length=8)
    made.scheduler_config = copy.copy(made.scheduler_config)
    made.scheduler_config.async_scheduling = asynchronous
    for name in ("DiffusionScheduler", "DiffusionAsyncScheduler"):
        monkeypatch.setattr(diffusion_scheduler, name, lambda *a, name=name, **k: (name,))
    got, warnings = make(monkeypatch, made)
    assert got == ("DiffusionAsyncScheduler" if asynchronous else "DiffusionScheduler",)
    assert len(warnings) == 1 and "diffusion models" in warnings[0]


@pytest.mark.parametrize("reason", memories)
def test_memory(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    got, warnings = make(monkeypatch, stub.config(), memories[reason])
    assert got[0] == "own"
    assert len(warnings) == 1 and f"tessera does not support {reason}" in warnings[0]
    with pytest.raises(NotImplementedError, match=re.escape(reason)):
        make(monkeypatch, stub.config(), memories[reason], fallback=False)


def test_several_reasons_are_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_config(None, lora_config=own(max_loras=300), ec_transfer_config=own())
    _, warnings = make(monkeypatch, made)
    assert len(warnings) == 1
    assert "tessera does not support more than 256 adapters at once; encoder cache connectors:" in warnings[0]


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
