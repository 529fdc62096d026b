# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a log says of its requests is what clients saw, and what is expected of them is what the simulator says."""

from __future__ import annotations

import asyncio
import math
import random
import subprocess
import sys
import warnings
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import switch
from fake_fleet import Fleet, prompt, until, virtual

from tessera import fleet, sim
from tessera.fleet import Call, Piece, Router, Session, Timeouts, expected
from tessera.fleet.__main__ import main
from tessera.fleet.log_reader import BadLog

#: The log's moments are whole numbers of doubles; nothing is rounded but sums.
microsecond = 1e-6
end_of_reasoning = 7


class Scripted:
    """A replica that says each token at the moment that was written for it."""

    def __init__(self, moments: dict[int, list[float]], reasoning: list[int]) -> None:
        self.moments, self.reasoning = moments, reasoning

    async def stream(self, call: Call) -> AsyncGenerator[Piece, None]:
        i = call.params["i"]
        for at in range(call.at, len(self.moments[i])):
            await asyncio.sleep(self.moments[i][at] - asyncio.get_running_loop().time())
            token = end_of_reasoning if at + 1 == self.reasoning[i] else 5
            yield Piece(at, [token], "length" if at + 1 == len(self.moments[i]) else None)


def moments_of(run: sim.Run, i: int) -> list[float]:
    """When each token of a request came in a run, as far as the run says it; evenly between these."""
    r = {name: values[i] for name, values in run.requests.items()}
    reasoning, n = int(r["reasoning_tokens"]), int(r["reasoning_tokens"] + r["answer_tokens"])
    known = {1: r["first_token"], n: r["finish"], reasoning + 1: r["first_answer"]}
    if reasoning:
        known[reasoning] = r["phase_change"]
    places = sorted(known)
    return [float(t) for t in np.interp(np.arange(1, n + 1), places, [known[k] for k in places])]


@pytest.mark.parametrize(
    ("controller", "policy", "workload"),
    [("least-load", "fcfs", "azure-conv"), ("in-turn", "sarathi", "azure-conv"), ("pascal", "fcfs", "reasoning-chat")],
)
@virtual
async def test_what_happened_is_what_simulated_engines_did_and_then_the_simulator_has_no_error(
    controller: str, policy: str, workload: str, tmp_path: Path
) -> None:
    count = 60
    made = sim.generate(workload, count, rate=8.0)
    load = sim.workload(
        arrival_s=np.floor(made["arrival_s"] * 65536) / 65536,
        prompt_tokens=made["prompt_tokens"],
        reasoning_tokens=made["reasoning_tokens"] // 6,  # short answers: each token is a line of the log
        output_tokens=made["reasoning_tokens"] // 6 + made["answer_tokens"] // 6 + 1,
    )
    size = {"instances": 2, "kv_blocks": 4000, "block_size": 32, "max_batch": 8, "token_budget": 1024}
    own = controller == "pascal"
    run = sim.replay(controller if own else policy, load, placement=None if own else controller, **size)
    moments = {i: moments_of(run, i) for i in range(count)}
    log = tmp_path / "fleet.log"
    router = Router(controller=controller, block_size=32, record=log, timeouts=Timeouts(first=1e5, token=1e5))
    for name in ("a", "b"):
        router.add(name, Scripted(moments, load["reasoning_tokens"].tolist()), 4000)

    async def client(i: int) -> None:
        await asyncio.sleep(float(load["arrival_s"][i]) - router.now())
        reasons = {"end_of_reasoning": end_of_reasoning} if load["reasoning_tokens"][i] else {}
        ids = prompt(i, int(load["prompt_tokens"][i]))
        async for _ in router.stream(ids, len(moments[i]), {"i": i}, movable=False, **reasons):
            pass

    await asyncio.gather(*[client(i) for i in range(count)])
    await router.close()

    record = expected.read(log)
    assert (len(record.requests), record.unfinished, record.empty) == (count, 0, 0)
    happened = record.happened()
    for name in expected.metrics:
        assert not np.isnan(happened[name]).all()
        np.testing.assert_allclose(happened[name], run.requests[name], atol=microsecond, rtol=0)
    trace = record.trace()
    for name in ("prompt_tokens", "output_tokens"):
        assert (trace[name] == load[name]).all()
    assert (trace["reasoning_tokens"] == run.requests["reasoning_tokens"]).all()
    np.testing.assert_allclose(trace["arrival_s"], load["arrival_s"] - load["arrival_s"][0], atol=microsecond)

    e = expected.compare(record, "h100-96gb-qwen-32b", policy=policy, max_batch=8, token_budget=1024)
    errors = e.errors()
    assert errors is not None and [*e.runs] == [controller]
    assert max(abs(x) for s in errors.values() for x in s) < 1e-6
    for name in expected.metrics:
        assert e.expected(controller)[name]._asdict() == pytest.approx(
            {k: e.runs[controller].summary[name][k] for k in ("mean", "p50", "p99")}, abs=1e-12
        )


