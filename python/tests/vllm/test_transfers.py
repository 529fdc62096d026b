# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""KV between engines: one computes the prompts, another one goes on with them."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from typing import Any

import connector
import pytest
import stub
from pair import Pair, engine
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.engine import FinishReason
from vllm.v1.outputs import KVConnectorOutput

policies = ["fcfs", "pars", "pascal", "due_first"]
flights = pytest.mark.parametrize("in_flight", [1, 2], ids=["", "two in flight"])


@flights
@pytest.mark.parametrize("aborts", [False, True], ids=["calm", "aborts"])
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("policy", policies)
def test_tokens(policy: str, caching: bool, aborts: bool, in_flight: int) -> None:
    tessera = {"policy": policy, **({"quantum": 16} if policy == "pascal" else {})}
    pair = Pair(policies.index(policy), tessera, caching=caching, in_flight=in_flight)
    assert all(type(s) is stub.Scheduler for s, _ in pair.engines.values())
    pair.serve(stub.Load(seed=policies.index(policy), count=150), aborts, forgets=0.1)
    # Else it proves less than it says.
    assert pair.workers["D"].pulled > 100
    assert pair.preempted > 0 and (pair.overlapped > 100 or in_flight == 1)
    assert bool(pair.aborted) == aborts
    assert not caching or pair.cached > 0


@flights
@pytest.mark.parametrize("second", [False, True], ids=["first runner", "second runner"])
@pytest.mark.parametrize("policy", ["fcfs", "pars"])
def test_more_kv_comes_than_the_runner_has_places(policy: str, second: bool, in_flight: int) -> None:
    """A request with KV that has come waits for a place, with blocks that running requests may lack."""
    for seed, (places, blocks) in enumerate([(3, 60), (3, 30), (1, 60), (1, 26)]):
        pair = Pair(seed, {"policy": policy}, blocks, second=second, max_num_seqs=places, in_flight=in_flight)
        pair.serve(stub.Load(seed=seed, count=60), aborts=seed % 2 == 1)
        assert pair.workers["D"].pulled > 40


@flights
def test_beside_vllm(in_flight: int) -> None:
    """The connector is one that vLLM's own scheduler gets along with, and both say the same."""
    pairs = [Pair(7, tessera, in_flight=in_flight) for tessera in (None, {})]
    for pair in pairs:
        pair.serve(stub.Load(seed=7, count=90), aborts=False)
        assert pair.workers["D"].pulled > 100
    assert pairs[0].got == pairs[1].got
    assert pairs[0].reasons == pairs[1].reasons


@flights
@pytest.mark.parametrize("policy", ["recompute", "fail"])
@pytest.mark.parametrize("seed", range(3))
def test_kv_that_does_not_come(seed: int, policy: str, in_flight: int) -> None:
    pair = Pair(seed, {}, failing=0.3, policy=policy, in_flight=in_flight)
    pair.serve(stub.Load(seed=seed, count=90), aborts=seed == 2)
    assert pair.workers["D"].failed > 3
    failed = [name for name, reason in pair.reasons.items() if reason == FinishReason.ERROR]
    assert bool(failed) == (policy == "fail")


def test_a_wrong_block_is_seen() -> None:
    """The check can fail: a block is pulled from the wrong place, once."""
    pair = Pair(5, {})
    worker = pair.workers["D"]
    copy, wrong = worker._copy, []

    def with_a_wrong_block(groups: list[list[int]], params: dict[str, Any], invalid: set[int]) -> None:
        copy(groups, params, invalid)
        (local,) = groups
        if not wrong and len(local) > 1:
            worker.runner.kv[local[0]] = list(worker.runner.kv[local[1]])
            wrong.append(local[0])

    worker._copy = with_a_wrong_block
    with pytest.raises(AssertionError):
        pair.serve(stub.Load(seed=5, count=40), aborts=False)
    assert wrong


def test_it_is_not_reset_while_kv_is_moved() -> None:
    pair = Pair(1, {})
    s, worker = pair.engines["P"]
    pair.aborts = False
    pair.add("P", "a", [5] * 40, stub.SamplingParams(temperature=0, max_tokens=1), {"do_remote_decode": True})
    pair.step("P")
    assert not s.requests and s.has_requests() and s.get_kv_cache_usage() > 0
    assert not s.reset_prefix_cache()
    pair.step("P")
    worker.expire("a")
    pair.step("P")
    assert not s.has_requests() and s.get_kv_cache_usage() == 0
    assert s.reset_prefix_cache()


