# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The native core by itself, with objects as plain as can be."""

from __future__ import annotations

import gc
import random
import time
import weakref
from statistics import median
from typing import Any

import pytest
from fakes import Engine, Request

import tessera
from tessera import _vllm


def test_version() -> None:
    from importlib.metadata import version

    assert tessera.__version__ == version("tessera-serving")


def test_one_request_from_beginning_to_end() -> None:
    e = Engine()
    r = Request("a", list(range(40)), 3)
    e.add(r)
    counts, total, fresh, ids, resumed, all_tokens, blocks, computed, outputs, preempted, outgrown = e.plan()
    assert (counts, total, ids) == ({"a": 40}, 40, [])
    assert [(f[0].id, f[1], f[2], f[3]) for f in fresh] == [("a", ([1, 2, 3],), 0, False)]
    assert r.status == "running"
    by_client, looked_at, ended = e.answer(counts, {"a": [7]})
    assert [o.new_token_ids for o in by_client[0]] == [[7]]
    assert [(o.request_id, first, watched) for o, _, _, first, watched in looked_at] == [("a", True, False)]

    counts, total, fresh, ids, resumed, all_tokens, blocks, computed, outputs, *_ = e.plan()
    assert (counts, fresh, ids, resumed, blocks, computed, outputs) == ({"a": 1}, [], ["a"], set(), [None], [40], [1])
    by_client, looked_at, ended = e.answer(counts, {"a": [8]})
    assert (looked_at, ended) == ([], [])

    counts, *_ = e.plan()
    by_client, _, ended = e.answer(counts, {"a": [9]})
    assert by_client[0][0].finish_reason == "length"
    assert ended == [r] and r.status == "length" and e.requests == {}
    assert (e.core.running(), e.core.waiting(), e.core.live(), e.core.usage()) == (0, 0, 0, 0)


def test_new_blocks_are_told_once() -> None:
    e = Engine()
    e.add(Request("a", list(range(31)), 40))
    told: list[int] = []
    for step in range(40):
        counts, _, fresh, _, _, _, blocks, *_ = e.plan()
        told += [b for f in fresh for b in f[1][0]] + [b for t in blocks if t for b in t[0]]
        # Tokens 0 to 30 + step have KV then.
        assert len(told) == (31 + step + 15) // 16
        assert (told,) == e.core.blocks_of(e.slots["a"])
        e.answer(counts, {"a": [1]})


@pytest.mark.parametrize(
    ("tokens", "status", "reason", "stop_reason"),
    [([5, 2], "stopped", "stop", None), ([5, 6, 3], "stopped", "stop", 3), ([5, 6, 7, 8], "length", "length", None)],
)
def test_ends(tokens: list[int], status: str, reason: str, stop_reason: int | None) -> None:
    e = Engine()
    r = Request("a", [1] * 5, 4, stops=[3, 4], eos=2)
    e.add(r)
    for i, token in enumerate(tokens):
        counts, *_ = e.plan()
        by_client, _, ended = e.answer(counts, {"a": [token]})
        assert bool(ended) == (i == len(tokens) - 1)
    assert (r.status, by_client[0][0].finish_reason, by_client[0][0].stop_reason) == (status, reason, stop_reason)
    assert r.stop_reason == stop_reason


def test_the_model_ends_it() -> None:
    e = Engine(max_model_len=32)
    e.add(Request("a", [1] * 30, 100))
    for left in (1, 0):
        counts, *_ = e.plan()
        _, _, ended = e.answer(counts, {"a": [5]})
        assert bool(ended) == (left == 0)


def test_repetition_is_asked_for() -> None:
    e = Engine()
    r = Request("a", [1] * 5, 40)

    def repeats(request: Request) -> bool:
        if len(request.output) < 3:
            return False
        request.status, request.stop_reason = "repetition", "again and again"
        return True

    e.repeats = repeats
    e.add(r, watched=True, repetitive=True)
    for _ in range(3):
        counts, *_ = e.plan()
        by_client, looked_at, ended = e.answer(counts, {"a": [5]})
        assert len(looked_at) == 1
    assert ended == [r] and r.output == [5, 5, 5]
    assert by_client[0][0].finish_reason == "repetition" and by_client[0][0].stop_reason == "again and again"


