# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The gauge that names the active scheduler, and why it is that."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import stub
from test_handback import attention, groups, make, window

from tessera.vllm import metrics

in_another = """
import sys
from types import SimpleNamespace
from tessera.vllm import metrics
parallel = SimpleNamespace(data_parallel_index=int(sys.argv[1]))
metrics.report_scheduler(SimpleNamespace(parallel_config=parallel), *sys.argv[2:])
print("told", flush=True)
sys.stdin.read()
"""


def rows() -> list[dict[str, str]]:
    (family,) = metrics._Collector().collect()
    assert family.name == "tessera_scheduler" and all(sample.value == 1 for sample in family.samples)
    return [sample.labels for sample in family.samples]


@pytest.fixture(autouse=True)
def a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for this test alone, and for its children."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    return tmp_path


def told(*values: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", in_another, *values], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "told\n"
    return child


def test_what_the_engines_of_a_server_tell() -> None:
    first = told("0", "tessera", "pascal", "")
    second = told("1", "vllm", "pascal", "pipeline parallelism")
    assert sorted(rows(), key=lambda row: row["engine"]) == [
        {"engine": "0", "scheduler": "tessera", "policy": "pascal", "reason": ""},
        {"engine": "1", "scheduler": "vllm", "policy": "pascal", "reason": "pipeline parallelism"},
    ]
    first.kill()  # it can say nothing any more
    first.wait()
    second.communicate("")
    assert rows() == [] and list(metrics._folder().iterdir()) == []


def test_engines_of_another_server_are_not_told_of(a_folder: Path) -> None:
    child = told("0", "tessera", "fcfs", "")
    other = subprocess.run(
        [sys.executable, "-c", "from tessera.vllm import metrics; print(list(metrics.notes()))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout == "[]\n" and len(rows()) == 1
    child.communicate("")


def test_each_scheduler_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={"policy": "pascal"}), 60)
    assert rows() == [{"engine": "0", "scheduler": "tessera", "policy": "pascal", "reason": ""}]
    assert type(s) is stub.Scheduler
    make(monkeypatch, stub.config(), groups(attention(), window(sliding_window=2)))
    assert rows() == [{"engine": "0", "scheduler": "vllm", "policy": "fcfs", "reason": "a window of 2 tokens"}]


def test_a_folder_of_somebody_else_is_not_read(a_folder: Path) -> None:
    (a_folder / f"tessera-vllm-{os.getuid()}").mkdir(mode=0o777)
    (a_folder / f"tessera-vllm-{os.getuid()}").chmod(0o777)
    assert rows() == []
    metrics.report_scheduler(stub.config(), "tessera", "fcfs", "")
    assert rows() == []


def test_vllm_loads_it() -> None:
    (point,) = entry_points(group="vllm.general_plugins", name="tessera")
    assert point.load() is metrics.register


def test_it_is_on_the_page_of_metrics() -> None:
    from prometheus_client import REGISTRY, generate_latest

    metrics.register()  # vLLM has done so already, by the entry point
    metrics.register()
    metrics.report_scheduler(stub.config(), "vllm", "fcfs", "MFU metrics")
    page = generate_latest(REGISTRY).decode()
    line = 'tessera_scheduler{engine="0",policy="fcfs",reason="MFU metrics",scheduler="vllm"} 1.0'
    assert page.count(line) == 1
