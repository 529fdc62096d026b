# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long blocks of KV stay: vLLM's KV cache metrics, which sample what is taken, found again and given up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any


@dataclass
class _Block:
    """As vLLM's collector reads it."""

    block_id: int


class Residency:
    """Tells vLLM's collector what it would hear of vLLM's block pool: by the lists of blocks in the steps."""

    def __init__(self, collector: Any, caching: bool, sizes: list[int]) -> None:
        self.collector = collector
        self.caching = caching
        self.sizes = sizes  #: of the blocks of each group

    def starts(self, groups: Iterable[list[int]], here: int) -> None:
        """A request takes these blocks. Those of its first `here` tokens are found in the prefix cache. 0 stands for
        those that no later token needs."""
        for block_ids, size in zip(groups, self.sizes, strict=True):
            for block_id in filter(None, block_ids[: here // size]):
                self.collector.on_block_accessed(_Block(block_id))
            self.takes([block_ids[here // size :]])

    def takes(self, groups: Iterable[list[int]]) -> None:
        """What was in these blocks is given up, and a request fills them anew."""
        for block_id in filter(None, chain.from_iterable(groups)):
            block = _Block(block_id)
            if self.caching:
                self.collector.on_block_evicted(block)
            self.collector.on_block_allocated(block)

    def goes_on(self, cached: Any) -> None:
        """Requests that go on take these blocks. Those that start anew are told of by `starts`."""
        for request_id, blocks in zip(cached.req_ids, cached.new_block_ids, strict=True):
            if blocks is not None and request_id not in cached.resumed_req_ids:
                self.takes(blocks)
