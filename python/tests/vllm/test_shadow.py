# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shadow mode: what vLLM does stays as it is, and what is predicted comes true where it can be known."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import model
import pytest
import stub
from test_stub import check, drive
from vllm import SamplingParams

from tessera.vllm import shadow
from tessera.vllm.__main__ import _check
from tessera.vllm.predictor import Predictor


def made(policy: dict, blocks: int = 60, **more: Any) -> Any:
    return stub.scheduler(
        stub.Scheduler, stub.config(tessera={**policy, "shadow": True}), blocks, include_finished_set=True, **more
    )


@pytest.mark.parametrize("troubled", [False, True], ids=["calm", "troubled"])
@pytest.mark.parametrize("policy", ["fcfs", "pascal", "pars", "due_first"])
def test_vllm_decides(policy: str, troubled: bool) -> None:
    load = stub.Load(seed=5)
    plain = stub.scheduler(stub.OwnScheduler, stub.config(), 60, include_finished_set=True)
    watched = made({"policy": policy})
    assert isinstance(watched, stub.OwnScheduler) and watched.shadow is not None
    runs = [drive(s, stub.Runner(60), load, troubled) for s in (plain, watched)]
    for run in runs:
        check(run, load)
    assert (runs[0].got, runs[0].reasons, runs[0].aborted) == (runs[1].got, runs[1].reasons, runs[1].aborted)
    assert (runs[0].steps, runs[0].preempted) == (runs[1].steps, runs[1].preempted)
    assert watched.shadow is not None, "it has not failed"
    report = watched.shadow.report()
    assert report["steps"] > 0 and report["ttft"]["predicted"]["count"] > (5 if troubled else 20)
    assert report["aborted"] == len(runs[1].aborted - runs[1].reasons.keys())
    assert 0 < report["cost_us"]["tessera"] < report["cost_us"]["vllm"]


def test_the_same_policy_is_predicted_to_the_step() -> None:
    """With room for all, first come first served is what vLLM does: each step is the same, and so are all times."""
    watched = made({"policy": "fcfs"}, blocks=1500)
    run = drive(watched, stub.Runner(1500), stub.Load(seed=5), False)
    check(run, stub.Load(seed=5))
    report = watched.shadow.report()
    assert report["same_batch"] == 1.0
    for name in ("ttft", "tpot", "e2e"):
        assert report[name]["measured"] == report[name]["predicted"]
    assert report["ttft"]["measured"]["count"] == 120
    assert (report["overrun"], report["not_ended"]) == (0, 0)


def test_another_policy_is_seen_to_differ() -> None:
    """Shortest first: the mean time to the first token falls, in a queue of short and long ones."""
    import tessera.vllm.shadow as module

    clock = [0.0]
    original = module.time.monotonic
    module.time.monotonic = lambda: clock[0]  # a second a step
    try:
        s = stub.scheduler(
            stub.Scheduler, stub.config(caching=False, tessera={"policy": "pars", "shadow": True}, max_num_seqs=2), 200
        )
        runner = stub.Runner(200)
        for i in range(12):
            most = 60 if i < 4 else 3
            s.add_request(stub.request(str(i), [5 + i] * 20, stub.SamplingParams(temperature=0, max_tokens=most)))
        while s.has_requests():
            clock[0] += 1.0
            step = s.schedule()
            s.update_from_output(step, runner.run(step))
        report = s.shadow.report()
    finally:
        module.time.monotonic = original
    ttft = report["ttft"]
    assert ttft["predicted"]["mean"] < 0.6 * ttft["measured"]["mean"]
    assert report["same_batch"] < 1
    assert "shadow of pars: ttft mean" in shadow._line(report)
    # Two at a time: the eight short ones take three steps each, then come the long ones.
    assert ttft["predicted"]["p50"] == pytest.approx(10, abs=4)


def test_a_failure_stays_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(shadow.logger, "warning", lambda text, *a, **k: warnings.append(text))
    watched = made({"policy": "fcfs"})
    monkeypatch.setattr(shadow.ShadowScheduler, "_plan", lambda *a: 1 / 0)
    load = stub.Load(seed=5)
    check(drive(watched, stub.Runner(60), load, False), load)
    assert watched.shadow is None
    assert warnings == ["tessera's shadow has failed and is switched off"]


