# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Speculative decoding: drafts that hold, drafts that do not, and what ends, is lost or is refused among them."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import pytest
import stub
from steps import add_with_grammars
from test_async import Grammars, run
from test_stub import Run, check, drive, one_or_two, policies
from vllm import SamplingParams
from vllm.sampling_params import RepetitionDetectionParams
from vllm.v1.engine import FinishReason
from vllm.v1.outputs import DraftTokenIds

from tessera.vllm import _api as api

most = 3
two_runners = pytest.mark.parametrize("second", [False, True], ids=["first runner", "second runner"])


def driven(cls: type, own: Any, load: stub.Load, second: bool, troubled: bool, in_flight: int, **more: Any) -> Run:
    made = stub.config(tessera=own, second=second, drafts=most, async_scheduling=in_flight == 2, **more)
    s = stub.scheduler(cls, made, blocks=60, include_finished_set=True)
    assert type(s) is cls
    runner = stub.Runner(60, second, drafts=most)
    result = drive(s, runner, load, troubled, in_flight)
    check(result, load)
    # Some of each.
    assert 0.2 * runner.tried < runner.accepted < 0.9 * runner.tried
    assert second or runner.resumed > 0
    return result


@one_or_two
@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@pytest.mark.parametrize("name", policies)
def test_tokens(name: str, troubled: bool, in_flight: int) -> None:
    place = list(policies).index(name)
    load = stub.Load(seed=place, priorities=name == "priority", tenants=name == "vtc")
    more = {"long_prefill_token_threshold": 24} if "chunks" in name else {}
    own = {"policy": name.split()[0], **policies[name]}
    # Each policy has one half of these, with and without trouble.
    for caching, second in product((False, True), repeat=2):
        if (caching + second + place + troubled) % 2:
            continue
        result = driven(stub.Scheduler, own, load, second, troubled, in_flight, caching=caching, **more)
        assert result.preempted > 0
        assert (result.overlapped > result.steps / 2) == (in_flight == 2)
        assert not caching or result.hits > 0
        assert not troubled or (result.aborted and result.resets)


@one_or_two
@two_runners
def test_beside_vllm(second: bool, in_flight: int) -> None:
    """vLLM's own schedulers pass with this runner, and ours says the same; drafts spare both the same steps."""
    load = stub.Load(seed=3)
    theirs = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
    runs = [
        driven(cls, own, load, second, False, in_flight)
        for cls, own in ((theirs, None), (stub.Scheduler, {"policy": "fcfs"}))
    ]
    assert runs[0].got == runs[1].got
    assert runs[0].reasons == runs[1].reasons
    assert runs[1].steps < 1.1 * runs[0].steps


class Choosy(Grammars):
    """Refuses drafts from the first on that it does not like; what is sampled it takes."""

    def __init__(self, runner: stub.Runner) -> None:
        super().__init__(runner)
        self.refused = 0

    def validate_tokens(self, request: Any, tokens: list[int]) -> list[int]:
        if not request.use_structured_output:
            return tokens
        tokens = [t for t in tokens if t != -1]
        n = next((i for i, token in enumerate(tokens) if token % 5 == 0), len(tokens))
        self.refused += len(tokens) - n
        return tokens[:n]

    def grammar_bitmask(self, requests: Any, ids: list[str], drafts: Any) -> Any:
        for request_id in ids:
            mine = drafts.get(request_id, [])
            # Refused ones are places without a token, or are not there.
            assert all(token % 5 for token in mine if token != -1)
        return super().grammar_bitmask(requests, ids, drafts)


@one_or_two
@two_runners
@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "vLLM's own"])
def test_a_grammar_refuses_drafts(theirs: bool, second: bool, in_flight: int) -> None:
    runner = stub.Runner(60, second, drafts=most)
    asynchronous = in_flight == 2
    own = {"policy": "fcfs"}
    made = stub.config(tessera=None if theirs else own, second=second, drafts=most, async_scheduling=asynchronous)
    cls = stub.Scheduler if not theirs else stub.OwnAsyncScheduler if asynchronous else stub.OwnScheduler
    s = stub.scheduler(cls, made, blocks=60)
    grammars = s.structured_output_manager = Choosy(runner)
    load = stub.Load(seed=11, count=60).requests()
    structured = add_with_grammars(s, load)
    got, deferred_steps = run(s, runner, in_flight)
    for request_id, prompt, params, _, _ in load:
        assert got[request_id] == stub.answer(prompt, params), request_id
    assert set(grammars.accepted) == structured
    assert grammars.asked > 100 and grammars.refused > 20 and runner.accepted > 100
    assert (deferred_steps > 10) == asynchronous


def stepped(s: Any, runner: stub.Runner) -> tuple[Any, list[Any]]:
    step = s.schedule()
    outputs = s.update_from_output(step, runner.run(step))
    s.update_draft_token_ids(runner.take_draft_token_ids())
    return step, [o for one in outputs.values() for o in one.outputs]


class Knowing(stub.Runner):
    """All of its drafts hold."""

    def _guess(self, state: stub.State, most: int) -> list[int]:
        guess: list[int] = []
        while len(guess) < most:
            guess.append(stub.next_token([0, *state.tokens, *guess]))
        return guess


