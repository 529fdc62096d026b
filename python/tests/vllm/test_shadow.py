# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shadow mode: what vLLM does stays as it is, and what is predicted comes true where it can be known."""

from __future__ import annotations

from typing import Any

import pytest
import stub
from test_stub import check, drive

from tessera.vllm import shadow


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
    monkeypatch.setattr(shadow.Watcher, "_plan", lambda *a: 1 / 0)
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
    assert stub.Scheduler(config, groups(attention(), window(), window()), None, 16) == "own"
    assert warnings == ["tessera has no 3 groups of KV blocks instead of 2 at most: it watches nothing"]


def test_windows_are_watched_too() -> None:
    windows, blocks = (40, 0), 120
    config = stub.config(caching=True, tessera={"policy": "pascal", "shadow": True})
    watched = stub.scheduler(stub.Scheduler, config, blocks, kv=stub.memory(blocks, windows), include_finished_set=True)
    load = stub.Load(seed=5)
    check(drive(watched, stub.Runner(blocks, windows=windows), load, False), load)
    assert watched.shadow is not None and watched.shadow.report()["ttft"]["predicted"]["count"] > 0
