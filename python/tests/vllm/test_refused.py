# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Requests that are refused, what they are told, and input that comes piece by piece."""

from __future__ import annotations

from typing import Any

import pytest
import stub
from steps import params, refused_requests, served, stepped
from vllm import SamplingParams
from vllm.v1.engine import EngineCoreRequest, FinishReason
from vllm.v1.engine.output_processor import OutputProcessor

from tessera.vllm import scheduler as ours


@pytest.mark.parametrize("what", refused_requests())
def test_request(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """An error for the one, and nothing for the others."""
    request, message = refused_requests()[what]
    errors: list[str] = []
    monkeypatch.setattr(ours.logger, "error", lambda text, *values: errors.append(text % values))
    adapters = 2 if what == "an adapter's number" else 0
    made = stub.config(tessera={"policy": "pars"}, adapters=adapters)
    s = stub.scheduler(stub.Scheduler, made, 40, include_finished_set=True)
    runner = stub.Runner(40)
    s.add_request(stub.request("before", [5, 6, 7], params()))
    s.add_request(request)
    s.add_request(stub.request("after", [6, 6, 7], params()))
    got: dict[str, list[Any]] = {"x": [], "before": [], "after": []}
    while s.has_requests():
        for o in stepped(s, runner):
            got[o.request_id].append(o)
    assert [(o.new_token_ids, o.finish_reason) for o in got["x"]] == [([], FinishReason.ERROR)]
    assert request.is_finished() and request.get_finished_reason() == FinishReason.ERROR
    for name, prompt in (("before", [5, 6, 7]), ("after", [6, 6, 7])):
        assert [t for o in got[name] for t in o.new_token_ids] == stub.answer(prompt, params())
    assert len(errors) == 1 and message in errors[0] and "x" in errors[0]
    assert s.requests == {} and s.get_request_counts() == (0, 0)


def test_a_refused_request_alone_is_told_so() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40)
    s.add_request(stub.request("x", [5] * 1000, params()))
    assert s.has_unfinished_requests()
    assert [o.finish_reason for o in stepped(s, stub.Runner(40))] == [FinishReason.ERROR]
    assert not s.has_unfinished_requests()


def test_a_refused_request_is_aborted_before_it_is_told() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40)
    r = stub.request("x", [5] * 1000, params())
    s.add_request(r)
    assert s.finish_requests(["x"], stub.RequestStatus.FINISHED_ABORTED) == [r]
    assert stepped(s, stub.Runner(40)) == []


def test_a_scores_function_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={"policy": "due_first", "score": f"{__name__}:fails"}), 40)
    s.add_request(stub.request("x", [5, 6], params()))
    assert [o.finish_reason for o in stepped(s, stub.Runner(40))] == [FinishReason.ERROR]


def fails(request: Any) -> float:
    raise KeyError("no such prompt")


def longest_last(request: Any) -> float:
    return request.num_prompt_tokens


def test_a_scores_function_orders() -> None:
    """PARS by a user's function: short prompts first, whatever they ask for."""
    made = stub.config(tessera={"policy": "pars", "score": f"{__name__}:longest_last"}, max_num_seqs=1)
    s = stub.scheduler(stub.Scheduler, made, 40)
    runner = stub.Runner(40)
    for name, length in (("c", 30), ("a", 10), ("b", 20)):
        s.add_request(stub.request(name, [5] * length, params(stop_token_ids=None)))
    order = []
    while s.has_requests():
        order += [o.request_id for o in stepped(s, runner) if o.finish_reason is not None]
    assert order == ["a", "b", "c"]


def test_a_request_that_outgrows_the_memory() -> None:
    """It has what it could get, and an error then; it does not wait for ever."""
    s = stub.scheduler(stub.Scheduler, stub.config(caching=False, tessera={}), 5)
    runner = stub.Runner(5)
    prompt = [5] * 40
    s.add_request(stub.request("x", prompt, SamplingParams(temperature=0, max_tokens=100)))
    got, reasons = [], []
    for _ in range(60):
        for o in stepped(s, runner):
            got += o.new_token_ids
            if o.finish_reason is not None:
                reasons.append(o.finish_reason)
    # 4 blocks of 16 hold 64 tokens; the 65th needs none.
    assert got == stub.answer(prompt, SamplingParams(temperature=0, max_tokens=25))
    assert reasons == [FinishReason.ERROR]
    assert s.requests == {} and s.get_kv_cache_usage() == 0


