# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A plug-in of pytest: vLLM's own tests of its scheduler, with ours in its place. `script/python own` runs them.

A test that fails is in the list `vllm_own.csv`, by release, with the reason. The run fails if another one does, or if
one of the list passes. TESSERA_OWN_SCHEDULER=vllm runs the same tests on vLLM's scheduler. TESSERA_OWN_FOUND=FILE
writes what each test came to, as CSV.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import model

model.prepare()

import pytest  # noqa: E402
import vllm  # noqa: E402
import vllm.config  # noqa: E402
import vllm.v1.core.sched.diffusion_scheduler  # noqa: E402  vLLM's own derive from vLLM's own
from vllm import envs  # noqa: E402
from vllm.platforms.cpu import CpuPlatform  # noqa: E402
from vllm.v1.core.sched import async_scheduler, scheduler  # noqa: E402

import tessera.vllm.scheduler as ours  # noqa: E402

release = ".".join(vllm.__version__.split(".")[:2])
listed = Path(__file__).with_suffix(".csv")
found_in = os.environ.get("TESSERA_OWN_FOUND", "")
on_ours = os.environ.get("TESSERA_OWN_SCHEDULER", "tessera") != "vllm"

#: What scheduled in the present test.
made: set[str] = set()
#: For each test function: what became of its cases, what scheduled in them, and the first error.
results: dict[str, tuple[set[str], set[str], list[str]]] = {}


# -- configurations that need no network and no GPU


def _make_model_config(self: Any, *arguments: Any, **named: Any) -> None:
    name = str(named.get("model", ""))
    if any(part in name for part in ("llava", "-VL-", "Qwen3-Next")):
        pytest.skip(f"{name}: its configuration is not here, and such a model is handed back or tested elsewhere")
    if "/" in name and not Path(name).exists():
        named["model"] = model.folder()  # as long a context as that of the model that is meant
    _own_model_config(self, *arguments, **named)


_own_model_config = vllm.config.ModelConfig.__init__
vllm.config.ModelConfig.__init__ = _make_model_config


def _check_config(cls: Any, config: Any) -> None:
    """A CPU's engine has one step in flight. These tests have no engine."""
    kept = config.scheduler_config.async_scheduling
    _own_check(cls, config)
    config.scheduler_config.async_scheduling = kept


_own_check = CpuPlatform.check_and_update_config.__func__
CpuPlatform.check_and_update_config = classmethod(_check_config)


def _of_runner(config: Any) -> None:
    """Ours is told of the runner when it is made; the tests write it into the finished scheduler."""
    second = property(lambda self: envs.VLLM_USE_V2_MODEL_RUNNER is not False)
    members = {"use_v2_model_runner": second, "__hash__": object.__hash__}
    config.__class__ = type("Config", (type(config),), members)


# -- ours in the place of vLLM's


class _InPlace(type(ours.Scheduler)):
    """Tests ask whether a scheduler that was handed back is vLLM's, and call vLLM's functions without a scheduler."""

    own: type

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or isinstance(instance, cls.own)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.__dict__["own"], name)


def _in_place(own: type) -> type:
    class Scheduler(ours.Scheduler, metaclass=_InPlace):
        def __new__(cls, *arguments: Any, **named: Any) -> Any:
            _of_runner(named["vllm_config"] if "vllm_config" in named else arguments[0])
            new = super().__new__(cls, *arguments, **named)
            made.add("tessera" if isinstance(new, ours.Scheduler) else "handed back")
            return new

    Scheduler.own = own
    return Scheduler


if on_ours:
    async_scheduler.AsyncScheduler = _in_place(async_scheduler.AsyncScheduler)
    scheduler.Scheduler = _in_place(scheduler.Scheduler)


# -- what became of them


def _name(item: Any) -> str:
    return f"{item.path.name}::{item.originalname}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    report = yield
    if call.when == "setup":
        made.clear()
    if call.when == "call" or report.outcome != "passed":
        outcomes, by, errors = results.setdefault(_name(item), (set(), set(), []))
        outcomes.add(report.outcome)
        by |= made
        if report.outcome == "failed":
            at = [entry for entry in call.excinfo.traceback if "tests" in entry.path.parts] or call.excinfo.traceback
            line = str(at[-1].statement).split("\n")[0].strip()
            errors.append(f"{call.excinfo.exconly()} <- {line}"[:300].replace("\n", " "))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    say = terminalreporter.write_line
    failed = {name for name, (outcomes, _, _) in results.items() if "failed" in outcomes}
    for kind in ("tessera", "handed back", ""):
        of_kind = [name for name, (_, by, _) in results.items() if kind in by or (not kind and not by)]
        bad = failed.intersection(of_kind)
        say(f"{kind or 'no scheduler'}: {len(of_kind) - len(bad)} test functions pass or are skipped, {len(bad)} fail")
    for line in _amiss(failed):
        say(line, red=True)


def _reasons() -> dict[str, str]:
    with open(listed, newline="") as f:
        return {row["test"]: row["reason"] for row in csv.DictReader(f) if release in row["releases"].split()}


def _amiss(failed: set[str]) -> list[str]:
    if not on_ours:
        return []
    known = _reasons()
    if not known:
        return []  # the list does not cover this release
    new = [f"not in {listed.name}: {name}: {results[name][2][0]}" for name in sorted(failed - known.keys())]
    return new + [f"{listed.name}: {name} passes" for name in sorted((known.keys() & results.keys()) - failed)]


def pytest_sessionfinish(session: Any) -> None:
    failed = {name for name, (outcomes, _, _) in results.items() if "failed" in outcomes}
    if on_ours and session.exitstatus in (0, 1):
        session.exitstatus = 1 if _amiss(failed) else 0
    if found_in:
        with open(found_in, "w", newline="") as f:
            out = csv.writer(f)
            out.writerow(("test", "outcomes", "by", "error"))
            for name, (outcomes, by, errors) in sorted(results.items()):
                out.writerow((name, " ".join(sorted(outcomes)), " ".join(sorted(by)), (errors or [""])[0]))
