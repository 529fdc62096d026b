# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Misuse of the interface, and outputs that a runner should not return."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from typing import Any

import pytest
import stub
from steps import listening, params, served
from vllm import SamplingParams
from vllm.v1.engine import FinishReason

from tessera.vllm import scheduler as ours


def test_numbers_as_large_as_clients_may_send() -> None:
    for cls, own in ((stub.OwnScheduler, None), (stub.Scheduler, {})):
        s, runner = stub.scheduler(cls, stub.config(policy="priority", tessera=own), 60), stub.Runner(60)
        sent = {
            "first": stub.request("first", [5, 6], params(), -(2**63)),
            "last": stub.request("last", [5, 6], params(stop_token_ids=[2**63, 2**70]), 2**63 - 1),
        }
        for r in sent.values():
            s.add_request(r)
        assert served(s, runner) == dict.fromkeys(sent, FinishReason.LENGTH)


def test_numbers_that_no_core_can_take_are_refused() -> None:
    s = stub.scheduler(stub.Scheduler, listening(), 60)
    runner = stub.Runner(60)
    shared = [*range(3, 40)]
    s.add_request(stub.request("token", [*shared, 2**64], params()))
    s.add_request(stub.request("fine", shared, params()))
    reasons = served(s, runner)
    assert reasons == {"token": FinishReason.ERROR, "fine": FinishReason.LENGTH}
    s.add_request(stub.request("again", shared, params()))
    assert served(s, runner) == {"again": FinishReason.LENGTH}


def test_an_argument_as_json() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={"policy": "pars"}), 60)
    runner = stub.Runner(60)
    for name, own in (("a", '{"score": 3}'), ("b", '{"score": "3"}'), ("c", '{"score"'), ("d", "3"), ("e", '{"s": 1}')):
        s.add_request(stub.request(name, [5], params(extra_args={"tessera": own})))
    reasons = served(s, runner)
    assert reasons == {"a": FinishReason.LENGTH, **dict.fromkeys("bcde", FinishReason.ERROR)}


def test_a_scheduler_that_has_been_shut_down() -> None:
    for under_way in (False, True):
        s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 60)
        runner = stub.Runner(60)
        s.add_request(stub.request("a", [5, 6, 7], params()))
        step = s.schedule()
        ran = runner.run(step)
        if not under_way:
            s.update_from_output(step, ran)
        s.shutdown()
        s.shutdown()
        with pytest.raises(RuntimeError, match="shut down"):
            s.schedule()
        # The others say so, too, or that nothing is there; the interpreter lives.
        calls: list[Any] = [
            s.get_kv_cache_usage,
            s.get_request_counts,
            s.reset_prefix_cache,
            lambda s=s: s.finish_requests("a", stub.RequestStatus.FINISHED_ABORTED),
        ]
        if under_way:
            calls.append(lambda s=s, step=step, ran=ran: s.update_from_output(step, ran))
        for call in calls:
            with contextlib.suppress(RuntimeError, IndexError):
                call()


def test_a_step_is_updated_once_and_in_order() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}, async_scheduling=True), 60)
    runner = stub.Runner(60)
    s.add_request(stub.request("a", [5, 6, 7], params()))
    first = s.schedule()
    ran = runner.run(first)
    second = s.schedule()
    ran_second = runner.run(second)
    with pytest.raises(RuntimeError, match="not the oldest"):
        s.update_from_output(second, ran_second)
    s.update_from_output(first, ran)
    with pytest.raises(RuntimeError, match="not the oldest"):
        s.update_from_output(first, ran)
    s.update_from_output(second, ran_second)
    with pytest.raises(RuntimeError, match="not the oldest"):
        s.update_from_output(second, ran_second)
    assert served(s, runner) == {"a": FinishReason.LENGTH}


# -- what a runner should not return, and returns for one request of several


def without_tokens(ran: Any, name: str) -> None:
    ran.sampled_token_ids[ran.req_id_to_index[name]] = []


def with_tokens(*tokens: Any) -> Any:
    def change(ran: Any, name: str) -> None:
        ran.sampled_token_ids[ran.req_id_to_index[name]] = list(tokens)

    return change


def with_none(ran: Any, name: str) -> None:
    ran.sampled_token_ids[ran.req_id_to_index[name]] = None


def left_out(ran: Any, name: str) -> None:
    ran.req_ids = ["somebody" if n == name else n for n in ran.req_ids]
    ran.req_id_to_index = {n: i for n, i in ran.req_id_to_index.items() if n != name}


def at(place: Any) -> Any:
    def change(ran: Any, name: str) -> None:
        left_out(ran, name)
        ran.req_id_to_index[name] = place

    return change


unusable = {
    "no token": (without_tokens, "returned no token"),
    "no list": (with_none, "no list of tokens"),
    "too many tokens": (with_tokens(*[9] * 9), "more tokens"),
    "a token below zero": (with_tokens(-1), "returned -1, which is no token"),
    "a token beyond all vocabularies": (with_tokens(2**31), "which is no token"),
    "a token that no integer holds": (with_tokens(2**70), "too large|too big"),
    "no number": (with_tokens("a"), "TypeError"),
    "left out": (left_out, "lacks it"),
    **{f"place {place}": (at(place), "no list of tokens") for place in (-1, 7, 2**31, 2**32)},
    "no place": (at("first"), "TypeError"),
}


