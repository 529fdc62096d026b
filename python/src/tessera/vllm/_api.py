# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""All that is taken from vLLM, in one place: its scheduler's interface is not a public one, and changes.

Its records are made by keyword, of the fields that they have: what a release has beside them keeps its default.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import vllm
from vllm.distributed.kv_events import (
    MEDIUM_GPU,
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    EventPublisherFactory,
    KVEventBatch,
)
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1, KVConnectorRole, supports_hma
from vllm.logger import init_logger
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.encoder_budget import MultiModalBudget
from vllm.v1.core.kv_cache_manager import KVCacheBlocks
from vllm.v1.core.kv_cache_utils import KVCacheBlock, generate_block_hash_extra_keys, to_event_extra_keys
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.interface import PauseState, SchedulerInterface
from vllm.v1.core.sched.output import CachedRequestData, GrammarOutput, NewRequestData, SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler as OwnScheduler
from vllm.v1.engine import EngineCoreEventType, EngineCoreOutput, EngineCoreOutputs, FinishReason
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
    get_kv_cache_spec_kind,
    get_kv_cache_spec_sliding_window,
)
from vllm.v1.metrics.stats import PrefixCacheStats, SchedulerStats
from vllm.v1.request import Request, RequestStatus
from vllm.v1.spec_decode.metrics import SpecDecodingStats

try:
    from vllm.v1.core.sched.output import KVConnectorBlockState
except ImportError:  # releases in which connectors are not told of blocks that way
    KVConnectorBlockState = None

try:
    from vllm.v1.core.sched.output import ScheduledEncoderInputStats
except ImportError:  # releases that do not count what is encoded
    ScheduledEncoderInputStats = None

try:
    from vllm.outputs import RequestError
except ImportError:  # releases that do not say why a request has failed
    RequestError = None

try:
    from vllm.v1.core.sched.utils import check_sequence_repetition
except ImportError:  # releases that do not look for repetition
    check_sequence_repetition = None

logger = init_logger("vllm.tessera")

__all__ = [
    "MEDIUM_GPU",
    "AllBlocksCleared",
    "AsyncScheduler",
    "BlockRemoved",
    "BlockStored",
    "CachedRequestData",
    "ChunkedLocalAttentionSpec",
    "EngineCoreEventType",
    "EngineCoreOutput",
    "EngineCoreOutputs",
    "EventPublisherFactory",
    "FinishReason",
    "FullAttentionSpec",
    "GrammarOutput",
    "KVCacheBlock",
    "KVCacheBlocks",
    "KVEventBatch",
    "MLAAttentionSpec",
    "MambaSpec",
    "NewRequestData",
    "OwnScheduler",
    "PauseState",
    "PrefixCacheStats",
    "Request",
    "RequestStatus",
    "SchedulerInterface",
    "SchedulerOutput",
    "SchedulerStats",
    "SlidingWindowMLASpec",
    "SlidingWindowSpec",
    "SpecDecodingStats",
    "block_state",
    "check_sequence_repetition",
    "connectors_by_request",
    "connectors_of",
    "drafts_of_batch",
    "event_keys",
    "groups_of",
    "hash_ahead",
    "init_logger",
    "interval_counts_alone",
    "invalid",
    "kind_of",
    "known",
    "make",
    "make_connector",
    "most_drafts",
    "new_request_drafts",
    "own_scheduler",
    "prompt_ahead",
    "server_parser",
    "slots_ahead",
    "needs_own_blocks",
    "perf_metrics",
    "plans_in_flight",
    "residency_metrics",
    "sends_tokens",
    "slots_per_request",
    "stages",
    "supports_hma",
    "tells_errors",
    "tells_lookahead",
    "tested",
    "tokenizer_of",
    "version",
    "without_padding",
]

#: Releases that the tests have run with.
tested = ("0.32", "0.33")
version: str = vllm.__version__

