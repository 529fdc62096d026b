# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From vLLM's configuration and requests to what the native core is told: for the scheduler and for its shadow."""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Callable
from itertools import count
from typing import Any

from tessera import _vllm
from tessera.vllm import _api as api
from tessera.vllm.encoder import Encoder
from tessera.vllm.options import Options, OptionsError, has_tenants, needs_lengths
from tessera.vllm.predictor import Predictor
from tessera.vllm.support import block_size_of, layout_of, salt_of

#: As far as the core counts.
_many = 2**31 - 1

#: Seconds for which KV can be kept: for ever, in effect.
_long = 10**9


def chunk_of(config: Any, requests: int, budget: int) -> int:
    """The most tokens of one prompt in a step, where there are `requests` requests; 0: as many as the step takes."""
    if config.long_prefill_token_threshold <= 0 or requests <= 1:
        return 0
    if getattr(config, "long_prefill_token_threshold_adaptive", False):
        return max(config.long_prefill_token_threshold, budget // requests)
    return config.long_prefill_token_threshold


def make_core(
    options: Options,
    vllm_config: Any,
    kv_cache_config: Any,
    block_size: int,
    second_runner: bool,
    words: dict[str, Any],
    plans_in_flight: int = 1,
    lookahead: int = 0,
    transfers: bool = False,
    stores: bool = False,
    tells: bool = False,
    encoder: Encoder | None = None,
) -> Any:
    """A core with vLLM's limits and the policy's parameters. `words`: what outputs are made of."""
    config, status = vllm_config.scheduler_config, api.RequestStatus
    watermark = options.watermark if options.watermark is not None else getattr(config, "watermark", 0.01)
    return _vllm.Core(
        options.policy,
        {
            "blocks": kv_cache_config.num_blocks - 1,  # the runner's block 0 belongs to no request
            "block_size": block_size_of(kv_cache_config, block_size),
            "residents": config.max_num_seqs,
            "max_model_len": vllm_config.model_config.max_model_len,
            "caching": bool(vllm_config.cache_config.enable_prefix_caching),
            "chunked_prefill": bool(config.enable_chunked_prefill),
            "prefill_budget": options.prefill_budget,
            "step_s": options.step_s,
            "watermark": float(watermark),
            "second_runner": second_runner,
            "plans_in_flight": plans_in_flight,
            "plans_apart": min(api.stages(vllm_config), plans_in_flight),
            "sends_tokens": plans_in_flight > 1 and api.sends_tokens(vllm_config),
            "whole_at_end": options.model is not None,
            "lookahead": lookahead,
            "slots_ahead": api.slots_ahead(vllm_config) if lookahead else 0,
            "prompt_ahead": api.prompt_ahead(vllm_config) if lookahead else 0,
            "hash_lookahead": api.hash_ahead(vllm_config) if lookahead else 0,
            "drafts_of_batch": api.drafts_of_batch(vllm_config) if lookahead else [],
            **layout_of(kv_cache_config),
            "transfers": transfers,
            "stores": stores,
            "tells": tells,
            "encoder_budget": 0 if encoder is None else encoder.budget,
            "encoder_cache": 0 if encoder is None else encoder.cache,
            "longest_input": 0 if encoder is None else encoder.longest,
            "adapters": getattr(vllm_config.lora_config, "max_loras", 0),
            # A user that does not know where the chains begin cannot make two prompts collide.
            "secret": int.from_bytes(os.urandom(8), "little"),
            "weights": list(options.weights.values()),
            **options.parameters,
        },
        {"status_waiting": status.WAITING, "status_loading": status.WAITING_FOR_REMOTE_KVS, **words},
    )


def text_reader(options: Options, vllm_config: Any) -> Callable[[list[int]], str] | None:
    """Makes text of token ids, for a model that reads text. OptionsError where there is no tokenizer."""
    if options.model_reads != "text":
        return None
    try:
        tokenizer = api.tokenizer_of(vllm_config.model_config)
    except Exception as error:
        raise OptionsError(f"tessera: a model that reads text needs a tokenizer: {error}") from error
    if tokenizer is None:
        raise OptionsError("tessera: a model that reads text needs a tokenizer; this engine has none")
    return lambda ids: tokenizer.decode(ids)


class Describer:
    """Says of a request what the core wants to know."""

    def __init__(self, options: Options, vllm_config: Any, encoder: Encoder | None = None) -> None:
        self.options = options
        self.encoder = encoder
        self.score = options.scorer()
        model = options.predictor()
        self.predictor = None if model is None else Predictor(model, text_reader(options, vllm_config))
        self.max_model_len: int = vllm_config.model_config.max_model_len
        # Named tenants have the first places; the others have the next ones, as they come.
        self.tenants = {name: place for place, name in enumerate(options.weights)}
        self.has_priorities = "priority" in (options.policy, vllm_config.scheduler_config.policy)
        self.unnamed = count()  #: requests that are sessions of their own
        self.transfers_all = False  #: the KV connector concerns all requests

    def describe(self, request: Any, output: list[int], everything: list[int]) -> dict[str, Any]:
        """Raises ValueError for arguments that are none, and RuntimeError if a user's function fails."""
        params = request.sampling_params
        own = self._own_arguments(params)
        score = own.get("score")
        expected = None
        if score is None and self.predictor is not None:
            score, expected = self.predictor.predict(request)
        elif score is None:
            score = self._score(request) if self.score is not None else request.max_tokens
        try:
            score = float(score)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"a score is a number, not {score!r:.80}") from None
        if not math.isfinite(score):
            raise ValueError(f"its score is {score}")
        if expected is None:
            expected = int(score)
        # vLLM orders equal priorities by arrival time, not by the order of joining.
        arrival = float(request.arrival_time) if self.has_priorities else 0.0
        if not math.isfinite(arrival):
            raise ValueError(f"its arrival_time is {arrival}")
        reasons = self.options.end_of_reasoning is not None and own.get("reasoning", True)
        repetition = getattr(params, "repetition_detection", None) is not None
        transfers = self.transfers_all or bool(getattr(request, "kv_transfer_params", None))
        return {
            "id": request.request_id,
            "output_token_ids": output,
            "all_token_ids": everything,
            "prompt": request.num_prompt_tokens,
            "max_tokens": min(request.max_tokens, _many),
            # Here the smaller number is the more urgent one. What is beyond counts as the most, or the least, there is.
            "priority": min(max(-int(request.priority), -_many), _many) if self.has_priorities else 0,
            "arrival": arrival,
            "score": score,
            "expected_output": min(max(expected, 0), self.max_model_len),
            "reasons": bool(reasons),
            "end_of_reasoning": self.options.end_of_reasoning if reasons else -1,
            "eos": -1 if params.eos_token_id is None else params.eos_token_id,
            "stops": [token for token in params.stop_token_ids or () if abs(token) <= _many],  # no others are sampled
            "client": request.client_index,
            "adapter": 0 if request.lora_request is None else request.lora_request.lora_int_id,
            "tenant": self._tenant(own.get("tenant", "")) if self.options.policy in has_tenants else 0,
            "session": self._session(own),
            "keep_s": float(own.get("keep_s", 0)),
            "is_last_turn": own.get("release", False),
            "watched": bool(
                params.num_logprobs is not None
                or params.prompt_logprobs is not None
                or getattr(params, "prompt_logprob_token_ids", None) is not None
                or repetition
                or transfers
                or request.use_structured_output
                or request.trace_headers is not None
                or getattr(request, "spec_decode_metrics", None) is not None
            ),
            "transfers": transfers,
            "repetitive": repetition,
            # A request that must compute the whole prompt has no use for what is known, and shares nothing.
            "caches": not getattr(request, "skip_reading_prefix_cache", False),
            "salt": salt_of(request),
            "inputs": [] if self.encoder is None else self.encoder.describe(request),
        }

    def _score(self, request: Any) -> float:
        """The score that a user's function gives."""
        try:
            return float(self.score(request))
        except Exception as error:
            raise RuntimeError(f"the score function failed: {type(error).__name__}: {error}") from error

    def ended(self, request: Any, is_whole: bool) -> None:
        """A request that was described has ended, by itself or not."""
        if self.encoder is not None:
            self.encoder.left(request.request_id)
        if self.predictor is not None:
            self.predictor.ended(request, is_whole)

    def _own_arguments(self, params: Any) -> dict[str, Any]:
        """What a request says for this scheduler: extra_args={"tessera": {...}}. Over HTTP, where extra arguments hold
        no objects, as JSON."""
        own = (params.extra_args or {}).get("tessera")
        if own is None:
            return {}
        if isinstance(own, str):
            try:
                own = json.loads(own)
            except ValueError:
                raise ValueError(f'extra_args["tessera"] is no JSON: {own!r:.80}') from None
        keys = ("score", "reasoning", "tenant", "session", "keep_s", "release")
        if not isinstance(own, dict) or not own.keys() <= set(keys):
            raise ValueError(f'extra_args["tessera"] is a dict of {", ".join(keys)}, not {own!r:.80}')
        if isinstance(own.get("score", 0), (bool, str)):
            raise ValueError(f"a score is a number, not {own['score']!r:.80}")
        if not isinstance(own.get("reasoning", True), bool):
            raise ValueError(f"reasoning is true or false, not {own['reasoning']!r}")
        if "score" in own and self.options.policy not in needs_lengths:
            raise ValueError(f"the policy {self.options.policy} has no use for a score")
        if "tenant" in own and self.options.policy not in has_tenants:
            raise ValueError(f"the policy {self.options.policy} has no use for a tenant")
        for name in ("tenant", "session"):
            if not isinstance(own.get(name, ""), str):
                raise ValueError(f"a {name} is a name, not {own[name]!r:.80}")
        if not isinstance(own.get("release", False), bool):
            raise ValueError(f"release is true or false, not {own['release']!r:.80}")
        keep_s = own.get("keep_s", 0)
        if isinstance(keep_s, bool) or not isinstance(keep_s, (int, float)) or not 0 <= keep_s <= _long:
            raise ValueError(f"keep_s is a number of seconds from 0 to {_long}, not {keep_s!r:.80}")
        return own

    def _session(self, own: dict[str, Any]) -> int:
        """The number of the session that a request names. A request that names none, and says that its KV is of no
        more use, is a session of its own. 0: none. Two sessions with one number only keep KV for too long or too
        short."""
        if "session" in own:
            return 1 + zlib.crc32(own["session"].encode()) % _vllm.sessions
        return 1 + next(self.unnamed) % _vllm.sessions if own.get("release", False) else 0

    def _tenant(self, name: str) -> int:
        """The place of a tenant; all tenants that come when none is left share the last one."""
        place = self.tenants.get(name)
        if place is None:
            place = len(self.tenants)
            if place >= _vllm.tenants - 1:
                return _vllm.tenants - 1
            self.tenants[name] = place
        return place


def ends_by_repetition(request: Any) -> bool:
    """Whether a request's output repeats itself as its parameters forbid. Then the request has ended."""
    params = request.sampling_params
    if len(request._output_token_ids) < params.min_tokens:
        return False
    if not api.check_sequence_repetition(request._output_token_ids, params.repetition_detection):
        return False
    request.status = api.RequestStatus.FINISHED_REPETITION
    request.stop_reason = "repetition_detected"
    return True
