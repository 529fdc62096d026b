# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What vLLM asks of a scheduler between steps: counts and stats, pauses, resets, the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tessera.vllm import _api as api

logger = api.init_logger("vllm.tessera")

_make_stats = api.make(api.SchedulerStats)

Pause = api.PauseState


class Requests(Mapping):
    """Requests that have not ended, by id, for readers that are no part of the scheduler. A request's tokens and its
    `num_computed_tokens` are brought up to date when it is looked up, not in each step."""

    def __init__(self, by_id: dict[str, Any], slots: dict[str, int], core: Any) -> None:
        self._by_id, self._slots, self._core = by_id, slots, core

    def __getitem__(self, request_id: str) -> Any:
        request = self._by_id[request_id]
        slot = self._slots.get(request_id)
        if slot is not None:
            self._core.write_tokens(slot)
            request.num_computed_tokens = self._core.computed(slot)
        return request

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._by_id

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)


class Inquiries(api.SchedulerInterface):
    """The part of the interface that plans nothing. `Scheduler` has the members that it reads."""

    def has_request(self, request_id: str) -> bool:
        """Whether it has not ended, or may send more of its input: then what comes under its name is no new request."""
        return request_id in self.by_id or request_id in self.refused_streams

    @property
    def running(self) -> list[Any]:
        """The requests that hold blocks by the latest plan, in the order of their turns. A copy."""
        return [self.requests[request.request_id] for request in self.core.residents()]

    @property
    def waiting(self) -> list[Any]:
        """The requests that hold no blocks, in the order in which they came. A copy."""
        running = {request.request_id for request in self.core.residents()}
        return [request for request_id, request in self.requests.items() if request_id not in running]

    def get_num_unfinished_requests(self) -> int:
        if self._pause_state == Pause.PAUSED_ALL:
            return 0
        if self._pause_state == Pause.PAUSED_NEW:
            # Requests that hold KV go on; refused ones are still to be reported.
            return self.core.running() + self.core.coming() + len(self.refused)
        return len(self.by_id)

    def has_finished_requests(self) -> bool:
        # While KV comes or goes the worker is to be asked for what has become of it.
        return bool(self.finished_req_ids) or (self.transfers is not None and self.transfers.busy())

    def get_kv_connector(self) -> Any:
        return self.connector

    def get_kv_event_publisher_config(self) -> Any:
        return None if self.events is None else self.events.publisher.get_publisher_config()

    @property
    def pause_state(self) -> Any:
        return self._pause_state

    def set_pause_state(self, pause_state: Any) -> None:
        logger.info("setting pause state to %s", pause_state.name)
        self._pause_state = pause_state

    def reset_prefix_cache(self, reset_running_requests: bool = False, reset_connector: bool = False) -> bool:
        if not reset_running_requests and self.core.running() + self.core.loading() > 0:
            return False
        if self.transfers is not None and (not self.transfers.at_rest() or not self.transfers.reset(reset_connector)):
            return False
        if self.core.pending():
            # The steps that are under way may write to their blocks: the reset comes when their outputs have come.
            self.must_reset = True
        else:
            self._reset()
        return True

    def _reset(self) -> None:
        lost = self.core.reset()
        if self.transfers is not None:
            self.transfers.lost(lost)
        if self.log_stats:
            for request in lost:
                request.record_event(api.EngineCoreEventType.PREEMPTED)
        self.lost_by_reset.extend(lost)
        if self.residency is not None:
            self.residency.collector.reset()
        self.cache_stats.reset = True

    def set_option(self, name: str, value: Any) -> None:
        """Changes an option while requests run: one of `tessera.vllm.options.settable`.

        It counts from the next step on. With async scheduling, an option of the policy may count one step later.
        Requests keep their KV, their output and what they have used of a quantum. A deadline that depends on it is
        computed anew for each request. A reader that has begun keeps its pace.

        Raises ValueError for an unknown name or a bad value, and says what there is. Then nothing has changed.
        """
        options = self.options.changed(name, value)
        self.core.set_option(name, value)
        self.options = options
        logger.info("tessera: %s is %s from now on", name, value)

    def reset_encoder_cache(self) -> None:
        if self.encoder is not None:
            self.core.forget_outputs()
            self.encoder.forget()

    def get_request_counts(self) -> tuple[int, int]:
        return self.core.running(), self.core.waiting() + len(self.without_grammar)

    def get_kv_cache_usage(self) -> float:
        return self.core.usage()

    def make_stats(
        self, cudagraph_stats: Any = None, drafted: Any = None, told: Any = None, performed: Any = None
    ) -> Any:
        if not self.log_stats:
            return None
        stats, self.cache_stats = self.cache_stats, api.PrefixCacheStats()
        coming = self.core.coming()
        return _make_stats(
            num_running_reqs=self.core.running(),
            num_waiting_reqs=self.core.waiting() - coming,
            num_skipped_waiting_reqs=len(self.without_grammar) + coming,
            **(self.transfers.take_stats(told) if self.transfers is not None else {}),
            kv_cache_usage=self.core.usage(),
            prefix_cache_stats=stats,
            cudagraph_stats=cudagraph_stats,
            spec_decoding_stats=drafted,
            kv_cache_eviction_events=[] if self.residency is None else self.residency.collector.drain_events(),
            perf_stats=performed,
        )

    def shutdown(self) -> None:
        if self.transfers is not None:
            self.transfers.shutdown()
        if self.events is not None:
            self.events.shutdown()
        self.core.close()
