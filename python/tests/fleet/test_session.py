# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The front end before engines that do not fail, in virtual time: where requests go, and how they move."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from fake_engine import FakeEngine, answer
from fake_fleet import Fleet, prompt, until, virtual

from tessera import fleet
from tessera.fleet import Call, Event, Load, Refused, Report, Router, Session


@pytest.mark.parametrize("policy", fleet.policies)
@virtual
async def test_streams_are_whole_under_every_policy(policy: str) -> None:
    f = Fleet(3, policy)
    sessions = await asyncio.gather(*[f.client(i, 20 + 5 * i, 10 + i) for i in range(60)])
    assert not any(s.failures for s in sessions)
    assert all(e.calls > 5 for e in f.engines)
    await f.settle()


@virtual
async def test_requests_move_from_where_memory_is_tight() -> None:
    f = Fleet(2, tight=60, engine={"blocks": 160})
    f.router.drain("e1")
    running = [asyncio.ensure_future(f.client(i, 200, 200)) for i in range(8)]
    await until(lambda: f.engines[0].live == 8)
    f.router.gone("e1")
    f.engines[1].life = 2
    f.join(f.engines[1])
    sessions = await asyncio.gather(*running)
    assert sum(s.moves for s in sessions) >= 2
    # Their KV came with them.
    assert f.engines[1].computed_tokens < 200
    await f.settle()


@virtual
async def test_pascal_moves_at_the_end_of_reasoning() -> None:
    f = Fleet(2, "pascal")
    # Ends of reasoning are where they are; a request that answers goes where few reason.
    ends = [answer(prompt(i, 80), 120)[30] for i in range(12)]
    sessions = await asyncio.gather(*[f.client(i, 80, 120, end_of_reasoning=ends[i]) for i in range(12)])
    assert sum(s.moves for s in sessions) >= 1
    assert not any(s.failures for s in sessions)
    await f.settle()


@virtual
async def test_prompts_are_computed_in_one_pool_and_answers_in_the_other() -> None:
    f = Fleet(0)
    roles = ["prefill", "decode", "decode", "mixed"]
    for role in roles:
        e = f.start_as(role)
        assert f.router.entry(e.name).role == f.router.book.view(f.router.entry(e.name).number)["role"] == role
    f.router.drain("e3")
    sessions = []
    for i in range(0, 20, 5):
        sessions += await asyncio.gather(*[f.client(k, 60 + 7 * k, 60) for k in range(i, i + 5)])
    # Each has moved once, with its KV, right after its first token.
    assert [s.moves for s in sessions] == [1] * 20 and not any(s.moves_failed for s in sessions)
    assert f.engines[0].computed_tokens >= sum(60 + 7 * i for i in range(20))
    assert sum(e.computed_tokens for e in f.engines[1:]) < 20 * 16
    assert f.engines[1].calls >= 5 and f.engines[2].calls >= 5 and f.engines[3].calls == 0
    # One that samples stays; without the prefill pool the others do both.
    stays = await f.client(30, 100, 30, movable=False)
    assert stays.moves == 0
    f.router.gone("e0")
    sessions = await asyncio.gather(*[f.client(40 + i, 100, 20) for i in range(4)])
    assert not any(s.moves for s in sessions)
    await f.settle()