#: Whether an output says why its request has failed: from 0.33 on.
tells_errors = RequestError is not None and "error" in EngineCoreOutput.__struct_fields__

#: Whether `prefill_schedule_interval` counts on an engine without data parallelism as well: from 0.33 on.
interval_counts_alone = hasattr(SchedulerInterface, "has_request")


def is_tested() -> bool:
    """Whether this release of vLLM is one of them."""
    return any(version == t or version.startswith(t + ".") for t in tested)


def invalid(reason: str) -> Any:
    """The error of a request that is itself at fault: vLLM's server answers 400 with the reason. None before 0.33."""
    return RequestError(code="validation_error", message=reason) if tells_errors else None


def own_scheduler(vllm_config: Any) -> type:
    """The class of the scheduler that vLLM itself takes for a configuration."""
    is_async = vllm_config.scheduler_config.async_scheduling
    if getattr(vllm_config, "diffusion_config", None) is not None:
        from vllm.v1.core.sched.diffusion_scheduler import DiffusionAsyncScheduler, DiffusionScheduler

        return DiffusionAsyncScheduler if is_async else DiffusionScheduler
    return AsyncScheduler if is_async else OwnScheduler


def stages(vllm_config: Any) -> int:
    """The stages of a pipeline, each with a part of the model's layers."""
    return vllm_config.parallel_config.pipeline_parallel_size


def plans_in_flight(vllm_config: Any) -> int:
    """Steps that the engine core plans before it knows what came of the first: the length of its queue of batches."""
    return vllm_config.max_concurrent_batches


def sends_tokens(vllm_config: Any) -> bool:
    """Whether a step brings the tokens that it computes. With async scheduling the last stage sends them to the
    others."""
    return stages(vllm_config) > 1 and not vllm_config.scheduler_config.async_scheduling


def most_drafts(vllm_config: Any) -> int:
    """Most drafts of a request in a step."""
    return getattr(vllm_config.speculative_config, "num_speculative_tokens", None) or 0


def slots_ahead(vllm_config: Any) -> int:
    """How many tokens beyond those of a step a request's blocks must have room for: the drafter's KV."""
    return getattr(vllm_config, "num_lookahead_tokens", 0)


def prompt_ahead(vllm_config: Any) -> int:
    """How many tokens of a prompt a drafter reads behind those that have been computed."""
    return getattr(vllm_config, "num_prefill_lookahead_tokens", 0)


def hash_ahead(vllm_config: Any) -> int:
    """How many tokens behind a block decide what KV it has. EAGLE's layers read the next token beside the last one. So
    vLLM 0.32 computes the last known block of a prompt anew, and 0.33 hashes these tokens with the block."""
    config = vllm_config.speculative_config
    drops = config is not None and getattr(config, "use_eagle_block_drop", getattr(config, "use_eagle", bool))()
    return prompt_ahead(vllm_config) if drops else 0


def slots_per_request(vllm_config: Any) -> int:
    """Places in the runner's buffers that a drafter takes for each request of a step, beside its tokens."""
    return getattr(vllm_config.speculative_config, "max_num_new_slots_for_drafting", 0)


def drafts_of_batch(vllm_config: Any) -> list[int]:
    """How many drafts of each request the runner makes in a step, by the number of its requests; empty: always the
    most."""
    ranges = getattr(vllm_config.speculative_config, "num_speculative_tokens_per_batch_size", None)
    if not ranges:
        return []
    from vllm.v1.spec_decode.dynamic.utils import build_dynamic_sd_schedule_lookup

    return build_dynamic_sd_schedule_lookup(
        ranges,
        vllm_max_batch_size=vllm_config.scheduler_config.max_num_seqs,
        vllm_num_speculative_tokens=most_drafts(vllm_config),
    )


def kind_of(spec: Any) -> dict[str, Any]:
    """What vLLM says of a group's layers in KV events."""
    window = get_kv_cache_spec_sliding_window(spec)
    return {"kv_cache_spec_kind": get_kv_cache_spec_kind(spec).value, "kv_cache_spec_sliding_window": window}


