# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Controllers by name before engines that fail, what replicas are told, and logs: written, read, asked about."""

from __future__ import annotations

import asyncio
import importlib.util
import io
import json
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from fake_engine import FakeEngine, answer
from fake_fleet import Fleet, begin_to_move, prompt, tight_fleet, until, virtual

from tessera import fleet
from tessera.fleet import Assignment, Event, PlanRequest, Report, Router, Timeouts
from tessera.fleet.__main__ import main
from tessera.fleet.log import Log, mark
from tessera.fleet.replay import compare

examples = Path(__file__).parents[2] / "examples"
simulated = Path(__file__).parents[3] / "tests" / "sim" / "logs"


async def reports_as_networks_bring_them(f: Fleet, draw: random.Random) -> None:
    """Late, doubled, reordered and lost ones, and those of former lives."""
    old: list[tuple[str, Report]] = []

    async def deliver(name: str, said: Report, after: float) -> None:
        await asyncio.sleep(after)
        f.router.report(name, said)

    while True:
        for e in f.engines:
            if e.dead or e.core_dead:
                continue
            said = await e.report()
            old.append((e.name, said))
            for _ in range(draw.choice([0, 1, 1, 2])):
                asyncio.ensure_future(deliver(e.name, said, draw.random() * 1.5))
            if draw.random() < 0.1:
                f.router.report(*draw.choice(old))
        f.router.tick()
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("controller", ["least-load", "lmetric", "pascal"])
@virtual
async def test_every_stream_is_whole_whatever_reports_and_engines_do(
    controller: str, seed: int, tmp_path: Path
) -> None:
    draw = random.Random(seed)
    log = tmp_path / "fleet.log"
    tight = {} if controller == "pascal" else {"tight": 330}
    lasting = Timeouts(first=20.0, token=2.0, place=20.0, move=5.0, deaths=6)  # of so many engines one may have had all
    f = Fleet(
        4, controller=controller, period=None, rest=0.2, record=log, engine={"seqs": 8}, timeouts=lasting, **tight
    )
    reports = asyncio.ensure_future(reports_as_networks_bring_them(f, draw))

    async def deaths() -> None:
        for life in (2, 3, 4):
            await asyncio.sleep(0.8)
            e = draw.choice([e for e in f.engines if not (e.dead or e.core_dead)])
            e.kill() if life % 2 else e.kill_core()
            await asyncio.sleep(0.6)
            f.start(life=life, name=e.name)

    async def client(i: int) -> Any:
        await asyncio.sleep(draw.random() * 4)
        length, tokens = draw.randrange(20, 300), draw.randrange(40, 160)
        # The end of reasoning is a token of the answer.
        ids = prompt(1000 * seed + i, length)
        end = {"end_of_reasoning": answer(ids, tokens)[tokens // 3]} if i % 2 else {}
        return await f.client(1000 * seed + i, length, tokens, **end)

    killing = asyncio.ensure_future(deaths())
    sessions = await asyncio.gather(*[client(i) for i in range(70)])
    await killing
    await asyncio.sleep(2)
    reports.cancel()
    received = f.router.book.received
    assert received["late"] > 0 and received["doubled"] > 0 and received["former"] + received["unknown"] > 0
    assert sum(len(s.failures) for s in sessions) > 0 and sum(s.moves for s in sessions) > 0
    assert f.router.book.requests == 0
    await f.settle()
    await f.router.close()
    # The log has it all: the same controller decides as it did, each time, and another one does not.
    same = compare(log)
    assert (same.asked, same.recorded, same.different) == (controller, controller, 0)
    assert same.decisions >= 70 + sum(s.moves for s in sessions)
    other = compare(log, "in-turn")
    assert other.different > 10 and len(other.first) == 10
    assert all(d.recorded != d.wanted for d in other.first)


@virtual
async def test_a_request_may_get_its_place_later() -> None:
    """A controller need not place a request when it arrives: the front end does what it is told, whenever that is."""
    f = Fleet(2)
    book = f.router.book
    held: list[Any] = []

    class Hesitates:
        def __getattr__(self, name: str) -> Any:
            return getattr(book, name)

        def __len__(self) -> int:
            return len(book)

        def arrived(self, *what: Any, **how: Any) -> list[Any]:
            held.extend(book.arrived(*what, **how))
            return []

        def handle(self, event: Event) -> list[Any]:
            if event.kind != "clock" or event.at < 1.0:
                return book.handle(event)
            late, held[:] = [*held], []
            return [*late, *book.handle(event)]

    f.router.book = Hesitates()  # type: ignore[assignment]
    running = [asyncio.ensure_future(f.client(i)) for i in range(5)]
    await asyncio.sleep(0.9)
    assert all(s.replica is None for s in f.sessions)
    sessions = await asyncio.gather(*running)
    assert not any(s.failures for s in sessions) and f.router.now() < 3.0
    await f.settle()


@virtual
async def test_a_move_may_be_called_off() -> None:
    f = tight_fleet()
    task = asyncio.ensure_future(f.client(7, 200, 150))
    await asyncio.sleep(0)
    s = f.sessions[0]
    beside = await begin_to_move(f, s)
    f.router._do([fleet.parse(f"> cancel_move replica=1 request={s._request}")])
    assert s._move is None and s.moves_failed == 1 and s.replica == "e0"
    await asyncio.sleep(0)
    assert f.router.book.moves_to(s._request) is None
    await asyncio.gather(task, beside)
    await f.settle()


# -- what replicas are told


class Told:
    """A replica that notes what it is told, and takes a while to do it."""

    def __init__(self, engine: FakeEngine, takes: float = 0.1) -> None:
        self.stream, self.report = engine.stream, engine.report
        self.takes, self.said = takes, list[tuple[Any, ...]]()

    async def note(self, *what: Any) -> None:
        await asyncio.sleep(self.takes)
        self.said.append(what)

    async def become(self, role: str) -> None:
        await self.note("become", role)

    async def set_prefill_budget(self, tokens: int) -> None:
        await self.note("budget", tokens)

    async def set_order(self, parameter: str, value: float) -> None:
        await self.note("order", parameter, value)

    def set_length_range(self, first: int, last: int | None) -> None:
        self.said.append(("range", first, last))


class Scheduler:
    """A replica that has the options of its scheduler, and no more."""

    def __init__(self, engine: FakeEngine) -> None:
        self.stream, self.options = engine.stream, list[tuple[str, float]]()

    async def set_option(self, name: str, value: float) -> None:
        if name == "prefill_budget" and value < 0:
            raise ValueError("a budget is not negative")
        self.options.append((name, value))


orders = [
    "> set_prefill_budget replica=0 low=512",
    "> set_order replica=0 parameter=quantum value=250",
    "> set_length_range replica=0 low=8 high=64",
    "> set_role replica=0 role=prefill",
    "> set_order replica=0 parameter=pace value=8",
    "> set_prefill_budget replica=0",
]


@virtual
async def test_a_replica_is_told_one_thing_after_the_other() -> None:
    r = Router()
    e = Told(FakeEngine("a"))
    assert r.add("a", e, 100, prefill_budget=100.0, elastic=True)
    r._do([fleet.parse(line) for line in orders])
    await asyncio.sleep(0.45)
    assert r.entry("a").role == "prefill" and [*r.changes] == [("a", "mixed", "prefill")]
    await asyncio.sleep(0.5)
    assert e.said == [
        ("budget", 512),
        ("order", "quantum", 250),
        ("range", 8, 64),
        ("become", "prefill"),
        ("order", "pace", 8),
        ("budget", 0),
    ]


@virtual
async def test_options_of_a_scheduler_are_set_by_their_names(caplog: pytest.LogCaptureFixture) -> None:
    r = Router()
    e = Scheduler(FakeEngine("a"))
    assert r.add("a", e, 100)  # type: ignore[arg-type]
    # Without a method for it there is nothing to call.
    r._do([fleet.parse(line) for line in [*orders, "> set_order replica=0 value=60"]])
    await asyncio.sleep(0.1)
    assert e.options == [
        ("prefill_budget", 512),
        ("quantum", 250),
        ("pace", 1 / 8),
        ("prefill_budget", 0),
        ("threshold", 60),
    ]
    assert not caplog.records
    r._do([fleet.parse("> set_prefill_budget replica=0 low=-1"), fleet.parse("> set_prefill_budget replica=0 low=7")])
    await asyncio.sleep(0.1)
    assert "a did not follow: > set_prefill_budget replica=0 low=-1" in caplog.text
    assert e.options[-1] == ("prefill_budget", 7)


@virtual
async def test_what_a_replica_can_is_what_it_has_methods_for(tmp_path: Path) -> None:
    log = tmp_path / "log"
    r = Router(record=log)
    e = FakeEngine("a")

    class Bare:
        stream = e.stream

    r.add("bare", Bare(), 100)  # type: ignore[arg-type]
    r.add("elastic", Bare(), 100, elastic=True)  # type: ignore[arg-type]
    r.add("told", Told(e), 100)
    r.add("options", Scheduler(e), 100)  # type: ignore[arg-type]
    r.add("stays", Told(e), 100, can=["budgets"])
    await r.close()
    cannot = [
        {w.split("=")[0] for w in line.split() if w.endswith("=0") and not w.startswith("replica")}
        for line in log.read_text().splitlines()
        if " joined " in line
    ]
    assert cannot == [
        {"roles", "ranges", "budgets", "orders"},
        {"ranges", "budgets", "orders"},
        set(),
        {"roles", "ranges"},
        {"moves", "live_moves", "roles", "ranges", "orders"},
    ]


@virtual
async def test_what_is_not_asked_of_a_replica_is_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    f = Fleet(0, "phi_time", epoch=0.1, cooldown=0)
    f.start_as("prefill")
    f.start_as("decode")
    e = FakeEngine("e2", peers=f.peers, **f.options)
    assert f.router.add("e2", e, e.blocks, prefill_budget=1000.0, elastic=True, can=["moves"])
    f.engines.append(e)
    f.router.gone("e0")
    await asyncio.sleep(2)
    assert f.router.entry("e2").role == "mixed" and not f.router.changes
    assert [r.getMessage() for r in caplog.records] == ["e2: it cannot change its role"]
    await f.settle()


@virtual
async def test_plans_that_nothing_makes(caplog: pytest.LogCaptureFixture) -> None:
    r = Router()
    told: list[str] = []
    book = r.book

    class Listens:
        def __getattr__(self, name: str) -> Any:
            return getattr(book, name)

        def handle(self, event: Event) -> list[Any]:
            told.append(str(event))
            return book.handle(event)

    r.book = Listens()  # type: ignore[assignment]
    for number in (1, 2):
        r._do([fleet.parse(f"> plan number={number}")])
    assert told == ["0 planned number=1", "0 planned number=2"] and len(caplog.records) == 1


@virtual
async def test_a_plan_is_made_beside_the_service(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    log = tmp_path / "a.log"

    async def planner(asked: PlanRequest) -> list[Assignment]:
        assert asked.replicas == ("a", "b") and asked.sample is not None and not asked.prefixes
        await asyncio.sleep(1.0)
        if asked.number == 2:
            raise RuntimeError("no layout fits")
        last = 0 if asked.number == 3 else 8
        return [Assignment("a", "prefill", 0, last, 512), Assignment("gone"), Assignment("b", first=8)]

    r = Router(controller="due-first", record=log, planner=planner)
    for name in ("a", "b"):
        r.add(name, Told(FakeEngine(name)), 100)
    for number in (1, 2, 3):
        r._do([fleet.parse(f"> plan number={number}")])
        await asyncio.sleep(1.5)
    await r.close()
    assert [line for line in log.read_text().splitlines()[3:] if line[0] != ">"] == [
        "1 lays_out replica=0 count=512 role=prefill high=8",
        "1 lays_out replica=1 low=8",
        "1 planned number=1",
        "2.5 planned number=2",
        "4 planned number=3",
    ]
    assert [m.getMessage() for m in caplog.records] == ["there is no plan 2", "there is no plan 3"]


# -- the log


def test_a_slow_disk_stops_no_stream_and_closing_writes_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    goes_on = threading.Event()

    class Slow(io.FileIO):
        def write(self, lines: Any) -> int:
            assert goes_on.wait(60)
            return super().write(lines)

    monkeypatch.setattr("builtins.open", lambda path, mode, buffering: io.BufferedWriter(Slow(path, "w"), buffering))
    log = Log(path, {"controller": "lmetric"})
    monkeypatch.undo()
    for t in range(1000):
        log.write(b"%d clock\n" % t)  # returns, though nothing is written
    assert path.stat().st_size == 0
    goes_on.set()
    log.close()
    lines = path.read_text().splitlines()
    assert lines[0] == '# tessera.fleet log 1 {"controller": "lmetric"}' and len(lines) == 1001
    assert lines[-1] == "999 clock"
    log.write(b"1000 clock\n")  # closed: nothing more
    log.close()
    assert len(path.read_text().splitlines()) == 1001


def test_a_disk_that_is_full_ends_the_log_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    log = Log("/dev/full", {})
    for _ in range(3):
        log.write(b"0 clock\n")
    log.close()
    assert len(caplog.records) == 1 and "No space left" in caplog.text


recorded = """# tessera.fleet log 1 {"block_size": 16, "controller": "shortest-queue"}
0 joined replica=0 number=1 capacity=100
0 joined replica=1 number=1 capacity=100
# a remark
1 arrived request=1 prompt=320
> place replica=0 request=1
1 arrived request=2 prompt=32
> place replica=1 request=2
2 arrived request=3 prompt=32
> place replica=0 request=3
2.5 arrived request=4 prompt=32
> place replica=1 request=4
3 arrived request=5 prompt=32
> note request=5 why=no replica takes it
"""


def test_a_log_is_asked_about_decision_by_decision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    log.write_text(recorded)
    # The fifth was not placed, and would have been.
    assert main(["replay", str(log)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{log}: 7 events, decided by shortest-queue",
        "shortest-queue decides otherwise in 1 of 5 decisions (20.0 %).",
        "It is:",
        "  line 13: 3 arrived request=5 prompt=32",
        "    recorded: nothing",
        "    shortest-queue: place replica=0 request=5",
    ]
    # By load the third would have gone to the other replica. The fourth is asked about in the book of the log: there
    # the third is where it was recorded.
    c = compare(log, "least-load")
    assert [(d.line, d.recorded, d.wanted) for d in c.first] == [
        (9, "place replica=0 request=3", "place replica=1 request=3"),
        (13, None, "place replica=1 request=5"),
    ]
    assert (c.events, c.decisions, c.different) == (7, 5, 2)
    done = subprocess.run(
        [sys.executable, "-m", "tessera.fleet", "replay", str(log), "--controller", "least-load", "--first", "1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "in 2 of 5 decisions (40.0 %).\nIt is:\n  line 9: " in done.stdout, done


@pytest.mark.parametrize(
    ("line", "text", "where", "expected"),
    [
        (1, "# something else", "1:1", "# tessera.fleet log 1 and the settings"),
        (1, "# tessera.fleet log 1 {", "1:24", "the settings as JSON"),
        (1, "# tessera.fleet log 1 []", "1:23", "the settings as JSON, an object"),
        (
            1,
            '# tessera.fleet log 1 {"controller": "phi", "wings": 2}',
            "1:23",
            "wings=2 is none of tessera.fleet.Runtime",
        ),
        (1, "arrived,prompt", "1:1", "# tessera.fleet log 1 and the settings, or an event"),
        (1, '# tessera.fleet log 1 {"controller": "phi", "block_size": 0}', "1:23", "block_size is from 1"),
        (2, "0 joins replica=0", "2:3", "what happens"),
        (2, "zero joined replica=0", "2:1", "a moment in seconds"),
        (2, "> place replica=0 request=1", "2:1", "an event before its first action"),
        (5, "1 arrived request=1 prompt=many", "5:21", "a value of this member"),
        (5, "1 arrived request=1 prompt=-3", "5:21", "lengths that a request can have"),
        # What is missing belongs at the end: a line that was torn says so.
        (2, "0 joined replica=0 number=1", "2:28", "capacity=BLOCKS, from 1 to 2^40"),
        (2, "0 joined replica=0 number=1 capacity=2199023255552", "2:29", "capacity=BLOCKS, from 1 to 2^40"),
        (5, "1 arrived request=1", "5:20", "prompt=TOKENS, from 1"),
        (5, "1 arr", "5:3", "what happens"),
        (5, "1 arrived request=1 prompt=320> place replica=0", "5:21", "a value of this member"),
        (6, "> place replica=0", "6:18", "request=NUMBER"),
        (7, "0.5 arrived request=2 prompt=32", "7:1", "a moment that is not before that of the event before"),
        (6, "> place replica=0 requests=1", "6:19", "a known member"),
        (6, "> places replica=0 request=1", "6:3", "an action"),
        (6, "\\xff\\xfe", "6:1", "a moment in seconds"),
    ],
)
def test_a_log_that_cannot_be_read_says_where_and_what_was_expected(
    line: int, text: str, where: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = recorded.splitlines()
    lines[line - 1] = text
    log = tmp_path / "bad.log"
    log.write_bytes("\n".join([*lines, ""]).encode().replace(b"\\xff\\xfe", b"\xff\xfe"))
    assert main(["replay", str(log)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"{log}:{where}: expected ") and expected in said.err, said.err


def test_what_cannot_be_asked_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    assert main(["replay", str(log)]) == 2 and "No such file" in capsys.readouterr().err
    log.write_text("0 clock\n")
    assert main(["replay", str(log)]) == 2 and "name a controller" in capsys.readouterr().err
    assert main(["replay", str(log), "--controller", "phi"]) == 0
    assert "0 of 0 decisions (0.0 %)" in capsys.readouterr().out
    assert main(["replay", str(log), "--controller", "phi", "--settings", '{"wings": 2}']) == 2
    assert "settings: wings=2 is none of tessera.fleet.Runtime" in capsys.readouterr().err
    for words in (["--controller", "fastest"], ["--settings", "3"], ["--settings", "{"]):
        with pytest.raises(SystemExit) as e:
            main(["replay", str(log), *words])
        assert e.value.code == 2


@virtual
async def test_what_is_said_of_a_request_is_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    f = Fleet(1, record=log, period=None)
    about = {"expected": 12, "spread": 3, "session": 4, "tenant": 5, "calls_tools": True, "movable": False}
    await f.client(1, 20, 10, **about)
    for name, wrong in (("expected", -1), ("tenant", 1.5)):
        with pytest.raises(ValueError, match=f"{name} is a whole number from 0"):
            f.router.stream([1], 1, **{name: wrong})
    await f.settle()
    await f.router.close()
    arrived = next(line for line in log.read_text().splitlines() if " arrived " in line)
    said = ["expected=12", "spread=3", "limit=10", "session=4", "tenant=5", "calls_tools=1", "movable=0", "prompt=20"]
    for member in said:
        assert f" {member}" in arrived


@virtual
async def test_bounded_hashing_sends_equal_beginnings_to_the_same_replica() -> None:
    f = Fleet(4, controller="bounded-hashing", bound=100.0)
    where = []
    for i in range(12):
        family = prompt(i % 3, 600)
        s = f.router.stream([*family, *prompt(100 + i, 20)], 2, {"ignore_eos": True})
        async for _ in s:
            where.append((i % 3, s.replica)) if s.replica else None
    assert len({*where}) == len({k for k, _ in where}) == 3
    await until(lambda: not f.router._sessions)
    await f.settle()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sarathi", "an order of requests inside an engine; expected one of least-load"),
        ("cascade", "it is called stages"),
        ("least_load", "it is called least-load"),
        ("nothing", "controller nothing: expected one of least-load"),
    ],
)
def test_a_name_that_is_no_controllers(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fleet.Router(controller=name)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--first", "-1"], "--first: expected a number from 0, not -1"),
        (["--max-batch", "7"], "--max-batch goes with --profile"),
        (["--policy", "nope"], "--policy goes with --profile"),
        (["--profile", "h100-96gb-qwen-32b", "--token-budget", "0"], "--token-budget: expected a number from 1, not 0"),
    ],
)
def test_arguments_are_looked_at_before_the_log(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "no.log", *words]) == 2 and capsys.readouterr().err == f"{said}\n"


def test_the_example_of_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("two_engines", examples / "two_engines.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main("lmetric", "lmetric")
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith('# tessera.fleet log 1 {"block_size": 16, "controller": "lmetric"')
    assert said[2] == "lmetric decides otherwise in 0 of 60 decisions (0.0 %)."


@pytest.mark.parametrize("controller", ["least-load", "lmetric", "pascal"])
def test_a_controller_acts_here_as_it_did_in_the_simulator(controller: str) -> None:
    """tests/sim/simulated_logs_test.cpp shows that the simulator writes these logs."""
    log = simulated / f"{controller}.log"
    if not log.exists():
        pytest.skip(f"the simulator's logs are in the repository: there is no {log}")
    c = compare(log)
    assert (c.asked, c.different) == (controller, 0) and c.decisions >= 16
    first, *lines = log.read_text().splitlines()
    settings = json.loads(first.removeprefix(mark))
    runtime = fleet.Runtime(settings.pop("controller"), **settings)
    acted: list[str] = []
    for line in lines:
        if line.startswith(">"):
            assert acted.pop(0) == line
        else:
            assert not acted
            event = fleet.parse(line)
            assert isinstance(event, Event)
            acted = [str(a) for a in runtime.handle(event)]
    assert not acted and ("> move" in log.read_text()) == (controller == "pascal")
