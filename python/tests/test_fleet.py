# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tessera.fleet's runtime: choices by hand, and its book beside a dict."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from tessera import fleet
from tessera.fleet import Event, Load, Runtime

Views = list[Load]


class Book:
    """A runtime that is told by calls what happens. It keeps the moves that were decided."""

    def __init__(self, controller: str, **settings: Any) -> None:
        self.runtime = Runtime(controller, **settings)
        self.decided: list[tuple[Any, ...]] = []
        self._names = iter(range(10**9, 2 * 10**9))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.runtime, name)

    def __len__(self) -> int:
        return len(self.runtime)

    def took(self, actions: list[Any]) -> list[Any]:
        self.decided += [(a.request, a.source, a.replica) for a in actions if a.kind == "move"]
        return actions

    def notify(self, kind: str, now: float, **members: Any) -> list[Any]:
        return self.took(self.runtime.handle(Event(kind, now, **members)))

    def join(self, i: int, life: int, capacity: int, now: float, budget: float = 0.0, square: float = 0.0) -> str:
        cost = {"alpha": square, "beta": 1.0, "peak_flops": budget, "ttft_s": 1.0}
        said = self.notify("joined", now, replica=i, number=life, capacity=capacity, **cost)
        return said[0].why if said else "ok"

    def receive(self, *what: Any, **said: Any) -> str:
        word, actions = self.runtime.reported(*what, **said)
        self.took(actions)
        return word

    def place(self, request: int, prompt: int, now: float, **how: Any) -> int | None:
        done = self.took(self.runtime.arrived(request, prompt, now, **how))
        return next((a.replica for a in done if a.kind == "place"), None)

    def best(self, prompt: int, now: float = 1.0, **how: Any) -> int | None:
        """Where a request would go that is over at once."""
        request = next(self._names)
        where = self.place(request, prompt, now, **how)
        self.notify("ended", now, request=request)
        return where

    def progress(self, request: int, i: int, count: int, now: float) -> None:
        self.took(self.runtime.progressed(request, i, count, now))

    def moves(self, now: float) -> list[tuple[Any, ...]]:
        """Those that were decided since the last call."""
        self.notify("clock", now)
        decided, self.decided = self.decided, []
        return decided


def book_of(controller: str, loads: list[Load], capacity: int = 100, **settings: Any) -> Book:
    """Replicas that have reported these loads, all of them others'."""
    book = Book(controller, block_size=10, **settings)
    for i, load in enumerate(loads):
        assert book.join(i, 1, capacity, 0.0, 1000.0) == "ok"
        assert book.receive(i, 1, 1, load, 0.1, own=Load()) == "taken"
    return book


@pytest.mark.parametrize(
    ("controller", "loads", "chosen"),
    [
        ("shortest-queue", [Load(3), Load(1, 90), Load(2)], 1),
        ("least-kv", [Load(1, 30, 60), Load(1, 40), Load(1, 50)], 0),
        ("least-load", [Load(1, 30, 60), Load(1, 40), Load(1, 50)], 1),
        # Phi_S is what is free, what waits counted as used.
        ("phi", [Load(1, 50, 20), Load(9, 60), Load(1, 65)], 1),
        # Phi_T is what is left of prompts.
        ("phi-time", [Load(1, 0, 0, prefill=900.0), Load(9, 90, prefill=100.0), Load(1, prefill=300.0)], 1),
        ("pascal", [Load(1, 30), Load(1, 20, 5), Load(1, 20, 20)], 1),
        ("stages", [Load(2, 30), Load(1, 10), Load(1, 20)], 1),
        ("prefix-affinity", [Load(3), Load(1), Load(2)], 1),
        ("lmetric", [Load(3), Load(1), Load(2)], 1),
        ("in-turn", [Load(3), Load(1), Load(2)], 0),
    ],
)
def test_controllers_choose_what_one_computes_by_hand(controller: str, loads: Views, chosen: int) -> None:
    book = book_of(controller, loads)
    assert book.place(1, 50, 1.0) == chosen
    assert book.reserved(1, chosen) and len(book) == 1 and book.where(1) == chosen


def test_every_name_of_a_policy_is_one_of_a_controller() -> None:
    for policy in fleet.policies:
        assert fleet.Router(policy).controller in fleet.controllers
    assert {"least-load", "lmetric", "pascal", "fill-to-level"} <= {*fleet.controllers}


