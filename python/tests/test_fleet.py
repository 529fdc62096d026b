# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tessera.fleet's book: choices by hand, the book beside a dict, streams, retries, and what KV can be transferred."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from tessera import fleet
from tessera.fleet import Ledger, Load

Views = list[Load]


def book_of(policy: str, loads: list[Load], capacity: int = 100, **settings: Any) -> Ledger:
    """Replicas that have reported these loads, all of them others'."""
    book = Ledger(policy, block_size=10, **settings)
    for i, load in enumerate(loads):
        assert book.join(i, 1, capacity, 0.0, prefill_budget=1000.0) == "ok"
        assert book.receive(i, 1, 1, load, 0.1, own=Load()) == "taken"
    return book


@pytest.mark.parametrize(
    ("policy", "loads", "chosen"),
    [
        ("shortest_queue", [Load(3), Load(1, 90), Load(2)], 1),
        ("least_kv", [Load(1, 30, 60), Load(1, 40), Load(1, 50)], 0),
        ("least_load", [Load(1, 30, 60), Load(1, 40), Load(1, 50)], 1),
        # Phi_S is what is free, what waits counted as used.
        ("phi", [Load(1, 50, 20), Load(9, 60), Load(1, 65)], 1),
        # Phi_T is what is left of prompts.
        ("phi_time", [Load(1, 0, 0, prefill=900.0), Load(9, 90, prefill=100.0), Load(1, prefill=300.0)], 1),
        ("pascal", [Load(1, 30), Load(1, 20, 5), Load(1, 20, 20)], 1),
        ("cascade", [Load(2, 30), Load(1, 10), Load(1, 20)], 1),
        ("prefix_affinity", [Load(3), Load(1), Load(2)], 1),
        ("lmetric", [Load(3), Load(1), Load(2)], 1),
    ],
)
def test_policies_choose_what_one_computes_by_hand(policy: str, loads: Views, chosen: int) -> None:
    book = book_of(policy, loads)
    assert book.rank(prompt=50) == [chosen]
    assert book.place(1, 50, 1.0) == chosen
    assert book.reserved(1, chosen) and len(book) == 1


def test_a_replica_whose_answers_lag_is_not_pascals_choice() -> None:
    book = book_of("pascal", [Load(1, 30), Load(1, 20)])
    book.receive(1, 1, 2, Load(1, 20), 0.2, own=Load(), slo_met=False)
    assert book.rank(50) == [0]


def test_stages_by_length() -> None:
    book = book_of("cascade", [Load(1, 1), Load(9, 50), Load(9, 60)])
    book.set_range(0, 0, 8)
    book.set_range(1, 8, 1000)
    book.set_range(2, 8, 1000)
    assert book.rank(prompt=70) == [0]
    assert book.rank(prompt=81, choices=3) == [1, 2]
    # The replica with this range is not there: any replica is better than none.
    assert book.rank(prompt=81, only=[0]) == [0]
    # Outgrown: the answer goes on in the next stage.
    assert book.place(7, 65, 1.0) == 0
    book.progress(7, 0, 5, 3.0)
    assert book.propose_moves(4.0) == []
    book.progress(7, 0, 6, 5.0)
    assert book.propose_moves(6.0) == [(7, 0, 1, 71, 8)]


def test_prefixes_go_where_they_are_cached() -> None:
    book = book_of("prefix_affinity", [Load(2), Load(2), Load(1)])
    assert book.rank(prompt=50, cached=[0, 40, 10]) == [1]
    # Unless that one has more than 1.25 times the mean.
    book = book_of("prefix_affinity", [Load(2), Load(9), Load(1)])
    assert book.rank(prompt=50, cached=[0, 40, 10]) == [2]
    # LMetric: tokens to compute times requests: 100, 20 and 40.
    assert book_of("lmetric", [Load(2), Load(2), Load(1)]).rank(prompt=50, cached=[0, 40, 10]) == [1]


def test_random_choices_are_the_seeds() -> None:
    def choices(policy: str, seed: int) -> list[list[int]]:
        book = book_of(policy, [Load(1)] * 8, seed=seed)
        return [book.rank(10) for _ in range(30)]

    for policy in ("power_of_two", "fill_to_level"):
        assert choices(policy, 1) == choices(policy, 1) != choices(policy, 2)
    # The shorter queue of two different ones: never the longest of all.
    book = book_of("power_of_two", [Load(1), Load(1), Load(5)])
    assert {book.rank(10)[0] for _ in range(100)} == {0, 1}
    book = book_of("fill_to_level", [Load(0), Load(3), Load(9)])
    book.expect(0.0)
    assert {book.rank(10)[0] for _ in range(100)} == {0}
    book.expect(11.0)
    assert {book.rank(10)[0] for _ in range(200)} == {0, 1}


