# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tool `replay` prints, from Python, and whether engines and routers take what it says."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

import tessera.fleet.planner
from tessera import fleet, sim
from tessera.sim.__main__ import main
from tessera.vllm import Options

#: More than two instances carry, and it reasons, so that policies differ.
load = sim.generate("reasoning-chat", 300, rate=20.0)
#: The policies that run in front of engines: those of the column "Runs in" of docs/policies.md.
deployable = [
    "fcfs", "sarathi", "rr", "pascal", "pascal-paced", "pars", "due-first", "vtc", "llumnix", "distserve", "splitwise",
    "phasor",
]  # fmt: skip


def replays(names: list[str], **options: Any) -> list[sim.Run]:
    known = sim.scored(load, lambda row: row["output_tokens"])
    return [sim.replay(name, known, kv_blocks=600, **options) for name in names]


def test_a_report_has_a_table_and_what_follows_of_it() -> None:
    runs = replays(["fcfs", "pascal", "sjf"], instances=2, slo="ttft_p99=5,tpot_p99=0.1")
    assert runs[0].summary["slo"]["attainment"] < 1
    text = sim.report(runs)
    assert text.splitlines()[1].startswith("policy  placement")
    assert [line.split()[0] for line in text.splitlines()[2:5]] == ["fcfs", "pascal", "sjf"]
    for part in ("fcfs: does not meet the SLO; ttft_p99", "To deploy: ", "  In front of them: ", "has the lowest"):
        assert part in text
    assert text.endswith("The profile h100-96gb-qwen-32b: a plain roofline, not measured: the setting of a paper.\n")
    with pytest.raises(ValueError, match="at least one run"):
        sim.report([])
    again = pickle.loads(pickle.dumps(runs[0]))
    assert again.summary == runs[0].summary
    with pytest.raises(ValueError, match="one that was pickled"):
        sim.report([again])


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The options of examples/ray, without Ray."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # It adds its folder, also for its processes.
    folder = Path(__file__).parents[2] / "examples" / "ray"
    absent = ["ray", "ray.serve", "ray.serve.config", "ray.serve.handle", "openai_api", "replica"]
    with mock.patch.dict(os.environ), mock.patch.dict(sys.modules, {name: mock.MagicMock() for name in absent}):
        spec = importlib.util.spec_from_file_location("tessera_ray_app", folder / "app.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def options_of(config: str) -> Options:
    """What tessera.vllm makes of a command's JSON."""
    given = json.loads(config.replace(": ID", ": 7"))
    given["tessera"].pop("model", None)  # A file of the user's.
    return Options.of(given)


@pytest.mark.parametrize("instances", [1, 4])
@pytest.mark.parametrize("policy", deployable)
def test_what_is_to_be_run_is_known(policy: str, instances: int, app: ModuleType) -> None:
    """The commands of every policy that is deployed: vLLM, the router and examples/ray take what they say."""
    if instances == 1 and policy in ("distserve", "splitwise", "phasor"):
        pytest.skip("it has pools")
    names = [policy, "slack-refusing"]
    text = sim.report(replays(names, instances=instances, slo="ttft_p99=5,tpot_p99=0.1"))
    assert any(
        f"To deploy: {policy}{rest} It has the " in text
        for rest in (".", ", though no policy here meets the objectives.")
    )
    [serve] = re.findall(r"instance: (vllm serve MODEL .*)", text)
    words = shlex.split(serve)
    assert words[3:5] == ["--scheduler-cls", "tessera.vllm.Scheduler"] and words[5] == "--additional-config"
    options = options_of(words[6])
    assert (options.end_of_reasoning == 7) == (policy in ("pascal", "pascal-paced", "due-first"))
    routers = re.findall(r"In front of them: (.*)", text)
    assert len(routers) == (instances > 1)
    if not routers:
        return
    router = eval(routers[0], {"tessera": tessera})
    assert isinstance(router, fleet.Router)
    assert router.controller == (policy if policy in fleet.controllers else "least-load")
    for added in re.findall(r"Its add\(\) is told (.*), and (.*)\.", text):
        common = eval(f"dict({added[0]})")
        roles = [(eval(f"dict({role})"), int(n)) for role, n in re.findall(r"(\S+=\S+) of (\d+)", added[1])]
        assert sum(n for _, n in roles) == instances
        for number, (role, _) in enumerate(roles):
            router.add(f"engine-{number}", mock.MagicMock(), capacity=100, now=0.0, **common, **role)
    on_ray = re.findall(r"on Ray Serve: python examples/ray/app.py (.*)", text)
    # Its front end passes on no tenants, and has no pool that does both.
    assert len(on_ray) == (policy not in ("vtc", "phasor", "splitwise"))
    for command in on_ray:
        o = app.options(shlex.split(command.replace(" ID", " 7").replace(": ID", ": 7")))
        assert o.replicas == instances and o.controller == router.controller
        engine = json.loads(o.engine_options.replace('"FILE"', "null"))
        config = engine.get("additional_config", {"tessera": {"policy": o.scheduler}})
        assert Options.of(config).policy == options.policy
        assert o.moves == (policy not in ("fcfs", "sarathi", "rr", "pars"))


@pytest.mark.parametrize("policy", [p.name for p in sim.policies() if p.name not in deployable])
def test_what_runs_nowhere_else_is_not_deployed(policy: str) -> None:
    text = sim.report(replays([policy, "fcfs"], instances=3))
    assert f"To deploy: {policy}" not in text
    better = re.findall(r"Better in that: (\S+) \(.*\), (.*)\.", text)
    assert better in ([], [(policy, "an oracle" if policy in ("sjf", "kvflow") else "which runs in C++ only")])


def test_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.csv"
    rows = "".join(f"{0.1 * i},{10 + i},{20 + i % 7},x\n" for i in range(60))
    file.write_text(f"arrival_s,prompt_tokens,output_tokens,user\n{rows}")
    words = ["replay", "--trace", str(file), "--policy", "fcfs,pars,pascal", "--instances", "2", "--slo", "ttft_p99=1"]
    done = subprocess.run([sys.executable, "-m", "tessera.sim", *words], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    with pytest.warns(UserWarning, match="not used: 'user'") as warned:
        trace = sim.read_trace(file)
    assert warned[0].filename == __file__
    report = sim.report(sim.replay(name, trace, instances=2, slo="ttft_p99=1") for name in ("fcfs", "pascal"))
    assert done.stdout.startswith(report)
    left_out, unused = done.stdout.removeprefix(report).splitlines()
    assert left_out.startswith("Left out: the policy pars needs a score for every request")
    assert "not used: 'user'" in unused
    assert main(["replay", "--list"]) == 0
    assert "due-first  " in capsys.readouterr().out
    assert main(["replay", "--workload", "azure-conv", "--requests", "50", "--rate", "5", "--policy", "fcfs"]) == 0
    assert capsys.readouterr().out.count("\n") > 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trace", "no/such.csv"], "no/such.csv"),
        (["--trace", "broken.csv"], "broken.csv:2:"),
        (["--trace", "broken.csv", "--rate", "0"], "rate is a number above 0"),
        (["--workload", "mine"], "unknown workload"),
        (["--workload", "azure-conv", "--policy", "best"], "unknown policy 'best'"),
        (["--workload", "azure-conv", "--policy", "fcfs,fcfs"], "named twice"),
        (["--workload", "azure-conv", "--policy", "pars"], "needs a score"),
        (["--workload", "azure-conv", "--requests", "-10"], "number of requests must be from 1"),
        (["--workload", "azure-conv", "--instances", "0"], "instances must be from 1"),
        (["--workload", "azure-conv", "--slo", "ttfft=1"], "ttfft"),
        (["--workload", "azure-conv", "--profile", "b200"], "b200"),
    ],
)
def test_what_the_program_refuses(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,x,5\n")
    assert main(["replay", *words]) == 2
    out, err = capsys.readouterr()
    assert message in err and err.count("\n") == 1 and not out


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--trace", "a", "--workload", "b"],
        ["--workload", "a", "--rate-scale", "2"],
        ["--workload", "a", "--jobs", "0"],
        ["--workload", "a", "--rate", "x"],
    ],
)
def test_options_that_do_not_fit(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["replay", *words])
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err
