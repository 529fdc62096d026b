# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A router's log: all events and actions, as lines of text. A thread writes it, so a slow disk stops no stream."""

from __future__ import annotations

import atexit
import json
import logging
import os
import queue
import threading
from collections.abc import Mapping
from typing import Any

logger = logging.getLogger(__name__)

#: Before the settings, in the first line.
mark = "# tessera.fleet log 1 "

#: Bytes that may wait for the disk. If more do, the log ends there.
_most_waiting = 1 << 28


class Log:
    """A file of lines, which begins with how the router is set up."""

    def __init__(self, path: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
        # A router that starts again, as Ray does it, must not lose what was recorded.
        if os.path.isfile(path) and os.path.getsize(path) > 0:
            os.replace(path, f"{os.fspath(path)}.before")
        # The thread closes it.
        self._file = open(path, "wb", buffering=1 << 20)  # noqa: SIM115
        self._file.write((mark + json.dumps(dict(settings), sort_keys=True) + "\n").encode())
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._waits = 0  # bytes
        self._count = threading.Lock()
        self._ended = False
        self._writer = threading.Thread(target=self._write_all, name="tessera.fleet log", daemon=True)
        self._writer.start()
        atexit.register(self.close)

    def write(self, lines: bytes) -> None:
        """Returns at once."""
        if not lines or self._ended:
            return
        with self._count:
            self._waits += len(lines)
            late = self._waits > _most_waiting
        if late:
            self._end("the disk is too slow")
        else:
            self._lines.put(lines)

    def close(self) -> None:
        """Writes the rest. Waits for that."""
        if self._writer.is_alive():
            self._lines.put(None)
            self._writer.join()
        self._ended = True
        atexit.unregister(self.close)

    def _end(self, why: str) -> None:
        if not self._ended:
            logger.error("the log %s ends here: %s", self._file.name, why)
        self._ended = True

    def _write_all(self) -> None:
        try:
            with self._file as file:
                while (lines := self._lines.get()) is not None:
                    file.write(lines)
                    if self._lines.empty():
                        file.flush()
                    with self._count:
                        self._waits -= len(lines)
        except OSError as error:
            self._end(str(error))
