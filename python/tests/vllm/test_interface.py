# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What this release of vLLM asks of a scheduler: by its interface, and by its engine core. Each release has its own."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest
import stub
import vllm.v1.engine.core
from vllm.v1.core.sched.interface import SchedulerInterface

from tessera.vllm import _api as api


def test_nothing_is_abstract() -> None:
    assert SchedulerInterface.__abstractmethods__, "else it proves nothing"
    assert stub.Scheduler.__abstractmethods__ == frozenset()


def call(function: Any) -> tuple[dict[str, Any], bool]:
    """The parameters of a method without `self`, by name, and whether it takes others by keyword."""
    given = list(inspect.signature(function).parameters.values())[1:]
    named = {p.name: p for p in given if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return named, any(p.kind is p.VAR_KEYWORD for p in given)


@pytest.mark.parametrize("name", sorted(SchedulerInterface.__abstractmethods__))
def test_each_abstract_method_is_had(name: str) -> None:
    """A call as the interface says, by place or by name, reaches ours."""
    theirs, ours = getattr(SchedulerInterface, name), getattr(stub.Scheduler, name)
    assert ours is not theirs
    if isinstance(theirs, property):
        assert isinstance(ours, property)
        return
    asked, _ = call(theirs)
    had, takes_others = call(ours)
    assert list(had)[: len(asked)] == list(asked) or (takes_others and not had)
    required = {n for n, p in had.items() if p.default is p.empty}
    assert required <= {n for n, p in asked.items() if p.default is p.empty}, (
        "ours wants what the interface need not give"
    )


def asked_of_scheduler() -> set[str]:
    """The attributes of `self.scheduler` that the source of vLLM's engine core names."""
    tree = ast.parse(Path(vllm.v1.engine.core.__file__).read_text())
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "scheduler"
        and isinstance(node.value.value, ast.Name)
        and node.value.value.id == "self"
    }


def test_all_that_the_engine_core_asks_for_is_had() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40)
    asked = asked_of_scheduler()
    assert {"schedule", "update_from_output"} <= asked
    assert {name for name in asked if not hasattr(s, name)} == set()


def test_a_request_is_known_until_it_ends() -> None:
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        if not hasattr(cls, "has_request"):
            continue  # vLLM's own, before 0.33
        s, runner = stub.scheduler(cls, stub.config(tessera=own), 40), stub.Runner(40)
        assert not s.has_request("a")
        s.add_request(stub.request("a", [5, 6], stub.SamplingParams(temperature=0, max_tokens=2)))
        for _ in range(2):
            assert s.has_request("a") and not s.has_request("b")
            step = s.schedule()
            s.update_from_output(step, runner.run(step))
        assert not s.has_request("a")


def test_this_release_is_a_tested_one() -> None:
    assert api.is_tested(), api.version
