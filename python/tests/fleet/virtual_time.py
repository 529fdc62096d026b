# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Time that passes at once: an event loop that jumps to its next timer. Hours in seconds, and the same every time."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        while self._scheduled and self._scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(self._scheduled)._scheduled = False
        if not self._ready and not self._scheduled:
            raise RuntimeError("nothing will ever happen")
        # What is due within the clock's resolution is called now. If no time passed with that, it might be set for the
        # rest of it for ever.
        if self._scheduled and (not self._ready or self._scheduled[0]._when < self._now + self._clock_resolution):
            self._now = max(self._now, self._scheduled[0]._when)
        super()._run_once()


def run(what: Coroutine[Any, Any, T]) -> T:
    """asyncio.run, in virtual time."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(what)
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
