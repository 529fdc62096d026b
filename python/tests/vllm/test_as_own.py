# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pauses, resets, stats, outputs and equal priorities: as vLLM's own scheduler."""

from __future__ import annotations

from typing import Any

import pytest
import stub
from steps import params, served, stepped, tokens_of
from vllm import SamplingParams
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.engine import FinishReason

from tessera.vllm import scheduler as ours


def both(blocks: int = 60, **more: Any) -> list[tuple[Any, stub.Runner]]:
    made = []
    for cls, chosen in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        s = stub.scheduler(cls, stub.config(tessera=chosen), blocks, log_stats=True, **more)
        made.append((s, stub.Runner(blocks)))
    return made


def test_pause_and_resume() -> None:
    for s, runner in both():
        for name in "ab":
            s.add_request(stub.request(name, [5, 6, 7, ord(name)], params()))
        assert len(stepped(s, runner)) == 2
        s.set_pause_state(PauseState.PAUSED_NEW)
        assert s.pause_state == PauseState.PAUSED_NEW
        s.add_request(stub.request("c", [5, 6, 8], params()))
        assert {o.request_id for o in stepped(s, runner)} == {"a", "b"}
        assert s.get_num_unfinished_requests() == 2
        s.set_pause_state(PauseState.PAUSED_ALL)
        assert stepped(s, runner) == []
        assert s.get_num_unfinished_requests() == 0 and not s.has_unfinished_requests()
        s.set_pause_state(PauseState.UNPAUSED)
        assert s.get_num_unfinished_requests() == 3
        assert {o.request_id for o in stepped(s, runner)} == {"a", "b", "c"}


def test_reset_of_the_cache() -> None:
    for s, runner in both():
        prompt = list(range(3, 63))
        s.add_request(stub.request("a", prompt, params()))
        stepped(s, runner)
        assert not s.reset_prefix_cache(), "not while somebody holds blocks"
        s.add_request(stub.request("b", prompt, params()))
        step = s.schedule()
        assert [n.num_computed_tokens for n in step.scheduled_new_reqs] == [48]
        s.update_from_output(step, runner.run(step))
        assert s.reset_prefix_cache(reset_running_requests=True)
        assert s.get_request_counts() == (0, 2)
        step = s.schedule()
        assert step.preempted_req_ids == {"a", "b"}
        assert step.num_scheduled_tokens["a"] == 62, "all is computed anew"
        s.update_from_output(step, runner.run(step))
        while s.has_requests():
            stepped(s, runner)
        assert s.reset_prefix_cache()
        s.add_request(stub.request("c", prompt, params()))
        assert s.schedule().scheduled_new_reqs[0].num_computed_tokens == 0


def test_a_reset_while_a_step_is_under_way_comes_after_it() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 60)
    runner = stub.Runner(60)
    prompt = list(range(3, 63))
    s.add_request(stub.request("a", prompt, params()))
    step = s.schedule()
    assert s.reset_prefix_cache(reset_running_requests=True)
    assert s.get_request_counts() == (1, 0)
    got = tokens_of(s.update_from_output(step, runner.run(step)))
    assert s.get_request_counts() == (0, 1)
    step = s.schedule()
    assert step.preempted_req_ids == {"a"} and step.num_scheduled_tokens == {"a": 61}
    got += [
        t for o in s.update_from_output(step, runner.run(step)).values() for x in o.outputs for t in x.new_token_ids
    ]
    while s.has_requests():
        got += [t for o in stepped(s, runner) for t in o.new_token_ids]
    assert got == stub.answer(prompt, params())


def test_stats_and_events() -> None:
    seen = []
    for s, runner in both():
        prompt = list(range(3, 63))
        told: list[Any] = []
        for i, name in enumerate("abc"):
            s.add_request(stub.request(name, prompt[: 60 - i], params()))
            step = s.schedule()
            (outputs,) = s.update_from_output(step, runner.run(step)).values()
            stats = outputs.scheduler_stats
            told.append(
                (
                    stats.num_running_reqs,
                    stats.num_waiting_reqs,
                    stats.num_skipped_waiting_reqs,
                    stats.kv_cache_usage,
                    stats.prefix_cache_stats,
                )
            )
            for o in outputs.outputs:
                told.append((o.request_id, [e.type for e in o.events or []], o.prefill_stats))
        assert s.get_request_counts() == (3, 0)
        assert s.get_kv_cache_usage() > 0
        seen.append(told)
    assert seen[0] == seen[1]


