# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is supported: of a configuration, and of a request."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from tessera import _vllm
from tessera.vllm import _api as api


def _has(config: Any, *path: str) -> Any:
    for name in path:
        config = getattr(config, name, None)
        if config is None:
            return None
    return config


def _model(name: str) -> Callable[[Any], Any]:
    return lambda c: _has(c, "model_config", name)


def _parallel(name: str) -> Callable[[Any], bool]:
    return lambda c: (_has(c, "parallel_config", name) or 1) > 1


def _pipeline(config: Any) -> bool:
    return _parallel("pipeline_parallel_size")(config)


def _drafts(config: Any) -> bool:
    return _has(config, "speculative_config") is not None


_threshold = ("scheduler_config", "long_prefill_token_threshold")
_pulling = ("NixlConnector", "NixlPullConnector")
#: vLLM's connectors that were tried, or that ask a scheduler for the same as those.
_tried = (
    *api.connectors_by_request,
    "DecodeBenchConnector",
    "ExampleConnector",
    "LMCacheConnectorV1",
    "OffloadingConnector",
)


def budget_of(config: Any) -> int:
    """The most tokens in a step, by vLLM's scheduler_config."""
    least = getattr(config, "max_num_scheduled_tokens", None) or config.max_num_batched_tokens
    return min(least, config.max_num_batched_tokens)


def _has_no_places(config: Any) -> bool:
    """Whether a drafter's places, as many as requests can be, leave nothing of a step."""
    limits = config.scheduler_config
    return limits.max_num_batched_tokens - limits.max_num_seqs * api.slots_per_request(config) < 2


#: Drafters with KV of their own, by vLLM's names, that need only room for it.
_drafters = frozenset(("eagle", "eagle3", "mtp", "draft_model", "dflash", "dspark"))


def _is_known_drafter(config: Any) -> bool:
    drafter = config.speculative_config
    return getattr(drafter, "method", None) in _drafters or not getattr(drafter, "uses_draft_kv_cache", bool)()


def whole_prompts(config: Any) -> bool:
    """Whether a prompt is computed in one step: by the user's wish, or because the attention cannot do otherwise."""
    return _has(config, "scheduler_config", "enable_chunked_prefill") is False


def _is_short(config: Any) -> bool:
    return budget_of(config.scheduler_config) < config.model_config.max_model_len


def _connector(config: Any) -> str | None:
    return _has(config, "kv_transfer_config", "kv_connector")


def _any_connector(is_so: Callable[[Any, type], Any]) -> Callable[[Any], bool]:
    return lambda c: any(is_so(own, connector) for own, connector in api.connectors_of(c))


def _is_untried(own: Any, connector: type) -> bool:
    return connector.__module__.startswith("vllm.") and own.kv_connector not in _tried


def _offloads(config: Any) -> bool:
    return _any_connector(lambda own, _: own.kv_connector == "OffloadingConnector")(config)


def _nixl_by_host(config: Any) -> bool:
    """Whether KV goes by a copy in the host's memory, made chunk by chunk of the blocks that are new in it."""
    if _has(config, "device_config", "device_type") == "cpu":
        return False
    return _any_connector(lambda own, _: own.kv_connector in _pulling and own.kv_buffer_device == "cpu")(config)


def _bidirectional(own: Any, _: type) -> bool:
    return own.kv_connector in _pulling and bool((own.kv_connector_extra_config or {}).get("bidirectional_kv_xfer"))


#: Adapters that can be told apart on the device.
most_loras: int = _vllm.adapters

#: Groups of KV blocks that a model can have.
most_groups: int = _vllm.groups

