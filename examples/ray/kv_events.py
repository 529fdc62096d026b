# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What vLLM's engine has cached and evicted, from its publisher, in the form that `tessera.fleet.Report` takes."""

from __future__ import annotations

from typing import Any

import msgspec
import zmq
import zmq.asyncio


class KvEvents:
    """Hears an engine's publisher. `take` gives what has come since it was called last; after a gap, that everything
    before is forgotten."""

    #: If there are more batches between two reports, they are as good as lost.
    most = 10_000

    def __init__(self, endpoint: str) -> None:
        from vllm.distributed.kv_events import KVEventBatch

        self._decoder = msgspec.msgpack.Decoder(KVEventBatch)
        self._socket = zmq.asyncio.Context.instance().socket(zmq.SUB)
        self._socket.set_hwm(self.most)
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        self._socket.connect(endpoint)
        self._next: int | None = None

    async def take(self) -> list[tuple[Any, ...]]:
        """Never waits."""
        events: list[tuple[Any, ...]] = []
        for _ in range(self.most):
            try:
                _, number, payload = await self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            sequence = int.from_bytes(number, "big")
            # The first that is heard may not be the first: a subscriber joins late.
            if sequence != (0 if self._next is None else self._next):
                events = [("cleared",)]
            self._next = sequence + 1
            for e in self._decoder.decode(payload).events:
                events.append(as_tuple(e))
        return events


def as_tuple(event: Any) -> tuple[Any, ...]:
    from vllm.distributed.kv_events import BlockRemoved, BlockStored

    if isinstance(event, BlockStored):
        return ("stored", event.block_hashes, event.parent_block_hash, event.token_ids)
    if isinstance(event, BlockRemoved):
        return ("removed", event.block_hashes)
    return ("cleared",)