def test_phi_time_prefers_those_with_room_for_the_prompt() -> None:
    draw = random.Random(4)
    for _ in range(300):
        n = 2 + draw.randrange(5)
        book = fleet.Runtime("phi-time", replicas=n, block_size=16)
        for i in range(n):
            book.handle(Event("joined", 0.0, replica=i, number=1, capacity=100, beta=1, peak_flops=1000.0, ttft_s=1))
            held = draw.randrange(101)
            load = Load(requests=1 + i, kv_held=held, prefill=float(draw.randrange(4000)))
            assert book.reported(i, 1, 1, load, 0.0, own=Load(), free=100 - held) == ("taken", [])
        prompt = 1 + draw.randrange(900)
        views = [book.view(i) for i in range(n)]

        def order(i: int, views: list[Any] = views, prompt: int = prompt) -> tuple[bool, float, int]:
            return views[i]["free_blocks"] < -(-prompt // 16), -views[i]["time_phi"], views[i]["requests"]

        best = sorted(range(n), key=order)
        for k in range(n):
            # The best, and then the best of those that are left.
            (place,) = book.arrived(k, prompt, 0.0, excluded=best[:k])
            assert place.replica == best[k]
            book.handle(Event("ended", 0.0, request=k))


def starved(a: float, b: float) -> bool:
    """Phasor's rule, as the controller's documentation has it for what is below 0."""
    return a < (0.62 * b if b >= 0 else b / 0.62)


@virtual
async def test_roles_follow_what_the_pools_have_left() -> None:
    f = Fleet(0, "phi_time", epoch=0.25, cooldown=20, engine={"budget": 128, "seqs": 64, "blocks": 1000})
    for role in ("prefill", "decode"):
        f.start_as(role)
    for _ in range(2):
        f.start_as("mixed", elastic=True, become=0.1)
    book = f.router.book
    why: list[tuple[str, str, bool, bool]] = []

    class Watched:
        """The runtime, which says what the pools had left whenever a role is to change."""

        def __getattr__(self, name: str) -> Any:
            return getattr(book, name)

        def __len__(self) -> int:
            return len(book)

        def handle(self, event: Event) -> list[Any]:
            views = [book.view(n) for n in range(4)]
            actions = book.handle(event)
            for a in actions:
                if a.kind != "set_role":
                    continue
                prefill = [v["time_phi"] for v in views if v["role"] == "prefill"]
                decode = [v["phi"] for v in views if v["role"] == "decode"]
                means = sum(prefill) / len(prefill), sum(decode) / len(decode)
                why.append((views[a.replica]["role"], a.role, starved(*means), starved(*reversed(means))))
                assert a.replica in (2, 3)
            return actions

    f.router.book = Watched()  # type: ignore[assignment]
    # Long prompts and short answers, for a prefill pool of one; then the other way round.
    sessions = await asyncio.gather(*[f.client(i, 800, 6) for i in range(40)])
    first = [*f.router.changes]
    assert first and first[0][1:] == ("mixed", "prefill") and {r for _, _, r in first} <= {"mixed", "prefill"}
    assert not any(s.failures for s in sessions)
    for i in range(24):
        f.session(100 + i, 20, 400)
    streams = [asyncio.ensure_future(f.read(s)) for s in f.sessions[-24:]]
    await asyncio.gather(*streams)
    later = [*f.router.changes][len(first) :]
    assert any(after == "decode" for _, _, after in later), later
    await asyncio.sleep(5)
    # No pool lacks anything now: both are back.
    assert [f.router.entry(f"e{i}").role for i in range(4)] == ["prefill", "decode", "mixed", "mixed"]
    for before, after, prefill_starved, decode_starved in why:
        assert {"prefill": prefill_starved, "decode": decode_starved}.get(
            after, not (prefill_starved or decode_starved)
        ), (
            before,
            after,
        )
    assert len(why) == len(f.router.changes) >= 4
    await f.settle()


@virtual
async def test_a_replica_that_changes_its_role_gets_nothing_until_it_has_it() -> None:
    f = Fleet(0, "phi_time", epoch=0.05, cooldown=1000)
    f.start_as("prefill")
    f.start_as("decode")
    slow = f.start_as("mixed", elastic=True, become=3.0)
    f.router.gone("e0")
    # Both pools have had a replica; prefill has none now, and gets the one that it can have.
    await asyncio.sleep(0.5)
    assert f.router.book.view(2)["role"] == "prefill" and f.router.entry("e2").role == "mixed"
    before = slow.calls
    await f.client(1, 100, 5)
    assert slow.calls == before
    await asyncio.sleep(4)
    assert [*f.router.changes] == [("e2", "mixed", "prefill")]
    s = await f.client(2, 100, 30)
    assert slow.calls > before and s.moves == 1
    # It dies while it changes: the request that waits for it finds it gone.
    f.router.gone("e2")
    await f.client(3, 100, 5)
    await f.settle()


@virtual
async def test_epochs_are_as_long_as_they_are_said_to_be() -> None:
    f = Fleet(0, epoch=0.05, period=None)
    e = f.start()
    reports = e.report
    told: list[float] = []

    async def report() -> Report:
        told.append(f.router.now())
        return await reports()

    e.report = report  # type: ignore[method-assign]
    decided: list[float] = []
    book = f.router.book

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(book, name)

        def __len__(self) -> int:
            return len(book)

        def handle(self, event: Event) -> list[Any]:
            wakes = book.next_wake
            if wakes is not None and wakes <= event.at:
                decided.append(event.at)
            return book.handle(event)

    f.router.book = Watched()  # type: ignore[assignment]
    f.running = [asyncio.ensure_future(f.router.run())]
    await asyncio.sleep(10)
    assert 199 <= len(decided) <= 201 and 20 <= len(told) <= 21
    await f.settle()


def test_roles_that_make_no_sense_are_refused() -> None:
    router = Router("least_load")
    e: Any = object()
    with pytest.raises(ValueError, match="role is one of mixed, prefill, decode, not 'both'"):
        router.add("e", e, 100, role="both", prefill_budget=1.0, now=0.0)
    with pytest.raises(ValueError, match="prefill_budget must be above 0"):
        router.add("e", e, 100, role="prefill", now=0.0)
    with pytest.raises(ValueError, match="prefill_budget must be above 0"):
        Router("phi_time").add("e", e, 100, now=0.0)
    with pytest.raises(ValueError, match="theta is above 0 and at most 1"):
        Router("least_load", theta=0.0)
    with pytest.raises(ValueError, match="cooldown is from 0"):
        Router("least_load", cooldown=-1)
    with pytest.raises(ValueError, match="cascade goes by lengths"):
        Router("cascade").add("e", e, 100, prefill_budget=10.0, role="prefill", now=0.0)
    with pytest.raises(ValueError, match="epoch is seconds"):
        Router(epoch=-1.0)
    with pytest.raises(ValueError, match="can is of moves, .*, not flies"):
        router.add("e", e, 100, can=["flies"], now=0.0)
    with pytest.raises(ValueError, match="capacity is a number of KV blocks from 1"):
        router.add("e", e, 0, now=0.0)
    with pytest.raises(ValueError, match="policy is one of shortest_queue"):
        Router("fastest")
    with pytest.raises(ValueError, match="expected one of least-load"):
        Router(controller="fastest")
    with pytest.raises(ValueError, match="a policy or a controller"):
        Router("phi", controller="phi")
    assert router.names() == [] and router.add("e", e, 100, now=0.0)


@virtual
async def test_cascade_moves_who_outgrows_its_stage() -> None:
    f = Fleet(0, "cascade")
    for lengths in ((0, 8), (8, 1000)):
        e = FakeEngine(f"e{len(f.engines)}", peers=f.peers, **f.options)
        f.engines.append(e)
        f.router.add(e.name, e, e.blocks, lengths=lengths)
    sessions = await asyncio.gather(*[f.client(i, 60 + i, 150) for i in range(10)])
    assert all(s.moves == 1 for s in sessions)
    came = f.engines[1].calls
    assert 10 <= came <= 20  # some have caught up
    long = await f.client(99, 300, 10)
    assert long.moves == 0 and f.engines[1].calls == came + 1
    await f.settle()


@virtual
async def test_prefix_affinity_is_fed_by_kv_events() -> None:
    f = Fleet(4, "prefix_affinity", bound=4.0)
    families = [prompt(k, 160) for k in range(4)]
    for k, family in enumerate(families):
        async for _ in f.router.stream(family, 2, {"ignore_eos": True}):
            pass
        await asyncio.sleep(0.6)  # the events come with the reports
        assert max(f.router.prefixes.match(family)) == 160, k
    where: list[set[str | None]] = [set() for _ in families]
    draw = random.Random(1)
    for _ in range(40):
        k = draw.randrange(4)
        s = f.router.stream([*families[k], *prompt(draw.randrange(10**6), 20)], 3, {"ignore_eos": True})
        async for piece in s:
            assert piece.cached >= 160
            where[k].add(s.replica or None)
    assert all(len(w - {None}) == 1 for w in where)
    await f.settle()


@virtual
async def test_engines_that_tell_several_tokens_at_a_time() -> None:
    f = Fleet(3, tight=370, rest=0.2, period=0.02, engine={"stream_interval": 7})
    running = [asyncio.ensure_future(f.client(i, 100, 100)) for i in range(60)]
    await asyncio.sleep(0.4)
    f.engines[0].kill()
    sessions = await asyncio.gather(*running)
    assert sum(s.moves for s in sessions) > 0 and sum(len(s.failures) for s in sessions) > 0
    await f.settle()


@virtual
async def test_who_samples_is_not_moved() -> None:
    f = Fleet(2, tight=399)
    s = await f.client(1, 100, 100, movable=False)
    assert s.moves == s.moves_failed == 0
    await f.settle()


# -- the pause of a move


class Late:
    """An engine that answers a request for tokens that another has, without KV, after `late` seconds, or refuses it."""

    def __init__(self, engine: FakeEngine, late: float | None) -> None:
        self.engine, self.late, self.report, self.catch_ups = engine, late, engine.report, 0

    async def stream(self, call: Call) -> Any:
        if call.at > 0 and call.kv is None and not call.export:
            self.catch_ups += 1
            if self.late is None:
                raise Refused("no second request here")
            await asyncio.sleep(self.late)
        async for piece in self.engine.stream(call):
            yield piece


async def pause_of_a_move(late: float | None = 0.0, **engine: Any) -> tuple[float, Session, list[Late]]:
    """The longest time between two tokens of a request that moves, in steps."""
    f = Fleet(0, moves="cascade", rest=0.0, engine={"step": 0.01, "per_sequence": 0.0, **engine})
    replicas = []
    for i in range(2):
        f.engines.append(FakeEngine(f"e{i}", peers=f.peers, **f.options))
        replicas.append(Late(f.engines[-1], late))
        f.router.add(f"e{i}", replicas[-1], f.engines[-1].blocks)
    s = f.session(1, 500, 150)
    times: list[float] = []
    got: list[int] = []
    async for piece in s:
        got += piece.tokens
        times += [f.router.now()] * len(piece.tokens)
        if len(times) == 20:
            # It has outgrown where it is.
            f.router.serves(s.replica, 0, 1)
    assert got == answer(s.prompt, 150)
    await f.settle()
    return max(b - a for a, b in zip(times, times[1:], strict=False)) / 0.01, s, replicas


@pytest.mark.parametrize("transfer", [0, 5, 20, 50])
@virtual
async def test_the_pause_of_a_move_is_a_few_steps_however_long_its_transfer_takes(transfer: int) -> None:
    pause, s, replicas = await pause_of_a_move(per_fetched_token=transfer * 0.01 / 520)
    assert (s.moves, s.moves_failed, s.failures) == (1, 0, [])
    assert pause <= 3.5
    assert sum(r.catch_ups for r in replicas) == 1
    # All that is computed anew is what the source said meanwhile, and its last block.
    assert replicas[1].engine.computed_tokens <= transfer + 5 + 16


@pytest.mark.parametrize("late", [0.5, None])
@virtual
async def test_a_target_that_cannot_leap_goes_on_where_it_is_or_not_at_all(late: float | None) -> None:
    pause, s, replicas = await pause_of_a_move(late, per_fetched_token=20 * 0.01 / 520)
    # It is as far behind as the transfer took; refused, it stays, each time.
    assert s.moves == (late is not None) and s.failures == []
    assert s.moves_failed >= sum(r.catch_ups for r in replicas) >= 1 if late is None else s.moves_failed == 0
    assert pause <= 1.5 if late is None else 15 <= pause <= 30


@virtual
async def test_engines_that_share_no_kv_are_not_asked_to_leap() -> None:
    pause, s, replicas = await pause_of_a_move(per_fetched_token=20 * 0.01 / 520, cache_blocks=0)
    assert s.moves == 1 and sum(r.catch_ups for r in replicas) == 0 and pause >= 15