def test_what_was_expected_of_another_controller_is_what_happens_after_switching(tmp_path: Path) -> None:
    e = switch.main(tmp_path, requests=150)
    assert [*e.runs] == ["in-turn", "least-load"]
    then = expected.read(tmp_path / "least-load.log").happened()
    for name, within in (("ttft", 0.2), ("tpot", 0.1), ("e2e", 0.1)):
        assert e.expected("least-load")[name].mean == pytest.approx(expected.spread(then[name]).mean, rel=within)


@dataclass
class Seen:
    """What a client saw of its request."""

    session: Session
    came: float
    #: When it had how many tokens.
    tokens: list[tuple[float, int]] = field(default_factory=list)


async def client(f: Fleet, seen: list[Seen], i: int, length: int, tokens: int, leaves: int | None = None) -> None:
    s = f.session(i, length, tokens)
    seen.append(Seen(s, f.router.now()))
    mine = seen[-1]
    async for piece in s:
        if piece.tokens:
            mine.tokens.append((f.router.now(), piece.at + len(piece.tokens)))
        if leaves is not None and len(s.got) >= leaves:
            break
    await s.aclose()


def agree(record: expected.Record, seen: list[Seen]) -> None:
    by_number = {r.number: r for r in record.requests}
    saw_tokens = [s for s in seen if s.tokens and s.session._closed]
    assert len(by_number) == len(record.requests) == len(saw_tokens)
    for s in saw_tokens:
        r = by_number[s.session._request]
        assert (r.prompt, r.tokens, r.moves) == (len(s.session.prompt), s.tokens[-1][1], s.session.moves)
        assert [r.arrival, r.first, r.last] == pytest.approx(
            [s.came, s.tokens[0][0], s.tokens[-1][0]], abs=microsecond
        ), s


@pytest.mark.parametrize("seed", range(2))
@virtual
async def test_a_log_with_deaths_moves_and_clients_that_leave_says_what_clients_saw(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    log = tmp_path / "fleet.log"
    lasting = Timeouts(first=20.0, token=2.0, place=20.0, move=5.0, deaths=6)
    f = Fleet(4, controller="least-load", tight=330, rest=0.2, record=log, engine={"seqs": 8}, timeouts=lasting)
    seen: list[Seen] = []

    async def deaths() -> None:
        for life in (2, 3, 4):
            await asyncio.sleep(0.8)
            e = draw.choice([e for e in f.engines if not (e.dead or e.core_dead)])
            e.kill() if life % 2 else e.kill_core()
            await asyncio.sleep(0.6)
            f.start(life=life, name=e.name)

    async def comes(i: int) -> None:
        await asyncio.sleep(draw.random() * 4)
        tokens = draw.randrange(40, 160)
        leaves = draw.randrange(1, tokens) if i % 5 == 0 else None
        await client(f, seen, 1000 * seed + i, draw.randrange(20, 300), tokens, leaves)

    async def leaves_at_once(i: int) -> None:
        await asyncio.sleep(draw.random() * 4)
        s = f.session(1000 * seed + i, 30, 50)
        seen.append(Seen(s, f.router.now()))
        waits = asyncio.ensure_future(anext(aiter(s), None))
        await asyncio.sleep(0)
        await s.aclose()
        await waits

    killing = asyncio.ensure_future(deaths())
    await asyncio.gather(*[comes(i) for i in range(70)], *[leaves_at_once(100 + i) for i in range(3)])
    await killing
    late = [asyncio.ensure_future(client(f, seen, 500 + i, 40, 400)) for i in range(4)]
    await asyncio.sleep(0.5)
    assert all(not s.session._closed and s.tokens for s in seen[-4:])
    for task in f.running:
        task.cancel()
    await f.router.close()
    ended = [s for s in seen if s.session._closed]
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)

    record = expected.read(log)
    agree(record, ended)
    assert record.unfinished == 4 and record.empty == 3
    # A core that dies is fenced, and an engine that dies is known by its next life.
    assert (record.fewest, record.most, record.deaths) == (3, 4, 3)
    assert sum(r.places > 1 for r in record.requests) > 0 and sum(r.moves for r in record.requests) > 0
    said = expected.text_of(expected.compare(record, "h100-96gb-qwen-32b", "in-turn"))
    assert f"{len(record.requests)} requests; left out: 4 not ended, 3 without a token" in said
    assert "From 3 to 4 replicas lived at a time, and 3 died: 4 are simulated, and none dies." in said
    assert "With least-load and in-turn the simulator moves none." in said.replace("\n", " ")