def test_a_burst_spreads_before_any_report() -> None:
    for policy in fleet.policies:
        if policy in ("power_of_two", "fill_to_level"):
            continue
        book = book_of(policy, [Load()] * 4)
        places = [book.place(i, 50, 1.0) for i in range(8)]
        if policy == "least_kv":
            continue  # it sees waiting requests only to break ties
        assert sorted(places) == [0, 0, 1, 1, 2, 2, 3, 3], policy


def test_moves_when_tight_reserve_at_once() -> None:
    book = book_of("least_load", [Load(), Load()], tight=20)
    for request, replica, prompt in ((1, 0, 500), (2, 0, 350), (3, 1, 100)):
        assert book.reserve(request, replica, prompt, 1.0) == "ok"
        assert book.first_token(request, replica, 2.0)
    moves = book.propose_moves(3.0)
    assert moves == [(2, 0, 1, 351, 36)]
    assert book.moving == 1
    # Counted where it goes, and no second one flees because of it.
    assert book.view(1)["kv_held"] == 11 + 36 and book.view(0)["kv_held"] == 51
    assert book.propose_moves(3.0) == []
    assert book.moved(2, 1, 4.0) and not book.moved(2, 1, 4.0)
    assert book.release(2, 1) and not book.release(2, 0)
    assert book_of("least_load", [Load()], tight=20).propose_moves(1.0) == []


def test_phi_time_places_by_prompts_and_moves_by_memory() -> None:
    book = Ledger("phi_time", block_size=10, tight=20)
    for i in range(2):
        book.join(i, 1, 100, 0.0, prefill_budget=1000.0, prefill_square=0.001)
    assert book.place(1, 600, 1.0) == 0 and book.place(2, 250, 1.0) == 1
    # The first has 600 + 0.001 * 600² of 1,000 to compute, the other 250 + 62.5.
    assert book.view(0)["time_phi"] == pytest.approx(0.04) and book.view(1)["time_phi"] == pytest.approx(0.6875)
    assert book.place(3, 240, 1.5) == 1
    for request, replica in ((1, 0), (2, 1), (3, 1)):
        book.progress(request, replica, 1, 2.0)
    assert book.view(0)["time_phi"] == book.view(1)["time_phi"] == 1.0
    book.progress(1, 0, 230, 3.0)
    assert book.view(0)["free_blocks"] == 17 and book.propose_moves(4.0) == []
    book.reserve(4, 0, 90, 5.0)
    book.progress(4, 0, 1, 6.0)
    assert book.propose_moves(7.0) == [(4, 0, 1, 91, 10)]


def test_who_answers_moves_by_pascal() -> None:
    book = book_of("pascal", [Load(5, 5, reasoning=5), Load(1, 1, reasoning=1)])
    assert book.reserve(1, 0, 100, 1.0, reasons=True) == "ok"
    book.first_token(1, 0, 2.0)
    assert book.propose_moves(3.0) == []
    assert book.answers(1, 0, 4.0)
    assert [m[:3] for m in book.propose_moves(5.0)] == [(1, 0, 1)]
    assert book_of("pascal", [], moves="none").propose_moves(1.0) == []


def test_reports_of_all_kinds() -> None:
    book = book_of("shortest_queue", [Load(5), Load(5)])
    assert book.receive(0, 1, 1, Load(), 1.0) == "doubled"
    assert book.receive(0, 1, 3, Load(2), 1.0, own=Load()) == "taken"
    assert book.receive(0, 1, 2, Load(9), 1.0) == "late"
    assert book.receive(0, 2, 1, Load(), 1.0) == "unknown"
    assert book.fence(0, 1) == []
    assert book.fence(0, 1) is None
    assert book.receive(0, 1, 4, Load(), 1.0) == "former"
    assert book.join(0, 1, 10, 2.0, prefill_budget=1.0) == "refused"
    assert book.join(1, 2, 10, 2.0) == "busy"
    assert book.join(0, 2, 10, 2.0) == "ok"
    for nonsense in (Load(-1), Load(math.nan), Load(1.5), Load(kv_held=2.0**41), Load(prefill=math.inf)):
        assert book.receive(1, 1, 9, nonsense, 3.0) == "malformed"
        assert book.receive(1, 1, 9, Load(), 3.0, own=nonsense) == "malformed"
    assert book.receive(1, 1, 9, Load(), 3.0, free=-1) == "malformed"
    assert book.received["malformed"] == 11 and book.received["former"] == 1
    assert book.others(1)[0] == 5