def test_a_replica_whose_answers_lag_is_not_pascals_choice() -> None:
    book = book_of("pascal", [Load(1, 30), Load(1, 20)])
    book.receive(1, 1, 2, Load(1, 20), 0.2, own=Load(), slo_met=False)
    assert book.best(50) == 0


def test_stages_by_length() -> None:
    book = book_of("stages", [Load(1, 1), Load(9, 50), Load(9, 60)])
    for i, (first, last) in enumerate(((0, 8), (8, 1000), (8, 1000))):
        book.notify("serves", 0.2, replica=i, low=first, high=last)
    assert book.best(prompt=70) == 0
    assert book.best(prompt=81) == 1 and book.best(prompt=81, excluded=[1]) == 2
    # The replica with this range is not there: any replica is better than none.
    assert book.best(prompt=81, excluded=[1, 2]) == 0
    # Outgrown: the answer goes on in the next stage.
    assert book.place(7, 65, 1.0) == 0
    book.progress(7, 0, 5, 3.0)
    assert book.moves(4.0) == []
    book.progress(7, 0, 6, 5.0)
    assert book.moves(6.0) == [(7, 0, 1)] and book.moves_to(7) == 1


def test_prefixes_go_where_they_are_cached() -> None:
    book = book_of("prefix-affinity", [Load(2), Load(2), Load(1)])
    assert book.best(prompt=50, cached=[0, 40, 10]) == 1
    # Unless that one has more than 1.25 times the mean.
    book = book_of("prefix-affinity", [Load(2), Load(9), Load(1)])
    assert book.best(prompt=50, cached=[0, 40, 10]) == 2
    # LMetric: tokens to compute times requests: 100, 20 and 40.
    assert book_of("lmetric", [Load(2), Load(2), Load(1)]).best(prompt=50, cached=[0, 40, 10]) == 1
    # More than the prompt counts as the prompt.
    assert book_of("lmetric", [Load(2), Load(2)]).best(prompt=50, cached=[0, 400]) == 1
    # Equal beginnings go to the same replicas, whatever is cached.
    for name in ("bounded-hashing", "dual-map"):
        homes = {key: book_of(name, [Load()] * 8).best(50, prefix_key=key) for key in range(1, 40)}
        assert len({*homes.values()}) > 4
        assert all(book_of(name, [Load()] * 8).best(50, prefix_key=key) == home for key, home in homes.items())


def test_random_choices_are_the_seeds() -> None:
    def choices(controller: str, seed: int) -> list[Any]:
        book = book_of(controller, [Load(1)] * 8, seed=seed)
        return [book.best(10) for _ in range(30)]

    for controller in ("power-of-two", "fill-to-level", "random"):
        assert choices(controller, 1) == choices(controller, 1) != choices(controller, 2)
    # The shorter queue of two different ones: never the longest of all.
    book = book_of("power-of-two", [Load(1), Load(1), Load(5)])
    assert {book.best(10) for _ in range(100)} == {0, 1}
    book = book_of("fill-to-level", [Load(0), Load(3), Load(9)])
    assert {book.best(10) for _ in range(100)} == {0}
    book = book_of("fill-to-level", [Load(0), Load(3), Load(9)], expected=11.0)
    assert {book.best(10) for _ in range(200)} == {0, 1}
    # Several routers begin in different places.
    firsts = {book_of("in-turn", [Load()] * 8, replicas=8, router=r, routers=4).best(10) for r in range(4)}
    assert firsts == {0, 2, 4, 6}
    assert book_of("in-turn", [Load()] * 8, replicas=8, router=1, routers=4, shares=True).best(10) in (1, 5)


def test_a_burst_spreads_before_any_report() -> None:
    for controller in fleet.controllers:
        if controller in ("power-of-two", "fill-to-level", "random", "bounded-hashing", "dual-map"):
            continue
        book = book_of(controller, [Load()] * 4)
        places = [book.place(i, 50, 1.0) for i in range(8)]
        if controller == "least-kv":
            continue  # it sees waiting requests only to break ties
        assert sorted(places) == [0, 0, 1, 1, 2, 2, 3, 3], controller