@virtual
async def test_a_request_arrives_when_it_begins_to_wait_not_when_it_is_its_turn(tmp_path: Path) -> None:
    log = tmp_path / "fleet.log"
    f = Fleet(0, record=log)
    seen: list[Seen] = []

    async def comes(i: int) -> None:
        await asyncio.sleep(0.01 * i)
        await client(f, seen, i, 40, 20)

    running = [asyncio.ensure_future(comes(i)) for i in range(40)]
    await asyncio.sleep(0.395)
    last = f.sessions[-1]
    await last.aclose()  # in the queue, before it was its turn
    await asyncio.sleep(3)
    f.start()
    await asyncio.gather(*running)
    await until(lambda: not f.router._sessions)
    await f.settle()
    await f.router.close()
    record = expected.read(log)
    agree(record, seen)
    assert (len(record.requests), record.empty, record.unfinished) == (39, 1, 0)
    assert min(r.ttft for r in record.requests) > 3
    assert fleet.replay.compare(log).different == 0


recorded = """# tessera.fleet log 1 {"block_size": 16, "controller": "shortest-queue", "routers": 2}
0 joined replica=0 number=1 capacity=1000
0 joined replica=1 number=1 capacity=2000
9 joined replica=1 number=1 capacity=2000
> note replica=1 why=invalid
10 lost request=1
10.25 arrived request=1 prompt=320 session=9 tenant=5 expected=4
> place replica=0 request=1
10.5 cache_hit replica=0 request=1 count=64
10.5 progressed replica=0 request=1 count=2
11 arrived request=2 prompt=100 phase=reasoning expected=9
> place replica=1 request=2
11.5 progressed replica=1 request=2 count=1
12 progressed replica=1 request=2 count=3
12 reasoning_ended replica=1 request=2
12 progressed replica=0 request=1 count=4
12 ended request=1
12.5 arrived request=3 prompt=400 session=9 tenant=5 calls_tools=1 expected=1
> place replica=0 request=3
12.75 first_token replica=0 request=3
13 failed replica=1 number=1
13 arrived request=2 prompt=100 generated=3
> place replica=0 request=2
13.25 cache_hit replica=0 request=2 count=96
13.5 progressed replica=0 request=2 count=3
14 progressed replica=0 request=2 count=4
14.5 arrived request=4 prompt=10 session=9
> place replica=0 request=4
15 progressed replica=0 request=2 count=6
15 joined replica=1 number=2 capacity=2000
15.5 moved replica=1 request=2
15.5 ended request=2
15.5 ended request=2
15.5 progressed replica=0 request=2 count=9
16 progressed replica=0 request=3 count=3
16 ended request=3
16.5 arrived request=5 prompt=10 phase=reasoning expected=2
> place replica=0 request=5
17 ended request=4
17 progressed replica=0 request=5 count=2
17.5 progressed replica=0 request=5 count=5
18 reasoning_ended replica=0 request=5
18 ended request=5
19 arrived request=4 prompt=8 generated=8 tenant=2 expected=1
> place replica=1 request=4
19.5 first_token replica=1 request=4
19.5 ended request=4
20 arrived request=6 prompt=10
> place replica=1 request=6
20.5 progressed replica=1 request=6 count=9
"""


