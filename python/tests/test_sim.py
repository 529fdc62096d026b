# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The simulator from Python."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tessera import sim

load = sim.generate("alpaca-chat", 300, rate=3.0)
small = {"instances": 1}


def test_lists() -> None:
    names = [p.name for p in sim.policies()]
    assert {"fcfs", "pascal", "pars", "due-first", "cascade", "phasor"} <= set(names)
    assert all(p.summary for p in sim.policies())
    assert {p.name for p in sim.policies() if p.needs_scores} == {"pars"}
    assert "alpaca-chat" in [w.name for w in sim.workloads()] and all(w.rate > 0 for w in sim.workloads())
    assert "h100-96gb-qwen-32b" in sim.profiles()
    assert sim.profile("h200-llama-3.1-8b")["name"] == "h200-llama-3.1-8b"


def test_workloads_are_columns_and_repeat() -> None:
    again = sim.generate("alpaca-chat", 300, rate=3.0)
    assert set(load) == {
        "arrival_s", "prompt_tokens", "output_tokens", "reasoning_tokens", "answer_tokens", "score",
    }  # fmt: skip
    for name, values in load.items():
        np.testing.assert_array_equal(values, again[name])
        assert values.shape == (300,)
    assert (load["reasoning_tokens"] + load["answer_tokens"] == load["output_tokens"]).all()
    assert (sim.generate("alpaca-chat", 300, rate=3.0, seed=2)["prompt_tokens"] != load["prompt_tokens"]).any()


@pytest.mark.parametrize("policy", [p.name for p in sim.policies() if not p.needs_scores])
def test_every_policy_runs(policy: str) -> None:
    run = sim.replay(policy, load, instances=4)
    assert run.summary["completed"] == run.summary["requests"] == 300
    assert run.policy == policy == run.summary["policy"]
    r = run.requests
    assert len(r["id"]) == 300 and sorted(r["id"]) == list(range(300))
    np.testing.assert_allclose(r["e2e"], r["finish"] - r["arrival"])
    assert (r["ttft"] > 0).all()
    assert run.instances["output_tokens"].sum() >= load["output_tokens"].sum() - 300 * 2
    assert len(run.timeline["time"]) == len(run.timeline["kv_used"]) > 0


def test_the_summary_is_of_the_requests() -> None:
    run = sim.replay("fcfs", load, **small)
    assert run.summary["ttft"]["mean"] == pytest.approx(run.requests["ttft"].mean())
    assert run.summary["e2e"]["p99"] == pytest.approx(np.quantile(run.requests["e2e"], 0.99))


def test_sessions_and_prefixes(tmp_path: Path) -> None:
    agents = sim.generate("agentic", 200, rate=0.4)
    later = agents["session"][1:] == agents["session"][:-1]
    run = sim.replay("fcfs", agents, instances=2)
    again = sim.replay("fcfs", sim.workload(**agents), instances=2)
    np.testing.assert_array_equal(run.requests["finish"], again.requests["finish"])
    r = run.requests
    waited = r["arrival"][1:] - r["finish"][:-1]
    np.testing.assert_allclose(waited[later], agents["think_s"][1:][later])
    found = r["cached_tokens"].sum() / agents["prompt_tokens"].sum()
    assert run.summary["prefix_hit_rate"] == pytest.approx(found) and found > 0.1
    off = sim.replay("fcfs", agents, instances=2, prefix_cache=False)
    assert off.summary["prefix_hit_rate"] == 0

    file = tmp_path / "trace.jsonl"
    line = '{"timestamp": %d, "input_length": 1024, "output_length": 2, "hash_ids": [1, %d], "user": 1}\n'
    file.write_text(line % (0, 2) + line % (90_000, 3))
    with pytest.warns(UserWarning, match="not used: 'user'"):
        shared = sim.read_trace(file)
    assert shared["runs"].tolist() == [[(1, 512), (2, 512)], [(1, 512), (3, 512)]]
    assert sim.replay("fcfs", shared, instances=1).requests["cached_tokens"].tolist() == [0, 512]
    with pytest.raises(ValueError, match="runs"):
        sim.replay("fcfs", {**shared, "runs": [[(1, 0)], []]})
    with pytest.raises(ValueError, match="think_s"):
        sim.replay("fcfs", {**agents, "think_s": -agents["think_s"] - 1})