class Two:
    """One engine that computes and one that goes on, step by step; vLLM's own, or ours."""

    def __init__(self, theirs: bool, blocks: int = 60, **more: Any) -> None:
        workers: dict[str, connector.Worker] = {}
        cls = stub.OwnScheduler if theirs else stub.Scheduler
        self.sides = {}
        for name in ("P", "D"):
            made = engine(name, None if theirs else {}, **more)
            s = stub.scheduler(cls, made, blocks, log_stats=True)
            assert type(s) is cls
            self.sides[name] = (s, connector.Worker(name, stub.Runner(blocks), workers, 1))

    def add(self, name: str, request_id: str, prompt: list[int], transfer: Any = None, **params: Any) -> Any:
        params = {"temperature": 0, "max_tokens": 1 if name == "P" else 5} | params
        r = stub.request(request_id, prompt, stub.SamplingParams(**params))
        r.kv_transfer_params = transfer
        self.sides[name][0].add_request(r)
        return r

    def step(self, name: str) -> tuple[Any, Any, list[Any]]:
        """What was planned, the stats and the outputs."""
        s, worker = self.sides[name]
        plan = s.schedule()
        (outputs,) = s.update_from_output(plan, worker.run(plan)).values()
        return plan, outputs.scheduler_stats, outputs.outputs

    def computed(self, request_id: str, prompt: list[int]) -> dict[str, Any]:
        """P computes a prompt; what a peer must know of it."""
        self.add("P", request_id, prompt, {"do_remote_decode": True})
        while True:
            for o in self.step("P")[2]:
                assert o.request_id == request_id and o.kv_transfer_params
                self.step("P")  # its worker hears of it
                return o.kv_transfer_params


def beside_each_other(**more: Any) -> list[Two]:
    return [Two(True, **more), Two(False, **more)]


def test_the_stats_are_those_of_vllm() -> None:
    """Four prompts: one comes, one has its beginning there, one is there as a whole, and one has no peer."""
    shared = [7] * 48
    prompts = {
        "a": [*shared, *range(3, 30)],
        "b": [*shared, *range(30, 62)],
        "c": [*shared, *range(3, 30)],
        "d": [9] * 20,
    }
    told: list[list[Any]] = []
    for two in beside_each_other():
        mine = []
        for request_id, prompt in prompts.items():
            transfer = None if request_id == "d" else two.computed(request_id, prompt)
            if transfer is not None:
                mine.append(transfer["remote_prefill_cached_tokens"])
            two.add("D", request_id, prompt, transfer)
            ended = False
            while not ended:
                _, stats, outputs = two.step("D")
                # After KV has come, vLLM takes its request for waiting until the next step, and counts what it found
                # before.
                mine += [o.prefill_stats for o in outputs if o.prefill_stats is not None]
                for found in (stats.prefix_cache_stats, stats.connector_prefix_cache_stats):
                    if found.requests:
                        mine.append(found)
                stages = stats.num_kv_fetch_reqs_by_stage
                mine.append((stats.num_waiting_reqs, stats.num_running_reqs, stats.num_skipped_waiting_reqs, stages))
                ended = any(o.finish_reason is not None for o in outputs)
        told.append(sorted(map(repr, mine)))
    assert told[1] == told[0]
    assert "hits_by_source" in repr(told) and "'in_progress': 1" in repr(told)


def test_who_wants_the_logprobs_of_its_prompt_computes_it() -> None:
    prompt = [*range(3, 43)]
    for two in beside_each_other():
        transfer = two.computed("a", prompt)
        two.add("D", "a", prompt, transfer, prompt_logprobs=1)
        plan, _, _ = two.step("D")
        assert plan.num_scheduled_tokens == {"a": 40}, "all of it is computed here"
        # Its peer hears that none will pull.
        for _ in range(4):
            two.step("P")
        assert two.sides["P"][0].get_kv_cache_usage() == 0 and not two.sides["P"][0].has_requests()


def test_a_name_is_not_used_again_while_kv_is_on_its_way() -> None:
    two = Two(False)
    prompt = [*range(3, 43)]
    transfer = two.computed("a", prompt)
    with pytest.raises(ValueError, match="still on its way"):
        two.add("P", "a", prompt, {"do_remote_decode": True})
    two.add("D", "a", prompt, transfer)
    s, worker = two.sides["D"]
    worker.rng = random.Random(3)
    plan = s.schedule()
    ran = worker.run(plan)
    assert worker.pulling
    s.finish_requests("a", stub.RequestStatus.FINISHED_ABORTED)
    with pytest.raises(ValueError, match="still on its way"):
        two.add("D", "a", prompt)
    s.update_from_output(plan, ran)
    while s.has_requests():
        two.step("D")
    two.add("D", "a", prompt)
    assert two.step("D")[0].num_scheduled_tokens == {"a": 8}, "two blocks that have come are found"


