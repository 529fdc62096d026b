# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""KV events: a listener knows what the prefix cache has."""

from __future__ import annotations

from typing import Any

import images
import pytest
import stub
import test_stub
from vllm.config import KVEventsConfig
from vllm.distributed.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, EventPublisher
from vllm.distributed.kv_events import EventPublisherFactory as Factory


class Listener(EventPublisher):
    """Keeps what an engine has, by what it publishes."""

    latest: Listener

    def __init__(self, **config: Any) -> None:
        #: By group and name: tokens up to its end, adapter, salt.
        self.blocks: dict[tuple[int, int], tuple[tuple[int, ...], Any, Any]] = {}
        self.ends: dict[int, tuple[tuple[int, ...], Any, Any]] = {}  #: the same of all names that have been told
        self.removed = self.cleared = self.stored = 0
        self.most = 0
        Listener.latest = self

    def publish(self, batch: Any) -> None:
        for event in batch.events:
            if isinstance(event, BlockStored):
                self._store(event)
            elif isinstance(event, BlockRemoved):
                assert event.medium == "GPU"
                for name in event.block_hashes:
                    del self.blocks[event.group_idx, name]  # it was told of
                    self.removed += 1
            else:
                assert isinstance(event, AllBlocksCleared)
                self.blocks.clear()
                self.cleared += 1

    def _store(self, event: Any) -> None:
        assert event.block_size == stub.block_size and event.medium == "GPU"
        assert len(event.token_ids) == len(event.block_hashes) * stub.block_size
        if getattr(event, "lookahead_token_ids", None) is not None:
            assert [len(tokens) for tokens in event.lookahead_token_ids] == [1] * len(event.block_hashes)
        before: tuple[int, ...] = ()
        salt = None
        if event.parent_block_hash is not None:
            before, adapter, salt = self.ends[event.parent_block_hash]
            assert adapter == event.lora_name
            looks_at_all = event.kv_cache_spec_kind == "full_attention"
            assert not looks_at_all or (event.group_idx, event.parent_block_hash) in self.blocks
        elif event.extra_keys is not None:
            assert len(event.extra_keys) == len(event.block_hashes)
            salt = (event.extra_keys[0] or ())[event.lora_name is not None :] or None
        for i, name in enumerate(event.block_hashes):
            assert (event.group_idx, name) not in self.blocks, "it is told twice"
            before += tuple(event.token_ids[i * stub.block_size : (i + 1) * stub.block_size])
            self.blocks[event.group_idx, name] = self.ends[name] = (before, event.lora_name, salt)
            self.stored += 1
        self.most = max(self.most, len(self.blocks))

    def known(self) -> set[tuple[tuple[int, ...], Any, Any]]:
        return set(self.blocks.values())

    def match(self, prompt: list[int], adapter: str | None, salt: str | None, windows: tuple[int, ...]) -> int:
        """Tokens of a prompt that the engine has, in all groups."""
        size, name = stub.block_size, None if salt is None else (salt,)
        has = [{text for (g, _), text in self.blocks.items() if g == group} for group in range(len(windows))]
        known = [
            [(tuple(prompt[:end]), adapter, name) in of for end in range(size, len(prompt) + 1, size)] for of in has
        ]
        for n in range(len(prompt) // size, 0, -1):
            if all(all(known[g][first_needed(w, n * size) : n]) for g, w in enumerate(windows)):
                return n * size
        return 0

    def shutdown(self) -> None:
        pass


def first_needed(window: int, n: int) -> int:
    """The first block that is needed to go on after `n` tokens."""
    if window == stub.an_aligned:
        return n // stub.block_size - 1
    if window < 0:
        return n // -window * -window // stub.block_size
    return max(n - window + 1, 0) // stub.block_size if window else 0


@pytest.fixture(autouse=True)
def listener_instead_of_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Factory._registry, "zmq", Listener)


def listened(made: Any) -> Any:
    made.kv_events_config = KVEventsConfig(enable_kv_cache_events=True, publisher="zmq")
    return made


class Watched(stub.Runner):
    """Asks of each request that starts whether what was found for it had been told of."""

    hits = 0
    exact = True

    def run(self, step: Any) -> Any:
        listener = Listener.latest
        for new in step.scheduled_new_reqs:
            if new.num_computed_tokens:
                _, _, _, _, salt = self.arrivals[new.req_id]
                lora = None if new.lora_request is None else new.lora_request.name
                tokens = new.prefill_token_ids if self.second else new.prompt_token_ids
                told = listener.match(tokens, lora, salt, self.windows or (0,))
                assert new.num_computed_tokens <= told
                self.hits += 1
                # The last token of a prompt is computed anew.
                if self.exact and not step.preempted_req_ids:
                    most = (len(tokens) - 1) // stub.block_size * stub.block_size
                    assert new.num_computed_tokens == min(told, most)
        return super().run(step)