#: What is asked of a configuration, before the memory of the model is known: (why not, whether it is so).
_questions: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("pipeline parallelism with drafts", lambda c: _pipeline(c) and _drafts(c)),
    # Under vLLM's own scheduler as well, the tests' runner finds KV there that is not that of its tokens.
    ("OffloadingConnector with more than two stages of a pipeline", lambda c: api.stages(c) > 2 and _offloads(c)),
    ("context parallelism", lambda c: _parallel("decode_context_parallel_size")(c) or _pcp(c)),
    # vLLM ends no chunk of a prompt so close to its end that such a drafter lacks tokens.
    ("unknown drafters with KV of their own", lambda c: _drafts(c) and not _is_known_drafter(c)),
    (
        "a max_num_batched_tokens without room for the drafter's slots of max_num_seqs requests",
        lambda c: _drafts(c) and _has_no_places(c),
    ),
    (
        f"more than {_vllm.adapters} adapters at once",
        lambda c: (_has(c, "lora_config", "max_loras") or 0) > most_loras,
    ),
    ("KV connectors that work on vLLM's own block pool", _any_connector(lambda _, c: api.needs_own_blocks(c))),
    ("KV connectors of vLLM's that were not tried", _any_connector(_is_untried)),
    ("kv_buffer_device=cpu on a GPU", _nixl_by_host),
    ("bidirectional_kv_xfer", _any_connector(_bidirectional)),
    ("encoder cache connectors", lambda c: _has(c, "ec_transfer_config") is not None),
    ("pooling models", lambda c: _has(c, "model_config", "runner_type") == "pooling"),
    ("diffusion models", _model("is_diffusion")),
    ("encoder-decoder models", _model("is_encoder_decoder")),
    ("engines that only encode", lambda c: _has(c, "model_config", "multimodal_config", "mm_encoder_only")),
    ("an encoder_cache_manager_cls", lambda c: _has(c, "ec_manager_config", "encoder_cache_manager_cls")),
    ("auxiliary outputs", lambda c: _has(c, "aux_output_config", "enabled")),
    ("sampling masks", _model("return_sampling_mask")),
    # vLLM cuts them there all the same; the core does not.
    ("prompts in one piece with long_prefill_token_threshold", lambda c: whole_prompts(c) and _has(c, *_threshold)),
    # vLLM lets such a prompt wait for ever; the core exceeds the budget, and the runner's buffers do not.
    ("prompts in one piece with steps shorter than max_model_len", lambda c: whole_prompts(c) and _is_short(c)),
    ("max_num_active_seqs", lambda c: _has(c, "scheduler_config", "max_num_active_seqs") is not None),
)


def _pcp(config: Any) -> bool:
    return _parallel("prefill_context_parallel_size")(config)


def why_not_config(config: Any) -> Iterator[str]:
    """What a configuration asks for that must be done by vLLM's own scheduler."""
    for reason, is_so in _questions:
        if is_so(config):
            yield reason


def why_not_shadow(config: Any) -> Iterator[str]:
    """What a configuration asks for with which a policy cannot even be watched."""
    yield from why_not_config(config)
    if _drafts(config):
        # It has a token in each of its steps, and would fall behind ever more.
        yield "drafts in shadow mode"
    if _pipeline(config):
        # With one step in flight it has all requests in each step, and the engine a part of them.
        yield "pipeline parallelism in shadow mode"


#: Layers that look at all tokens, and such that look at a window. Latent attention (MLA) keeps one vector of a token,
#: in as many blocks. Where an indexer's layers have another size (DeepSeek-V3.2), vLLM puts both kinds into one group.
#: Where it keeps all KV of layers with windows or chunks, their kind is that of full attention.
_of_all = (api.FullAttentionSpec, api.MLAAttentionSpec)
_of_window = (api.SlidingWindowSpec, api.SlidingWindowMLASpec, api.ChunkedLocalAttentionSpec)


def _is_state(spec: Any) -> bool:
    """Whether layers keep a state of a request (Mamba, GDN, KDA) in place of its tokens' KV."""
    return type(spec) is api.MambaSpec


def _is_aligned(spec: Any) -> bool:
    """Whether such a state is kept where a step ends with a block, so that other requests start from it."""
    return _is_state(spec) and spec.mamba_cache_mode == "align"


def _window(spec: Any) -> int:
    """How many tokens a token looks at; 0: at all. `_vllm.state_window`: layers keep a state that is found again."""
    if _is_aligned(spec):
        return _vllm.state_window
    if type(spec) is api.ChunkedLocalAttentionSpec:
        return spec.attention_chunk_size
    # MTP of several modules computes the KV of its last tokens anew. What these look at is kept as well.
    return spec.sliding_window + spec.extra_retained_tokens if type(spec) in _of_window else 0


def _forgets(spec: Any) -> bool:
    """Whether layers may give up tokens of which a drafter of several modules computes the KV anew."""
    return type(spec) is api.ChunkedLocalAttentionSpec or _is_aligned(spec)


def _why_not_state(spec: Any, config: Any) -> str | None:
    caching = bool(_has(config, "cache_config", "enable_prefix_caching"))
    if caching != _is_aligned(spec):
        return f"states in the cache mode {spec.mamba_cache_mode} {'with' if caching else 'without'} prefix caching"
    if not caching and spec.block_size < config.model_config.max_model_len:
        return f"states in blocks of {spec.block_size} tokens"
    return None