def test_cancelled_while_a_step_is_under_way() -> None:
    e = Engine()
    for name in "abc":
        e.add(Request(name, [1] * 20, 9))
    counts, *_ = e.plan()
    e.core.cancel(e.slots["b"])
    e.core.cancel(e.slots["b"])  # twice is once
    del e.requests["b"]
    # Its slot is not another's before the step is settled.
    assert e.add(Request("d", [1] * 20, 9)) not in (e.slots["a"], e.slots["b"], e.slots["c"])
    by_client, _, _ = e.answer(counts, {name: [4] for name in "abc"})
    assert [o.request_id for o in by_client[0]] == ["a", "c"]
    assert e.core.live() == 3
    with pytest.raises(IndexError, match="no request has this slot"):
        e.core.cancel(e.slots["b"])
    assert e.add(Request("e", [1] * 20, 9)) == e.slots["b"]


def test_who_was_away_is_told_its_tokens() -> None:
    # Two of 20 blocks each in 32: one must go, and comes back with all it has.
    e = Engine(blocks=32, watermark=0.0)
    for name in "ab":
        e.add(Request(name, [ord(name)] * 200, 120))
    lost: set[str] = set()
    back = None
    step = 0
    while e.core.live():
        counts, _, fresh, ids, resumed, all_tokens, blocks, _, _, preempted, _ = e.plan(budget=512)
        lost |= preempted
        if resumed:
            back = next(iter(resumed))
            request = next(f[0] for f in fresh if f[0].id == back)
            assert request.everything == request.prompt + request.output == all_tokens[back]
            assert len(request.output) > 0
            assert blocks[ids.index(back)] == e.core.blocks_of(e.slots[back])
        step += 1
        e.answer(counts, {name: [step] for name in counts})
    assert lost == {"b"} and back == "b"


def test_whose_lengths_are_asked_for_has_all_of_its_tokens_when_it_ends() -> None:
    for whole in (False, True):
        e = Engine(whole_at_end=whole)
        r = Request("a", list(range(40)), 3)
        e.add(r)
        for token in (7, 8, 9):
            counts, *_ = e.plan()
            _, _, ended = e.answer(counts, {"a": [token]})
        assert ended == [r]
        assert r.output == ([7, 8, 9] if whole else []) and r.everything[40:] == r.output


def test_the_second_runner_takes_who_resumes_for_new() -> None:
    e = Engine(blocks=32, watermark=0.0, second_runner=True)
    for name in "ab":
        e.add(Request(name, [ord(name)] * 200, 120))
    again = 0
    while e.core.live():
        counts, _, fresh, ids, resumed, all_tokens, *_ = e.plan(budget=512)
        assert not resumed and not all_tokens
        again += sum(f[3] for f in fresh)
        assert not {f[0].id for f in fresh} & set(ids)
        e.answer(counts, {name: [1] for name in counts})
    assert again == 1


def test_reset() -> None:
    e = Engine(caching=True)
    for name in "ab":
        e.add(Request(name, [1] * 64, 9))
    counts, *_ = e.plan()
    assert e.core.reset() is None, "not while a step is under way"
    e.answer(counts, {name: [4] for name in counts})
    e.add(Request("c", [1] * 64, 9))
    counts, _, fresh, *_ = e.plan()
    assert [f[2] for f in fresh] == [48, 48], "what a has computed, but for the last block: b has waited for it"
    e.answer(counts, {name: [4] for name in counts})
    assert {r.id for r in e.core.reset()} == {"a", "b", "c"}
    assert (e.core.running(), e.core.waiting(), e.core.usage()) == (0, 3, 0)
    counts, _, fresh, *_ = e.plan(budget=1024)
    assert fresh[0][2] == 0, "nothing is known any more"


def test_prefixes_with_different_salts_are_not_shared() -> None:
    for salt, expected in ((5, 0), (0, 48)):
        e = Engine(caching=True)
        e.add(Request("a", [1] * 64, 9))
        e.answer(e.plan()[0], {"a": [4]})
        e.add(Request("b", [1] * 64, 9), salt=salt)
        assert e.plan()[2][0][2] == expected


def test_who_does_not_read_the_cache_computes_all() -> None:
    e = Engine(caching=True)
    e.add(Request("a", [1] * 64, 9))
    e.answer(e.plan()[0], {"a": [4]})
    e.add(Request("b", [1] * 64, 9), caches=False)
    assert e.plan()[2][0][2] == 0