def test_kv_that_has_come_and_is_lost_before_it_is_used() -> None:
    """Its owner is preempted before it has run: it has nothing from elsewhere any more."""
    two = Two(False, caching=False, max_num_seqs=2)
    prompt = [*range(3, 43)]
    transfer = two.computed("a", prompt)
    two.add("D", "a", prompt, transfer)
    s, worker = two.sides["D"]
    while worker.pulling or not worker.pulled:
        two.step("D")
    assert s.transfers.fetched
    assert s.reset_prefix_cache(reset_running_requests=True)
    plan, stats, (output,) = two.step("D")
    assert plan.num_scheduled_tokens == {"a": 40}
    assert (output.prefill_stats.num_local_cached_tokens, output.prefill_stats.num_external_cached_tokens) == (0, 0)


def test_it_ends_while_kv_is_on_its_way() -> None:
    """A request that waits for it is not held by anything that is gone: else the heap breaks, now or soon."""
    for seed in range(60):
        two = Two(False)
        for name in "abcd":
            prompt = [*range(seed, seed + 20 * (1 + ord(name) % 4))]
            two.add("D", name, prompt, two.computed(name, prompt))
        s, worker = two.sides["D"]
        plan = s.schedule()
        if seed % 2:
            s.update_from_output(plan, worker.run(plan))
            s.finish_requests("b", stub.RequestStatus.FINISHED_ABORTED)
        assert s.transfers.arriving
        for side, _ in two.sides.values():
            side.shutdown()


def test_paused_for_new_ones_kv_still_comes() -> None:
    for two in beside_each_other():
        transfer = two.computed("a", [*range(3, 43)])
        two.add("D", "a", [*range(3, 43)], transfer)
        s, worker = two.sides["D"]
        worker.rng = random.Random(3)
        two.step("D")
        assert worker.pulling
        s.set_pause_state(PauseState.PAUSED_NEW)
        assert s.get_num_unfinished_requests() == 1
        s.finish_requests("a", stub.RequestStatus.FINISHED_ABORTED)
        assert s.get_num_unfinished_requests() == 0 and s.has_requests()
        while s.has_requests():
            two.step("D")


def of_a_peer(s: Any, request_id: str, prompt: list[int], priority: int = 0) -> Any:
    """Adds a request with all of its KV elsewhere."""
    r = stub.request(request_id, prompt, stub.SamplingParams(temperature=0, max_tokens=5), priority=priority)
    r.kv_transfer_params = {"do_remote_prefill": True, "remote_engine_id": "P", "remote_request_id": request_id}
    s.add_request(r)
    return r


def came(*names: str) -> KVConnectorOutput:
    return KVConnectorOutput(finished_recving=set(names), invalid_block_ids=set())


@pytest.mark.parametrize("in_flight", [1, 2])
def test_no_kv_is_written_to_blocks_that_a_step_under_way_uses(in_flight: int) -> None:
    """A running request makes way for one with KV elsewhere: its step must have been run before that is fetched."""
    made = engine("D", {"policy": "priority"}, async_scheduling=in_flight == 2)
    s, runner = stub.scheduler(stub.Scheduler, made, 10), stub.Runner(10, discards=True)
    s.add_request(stub.request("a", [5] * 100, stub.SamplingParams(temperature=0, max_tokens=20), priority=1))
    step = s.schedule()
    if in_flight == 1:
        s.update_from_output(step, runner.run(step))
    of_a_peer(s, "b", [7] * 100)
    if in_flight == 2:
        waits = s.schedule()
        assert waits.total_num_scheduled_tokens == 0 and not waits.kv_connector_metadata.pull
        assert s.running and s.get_request_counts() == (1, 1), "nothing has happened to either"
        s.update_from_output(step, runner.run(step))
        s.update_from_output(waits, runner.run(waits))
    step = s.schedule()
    assert step.preempted_req_ids == {"a"} and set(step.kv_connector_metadata.pull) == {"b"}


