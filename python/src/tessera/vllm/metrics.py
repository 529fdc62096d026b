# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which scheduler serves, and why: a Prometheus gauge, `tessera_scheduler`, on the server's own page of metrics.

The scheduler is in another process than the server, which knows nothing of it. It leaves a note in a folder that only
this user can read, and the server's process reads it when it is asked. Where prometheus_client gathers the values of
several processes by itself (PROMETHEUS_MULTIPROC_DIR), the gauge is set here.
"""

from __future__ import annotations

import atexit
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

name = "tessera_scheduler"
meaning = "1 for the scheduler that serves: tessera or vllm, and why vllm's own does"
labels = ("engine", "scheduler", "policy", "reason")

_gauge: Any = None


def _folder() -> Path:
    """The folder of this user's notes. Raises OSError if it is another's."""
    path = Path(tempfile.gettempdir()) / f"tessera-vllm-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{path} is not this user's alone")
    return path


def report_scheduler(vllm_config: Any, scheduler: str, policy: str, reason: str) -> None:
    """Says from the process of an engine core which scheduler it has. Never fails: nothing else depends on it."""
    parallel = vllm_config.parallel_config
    engine = getattr(parallel, "data_parallel_index", None) or getattr(parallel, "data_parallel_rank", 0)
    values = {"engine": str(engine), "scheduler": scheduler, "policy": policy, "reason": reason}
    with suppress(Exception):
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            _set(values)
            return
        path = _folder() / f"{os.getppid()}-{os.getpid()}-{engine}"
        path.write_text(json.dumps(values))
        atexit.register(path.unlink, missing_ok=True)


def _set(values: dict[str, str]) -> None:
    global _gauge
    if _gauge is None:
        from prometheus_client import Gauge

        _gauge = Gauge(name, meaning, labels, multiprocess_mode="mostrecent")
    _gauge.labels(**values).set(1)


def notes() -> Iterator[dict[str, str]]:
    """Those of this process and of its children that are alive."""
    try:
        paths = sorted(_folder().iterdir())
    except OSError:
        return
    for path in paths:
        try:
            parent, process, _ = map(int, path.name.split("-"))
            os.kill(process, 0)
        except ProcessLookupError:
            path.unlink(missing_ok=True)
            continue
        except (ValueError, OSError):
            continue
        if os.getpid() in (parent, process):
            with suppress(OSError, ValueError):
                yield json.loads(path.read_text())


class _Collector:
    """Reads the notes when the metrics are asked for."""

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(name, meaning, labels=labels)
        for values in notes():
            family.add_metric([values[label] for label in labels], 1)
        yield family


_collector: Any = None


def register() -> None:
    """For vLLM's entry points `vllm.general_plugins`, in each of its processes."""
    global _collector
    if _collector is not None or os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        return
    try:
        from prometheus_client import REGISTRY
    except ImportError:
        return
    _collector = _Collector()
    REGISTRY.register(_collector)
