# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""KV that comes from elsewhere and goes there, by vLLM's connector.

The connector says what can be had elsewhere, moves it in the worker, and tells what has come and gone. Here it meets
the core's calls for that. It is asked about a request at that request's turn. KV that takes longer than a step makes
its request stand aside, with its blocks; other KV comes in the step that starts the request. A request that has ended
keeps its blocks until they have been read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from tessera.vllm import _api as api
from tessera.vllm.support import layout_of

logger = api.init_logger("vllm.tessera")

_make_block = api.make(api.KVCacheBlock)

#: A request's blocks, for each group of layers. 0 stands for a block that a window has passed.
Blocks = Sequence[list[int]]


@dataclass
class Found:
    """What the connector has said of a request that starts: `tokens` behind the first `here` can be had elsewhere."""

    here: int
    tokens: int
    later: bool  #: it takes longer than a step


@dataclass
class Arriving:
    """A request with KV on its way."""

    slot: int
    tokens: int
    blocks: Blocks
    here: int  #: how many of the tokens were here already
    came: int  #: tokens that come from elsewhere, as the connector counts them
    wanted: bool = True  #: its request has not ended


class Transfers:
    """The side of the scheduler of vLLM's KV connector."""

    def __init__(self, vllm_config: Any, kv_cache_config: Any, block_size: int, log_stats: bool) -> None:
        self.connector = api.make_connector(vllm_config, kv_cache_config)
        self.core: Any = None  #: to be set before the first request joins
        self.slots: dict[str, int] = {}  #: the scheduler's
        self.block_size = block_size
        layout = layout_of(kv_cache_config)
        #: For each group of layers: how many tokens a token looks at (0: all), and whether these are a chunk.
        self.windows = [(window, g in layout["in_chunks"]) for g, window in enumerate(layout["windows"])]
        #: Whether it concerns all requests, and reads their tokens. Else only those with parameters for it.
        self.of_all = vllm_config.kv_transfer_config.kv_connector not in api.connectors_by_request
        self.shares = bool(vllm_config.cache_config.enable_prefix_caching)
        # If its KV does not come, a request computes it by itself, or fails.
        self.recomputes = vllm_config.kv_transfer_config.kv_load_failure_policy == "recompute"
        self.expected: set[str] = set()  #: waiting requests with KV elsewhere that takes longer than a step
        self.found: dict[str, Found] = {}  #: of requests that start by the present plan
        self.leads: dict[str, Any] = {}  #: requests with KV that comes, and the names of the first blocks that do
        self.leaders: dict[Any, str] = {}  #: the same, by these names
        self.no_answer: list[tuple[Any, str]] = []  #: requests for which the connector has failed
        #: by step under way: the requests with KV that comes in it, and their blocks
        self.starting: dict[int, list[tuple[Any, set[int]]]] = {}
        self.invalid: set[int] = set()  #: blocks that could not be loaded, to be looked at after the next step
        self.without: set[str] = set()  #: requests with KV that did not come. They compute it when they start again.
        self.arriving: dict[str, Arriving] = {}
        self.broken: dict[str, int] = {}  #: whole tokens of arriving requests; the rest never comes
        #: tokens that were here and tokens that came from elsewhere, of requests that have not started since
        self.fetched: dict[str, tuple[int, int]] = {}
        #: requests that have ended and are being read, and their tickets; None: they hold nothing here
        self.leaving: dict[str, int | None] = {}
        self.stats = api.PrefixCacheStats() if log_stats else None

    def busy(self) -> bool:
        """Whether the worker must still be asked, although no request is served."""
        return bool(self.leaving or self.arriving) or bool(self.connector.has_pending_push_work())

    def concerns(self, request: Any) -> bool:
        return self.of_all or bool(request.kv_transfer_params)

    def joins(self, request: Any) -> None:
        # The worker knows what comes and goes by the request's name.
        if request.request_id in self.arriving or request.request_id in self.leaving:
            raise ValueError(f"the KV of a request {request.request_id!r} that has ended is still on its way")
        self.connector.on_new_request(request)
        if (request.kv_transfer_params or {}).get("do_remote_prefill"):
            self.expected.add(request.request_id)

    # -- a step

    def ask(self, request: Any, here: int) -> tuple[int | None, bool]:
        """How many tokens behind the first `here` of a request that starts can be had elsewhere, and whether that takes
        longer than a step. None: it is to be asked again in the next step."""
        request_id = request.request_id
        self._forget_found(request_id)
        if not self.concerns(request) or request_id in self.without or self._is_cut(request):
            return 0, False
        if self.of_all:
            self._write(request)
        request.num_computed_tokens = 0
        try:
            tokens, later = self.connector.get_num_new_matched_tokens(request, here)
        except Exception as error:  # a client may have sent anything for its peer
            self.no_answer.append((request, f"{type(error).__name__}: {error}"))
            return None, False
        if request.skip_reading_prefix_cache:
            tokens = 0  # it wants the logprobs of its prompt, and computes all of it
        elif tokens is None:
            return None, False
        # Its last token is computed here, because something must be sampled.
        most = request.num_tokens - 1 - here
        tokens = tokens if most > 0 else 0
        if tokens <= 0:
            self.expected.discard(request_id)
            return 0, False
        first = here // self.block_size
        if self.shares and first < len(request.block_hashes):
            name = request.block_hashes[first]
            if name in self.leaders:
                return None, False  # the same comes for another request: it is here then
            self.leaders[name] = request_id
            self.leads[request_id] = name
        self.found[request_id] = Found(here, tokens, later)
        if later:
            self.expected.add(request_id)
        return min(tokens, most), later

    def _write(self, request: Any) -> None:
        """Brings a request's lists of tokens and hashes up to date: a connector reads them."""
        self.core.write_tokens(self.slots[request.request_id])
        request.update_block_hashes()

    def _forget_found(self, request_id: str) -> None:
        self.found.pop(request_id, None)
        name = self.leads.pop(request_id, None)
        if name is not None:
            del self.leaders[name]

    def planned(self, output: Any, fresh: list[Any], requests: dict[str, Any]) -> None:
        """Tells the connector which requests have blocks now, and the worker what is to be done in this step."""
        for request, block_ids, here in self.core.loads():
            request_id = request.request_id
            found = self.found.pop(request_id)
            self.expected.discard(request_id)
            announced = min(found.here + found.tokens, request.num_tokens - 1)
            # Without those for its drafts: a peer counts as many blocks as there are at the other end.
            blocks = self._first(block_ids, found.here + found.tokens)
            self.arriving[request_id] = Arriving(self.slots[request_id], announced, blocks, here, found.tokens)
            self._has_blocks(request, blocks, here, found.tokens)
            self._count(request, request.num_tokens - found.here, found.tokens, request.num_preemptions > 0)
        starting = []
        for request, block_ids, first, _, _ in fresh:
            request_id = request.request_id
            self.expected.discard(request_id)
            self.without.discard(request_id)
            has_come = self.fetched.pop(request_id, None) is not None
            here, external = self._start_of(request_id, first)
            if external:
                starting.append((request, set().union(*block_ids)))
            self._has_blocks(request, block_ids, here, external)
            if not has_come:  # else it was counted before
                self._count(request, request.num_tokens - here, external, request.num_preemptions > 0)
        if starting:
            output.has_sync_kv_loads = True
            self.starting[id(output)] = starting
        # Those that were asked about and do not start are asked again.
        for request_id in [name for name in self.leads if name not in self.arriving]:
            self._forget_found(request_id)
        self.found.clear()
        self._build(output, requests)

    def _build(self, output: Any, requests: dict[str, Any]) -> None:
        """What the worker is to do. The connector reads requests as they are before this step has run."""
        if not self.of_all:
            output.kv_connector_metadata = self.connector.build_connector_meta(output)
            return
        cached = output.scheduled_cached_reqs
        for request_id, computed in zip(cached.req_ids, cached.num_computed_tokens, strict=True):
            requests[request_id].num_computed_tokens = computed
            self._write(requests[request_id])
        output.kv_connector_block_state = api.block_state(set(output.num_scheduled_tokens), self._blocks_of)
        output.kv_connector_metadata = self.connector.build_connector_meta(output)
        output.kv_connector_block_state = None
        for request_id, count in output.num_scheduled_tokens.items():
            requests[request_id].num_computed_tokens += count

    def idle(self, output: Any) -> None:
        """The same for a step in which nothing runs."""
        output.kv_connector_metadata = self.connector.build_connector_meta(output)

    def _blocks_of(self, request_id: str) -> tuple[list[int], ...]:
        return self.core.blocks_of(self.slots[request_id])

    def _first(self, blocks: Blocks, tokens: int) -> list[list[int]]:
        """The blocks of a request's first tokens."""
        return [of_group[: -(-tokens // self.block_size)] for of_group in blocks]

    def _needed(self, tokens: int) -> list[int]:
        """For each group of layers: how many of the blocks of so many tokens the last of these looks at."""
        last, blocks = tokens - 1, -(-tokens // self.block_size)
        firsts = [
            0 if not window or last < window else last // window * window if in_chunks else last - window + 1
            for window, in_chunks in self.windows
        ]
        return [blocks - first // self.block_size for first in firsts]

    def _is_cut(self, request: Any) -> bool:
        """Whether its peer says that it lacks a block that the last token of the prompt looks at. Under vLLM's own
        scheduler it may have passed one."""
        there = (request.kv_transfer_params or {}).get("remote_block_ids")
        if not isinstance(there, Sequence) or len(there) != len(self.windows):
            return False
        needed = self._needed(request.num_prompt_tokens)
        return any(isinstance(ids, Sequence) and 0 in ids[-n:] for ids, n in zip(there, needed, strict=True))

    def _has_blocks(self, request: Any, block_ids: Blocks, here: int, external: int) -> None:
        if not self.concerns(request):
            return
        groups = []
        for of_group in block_ids:
            blocks = [_make_block(block_id=n, is_null=not n) for n in of_group]
            for block in blocks[: here // self.block_size]:
                # What the connector asks is whether it has one.
                block._block_hash = None if block.is_null else b""
            groups.append(blocks)
        self.connector.update_state_after_alloc(request, api.KVCacheBlocks(tuple(groups)), external)

    def _count(self, request: Any, asked: int, came: int, again: bool) -> None:
        """A request that takes its blocks lacks `asked` tokens; `came` of them can be had elsewhere."""
        if self.stats is None or not asked:
            return
        sources = self.connector.get_external_cache_hit_sources(request, came) if came and not again else None
        self.stats.record(num_tokens=asked, num_hits=came, preempted=again, hits_by_source=sources)

    def starts(self, request_id: str, first: int) -> tuple[int, int]:
        """A request starts with `first` of its tokens computed. Returns how many of them were here, and how many came
        from elsewhere."""
        return self.fetched.get(request_id) or self._start_of(request_id, first)

    def _start_of(self, request_id: str, first: int) -> tuple[int, int]:
        found = self.found.get(request_id)
        return (first, 0) if found is None or found.later else (found.here, found.tokens)

    def lost(self, requests: Iterable[Any]) -> None:
        """These have lost their KV, wherever it came from."""
        for request in requests:
            self.fetched.pop(request.request_id, None)
            request.num_computed_tokens = 0

    # -- requests end

    def finished(self, request: Any, slot: int) -> Any:
        """A request has ended by itself: what its client must know to go on elsewhere."""
        computed = request.num_tokens - 1  # the last token has never been run
        request.num_computed_tokens = computed
        if self.of_all:
            request.update_block_hashes()
        keep, params = self._notify_end(request, self._first(self.core.blocks_of(slot), computed))
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
        if self.concerns(request):
            if self.of_all:
                request.update_block_hashes()
                # In the place of its last token there may be the KV of a draft that was refused.
                request.num_computed_tokens = min(request.num_computed_tokens, request.num_tokens - 1)
            keep, _ = self._notify_end(request, [[] for _ in self.windows])
            if keep:
                self.leaving[request.request_id] = None

    def _notify_end(self, request: Any, held: Blocks) -> tuple[bool, Any]:
        """Tells the connector that a request has ended. Returns whether its blocks are to be kept, and what its client
        is told."""
        try:
            if api.supports_hma(self.connector):
                return self.connector.request_finished_all_groups(request, tuple(held))
            return self.connector.request_finished(request, held[0])
        except Exception as error:  # a client may have sent anything for its peer
            logger.error("the KV of request %s is not kept: %s: %s", request.request_id, type(error).__name__, error)
            return False, None

    def _forget(self, request_id: str) -> None:
        self.expected.discard(request_id)
        self.without.discard(request_id)
        self.fetched.pop(request_id, None)
        if request_id not in self.arriving:
            self._forget_found(request_id)

    # -- what comes of a step

    def spoilt(self, output: Any, told: Any, requests: dict[str, Any], is_step: bool) -> tuple[list[Any], bool]:
        """The requests with KV that did not come in the step that started them, as the worker tells after that step.
        The flag says whether others may have found some of it since. Nothing is told after an empty step."""
        starting = self.starting.pop(id(output), [])
        invalid = (told.invalid_block_ids if told is not None else None) or set()
        if invalid:  # `take` looks at those of requests with KV on its way
            invalid = invalid.difference(*(of_group for a in self.arriving.values() for of_group in self._coming(a)))
        if not is_step:
            self.invalid |= invalid
            return [], False
        invalid, self.invalid = invalid | self.invalid, set()
        if not invalid:
            return [], False
        hit = [r for r, blocks in starting if requests.get(r.request_id) is r and not invalid.isdisjoint(blocks)]
        # Their blocks may be other requests' by now, which have been planned since.
        late = invalid.difference(*(blocks for _, blocks in starting))
        others = [
            request
            for request_id, request in requests.items()
            if request_id in self.slots
            and request_id not in self.arriving
            and not late.isdisjoint(chain.from_iterable(self._blocks_of(request_id)))
        ]
        is_late = bool(others)
        hit += [request for request in others if request not in hit]
        if self.recomputes:
            self.without.update(request.request_id for request in hit)
            self.lost(hit)
        return hit, is_late

    def take(self, told: Any, requests: dict[str, Any]) -> list[Any]:
        """What the worker tells after a step: the requests that fail with it, which are not known any more."""
        failed = []
        for request_id in getattr(told, "failed_recving", None) or ():
            if request_id in self.arriving:
                self.broken[request_id] = 0
        if invalid := told.invalid_block_ids:
            for request_id, a in self.arriving.items():
                firsts = [i for of_group in a.blocks for i, block in enumerate(of_group) if block in invalid]
                if firsts:
                    self.broken[request_id] = min(min(firsts) * self.block_size, a.tokens)
        self.connector.update_connector_output(told)
        for request_id in told.finished_recving or ():
            a = self.arriving.pop(request_id)
            self._forget_found(request_id)
            whole = self.broken.pop(request_id, None)
            request = requests.get(request_id)
            if whole is not None and request is not None and not self.recomputes:
                logger.error("the KV of request %s could not be fetched", request_id)
                failed.append((request, a))
                continue
            tokens = a.tokens if whole is None else whole
            self.core.arrived(a.slot, tokens)
            if request is not None:
                came = a.came if tokens == a.tokens else tokens - a.here
                self.fetched[request_id] = (a.here, max(came, 0))
        for request_id in told.finished_sending or ():
            # There was no room to keep the KV of some: nothing of theirs is held.
            if (ticket := self.leaving.pop(request_id, None)) is not None:
                self.core.drained(ticket)
        return failed

    def _coming(self, a: Arriving) -> Blocks:
        """The blocks of a request that were not here."""
        return [of_group[a.here // self.block_size :] for of_group in a.blocks]

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
                "waiting_to_start": len(self.expected),
                "in_progress": sum(a.wanted for a in self.arriving.values()),
                "completed_waiting": len(self.fetched),
            },
        }

    def shutdown(self) -> None:
        self.connector.shutdown()
