# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pipeline parallelism: as many steps in flight as stages, and one more with async scheduling.

The first stage knows the tokens that a step brings. The second runner's learns them of the last stage, as many steps
later as there are stages. A step that computes another token fails.
"""

from __future__ import annotations

from typing import Any

import pytest
import stub
import test_async
from steps import add_with_grammars
from test_stub import check, drive, policies
from vllm import SamplingParams
from vllm.v1.core.sched.interface import PauseState

from tessera.vllm import _api as api

#: (second runner, async scheduling). vLLM has none for its first runner with a pipeline.
runners = {"first runner": (False, False), "second runner": (True, False), "second runner, async": (True, True)}
each_runner = pytest.mark.parametrize("kind", runners)


def made(
    cls: type, kind: str, stages: int, tessera: dict[str, Any] | None, blocks: int = 60, **more: Any
) -> tuple[Any, stub.Runner, int]:
    """A scheduler, its runner, and the steps in flight."""
    second, overlaps = runners[kind]
    kv, windows = more.pop("kv", None), more.pop("windows", (0,))
    config = stub.config(tessera=tessera, second=second, stages=stages, async_scheduling=overlaps, **more)
    s = stub.scheduler(cls, config, blocks, include_finished_set=True, **({"kv": kv} if kv else {}))
    runner = stub.Runner(blocks, second, stages=stages, windows=windows, adapters=more.get("adapters", 0))
    runner.zeroes = stub.a_state in windows
    in_flight = api.plans_in_flight(config)
    assert in_flight == stages + overlaps
    return s, runner, in_flight


@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@each_runner
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("name", policies)
def test_tokens(name: str, caching: bool, kind: str, troubled: bool) -> None:
    number = list(policies).index(name)
    load = stub.Load(seed=100 + number, priorities=name == "priority", tenants=name == "vtc")
    chunks = {"long_prefill_token_threshold": 24} if "chunks" in name else {}
    chosen = {"policy": name.split()[0], **policies[name]}
    s, runner, in_flight = made(stub.Scheduler, kind, 2 + number % 3, chosen, caching=caching, **chunks)
    assert type(s) is stub.Scheduler
    run = drive(s, runner, load, troubled, in_flight)
    check(run, load)
    # Without async scheduling no request is in a step before its token is known.
    assert (run.expected > 100) == ("async" in kind) and (run.expected == 0) == ("async" not in kind)
    # Else it proves less than it says.
    assert run.preempted > 0 and run.overlapped > run.steps / 8
    assert not caching or run.hits > 0
    assert not troubled or (run.aborted and run.resets)
    assert "second" in kind or runner.resumed > 0


@pytest.mark.parametrize("stages", [2, 3])
@each_runner
@pytest.mark.parametrize("caching", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_beside_vllm(policy: str, caching: bool, kind: str, stages: int) -> None:
    load = stub.Load(seed=3, priorities=policy == "priority")
    own = stub.OwnAsyncScheduler if runners[kind][1] else stub.OwnScheduler
    runs = []
    for cls, chosen in ((own, None), (stub.Scheduler, {"policy": policy})):
        s, runner, in_flight = made(cls, kind, stages, chosen, policy=policy, caching=caching)
        runs.append(drive(s, runner, load, False, in_flight))
        check(runs[-1], load)
    assert runs[0].got == runs[1].got and runs[0].reasons == runs[1].reasons
    # No more steps than vLLM's own needs, or not many.
    assert runs[1].steps < 1.1 * runs[0].steps


@each_runner
@pytest.mark.parametrize("windows", [(40,), (0, 40), (0, -64), (0, stub.a_state)], ids=str)
def test_windows_and_states(windows: tuple[int, ...], kind: str) -> None:
    load = stub.Load(seed=7)
    kv = stub.memory(90, windows)
    s, runner, in_flight = made(stub.Scheduler, kind, 3, {}, 90, caching=False, kv=kv, windows=windows)
    run = drive(s, runner, load, True, in_flight)
    check(run, load)
    assert run.aborted and run.resets


@each_runner
def test_adapters(kind: str) -> None:
    load = stub.Load(seed=8, adapters=5)
    s, runner, in_flight = made(stub.Scheduler, kind, 2, {}, adapters=2)
    check(drive(s, runner, load, True, in_flight), load)


@each_runner
def test_a_grammar_has_had_every_token(kind: str) -> None:
    s, runner, in_flight = made(stub.Scheduler, kind, 3, {})
    grammars = s.structured_output_manager = test_async.Grammars(runner)
    load = stub.Load(seed=11, count=60).requests()
    structured = add_with_grammars(s, load)
    got, deferred_steps = test_async.run(s, runner, in_flight)
    for request_id, prompt, params, _, _ in load:
        assert got[request_id] == stub.answer(prompt, params), request_id
    assert len(structured) == 20 and set(grammars.accepted) == structured and grammars.asked > 100
    assert (deferred_steps > 10) == ("async" in kind)


def test_a_step_brings_the_tokens_that_it_computes() -> None:
    """In vLLM's form: for each request that the runner knows, and in place of all of its tokens."""
    s, runner, _ = made(stub.Scheduler, "first runner", 2, {}, max_num_batched_tokens=30)
    prompt = list(range(3, 48))
    s.add_request(stub.request("a", prompt, SamplingParams(temperature=0, max_tokens=4)))
    answer = stub.answer(prompt, SamplingParams(temperature=0, max_tokens=4))
    first = s.schedule()
    assert first.num_scheduled_tokens == {"a": 30} and first.scheduled_cached_reqs.new_token_ids == []
    second = s.schedule()  # the rest of the prompt, before the outcome of the first is known
    assert second.scheduled_cached_reqs.new_token_ids == [prompt[30:]]
    assert second.scheduled_cached_reqs.all_token_ids == {}
    s.update_from_output(first, runner.run(first))
    nothing = s.schedule()
    assert nothing.total_num_scheduled_tokens == 0 and nothing.scheduled_cached_reqs.new_token_ids == []
    s.update_from_output(second, runner.run(second))
    s.update_from_output(nothing, runner.run(nothing))
    third = s.schedule()
    assert third.scheduled_cached_reqs.new_token_ids == [answer[:1]]
    assert third.scheduled_cached_reqs.num_output_tokens == [1]