def test_its_last_token_comes_after_it_has_lost_its_blocks() -> None:
    """Another step is under way that takes them: no peer could read its KV, so all of it is computed anew."""
    made = engine("P", {"policy": "priority"}, async_scheduling=True)
    s, runner = stub.scheduler(stub.Scheduler, made, 10), stub.Runner(10, discards=True)
    r = stub.request("a", [5] * 100, stub.SamplingParams(temperature=0, max_tokens=1), priority=1)
    r.kv_transfer_params = {"do_remote_decode": True}
    s.add_request(r)
    launched = [(step := s.schedule(), runner.run(step))]
    s.add_request(stub.request("b", [7] * 100, stub.SamplingParams(temperature=0, max_tokens=2)))
    launched.append((step := s.schedule(), runner.run(step)))
    assert step.preempted_req_ids == {"a"}
    ended: dict[str, Any] = {}
    while s.requests:
        for outputs in s.update_from_output(*launched.pop(0)).values():
            ended |= {o.request_id: o for o in outputs.outputs if o.finish_reason is not None}
        if s.requests:
            launched.append((step := s.schedule(), runner.run(step)))
    assert list(ended) == ["b", "a"]
    assert ended["a"].new_token_ids == stub.answer([5] * 100, r.sampling_params)
    assert len(ended["a"].kv_transfer_params["remote_block_ids"][0]) == 7


@pytest.mark.parametrize("read_early", [False, True])
def test_it_ends_while_a_further_step_has_it(read_early: bool) -> None:
    """A stop token is seen too late for the next step: its blocks are kept for its peer all the same."""
    made = engine("P", {}, async_scheduling=True)
    s, runner = stub.scheduler(stub.Scheduler, made, 60), stub.Runner(60, discards=True)
    (token,) = stub.answer([5] * 100, stub.SamplingParams(max_tokens=1))
    r = stub.request("a", [5] * 100, stub.SamplingParams(temperature=0, max_tokens=20, stop_token_ids=[token]))
    r.kv_transfer_params = {"do_remote_decode": True}
    s.add_request(r)
    steps = [s.schedule(), s.schedule()]
    assert steps[1].num_scheduled_tokens == {"a": 1}
    ran = [runner.run(step) for step in steps]
    outputs = s.update_from_output(steps[0], ran[0])
    assert len(outputs[0].outputs[0].kv_transfer_params["remote_block_ids"][0]) == 7
    sent = KVConnectorOutput(finished_sending={"a"}, invalid_block_ids=set())
    if read_early:
        ran[1].kv_connector_output = sent
    used = s.get_kv_cache_usage()
    assert used > 0 and s.get_request_counts() == (0, 0) and s.has_requests()
    s.update_from_output(steps[1], ran[1])
    if not read_early:
        assert s.get_kv_cache_usage() == used and not s.reset_prefix_cache()
        step = s.schedule()
        output = runner.run(step)
        output.kv_connector_output = sent
        s.update_from_output(step, output)
    assert s.get_kv_cache_usage() == 0 and s.get_request_counts() == (0, 0)
    s.schedule()
    assert not s.has_requests()


def test_its_status_says_that_its_kv_is_on_its_way() -> None:
    """As vLLM's own: until the step after it has come."""
    for theirs in (True, False):
        two = Two(theirs)
        r = two.add("D", "a", [*range(3, 43)], two.computed("a", [*range(3, 43)]))
        s, worker = two.sides["D"]
        worker.rng = random.Random(3)
        seen = [r.status.name]
        while not r.is_finished():
            two.step("D")
            seen += [r.status.name] if r.status.name != seen[-1] else []
        assert seen == ["WAITING", "WAITING_FOR_REMOTE_KVS", "RUNNING", "FINISHED_LENGTH_CAPPED"]


def test_its_status_when_its_kv_has_come_and_it_is_not_in_the_next_step() -> None:
    for theirs in (True, False):
        cls = stub.OwnScheduler if theirs else stub.Scheduler
        made = engine("D", None if theirs else {}, max_num_batched_tokens=16)
        s, runner = stub.scheduler(cls, made, 60), stub.Runner(60)
        r = of_a_peer(s, "a", [7] * 100)
        s.update_from_output(step := s.schedule(), runner.run(step))
        assert r.status.name == "WAITING_FOR_REMOTE_KVS"
        s.add_request(stub.request("b", [5] * 100, stub.SamplingParams(temperature=0, max_tokens=5)))
        output = runner.run(step := s.schedule())
        assert set(step.num_scheduled_tokens) == {"b"}
        output.kv_connector_output = came("a")
        s.update_from_output(step, output)
        assert r.status.name == "WAITING_FOR_REMOTE_KVS", "vLLM looks at its next turn"
        step = s.schedule()
        if theirs:
            assert set(step.num_scheduled_tokens) == {"b"} and r.status.name == "WAITING_FOR_REMOTE_KVS"
        else:
            assert r.status.name in ("WAITING", "RUNNING")


