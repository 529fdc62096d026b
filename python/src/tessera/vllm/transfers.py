# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""KV that comes from other engines and goes to them, by vLLM's connector.

The connector says what can be had elsewhere, moves it in the worker, and tells what has come and gone. Here it meets
the core's calls for that. While its KV is on its way, a request has its blocks and stands aside. A request that has
ended keeps its blocks until they have been read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tessera.vllm import _api as api

logger = api.init_logger("vllm.tessera")

_make_block = api.make(api.KVCacheBlock)


@dataclass
class Arriving:
    """A request with KV on its way."""

    slot: int
    tokens: int
    blocks: list[int]
    here: int  #: how many of the blocks were here already
    wanted: bool = True  #: its request has not ended


class Transfers:
    """The side of the scheduler of vLLM's KV connector."""

    def __init__(self, vllm_config: Any, kv_cache_config: Any, core: Any, block_size: int, log_stats: bool) -> None:
        self.connector = api.make_connector(vllm_config, kv_cache_config)
        self.core = core
        self.block_size = block_size
        # If its KV does not come, a request computes it by itself, or fails.
        self.recomputes = vllm_config.kv_transfer_config.kv_load_failure_policy == "recompute"
        self.announced: dict[str, int] = {}  #: tokens that can be had elsewhere, of waiting requests, by id
        self.arriving: dict[str, Arriving] = {}
        self.broken: dict[str, int] = {}  #: whole tokens of arriving requests; the rest never comes
        #: tokens that were here and tokens that came from elsewhere, of requests that have not started since
        self.fetched: dict[str, tuple[int, int]] = {}
        self.leaving: dict[str, int] = {}  #: requests that have ended and are being read, and their tickets
        self.stats = api.PrefixCacheStats() if log_stats else None

    def busy(self) -> bool:
        """Whether the worker must still be asked, although no request is served."""
        return bool(self.leaving or self.arriving) or bool(self.connector.has_pending_push_work())

    def joins(self, request: Any) -> None:
        # The worker knows what comes and goes by the request's name.
        if request.request_id in self.arriving or request.request_id in self.leaving:
            raise ValueError(f"the KV of a request {request.request_id!r} that has ended is still on its way")
        self.connector.on_new_request(request)

    def submitted(self, request: Any, slot: int) -> None:
        """Its KV is fetched when its turn comes, if another engine has it."""
        tokens, later = self.connector.get_num_new_matched_tokens(request, 0)
        # Its last token is computed here, because something must be sampled. A request that wants the logprobs of its
        # prompt has no use for any of it.
        tokens = 0 if request.skip_reading_prefix_cache else min(tokens or 0, request.num_tokens - 1)
        if later and tokens > 0:
            self.core.load(slot, tokens)
            self.announced[request.request_id] = tokens

    def planned(self, output: Any, fresh: list[Any], slots: dict[str, int]) -> None:
        """Tells the connector which requests have blocks now, and the worker what is to be done in this step."""
        for request, block_ids, here in self.core.loads():
            request_id = request.request_id
            tokens = self.announced.pop(request_id)
            self.arriving[request_id] = Arriving(slots[request_id], tokens, block_ids[0], here)
            # All of the prompt, as its peer counts it.
            external = request.num_tokens - here * self.block_size
            self._has_blocks(request, block_ids[0], here, external)
            self._count(request, external, external, again=False)
        for request, block_ids, first, _, _ in fresh:
            self.announced.pop(request.request_id, None)  # what is here is enough
            self._has_blocks(request, block_ids[0], first // self.block_size, 0)
        output.kv_connector_metadata = self.connector.build_connector_meta(output)

    def _has_blocks(self, request: Any, block_ids: list[int], here: int, external: int) -> None:
        if not request.kv_transfer_params:
            return
        blocks = [_make_block(block_id=n) for n in block_ids]
        for block in blocks[:here]:
            block._block_hash = b""  # what the connector asks is whether it has one
        self.connector.update_state_after_alloc(request, api.KVCacheBlocks((blocks,)), external)

    def _count(self, request: Any, asked: int, came: int, again: bool) -> None:
        """A request that takes its blocks lacks `asked` tokens; `came` of them can be had elsewhere."""
        if self.stats is None or not asked:
            return
        sources = self.connector.get_external_cache_hit_sources(request, came) if came else None
        self.stats.record(num_tokens=asked, num_hits=came, preempted=again, hits_by_source=sources)

    def starts(self, request: Any, first: int, length: int, again: bool) -> tuple[int, int]:
        """A request starts with `first` of its tokens computed. Returns how many of them were here, and how many came
        from elsewhere."""
        came = self.fetched.pop(request.request_id, None)
        if came is not None:
            return came
        self._count(request, length - first, 0, again)
        return first, 0

    def lost(self, request_ids: Iterable[str]) -> None:
        """These have lost their KV, wherever it came from."""
        for request_id in request_ids:
            self.fetched.pop(request_id, None)

    def finished(self, request: Any, slot: int) -> Any:
        """A request has ended by itself: what its client must know to go on elsewhere."""
        computed = request.num_tokens - 1  # the last token has never been run
        request.num_computed_tokens = computed
        held = [block + 1 for block in self.core.blocks_of(slot)[: -(-computed // self.block_size)]]
        keep, params = self._notify_end(request, held)
        self._forget(request.request_id)
        if not keep:
            self.core.let_go(slot)
            return params
        ticket = self.core.drain(slot)
        if ticket is None:
            logger.error("tessera has no room to keep the KV of request %s for its peer", request.request_id)
            return None
        self.leaving[request.request_id] = ticket
        return params

    def left(self, request: Any) -> None:
        """A request ends because its client or the engine wants it to. Its KV that is on its way comes all the same."""
        self._forget(request.request_id)
        if (a := self.arriving.get(request.request_id)) is not None:
            a.wanted = False
        if request.kv_transfer_params:
            self._notify_end(request, [])

    def _notify_end(self, request: Any, held: list[int]) -> tuple[bool, Any]:
        """Tells the connector that a request has ended. Returns whether its blocks are to be kept, and what its client
        is told."""
        try:
            return self.connector.request_finished_all_groups(request, (held,))
        except Exception as error:  # a client may have sent anything for its peer
            logger.error("the KV of request %s is not kept: %s: %s", request.request_id, type(error).__name__, error)
            return False, None

    def _forget(self, request_id: str) -> None:
        self.announced.pop(request_id, None)
        self.fetched.pop(request_id, None)

    def take(self, told: Any, requests: dict[str, Any]) -> list[Any]:
        """What the worker tells after a step: the requests that fail with it, which are not known any more."""
        failed = []
        for request_id in getattr(told, "failed_recving", None) or ():
            if request_id in self.arriving:
                self.broken[request_id] = 0
        if invalid := told.invalid_block_ids:
            for request_id, a in self.arriving.items():
                whole = next((i for i, block in enumerate(a.blocks) if block in invalid), None)
                if whole is not None:
                    self.broken[request_id] = min(whole * self.block_size, a.tokens)
        self.connector.update_connector_output(told)
        for request_id in told.finished_recving or ():
            a = self.arriving.pop(request_id)
            whole = self.broken.pop(request_id, None)
            request = requests.get(request_id)
            if whole is not None and request is not None and not self.recomputes:
                logger.error("the KV of request %s could not be fetched", request_id)
                failed.append((request, a))
                continue
            tokens = a.tokens if whole is None else whole
            self.core.arrived(a.slot, tokens)
            if request is not None:
                here = a.here * self.block_size
                whole_prompt = request.num_tokens if tokens == a.tokens else tokens
                self.fetched[request_id] = (here, max(whole_prompt - here, 0))
        for request_id in told.finished_sending or ():
            # There was no room to keep the KV of some: nothing of theirs is held.
            if (ticket := self.leaving.pop(request_id, None)) is not None:
                self.core.drained(ticket)
        return failed

    def idle(self, output: Any) -> None:
        """The same for a step in which nothing runs."""
        output.kv_connector_metadata = self.connector.build_connector_meta(output)

    def at_rest(self) -> bool:
        """Whether no KV comes or goes."""
        return not self.arriving and not self.leaving

    def reset(self, connector_as_well: bool) -> bool:
        if not connector_as_well:
            return True
        if self.connector.reset_cache() is False:
            return False
        if self.stats is not None:
            self.stats.reset = True
        return True

    def take_stats(self, told: Any) -> dict[str, Any]:
        """For vLLM's record of a step."""
        found, self.stats = self.stats, api.PrefixCacheStats()
        moved = getattr(told, "kv_connector_stats", None)
        own = self.connector.get_kv_connector_stats()
        if own is not None and not own.is_empty():
            moved = own if moved is None else moved.aggregate(own)
        return {
            "connector_prefix_cache_stats": found,
            "kv_connector_stats": moved.to_dict() if moved else None,
            "num_kv_fetch_reqs_by_stage": {
                "waiting_to_start": len(self.announced),
                "in_progress": sum(a.wanted for a in self.arriving.values()),
                "completed_waiting": len(self.fetched),
            },
        }

    def shutdown(self) -> None:
        self.connector.shutdown()