def test_moves_when_tight_reserve_at_once() -> None:
    book = book_of("least-load", [Load(), Load()], tight=20)
    for request, replica, prompt in ((1, 0, 500), (2, 0, 350), (3, 1, 100)):
        assert book.place(request, prompt, 1.0, excluded=[1 - replica]) == replica
        book.progress(request, replica, 1, 2.0)
    assert book.moves(3.0) == [(2, 0, 1)]
    assert book.moving == 1
    # Counted where it goes, and no second one flees because of it.
    assert book.view(1)["kv_held"] == 11 + 36 and book.view(0)["kv_held"] == 51
    assert book.moves(3.0) == []
    book.notify("moved", 4.0, request=2, replica=1)
    assert book.where(2) == 1 and book.moving == 0
    book.notify("ended", 5.0, request=2)
    assert not book.reserved(2, 1) and not book.reserved(2, 0) and book.where(2) is None
    assert book_of("least-load", [Load()], tight=20).moves(1.0) == []


def test_a_move_that_comes_to_nothing_and_a_request_that_is_lost() -> None:
    book = book_of("least-load", [Load(), Load()], tight=20)
    for request, prompt in ((1, 500), (2, 350)):
        assert book.place(request, prompt, 1.0, excluded=[1]) == 0
        book.progress(request, 0, 1, 2.0)
    assert book.moves(3.0) == [(2, 0, 1)]
    book.notify("move_failed", 3.5, request=2, replica=1)
    assert book.where(2) == 0 and book.moves_to(2) is None and book.view(1)["requests"] == 0
    # It is on no replica, and goes on from where it was.
    book.notify("lost", 4.0, request=2, replica=1)
    assert book.where(2) == 0, "it is not there"
    book.notify("lost", 4.0, request=2, replica=0)
    assert book.where(2) is None and book.requests == 2 and len(book) == 1
    assert book.place(2, 350, 4.5, generated=1) == 1 and book.view(1)["waiting_blocks"] == 36


def test_phi_time_places_by_prompts_and_moves_by_memory() -> None:
    book = Book("phi-time", block_size=10, tight=20)
    for i in range(2):
        book.join(i, 1, 100, 0.0, 1000.0, 0.001)
    assert book.place(1, 600, 1.0) == 0 and book.place(2, 250, 1.0) == 1
    # The first has 600 + 0.001 * 600² of 1,000 to compute, the other 250 + 62.5.
    assert book.view(0)["time_phi"] == pytest.approx(0.04) and book.view(1)["time_phi"] == pytest.approx(0.6875)
    assert book.place(3, 240, 1.5) == 1
    for request, replica in ((1, 0), (2, 1), (3, 1)):
        book.progress(request, replica, 1, 2.0)
    assert book.view(0)["time_phi"] == book.view(1)["time_phi"] == 1.0
    book.progress(1, 0, 230, 3.0)
    assert book.view(0)["free_blocks"] == 17 and book.moves(4.0) == []
    assert book.place(4, 90, 5.0, excluded=[1]) == 0
    book.progress(4, 0, 1, 6.0)
    assert book.moves(7.0) == [(4, 0, 1)]


def test_who_answers_moves_by_pascal() -> None:
    book = book_of("pascal", [Load(5, 5, reasoning=5), Load(1, 1, reasoning=1)], moves="pascal")
    assert book.place(1, 100, 1.0, reasons=True, excluded=[1]) == 0
    book.progress(1, 0, 1, 2.0)
    assert book.moves(3.0) == []
    book.notify("reasoning_ended", 4.0, request=1, replica=0)
    assert book.moves(5.0) == [(1, 0, 1)]
    # One that samples stays.
    assert book.place(2, 100, 5.0, reasons=True, movable=False, excluded=[1]) == 0
    book.progress(2, 0, 1, 5.5)
    book.notify("reasoning_ended", 6.0, request=2, replica=0)
    assert book.moves(7.0) == [] and book_of("pascal", [], moves="none").moves(1.0) == []


def test_what_a_replica_cannot_is_left_out_and_said_once() -> None:
    book = Book("phi-time", block_size=10, epoch=1.0, cooldown=0)
    budget = {"beta": 1.0, "peak_flops": 1000.0, "ttft_s": 1.0}
    for i, role in enumerate(("prefill", "decode", "mixed")):
        book.notify(
            "joined", 0.0, replica=i, number=1, capacity=100, has_role=role, elastic=i == 2, roles=False, **budget
        )
    book.place(1, 5000, 0.5, excluded=[1, 2])  # the prefill pool has none left
    said = [a for t in range(1, 6) for a in book.notify("clock", float(t)) if a.kind in ("note", "set_role")]
    assert [(a.kind, a.replica, a.why) for a in said] == [("note", 2, "it cannot change its role")]
    assert book.next_wake == 6.0