def test_whose_server_knows_that_another_turn_follows() -> None:
    agents = sim.generate("agentic", 200, rate=2)
    last = np.append(agents["session"][1:] != agents["session"][:-1], True)
    assert (agents["calls_tool"][:-1] == ~last[:-1]).all()
    assert not sim.generate("multi-turn", 200)["calls_tool"].any()
    with pytest.raises(ValueError, match=r"calls_tool\[0\] must be a whole number from 0 to 1, not 2"):
        sim.replay("continuum", {**agents, "calls_tool": np.full(200, 2)}, instances=1)


def test_tenants(tmp_path: Path) -> None:
    noisy = sim.generate("noisy-neighbour", 300, rate=60.0)
    assert set(noisy["tenant"]) == {0, 1, 2, 3}
    shares = {policy: sim.replay(policy, noisy, **small).summary["worst_tenant"] for policy in ("fcfs", "vtc")}
    assert shares["vtc"] > shares["fcfs"] > 0
    again = sim.replay("vtc", sim.workload(**noisy), **small)
    assert again.summary["worst_tenant"] == shares["vtc"]
    alone = {name: values for name, values in noisy.items() if name != "tenant"}
    assert "worst_tenant" not in sim.replay("vtc", alone, **small).summary
    file = tmp_path / "trace.csv"
    file.write_text("arrival_s,prompt_tokens,output_tokens,tenant\n0,10,5,x\n1,10,5,\n2,10,5,y\n")
    assert sim.read_trace(file)["tenant"].tolist() == [0, -1, 1]
    for wrong in (-2, 64, 0.5):
        with pytest.raises(ValueError, match=r"tenant\[0\] must be a whole number from 0 to 63"):
            sim.replay("vtc", {**noisy, "tenant": np.full(300, wrong)}, **small)


def test_times_that_no_clock_tells_apart() -> None:
    def at(*arrivals: float, **more: Any) -> dict[str, Any]:
        n = len(arrivals)
        return sim.workload(arrival_s=arrivals, prompt_tokens=[10] * n, output_tokens=[5] * n, **more)

    for far in (at(0, 1, 1e15), at(1.7e18, 1.700000001e18), at(0, 0, session=[1, 1], think_s=[0, 2e9])):
        for policy in ("fcfs", "phasor", "cascade"):
            with pytest.raises(ValueError, match=r"spans at most|can be told apart"):
                sim.replay(policy, far, instances=4)
    run = sim.replay("phasor", at(1.7e9, 1.7e9 + 1), instances=4)  # Unix time
    assert run.summary["completed"] == 2 and (run.requests["ttft"] > 0).all()