def test_reports_and_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(shadow.logger, "info", lambda text, *a: lines.append(text % a if a else text))
    monkeypatch.setattr(shadow, "report_every", 0.0)
    watched = made({"policy": "pascal"})
    assert lines == ["tessera watches: pascal {'quantum': 500, 'demote_above': 5000, 'fewest_quanta_first': True}; "
                     "vLLM's own scheduler decides"]  # fmt: skip
    drive(watched, stub.Runner(60), stub.Load(seed=5, count=20), False)
    assert len(lines) > 2 and "us a step" in lines[-1]
    watched.shutdown()
    assert watched.shadow is None


def test_memory_that_is_not_had(monkeypatch: pytest.MonkeyPatch) -> None:
    from test_handback import attention, groups, window

    warnings: list[str] = []
    monkeypatch.setattr(shadow.logger, "warning", lambda text, *a: warnings.append(text % a))
    monkeypatch.setattr(shadow.api, "OwnScheduler", lambda *a, **k: "own")
    config = stub.config(tessera={"shadow": True})
    assert stub.Scheduler(config, groups(attention(), *[window()] * 16), None, 16) == "own"
    (warning,) = warnings
    assert warning.startswith(
        "tessera does not support 17 groups of KV blocks (1 to 16 are supported): FullAttentionSpec, "
    )
    assert warning.endswith(": it watches nothing")


def test_windows_are_watched_too() -> None:
    windows, blocks = (40, 0), 120
    config = stub.config(caching=True, tessera={"policy": "pascal", "shadow": True})
    watched = stub.scheduler(stub.Scheduler, config, blocks, kv=stub.memory(blocks, windows), include_finished_set=True)
    load = stub.Load(seed=5)
    check(drive(watched, stub.Runner(blocks, windows=windows), load, False), load)
    assert watched.shadow is not None and watched.shadow.report()["ttft"]["predicted"]["count"] > 0


def params() -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=8)