def test_who_is_preempted_says_so() -> None:
    """The front end counts preemptions by these events."""
    told = []
    for s, runner in both(blocks=8):
        for name in "ab":
            s.add_request(stub.request(name, [ord(name)] * 30, SamplingParams(temperature=0, max_tokens=50)))
        mine: dict[str, list[Any]] = {"a": [], "b": []}
        resets = 0
        while s.has_requests():
            for o in stepped(s, runner):
                mine[o.request_id] += [e.type for e in o.events or []]
            if resets < 2:
                resets += 1
                assert s.reset_prefix_cache(reset_running_requests=True)
        told.append(mine)
    assert told[0] == told[1]
    assert [len([e for e in events if e.name == "PREEMPTED"]) for events in told[1].values()] == [2, 3]


def test_one_that_has_outgrown_the_memory_when_all_is_reset() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(caching=False, tessera={}), 5)
    runner = stub.Runner(5)
    s.add_request(stub.request("x", [5] * 40, SamplingParams(temperature=0, max_tokens=100)))
    for _ in range(25):
        assert stepped(s, runner)[0].finish_reason is None
    assert s.reset_prefix_cache(reset_running_requests=True)
    assert [o.finish_reason for o in stepped(s, runner)] == [FinishReason.ERROR]
    assert s.requests == {} and s.get_kv_cache_usage() == 0


def test_outputs_go_to_their_clients() -> None:
    for s, runner in both(include_finished_set=True):
        for i in range(6):
            s.add_request(stub.request(str(i), [5, 6, 7 + i], params(), client_index=i % 3))
        finished: dict[int, set[str]] = {0: set(), 1: set(), 2: set()}
        while s.has_requests():
            step = s.schedule()
            for client, outputs in s.update_from_output(step, runner.run(step)).items():
                assert {int(o.request_id) % 3 for o in outputs.outputs} <= {client}
                finished[client] |= outputs.finished_requests or set()
        assert finished == {0: {"0", "3"}, 1: {"1", "4"}, 2: {"2", "5"}}


def test_prompts_wait_for_their_turn_where_data_is_parallel() -> None:
    for s, runner in both():
        s.add_request(stub.request("a", [5, 6, 7], params()))
        stepped(s, runner)
        s.add_request(stub.request("b", [5, 6, 8], params()))
        # A step that releases prompts and leaves none behind lifts the bound.
        for throttled, expected in ((True, {"a"}), (True, {"a"}), (False, {"a", "b"})):
            step = s.schedule(throttle_prefills=throttled)
            assert set(step.num_scheduled_tokens) == expected, type(s)
            s.update_from_output(step, runner.run(step))


@pytest.mark.parametrize("drafts", [0, 3], ids=["no drafts", "drafts"])
def test_prompts_in_one_of_several_steps(drafts: int) -> None:
    """`prefill_schedule_interval` on one engine: from vLLM 0.33 on, and as vLLM's own takes it."""
    seen = []
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        made = stub.config(tessera=own, drafts=drafts, prefill_schedule_interval=5)
        s, runner = stub.scheduler(cls, made, 300), stub.Runner(300, drafts=drafts)
        s.add_request(stub.request("a", [5, 6, 7], SamplingParams(temperature=0, max_tokens=200)))
        computed = []
        for i in range(40):
            if i % 3 == 2:
                s.add_request(stub.request(str(i), [5, 6, 7 + i] * 10, params()))
            step = s.schedule()
            guessed = step.scheduled_spec_decode_tokens
            computed.append(any(n > 1 + len(guessed.get(r, ())) for r, n in step.num_scheduled_tokens.items()))
            s.update_from_output(step, runner.run(step))
            if drafts:
                s.update_draft_token_ids(runner.take_draft_token_ids())
        seen.append(computed)
    assert seen[0] == seen[1]
    assert sum(seen[1]) == (8 if ours.api.interval_counts_alone else 14)


def test_prompts_wait_for_no_decode_where_there_is_none() -> None:
    """A step that defers prompts does so for decodes: where only prompts run, others may start beside them."""
    seen = []
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        made = stub.config(tessera=own, long_prefill_token_threshold=32)
        s, runner = stub.scheduler(cls, made, 300), stub.Runner(300)
        s.add_request(stub.request("a", [5] * 200, params()))
        s.add_request(stub.request("b", [6] * 200, params()))
        stepped(s, runner)
        s.add_request(stub.request("c", [7] * 40, params()))
        steps = []
        for _ in range(12):
            step = s.schedule(throttle_prefills=True)
            steps.append(dict(step.num_scheduled_tokens))
            s.update_from_output(step, runner.run(step))
        seen.append(steps)
    assert seen[0] == seen[1]
    assert seen[1][0] == {"a": 32, "b": 32, "c": 32}