def test_fenced_lost_and_silent_replicas() -> None:
    book = book_of("shortest_queue", [Load(), Load(1)], silence=5.0)
    assert book.place(1, 30, 1.0) == 0 and book.progress(1, 0, 4, 2.0)
    assert book.lost(0, 1) and book.silent(0) and book.shown() == [1]
    assert book.receive(0, 1, 2, Load(), 3.0, own=Load()) == "taken" and book.shown() == [0, 1]
    assert book.fence(0, 1) == [(1, 4, None)] and len(book) == 0
    assert book.drain(1) and book.place(2, 30, 4.0) is None and not book.drain(0)
    book.expire(100.0)
    assert book.silent(1)


def test_who_joins_while_nobody_reports_is_one_among_the_others() -> None:
    book = Ledger("shortest_queue", silence=5.0)
    assert [book.join(i, 1, 100, 0.0) for i in range(3)] == ["ok"] * 3
    book.expire(6.0)
    assert book.join(3, 1, 100, 6.0) == "ok" and book.shown() == [0, 1, 2, 3]
    assert book.receive(3, 1, 1, Load(), 7.0) == "taken" and book.shown() == [3]


def test_a_full_book_and_a_lease() -> None:
    book = book_of("shortest_queue", [Load()], reservations=2, lease=10.0)
    assert book.place(1, 30, 0.0) == 0 and book.place(2, 30, 5.0) == 0
    assert book.place(3, 30, 6.0) is None and book.reserve(3, 0, 30, 6.0) == "exhausted"
    assert book.reserve(2, 0, 30, 6.0) == "busy" and book.reserve(3, 1, 30, 6.0) == "refused"
    assert book.expire(10.5) == [(1, 0)] and book.expired == 1
    assert book.release(2, 0) and len(book) == 0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Ledger("fastest"), "policy is one of shortest_queue, .*, not fastest"),
        (lambda: Ledger("phi", moves="away"), "moves is one of none, when_tight, .*, not away"),
        (lambda: Ledger("phi", block_size=0), "block_size is from 1 to .*, not 0"),
        (lambda: Ledger("phi", lease=0.0), "lease is from 0.001 to .*, not 0.0"),
        (lambda: Ledger("phi", silence=math.nan), "silence is from .*, not nan"),
        (lambda: Ledger("prefix_affinity", bound=0.5), "bound is from 1.0"),
        (lambda: Ledger("phi", replicas=0), "replicas is from 1"),
        (lambda: Ledger("phi_time").join(0, 1, 10, 0.0), "prefill_budget must be above 0"),
        (lambda: Ledger("phi").join(0, 0, 10, 0.0), "incarnation is above 0"),
        (lambda: Ledger("phi").join(64, 1, 10, 0.0), "a replica's number is from 0 to 63, not 64"),
        (lambda: Ledger("phi").join(0, 1, -1, 0.0), "capacity is from 0"),
        (lambda: Ledger("phi").view(0), "replica 0 is not there"),
        (lambda: Ledger("phi").set_range(0, 0, 1), "replica 0 is not there"),
        (lambda: book_of("phi", [Load()]).set_range(0, 2, 2), "a range of lengths is not empty"),
        (lambda: book_of("phi", [Load()]).place(1, -1, 0.0), "prompt is from 0"),
        (lambda: book_of("phi", [Load()]).place(1, 10, math.inf), "now is from 0"),
        (lambda: book_of("lmetric", [Load()]).place(1, 10, 1.0, cached=[11]), "cached has tokens of the prompt"),
        (lambda: book_of("phi", [Load()]).reserve(1, 0, 10, 1.0, cached=11), "cached is from 0 to prompt"),
        (lambda: book_of("phi", [Load()]).rank(10, only=[-1]), "a replica's number is from 0"),
        (lambda: book_of("phi", [Load()]).progress(1, 0, -1, 1.0), "generated is from 0"),
        (lambda: book_of("phi", [Load()]).cache_hit(1, 0, -1, 1.0), "cached is from 0"),
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