def test_many_are_kept_for_peers_though_few_run() -> None:
    for two in beside_each_other(max_num_seqs=2):
        for i in range(12):
            two.computed(str(i), [*range(i, i + 40)])
        assert len(two.sides["P"][1].kept) >= 11


def test_a_peer_that_has_read_what_there_was_no_room_to_keep() -> None:
    """The worker keeps what it was told to keep, and says when that is over."""
    two = Two(False)
    s, worker = two.sides["P"]

    class WithoutRoom:
        def __getattr__(self, name: str) -> Any:
            return getattr(s.core, name)

        def drain(self, slot: int) -> None:
            s.core.let_go(slot)

    s.transfers.core = WithoutRoom()
    two.add("P", "a", [*range(3, 43)], {"do_remote_decode": True})
    while "a" not in worker.kept:
        two.step("P")
    worker.expire("a")
    two.step("P")
    assert not s.has_requests() and s.get_kv_cache_usage() == 0 and worker.sent == set()
    two.add("P", "b", [*range(3, 43)])
    assert two.step("P")[2][0].new_token_ids


def test_a_connector_that_fails_for_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a client has sent for its peer may be anything: when it joins, when it ends, when it is aborted."""
    two = Two(False)
    s, worker = two.sides["P"]

    def failing(of: str, names: str) -> None:
        own = getattr(s.connector, of)

        def call(request: Any, *rest: Any) -> Any:
            if request.request_id in names:
                raise KeyError("remote_block_ids")
            return own(request, *rest)

        monkeypatch.setattr(s.connector, of, call)

    failing("get_num_new_matched_tokens", "j")
    failing("request_finished_all_groups", "jex")
    for name in "jefx":
        two.add("P", name, [*range(3, 43)], {"do_remote_decode": True}, max_tokens=2)
    ended: dict[str, tuple[str, bool]] = {}
    for _ in range(6):
        for o in two.step("P")[2]:
            if o.finish_reason is not None:
                ended[o.request_id] = (str(o.finish_reason), o.kv_transfer_params is not None)
        s.finish_requests("x", stub.RequestStatus.FINISHED_ABORTED)
    assert ended == {"j": ("error", False), "e": ("length", False), "f": ("length", True)}
    assert worker.kept == {"f"}, "a peer comes for this one alone"
    worker.expire("f")
    two.step("P")
    assert not s.has_requests() and s.requests == {} and s.get_kv_cache_usage() == 0


def test_what_is_handed_back() -> None:
    def kind(**more: Any) -> Any:
        return type(stub.scheduler(stub.Scheduler, engine("P", {}, **more), 60))

    assert kind() is stub.Scheduler
    assert kind(async_scheduling=True) is stub.Scheduler
    assert kind(drafts=3) is stub.Scheduler
    made = engine("P", {})
    made.kv_transfer_config.kv_connector_extra_config = {"bidirectional_kv_xfer": True}
    assert type(stub.scheduler(stub.Scheduler, made, 60)) is stub.OwnScheduler
    made = engine("P", {})
    assert made.kv_transfer_config.kv_buffer_device == "cpu"
    made.device_config = copy.copy(made.device_config)
    made.device_config.device_type = "cuda"
    assert type(stub.scheduler(stub.Scheduler, made, 60)) is stub.OwnScheduler
    for memory in (stub.memory(60, (0, stub.an_aligned)), stub.memory(60, (0, 40), sizes=(32, 16))):
        assert type(stub.scheduler(stub.Scheduler, engine("P", {}), 60, kv=memory)) is stub.OwnScheduler
    # Without vLLM's hybrid manager, a window's KV is kept as that of full attention.
    (group,) = stub.memory(60).kv_cache_groups
    all_kept = stub.memory(60)
    all_kept.kv_cache_groups[0] = replace(group, kv_cache_spec=replace(group.kv_cache_spec, sliding_window=40))
    assert type(stub.scheduler(stub.Scheduler, engine("P", {}), 60, kv=all_kept)) is stub.Scheduler