def test_generated_tokens_are_cached() -> None:
    e = Engine(caching=True)
    e.add(Request("a", list(range(16)), 40))
    for step in range(40):
        e.answer(e.plan()[0], {"a": [100 + step]})
    e.add(Request("b", [*range(16), *range(100, 132), 7], 9))
    assert e.plan()[2][0][2] == 48


def test_refusals() -> None:
    e = Engine(max_model_len=100, blocks=4)
    assert e.add(Request("a", [1] * 65, 5)) == "never_fits"
    assert isinstance(e.add(Request("b", [1] * 64, 5)), int)
    with pytest.raises(ValueError, match="must be lists"):
        e.core.submit(Request("c", [1], 5), {}, 0.0) if False else e.add(Request("c", [1], 5), prompt=9)
    with pytest.raises(RuntimeError, match="the most steps are in flight"):
        e.plan()
        e.plan()


def test_an_output_that_does_not_fit_the_step() -> None:
    """Its request ends alone."""
    for outputs, message in (
        ({}, "no token"),
        ({"a": [1, 2]}, "more tokens than it was asked for"),
        ({"a": [-1]}, "which is no token"),
    ):
        e = Engine()
        a, b = Request("a", [1] * 5, 5), Request("b", [2] * 5, 2)
        e.add(a)
        e.add(b)
        for step in range(2):
            counts, *_ = e.plan()
            by_client, _, ended = e.answer(counts, {"b": [3], **outputs})
            assert [(r, message in why) for r, why in e.failed] == ([(a, True)] if step == 0 else [])
            assert [o.request_id for o in by_client[0]] == ["b"]
        assert ended == [b]
        assert (e.core.running(), e.core.waiting(), e.core.live(), e.core.usage()) == (0, 0, 0, 0)
    e = Engine()
    e.add(Request("a", [1] * 5, 5))
    e.plan()
    e.answer({"b": 5}, {"b": [1]})
    assert [why for _, why in e.failed] == ["the runner's output lacks it"]
    assert e.core.live() == 0 and e.core.usage() == 0


def test_wrong_settings() -> None:
    with pytest.raises(ValueError, match="unknown policy best"):
        Engine("best")
    with pytest.raises(ValueError, match="blocks must be at least 1"):
        Engine(blocks=0)


def test_prompts_are_deferred() -> None:
    e = Engine()
    e.add(Request("a", [1] * 20, 50))
    e.answer(e.plan()[0], {"a": [4]})
    e.add(Request("b", [1] * 60, 50))
    counts, *_ = e.plan(chunk=30)
    assert counts == {"a": 1, "b": 30}
    e.answer(counts, {"a": [4]})
    e.add(Request("c", [1] * 60, 50))
    for _ in range(3):  # b's second chunk and c wait
        counts, *_ = e.plan(chunk=30, defer=True)
        assert counts == {"a": 1}
        e.answer(counts, {"a": [4]})
    counts, *_ = e.plan(chunk=30)
    assert counts == {"a": 1, "b": 30, "c": 30}
    e.answer(counts, {"a": [4], "b": [4]})
    # If no request decodes, nothing is gained by waiting.
    e.core.cancel(e.slots["a"])
    e.core.cancel(e.slots["b"])
    assert e.plan(chunk=30, defer=True)[0] == {"c": 30}


def test_nobody_new() -> None:
    e = Engine()
    e.add(Request("a", [1] * 20, 50))
    assert e.plan(admit=False)[0] == {}
    assert not e.core.pending()
    assert e.core.why(e.slots["a"]) == "not_wanted"
    assert e.plan()[0] == {"a": 20}


@pytest.mark.parametrize("policy", _vllm.policies)
@pytest.mark.parametrize("caching", [False, True])
def test_nothing_is_kept(policy: str, caching: bool) -> None:
    """Requests come, go, are cancelled; in the end no reference to any is left."""
    e = Engine(policy, caching=caching, blocks=24)
    rng = random.Random(5)
    alive: list[weakref.ref] = []
    for i in range(400):
        r = Request(str(i), [rng.randrange(9)] * rng.randrange(1, 90), rng.randrange(1, 60))
        alive.append(weakref.ref(r))
        e.add(r, client=i % 3, watched=i % 5 == 0)
        del r
        counts, *_ = step = e.plan()
        del step
        if rng.random() < 0.3 and e.slots:
            name = rng.choice(list(e.slots))
            e.core.cancel(e.slots.pop(name))
            del e.requests[name]
        if counts:
            e.answer(counts, {name: [rng.randrange(9)] for name in counts})
        if i % 100 == 99:
            e.core.reset()
    while e.core.live():
        counts, *_ = e.plan()
        e.answer(counts, {name: [rng.randrange(9)] for name in counts})
    assert e.core.usage() == 0
    e.plan()  # the lists of the step before are let go
    gc.collect()
    assert sum(ref() is not None for ref in alive) == 0
    e.core.close()
    e.core.close()