def rows() -> list[list[str]]:
    """Calls and what is shown after them, worked out by hand: C++'s book is fed the same, by its own test."""
    text = (Path(__file__).parents[2] / "tests" / "support" / "fleet_rows.inc").read_text()
    return [line.split() for line in text.split('R"rows(')[1].split(')rows"')[0].splitlines() if line]


def test_a_sequence_of_calls_by_hand_as_the_book_in_cpp_is_fed() -> None:
    book = Ledger("least_load", moves="when_tight", replicas=2, reservations=64, block_size=16, rest=0.0, tight=20)
    receptions = ("taken", "doubled", "late")
    shown = 0
    for what, *words in rows():
        n = [int(w) for w in words]
        if what == "join":
            assert book.join(n[0], 1, n[1], 0.0) == "ok"
        elif what == "reserve":
            assert book.reserve(n[1], n[0], n[2], 1.0, cached=n[3]) == "ok"
        elif what == "hit":
            assert book.cache_hit(n[1], n[0], n[2], 1.0)
        elif what == "progress":
            assert book.progress(n[1], n[0], n[2], 1.0)
        elif what == "release":
            assert book.release(n[1], n[0])
        elif what == "asked":
            book.asked(n[0])
        elif what == "report":
            own = Load(*n[7:]) if n[7:] else None
            assert book.receive(n[0], 1, n[1], Load(*n[3:6]), 1.0, own=own, free=n[6]) == receptions[n[2]]
        elif what == "moves":
            assert [(m[0], m[1]) for m in book.propose_moves(2.0)] == [(r, n[0]) for r in n[1:]]
        elif what == "moved":
            assert book.moved(n[1], n[0], 2.0)
        else:
            assert what == "view"
            v = book.view(n[0])
            assert [v["requests"], v["kv_held"], v["waiting_blocks"], v["free_blocks"]] == n[1:], (shown, n)
            shown += 1
    assert shown > 20


def test_a_common_prompt_is_counted_once() -> None:
    for knows in (True, False):
        for tells in (True, False):
            book = Ledger("least_kv", block_size=16, tight=500)
            for i in range(2):
                assert book.join(i, 1, 10_000, 0.0) == "ok"
            for r in range(50):
                assert book.reserve(r, 0, 4096, 1.0, cached=4000 if knows and r else 0) == "ok"
                assert book.first_token(r, 0, 1.0)
            load = Load(50, 550)
            assert book.receive(0, 1, 1, load, 2.0, own=load if tells else None, free=9450) == "taken"
            assert book.receive(1, 1, 1, Load(50, 3000), 2.0, own=Load(), free=7000) == "taken"
            v = book.view(0)
            assert (v["kv_held"], v["free_blocks"], v["phi"]) == (550, 9450, pytest.approx(0.945))
            assert book.rank(100) == [0] and book.propose_moves(10.0) == []