def alone(params: SamplingParams, prompt: list[int], **more: Any) -> tuple[list[Any], Any]:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}, drafts=most, **more), 60, log_stats=True)
    s.add_request(stub.request("a", prompt, params))
    runner, outputs = Knowing(60, drafts=most), []
    while s.has_unfinished_requests():
        outputs += stepped(s, runner)[1]
    return outputs, s


def test_what_comes_after_an_end_is_cut_off() -> None:
    prompt = [5, 6, 7]
    long = stub.answer(prompt, SamplingParams(temperature=0, max_tokens=40))
    # The first, then four in each step: the third of such a step ends it.
    stop = long[7]
    assert stop not in long[:7]
    outputs, s = alone(SamplingParams(temperature=0, max_tokens=40, stop_token_ids=[stop]), prompt)
    assert [o.new_token_ids for o in outputs] == [long[:1], long[1:5], long[5:8]]
    assert (outputs[-1].finish_reason, outputs[-1].stop_reason) == (FinishReason.STOP, stop)
    # So does the number of tokens that was asked for, without drafts beyond it.
    outputs, s = alone(SamplingParams(temperature=0, max_tokens=7), prompt)
    assert [o.new_token_ids for o in outputs] == [long[:1], long[1:5], long[5:7]]
    assert outputs[-1].finish_reason == FinishReason.LENGTH
    assert s.requests == {} and s.get_kv_cache_usage() == 0


def test_repetition_is_looked_for_token_by_token() -> None:
    prompt = [5, 6, 7]
    params = SamplingParams(
        temperature=0,
        max_tokens=40,
        repetition_detection=RepetitionDetectionParams(max_pattern_size=1, min_pattern_size=1, min_count=3),
    )
    got = []
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        s = stub.scheduler(cls, stub.config(tessera=own, drafts=most), 60)
        s.add_request(stub.request("a", prompt, params))
        step = s.schedule()
        runner = stub.Runner(60, drafts=most)
        s.update_from_output(step, runner.run(step))
        s.update_draft_token_ids(DraftTokenIds(["a"], [[9, 9, 9]]))
        step = s.schedule()
        assert step.scheduled_spec_decode_tokens == {"a": [9, 9, 9]} and step.num_scheduled_tokens == {"a": 4}
        ran = stub.ModelRunnerOutput(req_ids=["a"], req_id_to_index={"a": 0}, sampled_token_ids=[[9, 9, 9, 9]])
        outputs = s.update_from_output(step, ran)
        got.append([(o.new_token_ids, o.finish_reason, o.stop_reason) for o in outputs[0].outputs])
    assert got[0] == got[1] == [([9, 9, 9], FinishReason.REPETITION, "repetition_detected")]


def test_drafts_count_in_the_stats() -> None:
    seen = []
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        made = stub.config(tessera=own, drafts=most)
        made.observability_config.per_request_spec_decode_metrics = "detailed"
        s = stub.scheduler(cls, made, 60, log_stats=True)
        runner = stub.Runner(60, drafts=most)
        for i in range(4):
            s.add_request(stub.request(str(i), [5, 6, 7 + i], SamplingParams(temperature=0, max_tokens=30)))
        told = []
        # As long as no request is near its end: vLLM has drafts verified that cannot be used any more.
        for _ in range(7):
            step = s.schedule()
            assert step.num_spec_tokens_to_schedule == most
            for one in s.update_from_output(step, runner.run(step)).values():
                told.append(one.scheduler_stats and one.scheduler_stats.spec_decoding_stats)
            s.update_draft_token_ids(runner.take_draft_token_ids())
        told += [copy.deepcopy(r.spec_decode_metrics) for r in s.requests.values()]
        last = {}
        while s.has_unfinished_requests():
            step = s.schedule()
            for one in s.update_from_output(step, runner.run(step)).values():
                last |= {o.request_id: o.spec_decode_metrics for o in one.outputs if o.finish_reason is not None}
            s.update_draft_token_ids(runner.take_draft_token_ids())
        assert len(last) == 4 and all(m.num_draft_tokens and m.per_step_accepted for m in last.values())
        seen.append(told)
        made.observability_config.per_request_spec_decode_metrics = "none"
    assert seen[0] == seen[1]
    assert any(stats.num_accepted_tokens for stats in seen[1] if hasattr(stats, "num_accepted_tokens"))


def test_drafts_of_who_does_not_decode_next() -> None:
    """In the middle of a prompt, preempted, ended: they are not verified, and nothing breaks."""
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}, drafts=most), 60)
    s.add_request(stub.request("a", [5] * 200, SamplingParams(max_tokens=9)))
    s.add_request(stub.request("b", [6] * 20, SamplingParams(max_tokens=9)))
    runner = Knowing(60, drafts=most)
    step = s.schedule()
    assert step.num_scheduled_tokens == {"a": 128}
    s.update_from_output(step, runner.run(step))
    s.update_draft_token_ids(DraftTokenIds(["a", "b", "gone"], [[1, 2], [3], [4]]))
    step = s.schedule()
    assert step.scheduled_spec_decode_tokens == {} and step.num_scheduled_tokens == {"a": 72, "b": 20}
    s.update_from_output(step, runner.run(step))
    s.update_draft_token_ids(runner.take_draft_token_ids())
    assert s.reset_prefix_cache(reset_running_requests=True)
    step = s.schedule()
    assert step.scheduled_spec_decode_tokens == {}