def block_size_of(kv_cache_config: Any, block_size: int) -> int:
    """Tokens in a block of KV, where an engine schedules by `block_size`: a common multiple of all sizes. With states
    that says nothing, because a state is as long as the longest request."""
    specs = [group.kv_cache_spec for group in kv_cache_config.kv_cache_groups]
    if not any(map(_is_state, specs)):
        return block_size
    return next((spec.block_size for spec in specs if not _is_state(spec)), specs[0].block_size)


#: What `why_not_memory` says with the numbers of a model.
of_memory = (
    f"more than {most_groups} groups of KV blocks",
    "layers that are not attention or states",
    "windows with tokens that are computed again (DeepSeek-V4.1)",
    "states beside attention with blocks of several sizes",
    "KV that stays in the host's memory",
    "KV connectors with states or with blocks of several sizes",
    "prompts in one piece with windows or several groups of KV blocks",
    "MTP of several modules with chunks or states",
)


def why_not_memory(kv_cache_config: Any, block_size: int, config: Any) -> Iterator[str]:
    """The same for the memory that its model needs."""
    groups = kv_cache_config.kv_cache_groups
    tables = tables_of(kv_cache_config)
    if not 1 <= sum(tables) <= most_groups:
        kinds = ", ".join(dict.fromkeys(type(group.kv_cache_spec).__name__ for group in groups))
        yield f"{sum(tables)} groups of KV blocks (1 to {most_groups} are supported)" + (kinds and f": {kinds}")
        return
    block_size = block_size_of(kv_cache_config, block_size)
    has_states = any(_is_state(group.kv_cache_spec) for group in groups)
    is_plain = len(groups) == 1 and not any(windows_of(kv_cache_config)) and not has_states
    if any(getattr(group, "host_resident", False) for group in groups):
        yield "KV that stays in the host's memory"
    for spec in (group.kv_cache_spec for group in groups):
        compressed = getattr(spec, "tokens_per_state", 1)
        if _is_state(spec):
            if why_not := _why_not_state(spec, config):
                yield why_not
            elif _is_aligned(spec) and spec.block_size != block_size:
                yield f"states in blocks of {spec.block_size} tokens in a scheduler with blocks of {block_size}"
        elif type(spec) not in (*_of_all, *_of_window):
            yield f"layers of the kind {type(spec).__name__}"
        elif type(spec) in _of_window and _window(spec) <= 2:
            yield f"a window of {_window(spec)} tokens"
        elif compressed > 1 and spec.block_size % compressed:
            yield f"one state for {compressed} tokens in blocks of {spec.block_size} tokens"
        elif spec.prefix_replay_tokens:
            yield f"windows with {spec.prefix_replay_tokens} tokens that are computed again"
        elif block_size % spec.block_size or (has_states and spec.block_size != block_size):
            yield f"blocks of {spec.block_size} tokens in a scheduler with blocks of {block_size}"
    if api.prompt_ahead(config) > 1 and any(map(_forgets, (group.kv_cache_spec for group in groups))):
        yield "MTP of several modules with chunks or states"
    sizes = {group.kv_cache_spec.block_size for group in groups if not _is_state(group.kv_cache_spec)}
    if _connector(config) and (has_states or len(sizes) > 1):
        yield "KV connectors with states or with blocks of several sizes"
    if whole_prompts(config) and not is_plain:
        yield "prompts in one piece with windows or several groups of KV blocks"
    if kv_cache_config.num_blocks < 2:
        yield f"KV memory of {kv_cache_config.num_blocks} blocks"


#: Kinds of layers by their names in `layer_types` of a model's configuration.
_attention = frozenset(("full_attention", "attention", "sliding_attention", "chunked_attention"))