def test_what_a_log_says_line_by_line(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(recorded)
    record = expected.read(log)
    assert (record.controller, record.block_size, record.unfinished, record.empty) == ("shortest-queue", 16, 1, 1)
    assert (record.fewest, record.most, record.deaths) == (1, 2, 1)
    assert record.kv_blocks == round((1000 + 2000 + 2000) / 3)
    said = [(r.number, r.arrival, r.first, r.last, r.tokens, r.reasoning, r.cached, r.places) for r in record.requests]
    assert said == [
        (1, 10, 10.5, 12, 4, 0, 64, 1),
        (2, 11, 14, 15, 6, 3, 0, 2),
        (3, 12.5, 12.75, 16, 3, 0, 0, 1),
        (5, 16.5, 17.5, 17.5, 5, 4, 0, 1),  # It only reasons: its last token counts as its answer.
        (4, 19, 19.5, 19.5, 1, 0, 0, 1),  # The number is used again, and 8 of its tokens are another router's.
    ]
    assert record.requests[1].moves == 1
    happened = record.happened()
    assert happened["ttft"].tolist() == [0.5, 3, 0.25, 1, 0.5]
    np.testing.assert_array_equal(happened["tpot"], [1.5 / 3, 0.5, 3.25 / 2, math.nan, math.nan])
    assert happened["e2e"].tolist() == [2, 4, 3.5, 1, 0.5]
    trace = record.trace()
    assert trace["arrival_s"].tolist() == [0, 1, 2.5, 6.5, 9]
    assert trace["prompt_tokens"].tolist() == [320, 100, 400, 10, 16]
    assert trace["session"].tolist() == [0, -1, 0, -1, -1] and trace["think_s"].tolist() == [0, 0, 0.5, 0, 0]
    assert trace["calls_tool"].tolist() == [0, 0, 1, 0, 0] and trace["tenant"].tolist() == [0, -1, 0, -1, 1]
    assert trace["score"].tolist() == [4, 9, 1, 2, 1]
    assert record.settings["routers"] == 2 and expected.read(log, {"block_size": 8}).block_size == 8


def test_turns_that_overlap_are_no_session(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    lines = ["0 joined replica=0 number=1 capacity=1000"]
    for i in range(1, 4):
        lines += [f"{i} arrived request={i} prompt=10 session=4", f"> place replica=0 request={i}"]
    for i in range(1, 4):
        lines += [f"{3 + i} progressed replica=0 request={i} count=1", f"{3 + i} ended request={i}"]
    lines += ["9 arrived request=4 prompt=40 session=4", "> place replica=0 request=4"]
    lines += ["9.5 progressed replica=0 request=4 count=1", "9.5 ended request=4"]
    log.write_text("\n".join([*lines, ""]))
    record = expected.read(log)
    trace = record.trace()
    assert trace["session"].tolist() == [0, 1, 2, 2] and trace["think_s"].tolist() == [0, 0, 0, 3]
    assert record.overlaps == 2


def test_a_trace_is_read_again_as_it_was_written(tmp_path: Path) -> None:
    log, out = tmp_path / "a.log", tmp_path / "a.csv"
    for text in (recorded, recorded.replace(" session=9", "").replace(" tenant=5", "").replace(" expected=9", "")):
        log.write_text(text)
        record = expected.read(log)
        expected.write_trace(record, out)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = sim.read_trace(out)
        trace = record.trace()
        assert {"session", "tenant", "score"} & {*trace} <= {*again}
        for name in trace:
            np.testing.assert_array_equal(again[name], trace[name], err_msg=name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "a.log"]


def test_more_tenants_than_the_simulator_has_are_left_out(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    lines = ["0 joined replica=0 number=1 capacity=1000"]
    for i in range(1, 66):
        lines += [f"{i} arrived request={i} prompt=10 tenant={i}", f"> place replica=0 request={i}"]
        lines += [f"{i} progressed replica=0 request={i} count=1", f"{i} ended request={i}"]
    for n in (64, 65):
        log.write_text("\n".join([*lines[: 1 + 4 * n], ""]))
        trace = expected.read(log).trace()
        assert len(trace["arrival_s"]) == n and ("tenant" in trace) == (n == 64)
        sim.replay("vtc", trace, instances=1)


@pytest.mark.parametrize("controller", fleet.controllers)
def test_what_is_expected_is_what_the_simulator_says_of_the_trace(controller: str, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    joined = "".join(f"0 joined replica={i} number=1 capacity=2000\n" for i in (2, 3))
    log.write_text(recorded.replace("9 joined", joined + "9 joined").replace('"routers": 2', '"ttft": 2.5'))
    record = expected.read(log)
    e = expected.compare(record, "h200-llama-3.1-8b", controller, policy="sarathi", max_batch=3, token_budget=256)
    if controller in ("phi-time", "stages"):
        assert [*e.runs] == ["shortest-queue"] and e.lacks == [controller]
        assert f"The simulator has no controller {controller}." in expected.text_of(e)
        return
    assert [*e.runs] == [*dict.fromkeys(["shortest-queue", controller])] and not e.lacks
    whole = controller in {p.name for p in sim.policies()}
    run = sim.replay(
        controller if whole else "sarathi",
        record.trace(),
        placement=None if whole else controller,
        profile="h200-llama-3.1-8b",
        instances=4,
        kv_blocks=1800,
        block_size=16,
        max_batch=3,
        token_budget=256,
        ttft=2.5,
    )
    for name, values in run.requests.items():
        np.testing.assert_array_equal(e.runs[controller].requests[name], values, err_msg=name)
    own, happened, errors = e.expected("shortest-queue"), e.happened, e.errors()
    assert errors is not None
    for m in expected.metrics:
        for s, h, error in zip(own[m], happened[m], errors[m], strict=True):
            assert error == pytest.approx((s - h) / h)
    assert happened["ttft"].mean == pytest.approx((0.5 + 3 + 0.25 + 1 + 0.5) / 5)
    assert happened["e2e"].p50 == 2 and happened["e2e"].p99 == pytest.approx(4 - 0.04 * 0.5)


def test_the_table_that_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = tmp_path / "a.log", tmp_path / "a.csv"
    log.write_text(recorded)
    words = ["replay", str(log), "--controller", "pascal", "--profile", "h100-96gb-qwen-32b", "--trace-out", str(out)]
    done = subprocess.run([sys.executable, "-m", "tessera.fleet", *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    assert f"{out}: a trace of 5 requests" in said
    begins = said.index(f"{log}: 5 requests; left out: 1 not ended, 1 without a token")
    assert said[begins + 1] == "Simulated: 2 replicas of 1667 KV blocks of 16 tokens, by controller."
    assert said[begins + 3].split() == ["happened", "shortest-queue", "error", "pascal"]
    rows = [line.split() for line in said[begins + 4 : begins + 13]]
    assert [row[:3] for row in rows[:2]] == [["TTFT,", "s", "mean"], ["p50", "0.5000", rows[1][2]]]
    assert [row[0] for row in rows] == ["TTFT,", "p50", "p99", "TPOT,", "p50", "p99", "E2E,", "p50", "p99"]
    rest = " ".join(said[begins + 14 :])
    for part in (
        "engines order requests by fcfs under shortest-queue (--policy names another order) and by pascal, its own "
        "order, under pascal, and take at most 256 requests (--max-batch) and 8192 tokens (--token-budget) in a step",
        "turns of a session share their history. Engines found 7.6 % of the prompts' tokens cached",
        "This is one of 2 routers; what the others sent is not in the log.",
        "Replicas had 1000 to 2000 KV blocks; their mean is simulated.",
        "1 requests were placed again after a failure, and 1 moved. With shortest-queue the simulator moves none.",
        "The error is the simulator's, at most",
    ):
        assert part in rest, part
    assert all(len(line) <= 100 for line in said[begins + 1 :])
    # Under the log's own controller there is no third column. Requests that are too long for a replica are counted.
    log.write_text(recorded.replace("capacity=1000", "capacity=20").replace("capacity=2000", "capacity=20"))
    assert main(["replay", str(log), "--profile", "h100-96gb-qwen-32b"]) == 0
    alone = capsys.readouterr().out
    assert "happened  shortest-queue" in alone and "error is the simulator's" not in alone
    assert "With shortest-queue the simulator refuses 2 requests, which are left out there." in alone
    # Nothing was asked: nothing is expected.
    assert main(["replay", str(log)]) == 0 and "happened" not in capsys.readouterr().out


def test_a_load_that_is_too_much_is_said(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    lines = ['# tessera.fleet log 1 {"controller": "in-turn"}', "0 joined replica=0 number=1 capacity=2000"]
    for i in range(200):
        lines += [f"{i / 16} arrived request={i} prompt=9000", f"> place replica=0 request={i}"]
    for i in range(200):
        lines += [f"{20 + 9 * i} progressed replica=0 request={i} count=9", f"{20 + 9 * i} ended request={i}"]
    log.write_text("\n".join([*lines, ""]))
    said = expected.text_of(expected.compare(expected.read(log), "h100-96gb-qwen-32b"))
    assert "With in-turn the load is more than the replicas carry; latencies say how long the log is." in said


def test_a_log_of_a_controller_that_is_not_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    log.write_text(recorded.replace("shortest-queue", "stages"))
    assert main(["replay", str(log), "--controller", "in-turn", "--profile", "h100-96gb-qwen-32b"]) == 0
    said = capsys.readouterr().out
    assert "happened  in-turn\n" in said and "error" not in said.split("happened")[1].split("E2E")[0]
    assert "nothing says how far to trust the simulator here" in said.replace("\n", " ")


@pytest.mark.parametrize(
    ("line", "text", "where", "what"),
    [
        (1, "# tessera.fleet log 1 {", "1:24", "the settings as JSON"),
        (2, "> place replica=0 request=1", "2:1", "an event before its first action"),
        (7, "10.25 arrived request=1 prompt=many", "7:25", "a value of this member"),
        (10, "10.5 progressed replica=0 request=1 count=2 tokens=3", "10:45", "a known member"),
        (10, "10.5 progresses replica=0", "10:6", "what happens"),
        (16, "12 prog", "16:4", "what happens"),
        (16, "9 progressed replica=0 request=1 count=4", "16:1", "a moment that is not before"),
        (16, "12 progressed replica=0 request=1 count=1099511627777", "16:35", "a count from 0 to 2"),
        # The router bears these, the simulator does not.
        (2, "0 joined replica=0 number=1 capacity=99999999", "2:1", "at most 67108864 KV blocks"),
        (16, "12 progressed replica=0 request=1 count=9999999999", "16:1", "at most 1000000000 tokens"),
        (7, "10.25 arrived request=1 prompt=4000000000", "7:1", "at most 1000000000 tokens"),
    ],
)
def test_a_log_that_cannot_be_read_says_where_and_what_was_expected(
    line: int, text: str, where: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = recorded.splitlines()
    lines[line - 1] = text
    log, out = tmp_path / "bad.log", tmp_path / "bad.csv"
    log.write_text("\n".join([*lines, ""]))
    with pytest.raises(BadLog, match=f"bad.log:{where}: expected .*{what}"):
        expected.read(log)
    assert main(["replay", str(log), "--profile", "h100-96gb-qwen-32b", "--trace-out", str(out)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"{log}:{where}: expected ") and not out.exists()


def test_what_cannot_be_expected_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    log.write_text(recorded)
    profile = ["--profile", "h100-96gb-qwen-32b"]
    broken = tmp_path / "profile.json"
    broken.write_text("{")
    for words, expects in (
        (["--profile", "h100"], "h100"),
        (["--profile", str(broken)], "profile.json:1:2"),
        ([*profile, "--policy", "first"], "first"),
        ([*profile, "--max-batch", "0"], "--max-batch: expected a number from 1, not 0"),
        ([*profile, "--token-budget", "0"], "--token-budget: expected a number from 1, not 0"),
        (["--trace-out", str(log)], "this is the log"),
        (["--trace-out", str(tmp_path / "none" / "a.csv")], "a.csv: No such file"),
    ):
        assert main(["replay", str(log), *words]) == 2, words
        said = capsys.readouterr().err
        assert expects in said and len(said.splitlines()) == 1, said
    assert log.read_text() == recorded
    # Nothing has ended, or nothing has joined.
    log.write_text("\n".join([*recorded.splitlines()[:9], ""]))
    for words in (profile, ["--trace-out", str(tmp_path / "a.csv")]):
        assert main(["replay", str(log), *words]) == 2
        assert f"{log}: no request has ended with a token, so there is no trace" in capsys.readouterr().err
    assert expected.read(log).unfinished == 1 and not (tmp_path / "a.csv").exists()
    kept = [line for line in recorded.splitlines() if "joined" not in line and "> note" not in line]
    log.write_text("\n".join([*kept, ""]))
    assert main(["replay", str(log), *profile]) == 2
    assert f"{log}: no replica with KV blocks has joined" in capsys.readouterr().err