def test_two_steps_are_under_way() -> None:
    e = Engine(plans_in_flight=2)
    r = Request("a", list(range(40)), 3)
    e.add(r)
    first, *_ = e.plan()
    second, _, _, ids, _, _, _, computed, outputs, *_ = e.plan()
    # The token that the first one samples is known to the runner only.
    assert (second, ids, computed, outputs) == ({"a": 1}, ["a"], [40], [1])
    with pytest.raises(RuntimeError, match="the most steps are in flight"):
        e.plan()
    e.answer(first, {"a": [7]})
    third, _, _, _, _, _, _, computed, outputs, *_ = e.plan()
    assert (third, computed, outputs) == ({"a": 1}, [41], [2])
    # It ends with what is under way, so nothing more is planned for it.
    e.answer(second, {"a": [8]})
    nothing, total, *_ = e.plan()
    assert (nothing, total) == ({}, 0)
    _, _, ended = e.answer(third, {"a": [9]})
    assert ended == [r] and not e.core.pending() and e.core.usage() == 0


def test_a_pipeline() -> None:
    e = Engine(plans_in_flight=2, plans_apart=2, sends_tokens=True)
    e.add(Request("a", list(range(40)), 9))
    first, *_ = e.plan(budget=30)
    assert (first, e.core.new_tokens()) == ({"a": 30}, [])  # the runner is told of all of its prompt when it starts
    second, _, _, ids, _, everything, *_ = e.plan()
    assert (second, ids, e.core.new_tokens(), everything) == ({"a": 10}, ["a"], [list(range(30, 40))], {})
    e.answer(first, {"a": []})
    nothing, *_ = e.plan()
    assert nothing == {}  # its next token is not known
    assert e.core.new_tokens() == [] and not e.core.is_early()
    e.answer(second, {"a": [7]})
    third, *_ = e.plan()
    assert (third, e.core.new_tokens()) == ({"a": 1}, [[7]])
    e.answer(third, {"a": [8]})
    assert e.core.is_early()  # as after a pause: the first stage may lack the token
    e.core.skip()
    assert not e.core.is_early()


def test_an_end_that_is_found_late() -> None:
    e = Engine(plans_in_flight=2)
    e.add(Request("a", list(range(20)), 50, stops=[5]))
    first, *_ = e.plan()
    second, *_ = e.plan()
    _, _, ended = e.answer(first, {"a": [5]})
    assert [r.id for r in ended] == ["a"] and e.core.running() == 0
    assert e.core.usage() > 0  # the step under way writes there
    by_client, looked_at, ended = e.answer(second, {"a": [9]})
    assert (by_client, looked_at, ended) == ({}, [], [])  # in vain
    assert e.core.usage() == 0 and e.core.live() == 0


def tokens_by_tenant(weights: list[int], rounds: int) -> list[int]:
    """Tokens that two tenants get, which always have requests; the first has had a long queue from the beginning."""
    e = Engine("vtc", residents=4, weights=weights)
    for i in range(200):
        e.add(Request(f"0 {i}", [i] * 20, 20), tenant=0)
    for i in range(200):
        e.add(Request(f"1 {i}", [i] * 20, 20), tenant=1)
    got = [0, 0]
    for _ in range(rounds):
        counts, *_ = e.plan()
        by_client, *_ = e.answer(counts, {i: [3] for i in counts})
        for output in by_client[0]:
            got[int(output.request_id[0])] += 1
    return got


@pytest.mark.parametrize("weights", [[1, 1], [1, 3], [4, 1]])
def test_tenants_get_what_they_weigh(weights: list[int]) -> None:
    got = tokens_by_tenant(weights, 400)
    share = got[1] / sum(got)
    assert abs(share - weights[1] / sum(weights)) < 0.08, got


