# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The measurement of effect.py, small: the tokens stay, the order is another one, and the sums of it are right."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import effect
import pytest

pytestmark = pytest.mark.skipif(
    not os.environ.get("TESSERA_VLLM_ENGINE"), reason="the real engine takes minutes: set TESSERA_VLLM_ENGINE"
)

script = Path(effect.__file__)


def test_shortest_first_ends_sooner_in_the_mean(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    rows = ["fcfs", "pars, a model", "pars, true lengths", "pascal"]
    call = [sys.executable, str(script), "reasoner", "--requests", "60", "--rate", "1", "--seeds", "3"]
    # It asserts that the tokens are the same.
    done = subprocess.run([*call, "--rows", *rows, "--json", str(kept)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    result = json.loads(kept.read_text())
    served = {name: by_seed["3"] for name, by_seed in result["rows"].items()}
    assert set(served) == {"vLLM's own", *rows}
    own = served["vLLM's own"]
    mean = {name: statistics.mean(r["latency"]) for name, r in served.items()}
    # In steps, so nothing of it depends on the machine.
    assert mean["fcfs"] == pytest.approx(mean["vLLM's own"], rel=0.03)
    assert mean["pars, true lengths"] < 0.9 * mean["vLLM's own"]
    assert mean["pars, a model"] < 0.9 * mean["vLLM's own"]
    assert result["tau_b"]["3"] > 0.8
    assert all(r["output_tokens"] == own["output_tokens"] for r in served.values())
    for r in served.values():
        assert len(r["latency"]) == 60 and r["preempted"] > 0
        # An answer has 14 to 16 tokens, the first of them included, and each takes a step.
        assert all(a + 11 <= b <= r["steps"] for a, b in zip(r["answer_ttft"], r["latency"], strict=True))
        assert all(b >= n for b, n in zip(r["latency"], r["output_tokens"], strict=True))
    assert "| pars, a model |" in done.stdout


def test_what_is_said_of_samples() -> None:
    assert effect.p99(list(range(1, 161))) == 159 and effect.p99([5]) == 5
    # 2.776 * sqrt(2.5 / 5)
    assert effect.interval([1, 2, 3, 4, 5], 2) == "3.00 ± 1.96"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "wanted a load"),
        (["prompts"], "--prompts"),
        (["prompts", "--prompts", "{here}/few.jsonl"], "at least 660 prompts"),
        (["prompts", "--prompts", "{here}/other.jsonl"], "output_tokens"),
        (["reasoner", "--seeds", "1", "1"], "seeds that differ"),
        (["reasoner", "--rows", "sjf"], "unknown rows"),
    ],
)
def test_what_nobody_can_mean(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "few.jsonl").write_text('{"prompt": "a", "output_tokens": 3}\n')
    (tmp_path / "other.jsonl").write_text('{"prompt": "a"}\n')
    monkeypatch.setattr(sys, "argv", ["effect.py", *(a.format(here=tmp_path) for a in arguments)])
    with pytest.raises(SystemExit) as stopped:
        effect.main()
    assert stopped.value.code == 2 and said in capsys.readouterr().err