def test_traces_that_need_a_word(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("Timestamp,Request tokens,Response tokens\n5,10,5\n6,3,0\n")
    with pytest.warns(UserWarning, match="left out: 1 without output"):
        assert len(sim.read_trace(log)["arrival_s"]) == 1
    small_hashes = tmp_path / "hashes.jsonl"
    small_hashes.write_text('{"arrival_s": 0, "prompt_tokens": 33, "output_tokens": 1, "hash_ids": [7, 8, 9]}\n')
    assert sim.read_trace(small_hashes, hash_tokens=16)["runs"].tolist() == [[(7, 16), (8, 16), (9, 1)]]
    with pytest.raises(ValueError, match="hash_ids"):
        sim.read_trace(small_hashes)
    with pytest.raises(ValueError, match="hash_tokens goes with a trace that has hash_ids"):
        sim.read_trace(log, hash_tokens=16)
    for wrong in (0.0, -1.0, float("inf")):
        with pytest.raises(ValueError, match="rate is a number above 0"):
            sim.read_trace(log, rate=wrong)
        with pytest.raises(ValueError, match="rate is a number above 0"):
            sim.generate("alpaca-chat", 10, rate=wrong)


def test_traces_as_they_are_kept(tmp_path: Path) -> None:
    rows = b"timestamp,prompt_tokens,completion_tokens\n2000,20,7\n500,10,5\n"
    packed = tmp_path / "log.csv.gz"
    packed.write_bytes(gzip.compress(rows))
    with pytest.raises(ValueError, match=r"log.csv.gz:2:1: expected timestamp .* say --time-unit"):
        sim.read_trace(packed)
    with pytest.warns(UserWarning, match="sorted by arrival: 1"):
        read = sim.read_trace(packed, time_unit="ms")
    assert read["arrival_s"].tolist() == [0, 1.5] and read["prompt_tokens"].tolist() == [10, 20]
    with pytest.raises(ValueError, match="--time-unit is one of"):
        sim.read_trace(packed, time_unit="h")
    packed.write_bytes(gzip.compress(rows)[:-9])
    with pytest.raises(ValueError, match="a whole gzip file"):
        sim.read_trace(packed)
    runs = tmp_path / "runs.json"
    runs.write_text('{"input_lens": [1], "output_lens": [2]}\n{"input_lens": [3], "output_lens": [4]}\n')
    with pytest.warns(UserWarning, match="holds 2 runs: run 1 is read"):
        assert sim.read_trace(runs, rate=1, run=1)["prompt_tokens"].tolist() == [1]


def test_runs_repeat() -> None:
    a, b = (sim.replay("pascal", load, **small) for _ in range(2))
    for name in a.requests:
        np.testing.assert_array_equal(a.requests[name], b.requests[name])


def test_it_is_what_the_tool_prints() -> None:
    """The same numbers as the program `replay`, where there is one."""
    tool = Path(__file__).parents[2] / "build" / "demo" / "tools" / "replay"
    if not tool.exists():
        pytest.skip("no program replay was built")
    import json

    out = tool.parent / "python-test.json"
    command = [tool, "--policy", "fcfs", "--workload", "alpaca-chat", "--rate", "3", "--requests", "300"]
    subprocess.run([*command, "--instances", "1", "--json", out], check=True, capture_output=True)
    theirs = json.loads(out.read_text())[0]
    ours = sim.replay("fcfs", load, **small).summary
    for key in ("ttft", "tpot", "e2e", "preemptions", "completed"):
        assert theirs[key] == ours[key]


def test_an_order_of_ones_own() -> None:
    """Shortest first, by a function that is called once a request, is what `sjf` does by itself."""
    called: list[int] = []

    def length(request: dict[str, Any]) -> float:
        called.append(request["id"])
        return request["output_tokens"]

    mine = sim.replay("pars", load, order=length, **small)
    assert called == list(range(300))
    theirs = sim.replay("sjf", load, **small)
    np.testing.assert_array_equal(mine.requests["finish"], theirs.requests["finish"])
    longest = sim.replay("pars", load, order=lambda r: -r["output_tokens"], **small)
    assert longest.summary["e2e"]["mean"] > mine.summary["e2e"]["mean"]


def test_a_threshold_of_ones_own() -> None:
    # With none, it is the order of arrival.
    at_once = sim.replay("pars", load, order=lambda r: r["output_tokens"], threshold=0.0, **small)
    fcfs = sim.replay("fcfs", load, **small)
    assert at_once.requests["first_scheduled"][-1] == pytest.approx(fcfs.requests["first_scheduled"][-1], rel=0.2)
    never = sim.replay("pars", load, order=lambda r: r["output_tokens"], threshold=float("inf"), **small)
    assert (never.requests["finish"] != at_once.requests["finish"]).any()


def test_a_parameter_behind_the_name() -> None:
    long_steps = sim.replay("due-first:step_s=5:revised=1", load, **small)
    assert long_steps.summary["policy"] == "due-first:step_s=5:revised=1"
    usual = sim.replay("due-first", load, **small)
    assert usual.summary["policy"] == "due-first"
    same = sim.replay("due-first:step_s=0.05", load, **small)
    np.testing.assert_array_equal(same.requests["finish"], usual.requests["finish"])


def test_a_placement_of_ones_own() -> None:
    seen: list[int] = []

    def round_robin(views: list[sim.InstanceView]) -> int:
        assert [v.id for v in views] == [0, 1, 2] and all(v.free_blocks > 0 for v in views)
        seen.append(sum(v.requests for v in views))
        return len(seen) % 3

    mine = sim.replay("fcfs", load, instances=3, placement=round_robin)
    assert len(seen) == 300 and max(seen) > 0
    assert np.bincount(mine.requests["instance"]).tolist() == [100, 100, 100]
    named = sim.replay("fcfs", load, instances=3, placement="in-turn")
    assert ((named.requests["instance"] + 1) % 3 == mine.requests["instance"]).all()
    one = sim.replay("fcfs", load, instances=3, placement=lambda views: 1)
    assert set(one.requests["instance"]) == {1}
    assert one.summary["ttft"]["mean"] > mine.summary["ttft"]["mean"]
    # With scores of one's own as well.
    both = sim.replay("pars", load, instances=3, order=lambda r: 0.0, placement=round_robin)
    assert both.summary["completed"] == 300


def test_a_placement_that_fails_in_the_middle() -> None:
    calls = 0

    def fails(views: list[sim.InstanceView]) -> int:
        nonlocal calls
        calls += 1
        if calls == 150:
            raise KeyError("no idea")
        return 0

    with pytest.raises(KeyError, match="no idea"):
        sim.replay("fcfs", load, placement=fails)
    assert calls == 150


def test_why() -> None:
    load = sim.generate("reasoning-chat", 200, rate=40.0)
    run = sim.replay("fcfs", load, instances=2, kv_blocks=400, explain=60)
    assert run.explained is not None and run.explained["request"] == 60
    events = run.explained["events"]
    assert [e["at_s"] for e in events] == sorted(e["at_s"] for e in events)
    assert sum(e["what"] == "preempted" for e in events) == run.requests["preemptions"][60]
    assert events[0]["at_s"] == run.requests["arrival"][60] and events[-1]["at_s"] == run.requests["finish"][60]
    assert run.explained["text"].startswith("fcfs, request 60:")
    plain = sim.replay("fcfs", load, instances=2, kv_blocks=400)
    assert plain.explained is None
    np.testing.assert_array_equal(plain.requests["finish"], run.requests["finish"])

    second = sim.replay("fcfs", load, instances=2, kv_blocks=400, explain=2.0).explained
    assert second is not None and all(2.0 <= e["at_s"] < 3.0 for e in second["events"])
    with pytest.raises(ValueError, match="there is no request 200 to explain: they are 0 to 199"):
        sim.replay("fcfs", load, instances=2, explain=200)
    with pytest.raises(ValueError, match="nothing happens at that time: the run is from"):
        sim.replay("fcfs", load, instances=2, explain=1e6)


def test_a_profile_of_ones_own() -> None:
    given = sim.profile("h100-96gb-qwen-32b")
    same = sim.replay("fcfs", load, profile=given, **small)
    assert same.summary["ttft"] == sim.replay("fcfs", load, **small).summary["ttft"]
    given["gpu"]["flops"] = given["gpu"]["flops"] / 2
    slower = sim.replay("fcfs", load, profile=given, **small)
    assert slower.summary["ttft"]["mean"] > same.summary["ttft"]["mean"]


def test_a_workload_of_ones_own(tmp_path: Path) -> None:
    mine = sim.workload(arrival_s=[0, 0.5, 2], prompt_tokens=[10, 20, 30], output_tokens=[5, 6, 7])
    run = sim.replay("fcfs", mine, **small)
    assert run.requests["answer_tokens"].tolist() == [5, 6, 7]
    assert run.requests["arrival"].tolist() == [0, 0.5, 2]
    # By 2 s the others have long been done: it has waited for none.
    alone = sim.replay("fcfs", sim.workload(arrival_s=[0], prompt_tokens=[30], output_tokens=[7]), **small)
    assert run.requests["e2e"][2] == pytest.approx(alone.requests["e2e"][0])
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n0.5,20,6\n2,30,7\n")
    read = sim.replay("fcfs", sim.read_trace(trace), **small)
    np.testing.assert_array_equal(read.requests["finish"], run.requests["finish"])
    assert len(sim.read_trace(trace, requests=2)["arrival_s"]) == 2


def test_goodput() -> None:
    run = sim.replay("fcfs", load, instances=4)
    # As the tool has it: a part of the arrivals, however long the last of them takes to end.
    gaps = 299 / (load["arrival_s"][-1] - load["arrival_s"][0])
    assert run.goodput(ttft=1e9, tpot=1e9) == pytest.approx(gaps)
    assert run.goodput(ttft=0, tpot=1e9) == 0
    middle = float(np.median(run.requests["ttft"]))
    assert run.goodput(ttft=middle, tpot=1e9) == pytest.approx(gaps * (run.requests["ttft"] <= middle).mean())
    at_once = sim.workload(arrival_s=[0, 0], prompt_tokens=[10, 10], output_tokens=[5, 5])
    assert sim.replay("fcfs", at_once, **small).goodput(ttft=1e9, tpot=1e9) == 0


def test_what_is_promised() -> None:
    many = sim.generate("azure-conv", 600, rate=60.0)
    untold = sim.replay("phasor", many, instances=3)
    told = sim.replay("phasor", many, instances=3, ttft=4.0, tpot=0.1)
    assert not np.array_equal(told.requests["finish"], untold.requests["finish"])
    as_supposed = sim.replay("phasor", many, instances=3, ttft=1.0)
    np.testing.assert_array_equal(as_supposed.requests["finish"], untold.requests["finish"])
    by_arrival = [sim.replay("fcfs", many, instances=3, ttft=t).requests["finish"] for t in (None, 0.5)]
    np.testing.assert_array_equal(*by_arrival)


def test_sweep() -> None:
    loads = {rate: sim.generate("alpaca-chat", 100, rate=rate) for rate in (1.0, 4.0)}
    swept = list(sim.sweep(["fcfs", "pascal"], loads, workers=2, instances=1))
    assert [(rate, policy) for rate, policy, _ in swept] == [
        (1.0, "fcfs"), (1.0, "pascal"), (4.0, "fcfs"), (4.0, "pascal"),
    ]  # fmt: skip
    for rate, policy, run in swept:
        alone = sim.replay(policy, loads[rate], instances=1)
        np.testing.assert_array_equal(run.requests["finish"], alone.requests["finish"])
    with pytest.raises(ValueError, match="workers must be at least 1"):
        list(sim.sweep(["fcfs"], loads, workers=0))


def test_pandas_takes_it() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(sim.replay("fcfs", load, **small).requests)
    assert frame.shape[0] == 300 and frame["ttft"].mean() > 0
    assert sim.replay("fcfs", pandas.DataFrame(load), **small).summary["completed"] == 300


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"policy": "best"}, "unknown policy 'best'; there are: fcfs"),
        ({"policy": "fcfs,pascal"}, "one policy at a time"),
        ({"policy": "due-first:pcae=1"}, "due-first has no parameter 'pcae'; there are: pace, "),
        ({"policy": "pars"}, "needs a score for every request"),
        ({"profile": "b200"}, "b200"),
        ({"profile": "{"}, "expected"),
        ({"instances": 0}, "instances must be from 1 to 65536, not 0"),
        ({"kv_blocks": 0}, "kv_blocks must be from 1"),
        ({"kv_blocks": 1, "block_size": 1}, "too few for the shortest"),
        ({"block_size": -1}, "block_size must be from 1"),
        ({"max_batch": 0}, "max_batch must be from 1"),
        ({"token_budget": 0}, "token_budget must be from 1"),
        ({"in_flight": -1}, "in_flight must be from 0"),
        ({"policy": "distserve", "instances": 1}, "needs at least 2 instances"),
        ({"threshold": 1.0}, "threshold is for pars"),
        ({"policy": "pars", "threshold": -1.0}, "threshold is for pars, and a number of seconds from 0"),
        ({"order": len}, "policy must be 'pars', not 'fcfs'"),
        ({"policy": "phasor", "placement": len}, "placement is part of what phasor is"),
        ({"placement": "best"}, "unknown placement 'best'; there are: least-load, "),
        ({"placement": lambda views: 8}, "the index of one of 8 instances, not 8"),
        ({"placement": lambda views: -1}, "the index of one of 8 instances, not -1"),
        ({"ttft": 0.0}, "ttft must be a number of seconds above 0, not 0"),
        ({"tpot": float("nan")}, "tpot must be a number of seconds above 0, not nan"),
        ({"routers": 0}, "routers must be from 1 to 1024, not 0"),
        ({"routers": 1, "report_s": 0.0}, r"report_s is a number of seconds from 0.001 to 1e\+09, not 0"),
        ({"policy": "cascade-steady", "routers": 1}, "it knows no routers"),
        ({"slo": "ttft"}, "ttft"),
        ({"slo": "ttft=1", "tpot": 1.0}, "exclude each other"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"policy": "fcfs", **changed}
    with pytest.raises(ValueError, match=message):
        sim.replay(given.pop("policy"), load, **given)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"arrival_s": [1, 0]}, r"arrival_s\[1\] must be a number not below the one before it"),
        ({"arrival_s": [-1, 0]}, r"arrival_s\[0\]"),
        ({"arrival_s": [0, float("nan")]}, r"arrival_s\[1\]"),
        ({"prompt_tokens": [1, 0]}, r"prompt_tokens\[1\] must be a whole number from 1 to"),
        ({"output_tokens": [1.5, 1]}, r"output_tokens\[0\] must be a whole number"),
        ({"reasoning_tokens": [5, 1]}, r"reasoning_tokens\[0\] must not be more than output_tokens"),
        ({"output_tokens": [1]}, "must have one length"),
        ({"output_tokens": ["x", 1]}, r"the column output_tokens must be a list of numbers, not array\(\['x', '1'\]"),
        ({"output_tokens": [[1], [2]]}, "the column output_tokens must be a list of numbers"),
        ({"runs": [[(1.5, 2)], []]}, r"runs\[0\] must be pairs of a number"),
        ({"arrival_s": []}, "one length"),
    ],
)
def test_workloads_that_are_none(columns: dict[str, Any], message: str) -> None:
    good = {"arrival_s": [0, 1], "prompt_tokens": [5, 5], "output_tokens": [4, 4], "reasoning_tokens": [0, 0]}
    with pytest.raises(ValueError, match=message):
        sim.replay("fcfs", sim.workload(**(good | columns)))