def test_without_tenants_who_came_first_gets_all() -> None:
    e = Engine("fcfs", residents=4)
    for i in range(200):
        e.add(Request(f"{i // 100} {i}", [i] * 20, 20))
    seen = set()
    for _ in range(200):
        counts, *_ = e.plan()
        seen |= {i[0] for i in counts}
        e.answer(counts, {i: [3] for i in counts})
    assert seen == {"0"}


def test_shortest_prefill_is_of_what_the_cache_lacks() -> None:
    e = Engine("shortest_prefill", residents=1, caching=True)
    shared = list(range(160))
    e.add(Request("warm", shared, 1))
    e.answer(e.plan(budget=512)[0], {"warm": [3]})
    e.add(Request("busy", [7] * 10, 2))
    e.plan(budget=512)  # it holds the one place
    e.answer({"busy": 10}, {"busy": [3]})
    e.add(Request("long", [1] * 100, 1))
    e.add(Request("cached", [*shared, 9, 9], 1))
    e.add(Request("short", [2] * 30, 1))
    started = []
    for _ in range(6):
        counts, _, fresh, *_ = e.plan(budget=512)
        started += [f[0].id for f in fresh]
        e.answer(counts, {i: [3] for i in counts})
    assert started == ["cached", "short", "long"]


@pytest.mark.parametrize(
    ("prompt_pace", "order"), [(0.0, ["long", "later", "short"]), (0.1, ["short", "long", "later"])]
)
def test_who_has_a_long_prompt_is_held(prompt_pace: float, order: list[str]) -> None:
    """8 s for 80 tokens more than the mean: then they go by arrival again."""
    e = Engine("due_first", residents=1, prompt_pace=prompt_pace)
    lengths = {"busy": 10, "long": 100, "later": 100, "short": 10, "behind": 10}
    comes = {0: "busy", 1: "long", 2: "later", 5: "short", 12: "behind"}
    started = []
    for now in (0, 1, 2, 5, 10, 12, 14, 16, 18, 20, 22, 24):
        e.now = float(now)
        if (name := comes.get(now)) is not None:
            # The first holds the one place until 16.
            e.add(Request(name, [len(name)] * lengths[name], 8 if name == "busy" else 1))
        counts, _, fresh, *_ = e.plan(budget=512)
        started += [f[0].id for f in fresh]
        e.answer(counts, {i: [3] for i in counts})
    assert started == ["busy", *order, "behind"]


@pytest.mark.parametrize("in_flight", [1, 2])
@pytest.mark.parametrize("second_runner", [False, True])
@pytest.mark.parametrize("policy", ["fcfs", "round_robin"])
def test_a_step_that_goes_on_from_the_latest_is_as_if_made_anew(
    policy: str, second_runner: bool, in_flight: int
) -> None:
    """The dict and the list of a step become the next one's. Another core makes them anew: by its runner's books no
    request was in the step before."""
    rng = random.Random(5)
    options = {"quantum": 20} if policy == "round_robin" else {}
    engines = [
        Engine(
            policy,
            residents=24,
            blocks=60,
            second_runner=second_runner,
            plans_in_flight=in_flight,
            **options,
        )
        for _ in range(2)
    ]
    names = iter(range(10_000))
    seen: list[tuple[list[tuple[str, int]], list[str], dict[str, int], list[str]]] = []
    launched: list[list[tuple[dict[str, int], dict[str, list[int]]]]] = []
    went_on = preempted = chunks = 0
    before: dict[str, int] = {}
    for _ in range(600):
        if rng.random() < 0.4:
            prompt = [rng.randrange(64) for _ in range(rng.randrange(1, 120))]
            most, name = rng.randrange(1, 60), str(next(names))
            for e in engines:
                e.add(Request(name, prompt, most))
        if rng.random() < 0.1 and engines[0].requests:
            name = rng.choice(list(engines[0].requests))
            for e in engines:
                e.core.cancel(e.slots.pop(name))
                del e.requests[name]
        engines[1].core.skip()
        a, b = (e.plan(budget=90, chunk=40) for e in engines)
        assert list(a[0].items()) == list(b[0].items())
        assert (a[1], a[3], a[4], *a[6:10]) == (b[1], b[3], b[4], *b[6:10])
        assert [(f[0].id, *f[1:]) for f in a[2]] == [(f[0].id, *f[1:]) for f in b[2]]
        went_on += set(a[0]) != set(before) and len(set(a[0]) & set(before)) > 4
        preempted += len(a[9])
        chunks += any(count > 1 for count in a[0].values())
        # A caller that keeps those of a step finds them as they were.
        for items, ids, counts, kept in seen:
            assert list(counts.items()) == items and kept == ids
        seen = seen[-2:] if rng.random() < 0.7 else []
        if rng.random() < 0.5:
            seen.append((list(a[0].items()), list(a[3]), a[0], a[3]))
        before = dict(a[0])
        if before:
            tokens = {name: [rng.randrange(64)] for name in before}
            launched.append([(dict(step[0]), tokens) for step in (a, b)])
        del a, b
        # A step in which nothing runs counts as one under way until those before it are settled.
        while launched and (len(launched) == in_flight or not before):
            for e, (counts, tokens) in zip(engines, launched.pop(0), strict=True):
                e.answer(counts, {name: list(got) for name, got in tokens.items()})
    assert went_on > 100 and preempted > 5 and chunks > 50


