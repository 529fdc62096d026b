# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's scheduler, with tessera's policies and core.

The native core keeps the queue, the blocks and the prefix cache, and builds the lists of a step. Here is what happens
to few requests in a step. They come, end, wait for a grammar, or have outputs with more than a token.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from tessera.vllm import _api as api
from tessera.vllm import control, metrics
from tessera.vllm._core import Describer, chunk_of, ends_by_repetition, make_core
from tessera.vllm.drafts import Drafts
from tessera.vllm.encoder import Encoder
from tessera.vllm.events import Events
from tessera.vllm.grammars import Grammars
from tessera.vllm.inquiries import Requests
from tessera.vllm.options import Options
from tessera.vllm.residency import Residency
from tessera.vllm.support import block_size_of, budget_of, tells, why_not_config, why_not_memory, why_not_request
from tessera.vllm.transfers import Transfers

logger = api.init_logger("vllm.tessera")

_make_output = api.make(api.SchedulerOutput)
_make_error = api.make(api.EngineCoreOutput)
_make_cached = api.make(api.CachedRequestData)
_make_new = api.make(api.NewRequestData)

Status = api.RequestStatus
Pause = api.PauseState


def options_of(vllm_config: Any) -> Options:
    """What a configuration says about tessera. Raises OptionsError."""
    return Options.of(vllm_config.additional_config)