#: Whether a KV event can say the tokens behind a block that its name covers.
tells_lookahead = "lookahead_token_ids" in BlockStored.__struct_fields__


def event_keys(request: Any, first: int, end: int) -> tuple[Any, ...] | None:
    """What tells these tokens of a request from the same ones of others: its adapter, salt and images, as in vLLM's KV
    events."""
    keys = to_event_extra_keys([generate_block_hash_extra_keys(request, first, end, 0)[0]])
    return keys[0] if keys else None


def groups_of(vllm_config: Any, windows: list[int], in_chunks: frozenset[int] = frozenset()) -> Any:
    """The groups of KV blocks that vLLM would make of layers that look at `windows` tokens; 0: at all. Those that are
    named by `in_chunks` look at chunks of as many. As a KVCacheConfig that has more memory than any machine. Raises
    whatever vLLM does."""
    try:
        from vllm.v1.core.kv_cache_planning import get_kv_cache_groups
    except ImportError:  # before 0.33
        from vllm.v1.core.kv_cache_utils import get_kv_cache_groups
    model = vllm_config.model_config
    vllm_config = copy.copy(vllm_config)
    vllm_config.cache_config = copy.copy(vllm_config.cache_config)
    # An engine settles it by what its attention can do. It counts where blocks have several sizes alone.
    vllm_config.cache_config.kv_cache_layout = vllm_config.cache_config.kv_cache_layout or "NHD"
    shape = {
        "block_size": vllm_config.cache_config.block_size,
        "num_kv_heads": 1 if model.use_mla else model.get_num_kv_heads(vllm_config.parallel_config),
        "head_size": model.get_head_size(),
        "dtype": model.dtype,
    }
    of_all, of_window = FullAttentionSpec, SlidingWindowSpec
    if model.use_mla:
        of_all, of_window = MLAAttentionSpec, SlidingWindowMLASpec
    specs = {}
    for i, window in enumerate(windows):
        if i in in_chunks:
            spec = ChunkedLocalAttentionSpec(attention_chunk_size=window, **shape)
        else:
            spec = of_window(sliding_window=window, **shape) if window else of_all(**shape)
        specs[f"layer {i}"] = spec
    return KVCacheConfig(num_blocks=2**30, kv_cache_tensors=[], kv_cache_groups=get_kv_cache_groups(vllm_config, specs))


def server_parser(parser: Any) -> Any:
    """The options of vLLM's server, added to a parser; those of an engine alone where there is no server."""
    try:
        try:
            from vllm.entrypoints.common.cli_args import make_arg_parser
        except ImportError:  # before 0.33
            from vllm.entrypoints.launchers.cli_args import make_arg_parser
    except ImportError:
        from vllm.engine.arg_utils import EngineArgs

        return EngineArgs.add_cli_args(parser)
    return make_arg_parser(parser)


def make_connector(vllm_config: Any, kv_cache_config: Any) -> Any:
    """The scheduler's side of a KV connector."""
    return KVConnectorFactory.create_connector(vllm_config, KVConnectorRole.SCHEDULER, kv_cache_config)


#: Connectors that are concerned with requests that have `kv_transfer_params`, and with no others.
connectors_by_request = ("NixlConnector", "NixlPullConnector", "MooncakeConnector")


def connectors_of(vllm_config: Any) -> list[tuple[Any, type]]:
    """The KV connectors that a configuration names, with those that MultiConnector combines: their configurations and
    classes. MultiConnector itself only passes calls on. Empty if vLLM cannot find one: it says so when it makes it."""
    config = vllm_config.kv_transfer_config
    if config is None or config.kv_connector is None:
        return []
    try:
        connector = KVConnectorFactory.get_connector_class(config)
        combined = getattr(connector, "_get_connector_classes_and_configs", None)
        if combined is None:
            return [(config, connector)]
        return [(own.kv_transfer_config, cls) for cls, own in combined(vllm_config)]
    except Exception as error:
        logger.warning("the KV connector %s is not found: %s", config.kv_connector, error)
        return []


