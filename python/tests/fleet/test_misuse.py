# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a router says of arguments and fleets that make no sense, and that it does nothing more when it is closed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_engine import FakeEngine
from fake_fleet import begin_to_move, prompt, tight_fleet, until, virtual

from tessera import fleet
from tessera.fleet import Assignment, Call, Piece, PlanRequest, Router, expected


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"capacity": 0}, ValueError, "capacity is a number of KV blocks from 1 to 2\\*\\*40, not 0"),
        ({"capacity": 2**41}, ValueError, "capacity is a number of KV blocks from 1"),
        ({"capacity": object()}, TypeError, "capacity is a number of KV blocks, not <object"),
        ({"capacity": 9.5}, TypeError, "capacity is a number of KV blocks, not 9.5"),
        ({"capacity": "9"}, TypeError, "capacity is a number of KV blocks, not '9'"),
        ({"role": "both"}, ValueError, "role is one of mixed, prefill, decode, not 'both'"),
        ({"role": None}, ValueError, "role is one of mixed, prefill, decode, not None"),
        ({"role": "decode", "capacity": 0, "prefill_budget": 9.0}, ValueError, "from 1 to"),
        ({"prefill_budget": "much"}, TypeError, "prefill_budget is a number, not 'much'"),
        ({"prefill_budget": -1.0}, ValueError, "prefill_budget is a finite number from 0, not -1.0"),
        ({"prefill_square": math.nan}, ValueError, "prefill_square is a finite number from 0, not nan"),
        ({"lengths": 5}, TypeError, "lengths is \\(first, last\\), in blocks; .* not 5"),
        ({"lengths": (1, 2, 3)}, TypeError, "lengths is \\(first, last\\)"),
        ({"lengths": ("a", 3)}, TypeError, "the first of lengths is a number of blocks, not 'a'"),
        ({"lengths": (-1, 3)}, ValueError, "the first of lengths is a number of blocks from 0"),
        (
            {"lengths": (5, 5)},
            ValueError,
            "lengths is \\(first, last\\) with last above first, or None, not \\(5, 5\\)",
        ),
    ],
)
def test_an_argument_of_add_that_makes_no_sense(wrong: dict[str, Any], error: type[Exception], says: str) -> None:
    r = Router("cascade")
    how: dict[str, Any] = {"capacity": 100, "now": 0.0, **wrong}
    with pytest.raises(error, match=says):
        r.add("a", FakeEngine("a"), **how)
    assert r.names() == [] and not r.book.contains(0)


def test_what_makes_sense_is_taken() -> None:
    r = Router()
    assert r.add("a", FakeEngine("a"), np.int64(100), now=0.0)  # type: ignore[arg-type]
    assert r.add("b", FakeEngine("b"), 0, role="prefill", prefill_budget=1.0, now=0.0)
    assert r.add("c", FakeEngine("c"), 100, lengths=(8, None), now=0.0)  # type: ignore[arg-type]


def test_a_planner_needs_a_controller_that_plans(tmp_path: Path) -> None:
    async def planner(asked: PlanRequest) -> list[Assignment]:
        return []

    for controller in fleet.controllers:
        if controller == "due-first":
            Router(controller=controller, planner=planner)
            continue
        with pytest.raises(ValueError, match=f"a planner is for .* as due-first; {controller} asks for none"):
            Router(controller=controller, planner=planner, record=tmp_path / "a.log")
    assert not (tmp_path / "a.log").exists()


