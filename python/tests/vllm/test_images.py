# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prompts with images, under vLLM's own scheduler and under ours."""

from __future__ import annotations

import random
from typing import Any

import images
import pytest
import stub
from images import Load, Runner
from test_stub import Run, check, drive, one_or_two, policies
from vllm import SamplingParams
from vllm.v1.engine import FinishReason

ours_only = pytest.mark.skipif("not images.is_supported()", reason=images.reason)
ours_or_theirs = pytest.mark.parametrize(
    "theirs", [pytest.param(True, id="vLLM's own"), pytest.param(False, id="ours", marks=ours_only)]
)

#: vLLM's options and those of `driven`. Images have up to 49 embeddings.
settings: dict[str, dict[str, Any]] = {
    "no cache": {"caching": False},
    "cache": {},
    "one image at a time": {"budget": 49, "cache_size": 49},
    "roomy": {"budget": 1000, "cache_size": 5000, "blocks": 200},
    "chunks": {"long_prefill_token_threshold": 24},
    "images larger than steps": {"max_num_batched_tokens": 32, "caching": False},
    "whole images": {"disable_chunked_mm_input": True, "max_num_batched_tokens": 96},
    "whole images, no cache": {"disable_chunked_mm_input": True, "max_num_batched_tokens": 64, "caching": False},
    "second runner": {"second": True},
    "windows": {"windows": (40, 0)},
    "chunks of attention": {"windows": (-48, 0), "caching": False},
    "states": {"windows": (stub.a_state, 0), "caching": False},
    "drafts": {"drafts": 3},
    "eagle": {"drafts": 3, "drafter": "eagle"},
    "eagle, whole images": {"drafts": 3, "drafter": "eagle", "disable_chunked_mm_input": True},
    "eagle, one image a step": {"drafts": 3, "drafter": "eagle", "budget": 49, "cache_size": 200},
    "modules": {"drafts": 3, "drafter": "modules"},
    "states that are found again": {"windows": (stub.an_aligned, 0)},
    "priority": {"policy": "priority"},
}


def driven(
    theirs: bool, load: Load, troubled: bool, in_flight: int, own: Any = None, **more: Any
) -> tuple[Run, Runner]:
    windows, blocks = more.pop("windows", (0,)), more.pop("blocks", 60)
    blocks *= len(windows)
    second = more.pop("second", False)
    budget, cache_size = more.pop("budget", 64), more.pop("cache_size", 128)
    drafts, drafter = more.get("drafts", 0), more.get("drafter", "")
    made = images.config(
        budget,
        cache_size,
        tessera=None if theirs else {"policy": more.get("policy", "fcfs"), **(own or {})},
        second=second,
        async_scheduling=in_flight == 2,
        **more,
    )
    cls = (stub.OwnScheduler, stub.OwnAsyncScheduler)[in_flight - 1] if theirs else stub.Scheduler
    kv = stub.memory(blocks, windows, drafts=drafts)
    s = stub.scheduler(cls, made, blocks, kv=kv, include_finished_set=True)
    assert type(s) is cls
    runner = Runner(
        blocks,
        second,
        drafts,
        windows=windows,
        drafter=drafter,
        zeroes=bool({stub.a_state, stub.an_aligned} & {*windows}),
        budget=budget,
        cache_size=cache_size,
        uncut=more.get("disable_chunked_mm_input", False),
        lenient=theirs,
    )
    if troubled:
        reset_now_and_then(s, runner)
    if theirs and in_flight == 2:
        # vLLM's own takes tokens back after a reset between two steps, as vLLM's runner knows, and this one does not.
        troubled = False
    run = drive(s, runner, load, troubled, in_flight)
    check(run, load)
    return run, runner