def test_a_prompts_last_but_one_token_alone_is_a_prefill() -> None:
    """One token of a prompt in a step, and not its last: the interval begins anew."""
    seen = []
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        made = stub.config(tessera=own, prefill_schedule_interval=4, max_num_scheduled_tokens=2)
        s, runner = stub.scheduler(cls, made, 60), stub.Runner(60)
        s.add_request(stub.request("a", [5], SamplingParams(temperature=0, max_tokens=60)))
        stepped(s, runner)
        s.add_request(stub.request("b", [5, 6, 7, 8, 9], params()))
        steps = []
        for _ in range(24):
            step = s.schedule()
            steps.append(dict(step.num_scheduled_tokens))
            s.update_from_output(step, runner.run(step))
        seen.append(steps)
    assert seen[0] == seen[1]


def test_repetition_ends_a_request() -> None:
    from vllm.sampling_params import RepetitionDetectionParams

    reasons = []
    for s, runner in both():
        p = SamplingParams(
            temperature=0,
            max_tokens=20,
            min_tokens=6,
            repetition_detection=RepetitionDetectionParams(max_pattern_size=1, min_pattern_size=1, min_count=3),
        )
        s.add_request(stub.request("a", [5, 6, 7], p))
        got = []
        while s.has_requests():
            step = s.schedule()
            output = runner.run(step)
            output.sampled_token_ids = [[9] for _ in output.sampled_token_ids]
            for state in runner.states.values():
                state.tokens[-1] = 9
            for outputs in s.update_from_output(step, output).values():
                got += [(o.new_token_ids, o.finish_reason, o.stop_reason) for o in outputs.outputs]
        reasons.append(got)
    assert reasons[0] == reasons[1]
    assert len(reasons[1]) == 6 and reasons[1][-1][1:] == (FinishReason.REPETITION, "repetition_detected")


# -- what the server is told of a request that is refused (vLLM 0.33)
# -- equal priorities


@pytest.mark.parametrize("policy", ["fcfs", "priority", "vtc"])
def test_equal_priorities_go_by_arrival_time(policy: str) -> None:
    """Several front ends send their requests in another order than that in which they arrived."""
    orders = []
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {"policy": policy})):
        s = stub.scheduler(cls, stub.config(policy="priority", tessera=own, max_num_seqs=1), 60)
        runner = stub.Runner(60, places=1)
        for name, priority, arrived in (("late", 1, 3.0), ("urgent", 0, 9.0), ("first", 1, 1.0), ("second", 1, 2.0)):
            s.add_request(stub.request(name, [5, 6, 7], params(), priority, arrival_time=arrived))
        orders.append(list(served(s, runner)))
    assert orders[0] == orders[1] == ["urgent", "first", "second", "late"]


def test_without_priorities_arrival_times_do_not_count() -> None:
    orders = []
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        s = stub.scheduler(cls, stub.config(tessera=own, max_num_seqs=1), 60)
        runner = stub.Runner(60, places=1)
        for name, arrived in (("late", 3.0), ("first", 1.0)):
            s.add_request(stub.request(name, [5, 6, 7], params(), arrival_time=arrived))
        orders.append(list(served(s, runner)))
    assert orders[0] == orders[1] == ["late", "first"]


def test_the_latest_to_arrive_makes_way_among_equals() -> None:
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        made = stub.config(caching=False, policy="priority", tessera=own)
        s, runner = stub.scheduler(cls, made, 8), stub.Runner(8)
        for name, arrived in (("late", 2.0), ("early", 1.0)):
            s.add_request(
                stub.request(
                    name, [ord(name[0])] * 30, SamplingParams(temperature=0, max_tokens=50), arrival_time=arrived
                )
            )
        preempted: set[str] = set()
        while s.has_requests():
            step = s.schedule()
            preempted |= step.preempted_req_ids or set()
            s.update_from_output(step, runner.run(step))
        assert preempted == {"late"}, cls


def test_an_arrival_time_that_is_none_is_refused() -> None:
    s, runner = stub.scheduler(stub.Scheduler, stub.config(policy="priority", tessera={}), 60), stub.Runner(60)
    s.add_request(stub.request("x", [5, 6], params(), arrival_time=float("nan")))
    s.add_request(stub.request("y", [5, 6], params()))
    assert served(s, runner) == {"x": FinishReason.ERROR, "y": FinishReason.LENGTH}
