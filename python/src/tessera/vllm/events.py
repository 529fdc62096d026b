# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""KV events: what the prefix cache learns and forgets, for routers, by vLLM's publisher."""

from __future__ import annotations

import time
from typing import Any

from tessera.vllm import _api as api

_make_stored = api.make(api.BlockStored)
_make_removed = api.make(api.BlockRemoved)


class Events:
    """Publishes what the core tells. Names of blocks are numbers of 64 bits, which mean nothing elsewhere."""

    def __init__(self, vllm_config: Any, kv_cache_config: Any, core: Any) -> None:
        rank = getattr(vllm_config.parallel_config, "data_parallel_index", 0)
        self.publisher = api.EventPublisherFactory.create(vllm_config.kv_events_config, rank)
        self.core = core
        self.sizes = [group.kv_cache_spec.block_size for group in kv_cache_config.kv_cache_groups]
        self.ahead = api.hash_ahead(vllm_config)
        self.kinds = [api.kind_of(group.kv_cache_spec) for group in kv_cache_config.kv_cache_groups]
        self.found_again: list[Any] = []  #: of requests that want to have that told, too

    def found(self, request: Any, slot: int, tokens: int) -> None:
        """A request has begun with the blocks of so many tokens, which were there already."""
        for group, size in enumerate(self.sizes):
            record = self._stored(group, None, request)
            for i, name in enumerate(self.core.names_of(slot, group)[: tokens // size]):
                self._add(record, name, i * size, request)
            self.found_again.append(record)

    def publish(self, others: Any = ()) -> None:
        """What has happened since the last time; `others`: of a connector's."""
        found, self.found_again = self.found_again, []
        events = [*found, *self._records(self.core.events()), *(others or ())]
        if events:
            self.publisher.publish(api.KVEventBatch(ts=time.time(), events=events))

    def _records(self, told: list[tuple[Any, ...]]) -> list[Any]:
        records: list[Any] = []
        chain: tuple[Any, ...] | None = None  # the block, group and request that the latest record ends with
        for what, *rest in told:
            if what == "stored":
                name, group, parent, first, request = rest
                if parent is None or chain != (parent, group, request.request_id):
                    records.append(self._stored(group, parent, request))
                self._add(records[-1], name, first, request)
                chain = (name, group, request.request_id)
                continue
            chain = None
            if what == "cleared":
                records.append(api.AllBlocksCleared())
                continue
            name, group = rest
            latest = records[-1] if records else None
            if type(latest) is api.BlockRemoved and latest.group_idx == group:
                latest.block_hashes.append(name)
            else:
                records.append(_make_removed(block_hashes=[name], medium=api.MEDIUM_GPU, group_idx=group))
        return records

    def _stored(self, group: int, parent: int | None, request: Any) -> Any:
        """A record without blocks."""
        adapter = request.lora_request
        return _make_stored(
            block_hashes=[],
            parent_block_hash=parent,
            token_ids=[],
            block_size=self.sizes[group],
            lora_id=None if adapter is None else adapter.adapter_id,
            medium=api.MEDIUM_GPU,
            lora_name=None if adapter is None else adapter.name,
            extra_keys=[],
            group_idx=group,
            **self.kinds[group],
            session_id=getattr(request, "session_id", None),
            **({"lookahead_token_ids": []} if self.ahead and api.tells_lookahead else {}),
        )

    def _add(self, record: Any, name: int, first: int, request: Any) -> None:
        """The block from token `first` on."""
        end = first + record.block_size
        record.block_hashes.append(name)
        record.token_ids.extend(request._all_token_ids[first:end])
        record.extra_keys.append(api.event_keys(request, first, end + self.ahead))
        if self.ahead and api.tells_lookahead:
            record.lookahead_token_ids.append(request._all_token_ids[end : end + self.ahead])

    def shutdown(self) -> None:
        self.publisher.shutdown()