#: Models by their `model_type`. All their layers of latent attention look at everything, in one group.
_latent = frozenset(
    ("axk1", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa", "kimi_k2", "longcat_flash")
)


def why_not_model(config: Any) -> Iterator[str]:
    """The same as far as a model's own configuration tells, before its weights are read: what `why_not_memory` will say
    of its layers."""
    model = config.model_config
    text = model.hf_text_config
    if model.is_hybrid or model.is_attention_free:
        raise ValueError("its configuration does not tell the groups of its states")
    if model.use_mla:
        if text.model_type == "deepseek_v41":
            yield f"windows with {text.sliding_window} tokens that are computed again"
            return
        layers = model.get_num_layers(config.parallel_config)
        windows = [0] * layers
        if text.model_type == "deepseek_v4":
            # What its latents compress, and what is being compressed, are windows beside them.
            windows += [text.sliding_window] * layers
        elif text.model_type not in _latent:
            raise ValueError(f"latent attention of {text.model_type}")
        yield from why_not_memory(api.groups_of(config, windows), config.cache_config.block_size, config)
        return
    window = model.get_sliding_window() or 0
    layers = model.get_num_layers(config.parallel_config)
    kinds = getattr(text, "layer_types", None)
    if kinds is None:
        if getattr(text, "attention_chunk_size", None):
            raise ValueError("its configuration does not tell which layers look at chunks")
        windows = [window] * layers
    else:
        if others := {*kinds} - _attention:
            yield from (f"layers of the kind {kind}" for kind in sorted(others))
            return
        sizes = {"sliding_attention": window, "chunked_attention": getattr(text, "attention_chunk_size", None) or 0}
        windows = [sizes.get(kind, 0) for kind in kinds]
    in_chunks = frozenset(i for i, kind in enumerate(kinds or ()) if kind == "chunked_attention" and windows[i])
    memory = api.groups_of(config, windows, in_chunks)
    yield from why_not_memory(memory, config.cache_config.block_size, config)


def tells(config: Any) -> bool:
    """Whether a listener wants to know what the prefix cache has."""
    caching = _has(config, "cache_config", "enable_prefix_caching")
    return bool(caching and _has(config, "kv_events_config", "enable_kv_cache_events"))


def tables_of(kv_cache_config: Any) -> list[int]:
    """For each group of layers: how many groups of the core keep its blocks. Without prefix caching, a state has a
    block of its own for each draft. That makes as many groups of one block a request."""
    specs = [group.kv_cache_spec for group in kv_cache_config.kv_cache_groups]
    return [1 if not _is_state(spec) or _is_aligned(spec) else 1 + spec.num_speculative_blocks for spec in specs]


def windows_of(kv_cache_config: Any) -> list[int]:
    """For each group of layers: how many tokens a token looks at; 0: at all."""
    return [_window(group.kv_cache_spec) for group in kv_cache_config.kv_cache_groups]


def layout_of(kv_cache_config: Any) -> dict[str, list[int]]:
    """What the core is told of the groups of layers. `zeroed` has the groups with blocks that must be zero before they
    are written, and `tables` is as above. The rest is for each of the core's own groups: the window, whether that is a
    chunk, and the size of blocks."""
    tables = tables_of(kv_cache_config)
    groups = kv_cache_config.kv_cache_groups
    specs = [group.kv_cache_spec for group, n in zip(groups, tables, strict=True) for _ in range(n)]
    zeroes = getattr(kv_cache_config, "needs_kv_cache_zeroing", False)
    return {
        "tables": tables,
        "zeroed": [i for i, group in enumerate(groups) if zeroes and not _is_state(group.kv_cache_spec)],
        "windows": [_window(spec) for spec in specs],
        "spare": [spec.num_speculative_blocks if _is_aligned(spec) else 0 for spec in specs],
        "in_chunks": [i for i, spec in enumerate(specs) if type(spec) is api.ChunkedLocalAttentionSpec],
        "block_sizes": [spec.block_size for spec in specs],
    }


def salt_of(request: Any) -> int:
    """Where the hashes of a request's blocks begin: apart from those of another salt or adapter. 0: it has neither."""
    adapter = request.lora_request
    if not request.cache_salt and adapter is None:
        return 0
    # What an adapter has computed is no other's, nor its own once its name stands for another one.
    parts = () if adapter is None else (adapter.lora_name, adapter.lora_path, str(adapter.lora_int_id))
    named = repr((request.cache_salt or "", *parts))
    return int.from_bytes(hashlib.blake2b(named.encode(), digest_size=8).digest(), "little") | 1


def why_not_request(request: Any, has_adapters: bool = False, has_encoder: bool = False) -> str | None:
    """What a request asks for that is not supported; None: nothing."""
    if getattr(request, "resumable", False):
        return "its input comes piece by piece"
    if request.pooling_params is not None or request.sampling_params is None:
        return "it is for pooling"
    if request.prompt_embeds is not None or getattr(request, "prompt_is_token_ids", None) is not None:
        return "its prompt is of embeddings"
    if getattr(request, "has_encoder_inputs", False) and not has_encoder:
        return "it has inputs that are not text"
    if request.lora_request is not None:
        if not has_adapters:
            return "it wants an adapter"
        if not 0 < request.lora_request.lora_int_id < 2**32:
            return f"its adapter has the number {request.lora_request.lora_int_id}"
    if not request.prompt_token_ids:
        return "its prompt is empty"
    return None