@pytest.mark.parametrize("what", ["more than 256 adapters at once", "pipeline parallelism", "drafts"])
def test_what_cannot_be_watched(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    from test_handback import configurations, with_config

    warnings: list[str] = []
    monkeypatch.setattr(shadow.logger, "warning", lambda text, *a: warnings.append(text % a))
    monkeypatch.setattr(shadow.api, "OwnScheduler", lambda *a, **k: "own")
    if what == "drafts":
        config = stub.config(drafts=3)
    elif what == "pipeline parallelism":
        config = stub.config(stages=2)
    else:
        part, values = configurations[what]
        config = with_config(part, **values)
    config.additional_config = {"tessera": {"shadow": True}}
    assert stub.Scheduler(config, stub.memory(60), None, 16) == "own"
    assert len(warnings) == 1
    assert warnings[0].startswith(f"tessera does not support {what}") and warnings[0].endswith(": it watches nothing")


def test_a_shadow_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(shadow.logger, "warning", lambda text, *a, **k: warnings.append(text % a))
    monkeypatch.setattr(shadow, "make_core", lambda *a, **k: 1 / 0)
    s = made({"policy": "fcfs"})
    load = stub.Load(seed=5, count=20)
    check(drive(s, stub.Runner(60), load, False), load)
    assert s.shadow is None and warnings == ["tessera's shadow could not be made: it watches nothing"]


def test_who_cannot_be_watched_is_passed() -> None:
    """A token that the core has no number for, a prompt that never fits; the others are watched on."""
    s, runner = made({"policy": "pars"}, blocks=40), stub.Runner(40)
    predictor = s.shadow.describer.predictor = Predictor(SimpleNamespace(score=lambda ids: 1.0), None)
    s.add_request(stub.request("token", [5, 6, 2**64], params()))
    s.add_request(stub.request("fine", [5, 6, 7], params()))
    s.shadow.add(stub.request("long", [5] * 1000, params()))
    assert predictor.scores.keys() == s.shadow.requests.keys() == {"fine"}
    while s.has_requests():
        step = s.schedule()
        s.update_from_output(step, runner.run(step))
    assert s.shadow is not None and s.shadow.report()["ttft"]["predicted"]["count"] == 1
    assert predictor.scores == {}


def test_input_that_comes_piece_by_piece_is_not_watched() -> None:
    s, runner = made({"policy": "fcfs"}), stub.Runner(60)
    for prompt, resumable in (([5, 6], True), ([7, 8], True), ([0], False)):
        s.add_request(stub.request("x", prompt, params(), resumable=resumable))
    assert s.shadow is not None and not s.shadow.requests
    s.add_request(stub.request("y", [5, 6, 7], params()))
    assert s.shadow.requests.keys() == {"y"}
    assert runner.states == {}


def test_a_shadow_that_falls_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps of the requests that vLLM has ended the latest ones, and says how many it has dropped."""
    s = made({"policy": "fcfs"})
    assert s.shadow.most_behind == 4 * 24 + 1024
    s.shadow.most_behind = 10
    monkeypatch.setattr(shadow.ShadowScheduler, "_plan", lambda *a: set())
    load = stub.Load(seed=5)
    run = drive(s, stub.Runner(60), load, False)
    check(run, load)
    assert list(s.shadow.behind) == list(run.reasons)[-10:] and s.shadow.requests.keys() == s.shadow.behind.keys()
    assert s.shadow.core.live() == 10
    report = s.shadow.report()
    assert (report["dropped"], report["not_ended"]) == (110, 10)
    assert shadow._line(report).endswith("; 110 requests dropped, too far behind")


def test_a_step_looks_at_those_who_are_in_it() -> None:
    class NotScanned(dict):
        def __iter__(self) -> Any:
            raise AssertionError("all are looked at")

        items = values = keys = __iter__

    s = made({"policy": "pars"})
    s.shadow.requests = NotScanned()
    load = stub.Load(seed=5)
    check(drive(s, stub.Runner(60), load, False), load)
    assert s.shadow is not None and s.shadow.report()["ttft"]["predicted"]["count"] > 20


def test_a_token_that_is_none_takes_its_request_out_of_the_shadow() -> None:
    """vLLM's own scheduler takes whatever the runner returns."""
    s, runner = made({"policy": "fcfs"}), stub.Runner(60)
    for name in "ab":
        s.add_request(stub.request(name, [5, 6, ord(name)], stub.SamplingParams(temperature=0, max_tokens=8)))
    for i in range(8):
        step = s.schedule()
        ran = runner.run(step)
        if i == 2:
            ran.sampled_token_ids[ran.req_id_to_index["a"]] = [-5]
            runner.states["a"].tokens[-1] = -5
        s.update_from_output(step, ran)
    assert not s.requests
    assert s.shadow is not None, "it has not failed"
    assert s.shadow.aborted == 1 and not s.shadow.requests and s.shadow.report()["ttft"]["predicted"]["count"] == 1


def test_the_log_sorts_what_it_says() -> None:
    s = made({"policy": "fcfs"})
    drive(s, stub.Runner(60), stub.Load(seed=5, count=20), False)
    report = s.shadow.report(shadow._logged)
    assert "e2e" not in report and "ttft mean" in shadow._line(report)
    assert all(values.maxlen == 4096 for pair in s.shadow.times.values() for values in pair.values())


@pytest.mark.parametrize(
    ("watched", "more", "code", "said"),
    [
        (False, [], 0, "tessera would schedule."),
        (True, [], 1, "vLLM's own scheduler would do all of it, and tessera watch it."),
        (
            True,
            ["--enable-lora", "--max-loras", "300"],
            1,
            "vLLM's own scheduler would do all of it, and tessera watch nothing.",
        ),
    ],
)
def test_check_says_who_would_schedule(
    capsys: pytest.CaptureFixture[str], watched: bool, more: list[str], code: int, said: str
) -> None:
    extra = json.dumps({"tessera": {"policy": "pascal", "shadow": watched}})
    arguments = ["--model", model.folder(), "--skip-tokenizer-init", "--dtype", "float32", "--additional-config", extra]
    assert _check([*arguments, *more]) == code
    assert said in capsys.readouterr().out