class Scheduler(Grammars, Drafts):
    """For vLLM's option ``scheduler_cls``. Options: ``additional_config={"tessera": {"policy": ..., ...}}``.

    What it cannot do is done by vLLM's own scheduler: then making one of these makes one of those, with a warning.
    """

    def __new__(cls, vllm_config: Any, kv_cache_config: Any, structured_output_manager: Any, block_size: int, **rest):
        options = options_of(vllm_config)
        control.offer()
        reasons = [*why_not_config(vllm_config), *why_not_memory(kv_cache_config, block_size, vllm_config)]
        if options.shadow:
            from tessera.vllm.shadow import make_shadow

            metrics.report_scheduler(vllm_config, "vllm", options.policy, "shadow")
            return make_shadow(options, vllm_config, kv_cache_config, structured_output_manager, block_size, **rest)
        if not reasons:
            if not api.is_tested():
                logger.warning("tessera was tested with vLLM %s, and this is %s", " and ".join(api.tested), api.version)
            metrics.report_scheduler(vllm_config, "tessera", options.policy, "")
            return super().__new__(cls)
        if not options.fallback:
            raise NotImplementedError(f"tessera does not support {'; '.join(reasons)}")
        logger.warning("tessera does not support %s: vLLM's own scheduler does all of it", "; ".join(reasons))
        metrics.report_scheduler(vllm_config, "vllm", options.policy, "; ".join(reasons))
        own = api.own_scheduler(vllm_config)
        return own(vllm_config, kv_cache_config, structured_output_manager, block_size, **rest)

    def __init__(
        self,
        vllm_config: Any,
        kv_cache_config: Any,
        structured_output_manager: Any,
        block_size: int,
        hash_block_size: int | None = None,
        mm_registry: Any = None,
        include_finished_set: bool = False,
        log_stats: bool = False,
    ) -> None:
        self.vllm_config = vllm_config
        self.options = options = options_of(vllm_config)
        self.structured_output_manager = structured_output_manager
        self.log_stats = log_stats
        self.connector = None
        self.ec_connector = None

        self.config = vllm_config.scheduler_config
        self.budget = budget_of(self.config)
        self.places = api.slots_per_request(vllm_config)  #: a drafter's, of a request in a step, beside its tokens
        self.block_size = block_size = block_size_of(kv_cache_config, block_size)
        self.caching = bool(vllm_config.cache_config.enable_prefix_caching)
        self.second_runner = bool(getattr(vllm_config, "use_v2_model_runner", False))
        self.encoder = Encoder.of(vllm_config, mm_registry)  #: of images and the like; None: there is none
        self.describer = Describer(options, vllm_config, self.encoder)
        self.lookahead = api.most_drafts(vllm_config)  #: most drafts of a request in a step
        self.drafts_of_batch = api.drafts_of_batch(vllm_config)  #: by the requests in a step, or empty: always the most
        #: the runner need not draft in a step where no request can use it: such a runner, and a drafter that takes time
        self.can_skip_drafts = self.second_runner and api.slots_ahead(vllm_config) > 0
        self.no_common_blocks = [0] * len(kv_cache_config.kv_cache_groups)
        self.has_adapters = vllm_config.lora_config is not None

        self.by_id: dict[str, Any] = {}  #: all requests that have not ended
        self.slots: dict[str, int] = {}  #: slots of those that the core knows
        self.structured: dict[str, Any] = {}  #: those of them with a grammar
        #: the steps under way, oldest first, and the requests with a grammar that sample in each
        self.steps: deque[tuple[Any, list[str]]] = deque()
        self.without_grammar: list[Any] = []  #: those of these that wait for it
        #: to be reported as errors: requests, why, and what the server is told beside that (None: nothing)
        self.refused: list[tuple[Any, str, Any]] = []
        self.refused_streams: set[str] = set()  #: ids of these that may send more of their input
        self.finished_req_ids: set[str] = set()
        self.finished_by_client: dict[int, set[str]] | None = {} if include_finished_set else None
        self.lost_by_reset: list[Any] = []
        self.must_reset = False
        self.capacity_bound = False
        #: prompts are computed in one of this many steps. With parallel data the engine core counts, for all ranks.
        self.prefill_interval = 1
        if api.interval_counts_alone and vllm_config.parallel_config.data_parallel_size == 1:
            self.prefill_interval = self.config.prefill_schedule_interval
        self.since_prefill = self.prefill_interval  #: steps since the latest that computed a prompt
        self._pause_state = Pause.UNPAUSED
        self.cache_stats = api.PrefixCacheStats()
        self.perf_metrics = api.perf_metrics(vllm_config) if log_stats else None
        collector = api.residency_metrics(vllm_config)
        sizes = [group.kv_cache_spec.block_size for group in kv_cache_config.kv_cache_groups]
        self.residency = None if collector is None else Residency(collector, self.caching, sizes)
        #: KV from and for elsewhere
        self.transfers: Transfers | None = None
        if vllm_config.kv_transfer_config is not None:
            self.transfers = Transfers(vllm_config, kv_cache_config, block_size, log_stats)
            self.connector = self.transfers.connector
            self.describer.transfers_all = self.transfers.of_all

        self.core = make_core(
            options,
            vllm_config,
            kv_cache_config,
            block_size,
            self.second_runner,
            {
                "output": api.EngineCoreOutput,
                "status_running": Status.RUNNING,
                "status_preempted": Status.PREEMPTED,
                "status_stopped": Status.FINISHED_STOPPED,
                "status_length": Status.FINISHED_LENGTH_CAPPED,
                "reason_stop": api.FinishReason.STOP,
                "reason_length": api.FinishReason.LENGTH,
                "reason_repetition": getattr(api.FinishReason, "REPETITION", api.FinishReason.STOP),
                "repeats": ends_by_repetition,
                "asks": None if self.transfers is None else self.transfers.ask,
                "requests": self.by_id,
            },
            plans_in_flight=api.plans_in_flight(vllm_config),
            lookahead=self.lookahead,
            transfers=self.transfers is not None,
            stores=self.transfers is not None and self.transfers.of_all,
            tells=tells(vllm_config),
            encoder=self.encoder,
        )
        #: the same for code elsewhere: it finds true numbers in them
        self.requests = Requests(self.by_id, self.slots, self.core)
        self.events = Events(vllm_config, kv_cache_config, self.core) if tells(vllm_config) else None
        if self.transfers is not None:
            self.transfers.core, self.transfers.slots = self.core, self.slots
        logger.info("tessera schedules: %s %s", options.policy, options.parameters or "")

    # -- requests come and go

    def add_request(self, request: Any) -> None:
        if (known := self.by_id.get(request.request_id)) is not None:
            if not getattr(known, "resumable", False):
                raise ValueError(f"there is a request {request.request_id!r} already")
            if request.resumable:
                # The next piece of an input that is to be reported since its first piece. Each is answered: its client
                # waits.
                self._refuse(request, "more of its input")
            else:
                known.resumable = False  # the mark of the end, which is no piece
            return
        is_mark = request.request_id in self.refused_streams and not request.resumable  # the same, later
        self.refused_streams.discard(request.request_id)
        if is_mark and not api.tells_errors:
            return
        if self.transfers is not None:
            self.transfers.joins(request)
        self.by_id[request.request_id] = request
        if self.transfers is None or not self.transfers.of_all:
            request._block_hasher = None  # the core hashes tokens by itself
        if self.log_stats:
            request.record_event(api.EngineCoreEventType.QUEUED)
        if self.lookahead:
            request.spec_decode_metrics = api.new_request_drafts(self.vllm_config)
        # A front end that is told of errors has forgotten the input by now, and waits for an answer to the mark.
        reason = "the end of its input"
        if not is_mark:
            reason = why_not_request(request, self.has_adapters, self.encoder is not None)
        if reason is not None:
            self._refuse(request, reason)
        elif request.use_structured_output and request.status == Status.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR:
            self.structured[request.request_id] = request
            self.without_grammar.append(request)
        else:
            self._submit(request)

    def _submit(self, request: Any) -> None:
        try:
            description = self.describer.describe(request, request._output_token_ids, request._all_token_ids)
            slot = self.core.submit(request, description, time.monotonic())
            if isinstance(slot, str):
                self._refuse(request, f"{slot}: prompt of {request.num_prompt_tokens} tokens")
                return
            self.slots[request.request_id] = slot
        except (ValueError, OverflowError) as error:  # what a user has sent
            self._refuse(request, f"{type(error).__name__}: {error}")
        except Exception as error:  # a user's function
            self._refuse(request, f"{type(error).__name__}: {error}", is_invalid=False)

    def _refuse(self, request: Any, reason: str, is_invalid: bool = True) -> None:
        """A request ends as an error, with the next outputs. `is_invalid`: because of what it asks for. From vLLM 0.33
        on the server then answers 400, with the reason."""
        error = api.invalid(f"tessera cannot serve this request: {reason}") if is_invalid else None
        self.refused.append((request, reason, error))

    def finish_requests(self, request_ids: str | Iterable[str] | None, finished_status: Any) -> list[Any]:
        assert Status.is_finished(finished_status)
        if isinstance(request_ids, str):
            request_ids = (request_ids,)
        ended = []
        for request_id in [*self.by_id, *self.refused_streams] if request_ids is None else dict.fromkeys(request_ids):
            self.refused_streams.discard(request_id)
            request = self.by_id.pop(request_id, None)
            if request is None:
                continue
            request.status = finished_status
            self._leave(request)
            ended.append(request)
        return ended

    def _leave(self, request: Any) -> None:
        """A request that is not in `requests` any more."""
        request_id = request.request_id
        self.describer.ended(request, is_whole=False)
        slot = self.slots.pop(request_id, None)
        if slot is not None:
            self.core.cancel(slot)
        if self.transfers is not None:
            self.transfers.left(request)
        if self.structured.pop(request_id, None) is not None and request in self.without_grammar:
            self.without_grammar.remove(request)
        if self.refused:
            self.refused = [entry for entry in self.refused if entry[0].request_id != request_id]
        self._notify_finished(request)

    def _notify_finished(self, request: Any) -> None:
        self.finished_req_ids.add(request.request_id)
        if self.finished_by_client is not None:
            self.finished_by_client.setdefault(request.client_index, set()).add(request.request_id)

    # -- a step

    def schedule(self, throttle_prefills: bool = False) -> Any:
        if self.without_grammar:
            self._take_grammars()
        finished, self.finished_req_ids = self.finished_req_ids, set()
        preempted: set[str] = set()
        if self.lost_by_reset:
            preempted = {r.request_id for r in self.lost_by_reset if r.request_id in self.by_id}
            self.lost_by_reset = []
        # A reset waits until no step is under way.
        if self._pause_state == Pause.PAUSED_ALL or not self.slots or self.must_reset or self.core.is_early():
            return self._empty_step(finished, preempted)

        now = time.monotonic()
        budget = self.budget
        if self.places:
            budget = min(budget, self.config.max_num_batched_tokens - self.places_taken())
        admit = self._pause_state == Pause.UNPAUSED
        throttle_prefills = throttle_prefills or self.since_prefill + 1 < self.prefill_interval
        # Prompts make way for decodes: where there is none, they do not wait.
        defer = throttle_prefills and not self.capacity_bound and self.core.decodes()
        counts, total, fresh, ids, resumed, all_tokens, blocks, computed, outputs, lost, outgrown = self.core.schedule(
            now, budget, chunk_of(self.config, len(self.slots), budget), admit, defer
        )
        if admit and not defer:
            self.capacity_bound = self.core.waiting() > self.core.coming()
        for request in outgrown:
            self._refuse_running(request)
        if lost and self.transfers is not None:
            self.transfers.lost(self.by_id[request_id] for request_id in lost)
        if lost and self.log_stats:
            for request_id in lost:
                self.by_id[request_id].record_event(api.EngineCoreEventType.PREEMPTED, now)
        if preempted:
            lost |= preempted
        output = _make_output(
            scheduled_new_reqs=self._introduce(fresh, now) if fresh else [],
            scheduled_cached_reqs=_make_cached(
                req_ids=ids,
                resumed_req_ids=resumed,
                new_token_ids=self.core.new_tokens(),
                all_token_ids=all_tokens,
                new_block_ids=blocks,
                num_computed_tokens=computed,
                num_output_tokens=outputs,
            ),
            num_scheduled_tokens=counts,
            total_num_scheduled_tokens=total,
            scheduled_spec_decode_tokens=self.core.drafts() if self.lookahead else {},
            scheduled_encoder_inputs={},
            finished_req_ids=finished,
            free_encoder_mm_hashes=[],
            preempted_req_ids=lost,
            num_spec_tokens_to_schedule=self.drafts_of_batch[len(counts)] if self.drafts_of_batch else self.lookahead,
            skip_drafts=self.can_skip_drafts and self.core.drafts_are_vain(),
            # For releases before 0.32, where attention computes a common beginning once: none has one.
            num_common_prefix_blocks=self.no_common_blocks,
            new_block_ids_to_zero=self.core.to_zero() or None,
        )
        if self.encoder is not None:
            self.encoder.planned(self.core, output, self.log_stats)
        if self.residency is not None:
            self.residency.goes_on(output.scheduled_cached_reqs)
        if self.transfers is not None:
            self._transfer(output, fresh)
        if total:
            if self.prefill_interval > 1:
                self.since_prefill = 0 if self.core.prefills() else self.since_prefill + 1
            self.steps.append((output, self._note_structured(output) if self.structured else []))
        return output

    def _transfer(self, output: Any, fresh: list[Any]) -> None:
        """KV comes and goes beside a step."""
        if self.residency is not None:
            for _, block_ids, here in self.core.loads():
                self.residency.starts(block_ids, here)
        self.transfers.planned(output, fresh, self.by_id)
        failed, self.transfers.no_answer = self.transfers.no_answer, []
        for request, reason in failed:
            self.core.cancel(self.slots.pop(request.request_id))
            self._refuse(request, reason, is_invalid=False)

    def places_taken(self) -> int:
        """Places in the runner's buffers that a drafter takes of a step, at most."""
        return self.places * min(len(self.slots), self.config.max_num_seqs)

    def _empty_step(self, finished: set[str], preempted: set[str]) -> Any:
        self.core.skip()
        output = api.SchedulerOutput.make_empty()
        output.finished_req_ids = finished
        output.preempted_req_ids = preempted
        if self.transfers is not None:
            self.transfers.idle(output)
        return output

    def _introduce(self, fresh: list[Any], now: float) -> list[Any]:
        """Requests that start, for the runner: those that it does not know. The second runner is told of resumed ones
        as well."""
        new = []
        if self.transfers is not None:
            self.transfers.lost(self.core.lost())
        for request, block_ids, first, is_known, length in fresh:
            here, external = first, 0
            has_come = False
            if self.transfers is not None:
                has_come = request.request_id in self.transfers.fetched
                here, external = self.transfers.starts(request.request_id, first)
            if self.residency is not None and not has_come:
                self.residency.starts(block_ids, here)
            if self.log_stats:
                request.record_event(api.EngineCoreEventType.SCHEDULED, now)
                if self.caching and not getattr(request, "skip_reading_prefix_cache", False):
                    self.cache_stats.record(num_tokens=length, num_hits=here, preempted=is_known)
            request.num_computed_tokens = first
            if here and self.events is not None and getattr(request, "kv_cache_report_mode", None) == "full":
                self.events.found(request, self.slots[request.request_id], here)
            if not is_known and getattr(request, "prefill_stats", None) is not None:
                request.prefill_stats.set(
                    num_prompt_tokens=request.num_prompt_tokens,
                    num_local_cached_tokens=here,
                    num_external_cached_tokens=external,
                )
            if is_known and not self.second_runner:
                continue
            new.append(
                _make_new(
                    req_id=request.request_id,
                    prompt_token_ids=request.prompt_token_ids,
                    mm_features=request.mm_features or [],
                    sampling_params=request.sampling_params,
                    pooling_params=None,
                    block_ids=block_ids,
                    num_computed_tokens=first,
                    lora_request=request.lora_request,
                    prefill_token_ids=request._all_token_ids if self.second_runner else None,
                )
            )
        return new

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> dict[int, Any]:
        by_client, looked_at, ended, failed = {}, [], [], []
        is_step = scheduler_output.total_num_scheduled_tokens > 0
        if is_step and (not self.steps or self.steps[0][0] is not scheduler_output):
            raise RuntimeError("this is not the oldest of the steps under way")
        drafted = None
        if scheduler_output.scheduled_spec_decode_tokens:
            drafted = self._count_drafts(scheduler_output, model_runner_output)
        told = getattr(model_runner_output, "kv_connector_output", None)
        spoilt, is_late = [], False
        if self.transfers is not None:
            spoilt, is_late = self._take_spoilt(scheduler_output, told, is_step)
        if is_step:
            self.steps.popleft()
            by_client, looked_at, ended, failed = self.core.update(
                model_runner_output.req_id_to_index,
                model_runner_output.req_ids,
                model_runner_output.sampled_token_ids,
                time.monotonic(),
                spoilt,
            )
            if is_late:
                self.core.forget_prefixes()
        for request, reason in failed:
            # The core has cancelled it already.
            del self.slots[request.request_id]
            self._refuse(request, reason, is_invalid=False)
        last: dict[str, Any] = {}  # of those with KV for or from elsewhere
        for output, request, index, has_news, is_watched in looked_at:
            if has_news:
                self._complete_first(output, request)
            if is_watched:
                try:
                    self._complete(output, request, index, model_runner_output)
                except Exception as error:  # a bad output of one request must not end the others
                    self._end_with(output, request, f"{type(error).__name__}: {error}")
                if self.transfers is not None and self.transfers.concerns(request):
                    last[request.request_id] = output
        for request in ended:
            # The core has taken it out already.
            slot = self.slots.pop(request.request_id)
            if request.request_id in last:
                output = last[request.request_id]
                output.kv_transfer_params = params = self.transfers.finished(request, slot)
                if params is not None and params.get("do_remote_prefill") and output.prefill_stats is not None:
                    # For the client of the peer: there, nearly all is found.
                    params["remote_prefill_cached_tokens"] = output.prefill_stats.num_cached_tokens
            self.describer.ended(request, is_whole=True)
            self.structured.pop(request.request_id, None)
            self._notify_finished(request)
        if self.transfers is not None and told is not None:
            for request, arriving in self.transfers.take(told, self.by_id):
                del self.slots[request.request_id]
                self.core.cancel(arriving.slot)
                self.core.arrived(arriving.slot, 0)
                self._refuse(request, "its KV could not be fetched", is_invalid=False)
        if model_runner_output.num_nans_in_logits:
            for outputs in by_client.values():
                for output in outputs:
                    output.num_nans_in_logits = model_runner_output.num_nans_in_logits.get(output.request_id, 0)
        if self.must_reset and not self.core.pending():
            self.must_reset = False
            self._reset()
        if self.refused:
            self._report_refused(by_client)
        others = self.connector.take_events() if self.connector is not None else ()
        if self.events is not None:
            self.events.publish(others)
        else:
            deque(others, maxlen=0)  # a connector may give them as it is asked

        result = {client: api.EngineCoreOutputs(outputs=outputs) for client, outputs in by_client.items()}
        if self.finished_by_client:
            for client, request_ids in self.finished_by_client.items():
                result.setdefault(client, api.EngineCoreOutputs()).finished_requests = request_ids
            self.finished_by_client = {}
        if self.log_stats:
            # To one of the front ends, whether it has outputs or not.
            if not result:
                result[0] = api.EngineCoreOutputs()
            performed = self.perf_metrics.get_step_perf_stats_per_gpu(scheduler_output) if self.perf_metrics else None
            next(iter(result.values())).scheduler_stats = self.make_stats(
                model_runner_output.cudagraph_stats, drafted, told, performed
            )
        return result

    def _take_spoilt(self, step: Any, told: Any, is_step: bool) -> tuple[list[int], bool]:
        """Requests with KV that did not come in their step fail, or compute it. Returns the slots of the latter, and
        whether others may have found some of that KV."""
        spoilt, is_late = self.transfers.spoilt(step, told, self.by_id, is_step)
        if self.transfers.recomputes:
            return [self.slots[request.request_id] for request in spoilt], is_late
        for request in spoilt:
            self.core.cancel(self.slots.pop(request.request_id))
            self._refuse(request, "its KV could not be fetched", is_invalid=False)
        return [], is_late

    def _complete_first(self, output: Any, request: Any) -> None:
        """The first output of a request tells how its prompt was computed; so does the first after each new start."""
        output.events = request.take_events()
        take = getattr(request, "take_prefill_stats", None)
        stats = take() if take is not None else None
        if stats is not None:
            cached = 0
            if self.caching and not getattr(request, "skip_reading_prefix_cache", False):
                cached = request.num_prompt_tokens // self.block_size * self.block_size
            stats.finalize(cached)
            output.prefill_stats = stats

    def _complete(self, output: Any, request: Any, index: int, ran: Any) -> None:
        """What outputs of some requests have beside a token."""
        output.events = output.events or request.take_events()
        output.trace_headers = request.trace_headers
        if output.finish_reason is not None and self.lookahead:
            output.spec_decode_metrics = request.spec_decode_metrics
        if request.sampling_params.num_logprobs is not None and ran.logprobs is not None:
            output.new_logprobs = ran.logprobs.slice_request(index, len(output.new_token_ids))
        output.new_prompt_logprobs_tensors = ran.prompt_logprobs_dict.get(request.request_id)
        if scored := getattr(ran, "prompt_token_id_logprobs_dict", None):
            output.prompt_token_id_logprobs = scored.get(request.request_id)
        if request.use_structured_output and not self.structured_output_manager.accept_tokens(
            request, output.new_token_ids
        ):
            self._end_with(output, request, f"its grammar refuses the tokens {output.new_token_ids}")

    def _end_with(self, output: Any, request: Any, reason: str) -> None:
        """Makes an output of a request its last one, as an error."""
        logger.error("tessera ends request %s: %s", request.request_id, reason)
        output.finish_reason = api.FinishReason.ERROR
        request.status = Status.FINISHED_ERROR
        if self.by_id.pop(request.request_id, None) is not None:
            self._leave(request)

    def _refuse_running(self, request: Any) -> None:
        """A request has grown beyond the memory: it can never get its next token."""
        slot = self.slots.pop(request.request_id)
        self.core.cancel(slot)
        self._refuse(request, "it has outgrown the KV memory of this instance", is_invalid=False)

    def _report_refused(self, by_client: dict[int, list[Any]]) -> None:
        refused, self.refused = self.refused, []
        reported: set[str] = set()
        for request, reason, error in refused:
            request_id = request.request_id
            if self.by_id.pop(request_id, None) is not None:
                logger.error("tessera cannot serve request %s: %s", request_id, reason)
                request.status = Status.FINISHED_ERROR
                self._leave(request)
                reported.add(request_id)
                if getattr(request, "resumable", False):
                    self.refused_streams.add(request_id)
            elif request_id not in reported:
                continue
            request.status = Status.FINISHED_ERROR
            by_client.setdefault(request.client_index, []).append(
                _make_error(
                    request_id=request.request_id,
                    new_token_ids=[],
                    finish_reason=api.FinishReason.ERROR,
                    events=request.take_events(),
                    trace_headers=request.trace_headers,
                    error=error,
                )
            )