def bad_once(s: Any, runner: stub.Runner, in_flight: int, change: Any) -> dict[str, list[Any]]:
    """All to their end; the third output for `b` is changed. The outputs by request."""
    got: dict[str, list[Any]] = {}
    launched: deque[Any] = deque()
    samples = 0
    while s.has_requests() or launched:
        if s.has_requests():
            step = s.schedule()
            launched.append((step, runner.run(step)))
        if len(launched) < in_flight and s.has_requests():
            continue
        step, ran = launched.popleft()
        if "b" in ran.req_id_to_index and ran.sampled_token_ids[ran.req_id_to_index["b"]]:
            samples += 1
            if samples == 3:
                change(ran, "b")
        for outputs in s.update_from_output(step, ran).values():
            for o in outputs.outputs:
                got.setdefault(o.request_id, []).append(o)
        if runner.drafts and in_flight == 1 and step.total_num_scheduled_tokens:
            s.update_draft_token_ids(runner.take_draft_token_ids())
    return got


@pytest.mark.parametrize("drafts", [0, 3], ids=["no drafts", "drafts"])
@pytest.mark.parametrize("in_flight", [1, 2], ids=["one in flight", "two in flight"])
@pytest.mark.parametrize("what", unusable)
def test_a_request_without_a_usable_output_ends_alone(
    monkeypatch: pytest.MonkeyPatch, what: str, in_flight: int, drafts: int
) -> None:
    change, message = unusable[what]
    errors: list[str] = []
    monkeypatch.setattr(ours.logger, "error", lambda text, *values: errors.append(text % values))
    made = stub.config(tessera={}, drafts=drafts, async_scheduling=in_flight == 2)
    s = stub.scheduler(stub.Scheduler, made, 60, include_finished_set=True, log_stats=True)
    runner = stub.Runner(60, drafts=drafts)
    prompts = {name: [5, 6, 7, ord(name)] * 9 for name in "abc"}
    asked = SamplingParams(temperature=0, max_tokens=30)
    requests = {name: stub.request(name, prompt, asked) for name, prompt in prompts.items()}
    for r in requests.values():
        s.add_request(r)
    got = bad_once(s, runner, in_flight, change)
    tokens = {name: [t for o in outputs for t in o.new_token_ids] for name, outputs in got.items()}
    reasons = {name: [o.finish_reason for o in outputs if o.finish_reason is not None] for name, outputs in got.items()}
    assert reasons == {"a": [FinishReason.LENGTH], "b": [FinishReason.ERROR], "c": [FinishReason.LENGTH]}
    assert requests["b"].get_finished_reason() == FinishReason.ERROR
    for name in "ac":
        assert tokens[name] == stub.answer(prompts[name], asked)
    whole = stub.answer(prompts["b"], asked)
    assert 2 <= len(tokens["b"]) < len(whole) and tokens["b"] == whole[: len(tokens["b"])]
    assert len(errors) == 1 and "request b" in errors[0] and re.search(message, errors[0])
    # Nothing is left of it, and the server does not say that the client is at fault.
    assert s.requests == {} and s.get_request_counts() == (0, 0) and s.get_kv_cache_usage() == 0
    assert getattr(got["b"][-1], "error", None) is None
    s.add_request(stub.request("b", prompts["b"], asked))
    assert served(s, runner) == {"b": FinishReason.LENGTH}


def test_what_fails_for_one_output_ends_its_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grammar that raises, logprobs that are too short."""
    from vllm.sampling_params import StructuredOutputsParams

    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 60)
    runner = stub.Runner(60)
    broken = stub.request("grammar", [5, 6, 7], params(structured_outputs=StructuredOutputsParams(regex="[a-z]*")))
    broken.structured_output_request.grammar = object()
    s.add_request(broken)
    s.add_request(stub.request("logprobs", [6, 6, 7], params(logprobs=1)))
    s.add_request(stub.request("fine", [7, 6, 7], params()))

    class Short:
        def slice_request(self, index: int, n: int) -> Any:
            raise IndexError(index)

    def raises(*_: Any) -> bool:
        raise AssertionError("the matcher has ended")

    monkeypatch.setattr(s.structured_output_manager, "accept_tokens", raises)
    reasons: dict[str, Any] = {}
    while s.has_requests():
        step = s.schedule()
        ran = runner.run(step)
        ran.logprobs = Short()
        for outputs in s.update_from_output(step, ran).values():
            reasons |= {o.request_id: o.finish_reason for o in outputs.outputs if o.finish_reason is not None}
    assert reasons == {"grammar": FinishReason.ERROR, "logprobs": FinishReason.ERROR, "fine": FinishReason.LENGTH}
    assert s.requests == {} and s.get_kv_cache_usage() == 0