def test_more_tokens_than_drafts_are_refused() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}, drafts=most), 60)
    s.add_request(stub.request("a", [5] * 20, SamplingParams(max_tokens=9)))
    step = s.schedule()
    ran = stub.ModelRunnerOutput(req_ids=["a"], req_id_to_index={"a": 0}, sampled_token_ids=[[9, 9]])
    (outputs,) = s.update_from_output(step, ran).values()
    assert [(o.new_token_ids, o.finish_reason) for o in outputs.outputs] == [([], FinishReason.ERROR)]
    assert s.requests == {} and s.get_kv_cache_usage() == 0


def starts(cls: type, own: Any, in_flight: int, long: bool, **more: Any) -> list[tuple[dict[str, int], dict[str, Any]]]:
    """A request decodes; another comes with a prompt that is known except its last token. The tokens and drafts of each
    step."""
    asynchronous = in_flight == 2
    s = stub.scheduler(cls, stub.config(tessera=own, drafts=most, async_scheduling=asynchronous, **more), 60)
    runner, steps = Knowing(60, drafts=most), []
    prompt = list(range(3, 36))  # two blocks and a token
    coming = [("a", prompt), *([("b", [7] * 400)] if long else []), ("c", prompt)]
    flying: list[Any] = []
    for i in range(12):
        if coming and i % 2 == 0:
            name, mine = coming.pop(0)
            s.add_request(stub.request(name, mine, SamplingParams(temperature=0, max_tokens=200)))
        step = s.schedule()
        steps.append((dict(step.num_scheduled_tokens), copy.deepcopy(step.scheduled_spec_decode_tokens)))
        flying.append((step, runner.run(step)))
        if len(flying) == in_flight:
            s.update_from_output(*flying.pop(0))
            s.update_draft_token_ids(runner.take_draft_token_ids())
    return steps


@one_or_two
@pytest.mark.parametrize("long", [False, True], ids=["decodes only", "beside a prompt"])
def test_a_start_with_one_token_has_places_for_drafts(long: bool, in_flight: int) -> None:
    """As under vLLM's own, so that all requests of a step have as many tokens. Beside a prompt they have not anyway."""
    theirs = stub.OwnScheduler if in_flight == 1 else stub.OwnAsyncScheduler
    own = starts(theirs, None, in_flight, long)
    mine = starts(stub.Scheduler, {}, in_flight, long)
    first = next(step for step in mine if "c" in step[0])
    assert first[0]["c"] == next(step for step in own if "c" in step[0])[0]["c"] == (1 if long else 1 + most)
    assert first[1].get("c", []) == ([] if long else [-1] * most)
    if not long and in_flight == 1:
        assert mine == own


def test_a_number_of_drafts_that_follows_the_batch_has_no_places() -> None:
    def with_ranges(cls: type, own: Any) -> Any:
        made = stub.config(tessera=own, drafts=most)
        made.speculative_config = copy.copy(made.speculative_config)
        object.__setattr__(made.speculative_config, "num_speculative_tokens_per_batch_size", [(1, 4, most), (5, 24, 1)])
        s, runner = stub.scheduler(cls, made, 60), Knowing(60, drafts=most)
        prompt = list(range(3, 36))
        for name in "ab":
            s.add_request(stub.request(name, prompt, SamplingParams(temperature=0, max_tokens=30)))
            step, _ = stepped(s, runner)
        return step.num_scheduled_tokens

    assert with_ranges(stub.OwnScheduler, None) == with_ranges(stub.Scheduler, {}) == {"a": 1 + most, "b": 1}


@pytest.mark.skipif("skip_drafts" not in api.known(api.SchedulerOutput), reason="vLLM says so from 0.33 on")
@pytest.mark.parametrize("second", [False, True], ids=["first runner", "second runner"])
def test_drafts_that_no_request_can_use_are_not_made(second: bool) -> None:
    """In a part of a prompt, and before the last token that was asked for."""
    seen = []
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        made = stub.config(tessera=own, second=second, drafts=most, drafter="eagle")
        s = stub.scheduler(cls, made, 60)
        runner = Knowing(60, second, drafts=most, drafter="eagle")
        steps = []
        for name, length, asked in (("a", 300, 1), ("b", 200, 9), ("c", 40, 1), ("d", 90, 2)):
            s.add_request(stub.request(name, [ord(name)] * length, SamplingParams(temperature=0, max_tokens=asked)))
        while s.has_unfinished_requests():
            step, _ = stepped(s, runner)
            steps.append((step.skip_drafts, dict(step.num_scheduled_tokens)))
        seen.append(steps)
    assert [skips for skips, _ in seen[0]][:5] == [skips for skips, _ in seen[1]][:5]
    assert {skips for skips, _ in seen[1]} == ({False, True} if second else {False})