def test_other_mistakes() -> None:
    with pytest.raises(ValueError, match="unknown workload"):
        sim.generate("mine")
    for requests in (0, -10):
        with pytest.raises(ValueError, match=f"number of requests must be from 1 to [0-9]*, not {requests}"):
            sim.generate("alpaca-chat", requests)
    with pytest.raises(ValueError, match="^requests is beyond 64 bits: 1000"):
        sim.generate("alpaca-chat", 10**20)
    with pytest.raises(ValueError, match="seed must be from 0"):
        sim.generate("alpaca-chat", 10, seed=-1)
    with pytest.raises(ValueError, match="a workload has the columns"):
        sim.workload(arrival_s=[0])
    with pytest.raises(ValueError, match="a workload has the columns"):
        sim.workload(arrival_s=[0], prompt_tokens=[1], output_tokens=[1], priority=[1])
    with pytest.raises(ValueError, match="the workload has no column arrival_s"):
        sim.replay("fcfs", {})
    with pytest.raises(ValueError, match="no/such"):
        sim.read_trace("no/such")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sim.generate(3), "workload must be text, not 3"),
        (lambda: sim.generate("alpaca-chat", 10.5), "requests must be a whole number, not 10.5"),
        (lambda: sim.generate("alpaca-chat", 10, rate="3"), "rate must be a number or None, not '3'"),
        (lambda: sim.replay(("fcfs",), load), r"policy must be text, not \('fcfs',\)"),
        (lambda: sim.replay("fcfs", load, kv_blocks=1e4), "kv_blocks must be a whole number or None, not 10000.0"),
        (lambda: sim.replay("fcfs", load, prefix_cache="on"), "prefix_cache must be True or False, not 'on'"),
        (lambda: sim.replay("fcfs", None), "load must be a workload, as of generate.. or workload.., .*, not None"),
        (lambda: sim.replay("fcfs", load, placement=3), "placement must be a name, or a function of .*, not 3"),
        (lambda: sim.replay("fcfs", load, profile=3), "profile must be a name, a file, or a dict .*, not 3"),
        (lambda: sim.replay("pars", load, order=3), "order must be a function of a request, not 3"),
        (lambda: sim.scored([1], len), r"load must be a workload, .*, not \[1\]"),
    ],
)
def test_a_wrong_type_is_said_in_words(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}$"):
        call()


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    one = sim.replay("fcfs", load, instances=np.int64(1), ttft=np.float32(2))  # type: ignore[arg-type]
    assert one.summary["completed"] == 300


