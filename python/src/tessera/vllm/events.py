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

    def __init__(self, vllm_config: Any, kv_cache_config: Any, core: Any, block_size: int) -> None:
        rank = getattr(vllm_config.parallel_config, "data_parallel_index", 0)
        self.publisher = api.EventPublisherFactory.create(vllm_config.kv_events_config, rank)
        self.core = core
        self.block_size = block_size
        self.kinds = [api.kind_of(group.kv_cache_spec) for group in kv_cache_config.kv_cache_groups]
        self.found_again: list[Any] = []  #: of requests that want to have that told, too

    def found(self, request: Any, names: list[int]) -> None:
        """A request has begun with these blocks, which were there already."""
        tokens = request._all_token_ids[: len(names) * self.block_size]
        for group in range(len(self.kinds)):
            record = self._stored(names[0], group, None, tokens, request)
            record.block_hashes = names
            record.extra_keys += [self._keys(request, is_first=False)] * (len(names) - 1)
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
                name, group, parent, tokens, request = rest
                if parent is not None and chain == (parent, group, request.request_id):
                    records[-1].block_hashes.append(name)
                    records[-1].token_ids.extend(tokens)
                    records[-1].extra_keys.append(self._keys(request, is_first=False))
                else:
                    records.append(self._stored(name, group, parent, tokens, request))
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

    def _stored(self, name: int, group: int, parent: int | None, tokens: list[int], request: Any) -> Any:
        adapter = request.lora_request
        return _make_stored(
            block_hashes=[name],
            parent_block_hash=parent,
            token_ids=tokens,
            block_size=self.block_size,
            lora_id=None if adapter is None else adapter.adapter_id,
            medium=api.MEDIUM_GPU,
            lora_name=None if adapter is None else adapter.name,
            extra_keys=[self._keys(request, is_first=parent is None)],
            group_idx=group,
            **self.kinds[group],
            session_id=getattr(request, "session_id", None),
        )

    @staticmethod
    def _keys(request: Any, is_first: bool) -> tuple[str, ...] | None:
        """What tells a block from one with the same tokens, as vLLM says it."""
        adapter = () if request.lora_request is None else (request.lora_request.name,)
        salt = (request.cache_salt,) if request.cache_salt and is_first else ()
        return (*adapter, *salt) or None

    def shutdown(self) -> None:
        self.publisher.shutdown()