def needs_own_blocks(connector: type) -> bool:
    """Whether a connector works on the block pool of vLLM's own scheduler."""
    names = ("bind_kv_cache_manager", "bind_gpu_block_pool", "has_pending_block_frees")
    return any(getattr(connector, name, None) is not getattr(KVConnectorBase_V1, name, None) for name in names)


def block_state(request_ids: set[str], blocks_of: Callable[[str], tuple[list[int], ...]]) -> Any:
    """What a connector may ask of the blocks of requests in a step."""
    if KVConnectorBlockState is None:
        return None
    return KVConnectorBlockState(req_ids=request_ids, resolve_block_ids=blocks_of, boundary_state_offloads={})


def perf_metrics(vllm_config: Any) -> Any:
    """What counts the operations of a step, for MFU metrics; None if they are not asked for."""
    if not getattr(vllm_config.observability_config, "enable_mfu_metrics", False):
        return None
    from vllm.v1.metrics.perf import ModelMetrics

    metrics = ModelMetrics(vllm_config)
    return metrics if metrics.is_enabled() else None


def residency_metrics(vllm_config: Any) -> Any:
    """What samples how long blocks of KV stay; None if that is not asked for."""
    if not getattr(vllm_config.observability_config, "kv_cache_metrics", False):
        return None
    from vllm.v1.core.kv_cache_metrics import KVCacheMetricsCollector

    return KVCacheMetricsCollector(vllm_config.observability_config.kv_cache_metrics_sample)


def new_request_drafts(vllm_config: Any) -> Any:
    """What counts a request's drafts, for its client; None if that is not asked for."""
    level = getattr(vllm_config.observability_config, "per_request_spec_decode_metrics", "none")
    if level == "none":
        return None
    from vllm.v1.metrics.stats import RequestSpecDecodeMetrics

    return RequestSpecDecodeMetrics.new(most_drafts(vllm_config))


def without_padding(tokens: list[int]) -> list[int]:
    """Drafts up to the first place that holds none."""
    return tokens[: next((i for i, token in enumerate(tokens) if token < 0), len(tokens))]


def tokenizer_of(model_config: Any) -> Any:
    """The tokenizer of an engine; None where it was told to have none."""
    if getattr(model_config, "skip_tokenizer_init", False):
        return None
    from vllm.tokenizers import cached_tokenizer_from_config

    return cached_tokenizer_from_config(model_config)


def known(record: type) -> frozenset[str]:
    """The fields of a record of vLLM's."""
    if hasattr(record, "__struct_fields__"):  # msgspec's
        return frozenset(record.__struct_fields__)
    return frozenset(f.name for f in dataclasses.fields(record) if f.init)


def make(record: type) -> Callable[..., Any]:
    """Makes records of this class by keyword, without the fields that this release does not have. It is to be given the
    same names each time it is called."""
    fields = known(record)
    unknown: Any = None

    def made(**values: Any) -> Any:
        nonlocal unknown
        if unknown is None:
            unknown = values.keys() - fields
        for name in unknown:
            del values[name]
        return record(**values)

    return made


def encoder_stats(inputs: int, tokens: int) -> Any:
    """What a step encodes, for the log."""
    if ScheduledEncoderInputStats is None:
        return None
    return ScheduledEncoderInputStats(num_inputs=inputs, output_tokens=tokens)


def encoder_budget(vllm_config: Any, registry: Any) -> Any:
    """How much a step encodes and a cache keeps. `registry`: of models with such inputs; None: vLLM's own."""
    return MultiModalBudget(vllm_config, MULTIMODAL_REGISTRY if registry is None else registry)