def reset_now_and_then(s: Any, runner: Runner) -> None:
    """As vLLM's engine core does when weights are changed: between steps, here and there."""
    plan, steps = s.schedule, 0

    def with_resets(**named: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps % 23 == 0:
            s.reset_encoder_cache()
            runner.reset_encoder_cache()
        return plan(**named)

    s.schedule = with_resets


def told(name: str, run: Run, runner: Runner) -> str:
    return (
        f"{name}: steps {run.steps}, preempted {run.preempted}, hits {run.hits}, images encoded {runner.encoded}, "
        f"again {runner.again}, needlessly {runner.needless}, unsent {runner.unsent}, dropped {runner.dropped}, "
        f"cut {runner.cut}, at most {runner.largest} in a step, {runner.held} held"
    )


@one_or_two
@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@pytest.mark.parametrize("name", settings)
@ours_or_theirs
def test_tokens(theirs: bool, name: str, troubled: bool, in_flight: int) -> None:
    setting = dict(settings[name])
    load = Load(seed=list(settings).index(name), priorities=name == "priority")
    run, runner = driven(theirs, load, troubled, in_flight, **setting)
    print("\n" + told(name, run, runner))
    assert runner.encoded > 10


@ours_only
@one_or_two
@pytest.mark.parametrize("name", settings)
def test_beside_vllm(name: str, in_flight: int) -> None:
    load = Load(seed=50 + list(settings).index(name), priorities=name == "priority")
    (theirs, a), (ours, b) = (driven(theirs, load, False, in_flight, **settings[name]) for theirs in (True, False))
    print(f"\n{told(name + ', theirs', theirs, a)}\n{told(name + ', ours', ours, b)}")
    assert theirs.got == ours.got and theirs.reasons == ours.reasons
    assert ours.steps < 1.2 * theirs.steps and b.encoded < 1.2 * a.encoded


@ours_only
@one_or_two
@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@pytest.mark.parametrize("name", policies)
def test_policies(name: str, troubled: bool, in_flight: int) -> None:
    place = list(policies).index(name)
    setting = dict(list(settings.values())[(5 * place + 2 * troubled + in_flight) % (len(settings) - 1)])
    if "chunks" in name:
        setting["long_prefill_token_threshold"] = 24
    load = Load(seed=100 + place, priorities=name == "priority", tenants=name == "vtc")
    own = {"policy": name.split()[0], **policies[name]}
    run, runner = driven(False, load, troubled, in_flight, own, **setting)
    print("\n" + told(f"{name} {setting}", run, runner))
    assert runner.encoded > 10


def served(
    s: Any, runner: Runner, requests: list[tuple[list[Any], int]]
) -> tuple[dict[str, list[int]], dict[str, Any]]:
    """Requests of parts of prompts, with so many steps before the next of them: what came of each, and why it ended."""
    got: dict[str, list[int]] = {}
    reasons: dict[str, Any] = {}
    for i, (parts, steps) in enumerate(requests):
        tokens, features = images.prompt_of(parts)
        s.add_request(stub.request(str(i), tokens, SamplingParams(temperature=0, max_tokens=8), mm_features=features))
        for _ in range(steps):
            step = s.schedule()
            for outputs in s.update_from_output(step, runner.run(step)).values():
                for o in outputs.outputs:
                    got[o.request_id] = got.get(o.request_id, []) + o.new_token_ids
                    if o.finish_reason is not None:
                        reasons[o.request_id] = o.finish_reason
    assert not s.has_requests() and not s.requests and s.get_kv_cache_usage() == 0
    return got, reasons


def scheduler(theirs: bool, cache_size: int = 128, **more: Any) -> Any:
    made = images.config(64, cache_size, tessera=None if theirs else {}, **more)
    return stub.scheduler(stub.OwnScheduler if theirs else stub.Scheduler, made, 60)


def answer(parts: list[Any]) -> list[int]:
    tokens, features = images.prompt_of(parts)
    return stub.answer(images.seen(tokens, features), SamplingParams(temperature=0, max_tokens=8))


text = [7] * 20
x20, x30 = images.plain("x", 20), images.plain("x", 30)
#: Requests that come one after the other, with so many steps after each, and which of them are errors.
misused: dict[str, tuple[list[tuple[list[Any], int]], list[str]]] = {
    "while it is in use": ([([text, x20, [8] * 300], 1), ([text, x30, text], 40)], ["1"]),
    "later": ([([text, x20, text], 20), ([text, x30, text], 20), ([text, x20], 20)], ["1"]),
    "fewer": ([([text, x30, text], 20), ([text, x20, text], 20)], ["1"]),
    "in a step with it": ([([text, x20, text], 0), ([text, x30, text], 40)], ["1"]),
    "in one request": ([([text, x20, text, x30, text], 20), ([x20], 20)], ["0"]),
    "in one request, far apart": ([([text, x20, [8] * 200, x30, text], 20), ([x20], 20)], ["0"]),
    "once it is gone": ([([x20], 20), ([images.plain("y", 49)], 20), ([images.plain("z", 49)], 20), ([x30], 20)], []),
}


@pytest.mark.parametrize("name", misused)
@ours_or_theirs
def test_an_identifier_with_another_number_of_embeddings(theirs: bool, name: str) -> None:
    requests, errors = misused[name]
    s = scheduler(theirs, 64 if name == "once it is gone" else 128)
    got, reasons = served(s, Runner(60, cache_size=s.vllm_config.scheduler_config.encoder_cache_size), requests)
    for i, (parts, _) in enumerate(requests):
        if str(i) in errors:
            assert reasons[str(i)] == FinishReason.ERROR and not got.get(str(i))
        else:
            assert reasons[str(i)] == FinishReason.LENGTH and got[str(i)] == answer(parts)


@ours_only
def test_an_image_larger_than_the_cache_is_refused() -> None:
    """vLLM's front end refuses it; its scheduler would let it wait for ever, and all others behind it."""
    requests = [([text, images.plain("large", 200)], 0), ([text, x20, text], 40)]
    got, reasons = served(scheduler(False), Runner(60), requests)
    assert reasons == {"0": FinishReason.ERROR, "1": FinishReason.LENGTH} and got["1"] == answer(requests[1][0])


class Adjacent(Load):
    """Several images on end, each as large as the cache."""

    def images(self, rng: random.Random) -> list[images.Image]:
        return [images.plain(f"plain {i}", images.most) for i in range(18)]


@ours_only
@one_or_two
@pytest.mark.parametrize("drafter", ["eagle", "modules"])
def test_a_drafter_reads_the_next_image_where_there_is_room_for_one(drafter: str, in_flight: int) -> None:
    """Before a prompt has passed an image, a drafter reads the first token of the next one. It does without the image.
    vLLM's own scheduler wants both there, and waits for ever."""
    more = {"drafts": 3, "drafter": drafter, "budget": images.most, "cache_size": images.most}
    run, runner = driven(False, Adjacent(seed=7, count=30), False, in_flight, blocks=90, **more)
    print("\n" + told(drafter, run, runner))
    assert runner.held == images.most


@ours_only
@one_or_two
def test_whole_images_where_states_are_found_again(in_flight: int) -> None:
    """A step that begins with an image may end within it: with the last block that others find. There vLLM 0.33's
    own scheduler waits for ever."""
    more = {"windows": (stub.an_aligned, 0), "disable_chunked_mm_input": True}
    run, runner = driven(False, Load(seed=7), False, in_flight, **more)
    print("\n" + told("whole images, states", run, runner))
    assert runner.cut > 0 and run.hits > 0


@ours_only
def test_no_image_is_cut_for_what_a_drafter_reads() -> None:
    """Several modules read three tokens ahead, which a step leaves to the next. vLLM's own cuts an image for that."""
    more = {"drafts": 3, "drafter": "modules", "disable_chunked_mm_input": True, "max_num_batched_tokens": 70}
    s = scheduler(False, **more)
    tokens, features = images.prompt_of([text, images.plain("whole", 49), [9] * 2])
    s.add_request(stub.request("a", tokens, SamplingParams(max_tokens=4), mm_features=features))
    assert s.schedule().num_scheduled_tokens == {"a": 20}


@ours_or_theirs
def test_an_image_that_is_there_is_not_encoded_again(theirs: bool) -> None:
    runner = Runner(60)
    one, two = [text, x20, [9] * 20], [[11] * 5, x20, text, x20]
    got, _ = served(scheduler(theirs), runner, [(one, 1), (two, 20), (two, 20)])
    assert got == {"0": answer(one), "1": answer(two), "2": answer(two)} and runner.encoded == 1


# The checks can fail, as vLLM's own scheduler shows.


class Blind(Load):
    """Names of blocks do not tell images apart."""

    def request(self, arrival: Any) -> Any:
        made = stub.request(*arrival)
        made.mm_features = list(self.features[arrival[0]])
        return made


def test_another_image_is_seen() -> None:
    with pytest.raises(AssertionError):
        driven(True, Blind(seed=1), False, 1)


def _not_encoded(step: Any, runner: Runner) -> bool:
    return bool(step.scheduled_encoder_inputs and step.scheduled_encoder_inputs.popitem())


def _encoded_twice(step: Any, runner: Runner) -> bool:
    for new in step.scheduled_new_reqs:
        if new.mm_features and new.mm_features[0].identifier in runner.outputs:
            step.scheduled_encoder_inputs[new.req_id] = [0]
            return True
    return False


def _not_dropped(step: Any, runner: Runner) -> bool:
    return bool(step.free_encoder_mm_hashes and step.free_encoder_mm_hashes.pop())


def _dropped_twice(step: Any, runner: Runner) -> bool:
    step.free_encoder_mm_hashes *= 2
    return bool(step.free_encoder_mm_hashes)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (_not_encoded, "lacks"),
        (_encoded_twice, "is there already"),
        (_not_dropped, "is there already|in the cache"),
        (_dropped_twice, "is not there"),
    ],
)
def test_a_wrong_step_is_seen(change: Any, what: str) -> None:
    made = images.config(64, 128)
    s = stub.scheduler(stub.OwnScheduler, made, 60, include_finished_set=True)
    runner = Runner(60)
    plan, changed = s.schedule, []

    def with_a_change(**named: Any) -> Any:
        step = plan(**named)
        if not changed and change(step, runner):
            changed.append(step)
        return step

    s.schedule = with_a_change
    with pytest.raises(AssertionError, match=what):
        drive(s, runner, Load(seed=2), False)
    assert changed