def test_reports_of_all_kinds() -> None:
    book = book_of("shortest-queue", [Load(5), Load(5)])
    assert book.receive(0, 1, 1, Load(), 1.0) == "doubled"
    assert book.receive(0, 1, 3, Load(2), 1.0, own=Load()) == "taken"
    assert book.receive(0, 1, 2, Load(9), 1.0) == "late"
    assert book.receive(0, 2, 1, Load(), 1.0) == "unknown"
    book.notify("failed", 1.0, replica=0, number=1)
    assert not book.contains(0)
    assert book.receive(0, 1, 4, Load(), 1.0) == "former"
    assert book.join(0, 1, 10, 2.0, 1.0) == "refused"
    assert book.join(1, 2, 10, 2.0) == "busy"
    assert book.join(0, 2, 10, 2.0) == "ok"
    for nonsense in (Load(-1), Load(math.nan), Load(1.5), Load(kv_held=2.0**41), Load(prefill=math.inf)):
        assert book.receive(1, 1, 9, nonsense, 3.0) == "malformed"
        assert book.receive(1, 1, 9, Load(), 3.0, own=nonsense) == "malformed"
    assert book.receive(1, 1, 9, Load(), 3.0, free=-1) == "malformed"
    assert book.received["malformed"] == 11 and book.received["former"] == 1
    assert book.others(1)[0] == 5


def test_dead_lost_and_silent_replicas() -> None:
    book = book_of("shortest-queue", [Load(), Load(1)], silence=5.0)
    assert book.place(1, 30, 1.0) == 0
    book.progress(1, 0, 4, 2.0)
    book.notify("unreachable", 2.0, replica=0, number=1)
    assert book.silent(0) and book.shown() == [1]
    assert book.receive(0, 1, 2, Load(), 3.0, own=Load()) == "taken" and book.shown() == [0, 1]
    book.notify("failed", 3.0, replica=0, number=1)
    assert book.where(1) is None and book.requests == 1 and len(book) == 0
    book.notify("drained", 3.5, replica=1)
    book.notify("drained", 3.5, replica=0)  # it is not there
    assert book.place(2, 30, 4.0) is None
    book.notify("clock", 100.0)
    assert book.silent(1)


def test_who_joins_while_nobody_reports_is_one_among_the_others() -> None:
    book = Book("shortest-queue", silence=5.0)
    assert [book.join(i, 1, 100, 0.0) for i in range(3)] == ["ok"] * 3
    book.notify("clock", 6.0)
    assert book.join(3, 1, 100, 6.0) == "ok" and book.shown() == [0, 1, 2, 3]
    assert book.receive(3, 1, 1, Load(), 7.0) == "taken" and book.shown() == [3]


def test_a_full_book_and_a_lease() -> None:
    book = book_of("shortest-queue", [Load()], reservations=2, lease=10.0)
    assert book.place(1, 30, 0.0) == 0 and book.place(2, 30, 5.0) == 0
    assert [a.why for a in book.runtime.arrived(3, 30, 6.0)] == ["exhausted"]
    assert book.place(2, 30, 6.0) is None, "it is there"
    book.notify("clock", 10.5)
    assert book.expired == 1 and book.where(1) is None and book.requests == 1
    book.notify("ended", 11.0, request=2)
    assert len(book) == 0


