# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Outputs, which the core copies where it can, are as their class makes them."""

from __future__ import annotations

import gc
import sys
from typing import Any

import msgspec
import pytest
from fakes import Engine, Request
from vllm.v1.engine import EngineCoreOutput


class Plain(msgspec.Struct, gc=False):
    zebra: str  # not in the order of the alphabet, in which a struct's fields lie in memory
    apple: list[int]
    finish_reason: Any = None
    stop_reason: Any = None
    number: float = 0.5


class WithGc(msgspec.Struct):
    request_id: str
    tokens: list[int]
    finish_reason: Any = None
    stop_reason: Any = None


class WithList(msgspec.Struct, gc=False):
    request_id: str
    tokens: list[int]
    finish_reason: Any = None
    stop_reason: Any = None
    mine: list[int] = []


class WithMore(msgspec.Struct, dict=True, weakref=True):
    request_id: str
    tokens: list[int]
    finish_reason: Any = None
    stop_reason: Any = None


class Counts(msgspec.Struct, gc=False):
    request_id: str
    tokens: list[int]
    finish_reason: Any = None
    stop_reason: Any = None

    def __post_init__(self) -> None:
        made.append(self.request_id)


made: list[str] = []


def outputs_of(record: type, steps: int) -> list[Any]:
    e = Engine(output=record)
    e.add(Request("a", [5] * 20, steps))
    outputs = []
    for step in range(steps):
        counts, *_ = e.plan()
        by_client, *_ = e.answer(counts, {"a": [step]})
        outputs += by_client[0]
    return outputs


@pytest.mark.parametrize("record", [EngineCoreOutput, Plain, WithGc, WithList, WithMore, Counts])
def test_as_the_class_makes_them(record: type) -> None:
    made.clear()
    outputs = outputs_of(record, 20)
    assert made == (["a"] * 20 if record is Counts else [])
    expected = [record("a", [step]) for step in range(20)]
    expected[-1].finish_reason = "length"
    assert outputs == expected
    assert all(type(o) is record for o in outputs)
    assert msgspec.msgpack.encode(outputs) == msgspec.msgpack.encode(expected)
    if record is WithList:
        assert outputs[0].mine is not outputs[1].mine


@pytest.mark.parametrize("record", [EngineCoreOutput, Plain, WithGc])
def test_nothing_is_held_of_them(record: type) -> None:
    lasting = (None, record)
    outputs_of(record, 1)
    gc.collect()
    before = [sys.getrefcount(o) for o in lasting]
    outputs = outputs_of(record, 400)
    tokens = getattr(outputs[0], record.__struct_fields__[1])
    del outputs
    assert sys.getrefcount(tokens) == 2
    # Each of the 400 has had references to both. Others have some, which come and go.
    assert all(abs(sys.getrefcount(o) - n) < 390 for o, n in zip(lasting, before, strict=True))