def with_sound(name: str, pieces: int, shown: int, heard: int) -> tuple[list[int], list[Any]]:
    """A video as Qwen2.5-Omni's: its pictures and its sound are two inputs, with the same tokens."""
    marks: list[list[bool]] = [[False], [False]]
    for _ in range(pieces):
        marks[0] += [True] * shown + [False] * heard
        marks[1] += [False] * shown + [True] * heard
    made = [images.Image(f"{kind} {name}", tuple(mask)) for kind, mask in zip(("seen", "heard"), marks, strict=True)]
    return [images.line_end] + [images.place] * (len(marks[0]) - 1), [one.feature(0) for one in made]


@ours_only
def test_two_videos_with_sound_do_not_wait_for_each_other() -> None:
    s = scheduler(False, 100, long_prefill_token_threshold=10, caching=False)
    runner = Runner(60, budget=70, cache_size=100)  # as many in a step as one video needs
    for name in "ab":
        tokens, features = with_sound(name, 2, 20, 15)  # 70 embeddings of two inputs; the pictures of both: 80
        params = SamplingParams(temperature=0, max_tokens=4)
        s.add_request(stub.request(name, tokens + [9] * 20, params, mm_features=features))
    for _ in range(80):
        step = s.schedule()
        s.update_from_output(step, runner.run(step))
    assert not s.requests and runner.encoded == 4


@ours_only
def test_a_video_with_more_sound_than_there_is_room_for_is_refused() -> None:
    s = scheduler(False, 64)
    tokens, features = with_sound("a", 4, 10, 8)
    s.add_request(stub.request("a", tokens + [9] * 20, SamplingParams(max_tokens=4), mm_features=features))
    outputs = s.update_from_output(step := s.schedule(), Runner(60).run(step))
    assert [o.finish_reason for one in outputs.values() for o in one.outputs] == [FinishReason.ERROR]