def test_another_routers_blocks_are_seen_without_own() -> None:
    book = Ledger("least_kv", block_size=16)
    assert book.join(0, 1, 10_000, 0.0) == "ok"
    for r in range(50):
        assert book.reserve(r, 0, 4096, 1.0, cached=4000) == "ok" and book.first_token(r, 0, 1.0)
    assert book.receive(0, 1, 1, Load(100, 5550), 2.0, free=4450) == "taken"
    assert (book.view(0)["kv_held"], book.view(0)["free_blocks"]) == (5550, 4450)
    # But for the common prompt, which may be either's.
    assert abs(book.others(0)[1] - 5000) <= 250
    for r in range(50):
        assert book.release(r, 0)
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
    book = Ledger("least_load", replicas=6, reservations=200, block_size=16, lease=30.0, silence=1e6)
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
            had = {r: v for (r, on), v in plain.requests.items() if on == i}
            told = book.fence(i, life[i])
            assert told is not None
            assert {(r, g) for r, g, _ in told} == {(r, v[1]) for r, v in had.items()}
            for r in had:
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
            else:
                assert to is not None and (sum(plain.view(to)[1:]), plain.view(to)[0]) == least
                plain.requests[request, to] = [prompt, 0, False, now]
        elif what == "on" and plain.requests:
            key = draw.choice([*plain.requests])
            v = plain.requests[key]
            tokens = v[1] + draw.randrange(40)
            assert book.progress(*key, tokens, now)
            v[1], v[2], v[3] = tokens, v[2] or tokens > 0, now
        elif what == "end" and plain.requests:
            key = draw.choice([*plain.requests])
            assert book.release(*key) and not book.release(*key)
            del plain.requests[key]
        elif what == "time":
            assert set(book.expire(now)) == plain.expire(now)
        assert len(book) == len(plain.requests)
        for k in plain.alive:
            view = book.view(k)
            assert (view["requests"], view["kv_held"], view["waiting_blocks"]) == plain.view(k)
            assert book.own(k)[:3] == plain.own(k)
    for key in plain.requests:
        assert book.release(*key)
    assert len(book) == 0
    for k in plain.alive:
        assert book.own(k)[:3] == (0, 0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_a_stitched_stream_has_each_token_once(seed: int) -> None:
    draw = random.Random(seed)
    whole = [draw.randrange(1000) for _ in range(200)]
    stream, got = fleet.Stitch(), list[int]()
    assert stream.end(len(whole))
    while not stream.ended:
        at = draw.randrange(len(whole))
        count = draw.randrange(1, 20)
        tokens = whole[at : at + count]
        skip, take, hole = stream.on(at, len(tokens))
        assert hole == (at > len(got))
        assert not hole or (skip, take) == (0, 0)
        if not hole:
            got += tokens[skip : skip + take]
        assert got == whole[: len(got)] and stream.delivered == len(got)
        if not hole and draw.random() < 0.5:
            got_on = stream.on(len(got), 0)
            assert got_on == (0, 0, False)
        if draw.random() < 0.3:
            more = whole[len(got) : len(got) + 5]
            got += more[: stream.on(len(got), len(more))[1]]
    assert got == whole
    assert not stream.end(199) and stream.end(200)


def test_a_request_that_kills_engines_is_tried_twice() -> None:
    tries = fleet.Retries()
    assert tries.after("died") and not tries.after("died")
    assert tries.over and tries.deaths == 2 and not tries.after("refused")
    patient = fleet.Retries()
    assert [patient.after("refused") for _ in range(8)] == [True] * 7 + [False]
    assert not fleet.Retries().after("at_fault") and not fleet.Retries().after("cancelled")
    assert fleet.Retries(deaths=3).after("unreachable")


def test_what_kv_can_be_transferred() -> None:
    # 100 tokens in blocks of 16: one more is generated, and the KV of all but it is 7 blocks.
    assert fleet.plan_export(100, 16) == (1, 100, 7, True)
    # They fill their blocks: with one more the target would begin a block that was not exported.
    assert fleet.plan_export(96, 16) == (2, 97, 7, True)
    assert not fleet.plan_export(96, 1).whole
    for length in range(1, 200):
        for block_size in (2, 3, 16):
            e = fleet.plan_export(length, block_size)
            assert e.whole and fleet.takes(e.blocks, length + e.generates, block_size)
            assert not fleet.takes(e.blocks + 1, length + e.generates, block_size)


def test_prefixes_are_found_by_their_tokens() -> None:
    draw = random.Random(1)
    index = fleet.PrefixIndex(4, replicas=3)
    a = [draw.randrange(100) for _ in range(12)]
    b = [*a[:8], 1, 2, 3, 4]
    index.stored(0, [b"a0", b"a1", b"a2"], None, a)
    # Another engine, with names of its own, one event a block.
    index.stored(2, [-7], None, b[:4])
    index.stored(2, [-8, -9], -7, b[4:])
    assert index.match(a) == [12, 0, 8] and index.match(b) == [8, 0, 12] and index.match(a[:11]) == [8, 0, 8]
    assert index.match(a[1:]) == [0, 0, 0] and index.match([]) == [0, 0, 0]
    index.removed(2, [-8, -1])
    assert index.match(b) == [8, 0, 4] and index.size(2) == 2
    # What follows a block that is not known is not found.
    index.stored(1, [5], 4, a[:4])
    assert index.match(a) == [12, 0, 4]
    # The same block under two names is there until both are gone.
    index.stored(0, [b"again"], None, a[:4])
    index.removed(0, [b"a0"])
    assert index.match(a)[0] == 12
    index.removed(0, [b"again"])
    assert index.match(a)[0] == 0
    index.cleared(2)
    assert index.match(b) == [0, 0, 0] and index.size(2) == 0