async def one_request(r: Router, seed: int) -> None:
    async for _ in r.stream(prompt(seed, 20), 3, {"ignore_eos": True}):
        pass


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"controller": "distserve"}, "distserve has no pools: every replica is mixed"),
        ({"controller": "splitwise"}, "splitwise has no pools"),
        ({"controller": "phasor"}, "phasor has no pools"),
        ({"controller": "phi", "epoch": 1.0}, "phi has no pools"),
        ({"controller": "stages"}, "stages has one stage: every replica serves all lengths"),
        ({"controller": "least-load"}, None),
    ],
)
@virtual
async def test_replicas_without_what_their_controller_goes_by_are_said_once(
    how: dict[str, Any], says: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    r = Router(**how)
    for name in ("a", "b"):
        r.add(name, FakeEngine(name), 100, prefill_budget=100.0)
    for i in range(3):
        await one_request(r, i)
    said = [m.getMessage() for m in caplog.records if "Router.add" in m.getMessage()]
    assert len(said) == (says is not None) and (says is None or said[0].startswith(says))
    await r.close()


@virtual
async def test_nothing_is_said_of_replicas_with_roles_and_lengths(caplog: pytest.LogCaptureFixture) -> None:
    r = Router(controller="distserve")
    for name, role in (("a", "prefill"), ("b", "decode")):
        r.add(name, FakeEngine(name), 100, prefill_budget=100.0, role=role)
    await one_request(r, 1)
    s = Router("cascade")
    s.add("a", FakeEngine("a"), 100, lengths=(0, 9))
    await one_request(s, 1)
    assert not caplog.records


@virtual
async def test_a_router_that_is_closed_carries_nothing_out() -> None:
    told: list[str] = []

    class Told(FakeEngine):
        def become(self, role: str) -> None:
            told.append(role)

    async def planner(asked: PlanRequest) -> list[Assignment]:
        told.append("planned")
        return []

    lines = ["> plan number=9", "> set_role replica=0 role=decode", "> set_prefill_budget replica=0 low=7"]
    r = Router(controller="due-first", planner=planner)
    r.add("a", Told("a"), 100, elastic=True, prefill_budget=1.0)
    running = asyncio.ensure_future(r.run())
    r._do([fleet.parse(line) for line in lines[1:2]])  # type: ignore[misc]
    await asyncio.sleep(0.1)
    assert told == ["decode"]
    await r.close()
    r._do([fleet.parse(line) for line in lines])  # type: ignore[misc]
    await asyncio.sleep(1)
    assert told == ["decode"] and not r._tasks and running.done()


@virtual
async def test_a_move_does_not_go_on_when_its_router_is_closed() -> None:
    f = tight_fleet()
    s = f.session(7, 200, 150)
    slow = asyncio.Event()

    async def client() -> None:
        async for _ in s:
            if slow.is_set():
                await asyncio.sleep(1.0)

    reading = asyncio.ensure_future(client())
    await asyncio.sleep(0)
    beside = await begin_to_move(f, s)
    slow.set()
    # The export has been heard of by the session, which has not looked yet.
    await until(lambda: any(isinstance(what, Piece) and what.kv for _, what in s._said._all))
    for task in f.running:
        task.cancel()
    target = f.engines[1]
    before = target.calls
    await f.router.close()
    await asyncio.gather(reading, beside, return_exceptions=True)
    assert target.calls == before and s._move is None and not f.router._tasks


class Says:
    def __init__(self, *pieces: Piece) -> None:
        self.pieces = pieces

    async def stream(self, call: Call) -> AsyncGenerator[Piece, None]:
        for piece in self.pieces:
            await asyncio.sleep(0.5)
            yield piece


@pytest.mark.parametrize(
    ("pieces", "counts", "reasoning"),
    [
        ([[5, 5, 7, 6, 6], [6]], [3, "ends", 5, 6], 3),
        ([[5, 5, 7], [6]], [3, "ends", 4], 3),
        ([[5], [5, 7, 6]], [1, 3, "ends", 4], 3),
    ],
)
@virtual
async def test_tokens_behind_the_end_of_reasoning_in_one_piece_are_the_answers(
    pieces: list[list[int]], counts: list[Any], reasoning: int, tmp_path: Path
) -> None:
    log = tmp_path / "a.log"
    r = Router(controller="pascal", record=log)
    at, said = 0, list[Piece]()
    for tokens in pieces:
        said.append(Piece(at, tokens, "length" if tokens is pieces[-1] else None))
        at += len(tokens)
    r.add("a", Says(*said), 100)
    async for _ in r.stream(prompt(1, 20), at, end_of_reasoning=7):
        pass
    await r.close()
    kinds = ("progressed", "reasoning_ended")
    happened = [line.split() for line in log.read_text().splitlines()]
    told = [w[-1].removeprefix("count=") if w[1] == "progressed" else "ends" for w in happened if w[1] in kinds]
    assert told == [str(c) for c in counts]
    (request,) = expected.read(log).requests
    assert (request.tokens, request.reasoning) == (at, reasoning)


def test_moments_in_a_log_do_not_go_back(tmp_path: Path) -> None:
    """A session that ends when its loop is over has no moment of its own."""
    log = tmp_path / "a.log"
    r = Router(record=log)

    async def begins() -> Any:
        await asyncio.sleep(0.01)
        f = r.stream(prompt(1, 20), 3)
        r.add("a", FakeEngine("a"), 100)
        await anext(aiter(f), None)
        return f

    session = asyncio.run(begins())
    session._close()
    asyncio.run(r.close())
    moments = [float(line.split()[0]) for line in log.read_text().splitlines() if line[0].isdigit()]
    assert moments == sorted(moments) and moments[0] > 0
    assert expected.read(log).unfinished == 0


def test_a_last_line_that_is_cut_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its last number may be shorter than it was."""
    log = tmp_path / "cut.log"
    whole = "0 joined replica=0 number=1 capacity=2000\n1 arrived request=1 prompt=84\n"
    log.write_text(whole + "2 arrived request=2 prompt=8")
    with expected.open_log(log) as (_, happened):
        assert [h.event.request for h in happened] == [None, 1]
    assert [r.getMessage() for r in caplog.records] == [f"{log}: the last line is cut, and left out"]


def test_a_router_that_starts_again_keeps_the_log_of_the_one_before(tmp_path: Path) -> None:
    log = tmp_path / "fleet.log"
    for controller in ("least-load", "phi"):
        asyncio.run(Router(controller=controller, record=log).close())
    assert '"controller": "phi"' in log.read_text()
    assert '"controller": "least-load"' in (tmp_path / "fleet.log.before").read_text()


@virtual
async def test_a_pool_that_nothing_leaves_is_said(caplog: pytest.LogCaptureFixture) -> None:
    r = Router(controller="distserve")
    for name in ("a", "b"):
        r.add(name, FakeEngine(name), 100, role="prefill", prefill_budget=9.0)
    r._check_layout()
    said = "distserve needs both prefill and decode; every replica has role='prefill'"
    assert [record.getMessage() for record in caplog.records] == [said]
    await r.close()