@pytest.mark.parametrize(("move_pace", "makes_way"), [(0.0, True), (1e-3, True), (0.1, False)])
def test_an_answer_makes_way_for_reasoning_where_that_gains_more_than_the_move_costs(
    move_pace: float, makes_way: bool
) -> None:
    """Both need most of the memory. The reader of 48 tokens at 0.1 s each has enough for 3 s and more."""
    e = Engine("due_first", blocks=12, residents=4, slice=4, margin=0.5, watermark=0.0, move_pace=move_pace)
    e.add(Request("answer", [1] * 64, 100))
    for _ in range(48):
        counts = e.plan(budget=512)[0]
        e.answer(counts, {i: [3] for i in counts})
    # 100 tokens, two requests are here: 0.2 s or 20 s of their time.
    e.add(Request("thought", [2] * 100, 10), reasons=True, end_of_reasoning=9)
    counts, _, fresh, *_, preempted, _ = e.plan(budget=512)
    assert preempted == ({"answer"} if makes_way else set())
    assert [f[0].id for f in fresh] == (["thought"] if makes_way else [])


def test_one_that_goes_costs_as_much_however_many_share_its_prompt() -> None:
    """With KV events the core knows which requests have a block's tokens. Finding one of many that share them must not
    be a search of all."""

    def seconds_of_a_cancel(live: int) -> float:
        e = Engine(caching=True, tells=True, blocks=128)
        prompt = [1] * 480
        for i in range(live):
            e.add(Request(str(i), prompt, 9))
        took = []
        # From all over the queue.
        for i in range(0, live, live // 50):
            begin = time.perf_counter()
            e.core.cancel(e.slots[str(i)])
            took.append(time.perf_counter() - begin)
        e.core.close()
        return median(took)

    few, many = (min(seconds_of_a_cancel(live) for _ in range(3)) for live in (250, 4000))
    assert many < 8 * few


def turn(e: Engine, name: str, prompt: list[int], **hints: Any) -> int:
    """Serves a request of one token of output. How much of its prompt the cache had."""
    e.add(Request(name, prompt, 1), **hints)
    found = None
    while e.requests:
        counts, _, fresh, *_ = e.plan(budget=1024)
        found = fresh[0][2] if fresh else found
        e.answer(counts, {name: [1]})
    return found


@pytest.mark.parametrize("windows", [[0], [0, 0]], ids=["one group", "two groups"])
@pytest.mark.parametrize("tells", [False, True], ids=["", "events"])
@pytest.mark.parametrize("hint", ["keep", "too short", "none", "ended"])
def test_kv_is_kept_as_long_as_its_session_asks(hint: str, tells: bool, windows: list[int]) -> None:
    if tells and len(windows) > 1:
        pytest.skip("no events of several groups")
    e = Engine(caching=True, blocks=32 * len(windows), windows=windows, tells=tells)
    session = [7] * 128
    keep_s = {"keep": 100.0, "too short": 0.001, "none": 0.0, "ended": 100.0}[hint]
    turn(e, "a", session, session=1, keep_s=keep_s)
    if hint == "ended":
        turn(e, "c", session, session=1, is_last_turn=True)
    for i in range(6):  # others pass through, and take what there is
        turn(e, str(i), [200 + i] * 96)
    found = turn(e, "d", session + [9] * 16, session=1)
    assert found == (128 if hint == "keep" else 0)