kinds = {
    "a window": (40,),
    "a window and all": (40, 0),
    "chunks and all, four groups": (-48, -48, -48, 0),
    "all and a state": (0, stub.an_aligned),
}


@pytest.mark.parametrize("in_flight", [1, 2])
@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@pytest.mark.parametrize("kind", kinds)
def test_groups(kind: str, troubled: bool, in_flight: int) -> None:
    windows = kinds[kind]
    load = stub.Load(seed=3)
    made = listened(stub.config(tessera={"policy": "fcfs"}, async_scheduling=in_flight == 2))
    blocks = 60 * len(windows)
    s = stub.scheduler(stub.Scheduler, made, blocks=blocks, kv=stub.memory(blocks, windows), include_finished_set=True)
    assert type(s) is stub.Scheduler
    listener = Listener.latest
    runner = Watched(blocks, windows=windows, zeroes=stub.an_aligned in windows)
    runner.exact = False
    runner.arrivals = {r[0]: r for r in load.requests()}
    test_stub.check(test_stub.drive(s, runner, load, troubled, in_flight), load)
    assert runner.hits > 0 and listener.stored > 100 and listener.removed > 50
    assert {group for group, _ in listener.blocks} <= set(range(len(windows))) and listener.most < blocks


@pytest.mark.parametrize("windows", [(0,), (40, 0)], ids=["one group", "two groups"])
def test_names_that_cover_the_token_behind_a_block(windows: tuple[int, ...]) -> None:
    load = stub.Load(seed=3)
    blocks = 70 * len(windows)
    made = listened(stub.config(tessera={}, drafts=3, drafter="eagle"))
    s = stub.scheduler(stub.Scheduler, made, blocks=blocks, kv=stub.memory(blocks, windows), include_finished_set=True)
    assert type(s) is stub.Scheduler
    runner = Watched(blocks, windows=windows, drafts=3, drafter="eagle")
    runner.exact = False
    runner.arrivals = {r[0]: r for r in load.requests()}
    test_stub.check(test_stub.drive(s, runner, load, True, 1), load)
    assert runner.hits > 0 and Listener.latest.stored > 100


def test_images_are_told_as_vllm_tells_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Factory._registry, "zmq", Kept)
    load = images.Load(seed=4, count=20)
    told = []
    for cls, tessera in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        made = listened(images.config(tessera=tessera))
        s = stub.scheduler(cls, made, blocks=4000, include_finished_set=True)
        assert type(s) is cls
        runner = images.Runner(4000)
        for arrival in load.requests():
            s.add_request(load.request(arrival))
            while s.has_requests():
                step = s.schedule()
                s.update_from_output(step, runner.run(step))
        told.append(Kept.latest.told)
    # vLLM tells of a block when it is planned, and we when it has been run: the last of a request may be missing.
    assert set(told[1]) <= set(told[0]) and len(told[0]) - len(told[1]) <= load.count
    assert any(block[3] for block in told[1])


@pytest.mark.parametrize("adapters", [0, 2], ids=["", "adapters"])
@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@pytest.mark.parametrize("policy", ["fcfs", "pascal", "vtc"])
def test_what_is_told_is_what_is_found(policy: str, troubled: bool, adapters: int) -> None:
    load = stub.Load(seed=2, tenants=policy == "vtc", adapters=adapters)
    made = listened(stub.config(tessera={"policy": policy}, adapters=adapters))
    s = stub.scheduler(stub.Scheduler, made, blocks=60, include_finished_set=True)
    assert type(s) is stub.Scheduler
    listener = Listener.latest
    runner = Watched(60, adapters=adapters)
    runner.exact = False
    runner.arrivals = {r[0]: r for r in load.requests()}
    test_stub.check(test_stub.drive(s, runner, load, troubled, 1), load)
    assert runner.hits > 0 and listener.stored > 100 and listener.removed > 100
    assert bool(listener.cleared) == troubled
    assert listener.most <= 59


def test_with_room_all_that_is_told_is_found_and_it_is_what_vllm_tells() -> None:
    load = stub.Load(seed=4)
    known = []
    for cls, tessera in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        s = stub.scheduler(cls, listened(stub.config(tessera=tessera)), blocks=4000, include_finished_set=True)
        listener = Listener.latest
        runner = Watched(4000)
        runner.exact = tessera is not None
        runner.arrivals = {r[0]: r for r in load.requests()}
        test_stub.check(test_stub.drive(s, runner, load, False, 1), load)
        assert runner.hits > 10 and not listener.removed
        known.append({tokens for tokens, _, _ in listener.known()})
        assert len(known[-1]) > 500
    # vLLM publishes a block when it is planned, we when it has been run: the last of a request may be missing.
    assert known[1] <= known[0]
    assert len(known[0] - known[1]) <= load.count


