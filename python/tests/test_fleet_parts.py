# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What tessera.fleet has besides its book: stitched streams, retries, transfers of KV, prefixes."""

from __future__ import annotations

import random

import pytest

from tessera import fleet


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