def joined(*names: str, **more: Any) -> Event:
    return Event("joined", 0.0, **{"replica": 0, "number": 1, "capacity": 10, **more})


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Runtime("fastest"), "controller is one of least-load, .*, not fastest"),
        (lambda: Runtime("phi", moves="away"), "moves is one of none, when_tight, .*, not away"),
        (lambda: Runtime("phi", block_size=0), "block_size is from 1 to .*, not 0"),
        (lambda: Runtime("phi", lease=0.0), "lease is from 0.001 to .*, not 0.0"),
        (lambda: Runtime("phi", silence=math.nan), "silence is from .*, not nan"),
        (lambda: Runtime("prefix-affinity", bound=0.5), "bound is from 1.0"),
        (lambda: Runtime("phi", replicas=0), "replicas is from 1"),
        (lambda: Runtime("phi", epoch=-1.0), "epoch is from 0.0"),
        (lambda: Runtime("phi", router=2, routers=2), "router must be from 0 to 1"),
        (lambda: Runtime("phi").view(0), "replica 0 is not there"),
        (lambda: Runtime("phi").view(64), "a replica's number is from 0 to 63, not 64"),
        (lambda: Event("ended", 0.0), "ended: expected request=NUMBER"),
        (lambda: Event("serves", 0.0, replica=0, low=2, high=2), "a range of lengths that is not empty"),
        (lambda: Event("lays_out", 0.0, replica=0, low=-1), "a range of lengths that is not empty"),
        (lambda: Event("flies", 0.0), "there is no event flies"),
        (lambda: Event("none", 0.0), "expected what happens"),
        (lambda: Event("clock", math.inf), "at is from 0"),
        (lambda: Event("clock", math.nan), "at is from 0"),
        (lambda: joined(wings=2), "wings=2: expected a known member"),
        (lambda: joined(capacity="many"), "capacity=many: expected a value of this member"),
        (lambda: joined(has_role="a role"), "has_role is not a value of an event: it has a blank"),
        (lambda: Event("progressed", 0.0, request=1, replica=0, count=-1), "expected a count"),
        (lambda: Event("arrived", 0.0, request=1, prompt=-1), "lengths that a request can have"),
        (lambda: Event("arrived", 0.0, request=1, prompt=1, expected=-1), "lengths that a request can have"),
        (lambda: Runtime("phi").arrived(1, 0, 0.0), "prompt is from 1"),
        (lambda: Runtime("phi").arrived(1, 10, math.inf), "now is from 0"),
        (lambda: Runtime("phi").arrived(2**64 - 1, 10, 0.0), "this number is reserved for no request"),
        (lambda: Runtime("phi").arrived(1, 10, 0.0, cached=[-1]), "cached has tokens of the prompt"),
        (lambda: Runtime("phi").arrived(1, 10, 0.0, excluded=[-1]), "a replica's number is from 0"),
        (lambda: Runtime("phi").progressed(1, 0, -1, 1.0), "count is from 0"),
        (lambda: Runtime("phi").follow(Event("clock", 0.0), []), "follows=True"),
        (lambda: fleet.Retries().after("sad"), "failure is one of refused, died, .*, not sad"),
        (lambda: fleet.Retries(deaths=0), "deaths is from 1"),
        (lambda: fleet.Stitch().on(-1, 3), "at is from 0"),
        (lambda: fleet.plan_export(0, 16), "length is from 1"),
        (lambda: fleet.PrefixIndex(4).stored(0, [1], None, [1, 2, 3]), "an event has the tokens of its blocks"),
        (lambda: fleet.PrefixIndex(4).removed(0, ["x"]), "a block's hash is bytes or an int"),
    ],
)
def test_what_cannot_be_meant_is_an_error_that_says_what_is_allowed(wrong: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        wrong()


def test_what_is_of_another_type_is_a_type_error() -> None:
    for wrong in (
        lambda: Runtime("phi", wings=2),
        lambda: Runtime(7),
        lambda: Event("clock"),
        lambda: Runtime("phi").handle("0 clock"),
        lambda: Runtime("phi").arrived("1", 10, 0.0),
    ):
        with pytest.raises(TypeError):
            wrong()


event_kinds = ["joined", "drained", "unreachable", "failed", "asks_report", "reported", "role_changed", "serves"]
event_kinds += ["offers", "arrived", "refused", "lost", "cache_hit", "first_token", "progressed", "reasoning_ended"]
event_kinds += ["moved", "move_failed", "ended", "lays_out", "planned", "clock"]


def test_any_event_is_taken_whatever_it_says() -> None:
    """No event is an assertion: what does not fit has no effect."""
    draw = random.Random(3)
    kinds = [*event_kinds]
    members = ["replica", "request", "number", "count", "low", "high", "capacity", "incarnation", "epoch", "free"]
    members += ["all_requests", "all_kv", "prompt", "generated", "expected", "tenant", "alpha", "peak_flops", "ttft_s"]
    odd: list[int] = [0, 1, 2, 3, 7, 2**31, 2**40, 2**62, -1, -(2**40)]
    for controller in fleet.controllers:
        runtime = Runtime(controller, replicas=4, reservations=8, epoch=draw.choice([0.0, 0.5]), tight=3)
        taken = refused = 0
        for t in range(1500):
            some = {m: draw.choice(odd[: draw.choice([4, 10])]) for m in draw.sample(members, draw.randrange(7))}
            some |= {"replica": draw.randrange(5), "request": draw.randrange(9)}
            try:
                event = Event(draw.choice(kinds), t / 8, **some)
            except ValueError:
                refused += 1
                continue
            runtime.handle(event)
            taken += 1
        assert taken > 300 and refused > 100


def test_a_line_is_read_as_it_was_written() -> None:
    event = Event("arrived", 12.5, request=7, prompt=320, movable=False, phase="reasoning")
    assert (str(event), event.kind, event.at, event.request, event.replica) == (
        "12.5 arrived request=7 prompt=320 phase=reasoning movable=0",
        "arrived",
        12.5,
        7,
        None,
    )
    assert str(fleet.parse(str(event))) == str(event)
    assert (event.prompt, event.movable, event.phase, event.high, event.own) == (320, False, "reasoning", None, None)
    assert Event("joined", 0.0, replica=0, number=1, capacity=9, ttft_s=0.5).ttft_s == 0.5
    assert Event("reported", 0.0, replica=0, all_kv=3).all == (0, 3, 0, 0, 0, 0.0)
    with pytest.raises(AttributeError, match="an event has no wings"):
        _ = event.wings
    action = fleet.parse("> move replica=2 from=1 request=0 how=live")
    assert (action.kind, action.replica, action.source, action.request, action.how) == ("move", 2, 1, 0, "live")
    assert action == fleet.parse(str(action)) != fleet.parse("> move replica=1 from=1 request=0 how=live")
    assert action != "> move" and fleet.parse("> set_length_range replica=0 low=3").high is None
    assert fleet.parse("1 arrived request=7 prompt=x") == (21, "a value of this member")
    assert fleet.parse("1 clock", 1.0).at == 1 and fleet.parse("1 clock", 2.0)[0] == 1
    assert fleet.parse("-1 clock")[0] == 1 and fleet.parse("> flies")[0] == 3


def test_a_common_prompt_is_counted_once() -> None:
    for knows in (True, False):
        for tells in (True, False):
            book = Book("least-kv", block_size=16, tight=500)
            assert book.join(0, 1, 10_000, 0.0) == "ok"
            for r in range(50):
                assert book.place(r, 4096, 1.0, cached=[4000 if knows and r else 0]) == 0
                book.progress(r, 0, 1, 1.0)
            load = Load(50, 550)
            assert book.receive(0, 1, 1, load, 2.0, own=load if tells else None, free=9450) == "taken"
            assert book.join(1, 1, 10_000, 2.0) == "ok"
            assert book.receive(1, 1, 1, Load(50, 3000), 2.0, own=Load(), free=7000) == "taken"
            v = book.view(0)
            assert (v["kv_held"], v["free_blocks"], v["phi"]) == (550, 9450, pytest.approx(0.945))
            assert book.best(100, 2.0) == 0 and book.moves(10.0) == []


def test_another_routers_blocks_are_seen_without_own() -> None:
    book = Book("least-kv", block_size=16)
    assert book.join(0, 1, 10_000, 0.0) == "ok"
    for r in range(50):
        assert book.place(r, 4096, 1.0, cached=[4000]) == 0
        book.progress(r, 0, 1, 1.0)
    assert book.receive(0, 1, 1, Load(100, 5550), 2.0, free=4450) == "taken"
    assert (book.view(0)["kv_held"], book.view(0)["free_blocks"]) == (5550, 4450)
    # But for the common prompt, which may be either's.
    assert abs(book.others(0)[1] - 5000) <= 250
    for r in range(50):
        book.notify("ended", 2.0, request=r)
    assert abs(book.view(0)["kv_held"] - 5000) <= 250
    assert book.receive(0, 1, 2, Load(50, 5000), 3.0, free=5000) == "taken"
    assert book.view(0)["kv_held"] == book.others(0)[1] == 5000


class Plain:
    """The book as a dict: what each replica's requests add up to, and what others have there."""

    def __init__(self, block_size: int, lease: float) -> None:
        self.block_size, self.lease = block_size, lease
        self.alive: dict[int, int] = {}
        self.requests: dict[tuple[int, int], list[Any]] = {}  # prompt, generated, started, heard
        self.others: dict[int, tuple[int, int, int]] = {}

    def blocks(self, n: int) -> int:
        return -(-n // self.block_size)

    def own(self, replica: int) -> tuple[int, int, int]:
        mine = [v for (_, on), v in self.requests.items() if on == replica]
        held = sum(self.blocks(p + g) for p, g, started, _ in mine if started)
        waits = sum(self.blocks(p) for p, _, started, _ in mine if not started)
        return len(mine), held, waits

    def view(self, replica: int) -> tuple[int, ...]:
        return tuple(a + b for a, b in zip(self.own(replica), self.others[replica], strict=True))

    def expire(self, now: float) -> set[tuple[int, int]]:
        gone = {k for k, v in self.requests.items() if now - v[3] >= self.lease}
        for k in gone:
            del self.requests[k]
        return gone


@pytest.mark.parametrize("seed", range(8))
def test_the_book_is_what_a_dict_says(seed: int) -> None:
    draw = random.Random(seed)
    book = Book("least-load", replicas=6, reservations=200, block_size=16, lease=30.0, silence=1e6)
    plain = Plain(16, 30.0)
    life = [0] * 6
    epoch = [0] * 6
    now, request = 0.0, 0
    for _ in range(3000):
        now += draw.choice([0.0, 0.0, 0.25, 1.0])
        what = draw.choice(
            ["join", "fence", "report", "place", "place", "place", "on", "on", "on", "end", "end", "time"]
        )
        i = draw.randrange(6)
        if what == "join" and i not in plain.alive:
            life[i] += 1
            epoch[i] = 0
            assert book.join(i, life[i], 10_000, now) == "ok"
            plain.alive[i], plain.others[i] = life[i], (0, 0, 0)
        elif what == "fence" and i in plain.alive and draw.random() < 0.1:
            had = {r for r, on in plain.requests if on == i}
            book.notify("failed", now, replica=i, number=life[i])
            for r in had:
                assert book.where(r) is None
                book.notify("ended", now, request=r)
                del plain.requests[r, i]
            del plain.alive[i]
        elif what == "report" and i in plain.alive:
            epoch[i] += 1
            others = (draw.randrange(5), draw.randrange(100), draw.randrange(50))
            own = plain.own(i)
            total = Load(*(a + b for a, b in zip(own, others, strict=True)))
            assert book.receive(i, life[i], epoch[i], total, now, own=Load(*own)) == "taken"
            assert book.receive(i, life[i], epoch[i], Load(99), now) == "doubled"
            plain.others[i] = others
        elif what == "place":
            request += 1
            prompt = draw.randrange(1, 500)
            least = min((sum(plain.view(k)[1:]), plain.view(k)[0]) for k in plain.alive) if plain.alive else None
            to = book.place(request, prompt, now)
            if least is None or len(plain.requests) == 200:
                assert to is None
                book.notify("ended", now, request=request)
            else:
                assert to is not None and (sum(plain.view(to)[1:]), plain.view(to)[0]) == least
                plain.requests[request, to] = [prompt, 0, False, now]
        elif what == "on" and plain.requests:
            key = draw.choice([*plain.requests])
            v = plain.requests[key]
            tokens = v[1] + draw.randrange(40)
            book.progress(*key, tokens, now)
            v[1], v[2], v[3] = tokens, v[2] or tokens > 0, now
        elif what == "end" and plain.requests:
            key = draw.choice([*plain.requests])
            for _ in range(2):
                book.notify("ended", now, request=key[0])
            del plain.requests[key]
        elif what == "time":
            book.notify("clock", now)
            for key in plain.expire(now):
                assert not book.reserved(*key)
        assert len(book) == len(plain.requests) == book.requests
        for k in plain.alive:
            view = book.view(k)
            assert (view["requests"], view["kv_held"], view["waiting_blocks"]) == plain.view(k)
            assert book.own(k)[:3] == plain.own(k)
    for key in plain.requests:
        book.notify("ended", now, request=key[0])
    assert len(book) == 0
    for k in plain.alive:
        assert book.own(k)[:3] == (0, 0, 0)