def test_a_load_may_be_a_path(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("arrival_s,prompt_tokens,output_tokens,score\n0,10,5,1\n1,10,5,2\n")
    for path in (file, str(file)):
        assert sim.replay("fcfs", path, **small).summary["completed"] == 2
    assert sim.scored(file, lambda row: -row["id"])["score"].tolist() == [0, -1]
    with pytest.raises(ValueError, match="no/such"):
        sim.replay("fcfs", "no/such")


def test_the_example(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    example = Path(__file__).parents[1] / "examples" / "load_sweep.py"
    code = example.read_text()
    assert sum(bool(line.strip()) for line in code.splitlines()) < 30
    picture = tmp_path / "goodput.svg"
    done = subprocess.run([sys.executable, example, "150", picture], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("P99 TTFT") == 18 and "<svg" in picture.read_text()


def test_the_page_about_it() -> None:
    """What docs/python.md shows runs, on fewer requests."""
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    assert "4000" in code
    exec(code.replace("4000", "200"), {})
    for call in ('order=lambda request: request["prompt_tokens"]', "placement=lambda views: min(views, key="):
        assert call in page
    run = sim.replay("fcfs", load, placement=lambda views: min(views, key=lambda v: v.requests).id)
    assert len(set(run.requests["instance"])) == 8


def test_what_an_order_and_a_sweep_cannot_be() -> None:
    load = sim.generate("reasoning-chat", 20, rate=2.0)
    for wrong in (lambda r: None, lambda r: "x", lambda r: float("nan")):
        with pytest.raises(ValueError, match="an order gives a number"):
            sim.replay("pars", load, order=wrong)
    with pytest.raises(ValueError, match="a list of names"):
        sim.sweep("fcfs", {1: load})
    for loads in ([load], load):
        with pytest.raises(ValueError, match="a dict of workloads"):
            sim.sweep(["fcfs"], loads)
    runs = sim.sweep(["fcfs", "pascal"], {2.0: load})
    assert [(key, policy) for key, policy, _ in runs] == [(2.0, "fcfs"), (2.0, "pascal")]