def test_the_last_stage_itself_tells_of_tokens_with_async_scheduling() -> None:
    s, runner, _ = made(stub.Scheduler, "second runner, async", 2, {})
    s.add_request(stub.request("a", [5, 6, 7], SamplingParams(temperature=0, max_tokens=9)))
    steps = [s.schedule() for _ in range(3)]
    assert [step.total_num_scheduled_tokens for step in steps] == [3, 0, 1]
    assert all(step.scheduled_cached_reqs.new_token_ids == [] for step in steps)


def test_no_step_is_too_early_after_a_pause() -> None:
    """In a pause vLLM's engine core takes steps in before its queue is full. A request's next step must still be as
    many steps later as there are stages. The second runner's first stage lacks the token before."""
    s, runner, _ = made(stub.Scheduler, "second runner", 3, {})
    s.add_request(stub.request("a", [5, 6, 7], SamplingParams(temperature=0, max_tokens=9)))
    step = s.schedule()
    output = runner.run(step)
    s.set_pause_state(PauseState.PAUSED_ALL)
    assert not s.has_requests()
    s.update_from_output(step, output)
    s.set_pause_state(PauseState.UNPAUSED)
    totals = []
    for _ in range(4):
        step = s.schedule()
        totals.append(step.total_num_scheduled_tokens)
        s.update_from_output(step, runner.run(step))
    assert totals == [0, 0, 1, 0]


def test_one_step_too_many_is_refused() -> None:
    s, *_ = made(stub.Scheduler, "first runner", 3, {})
    s.add_request(stub.request("a", [5] * 20, SamplingParams(max_tokens=50)))
    for _ in range(3):
        s.schedule()
    with pytest.raises(RuntimeError, match="the most steps are in flight"):
        s.schedule()