@pytest.mark.parametrize("second", [False, True], ids=["first runner", "second runner"])
def test_two_steps_in_flight(second: bool) -> None:
    load = stub.Load(seed=6)
    made = listened(stub.config(tessera={}, second=second, async_scheduling=True))
    s = stub.scheduler(stub.Scheduler, made, blocks=60, include_finished_set=True)
    runner = Watched(60, second)
    runner.exact = False
    runner.arrivals = {r[0]: r for r in load.requests()}
    test_stub.check(test_stub.drive(s, runner, load, True, 2), load)
    assert runner.hits > 3 and Listener.latest.removed > 100


class Kept(EventPublisher):
    """Keeps what is published, with names by number in the order in which they come."""

    latest: Kept

    def __init__(self, **config: Any) -> None:
        self.names: dict[Any, int] = {}
        self.told: list[Any] = []
        Kept.latest = self

    def _name(self, name: Any) -> Any:
        return None if name is None else self.names.setdefault(name, len(self.names))

    def publish(self, batch: Any) -> None:
        for event in batch.events:
            if not isinstance(event, BlockStored):
                self.told.append(type(event).__name__)
                continue
            # Block by block: how many are told of together does not matter.
            parent = self._name(event.parent_block_hash)
            for i, name in enumerate(event.block_hashes):
                tokens = tuple(event.token_ids[i * event.block_size : (i + 1) * event.block_size])
                keys = event.extra_keys and event.extra_keys[i]
                rest = (event.block_size, event.lora_id, event.lora_name, event.medium, event.group_idx)
                kind = (event.kv_cache_spec_kind, event.kv_cache_spec_sliding_window)
                self.told.append((self._name(name), parent, tokens, keys, *rest, *kind, event.session_id))
                parent = self._name(name)

    def shutdown(self) -> None:
        pass


@pytest.mark.parametrize("windows", [(0,), (40,), (40, 0), (0, 24)], ids=str)
@pytest.mark.parametrize("latent", [False, True], ids=["", "latent"])
def test_each_is_told_as_vllm_tells_it(monkeypatch: pytest.MonkeyPatch, latent: bool, windows: tuple[int, ...]) -> None:
    """One request after the other: salts, adapters, sessions, and such that want to hear what was there already."""
    monkeypatch.setitem(Factory._registry, "zmq", Kept)
    shared = [*range(3, 51)]
    asked = []
    for i in range(16):
        params = stub.SamplingParams(
            temperature=0, max_tokens=1, extra_args={"kv_cache_report_mode": "full"} if i % 3 else {}
        )
        prompt = shared[: 16 * (i % 4)] + [*range(5 + i, 40 + 2 * i)]
        asked.append((str(i), prompt, params, 0, [None, "salt"][i % 5 == 1], [0, 0, 1, 2][i % 4], f"session {i % 2}"))
    told = []
    for cls, tessera in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        kv = stub.memory(4000, windows, latent=latent)
        s = stub.scheduler(cls, listened(stub.config(tessera=tessera, adapters=2)), blocks=4000, kv=kv)
        runner = stub.Runner(4000, adapters=2, windows=windows)
        for *one, session in asked:
            s.add_request(stub.request(*one, session_id=session))
            while s.has_requests():
                step = s.schedule()
                s.update_from_output(step, runner.run(step))
        assert s.reset_prefix_cache()
        s.add_request(stub.request("last", shared, asked[0][2]))
        step = s.schedule()
        s.update_from_output(step, runner.run(step))
        told.append(Kept.latest.told)
    assert told[1] == told[0]
    assert "AllBlocksCleared" in told[1] and len(told[1]) > 40


def test_the_session_is_that_of_who_has_computed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Factory._registry, "zmq", Kept)
    for waiting_first in (False, True):
        s = stub.scheduler(
            stub.Scheduler, listened(stub.config(tessera={"policy": "priority"}, max_num_seqs=1)), blocks=60
        )
        runner = stub.Runner(60)
        params = stub.SamplingParams(temperature=0, max_tokens=40)
        for priority, name in sorted([(0, "runs"), (1, "waits")], reverse=waiting_first):
            s.add_request(stub.request(name, [*range(3, 43)], params, priority, session_id=name))
        for _ in range(30):
            step = s.schedule()
            s.update_from_output(step, runner.run(step))
        assert len(Kept.latest.told) == 4 and {block[-1] for block in Kept.latest.told} == {"runs"}


def test_nobody_listens_where_nothing_is_cached() -> None:
    made = listened(stub.config(tessera={}, caching=False))
    s = stub.scheduler(stub.Scheduler, made, blocks=60)
    assert type(s) is stub.Scheduler and s.events is None and s.get_kv_event_publisher_config() is None