def test_twice_the_same_id() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40)
    s.add_request(stub.request("x", [5, 6], params()))
    with pytest.raises(ValueError, match="there is a request 'x' already"):
        s.add_request(stub.request("x", [5, 6], params()))


@pytest.mark.parametrize("after", [(), (0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_input_that_comes_piece_by_piece(after: tuple[int, ...]) -> None:
    """Two pieces under one name, and the mark of the end, as vLLM sends them; a step after some. Its front end has an
    end of it, and others are served."""
    s, runner = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40), stub.Runner(40)
    front = OutputProcessor(None, log_stats=False)
    reasons: list[Any] = []

    def step() -> None:
        outputs = stepped(s, runner)
        assert all(o.new_token_ids == [] for o in outputs), "nothing of it is computed"
        reasons.extend(o.finish_reason for o in outputs)
        front.process_outputs(outputs)

    for i, prompt in enumerate(([5, 6], [7, 8], [0])):
        piece = EngineCoreRequest(
            "x", prompt, None, params(detokenize=False), None, 0.0, None, None, None, resumable=i < 2
        )
        piece.external_req_id = "x"
        front.add_request(piece, None)
        s.add_request(stub.request("x", prompt, params(), resumable=i < 2))
        if i in after:
            step()
    while s.has_requests():
        step()
    # From 0.33 on a front end has forgotten the input when the mark comes after an answer: then that is answered, too.
    late = ours.api.tells_errors and 1 in after
    assert reasons == [FinishReason.ERROR] * (3 if late else 2)
    assert not front.request_states, "its client waits for nothing"
    assert s.requests == {} and s.refused == [] and s.refused_streams == set()
    s.add_request(stub.request("y", [5, 6, 7], params()))
    assert served(s, runner) == {"y": FinishReason.LENGTH}


def test_input_that_comes_piece_by_piece_is_aborted() -> None:
    s, runner = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40), stub.Runner(40)
    for with_step in (False, True):
        for _ in range(2):
            s.add_request(stub.request("x", [5, 6], params(), resumable=True))
        if with_step:
            stepped(s, runner)
        s.finish_requests("x", stub.RequestStatus.FINISHED_ABORTED)
        assert stepped(s, runner) == [] and s.refused_streams == set()
        # The name is free.
        s.add_request(stub.request("x", [5, 6], params()))
        assert served(s, runner) == {"x": FinishReason.LENGTH}


def test_what_is_not_there() -> None:
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40)
    assert s.get_kv_connector() is None and s.get_ec_connector() is None
    assert s.get_kv_event_publisher_config() is None
    s.reset_encoder_cache()


# -- what the server is told of a request that is refused (vLLM 0.33)


def first_error(s: Any) -> Any:
    (output,) = stepped(s, stub.Runner(40))
    assert output.finish_reason == FinishReason.ERROR
    return getattr(output, "error", None)


needs_errors = pytest.mark.skipif(not ours.api.tells_errors, reason="outputs have errors from vLLM 0.33 on")


@needs_errors
def test_a_grammar_that_does_not_compile_is_the_clients_fault() -> None:
    from vllm.exceptions import VLLMValidationError
    from vllm.sampling_params import StructuredOutputsParams

    s = stub.scheduler(stub.Scheduler, stub.config(tessera={}), 40)
    r = stub.request("x", [5, 6, 7], params(structured_outputs=StructuredOutputsParams(regex="(")))
    r.structured_output_request.grammar = ValueError("unclosed group")
    s.add_request(r)
    error = first_error(s)
    assert error.code == "validation_error" and not error.retryable
    assert "grammar does not compile: unclosed group" in error.message
    assert isinstance(error.to_exception(), VLLMValidationError), "the server answers 400"


@needs_errors
@pytest.mark.parametrize("what", refused_requests())
def test_a_request_that_is_refused_is_told_why(what: str) -> None:
    request, message = refused_requests()[what]
    adapters = 2 if what == "an adapter's number" else 0
    s = stub.scheduler(stub.Scheduler, stub.config(tessera={"policy": "pars"}, adapters=adapters), 40)
    s.add_request(request)
    error = first_error(s)
    assert error.code == "validation_error" and message in error.message


def test_what_is_not_the_clients_fault_is_no_validation_error() -> None:
    made = stub.config(tessera={"policy": "due_first", "score": f"{__name__}:fails"})
    s = stub.scheduler(stub.Scheduler, made, 40)
    s.add_request(stub.request("x", [5, 6], params()))
    assert first_error(s) is None
